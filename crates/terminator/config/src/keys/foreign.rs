//! What nginx, HAProxy, stunnel and hitch call our keys, for the hints of unknown ones.

use options::Foreign;

/// Each with the key that does the same here, or begins to.
pub(super) const FOREIGN: &[Foreign] = &joined();

/// A program's names: theirs, and the path of ours.
type Names = &'static [(&'static str, &'static str)];

const PROGRAMS: &[(&str, Names)] = &[
    ("nginx", NGINX),
    ("HAProxy", HAPROXY),
    ("stunnel", STUNNEL),
    ("hitch", HITCH),
];

const NGINX: Names = &[
    ("ssl_protocols", "service.front.tls.versions"),
    ("ssl_ciphers", "service.front.tls.suites"),
    ("ssl_certificate", "service.front.tls.certificates"),
    ("ssl_certificate_key", "service.front.tls.certificates.key"),
    ("ssl_ecdh_curve", "service.front.tls.groups"),
    ("ssl_session_cache", "resumption.session-cache"),
    ("ssl_session_timeout", "resumption.session-cache.lifetime"),
    ("ssl_session_tickets", "service.front.tls.resumption"),
    ("ssl_session_ticket_key", "resumption.tickets.keys"),
    (
        "ssl_client_certificate",
        "service.front.tls.client-certificates.ca",
    ),
    (
        "ssl_trusted_certificate",
        "service.front.tls.client-certificates.ca",
    ),
    (
        "ssl_verify_client",
        "service.front.tls.client-certificates.mode",
    ),
    ("ssl_crl", "service.front.tls.client-certificates.crl"),
    ("ssl_stapling_file", "service.front.tls.certificates.ocsp"),
    ("ssl_early_data", "service.front.tls.early-data"),
    ("ssl_handshake_timeout", "service.timeouts.handshake"),
    ("server_name", "service.front.names"),
    ("set_real_ip_from", "service.front.accept-proxy"),
    ("proxy_pass", "service.back.servers"),
    ("upstream", "service.back.servers"),
    ("proxy_protocol", "service.back.send-proxy"),
    ("proxy_bind", "service.back.source"),
    ("proxy_ssl", "service.back.tls"),
    ("proxy_ssl_trusted_certificate", "service.back.tls.ca"),
    ("proxy_ssl_name", "service.back.tls.name"),
    ("proxy_ssl_verify", "service.back.tls.verify"),
    ("proxy_ssl_certificate", "service.back.tls.certificate"),
    ("proxy_connect_timeout", "service.timeouts.dial"),
    ("proxy_timeout", "service.timeouts.idle"),
    ("worker_processes", "workers.threads"),
    ("worker_connections", "limits.connections"),
    ("access_log", "log.output"),
    ("error_log", "log.messages-output"),
    ("pid", "process.pid-file"),
];

const HAPROXY: Names = &[
    ("bind", "service.front.listen"),
    ("crt", "service.front.tls.certificates"),
    ("ca-file", "service.front.tls.client-certificates.ca"),
    ("crl-file", "service.front.tls.client-certificates.crl"),
    ("ciphers", "service.front.tls.suites"),
    ("ciphersuites", "service.front.tls.suites"),
    ("curves", "service.front.tls.groups"),
    ("ssl-min-ver", "service.front.tls.versions"),
    ("ssl-max-ver", "service.front.tls.versions"),
    ("no-tls-tickets", "service.front.tls.resumption"),
    ("tls-ticket-keys", "resumption.tickets.keys"),
    ("tune.ssl.cachesize", "resumption.session-cache.entries"),
    ("tune.ssl.lifetime", "resumption.session-cache.lifetime"),
    ("strict-sni", "service.front.tls.unknown-name"),
    ("allow-0rtt", "service.front.tls.early-data"),
    ("server", "service.back.servers"),
    ("backend", "service.back.servers"),
    ("send-proxy-v2", "service.back.send-proxy"),
    ("maxconn", "limits.connections"),
    ("nbthread", "workers.threads"),
    ("hard-stop-after", "process.drain"),
];

const STUNNEL: Names = &[
    ("accept", "service.front.listen"),
    ("connect", "service.back.servers"),
    ("cert", "service.front.tls.certificates"),
    ("CAfile", "service.front.tls.client-certificates.ca"),
    ("CRLfile", "service.front.tls.client-certificates.crl"),
    ("sslVersion", "service.front.tls.versions"),
    ("sslVersionMin", "service.front.tls.versions"),
    ("sslVersionMax", "service.front.tls.versions"),
    ("verifyChain", "service.back.tls.verify"),
    ("checkHost", "service.back.tls.name"),
    ("sni", "service.front.names"),
    ("setuid", "process.user"),
    ("setgid", "process.group"),
    ("TIMEOUTidle", "service.timeouts.idle"),
    ("TIMEOUTconnect", "service.timeouts.dial"),
];

const HITCH: Names = &[
    ("frontend", "service.front.listen"),
    ("pem-file", "service.front.tls.certificates"),
    ("pem-dir", "service.front.tls.certificates"),
    ("tls-protos", "service.front.tls.versions"),
    ("ecdh-curve", "service.front.tls.groups"),
    ("alpn-protos", "service.front.tls.alpn"),
    ("write-proxy", "service.back.send-proxy"),
    ("write-proxy-v1", "service.back.send-proxy"),
    ("write-proxy-v2", "service.back.send-proxy"),
    ("proxy-proxy", "service.back.send-proxy"),
    ("proxy-tlv", "service.back.send-proxy"),
    ("sni-nomatch-abort", "service.front.tls.unknown-name"),
    (
        "client-verify",
        "service.front.tls.client-certificates.mode",
    ),
    (
        "client-verify-ca",
        "service.front.tls.client-certificates.ca",
    ),
    ("chroot", "process.sandbox"),
];

const COUNT: usize = NGINX.len() + HAPROXY.len() + STUNNEL.len() + HITCH.len();

const fn joined() -> [Foreign; COUNT] {
    let mut all = [Foreign {
        name: "",
        of: "",
        now: "",
        value: "",
    }; COUNT];
    let (mut program, mut row, mut place) = (0, 0, 0);
    while place < COUNT {
        let (of, names) = PROGRAMS[program];
        if row == names.len() {
            (program, row) = (program + 1, 0);
            continue;
        }
        let (name, now) = names[row];
        all[place] = Foreign {
            name,
            of,
            now,
            value: "",
        };
        (row, place) = (row + 1, place + 1);
    }
    all
}
