//! Numbers of versions, suites and groups with their registered names, and protocols without TLS by
//! their first bytes.

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

/// RFC 6101.
pub(crate) const SSL_3: u16 = 0x0300;

/// Suites of TLS 1.3, in browsers' order.
pub(crate) const SUITES_13: [RegisteredNumber; 5] = [
    (0x1301, "TLS_AES_128_GCM_SHA256"),
    (0x1302, "TLS_AES_256_GCM_SHA384"),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
    (0x1304, "TLS_AES_128_CCM_SHA256"),
    (0x1305, "TLS_AES_128_CCM_8_SHA256"),
];

/// Suites of older versions that any server may still accept, the best first. Those with keys that
/// are agreed on before (PSK, SRP) or of certificates that nobody issues (DSS, DH, ECDH) are not.
pub(crate) const SUITES_12: [RegisteredNumber; 99] = [
    (0xc02b, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    (0xc02f, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    (0xc02c, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    (0xc030, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    (0xcca9, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    (0xcca8, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    (0xc0ac, "TLS_ECDHE_ECDSA_WITH_AES_128_CCM"),
    (0xc0ad, "TLS_ECDHE_ECDSA_WITH_AES_256_CCM"),
    (0x009e, "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256"),
    (0x009f, "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"),
    (0xccaa, "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    (0xc023, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"),
    (0xc027, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    (0xc024, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384"),
    (0xc028, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384"),
    (0xc009, "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
    (0xc013, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    (0xc00a, "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"),
    (0xc014, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
    (0x0067, "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256"),
    (0x006b, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256"),
    (0x0033, "TLS_DHE_RSA_WITH_AES_128_CBC_SHA"),
    (0x0039, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA"),
    (0xc0ae, "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8"),
    (0xc0af, "TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8"),
    (0xc05c, "TLS_ECDHE_ECDSA_WITH_ARIA_128_GCM_SHA256"),
    (0xc05d, "TLS_ECDHE_ECDSA_WITH_ARIA_256_GCM_SHA384"),
    (0xc060, "TLS_ECDHE_RSA_WITH_ARIA_128_GCM_SHA256"),
    (0xc061, "TLS_ECDHE_RSA_WITH_ARIA_256_GCM_SHA384"),
    (0xc09e, "TLS_DHE_RSA_WITH_AES_128_CCM"),
    (0xc09f, "TLS_DHE_RSA_WITH_AES_256_CCM"),
    (0xc0a2, "TLS_DHE_RSA_WITH_AES_128_CCM_8"),
    (0xc0a3, "TLS_DHE_RSA_WITH_AES_256_CCM_8"),
    (0xc052, "TLS_DHE_RSA_WITH_ARIA_128_GCM_SHA256"),
    (0xc053, "TLS_DHE_RSA_WITH_ARIA_256_GCM_SHA384"),
    (0xc072, "TLS_ECDHE_ECDSA_WITH_CAMELLIA_128_CBC_SHA256"),
    (0xc073, "TLS_ECDHE_ECDSA_WITH_CAMELLIA_256_CBC_SHA384"),
    (0xc076, "TLS_ECDHE_RSA_WITH_CAMELLIA_128_CBC_SHA256"),
    (0xc077, "TLS_ECDHE_RSA_WITH_CAMELLIA_256_CBC_SHA384"),
    (0x00be, "TLS_DHE_RSA_WITH_CAMELLIA_128_CBC_SHA256"),
    (0x00c4, "TLS_DHE_RSA_WITH_CAMELLIA_256_CBC_SHA256"),
    (0x0045, "TLS_DHE_RSA_WITH_CAMELLIA_128_CBC_SHA"),
    (0x0088, "TLS_DHE_RSA_WITH_CAMELLIA_256_CBC_SHA"),
    (0x009a, "TLS_DHE_RSA_WITH_SEED_CBC_SHA"),
    (0x009c, "TLS_RSA_WITH_AES_128_GCM_SHA256"),
    (0x009d, "TLS_RSA_WITH_AES_256_GCM_SHA384"),
    (0xc09c, "TLS_RSA_WITH_AES_128_CCM"),
    (0xc09d, "TLS_RSA_WITH_AES_256_CCM"),
    (0xc0a0, "TLS_RSA_WITH_AES_128_CCM_8"),
    (0xc0a1, "TLS_RSA_WITH_AES_256_CCM_8"),
    (0xc050, "TLS_RSA_WITH_ARIA_128_GCM_SHA256"),
    (0xc051, "TLS_RSA_WITH_ARIA_256_GCM_SHA384"),
    (0x00ba, "TLS_RSA_WITH_CAMELLIA_128_CBC_SHA256"),
    (0x00c0, "TLS_RSA_WITH_CAMELLIA_256_CBC_SHA256"),
    (0x003c, "TLS_RSA_WITH_AES_128_CBC_SHA256"),
    (0x003d, "TLS_RSA_WITH_AES_256_CBC_SHA256"),
    (0x002f, "TLS_RSA_WITH_AES_128_CBC_SHA"),
    (0x0035, "TLS_RSA_WITH_AES_256_CBC_SHA"),
    (0x0041, "TLS_RSA_WITH_CAMELLIA_128_CBC_SHA"),
    (0x0084, "TLS_RSA_WITH_CAMELLIA_256_CBC_SHA"),
    (0x0096, "TLS_RSA_WITH_SEED_CBC_SHA"),
    (0x0007, "TLS_RSA_WITH_IDEA_CBC_SHA"),
    (0xc008, "TLS_ECDHE_ECDSA_WITH_3DES_EDE_CBC_SHA"),
    (0xc012, "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0x0016, "TLS_DHE_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0x000a, "TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
    (0xc011, "TLS_ECDHE_RSA_WITH_RC4_128_SHA"),
    (0x0005, "TLS_RSA_WITH_RC4_128_SHA"),
    (0x0004, "TLS_RSA_WITH_RC4_128_MD5"),
    (0xc007, "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA"),
    (0x0015, "TLS_DHE_RSA_WITH_DES_CBC_SHA"),
    (0x0009, "TLS_RSA_WITH_DES_CBC_SHA"),
    (0x0014, "TLS_DHE_RSA_EXPORT_WITH_DES40_CBC_SHA"),
    (0x0008, "TLS_RSA_EXPORT_WITH_DES40_CBC_SHA"),
    (0x0006, "TLS_RSA_EXPORT_WITH_RC2_CBC_40_MD5"),
    (0x0003, "TLS_RSA_EXPORT_WITH_RC4_40_MD5"),
    (0x00a6, "TLS_DH_anon_WITH_AES_128_GCM_SHA256"),
    (0x00a7, "TLS_DH_anon_WITH_AES_256_GCM_SHA384"),
    (0x006c, "TLS_DH_anon_WITH_AES_128_CBC_SHA256"),
    (0x006d, "TLS_DH_anon_WITH_AES_256_CBC_SHA256"),
    (0x0034, "TLS_DH_anon_WITH_AES_128_CBC_SHA"),
    (0x003a, "TLS_DH_anon_WITH_AES_256_CBC_SHA"),
    (0x00bf, "TLS_DH_anon_WITH_CAMELLIA_128_CBC_SHA256"),
    (0x00c5, "TLS_DH_anon_WITH_CAMELLIA_256_CBC_SHA256"),
    (0x0046, "TLS_DH_anon_WITH_CAMELLIA_128_CBC_SHA"),
    (0x0089, "TLS_DH_anon_WITH_CAMELLIA_256_CBC_SHA"),
    (0x009b, "TLS_DH_anon_WITH_SEED_CBC_SHA"),
    (0x001b, "TLS_DH_anon_WITH_3DES_EDE_CBC_SHA"),
    (0x0018, "TLS_DH_anon_WITH_RC4_128_MD5"),
    (0xc018, "TLS_ECDH_anon_WITH_AES_128_CBC_SHA"),
    (0xc019, "TLS_ECDH_anon_WITH_AES_256_CBC_SHA"),
    (0xc017, "TLS_ECDH_anon_WITH_3DES_EDE_CBC_SHA"),
    (0xc016, "TLS_ECDH_anon_WITH_RC4_128_SHA"),
    (0xc006, "TLS_ECDHE_ECDSA_WITH_NULL_SHA"),
    (0xc010, "TLS_ECDHE_RSA_WITH_NULL_SHA"),
    (0x003b, "TLS_RSA_WITH_NULL_SHA256"),
    (0x0002, "TLS_RSA_WITH_NULL_SHA"),
    (0x0001, "TLS_RSA_WITH_NULL_MD5"),
    (0xc015, "TLS_ECDH_anon_WITH_NULL_SHA"),
];

/// Groups of key exchange. What is fastest first, as browsers have them.
pub(crate) const GROUPS: [RegisteredNumber; 10] = [
    (0x11ec, "X25519MLKEM768"),
    (0x001d, "x25519"),
    (0x0017, "secp256r1"),
    (0x0018, "secp384r1"),
    (0x0019, "secp521r1"),
    (0x001e, "x448"),
    (0x11eb, "SecP256r1MLKEM768"),
    (0x11ed, "SecP384r1MLKEM1024"),
    (0x0100, "ffdhe2048"),
    (0x0101, "ffdhe3072"),
];

/// Signature schemes that hellos by hand offer: those of browsers, and SHA-1 for old servers.
pub(crate) const SIGNATURES: [u16; 14] = [
    0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601, 0x0807, 0x0603, 0x0808, 0x0809,
    0x0203, 0x0201,
];

pub(crate) fn name(known: &[RegisteredNumber], number: u16) -> String {
    let found = known.iter().find(|(one, _)| *one == number);
    found.map_or_else(|| format!("{number:#06x}"), |(_, name)| (*name).to_owned())
}

pub(crate) fn numbers(known: &[RegisteredNumber]) -> Vec<u16> {
    known.iter().map(|(number, _)| *number).collect()
}

/// A likeness of first bytes: the protocol, and the dialect that would begin TLS in it.
pub(crate) type PlainLikeness = (&'static str, Option<&'static str>);

/// How protocols begin when a server speaks first, or answers a ClientHello.
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

/// `None` = nothing that is known.
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

/// The first packet: three bytes of length, sequence 0, and protocol version 10 or an error.
fn is_mysql(bytes: &[u8]) -> bool {
    let Some(([low, middle, 0, 0, kind], rest)) = bytes.split_first_chunk() else {
        return false;
    };
    let length = usize::from(u16::from_le_bytes([*low, *middle]));
    matches!(*kind, 0x0a | 0xff) && length <= 1024 && length >= rest.len().min(length)
}

/// Words about bytes that are no TLS.
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
mod plain_text_tests {
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
