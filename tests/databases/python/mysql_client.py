"""PyMySQL and mysql-connector-python: does what is asked, and prints a line for each."""

import sys

driver, port, user, password, ca = sys.argv[1:6]


def pymysql_connection(**more):
    import pymysql

    tls = {"ssl_ca": ca, "ssl_verify_cert": True, "ssl_verify_identity": True}
    return pymysql.connect(
        host="localhost", port=int(port), user=user, password=password, local_infile=True,
        **(tls if ca else {"ssl_disabled": True}), **more,
    )


def connector_connection(**more):
    import mysql.connector

    tls = {"ssl_ca": ca, "ssl_verify_cert": True, "ssl_verify_identity": True}
    return mysql.connector.connect(
        host="127.0.0.1", port=int(port), user=user, password=password, allow_local_infile=True,
        use_pure=driver == "connector-pure", **(tls if ca else {"ssl_disabled": True}), **more,
    )


def run(connect):
    more = {}
    actions = sys.argv[6:]
    if actions[:1] == ["compressed"]:
        more["compress"] = True
        actions = actions[1:]
    connection = connect(**more)
    for action in actions:
        word, _, argument = action.partition("=")
        if word == "prepared":
            cursor = connection.cursor(prepared=True)
            cursor.execute("SELECT ? + 1", (41,))
            print("prepared", int(cursor.fetchall()[0][0]))
            cursor.close()
            continue
        if word == "change":
            connection.cmd_change_user(argument, password)
            word = "who"
        cursor = connection.cursor()
        if word == "who":
            cursor.execute("SELECT CURRENT_USER()")
            print("who", cursor.fetchall()[0][0])
        elif word == "large":
            cursor.execute("SELECT REPEAT('x', 3000000)")
            print("large", len(cursor.fetchall()[0][0]))
        elif word == "load":
            cursor.execute("CREATE TEMPORARY TABLE test.rows (a INT)")
            cursor.execute(f"LOAD DATA LOCAL INFILE '{argument}' INTO TABLE test.rows")
            cursor.execute("SELECT SUM(a) FROM test.rows")
            print("load", cursor.fetchall()[0][0])
        cursor.close()
    connection.close()


try:
    run(pymysql_connection if driver == "pymysql" else connector_connection)
except Exception as error:
    code = next((one for one in error.args if isinstance(one, int)), "")
    print("error", code, error)
    sys.exit(1)
