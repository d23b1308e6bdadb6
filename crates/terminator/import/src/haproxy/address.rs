//! Addresses of `bind` and `server`, as HAProxy writes them.

use std::net::IpAddr;

use crate::convert::{Unfit, address};

/// The most ports of a range that are listened at.
const PORTS_MAX: u16 = 64;

/// The most addresses of a line.
const ADDRESSES_MAX: usize = 1024;

/// The addresses of a `bind` line.
pub(super) fn of_bind(text: &str) -> Result<Vec<String>, Unfit> {
    text.split(',').map(of_listener).try_fold(Vec::new(), |mut all, one| {
        all.extend(one?);
        if all.len() > ADDRESSES_MAX {
            return Err(Unfit::new("too many addresses", "write several lines"));
        }
        Ok(all)
    })
}

fn of_listener(text: &str) -> Result<Vec<String>, Unfit> {
    if let Some(unix) = unix(text)? {
        return Ok(vec![unix]);
    }
    let (family, text) = family(text);
    let Some((host, ports)) = text.rsplit_once(':') else {
        return Err(Unfit::new(format!("`{text}` has no port"), "write HOST:PORT"));
    };
    let host = match host.trim_start_matches('[').trim_end_matches(']') {
        "" | "*" | "0.0.0.0" if family == "ipv6" => "::",
        "" | "*" => "0.0.0.0",
        host => host,
    };
    if host.parse::<IpAddr>().is_err() {
        return Err(Unfit::new("names of hosts are not listened at", "write its IP address"));
    }
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) else {
        return Err(Unfit::new(format!("`{ports}` is no port"), "write a number"));
    };
    if last < first || last - first >= PORTS_MAX {
        return Err(Unfit::new(
            format!("`{ports}` are too many ports"),
            "redirect them by nftables",
        ));
    }
    Ok((first..=last).map(|port| address(host, &port.to_string())).collect())
}

/// The address of a server; one without a port has that of the client's connection.
pub(super) fn of_server(text: &str) -> Result<String, Unfit> {
    if let Some(unix) = unix(text)? {
        return Ok(unix);
    }
    let (_, text) = family(text);
    // The last part of an IPv6 address without brackets is its port, as HAProxy has it.
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(Unfit::new(format!("`{text}` has no port"), "write HOST:PORT"));
    };
    let is_own = ["", "*", "0.0.0.0", "::", "[::]"].contains(&host);
    match port.parse::<u16>() {
        Ok(_) if port.starts_with('+') => {
            let why = "a port relative to the client's is not taken over";
            Err(Unfit::new(why, "a service for each port"))
        }
        Ok(0) | Err(_) => {
            let why = format!("`{port}` is no port: the client's own is not taken over");
            Err(Unfit::new(why, "a service for each port"))
        }
        Ok(_) if is_own => {
            Err(Unfit::new("the client's destination is not taken over", "write its address"))
        }
        Ok(port) => Ok(address(host, &port.to_string())),
    }
}

/// The address of a socket that is not of IP.
fn unix(text: &str) -> Result<Option<String>, Unfit> {
    if text.starts_with('/') {
        return Ok(Some(format!("unix:{text}")));
    }
    match text.split_once('@') {
        Some(("unix", path)) => Ok(Some(format!("unix:{path}"))),
        Some(("abns", name)) => Ok(Some(format!("unix:@{name}"))),
        Some((kind, _)) if kind.starts_with("quic") || kind.starts_with("udp") => {
            Err(Unfit::new("QUIC and UDP are not spoken", "take the address out"))
        }
        Some(("fd", _)) => {
            let remedy = "`fd:NAME`, with FileDescriptorName=NAME of the socket's unit";
            Err(Unfit::new("descriptors have no numbers", remedy))
        }
        Some(("sockpair", _)) => Err(Unfit::new("socket pairs are not used", "take it out")),
        _ => Ok(None),
    }
}

/// The family that a prefix names, and the rest.
fn family(text: &str) -> (&str, &str) {
    match text.split_once('@') {
        Some((family @ ("ipv4" | "ipv6" | "tcp4" | "tcp6"), rest)) => {
            (if family.ends_with('6') { "ipv6" } else { "ipv4" }, rest)
        }
        Some(("tcp", rest)) => ("", rest),
        _ => ("", text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_binds() {
        for (text, ours) in [
            ("*:443", "0.0.0.0:443"),
            (":443", "0.0.0.0:443"),
            (":::443", "[::]:443"),
            ("[::1]:443", "[::1]:443"),
            ("ipv6@:443", "[::]:443"),
            ("unix@/run/a", "unix:/run/a"),
            ("10.0.0.1:443-444", "10.0.0.1:443 10.0.0.1:444"),
            ("10.0.0.1:443,:444", "10.0.0.1:443 0.0.0.0:444"),
        ] {
            assert_eq!(of_bind(text).unwrap().join(" "), ours, "{text}");
        }
        for text in ["443", "host:443", ":1-9999", ":9-1", "quic4@:443", "fd@3", ":x", ""] {
            assert!(of_bind(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_of_servers() {
        for (text, ours) in [
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("app.internal:80", "app.internal:80"),
            ("[::1]:80", "[::1]:80"),
            ("abns@x", "unix:@x"),
        ] {
            assert_eq!(of_server(text).unwrap(), ours, "{text}");
        }
        for text in ["10.0.0.1", "app", "10.0.0.1:+8000", ":80", "0.0.0.0:80", "0.0.0.0:0"] {
            assert!(of_server(text).is_err(), "{text}");
        }
    }
}
