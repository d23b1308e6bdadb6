//! Protocols that begin in plaintext and ask for TLS, on either side, with servers that answer by a
//! table.

use std::io::{BufRead, BufReader};

use suite::prelude::*;
use suite::scripted;
use suite::starttls::{lariat, service};

/// A protocol: its server's greeting and replies, a client's words that end the rewriting, and the
/// refusal of a client without TLS.
struct Kind {
    name: &'static str,
    greeting: &'static str,
    replies: &'static [(&'static str, &'static str)],
    /// A question, the end of its answer, and the part that is only for clients before TLS.
    list: (&'static str, &'static str, &'static str),
    login: &'static str,
    refusal: &'static str,
}

const KINDS: &[Kind] = &[
    Kind {
        name: "smtp",
        greeting: "220 mx ESMTP\r\n",
        replies: &[("EHLO", "250-mx\r\n250-SIZE\r\n250 STARTTLS\r\n")],
        list: ("EHLO x", "250 SIZE\r\n", "STARTTLS"),
        login: "MAIL FROM:<>",
        refusal: "530 5.7.0 ",
    },
    Kind {
        name: "lmtp",
        greeting: "220 mx LMTP\r\n",
        replies: &[("LHLO", "250-mx\r\n250 SIZE\r\n")],
        list: ("LHLO x", "250 SIZE\r\n", "STARTTLS"),
        login: "MAIL FROM:<>",
        refusal: "530 5.7.0 ",
    },
    Kind {
        name: "imap",
        greeting: "* OK ready\r\n",
        // The tag of `openssl s_client`, and ours.
        replies: &[
            (". CAPABILITY", "* CAPABILITY IMAP4rev1 STARTTLS\r\n. OK\r\n"),
            ("A CAPABILITY", "* CAPABILITY IMAP4rev1 STARTTLS\r\nA OK\r\n"),
        ],
        list: ("A CAPABILITY", "A OK\r\n", "STARTTLS"),
        login: "A LOGIN ann secret",
        refusal: "A NO [PRIVACYREQUIRED] ",
    },
    Kind {
        name: "pop3",
        greeting: "+OK ready\r\n",
        replies: &[("CAPA", "+OK\r\nTOP\r\nSTLS\r\n.\r\n")],
        list: ("CAPA", ".\r\n", "STLS"),
        login: "USER ann",
        refusal: "-ERR [AUTH] ",
    },
    Kind {
        name: "ftp",
        greeting: "220 ready\r\n",
        replies: &[("FEAT", "211-Features:\r\n UTF8\r\n211 End\r\n")],
        list: ("FEAT", "211 End\r\n", "AUTH TLS"),
        login: "USER ann",
        refusal: "530 ",
    },
    Kind {
        name: "sieve",
        greeting: "\"SIEVE\" \"\"\r\nOK\r\n",
        replies: &[("CAPABILITY", "\"SIEVE\" \"\"\r\n\"STARTTLS\"\r\nOK\r\n")],
        list: ("CAPABILITY", "OK\r\n", "STARTTLS"),
        login: "AUTHENTICATE \"PLAIN\"",
        refusal: "NO (ENCRYPT-NEEDED) ",
    },
    Kind {
        name: "nntp",
        greeting: "200 ready\r\n",
        replies: &[("CAPABILITIES", "101\r\nVERSION 2\r\nSTARTTLS\r\n.\r\n")],
        list: ("CAPABILITIES", ".\r\n", "STARTTLS"),
        login: "GROUP a",
        refusal: "483 ",
    },
];

impl Kind {
    /// Serves every connection until the test ends.
    fn start(&'static self) -> SocketAddr {
        scripted::serve(move |stream| {
            self.talk(stream);
        })
    }

    fn talk(&self, stream: &mut TcpStream) -> Option<()> {
        stream.write_all(self.greeting.as_bytes()).ok()?;
        for line in BufReader::new(stream.try_clone().ok()?).lines() {
            let line = line.ok()?;
            let mut replies = self.replies.iter();
            let reply = replies.find(|(begin, _)| line.starts_with(begin));
            let said = format!("said {line}\r\n");
            stream.write_all(reply.map_or(said.as_str(), |(_, reply)| reply).as_bytes()).ok()?;
        }
        Some(())
    }

    /// Makes one service before it for clients that ask for TLS, and one before that which asks.
    fn services(&'static self, site: &Site, policy: &str) -> [Service; 2] {
        let front = service(site, self.name, self.start()).starting_tls(self.name, policy);
        let name = format!("{}-client", self.name);
        let back = service(site, &name, front.address).asking(self.name, &site.ca()).mode("off");
        [front, back]
    }
}

fn start(site: &Site, policy: &str) -> (Lariat, Vec<[SocketAddr; 2]>) {
    let services: Vec<_> = KINDS.iter().map(|kind| kind.services(site, policy)).collect();
    let addresses = services.iter().map(|both| both.each_ref().map(|one| one.address));
    (lariat(services.iter().flatten()), addresses.collect())
}

/// A plaintext connection that is read up to an expected text.
struct Plain(TcpStream);

impl Plain {
    fn connect(address: SocketAddr) -> Self {
        let stream = tcp(address);
        Self(stream)
    }

    fn say(&mut self, line: &str) {
        self.0.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }

    fn read_to(&mut self, end: &str) -> String {
        let mut text = String::new();
        let mut byte = [0];
        while !text.ends_with(end) {
            self.0.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} after {text}"));
            text.push(char::from(byte[0]));
        }
        text
    }
}

#[test]
fn openssl_starts_tls_by_every_protocol() {
    let site = Site::new();
    let (lariat, addresses) = start(&site, "required");
    for (kind, [front, _]) in KINDS.iter().zip(addresses) {
        let arguments = ["-starttls", kind.name, "-brief", "-verify_return_error"];
        let done = s_client(&site, front, &arguments);
        assert_has(&done.stderr, "Verification: OK");
        lariat.wait_for_line(&[&format!("\"service\":\"{}\"", kind.name), "TLSv1.3"]);
    }
}

#[test]
fn openssl_starts_tls_before_a_server_is_needed_where_the_client_speaks_first() {
    let site = Site::new();
    let protocols = ["postgres", "ldap", "xmpp"];
    let services =
        protocols.map(|name| service(&site, name, free_address()).starting_tls(name, "required"));
    let addresses = services.each_ref().map(|one| one.address);
    let lariat = lariat(&services);
    for (name, address) in protocols.iter().zip(&addresses) {
        let arguments = ["-starttls", name, "-brief", "-verify_return_error"];
        let done = s_client(&site, *address, &arguments);
        assert_has(&done.stderr, "Verification: OK");
    }
    // As clients of PostgreSQL since version 17 may begin.
    let done = s_client(&site, addresses[0], &["-alpn", "postgresql"]);
    assert_has(&done.stdout, "ALPN protocol: postgresql");
    for other in [&["-alpn", "h2"][..], &[]] {
        let done = s_client(&site, addresses[0], other);
        assert!(!done.stdout.contains("ALPN protocol: "), "{done:?}");
    }
    let line = lariat.wait_for_line(&["starttls-malformed"]);
    assert_has(line["detail"].to_string(), "application protocol postgresql");
}

/// Makes a request of PostgreSQL's to cancel, with the long key of protocol 3.2.
fn request_to_cancel() -> Vec<u8> {
    [&b"\x00\x00\x01\x0c\x04\xd2\x16\x2epid1"[..], &[b'k'; 256]].concat()
}

/// Sends bytes and the stream's end in one packet, and reads what comes.
fn send_with_end(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let corked = rustix::net::sockopt::set_tcp_cork(&stream, true);
    corked.expect("a socket of TCP");
    // A refusal may come before.
    let _sent = stream.write_all(bytes);
    let _ended = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _may_be_reset = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn a_request_to_cancel_goes_to_every_server_though_the_client_has_left() {
    let site = Site::new();
    let silent = Server::start(Behaviour::Hang);
    let servers = [(); 3].map(|()| Server::start(Behaviour::ReplyAfterEnd(b"no answer".to_vec())));
    let all = servers.iter().map(Server::address);
    let all = [silent.address()].into_iter().chain(all);
    let list = all.map(|one| format!("{one:?}")).collect::<Vec<_>>();
    let list = format!("[{}]", list.join(", "));
    let new = |name| service(&site, name, "127.0.0.1:1").servers(&list);
    let policies =
        ["required", "optional"].map(|policy| new(policy).starting_tls("postgres", policy));
    let lariat = lariat(&policies);
    let request = request_to_cancel();
    for (number, service) in (1..).zip(&policies) {
        assert_eq!(send_with_end(service.address, &request), b"");
        for server in &servers {
            let seen = server.wait_for_end(number);
            assert_eq!((&seen.bytes, seen.ended), (&request, true));
        }
        lariat.wait_for_line(&[
            &format!("\"service\":\"{}\"", policies[number - 1].name()),
            "client-closed",
        ]);
    }
    // Cut, doubled, too long: nothing comes to any server.
    let long = [&b"\x00\x00\x01\x0d"[..], &request[4..], b"k"].concat();
    let doubled = [&request[..], &request].concat();
    for bytes in [&request[..20], &doubled, &long] {
        let answer = send_with_end(policies[1].address, bytes);
        let is_told = String::from_utf8_lossy(&answer).contains("invalid length of cancel request");
        assert!(is_told || bytes.len() == 20, "{answer:?}");
    }
    for server in &servers {
        assert_eq!(server.connections().len(), 2);
    }
}

#[test]
fn requests_to_cancel_count_against_the_pace_of_their_client() {
    let site = Site::new();
    let servers = [(); 40].map(|()| Server::start(Behaviour::ReplyAfterEnd(Vec::new())));
    let list = servers.each_ref().map(|one| format!("{:?}", one.address()));
    let service = service(&site, "paced", "127.0.0.1:1").servers(&format!("[{}]", list.join(", ")));
    let service = service.starting_tls("postgres", "required");
    let limits = "[limits]\nper-source = { rate = 1, exempt = [] }\n";
    let lariat = service.start_with(limits);
    assert_eq!(send_with_end(service.address, &request_to_cancel()), b"");
    // The request was cut nowhere, and has used up its client's allowance for 40 seconds.
    servers.iter().for_each(|one| drop(one.wait_for_end(1)));
    let _refused = send_with_end(service.address, &request_to_cancel());
    lariat.wait_for_line(&["source-rate-limit"]);
    assert!(servers.iter().all(|one| one.connections().len() == 1));
}

#[test]
fn a_pair_makes_a_tunnel_that_its_ends_do_not_see() {
    let site = Site::new();
    let (lariat, addresses) = start(&site, "required");
    for (kind, [_, back]) in KINDS.iter().zip(addresses) {
        let mut client = Plain::connect(back);
        // Lariat's own, because what the server sent before its TLS is not authenticated.
        let greeting = client.read_to(if kind.name == "sieve" { "OK\r\n" } else { "\r\n" });
        assert_eq!(greeting.get(..3), kind.greeting.get(..3), "{greeting}");
        assert_eq!(greeting == kind.greeting, kind.name == "sieve", "{greeting}");
        let (ask, end, hidden) = kind.list;
        client.say(ask);
        let list = client.read_to(end);
        assert!(!list.contains(hidden), "{list}");
        client.say(kind.login);
        client.read_to(&format!("said {}\r\n", kind.login));
        client.say("and more");
        client.read_to("said and more\r\n");
        drop(client);
        let line = lariat.wait_for_line(&[&format!("{}-client", kind.name), "server_version"]);
        assert_eq!(line["server_version"], "TLSv1.3", "{line}");
    }
}

#[test]
fn a_client_in_plaintext_is_refused_or_relayed_as_the_policy_says() {
    let site = Site::new();
    for policy in ["required", "optional"] {
        let (lariat, addresses) = start(&site, policy);
        for (kind, [front, _]) in KINDS.iter().zip(addresses) {
            let mut client = Plain::connect(front);
            client.read_to(last_line(kind.greeting));
            let (ask, end, offered) = kind.list;
            client.say(ask);
            assert_has(client.read_to(end), offered);
            client.say(kind.login);
            let answer = client.read_to("\r\n");
            if policy == "required" {
                assert!(answer.starts_with(kind.refusal), "{answer}");
                drop(client);
                lariat.wait_for_line(&[kind.name, "starttls-required"]);
            } else {
                assert_eq!(answer, format!("said {}\r\n", kind.login));
                let counted = ("service", kind.name);
                lariat.wait_for_metric("lariat_starttls_plaintext_total", &[counted], 1.0);
            }
        }
    }
}

#[test]
fn bytes_behind_the_request_are_never_taken_for_what_comes_under_tls() {
    let site = Site::new();
    let (lariat, addresses) = start(&site, "optional");
    let mut client = Plain::connect(addresses[0][0]);
    client.read_to("\r\n");
    client.say("STARTTLS\r\nMAIL FROM:<>");
    let mut rest = String::new();
    client.0.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("554 5.5.0 ") && !rest.contains("said"), "{rest}");
    drop(client);
    lariat.wait_for_reason("starttls-injection", 1);
}

/// A server, or an attacker on the way to it, sends more than a greeting.
#[test]
fn what_a_server_says_before_its_tls_reaches_no_client() {
    let site = Site::new();
    for (said, fault) in [
        ("220-x\r\n250 STARTTLS\r\n250 AUTH PLAIN\r\n220 y\r\n", "several codes"),
        ("220 x\r250 y\r\n", "a CR or NUL"),
        ("220 x\0\r\n", "a CR or NUL"),
    ] {
        let server = scripted::serve(move |stream| {
            let _ = stream.write_all(said.as_bytes());
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let service = service(&site, "smtp", server).asking("smtp", &site.ca()).mode("off");
        let lariat = service.start();
        let mut client = Plain::connect(service.address);
        assert_eq!(client.read_to("\r\n"), "421 4.3.2 No server is available\r\n");
        drop(client);
        lariat.wait_for_line(&["server-starttls-failed", fault]);
    }
}

#[test]
fn a_server_is_told_a_name_that_is_not_localhost() {
    let site = Site::new();
    for (flags, wanted) in [("", None), ("ehlo-name = 'mx.example'", Some("EHLO mx.example\r\n"))] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = service(&site, "smtp", listener.local_addr().unwrap()).mode("off");
        let service = service.asking("smtp", &site.ca()).back(flags);
        let _lariat = service.start();
        let _client = Plain::connect(service.address);
        let mut server = Plain(listener.accept().unwrap().0);
        server.say("220 mx");
        let said = server.read_to("\r\n");
        let name = said.strip_prefix("EHLO ").unwrap().trim_end();
        assert!(name.contains('.') || name.starts_with('['), "{said}");
        assert!(wanted.is_none_or(|wanted| wanted == said), "{said}");
    }
}

#[test]
fn a_server_that_greets_with_an_error_or_not_at_all_is_told_in_words() {
    let site = Site::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let front = service(&site, "front", server).starting_tls("imap", "required");
    let front = front.more("timeouts = { handshake = '300ms', greeting = '300ms' }");
    let back = service(&site, "back", server).asking("imap", &site.ca()).mode("off");
    let lariat = lariat([&front, &back]);
    // The server's queue takes connections, and nobody greets.
    let mut client = Plain::connect(front.address);
    assert_eq!(client.read_to("\r\n"), "* BYE [UNAVAILABLE] No server is available\r\n");
    drop(client);
    lariat.wait_for_line(&["\"service\":\"front\"", "did not answer in time"]);
    let _silent = listener.accept().unwrap();
    let mut client = Plain::connect(back.address);
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"* BYE too many connections\r\n").unwrap();
    assert_eq!(client.read_to("\r\n"), "* BYE [UNAVAILABLE] No server is available\r\n");
    drop(client);
    lariat.wait_for_line(&["\"service\":\"back\"", "server-starttls-failed", "too many"]);
}

#[test]
fn a_new_key_is_answered_before_the_next_word_of_the_dialog() {
    let (site, smtp) = (Site::new(), &KINDS[0]);
    let server = smtp.start().to_string();
    let service = service(&site, "smtp", &server).starting_tls("smtp", "required");
    let lariat = service.start();
    let mut client = Plain::connect(service.address);
    client.read_to(smtp.greeting);
    client.say("STARTTLS");
    client.read_to("\r\n");
    let mut client = Client::new(&site).over(client.0).unwrap();
    client.send_behind_new_keys(b"STARTTLS\r\n");
    assert_eq!(client.receive(4), b"503 ");
    assert!(!lariat.stderr().contains("has ended"), "{}", lariat.stderr());
}

/// Starts a server that sends these words first, and then others without end.
fn endless(first: &'static [u8], others: &'static [u8]) -> SocketAddr {
    let others = others.repeat(999);
    scripted::serve(move |stream| scripted::say_for_ever(stream, first, &others))
}

#[test]
fn servers_whose_greeting_has_no_end_are_given_up() {
    let site = Site::new();
    let cases: [(&str, SocketAddr); 6] = [
        ("smtp", endless(b"", b"220-more\r\n")),
        ("imap", endless(b"", b"* words without end")),
        ("sieve", endless(b"", b"\"SIEVE\" \"\"\r\n")),
        ("ftp", endless(b"", b"120 soon\r\n")),
        // A packet of 16 MiB.
        ("mysql", endless(b"\xff\xff\xff\0\x0a", b"8.0")),
        ("xmpp", endless(b"<stream:stream>", b"<x>more</x>")),
    ];
    let mut services = Vec::new();
    for (protocol, server) in cases {
        let front = service(&site, &format!("{protocol}-front"), server);
        let back = service(&site, &format!("{protocol}-back"), server);
        // XMPP is not greeted: a client's stream goes first.
        if protocol != "xmpp" {
            services.push(front.starting_tls(protocol, "required"));
        }
        services.push(back.asking(protocol, &site.ca()).mode("off"));
    }
    let lariat = lariat(&services);
    for service in &services {
        let mut client = tcp(service.address);
        client.write_all(b"<stream:stream to='localhost'>").unwrap();
        // The end, or a reset because words of the client were unread.
        let _ = client.read_to_end(&mut Vec::new());
        drop(client);
        let name = format!("\"service\":\"{}\"", service.name());
        let line = lariat.wait_for_line(&[&name]);
        assert_eq!(line["reason"], "server-starttls-failed", "{line}");
    }
    let count = u32::try_from(services.len()).unwrap();
    lariat.wait_for_reason("server-starttls-failed", count);
}

fn last_line(text: &str) -> &str {
    let mut lines = text.split_inclusive('\n');
    lines.next_back().unwrap_or_default()
}
