// mysql2: does what is asked, and prints a line for each.
"use strict";
const fs = require("fs");
const mysql = require("mysql2/promise");

const [port, user, password, ca, ...actions] = process.argv.slice(2);
const value = async (connection, statement) => {
  const [rows] = await connection.query({ sql: statement, rowsAsArray: true });
  return rows[0][0];
};

async function main() {
  const options = { host: "localhost", port: Number(port), user, password, decimalNumbers: true };
  if (ca) options.ssl = { ca: fs.readFileSync(ca), verifyIdentity: true };
  if (actions[0] === "compressed") {
    options.compress = true;
    actions.shift();
  }
  const connection = await mysql.createConnection(options);
  for (const action of actions) {
    const [word, argument] = action.split("=");
    if (word === "who") {
      console.log("who", await value(connection, "SELECT CURRENT_USER()"));
    } else if (word === "change") {
      await connection.changeUser({ user: argument, password });
      console.log("who", await value(connection, "SELECT CURRENT_USER()"));
    } else if (word === "prepared") {
      const [rows] = await connection.execute("SELECT ? + 1 AS sum", [41]);
      console.log("prepared", Number(rows[0].sum));
    } else if (word === "large") {
      console.log("large", (await value(connection, "SELECT REPEAT('x', 3000000)")).length);
    } else if (word === "load") {
      await connection.query("CREATE TEMPORARY TABLE test.rows (a INT)");
      await connection.query({
        sql: `LOAD DATA LOCAL INFILE '${argument}' INTO TABLE test.rows`,
        infileStreamFactory: (path) => fs.createReadStream(path),
      });
      console.log("load", await value(connection, "SELECT SUM(a) FROM test.rows"));
    }
  }
  await connection.end();
}

main().catch((error) => {
  console.log("error", error.errno ?? "", error.message);
  process.exit(1);
});
