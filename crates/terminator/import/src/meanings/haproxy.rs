//! Keywords of HAProxy 2.6: those of sections, `global X`, and arguments `bind X` and `server X`.

use crate::meaning::{
    Conversion, Meaning, OldDefault, always, differs, joined, lacks, lacks_unless, same,
};

pub(super) const DEFAULTS: &[OldDefault] = &[
    OldDefault {
        option: "timeout client",
        key: "service.timeouts.idle",
        value: "\"365d\"",
        note: "without `timeout client` and `timeout server` it ends no idle connection",
    },
    OldDefault {
        option: "timeout client",
        key: "service.timeouts.handshake",
        value: "\"1h\"",
        note: "without `timeout client` it ends no handshake",
    },
    OldDefault {
        option: "timeout connect",
        key: "service.timeouts.dial",
        value: "\"2m\"",
        note: "without `timeout connect` it dials as long as the kernel does",
    },
    OldDefault {
        option: "option clitcpka",
        key: "service.front.keepalive",
        value: "\"0s\"",
        note: "it asks no silent client; Lariat would after 2 minutes",
    },
    OldDefault {
        option: "option srvtcpka",
        key: "service.back.keepalive",
        value: "\"0s\"",
        note: "it asks no silent server; Lariat would after 2 minutes",
    },
    OldDefault {
        option: "server observe",
        key: "service.back.passive.failures",
        value: "0",
        note: "failed connections do not take a server out; Lariat would eject it after 3",
    },
    OldDefault {
        option: "tune.ssl.lifetime",
        key: "resumption.session-cache.lifetime",
        value: "\"5m\"",
        note: "its sessions live for 300 seconds; Lariat's would for an hour",
    },
    OldDefault {
        option: "tune.ssl.lifetime",
        key: "resumption.tickets.lifetime",
        value: "\"5m\"",
        note: "its tickets live for 300 seconds; Lariat's would for 60 hours",
    },
];

const NO_HTTP: &str = "Lariat does not read HTTP";
const HTTP_REMEDY: &str =
    "keep it in HAProxy or the server, behind Lariat: `back.send-proxy = \"v2\"`, `accept-proxy`";
const NO_SCRIPT: &str = "Lariat runs no scripts and asks no other program";
const SCRIPT_REMEDY: &str = "keep this service in HAProxy, behind Lariat";
const NO_VARIABLE: &str = "there are no variables, counters or rules";
const OWN_TUNING: &str = "Lariat sizes its buffers, pools and queues by itself";
const NO_AGENT: &str = "no agent is asked";
const AGENT_REMEDY: &str = "`back.check`, or `lariat server disable SERVICE/ADDRESS` by a script";
const NO_ENGINE: &str = "engines, providers and keys in hardware are not supported";
const KEY_FILE: &str = "use a certificate and a key in files (PEM)";
const SIGNS: &str = "Lariat makes no certificates";
const STATUS: &str = "there is no page of statistics in a service";
const STATUS_REMEDY: &str = "`admin.listen`: the status page and metrics of all services";
const ONE_CHECK: &str = "service.back.check";
const SEND_PROXY: &str = "service.back.send-proxy";
const FRONT_VERSIONS: &str = "service.front.tls.versions";
const BACK_VERSIONS: &str = "service.back.tls.versions";
const CLIENT_CA: &str = "service.front.tls.client-certificates";
const SOCKET_OWNER: &str = "a Unix socket has mode 0666 and the owner of the process";
const SOCKET_REMEDY: &str = "the permissions of its directory limit who may connect";
const UNWATCHED: &str = "Lariat writes nothing for other programs to read";
const NONE_NEEDED: &str = "none is needed";

/// Checks and the end of connections, which Lariat does otherwise today.
const CHECKS: &[Meaning] = &[
    lacks(
        "server port",
        "checks go to the server's own port",
        "let the server's own port show its health",
    ),
    lacks(
        "server addr",
        "checks go to the server's own address",
        "let the server's own address show its health",
    ),
    lacks(
        "server on-marked-down",
        "connections of a server that is down go on until they end",
        "`timeouts.unacknowledged` ends those whose server is gone",
    ),
    lacks(
        "http-check expect",
        "a check passes with a status from 200 to 399",
        "let the path of `back.check` answer so",
    ),
];

/// The process.
const GLOBAL: &[Meaning] = &[
    same("global user", "process.user", Conversion::Text),
    same("global group", "process.group", Conversion::Words),
    lacks("global uid", "users are named", "`process.user = NAME`").or(&["global gid"]),
    same("global pidfile", "process.pid-file", Conversion::Path),
    same("global nbthread", "workers.threads", Conversion::Number),
    same("global maxconn", "limits.connections", Conversion::Number),
    joined("global log", "log.output", ""),
    same("global hard-stop-after", "process.drain", Conversion::Milliseconds),
    always("global chroot", "the worker process can open no file: process.sandbox"),
    always("global daemon", "Lariat stays in the foreground, as service managers want it").like(
        "master-worker mworker-max-reloads quiet zero-warning grace strict-limits \
         ulimit-n fd-hard-limit insecure-setuid-wanted set-dumpable node description \
         localpeer expose-experimental-directives pp2-never-send-local",
    ),
    joined("global ca-base", "paths", ""),
    joined("global crt-base", "paths", ""),
    joined("global setenv", "variables in this file", "").or(&["global presetenv"]),
    lacks("global unsetenv", "no variables are set", "set them in the unit (Environment=)")
        .or(&["global resetenv"]),
    lacks("global default-path", "relative paths begin at lariat.toml", "write whole paths"),
    lacks(
        "global cpu-map",
        "threads are pinned to the CPUs that `workers.threads` lists",
        "`workers.threads = \"0-3\"`",
    )
    .like("numa-cpu-mapping thread-group thread-groups"),
    lacks(
        "global stats",
        "its socket has commands of HAProxy",
        "`admin.status-socket`, and `lariat status`, `lariat server disable`",
    ),
    joined("global ssl-default-bind-ciphers", "service.front.tls.suites", ""),
    joined("global ssl-default-bind-ciphersuites", "service.front.tls.suites", ""),
    joined("global ssl-default-bind-curves", "service.front.tls.groups", ""),
    joined("global ssl-default-bind-options", FRONT_VERSIONS, ""),
    joined("global ssl-default-server-ciphers", "service.back.tls.suites", ""),
    joined("global ssl-default-server-ciphersuites", "service.back.tls.suites", ""),
    joined("global ssl-default-server-options", BACK_VERSIONS, ""),
    joined("global ssl-server-verify", "service.back.tls.verify", ""),
    always("global ssl-load-extra-files", "key and OCSP response beside a certificate are found")
        .or(&["global ssl-load-extra-del-ext"]),
    always("global ssl-dh-param-file", "key exchange is by elliptic curves alone")
        .or(&["global tune.ssl.default-dh-param"]),
    lacks("global issuers-chain-path", "chains are not completed", "write them into `chain`"),
    always("global ssl-skip-self-issued-ca", "a chain is sent as it is in the file"),
    lacks("global ssl-engine", NO_ENGINE, KEY_FILE)
        .like("ssl-provider ssl-provider-path ssl-propquery ssl-mode-async"),
    same("global tune.ssl.cachesize", "resumption.session-cache.entries", Conversion::Number),
    joined("global tune.ssl.lifetime", "resumption.session-cache.lifetime", ""),
    joined("global tune.ssl.maxrecord", "service.front.tls.max-record-size", "")
        .or(&["global tune.ssl.hard-maxrecord"]),
    always("global tune.ssl.force-private-cache", "workers share one session cache"),
    lacks("global tune.ssl.keylog", "logs have no secrets", "see `process.key-log`"),
    lacks(
        "global tune.ssl.capture-buffer-size",
        "hellos are not kept",
        "`front.ja4`: the client's fingerprint in the log",
    )
    .or(&["global tune.ssl.capture-cipherlist-size"]),
    lacks("global maxconnrate", "connections are not limited by rate", "a rule of nftables")
        .or(&["global maxsessrate", "global maxsslrate"]),
    lacks("global maxsslconn", "TLS has no limit of its own", "`limits.connections`"),
    lacks("global log-tag", "messages have the name lariat", "log lines name the service")
        .or(&["global log-send-hostname"]),
    lacks("global lua-load", NO_SCRIPT, SCRIPT_REMEDY).like(
        "lua-load-per-thread lua-prepend-path external-check insecure-fork-wanted \
         tune.lua.forced-yield tune.lua.maxmem tune.lua.service-timeout \
         tune.lua.session-timeout tune.lua.task-timeout 51degrees-cache-size \
         51degrees-data-file 51degrees-property-name-list \
         51degrees-property-separator deviceatlas-json-file deviceatlas-log-level \
         deviceatlas-properties-cookie deviceatlas-separator wurfl-cache-size \
         wurfl-data-file wurfl-information-list wurfl-information-list-separator",
    ),
    lacks("global h1-case-adjust", NO_HTTP, HTTP_REMEDY).like(
        "h1-case-adjust-file h1-accept-payload-with-any-method \
         h2-workaround-bogus-websocket-clients httpclient.resolvers.id \
         httpclient.resolvers.prefer httpclient.ssl.ca-file httpclient.ssl.verify \
         maxcompcpuusage maxcomprate maxzlibmem tune.comp.maxlevel \
         tune.h2.header-table-size tune.h2.initial-window-size \
         tune.h2.max-concurrent-streams tune.h2.max-frame-size tune.http.cookielen \
         tune.http.logurilen tune.http.maxhdr \
         tune.quic.frontend.conn-tx-buffers.limit tune.quic.frontend.max-idle-timeout \
         tune.quic.frontend.max-streams-bidi tune.quic.retry-threshold \
         tune.zlib.memlevel tune.zlib.windowsize",
    ),
    lacks("global set-var", NO_VARIABLE, SCRIPT_REMEDY).like(
        "set-var-fmt tune.vars.check-max-size tune.vars.global-max-size \
         tune.vars.proc-max-size tune.vars.reqres-max-size tune.vars.sess-max-size \
         tune.vars.txn-max-size tune.pattern.cache-size",
    ),
    lacks("global cluster-secret", "it is for QUIC", "`cluster.secret` is for sessions of TLS"),
    lacks("global unix-bind", SOCKET_OWNER, SOCKET_REMEDY),
    lacks(
        "global server-state-file",
        "states of servers are not kept over a restart",
        "checks find them again; a reload keeps them",
    )
    .or(&["global server-state-base"]),
    always("global tune.bufsize", OWN_TUNING).like(
        "busy-polling close-spread-time max-spread-checks spread-checks maxpipes \
         no-memory-trimming noepoll noevports nogetaddrinfo nokqueue nopoll \
         noreuseport nosplice profiling.tasks tune.buffers.limit tune.buffers.reserve \
         tune.fail-alloc tune.fd.edge-triggered tune.idle-pool.shared tune.idletimer \
         tune.listener.multi-queue tune.maxaccept tune.maxpollevents tune.maxrewrite \
         tune.peers.max-updates-at-once tune.pipesize tune.pool-high-fd-ratio \
         tune.pool-low-fd-ratio tune.recv_enough tune.runqueue-depth \
         tune.sched.low-latency tune.ssl.ssl-ctx-cache-size",
    ),
    lacks("global tune.rcvbuf.client", OWN_TUNING, "set net.ipv4.tcp_rmem and tcp_wmem")
        .like("tune.rcvbuf.server tune.sndbuf.client tune.sndbuf.server"),
];

/// Sections that are no services.
const SECTIONS: &[Meaning] = &[
    lacks(
        "peers",
        "stick tables are not sent to other hosts",
        "`cluster.peers` or `cluster.store`: the TLS sessions of all hosts",
    ),
    lacks("mailers", UNWATCHED, "alert by the metrics of `admin.listen`"),
    lacks(
        "resolvers",
        "names are looked up by this host's resolver (/etc/resolv.conf)",
        "`back.resolve`: how often",
    ),
    lacks("userlist", NO_HTTP, HTTP_REMEDY).like("cache http-errors fcgi-app"),
    lacks("program", NO_SCRIPT, "a unit of systemd"),
    lacks("ring", UNWATCHED, "`log.output`").or(&["log-forward"]),
];

/// Keywords of `defaults`, `frontend`, `listen` and `backend`.
const PROXY: &[Meaning] = &[
    joined("mode", "service", ""),
    joined("bind", "service.front.listen", ""),
    joined("server", "service.back.servers", ""),
    joined("server-template", "service.back.servers", ""),
    joined("default-server", "service.back", ""),
    joined("default_backend", "service.back", ""),
    joined("use_backend", "service.front.names", ""),
    joined("acl", "service.front.names", ""),
    joined("disabled", "service", ""),
    always("enabled", "a section is used unless it is disabled"),
    always("description", "log lines name the service").or(&["id", "guid"]),
    joined("source", "service.back.source", ""),
    same("maxconn", "service.limits.connections", Conversion::Number),
    same("backlog", "workers.backlog", Conversion::Number),
    same(
        "balance",
        "service.back.balance",
        Conversion::Choice(&[
            ("roundrobin", "round-robin"),
            ("static-rr", "round-robin"),
            ("leastconn", "least-connections"),
            ("random", "round-robin"),
            ("source", "source"),
        ]),
    ),
    always("hash-type", "`source` is a consistent hash"),
    always("retries", "a dial that fails goes on with the next server").or(&[
        "option redispatch",
        "option abortonclose",
        "option allbackups",
    ]),
    // Time.
    same("timeout connect", "service.timeouts.dial", Conversion::Milliseconds).or(&["contimeout"]),
    joined("timeout client", "service.timeouts.idle", "").or(&["clitimeout"]),
    joined("timeout server", "service.timeouts.idle", "").or(&["srvtimeout"]),
    joined("timeout tunnel", "service.timeouts.idle", ""),
    same("timeout queue", "service.back.queue.timeout", Conversion::Milliseconds),
    joined("timeout check", "service.back.check.timeout", ""),
    always("timeout client-fin", "a half-closed connection ends when it is idle")
        .or(&["timeout server-fin"]),
    lacks("timeout http-request", NO_HTTP, HTTP_REMEDY)
        .or(&["timeout http-keep-alive", "timeout tarpit"]),
    // Keepalive.
    joined("option tcpka", "service.front.keepalive, service.back.keepalive", ""),
    joined("option clitcpka", "service.front.keepalive", ""),
    joined("option srvtcpka", "service.back.keepalive", ""),
    joined("clitcpka-idle", "service.front.keepalive", ""),
    joined("srvtcpka-idle", "service.back.keepalive", ""),
    always("clitcpka-cnt", "four probes").or(&["srvtcpka-cnt"]),
    always("clitcpka-intvl", "the probes take as much time as the connection was silent")
        .or(&["srvtcpka-intvl"]),
    // Checks.
    joined("option httpchk", ONE_CHECK, ""),
    joined("http-check send", ONE_CHECK, ""),
    joined("option ssl-hello-chk", ONE_CHECK, ""),
    joined("option tcp-check", ONE_CHECK, "")
        .like("mysql-check pgsql-check redis-check smtpchk ldap-check spop-check"),
    lacks("http-check", "a check is a GET of a path", "see `back.check`"),
    lacks(
        "tcp-check",
        "a check sends and expects no bytes",
        "`back.check = \"tcp\"`; with `back.starttls` a greeting is read",
    ),
    lacks("option external-check", NO_SCRIPT, AGENT_REMEDY)
        .or(&["external-check command", "external-check path"]),
    always("option log-health-checks", "servers that come up or go down are logged"),
    // Stickiness.
    joined("stick-table", "service.back.affinity", ""),
    joined("stick on", "service.back.affinity", ""),
    joined("stick match", "service.back.affinity", ""),
    joined("stick store-request", "service.back.affinity", ""),
    joined("stick store-response", "service.back.affinity", ""),
    lacks("cookie", NO_HTTP, "`balance = \"source\"`")
        .like("appsession force-persist ignore-persist")
        .or(&["option persist", "persist rdp-cookie", "option prefer-last-server"]),
    // Rules.
    joined("tcp-request inspect-delay", "service.timeouts.handshake", ""),
    joined("tcp-request content", "service.front.tls.mode", ""),
    joined("tcp-request connection", "service.front.deny", ""),
    lacks("tcp-request session", NO_VARIABLE, "`front.allow`, `front.deny`"),
    joined("tcp-response content", "service.front.tls.mode", ""),
    always("tcp-response inspect-delay", "an answer of a server is relayed at once"),
    joined("http-request redirect", "service.front.redirect", "").or(&["redirect"]),
    lacks("use-server", "a server is chosen by `balance`", "a service with `front.names`"),
    lacks("filter", NO_SCRIPT, SCRIPT_REMEDY).or(&["use-fcgi-app"]),
    lacks("dispatch", "there is no server of that kind", "`back.servers`")
        .or(&["transparent", "option transparent"]),
    lacks("rate-limit sessions", "connections are not limited by rate", "a rule of nftables"),
    lacks("fullconn", "limits of servers do not grow with the load", "`max-connections`"),
    lacks(
        "load-server-state-from-file",
        "states of servers are not kept over a restart",
        "checks find them again; a reload keeps them",
    )
    .or(&["server-state-file-name"]),
    // The log.
    joined("log", "log.output", ""),
    always("option tcplog", "a line for each connection: docs/reference/log.md")
        .like("dontlognull logasap log-separate-errors contstats socket-stats"),
    joined("option dontlog-normal", "log.connections", ""),
    lacks("log-format", "lines have their own fields", "`log.format = \"json\"`")
        .like("log-format-sd log-tag error-log-format unique-id-format unique-id-header"),
    lacks("email-alert", UNWATCHED, "alert by the metrics of `admin.listen`"),
    lacks("stats", STATUS, STATUS_REMEDY).like("monitor monitor-uri monitor-net"),
    // TCP.
    always("option splice-auto", OWN_TUNING)
        .like(
            "splice-request splice-response nolinger tcp-smart-accept tcp-smart-connect \
         independent-streams",
        )
        .or(&["bind-process"]),
    // HTTP.
    lacks(
        "http-request deny",
        "requests are let through that HAProxy refused: Lariat does not read HTTP",
        HTTP_REMEDY,
    )
    .like("auth reject silent-drop tarpit"),
    lacks("http-request", NO_HTTP, HTTP_REMEDY)
        .like(
            "http-response http-after-response http-error http-reuse \
         http-send-name-header capture declare compression errorfile errorfiles \
         errorloc errorloc302 errorloc303 max-keep-alive-queue retry-on",
        )
        .or(&[
            "option accept-invalid-http-request",
            "option accept-invalid-http-response",
            "option checkcache",
            "option disable-h2-upgrade",
            "option forwardfor",
            "option h1-case-adjust-bogus-client",
            "option h1-case-adjust-bogus-server",
            "option http-buffer-request",
            "option http-ignore-probes",
            "option http-no-delay",
            "option http-pretend-keepalive",
            "option http-restrict-req-hdr-names",
            "option http-use-htx",
            "option http-use-proxy-header",
            "option idle-close-on-response",
            "option originalto",
        ]),
    always("option httplog", "a line for each connection, none for each request")
        .or(&["option httpslog"]),
    always("option http-keep-alive", "client and server agree on it themselves")
        .like("http-server-close http-tunnel httpclose forceclose"),
];

/// Arguments of `bind`, and of lines in a `crt-list`.
const BIND: &[Meaning] = &[
    joined("bind ssl", "service.front.tls", ""),
    joined("bind crt", "service.front.tls.certificates", ""),
    joined("bind crt-list", "service.front.tls.certificates", ""),
    joined("bind alpn", "service.front.tls.alpn", ""),
    lacks("bind npn", "NPN is no more (RFC 7301)", "`front.tls.alpn`"),
    joined("bind ciphers", "service.front.tls.suites", ""),
    joined("bind ciphersuites", "service.front.tls.suites", ""),
    joined("bind curves", "service.front.tls.groups", "").or(&["bind ecdhe"]),
    joined("bind ssl-min-ver", FRONT_VERSIONS, ""),
    joined("bind ssl-max-ver", FRONT_VERSIONS, ""),
    joined("bind force-tlsv12", FRONT_VERSIONS, "")
        .like("force-tlsv13 force-sslv3 force-tlsv10 force-tlsv11"),
    joined("bind no-tlsv12", FRONT_VERSIONS, "").or(&["bind no-tlsv13"]),
    always("bind no-sslv3", "nothing older than TLS 1.2 is spoken")
        .or(&["bind no-tlsv10", "bind no-tlsv11"]),
    joined("bind verify", CLIENT_CA, ""),
    joined("bind ca-file", CLIENT_CA, ""),
    joined("bind crl-file", CLIENT_CA, ""),
    joined("bind no-ca-names", CLIENT_CA, ""),
    joined("bind ca-verify-file", CLIENT_CA, ""),
    lacks(
        "bind ca-ignore-err",
        "a client whose certificate does not verify is refused",
        "`mode = \"optional\"` serves clients without one",
    )
    .or(&["bind crt-ignore-err"]),
    lacks("bind generate-certificates", SIGNS, "certificates for all names")
        .or(&["bind ca-sign-file", "bind ca-sign-pass"]),
    joined("bind strict-sni", "service.front.tls.unknown-name", ""),
    lacks(
        "bind no-tls-tickets",
        "tickets are given by all services or by none",
        "`resumption.tickets.count = 0`, or `resumption.tls13 = \"cache\"`",
    ),
    differs(
        "bind tls-ticket-keys",
        "resumption.tickets.keys",
        Conversion::Path,
        "one file for all services",
    ),
    lacks(
        "bind allow-0rtt",
        "early data needs a server that knows which data is early, or need not know",
        "`front.tls.early-data` with `send-proxy = \"v2\"`, or `back.early-data-safe`",
    ),
    lacks(
        "bind prefer-client-ciphers",
        "the order of suites is always the server's",
        "none is needed: by `auto` ChaCha20 comes first where AES is slow",
    ),
    joined("bind accept-proxy", "service.front.accept-proxy", ""),
    lacks("bind accept-netscaler-cip", "its header is not read", "`front.accept-proxy`"),
    same("bind interface", "service.front.interface", Conversion::Text),
    joined("bind defer-accept", "service.front.defer-accept", ""),
    joined("bind tfo", "workers.fast-open", ""),
    same("bind backlog", "workers.backlog", Conversion::Number),
    same("bind maxconn", "service.limits.connections", Conversion::Number),
    same("bind tcp-ut", "service.timeouts.unacknowledged", Conversion::Milliseconds),
    lacks("bind mss", "the kernel sets it", "`ip route change … advmss`"),
    lacks("bind namespace", "sockets are of one namespace", "NetworkNamespacePath= of the unit"),
    lacks("bind transparent", "addresses must be this host's", "net.ipv4.ip_nonlocal_bind=1"),
    always("bind v4v6", "`[::]` listens on IPv6 and IPv4"),
    lacks("bind v6only", "`[::]` listens on IPv4 too", "the IPv6 address itself, in its place"),
    lacks("bind mode", SOCKET_OWNER, SOCKET_REMEDY).like("user group uid gid"),
    always("bind name", "log lines name the service").or(&["bind id"]),
    always("bind process", "all workers accept from each address").like("thread shards nice"),
    lacks_unless("bind proto", &["h1"], NO_HTTP, "`front.tls.alpn`"),
    lacks("bind level", "its socket has commands of HAProxy", "`admin.status-socket`")
        .or(&["bind expose-fd", "bind severity-output"]),
    lacks("bind quic-cc-algo", "QUIC is not spoken", "take the address out")
        .or(&["bind quic-force-retry"]),
];

/// Arguments of `server` and `default-server`.
const SERVER: &[Meaning] = &[
    joined("server weight", "service.back.servers.weight", ""),
    joined("server maxconn", "service.back.servers.max-connections", ""),
    joined("server backup", "service.back.servers.backup", "").or(&["server no-backup"]),
    joined("server disabled", "service.back.servers", ""),
    always("server enabled", "a server is used unless it is disabled"),
    always("server id", "a server has its address as its name"),
    joined("server check", ONE_CHECK, "").or(&["server no-check"]),
    joined("server inter", "service.back.check.interval", ""),
    joined("server fall", "service.back.check.fall", ""),
    joined("server rise", "service.back.check.rise", ""),
    joined("server check-sni", "service.back.check.host", ""),
    lacks("server fastinter", "checks have one interval", "`back.check.interval`")
        .or(&["server downinter"]),
    always("server check-ssl", "checks speak TLS where `back.tls` is").or(&["server no-check-ssl"]),
    always("server check-send-proxy", "checks send the header where `send-proxy` is")
        .or(&["server no-check-send-proxy"]),
    lacks("server check-alpn", "checks offer no protocol", "HTTP/1.1, which all servers speak")
        .or(&["server check-proto", "server check-via-socks4"]),
    lacks("server track", "each server is checked itself", "`back.check`"),
    lacks("server agent-check", NO_AGENT, AGENT_REMEDY)
        .like("no-agent-check agent-addr agent-inter agent-port agent-send"),
    lacks_unless("server observe", &["none"], "answers are not judged", "`back.passive`")
        .or(&["server error-limit", "server on-error"]),
    lacks("server on-marked-up", "connections stay where they are", "end them by a restart"),
    same("server slowstart", "service.back.slow-start", Conversion::Milliseconds),
    same("server maxqueue", "service.back.queue.length", Conversion::Number),
    lacks("server minconn", "limits of servers do not grow with the load", "`max-connections`"),
    // What a server gets first.
    joined("server send-proxy", SEND_PROXY, "").or(&["server no-send-proxy"]),
    joined("server send-proxy-v2", SEND_PROXY, "").or(&["server no-send-proxy-v2"]),
    joined("server send-proxy-v2-ssl", SEND_PROXY, "").or(&["server no-send-proxy-v2-ssl"]),
    joined("server send-proxy-v2-ssl-cn", SEND_PROXY, "").or(&["server no-send-proxy-v2-ssl-cn"]),
    joined("server proxy-v2-options", SEND_PROXY, ""),
    // TLS.
    joined("server ssl", "service.back.tls", "").or(&["server no-ssl"]),
    joined("server verify", "service.back.tls.verify", ""),
    joined("server verifyhost", "service.back.tls.name", "").or(&["server no-verifyhost"]),
    joined("server sni", "service.back.tls.name", ""),
    joined("server ca-file", "service.back.tls.ca", ""),
    joined("server crl-file", "service.back.tls.crl", ""),
    joined("server crt", "service.back.tls.certificate", ""),
    joined("server alpn", "service.back.tls.alpn", ""),
    joined("server ciphers", "service.back.tls.suites", ""),
    joined("server ciphersuites", "service.back.tls.suites", ""),
    joined("server curves", "service.back.tls.groups", "").or(&["server ecdhe"]),
    joined("server ssl-min-ver", BACK_VERSIONS, ""),
    joined("server ssl-max-ver", BACK_VERSIONS, ""),
    joined("server force-tlsv12", BACK_VERSIONS, "")
        .like("force-tlsv13 force-sslv3 force-tlsv10 force-tlsv11"),
    joined("server no-tlsv12", BACK_VERSIONS, "").or(&["server no-tlsv13"]),
    always("server no-sslv3", "nothing older than TLS 1.2 is spoken")
        .or(&["server no-tlsv10", "server no-tlsv11"]),
    joined("server no-ssl-reuse", "service.back.tls.resumption", "").or(&["server ssl-reuse"]),
    lacks("server no-tls-tickets", "tickets of servers are used", "`back.tls.resumption = false`")
        .or(&["server tls-tickets"]),
    lacks("server allow-0rtt", "early data is never sent to servers", NONE_NEEDED),
    lacks("server npn", "NPN is no more (RFC 7301)", "`back.tls.alpn`"),
    // TCP and names.
    joined("server source", "service.back.source", ""),
    joined("server usesrc", "service.back.source", ""),
    lacks("server interface", "the kernel chooses it", "a route, or `back.source`"),
    differs(
        "server tcp-ut",
        "service.timeouts.unacknowledged",
        Conversion::Milliseconds,
        "it bounds clients too",
    ),
    lacks("server tfo", "Fast Open is for clients", NONE_NEEDED).or(&["server no-tfo"]),
    always("server resolvers", "names are looked up again and again: back.resolve")
        .or(&["server init-addr", "server resolve-opts"]),
    same(
        "server resolve-prefer",
        "service.back.resolve-family",
        Conversion::Choice(&[("ipv4", "any"), ("ipv6", "any")]),
    ),
    lacks("server resolve-net", "all addresses of a name are used", "write the address"),
    lacks("server namespace", "sockets are of one namespace", "NetworkNamespacePath= of the unit"),
    lacks("server socks4", "SOCKS is not spoken", "a service beside the proxy"),
    // HTTP.
    lacks("server cookie", NO_HTTP, "`balance = \"source\"`").or(&["server redir"]),
    joined("server proto", "service.front.tls.alpn", ""),
    always("server stick", "clients come back where `affinity` or `balance` lets them")
        .or(&["server non-stick"]),
    always("server max-reuse", "a connection of a client is one of its server")
        .like("pool-low-conn pool-max-conn pool-purge-delay ws log-proto"),
];

const PARTS: [&[Meaning]; 6] = [CHECKS, GLOBAL, SECTIONS, PROXY, BIND, SERVER];
const COUNT: usize = {
    let (mut sum, mut part) = (0, 0);
    while part < PARTS.len() {
        sum += PARTS[part].len();
        part += 1;
    }
    sum
};
static ALL: [Meaning; COUNT] = {
    let mut all = [CHECKS[0]; COUNT];
    let (mut part, mut place) = (0, 0);
    while part < PARTS.len() {
        let mut index = 0;
        while index < PARTS[part].len() {
            all[place] = PARTS[part][index];
            (place, index) = (place + 1, index + 1);
        }
        part += 1;
    }
    all
};

pub(super) static MEANINGS: &[Meaning] = &ALL;
