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
];

/// OpenSSL's names of suites.
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
];

/// OpenSSL's and NIST's names of curves.
pub(super) const GROUP_SYNONYMS: &[(&str, &str)] = &[
    ("prime256v1", "secp256r1"),
    ("P-256", "secp256r1"),
    ("P256", "secp256r1"),
    ("P-384", "secp384r1"),
    ("P384", "secp384r1"),
    // Its name is near others, and it is none of them.
    ("secp521r1", ""),
    ("Curve25519", "x25519"),
    ("MLKEM768X25519", "X25519MLKEM768"),
    ("X25519Kyber768Draft00", "X25519MLKEM768"),
];
