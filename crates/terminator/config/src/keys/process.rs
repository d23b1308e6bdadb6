//! The rows of the whole process.

use std::time::Duration;

use options::{Key, Kind, key};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

pub(super) const PROCESS: &[Key] = &[
    key("workers", Kind::Table)
        .absent("their defaults")
        .shorthand("threads")
        .help("The threads that carry connections. A change takes a restart.")
        .example(r#"workers = { threads = "0-3,6" }"#),
    key("workers.threads", Kind::Threads)
        .default("auto")
        .flag("workers")
        .help(
            "`auto` starts one for every CPU that the process may use, pinned to it. A \
             number starts that many, pinned while there are enough CPUs. A list such as \
             `\"0-3,6\"` starts one for each of these CPUs; write a single CPU as \
             `\"4-4\"`.",
        )
        .example("threads = 4"),
    key("workers.backlog", Kind::Count(1, 65_535))
        .default("4096")
        .flag("backlog")
        .help(
            "The length of the kernel's queue of connections not yet accepted, for each \
             listener and worker. The kernel limits it to `net.core.somaxconn`.",
        )
        .example("backlog = 1024"),
    key("workers.fast-open", Kind::Count(0, 65_535))
        .default("0")
        .flag("fast-open")
        .help("The queue of TCP Fast Open (RFC 7413); 0 = off. Replayed data reaches TLS only.")
        .example("fast-open = 256"),
    key("workers.file-threads", Kind::Count(1, 64))
        .default("4")
        .flag("file-threads")
        .help(
            "Threads that find and read files that are not in memory, so that no worker \
             waits for a disk; shared by all workers, and started when needed. Four keep \
             one disk busy; many disks or network file systems need more. A thread whose \
             file system hangs is replaced.",
        )
        .example("file-threads = 16"),
    key("limits", Kind::Table)
        .absent("their defaults")
        .help("Limits of the whole process.")
        .example("limits = { connections = 20000 }"),
    key("limits.connections", Kind::Count(1, 10_000_000))
        .default("50000")
        .flag("connections")
        .help(
            "Open connections. Each takes two file descriptors, so the process's limit of \
             these (`ulimit -Hn`) should be more than twice as high; without a \
             descriptor, clients wait in the kernel's queue.",
        )
        .example("connections = 200000"),
    key("limits.handshakes", Kind::Count(1, 10_000_000))
        .default("10000")
        .flag("handshakes")
        .help(
            "Handshakes in progress. It bounds what a flood of half-open clients can hold in memory; \
             where it is reached, a newcomer takes the place of the oldest that has not sent its \
             whole hello or, if those are fewer, of the oldest that was answered. Where clients \
             wait longer than a second for their turn, the newest are served first.",
        )
        .example("handshakes = 2000"),
    key("limits.per-source", Kind::Table)
        .absent("its defaults")
        .help(
            "What one client address may take, over all services; where a PROXY header must come, \
             the address in it. It keeps one host from taking the places of all others, and no \
             browser meets the defaults.",
        )
        .example("per-source = { connections = 200, rate = 50 }"),
    key("limits.per-source.connections", Kind::Count(0, 10_000_000))
        .default("10000")
        .flag("source-connections")
        .help(
            "Open connections of one client address; 0 = no limit. Further ones are reset: \
             `source-connection-limit`.",
        )
        .example("connections = 200"),
    key("limits.per-source.handshakes", Kind::Count(0, 10_000_000))
        .default("1000")
        .flag("source-handshakes")
        .help(
            "Handshakes in progress of one client address; 0 = no limit. Further ones are reset: \
             `source-handshake-limit`.",
        )
        .example("handshakes = 20"),
    key("limits.per-source.rate", Kind::Count(0, 1_000_000))
        .default("1000")
        .flag("source-rate")
        .help(
            "New connections per second of one client address, of which as many may come at once; \
             0 = no limit. Further ones are reset: `source-rate-limit`.",
        )
        .example("rate = 50"),
    key("limits.per-source.ipv6-prefix", Kind::Count(16, 128))
        .default("64")
        .flag("source-ipv6-prefix")
        .help("The leading bits of an IPv6 address that are one source: sites are given a /64 or more.")
        .example("ipv6-prefix = 56"),
    key("limits.per-source.exempt", Kind::Networks)
        .many()
        .absent("this host, private networks (RFC 1918, RFC 4193) and link-local addresses")
        .flag("source-exempt")
        .help(
            "Networks without limits of one client address, or files that list them. A load balancer may bring all \
             clients under its own address; name it here, or have it send a PROXY header.",
        )
        .example(r#"exempt = ["203.0.113.7", "partners.txt"]"#),
    key("process", Kind::Table)
        .absent("its defaults")
        .help("The two processes and their rights.")
        .example(r#"process = { user = "lariat" }"#),
    key("process.user", Kind::Text("USER"))
        .absent("`nobody` if started as root, else unchanged")
        .flag("user")
        .help("The user that the worker process changes to. This needs root at start.")
        .example(r#"user = "lariat""#),
    key("process.group", Kind::Text("GROUP"))
        .many()
        .absent("those of the user")
        .flag("group")
        .help(
            "The group of the worker process, and further groups behind it. Where none is written \
             it has all groups of its user (`/etc/group`), such as that of a server's Unix socket.",
        )
        .example(r#"group = ["lariat", "redis"]"#),
    key(
        "process.sandbox",
        Kind::Choice(&["on", "files", "system-calls", "off"]),
    )
    .default("on")
    .flag("sandbox")
    .help(
            "What is denied to the worker process before it receives a byte: `files` \
             denies opening any file (Landlock), `system-calls` all calls that it does \
             not need (seccomp), `on` both.",
        )
    .example(r#"sandbox = "files""#),
    key("process.connect-ports", Kind::Ports)
        .many()
        .absent("any port")
        .flag("connect-ports")
        .help(
            "The TCP ports that the worker process can connect to, at any address, even \
             if an attacker controls it: those of all servers, and those that a reload \
             may bring. `[]` allows none, for Unix sockets and files. A change takes a \
             restart, and so does a server at any other port. At most 4096 ports. It \
             needs `sandbox = \"on\"` and Linux 6.7 with Landlock; the start warns if the \
             kernel cannot do it.",
        )
        .example(r#"connect-ports = [80, "8000-8010"]"#),
    key("process.drain", Kind::Duration(Duration::ZERO, DAY))
        .default("60s")
        .flag("drain-timeout")
        .help(
            "How long open connections may finish after a drain began (`lariat drain`, \
             SIGTERM). Set it shorter than the time after which the service manager \
             kills.",
        )
        .example(r#"drain = "5m""#),
    key("process.drain-delay", Kind::Duration(Duration::ZERO, DAY))
        .default("0s")
        .flag("drain-delay")
        .help(
            "How long connections are still accepted when a drain is asked for, while `/ready` \
             answers 503: until every load balancer has noticed. `drain` begins then. Set it to \
             the interval of their checks times the failures that they wait for.",
        )
        .example(r#"drain-delay = "10s""#),
    key("process.pid-file", Kind::Path)
        .absent("none is written")
        .flag("pid-file")
        .help("A file to which the supervisor writes its process id.")
        .example(r#"pid-file = "/run/lariat/lariat.pid""#),
    key("reload", Kind::Table)
        .absent("by signal and by `lariat reload` alone")
        .help("When the configuration is read again by itself.")
        .example("reload = { watch = true }"),
    key("reload.watch", Kind::Boolean)
        .default("false")
        .flag("reload-watch")
        .alone("on")
        .help(
            "Whether a change of the configuration, or of a file or folder that it names, is a \
             reload, as by `lariat reload`. Links are followed, so that volumes of Kubernetes \
             work. Where the kernel tells of no change, as on network file systems, files are \
             looked at every 10 seconds.",
        )
        .example("watch = true"),
    key(
        "reload.debounce",
        Kind::Duration(Duration::from_millis(10), Duration::from_secs(600)),
    )
    .default("1s")
    .flag("reload-debounce")
    .help(
        "How long files must stay as they are before they are read: programs that renew certificates \
         write several. After ten times this they are read in any case.",
    )
    .example(r#"debounce = "5s""#),
    key("log", Kind::Table)
        .absent("its defaults")
        .shorthand("output")
        .help("Log lines about connections, and messages.")
        .example(r#"log = { format = "json", connections = "failed" }"#),
    key("log.output", Kind::Text("PATH"))
        .default("stdout")
        .flag("log")
        .help(
            "Where lines about connections go: `stdout`, `stderr`, `syslog`, `journald`, or a file \
             to append to.",
        )
        .example(r#"output = "/var/log/lariat.log""#),
    key("log.connections", Kind::Choice(&["all", "failed", "none"]))
        .default("all")
        .flag("log-connections")
        .help("Which connections get a line.")
        .example(r#"connections = "failed""#),
    key("log.format", Kind::Choice(&["text", "json"]))
        .default("text")
        .flag("log-format")
        .help(
            "`key=value` pairs, or one JSON object per line. For `syslog` and `journald` it is the \
             text of an entry, which has all fields as well.",
        )
        .example(r#"format = "json""#),
    key("log.messages", Kind::Choice(&["auto", "plain", "text", "json"]))
        .default("auto")
        .flag("log-messages")
        .help(
            "How messages about the program itself are written to the standard error. `text`: \
             each line has time (RFC 3339, UTC) and level (`error`, `warning`, `notice`). \
             `json`: one object per message, with `time`, `level`, `message` and `hint`. \
             `plain`: without time. `auto` is `plain` at a terminal, else `text`; for journald \
             lines have a priority, and it adds the time.",
        )
        .example(r#"messages = "json""#),
    key(
        "log.messages-output",
        Kind::Choice(&["stderr", "syslog", "journald"]),
    )
    .default("stderr")
    .flag("log-messages-output")
    .help(
        "Where messages about the program itself go once the configuration has been read. What the \
         daemon does not take, and why the program ends, goes to the standard error.",
    )
    .example(r#"messages-output = "journald""#),
    key("log.syslog", Kind::Table)
        .absent("its defaults")
        .shorthand("address")
        .help("The log daemon of `output` and `messages-output` `syslog` (RFC 5424).")
        .example(r#"syslog = { address = "10.0.0.9:514", facility = "local0" }"#),
    key("log.syslog.address", Kind::Address)
        .default("unix:/dev/log")
        .flag("log-syslog")
        .help(
            "A Unix datagram socket, or an IP address and a port that takes entries over UDP \
             (RFC 5426). Where `/dev/log` is journald's, use `journald`: it does not read \
             RFC 5424.",
        )
        .example(r#"address = "10.0.0.9:514""#),
    key(
        "log.syslog.facility",
        Kind::Choice(&[
            "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
            "ftp", "ntp", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
            "local7",
        ]),
    )
    .default("daemon")
    .flag("log-facility")
    .help("The facility of all entries, by which syslog daemons sort.")
    .example(r#"facility = "local0""#),
    key("log.journald", Kind::Path)
        .default("/run/systemd/journal/socket")
        .flag("log-journald")
        .help("The socket of the journal, for `output` and `messages-output` `journald`.")
        .example(r#"journald = "/run/systemd/journal.edge/socket""#),
    key("log.failures-per-second", Kind::Count(0, 1_000_000))
        .default("10")
        .flag("log-failures")
        .help(
            "Lines per second and worker for each reason of failure. Further ones are \
             counted, and the count is logged, so that a flood does not fill the disk.",
        )
        .example("failures-per-second = 100"),
    key("log.successes-per-second", Kind::Count(0, 1_000_000))
        .default("100")
        .flag("log-successes")
        .help(
            "The same for each reason that is no failure: a busy host writes at most 50 kB per \
             second and worker of these. `connections = \"failed\"` writes none.",
        )
        .example("successes-per-second = 1000"),
    key("log.sample", Kind::Count(1, 1_000_000))
        .default("1")
        .flag("log-sample")
        .help(
            "Of so many connections that ended without a failure one gets a line, in each worker. \
             The line has the number as `sampled`, so that sums can be estimated. Failures are not \
             sampled.",
        )
        .example("sample = 100"),
    key("admin", Kind::Table)
        .absent("its defaults")
        .help("The status page, the metrics and the status socket.")
        .example(r#"admin = { listen = "127.0.0.1:9090" }"#),
    key("admin.listen", Kind::Address)
        .absent("off")
        .flag("admin")
        .help(
            "The address of the status page and `/metrics`, over plain HTTP. They show \
             the names of services and servers, so an address that is not loopback needs \
             `token` or `insecure`. A request must be for an IP address, `localhost` or \
             one of `hosts`.",
        )
        .example(r#"listen = "127.0.0.1:9090""#),
    key("admin.hosts", Kind::Text("HOST"))
        .many()
        .absent("none")
        .flag("admin-hosts")
        .help(
            "Further host names that requests may be for (`Host`). Requests for others \
             are refused, so that no web page can read the status through a visitor's \
             browser.",
        )
        .example(r#"hosts = ["lariat.internal"]"#),
    key("admin.token", Kind::Path)
        .absent("none is asked for")
        .flag("admin-token")
        .help(
            "A file with a token of 16 or more visible ASCII characters, which every \
             request must carry: as a bearer token (`Authorization: Bearer TOKEN`) or, in \
             a browser, as the password of the user `lariat`. It is sent unencrypted.",
        )
        .example(r#"token = "/etc/lariat/admin.token""#),
    key("admin.insecure", Kind::Boolean)
        .default("false")
        .flag("admin-insecure")
        .help("Whether `listen` may be an address that other hosts can reach, without a token.")
        .example("insecure = true"),
    key("admin.status-socket", Kind::Path)
        .absent(
            "`/run/lariat/status.sock` as root, else in `$XDG_RUNTIME_DIR/lariat/`, else in \
             `/tmp/lariat-UID/`",
        )
        .flag("status-socket")
        .help(
            "The Unix socket for `lariat status`, `reload` and `drain`. It only writes. \
             `/tmp/lariat-UID/` (or `$TMPDIR/lariat-UID/`) must be a directory of that user's own \
             with mode 0700; it is made if it is not there.",
        )
        .example(r#"status-socket = "/run/lariat/status.sock""#),
    key("resumption", Kind::Table)
        .absent("its defaults")
        .help(
            "Sessions. All services share the cache and the keys; each resumes only its \
             own sessions.",
        )
        .example(r#"resumption = { tickets = { rotate = "1h", keep = 24 } }"#),
    key("resumption.session-cache", Kind::Table)
        .absent("its defaults")
        .help(
            "The session cache: sessions of TLS 1.2 for clients without tickets, and of \
             TLS 1.3 according to `tls13`. A reload that changes its limits empties it.",
        )
        .example(r#"session-cache = { entries = 100000, lifetime = "1h" }"#),
    key(
        "resumption.session-cache.entries",
        Kind::Count(1, 100_000_000),
    )
    .default("100000")
    .flag("session-entries")
    .help("Sessions in the cache. When it is full, those that were never resumed leave first.")
    .example("entries = 1000000"),
    key(
        "resumption.session-cache.bytes",
        Kind::Size(1 << 16, 1 << 40),
    )
    .default("64MiB")
    .flag("session-bytes")
    .help("Memory of the cache.")
    .example(r#"bytes = "256MiB""#),
    key(
        "resumption.session-cache.lifetime",
        Kind::Duration(SECOND, DAY),
    )
    .default("1h")
    .flag("session-lifetime")
    .help(
            "How long a session in the cache may be resumed. RFC 5246 advises at most 24 \
             hours.",
        )
    .example(r#"lifetime = "10m""#),
    key(
        "resumption.tls13",
        Kind::Choice(&["auto", "tickets", "cache"]),
    )
    .default("auto")
    .flag("tls13-sessions")
    .help(
            "Where sessions of TLS 1.3 are kept. `tickets`: with the clients; nothing is \
             stored, and every host with the same keys resumes them. `cache`: in the \
             session cache; each resumes once, on this host or a peer of the cluster (with a \
             store and no peers, once here and once elsewhere). `auto` is \
             `tickets`, and `cache` for services with `early-data`.",
        )
    .example(r#"tls13 = "cache""#),
    key("resumption.tickets", Kind::Table)
        .absent("its defaults")
        .help("The keys of tickets (TLS 1.2) and PSKs (TLS 1.3).")
        .example(r#"tickets = { rotate = "12h", keep = 4 }"#),
    key(
        "resumption.tickets.rotate",
        Kind::Duration(Duration::from_secs(60), DAY.saturating_mul(7)),
    )
    .default("12h")
    .flag("ticket-rotate")
    .help(
            "How long one key encrypts. With a stolen key, what was resumed with it can \
             be read.",
        )
    .example(r#"rotate = "1h""#),
    key("resumption.tickets.keep", Kind::Count(1, 100))
        .default("4")
        .flag("ticket-keep")
        .help("How many older keys still decrypt.")
        .example("keep = 24"),
    key(
        "resumption.tickets.lifetime",
        Kind::Duration(SECOND, DAY.saturating_mul(7)),
    )
    .absent("`keep` times `rotate`, at most 7 days")
    .flag("ticket-lifetime")
    .help(
            "How long a ticket may be resumed: at most as long as its key is kept, and at \
             most 7 days (RFC 8446, 4.6.1).",
        )
    .example(r#"lifetime = "1h""#),
    key("resumption.tickets.count", Kind::Count(0, 4))
        .default("1")
        .flag("ticket-count")
        .help(
            "Tickets after a TLS 1.3 handshake, each for one connection. A client that \
             asks for a number gets it, at most 4 (RFC 9149); with 0 no client gets any.",
        )
        .example("count = 2"),
    key("resumption.tickets.secret", Kind::Path)
        .absent("a random one, made when the supervisor starts")
        .flag("ticket-secret")
        .help(
            "A file with at least 32 random bytes from which keys are derived. Hosts with \
             the same file resume each other's sessions, and a restart of the supervisor \
             loses none.",
        )
        .example(r#"secret = "/etc/lariat/tickets.secret""#),
    key("resumption.tickets.keys", Kind::Path)
        .many()
        .absent("keys are derived and rotated")
        .flag("ticket-key")
        .help(
            "Files with ticket keys, rotated by the program that writes them; a reload \
             reads them again. Either files of 48 or 80 bytes in nginx's format, of which \
             the first encrypts, or one file with lines of base64 in HAProxy's format, of \
             which the last but one encrypts.",
        )
        .example(r#"keys = ["/etc/lariat/tickets.keys"]"#),
];
