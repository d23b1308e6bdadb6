// A back of Encrypted Client Hello (RFC 9849), and hellos that are sealed as a test says.
package main

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
)

func main() {
	arguments := os.Args[1:]
	if arguments[0] == "serve" {
		serve(arguments[1], arguments[2], arguments[3] == "retry")
		return
	}
	fmt.Printf("%x\n", hello(arguments[1], arguments[2], arguments[3]))
}

func check[T any](value T, fault error) T {
	if fault != nil {
		fmt.Fprintln(os.Stderr, fault)
		os.Exit(1)
	}
	return value
}

// Answers requests with what the handshake was.
func serve(address, certificate string, asksAgain bool) {
	config := &tls.Config{
		Certificates: []tls.Certificate{check(tls.LoadX509KeyPair(certificate, certificate))},
		MinVersion:   tls.VersionTLS13,
	}
	if asksAgain {
		config.CurvePreferences = []tls.CurveID{tls.CurveP384}
	}
	listener := check(tls.Listen("tcp", address, config))
	for {
		connection := check(listener.Accept())
		go answer(connection.(*tls.Conn))
	}
}

func answer(connection *tls.Conn) {
	defer connection.Close()
	request := make([]byte, 4096)
	count, fault := 0, error(nil)
	for fault == nil && !bytes.Contains(request[:count], []byte("\r\n\r\n")) {
		var more int
		more, fault = connection.Read(request[count:])
		count += more
	}
	if fault != nil {
		return
	}
	state := connection.ConnectionState()
	body := fmt.Sprintf("%s encrypted=%t retried=%t resumed=%t", state.ServerName,
		state.ECHAccepted, state.HelloRetryRequest, state.DidResume)
	fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

type part = []byte

func join(parts ...part) part { return bytes.Join(parts, nil) }

func word(number int) part { return binary.BigEndian.AppendUint16(nil, uint16(number)) }

func vector(content part) part { return join(word(len(content)), content) }

func extension(kind int, content part) part { return join(word(kind), vector(content)) }

func serverName(name string) part {
	return extension(0, vector(join(part{0}, vector(part(name)))))
}

func versions(all ...int) part {
	list := part{byte(2 * len(all))}
	for _, one := range all {
		list = append(list, word(one)...)
	}
	return extension(43, list)
}

// References to extensions outside.
func outside(kinds ...int) part {
	list := part{byte(2 * len(kinds))}
	for _, kind := range kinds {
		list = append(list, word(kind)...)
	}
	return extension(0xfd00, list)
}

func body(sessionID part, extensions part) part {
	random := bytes.Repeat(part{7}, 32)
	return join(part{3, 3}, random, part{byte(len(sessionID))}, sessionID,
		part{0, 2, 0x13, 1, 1, 0}, vector(extensions))
}

const (
	encryptedClientHello = 0xfe0d
	keyShare             = 51
)

func inner(kind, name string) part {
	mark := extension(encryptedClientHello, part{1})
	good := join(serverName(name), outside(10, 13, keyShare), versions(0x304), mark)
	switch kind {
	case "tls12":
		good = join(serverName(name), versions(0x304, 0x303), mark)
	case "unmarked":
		good = join(serverName(name), versions(0x304))
	case "outer-mark":
		good = join(serverName(name), versions(0x304), extension(encryptedClientHello, part{0}))
	case "refers-to-itself":
		good = join(serverName(name), outside(encryptedClientHello), versions(0x304), mark)
	case "refers-to-references":
		good = join(serverName(name), outside(0xfd00), versions(0x304), mark)
	case "refers-twice":
		good = join(serverName(name), outside(10), outside(13), versions(0x304), mark)
	case "swollen":
		shares := make([]int, 127)
		for place := range shares {
			shares[place] = keyShare
		}
		good = join(serverName(name), outside(shares...), versions(0x304), mark)
	case "disordered":
		good = join(serverName(name), outside(keyShare, 10), versions(0x304), mark)
	case "absent":
		good = join(serverName(name), outside(16), versions(0x304), mark)
	case "session-id":
		return body(part{1, 2}, good)
	case "padded-with-ones":
		return join(body(nil, good), part{0, 0, 1})
	case "cut":
		whole := body(nil, good)
		return whole[:len(whole)-3]
	}
	return join(body(nil, good), make(part, 64))
}

// A hello in a record whose inner one is of this kind, by the first configuration of a list.
func hello(list, name, kind string) part {
	config := check(base64.StdEncoding.DecodeString(list))[2:]
	config = config[:4+int(binary.BigEndian.Uint16(config[2:]))]
	id, key := config[4], config[9:9+32]
	public := check(hpke.DHKEM(ecdh.X25519()).NewPublicKey(key))
	info := join(part("tls ech\x00"), config)
	encapsulated, sender, fault := hpke.NewSender(public, hpke.HKDFSHA256(), hpke.AES128GCM(), info)
	check(0, fault)
	encoded := inner(kind, name)
	length := len(encoded) + 16
	outer := func(payload part) part {
		ech := join(part{0, 0, 1, 0, 1, id}, vector(encapsulated), vector(payload))
		share := join(word(29), vector(bytes.Repeat(part{9}, 32)))
		return body(bytes.Repeat(part{5}, 32), join(serverName("front.example"),
			extension(10, vector(word(29))), extension(13, vector(word(0x0807))),
			extension(keyShare, vector(share)), versions(0x304),
			extension(encryptedClientHello, ech)))
	}
	data := outer(make(part, length))
	if kind == "other-data" {
		data[2] ^= 1
	}
	sealed := outer(check(sender.Seal(data, encoded)))
	message := join(part{1, 0}, vector(sealed))
	return join(part{22, 3, 1}, vector(message))
}
