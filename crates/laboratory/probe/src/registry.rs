//! Maps numbers of versions, suites and groups to their registered names, and recognizes protocols
//! without TLS by their first bytes.

use std::sync::LazyLock;

use wire::starttls::Dialect;

/// A number with its name.
pub(crate) type RegisteredNumber = (u16, &'static str);

pub(crate) const VERSIONS: [RegisteredNumber; 5] = [
    (0x0304, "TLSv1.3"),
    (0x0303, "TLSv1.2"),
    (0x0302, "TLSv1.1"),
    (0x0301, "TLSv1.0"),
    (SSL_3, "SSLv3"),
];

/// SSL 3.0 (RFC 6101).
pub(crate) const SSL_3: u16 = 0x0300;

/// A section of `registry.txt`.
pub(crate) type RegisteredNumbers = LazyLock<Vec<RegisteredNumber>>;

pub(crate) static SUITES_13: RegisteredNumbers = LazyLock::new(|| section("# Suites of TLS 1.3"));
pub(crate) static SUITES_12: RegisteredNumbers = LazyLock::new(|| section("# Suites of older"));
/// Suites to offer if all others are refused.
pub(crate) static SUITES_RARE: RegisteredNumbers = LazyLock::new(|| section("# Suites with keys"));
pub(crate) static GROUPS: RegisteredNumbers = LazyLock::new(|| section("# Groups"));
pub(crate) static SIGNATURES: RegisteredNumbers = LazyLock::new(|| section("# Signature"));

fn section(title: &str) -> Vec<RegisteredNumber> {
    let number = |(number, name)| Some((u16::from_str_radix(number, 16).ok()?, name));
    lines(title).filter_map(number).collect()
}

fn lines(title: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let (_, behind) = include_str!("registry.txt").split_once(title).expect("a test reads it");
    let lines = behind.lines().take_while(|line| !line.is_empty());
    lines.filter_map(|line| line.split_once(' '))
}

/// Returns the curve or the kind of a certificate's key; its OID if it is unusual.
pub(crate) fn key_name(oid: String) -> String {
    lines("# Curves").find(|(known, _)| *known == oid).map_or(oid, |(_, name)| name.to_owned())
}

/// Returns the algorithm of a certificate's signature; its OID if it is unusual.
pub(crate) fn algorithm_name(oid: String) -> String {
    lines("# Algorithms").find(|(known, _)| *known == oid).map_or(oid, |(_, name)| name.to_owned())
}

/// Returns the name of a suite of any version.
pub(crate) fn suite_name(number: u16) -> String {
    name(&[&SUITES_13[..], &SUITES_12, &SUITES_RARE].concat(), number)
}

pub(crate) fn name(known: &[RegisteredNumber], number: u16) -> String {
    let found = known.iter().find(|(one, _)| *one == number);
    found.map_or_else(|| format!("{number:#06x}"), |(_, name)| (*name).to_owned())
}

pub(crate) fn numbers(known: &[RegisteredNumber]) -> Vec<u16> {
    known.iter().map(|(number, _)| *number).collect()
}

/// A protocol recognized by its first bytes, and the dialect that would begin TLS in it.
pub(crate) type PlainLikeness = (&'static str, Option<&'static str>);

/// First bytes of protocols when a server speaks first, or answers a ClientHello.
const BEGINNINGS: [(&[u8], PlainLikeness); 17] = [
    (b"HTTP/", ("HTTP", None)),
    (b"\"IMPLEMENTATION\"", ("ManageSieve", Some("sieve"))),
    (b"* PREAUTH", ("IMAP", Some("imap"))),
    (b"* BYE", ("IMAP", Some("imap"))),
    (b"AMQP", ("AMQP", None)),
    (b"ERROR\r\n", ("memcached", None)),
    (b"<html", ("HTTP", None)),
    (b"<!DOC", ("HTTP", None)),
    (b"SSH-", ("SSH", None)),
    (b"* OK", ("IMAP", Some("imap"))),
    (b"+OK", ("POP3", Some("pop3"))),
    (b"<?xml", ("XMPP", Some("xmpp"))),
    (b"<stream", ("XMPP", Some("xmpp"))),
    (b"-ERR", ("Redis", None)),
    (b"RFB ", ("VNC", None)),
    (b"200 ", ("NNTP", Some("nntp"))),
    (b"201 ", ("NNTP", Some("nntp"))),
];

/// Recognizes a protocol. `None` if it is unknown.
pub(crate) fn likeness(bytes: &[u8]) -> Option<PlainLikeness> {
    if bytes.starts_with(b"220") {
        let line = bytes.split(|byte| *byte == b'\n').next()?;
        let is_ftp = line.windows(3).any(|word| word.eq_ignore_ascii_case(b"ftp"));
        let is_smtp = line.windows(4).any(|word| word.eq_ignore_ascii_case(b"smtp"));
        let is_lmtp = line.windows(4).any(|word| word.eq_ignore_ascii_case(b"lmtp"));
        return Some(match (is_ftp, is_smtp, is_lmtp) {
            (true, false, _) => ("FTP", Some("ftp")),
            (_, false, true) => ("LMTP", Some("lmtp")),
            _ => ("SMTP", Some("smtp")),
        });
    }
    if is_mysql(bytes) {
        return Some(("MySQL", Some("mysql")));
    }
    if bytes.first() == Some(&b'E') && bytes.windows(6).any(|word| word.starts_with(b"FATAL")) {
        return Some(("PostgreSQL", Some("postgres")));
    }
    let found = BEGINNINGS.iter().find(|(begin, _)| bytes.starts_with(begin));
    found.map(|(_, likeness)| *likeness)
}

/// Reports MySQL's first packet: 3 bytes of length, sequence 0, version 10 or an error.
fn is_mysql(bytes: &[u8]) -> bool {
    let Some(([low, middle, 0, 0, kind], rest)) = bytes.split_first_chunk() else {
        return false;
    };
    let length = usize::from(u16::from_le_bytes([*low, *middle]));
    matches!(*kind, 0x0a | 0xff) && length <= 1024 && length >= rest.len().min(length)
}

/// Describes bytes that are not TLS.
pub(crate) fn told(bytes: &[u8]) -> String {
    match likeness(bytes) {
        Some((protocol, Some(dialect))) => {
            format!("this speaks {protocol} without TLS, did you mean --starttls {dialect}?")
        }
        Some((protocol, None)) => format!("this speaks {protocol} without TLS"),
        None => {
            let shown: Vec<String> = bytes.iter().take(8).map(|one| format!("{one:02x}")).collect();
            format!("what it sends is no TLS: it begins with the bytes {}", shown.join(" "))
        }
    }
}

/// Protocols in which the client speaks first: servers are silent at a ClientHello.
pub(crate) const UNGREETED: [(Dialect, &str); 3] =
    [(Dialect::Postgres, "PostgreSQL"), (Dialect::Ldap, "LDAP"), (Dialect::Xmpp, "XMPP")];

/// Reports whether bytes are such a server's answer to a request for TLS, agreeing or not.
pub(crate) fn is_answer(dialect: Dialect, bytes: &[u8]) -> bool {
    match dialect {
        // "S", "N", or an old server's error.
        Dialect::Postgres => matches!(bytes, [b'S' | b'N'] | [b'E', ..]),
        // An LDAPMessage: a SEQUENCE that begins with an INTEGER (RFC 4511, section 4.1.1).
        Dialect::Ldap => {
            matches!(bytes, [0x30, length, 2, ..] if *length < 0x80)
                || matches!(bytes, [0x30, 0x81..=0x84, ..])
        }
        Dialect::Xmpp => bytes.starts_with(b"<?xml") || bytes.starts_with(b"<stream"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_line_of_the_registry_is_a_number_with_its_name() {
        let all = [&SUITES_13, &SUITES_12, &SUITES_RARE, &GROUPS, &SIGNATURES];
        let lines = include_str!("registry.txt").lines();
        let lines = lines.filter(|line| line.get(4..5) == Some(" ") && !line.starts_with('#'));
        assert_eq!(all.map(|one| one.len()).iter().sum::<usize>(), lines.count());
        assert_eq!(key_name("1.3.132.0.34".to_owned()), "P-384");
        assert_eq!(algorithm_name("1.3.101.113".to_owned()), "Ed448");
        assert_eq!(suite_name(0x00a3), "TLS_DHE_DSS_WITH_AES_256_GCM_SHA384");
        for known in all {
            let numbers: BTreeSet<u16> = numbers(known).into_iter().collect();
            assert_eq!(numbers.len(), known.len(), "{known:?}");
        }
    }

    #[test]
    fn protocols_are_known_by_their_beginning() {
        for (bytes, protocol) in [
            (&b"HTTP/1.1 400 Bad Request\r\n"[..], "HTTP"),
            (b"220 mail.example ESMTP Postfix\r\n", "SMTP"),
            (b"220 (vsFTPd 3.0.3)\r\n", "FTP"),
            (b"* OK [CAPABILITY IMAP4rev1] ready\r\n", "IMAP"),
            (b"J\0\0\0\x0a8.0.36\0", "MySQL"),
            (b"EFATAL:  unsupported frontend protocol", "PostgreSQL"),
            (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH"),
            (b"220 host LMTP Postfix\r\n", "LMTP"),
            (b"\"IMPLEMENTATION\" \"Dovecot Pigeonhole\"\r\n", "ManageSieve"),
            (b"200 news.example InterNetNews ready\r\n", "NNTP"),
            (b"+OK Dovecot ready.\r\n", "POP3"),
            (b"<?xml version='1.0'?><stream:stream>", "XMPP"),
        ] {
            let known = likeness(bytes).map(|(name, _)| name);
            assert_eq!(known, Some(protocol));
        }
        assert_eq!(likeness(b"\x16\x03\x03"), None);
        assert!(told(b"\x01\x02").contains("01 02"));
        for (dialect, answer) in [
            (Dialect::Postgres, &b"N"[..]),
            (Dialect::Ldap, b"\x30\x0c\x02\x01\x01"),
            (Dialect::Xmpp, b"<?xml version='1.0'?>"),
        ] {
            let known = UNGREETED.iter().filter(|(one, _)| is_answer(*one, answer));
            let known: Vec<_> = known.map(|(one, _)| *one).collect();
            assert_eq!(known, [dialect]);
            assert!(!is_answer(dialect, b"") && !is_answer(dialect, b"HTTP/1.1 400"));
        }
    }
}
