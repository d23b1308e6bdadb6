//! Options of hitch 1.8 and of stud, which it comes from: files and flags.

use crate::meaning::{
    Conversion, Meaning, OldDefault, always, differs, joined, lacks, lacks_unless, same,
};

pub(super) const DEFAULTS: &[OldDefault] = &[
    OldDefault {
        option: "idle time",
        key: "service.timeouts.idle",
        value: "\"365d\"",
        note: "it ends no idle connection; Lariat would after 5 minutes",
    },
    OldDefault {
        option: "backend-connect-timeout",
        key: "service.timeouts.dial",
        value: "\"30s\"",
        note: "it waits 30 seconds for a connection to its backend; Lariat would 3",
    },
    OldDefault {
        option: "ssl-handshake-timeout",
        key: "service.timeouts.handshake",
        value: "\"30s\"",
        note: "it waits 30 seconds for a handshake; Lariat would 10",
    },
    OldDefault {
        option: "keepalive",
        key: "service.front.keepalive",
        value: "\"1h\"",
        note: "it asks silent clients after an hour; Lariat would after 2 minutes",
    },
    OldDefault {
        option: "log-level",
        key: "log.connections",
        value: "\"failed\"",
        note: "it logs errors; Lariat would log all connections",
    },
];

const NO_OCSP_FETCH: &str = "Lariat fetches no OCSP responses: it staples those in files";
const OCSP_REMEDY: &str = "write the response to `x.ocsp` beside `x.pem` by a timer (`openssl ocsp -respout`), and set \
     `reload.watch = true`";
const ONE_HEADER: &str = "service.back.send-proxy";
const CERTIFICATES: &str = "service.front.tls.certificates";
const LIBRARY_TUNING: &str = "Lariat sizes its buffers by itself";
const PEERS: &str = "cluster.peers";

pub(super) const MEANINGS: &[Meaning] = &[
    // Addresses and certificates.
    joined("frontend", "service.front.listen", "").or(&["-f"]),
    joined("host", "service.front.listen", ""),
    joined("port", "service.front.listen", ""),
    joined("backend", "service.back.servers", "").or(&["-b"]),
    joined("pem-file", CERTIFICATES, "").or(&["cert", "PEM"]),
    joined("private-key", "service.front.tls.certificates.key", ""),
    joined("ocsp-resp-file", "service.front.tls.certificates.ocsp", ""),
    joined("pem-dir", CERTIFICATES, ""),
    joined("pem-dir-glob", CERTIFICATES, ""),
    joined(
        "match-global-certs",
        CERTIFICATES,
        "the certificates of the top level follow those of the frontend",
    ),
    joined("sni-nomatch-abort", "service.front.tls.unknown-name", ""),
    // TLS.
    joined("tls-protos", "service.front.tls.versions", ""),
    joined("ssl", "service.front.tls.versions", ""),
    joined("tls", "service.front.tls.versions", ""),
    joined("ciphers", "service.front.tls.suites", "").or(&["-c"]),
    joined("ciphersuites", "service.front.tls.suites", ""),
    joined("ecdh-curve", "service.front.tls.groups", ""),
    joined("prefer-server-ciphers", "service.front.tls.suites", "").or(&["-O"]),
    differs(
        "alpn-protos",
        "service.front.tls.alpn",
        Conversion::Words,
        "a client that offers only others is refused, which hitch serves without a protocol",
    ),
    joined("client-verify", "service.front.tls.client-certificates.mode", ""),
    joined("client-verify-ca", "service.front.tls.client-certificates.ca", ""),
    joined("client", "service.back.tls", ""),
    lacks_unless(
        "ssl-engine",
        &[""],
        "keys in hardware and engines of OpenSSL are not supported",
        "use a key in a file; AES of the CPU is used without an engine",
    )
    .or(&["-e"]),
    lacks(
        "dhparam",
        "finite-field Diffie-Hellman is not supported",
        "take it out: elliptic curves",
    ),
    // OCSP.
    lacks_unless("ocsp-dir", &[""], NO_OCSP_FETCH, OCSP_REMEDY),
    lacks("ocsp-connect-tmo", NO_OCSP_FETCH, OCSP_REMEDY),
    lacks("ocsp-resp-tmo", NO_OCSP_FETCH, OCSP_REMEDY),
    lacks("ocsp-refresh-interval", NO_OCSP_FETCH, OCSP_REMEDY),
    lacks_unless(
        "ocsp-verify-staple",
        &["off"],
        "the signature of a response in a file is not verified",
        "verify it where it is fetched: `openssl ocsp` does",
    ),
    // What the backend gets first.
    joined("write-proxy-v1", ONE_HEADER, ""),
    joined("write-proxy-v2", ONE_HEADER, ""),
    joined("write-proxy", ONE_HEADER, ""),
    joined("proxy-proxy", ONE_HEADER, ""),
    joined("proxy-tlv", "service.back.send-proxy.tls", ""),
    joined("proxy-authority", "service.back.send-proxy.authority", ""),
    joined("proxy-client-cert", "service.back.send-proxy.client-certificate", ""),
    lacks_unless(
        "write-ip",
        &["off"],
        "the octets of `write-ip` are not written",
        "`back.send-proxy = \"v1\"` or `\"v2\"`, where the backend reads a PROXY header",
    ),
    // Time and TCP.
    same("backend-connect-timeout", "service.timeouts.dial", Conversion::Seconds),
    same("ssl-handshake-timeout", "service.timeouts.handshake", Conversion::Seconds),
    same("keepalive", "service.front.keepalive", Conversion::Seconds).or(&["-k"]),
    same("backlog", "workers.backlog", Conversion::Number).or(&["-B"]),
    joined("backend-refresh", "service.back.resolve", "").or(&["backendrefresh", "-R"]),
    joined("tcp-fastopen", "workers.fast-open", "")
        .or(&["enable-tcp-fastopen", "--enable-tcp-fastopen"]),
    lacks_unless("recv-bufsize", &["-1"], LIBRARY_TUNING, "set net.ipv4.tcp_rmem"),
    lacks_unless("send-bufsize", &["-1"], LIBRARY_TUNING, "set net.ipv4.tcp_wmem"),
    always("ring-slots", "buffers come from a pool and go back when they have been sent"),
    always("ring-data-len", "buffers come from a pool and go back when they have been sent"),
    // Processes.
    joined("workers", "workers.threads", "").or(&["-n"]),
    joined("user", "process.user", "").or(&["-u"]),
    same("group", "process.group", Conversion::Words).or(&["-g"]),
    always("chroot", "the worker process can open no file: process.sandbox").or(&["-r"]),
    always("daemon", "Lariat stays in the foreground, as service managers want it"),
    same("pidfile", "process.pid-file", Conversion::Path).or(&["-p"]),
    // The log.
    joined("log-level", "log.connections", "").or(&["-L"]),
    joined("quiet", "log.connections", "").or(&["-q"]),
    same("log-filename", "log.output", Conversion::Path).or(&["-l"]),
    joined("syslog", "log.output", "").or(&["-s"]),
    joined("syslog-facility", "log.syslog.facility", ""),
    lacks_unless(
        "logproxy",
        &["off"],
        "hitch's line about an incoming PROXY header",
        "the field `client` of Lariat's log lines is the address in the header",
    ),
    lacks("dbg-listen", "hitch's port for tests", "take it out"),
    // The shared cache.
    joined("shared-cache", "resumption.session-cache.entries", "").or(&["-C"]),
    joined("shared-cache-listen", PEERS, "").or(&["-U"]),
    joined("shared-cache-peer", PEERS, "").or(&["-P"]),
    joined("shared-cache-if", "cluster.peers.multicast", "").or(&["-M"]),
    // Flags that are no settings.
    joined("--config", "the file", ""),
    always("--test", "`lariat check FILE`").or(&["-t"]),
    always("--version", "`lariat version`").or(&["-V"]),
    always("--help", "`lariat help`").or(&["-h"]),
    always("--default-config", "docs/reference/configuration.md"),
];
