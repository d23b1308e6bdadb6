//! Options of stunnel 5.

use crate::meaning::{
    Conversion, Meaning, OldDefault, always, differs, joined, lacks, lacks_unless, same,
};

pub(super) const DEFAULTS: &[OldDefault] = &[
    OldDefault {
        option: "TIMEOUTidle",
        key: "service.timeouts.idle",
        value: "\"12h\"",
        note: "it ends a connection after 43,200 idle seconds; Lariat would after 5 minutes",
    },
    OldDefault {
        option: "TIMEOUTconnect",
        key: "service.timeouts.dial",
        value: "\"10s\"",
        note: "it waits 10 seconds for a connection to a server; Lariat would 3",
    },
    OldDefault {
        option: "TIMEOUTbusy",
        key: "service.timeouts.handshake",
        value: "\"5m\"",
        note: "it waits 5 minutes for a handshake; Lariat would 10 seconds",
    },
    OldDefault {
        option: "debug",
        key: "log.successes-per-second",
        value: "1000000",
        note: "it logs each connection; Lariat would 100 of a kind per second and worker",
    },
    OldDefault {
        option: "debug",
        key: "log.failures-per-second",
        value: "1000000",
        note: "it logs each failure; Lariat would 10 of a kind per second and worker",
    },
];

const NO_ENGINE: &str = "engines, hardware keys and PKCS #11 are not supported";
const KEY_FILE: &str = "use a certificate and a key in files (PEM)";
const NO_EXEC: &str = "no programs are started for connections";
const EXEC_REMEDY: &str =
    "start it by systemd (a socket with Accept=yes) and name its address in `back.servers`";
const NO_PSK: &str = "pre-shared keys are not supported";
const PSK_REMEDY: &str = "client certificates: `front.tls.client-certificates`";
const NO_OCSP: &str = "no OCSP responder is asked about peers";
const OCSP_REMEDY: &str = "revocation lists: the key `crl`";
const NO_PROTOCOL_LOGIN: &str = "Lariat logs in nowhere";
const PROTOCOL_REMEDY: &str = "keep this service in stunnel";
const RANDOMNESS: &str = "random numbers are the kernel's";
const CLIENT_CA: &str = "service.front.tls.client-certificates.ca or service.back.tls.ca";

pub(super) const MEANINGS: &[Meaning] = &[
    // Global options.
    always("chroot", "the worker process can open no file: process.sandbox"),
    lacks_unless("compression", &["none"], "TLS is not compressed (CRIME)", "take it out"),
    joined("debug", "log.connections", ""),
    always("EGD", RANDOMNESS),
    lacks("engine", NO_ENGINE, KEY_FILE),
    lacks("engineCtrl", NO_ENGINE, KEY_FILE),
    lacks("engineDefault", NO_ENGINE, KEY_FILE),
    lacks("engineId", NO_ENGINE, KEY_FILE),
    lacks("engineNum", NO_ENGINE, KEY_FILE),
    lacks("provider", NO_ENGINE, KEY_FILE),
    lacks("providerParameter", NO_ENGINE, KEY_FILE),
    lacks_unless("fips", &["no"], "no build in FIPS mode exists", "keep stunnel where it must be"),
    always("foreground", "Lariat stays in the foreground, as service managers want it"),
    always("iconActive", "Lariat has no icon; its status page is at admin.listen"),
    always("iconError", "Lariat has no icon; its status page is at admin.listen"),
    always("iconIdle", "Lariat has no icon; its status page is at admin.listen"),
    always("taskbar", "Lariat has no icon; its status page is at admin.listen"),
    lacks_unless("log", &["append"], "log files are appended to", "rotate them (SIGUSR1)"),
    joined("output", "log.output", ""),
    joined("pid", "process.pid-file", ""),
    always("RNDbytes", RANDOMNESS),
    always("RNDfile", RANDOMNESS),
    always("RNDoverwrite", RANDOMNESS),
    lacks("service", "messages have the name lariat", "none is needed: log lines name the service"),
    joined("setgid", "process.group", ""),
    joined("setuid", "process.user", ""),
    joined("syslog", "log.output", ""),
    joined("include", "the files in the directory", ""),
    lacks("setEnv", "no variables are set", "set them in the unit (Environment=)"),
    // Addresses.
    joined("accept", "service.front.listen", ""),
    joined("connect", "service.back.servers", ""),
    joined("client", "service.back.tls", ""),
    joined("sni", "service.front.names or service.back.tls.name", ""),
    joined("protocol", "service.front.starttls or service.back.starttls", ""),
    joined("protocolHost", "service.back.ehlo-name", ""),
    lacks("protocolAuthentication", NO_PROTOCOL_LOGIN, PROTOCOL_REMEDY),
    lacks("protocolDomain", NO_PROTOCOL_LOGIN, PROTOCOL_REMEDY),
    lacks("protocolHeader", NO_PROTOCOL_LOGIN, PROTOCOL_REMEDY),
    lacks("protocolPassword", NO_PROTOCOL_LOGIN, PROTOCOL_REMEDY),
    lacks("protocolUsername", NO_PROTOCOL_LOGIN, PROTOCOL_REMEDY),
    same("local", "service.back.source", Conversion::Text),
    joined("transparent", "service.back.source", ""),
    joined("failover", "service.back.balance", ""),
    always("delay", "names of servers are looked up again and again: service.back.resolve"),
    lacks("exec", NO_EXEC, EXEC_REMEDY),
    lacks("execArgs", NO_EXEC, EXEC_REMEDY),
    lacks_unless("pty", &["no"], NO_EXEC, EXEC_REMEDY),
    lacks_unless("retry", &["no"], NO_EXEC, EXEC_REMEDY),
    lacks_unless(
        "libwrap",
        &["no"],
        "/etc/hosts.allow and /etc/hosts.deny are not read",
        "write their networks into `front.allow` and `front.deny`",
    ),
    lacks("ident", "no ident server is asked (RFC 1413)", "client certificates, or `front.allow`"),
    lacks(
        "redirect",
        "a client whose certificate does not verify is refused",
        "`mode = \"optional\"`, and a server that reads the verify result in the PROXY header",
    ),
    joined(
        "socket",
        "service.front.keepalive, service.back.keepalive, service.front.interface",
        "",
    ),
    // Certificates and keys.
    joined("cert", "service.front.tls.certificates or service.back.tls.certificate", ""),
    joined("key", "service.front.tls.certificates.key or service.back.tls.key", ""),
    lacks("CAengine", NO_ENGINE, KEY_FILE),
    joined("CAfile", CLIENT_CA, ""),
    joined("CApath", "service.back.tls.ca", ""),
    joined("CRLfile", "the key `crl` beside `ca`", ""),
    lacks(
        "CRLpath",
        "directories of hashed lists are not read",
        "join its lists into one file, and name that in the key `crl`",
    ),
    joined("verify", CLIENT_CA, ""),
    joined("verifyChain", CLIENT_CA, ""),
    joined("verifyPeer", CLIENT_CA, ""),
    joined("requireCert", "service.front.tls.client-certificates.mode", ""),
    joined("checkEmail", "service.front.tls.client-certificates.allow.email", ""),
    joined(
        "checkHost",
        "service.front.tls.client-certificates.allow.dns or service.back.tls.name",
        "",
    ),
    joined("checkIP", "service.back.tls.name", ""),
    lacks("OCSP", NO_OCSP, OCSP_REMEDY),
    lacks_unless("OCSPaia", &["no"], NO_OCSP, OCSP_REMEDY),
    lacks("OCSPflag", NO_OCSP, OCSP_REMEDY),
    lacks_unless("OCSPnonce", &["no"], NO_OCSP, OCSP_REMEDY),
    lacks_unless("OCSPrequire", &["no"], NO_OCSP, OCSP_REMEDY),
    lacks("PSKidentity", NO_PSK, PSK_REMEDY),
    lacks("PSKsecrets", NO_PSK, PSK_REMEDY),
    // TLS.
    joined("ciphers", "the key `suites`", ""),
    joined("ciphersuites", "the key `suites`", ""),
    joined("curves", "the key `groups`", ""),
    joined("sslVersion", "the key `versions`", ""),
    joined("sslVersionMax", "the key `versions`", ""),
    joined("sslVersionMin", "the key `versions`", ""),
    joined("options", "the keys `versions` and `suites`", ""),
    lacks("config", "commands of OpenSSL are not executed", "see the keys of `front.tls`"),
    lacks(
        "securityLevel",
        "OpenSSL's security levels do not exist",
        "none is needed: suites and groups have 128 bits or more",
    ),
    lacks_unless(
        "renegotiation",
        &["no"],
        "TLS is not renegotiated",
        "none is needed but for old clients",
    ),
    joined("sessionResume", "the key `resumption`", ""),
    joined("sessionCacheSize", "resumption.session-cache.entries", ""),
    differs(
        "sessionCacheTimeout",
        "resumption.session-cache.lifetime",
        Conversion::Seconds,
        "tickets have `resumption.tickets.lifetime`",
    ),
    lacks(
        "sessiond",
        "stunnel's cache server is not spoken to",
        "`cluster.peers` or `cluster.store`: the sessions of all hosts",
    ),
    lacks(
        "ticketKeySecret",
        "keys in the configuration itself are not read",
        "`resumption.tickets.secret`: a file with 32 random bytes, the same on all hosts",
    ),
    lacks(
        "ticketMacSecret",
        "keys in the configuration itself are not read",
        "`resumption.tickets.secret`: a file with 32 random bytes, the same on all hosts",
    ),
    // Time and the rest.
    differs(
        "TIMEOUTbusy",
        "service.timeouts.handshake",
        Conversion::Seconds,
        "it bounds the handshake alone",
    ),
    always("TIMEOUTclose", "a connection ends when both sides have said so, or when it is idle"),
    same("TIMEOUTconnect", "service.timeouts.dial", Conversion::Seconds),
    same("TIMEOUTidle", "service.timeouts.idle", Conversion::Seconds),
    always("logId", "each log line has an id that is unique"),
    always("reset", "a connection that ended by an error is reset"),
    always("stack", "no thread is started for a connection"),
];
