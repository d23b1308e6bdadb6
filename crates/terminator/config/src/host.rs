//! The keys that hold for the whole process: workers, limits, rights, doors, resumption.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use options::{Key, Problem, Section, Value, quantity};
use proxy::options::{Limits, SourceLimits, WorkerOptions};
use sys::socket::Zoned;
use tls::resumption::key_file::{KeyFileFault, ListedKeys, SharedSecret};
use tls::resumption::{KeySource, TicketOptions};
use wire::address::Address;
use wire::network::Network;
use zeroize::Zeroizing;

use crate::certificates::Shelf;
use crate::cluster;
use crate::log;
use crate::networks;
use crate::settings::{
    AdminToken, ControlOptions, ProcessOptions, ReloadOptions, ResumptionOptions, SandboxOptions,
};

/// More threads than any host has CPUs would only be a slip of the keyboard.
const THREADS_MAX: u64 = 1024;

/// Ports in `process.connect-ports`. The kernel takes a rule for each and looks for one at each
/// dial; and a longer list limits little.
const CONNECT_PORTS_MAX: usize = 4096;

pub(crate) fn workers(section: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<WorkerOptions> {
    let allowed = shelf.files.cpus();
    let cpus = section.one("threads", |value, _| threads(value, &allowed));
    let backlog = section.count("backlog");
    let fast_open = section.count("fast-open");
    let file_threads: Option<u32> = section.count("file-threads");
    Some(WorkerOptions {
        cpus: cpus?,
        backlog: backlog?,
        fast_open: fast_open?,
        file_threads: file_threads? as usize,
    })
}

fn threads(value: &Value, allowed: &[u16]) -> Result<Vec<Option<u16>>, Problem> {
    let pinned = |cpus: &[u16]| cpus.iter().copied().map(Some).collect();
    match value {
        Value::Text(text) if text == "auto" => Ok(pinned(allowed)),
        Value::Integer(number) => number_of_threads(*number, allowed),
        Value::Text(text) => {
            let hint = "write \"auto\", a number, or CPUs such as \"0-3,6\"";
            let no_list = || Problem::new(format!("\"{text}\" is no list of CPUs")).hint(hint);
            let cpus = quantity::cpu_list(text).ok_or_else(no_list)?;
            match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
                None => Ok(pinned(&cpus)),
                Some(cpu) => Err(forbidden(*cpu, allowed)),
            }
        }
        other => Err(Problem::new(format!("is {}", other.kind()))),
    }
}

fn number_of_threads(number: Option<u64>, allowed: &[u16]) -> Result<Vec<Option<u16>>, Problem> {
    let number = number
        .filter(|number| (1..=THREADS_MAX).contains(number))
        .and_then(|number| usize::try_from(number).ok())
        .ok_or_else(|| Problem::new(format!("is out of range: 1 to {THREADS_MAX}")))?;
    Ok(match allowed.get(..number) {
        Some(cpus) => cpus.iter().copied().map(Some).collect(),
        None => vec![None; number],
    })
}

fn forbidden(cpu: u16, allowed: &[u16]) -> Problem {
    let allowed: Vec<_> = allowed.iter().map(u16::to_string).collect();
    Problem::new(format!("this process may not use CPU {cpu}"))
        .hint(format!("it may use: {}", allowed.join(", ")))
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

pub(crate) fn limits(section: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<Limits> {
    let connections = section.count("connections");
    let handshakes = section.count("handshakes");
    let per_source = per_source(&section.section("per-source"), shelf);
    Some(Limits {
        connections: connections?,
        handshakes: handshakes?,
        per_source: per_source?,
    })
}

fn per_source(section: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<SourceLimits> {
    let connections = section.count("connections");
    let handshakes = section.count("handshakes");
    let rate = section.count("rate");
    let ipv6_prefix = section.count("ipv6-prefix");
    let exempt = if section.has("exempt") {
        networks::read(section, "exempt", shelf)
    } else {
        Some(not_public().collect())
    };
    Some(SourceLimits {
        connections: connections?,
        handshakes: handshakes?,
        connections_per_second: rate?,
        ipv6_prefix_bits: ipv6_prefix?,
        exempt: exempt?,
    })
}

pub(crate) fn process(section: &Section<'_>, shelf: &Shelf<'_>) -> Option<ProcessOptions> {
    let sandbox = section.choice(
        "sandbox",
        &[
            ("on", sandbox(true, true)),
            ("files", sandbox(true, false)),
            ("system-calls", sandbox(false, true)),
            ("off", sandbox(false, false)),
        ],
    );
    let connect_ports = if section.has("connect-ports") {
        connect_ports(section).map(Some)
    } else {
        Some(None)
    };
    let drain = section.duration("drain");
    let drain_delay = section.duration("drain-delay");
    let user = section.text_if_written("user");
    let groups = section.texts("group");
    let pid_file = section.text_if_written("pid-file");
    let (sandbox, connect_ports) = (sandbox?, connect_ports?);
    if connect_ports.is_some() && !(sandbox.files && sandbox.system_calls) {
        let problem = if sandbox.files {
            "can be passed by: `sandbox` leaves the worker process all system calls"
        } else {
            "has no effect: `sandbox` leaves the worker process without Landlock"
        };
        let hint = "write sandbox = \"on\"";
        section.warn("connect-ports", Problem::new(problem).hint(hint));
    }
    Some(ProcessOptions {
        user: user?,
        groups: groups?,
        sandbox,
        connect_ports,
        drain: drain?,
        drain_delay: drain_delay?,
        pid_file: pid_file?.map(|path| shelf.base.join(path)),
    })
}

pub(crate) fn reload(section: &Section<'_>) -> Option<ReloadOptions> {
    let watch = section.boolean("watch");
    let debounce = section.duration("debounce");
    Some(ReloadOptions {
        watch: watch?,
        debounce: debounce?,
    })
}

fn connect_ports(section: &Section<'_>) -> Option<BTreeSet<u16>> {
    let ranges = section.list("connect-ports", port_range)?;
    let ports: BTreeSet<u16> = ranges.into_iter().flatten().collect();
    if ports.len() <= CONNECT_PORTS_MAX {
        return Some(ports);
    }
    let problem = format!("has more than {CONNECT_PORTS_MAX} ports");
    let hint = "list the ports of the servers alone, or leave it out";
    section.error("connect-ports", Problem::new(problem).hint(hint));
    None
}

fn port_range(value: &Value, _: &Key) -> Result<RangeInclusive<u16>, Problem> {
    let (range, told) = match value {
        Value::Integer(number) => {
            let port = number.and_then(|number| u16::try_from(number).ok());
            (port.map(|port| port..=port), "is no port".to_owned())
        }
        Value::Text(text) => {
            let told = format!("\"{}\" is no range of ports", text.escape_debug());
            (quantity::range(text), told)
        }
        other => (None, format!("is {}", other.kind())),
    };
    let hint = "write ports from 1 to 65535, such as 443 or \"8000-8010\"";
    range
        .filter(|range| *range.start() > 0)
        .ok_or_else(|| Problem::new(told).hint(hint))
}

const fn sandbox(files: bool, system_calls: bool) -> SandboxOptions {
    SandboxOptions {
        files,
        system_calls,
    }
}

/// Reads `[admin]`, and where the log and messages go.
pub(crate) fn control(top: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<ControlOptions> {
    let admin = top.section("admin");
    let status_socket = admin.if_written("status-socket", |admin, name| {
        admin.read_as(name, |path| {
            // A successor takes its place by renaming it.
            let is_path = !path.starts_with('@') && !path.starts_with("unix:");
            let problem = Problem::new("is a path in the file system, without \"unix:\" or \"@\"");
            let hint = "for example /run/lariat/status.sock";
            is_path
                .then(|| path.to_owned())
                .ok_or_else(|| problem.hint(hint))
        })
    });
    let listen = if admin.has("listen") {
        admin.one("listen", admin_address).map(Some)
    } else {
        Some(None)
    };
    let hosts = admin.list("hosts", host_name);
    let token = if admin.has("token") {
        admin_token(&admin, shelf).map(Some)
    } else {
        Some(None)
    };
    let (listen, hosts, token) = (listen?, hosts?, token?);
    if listen.is_none() {
        for name in ["hosts", "token", "insecure"] {
            if admin.has(name) {
                let problem = Problem::new("has no effect: `admin.listen` names no address");
                admin.warn(
                    name,
                    problem.hint("add listen = \"127.0.0.1:9090\", or take it out"),
                );
            }
        }
    }
    if let Some(address) = listen
        && !address.ip().is_loopback()
        && token.is_none()
        && !admin.boolean("insecure")?
    {
        let problem = Problem::new(format!("{address} may be reached by other hosts"));
        let hint = "name a file with a token in `admin.token`, or write `insecure = true` if a \
                    firewall keeps others away";
        admin.error("listen", problem.hint(hint));
        return None;
    }
    let log = log::outputs(&top.section("log"), shelf)?;
    Some(ControlOptions {
        status_socket: status_socket?.map(|path| shelf.base.join(path)),
        listen,
        hosts,
        token,
        log: log.connections,
        messages: log.message_form,
        messages_daemon: log.messages,
    })
}

fn admin_token(admin: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<AdminToken> {
    let path = shelf.base.join(admin.text("token")?);
    let content = shelf.read(admin, "token", &path).map(Zeroizing::new)?;
    shelf.is_private(admin, "token", &path);
    let token = AdminToken::read(&content);
    if token.is_none() {
        let (least, most) = (AdminToken::CHARACTERS.start(), AdminToken::CHARACTERS.end());
        let problem = Problem::new(format!(
            "{} does not hold {least} to {most} visible ASCII characters",
            path.display()
        ));
        admin.error(
            "token",
            problem.hint("make one with `openssl rand -hex 32`"),
        );
    }
    token
}

/// A name as requests have it, without a port.
fn host_name(value: &Value, key: &Key) -> Result<String, Problem> {
    let hint = || format!("for example: {}", key.example);
    match value {
        Value::Text(text) if !text.is_empty() && !text.contains([':', '/', '*', ' ']) => {
            Ok(text.strip_suffix('.').unwrap_or(text).to_owned())
        }
        Value::Text(text) => Err(Problem::new(format!("\"{text}\" is no host name")).hint(hint())),
        other => Err(Problem::new(format!("is {}", other.kind())).hint(hint())),
    }
}

fn admin_address(value: &Value, key: &Key) -> Result<std::net::SocketAddr, Problem> {
    let hint = || format!("for example: {}", key.example);
    let Value::Text(text) = value else {
        return Err(Problem::new(format!("is {}", value.kind())).hint(hint()));
    };
    match text.parse().map(|Zoned(address)| address) {
        Ok(Address::Ip(address)) => Ok(address),
        Ok(Address::Unix(_)) => {
            Err(Problem::new("is a Unix socket, but an IP address is wanted").hint(hint()))
        }
        Ok(Address::Inherited(_)) => Err(Problem::new(
            "is a name: a socket that is handed over for it is known by its address",
        )
        .hint(hint())),
        Err(error) => Err(Problem::new(format!("\"{text}\" {error}")).hint(hint())),
    }
}

pub(crate) fn resumption(section: &Section<'_>) -> Option<ResumptionOptions> {
    let cache = section.section("session-cache");
    let session_entries = cache.count("entries");
    let session_bytes = cache.size("bytes");
    let session_lifetime = cache.duration("lifetime");
    Some(ResumptionOptions {
        session_entries: session_entries?,
        session_bytes: session_bytes?,
        session_lifetime: session_lifetime?,
    })
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Tls13Choice {
    /// Tickets, but the cache where early data is taken.
    Auto,
    Tickets,
    Cache,
}

pub(crate) fn tls13(section: &Section<'_>) -> Option<Tls13Choice> {
    section.choice(
        "tls13",
        &[
            ("auto", Tls13Choice::Auto),
            ("tickets", Tls13Choice::Tickets),
            ("cache", Tls13Choice::Cache),
        ],
    )
}

/// Reads `resumption.tickets`. Unless it says where keys come from, they come from the cluster's
/// secrets, if there are any.
pub(crate) fn tickets(
    section: &Section<'_>,
    cluster: Vec<SharedSecret>,
    shelf: &mut Shelf<'_>,
) -> Option<TicketOptions> {
    let tickets = section.section("tickets");
    let keys = ticket_keys(&tickets, shelf).map(|keys| match keys {
        KeySource::Own if !cluster.is_empty() => KeySource::Shared(cluster),
        keys => keys,
    });
    let rotate = tickets.duration("rotate");
    let keep = tickets.count("keep");
    let lifetime = tickets
        .has("lifetime")
        .then(|| tickets.duration("lifetime"));
    let count = tickets.count("count");
    Some(TicketOptions {
        keys: keys?,
        rotate: rotate?,
        keep: keep?,
        lifetime: match lifetime {
            Some(lifetime) => Some(lifetime?),
            None => None,
        },
        count: count?,
    })
}

fn ticket_keys(tickets: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<KeySource> {
    if !tickets.has("keys") {
        return shared_secret(tickets, shelf);
    }
    if tickets.has("secret") {
        let problem = Problem::new("is one way to keys, `keys` is another");
        tickets.error("secret", problem.hint("write one of them"));
        return None;
    }
    for name in ["rotate", "keep"] {
        if tickets.has(name) {
            let problem = Problem::new("has no effect on keys from files");
            tickets.warn(name, problem.hint("rotate them in the files, then reload"));
        }
    }
    let mut files = Vec::new();
    for path in tickets.texts("keys")? {
        let path = shelf.base.join(path);
        let bytes = shelf.read(tickets, "keys", &path).map(Zeroizing::new)?;
        shelf.is_private(tickets, "keys", &path);
        files.push((path.display().to_string(), bytes));
    }
    let taken = |(place, mut bytes): (String, Zeroizing<Vec<u8>>)| {
        // The caller zeroes them.
        (place, std::mem::take(&mut *bytes))
    };
    let keys = ListedKeys::read(files.into_iter().map(taken).collect());
    let hint =
        "make one with `openssl rand 80 > ticket.key`, or a line with `openssl rand -base64 48`";
    let fault =
        |fault: KeyFileFault| tickets.error("keys", Problem::new(fault.to_string()).hint(hint));
    keys.map_err(fault).ok().map(KeySource::Listed)
}

fn shared_secret(tickets: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<KeySource> {
    if !tickets.has("secret") {
        return Some(KeySource::Own);
    }
    let secret = cluster::shared_secret(tickets, "secret", &tickets.text("secret")?, shelf)?;
    Some(KeySource::Shared(vec![secret]))
}

#[cfg(test)]
mod tests {
    use wire::network::NetworkSet;

    use super::*;

    #[test]
    fn addresses_that_are_not_public_are_exempt() {
        let exempt: NetworkSet = not_public().collect();
        let is_exempt = |client: &str| exempt.contains(client.parse().ok());
        for client in [
            "127.0.0.1",
            "::1",
            "10.9.8.7",
            "172.31.0.1",
            "192.168.1.1",
            "fe80::1",
        ] {
            assert!(is_exempt(client), "{client}");
        }
        for client in ["192.0.2.1", "172.32.0.1", "2001:db8::1"] {
            assert!(!is_exempt(client), "{client}");
        }
    }
}
