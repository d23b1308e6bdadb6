//! The one table of options, made of the structs that state the keys.
//!
//! Everything that knows keys is made from it: the check for unknown ones, the reader's defaults
//! and ranges, the flags of `lariat serve`, its help, the reference, and the schema for editors.

use options::row::path;
use options::{Foreign, Key, Nested, Node, Report, Section, Table, Tables, key, section, table};

use crate::acme::WrittenAcme;
use crate::admin::WrittenAdmin;
use crate::cluster::WrittenCluster;
use crate::log::WrittenLog;
use crate::process::{WrittenLimits, WrittenProcess, WrittenReload, WrittenWorkers};
use crate::resumption::WrittenResumption;
use crate::service::WrittenService;

section! {
    table("");
    /// A configuration as it was written.
    pub(crate) struct WrittenConfiguration<'a> {
        /// Files that are read behind this one, relative to its directory: a `*` may stand in the
        /// name. Their services follow; any other key stands in one file only. Included files
        /// include no others, and relative paths in them begin at the directory of this one.
        include: Vec<String> = path()
            .many().absent("none").example(r#"include = ["conf.d/*.toml"]"#),
        defaults: WrittenDefaults<'a>,
        service: Tables<'a, WrittenService<'a>>,
        workers: WrittenWorkers<'a>,
        limits: WrittenLimits<'a>,
        process: WrittenProcess<'a>,
        reload: WrittenReload<'a>,
        log: WrittenLog<'a>,
        admin: WrittenAdmin<'a>,
        resumption: WrittenResumption<'a>,
        cluster: Option<WrittenCluster<'a>>,
        acme: WrittenAcme<'a>,
    }
}

section! {
    table("defaults")
        .absent("none").like("service").example(r#"defaults.timeouts = { idle = "1h" }"#);
    /// Keys of `service` that every service has unless it writes them itself. Tables are completed
    /// key by key, but for one with a `mode` or `files` of its own; a list, or any other value, is
    /// a service's whole value.
    pub(crate) struct WrittenDefaults<'a> {}
}

impl<'a> WrittenConfiguration<'a> {
    /// Reads all keys of a tree; reports the values that do not fit.
    pub(crate) fn of_root(root: &'a Node, report: &'a Report<'a>) -> Self {
        let top = Section::top(&TABLE, root, report);
        Self::of(top.at(const { &WrittenConfiguration::KEY }), top)
    }
}

const KEYS: &[Key] = WrittenConfiguration::KEY.children;

/// The keys of a configuration, in the order of the reference.
pub static TABLE: Table = Table {
    keys: &key::flattened::<{ key::count(KEYS) }>(KEYS, "Process"),
    foreign: FOREIGN,
    later: &["service.front.peek"],
    help: "lariat help serve",
};

/// Names that nginx, HAProxy, stunnel and hitch have for our keys, each with the key that does the
/// same here, or begins to.
const FOREIGN: &[Foreign] = &[
    nginx("ssl_protocols", "service.front.tls.versions"),
    nginx("ssl_ciphers", "service.front.tls.suites"),
    nginx("ssl_certificate", "service.front.tls.certificates"),
    nginx("ssl_certificate_key", "service.front.tls.certificates.key"),
    nginx("ssl_ecdh_curve", "service.front.tls.groups"),
    nginx("ssl_session_cache", "resumption.session-cache"),
    nginx("ssl_session_timeout", "resumption.session-cache.lifetime"),
    nginx("ssl_session_tickets", "service.front.tls.resumption"),
    nginx("ssl_session_ticket_key", "resumption.tickets.keys"),
    nginx("ssl_client_certificate", "service.front.tls.client-certificates.ca"),
    nginx("ssl_trusted_certificate", "service.front.tls.client-certificates.ca"),
    nginx("ssl_verify_client", "service.front.tls.client-certificates.mode"),
    nginx("ssl_crl", "service.front.tls.client-certificates.crl"),
    nginx("ssl_stapling_file", "service.front.tls.certificates.ocsp"),
    nginx("ssl_early_data", "service.front.tls.early-data"),
    nginx("ssl_handshake_timeout", "service.timeouts.handshake"),
    hitch("ssl-handshake-timeout", "service.timeouts.handshake"),
    nginx("ssl", "service.front.tls.certificates"),
    nginx("server_name", "service.front.names"),
    nginx("set_real_ip_from", "service.front.accept-proxy"),
    nginx("proxy_pass", "service.back.servers"),
    nginx("upstream", "service.back.servers"),
    nginx("proxy_protocol", "service.back.send-proxy"),
    nginx("proxy_bind", "service.back.source"),
    nginx("proxy_ssl", "service.back.tls"),
    nginx("proxy_ssl_trusted_certificate", "service.back.tls.ca"),
    nginx("proxy_ssl_name", "service.back.tls.name"),
    nginx("proxy_ssl_verify", "service.back.tls.verify"),
    nginx("proxy_ssl_certificate", "service.back.tls.certificate"),
    nginx("proxy_connect_timeout", "service.timeouts.dial"),
    nginx("proxy_timeout", "service.timeouts.idle"),
    nginx("worker_processes", "workers.threads"),
    nginx("worker_connections", "limits.connections"),
    nginx("access_log", "log.output"),
    nginx("error_log", "log.messages-output"),
    nginx("pid", "process.pid-file"),
    haproxy("bind", "service.front.listen"),
    haproxy("crt", "service.front.tls.certificates"),
    haproxy("ca-file", "service.front.tls.client-certificates.ca"),
    haproxy("crl-file", "service.front.tls.client-certificates.crl"),
    haproxy("ciphers", "service.front.tls.suites"),
    haproxy("ciphersuites", "service.front.tls.suites"),
    haproxy("curves", "service.front.tls.groups"),
    haproxy("ssl-min-ver", "service.front.tls.versions"),
    haproxy("ssl-max-ver", "service.front.tls.versions"),
    haproxy("no-tls-tickets", "service.front.tls.resumption"),
    haproxy("tls-ticket-keys", "resumption.tickets.keys"),
    haproxy("tune.ssl.cachesize", "resumption.session-cache.entries"),
    haproxy("tune.ssl.lifetime", "resumption.session-cache.lifetime"),
    haproxy("strict-sni", "service.front.tls.unknown-name"),
    haproxy("allow-0rtt", "service.front.tls.early-data"),
    haproxy("server", "service.back.servers"),
    haproxy("backend", "service.back.servers"),
    haproxy("send-proxy-v2", "service.back.send-proxy"),
    haproxy("maxconn", "limits.connections"),
    haproxy("nbthread", "workers.threads"),
    haproxy("hard-stop-after", "process.drain"),
    stunnel("accept", "service.front.listen"),
    stunnel("connect", "service.back.servers"),
    stunnel("cert", "service.front.tls.certificates"),
    stunnel("CAfile", "service.front.tls.client-certificates.ca"),
    stunnel("CRLfile", "service.front.tls.client-certificates.crl"),
    stunnel("sslVersion", "service.front.tls.versions"),
    stunnel("sslVersionMin", "service.front.tls.versions"),
    stunnel("sslVersionMax", "service.front.tls.versions"),
    stunnel("verifyChain", "service.back.tls.verify"),
    stunnel("checkHost", "service.back.tls.name"),
    stunnel("sni", "service.front.names"),
    stunnel("setuid", "process.user"),
    stunnel("setgid", "process.group"),
    stunnel("TIMEOUTidle", "service.timeouts.idle"),
    stunnel("TIMEOUTconnect", "service.timeouts.dial"),
    hitch("frontend", "service.front.listen"),
    hitch("pem-file", "service.front.tls.certificates"),
    hitch("pem-dir", "service.front.tls.certificates"),
    hitch("tls-protos", "service.front.tls.versions"),
    hitch("ecdh-curve", "service.front.tls.groups"),
    hitch("alpn-protos", "service.front.tls.alpn"),
    hitch("write-proxy", "service.back.send-proxy"),
    hitch("write-proxy-v1", "service.back.send-proxy"),
    hitch("write-proxy-v2", "service.back.send-proxy"),
    hitch("proxy-proxy", "service.back.send-proxy"),
    hitch("proxy-tlv", "service.back.send-proxy"),
    hitch("sni-nomatch-abort", "service.front.tls.unknown-name"),
    hitch("client-verify", "service.front.tls.client-certificates.mode"),
    hitch("client-verify-ca", "service.front.tls.client-certificates.ca"),
    hitch("backend-refresh", "service.back.resolve"),
    hitch("backend-connect-timeout", "service.timeouts.dial"),
    hitch("tcp-fastopen", "workers.fast-open"),
    hitch("syslog", "log.output"),
    hitch("syslog-facility", "log.syslog.facility"),
    hitch("log-filename", "log.output"),
    hitch("chroot", "process.sandbox"),
];

const fn nginx(name: &'static str, now: &'static str) -> Foreign {
    Foreign::new(name, "nginx", now)
}

const fn haproxy(name: &'static str, now: &'static str) -> Foreign {
    Foreign::new(name, "HAProxy", now)
}

const fn stunnel(name: &'static str, now: &'static str) -> Foreign {
    Foreign::new(name, "stunnel", now)
}

const fn hitch(name: &'static str, now: &'static str) -> Foreign {
    Foreign::new(name, "hitch", now)
}

const PREFACE: &str = "\
<!-- Made by `cargo xtask generate` from the table of options. Do not edit. -->

# Configuration

A configuration is a TOML file (`lariat serve FILE`), or the flags of `lariat serve`, which
describe one service. Every flag means the key beside it. Unknown keys are errors.

Times are written `250ms`, `10s`, `5m`, `12h` or `7d`; sizes `512B`, `64KiB`, `32MiB` or `1GiB`.
Relative paths begin at the directory of the file, those in flags at the working directory.
A list of one value may be written as that value alone.

Editors that know JSON Schema (by Taplo, for example) complete and check a file whose first line is
`#:schema` and the path or the address of [lariat.schema.json](lariat.schema.json).

```toml
[[service]]
name = \"web\"
front = { listen = [\"[::]:443\"], tls = { certificates = [\"certs/\"], alpn = [\"h2\", \"http/1.1\"] } }
back  = { servers = [\"10.0.0.3:80\", \"unix:/run/app.sock\"], balance = \"least-connections\" }
```
";

/// The reference of all keys, as Markdown.
pub fn reference() -> String {
    PREFACE.to_owned() + &TABLE.page()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        // Flags describe one service, and there is no file beside them.
        assert_eq!(TABLE.faults(), ["include has no flag"]);
    }
}
