//! What other programs call versions, suites and groups of TLS.

/// OpenSSL's and nginx's names of versions, and HAProxy's.
pub(super) const VERSION_SYNONYMS: &[(&str, &str)] = &[
    ("TLSv1.2", "1.2"),
    ("TLSv1.3", "1.3"),
    ("TLS1.2", "1.2"),
    ("TLS1.3", "1.3"),
    ("TLS 1.2", "1.2"),
    ("TLS 1.3", "1.3"),
    ("TLSv12", "1.2"),
    ("TLSv13", "1.3"),
    ("SSLv*", OLD),
    ("TLSv1*", OLD),
    ("1.0", OLD),
    ("1.1", OLD),
];

const OLD: &str = "nothing older than TLS 1.2 is spoken (RFC 8996): take it out";
const NO_FORWARD_SECRECY: &str =
    "suites without forward secrecy (RSA key exchange) are not supported: take it out";
const CBC: &str = "suites of CBC are not supported: take it out";
const FINITE_FIELD: &str =
    "finite-field Diffie-Hellman is not supported: take it out, clients take elliptic curves";

pub(super) const SUITE_SYNONYMS: &[(&str, &str)] = &[
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    ),
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    ),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
    (
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
    ("ECDHE-*", CBC),
    ("DHE-*", FINITE_FIELD),
    ("TLS_DHE_*", FINITE_FIELD),
    ("AES128-*", NO_FORWARD_SECRECY),
    ("AES256-*", NO_FORWARD_SECRECY),
    ("DES-*", NO_FORWARD_SECRECY),
    ("TLS_RSA_*", NO_FORWARD_SECRECY),
];

/// OpenSSL's and NIST's names of curves.
pub(super) const GROUP_SYNONYMS: &[(&str, &str)] = &[
    ("prime256v1", "secp256r1"),
    ("P-256", "secp256r1"),
    ("P256", "secp256r1"),
    ("P-384", "secp384r1"),
    ("P384", "secp384r1"),
    // Its name is near others, and it is another one.
    ("secp521r1", ""),
    ("ffdhe*", FINITE_FIELD),
    ("Curve25519", "x25519"),
    ("MLKEM768X25519", "X25519MLKEM768"),
    ("X25519Kyber768Draft00", "X25519MLKEM768"),
];
