-- An event is a connection: it logs in, asks for one row, and leaves.
function event()
    local connection = sysbench.sql.driver():connect()
    connection:query("SELECT 1")
    connection:disconnect()
end
