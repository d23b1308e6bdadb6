// Connects to a MySQL server, logs in, runs SELECT 1 and leaves, again and again on so many
// connections at once. Resumes TLS sessions.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address, connections, seconds, authorities string) error {
	workers, err := strconv.Atoi(connections)
	if err != nil {
		return err
	}
	duration, err := time.ParseDuration(seconds + "s")
	if err != nil {
		return err
	}
	var resumed atomic.Int64
	source := "bench:bench@tcp(" + address + ")/bench"
	if authorities != "" {
		pem, err := os.ReadFile(authorities)
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		mysql.RegisterTLSConfig("bench", &tls.Config{
			RootCAs:            roots,
			ServerName:         "localhost",
			ClientSessionCache: tls.NewLRUClientSessionCache(0),
			VerifyConnection: func(state tls.ConnectionState) error {
				if state.DidResume {
					resumed.Add(1)
				}
				return nil
			},
		})
		source += "?tls=bench"
	}
	pool, err := sql.Open("mysql", source)
	if err != nil {
		return err
	}
	defer pool.Close()
	// None is kept: each query has a connection of its own.
	pool.SetMaxIdleConns(-1)

	responses, faults := make([][]time.Duration, workers), make([]error, workers)
	var group sync.WaitGroup
	begin := time.Now()
	for worker := 0; worker < workers; worker++ {
		worker := worker
		group.Add(1)
		go func() {
			defer group.Done()
			for time.Since(begin) < duration && faults[worker] == nil {
				before, answer := time.Now(), 0
				faults[worker] = pool.QueryRow("SELECT 1").Scan(&answer)
				if faults[worker] == nil && answer != 1 {
					faults[worker] = fmt.Errorf("SELECT 1 gave %d", answer)
				}
				responses[worker] = append(responses[worker], time.Since(before))
			}
		}()
	}
	group.Wait()
	elapsed := time.Since(begin)
	var all []time.Duration
	for worker, fault := range faults {
		if fault != nil {
			return fault
		}
		all = append(all, responses[worker]...)
	}
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	fmt.Println("connections:", len(all))
	fmt.Println("resumed:", resumed.Load())
	fmt.Println("seconds:", elapsed.Seconds())
	fmt.Println("95th percentile, ms:", float64(all[len(all)*95/100].Microseconds())/1000)
	return nil
}
