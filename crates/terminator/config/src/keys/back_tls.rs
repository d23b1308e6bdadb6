//! The rows of a service's TLS towards its servers.

use options::{Key, Kind, key};

use super::service::SUITES;
use super::synonyms::{GROUP_SYNONYMS, SUITE_SYNONYMS, VERSION_SYNONYMS};

pub(super) const BACK_TLS: &[Key] = &[
    key("service.back.tls", Kind::Table)
        .absent("servers get plaintext")
        .shorthand("mode")
        .help("How TLS is originated towards the servers, and what they have to prove.")
        .example(r#"tls = { ca = ["internal-ca.pem"], name = "api.internal" }"#),
    key("service.back.tls.mode", Kind::Choice(&["on", "off"]))
        .default("on")
        .flag("backend-tls")
        .alone("on")
        .help(
            "Whether servers are spoken to by TLS. `on` alone verifies them by this host's \
             authorities; the flag without a value means it.",
        )
        .example(r#"mode = "on""#),
    key("service.back.tls.verify", Kind::Choice(&["on", "off"]))
        .default("on")
        .flag("backend-verify")
        .help(
            "Whether a server's certificate must lead to an authority and have the right name. \
             With `off` anyone on the way to the servers can pose as one, unless `pins` are given; \
             `lariat check` and the status say so.",
        )
        .example(r#"verify = "off""#),
    key("service.back.tls.ca", Kind::Path)
        .many()
        .absent("the authorities that this host trusts")
        .flag("backend-ca")
        .help(
            "PEM files with the authorities that may have issued the servers' certificates, or \
             with certificates of the servers themselves, as `openssl req -x509` makes them. What \
             may not sign certificates (CA:TRUE, keyCertSign) is no authority. What has expired \
             counts no more.",
        )
        .example(r#"ca = ["internal-ca.pem"]"#),
    key("service.back.tls.name", Kind::Text("NAME"))
        .absent("the host of the server's address")
        .flag("backend-name")
        .help(
            "The DNS name or IP address that a server's certificate must have; a DNS name is sent \
             as SNI. `client` stands for the name that the client asked for.",
        )
        .example(r#"name = "api.internal""#),
    key("service.back.tls.pins", Kind::Text("PIN"))
        .many()
        .absent("any key")
        .flag("backend-pin")
        .help(
            "The public keys that a server's certificate may have, beside what `verify` asks: \
             `sha256//` and the Base64 of the SHA-256 of the SubjectPublicKeyInfo, as curl writes \
             them. A refused server's pin is in the log.",
        )
        .example(r#"pins = ["sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]"#),
    key("service.back.tls.crl", Kind::Path)
        .many()
        .absent("revocation is not checked")
        .flag("backend-crl")
        .help(
            "PEM files with revocation lists of the servers' authorities, which count as those \
             of `client-certificates`.",
        )
        .example(r#"crl = ["internal.crl"]"#),
    key(
        "service.back.tls.crl-expired",
        Kind::Choice(&["refuse", "accept"]),
    )
    .default("refuse")
    .flag("backend-crl-expired")
    .help(
        "What to do if a revocation list is past its nextUpdate: refuse the servers of its issuer, \
         or use the old list.",
    )
    .example(r#"crl-expired = "accept""#),
    key("service.back.tls.certificate", Kind::Path)
        .absent("servers are shown no certificate")
        .flag("backend-certificate")
        .help(
            "The certificate that servers are shown if they ask for one: a PEM file with the chain, \
             leaf first, and the key unless `key` names it.",
        )
        .example(r#"certificate = "lariat-client.pem""#),
    key("service.back.tls.key", Kind::Path)
        .absent("it is in the certificate's file")
        .flag("backend-key")
        .help("The private key of `certificate` as PEM, not encrypted.")
        .example(r#"key = "lariat-client.key""#),
    key("service.back.tls.alpn", Kind::Text("PROTOCOL"))
        .many()
        .absent("the protocol that was negotiated with the client")
        .flag("backend-alpn")
        .help("Application protocols (RFC 7301) that servers are offered; an empty list means none.")
        .example(r#"alpn = ["http/1.1"]"#),
    key("service.back.tls.versions", Kind::Choice(&["1.2", "1.3"]))
        .many()
        .default("1.2,1.3")
        .flag("backend-versions")
        .synonyms(VERSION_SYNONYMS)
        .help("Enabled versions of TLS towards servers.")
        .example(r#"versions = ["1.3"]"#),
    key("service.back.tls.suites", Kind::Choice(SUITES))
        .many()
        .default("auto")
        .flag("backend-suites")
        .synonyms(SUITE_SYNONYMS)
        .help(
            "Cipher suites by their standard names, the preferred one first; `auto` is as in \
             `front.tls.suites`.",
        )
        .example(r#"suites = ["TLS_AES_128_GCM_SHA256"]"#),
    key(
        "service.back.tls.groups",
        Kind::Choice(&["X25519MLKEM768", "x25519", "secp256r1", "secp384r1"]),
    )
    .many()
    .default("X25519MLKEM768,x25519,secp256r1,secp384r1")
    .flag("backend-groups")
    .synonyms(GROUP_SYNONYMS)
    .help("Key exchange groups, the preferred one first; servers are sent a share for that one.")
    .example(r#"groups = ["x25519", "secp256r1"]"#),
    key("service.back.tls.resumption", Kind::Boolean)
        .default("true")
        .flag("backend-resumption")
        .help(
            "Whether sessions with servers are resumed. A server's certificate is verified again \
             after an hour at the latest. Early data is never sent.",
        )
        .example("resumption = false"),
];
