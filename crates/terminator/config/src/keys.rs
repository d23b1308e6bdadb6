//! The one table of options, made of the structs that declare the keys.
//!
//! Everything that knows keys is made from it: the check for unknown ones, the reader's defaults
//! and ranges, the flags of `lariat serve`, its help, the reference, and the schema for editors.

use std::sync::LazyLock;

use import::Predecessor;
use options::row::path;
use options::{
    ForeignKeyName, Key, Nested, Node, Report, Section, Table, Tables, key, section, table,
};

use crate::acme::WrittenAcme;
use crate::admin::WrittenAdmin;
use crate::cluster::WrittenCluster;
use crate::ech::WrittenEch;
use crate::log::WrittenLog;
use crate::process::{WrittenLimits, WrittenProcess, WrittenReload, WrittenWorkers};
use crate::resumption::WrittenResumption;
use crate::service::WrittenService;

section! {
    table("");
    /// A configuration as it was written.
    pub(crate) struct WrittenConfiguration<'a> {
        /// Files to read after this one; a name may have a `*`. They add services, and keys that no
        /// other file has, but include none. Their relative paths begin at this file's directory.
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
        ech: Option<WrittenEch<'a>>,
        acme: WrittenAcme<'a>,
    }
}

section! {
    table("defaults")
        .absent("none").like("service").example(r#"defaults.timeouts = { idle = "1h" }"#);
    /// Keys that each service has unless it writes them. Tables are completed key by key, unless
    /// they have a `mode` or `files`.
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

/// Keys of a configuration, in the order of the reference.
pub static TABLE: Table = Table {
    keys: &key::flattened::<{ key::count(KEYS) }>(KEYS, "Process"),
    foreign,
    later: &["service.front.peek"],
    help: "lariat help serve",
};

/// Names that nginx, HAProxy, stunnel and hitch have for our keys, each with the key that does the
/// same here, or begins to; those that are names of ours are not among them.
fn foreign() -> &'static [ForeignKeyName] {
    static ALL: LazyLock<Vec<ForeignKeyName>> = LazyLock::new(|| {
        let mut all = Vec::new();
        for of in
            [Predecessor::Nginx, Predecessor::Haproxy, Predecessor::Stunnel, Predecessor::Hitch]
        {
            for meaning in import::meanings(of) {
                let Some(now) = meaning.key().filter(|key| TABLE.find(key).is_some()) else {
                    continue;
                };
                let names = meaning.names.iter().filter_map(|name| name.rsplit(' ').next());
                let names = names.map(|name| name.trim_start_matches('-'));
                let is_known = |name: &str| TABLE.keys.iter().any(|key| key.name() == name);
                let names = names.filter(|name| name.len() > 1 && !is_known(name));
                all.extend(names.map(|name| ForeignKeyName::new(name, of.title(), now)));
            }
        }
        all.retain(|one| one.now != "service");
        for (typed, now) in ELSEWHERE.lines().filter_map(|line| line.split_once(" = ")) {
            all.extend(
                typed.split(", ").map(|typed| ForeignKeyName::new(typed, "other programs", now)),
            );
        }
        all
    });
    &ALL
}

/// Paths that users of other programs may write, each with the right key. Without this table, a
/// path that ends in the name of one of our keys would get a hint to that key, which has another
/// purpose. A leading dot means the top level.
const ELSEWHERE: &str = "\
service.front.tls.acme.ca = service.front.tls.acme.roots
acme.email, acme.contact, service.front.tls.acme.email = service.front.tls.acme.contact
acme.server, service.front.tls.acme.server = service.front.tls.acme.directory
service.front.tls.acme.url = service.front.tls.acme.directory
service.domains, service.hosts, service.names, service.sni = service.front.names
service.front.sni, service.front.tls.sni, service.front.hosts = service.front.names
service.backends, service.back.port, service.back.address = service.back.servers
service.port, service.host, service.address, service.front.port = service.front.listen
service.front.host, service.front.address = service.front.listen
service.verify, service.verify-client, service.mtls = service.front.tls.client-certificates.mode
service.front.tls.verify, service.front.tls.mtls = service.front.tls.client-certificates.mode
service.client-ca, service.front.tls.client-ca = service.front.tls.client-certificates.ca
service.certificate, .certificate = service.front.tls.certificates
service.min-version, service.front.tls.min-version = service.front.tls.versions
service.front.tls.min, service.front.tls.protocols, service.protocols = service.front.tls.versions
service.back.tls.server-name, service.back.tls.hostname = service.back.tls.name
service.back.tls.cert, service.back.tls.certificates = service.back.tls.certificate
service.back.tls.insecure, service.back.tls.skip-verify = service.back.tls.verify
service.back.tls.insecure-skip-verify = service.back.tls.verify
ssl-default-server-verify = service.back.tls.verify
service.back.tls.ca-file, service.back.tls.CAfile, service.back.tls.cafile = service.back.tls.ca
service.back.tls.crl-file, service.back.tls.CRLfile = service.back.tls.crl
service.back.tls.crt = service.back.tls.certificate
service.back.tls.ciphers, service.back.tls.ciphersuites = service.back.tls.suites
service.back.tls.checkHost, service.back.tls.verifyhost = service.back.tls.name
service.back.tls.sni = service.back.tls.name
service.back.servers.maxconn = service.back.servers.max-connections
service.back.maxconn = service.back.servers.max-connections
service.timeouts.connect, service.connect-timeout, service.back.timeout = service.timeouts.dial
service.timeouts.server, service.timeouts.read, service.timeouts.write = service.timeouts.idle
service.timeouts.tunnel, service.timeouts.keepalive, service.timeouts.close = service.timeouts.idle
service.client-timeout, service.server-timeout, service.front.timeout = service.timeouts.idle
service.whitelist = service.front.allow
service.blacklist = service.front.deny
service.health-check = service.back.check
service.back.check.type = service.back.check.kind
service.back.check.uri, service.back.check.url = service.back.check.path
service.back.check.status = service.back.check.expect-status
service.back.check.threshold = service.back.check.fall
service.rate, service.rate-limit, limits.rate-limit = limits.per-source.rate
limits.per-ip, limits.connections-per-ip = limits.per-source
limits.per-source.prefix = limits.per-source.ipv6-prefix
limits.maxconn, limits.max-connections, workers.connections = limits.connections
.global = process
.user, admin.user = process.user
log.level = log.messages
log.file, log.path = log.output
.metrics, .stats, .prometheus, admin.address, admin.port = admin.listen
.status, admin.socket = admin.status-socket
cluster.listen = cluster.peers.listen
cluster.redis, resumption.redis = cluster.store.url
cluster.key = cluster.secret
cluster.nodes = cluster.peers.send-to
resumption.cache = resumption.session-cache
resumption.lifetime = resumption.session-cache.lifetime
resumption.tickets.rotation = resumption.tickets.rotate
reload.interval = reload.watch";

const PREFACE: &str = "\
<!-- Made by `cargo xtask generate` from the table of options. Do not edit. -->

# Configuration

A configuration is a TOML file (`lariat serve FILE`), or the flags of `lariat serve`, which
describe one service. Every flag means the key beside it; that of a list may be repeated, that of a
boolean takes `on` or `off`. Unknown keys are errors.

Times are written `250ms`, `10s`, `5m`, `12h` or `7d`; sizes `512B`, `64KiB`, `32MiB` or `1GiB`.
Relative paths begin at the directory of the file, those in flags at the working directory.
A list of one value may be written as that value alone.

[Editors](../guide/install.md#in-an-editor) complete and check a file by its schema.

```toml
[[service]]
name = \"web\"
front = { listen = [\"[::]:443\"], tls = { certificates = [\"certs/\"] } }
back  = { servers = [\"10.0.0.3:80\"] }
```
";

/// Renders the reference of all keys, as Markdown.
pub fn reference() -> String {
    PREFACE.to_owned() + &TABLE.page()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        // Flags describe one service without a file. `[ech]` is about several services.
        let is_expected = |fault: &String| {
            fault == "include has no flag"
                || fault.starts_with("ech.") && fault.ends_with(" has no flag")
        };
        let mut faults = TABLE.faults();
        faults.retain(|fault| !is_expected(fault));
        assert!(faults.is_empty(), "{faults:?}");
    }
}
