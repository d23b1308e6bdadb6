//! The rows about certificates of a service's clients.

use options::{Key, Kind, key};

pub(super) const CLIENTS: &[Key] = &[
    key("service.front.tls.client-certificates", Kind::Table)
        .absent("none are asked for")
        .help("Whether and how clients are authenticated by certificates.")
        .example(r#"client-certificates = { mode = "required", ca = ["clients.pem"] }"#),
    key(
        "service.front.tls.client-certificates.mode",
        Kind::Choice(&["none", "optional", "required"]),
    )
    .flag("client-certificates")
    .help(
        "Whether clients are asked for a certificate. `optional` serves clients \
             without one. A certificate that does not verify is refused in either mode.",
    )
    .example(r#"mode = "required""#),
    key("service.front.tls.client-certificates.ca", Kind::Path)
        .many()
        .absent("only with mode none")
        .flag("client-ca")
        .help(
            "PEM files with the authorities that may have issued clients' certificates. What may \
             not sign certificates (CA:TRUE, keyCertSign) lets in its own holder alone, and an \
             authority its own holder too. What has expired counts no more.",
        )
        .example(r#"ca = ["clients-ca.pem"]"#),
    key("service.front.tls.client-certificates.crl", Kind::Path)
        .many()
        .absent("revocation is not checked")
        .flag("client-crl")
        .help(
            "PEM files with revocation lists of those authorities. No certificate of a \
             client's chain may be on a list. The issuer of the client's own certificate \
             must have a list; authorities above it need none. Of an issuer's lists the \
             newest counts.",
        )
        .example(r#"crl = ["clients.crl"]"#),
    key(
        "service.front.tls.client-certificates.crl-expired",
        Kind::Choice(&["refuse", "accept"]),
    )
    .default("refuse")
    .flag("client-crl-expired")
    .help(
        "What to do if a revocation list is past its nextUpdate. `refuse` refuses \
             clients with its issuer in their chain, as OpenSSL, HAProxy and nginx do, \
             because later revocations are unknown. `accept` uses the old list. Both \
             warn, also before the list expires.",
    )
    .example(r#"crl-expired = "accept""#),
    key(
        "service.front.tls.client-certificates.ca-names",
        Kind::Choice(&["send", "omit"]),
    )
    .default("send")
    .flag("client-ca-names")
    .help(
        "Whether clients are sent the names of the authorities in `ca`, by which browsers choose \
             a certificate. With `omit`, or where the names take more than 60,000 bytes, they are \
             asked for a certificate of any authority.",
    )
    .example(r#"ca-names = "omit""#),
    key("service.front.tls.client-certificates.allow", Kind::Table)
        .absent("every certificate that verifies")
        .help(
            "Identities, one of which a client's certificate must have; others are refused \
             with the alert access_denied and logged as `client-certificate-not-allowed`. \
             Any entry of any key allows. With mode `optional` a client that sends no \
             certificate is served all the same.",
        )
        .example(r#"allow = { uri = ["spiffe://example.org/web/*"], cn = ["ops"] }"#),
    key(
        "service.front.tls.client-certificates.allow.dns",
        Kind::Text("NAME"),
    )
    .repeated()
    .absent("none")
    .flag("client-allow-dns")
    .help(
        "DNS names among the certificate's alternative names. `*.` at the start stands \
             for one label.",
    )
    .example(r#"dns = ["web.internal", "*.batch.internal"]"#),
    key(
        "service.front.tls.client-certificates.allow.uri",
        Kind::Text("URI"),
    )
    .repeated()
    .absent("none")
    .flag("client-allow-uri")
    .help(
        "URIs among the alternative names, such as SPIFFE IDs, compared byte by byte. \
             `/*` at the end stands for one or more segments.",
    )
    .example(r#"uri = ["spiffe://example.org/web/*"]"#),
    key(
        "service.front.tls.client-certificates.allow.email",
        Kind::Text("ADDRESS"),
    )
    .repeated()
    .absent("none")
    .flag("client-allow-email")
    .help("Mail addresses among the alternative names. Those of the subject do not count.")
    .example(r#"email = ["ops@example.org"]"#),
    key(
        "service.front.tls.client-certificates.allow.cn",
        Kind::Text("NAME"),
    )
    .repeated()
    .absent("none")
    .flag("client-allow-cn")
    .help("Common names of the subject, compared byte by byte.")
    .example(r#"cn = ["backup client"]"#),
    key(
        "service.front.tls.client-certificates.allow.ou",
        Kind::Text("NAME"),
    )
    .repeated()
    .absent("none")
    .flag("client-allow-ou")
    .help("Organizational units of the subject, compared byte by byte.")
    .example(r#"ou = ["Operations"]"#),
    key(
        "service.front.tls.client-certificates.allow.fingerprint",
        Kind::Text("SHA256"),
    )
    .repeated()
    .absent("none")
    .flag("client-allow-fingerprint")
    .help(
        "SHA-256 fingerprints of whole certificates, as `openssl x509 -fingerprint \
             -sha256` prints them, with or without colons. A renewed certificate has another.",
    )
    .example(
        "fingerprint = \
             [\"b7d1e0a2c3f4958677869504132231405f6e7d8c9bab0c1d2e3f405162738495\"]",
    ),
];
