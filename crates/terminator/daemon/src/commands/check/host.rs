//! `lariat check --host`: the host's limits beside what a configuration may come to need.
//!
//! Reads `/proc/sys` and changes nothing. A limit that this host does not have is left out.

use std::fmt;
use std::fs;

use config::Settings;
use serde::Serialize;
use sys::datagram::RECEIVE_BYTES;
use sys::usage;

use crate::kernel::KernelTls;
use crate::preflight;

/// A limit of the host.
#[derive(Debug, Eq, PartialEq, Serialize)]
pub(super) struct Limit {
    /// The setting, or what it is of.
    name: &'static str,
    here: String,
    wanted: String,
    /// The setting to raise if that is more; `None` = it is enough.
    remedy: Option<String>,
}

/// Memory that the kernel may hold for one TCP socket while data waits in it: four pages. Sockets
/// of connections that wait hold none.
const PAGES_PER_SOCKET: u64 = 4;

/// A connection has the client's socket and the server's.
const SOCKETS_PER_CONNECTION: u64 = 2;

/// The number that counts of those that a file holds.
type Of = fn(&[u64]) -> Option<u64>;

/// A setting, the number of it that counts, what is wanted, and what to set then.
type Row = (&'static str, Of, u64, fn(u64) -> String);

/// All limits that there are.
pub(super) fn limits(settings: &Settings, kernel_tls: Option<&KernelTls>) -> Vec<Limit> {
    let numbers = |name: &str| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let text = fs::read_to_string(path).ok()?;
        let numbers = text.split_whitespace().map(|one| one.parse().ok());
        numbers.collect::<Option<Vec<u64>>>()
    };
    let mut limits =
        vec![open_files(settings, usage::descriptors().hard), memory(settings, usage::memory())];
    limits.extend(of_kernel(settings, numbers));
    limits.extend(kernel_tls.map(|kernel_tls| Limit {
        name: "kernel TLS",
        here: kernel_tls.sentence.clone(),
        wanted: "by `ktls`".to_owned(),
        remedy: kernel_tls.remedy.clone(),
    }));
    limits
}

fn open_files(settings: &Settings, here: Option<u64>) -> Limit {
    let wanted = preflight::descriptors_needed(settings);
    let remedy = format!("LimitNOFILE={wanted} in the unit, or `ulimit -n {wanted}`");
    own("open files (ulimit -Hn)", here, wanted, remedy)
}

fn memory(settings: &Settings, here: Option<u64>) -> Limit {
    let wanted = preflight::memory_needed(settings) >> 20;
    let remedy = format!("MemoryMax={wanted}M in the unit, or fewer `limits.connections`");
    own("memory in MiB (MemoryMax=)", here.map(|bytes| bytes >> 20), wanted, remedy)
}

/// A limit of the process; `here` is `None` where the process is not limited.
fn own(name: &'static str, here: Option<u64>, wanted: u64, remedy: String) -> Limit {
    Limit {
        name,
        here: here.map_or_else(|| "unlimited".to_owned(), |here| here.to_string()),
        wanted: wanted.to_string(),
        remedy: here.filter(|here| *here < wanted).map(|_| remedy),
    }
}

fn of_kernel(settings: &Settings, numbers: impl Fn(&str) -> Option<Vec<u64>>) -> Vec<Limit> {
    let plane = &settings.plane;
    let connections = u64::from(plane.limits.connections);
    let descriptors = preflight::descriptors_needed(settings);
    let backlog = u64::from(plane.workers.backlog);
    let sockets = connections * SOCKETS_PER_CONNECTION;
    let peers = settings.cluster.as_ref().and_then(|one| one.peers.as_ref());
    let datagrams = peers.map_or(0, |_| RECEIVE_BYTES as u64);
    let first = |numbers: &[u64]| numbers.first().copied();
    let third = |numbers: &[u64]| numbers.get(2).copied();
    let ports = |numbers: &[u64]| Some(numbers.get(1)? + 1 - numbers.first()?);
    let rows: [Row; 7] = [
        ("fs.nr_open", first, descriptors, |wanted| wanted.to_string()),
        ("fs.file-max", first, descriptors, |wanted| wanted.to_string()),
        ("net.core.somaxconn", first, backlog, |wanted| wanted.to_string()),
        ("net.ipv4.ip_local_port_range", ports, ports_wanted(settings), |_| {
            "1024 65535".to_owned()
        }),
        ("net.ipv4.tcp_mem", third, sockets * PAGES_PER_SOCKET, |wanted| {
            format!("{} {} {wanted}", wanted / 2, wanted / 4 * 3)
        }),
        ("net.core.rmem_max", first, datagrams, |wanted| wanted.to_string()),
        ("net.netfilter.nf_conntrack_max", first, sockets, |wanted| wanted.to_string()),
    ];
    let each = rows.into_iter().filter_map(|(name, of, wanted, value)| {
        let here = of(&numbers(name).filter(|_| wanted > 0)?)?;
        let set = || format!("sysctl -w {name}=\"{}\"", value(wanted));
        let remedy = (here < wanted).then(set);
        Some(Limit {
            name,
            here: here.to_string(),
            wanted: wanted.to_string(),
            remedy: remedy.map(|remedy| match name {
                "net.ipv4.ip_local_port_range" => {
                    format!("{remedy}; beyond that, more servers, or Unix sockets")
                }
                "net.netfilter.nf_conntrack_max" => {
                    format!("{remedy}, or exempt the ports from tracking (notrack)")
                }
                _ => remedy,
            }),
        })
    });
    each.collect()
}

/// The connections that all go to one server: each has a port of its own on this host (RFC 9293
/// section 3.3.2). Those to Unix sockets have none.
fn ports_wanted(settings: &Settings) -> u64 {
    let process = settings.plane.limits.connections;
    let services = settings.plane.services.iter().map(|service| {
        let servers = service.back.server_list().iter();
        let servers = servers.filter(|one| one.endpoint.tcp_port().is_some()).count() as u64;
        let most = u64::from(service.connections_max.unwrap_or(process).min(process));
        most.checked_div(servers).unwrap_or(0)
    });
    services.max().unwrap_or(0)
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, here, wanted, remedy } = self;
        write!(f, "{name}: {here}, wanted {wanted}")?;
        match remedy {
            Some(remedy) => write!(f, "\n  hint: {remedy}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use config::{Recording, Source};

    use super::*;

    fn settings(connections: &str) -> Settings {
        let flags = [
            ("listen", "127.0.0.1:0"),
            ("tls", "off"),
            ("backend", "127.0.0.1:9"),
            ("backend", "127.0.0.1:10"),
            ("backend", "unix:/x"),
            ("connections", connections),
            ("backlog", "512"),
        ];
        let flags = flags.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let source = Source::Flags(flags.to_vec());
        let loaded = config::load(&source, &mut Recording::default());
        loaded.unwrap().settings
    }

    /// The limits that are too low on a host that has these.
    fn lacking(connections: &str) -> Vec<&'static str> {
        let host = |name: &str| {
            Some(match name {
                "fs.nr_open" | "fs.file-max" => vec![50_000],
                "net.core.somaxconn" => vec![512],
                "net.ipv4.ip_local_port_range" => vec![32_768, 60_999],
                "net.ipv4.tcp_mem" => vec![1, 2, 400_000],
                _ => return None,
            })
        };
        let limits = of_kernel(&settings(connections), host);
        assert_eq!(limits.len(), 5, "what there is not is left out");
        let lacking = limits.iter().filter(|one| one.remedy.is_some());
        lacking.map(|one| one.name).collect()
    }

    #[test]
    fn a_limit_below_what_is_wanted_has_a_remedy() {
        assert_eq!(lacking("20000"), [""; 0]);
        assert_eq!(lacking("40000"), ["fs.nr_open", "fs.file-max"]);
        assert_eq!(
            lacking("60000"),
            ["fs.nr_open", "fs.file-max", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_mem"]
        );
    }

    #[test]
    fn descriptors_are_the_process_own() {
        let limit = |here| open_files(&settings("1000"), here).remedy.is_some();
        assert_eq!([Some(100), Some(5000), None].map(limit), [true, false, false]);
    }
}
