//! What a server speaks that does not speak TLS, by its first bytes.

/// What the first bytes look like: the protocol, and the dialect that would begin TLS in it.
pub(crate) type Likeness = (&'static str, Option<&'static str>);

/// How protocols begin when a server speaks first, or answers a ClientHello.
const BEGINNINGS: [(&[u8], Likeness); 12] = [
    (b"HTTP/", ("HTTP", None)),
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
        return Some(if is_ftp && !is_smtp {
            ("FTP", Some("ftp"))
        } else {
            ("SMTP", Some("smtp"))
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
        ] {
            let known = likeness(bytes).map(|(name, _)| name);
            assert_eq!(known, Some(protocol));
        }
        assert_eq!(likeness(b"\x16\x03\x03"), None);
        assert!(told(b"\x01\x02").contains("01 02"));
    }
}
