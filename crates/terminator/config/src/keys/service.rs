//! The rows of a service.

use std::time::Duration;

use options::{Key, Kind, key};

/// As many as `tls` takes.
const EARLY_DATA_BYTES_MAX: u64 = tls::server::EARLY_DATA_BYTES_MAX as u64;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// Every cipher suite by its standard name.
const SUITES: &[&str] = &[
    "auto",
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// The keys of `service`.
pub(super) const SERVICE: &[Key] = &[
    key("service", Kind::Table)
        .many()
        .help("A front, a back, and what holds for a connection between them. There may be many.")
        .example("[[service]]"),
    key("service.name", Kind::Text("NAME"))
        .default("main")
        .flag("name")
        .help(
            "The name in logs, metrics and the status. Letters, digits, `.`, `_` and `-`, at most \
             64; unique, so every service needs one as soon as there are two.",
        )
        .example(r#"name = "web""#),
    key("service.front", Kind::Table)
        .help("The side that clients connect to.")
        .example(r#"front = { listen = ["[::]:443"], tls = { certificates = ["site.pem"] } }"#),
    key("service.front.listen", Kind::Address)
        .many()
        .flag("listen")
        .help(
            "Addresses to listen at. An IP address with a port (`*:443` and `[::]:443` are all of \
             IPv6 and IPv4), `unix:/path` or `unix:@name` for the abstract namespace. Port 0 lets \
             the kernel choose; the status says what it chose. A socket at a path has mode 0666: \
             its directory says who may connect.",
        )
        .example(r#"listen = ["[::]:443", "unix:/run/lariat/web.sock"]"#),
    key("service.front.accept-proxy", Kind::Network)
        .many()
        .absent("nobody sends a PROXY header")
        .flag("accept-proxy")
        .help(
            "Networks whose connections begin with a PROXY header, version 1 or 2. A header from \
             anywhere else ends the connection. `unix` means every Unix socket.",
        )
        .example(r#"accept-proxy = ["10.0.0.0/8", "unix"]"#),
    key("service.front.allow", Kind::Networks)
        .many()
        .absent("everybody may connect")
        .flag("allow")
        .help(
            "Networks that alone may connect, or files that list them: a network per line, `#` and \
             `;` begin a comment. Where a PROXY header must come, the client's address in it \
             counts. Others are reset, and logged as `source-denied`.",
        )
        .example(r#"allow = ["10.0.0.0/8", "unix"]"#),
    key("service.front.deny", Kind::Networks)
        .many()
        .absent("nobody is denied")
        .flag("deny")
        .help(
            "Networks that may not connect, even if they are allowed; written as `allow`. Files are \
             read again by a reload, and one with a broken line changes nothing.",
        )
        .example(r#"deny = ["192.0.2.0/24", "deny.txt"]"#),
    key("service.front.tls", Kind::Table)
        .help("How TLS is taken off.")
        .example(r#"tls = { certificates = ["certs/"], alpn = ["h2", "http/1.1"] }"#),
    key("service.front.tls.certificates", Kind::Table)
        .many()
        .shorthand("chain")
        .flag("certificate")
        .help(
            "Certificates with their keys. Each is a PEM file that holds both, a table that names \
             them apart, or a directory: every `x.pem` in it, every `x.crt` with `x.key`, and \
             certbot's `fullchain.pem` with `privkey.pem`. A file `x.ocsp` beside it (DER) is \
             stapled. The server name chooses; for one name, ECDSA goes to clients that can and \
             RSA to the others. The first is the default for unknown names.",
        )
        .example(r#"certificates = ["certs/", { chain = "a.crt", key = "a.key" }]"#),
    key("service.front.tls.certificates.chain", Kind::Path)
        .help("The certificate chain as PEM, leaf first.")
        .example(r#"chain = "site.crt""#),
    key("service.front.tls.certificates.key", Kind::Path)
        .absent("it is in the chain's file")
        .flag("key")
        .help("The private key as PEM, not encrypted. The flag follows its `--certificate`.")
        .example(r#"key = "site.key""#),
    key("service.front.tls.certificates.ocsp", Kind::Path)
        .absent("the chain's path with the ending `.ocsp`, if there is such a file")
        .flag("ocsp")
        .help("A DER-encoded OCSP response to staple. The flag follows its `--certificate`.")
        .example(r#"ocsp = "site.ocsp""#),
    key("service.front.tls.alpn", Kind::Text("PROTOCOL"))
        .many()
        .absent("no protocol is negotiated; `http/1.1` for files")
        .flag("alpn")
        .help(
            "Application protocols (RFC 7301), the preferred one first. The servers behind must \
             speak what is named here. A client that offers only others is refused.",
        )
        .example(r#"alpn = ["h2", "http/1.1"]"#),
    key("service.front.tls.versions", Kind::Choice(&["1.2", "1.3"]))
        .many()
        .default("1.2,1.3")
        .flag("versions")
        .help("Versions of TLS that are spoken. Older ones never are.")
        .example(r#"versions = ["1.3"]"#),
    key("service.front.tls.suites", Kind::Choice(SUITES))
        .many()
        .default("auto")
        .flag("suites")
        .help(
            "Cipher suites by their standard names, the preferred one first. `auto` is all that \
             are safe, ordered by what they cost on this CPU, measured at start.",
        )
        .example(r#"suites = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"]"#),
    key(
        "service.front.tls.groups",
        Kind::Choice(&["X25519MLKEM768", "x25519", "secp256r1", "secp384r1"]),
    )
    .many()
    .default("X25519MLKEM768,x25519,secp256r1,secp384r1")
    .flag("groups")
    .help(
        "Key exchange groups, the preferred one first. A client that already sent a share for one \
         of them is served with it, so that no extra round trip is made.",
    )
    .example(r#"groups = ["x25519", "secp256r1"]"#),
    key(
        "service.front.tls.unknown-name",
        Kind::Choice(&["default", "refuse"]),
    )
    .default("default")
    .flag("unknown-name")
    .help(
        "What a client gets that names no host, or one that no certificate has: the first \
             certificate, or the alert `unrecognized_name`.",
    )
    .example(r#"unknown-name = "refuse""#),
    key("service.front.tls.client-certificates", Kind::Table)
        .absent("none are asked for")
        .help("Whether and how clients show certificates.")
        .example(r#"client-certificates = { mode = "required", ca = ["clients.pem"] }"#),
    key(
        "service.front.tls.client-certificates.mode",
        Kind::Choice(&["none", "optional", "required"]),
    )
    .flag("client-certificates")
    .help(
        "Whether a certificate is asked for. `optional` serves a client that shows none; one that \
         shows a bad one is refused in either mode.",
    )
    .example(r#"mode = "required""#),
    key("service.front.tls.client-certificates.ca", Kind::Path)
        .many()
        .absent("only where the mode is none")
        .flag("client-ca")
        .help("PEM files with the authorities that may have issued clients' certificates.")
        .example(r#"ca = ["clients-ca.pem"]"#),
    key("service.front.tls.client-certificates.crl", Kind::Path)
        .many()
        .absent("revocation is not looked at")
        .flag("client-crl")
        .help(
            "PEM files with certificate revocation lists of those authorities. Nothing in a \
             client's chain may be on a list. The issuer of its own certificate must have a list; \
             authorities above it need none. Of one issuer's lists the newest counts.",
        )
        .example(r#"crl = ["clients.crl"]"#),
    key(
        "service.front.tls.client-certificates.crl-expired",
        Kind::Choice(&["refuse", "accept"]),
    )
    .default("refuse")
    .flag("client-crl-expired")
    .help(
        "What a revocation list past its nextUpdate means. `refuse` refuses clients in whose chain \
         its issuer stands, as OpenSSL, HAProxy and nginx do: what was revoked since is unknown. \
         `accept` goes by the old list. Both are reported, and the end of a list beforehand.",
    )
    .example(r#"crl-expired = "accept""#),
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
        "Early data taken from a client that resumes TLS 1.3 (0-RTT, RFC 8446, 2.3), in bytes; less \
             than a full record (16,640 bytes) counts as one. \
             The service then keeps its sessions of TLS 1.3 in the session cache, where each \
             resumes once, so that nothing is taken twice. Servers must know: `send-proxy` with \
             version 2 tells them, in TLV 0xe1, how many bytes from the first may be early data \
             (four bytes, big-endian); or `early-data-safe` says that they need not be told.",
    )
    .example(r#"early-data = "16KiB""#),
    key("service.front.tls.revoked", Kind::Path)
        .many()
        .absent("no certificate is known to be revoked")
        .flag("revoked-certificate")
        .help(
            "PEM files with certificates of this service that were revoked, or whose key was lost. \
             Sessions made under them are not resumed: their clients get a full handshake.",
        )
        .example(r#"revoked = ["site-until-may.pem"]"#),
    key(
        "service.front.tls.replaced-certificates",
        Kind::Choice(&["resume", "refuse"]),
    )
    .default("resume")
    .flag("replaced-certificates")
    .help(
        "What becomes of sessions made under a certificate that is no longer among \
         `certificates`. `refuse` gives each client a full handshake after a renewal.",
    )
    .example(r#"replaced-certificates = "refuse""#),
    key(
        "service.front.tls.record-layer",
        Kind::Choice(&["in-place", "library"]),
    )
    .default("in-place")
    .flag("record-layer")
    .help(
        "What seals and opens after the handshake: our code, in the buffers that bytes are received \
         into and sent from, or the TLS library, at a copy more for every byte.",
    )
    .example(r#"record-layer = "library""#),
    key("service.front.tls.ktls", Kind::Table)
        .absent("`auto`")
        .shorthand("mode")
        .help("Whether the kernel seals what is long (kernel TLS).")
        .example(r#"ktls = { mode = "auto", min-size = "1MiB" }"#),
    key(
        "service.front.tls.ktls.mode",
        Kind::Choice(&["off", "auto", "require"]),
    )
    .default("auto")
    .flag("ktls")
    .help(
        "`auto` hands the sending half of a connection to the kernel as soon as it carries a long \
         response, where the kernel can. `require` does not start on a host whose kernel cannot \
         for every version and suite that the service may agree on. Without it the same bytes are \
         encrypted in user space.",
    )
    .example(r#"mode = "require""#),
    key("service.front.tls.ktls.min-size", Kind::Size(1, 1 << 40))
        .default("128KiB")
        .flag("ktls-min-size")
        .help(
            "The shortest response of files that the kernel seals. A connection to servers is \
             handed over after a longer stretch without a pause.",
        )
        .example(r#"min-size = "1MiB""#),
    key("service.back", Kind::Table)
        .help("What stands behind: servers that we connect to, or files of this host.")
        .example(r#"back = { servers = ["127.0.0.1:80"] }"#),
    key("service.back.files", Kind::Table)
        .absent("what is served comes from `servers`")
        .shorthand("root")
        .help(
            "Files beneath a folder, by HTTP/1.1 (GET and HEAD), in place of servers. The folder is \
             opened at start; a reload cannot change it.",
        )
        .example(r#"files = "/data""#),
    key("service.back.files.root", Kind::Path)
        .flag("files")
        .help(
            "The folder. Nothing outside of it is read: no path and no symbolic link leads out. \
             The files in it must be readable for the user of the worker process.",
        )
        .example(r#"root = "/data""#),
    key("service.back.files.index", Kind::Text("NAME"))
        .many()
        .absent("`index.html`")
        .flag("index")
        .help(
            "Files that answer for the folder they are in, the preferred one first; an empty list \
             means none.",
        )
        .example(r#"index = ["index.html", "index.txt"]"#),
    key("service.back.files.listing", Kind::Boolean)
        .default("false")
        .flag("listing")
        .help("Whether a folder without an index is answered with a list of what is in it.")
        .example("listing = true"),
    key("service.back.files.hidden", Kind::Boolean)
        .default("false")
        .flag("hidden")
        .help("Whether names that begin with a dot are served.")
        .example("hidden = true"),
    key("service.back.files.precompressed", Kind::Boolean)
        .default("true")
        .flag("precompressed")
        .help(
            "Whether `x.br` or `x.gz` beside `x` is sent in its place to clients that accept it.",
        )
        .example("precompressed = false"),
    key("service.back.servers", Kind::Table)
        .many()
        .absent("what is served comes from `files`")
        .shorthand("address")
        .flag("backend")
        .help("The servers: addresses, or tables that say more about each. At most 1024.")
        .example(r#"servers = ["10.0.0.3:80", { address = "unix:/run/app.sock", backup = true }]"#),
    key("service.back.servers.address", Kind::Endpoint)
        .help(
            "An IP address or host name with a port, `unix:/path`, or `unix:@name` in the abstract \
             namespace. Names are resolved again as they change.",
        )
        .example(r#"address = "app.internal:8080""#),
    key("service.back.servers.weight", Kind::Count(1, 256))
        .default("1")
        .flag("weight")
        .help("Its share against the others'. The flag follows its `--backend`.")
        .example("weight = 3"),
    key("service.back.servers.backup", Kind::Boolean)
        .default("false")
        .flag("backup")
        .help("Used only while no other server is up. The flag follows its `--backend`.")
        .example("backup = true"),
    key(
        "service.back.balance",
        Kind::Choice(&["round-robin", "least-connections", "source"]),
    )
    .default("round-robin")
    .flag("balance")
    .help(
        "How a server is chosen: in turn, by fewest open connections, or by the client's address \
         (consistent hash), each by weight.",
    )
    .example(r#"balance = "least-connections""#),
    key("service.back.check", Kind::Table)
        .absent("servers are judged by their dials alone")
        .shorthand("kind")
        .help("Active checks of every server.")
        .example(r#"check = { kind = "http", path = "/health" }"#),
    key(
        "service.back.check.kind",
        Kind::Choice(&["tcp", "tls", "http"]),
    )
    .flag("check")
    .help(
        "What is asked: that the connection is accepted, that a TLS handshake finishes, or \
             that `GET` is answered with a status from 200 to 399.",
    )
    .example(r#"kind = "tcp""#),
    key("service.back.check.path", Kind::Text("PATH"))
        .default("/")
        .flag("check-path")
        .help("The path of an `http` check.")
        .example(r#"path = "/health""#),
    key("service.back.check.host", Kind::Text("HOST"))
        .absent("the server's own address; for `tls` no name")
        .flag("check-host")
        .help("The `Host` field of an `http` check, or the server name of a `tls` check.")
        .example(r#"host = "www.example.com""#),
    key(
        "service.back.check.interval",
        Kind::Duration(Duration::from_millis(100), HOUR),
    )
    .default("2s")
    .flag("check-interval")
    .help("From one check's start to the next one's.")
    .example(r#"interval = "5s""#),
    key(
        "service.back.check.timeout",
        Kind::Duration(Duration::from_millis(10), HOUR),
    )
    .default("1s")
    .flag("check-timeout")
    .help("A check that takes longer has failed.")
    .example(r#"timeout = "500ms""#),
    key("service.back.check.fall", Kind::Count(1, 100))
        .default("3")
        .flag("check-fall")
        .help("Failures in a row that take a server out.")
        .example("fall = 2"),
    key("service.back.check.rise", Kind::Count(1, 100))
        .default("2")
        .flag("check-rise")
        .help("Successes in a row that bring it back.")
        .example("rise = 3"),
    key("service.back.passive", Kind::Table)
        .absent("its defaults")
        .help("When failed dials take a server out.")
        .example(r#"passive = { failures = 5, ejection-time = "30s" }"#),
    key("service.back.passive.failures", Kind::Count(0, 1000))
        .default("3")
        .flag("passive-failures")
        .help("Failed dials in a row that take a server out; 0 = never.")
        .example("failures = 5"),
    key(
        "service.back.passive.ejection-time",
        Kind::Duration(Duration::from_millis(100), DAY),
    )
    .default("10s")
    .flag("passive-ejection-time")
    .help("How long it stays out before one connection tries it again.")
    .example(r#"ejection-time = "30s""#),
    key("service.back.send-proxy", Kind::Table)
        .absent("no header is sent")
        .shorthand("version")
        .help("The PROXY header that a server gets before the first byte.")
        .example(r#"send-proxy = { version = "v2", crc32c = true }"#),
    key(
        "service.back.send-proxy.version",
        Kind::Choice(&["off", "v1", "v2", "pass"]),
    )
    .flag("send-proxy")
    .help(
        "`v1` is text, `v2` binary with the TLVs below. `pass` hands on the client's own header \
         byte for byte, and needs `front.accept-proxy`.",
    )
    .example(r#"version = "v2""#),
    key("service.back.send-proxy.alpn", Kind::Boolean)
        .default("true")
        .flag("send-proxy-alpn")
        .help("The negotiated protocol (PP2_TYPE_ALPN).")
        .example("alpn = false"),
    key("service.back.send-proxy.authority", Kind::Boolean)
        .default("true")
        .flag("send-proxy-authority")
        .help("The server name that the client asked for (PP2_TYPE_AUTHORITY).")
        .example("authority = false"),
    key("service.back.send-proxy.tls", Kind::Boolean)
        .default("true")
        .flag("send-proxy-tls")
        .help(
            "Version, cipher, client's common name, verify result, signature and key algorithm \
             (PP2_TYPE_SSL).",
        )
        .example("tls = false"),
    key("service.back.send-proxy.crc32c", Kind::Boolean)
        .default("false")
        .flag("send-proxy-crc32c")
        .help("A checksum of the header (PP2_TYPE_CRC32C).")
        .example("crc32c = true"),
    key("service.back.send-proxy.unique-id", Kind::Boolean)
        .default("false")
        .flag("send-proxy-unique-id")
        .help("The connection's id as in our log (PP2_TYPE_UNIQUE_ID).")
        .example("unique-id = true"),
    key(
        "service.back.send-proxy.client-certificate",
        Kind::Choice(&["off", "der", "pem"]),
    )
    .default("off")
    .flag("send-proxy-client-certificate")
    .help(
        "The client's certificate in TLV 0xe0, as hitch sends it. Only for receivers that read it: \
         haproxy refuses a header with any field over 1024 bytes.",
    )
    .example(r#"client-certificate = "der""#),
    key("service.back.early-data-safe", Kind::Boolean)
        .default("false")
        .flag("early-data-safe")
        .help(
            "Whether servers take early data without being told that it is. It may then be a \
             request that is made twice: only for servers to which that is all the same.",
        )
        .example("early-data-safe = true"),
    key("service.timeouts", Kind::Table)
        .absent("their defaults")
        .help("How long each part of a connection may take.")
        .example(r#"timeouts = { handshake = "5s", idle = "1h" }"#),
    key(
        "service.timeouts.handshake",
        Kind::Duration(Duration::from_millis(10), HOUR),
    )
    .default("10s")
    .flag("handshake-timeout")
    .help(
        "From accept to the end of the handshake, with any PROXY header before it. Long enough \
             for a lost packet on a slow path, short enough that silent clients do not pile up.",
    )
    .example(r#"handshake = "5s""#),
    key(
        "service.timeouts.dial",
        Kind::Duration(Duration::from_millis(10), HOUR),
    )
    .default("3s")
    .flag("dial-timeout")
    .help("One dial of one server; then the next one is tried. Two lost SYNs fit in.")
    .example(r#"dial = "1s""#),
    key(
        "service.timeouts.idle",
        Kind::Duration(Duration::from_millis(10), YEAR),
    )
    .default("5m")
    .flag("idle-timeout")
    .help(
        "No byte either way. It frees what vanished clients leave behind, and is longer than \
             what HTTP servers keep alive by themselves. Databases and other protocols with long \
             silences want hours.",
    )
    .example(r#"idle = "8h""#),
    key(
        "service.timeouts.request",
        Kind::Duration(Duration::from_millis(10), HOUR),
    )
    .default("10s")
    .flag("request-timeout")
    .help(
        "From the first byte of a request to its last, where files are served; then the answer \
             is 408. It is HAProxy's `timeout http-request`. Long enough for a few lost packets, \
             short enough that heads sent a byte at a time do not pile up.",
    )
    .example(r#"request = "5s""#),
    key(
        "service.timeouts.file",
        Kind::Duration(Duration::from_millis(10), HOUR),
    )
    .default("30s")
    .flag("file-timeout")
    .help(
        "What the file system may take to find, list or read something that is not in memory, \
             where files are served; then the answer is 503, or breaks off. A disk that starts to \
             turn takes up to twenty seconds.",
    )
    .example(r#"file = "5s""#),
    key("service.limits", Kind::Table)
        .absent("only the limits of the process")
        .help("Limits of one service.")
        .example("limits = { connections = 1000 }"),
    key("service.limits.connections", Kind::Count(1, 10_000_000))
        .absent("only the limit of the process")
        .flag("service-connections")
        .help("Open connections of this service over all workers; more are closed at once.")
        .example("connections = 1000"),
];
