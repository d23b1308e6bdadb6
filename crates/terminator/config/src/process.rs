//! Keys of the processes: workers, limits, privileges, reloads, and the log of secrets.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use options::quantity::{self, DAY};
use options::row::{boolean, count, duration, networks, path, row, text};
use options::{Field, Key, Kind, Problem, Value, choice, nearest, section, table};
use proxy::options::{FrontTls, ProcessLimits, ServiceOptions, SourceLimits, WorkerOptions};
use wire::address::Network;

use crate::resolver::{FileResolver, networks_of};
use crate::settings::{KeyLogOptions, ProcessOptions, ReloadOptions, SandboxOptions};

/// Most threads: no host has more CPUs, so a larger number is a typo.
const THREADS_MAX: u64 = 1024;

/// Most ports in `process.connect-ports`. The kernel stores a rule for each and searches them at
/// each dial, and a longer list restricts little.
const CONNECT_PORTS_MAX: usize = 4096;

section! {
    table("workers")
        .absent("").shorthand("threads")
        .example(r#"workers = { threads = "0-3,6" }"#);
    /// The threads that carry connections.
    pub(crate) struct WrittenWorkers<'a> {
        /// `auto`: one for each CPU that the process may use, pinned to it; fewer, unpinned, under
        /// a lower quota of a control group. A list is `"0-3,6"`, or `"4-4"`.
        threads: ThreadChoice = row(Kind::Threads, threads)
            .default("auto").flag("workers").example("threads = 4"),
        /// The kernel's queue of new connections, per listener and worker; at most
        /// `net.core.somaxconn`.
        backlog: u32 = count(1, 65_535).default("4096").flag("backlog").example("backlog = 1024"),
        /// The queue of TCP Fast Open (RFC 7413); 0 = off. Replayed data reaches TLS only.
        fast_open: u32 = count(0, 65_535).default("0").flag("fast-open").example("fast-open = 256"),
        /// Threads that find and read static files that are not in memory.
        file_threads: usize = count(1, 64)
            .default("4").flag("file-threads").example("file-threads = 16"),
    }
}

section! {
    table("limits").absent("").example("limits = { connections = 20000 }");
    /// Limits of the whole process.
    pub(crate) struct WrittenLimits<'a> {
        /// Open connections. Each takes two descriptors: `ulimit -Hn` should be more than twice as
        /// high.
        connections: u32 = count(1, 10_000_000)
            .default("50000").flag("connections").example("connections = 200000"),
        /// Handshakes in progress; at the limit a newcomer takes an older one's place.
        handshakes: u32 = count(1, 10_000_000)
            .default("10000").flag("handshakes").example("handshakes = 2000"),
        per_source: WrittenSourceLimits<'a>,
    }
}

section! {
    table("limits.per-source")
        .absent("").example("per-source = { connections = 200, rate = 50 }");
    /// The limits of one client address, over all services; connections beyond them are reset. See
    /// docs/guide/access.md.
    pub(crate) struct WrittenSourceLimits<'a> {
        /// Open connections of one address; 0 = no limit.
        connections: u32 = count(0, 10_000_000)
            .default("10000").flag("source-connections").example("connections = 200"),
        /// Handshakes in progress of one address; 0 = no limit.
        handshakes: u32 = count(0, 10_000_000)
            .default("1000").flag("source-handshakes").example("handshakes = 20"),
        /// New connections per second of one address, of which as many may come at once; 0 = no
        /// limit.
        rate: u32 = count(0, 1_000_000).default("1000").flag("source-rate").example("rate = 50"),
        /// The leading bits of an IPv6 address that are one source.
        ipv6_prefix: u8 = count(16, 128)
            .default("64").flag("source-ipv6-prefix").example("ipv6-prefix = 56"),
        /// Networks without these limits, such as a load balancer's, or files that list them.
        exempt: Vec<String> = networks()
            .many()
            .absent("this host, private networks (RFC 1918, RFC 4193) and link-local addresses")
            .flag("source-exempt").example(r#"exempt = ["203.0.113.7", "partners.txt"]"#),
    }
}

section! {
    table("process").absent("").example(r#"process = { user = "lariat" }"#);
    /// The two processes and their rights.
    pub(crate) struct WrittenProcess<'a> {
        /// The worker process's user; changing to it needs root.
        user: Option<String> = text("USER")
            .absent("`nobody` if started as root, else unchanged").flag("user")
            .example(r#"user = "lariat""#),
        /// The worker process's group, and further ones, such as that of a server's Unix socket.
        group: Vec<String> = text("GROUP")
            .many().absent("those of the user").flag("group")
            .example(r#"group = ["lariat", "redis"]"#),
        /// The rights that the worker process gives up: `files` is opening files (Landlock),
        /// `system-calls` all calls that it does not need (seccomp), `on` both.
        sandbox: SandboxOptions = choice!(of SandboxOptions: SANDBOXES)
            .default("on").flag("sandbox").example(r#"sandbox = "files""#),
        /// The TCP ports that the worker process can connect to, at most 4096, also after reloads;
        /// `[]` = none. It needs `sandbox = "on"` and Linux 6.7.
        connect_ports: Vec<RangeInclusive<u16>> = row(Kind::Ports, port_range)
            .many().absent("any port").flag("connect-ports")
            .example(r#"connect-ports = [80, "8000-8010"]"#),
        /// How long open connections may go on in a drain: less than the service manager waits. See
        /// docs/guide/drain.md.
        drain: Duration = duration(Duration::ZERO, DAY)
            .default("60s").flag("drain-timeout").example(r#"drain = "5m""#),
        /// How long connections are still accepted before `drain` begins, while `/ready` answers
        /// 503.
        drain_delay: Duration = duration(Duration::ZERO, DAY)
            .default("0s").flag("drain-delay").example(r#"drain-delay = "10s""#),
        /// A file for the supervisor's process id.
        pid_file: Option<String> = path()
            .absent("none is written").flag("pid-file")
            .example(r#"pid-file = "/run/lariat/lariat.pid""#),
        key_log: Option<WrittenKeyLog<'a>>,
        /// Whether a process of its own, which faces no network, holds private keys. See
        /// docs/guide/keys.md.
        key_process: bool = boolean()
            .default("false").flag("key-process").example("key-process = true"),
    }
}

section! {
    table("reload")
        .absent("by signal and by `lariat reload` alone").example("reload = { watch = true }");
    /// When the configuration is read again by itself.
    pub(crate) struct WrittenReload<'a> {
        /// Whether a change of the configuration, or of what it names, is a reload. Network file
        /// systems are looked at every 10 seconds. See docs/guide/reload.md.
        watch: bool = boolean()
            .default("false").flag("reload-watch").alone("on").example("watch = true"),
        /// How long files must stay as they are before they are read.
        debounce: Duration = duration(Duration::from_millis(10), Duration::from_secs(600))
            .default("1s").flag("reload-debounce").example(r#"debounce = "5s""#),
    }
}

/// Words of `process.sandbox`.
const SANDBOXES: &[(&str, SandboxOptions)] = &[
    ("on", sandbox(true, true)),
    ("files", sandbox(true, false)),
    ("system-calls", sandbox(false, true)),
    ("off", sandbox(false, false)),
];

const fn sandbox(files: bool, system_calls: bool) -> SandboxOptions {
    SandboxOptions { files, system_calls }
}

/// The threads that `workers.threads` asks for.
#[derive(Clone, Debug)]
pub(crate) enum ThreadChoice {
    Auto,
    Number(usize),
    Cpus(Vec<u16>),
}

fn threads(value: &Value, _: &Key) -> Result<ThreadChoice, Problem> {
    match value {
        Value::Text(text) if text == "auto" => Ok(ThreadChoice::Auto),
        Value::Integer(number) => number
            .filter(|number| (1..=THREADS_MAX).contains(number))
            .map(|number| ThreadChoice::Number(number as usize))
            .ok_or_else(|| Problem::new(format!("is out of range: 1 to {THREADS_MAX}"))),
        Value::Text(text) => {
            let hint = "write \"auto\", a number, or CPUs such as \"0-3,6\"";
            let no_list = || Problem::new(format!("\"{text}\" is no list of CPUs")).hint(hint);
            let cpus = quantity::cpu_list(text).ok_or_else(no_list)?;
            Ok(ThreadChoice::Cpus(cpus))
        }
        other => Err(Problem::new(format!("is {}", other.kind()))),
    }
}

pub(crate) fn worker_options(
    workers: &WrittenWorkers<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<WorkerOptions> {
    Some(WorkerOptions {
        cpus: cpus(&workers.threads, &resolver.files.cpus(), resolver.files.parallelism())?,
        backlog: workers.backlog.value?,
        fast_open: workers.fast_open.value?,
        file_threads: workers.file_threads.value?,
    })
}

/// Returns the CPU of each thread, or `None` for a thread that is not pinned.
fn cpus(
    threads: &Field<'_, ThreadChoice>,
    allowed: &[u16],
    parallelism: usize,
) -> Option<Vec<Option<u16>>> {
    let pinned = |cpus: &[u16]| Some(cpus.iter().copied().map(Some).collect());
    match threads.value.as_ref()? {
        // A quota is not tied to a CPU: containers that pin their threads would share the first.
        ThreadChoice::Auto if parallelism < allowed.len() => Some(vec![None; parallelism]),
        ThreadChoice::Auto => pinned(allowed),
        ThreadChoice::Number(number) => match allowed.get(..*number) {
            Some(cpus) => pinned(cpus),
            None => Some(vec![None; *number]),
        },
        ThreadChoice::Cpus(cpus) => {
            let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) else {
                return pinned(cpus);
            };
            let allowed: Vec<_> = allowed.iter().map(u16::to_string).collect();
            let message = format!("this process may not use CPU {cpu}");
            threads.fail(message, format!("it may use: {}", allowed.join(", ")))
        }
    }
}

/// This host, private networks (RFC 1918, RFC 4193) and link-local addresses.
const NOT_PUBLIC: [&str; 8] = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "::1",
    "fc00::/7",
    "fe80::/10",
];

fn not_public() -> impl Iterator<Item = Network> {
    let parsed = NOT_PUBLIC.iter().map(|text| text.parse());
    parsed.map(|network| network.expect("a network in CIDR notation"))
}

pub(crate) fn limits(
    limits: &WrittenLimits<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<ProcessLimits> {
    let source = &limits.per_source;
    let exempt = if source.exempt.is_written() {
        networks_of(&source.exempt, resolver)
    } else {
        Some(not_public().collect())
    };
    Some(ProcessLimits {
        connections: limits.connections.value?,
        handshakes: limits.handshakes.value?,
        per_source: SourceLimits {
            connections: source.connections.value?,
            handshakes: source.handshakes.value?,
            connections_per_second: source.rate.value?,
            ipv6_prefix_bits: source.ipv6_prefix.value?,
            exempt: exempt?,
        },
    })
}

pub(crate) fn process_options(
    process: &WrittenProcess<'_>,
    key_log: Option<KeyLogOptions>,
    resolver: &FileResolver<'_>,
) -> Option<ProcessOptions> {
    let ports = connect_ports(&process.connect_ports);
    let (sandbox, connect_ports) = (process.sandbox.value?, ports?);
    if connect_ports.is_some() && !(sandbox.files && sandbox.system_calls) {
        let message = if sandbox.files {
            "can be passed by: `sandbox` leaves the worker process all system calls"
        } else {
            "has no effect: `sandbox` leaves the worker process without Landlock"
        };
        process.connect_ports.warn(message, "write sandbox = \"on\"");
    }
    Some(ProcessOptions {
        user: process.user.value.clone()?,
        groups: process.group.value.clone()?,
        sandbox,
        connect_ports,
        drain: process.drain.value?,
        drain_delay: process.drain_delay.value?,
        pid_file: process.pid_file.value.clone()?.map(|path| resolver.base.join(path)),
        key_log,
        key_process: process.key_process.value?,
    })
}

pub(crate) fn reload_options(reload: &WrittenReload<'_>) -> Option<ReloadOptions> {
    Some(ReloadOptions { watch: reload.watch.value?, debounce: reload.debounce.value? })
}

fn connect_ports(listed: &Field<'_, Vec<RangeInclusive<u16>>>) -> Option<Option<BTreeSet<u16>>> {
    if !listed.is_written() {
        return Some(None);
    }
    let ports: BTreeSet<u16> = listed.value.iter().flatten().cloned().flatten().collect();
    if ports.len() > CONNECT_PORTS_MAX {
        let message = format!("has more than {CONNECT_PORTS_MAX} ports");
        return listed.fail(message, "list the ports of the servers alone, or leave it out");
    }
    listed.value.is_some().then_some(Some(ports))
}

fn port_range(value: &Value, _: &Key) -> Result<RangeInclusive<u16>, Problem> {
    let (range, message) = match value {
        Value::Integer(number) => {
            let port = number.and_then(|number| u16::try_from(number).ok());
            (port.map(|port| port..=port), "is no port".to_owned())
        }
        Value::Text(text) => {
            let message = format!("\"{}\" is no range of ports", text.escape_debug());
            (quantity::range(text), message)
        }
        other => (None, format!("is {}", other.kind())),
    };
    let hint = "write ports from 1 to 65535, such as 443 or \"8000-8010\"";
    range.filter(|range| *range.start() > 0).ok_or_else(|| Problem::new(message).hint(hint))
}

section! {
    table("process.key-log")
        .absent("no secret is written").shorthand("path")
        .example(r#"key-log = { path = "/run/lariat/keys.log", services = ["web"] }"#);
    /// Writes the secrets of connections to a file (`SSLKEYLOGFILE`, RFC 9850): a reader of it
    /// decrypts them all. See docs/guide/logs.md.
    pub(crate) struct WrittenKeyLog<'a> {
        /// The file, made with mode 0600 and appended to; never one that others may read, nor
        /// through a symbolic link.
        path: String = path().flag("key-log").example(r#"path = "/run/lariat/keys.log""#),
        /// The services whose connections are meant.
        services: Vec<String> = text("NAME")
            .many().absent("all services").flag("key-log-service")
            .example(r#"services = ["web"]"#),
    }
}

/// Reads `process.key-log`, and marks the services.
pub(crate) fn key_log_options(
    written: Option<&WrittenKeyLog<'_>>,
    services: &mut [ServiceOptions],
    resolver: &FileResolver<'_>,
) -> Option<Option<KeyLogOptions>> {
    let Some(keys) = written else { return Some(None) };
    let chosen = names(&keys.services, services)?;
    for service in services.iter_mut().filter(|one| chosen.contains(&one.name)) {
        mark(service);
    }
    let message = format!(
        "writes the secrets of all connections of {}: a reader of them decrypts what was captured",
        chosen.join(", ")
    );
    keys.at.warn(message, "take it out, and remove the file, when the fault is found");
    let path = resolver.base.join(keys.path.value.as_ref()?);
    Some(Some(KeyLogOptions { path, services: chosen }))
}

fn names(written: &Field<'_, Vec<String>>, services: &[ServiceOptions]) -> Option<Vec<String>> {
    let all: Vec<_> = services.iter().map(|one| one.name.clone()).collect();
    let named = written.value.clone()?;
    if named.is_empty() {
        return Some(all);
    }
    let Some(unknown) = named.iter().find(|name| !all.contains(name)) else { return Some(named) };
    let message = format!("\"{}\" is no service", unknown.escape_debug());
    match nearest(unknown, all.iter().map(String::as_str)) {
        Some(near) => written.fail(message, format!("did you mean \"{near}\"?")),
        None => written.fail(message, "write names of services"),
    }
}

fn mark(service: &mut ServiceOptions) {
    if let FrontTls::Terminate(tls) = &mut service.front.tls {
        tls.key_log = true;
    }
    if let Some(tls) = service.back.servers_mut().and_then(|one| one.tls.as_mut()) {
        tls.client.key_log = true;
    }
}

#[cfg(test)]
mod tests {
    use wire::address::NetworkSet;

    use super::*;

    #[test]
    fn addresses_that_are_not_public_are_exempt() {
        let exempt: NetworkSet = not_public().collect();
        let is_exempt = |client: &str| exempt.contains(client.parse().ok());
        for client in ["127.0.0.1", "::1", "10.9.8.7", "172.31.0.1", "192.168.1.1", "fe80::1"] {
            assert!(is_exempt(client), "{client}");
        }
        for client in ["192.0.2.1", "172.32.0.1", "2001:db8::1"] {
            assert!(!is_exempt(client), "{client}");
        }
    }
}
