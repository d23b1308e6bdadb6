// A MySQL server that knows users of caching_sha2_password and sha256_password, for the tests of
// logins: it answers queries for variables by words that drivers accept, and knows no tables.
package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/server"
)

// users remembers no password: go-mysql asks for a full login only of such a provider, and keeps
// what was verified in its cache.
type users struct{ *server.InMemoryProvider }

func main() {
	plugin, address, isTLS := os.Args[1], os.Args[2], os.Args[3] == "tls"
	certificate, public := key()
	config := &tls.Config{Certificates: []tls.Certificate{certificate}}
	if isTLS {
		pair, err := tls.LoadX509KeyPair(os.Args[4], os.Args[4])
		check(err)
		config.Certificates = []tls.Certificate{pair}
	}
	provider := users{server.NewInMemoryProvider()}
	provider.AddUser("ann", "secret")
	provider.AddUser("bob", "secret")
	listener, err := net.Listen("tcp", address)
	check(err)
	var answers = server.NewServer("8.4.0", mysql.DEFAULT_COLLATION_ID, plugin, public, config)
	for {
		connection, err := listener.Accept()
		check(err)
		go serve(connection, answers, provider)
	}
}

func serve(connection net.Conn, answers *server.Server, provider users) {
	defer connection.Close()
	handler := &handler{}
	served, err := server.NewCustomizedConn(connection, answers, provider, handler)
	if err != nil {
		fmt.Println("login failed:", err)
		return
	}
	handler.user = served.GetUser()
	fmt.Println("login:", handler.user)
	for served.HandleCommand() == nil {
	}
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// key makes the key by which passwords are encrypted; go-mysql takes it from the certificate.
func key() (tls.Certificate, []byte) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "localhost"},
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	check(err)
	block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, block
}

type handler struct {
	server.EmptyHandler
	user string
}

var (
	alias  = regexp.MustCompile(`(?i)@@([a-z0-9_.]+)(?:\s+AS\s+([a-z0-9_]+))?`)
	isText = map[string]string{
		"character_set_client": "utf8mb4", "character_set_connection": "utf8mb4",
		"character_set_results": "utf8mb4", "character_set_server": "utf8mb4",
		"collation_connection": "utf8mb4_general_ci", "collation_server": "utf8mb4_general_ci",
		"sql_mode": "", "init_connect": "", "license": "GPL", "system_time_zone": "UTC",
		"time_zone": "SYSTEM", "transaction_isolation": "REPEATABLE-READ",
	}
)

func (h *handler) HandleQuery(query string) (*mysql.Result, error) {
	if strings.Contains(query, "CURRENT_USER()") {
		return rows([]string{"user"}, []any{h.user + "@%"})
	}
	var names []string
	var values []any
	for _, found := range alias.FindAllStringSubmatch(query, -1) {
		parts := strings.Split(found[1], ".")
		name := parts[len(parts)-1]
		shown := found[2]
		if shown == "" {
			shown = "@@" + found[1]
		}
		names = append(names, shown)
		if text, is := isText[name]; is {
			values = append(values, text)
		} else {
			values = append(values, int64(16777216))
		}
	}
	if len(names) > 0 && strings.HasPrefix(strings.ToUpper(strip(query)), "SELECT") {
		return rows(names, values)
	}
	return &mysql.Result{}, nil
}

// strip removes the comment that Connector/J begins with.
func strip(query string) string {
	if _, behind, is := strings.Cut(query, "*/"); is {
		query = behind
	}
	return strings.TrimSpace(query)
}

func rows(names []string, values []any) (*mysql.Result, error) {
	set, err := mysql.BuildSimpleTextResultset(names, [][]any{values})
	if err != nil {
		return nil, err
	}
	return mysql.NewResult(set), nil
}
