//! Endless words of either side, before TLS and under it: refused by a limit, or passed on and not
//! kept.

use wire::starttls::{Dialect, Dialog, DialogAction, Fault, Policy, StarttlsSides};

use crate::script::{NAMES, unescaped};

const REQUIRED: StarttlsSides = sides(Some(Policy::Required), false);
const OPTIONAL: StarttlsSides = sides(Some(Policy::Optional), false);
const BACK: StarttlsSides = sides(None, true);
const BOTH: StarttlsSides = sides(Some(Policy::Required), true);

const fn sides(front: Option<Policy>, back: bool) -> StarttlsSides {
    StarttlsSides { front, back }
}

fn two(words: &str) -> (&str, &str) {
    words.split_once(' ').expect("a word and more")
}

/// Makes a conversation that has come as far as these lines, in the form of a script.
fn started(words: &str, lines: &[&str]) -> Dialog {
    let (dialect, sides) = two(words);
    let mut all = Dialect::ALL.iter();
    let (_, dialect) = all.find(|(name, _)| *name == dialect).expect("a name of a dialect");
    let sides = match sides {
        "required" => REQUIRED,
        "optional" => OPTIONAL,
        "both" => BOTH,
        _ => BACK,
    };
    let mut dialog = Dialog::new(*dialect, sides, NAMES);
    dialog.server_connected();
    for line in lines {
        let (kind, text) = two(line);
        let out = match kind {
            "C>" => dialog.client_sent(&unescaped(text)),
            "S>" => dialog.server_sent(&unescaped(text)),
            _ if text == "client" => dialog.client_tls_up(),
            _ => dialog.server_tls_up(),
        };
        let is_open = !matches!(out.next, DialogAction::Fail(_) | DialogAction::Relay);
        assert!(is_open, "{words} {line}: {out:?}");
    }
    dialog
}

/// Sends the same bytes again and again, which must be refused after at most this many bytes, and
/// the client must be sent these words, or nothing (`-`). Returns the fault.
fn refused(row: &str) -> Fault {
    let fields: Vec<_> = row.trim().split("; ").collect();
    let [words, before @ .., again, bytes_max, last] = &fields[..] else {
        panic!("{row}");
    };
    let mut dialog = started(words, before);
    let (kind, piece) = two(again);
    let piece = unescaped(piece);
    let mut told = Vec::new();
    let pieces_max = bytes_max.parse::<usize>().expect("a number") / piece.len() + 2;
    for _ in 0..pieces_max {
        let out = match kind {
            "C>" => dialog.client_sent(&piece),
            _ => dialog.server_sent(&piece),
        };
        told.extend(out.to_client);
        if let DialogAction::Fail(fault) = out.next {
            let told = String::from_utf8_lossy(&told);
            let is_told = told.contains(last) || told.is_empty() && *last == "-";
            assert!(is_told, "{row}: {told}");
            return fault;
        }
        assert_eq!(out.next, DialogAction::More, "{row}");
    }
    panic!("{row}: no end after {pieces_max} pieces");
}

/// Greetings; replies that are passed on, unrequested, or rewritten, before TLS and under it;
/// answers to our own requests, before a client listens.
const SERVERS: &str = r"
    smtp required; S> 220-x; 65536; 421 4.3.2 No server
    smtp required; S> 220 x\; 8192; 421 4.3.2 No server
    ftp required; S> 120 x; 65536; 421 No server
    sieve required; S> 'A'; 65536; BYE (TRYLATER)
    mysql required; S> \xff\xff\xff\x00\; 4; Malformed communication packet
    smtp required; S> 220 x; C> NOOP; S> 250-x; 65536; 421 4.3.2 No server
    imap required; S> * OK x; C> a NOOP; S> * x; 65536; * BYE [UNAVAILABLE] No server
    nntp required; S> 200 x; C> HELP; S> 100 x; S> x; 65536; 400 No server
    imap optional; S> * OK x; S> * x; 65536; * BYE [UNAVAILABLE] No server
    smtp required; S> 220 x; C> EHLO x; S> 250-x; 65536; 421 4.3.2 No server
    ftp required; S> 220 x; = client; C> FEAT; S> 211-x; 65536; 421 No server
    sieve both; S> OK; S> OK; = server; S> 'A'; 65536; BYE (TRYLATER)
    smtp back; S> 220-x; 65536; -
    smtp back; S> 220 x; S> 250-x; 65536; -
    imap back; S> * OK x; S> * x; 65536; -
    mysql back; S> \xff\xff\xff\x00\; 4; -
    postgres back; S> E\x7f\; 8192; -
    ldap back; S> \x30\x83\x01\x00\x00\x02\; 65541; -
    xmpp back; S> <stream:features>\; 16384; -
";

#[test]
fn servers_without_end_are_refused_and_their_clients_are_told() {
    for row in SERVERS.trim().lines() {
        let fault = refused(row);
        assert!(fault.is_of_server(), "{row}: {fault}");
    }
}

/// Lines; commands for a server that does not answer, and refused ones; binary heads.
const CLIENTS: &str = r"
    smtp optional; S> 220 x; C> x\; 8192; 554 5.5.0
    lmtp optional; S> 220 x; C> x\; 8192; 554 5.5.0
    imap optional; S> * OK x; C> x\; 8192; * BYE The client sent
    pop3 optional; S> +OK x; C> x\; 8192; -ERR [SYS/PERM]
    ftp optional; S> 220 x; C> x\; 8192; 421 The client sent
    sieve optional; S> OK x; C> x\; 8192; BYE 
    nntp optional; S> 200 x; C> x\; 8192; 400 The client sent
    smtp optional; C> NOOP; 65536; 554 5.5.0
    smtp back; C> NOOP; 65536; 554 5.5.0
    imap required; S> * OK x; C> a LOGIN ann secret; 198; a NO [PRIVACYREQUIRED]
    imap required; S> * OK x; C> a ID ('name' {4+}; 65536; * BYE The client sent a command
    postgres required; C> \x00\x00\x27\x10\x04\xd2\x16\x2e\; 268; invalid length of cancel
    postgres optional; C> \x00\x00\x27\x11\; 4; invalid length of startup packet
    ldap required; C> \x30\x83\x01\x00\x00\x02\; 65541; 1.3.6.1.4.1.1466.20036
    ldap required; C> \x30\x05\x02\x01\x03\x63\x00\; 77; use StartTLS first
    xmpp required; C> <stream:stream \; 16384; not-well-formed
    xmpp required; C> <?x?>\; 16384; not-well-formed";

#[test]
fn clients_without_end_are_refused_in_words_of_their_protocol() {
    for row in CLIENTS.trim().lines() {
        let fault = refused(row);
        assert!(!fault.is_of_server(), "{row}: {fault}");
    }
}

#[test]
fn a_client_that_never_asks_for_tls_has_so_many_commands() {
    for row in [
        "smtp required; S> 220 x; C> NOOP; S> 250 x; 554 5.5.0",
        "smtp optional; S> 220 x; C> EHLO x; S> 250 x; 554 5.5.0",
        "lmtp required; S> 220 x; C> RSET; S> 250 x; 554 5.5.0",
        "imap required; S> * OK x; C> a NOOP; S> a OK x; * BYE The client sent",
        "pop3 required; S> +OK x; C> NOOP; S> +OK x; -ERR [SYS/PERM]",
        "ftp required; S> 220 x; C> HELP; S> 214 x; 421 The client sent",
        "ftp optional; S> 220 x; C> STAT; S> 211 x; 421 The client sent",
        "sieve required; S> OK; C> NOOP; S> OK; BYE ",
        "nntp required; S> 200 x; C> DATE; S> 111 x; 400 The client sent",
    ] {
        let fields: Vec<_> = row.split("; ").collect();
        let [words, greeting, again, reply, last] = fields[..] else {
            panic!("{row}");
        };
        let mut dialog = started(words, &[greeting]);
        let [again, reply] = [again, reply].map(|line| unescaped(two(line).1));
        for _ in 0..100 {
            assert_eq!(dialog.client_sent(&again).next, DialogAction::More, "{row}");
            assert_eq!(dialog.server_sent(&reply).next, DialogAction::More, "{row}");
        }
        let out = dialog.client_sent(&again);
        let told = String::from_utf8_lossy(&out.to_client);
        assert!(told.starts_with(last) && out.to_server.is_empty(), "{row}: {told}");
        assert!(matches!(out.next, DialogAction::Fail(Fault::ClientMalformed(_))), "{row}");
    }
}

#[test]
fn replies_under_tls_that_nothing_is_rewritten_in_are_passed_on() {
    for row in [
        "smtp required; S> 220 x; = client; C> NOOP; 250-x",
        "imap required; S> * OK x; = client; C> a NOOP; * x",
        "ftp required; S> 220 x; = client; C> STAT; 211-x",
        "postgres required; = client; x",
    ] {
        let fields: Vec<_> = row.split("; ").collect();
        let [words, before @ .., again] = &fields[..] else {
            panic!("{row}");
        };
        let (mut dialog, piece) = (started(words, before), unescaped(again));
        for _ in 0..100_000 {
            let out = dialog.server_sent(&piece);
            assert_eq!((out.to_client, out.next), (piece.clone(), DialogAction::More), "{row}");
        }
    }
}

#[test]
fn a_client_that_asks_for_more_answers_than_it_reads_is_refused() {
    for (dialect, greeting, again) in
        [(Dialect::Smtp, "220 x\r\n", "STARTTLS\r\n"), (Dialect::Ftp, "220 x\r\n", "PROT P\r\n")]
    {
        let mut dialog = Dialog::new(dialect, REQUIRED, NAMES);
        dialog.server_sent(greeting.as_bytes());
        dialog.client_tls_up();
        let out = dialog.client_sent(again.repeat(500).as_bytes());
        assert_eq!(out.next, DialogAction::More, "{dialect:?}");
        let out = dialog.client_sent(again.repeat(50_000).as_bytes());
        let is_refused = matches!(out.next, DialogAction::Fail(Fault::ClientMalformed(_)));
        assert!(is_refused && out.to_client.len() < 70_000, "{dialect:?}");
    }
}

#[test]
fn a_server_whose_notices_have_no_end_is_watched_for_its_offer_no_more() {
    let mut dialog = Dialog::new(Dialect::Postgres, sides(None, true), NAMES);
    dialog.server_connected();
    dialog.server_sent(b"S");
    dialog.server_tls_up();
    dialog.client_sent(b"\x00\x00\x00\x08\x00\x03\x00\x00");
    let notices = b"N\x00\x00\x00\x04".repeat(13_000);
    let out = dialog.server_sent(&notices);
    assert_eq!((out.next, out.to_client == notices), (DialogAction::More, true));
    let out = dialog.server_sent(&notices);
    assert_eq!((out.next, out.to_client == notices), (DialogAction::Relay, true));
}

/// Last words of servers that ended in the middle of them, which the client gets then.
const ENDS: &str = r"
xmpp required; C> <stream:stream>\; C> <starttls/>\; = client; S> <stream:stream><stream:fea\
xmpp back; = server; S> <?xml version='1.0'?><stream:stream>\
postgres back; = server; C> \x00\x00\x00\x08\x00\x03\x00\x00\; S> R\x00\x00\x00\x08\x00\
smtp required; S> 220 x; C> EHLO x; S> 250-x\
smtp required; S> 220 x; = client; C> EHLO x; S> 250-x
lmtp required; S> 220 x; C> LHLO x; S> 250-x
imap required; S> * OK [CAPABILITY IM\
pop3 required; S> +OK x; C> CAPA; S> +OK
ftp required; S> 220 x; C> FEAT; S> 211-x
sieve required; S> 'SIEVE' 'x'
nntp required; S> 200 x; C> CAPABILITIES; S> 101 x
nntp required; S> 200 x; C> CAPABILITIES; S> 500 x\
";

#[test]
fn what_is_held_of_a_server_that_ends_goes_to_the_client() {
    for row in ENDS.trim().lines() {
        let fields: Vec<_> = row.split("; ").collect();
        let [words, before @ .., last] = &fields[..] else {
            panic!("{row}");
        };
        let mut dialog = started(words, before);
        let last = unescaped(last.strip_prefix("S> ").unwrap());
        let mut got = dialog.server_sent(&last).to_client;
        got.extend(dialog.server_ended());
        assert_eq!(got.escape_ascii().to_string(), last.escape_ascii().to_string(), "{row}");
        assert_eq!(dialog.server_ended(), b"", "{row}");
    }
}

#[test]
fn what_a_server_said_before_its_tls_goes_to_no_client() {
    for (name, dialect) in Dialect::ALL {
        let mut dialog = Dialog::new(*dialect, BOTH, NAMES);
        dialog.server_connected();
        dialog.server_sent(if *dialect == Dialect::Ldap { b"0" } else { b"<2" });
        assert_eq!(dialog.server_ended(), b"", "{name}");
    }
}
