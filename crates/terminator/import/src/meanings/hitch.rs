//! Options of hitch 1.8 and of stud, which it comes from: files and flags.

use crate::meaning::{Conversion, Meaning, OldDefault, always, joined, lacks, lacks_unless, same};

pub(super) const DEFAULTS: &[OldDefault] = &[
    OldDefault {
        option: "idle time",
        key: "service.timeouts.idle",
        value: "\"365d\"",
        note: "hitch ends no idle connection; Lariat would after 5 minutes",
    },
    OldDefault {
        option: "backend-connect-timeout",
        key: "service.timeouts.dial",
        value: "\"30s\"",
        note: "hitch waits 30 seconds for a connection to its backend; Lariat would 3",
    },
    OldDefault {
        option: "ssl-handshake-timeout",
        key: "service.timeouts.handshake",
        value: "\"30s\"",
        note: "hitch waits 30 seconds for a handshake; Lariat would 10",
    },
    OldDefault {
        option: "keepalive",
        key: "service.front.keepalive",
        value: "\"1h\"",
        note: "hitch asks silent clients after an hour; Lariat would after 2 minutes",
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
    joined("frontend", "service.front.listen", "").or(&["-f", "--frontend"]),
    joined("host", "service.front.listen", ""),
    joined("port", "service.front.listen", ""),
    joined("backend", "service.back.servers", "").or(&["-b", "--backend"]),
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
    joined("sni-nomatch-abort", "service.front.tls.unknown-name", "").or(&["--sni-nomatch-abort"]),
    // TLS.
    joined("tls-protos", "service.front.tls.versions", "").or(&["--tls-protos"]),
    joined("ssl", "service.front.tls.versions", "").or(&["--ssl"]),
    joined("tls", "service.front.tls.versions", "").or(&["--tls"]),
    joined("ciphers", "service.front.tls.suites", "").or(&["-c", "--ciphers"]),
    joined("ciphersuites", "service.front.tls.suites", ""),
    joined("ecdh-curve", "service.front.tls.groups", ""),
    joined("prefer-server-ciphers", "service.front.tls.suites", "")
        .or(&["-O", "--prefer-server-ciphers"]),
    same("alpn-protos", "service.front.tls.alpn", Conversion::Words).or(&["--alpn-protos"]),
    joined("client-verify", "service.front.tls.client-certificates.mode", ""),
    joined("client-verify-ca", "service.front.tls.client-certificates.ca", ""),
    joined("client", "service.back.tls", "").or(&["--client"]),
    lacks_unless(
        "ssl-engine",
        &[""],
        "keys in hardware and engines of OpenSSL are not supported",
        "use a key in a file; AES of the CPU is used without an engine",
    )
    .or(&["-e", "--ssl-engine"]),
    lacks(
        "dhparam",
        "finite-field Diffie-Hellman is not supported",
        "take it out: elliptic curves",
    )
    .or(&["--dhparam"]),
    // OCSP.
    lacks_unless("ocsp-dir", &[""], NO_OCSP_FETCH, OCSP_REMEDY).or(&["--ocsp-dir"]),
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
    joined("write-proxy-v1", ONE_HEADER, "").or(&["--write-proxy-v1"]),
    joined("write-proxy-v2", ONE_HEADER, "").or(&["--write-proxy-v2"]),
    joined("write-proxy", ONE_HEADER, "").or(&["--write-proxy"]),
    joined("proxy-proxy", ONE_HEADER, "").or(&["--proxy-proxy"]),
    joined("proxy-tlv", "service.back.send-proxy.tls", ""),
    joined("proxy-authority", "service.back.send-proxy.authority", ""),
    joined("proxy-client-cert", "service.back.send-proxy.client-certificate", ""),
    lacks_unless(
        "write-ip",
        &["off"],
        "the octets of `write-ip` are not written",
        "`back.send-proxy = \"v1\"` or `\"v2\"`, where the backend reads a PROXY header",
    )
    .or(&["--write-ip"]),
    // Time and TCP.
    same("backend-connect-timeout", "service.timeouts.dial", Conversion::Seconds)
        .or(&["--backend-connect-timeout"]),
    same("ssl-handshake-timeout", "service.timeouts.handshake", Conversion::Seconds)
        .or(&["--ssl-handshake-timeout"]),
    same("keepalive", "service.front.keepalive", Conversion::Seconds).or(&["-k", "--keepalive"]),
    same("backlog", "workers.backlog", Conversion::Number).or(&["-B", "--backlog"]),
    joined("backend-refresh", "service.back.resolve", "").or(&[
        "backendrefresh",
        "-R",
        "--backend-refresh",
    ]),
    joined("tcp-fastopen", "workers.fast-open", "").or(&[
        "enable-tcp-fastopen",
        "--enable-tcp-fastopen",
        "--tcp-fastopen",
    ]),
    lacks_unless("recv-bufsize", &["-1"], LIBRARY_TUNING, "set net.ipv4.tcp_rmem")
        .or(&["--recv-bufsize"]),
    lacks_unless("send-bufsize", &["-1"], LIBRARY_TUNING, "set net.ipv4.tcp_wmem")
        .or(&["--send-bufsize"]),
    always("ring-slots", "buffers come from a pool and go back when they have been sent")
        .or(&["--ring-slots"]),
    always("ring-data-len", "buffers come from a pool and go back when they have been sent")
        .or(&["--ring-data-len"]),
    // Processes.
    joined("workers", "workers.threads", "").or(&["-n", "--workers"]),
    joined("user", "process.user", "").or(&["-u", "--user"]),
    same("group", "process.group", Conversion::Words).or(&["-g", "--group"]),
    always("chroot", "the worker process can open no file: process.sandbox")
        .or(&["-r", "--chroot"]),
    always("daemon", "Lariat stays in the foreground, as service managers want it")
        .or(&["--daemon"]),
    same("pidfile", "process.pid-file", Conversion::Path).or(&["-p", "--pidfile"]),
    // The log.
    joined("log-level", "log.connections", "").or(&["-L", "--log-level"]),
    joined("quiet", "log.connections", "").or(&["-q", "--quiet"]),
    same("log-filename", "log.output", Conversion::Path).or(&["-l", "--log-filename"]),
    joined("syslog", "log.output", "").or(&["-s", "--syslog"]),
    joined("syslog-facility", "log.syslog.facility", "").or(&["--syslog-facility"]),
    lacks_unless(
        "logproxy",
        &["off"],
        "hitch's line about an incoming PROXY header",
        "the field `client` of Lariat's log lines is the address in the header",
    ),
    lacks("dbg-listen", "hitch's port for tests", "take it out").or(&["--dbg-listen"]),
    // The shared cache.
    joined("shared-cache", "resumption.session-cache.entries", "").or(&["-C", "--shared-cache"]),
    joined("shared-cache-listen", PEERS, "").or(&["-U", "--shared-cache-listen"]),
    joined("shared-cache-peer", PEERS, "").or(&["-P", "--shared-cache-peer"]),
    joined("shared-cache-if", "cluster.peers.multicast", "").or(&["-M", "--shared-cache-if"]),
    // Flags that are no settings.
    joined("--config", "the file", ""),
    always("--test", "`lariat check FILE`").or(&["-t"]),
    always("--version", "`lariat version`").or(&["-V"]),
    always("--help", "`lariat help`").or(&["-h"]),
    always("--default-config", "docs/reference/configuration.md"),
];
