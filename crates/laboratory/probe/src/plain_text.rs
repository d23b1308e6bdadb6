//! What a server speaks that does not speak TLS, by its first bytes.

use wire::starttls::Dialect;

/// What the first bytes look like: the protocol, and the dialect that would begin TLS in it.
pub(crate) type Likeness = (&'static str, Option<&'static str>);

/// How protocols begin when a server speaks first, or answers a ClientHello.
const BEGINNINGS: [(&[u8], Likeness); 17] = [
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

/// `None` = nothing that is known.
pub(crate) fn likeness(bytes: &[u8]) -> Option<Likeness> {
    if bytes.starts_with(b"220") {
        let line = bytes.split(|byte| *byte == b'\n').next()?;
        let is_ftp = line
            .windows(3)
            .any(|word| word.eq_ignore_ascii_case(b"ftp"));
        let is_smtp = line
            .windows(4)
            .any(|word| word.eq_ignore_ascii_case(b"smtp"));
        let is_lmtp = line
            .windows(4)
            .any(|word| word.eq_ignore_ascii_case(b"lmtp"));
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
    let found = BEGINNINGS
        .iter()
        .find(|(begin, _)| bytes.starts_with(begin));
    found.map(|(_, likeness)| *likeness)
}

/// The first packet: three bytes of length, sequence 0, and protocol version 10 or an error.
fn is_mysql(bytes: &[u8]) -> bool {
    let Some(([low, middle, 0, 0, kind], rest)) = bytes.split_first_chunk() else {
        return false;
    };
    let length = usize::from(u16::from_le_bytes([*low, *middle]));
    matches!(*kind, 0x0a | 0xff) && length <= 1024 && length >= rest.len().min(length)
}

/// What to say of bytes that are no TLS.
pub(crate) fn told(bytes: &[u8]) -> String {
    match likeness(bytes) {
        Some((protocol, Some(dialect))) => {
            format!("this speaks {protocol} without TLS, did you mean --starttls {dialect}?")
        }
        Some((protocol, None)) => format!("this speaks {protocol} without TLS"),
        None => {
            let shown: Vec<String> = bytes
                .iter()
                .take(8)
                .map(|one| format!("{one:02x}"))
                .collect();
            format!(
                "what it sends is no TLS: it begins with the bytes {}",
                shown.join(" ")
            )
        }
    }
}

/// Protocols in which the client speaks first: servers are silent at a ClientHello.
pub(crate) const UNGREETED: [(Dialect, &str); 3] = [
    (Dialect::Postgres, "PostgreSQL"),
    (Dialect::Ldap, "LDAP"),
    (Dialect::Xmpp, "XMPP"),
];

/// Whether bytes are such a server's answer to a request for TLS, whether it agrees or not.
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
    use super::*;

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
            (
                b"\"IMPLEMENTATION\" \"Dovecot Pigeonhole\"\r\n",
                "ManageSieve",
            ),
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
