//! The change from plaintext to TLS: nothing of a server's plaintext is kept over its TLS, and
//! under TLS nothing is too long.

use wire::starttls::{Dialect, Dialog, DialogAction, Output, Policy, StarttlsSides};

use crate::script::{NAMES, play};

const BACK: StarttlsSides = StarttlsSides { front: None, back: true };
const BOTH: StarttlsSides = StarttlsSides { front: Some(Policy::Required), back: true };
const REQUIRED: StarttlsSides = StarttlsSides { front: Some(Policy::Required), back: false };

/// Words of a server before its TLS, piece by piece, with a mark in all that could be kept.
const MARKED: &[(&str, &[&str])] = &[
    ("smtp", &["220-MARK\r\n220 MARK ESMTP\r\n", "250-MARK\r\n250 STARTTLS\r\n", "220 MARK\r\n"]),
    ("lmtp", &["220 MARK\r\n", "250-MARK\r\n250 STARTTLS\r\n", "220 MARK\r\n"]),
    (
        "imap",
        &[
            "* OK [CAPABILITY MARK AUTH=MARK] [ALERT] MARK\r\n",
            "* CAPABILITY MARK\r\n* BYE MARK\r\nstarttls OK [ALERT] MARK\r\n",
        ],
    ),
    ("pop3", &["+OK <MARK@MARK>\r\n", "+OK MARK\r\n"]),
    ("ftp", &["120 MARK\r\n220-MARK\r\n250 MARK\r\n220 MARK\r\n", "234 MARK\r\n"]),
    ("sieve", &["\"SASL\" \"MARK\"\r\n\"STARTTLS\"\r\nOK \"MARK\"\r\n", "OK \"MARK\"\r\n"]),
    ("nntp", &["201 MARK\r\n", "382 MARK\r\n"]),
    ("ldap", &["\x30\x10\x02\x01\x01\x78\x0b\x0a\x01\x00\x04\x00\x04\x04MARK"]),
    (
        "xmpp",
        &[
            "<stream:stream id='MARK' from='MARK'><stream:features><starttls \
             xmlns='urn:ietf:params:xml:ns:xmpp-tls'/><MARK/></stream:features>",
            "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>",
        ],
    ),
];

fn dialect_of(name: &str) -> Dialect {
    let mut all = Dialect::ALL.iter();
    let found = all.find(|(one, _)| *one == name);
    found.expect("a name of a dialect").1
}

fn is_marked(bytes: &[u8]) -> bool {
    bytes.windows(4).any(|part| part == b"MARK")
}

#[test]
fn nothing_of_a_server_s_plaintext_reaches_client_or_server_under_tls() {
    for (name, pieces) in MARKED {
        for sides in [BACK, BOTH] {
            let mut dialog = Dialog::new(dialect_of(name), sides, NAMES);
            let mut outs = vec![dialog.server_connected()];
            outs.extend(pieces.iter().map(|one| dialog.server_sent(one.as_bytes())));
            let last = outs.last().map(|out| &out.next);
            assert_eq!(last, Some(&DialogAction::StartServerTls), "{name} {sides:?}");
            let told =
                outs.iter().any(|out| is_marked(&out.to_client) || is_marked(&out.to_server));
            assert!(!told, "{name} {sides:?}: {outs:?}");
            let up = dialog.server_tls_up();
            let mut all = vec![up.to_client, up.to_server];
            if up.next == DialogAction::More {
                let Output { to_client, to_server, .. } = dialog.client_sent(b"x\r\n");
                all.extend([to_client, to_server]);
            }
            assert!(!all.iter().any(|one| is_marked(one)), "{name} {sides:?}: {all:?}");
        }
    }
}

#[test]
fn a_mail_server_s_reply_has_one_code() {
    let asked = "S> 220 x\nS< EHLO own.example\n";
    for (before, lines) in [
        ("", "S> 220-x\nS> 250-mx"),
        ("", "S> 220-x\nS> +OK"),
        ("", "S> 220-x\nS> 220_y"),
        (asked, "S> 250-mx\nS> 220 go"),
        (asked, "S> 250-mx\nS> 250-STARTTLS\nS> 25"),
    ] {
        let fault = "fail: the server sent a reply whose lines have several codes";
        play(Dialect::Smtp, BACK, &format!("{before}{lines}\n= {fault}"));
    }
    // Other protocols allow it (RFC 959 section 4.2).
    play(Dialect::Ftp, BACK, "S> 220-x\nS> 331 y\nS> 220 z\nS< AUTH TLS");
}

#[test]
fn what_some_clients_take_for_two_lines_of_a_server_is_none() {
    for (dialect, greeting) in [
        (Dialect::Smtp, "220 x\\x0d250 y"),
        (Dialect::Lmtp, "220 x\\x00"),
        (Dialect::Imap, "* OK x\\x0d* PREAUTH"),
        (Dialect::Pop3, "+OK\\x0d+OK"),
        (Dialect::Ftp, "220 x\\x0d"),
        (Dialect::Sieve, "\"SASL\\x00\""),
        (Dialect::Nntp, "200 x\\x0d\\x0d"),
    ] {
        let script = format!("S> {greeting}\n= fail: the server sent a CR or NUL within a line");
        play(dialect, BACK, &script);
    }
    // Lines that end with LF alone are complete, as they are to most clients.
    play(
        Dialect::Pop3,
        BACK,
        "S> +OK x\\x0a\\\nS< STLS\nS> +OK\\x0a\\\n= StartServerTls\nC< +OK Ready\n= Relay",
    );
}

/// RFC 4954 section 4 has 12,288 octets for a login, servers of IMAP accept 64 KiB.
#[test]
fn lines_of_any_length_pass_under_tls() {
    let (token, literal) = ("x".repeat(12 << 10), "y".repeat(64 << 10));
    for (dialect, greeting, line) in [
        (Dialect::Smtp, "220 x", format!("AUTH XOAUTH2 {token}")),
        (Dialect::Pop3, "+OK x", format!("AUTH XOAUTH2 {token}")),
        (Dialect::Imap, "* OK x", format!("a AUTHENTICATE XOAUTH2 {literal}")),
        (Dialect::Sieve, "OK", format!("AUTHENTICATE \"XOAUTH2\" \"{literal}\"")),
    ] {
        let mut dialog = Dialog::new(dialect, REQUIRED, NAMES);
        dialog.server_sent(format!("{greeting}\r\n").as_bytes());
        dialog.client_tls_up();
        dialog.server_sent(b"OK\r\n");
        let line = line + "\r\n";
        let mut passed = Vec::new();
        let mut pieces = line.as_bytes().chunks(1000);
        for piece in pieces.by_ref() {
            let out = dialog.client_sent(piece);
            passed.extend(out.to_server);
            if out.next == DialogAction::Relay {
                break;
            }
            assert_eq!(out.next, DialogAction::More, "{dialect:?}");
        }
        passed.extend(pieces.flatten());
        assert!(passed == line.as_bytes(), "{dialect:?}: {} bytes", passed.len());
    }
}

#[test]
fn what_waits_for_a_reply_under_tls_passes_where_it_grows_too_long() {
    let mut dialog = Dialog::new(Dialect::Imap, REQUIRED, NAMES);
    dialog.server_sent(b"* OK x\r\n");
    dialog.client_tls_up();
    let (first, long) =
        (b"a NOOP\r\n", [&b"b APPEND x {99999+}\r\n"[..], &[b'z'; 99_999]].concat());
    assert_eq!(dialog.client_sent(first).to_server, first);
    let out = dialog.client_sent(&long);
    assert_eq!((out.to_server == long, out.next), (true, DialogAction::Relay));

    let mut dialog = Dialog::new(Dialect::Pop3, REQUIRED, NAMES);
    dialog.server_sent(b"+OK x\r\n");
    dialog.client_tls_up();
    dialog.client_sent(b"CAPA\r\n");
    let long = [&b"+OK\r\n"[..], &[b'z'; 9000]].concat();
    let out = dialog.server_sent(&long);
    assert_eq!((out.to_client == long, out.next), (true, DialogAction::Relay));
}
