//! `listen`: addresses of a server block.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use crate::convert::{Unfit, milliseconds, split_endpoint, switch, time_text};
use crate::draft::DraftTable;
use crate::import::Import;
use crate::meaning::Conversion;
use crate::source::Statement;

/// One address of one server block.
#[derive(Clone, Debug)]
pub(super) struct NginxListen {
    pub(super) written: Statement,
    /// As keys write it, but for `0.0.0.0`, which may be `[::]` with IPv6 beside it.
    pub(super) address: String,
    pub(super) is_default: bool,
    pub(super) traits: SocketTraits,
}

/// Options that hold before a hello tells services apart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct SocketTraits {
    pub(super) has_tls: bool,
    pub(super) takes_proxy: bool,
    pub(super) is_deferred: bool,
    pub(super) keepalive: Option<String>,
    /// Networks that may send a PROXY header; empty = all.
    pub(super) networks: BTreeSet<String>,
}

/// The most ports of a range.
const PORTS_MAX: u16 = 256;

impl NginxListen {
    /// Reads a directive: an address, or one for each port of a range.
    pub(super) fn read(import: &mut Import, written: &Statement, is_http: bool) -> Vec<Self> {
        import.expect(written);
        let Some((first, parameters)) = written.words.split_first() else {
            import.fault(&written.place, "listen", "names no address", "write a port");
            return Vec::new();
        };
        if parameters.iter().any(|one| one == "udp" || one == "quic") {
            import.lacks(written, "UDP and QUIC are not relayed", "keep this in nginx");
            return Vec::new();
        }
        let mut listen = Self {
            written: written.clone(),
            address: String::new(),
            is_default: false,
            traits: SocketTraits::default(),
        };
        for parameter in parameters {
            listen.take(import, parameter);
        }
        match addresses(first, is_http) {
            Ok(addresses) => {
                addresses.into_iter().map(|address| Self { address, ..listen.clone() }).collect()
            }
            Err(unfit) => {
                import.unmapped(written, unfit);
                Vec::new()
            }
        }
    }

    fn take(&mut self, import: &mut Import, parameter: &str) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let words = vec![value.to_owned()];
        let option = "listen".to_owned();
        let one = Statement { option, words, ..self.written.clone() };
        let named = Statement { words: vec![parameter.to_owned()], ..one.clone() };
        let mut unused = DraftTable::default();
        match name {
            "default_server" | "default" => self.is_default = true,
            "ssl" => self.traits.has_tls = true,
            "proxy_protocol" => self.traits.takes_proxy = true,
            "deferred" => self.traits.is_deferred = true,
            "backlog" => {
                let note = "of each listener and worker";
                import.apply_key("workers.backlog", Conversion::Number, note, &one, &mut unused);
            }
            "fastopen" => {
                let note = "of all listeners";
                import.apply_key("workers.fast-open", Conversion::Number, note, &one, &mut unused);
            }
            "so_keepalive" => self.traits.keepalive = keepalive(value),
            // `ipv6only` is looked at with the addresses of all servers.
            "reuseport" | "bind" | "ipv6only" | "multipath" => {}
            "http2" | "spdy" => {
                let why = "a server that speaks HTTP/1.1 alone would get HTTP/2";
                let remedy = "`front.tls.alpn = [\"h2\", \"http/1.1\"]` if the server speaks it";
                import.lacks(&named, why, remedy);
            }
            _ => import.lacks(&named, "this option of sockets is not set", "sysctl"),
        }
    }

    pub(super) fn port(&self) -> &str {
        self.address.rsplit_once(':').map_or("", |(_, port)| port)
    }
}

/// `on|off|[idle]:[interval]:[count]`.
fn keepalive(value: &str) -> Option<String> {
    if let Some(is_on) = switch(value) {
        return Some(if is_on { "2h" } else { "0s" }.to_owned());
    }
    let idle = value.split(':').next().and_then(|idle| milliseconds(idle, 1000))?;
    // The key takes whole seconds, nine hours at most.
    Some(time_text(idle.clamp(1000, 9 * 3_600_000).div_ceil(1000) * 1000))
}

/// The addresses of `listen`, as keys write them.
fn addresses(text: &str, is_http: bool) -> Result<Vec<String>, Unfit> {
    if text.starts_with("unix:") {
        return Ok(vec![text.to_owned()]);
    }
    // A number is a port; any other word without a colon is a host.
    let is_port = text.chars().all(|one| one.is_ascii_digit() || one == '-');
    let is_alone = text.ends_with(']') || !text.contains(':') && !is_port;
    let (host, port) = match split_endpoint(text) {
        _ if is_alone && is_http => (text.trim_matches(['[', ']']).to_owned(), "80".to_owned()),
        (host, port) => (host, port),
    };
    let host = match host.as_str() {
        "" | "*" => "0.0.0.0",
        "localhost" => "127.0.0.1",
        host => host,
    };
    let Ok(host) = host.parse::<IpAddr>() else {
        return Err(Unfit::new("names of hosts are not listened at", "write its IP address"));
    };
    let (first, last) = port.split_once('-').unwrap_or((&port, &port));
    let bounds = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
    match bounds.filter(|(first, last)| first <= last && last - first < PORTS_MAX) {
        Some((first, last)) => {
            Ok((first..=last).map(|port| SocketAddr::from((host, port)).to_string()).collect())
        }
        None => Err(Unfit::new(format!("`{port}` is no port"), "write a number")),
    }
}
