//! Arguments of `bind` and `server` lines, and of lines in a `crt-list`: addresses, those by
//! themselves, and versions, suites and groups of TLS.

use std::net::IpAddr;

use crate::convert::{UnusableValue, address, is_among};
use crate::haproxy::syntax::{HaproxyReading, find};
use crate::import::Import;
use crate::meanings::{Conversion, OptionSupport};
use crate::source::{Statement, Statements};
use crate::tls_policy::{SpokenVersions, VersionBound, WrittenSuites};

/// Arguments without a value; all others have one.
const BARE: &str = "\
    accept-proxy agent-check allow-0rtt backup check check-send-proxy check-ssl \
    check-via-socks4 defer-accept disabled enabled force-sslv3 force-tlsv10 force-tlsv11 \
    force-tlsv12 force-tlsv13 generate-certificates no-agent-check no-backup no-ca-names \
    no-check no-check-send-proxy no-check-ssl no-send-proxy no-send-proxy-v2 \
    no-send-proxy-v2-ssl no-send-proxy-v2-ssl-cn no-ssl no-ssl-reuse no-sslv3 no-tfo \
    no-tls-tickets no-tlsv10 no-tlsv11 no-tlsv12 no-tlsv13 no-verifyhost non-stick \
    prefer-client-ciphers quic-force-retry send-proxy send-proxy-v2 send-proxy-v2-ssl \
    send-proxy-v2-ssl-cn ssl ssl-reuse stick strict-sni tfo tls-tickets transparent v4v6 v6only";

/// Reads arguments; those that need no other are reported.
pub(super) fn read(
    import: &mut Import,
    scope: &str,
    written: &Statement,
    words: &[String],
) -> Statements {
    let mut arguments = Statements::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let of = |option: String, words| Statement { place: written.place.clone(), option, words };
        let Some(meaning) = find(&format!("{scope} {word}")) else {
            let option = format!("{scope} {word}");
            import.note_unknown(&of(option, Vec::new()));
            continue;
        };
        let values = if is_among(BARE, word) {
            Vec::new()
        } else {
            words.next().into_iter().cloned().collect()
        };
        let argument = of(word.clone(), values);
        if argument.words.is_empty() && !is_among(BARE, word) {
            import.fault(&written.place, word, "has no value", "see section 5 of HAProxy's manual");
            continue;
        }
        if meaning.is_written() {
            import.expect(&argument);
            let is_contrary = word.starts_with("no-") && !word.starts_with("no-tlsv");
            if !meaning.option.ends_with(&argument.option) && is_contrary {
                import.mapped(&argument, "turned off");
            }
            arguments.push(meaning.option, argument);
        } else {
            import.apply(meaning, &argument);
        }
    }
    arguments
}

/// An argument, unless its contrary follows it.
pub(super) fn on<'a>(arguments: &'a Statements, name: &str) -> Option<&'a Statement> {
    arguments.find(name).filter(|one| !one.option.starts_with("no-"))
}

/// Writes the arguments that a key says by itself.
pub(super) fn write_keys(arguments: &Statements, import: &mut Import) {
    for (name, written) in arguments.iter() {
        if let Some(meaning) = find(name)
            && matches!(meaning.support, OptionSupport::Key { .. })
        {
            import.apply(meaning, written);
        }
    }
}

/// The arguments that `global` gives to all lines of a scope, `bind` or `server`.
pub(super) fn defaults(reading: &HaproxyReading, import: &mut Import, scope: &str) -> Statements {
    let mut all = Statements::default();
    let global =
        |word: &str| reading.global.all(&format!("global ssl-default-{scope}-{word}")).last();
    let named = |word: &str| find(&format!("{scope} {word}")).map(|one| one.option);
    let words = ["ciphers", "ciphersuites", "curves"];
    let words = words.into_iter().filter_map(|word| Some((named(word)?, word)));
    for (name, word) in words {
        if let Some(written) = global(word) {
            all.push(name, written.clone());
        }
    }
    match global("options") {
        Some(written) => {
            import.joined(written, &format!("arguments of each `{scope}`"), "");
            all.and(&read(import, scope, written, &written.words))
        }
        None => all,
    }
}

/// Writes them into `front.tls` or `back.tls`.
pub(super) fn write_tls(arguments: &Statements, import: &mut Import, scope: &str) {
    let side = if scope == "bind" { "front.tls" } else { "back.tls" };
    let of = |name: &str| format!("{scope} {name}");
    let mut spoken = SpokenVersions::all();
    let bounds = ["ssl-min-ver", "ssl-max-ver", "force-tlsv12", "no-tlsv12"].map(of);
    for (_, written) in arguments.iter().filter(|(name, _)| bounds.iter().any(|one| one == name)) {
        let option = written.option.as_str();
        let (kind, version) = match option.split_once("-tlsv1") {
            Some((kind, minor)) => (kind, format!("tlsv1.{minor}")),
            None if option == "force-sslv3" => ("force", "sslv3".to_owned()),
            None => (option, written.value()),
        };
        let bound = match kind {
            "ssl-min-ver" => VersionBound::Least,
            "ssl-max-ver" => VersionBound::Most,
            "no" => VersionBound::Not,
            _ => VersionBound::Only,
        };
        spoken.bound(import, written, (bound, &version), side);
    }
    spoken.write(import, side);
    let key = format!("service.{side}.groups");
    import.apply_key(&key, Conversion::Groups, "", arguments.find(&of("curves")));
    let [tls12, tls13] = ["ciphers", "ciphersuites"].map(|name| arguments.find(&of(name)).cloned());
    WrittenSuites { tls12, tls13 }.write(import, side);
}

/// The most ports of a range that are listened at.
const PORTS_MAX: u16 = 64;

/// The most addresses of a line.
const ADDRESSES_MAX: usize = 1024;

/// The addresses of a `bind` line.
pub(super) fn of_bind(text: &str) -> Result<Vec<String>, UnusableValue> {
    text.split(',').map(of_listener).try_fold(Vec::new(), |mut all, one| {
        all.extend(one?);
        if all.len() > ADDRESSES_MAX {
            return Err(UnusableValue::new("too many addresses", "write several lines"));
        }
        Ok(all)
    })
}

fn of_listener(text: &str) -> Result<Vec<String>, UnusableValue> {
    if let Some(unix) = unix(text)? {
        return Ok(vec![unix]);
    }
    let (family, text) = family(text);
    let Some((host, ports)) = text.rsplit_once(':') else {
        return Err(UnusableValue::new(format!("`{text}` has no port"), "write HOST:PORT"));
    };
    let host = match host.trim_start_matches('[').trim_end_matches(']') {
        "" | "*" | "0.0.0.0" if family == "ipv6" => "::",
        "" | "*" => "0.0.0.0",
        host => host,
    };
    if host.parse::<IpAddr>().is_err() {
        return Err(UnusableValue::new(
            "names of hosts are not listened at",
            "write its IP address",
        ));
    }
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) else {
        return Err(UnusableValue::new(format!("`{ports}` is no port"), "write a number"));
    };
    if last < first || last - first >= PORTS_MAX {
        return Err(UnusableValue::new(
            format!("`{ports}` are too many ports"),
            "redirect them by nftables",
        ));
    }
    Ok((first..=last).map(|port| address(host, &port.to_string())).collect())
}

/// The address of a server; one without a port has that of the client's connection.
pub(super) fn of_server(text: &str) -> Result<String, UnusableValue> {
    if let Some(unix) = unix(text)? {
        return Ok(unix);
    }
    let (_, text) = family(text);
    // The last part of an IPv6 address without brackets is its port, as HAProxy has it.
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(UnusableValue::new(format!("`{text}` has no port"), "write HOST:PORT"));
    };
    let is_own = ["", "*", "0.0.0.0", "::", "[::]"].contains(&host);
    match port.parse::<u16>() {
        Ok(_) if port.starts_with('+') => {
            let why = "a port relative to the client's is not taken over";
            Err(UnusableValue::new(why, "a service for each port"))
        }
        Ok(0) | Err(_) => {
            let why = format!("`{port}` is no port: the client's own is not taken over");
            Err(UnusableValue::new(why, "a service for each port"))
        }
        Ok(_) if is_own => Err(UnusableValue::new(
            "the client's destination is not taken over",
            "write its address",
        )),
        Ok(port) => Ok(address(host, &port.to_string())),
    }
}

/// The address of a socket that is not of IP.
fn unix(text: &str) -> Result<Option<String>, UnusableValue> {
    if text.starts_with('/') {
        return Ok(Some(format!("unix:{text}")));
    }
    match text.split_once('@') {
        Some(("unix", path)) => Ok(Some(format!("unix:{path}"))),
        Some(("abns", name)) => Ok(Some(format!("unix:@{name}"))),
        Some((kind, _)) if kind.starts_with("quic") || kind.starts_with("udp") => {
            Err(UnusableValue::new("QUIC and UDP are not spoken", "take the address out"))
        }
        Some(("fd", _)) => {
            let remedy = "`fd:NAME`, with FileDescriptorName=NAME of the socket's unit";
            Err(UnusableValue::new("descriptors have no numbers", remedy))
        }
        Some(("sockpair", _)) => {
            Err(UnusableValue::new("socket pairs are not used", "take it out"))
        }
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
