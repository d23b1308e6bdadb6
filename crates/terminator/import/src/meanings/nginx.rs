//! Directives of nginx 1.22 to 1.28: the core, the stream module, and the TLS half of HTTP.

use crate::convert::is_among;
use crate::meaning::{
    Conversion, Meaning, OldDefault, always, differs, joined, lacks, lacks_unless, same,
};

pub(super) const DEFAULTS: &[OldDefault] = &[
    OldDefault {
        option: "proxy_timeout",
        key: "service.timeouts.idle",
        value: "\"10m\"",
        note: "it ends a connection after 10 idle minutes; Lariat would after 5",
    },
    OldDefault {
        option: "proxy_connect_timeout",
        key: "service.timeouts.dial",
        value: "\"60s\"",
        note: "it waits 60 seconds for a connection to a server; Lariat would 3",
    },
    OldDefault {
        option: "ssl_handshake_timeout",
        key: "service.timeouts.handshake",
        value: "\"60s\"",
        note: "it waits 60 seconds for a handshake; Lariat would 10",
    },
    OldDefault {
        option: "ssl_session_timeout",
        key: "resumption.session-cache.lifetime",
        value: "\"5m\"",
        note: "it resumes no session after 5 minutes; Lariat would for an hour",
    },
];

/// The defaults of a server of HTTP, which come before `DEFAULTS`.
pub(crate) const HTTP_DEFAULTS: &[OldDefault] = &[OldDefault {
    option: "keepalive_timeout",
    key: "service.timeouts.idle",
    value: "\"75s\"",
    note: "it ends a connection after 75 seconds without a request",
}];

const FRONT_CERTIFICATES: &str = "service.front.tls.certificates";

const BUFFERS: &str = "buffers come from a pool and go back when they have been sent";
const ONE_PROCESS: &str = "Lariat waits for events by the kernel's own way, in threads";
const NO_OCSP: &str = "Lariat fetches no OCSP responses: it staples those in files";
const OCSP_REMEDY: &str = "write the response to `x.ocsp` beside `x.pem` by a timer (`openssl ocsp -respout`), and set \
     `reload.watch = true`";
const ENCRYPTED: &str = "encrypted keys are not read";
const DECRYPT: &str = "openssl pkey -in KEY -out PLAIN, and protect that file by its permissions";
const NO_VARIABLES: &str = "Lariat has no variables";
const OTHER_SERVICE: &str = "a service for each case, or keep this in nginx";

const DEPTH: &str = "the length of chains is not limited";
const DEPTH_REMEDY: &str = "authorities that may issue no others (pathlen), or `allow`";

/// Stands for each directive of HTTP.
const HTTP_ONLY: Meaning = lacks(
    "http",
    "Lariat does not read HTTP",
    "keep nginx behind Lariat, at an address without TLS: `listen 127.0.0.1:8080 proxy_protocol`, \
     and `back.send-proxy = \"v1\"`",
);

/// Stands for each directive of mail.
const MAIL_ONLY: Meaning = lacks(
    "mail",
    "Lariat does not log in to mail servers",
    "keep nginx for it, or `front.starttls` before the mail server itself",
);

/// Directives of HTTP by which some requests are refused: without them more would be served.
pub(crate) const ACCESS: &str = "\
    auth_basic auth_basic_user_file auth_delay auth_jwt auth_jwt_key_file auth_jwt_require \
    auth_request auth_request_set internal limit_except satisfy secure_link secure_link_md5 \
    secure_link_secret valid_referers";

/// Directives of HTTP alone, of nginx's own modules.
const HTTP: &str = "\
    absolute_redirect add_after_body add_before_body add_header add_header_inherit add_trailer \
    addition_types aio aio_write alias ancient_browser ancient_browser_value autoindex \
    autoindex_exact_size autoindex_format autoindex_localtime break charset charset_map \
    charset_types chunked_transfer_encoding client_body_buffer_size client_body_in_file_only \
    client_body_in_single_buffer client_body_temp_path client_body_timeout \
    client_header_buffer_size client_max_body_size connection_pool_size create_full_put_path \
    dav_access dav_methods default_type directio directio_alignment disable_symlinks empty_gif \
    error_page etag expires f4f f4f_buffer_size flv gunzip gunzip_buffers gzip gzip_buffers \
    gzip_comp_level gzip_disable gzip_hash gzip_http_version gzip_min_length gzip_no_buffer \
    gzip_proxied gzip_static gzip_types gzip_vary gzip_window hls if if_modified_since \
    ignore_invalid_headers image_filter image_filter_buffer image_filter_interlace \
    image_filter_jpeg_quality image_filter_sharpen image_filter_transparency \
    image_filter_webp_quality index keepalive keepalive_disable keepalive_min_timeout \
    keepalive_requests keepalive_time large_client_header_buffers limit_rate limit_rate_after \
    limit_req limit_req_dry_run limit_req_log_level limit_req_status limit_req_zone \
    lingering_close lingering_time lingering_timeout location log_not_found log_subrequest \
    max_headers max_ranges merge_slashes min_delete_depth mirror mirror_request_body \
    modern_browser modern_browser_value mp4 mp4_buffer_size mp4_limit_rate \
    mp4_limit_rate_after mp4_max_buffer_size mp4_start_key_frame msie_padding msie_refresh \
    ntlm open_file_cache open_file_cache_errors open_file_cache_events \
    open_file_cache_min_uses open_file_cache_valid output_buffers override_charset \
    port_in_redirect post_action postpone_gzipping postpone_output random_index read_ahead \
    real_ip_recursive recursive_error_pages referer_hash_bucket_size referer_hash_max_size \
    request_pool_size rewrite rewrite_log root secure_link_expires send_lowat send_timeout \
    sendfile sendfile_max_chunk server_name_in_redirect server_tokens slice source_charset \
    ssi ssi_ignore_recycled_buffers ssi_last_modified ssi_min_file_chunk ssi_silent_errors \
    ssi_types ssi_value_length sticky sticky_cookie_insert stub_status sub_filter \
    sub_filter_last_modified sub_filter_once sub_filter_types subrequest_output_buffer_size \
    try_files types types_hash_bucket_size types_hash_max_size underscores_in_headers \
    uninitialized_variable_warn userid userid_domain userid_expires userid_flags userid_mark \
    userid_name userid_p3p userid_path userid_service xml_entities xslt_last_modified \
    xslt_param xslt_string_param xslt_stylesheet xslt_types";

/// How directives of whole modules of HTTP begin.
const HTTP_MODULES: &str = "\
    access_by_lua body_filter_by_lua brotli content_by_lua fastcgi_ grpc_ \
    header_filter_by_lua http2 http3 internal_redirect js_ lua_ memcached_ more_ otel_ perl \
    proxy_allow_upstream proxy_buffering proxy_buffers proxy_busy_ proxy_cache proxy_cookie_ \
    proxy_force_ proxy_headers_ proxy_hide_ proxy_http_version proxy_ignore_ \
    proxy_intercept_ proxy_limit_ proxy_max_temp_ proxy_method proxy_no_cache proxy_pass_ \
    proxy_redirect proxy_request_ proxy_send_ proxy_set_ proxy_store proxy_temp_ quic_ \
    rewrite_by_lua scgi_ ssl_certificate_by_lua uwsgi_";

/// How directives of mail begin.
const MAIL_MODULES: &str = "auth_http imap_ pop3_ smtp_";

/// The meaning of a directive, wherever it stands.
pub(crate) fn find(name: &str) -> Option<&'static Meaning> {
    let begins_as = |modules: &str, name: &str| modules.split(' ').any(|one| name.starts_with(one));
    let of_http =
        |name| is_among(HTTP, name) || is_among(ACCESS, name) || begins_as(HTTP_MODULES, name);
    let listed = MEANINGS.iter().find(|one| one.is(name));
    listed
        .or_else(|| of_http(name).then_some(&HTTP_ONLY))
        .or_else(|| begins_as(MAIL_MODULES, name).then_some(&MAIL_ONLY))
}

pub(super) const MEANINGS: &[Meaning] = &[
    // Blocks.
    joined("events", "limits.connections", ""),
    joined("stream", "service", ""),
    HTTP_ONLY,
    MAIL_ONLY.or(&[
        "max_commands",
        "max_errors",
        "protocol",
        "proxy_pass_error_message",
        "proxy_smtp_auth",
        "starttls",
        "timeout",
        "xclient",
    ]),
    joined("server", "service", ""),
    joined("upstream", "service.back.servers", ""),
    joined("map", "service.front.names", ""),
    lacks("geo", NO_VARIABLES, OTHER_SERVICE),
    lacks("split_clients", NO_VARIABLES, "`weight` of servers"),
    lacks("keyval", NO_VARIABLES, OTHER_SERVICE).or(&["keyval_zone", "num_map"]),
    lacks("set", NO_VARIABLES, OTHER_SERVICE),
    lacks("geoip_country", NO_VARIABLES, "files of networks in `front.allow` and `front.deny`")
        .or(&["geoip_city", "geoip_org", "geoip_proxy", "geoip_proxy_recursive"]),
    joined("include", "the files", ""),
    // Processes.
    joined("user", "process.user", ""),
    joined("worker_processes", "workers.threads", ""),
    joined("worker_connections", "limits.connections", ""),
    same("worker_shutdown_timeout", "process.drain", Conversion::Seconds),
    joined("pid", "process.pid-file", ""),
    joined("error_log", "log.messages-output", ""),
    joined("access_log", "log.output", ""),
    lacks("log_format", "lines have Lariat's own fields", "`log.format`, docs/reference/log.md"),
    always("open_log_file_cache", "a log file stays open"),
    always("daemon", "Lariat stays in the foreground, as service managers want it"),
    always("master_process", "a supervisor and one worker process with threads"),
    always("load_module", "all that Lariat does is in one program"),
    always("accept_mutex", ONE_PROCESS).or(&[
        "accept_mutex_delay",
        "epoll_events",
        "lock_file",
        "multi_accept",
        "thread_pool",
        "timer_resolution",
        "use",
        "worker_aio_requests",
    ]),
    lacks(
        "worker_cpu_affinity",
        "masks of CPUs are not read",
        "`workers.threads` pins a thread to each CPU, or to those of a list",
    ),
    lacks("status_zone", "nginx's own status is not imported", "`admin.listen`: the metrics").or(
        &[
            "api",
            "google_perftools_profiles",
            "license_token",
            "mgmt",
            "session_log",
            "session_log_format",
            "session_log_zone",
            "status",
            "status_format",
            "upstream_conf",
            "usage_report",
        ],
    ),
    lacks("worker_priority", "the priority is not set", "`Nice=` in the unit"),
    lacks("worker_rlimit_core", "limits are not set", "`LimitCORE=` in the unit"),
    lacks("worker_rlimit_nofile", "limits are not set", "`LimitNOFILE=` in the unit"),
    always("working_directory", "the worker process opens no file"),
    lacks("env", "no variables are passed on", "none is needed"),
    lacks(
        "debug_connection",
        "no client is logged in more detail",
        "`log.connections`, and the log of failures",
    )
    .or(&["debug_points"]),
    always("pcre_jit", "Lariat reads no regular expressions"),
    always("variables_hash_bucket_size", "tables grow by themselves").or(&[
        "map_hash_bucket_size",
        "map_hash_max_size",
        "server_names_hash_bucket_size",
        "server_names_hash_max_size",
        "variables_hash_max_size",
    ]),
    lacks("resolver", "names are looked up by this host's resolver", "/etc/resolv.conf"),
    always("resolver_timeout", "names are looked up aside of connections: service.back.resolve"),
    // Addresses and names.
    joined("listen", "service.front.listen", ""),
    joined("server_name", "service.front.names", ""),
    joined("set_real_ip_from", "service.front.accept-proxy", ""),
    lacks_unless(
        "real_ip_header",
        &["proxy_protocol"],
        "Lariat does not read HTTP",
        "have the load balancer send a PROXY header: `front.accept-proxy`",
    ),
    joined("allow", "service.front.allow", ""),
    joined("deny", "service.front.deny", ""),
    lacks(
        "limit_conn",
        "zones of variables do not exist",
        "`limits.per-source.connections`: the same limit for each client address",
    )
    .or(&[
        "limit_conn_zone",
        "limit_conn_dry_run",
        "limit_conn_log_level",
        "limit_conn_status",
    ]),
    joined("return", "service.front.redirect", ""),
    lacks("pass", "no connection goes to another server block", "name its servers in `back`"),
    // TLS of clients.
    joined("ssl", "service.front.tls", ""),
    joined("ssl_certificate", FRONT_CERTIFICATES, ""),
    joined("ssl_certificate_key", "service.front.tls.certificates.key", ""),
    joined("ssl_stapling_file", "service.front.tls.certificates.ocsp", ""),
    lacks("ssl_password_file", ENCRYPTED, DECRYPT).or(&["proxy_ssl_password_file"]),
    joined("ssl_protocols", "service.front.tls.versions", ""),
    joined("ssl_ciphers", "service.front.tls.suites", ""),
    joined("ssl_conf_command", "service.front.tls.suites, service.front.tls.groups", ""),
    joined("ssl_ecdh_curve", "service.front.tls.groups", ""),
    joined("ssl_prefer_server_ciphers", "service.front.tls.suites", ""),
    joined("ssl_alpn", "service.front.tls.alpn", ""),
    joined("ssl_client_certificate", "service.front.tls.client-certificates.ca", ""),
    joined("ssl_trusted_certificate", "service.front.tls.client-certificates.ca", ""),
    joined("ssl_verify_client", "service.front.tls.client-certificates.mode", ""),
    joined("ssl_crl", "service.front.tls.client-certificates.crl", ""),
    lacks("ssl_verify_depth", DEPTH, DEPTH_REMEDY),
    joined("ssl_ocsp", "service.front.tls.client-certificates.crl", ""),
    lacks("ssl_ocsp_responder", "no OCSP responder is asked about clients", "`ssl_crl`")
        .or(&["ssl_ocsp_cache"]),
    lacks_unless("ssl_stapling", &["off"], NO_OCSP, OCSP_REMEDY),
    lacks("ssl_stapling_responder", NO_OCSP, OCSP_REMEDY),
    lacks_unless(
        "ssl_stapling_verify",
        &["off"],
        "the signature of a response in a file is not verified",
        "verify it where it is fetched: `openssl ocsp` does",
    ),
    joined("ssl_session_cache", "resumption.session-cache.entries", ""),
    differs(
        "ssl_session_timeout",
        "resumption.session-cache.lifetime",
        Conversion::Seconds,
        "one for all services; tickets last as long as their keys: `resumption.tickets`",
    ),
    joined("ssl_session_tickets", "service.front.tls.resumption", ""),
    lacks(
        "ssl_session_ticket_key",
        "keys of nginx's form are not read",
        "`resumption.tickets.secret`: a file with 32 random bytes, the same on all hosts",
    ),
    lacks_unless(
        "ssl_early_data",
        &["off"],
        "servers must know which data came early",
        "`front.tls.early-data`, with `send-proxy = \"v2\"` or `back.early-data-safe`",
    ),
    joined("ssl_reject_handshake", "service.front.names", ""),
    joined("ssl_preread", "service.front.tls.mode", ""),
    same("ssl_handshake_timeout", "service.timeouts.handshake", Conversion::Seconds),
    always("ssl_buffer_size", "records are short at the start of a connection, and then long"),
    lacks("ssl_dhparam", "finite-field Diffie-Hellman is not supported", "elliptic curves"),
    lacks("ssl_engine", "keys in hardware and engines are not supported", "a key in a file")
        .or(&["ssl_object_cache_inheritable"]),
    lacks_unless(
        "ssl_certificate_compression",
        &["off"],
        "certificates are not compressed",
        "none is needed",
    ),
    always("ssl_certificate_cache", "certificates are read at start and by a reload")
        .or(&["proxy_ssl_certificate_cache"]),
    lacks("ssl_key_log", "secrets are for a search for a fault alone", "see `process.key-log`")
        .or(&["proxy_ssl_key_log"]),
    lacks("ssl_ech_file", "encrypted hellos are not read", "take it out")
        .or(&["ssl_encrypted_hello_key"]),
    // Servers.
    joined("proxy_pass", "service.back.servers", ""),
    always("zone", "all workers share what is known of servers"),
    joined("least_conn", "service.back.balance", ""),
    joined("least_time", "service.back.balance", ""),
    joined("ip_hash", "service.back.balance", ""),
    joined("hash", "service.back.balance", ""),
    joined("random", "service.back.balance", ""),
    lacks("state", "servers stand in the configuration", "`srv:` addresses, or `lariat reload`"),
    lacks("queue", "the queue is the service's", "`back.queue`"),
    lacks("health_check", "nginx's health checks are not imported", "`back.check`")
        .or(&["health_check_timeout", "match"]),
    joined("proxy_protocol", "service.back.send-proxy", ""),
    joined("proxy_bind", "service.back.source", ""),
    same("proxy_connect_timeout", "service.timeouts.dial", Conversion::Seconds),
    same("proxy_timeout", "service.timeouts.idle", Conversion::Seconds),
    joined("proxy_read_timeout", "service.timeouts.idle", ""),
    joined("keepalive_timeout", "service.timeouts.idle", ""),
    differs(
        "client_header_timeout",
        "service.timeouts.handshake",
        Conversion::Seconds,
        "it bounds the handshake alone",
    ),
    differs(
        "preread_timeout",
        "service.timeouts.handshake",
        Conversion::Seconds,
        "it bounds the handshake, or the hello where TLS stays closed",
    ),
    always("proxy_protocol_timeout", "timeouts.handshake bounds the PROXY header too"),
    joined("proxy_socket_keepalive", "service.back.keepalive", ""),
    lacks_unless(
        "proxy_next_upstream",
        &["on", "error timeout"],
        "after a failed dial the next server is tried",
        "none is needed: no byte of a client was sent yet",
    ),
    lacks_unless(
        "proxy_next_upstream_timeout",
        &["0", "0s"],
        "the dials of one connection are not bounded together",
        "`timeouts.dial` bounds each",
    ),
    lacks_unless(
        "proxy_next_upstream_tries",
        &["0"],
        "the dials of one connection are not counted",
        "`timeouts.dial` bounds each",
    ),
    lacks_unless("proxy_upload_rate", &["0"], "no rate is limited", "tc, or keep nginx behind")
        .or(&["proxy_download_rate"]),
    always("proxy_half_close", "what one side has still to send is relayed"),
    always("proxy_buffer_size", BUFFERS).or(&[
        "preread_buffer_size",
        "proxy_downstream_buffer",
        "proxy_upstream_buffer",
    ]),
    always("proxy_requests", "it is for UDP").or(&["proxy_responses"]),
    lacks_unless("tcp_nodelay", &["on"], "small packets are sent at once", "none is needed"),
    always("tcp_nopush", "records are sent whole"),
    always("reset_timedout_connection", "a connection that ended by an error is reset"),
    lacks("proxy_session_drop", "connections to a removed server may finish", "none is needed"),
    lacks("zone_sync", "hosts do not share servers", "`cluster.peers`: sessions and keys").or(&[
        "zone_sync_buffers",
        "zone_sync_connect_retry_interval",
        "zone_sync_connect_timeout",
        "zone_sync_interval",
        "zone_sync_recv_buffer_size",
        "zone_sync_server",
        "zone_sync_ssl",
        "zone_sync_timeout",
    ]),
    // TLS of servers.
    joined("proxy_ssl", "service.back.tls", ""),
    joined("proxy_ssl_verify", "service.back.tls.verify", ""),
    joined("proxy_ssl_name", "service.back.tls.name", ""),
    joined("proxy_ssl_server_name", "service.back.tls.name", ""),
    joined("proxy_ssl_trusted_certificate", "service.back.tls.ca", ""),
    joined("proxy_ssl_crl", "service.back.tls.crl", ""),
    lacks("proxy_ssl_verify_depth", DEPTH, "`back.tls.pins`"),
    joined("proxy_ssl_certificate", "service.back.tls.certificate", ""),
    joined("proxy_ssl_certificate_key", "service.back.tls.key", ""),
    joined("proxy_ssl_protocols", "service.back.tls.versions", ""),
    joined("proxy_ssl_ciphers", "service.back.tls.suites", ""),
    joined("proxy_ssl_conf_command", "service.back.tls.suites, service.back.tls.groups", ""),
    joined("proxy_ssl_alpn", "service.back.tls.alpn", ""),
    joined("proxy_ssl_session_reuse", "service.back.tls.resumption", ""),
];
