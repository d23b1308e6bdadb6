//! The name of this host towards mail servers: a fully qualified name, or an address literal (RFC
//! 5321 section 4.1.1.1).
//!
//! Asks no DNS: its answer may take seconds, and what a host does not know of itself is seldom
//! there.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use crate::process;

const HOSTS: &str = "/etc/hosts";

/// The host's name where it is fully qualified, or `/etc/hosts` knows it so; else the address that
/// it has towards the internet, as a literal.
pub fn own_name() -> String {
    let hosts = fs::read(HOSTS).unwrap_or_default();
    qualified(&process::host_name(), &String::from_utf8_lossy(&hosts)).unwrap_or_else(|| {
        match own_address() {
            IpAddr::V4(address) => format!("[{address}]"),
            IpAddr::V6(address) => format!("[IPv6:{address}]"),
        }
    })
}

/// The fully qualified form of a host's name.
fn qualified(name: &str, hosts: &str) -> Option<String> {
    let lines = hosts
        .lines()
        .map(|line| line.split('#').next().unwrap_or(line));
    let rows = lines.map(|line| line.split_whitespace().skip(1));
    let of_host = rows.filter(|row| row.clone().any(|one| one == name));
    let is_qualified = |one: &&str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        let mut labels = one.split('.');
        one.len() < 254
            && one.bytes().all(allowed)
            && labels.clone().count() > 1
            && labels.clone().all(|label| !label.is_empty())
            && labels.next() != Some("localhost")
    };
    let mut all = std::iter::once(name).chain(of_host.flatten());
    all.find(is_qualified).map(str::to_owned)
}

/// The address that packets to the internet have; none is sent.
fn own_address() -> IpAddr {
    // Addresses of documentation (RFC 5737, RFC 3849): the route is that of all without their own.
    let routes = [
        ("0.0.0.0:0", "192.0.2.1:25"),
        ("[::]:0", "[2001:db8::1]:25"),
    ];
    let mut sources = routes.into_iter().filter_map(|(from, to)| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    });
    sources.next().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_qualified_by_itself_or_by_the_host_s_table() {
        let hosts = "127.0.0.1 localhost.localdomain localhost\n\
                     127.0.1.1\tmx.example.org mx # mail\n192.0.2.7 other.example";
        for (name, qualified_name) in [
            ("a.example", Some("a.example")),
            ("mx", Some("mx.example.org")),
            ("other", None),
            ("localhost", None),
            ("vm", None),
            ("a_b.example", None),
            ("a..example", None),
            ("", None),
        ] {
            assert_eq!(qualified(name, hosts).as_deref(), qualified_name, "{name}");
        }
        let own = own_name();
        assert!(own.contains('.') || own.starts_with("[IPv6:"), "{own}");
    }
}
