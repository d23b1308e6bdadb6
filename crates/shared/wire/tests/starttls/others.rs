//! PostgreSQL, LDAP and XMPP, which have no lines.

use wire::starttls::{
    Dialect, Dialog, DialogAction, Fault, HostNames, Output, Policy, StarttlsSides,
};

use crate::script::{NAMES, play};

const CHAT: HostNames<'static> = HostNames { server: Some("chat.example"), ..NAMES };

const REQUIRED: StarttlsSides = StarttlsSides { front: Some(Policy::Required), back: false };
const OPTIONAL: StarttlsSides = StarttlsSides { front: Some(Policy::Optional), back: false };
const BACK: StarttlsSides = StarttlsSides { front: None, back: true };
const BOTH: StarttlsSides = StarttlsSides { front: Some(Policy::Required), back: true };

const SSL: &str = "\\x00\\x00\\x00\\x08\\x04\\xd2\\x16\\x2f\\";
const GSS: &str = "\\x00\\x00\\x00\\x08\\x04\\xd2\\x16\\x30\\";
const STARTUP: &str = "\\x00\\x00\\x00\\x10\\x00\\x03\\x00\\x00user\\x00\\x00\\x00\\x00\\";

/// Returns bytes in the form of a script.
fn pg(script: &str) -> String {
    let words = [("SSL", SSL), ("GSS", GSS), ("STARTUP", STARTUP)];
    let replaced =
        words.iter().fold(script.to_owned(), |text, (word, bytes)| text.replace(word, bytes));
    replaced.replace("\\\\x", "\\x").replace("\\\\", "\\")
}

#[test]
fn a_client_of_postgresql_gets_tls_and_its_startup_is_passed_on() {
    for sides in [REQUIRED, OPTIONAL] {
        play(
            Dialect::Postgres,
            sides,
            &pg("C> GSS
                 C< N\\
                 C> SSL
                 C< S\\
                 = StartClientTls
                 C> STARTUP
                 S< STARTUP
                 = Relay"),
        );
    }
    play(Dialect::Postgres, OPTIONAL, &pg("C> STARTUP\nS< STARTUP\n= Relay"));
    let mut dialog = Dialog::new(Dialect::Postgres, REQUIRED, NAMES);
    let out = dialog.client_sent(b"\x16\x03\x01\x02");
    assert_eq!(out.next, DialogAction::ClientTlsBegun(b"\x16\x03\x01\x02".to_vec()));
}

/// Makes a request to cancel with a key of `bytes` bytes.
fn cancel(key_bytes: usize) -> Vec<u8> {
    let length = (12 + key_bytes) as u32;
    let head = [&length.to_be_bytes()[..], b"\x04\xd2\x16\x2epid1"].concat();
    [head, vec![b'k'; key_bytes]].concat()
}

#[test]
fn a_request_to_cancel_goes_to_every_server_and_nothing_behind_it() {
    // Protocol 3.2 has keys of up to 256 bytes.
    for (sides, key_bytes) in [REQUIRED, OPTIONAL, BACK, BOTH]
        .into_iter()
        .flat_map(|sides| [4, 32, 256].map(|bytes| (sides, bytes)))
    {
        let request = cancel(key_bytes);
        let begun = || Dialog::new(Dialect::Postgres, sides, NAMES);
        for cut in 0..request.len() {
            let mut dialog = begun();
            let first = dialog.client_sent(&request[..cut]);
            assert_eq!((first.next, first.to_server), (DialogAction::More, vec![]));
            let rest = dialog.client_sent(&request[cut..]);
            assert_eq!(rest.next, DialogAction::Broadcast(request.clone()), "{cut}");
            // The server's answer to it is not for the client.
            for _ in 0..2 {
                let asked = dialog.server_connected();
                assert_eq!(asked.to_server.len(), if sides.back { 8 } else { 0 });
                if sides.back {
                    assert_eq!(dialog.server_sent(b"S").next, DialogAction::StartServerTls);
                    assert_eq!(dialog.server_tls_up().next, DialogAction::More);
                }
                let said = dialog.server_sent(b"E\x00\x00\x00\x05\x00");
                assert_eq!((said.to_client, said.next), (vec![], DialogAction::More));
            }
        }
        let out = begun().client_sent(&[&request[..], b"\x00"].concat());
        assert!(matches!(out.next, DialogAction::Fail(Fault::ClientMalformed(_))));
        for key_bytes in [0, 3, 257] {
            let out = begun().client_sent(&cancel(key_bytes));
            assert!(
                matches!(out.next, DialogAction::Fail(Fault::ClientMalformed(_))),
                "{key_bytes}"
            );
        }
    }
}

/// Makes the server's offer of these mechanisms.
fn offer(names: &[&str]) -> Vec<u8> {
    let names: String = names.iter().map(|name| format!("{name}\0")).collect();
    let length = (4 + 4 + names.len() + 1) as u32;
    let head = [&b"R"[..], &length.to_be_bytes(), b"\0\0\0\x0a"].concat();
    [&head[..], names.as_bytes(), b"\0"].concat()
}

const PLUS: &str = "SCRAM-SHA-256-PLUS";
const STARTUP_BYTES: &[u8] = b"\x00\x00\x00\x0e\x00\x03\x00\x00user\x00\x00";

#[test]
fn a_client_without_tls_is_not_offered_what_only_tls_can_have() {
    let notice = b"N\x00\x00\x00\x08Mhi\x00v\x00\x00\x00\x0c\x00\x03\x00\x00\x00\x00\x00\x00";
    let ready = b"R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05I";
    let other = b"R\x00\x00\x00\x0c\x00\x00\x00\x05salt";
    let rewritten = offer(&["SCRAM-SHA-256"]);
    let unknown = offer(&["SCRAM-SHA-512-PLUS", "OAUTHBEARER"]);
    for (came, went) in [
        (offer(&[PLUS, "SCRAM-SHA-256"]), rewritten.clone()),
        (offer(&["SCRAM-SHA-256", PLUS]), rewritten.clone()),
        (rewritten.clone(), rewritten),
        // No mechanism would be left.
        (offer(&[PLUS]), offer(&[PLUS])),
        (offer(&[]), offer(&[])),
        (unknown.clone(), unknown),
        (other.to_vec(), other.to_vec()),
        (b"E\x00\x00\x00\x08no\0\0".to_vec(), b"E\x00\x00\x00\x08no\0\0".to_vec()),
        // Too long to be an offer, or no message.
        (b"R\x7f\xff\xff\xff".to_vec(), b"R\x7f\xff\xff\xff".to_vec()),
        (b"R\x00\x00\x00\x00x".to_vec(), b"R\x00\x00\x00\x00x".to_vec()),
        (b"N\x00\x00\x00\x03x".to_vec(), b"N\x00\x00\x00\x03x".to_vec()),
    ] {
        let stream = [&notice[..], &came, &ready[..]].concat();
        let expected = [&notice[..], &went, &ready[..]].concat();
        for piece in [1, 7, stream.len()] {
            let mut dialog = Dialog::new(Dialect::Postgres, BACK, NAMES);
            dialog.server_connected();
            dialog.server_sent(b"S");
            dialog.server_tls_up();
            assert_eq!(dialog.client_sent(STARTUP_BYTES).to_server, STARTUP_BYTES);
            let (mut told, mut is_over) = (Vec::new(), false);
            for bytes in stream.chunks(piece) {
                if is_over {
                    told.extend_from_slice(bytes);
                    continue;
                }
                let out = dialog.server_sent(bytes);
                told.extend(out.to_client);
                is_over = out.next == DialogAction::Relay;
            }
            assert!(is_over, "{came:?}");
            assert_eq!(told, expected, "{piece}");
        }
    }
}

#[test]
fn a_login_that_is_bound_to_another_certificate_is_refused_with_the_remedy() {
    let choice = |name: &str, more: &[u8]| {
        let body = [name.as_bytes(), b"\0", more].concat();
        let length = (4 + body.len()) as u32;
        [&b"p"[..], &length.to_be_bytes(), &body].concat()
    };
    let initial = b"\x00\x00\x00\x05p=tls";
    let login = |first: &[u8], piece: usize, is_other: bool| {
        let mut dialog = Dialog::new(Dialect::Postgres, REQUIRED, NAMES);
        // The server has TLS from the first byte, which it need not be asked for.
        dialog.server_is_secured();
        assert_eq!(dialog.client_tls_up().next, DialogAction::More);
        if is_other {
            dialog.server_has_other_certificate();
        }
        let stream = [STARTUP_BYTES, first, b"more"].concat();
        let (mut sent, mut told) = (Vec::new(), Vec::new());
        for (index, bytes) in stream.chunks(piece).enumerate() {
            let out = dialog.client_sent(bytes);
            sent.extend(out.to_server);
            told.extend(out.to_client);
            if out.next != DialogAction::More {
                let rest = stream.chunks(piece).skip(index + 1).flatten();
                let is_relayed = out.next == DialogAction::Relay;
                sent.extend(rest.filter(|_| is_relayed));
                return (sent, told, out.next);
            }
        }
        (sent, told, DialogAction::More)
    };
    for piece in [1, 5, 19, 1000] {
        for (first, is_bound) in [
            (choice(PLUS, initial), true),
            (choice("SCRAM-SHA-256", initial), false),
            // Passwords, one of which looks like a mechanism.
            (choice(PLUS, b""), false),
            (choice("SCRAM", b""), false),
            (choice("", b""), false),
            (b"Q\x00\x00\x00\x0dSELECT 1\0".to_vec(), false),
        ] {
            for is_other in [true, false] {
                let (sent, told, next) = login(&first, piece, is_other);
                if is_bound && is_other {
                    assert_eq!(next, DialogAction::Fail(Fault::BoundElsewhere));
                    let length = told.get(1..5).unwrap().iter();
                    let length = length.fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                    assert_eq!(length, told.len() - 1);
                    let told = String::from_utf8_lossy(&told);
                    assert!(told.starts_with('E') && told.contains("channel_binding=disable"));
                    assert!(sent.len() < STARTUP_BYTES.len() + first.len(), "{sent:?}");
                } else {
                    assert_eq!((&*told, next), (&b""[..], DialogAction::Relay), "{first:?}");
                    assert_eq!(sent, [STARTUP_BYTES, &first, b"more"].concat());
                }
            }
        }
    }
}

#[test]
fn a_client_of_postgresql_that_does_not_fit_gets_an_error_of_its_protocol() {
    let answer = |sides, bytes: &[&[u8]]| {
        let mut dialog = Dialog::new(Dialect::Postgres, sides, NAMES);
        let outs: Vec<_> = bytes.iter().map(|one| dialog.client_sent(one)).collect();
        let last = outs.into_iter().next_back().unwrap();
        let length = last
            .to_client
            .get(1..5)
            .map(|one| one.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)));
        assert_eq!(length, Some(last.to_client.len() - 1), "{last:?}");
        assert!(last.to_client.starts_with(b"E"), "{last:?}");
        let text = String::from_utf8_lossy(&last.to_client).into_owned();
        (text, last.next)
    };
    let ssl = b"\x00\x00\x00\x08\x04\xd2\x16\x2f";
    let startup = b"\x00\x00\x00\x09\x00\x03\x00\x00\x00";
    let (text, next) = answer(REQUIRED, &[startup]);
    assert!(text.contains("C28000") && next == DialogAction::Fail(Fault::TlsRequired), "{text}");
    let (_, next) = answer(REQUIRED, &[&[&ssl[..], startup].concat()]);
    assert_eq!(next, DialogAction::Fail(Fault::Injection(9)));
    let long = [b"\x00\x00\x00\x0c\x04\xd2\x16\x2f", b"\x00\x00\x00\x0c\x04\xd2\x16\x30"];
    for bytes in [&b"\x00\x00\x00\x04"[..], b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n"]
        .into_iter()
        .chain(long.map(|one| &one[..]))
    {
        let (_, next) = answer(OPTIONAL, &[bytes]);
        assert!(matches!(next, DialogAction::Fail(Fault::ClientMalformed(_))), "{bytes:?}");
    }
    for (protocol, is_served) in
        [(Some(&b"postgresql"[..]), true), (Some(b"h2"), false), (None, false)]
    {
        let mut dialog = Dialog::new(Dialect::Postgres, OPTIONAL, NAMES);
        let begun = dialog.client_sent(b"\x16\x03\x01").next;
        assert!(matches!(begun, DialogAction::ClientTlsBegun(_)), "{begun:?}");
        dialog.client_agreed(protocol);
        let is_refused = matches!(dialog.client_tls_up().next, DialogAction::Fail(_));
        assert_ne!(is_refused, is_served, "{protocol:?}");
    }
    let mut dialog = Dialog::new(Dialect::Postgres, REQUIRED, NAMES);
    assert_eq!(dialog.client_sent(ssl).next, DialogAction::StartClientTls);
    // A client that asks for TLS need not name its protocol.
    dialog.client_agreed(None);
    assert_eq!(dialog.client_tls_up().next, DialogAction::More);
    assert!(matches!(dialog.client_sent(ssl).next, DialogAction::Fail(Fault::ClientMalformed(_))));
}

#[test]
fn a_server_of_postgresql_is_asked_before_the_client_s_startup() {
    let asked = |answer: &[u8]| {
        let mut dialog = Dialog::new(Dialect::Postgres, BACK, NAMES);
        // A client may ask for TLS even if the front has none.
        assert_eq!(dialog.client_sent(b"\x00\x00\x00\x08\x04\xd2\x16\x2f").to_client, b"N");
        assert_eq!(dialog.server_connected().to_server, b"\x00\x00\x00\x08\x04\xd2\x16\x2f");
        let next = dialog.server_sent(answer).next;
        (dialog, next)
    };
    let (mut dialog, next) = asked(b"S");
    assert_eq!(next, DialogAction::StartServerTls);
    dialog.server_tls_up();
    let out = dialog.client_sent(b"\x00\x00\x00\x09\x00\x03\x00\x00\x00");
    assert_eq!((out.to_server.len(), out.next), (9, DialogAction::More));
    assert_eq!(dialog.server_sent(b"Z").next, DialogAction::Relay);
    for (answer, words) in [
        (&b"N"[..], "the server offers no TLS"),
        (b"Sx", "the server sent bytes behind its answer to the request for TLS"),
        (b"E\x00\x00\x00\x0dMtoo many\x00\x00", "the server answered \"too many\""),
        (b"SSH-2", "the server sent bytes behind"),
        (b"HTTP", "the server sent something that is no answer to a request for TLS"),
    ] {
        let DialogAction::Fail(fault) = asked(answer).1 else {
            panic!("{answer:?}");
        };
        assert!(fault.is_of_server() && fault.to_string().starts_with(words), "{fault}");
    }
}

/// Makes a request with this number and operation.
fn request(id: u8, operation: &[u8]) -> Vec<u8> {
    let mut message = vec![0x30, operation.len() as u8 + 3, 0x02, 1, id];
    message.extend_from_slice(operation);
    message
}

const START_TLS: &[u8] = b"\x77\x18\x80\x161.3.6.1.4.1.1466.20037";
const BIND: &[u8] = b"\x60\x07\x02\x01\x03\x04\x00\x80\x00";
const SEARCH: &[u8] = b"\x63\x00";

#[test]
fn a_client_of_ldap_gets_tls_by_the_extended_operation() {
    for sides in [REQUIRED, OPTIONAL] {
        let mut dialog = Dialog::new(Dialect::Ldap, sides, NAMES);
        let out = dialog.client_sent(&request(7, START_TLS));
        assert_eq!(out.next, DialogAction::StartClientTls);
        assert_eq!(out.to_client[..12], *b"\x30\x24\x02\x01\x07\x78\x1f\x0a\x01\x00\x04\x00");
        assert_eq!(dialog.client_tls_up().next, DialogAction::Relay);
        // A request with a value is refused.
        let with_value = [b"\x77\x1b", &START_TLS[2..], b"\x81\x01x"].concat();
        let mut dialog = Dialog::new(Dialect::Ldap, sides, NAMES);
        let out = dialog.client_sent(&request(6, &with_value));
        assert_eq!((out.next, &out.to_client[2..5]), (DialogAction::More, &b"\x02\x01\x06"[..]));
        assert_eq!(out.to_client[7..10], *b"\x0a\x01\x02");
        assert_eq!(dialog.client_sent(&request(7, START_TLS)).next, DialogAction::StartClientTls);
        let mut dialog = Dialog::new(Dialect::Ldap, sides, NAMES);
        let out = dialog.client_sent(&[request(1, START_TLS), request(2, BIND)].concat());
        assert!(matches!(out.next, DialogAction::Fail(Fault::Injection(14))), "{out:?}");
    }
    let mut dialog = Dialog::new(Dialect::Ldap, REQUIRED, NAMES);
    for (operation, answer) in [(BIND, 0x61), (SEARCH, 0x65)] {
        let out = dialog.client_sent(&request(3, operation));
        assert_eq!((out.to_client[5], out.to_client[9]), (answer, 13), "{out:?}");
        assert_eq!((out.to_server.len(), out.next), (0, DialogAction::More));
    }
    let mut dialog = Dialog::new(Dialect::Ldap, OPTIONAL, NAMES);
    // If TLS were started now, the answer to the search would come under it.
    let both = [request(3, SEARCH), request(4, START_TLS)].concat();
    let out = dialog.client_sent(&both);
    assert_eq!((out.to_server, out.next), (both, DialogAction::Relay));
}

#[test]
fn odd_ber_is_answered_by_a_notice_of_disconnection() {
    for bytes in [
        &b"\x30\x80\x02\x01\x01"[..],
        b"\x30\x84\xff\xff\xff\xff",
        b"\x30\x03\x02\x01\x01",
        b"\x31\x03\x02\x01\x01",
        b"\x30\x05\x02\x00\x60\x00\x00",
        b"\x30\x05\x02\x01\x01\x1f\x00",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x30\x08\x02\x06\x01\x01\x01\x01\x01\x01",
    ] {
        let mut dialog = Dialog::new(Dialect::Ldap, REQUIRED, NAMES);
        let out = dialog.client_sent(bytes);
        assert!(
            matches!(out.next, DialogAction::Fail(Fault::ClientMalformed(_))),
            "{bytes:?} {out:?}"
        );
        let notice = b"1.3.6.1.4.1.1466.20036";
        assert!(out.to_client.ends_with(notice), "{out:?}");
    }
}

#[test]
fn a_server_of_ldap_is_asked_before_the_client_s_request() {
    let mut dialog = Dialog::new(Dialect::Ldap, BACK, NAMES);
    let asked = dialog.server_connected().to_server;
    assert_eq!(asked, request(1, START_TLS));
    let good = request(1, b"\x78\x07\x0a\x01\x00\x04\x00\x04\x00");
    assert_eq!(dialog.server_sent(&good[..5]).next, DialogAction::More);
    assert_eq!(dialog.server_sent(&good[5..]).next, DialogAction::StartServerTls);
    dialog.server_tls_up();
    let out = dialog.client_sent(&request(1, SEARCH));
    assert_eq!((out.to_server, out.next), (request(1, SEARCH), DialogAction::Relay));
    for answer in [
        request(1, b"\x78\x09\x0a\x01\x02\x04\x00\x04\x02no"),
        [good.clone(), vec![0x30]].concat(),
        b"220 mx\r\n".to_vec(),
    ] {
        let mut dialog = Dialog::new(Dialect::Ldap, BACK, NAMES);
        dialog.server_connected();
        let DialogAction::Fail(fault) = dialog.server_sent(&answer).next else {
            panic!("{answer:?}");
        };
        assert!(fault.is_of_server(), "{fault}");
    }
}

const STREAM: &str = "<?xml version='1.0'?><stream:stream to='x.example' xmlns='jabber:client' \
                      xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";
const ASK: &str = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";

#[test]
fn a_stream_of_xmpp_begins_anew_under_tls() {
    let mut dialog = Dialog::new(Dialect::Xmpp, REQUIRED, NAMES);
    let (begin, end) = STREAM.split_at(50);
    assert_eq!(dialog.client_sent(begin.as_bytes()).to_client, b"");
    let out = dialog.client_sent(end.as_bytes());
    let text = String::from_utf8(out.to_client).unwrap();
    assert!(text.contains("from='x.example'") && text.contains("<required/>"), "{text}");
    let out = dialog.client_sent(ASK.as_bytes());
    assert_eq!(out.next, DialogAction::StartClientTls);
    assert!(out.to_client.starts_with(b"<proceed "));
    assert_eq!(dialog.client_tls_up().to_server, b"");
    assert_eq!(dialog.client_sent(STREAM.as_bytes()).to_server, STREAM.as_bytes());
    let offers = "<stream:stream id='1'><stream:features><starttls xmlns='urn:ietf:params:xml:ns:\
                  xmpp-tls'><required/></starttls><mechanisms/></stream:features>";
    assert_eq!(dialog.server_sent(&offers.as_bytes()[..80]).to_client, b"");
    let out = dialog.server_sent(&offers.as_bytes()[80..]);
    let seen = "<stream:stream id='1'><stream:features><mechanisms/></stream:features>";
    assert_eq!(
        (String::from_utf8(out.to_client).unwrap().as_str(), out.next),
        (seen, DialogAction::Relay)
    );
}

#[test]
fn a_request_of_xmpp_is_whole_before_tls_begins() {
    let ask = ASK.replace("/>", "></starttls>\r\n");
    for cut in STREAM.len()..STREAM.len() + ask.len() - 2 {
        let text = format!("{STREAM}{ask}");
        let mut dialog = Dialog::new(Dialect::Xmpp, REQUIRED, NAMES);
        let out = dialog.client_sent(&text.as_bytes()[..cut]);
        assert_eq!(out.next, DialogAction::More, "{cut}");
        let out = dialog.client_sent(&text.as_bytes()[cut..]);
        assert_eq!(out.next, DialogAction::StartClientTls, "{cut}");
    }
}

#[test]
fn an_xmpp_client_that_goes_is_let_go() {
    let mut dialog = Dialog::new(Dialect::Xmpp, REQUIRED, NAMES);
    dialog.client_sent(STREAM.as_bytes());
    let out = dialog.client_sent(b"</stream:stream>");
    assert_eq!(out.to_client, b"</stream:stream>");
    let mut dialog = Dialog::new(Dialect::Xmpp, REQUIRED, NAMES);
    let out = dialog.client_sent(b"GET / HTTP/1.1\r\n");
    let words = String::from_utf8(out.to_client).unwrap();
    assert!(words.contains("<stream:stream ") && words.contains("<not-well-formed"), "{words}");
}

#[test]
fn a_server_of_xmpp_that_has_no_features_is_heard() {
    for words in [
        "<stream:stream><stream:error><see-other-host>y</see-other-host></stream:error>",
        "<stream:stream></stream:stream>",
    ] {
        let mut dialog = Dialog::new(Dialect::Xmpp, REQUIRED, NAMES);
        dialog.client_sent(format!("{STREAM}{ASK}").as_bytes());
        dialog.client_tls_up();
        dialog.client_sent(STREAM.as_bytes());
        let (begin, end) = words.split_at(12);
        assert_eq!(dialog.server_sent(begin.as_bytes()), Output::default());
        let out = dialog.server_sent(end.as_bytes());
        assert_eq!((out.to_client, out.next), (words.as_bytes().to_vec(), DialogAction::Relay));
    }
}

#[test]
fn an_xmpp_client_that_does_not_ask_gets_a_stream_error() {
    let fault = |more: &str| {
        let mut dialog = Dialog::new(Dialect::Xmpp, REQUIRED, NAMES);
        let out = dialog.client_sent(format!("{STREAM}{more}").as_bytes());
        assert!(out.to_client.ends_with(b"</stream:error></stream:stream>"), "{out:?}");
        out.next
    };
    assert!(matches!(fault("<auth/>"), DialogAction::Fail(Fault::TlsRequired)));
    assert!(matches!(fault(&format!("{ASK}<iq/>")), DialogAction::Fail(Fault::Injection(_))));
    let mut dialog = Dialog::new(Dialect::Xmpp, REQUIRED, NAMES);
    let out = dialog.client_sent(b"GET / HTTP/1.1\r\n");
    assert!(matches!(out.next, DialogAction::Fail(Fault::ClientMalformed(_))));
}

#[test]
fn a_server_of_xmpp_is_asked_by_a_stream_of_our_own() {
    for sides in [BACK, BOTH] {
        let mut dialog = Dialog::new(Dialect::Xmpp, sides, CHAT);
        let stream = String::from_utf8(dialog.server_connected().to_server).unwrap();
        assert!(stream.contains("to='chat.example'"), "{stream}");
        let offers = format!("<stream:stream><stream:features>{ASK}</stream:features>");
        assert_eq!(dialog.server_sent(offers.as_bytes()).to_server, ASK.as_bytes());
        let out = dialog.server_sent(b"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
        assert_eq!(out.next, DialogAction::StartServerTls);
        dialog.server_tls_up();
    }
    for answer in [
        "<stream:stream><stream:features><mechanisms/></stream:features>",
        "<stream:stream><stream:error><host-unknown/></stream:error></stream:stream>",
    ] {
        let mut dialog = Dialog::new(Dialect::Xmpp, BACK, NAMES);
        dialog.server_connected();
        let DialogAction::Fail(fault) = dialog.server_sent(answer.as_bytes()).next else {
            panic!("{answer}");
        };
        assert!(fault.is_of_server(), "{fault}");
    }
    for (to, answer) in [
        ("x.example", "<stream:error><host-unknown/></stream:error>"),
        ("a..b", "<stream:error><improper-addressing/></stream:error>"),
        ("[::1", "<stream:error><undefined-condition/></stream:error>"),
        ("\u{e4}.\u{915}\u{94d}\u{937}", "<stream:error><not-well-formed/></stream:error>"),
    ] {
        let mut dialog = Dialog::new(Dialect::Xmpp, BOTH, CHAT);
        dialog.client_sent(format!("<stream:stream to='{to}'>{ASK}").as_bytes());
        dialog.client_tls_up();
        assert!(dialog.expects_server());
        let stream = String::from_utf8(dialog.server_connected().to_server).unwrap();
        assert!(stream.contains(&format!("to='{to}'")), "{stream}");
        let out = dialog.server_sent(format!("<stream:stream>{answer}").as_bytes());
        let is_of_client = matches!(out.next, DialogAction::Fail(Fault::ClientMalformed(_)));
        assert!(is_of_client && !out.to_client.is_empty(), "{out:?}");
    }
}

#[test]
fn what_is_no_domain_reaches_no_server_of_xmpp() {
    let (shutdown, unknown) = ("system-shutdown", "host-unknown");
    for (names, to, condition, asked, is_of_server) in [
        (CHAT, " to='\x1b[31m'", unknown, "chat.example", true),
        (CHAT, " to='a\u{fffe}'", unknown, "chat.example", true),
        (CHAT, " to='\u{ffff}'", unknown, "chat.example", true),
        (CHAT, " to='a>b'", unknown, "chat.example", true),
        (CHAT, " to='a b'", unknown, "chat.example", true),
        (CHAT, " to='a\u{2028}b'", unknown, "chat.example", true),
        (CHAT, " to='a@b/c'", unknown, "chat.example", true),
        (CHAT, " to=''", unknown, "chat.example", true),
        (CHAT, "", unknown, "chat.example", true),
        (CHAT, " to='x'", shutdown, "x", true),
        // Only the client can know a domain.
        (NAMES, "", unknown, "localhost", false),
        (NAMES, " to='\u{ffff}'", unknown, "localhost", false),
    ] {
        let mut dialog = Dialog::new(Dialect::Xmpp, BOTH, names);
        dialog.client_sent(format!("<stream:stream{to}>{ASK}").as_bytes());
        dialog.client_tls_up();
        let stream = String::from_utf8(dialog.server_connected().to_server).unwrap();
        assert!(stream.contains(&format!("to='{asked}'")), "{to}: {stream}");
        let error = format!("<stream:stream><stream:error><{condition}/></stream:error>");
        let DialogAction::Fail(fault) = dialog.server_sent(error.as_bytes()).next else {
            panic!("{to}");
        };
        assert_eq!(fault.is_of_server(), is_of_server, "{to}: {fault}");
    }
}

#[test]
fn tls_that_was_not_asked_for_is_called_that_at_once() {
    let hello = [22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
    for (name, dialect) in Dialect::ALL {
        let greeting: &[u8] = match dialect {
            Dialect::Smtp | Dialect::Lmtp | Dialect::Ftp => b"220 x\r\n",
            Dialect::Nntp => b"200 x\r\n",
            Dialect::Imap => b"* OK x\r\n",
            Dialect::Pop3 => b"+OK x\r\n",
            Dialect::Sieve => b"OK\r\n",
            // MySQL's client sends behind a greeting, in a test of its own.
            Dialect::Mysql => continue,
            _ => b"",
        };
        let mut dialog = Dialog::new(*dialect, REQUIRED, NAMES);
        if !greeting.is_empty() {
            dialog.server_sent(greeting);
        }
        // The bytes come in two parts, the first of which does not tell.
        let first = dialog.client_sent(&hello[..1]);
        if *dialect == Dialect::Postgres {
            assert_eq!(first.next, DialogAction::ClientTlsBegun(vec![22]));
            continue;
        }
        let fails = [first, dialog.client_sent(&hello[1..])].map(|out| out.next);
        let last = fails.into_iter().rfind(|next| *next != DialogAction::More);
        assert_eq!(last, Some(DialogAction::Fail(Fault::TlsUnasked)), "{name}");
    }
}

#[test]
fn a_client_of_postgresql_asks_for_tls_once() {
    let ssl = b"\x00\x00\x00\x08\x04\xd2\x16\x2f";
    let mut dialog = Dialog::new(Dialect::Postgres, BACK, NAMES);
    let first = dialog.client_sent(ssl);
    assert_eq!((&first.to_client[..], first.next), (&b"N"[..], DialogAction::More));
    let second = dialog.client_sent(ssl);
    let is_refused = matches!(second.next, DialogAction::Fail(Fault::ClientMalformed(_)));
    assert!(is_refused && second.to_client.starts_with(b"E"));
    // Many requests at once are answered no more often.
    let out = Dialog::new(Dialect::Postgres, BACK, NAMES).client_sent(&ssl.repeat(1000));
    assert!(out.to_client.len() < 200, "{}", out.to_client.len());
}

#[test]
fn the_words_of_a_server_turn_no_log_around() {
    let words = "554 no\u{202e}\u{2028}\u{e0041}\u{1b}[2J\r\n";
    let out = Dialog::new(Dialect::Smtp, BACK, NAMES).server_sent(words.as_bytes());
    let refused = Fault::ServerRefused("554 no    [2J".to_owned());
    assert_eq!(out.next, DialogAction::Fail(refused));
}
