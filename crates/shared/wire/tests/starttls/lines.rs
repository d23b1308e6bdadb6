//! The line protocols.

use wire::starttls::{Dialect, Dialog, DialogAction, Fault, Policy, StarttlsSides};

use crate::script::{NAMES, play};

const REQUIRED: StarttlsSides = StarttlsSides { front: Some(Policy::Required), back: false };
const OPTIONAL: StarttlsSides = StarttlsSides { front: Some(Policy::Optional), back: false };
const BACK: StarttlsSides = StarttlsSides { front: None, back: true };
const BOTH: StarttlsSides = StarttlsSides { front: Some(Policy::Required), back: true };

#[test]
fn a_mail_client_that_has_to_use_tls_gets_it_and_sees_no_offer_of_it_then() {
    play(
        Dialect::Smtp,
        REQUIRED,
        "S> 220 mx.example ESMTP
         C< 220 mx.example ESMTP
         C> EHLO client.example
         S< EHLO client.example
         S> 250-mx.example
         S> 250-SIZE 1000
         S> 250-AUTH PLAIN LOGIN
         S> 250 STARTTLS
         C< 250-mx.example
         C< 250-STARTTLS
         C< 250 SIZE 1000
         C> mail from:<a@example>
         C< 530 5.7.0 Must issue a STARTTLS command first
         C> STARTTLS now
         C< 501 5.5.4 STARTTLS takes no argument
         C> starttls
         C< 220 2.0.0 Ready to start TLS
         = StartClientTls
         C> STARTTLS
         C< 503 5.5.1 TLS is already active
         C> EHLO client.example
         S< EHLO client.example
         S> 250-mx.example
         S> 250-AUTH PLAIN LOGIN
         S> 250 STARTTLS
         C< 250-mx.example
         C< 250 AUTH PLAIN LOGIN
         C> AUTH PLAIN AGEAYg==
         S< AUTH PLAIN AGEAYg==
         = Relay",
    );
    play(
        Dialect::Lmtp,
        REQUIRED,
        "S> 220 mx.example LMTP
         C< 220 mx.example LMTP
         C> LHLO client.example
         S< LHLO client.example
         S> 250 mx.example
         C< 250-mx.example
         C< 250 STARTTLS
         C> STARTTLS
         C< 220 2.0.0 Ready to start TLS
         = StartClientTls
         C> MAIL FROM:<>
         S< MAIL FROM:<>
         = Relay",
    );
}

#[test]
fn so_does_an_imap_client_whose_capabilities_are_all_in_one_line() {
    play(
        Dialect::Imap,
        REQUIRED,
        "S> * OK [CAPABILITY IMAP4rev1 STARTTLS AUTH=PLAIN] ready
         C< * OK [CAPABILITY IMAP4rev1 LOGINDISABLED STARTTLS] ready
         C> a1 capability
         S< a1 capability
         S> * CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN
         S> a1 OK done
         C< * CAPABILITY IMAP4rev1 SASL-IR LOGINDISABLED STARTTLS
         C< a1 OK done
         C> a2 LOGIN ann secret
         C< a2 NO [PRIVACYREQUIRED] Use STARTTLS first
         C> a3 STARTTLS x
         C< a3 BAD STARTTLS takes no argument
         C> a3 STARTTLS
         C< a3 OK Begin TLS negotiation now
         = StartClientTls
         C> a4 STARTTLS
         C< a4 BAD TLS is already active
         C> a5 CAPABILITY
         S< a5 CAPABILITY
         S> * CAPABILITY IMAP4rev1 STARTTLS AUTH=PLAIN
         S> a5 OK done
         C< * CAPABILITY IMAP4rev1 AUTH=PLAIN
         C< a5 OK done
         C> a6 LOGIN ann {6}
         S< a6 LOGIN ann {6}
         = Relay",
    );
}

#[test]
fn so_do_clients_whose_lists_end_with_a_dot() {
    play(
        Dialect::Pop3,
        REQUIRED,
        "S> +OK ready <1@example>
         C< +OK ready <1@example>
         C> CAPA
         S< CAPA
         S> +OK
         S> TOP
         S> USER
         S> SASL PLAIN
         S> .
         C< +OK
         C< TOP
         C< STLS
         C< .
         C> USER ann
         C< -ERR [AUTH] Use STLS first
         C> STLS
         C< +OK Begin TLS negotiation now
         = StartClientTls
         C> CAPA
         S< CAPA
         S> +OK
         S> USER
         S> STLS
         S> .
         C< +OK
         C< USER
         C< .
         C> USER ann
         S< USER ann
         = Relay",
    );
    play(
        Dialect::Nntp,
        REQUIRED,
        "S> 200 ready
         C< 200 ready
         C> CAPABILITIES
         S< CAPABILITIES
         S> 101 list
         S> VERSION 2
         S> AUTHINFO USER
         S> .
         C< 101 list
         C< VERSION 2
         C< STARTTLS
         C< .
         C> GROUP a
         C< 483 Use STARTTLS first
         C> STARTTLS
         C< 382 Continue with TLS negotiation
         = StartClientTls
         C> GROUP a
         S< GROUP a
         = Relay",
    );
}

#[test]
fn a_sieve_client_is_told_the_capabilities_again_under_tls() {
    play(
        Dialect::Sieve,
        REQUIRED,
        "S> \"IMPLEMENTATION\" \"x\"
         S> \"SASL\" \"PLAIN\"
         S> \"STARTTLS\"
         S> OK \"ready\"
         C< \"IMPLEMENTATION\" \"x\"
         C< \"SASL\" \"\"
         C< \"STARTTLS\"
         C< OK \"ready\"
         C> AUTHENTICATE \"PLAIN\" \"AGEAYg==\"
         C< NO (ENCRYPT-NEEDED) \"Use STARTTLS first\"
         C> STARTTLS
         C< OK \"Begin TLS negotiation now\"
         = StartClientTls
         S< CAPABILITY
         S> \"SASL\" \"PLAIN\"
         S> \"STARTTLS\"
         S> OK
         C< \"SASL\" \"PLAIN\"
         C< OK
         C> AUTHENTICATE \"PLAIN\" \"AGEAYg==\"
         S< AUTHENTICATE \"PLAIN\" \"AGEAYg==\"
         = Relay",
    );
}

#[test]
fn of_ftp_the_control_connection_is_protected_as_long_as_it_lasts() {
    play(
        Dialect::Ftp,
        REQUIRED,
        "S> 220-Welcome
         S> 220 ready
         C< 220-Welcome
         C< 220 ready
         C> FEAT
         S< FEAT
         S> 211-Features:
         S>  UTF8
         S>  AUTH TLS
         S> 211 End
         C< 211-Features:
         C<  UTF8
         C<  AUTH TLS
         C<  PBSZ
         C<  PROT
         C< 211 End
         C> USER ann
         C< 530 Use AUTH TLS first
         C> AUTH TLS
         C< 234 Proceed with negotiation
         = StartClientTls
         C> PBSZ 0
         C< 200 PBSZ=0
         C> PROT P
         C< 536 Only the control connection is protected: use PROT C
         C> PROT C
         C< 200 Data connections are not protected
         C> USER ann
         S< USER ann
         S> 331 password
         C< 331 password
         C> RETR x
         S< RETR x
         S> 150 opening
         C< 150 opening
         C> ABOR
         S< ABOR
         S> 426 aborted
         S> 226 done
         C< 426 aborted
         C< 226 done
         C> PROT S
         C< 536 Only the control connection is protected: use PROT C",
    );
}

#[test]
fn a_client_that_may_speak_without_tls_is_relayed() {
    let plain = [
        (Dialect::Smtp, "220 x", "MAIL FROM:<a@example>"),
        (Dialect::Smtp, "554 no", "AUTH LOGIN"),
        (Dialect::Imap, "* OK x", "a LOGIN ann secret"),
        (Dialect::Pop3, "+OK x", "USER ann"),
        (Dialect::Nntp, "201 x", "GROUP a"),
        (Dialect::Sieve, "OK \"x\"", "AUTHENTICATE \"PLAIN\""),
    ];
    for (dialect, greeting, command) in plain {
        let offer = if dialect == Dialect::Sieve { "C< \"STARTTLS\"\n" } else { "" };
        let script =
            format!("S> {greeting}\n{offer}C< {greeting}\nC> {command}\nS< {command}\n= Relay");
        play(dialect, OPTIONAL, &script);
    }
}

#[test]
fn the_client_of_a_server_asks_for_tls_before_the_client_s_first_byte() {
    play(
        Dialect::Smtp,
        BACK,
        "S> 220 mx.example ESMTP
         S< EHLO own.example
         S> 250-mx.example
         S> 250 STARTTLS
         S< STARTTLS
         S> 220 go
         = StartServerTls
         C< 220 own.example ESMTP
         = Relay
         C> EHLO client.example
         S< EHLO client.example",
    );
    play(
        Dialect::Imap,
        BACK,
        "S> * OK [CAPABILITY IMAP4rev1 LOGINDISABLED STARTTLS] ready
         S< starttls STARTTLS
         S> * an untagged line
         S> starttls OK go
         = StartServerTls
         C< * OK Ready
         = Relay",
    );
    let others = [
        (Dialect::Pop3, "+OK x <1@x>", "STLS", "+OK", "+OK Ready"),
        (Dialect::Ftp, "220 x", "AUTH TLS", "234 go", "220 Ready"),
        (Dialect::Nntp, "201 x", "STARTTLS", "382 go", "200 Ready"),
    ];
    for (dialect, greeting, request, answer, own) in others {
        let script = format!(
            "S> {greeting}\nS< {request}\nS> {answer}\n= StartServerTls\nC< {own}\n= Relay"
        );
        play(dialect, BACK, &script);
    }
    play(
        Dialect::Sieve,
        BACK,
        "S> \"STARTTLS\"
         S> OK \"x\"
         S< STARTTLS
         S> OK \"go\"
         = StartServerTls
         = Relay
         S> \"SASL\" \"PLAIN\"
         S> OK \"y\"
         C< \"SASL\" \"PLAIN\"
         C< OK \"y\"",
    );
}

#[test]
fn both_sides_have_tls_of_their_own() {
    play(
        Dialect::Pop3,
        BOTH,
        "S> +OK x
         S< STLS
         S> +OK go
         = StartServerTls
         C< +OK Ready
         C> STLS
         C< +OK Begin TLS negotiation now
         = StartClientTls
         = Relay",
    );
    play(
        Dialect::Sieve,
        BOTH,
        "S> OK \"x\"
         S< STARTTLS
         S> OK \"go\"
         = StartServerTls
         S> \"SASL\" \"PLAIN\"
         S> OK \"y\"
         C< \"SASL\" \"\"
         C< \"STARTTLS\"
         C< OK \"y\"
         C> STARTTLS
         C< OK \"Begin TLS negotiation now\"
         = StartClientTls
         S< CAPABILITY
         = Relay",
    );
    // The rewriting of commands about the protection of data connections goes on.
    play(
        Dialect::Ftp,
        BOTH,
        "S> 220 x
         S< AUTH TLS
         S> 234 go
         = StartServerTls
         C< 220 Ready
         C> AUTH TLS
         C< 234 Proceed with negotiation
         = StartClientTls
         C> PROT P
         C< 536 Only the control connection is protected: use PROT C",
    );
}

#[test]
fn a_server_without_tls_or_room_fails_in_its_own_words() {
    let refused = [
        (Dialect::Smtp, "421 too busy", "the server answered \"421 too busy\""),
        (Dialect::Imap, "* BYE full", "the server answered \"* BYE full\""),
        (Dialect::Imap, "* PREAUTH hello", "the server answered \"* PREAUTH hello\""),
        (Dialect::Pop3, "-ERR [SYS/TEMP] full", "the server answered \"-ERR [SYS/TEMP] full\""),
        (Dialect::Ftp, "530 no", "the server answered \"530 no\""),
        (Dialect::Sieve, "BYE \"full\"", "the server answered \"BYE \"full\"\""),
        (Dialect::Nntp, "502 no", "the server answered \"502 no\""),
        (Dialect::Nntp, "SSH-2.0-\\x01x", "the server answered \"SSH-2.0- x\""),
    ];
    for (dialect, greeting, fault) in refused {
        play(dialect, BACK, &format!("S> {greeting}\n= fail: {fault}"));
    }
    play(
        Dialect::Smtp,
        BACK,
        "S> 220 x
         S< EHLO own.example
         S> 250 x
         = fail: the server offers no STARTTLS",
    );
    play(
        Dialect::Pop3,
        BACK,
        "S> +OK x
         S< STLS
         S> -ERR no
         = fail: the server answered \"-ERR no\"",
    );
}

#[test]
fn what_comes_behind_a_request_is_never_taken_for_what_comes_under_tls() {
    let injected = [
        (Dialect::Smtp, "220 x\r\n", "STARTTLS\r\nRSET\r\n", "554 5.5.0 "),
        (Dialect::Lmtp, "220 x\r\n", "STARTTLS\r\nR", "554 5.5.0 "),
        (Dialect::Imap, "* OK x\r\n", "a STARTTLS\nb NOOP\r\n", "* BYE "),
        (Dialect::Pop3, "+OK x\r\n", "STLS\r\n\x16\x03\x01", "-ERR "),
        (Dialect::Ftp, "220 x\r\n", "AUTH TLS\r\nUSER a\r\n", "421 "),
        (Dialect::Sieve, "OK\r\n", "STARTTLS\r\nNOOP\r\n", "BYE "),
        (Dialect::Nntp, "200 x\r\n", "STARTTLS\r\nDATE\r\n", "400 "),
    ];
    for (dialect, greeting, bytes, words) in injected {
        let mut dialog = Dialog::new(dialect, OPTIONAL, NAMES);
        dialog.server_sent(greeting.as_bytes());
        let out = dialog.client_sent(bytes.as_bytes());
        assert!(matches!(out.next, DialogAction::Fail(Fault::Injection(_))), "{dialect:?} {out:?}");
        assert!(out.to_client.starts_with(words.as_bytes()), "{dialect:?} {out:?}");
        assert_eq!(out.to_server, b"", "{dialect:?}");
    }
    let mut dialog = Dialog::new(Dialect::Pop3, BACK, NAMES);
    dialog.server_sent(b"+OK x\r\n");
    let out = dialog.server_sent(b"+OK go\r\n+OK and more\r\n");
    let DialogAction::Fail(fault) = out.next else {
        panic!("{out:?}");
    };
    assert!(fault.is_of_server(), "{fault}");
}

#[test]
fn another_server_is_asked_anew() {
    let mut dialog = Dialog::new(Dialect::Smtp, BOTH, NAMES);
    dialog.server_sent(b"220 one\r\n250-");
    dialog.server_connected();
    assert_eq!(dialog.server_sent(b"220 two\r\n").to_server, b"EHLO own.example\r\n");
    dialog.server_sent(b"250-two\r\n250 STARTTLS\r\n");
    assert_eq!(dialog.server_sent(b"220 go\r\n").next, DialogAction::StartServerTls);
    assert_eq!(dialog.server_tls_up().to_client, b"220 own.example ESMTP\r\n");
    assert_eq!(dialog.unavailable(), b"421 4.3.2 No server is available\r\n");
}

#[test]
fn what_some_servers_take_for_two_lines_is_none() {
    for line in ["NOOP x\\x0dMAIL FROM:<>", "NOOP\\x00", "EHLO x\\x0d"] {
        play(
            Dialect::Smtp,
            OPTIONAL,
            &format!(
                "S> 220 ready
                 C< 220 ready
                 C> {line}
                 C< 554 5.5.0 Closing connection: the client sent a CR or NUL within a line
                 = fail: the client sent a CR or NUL within a line"
            ),
        );
    }
}

#[test]
fn an_ftp_client_that_logs_in_without_tls_is_left_alone() {
    play(
        Dialect::Ftp,
        OPTIONAL,
        "S> 220 ready
         C< 220 ready
         C> OPTS UTF8 ON
         S< OPTS UTF8 ON
         S> 200 ok
         C< 200 ok
         C> FEAT
         S< FEAT
         S> 211 No features
         C< 211-No features
         C<  AUTH TLS
         C<  PBSZ
         C<  PROT
         C< 211 End
         C> USER ann
         S< USER ann
         = Relay",
    );
}

#[test]
fn a_literal_is_a_part_of_the_command_that_is_refused() {
    play(
        Dialect::Imap,
        REQUIRED,
        "S> * OK ready
         C< * OK ready
         C> a1 LOGIN {3}
         C< a1 NO [PRIVACYREQUIRED] Use STARTTLS first
         C> a2 LOGIN {3+}
         C> ann {6+}
         C> secret
         C< a2 NO [PRIVACYREQUIRED] Use STARTTLS first
         C> a3 LOGIN {13+}
         C> a4 STARTTLS
         C> {2}
         C< a3 NO [PRIVACYREQUIRED] Use STARTTLS first
         C> a5 ID (\"name\" {1+}
         C> x)
         C< a5 NO [PRIVACYREQUIRED] Use STARTTLS first
         C> a6 STARTTLS {2+}
         C> hi
         C< a6 BAD STARTTLS takes no argument
         C> a7 LOGIN ann x}
         C< a7 NO [PRIVACYREQUIRED] Use STARTTLS first
         C> a8 STARTTLS
         C< a8 OK Begin TLS negotiation now
         = StartClientTls",
    );
    play(
        Dialect::Sieve,
        REQUIRED,
        "S> OK
         C< \"SASL\" \"\"
         C< \"STARTTLS\"
         C< OK
         C> AUTHENTICATE \"PLAIN\" {10+}
         C> STARTTLS
         C> {0+}
         C> 
         C< NO (ENCRYPT-NEEDED) \"Use STARTTLS first\"
         C> STARTTLS
         C< OK \"Begin TLS negotiation now\"
         = StartClientTls
         S< CAPABILITY",
    );
    for length in ["65537", "99999999999999999999"] {
        let script = format!(
            "S> * OK ready
             C< * OK ready
             C> a LOGIN {{{length}+}}
             C< * BYE The client sent a command of more than 64 KiB before TLS
             = fail: the client sent a command of more than 64 KiB before TLS"
        );
        play(Dialect::Imap, REQUIRED, &script);
    }
}

#[test]
fn an_ftp_client_is_told_which_protection_there_is() {
    play(
        Dialect::Ftp,
        REQUIRED,
        "S> 220 ready
         C< 220 ready
         C> AUTH GSSAPI
         C< 504 Use AUTH TLS
         C> AUTH TLS-P
         C< 534 Data connections are not protected: use AUTH TLS
         C> auth tls-c
         C< 234 Proceed with negotiation
         = StartClientTls
         C> REIN
         C< 502 The control connection stays protected",
    );
}

/// A server may swallow as many bytes under TLS as a literal before it announced.
#[test]
fn a_command_with_a_literal_decides_against_tls() {
    for (dialect, greeting, offer) in
        [(Dialect::Imap, "* OK ready", ""), (Dialect::Sieve, "OK", "C< \"STARTTLS\"\n")]
    {
        let tag = if dialect == Dialect::Imap { "a " } else { "" };
        let script = format!(
            "S> {greeting}\n{offer}C< {greeting}\nC> {tag}CAPABILITY {{9+}}\n\
             S< {tag}CAPABILITY {{9+}}\n= Relay"
        );
        play(dialect, OPTIONAL, &script);
    }
}

#[test]
fn an_imap_client_without_a_tag_has_an_untagged_answer() {
    play(
        Dialect::Imap,
        REQUIRED,
        "S> * OK ready
         C< * OK ready
         C> CAPABILITY
         C< * BAD A command has a tag before it
         C>
         C< * BAD A command has a tag before it
         C> + NOOP
         C< * BAD A command has a tag before it
         C> a* LOGIN ann secret
         C< * BAD A command has a tag before it
         C>   a\\xff CAPABILITY
         S<   a\\xff CAPABILITY
         S> a\\xff OK done
         C< a\\xff OK done
         C> a STARTTLS
         C< a OK Begin TLS negotiation now
         = StartClientTls",
    );
}
