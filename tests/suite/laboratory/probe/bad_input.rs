//! Servers that speak no TLS, or break it: a finding with its reason within the time limit.

use std::io;
use std::sync::{Arc, Mutex};

use suite::prelude::*;
use suite::probe::{self, BRIEF, NOT_PROBED, report};
use suite::scripted::{self, answer, pass_on};

/// Returns the kind and the text of the trouble at the only address.
fn trouble(address: SocketAddr) -> (String, String) {
    probe::trouble(&report(BRIEF, address, &[]))
}

#[test]
fn other_protocols_are_named() {
    for (greeting, words) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "HTTP"),
        (b"220 mail.example ESMTP\r\n", "SMTP without TLS, did you mean --starttls smtp?"),
        (b"J\0\0\0\x0a8.0.36\0", "did you mean --starttls mysql?"),
        (b"* OK IMAP4rev1 ready\r\n", "did you mean --starttls imap?"),
        (b"SSH-2.0-x\r\n", "SSH"),
        (b"220 (vsFTPd 3.0.3)\r\n", "did you mean --starttls ftp?"),
        (b"+OK ready\r\n", "did you mean --starttls pop3?"),
        (b"200 news ready\r\n", "did you mean --starttls nntp?"),
        (b"\"IMPLEMENTATION\" \"x\"\r\nOK\r\n", "did you mean --starttls sieve?"),
        (b"<?xml version='1.0'?><stream:stream>", "did you mean --starttls xmpp?"),
        (b"EFATAL:  unsupported\0", "did you mean --starttls postgres?"),
        (b"\x01\x02\x03\x04\x05", "begins with the bytes 01 02 03"),
    ] {
        let (kind, text) = trouble(answer(greeting));
        assert_eq!(kind, "not-tls", "{text}");
        assert_has(text, words);
    }
}

#[test]
fn a_full_backlog_and_no_listener_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Nobody accepts: the kernel's queue fills, and then it drops.
    let mut queued = Vec::new();
    let limit = Duration::from_millis(300);
    while let Ok(stream) = TcpStream::connect_timeout(&address, limit) {
        queued.push(stream);
        assert!(queued.len() < 10_000, "the backlog never fills");
    }
    assert_eq!(trouble(address).0, "connect-timeout");
    assert_eq!(trouble(free_address()).0, "connect");
}

#[test]
fn expectations_and_slips_have_exit_codes() {
    let site = Site::new();
    let expect = |text: &str| {
        fs::write(site.path("expect.toml"), text).unwrap();
        let mut command = lab::command();
        command.args(["probe", &free_address().to_string(), "--expect"]);
        run(command.arg(site.path("expect.toml")))
    };
    let unmet = expect("speaks-tls = true");
    unmet.assert_fails(7, &["speaks-tls is false, expected: true"]);
    // As it is pasted from a browser.
    let mut pasted = lab::command();
    pasted.args(["probe", &format!("https://{}/page", free_address())]);
    assert_has(run(&mut pasted).ended(&[NOT_PROBED]), "fault: unreachable");
    run(pasted.args(["--fail-on", "fault"])).ended(&[8]);
    let unmet = expect("modern.version = 'TLSv1.3'");
    unmet.assert_stderr("modern.version is not known (no connection: ");
    let slip = expect("faults = { not = ['certificate-expird'] }");
    slip.assert_fails(2, &["did you mean `certificate-expired`?"]);
    // An expectation that holds decides.
    assert_eq!(expect("speaks-tls = false\nfaults = ['unreachable']").code(), 0);
    let slip = expect("[certificate]\ndays-lfet = 3");
    slip.assert_fails(2, &["expect.toml:2:1", "did you mean `certificate.days-left`?"]);
    let none = site.write("none.pem", "no PEM");
    let roots = run(lab::command().args(["probe", "127.0.0.1:1", "--ca"]).arg(none));
    roots.assert_fails(2, &["none.pem holds no certificate"]);
    let empty = expect("# nothing");
    empty.assert_fails(2, &["expect.toml expects nothing"]);
    let facts = run(lab::command().args(["probe", "--facts"])).success();
    for listed in ["resumption.psk-single-use", "fault: Clients refuse it."] {
        assert_has(&facts, listed);
    }
}

/// Starts a mail server that has TLS: after the dialog, bytes go to the TLS server.
fn mail_server(tls: SocketAddr) -> SocketAddr {
    scripted::serve(move |stream| {
        let mut say = |words: &str| {
            let _gone = stream.write_all(words.as_bytes());
            let mut line = [0; 512];
            stream.read(&mut line).unwrap_or(0)
        };
        if say("220 localhost ESMTP\r\n") > 0 && say("250-localhost\r\n250 STARTTLS\r\n") > 0 {
            let _gone = stream.write_all(b"220 go ahead\r\n");
            pass_on(stream, tls, |server, client| io::copy(server, client).map(drop));
        }
    })
}

/// As servers do against spam: it is silent for longer than a connection may take, and then learns
/// the client's name.
#[test]
fn a_server_may_greet_late_and_is_told_a_name() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let mail = scripted::serve(move |stream| {
        let pause = Some(Duration::from_millis(300));
        stream.set_read_timeout(pause).unwrap();
        assert!(stream.read(&mut [0]).is_err(), "the client waits");
        stream.set_read_timeout(None).unwrap();
        let _gone = stream.write_all(b"220 mx\r\n");
        let mut line = [0; 512];
        let count = stream.read(&mut line).unwrap_or(0);
        heard.lock().unwrap().push(String::from_utf8_lossy(&line[..count]).into_owned());
        let _gone = stream.write_all(b"250 mx\r\n");
    });
    for (more, wanted) in
        [(&[][..], None), (&["--ehlo-name", "mx.example"], Some("EHLO mx.example\r\n"))]
    {
        let report = report("100ms", mail, &[&["--starttls", "smtp"], more].concat());
        assert_has(probe::trouble(&report).1, "offers no STARTTLS");
        let said = told.lock().unwrap().pop().unwrap();
        let is_named = said.contains('.') || said.starts_with("EHLO [");
        assert!(is_named && wanted.is_none_or(|wanted| wanted == said), "{said}");
    }
    let load = Load::of(mail).args("--no-request --count 2 --timeout 100ms --starttls smtp");
    let record = load.args("--ehlo-name mx.example").run().record();
    assert!(record.failures().keys().eq(["starttls-failed"]), "{record:?}");
    assert_eq!(told.lock().unwrap().pop().unwrap(), "EHLO mx.example\r\n");
}

#[test]
fn tls_is_asked_for_in_words_of_the_protocol() {
    let (_site, _server, service, _lariat) = serve(Behaviour::Http("ok".into()));
    let mail = mail_server(service.address);
    assert_has(trouble(mail).1, "did you mean --starttls smtp?");
    let flags = ["--starttls", "smtp", "--greeting-timeout", "10ms"];
    let silent = report(BRIEF, service.address, &flags);
    assert_has(probe::trouble(&silent).1, "as no greeting came: TLS may begin there at once");
    let report = report(BRIEF, mail, &["--starttls", "smtp"]);
    let node = &report["nodes"][0];
    assert_eq!(node["trouble"], Value::Null, "{report}");
    assert_eq!(node["clients"][0]["version"], "TLSv1.3");
    let resumed = report["resumption"].as_array().unwrap().iter();
    assert!(resumed.clone().all(|one| one["resumed"] == 2), "{report}");
}
