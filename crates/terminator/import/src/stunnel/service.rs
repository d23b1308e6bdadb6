//! The service that comes of a section of stunnel's file.

use std::net::IpAddr;
use std::path::Path;

use toml::Value;

use crate::convert::{UnusableValue, address, is_among};
use crate::import::{Import, Importer, inline_table};
use crate::meanings::{self, Conversion, Predecessor};
use crate::source::{SourceFiles, Statement, switch};
use crate::stunnel::section::{self, StunnelSection};

/// Options of which several make a key: they are reported with it.
const TAKEN_TOGETHER: &str = "\
    CAfile CApath CRLfile accept cert checkEmail checkHost checkIP ciphers ciphersuites \
    client config connect curves failover key options protocol protocolAuthentication protocolHost \
    protocolPassword protocolUsername requireCert sni \
    sslVersion sslVersionMax sslVersionMin verify verifyChain verifyPeer";

/// Writes the service, unless it does what Lariat cannot.
pub(super) fn write(
    section: &StunnelSection,
    import: &mut Importer<'_>,
    sections: &[StunnelSection],
) {
    import.begin(&section.name, section.place.clone());
    for (name, written) in section.options.iter() {
        take(section, import, (name, written));
    }
    let primary = section.primary(sections);
    let is_whole = [
        write_listen(section, import, primary),
        write_servers(section, import, primary),
        write_protocol(section, import, primary),
        write_certificate(section, import),
        section::write_verification(section, import),
    ];
    section::write_policy(section, import);
    import.defaults(meanings::defaults_of(Predecessor::Stunnel));
    let of = Statement::new(&section.place, "service", vec![format!("[{}]", section.name)]);
    if is_whole == [true; 5] {
        return import.finish(&section.options, &of);
    }
    let unfit = UnusableValue::new(
        "one of its options, whose line says why, cannot be said",
        "keep it in stunnel, or see there",
    );
    import.leave_out(&of, unfit);
}

/// Does what one option alone says.
fn take(section: &StunnelSection, import: &mut Import, (name, written): (&str, &Statement)) {
    let value = written.value();
    match name {
        _ if is_among(TAKEN_TOGETHER, name) => {}
        "debug" => take_debug(import, written),
        "setuid" | "setgid" => {
            let why = "the owner of a Unix socket is not set";
            import.lacks(written, why, "the permissions of its directory limit who may connect");
        }
        "sessionResume" if switch(&value) == Some(true) => import.mapped(written, "as here"),
        "sessionResume" => {
            let key = format!("service.{}.resumption", section.tls());
            import.put(&key, false, written, "");
        }
        "sessionCacheSize" if value == "0" => {
            let remedy = "its size is bounded: resumption.session-cache.entries";
            import.lacks(written, "no cache is unlimited", remedy);
        }
        "sessionCacheSize" => {
            let (key, note) = ("resumption.session-cache.entries", "one cache for all services");
            import.apply_key(key, Conversion::Number, note, written);
        }
        "socket" => take_socket(import, written),
        name => match meanings::find(Predecessor::Stunnel, name) {
            Some(meaning) if import.apply(meaning, written) => {
                import.lacks(written, "this option is global", "write it above all services");
            }
            _ => {}
        },
    }
}

/// `a|l|r:OPTION=VALUE`: a listener, a client's connection, a server's connection.
fn take_socket(import: &mut Import, written: &Statement) {
    let value = written.value();
    let (side, option) = value.split_once(':').unwrap_or(("", &value));
    let (option, setting) = option.split_once('=').unwrap_or((option, ""));
    let of_server = side == "r";
    let keepalive = if of_server { "service.back.keepalive" } else { "service.front.keepalive" };
    match (side, option, setting.parse::<u32>()) {
        (_, "TCP_NODELAY" | "SO_REUSEADDR", _) => import.mapped(written, "in any case"),
        (_, "SO_KEEPALIVE", Ok(0)) => import.put(keepalive, "0s", written, ""),
        (_, "SO_KEEPALIVE", _) => import.mapped(written, "on, after 2 minutes"),
        (_, "TCP_KEEPIDLE", Ok(seconds)) => {
            import.put(keepalive, format!("{seconds}s"), written, "with four probes");
        }
        ("a", "SO_BINDTODEVICE", _) => import.put("service.front.interface", setting, written, ""),
        ("a", "IPV6_V6ONLY", _) => {
            let is_on = switch(setting) != Some(false);
            import.put("service.front.ipv6-only", is_on, written, "");
        }
        _ => {
            let remedy = "`keepalive`, `timeouts.unacknowledged`, or sysctl";
            import.lacks(written, "this option of sockets is not set", remedy);
        }
    }
}

fn write_listen(
    section: &StunnelSection,
    import: &mut Importer<'_>,
    primary: Option<&StunnelSection>,
) -> bool {
    for written in section.options.all("sni").filter(|_| !section.is_client()) {
        let value = written.value();
        let (name, pattern) = value.split_once(':').unwrap_or(("", &value));
        if primary.is_some_and(|primary| primary.name == name) {
            import.add("service.front.names", pattern, written, "");
        } else {
            let why = format!("there is no service `{name}`");
            import.fault(&written.place, "sni", why, "name the section with `accept`");
        }
    }
    let of_primary = || primary.and_then(|one| one.options.find("accept"));
    let Some(written) = section.options.find("accept").or_else(of_primary) else {
        let why = "programs and inetd do not start Lariat for a connection";
        let remedy = "write the address to listen at";
        import.lacks(&section.lacking("accept"), why, remedy);
        return false;
    };
    match accept_address(&written.value(), import.files) {
        Ok(address) => {
            import.add("service.front.listen", address, written, "");
            true
        }
        Err(unfit) => {
            import.unmapped(written, unfit);
            false
        }
    }
}

fn write_servers(
    section: &StunnelSection,
    import: &mut Importer<'_>,
    primary: Option<&StunnelSection>,
) -> bool {
    let options = &section.options;
    let mut all: Vec<_> = options.all("connect").collect();
    if all.is_empty() {
        all.extend(primary.into_iter().flat_map(|one| one.options.all("connect")));
    }
    let in_turn = options.value("failover").as_deref() == Some("rr") && !options.is_on("delay");
    for (number, written) in all.iter().enumerate() {
        let Some(address) = connect_address(&written.value(), import.files) else {
            let why = "has no port that is known";
            import.fault(&written.place, "connect", why, "write HOST:PORT with a number");
            continue;
        };
        let address = Value::from(address);
        let (value, difference) = match number {
            0 => (address, ""),
            _ if in_turn => (address, ""),
            number => (
                inline_table([("address", address), ("backup", Value::from(true))]),
                if number > 1 { "backups are used in turn" } else { "" },
            ),
        };
        import.add("service.back.servers", value, written, difference);
    }
    let written = options.find("failover");
    import.joined(written, if in_turn { "service.back.balance" } else { "backup = true" }, "");
    if all.is_empty() && options.find("exec").is_none() {
        import.lacks(&section.lacking("connect"), "no server is named", "write its address");
    }
    !all.is_empty()
}

fn write_protocol(
    section: &StunnelSection,
    import: &mut Import,
    primary: Option<&StunnelSection>,
) -> bool {
    let host = section.options.find("protocolHost");
    let of_primary = || primary.and_then(|one| one.options.find("protocol"));
    let written = section.options.find("protocol").or_else(of_primary);
    let name = written.map_or_else(String::new, |one| one.value().to_ascii_lowercase());
    let is_tunnel = section.is_client() && name == "connect";
    if let Some(host) = host {
        match name.as_str() {
            "smtp" if section.is_client() => {
                import.put("service.back.ehlo-name", host.value(), host, "");
            }
            _ if is_tunnel => import.put("service.back.tunnel.to", host.value(), host, ""),
            _ => import.mapped(host, "without effect: it is for smtp and connect of clients"),
        }
    }
    let is_login = write_login(section, import, is_tunnel);
    let Some(written) = written else { return true };
    let ours = match name.as_str() {
        "imap" | "ldap" | "nntp" | "pop3" | "smtp" => Some(name.as_str()),
        "pgsql" => Some("postgres"),
        _ => None,
    };
    let (key, word) = match (ours, section.is_client()) {
        (Some(ours), true) => ("service.back.starttls", ours),
        (Some(ours), false) => ("service.front.starttls.protocol", ours),
        _ if is_tunnel && host.is_some() => {
            import.joined(written, "service.back.tunnel", "");
            return is_login;
        }
        (None, false) if name == "proxy" => ("service.back.send-proxy.version", "v1"),
        _ => {
            import.lacks(written, "this negotiation is not spoken", "keep this in stunnel");
            return false;
        }
    };
    import.put(key, word, written, "");
    is_login
}

/// The login to a proxy; `false` = it is of another kind.
fn write_login(section: &StunnelSection, import: &mut Import, is_tunnel: bool) -> bool {
    for (option, key) in [("protocolUsername", "user"), ("protocolPassword", "password")] {
        match section.options.find(option) {
            Some(written) if is_tunnel => {
                let key = format!("service.back.tunnel.{key}");
                import.put(&key, written.value(), written, "");
            }
            Some(written) => import.lacks(written, "Lariat logs in nowhere", "see `back.tunnel`"),
            None => {}
        }
    }
    match section.options.find("protocolAuthentication") {
        Some(written) if is_tunnel && written.value().eq_ignore_ascii_case("basic") => {
            import.joined(written, "service.back.tunnel", "");
        }
        Some(written) => {
            import.lacks(written, "no other login is done", "keep this service in stunnel");
            return !is_tunnel;
        }
        None => {}
    }
    true
}

/// The certificate that it shows: to clients, or to servers. A server needs one.
fn write_certificate(section: &StunnelSection, import: &mut Importer<'_>) -> bool {
    let options = &section.options;
    if let Some(written) = options.find("client") {
        if section.is_client() {
            import.service.set("front.tls.mode", "off", written.place.clone());
            import.service.set("back.tls.mode", "on", written.place.clone());
        }
        import.joined(written, "service.back.tls", "");
    }
    let Some(cert) = options.find("cert") else {
        if !section.is_client() && options.find("PSKsecrets").is_none() {
            let why = "a server without a certificate";
            import.fault(&section.place, &section.name, why, "name it by `cert`");
        }
        return section.is_client();
    };
    let key = options.find("key");
    for written in std::iter::once(cert).chain(key) {
        let value = written.value();
        let lower = value.to_ascii_lowercase();
        if lower.starts_with("pkcs11:") || lower.ends_with(".p12") || lower.ends_with(".pfx") {
            let (why, hint) = if lower.starts_with("pkcs11:") {
                let hint = "`key = \"pkcs11:...?module-path=...\"`, docs/guide/keys.md";
                ("keys in tokens are not imported", hint)
            } else {
                ("PKCS #12 is not read", "openssl pkcs12 -in FILE -nodes -out FILE.pem")
            };
            import.lacks(written, why, hint);
            return false;
        }
        import.look_for_path(&value, written);
    }
    let chain = Value::from(cert.value());
    match (section.is_client(), key) {
        (true, key) => {
            import.put("service.back.tls.certificate", chain, cert, "");
            if let Some(key) = key {
                import.put("service.back.tls.key", key.value(), key, "");
            }
        }
        (false, None) => import.add("service.front.tls.certificates", chain, cert, ""),
        (false, Some(key)) => {
            let both = inline_table([("chain", chain), ("key", Value::from(key.value()))]);
            import.add("service.front.tls.certificates", both, cert, "");
            import.joined(key, "service.front.tls.certificates.key", "");
        }
    }
    true
}

/// Host and port; a lone word is a port.
fn split(text: &str) -> (&str, &str) {
    text.rsplit_once(':').unwrap_or(("", text))
}

/// `accept`: all of IPv4 without a host.
fn accept_address(text: &str, files: &mut dyn SourceFiles) -> Result<String, UnusableValue> {
    if text.starts_with('/') {
        return Ok(format!("unix:{text}"));
    }
    let (host, port) = split(text);
    let Some(port) = port_number(port, files) else {
        return Err(UnusableValue::new(
            format!("`{port}` is no port that is known"),
            "write its number",
        ));
    };
    let host = match host {
        "" => "0.0.0.0",
        "localhost" => "127.0.0.1",
        host => host.trim_start_matches('[').trim_end_matches(']'),
    };
    if host != "*" && host.parse::<IpAddr>().is_err() {
        return Err(UnusableValue::new(
            "names of hosts are not listened at",
            "write its IP address",
        ));
    }
    Ok(address(host, &port.to_string()))
}

/// `connect`: this host without one.
fn connect_address(text: &str, files: &mut dyn SourceFiles) -> Option<String> {
    if text.starts_with('/') {
        return Some(format!("unix:{text}"));
    }
    let (host, port) = split(text);
    let port = port_number(port, files)?;
    Some(address(if host.is_empty() { "localhost" } else { host }, &port.to_string()))
}

/// A number, or a name of /etc/services.
fn port_number(text: &str, files: &mut dyn SourceFiles) -> Option<u16> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let services = files.read(Path::new("/etc/services")).ok()?;
    services.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let (name, port) = (words.next()?, words.next()?.strip_suffix("/tcp")?);
        (name == text || words.any(|alias| alias == text)).then(|| port.parse().ok())?
    })
}

/// `[FACILITY.]LEVEL`; connections have the level notice.
pub(super) fn take_debug(import: &mut Import, written: &Statement) {
    let value = written.value().to_ascii_lowercase();
    let (facility, level) = value.split_once('.').unwrap_or(("", &value));
    let is_quiet =
        ["0", "1", "2", "3", "4", "emerg", "alert", "crit", "err", "warning"].contains(&level);
    if !facility.is_empty() {
        import.put("log.syslog.facility", facility, written, "");
    }
    let connections = if is_quiet { "failed" } else { "all" };
    import.put("log.connections", connections, written, "a line for each connection, when it ends");
}
