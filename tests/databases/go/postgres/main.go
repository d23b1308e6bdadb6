// pgx: does what is asked, and prints a line for each.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const who = "SELECT usename || ' ' || ssl FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) " +
	"WHERE pid = pg_backend_pid()"

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5:]); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

func run(port, user, password, ca string, actions []string) error {
	words := url.Values{"sslmode": {"disable"}}
	if ca != "" {
		words = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {ca}}
	}
	if len(actions) > 0 && actions[0] == "sslnegotiation=direct" {
		words.Set("sslnegotiation", "direct")
		actions = actions[1:]
	}
	address := url.URL{
		Scheme: "postgres", User: url.UserPassword(user, password),
		Host: "localhost:" + port, Path: "postgres", RawQuery: words.Encode(),
	}
	every := context.Background()
	connection, err := pgx.Connect(every, address.String())
	if err != nil {
		return err
	}
	defer connection.Close(every)
	for _, action := range actions {
		said, err := act(every, connection, action)
		if err != nil {
			return err
		}
		fmt.Println(said)
	}
	return nil
}

func act(every context.Context, connection *pgx.Conn, action string) (string, error) {
	var text string
	var number int
	switch action {
	case "who":
		err := connection.QueryRow(every, who).Scan(&text)
		return "who " + text, err
	case "prepared":
		err := connection.QueryRow(every, "SELECT $1::int + 1", 41).Scan(&number)
		return fmt.Sprint("prepared ", number), err
	case "large":
		err := connection.QueryRow(every, "SELECT repeat('x', 3000000)").Scan(&text)
		return fmt.Sprint("large ", len(text)), err
	case "cancel":
		over := make(chan struct{})
		defer close(over)
		go func() {
			// A request that comes before the statement does nothing.
			for {
				select {
				case <-over:
					return
				case <-time.After(200 * time.Millisecond):
					connection.PgConn().CancelRequest(every)
				}
			}
		}()
		_, err := connection.Exec(every, "SELECT pg_sleep(600)")
		var said *pgconn.PgError
		if errors.As(err, &said) && said.Code == "57014" {
			return "cancel canceled", nil
		}
		return "", err
	}
	return "", fmt.Errorf("unknown: %s", action)
}
