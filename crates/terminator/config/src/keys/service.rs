//! The rows of a service.

use std::time::Duration;

use options::{Key, Kind, key};

use super::synonyms::{GROUP_SYNONYMS, SUITE_SYNONYMS, VERSION_SYNONYMS};

const HOUR: Duration = Duration::from_secs(3600);
/// The most that the kernel takes is 32,767 s.
pub(super) const KEEPALIVE_MAX: Duration = Duration::from_secs(9 * 3600);
const DAY: Duration = Duration::from_secs(86_400);

/// Every cipher suite by its standard name.
pub(super) const SUITES: &[&str] = &[
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

/// The protocols with a request for TLS.
pub(super) const STARTTLS: &[&str] = &[
    "smtp", "lmtp", "imap", "pop3", "ftp", "sieve", "nntp", "mysql", "postgres", "ldap", "xmpp",
];

/// The keys of `front.tls`, down to those of clients' certificates.
pub(super) const TLS: &[Key] = &[
    key("service.front.tls", Kind::Table)
        .absent("clients speak no TLS, which is warned of unless `off` is written")
        .shorthand("mode")
        .help("What is done with clients' TLS.")
        .example(r#"tls = { certificates = ["certs/"], alpn = ["h2", "http/1.1"] }"#),
    key(
        "service.front.tls.mode",
        Kind::Choice(&["terminate", "passthrough", "off"]),
    )
    .default("terminate")
    .flag("tls")
    .help(
        "`terminate` decrypts clients' TLS and needs certificates. `passthrough` keeps it closed: \
         only the ClientHello is read, and a server of the back terminates TLS. With `off` clients \
         speak plain TCP: a server is connected as soon as a client is, and all bytes are relayed \
         as they come. Flags without a certificate mean `off` where only this host can connect and \
         servers get TLS.",
    )
    .example(r#"mode = "passthrough""#),
    key("service.front.tls.certificates", Kind::Table)
        .many()
        .shorthand("chain")
        .flag("certificate")
        .help(
            "Certificates with their keys. Each is a PEM file that holds both, a table \
             that names them separately, or a directory. Of a directory every certificate is \
             loaded whose key is there, as ACME clients, other proxies and Kubernetes leave \
             them; if there is none, those of the directories in it, as in certbot's `live`. \
             A file `x.ocsp` beside one (DER) is stapled. The certificate is \
             chosen by server name; of two for one name, clients that can verify ECDSA \
             get that one, and others RSA. The first is the default for unknown names.",
        )
        .example(r#"certificates = ["certs/", { chain = "a.crt", key = "a.key" }]"#),
    key("service.front.tls.certificates.chain", Kind::Path)
        .help("The certificate chain as PEM, leaf first.")
        .example(r#"chain = "site.crt""#),
    key("service.front.tls.certificates.key", Kind::Path)
        .absent(
            "it is in the chain's file, or beside it under a usual name (`x.key`, `privkey.pem`)",
        )
        .flag("key")
        .help("The private key as PEM, not encrypted. The flag follows its `--certificate`.")
        .example(r#"key = "site.key""#),
    key("service.front.tls.certificates.ocsp", Kind::Path)
        .absent("the chain's path with the ending `.ocsp`, if there is such a file")
        .flag("ocsp")
        .help("A DER-encoded OCSP response to staple. The flag follows its `--certificate`.")
        .example(r#"ocsp = "site.ocsp""#),
    key(
        "service.front.tls.bad-certificate",
        Kind::Choice(&["refuse", "skip"]),
    )
    .default("refuse")
    .flag("bad-certificate")
    .help(
        "What one certificate of many that cannot be read or served does. With `refuse` the start \
         or the reload fails as a whole, and what was served before still is. With `skip` the \
         others are served without it as long as one is left: its clients get another one, a \
         warning is logged, and `lariat status` and the metric \
         `lariat_certificates_skipped` show it.",
    )
    .example(r#"bad-certificate = "skip""#),
    key("service.front.tls.alpn", Kind::Text("PROTOCOL"))
        .many()
        .absent("no protocol is negotiated; `http/1.1` and `http/1.0` for files")
        .flag("alpn")
        .help(
            "Application protocols (RFC 7301), the preferred one first. The servers must \
             support all of them. A client that offers only others is refused.",
        )
        .example(r#"alpn = ["h2", "http/1.1"]"#),
    key(
        "service.front.tls.versions-and-suites",
        Kind::Choice(&["intermediate", "modern"]),
    )
    .absent("the defaults of `versions`, `suites` and `groups`")
    .flag("versions-and-suites")
    .help(
        "Versions, suites and groups as Mozilla recommends them for servers (Server Side TLS, \
         version 6.0 of April 2026). `intermediate` is for servers of all kinds: TLS 1.2 and \
         1.3. `modern` is TLS 1.3 alone. Among the suites, the order is that of `auto`. \
         `versions`, `suites` and `groups` beside it come first; `lariat check` names what \
         departs.",
    )
    .example(r#"versions-and-suites = "modern""#),
    key("service.front.tls.versions", Kind::Choice(&["1.2", "1.3"]))
        .many()
        .default("1.2,1.3")
        .flag("versions")
        .synonyms(VERSION_SYNONYMS)
        .help("Enabled versions of TLS. Older versions are not supported.")
        .example(r#"versions = ["1.3"]"#),
    key("service.front.tls.suites", Kind::Choice(SUITES))
        .many()
        .default("auto")
        .flag("suites")
        .synonyms(SUITE_SYNONYMS)
        .help(
            "Cipher suites by their standard names, the preferred one first. `auto` \
             enables all that are secure: AES first on a CPU with instructions for it, \
             ChaCha20 first elsewhere. Hosts of one cluster that differ in this need a \
             list, because a session is resumed only with its own suite.",
        )
        .example(r#"suites = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"]"#),
    key(
        "service.front.tls.groups",
        Kind::Choice(&["X25519MLKEM768", "x25519", "secp256r1", "secp384r1"]),
    )
    .many()
    .default("X25519MLKEM768,x25519,secp256r1,secp384r1")
    .flag("groups")
    .synonyms(GROUP_SYNONYMS)
    .help(
        "Key exchange groups, the preferred one first. If a client has sent a share \
             for one of them, that one is used, which saves a round trip.",
    )
    .example(r#"groups = ["x25519", "secp256r1"]"#),
    key(
        "service.front.tls.unknown-name",
        Kind::Choice(&["default", "refuse"]),
    )
    .default("default")
    .flag("unknown-name")
    .help(
        "What to answer if a client sends no server name, or one that no certificate \
             has: the first certificate (`default`), or the alert `unrecognized_name` \
             (`refuse`).",
    )
    .example(r#"unknown-name = "refuse""#),
];

pub(super) const BACK: &[Key] = &[
    key("service.back", Kind::Table)
        .absent("the service has `front.redirect`")
        .help("Servers to relay to, or static files of this host.")
        .example(r#"back = { servers = ["127.0.0.1:80"] }"#),
    key("service.back.files", Kind::Table)
        .absent("the service has `servers`")
        .shorthand("root")
        .help(
            "A folder whose files are served by HTTP/1.1 (GET and HEAD), instead of \
             servers. It is opened at start; a reload cannot change it.",
        )
        .example(r#"files = "/data""#),
    key("service.back.files.root", Kind::Path)
        .flag("files")
        .help(
            "The folder. Nothing outside of it is served: no path and no symbolic link \
             leads out. The user of the worker process must be able to read the files.",
        )
        .example(r#"root = "/data""#),
    key("service.back.files.index", Kind::Text("NAME"))
        .many()
        .absent("`index.html`")
        .flag("index")
        .help(
            "Files that are served for the folder they are in, the preferred one first; \
             an empty list means none.",
        )
        .example(r#"index = ["index.html", "index.txt"]"#),
    key("service.back.files.hidden", Kind::Boolean)
        .default("false")
        .flag("hidden")
        .help("Whether names that begin with a dot are served.")
        .example("hidden = true"),
    key("service.back.files.precompressed", Kind::Boolean)
        .default("true")
        .flag("precompressed")
        .help("Whether `x.br` or `x.gz` beside `x` is sent in its place to clients that accept it.")
        .example("precompressed = false"),
    key("service.back.files.min-rate", Kind::Size(1, 1 << 40))
        .absent("a client may take as long as `timeouts.idle` lets it")
        .flag("min-rate")
        .help(
            "Bytes per second that a client must acknowledge of what is on its way to it, on an \
             average over `min-rate-window`; a slower one is reset and logged as \
             `client-too-slow`. What fits into the kernel's buffer counts no client as slow. \
             A paused download is slow.",
        )
        .example(r#"min-rate = "1KiB""#),
    key(
        "service.back.files.min-rate-window",
        Kind::Duration(Duration::from_secs(1), HOUR),
    )
    .default("30s")
    .flag("min-rate-window")
    .help("The time over which `min-rate` is averaged. Long enough for a lost link to come back.")
    .example(r#"min-rate-window = "1m""#),
    key("service.back.servers", Kind::Table)
        .many()
        .absent("the service has `files`")
        .shorthand("address")
        .flag("backend")
        .help("The servers: addresses, or tables that say more about each. At most 1024.")
        .example(r#"servers = ["10.0.0.3:80", { address = "unix:/run/app.sock", backup = true }]"#),
    key("service.back.servers.address", Kind::Endpoint)
        .help(
            "An IP address or host name with a port, `unix:/path`, `unix:@name` in the \
             abstract namespace, or `srv:_service._tcp.name` for the servers that SRV records \
             (RFC 2782) name, with their ports, weights and priorities. Names are looked up as \
             often as `service.back.resolve` says.",
        )
        .example(r#"address = "app.internal:8080""#),
    key("service.back.servers.instances", Kind::Count(1, 64))
        .default("8")
        .flag("instances")
        .help(
            "How many servers an address with SRV records (`srv:`) stands for at most. Each is a \
             server of its own in logs, metrics and the status, by the address and a number; one \
             that no record names is not used. Records beyond them are left out, those of the \
             highest priority numbers first. The flag follows its `--backend`.",
        )
        .example("instances = 4"),
    key("service.back.servers.weight", Kind::Count(1, 256))
        .default("1")
        .flag("weight")
        .help(
            "The server's share of connections, relative to the others'. The flag follows \
             its `--backend`.",
        )
        .example("weight = 3"),
    key("service.back.servers.backup", Kind::Boolean)
        .default("false")
        .flag("backup")
        .help("Used only while no other server is up. The flag follows its `--backend`.")
        .example("backup = true"),
    key(
        "service.back.servers.max-connections",
        Kind::Count(1, 10_000_000),
    )
    .absent("no limit")
    .flag("server-max-connections")
    .help(
        "Connections that the server gets at once, over all workers of this process; dials \
             in progress count, health checks do not. Further connections go to other servers, \
             or wait in `service.back.queue`. HAProxy calls it `maxconn`. The flag follows its \
             `--backend`.",
    )
    .example("max-connections = 100"),
    key(
        "service.back.resolve",
        Kind::Duration(Duration::from_secs(1), DAY),
    )
    .default("10s")
    .flag("resolve")
    .help(
        "How often names of servers are looked up again, counted from the last answer, whatever \
             the records' TTL. A name that several services have is looked up as often as any of \
             them says. At the default a change is noticed soon, and one query in ten seconds is \
             nothing to a name server.",
    )
    .example(r#"resolve = "1m""#),
    key(
        "service.back.resolve-family",
        Kind::Choice(&["any", "ipv4", "ipv6"]),
    )
    .default("any")
    .flag("resolve-family")
    .help(
        "Which addresses of names of servers are used. With `any` a connection that gets no answer \
         from one address within 250 ms dials the next one too (RFC 8305), and what has failed is \
         passed over. `ipv4` or `ipv6` is for a host that has no way by the other one, or must not \
         use it.",
    )
    .example(r#"resolve-family = "ipv4""#),
    key(
        "service.back.slow-start",
        Kind::Duration(Duration::ZERO, DAY),
    )
    .default("0s")
    .flag("slow-start")
    .help(
        "How long a server that came back up, by checks, by dials or by `lariat server enable`, \
             has less than its share: it begins with a tenth and grows to the whole. HAProxy calls \
             it `slowstart`. 0s = it has its whole share at once.",
    )
    .example(r#"slow-start = "30s""#),
    key("service.back.queue", Kind::Table)
        .absent("its defaults")
        .help(
            "Where connections wait, in the order in which they came, while all servers that \
             may serve them have `max-connections`.",
        )
        .example(r#"queue = { length = 100, timeout = "2s" }"#),
    key("service.back.queue.length", Kind::Count(0, 10_000))
        .default("1000")
        .flag("queue-length")
        .help(
            "Connections that wait at once, over all workers of this process; further ones end \
             for `server-queue-full`. 0 = none waits. Each that waits holds its handshake's state \
             and what its client has sent, and looks for a server four times per second.",
        )
        .example("length = 100"),
    key(
        "service.back.queue.timeout",
        Kind::Duration(Duration::from_millis(10), HOUR),
    )
    .default("5s")
    .flag("queue-timeout")
    .help(
        "Time that a connection waits; then it ends for `server-queue-timeout`. HAProxy calls \
             it `timeout queue`. Few clients wait for longer, and a longer queue makes all late.",
    )
    .example(r#"timeout = "2s""#),
    key(
        "service.back.balance",
        Kind::Choice(&["round-robin", "least-connections", "source"]),
    )
    .default("round-robin")
    .flag("balance")
    .help(
        "How a server is chosen: in turn, by the fewest open connections, or by the \
             client's address (consistent hash); all by weight.",
    )
    .example(r#"balance = "least-connections""#),
    key("service.back.affinity", Kind::Choice(&["session-id"]))
        .absent("none")
        .flag("affinity")
        .help(
            "Which clients go to the server that they were at before, whatever `balance` says; \
             for services with `front.tls = \"passthrough\"`. With `session-id`, those that offer \
             a session of TLS 1.2, by its id (RFC 5246, 7.4.1.2) or a ticket (RFC 5077), go to the \
             server whose handshake made that session, or resumed it last, if it is up, not a \
             backup while others are up, and has room. Lariat learns both from the server's \
             messages, and remembers them in `resumption.session-cache`. With TLS 1.3 the id is \
             random and the ticket encrypted, so that `balance` decides: by a client's address it \
             is `balance = \"source\"`.",
        )
        .example(r#"affinity = "session-id""#),
    key("service.back.check", Kind::Table)
        .absent("servers are judged by their dials alone")
        .shorthand("kind")
        .help(
            "Active health checks of every server, at each of its addresses: it is down when all \
             of them are.",
        )
        .example(r#"check = { kind = "http", path = "/health" }"#),
    key(
        "service.back.check.kind",
        Kind::Choice(&["tcp", "tls", "http"]),
    )
    .flag("check")
    .help(
        "What passes: a connection that is accepted (`tcp`; with `starttls`, a greeting \
             that is no error), a TLS handshake that finishes (`tls`), or a `GET` answered \
             with a status from 200 to 399 (`http`). Interim answers (1xx) are passed over; the \
             content is read as far as it comes without a pause of 100 ms, up to 1 MiB, and does \
             not count.",
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
    .help("Time from the start of one check to the start of the next.")
    .example(r#"interval = "5s""#),
    key(
        "service.back.check.timeout",
        Kind::Duration(Duration::from_millis(10), HOUR),
    )
    .default("1s")
    .flag("check-timeout")
    .help(
        "A check that takes longer has failed. A server of mail, news or files has \
         `timeouts.greeting` in addition for its greeting.",
    )
    .example(r#"timeout = "500ms""#),
    key("service.back.check.fall", Kind::Count(1, 100))
        .default("3")
        .flag("check-fall")
        .help("Failed checks in a row after which a server is down.")
        .example("fall = 2"),
    key("service.back.check.rise", Kind::Count(1, 100))
        .default("2")
        .flag("check-rise")
        .help("Passed checks in a row after which it is up again.")
        .example("rise = 3"),
    key("service.back.passive", Kind::Table)
        .absent("its defaults")
        .help("When failed dials eject a server.")
        .example(r#"passive = { failures = 5, ejection-time = "30s" }"#),
    key("service.back.passive.failures", Kind::Count(0, 1000))
        .default("3")
        .flag("passive-failures")
        .help("Failed dials in a row that eject a server; 0 = never.")
        .example("failures = 5"),
    key(
        "service.back.passive.ejection-time",
        Kind::Duration(Duration::from_millis(100), DAY),
    )
    .default("10s")
    .flag("passive-ejection-time")
    .help("How long the server is ejected before one connection tries it again.")
    .example(r#"ejection-time = "30s""#),
    key(
        "service.back.keepalive",
        Kind::Duration(Duration::ZERO, KEEPALIVE_MAX),
    )
    .default("2m")
    .flag("backend-keepalive")
    .help(
        "The same for servers: time without a byte after which the kernel asks whether the \
             server is still there; 0 turns that off.",
    )
    .example(r#"keepalive = "30s""#),
    key("service.back.source", Kind::Text("ADDRESS"))
        .absent("an address that the kernel chooses")
        .flag("source")
        .help(
            "Where connections to servers come from: an address of this host, or one of each \
             family with a comma between them; or `client`, the client's own address \
             (IP_TRANSPARENT; HAProxy: `usesrc clientip`). The servers' answers must then come \
             back through this host, and the worker process keeps CAP_NET_RAW. A server of a \
             family without an address is not connected to. Health checks come from an \
             address that the kernel chooses.",
        )
        .example(r#"source = "10.0.0.5""#),
    key("service.back.starttls", Kind::Choice(STARTTLS))
        .absent("servers begin with TLS, if `back.tls` is there")
        .flag("backend-starttls")
        .help(
            "The protocol by which servers are asked for TLS, before the first byte of a client \
             reaches them; it needs `back.tls`. A server that offers none is not used.",
        )
        .example(r#"starttls = "smtp""#),
    key("service.back.ehlo-name", Kind::Text("NAME"))
        .absent(
            "this host's name, where it or /etc/hosts has it fully qualified; else the host's \
             address, as `[192.0.2.1]`",
        )
        .flag("backend-ehlo-name")
        .help(
            "The name that servers of `smtp` and `lmtp` are told before they are asked for TLS, and \
             in health checks. Some refuse one that is not of the DNS (RFC 5321 section 4.1.1.1; \
             Postfix: `smtp_helo_name`).",
        )
        .example(r#"ehlo-name = "mx.example.org""#),
    key("service.back.send-proxy", Kind::Table)
        .absent("no header is sent")
        .shorthand("version")
        .help("The PROXY header that a server gets before the first byte of a connection.")
        .example(r#"send-proxy = { version = "v2", crc32c = true }"#),
    key(
        "service.back.send-proxy.version",
        Kind::Choice(&["off", "v1", "v2", "pass"]),
    )
    .flag("send-proxy")
    .help(
        "`v1` is text, `v2` binary with the TLVs below. `pass` forwards the client's \
             own header byte for byte, and needs `front.accept-proxy`.",
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
    key("service.back.send-proxy.inside-tls", Kind::Boolean)
        .default("false")
        .flag("send-proxy-inside-tls")
        .help(
            "With `back.tls`: whether the header is the first thing inside of TLS, where nobody on \
             the way reads or changes it. Most servers want it before TLS.",
        )
        .example("inside-tls = true"),
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
            "Whether servers get early data without a TLV that says which data is early. A \
             request in it may be a replay, so this is only for servers whose requests \
             may all be repeated.",
        )
        .example("early-data-safe = true"),
];
