// go-sql-driver: does what is asked, and prints a line for each.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5:]); err != nil {
		var said *mysql.MySQLError
		if errors.As(err, &said) {
			fmt.Println("error", said.Number, said.Message)
		} else {
			fmt.Println("error", err)
		}
		os.Exit(1)
	}
}

func run(port, user, password, ca string, actions []string) error {
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", net.JoinHostPort("localhost", port)
	config.User, config.Passwd = user, password
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		config.TLS = &tls.Config{RootCAs: roots, ServerName: "localhost"}
	}
	if len(actions) > 0 && actions[0] == "compressed" {
		actions = actions[1:]
		if err := config.Apply(mysql.EnableCompression(true)); err != nil {
			return err
		}
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(1)
	defer pool.Close()
	for _, action := range actions {
		said, err := act(pool, action)
		if err != nil {
			return err
		}
		fmt.Println(said)
	}
	return pool.Ping()
}

func act(pool *sql.DB, action string) (string, error) {
	word, argument, _ := strings.Cut(action, "=")
	var text string
	var number int
	switch word {
	case "who":
		err := pool.QueryRow("SELECT CURRENT_USER()").Scan(&text)
		return "who " + text, err
	case "prepared":
		err := pool.QueryRow("SELECT ? + 1", 41).Scan(&number)
		return fmt.Sprint("prepared ", number), err
	case "large":
		err := pool.QueryRow("SELECT REPEAT('x', 3000000)").Scan(&text)
		return fmt.Sprint("large ", len(text)), err
	case "load":
		mysql.RegisterLocalFile(argument)
		for _, statement := range []string{
			"CREATE TEMPORARY TABLE test.rows (a INT)",
			"LOAD DATA LOCAL INFILE '" + argument + "' INTO TABLE test.rows",
		} {
			if _, err := pool.Exec(statement); err != nil {
				return "", err
			}
		}
		err := pool.QueryRow("SELECT SUM(a) FROM test.rows").Scan(&number)
		return fmt.Sprint("load ", number), err
	}
	return "", fmt.Errorf("unknown: %s", action)
}
