//! Load on servers that are asked for TLS in their own protocol, and probes of them.

use suite::load::Record;
use suite::mariadb::Mariadb;
use suite::prelude::*;
use suite::probe::NOT_PROBED;
use suite::starttls::{aiosmtpd, dovecot, inn, lariat, postgres, pyftpdlib, service, slapd};

fn load(address: SocketAddr, protocol: &str, how: &str) -> Record {
    Load::of(address).args("--no-request --count 20 --starttls").arg(protocol).args(how).record()
}

/// Probes a server, which must be as these facts say.
fn probe(site: &Site, address: SocketAddr, protocol: &str, facts: &str) {
    let file = site.write("expect.toml", facts);
    let mut command = lab::command();
    command.args(["probe", "localhost", "--attempts", "2", "--starttls"]);
    command.args([protocol, "--connect", &address.to_string(), "--ca"]);
    command.arg(site.ca()).arg("--expect").arg(file);
    let finished = run(&mut command);
    assert_eq!(finished.code(), 0, "{protocol}: {finished:?}");
}

/// The kinds of 20 handshakes of two clients: the first of each is full.
const RESUMED: [u64; 4] = [2, 0, 0, 18];

#[test]
fn lariat_before_servers_without_tls_resumes_in_each_protocol() {
    let site = Site::new();
    let (_dovecot, [imap, pop3, lmtp, sieve]) = dovecot();
    let (mail, files) = (aiosmtpd(&[]), pyftpdlib());
    let database = postgres("host all all 127.0.0.1/32 scram-sha-256", &[], &site);
    let (directory, mysql, news) = (slapd(""), Mariadb::start(&[]), inn(None));
    // For XMPP, Lariat itself sends everything before TLS.
    let echo = Server::start(Behaviour::Echo);
    let chat = echo.address().parse().unwrap();
    for (protocol, server) in [
        ("imap", imap),
        ("pop3", pop3),
        ("lmtp", lmtp),
        ("sieve", sieve),
        ("smtp", mail.address),
        ("ftp", files.0.address),
        ("nntp", news.address),
        ("postgres", database.address),
        ("ldap", directory.address),
        ("mysql", mysql.address),
        ("xmpp", chat),
    ] {
        let front = service(&site, protocol, server).starting_tls(protocol, "required");
        let _lariat = lariat([&front]);
        let ca = format!("--ca {}", site.ca().display());
        let record = load(front.address, protocol, &format!("--handshake psk {ca}"));
        assert_eq!(record.totals(), [20, 20, 0], "{protocol}: {record:?}");
        assert_eq!(record.kinds(), RESUMED, "{protocol}");
        assert_eq!(record.at("/plan/tls/starttls"), protocol);
        let facts = "faults = []\nadvice = []\nresumption = { psk = 'always', ticket = 'always' }";
        probe(&site, front.address, protocol, facts);
    }
}

/// Some servers greet; the others are silent at a ClientHello, and are asked in their own protocol.
#[test]
fn servers_that_wait_to_be_asked_are_named() {
    let site = Site::new();
    let (_dovecot, [imap, pop3, _, sieve]) = dovecot();
    let (mail, files) = (aiosmtpd(&[]), pyftpdlib());
    let hba = "host all all 127.0.0.1/32 scram-sha-256";
    let (plain, with_tls) = (postgres(hba, &[], &site), postgres(hba, &["-c", "ssl=on"], &site));
    let (directory, mysql, news) = (slapd(""), Mariadb::start(&[]), inn(None));
    let echo = Server::start(Behaviour::Echo);
    let chat = service(&site, "chat", echo.address()).starting_tls("xmpp", "required");
    let _lariat = lariat([&chat]);
    for (protocol, server) in [
        ("imap", imap),
        ("pop3", pop3),
        ("sieve", sieve),
        ("smtp", mail.address),
        ("ftp", files.0.address),
        ("nntp", news.address),
        ("postgres", plain.address),
        ("postgres", with_tls.address),
        ("ldap", directory.address),
        ("mysql", mysql.address),
        ("xmpp", chat.address),
    ] {
        let mut command = lab::command();
        let said = run(command.args(["probe", &server.to_string()])).ended(&[NOT_PROBED]);
        // As it stands in one line of any width.
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = format!("without TLS, did you mean --starttls {protocol}?");
        assert!(said.contains(&words), "{protocol}: {said}");
    }
}

#[test]
fn servers_with_tls_are_asked_and_those_without_have_failed() {
    let site = Site::new();
    let pem = site.path("site.pem").display().to_string();
    let mail = aiosmtpd(&["--tlscert", &pem, "--tlskey", &pem]);
    let hba = "hostssl all all 127.0.0.1/32 scram-sha-256";
    let database = postgres(hba, &["-c", "ssl=on"], &site);
    let tls = format!("TLSCertificateFile {pem}\nTLSCertificateKeyFile {pem}");
    let (directory, mysql) = (slapd(&tls), Mariadb::requiring_tls(&site));
    for (protocol, server) in [
        ("smtp", mail.address),
        ("postgres", database.address),
        ("ldap", directory.address),
        ("mysql", mysql.address),
    ] {
        let record = load(server, protocol, "--verify signature");
        assert_eq!(record.totals(), [20, 20, 0], "{protocol}: {record:?}");
        assert_eq!(record.handshakes("full"), 20, "{protocol}");
        probe(&site, server, protocol, "modern = { version = 'TLSv1.3' }");
    }
    let (plain_mysql, plain_mail) = (Mariadb::start(&[]), aiosmtpd(&[]));
    for (protocol, server) in
        [("mysql", plain_mysql.address), ("smtp", plain_mail.address), ("mysql", mail.address)]
    {
        let loaded = Load::of(server).args("--no-request --count 4 --starttls").arg(protocol).run();
        assert_eq!(loaded.record().reason(), "starttls-failed", "{protocol}");
    }
}
