//! `upstream` and `proxy_pass`: the servers of a service.

use std::net::IpAddr;

use toml::Value;

use crate::convert::{UnusableValue, split_endpoint};
use crate::import::{Import, inline_table};
use crate::meanings::Conversion;
use crate::nginx::section::{NginxBlock, NginxSection};
use crate::source::{SourceLine, Statement};

/// The destination of `proxy_pass`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NginxTarget {
    /// An upstream's name, or an address.
    pub(super) address: String,
    pub(super) has_tls: bool,
}

impl NginxTarget {
    /// The target of a server of HTTP, by a URL, or of a stream.
    pub(super) fn read(value: &str, is_http: bool) -> Result<Self, UnusableValue> {
        if value.contains('$') {
            let why = "the server depends on a variable";
            return Err(UnusableValue::new(why, "a service for each case: `front.names`"));
        }
        if !is_http {
            return Ok(Self { address: value.to_owned(), has_tls: false });
        }
        let (scheme, rest) = value.split_once("://").unwrap_or(("", value));
        let (address, path) = match rest.strip_prefix("unix:") {
            Some(socket) => {
                let (socket, path) = socket.split_once(':').unwrap_or((socket, ""));
                (format!("unix:{socket}"), path)
            }
            None => match rest.split_once('/') {
                Some((address, path)) => (address.to_owned(), path),
                None => (rest.to_owned(), ""),
            },
        };
        match scheme {
            "http" | "https" if path.trim_start_matches('/').is_empty() => {
                Ok(Self { address, has_tls: scheme == "https" })
            }
            _ => {
                let why = "Lariat does not change the path of requests";
                Err(UnusableValue::new(why, "keep nginx behind Lariat, or change it in the server"))
            }
        }
    }

    /// The host whose name its certificate must have.
    pub(super) fn host(&self) -> Option<String> {
        let (host, port) = split_endpoint(&self.address);
        let host = if host.is_empty() { port } else { host };
        let is_name = !self.address.starts_with("unix:") && host.parse::<IpAddr>().is_err();
        is_name.then_some(host)
    }

    /// An address with its port; `None` = it has none.
    fn with_port(address: &str, port: Option<&str>) -> Option<String> {
        let has_port = match address.rsplit_once(':') {
            _ if address.starts_with("unix:") => true,
            Some((_, port)) => port.parse::<u16>().is_ok() && !address.ends_with(']'),
            None => false,
        };
        if has_port {
            return Some(address.to_owned());
        }
        Some(format!("{address}:{}", port?))
    }

    /// Writes the servers. Returns whether there is one.
    pub(super) fn write(
        &self,
        section: &NginxSection,
        import: &mut Import,
        written: &Statement,
    ) -> bool {
        let port = section.is_http.then_some(if self.has_tls { "443" } else { "80" });
        if let Some(upstream) = section.upstream(&self.address) {
            import.joined(&upstream.written, "service.back.servers", "");
            return write_upstream(upstream, port, import);
        }
        let Some(address) = Self::with_port(&self.address, port) else {
            let why = format!("there is no upstream `{}`, and no port", self.address);
            import.fault(&written.place, "proxy_pass", why, "write HOST:PORT");
            return false;
        };
        import.service.push("back.servers", address, written.place.clone());
        // nginx tries a single server in any case.
        never_eject(import, written.place.clone());
        true
    }
}

fn never_eject(import: &mut Import, origin: SourceLine) {
    import.service.set("back.passive.failures", 0, origin);
    import.remark("back.passive.failures", "nginx tries a single server in any case.");
}

/// A parameter of `server`.
fn parameter<'s>(written: &'s Statement, name: &str) -> Option<&'s str> {
    let mut words = written.words.iter().skip(1);
    words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn write_upstream(upstream: &NginxBlock, port: Option<&str>, import: &mut Import) -> bool {
    const KEY: &str = "service.back.servers";
    let is_down = |one: &&Statement| one.words.iter().any(|word| word == "down");
    let (down, up): (Vec<_>, Vec<_>) = upstream.lines.iter().partition(is_down);
    import.mapped(down, "left out, because it is down");
    for written in &up {
        let named = written.words.first().map_or("", String::as_str);
        let srv = parameter(written, "service").map(|name| {
            let is_whole = name.contains('.');
            if is_whole {
                format!("srv:{name}.{named}")
            } else {
                format!("srv:_{name}._tcp.{named}")
            }
        });
        let Some(address) = srv.or_else(|| NginxTarget::with_port(named, port)) else {
            import.fault(&written.place, "server", "has no port", "write HOST:PORT");
            continue;
        };
        let mut keys = vec![("address", Value::from(address))];
        let mut notes = Vec::new();
        for word in written.words.iter().skip(1) {
            take_parameter(word, &mut keys, &mut notes);
        }
        let value = match keys.as_slice() {
            [(_, address)] => address.clone(),
            _ => inline_table(keys),
        };
        import.add(KEY, value, written, &notes.join("; "));
    }
    match up.as_slice() {
        [] => {
            import.lacks(&upstream.written, "has no server that is up", "write one");
            return false;
        }
        [one] => never_eject(import, one.place.clone()),
        _ => write_passive(&up, import),
    }
    if let Some((written, time)) =
        up.iter().find_map(|one| Some((*one, parameter(one, "slow_start")?)))
    {
        let key = "service.back.slow-start";
        let time = written.with([time]);
        import.apply_key(key, Conversion::Seconds, "of all servers", &time);
    }
    write_balance(upstream, import);
    true
}

fn take_parameter(word: &str, keys: &mut Vec<(&'static str, Value)>, notes: &mut Vec<String>) {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let mut number = |key, least: i64, most: i64| {
        let fitting = value.parse::<i64>().unwrap_or(least).clamp(least, most);
        if fitting.to_string() != value {
            notes.push(format!("`{word}` is beyond what the key takes, {least} to {most}"));
        }
        keys.push((key, Value::from(fitting)));
    };
    match name {
        "weight" => number("weight", 1, 256),
        "max_conns" if value != "0" => number("max-connections", 1, 10_000_000),
        "backup" => keys.push(("backup", Value::from(true))),
        "max_conns" | "max_fails" | "fail_timeout" | "resolve" | "service" | "slow_start" => {}
        _ => notes.push(format!("without `{word}`")),
    }
}

/// `max_fails` and `fail_timeout`, which in Lariat are those of the service.
fn write_passive(up: &[&Statement], import: &mut Import) {
    for (name, default, key, conversion) in [
        ("max_fails", "1", "service.back.passive.failures", Conversion::Number),
        ("fail_timeout", "10s", "service.back.passive.ejection-time", Conversion::Seconds),
    ] {
        let said: Vec<_> = up.iter().map(|one| parameter(one, name).unwrap_or(default)).collect();
        let note = if said.iter().any(|one| *one != said[0]) {
            format!("{name} of the first server is that of all")
        } else if name == "fail_timeout" {
            "failures count in a row, whatever the time between them".to_owned()
        } else {
            String::new()
        };
        let one = up[0].with([said[0]]);
        import.apply_key(key, conversion, &note, &one);
    }
}

fn write_balance(upstream: &NginxBlock, import: &mut Import) {
    const KEY: &str = "service.back.balance";
    let by_address = ["$remote_addr", "$binary_remote_addr"];
    for (name, written) in upstream.options.iter() {
        let is_plain = written.words.first().is_some_and(|key| by_address.contains(&key.as_str()));
        let (word, note) = match name {
            "least_conn" => ("least-connections", ""),
            "least_time" => ("least-connections", "times are not measured"),
            "ip_hash" => ("source", "by the whole address; nginx takes 24 bits of IPv4"),
            "hash" if is_plain => ("source", "another server for an address than nginx's hash"),
            "hash" => {
                let why = "variables other than the client's address are not hashed";
                import.lacks(written, why, "`balance = \"source\"`");
                continue;
            }
            "random" if written.words.len() > 1 => ("least-connections", "of all servers"),
            "random" => ("round-robin", "in turn"),
            _ => {
                let why = "connections to servers are not kept for other clients";
                import.lacks(written, why, "none is needed");
                continue;
            }
        };
        import.put(KEY, word, written, note);
    }
}
