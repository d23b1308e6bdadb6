//! The rows about what a service does with TLS sessions and records.

use options::{Key, Kind, key};

/// As many as `tls` takes.
const EARLY_DATA_BYTES_MAX: u64 = tls::server::EARLY_DATA_BYTES_MAX as u64;

const RECORD_BYTES_MIN: u64 = tls::options::RECORD_BYTES_MIN as u64;
const RECORD_BYTES_MAX: u64 = tls::record::PLAINTEXT_BYTES_MAX as u64;

/// The keys of `service.front.tls` about sessions and records.
pub(super) const SESSIONS: &[Key] = &[
    key("service.front.tls.resumption", Kind::Boolean)
        .default("true")
        .flag("resumption")
        .help("Whether sessions are resumed (session ids, tickets and PSKs).")
        .example("resumption = false"),
    key(
        "service.front.tls.early-data",
        Kind::Size(1, EARLY_DATA_BYTES_MAX),
    )
    .absent("none is taken")
    .flag("early-data")
    .help(
        "How much early data a client that resumes TLS 1.3 may send (0-RTT, RFC 8446, \
             2.3), in bytes; less than a full record (16,640 bytes) counts as one. The \
             service then keeps its TLS 1.3 sessions in the session cache, where each \
             resumes once, so that no early data is accepted twice. Servers must know \
             which data came early: `send-proxy` with version 2 sends them TLV 0xe1, the \
             number of bytes from the start that may be early data (four bytes, \
             big-endian). Otherwise `early-data-safe` must say that they need not know.",
    )
    .example(r#"early-data = "16KiB""#),
    key("service.front.tls.revoked", Kind::Path)
        .many()
        .absent("no certificate is known to be revoked")
        .flag("revoked-certificate")
        .help(
            "PEM files with certificates of this service that were revoked, or whose key \
             was lost. Sessions made under them are not resumed; their clients make a \
             full handshake.",
        )
        .example(r#"revoked = ["site-until-may.pem"]"#),
    key(
        "service.front.tls.replaced-certificates",
        Kind::Choice(&["resume", "refuse"]),
    )
    .default("resume")
    .flag("replaced-certificates")
    .help(
        "Whether sessions made under a certificate that is no longer among \
             `certificates` are resumed. `refuse` costs each client a full handshake \
             after a renewal.",
    )
    .example(r#"replaced-certificates = "refuse""#),
    key(
        "service.front.tls.max-record-size",
        Kind::Size(RECORD_BYTES_MIN, RECORD_BYTES_MAX),
    )
    .absent("records carry up to 16,384 bytes, fewer at the start of a connection")
    .flag("max-record-size")
    .help(
        "The most plaintext in a record to clients, also in the handshake, for devices that have \
             no memory for 16 KiB. The extensions by which clients ask for it \
             (`max_fragment_length`, `record_size_limit`) are not answered, so that it holds for \
             all clients of the service. The kernel encrypts nothing then.",
    )
    .example("max-record-size = 512"),
    key("service.front.tls.ktls", Kind::Table)
        .absent("`auto`")
        .shorthand("mode")
        .help("Whether the kernel encrypts long transfers (kernel TLS).")
        .example(r#"ktls = { mode = "auto", min-size = "1MiB" }"#),
    key(
        "service.front.tls.ktls.mode",
        Kind::Choice(&["off", "auto", "require"]),
    )
    .default("auto")
    .flag("ktls")
    .help(
        "`auto` hands the sending half of a connection to the kernel when it carries \
             a long response and the kernel supports that; otherwise the same bytes are \
             encrypted in user space. `require` refuses to start unless the kernel \
             supports every version and suite that the service may negotiate.",
    )
    .example(r#"mode = "require""#),
    key("service.front.tls.ktls.min-size", Kind::Size(1, 1 << 40))
        .default("128KiB")
        .flag("ktls-min-size")
        .help(
            "The shortest response of static files that the kernel encrypts. A connection \
             to a server is handed over after eight times as much has come without a \
             pause.",
        )
        .example(r#"min-size = "1MiB""#),
];
