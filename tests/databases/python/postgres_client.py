"""psycopg, asyncpg and pg8000: does what is asked, and prints a line for each."""

import asyncio
import ssl
import sys

driver, port, user, password, ca = sys.argv[1:6]
WHO = (
    "SELECT usename || ' ' || ssl FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) "
    "WHERE pid = pg_backend_pid()"
)


def run_psycopg(actions):
    import psycopg

    words = {"sslmode": "verify-full", "sslrootcert": ca} if ca else {"sslmode": "disable"}
    while actions and "=" in actions[0]:
        word, _, value = actions.pop(0).partition("=")
        words[word] = value
    with psycopg.connect(
        host="localhost", hostaddr="127.0.0.1", port=port, user=user, password=password,
        dbname="postgres", autocommit=True, **words,
    ) as connection:
        for action in actions:
            if action == "who":
                print("who", connection.execute(WHO).fetchone()[0])
            elif action == "prepared":
                row = connection.execute("SELECT %s + 1", (41,), prepare=True).fetchone()
                print("prepared", row[0])
            elif action == "large":
                print("large", len(connection.execute("SELECT repeat('x', 3000000)").fetchone()[0]))
            elif action == "copy":
                connection.execute("CREATE TEMPORARY TABLE rows (a int)")
                with connection.cursor().copy("COPY rows FROM STDIN") as copy:
                    for row in (1, 2, 3):
                        copy.write_row((row,))
                print("copy", connection.execute("SELECT sum(a) FROM rows").fetchone()[0])
            elif action in ("cancel", "old-cancel"):
                cancel(connection, action)


def cancel(connection, action):
    """By libpq's request of version 17, which is encrypted as the connection is, or the old one."""
    import threading

    import psycopg

    ask = connection.cancel_safe if action == "cancel" else connection.pgconn.get_cancel().cancel
    over = threading.Event()

    def repeat():
        # A request that comes before the statement does nothing.
        while not over.wait(0.2):
            ask()

    asking = threading.Thread(target=repeat)
    asking.start()
    try:
        connection.execute("SELECT pg_sleep(600)")
    except psycopg.errors.QueryCanceled:
        print(action, "canceled")
    finally:
        over.set()
        asking.join()


async def run_asyncpg(actions):
    import asyncpg

    context = ssl.create_default_context(cafile=ca) if ca else False
    more = {}
    if actions[:1] == ["direct"]:
        actions.pop(0)
        more["direct_tls"] = True
        context.set_alpn_protocols(["postgresql"])
    connection = await asyncpg.connect(
        host="localhost", port=int(port), user=user, password=password, database="postgres",
        ssl=context, **more,
    )
    for action in actions:
        if action == "who":
            print("who", await connection.fetchval(WHO))
        elif action == "prepared":
            print("prepared", await connection.fetchval("SELECT $1::int + 1", 41))
        elif action == "large":
            print("large", len(await connection.fetchval("SELECT repeat('x', 3000000)")))
        elif action == "cancel":
            try:
                await connection.execute("SELECT pg_sleep(600)", timeout=1)
            except asyncio.TimeoutError:
                print("cancel", "canceled" if await connection.fetchval("SELECT 1") == 1 else "")
    await connection.close()


def run_pg8000(actions):
    import pg8000.native

    context = ssl.create_default_context(cafile=ca) if ca else False
    connection = pg8000.native.Connection(
        user, host="localhost", port=int(port), password=password, database="postgres",
        ssl_context=context,
    )
    for action in actions:
        if action == "who":
            print("who", connection.run(WHO)[0][0])
        elif action == "prepared":
            print("prepared", connection.prepare("SELECT :a + 1").run(a=41)[0][0])
        elif action == "large":
            print("large", len(connection.run("SELECT repeat('x', 3000000)")[0][0]))
    connection.close()


try:
    if driver == "psycopg":
        run_psycopg(sys.argv[6:])
    elif driver == "pg8000":
        run_pg8000(sys.argv[6:])
    else:
        asyncio.run(run_asyncpg(sys.argv[6:]))
except Exception as error:
    print("error", type(error).__name__, error)
    sys.exit(1)
