//! Real servers and clients of the protocols that begin in plaintext, with TLS on either side of
//! Lariat, and by a pair. MySQL has a file of its own.

use std::fmt::Display;

use suite::prelude::*;
use suite::starttls::{
    aiosmtpd, dovecot, inn, lariat, postgres, prosody, psql, pyftpdlib, service, slapd,
};

/// Makes a service before this server whose clients must ask for TLS, and one before that for
/// clients without TLS.
fn pair(site: &Site, protocol: &str, server: impl Display) -> [Service; 2] {
    let front = service(site, &format!("{protocol}-front"), server);
    let front = front.starting_tls(protocol, "required");
    let client = service(site, &format!("{protocol}-client"), front.address);
    let client = client.asking(protocol, &site.ca()).mode("off");
    [front, client]
}

/// Asks who is served, and whether the server sees TLS.
const WHO: &str = "SELECT usename, ssl FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) \
                   WHERE pid = pg_backend_pid()";

#[test]
fn postgresql_without_tls_gets_clients_with_it() {
    let site = Site::new();
    let hba = "local all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256";
    let server = postgres(hba, &[], &site);
    let socket = format!(".s.PGSQL.{}", server.address.port());
    let socket = format!("unix:{}", server.directory.join(socket).display());
    let [over_tcp, client] = pair(&site, "postgres", server.address);
    let over_unix = service(&site, "unix", &socket).starting_tls("postgres", "required");
    let lariat = lariat([&over_tcp, &client, &over_unix]);
    let verified = format!("sslmode=verify-full sslrootcert={}", site.ca().display());
    for (address, words) in [
        (over_tcp.address, verified.as_str()),
        (over_unix.address, verified.as_str()),
        (client.address, "sslmode=disable"),
        (client.address, "sslmode=prefer"),
    ] {
        let said = run(&mut psql(address, words, WHO)).success();
        assert_eq!(said, "ann|f\n", "{words}");
        let words = format!("{words} password=wrong");
        let wrong = run(&mut psql(address, &words, WHO));
        wrong.assert_stderr("password authentication failed");
    }
    let much = "SELECT repeat('x', 3000000)";
    let said = run(&mut psql(over_tcp.address, &verified, much)).success();
    assert_eq!(said.len(), 3_000_001);
    let plain = run(&mut psql(over_tcp.address, "sslmode=disable", WHO));
    plain.assert_stderr("FATAL:  this server requires TLS");
    lariat.wait_for_line(&["starttls-required"]);
    // The client asks for it over a connection of its own.
    for (address, words) in
        [(over_tcp.address, verified.as_str()), (client.address, "sslmode=disable")]
    {
        let mut waiting = Running::start(&mut psql(address, words, "SELECT pg_sleep(600)"));
        let active = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)'";
        until_true("the statement to run", || {
            waiting.assert_running();
            let said = run(&mut psql(server.address, "", active)).success();
            said == "1\n"
        });
        waiting.signal(Signal::INT);
        waiting.wait();
        assert_has(waiting.stderr(), "canceling statement due to user request");
    }
}

#[test]
fn postgresql_that_requires_tls_gets_clients_without_it() {
    let site = Site::new();
    let hba = "hostssl postgres all 127.0.0.1/32 password\n\
               hostssl template1 all 127.0.0.1/32 scram-sha-256";
    let server = postgres(hba, &["-c", "ssl=on"], &site);
    let address = server.address.to_string();
    let client = service(&site, "client", &address).asking("postgres", &site.ca());
    // The pair of the guide: the server's own certificate in front, and its key pinned.
    let pin = suite::openssl::key_hash(&site, "site.pem");
    let both = service(&site, "both", &address).back(&format!(
        "starttls = 'postgres'\ntls = {{ ca = [{:?}], name = 'localhost', pins = ['sha256//{pin}'] }}",
        site.ca()
    ));
    let client = client.mode("off");
    let both = both.starting_tls("postgres", "required");
    site.leaf(&["localhost"]).write(&site.directory, "other.pem");
    let certificates = format!("[{:?}]", site.path("other.pem"));
    let other = service(&site, "other", &address).asking("postgres", &site.ca());
    let other = other.certificates(&certificates);
    let other = other.starting_tls("postgres", "required");
    let lariat = lariat([&client, &both, &other]);
    let verified = format!("sslmode=verify-full sslrootcert={}", site.ca().display());
    let direct = run(&mut psql(server.address, "sslmode=disable", WHO));
    direct.assert_stderr("no encryption");
    for (address, words) in [(client.address, "sslmode=disable"), (both.address, verified.as_str())]
    {
        let said = run(&mut psql(address, words, WHO)).success();
        assert_eq!(said, "ann|t\n", "{words}");
    }
    // `check` warns of the one whose clients it keeps out, and of no other.
    for (service, words) in [(&client, ""), (&both, ""), (&other, "keeps out clients")] {
        let checked = lariat::check(&service.toml());
        assert_eq!(checked.stderr.contains("keeps out"), !words.is_empty());
    }
    // Channel binding is to the certificate (RFC 5929, 4): it holds where both have the same.
    let scram = |service: &Service, words: &str| {
        let words = format!("{words} dbname=template1");
        run(&mut psql(service.address, &words, WHO))
    };
    let bound = scram(&both, &format!("{verified} channel_binding=require"));
    assert_eq!(bound.success(), "ann|t\n");
    // A client that prefers it gets the reason of the failure, and a remedy.
    let told = scram(&other, &verified);
    told.assert_stderr("channel binding is impossible");
    told.assert_stderr("HINT:  Connect with channel_binding=disable");
    lariat.wait_for_line(&["\"service\":\"other\"", "channel-binding"]);
    let unbound = scram(&other, &format!("{verified} channel_binding=disable"));
    assert_eq!(unbound.success(), "ann|t\n");
    // A client without TLS is not offered what the server offers to Lariat.
    for words in ["sslmode=disable", "sslmode=prefer"] {
        assert_eq!(scram(&client, words).success(), "ann|t\n");
    }
    let wrong = scram(&client, "sslmode=disable password=wrong");
    wrong.assert_stderr("password authentication failed");
    scram(&client, "channel_binding=require").assert_stderr("channel binding");
}

#[test]
fn a_request_to_cancel_reaches_the_server_that_it_is_for() {
    let site = Site::new();
    let hba = "host all all 127.0.0.1/32 scram-sha-256";
    let servers = [(); 2].map(|()| postgres(hba, &["-c", "ssl=on"], &site));
    // No connection comes to these, but a request to cancel does: to one that never answers, and to
    // one that is gone.
    let silent = Server::start(Behaviour::Hang);
    let [one, two] = [0, 1].map(|index| servers[index].address);
    let list = format!(
        "[{{ address = '{}', backup = true }}, {{ address = '{}', backup = true }}, '{one}', '{two}']",
        silent.address(),
        free_address()
    );
    let new = |name| {
        let service = service(&site, name, "127.0.0.1:1").servers(&list);
        service.more("timeouts = { dial = '1s' }")
    };
    let plain = new("plain").starting_tls("postgres", "optional");
    let both = new("both").starting_tls("postgres", "required");
    let both = both.asking("postgres", &site.ca());
    let client = new("client").asking("postgres", &site.ca()).mode("off");
    let _lariat = lariat([&plain, &both, &client]);
    let verified = format!("sslmode=verify-full sslrootcert={}", site.ca().display());
    let sleep = "SELECT pg_sleep(600)";
    let active = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '% pg_sleep(600)'";
    for (service, words) in [
        (&plain, verified.as_str()),
        (&plain, "sslmode=disable"),
        (&both, &verified),
        (&client, "sslmode=disable"),
    ] {
        let mut waiting =
            [(); 4].map(|()| Running::start(&mut psql(service.address, words, sleep)));
        until_true("the statements to run", || {
            waiting.iter_mut().for_each(Running::assert_running);
            let running = servers.iter().map(|server| {
                let said = run(&mut psql(server.address, "", active)).success();
                said.trim().parse::<usize>().expect("a number")
            });
            running.sum::<usize>() == waiting.len()
        });
        for one in &mut waiting {
            one.signal(Signal::INT);
            one.wait();
            assert_has(one.stderr(), "canceling statement due to user request");
        }
    }
}

/// Runs a program of OpenLDAP as the administrator, who trusts the site's authority.
fn ldap(site: &Site, program: &str, address: SocketAddr, arguments: &[&str]) -> Finished {
    // For `localhost` it would verify the name that this host has elsewhere.
    ldap_at(site, program, &format!("ldap://{address}"), arguments)
}

pub(super) fn ldap_at(site: &Site, program: &str, url: &str, arguments: &[&str]) -> Finished {
    let mut command = Command::new(program);
    command
        .env("LDAPTLS_CACERT", site.ca())
        .args(["-x", "-D", "cn=admin,dc=example", "-w", "secret", "-H"])
        .arg(url)
        .args(arguments);
    run(&mut command)
}

#[test]
fn a_directory_server_without_tls_gets_clients_with_it_and_one_with_tls_those_without() {
    let site = Site::new();
    let pem = site.path("site.pem");
    let pem = pem.display();
    let tls = format!("TLSCertificateFile {pem}\nTLSCertificateKeyFile {pem}\nsecurity tls=1");
    let [without, with] = [slapd(""), slapd(&tls)];
    let [front, client] = pair(&site, "ldap", without.address);
    let asking = service(&site, "asking", with.address).asking("ldap", &site.ca()).mode("off");
    let lariat = lariat([&front, &client, &asking]);
    for (service, start_tls) in [(&front, &["-ZZ"][..]), (&client, &[]), (&asking, &[])] {
        let who = ldap(&site, "ldapwhoami", service.address, start_tls);
        assert_eq!(who.success(), "dn:cn=admin,dc=example\n");
        let search = ["-LLL", "-s", "base", "-b", "", "namingContexts"];
        let found = ldap(&site, "ldapsearch", service.address, &[start_tls, &search].concat());
        assert_has(found.success(), "namingContexts: dc=example");
    }
    let direct = ldap(&site, "ldapwhoami", with.address, &[]);
    direct.assert_stderr("Confidentiality required (13)");
    let plain = ldap(&site, "ldapwhoami", front.address, &[]);
    plain.assert_stderr("Confidentiality required (13)");
    lariat.wait_for_line(&["starttls-required"]);
}

/// A login of 12,288 octets (RFC 4954 section 4), and the longest line that IMAP servers take.
#[test]
fn long_lines_under_tls_are_for_the_server_to_judge() {
    let site = Site::new();
    let (_dovecot, [imap, ..]) = dovecot();
    let mail = aiosmtpd(&[]);
    // The longest lines that Dovecot takes before a login, and after it.
    let login = format!("b AUTHENTICATE XOAUTH2 {}", "x".repeat(8188));
    let status = format!("d STATUS INBOX ({})", ["MESSAGES"; 7000].join(" "));
    for (protocol, server, lines) in [
        (
            "smtp",
            mail.address,
            vec![
                ("EHLO client.example".to_owned(), "250 "),
                (format!("AUTH XOAUTH2 {}", "x".repeat(12 << 10)), "500 "),
            ],
        ),
        (
            "imap",
            imap,
            vec![
                ("a CAPABILITY".to_owned(), "\na OK"),
                (login, "\nb NO"),
                ("c LOGIN ann secret".to_owned(), "\nc OK"),
                (status, "\nd OK"),
            ],
        ),
    ] {
        let [front, _] = pair(&site, protocol, server);
        let lariat = lariat([&front]);
        let arguments = ["-starttls", protocol, "-crlf", "-verify_return_error"];
        let mut talk = Talk::start(&site, front.address, &arguments);
        for (line, answer) in &lines {
            talk.say(line);
            talk.wait_for(answer, 1);
        }
        talk.end();
        let logged = lariat.wait_for_line(&[&format!("{protocol}-front")]);
        assert_eq!(logged["fault"], "none", "{logged}");
    }
}

/// Makes a `curl` as `ann`, with required TLS or without any.
pub(super) fn curl_as_ann(site: &Site, url: &str, is_tls: bool) -> suite::curl::Curl {
    let ca = site.ca().display().to_string();
    let tls = ["--ssl-reqd", "--cacert", &ca];
    curl().url(url).args(&["--user", "ann:secret"]).args(if is_tls { &tls } else { &[] })
}

/// Delivers a message with this subject to `ann` by `swaks`.
fn swaks(site: &Site, protocol: &str, address: SocketAddr, subject: &str, is_tls: bool) {
    let mut command = Command::new("swaks");
    command
        .args(["--protocol", protocol, "--server", &address.to_string()])
        .args(["--helo", "localhost", "--from", "bob@example"])
        .args(["--to", "ann@example", "--header"])
        .arg(format!("Subject: {subject}"));
    if is_tls {
        command.args(["--tls", "--tls-verify", "--tls-sni", "localhost"]);
        command.arg("--tls-ca-path").arg(site.ca());
    }
    run(&mut command).success();
}

#[test]
fn dovecot_without_tls_gets_clients_with_it() {
    let site = Site::new();
    let (_dovecot, servers) = dovecot();
    let protocols = ["imap", "pop3", "lmtp", "sieve"];
    let services: Vec<_> = protocols
        .iter()
        .zip(servers)
        .map(|(protocol, server)| pair(&site, protocol, server))
        .collect();
    let _lariat = lariat(services.iter().flatten());
    let [imap, pop3, lmtp, sieve] = [0, 1, 2, 3].map(|at| &services[at]);
    for (at, is_tls) in [(0, true), (1, false)] {
        let subject = format!("message {at}");
        swaks(&site, "LMTP", lmtp[at].address, &subject, is_tls);
        let number = at + 1;
        let imap = imap[at].address.port();
        let pop3 = pop3[at].address.port();
        for url in [
            format!("imap://localhost:{imap}/INBOX;MAILINDEX={number}"),
            format!("pop3://localhost:{pop3}/{number}"),
        ] {
            let said = curl_as_ann(&site, &url, is_tls).run().success();
            assert_has(said, &format!("Subject: {subject}"));
        }
    }
    let arguments = ["-starttls", "sieve", "-crlf", "-verify_return_error"];
    let mut talk = Talk::start(&site, sieve[0].address, &arguments);
    // NUL ann NUL secret.
    talk.say("AUTHENTICATE \"PLAIN\" \"AGFubgBzZWNyZXQ=\"");
    talk.wait_for("OK \"Logged in.\"", 1);
    talk.say("LISTSCRIPTS");
    talk.wait_for("OK \"Listscripts completed.\"", 1);
    talk.end();
    // The client sees no way to log in, and leaves.
    for (protocol, at) in [("imap", imap), ("pop3", pop3)] {
        let url = format!("{protocol}://localhost:{}/", at[0].address.port());
        let plain = curl_as_ann(&site, &url, false).run();
        assert_ne!(plain.code(), 0, "{plain:?}");
    }
}

#[test]
fn a_mail_server_without_tls_gets_clients_with_it_and_one_with_tls_those_without() {
    let site = Site::new();
    let pem = site.path("site.pem").display().to_string();
    let tls = ["--tlscert", &pem, "--tlskey", &pem];
    let [without, with] = [aiosmtpd(&[]), aiosmtpd(&tls)];
    let [front, client] = pair(&site, "smtp", without.address);
    let asking = service(&site, "asking", with.address).asking("smtp", &site.ca()).mode("off");
    let _lariat = lariat([&front, &client, &asking]);
    let message = site.write("message", "Subject: by curl\r\n\r\nhello\r\n");
    let message = message.display().to_string();
    for (service, server, is_tls) in
        [(&front, &without, true), (&client, &without, false), (&asking, &with, false)]
    {
        let before = server.stdout();
        swaks(&site, "ESMTP", service.address, "by swaks", is_tls);
        let url = format!("smtp://localhost:{}", service.address.port());
        let ca = site.ca().display().to_string();
        let tls = ["--ssl-reqd", "--cacert", &ca];
        let mail = ["--mail-from", "bob@example", "--mail-rcpt", "ann@example"];
        let sent = curl().url(&url).args(&mail).args(&["--upload-file", &message]);
        sent.args(if is_tls { &tls } else { &[] }).run().success();
        until("both messages", || {
            let said = server.stdout();
            let new = said.strip_prefix(&before)?;
            (new.contains("Subject: by swaks") && new.contains("Subject: by curl")).then_some(())
        });
    }
}

#[test]
fn an_ftp_server_without_tls_gets_clients_with_it() {
    let site = Site::new();
    let (server, _file) = pyftpdlib();
    let services = pair(&site, "ftp", server.address);
    let lariat = lariat(&services);
    let file = site.write("up", "upwards").display().to_string();
    for (service, is_tls) in services.iter().zip([true, false]) {
        let url = |name: &str| format!("ftp://localhost:{}/{name}", service.address.port());
        let control = ["--ftp-ssl-control"];
        let curl = |name: &str| {
            let ca = site.ca().display().to_string();
            let curl = curl().url(&url(name)).args(&["--user", "ann:secret", "--cacert", &ca]);
            curl.args(if is_tls { &control } else { &[] })
        };
        assert_eq!(curl("file").run().success(), "hello by ftp");
        curl("up").args(&["--upload-file", &file]).run().success();
        assert_eq!(curl("up").run().success(), "upwards");
        let line = lariat.wait_for_line(&[if is_tls { "ftp-front" } else { "ftp-client" }]);
        assert_eq!(line["fault"], "none", "{line}");
    }
}

/// The head of a stream, and the login of `ann`.
pub(super) const STREAM: &str = "<stream:stream to='localhost' xmlns='jabber:client' \
                      xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";
pub(super) const LOGIN: &str = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>\
                     AGFubgBzZWNyZXQ=</auth>";

/// Sends this in plaintext, and waits after each for an answer; returns all answers.
fn talk_plainly(address: SocketAddr, dialog: &[(&str, &str)]) -> String {
    let mut client = tcp(address);
    let mut said = String::new();
    for (words, end) in dialog {
        client.write_all(words.as_bytes()).unwrap();
        let mut room = [0; 4096];
        while !said.contains(end) {
            let count = client.read(&mut room).unwrap();
            assert_ne!(count, 0, "it ended after {said}");
            said.push_str(&String::from_utf8_lossy(&room[..count]));
        }
    }
    said
}

#[test]
fn prosody_without_tls_gets_clients_with_it_and_one_with_tls_those_without() {
    let site = Site::new();
    let (without, with) = (prosody(None), prosody(Some(&site)));
    let [front, client] = pair(&site, "xmpp", without.address);
    let asking = service(&site, "asking", with.address).asking("xmpp", &site.ca()).mode("off");
    let _lariat = lariat([&front, &client, &asking]);
    // Both with Prosody's own TLS and with Lariat's.
    for address in [with.address, front.address] {
        let arguments = ["-starttls", "xmpp", "-xmpphost", "localhost"];
        let arguments = [&arguments[..], &["-verify_return_error"]].concat();
        let mut talk = Talk::start(&site, address, &arguments);
        talk.say(STREAM);
        talk.wait_for("<mechanism>PLAIN</mechanism>", 1);
        talk.say(LOGIN);
        talk.wait_for("<success", 1);
        talk.end();
    }
    for address in [client.address, asking.address] {
        let said = talk_plainly(address, &[(STREAM, "</stream:features>"), (LOGIN, "<success")]);
        assert!(!said.contains("<starttls"), "{said}");
    }
}

/// Dialog in which `ann` reads an article.
const READ: &[(&str, &str)] = &[
    ("", "201 news.example.test"),
    ("CAPABILITIES\r\n", "\r\n.\r\n"),
    ("AUTHINFO USER ann\r\n", "381 "),
    ("AUTHINFO PASS secret\r\n", "281 "),
    ("GROUP example.test\r\n", "211 1 1 1 example.test"),
    ("BODY 1\r\n", "hello by INN\r\n.\r\n"),
];

#[test]
fn inn_without_tls_gets_clients_with_it_and_one_with_tls_those_without() {
    let site = Site::new();
    let (without, with) = (inn(None), inn(Some(&site)));
    let [front, client] = pair(&site, "nntp", without.address);
    let asking = service(&site, "asking", with.address).asking("nntp", &site.ca()).mode("off");
    let lariat = lariat([&front, &client, &asking]);
    // Both with INN's own TLS and with Lariat's.
    for address in [with.address, front.address] {
        let arguments = ["-starttls", "nntp", "-crlf", "-verify_return_error"];
        let mut talk = Talk::start(&site, address, &arguments);
        for (words, answer) in &READ[2..] {
            talk.say(words.trim_end());
            talk.wait_for(answer.trim_end().lines().next().unwrap(), 1);
        }
        talk.end();
    }
    // Behind a greeting of Lariat's own.
    let own = [&[("", "200 Ready\r\n")], &READ[1..]].concat();
    for address in [client.address, asking.address] {
        let said = talk_plainly(address, &own);
        assert!(!said.contains("STARTTLS"), "{said}");
    }
    // INN without Lariat, and Lariat before the one that asks for nothing.
    talk_plainly(with.address, &[READ[0], (READ[2].0, "483 ")]);
    let said = talk_plainly(front.address, &[READ[0], READ[1], (READ[2].0, "483 ")]);
    assert!(said.contains("STARTTLS") && !said.contains("AUTHINFO"), "{said}");
    lariat.wait_for_line(&["starttls-required"]);
}
