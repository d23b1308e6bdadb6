//! The servers of a section, and how the proxy connects to them.

use std::net::IpAddr;
use std::path::Path;

use toml::Value;

use crate::convert::{array, convert};
use crate::draft::DraftTable;
use crate::haproxy::arguments::{self, on};
use crate::haproxy::check;
use crate::haproxy::front::said;
use crate::haproxy::syntax::{HaproxyReading, HaproxySection};
use crate::import::{Import, Importer, inline_table};
use crate::meanings::Conversion;
use crate::source::{Statement, Statements};

const SERVERS: &str = "service.back.servers";

/// Servers of a route.
#[derive(Clone, Debug)]
pub(super) struct HaproxyBack {
    pub(super) table: DraftTable,
    /// Whether the servers speak HTTP/2 in clear text.
    pub(super) is_h2: bool,
}

/// Parsed line of a server.
struct HaproxyServer<'s> {
    written: &'s Statement,
    address: String,
    instances: Option<String>,
    arguments: Statements,
}

/// Reads the servers of a section. `None` if no server is left, which is reported.
pub(super) fn read(
    reading: &HaproxyReading,
    section: &HaproxySection,
    import: &mut Importer<'_>,
) -> Option<HaproxyBack> {
    let options = reading.options(section);
    let servers = servers(reading, options, import);
    let mut back: Option<HaproxyBack> = None;
    let mut list = DraftTable::default();
    let mut checked: Option<&Statements> = None;
    let mut is_tls = false;
    for server in &servers {
        let is_whole = write(reading, options, server, import);
        let table = import.take_service();
        let value = element(server, import);
        let Some(value) = value.filter(|_| is_whole) else { continue };
        let first = back.get_or_insert_with(|| {
            is_tls = table.has("back.tls.mode");
            let proto = server.arguments.value("server proto");
            HaproxyBack { table: table.clone(), is_h2: proto.as_deref() == Some("h2") }
        });
        if said(&first.table) != said(&table) {
            let why = "TLS, PROXY header or source are not those of the first server here";
            import.lacks(server.written, why, "a service of its own");
            continue;
        }
        let has_check = on(&server.arguments, "server check").is_some();
        if let Some(why) = check::unsayable(&server.arguments, has_check, checked) {
            import.lacks(server.written, why, "a service of its own");
            continue;
        }
        list.push("back.servers", value, server.written.place.clone());
        import.joined(server.written, SERVERS, "");
        if has_check && checked.is_none() {
            checked = Some(&server.arguments);
        } else {
            check::report(&server.arguments, checked, import);
        }
    }
    import.service = back.as_ref().map(|back| back.table.clone()).unwrap_or_default();
    check::write(options, checked, is_tls, import);
    import.service.keys.splice(0..0, list.keys);
    let table = import.take_service();
    if let Some(back) = &mut back {
        back.table = table;
    } else {
        let why = "no server is left here, so that its services are left out";
        import.lacks(&section.statement(), why, "see what is not mapped");
    }
    back
}

/// Returns the lines of servers, each with the preceding `default-server` arguments.
fn servers<'s>(
    reading: &HaproxyReading,
    options: &'s Statements,
    import: &mut Import,
) -> Vec<HaproxyServer<'s>> {
    let mut defaults = arguments::defaults(reading, import, "server");
    let mut all = Vec::new();
    for (name, written) in options.iter() {
        let words = written.words.as_slice();
        let (address, instances, rest) = match (name, words) {
            ("default-server", words) => {
                import.joined(written, "arguments of each `server`", "");
                defaults = defaults.and(&arguments::read(import, "server", written, words));
                defaults = defaults.without_repeated(|_| true);
                continue;
            }
            ("server", [_, address, rest @ ..]) => (address, None, rest),
            ("server-template", [_, number, address, rest @ ..]) => {
                let number = number.rsplit('-').next().map(str::to_owned);
                (address, number, rest)
            }
            ("server" | "server-template", _) => {
                import.fault(&written.place, name, "has no address", "write NAME HOST:PORT");
                continue;
            }
            _ => continue,
        };
        if !import.has_room(all.len(), &written.place) {
            break;
        }
        let arguments = defaults.and(&arguments::read(import, "server", written, rest));
        let weight = arguments.value("server weight");
        if arguments.find("server disabled").is_some() || weight.as_deref() == Some("0") {
            let why = "a server without connections is left out";
            let these = arguments.each(&["server disabled", "server weight"]);
            import.lacks(these, why, "`lariat server disable` takes one out");
            import.lacks(written, why, "add it, and `lariat server disable SERVICE/ADDRESS`");
            continue;
        }
        let srv = address.split(':').next().filter(|name| name.starts_with('_'));
        match srv {
            Some(name) => {
                let address = format!("srv:{name}");
                all.push(HaproxyServer { written, address, instances, arguments });
            }
            None => match arguments::of_server(address) {
                Ok(address) => {
                    all.push(HaproxyServer { written, address, instances: None, arguments })
                }
                Err(unfit) => import.unmapped(written, unfit),
            },
        }
    }
    all
}

/// Returns a server as an element of `back.servers`.
fn element(server: &HaproxyServer<'_>, import: &mut Import) -> Option<Value> {
    let mut keys = vec![("address", Value::from(server.address.clone()))];
    let instances = server.instances.as_ref().and_then(|number| number.parse::<i64>().ok());
    keys.extend(instances.map(|number| ("instances", Value::from(number.clamp(1, 64)))));
    for (name, key) in [("server weight", "weight"), ("server maxconn", "max-connections")] {
        let Some(written) = server.arguments.find(name) else { continue };
        // No limit, as in HAProxy.
        if key == "max-connections" && written.value() == "0" {
            import.mapped(written, "no limit, as here");
            continue;
        }
        let path = format!("{SERVERS}.{key}");
        match convert(import.range(&path), Conversion::Number, &written.words) {
            Ok(converted) => {
                import.joined(written, &path, &converted.difference.unwrap_or_default());
                keys.push((key, converted.value));
            }
            Err(unfit) => import.fault(&written.place, &written.option, unfit.why, unfit.remedy),
        }
    }
    if let Some(written) = on(&server.arguments, "server backup") {
        import.joined(written, &format!("{SERVERS}.backup"), "backups are used in turn");
        keys.push(("backup", Value::from(true)));
    }
    match keys.len() {
        1 => Some(Value::from(server.address.clone())),
        _ => Some(inline_table(keys)),
    }
}

/// Writes keys for all servers, from the arguments of one; `false` if no key covers them.
fn write(
    reading: &HaproxyReading,
    options: &Statements,
    server: &HaproxyServer<'_>,
    import: &mut Importer<'_>,
) -> bool {
    let arguments = &server.arguments;
    arguments::write_keys(arguments, import);
    write_header(arguments, import);
    write_source(options, arguments, import);
    let note = "clients that speak HTTP/2 get to such a server alone";
    import.joined(arguments.find("server proto"), "service.front.tls.alpn", note);
    let Some(ssl) = on(arguments, "server ssl") else { return true };
    import.put("service.back.tls.mode", "on", ssl, "");
    let is_whole = write_verification(reading, arguments, ssl, import);
    arguments::write_tls(arguments, import, "server");
    match arguments.find("server alpn") {
        Some(alpn) => import.apply_key("service.back.tls.alpn", Conversion::Words, "", alpn),
        None => {
            let remark = "without `alpn`, HAProxy offers servers no protocol";
            import.service.set_default("back.tls.alpn", array::<Value>([]), remark);
        }
    }
    if let Some(crt) = arguments.find("server crt") {
        let path = reading.path("global crt-base", &crt.value());
        import.look_for_path(&path, crt);
        import.put("service.back.tls.certificate", path, crt, "");
    }
    if let Some(reuse) = arguments.find("server no-ssl-reuse") {
        let is_on = reuse.option == "ssl-reuse";
        import.put("service.back.tls.resumption", is_on, reuse, "");
    }
    is_whole
}

fn write_verification(
    reading: &HaproxyReading,
    arguments: &Statements,
    ssl: &Statement,
    import: &mut Importer<'_>,
) -> bool {
    let verify =
        arguments.find("server verify").or_else(|| reading.global.find("global ssl-server-verify"));
    let is_off = verify.is_some_and(|one| one.value() == "none");
    if let Some(verify) = verify {
        let key = "service.back.tls.verify";
        if is_off {
            import.put(key, "off", verify, "");
            import.remark("back.tls.verify", "anyone on the way can pose as this server");
        } else {
            import.joined(verify, key, "");
        }
    }
    for (name, key) in [("server ca-file", "ca"), ("server crl-file", "crl")] {
        let Some(written) = arguments.find(name) else { continue };
        let path = reading.path("global ca-base", &written.value());
        if path == "@system-ca" || is_off {
            import.mapped(written, if is_off { "nothing is verified" } else { "as here" });
        } else if import.files.list(Path::new(&path)).is_ok_and(|files| !files.is_empty()) {
            import.lacks(written, "directories of authorities are not read", "join its files");
            return false;
        } else {
            import.look_for_path(&path, written);
            import.add(&format!("service.back.tls.{key}"), path, written, "");
        }
    }
    let names = ["server verifyhost", "server sni"].map(|name| on(arguments, name));
    let key = "service.back.tls.name";
    match names {
        [None, None] if !is_off => {
            let note = "a server's certificate must have the name in its address as well";
            import.joined(ssl, "service.back.tls", note);
        }
        [None, None] => {}
        [host, Some(sni)] => {
            let text = sni.value();
            let fixed = text.strip_prefix("str(").and_then(|rest| rest.strip_suffix(')'));
            if let Some(host) = host {
                let note = "one name is sent and verified";
                import.put(
                    key,
                    host.value(),
                    host,
                    if fixed == Some(host.value().as_str()) { "" } else { note },
                );
                import.joined(sni, key, note);
            } else if let Some(name) = fixed {
                import.put(key, name.trim_matches(['\'', '"']), sni, "");
            } else if ["ssl_fc_sni", "req.ssl_sni", "req_ssl_sni"].contains(&text.as_str()) {
                import.put(key, "client", sni, "");
            } else {
                import.lacks(sni, "Lariat does not read HTTP", "`back.tls.name`");
                return is_off;
            }
        }
        [Some(host), None] => import.put(key, host.value(), host, "it is sent as SNI too"),
    }
    true
}

/// Writes the PROXY header.
fn write_header(arguments: &Statements, import: &mut Import) {
    let kinds = [
        "server send-proxy",
        "server send-proxy-v2",
        "server send-proxy-v2-ssl",
        "server send-proxy-v2-ssl-cn",
    ];
    let sent = kinds.iter().filter_map(|kind| on(arguments, kind)).next_back();
    import.joined(arguments.each(&kinds), "service.back.send-proxy", "");
    let more = arguments.find("server proxy-v2-options");
    let Some(sent) = sent else {
        import.mapped(more, "without effect: no header is sent");
        return;
    };
    let key = |name: &str| format!("service.back.send-proxy.{name}");
    let version = if sent.option == "send-proxy" { "v1" } else { "v2" };
    import.put(&key("version"), version, sent, "");
    if version == "v1" {
        return;
    }
    let value = more.map(Statement::value).unwrap_or_default();
    let has = |name: &str| value.split(',').any(|one| one == name);
    let tls = ["ssl", "cert-cn", "ssl-cipher", "cert-sig", "cert-key"].into_iter().any(has)
        || sent.option.contains("-ssl");
    let of = more.unwrap_or(sent);
    for (name, is_on) in [("alpn", false), ("authority", has("authority")), ("tls", tls)] {
        import.put(&key(name), is_on, if name == "tls" { sent } else { of }, "");
    }
    for name in ["crc32c", "unique-id"] {
        if has(name) {
            import.put(&key(name), true, of, "");
        }
    }
}

/// Writes the source address of connections to servers.
fn write_source(options: &Statements, arguments: &Statements, import: &mut Import) {
    let key = "service.back.source";
    let own = arguments.find("server source");
    let Some(written) = own.or_else(|| options.find("source")) else { return };
    let usesrc = match arguments.find("server usesrc") {
        Some(argument) => Some(argument.value()),
        None => written.words.iter().skip_while(|word| *word != "usesrc").nth(1).cloned(),
    };
    import.joined(arguments.find("server usesrc"), key, "");
    match usesrc.as_deref() {
        Some("clientip" | "client") => return import.put(key, "client", written, ""),
        Some(_) => {
            let remedy = "`back.source = \"client\"`";
            return import.lacks(written, "Lariat does not read HTTP", remedy);
        }
        None => {}
    }
    let text = written.words.first().map_or("", String::as_str);
    let host = if text.parse::<IpAddr>().is_ok() {
        text
    } else {
        text.rsplit_once(':').map_or(text, |(host, _)| host)
    };
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(host) if host.is_unspecified() => import.mapped(written, "as here"),
        Ok(host) => import.put(key, host.to_string(), written, ""),
        Err(_) if host == "*" || host.is_empty() => import.mapped(written, "as here"),
        Err(_) => import.lacks(written, "is no address", "write an address of this host"),
    }
}
