//! MariaDB and its client, with TLS on either side of Lariat, on both, and by a pair.

use rustix::net::sockopt::set_socket_linger;

use suite::mariadb::{Mariadb, mariadb, mariadb_tls, refused, values};
use suite::prelude::*;
use suite::starttls::{lariat, service};

const WHO: &str = "SELECT CURRENT_USER(); SHOW STATUS LIKE 'Ssl_cipher'";

#[test]
fn a_server_without_tls_gets_clients_with_it() {
    let (site, server) = (Site::new(), Mariadb::start(&[]));
    let ca = site.ca();
    let tcp = server.address.to_string();
    let unix = format!("unix:{}", server.socket.display());
    let over_tcp = service(&site, "tcp", &tcp).starting_tls("mysql", "required");
    let over_unix = service(&site, "unix", &unix).starting_tls("mysql", "required");
    let optional = service(&site, "optional", &tcp).starting_tls("mysql", "optional");
    let pair = service(&site, "pair", over_unix.address).asking("mysql", &ca).mode("off");
    let lariat = lariat([&over_tcp, &over_unix, &optional, &pair]);
    let client = |address: SocketAddr, is_tls: bool, user: &str, statements: &str| {
        if is_tls {
            mariadb_tls(&site, address, user, statements)
        } else {
            mariadb(address, user, statements)
        }
    };
    for (service, is_tls) in [
        (&over_tcp, true),
        (&over_unix, true),
        (&optional, true),
        (&optional, false),
        (&pair, false),
    ] {
        for user in ["native", "signed"] {
            let said = values(&mut client(service.address, is_tls, user, WHO));
            assert_eq!(said, format!("{user}@%\nSsl_cipher"), "{service:?}");
        }
        let mut wrong = client(service.address, is_tls, "native", "SELECT 1");
        refused(wrong.arg("--password=wrong")).assert_stderr("ERROR 1045 (28000)");
    }
    let by_openssl = ["-starttls", "mysql", "-brief", "-verify_return_error"];
    let done = s_client(&site, over_tcp.address, &by_openssl);
    assert_has(&done.stderr, "Verification: OK");
    // Packets after the login pass unchanged.
    let file = site.write("rows.txt", "1\n2\n3\n");
    let load = format!(
        "CREATE TABLE test.rows (a INT); \
         LOAD DATA LOCAL INFILE '{}' INTO TABLE test.rows; \
         SELECT SUM(a) FROM test.rows; SELECT LENGTH(REPEAT('x', 3000000))",
        file.display()
    );
    let mut compressed = mariadb_tls(&site, over_tcp.address, "native", &load);
    compressed.args(["--compress", "--local-infile=1"]);
    assert_eq!(values(&mut compressed), "6\n3000000");
    let mut plain = mariadb(over_tcp.address, "native", "SELECT 1");
    refused(&mut plain).assert_stderr("ERROR 3159 (HY000)");
    let line = lariat.wait_for_line(&["starttls-required"]);
    assert_eq!(line["fault"], "client", "{line}");
}

/// Users from whom the server requires TLS, and a certificate.
const REQUIRING: &str = "\
    CREATE USER tls IDENTIFIED VIA mysql_native_password USING PASSWORD('secret') REQUIRE SSL; \
    CREATE USER x509 IDENTIFIED VIA mysql_native_password USING PASSWORD('secret') REQUIRE X509";

#[test]
fn what_cannot_work_fails_by_the_error_of_the_server() {
    let site = Site::new();
    let (without, with) = (Mariadb::start(&[]), Mariadb::requiring_tls(&site));
    let front = service(&site, "front", without.address).starting_tls("mysql", "required");
    let both = service(&site, "both", with.address);
    let both = both.starting_tls("mysql", "required").asking("mysql", &site.ca());
    let _lariat = lariat([&front, &both]);
    for (service, user, is_served) in [
        (&front, "tls", false),
        (&front, "x509", false),
        (&both, "tls", true),
        (&both, "x509", false),
    ] {
        if user == "tls" {
            values(&mut mariadb_tls(&site, service.address, "native", REQUIRING));
        }
        let mut client = mariadb_tls(&site, service.address, user, "SELECT CURRENT_USER()");
        if is_served {
            assert_eq!(values(&mut client), format!("{user}@%"));
        } else {
            refused(&mut client).assert_stderr("ERROR 1045 (28000): Access denied for user");
        }
    }
}

#[test]
fn a_server_with_too_many_connections_says_so_to_the_client_and_the_log() {
    let site = Site::new();
    let server = Mariadb::start(&["--max-connections=10"]);
    let front = service(&site, "front", server.address).starting_tls("mysql", "required");
    let lariat = lariat([&front]);
    let mut held = Vec::new();
    until_true("the server to be full", || {
        let (client, packet) = answered(server.address);
        held.push(client);
        packet[0] == 0xff
    });
    let mut client = mariadb_tls(&site, front.address, "native", "SELECT 1");
    refused(&mut client).assert_stderr("1040 - Too many connections");
    let line = lariat.wait_for_line(&["error 1040: ", "Too many connections"]);
    let ending = (&line["reason"], &line["fault"]);
    assert_eq!(ending, (&"server-starttls-failed".into(), &"backend".into()));
}

#[test]
fn a_server_that_requires_tls_gets_clients_without_it() {
    let site = Site::new();
    let (server, ca) = (Mariadb::requiring_tls(&site), site.ca());
    let address = server.address.to_string();
    let plain = service(&site, "plain", &address).asking("mysql", &ca).mode("off");
    let both =
        service(&site, "both", &address).starting_tls("mysql", "optional").asking("mysql", &ca);
    let other = Authority::root("another root");
    other.write(&site.directory, "other.pem");
    let other = site.path("other.pem");
    let stranger = service(&site, "stranger", &address).asking("mysql", &other).mode("off");
    let lariat = lariat([&plain, &both, &stranger]);
    for user in ["native", "signed"] {
        for mut client in [
            mariadb(plain.address, user, WHO),
            mariadb(both.address, user, WHO),
            mariadb_tls(&site, both.address, user, WHO),
        ] {
            let said = values(&mut client);
            let expected = format!("{user}@%\nSsl_cipher\tTLS_");
            assert!(said.starts_with(&expected), "{said}");
        }
    }
    let mut client = mariadb(stranger.address, "native", "SELECT 1");
    refused(&mut client).assert_stderr("1429");
    let line = lariat.wait_for_line(&["\"service\":\"stranger\""]);
    assert_eq!(line["fault"], "backend", "{line}");
}

/// Makes a server whose only packet is this.
fn greeting(payload: &[u8]) -> Behaviour {
    let length = u8::try_from(payload.len()).expect("it is short");
    Behaviour::Greet([&[length, 0, 0, 0], payload].concat())
}

#[test]
fn servers_that_refuse_are_heard_in_words_of_mysql() {
    let site = Site::new();
    let closed = free_address().to_string();
    let cases = [
        (greeting(b"\xff\x69\x04Host 'lasso' is blocked"), "1129 - Host 'lasso' is blocked"),
        (greeting(b"\x095.0\0"), "1043 - Bad handshake"),
        (Behaviour::Greet(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()), "1835 - Malformed"),
        (Behaviour::Hang, "1429"),
    ];
    let mut servers: Vec<_> = cases
        .into_iter()
        .map(|(one, words)| {
            let server = Server::start(one);
            (server.address().to_owned(), words, Some(server))
        })
        .collect();
    servers.push((closed, "1429", None));
    let services: Vec<_> = servers
        .iter()
        .map(|(address, words, _)| {
            let service = service(&site, "web", address).starting_tls("mysql", "required");
            (service.more("timeouts = { handshake = '1s' }"), words)
        })
        .collect();
    for (service, words) in services {
        let lariat = lariat([&service]);
        let mut client = mariadb_tls(&site, service.address, "native", "SELECT 1");
        refused(&mut client).assert_stderr(words);
        let line = lariat.wait_for_line(&["\"service\":\"web\""]);
        assert_eq!(line["fault"], "backend", "{line}");
    }
}

/// Connects a client that reads the first packet of MariaDB, or of Lariat for it.
fn answered(address: SocketAddr) -> (TcpStream, Vec<u8>) {
    let mut client = tcp(address);
    let mut header = [0; 4];
    client.read_exact(&mut header).unwrap();
    let mut packet = vec![0; usize::from(header[0])];
    client.read_exact(&mut packet).unwrap();
    (client, packet)
}

/// Connects likewise; the packet has to be a greeting.
fn greeted(address: SocketAddr) -> TcpStream {
    let (client, packet) = answered(address);
    assert_eq!(packet[0], 10, "{packet:?}");
    client
}

#[test]
fn clients_that_say_nothing_after_the_greeting_have_as_long_as_a_handshake() {
    let (site, server) = (Site::new(), Mariadb::start(&[]));
    let address = server.address.to_string();
    let front = service(&site, "front", &address).starting_tls("mysql", "required");
    let optional = service(&site, "optional", &address).starting_tls("mysql", "optional");
    let timeouts = "timeouts = { handshake = '2s' }";
    let (front, optional) = (front.more(timeouts), optional.more(timeouts));
    let lariat = lariat([&front, &optional]);
    for service in [&front, &optional] {
        let mut client = greeted(service.address);
        let mut words = Vec::new();
        client.read_to_end(&mut words).unwrap();
    }
    lariat.wait_for_reason("handshake-timeout", 2);
    // A client that has logged in may be silent for longer.
    let slept = "SELECT SLEEP(3)";
    let mut client = mariadb_tls(&site, front.address, "native", slept);
    assert_eq!(values(&mut client), "0");
}

#[test]
fn resets_amid_the_login_are_named_by_side() {
    let (site, server) = (Site::new(), Mariadb::start(&[]));
    let resetting = Server::start(Behaviour::Reset);
    let front = service(&site, "front", server.address).starting_tls("mysql", "required");
    let client = service(&site, "client", front.address).asking("mysql", &site.ca()).mode("off");
    let broken = service(&site, "broken", resetting.address()).starting_tls("postgres", "required");
    let lariat = lariat([&front, &client, &broken]);
    for service in [&front, &client] {
        let mut one = greeted(service.address);
        // Half of a packet.
        one.write_all(&[32, 0, 0, 1, 5]).unwrap();
        set_socket_linger(&one, Some(Duration::ZERO)).unwrap();
        drop(one);
        let name = format!("\"service\":\"{}\"", service.name());
        let line = lariat.wait_for_line(&[&name]);
        assert_eq!(line["fault"], "client", "{line}");
    }
    let arguments = ["-starttls", "postgres", "-quiet"];
    let mut talk = Talk::start(&site, broken.address, &arguments);
    talk.say("\0\0\0\x08\0\x03\0\0");
    let line = lariat.wait_for_line(&["\"service\":\"broken\""]);
    assert_eq!(line["reason"], "backend-reset", "{line}");
    talk.end();
    // The server that was left in the middle of logins still serves.
    let mut after = mariadb_tls(&site, front.address, "native", "SELECT 1");
    assert_eq!(values(&mut after), "1");
}
