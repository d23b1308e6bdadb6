//! Hitch's options for a frontend, or for all of them, as keys of a service.

use toml::Value;

use crate::convert::{address, array, is_among, split_endpoint, switch};
use crate::draft::{DraftTable, DraftValue};
use crate::import::Import;
use crate::meaning::Conversion;
use crate::meanings;
use crate::predecessor::Predecessor;
use crate::source::Statement;
use crate::statements::Statements;
use crate::tls_policy::{ORDER, WrittenSuites};

/// Options of which several make a key: they are reported with it.
const TAKEN_TOGETHER: &str = "\
    backend ciphers ciphersuites client client-verify client-verify-ca ecdh-curve host \
    pem-dir pem-dir-glob port proxy-authority proxy-client-cert proxy-proxy proxy-tlv ssl \
    tls tls-protos write-proxy write-proxy-v1 write-proxy-v2";

/// Kinds of what a server gets first, of which hitch takes one.
const HEADERS: [&str; 5] =
    ["write-ip", "write-proxy", "write-proxy-v1", "write-proxy-v2", "proxy-proxy"];

/// The keys of a service, but for its name and address.
pub(super) fn table(
    options: &Statements,
    import: &mut Import,
    certificates: Vec<DraftValue>,
) -> DraftTable {
    let mut table = DraftTable::default();
    for (name, written) in options.iter() {
        take(name, written, import, &mut table);
    }
    write_backend(options, import, &mut table);
    write_header(options, import, &mut table);
    write_tls(options, import, &mut table);
    if options.is_on("client") {
        write_client(options, import, &mut table, certificates.first());
    } else {
        for certificate in certificates {
            table.push("front.tls.certificates", certificate.value, certificate.origin);
        }
        write_verification(options, import, &mut table);
    }
    table
}

/// Does what one option alone says.
fn take(name: &str, written: &Statement, import: &mut Import, table: &mut DraftTable) {
    let is_on = switch(&written.value()) == Some(true);
    let is_off = switch(&written.value()) == Some(false);
    match name {
        "syslog" | "shared-cache-if" | "shared-cache-listen" | "shared-cache-peer" => {}
        _ if is_among(TAKEN_TOGETHER, name) && !is_off => {}
        "prefer-server-ciphers" if is_on => import.mapped(written, "the server's order, as here"),
        "prefer-server-ciphers" => import.joined(written, "", ORDER),
        "proxy-tlv" | "proxy-authority" => {}
        "backend-refresh" if written.value() == "0" => {
            let note = "names are looked up every 10 seconds; hitch does so once";
            import.joined(written, "service.back.resolve", note);
        }
        "backend-refresh" => {
            let key = "service.back.resolve";
            import.apply_key(key, Conversion::Seconds, "", written, table);
        }
        _ => {
            let meaning = meanings::find(Predecessor::Hitch, name);
            let is_joined = meaning.is_some_and(|meaning| import.apply(meaning, written, table));
            match meaning {
                Some(_) if is_joined && is_off => import.mapped(written, "`off`, as here"),
                Some(meaning) if is_joined => import.apply_joined(meaning, written),
                _ => {}
            }
        }
    }
}

fn write_backend(options: &Statements, import: &mut Import, table: &mut DraftTable) {
    let Some(written) = options.find("backend") else {
        return table.push("back.servers", "127.0.0.1:8000", None);
    };
    let value = written.value();
    let (host, port) = split_endpoint(&value);
    let server = match host.as_str() {
        _ if value.starts_with('/') => format!("unix:{value}"),
        "" | "*" => address("127.0.0.1", &port),
        host => address(host, &port),
    };
    import.add(table, "service.back.servers", server, written, "");
}

fn write_header(options: &Statements, import: &mut Import, table: &mut DraftTable) {
    let on = HEADERS.iter().filter(|name| options.is_on(name));
    let on: Vec<_> = on.filter_map(|name| Some((*name, options.find(name)?))).collect();
    if let [_, (name, second), ..] = on.as_slice() {
        let why = "write-ip, write-proxy-v1, write-proxy-v2 and proxy-proxy exclude each other";
        import.fault(&second.place, name, why, "leave one of them on");
    }
    let version = match on.first() {
        Some(("write-proxy-v1", _)) => "v1",
        Some(("write-proxy" | "write-proxy-v2", _)) => "v2",
        Some(("proxy-proxy", _)) => "pass",
        _ => "",
    };
    if let Some((_, written)) = on.first().filter(|_| !version.is_empty()) {
        let difference = if version == "pass" {
            let everyone = array(["0.0.0.0/0", "::/0"]);
            table.set("front.accept-proxy", everyone, written.place.clone());
            table.remark("front.accept-proxy", "Name the networks of your load balancers alone.");
            "every address may send a header, as with hitch: name your load balancers"
        } else {
            ""
        };
        import.put(table, "service.back.send-proxy.version", version, written, difference);
    }
    for name in ["proxy-tlv", "proxy-authority", "proxy-client-cert"] {
        let Some(written) = options.find(name) else {
            continue;
        };
        let is_on = switch(&written.value()) != Some(false);
        let key = |name: &str| format!("service.back.send-proxy.{name}");
        match name {
            _ if version != "v2" => {
                import.mapped(written, "without effect: no PROXY header of version 2 is sent");
            }
            "proxy-client-cert" if is_on => {
                import.put(table, &key("client-certificate"), "pem", written, "");
            }
            "proxy-tlv" if !is_on => {
                import.put(table, &key("tls"), false, written, "");
                import.put(table, &key("authority"), false, written, "");
            }
            "proxy-authority" if !is_on => {
                import.put(table, &key("authority"), false, written, "");
            }
            _ => import.mapped(written, "as here"),
        }
    }
}

/// Versions, groups and suites, of clients or of servers.
fn write_tls(options: &Statements, import: &mut Import, table: &mut DraftTable) {
    let side = if options.is_on("client") { "back.tls" } else { "front.tls" };
    let of_all = ["ssl", "tls"].into_iter().filter(|name| options.is_on(name));
    let all = of_all.filter_map(|name| options.find(name)).next().map(|written| {
        let words = ["TLSv1.0", "TLSv1.1", "TLSv1.2", "TLSv1.3"].map(str::to_owned);
        Statement { words: words.into(), ..written.clone() }
    });
    if let Some(versions) = options.find("tls-protos").or(all.as_ref()) {
        let key = format!("service.{side}.versions");
        import.apply_key(&key, Conversion::Versions, "", versions, table);
    }
    if let Some(groups) = options.find("ecdh-curve") {
        if groups.value() == "auto" {
            import.mapped(groups, "`auto`, as here");
        } else {
            let key = format!("service.{side}.groups");
            import.apply_key(&key, Conversion::Groups, "", groups, table);
        }
    }
    let [tls12, tls13] = ["ciphers", "ciphersuites"].map(|name| options.find(name).cloned());
    WrittenSuites { tls12, tls13 }.write(import, table, side);
}

fn write_verification(options: &Statements, import: &mut Import, table: &mut DraftTable) {
    let key = |name: &str| format!("service.front.tls.client-certificates.{name}");
    let ca = options.find("client-verify-ca");
    let verify = options.find("client-verify");
    let mode = match (verify.map(Statement::value).as_deref(), verify) {
        (Some("require" | "required"), Some(_)) => "required",
        (Some("optional"), Some(_)) => "optional",
        (Some(other), Some(verify)) if other != "none" => {
            let why = format!("`{other}` is no mode");
            let remedy = "write required, optional or none";
            return import.fault(&verify.place, "client-verify", why, remedy);
        }
        _ => {
            for written in verify.into_iter().chain(ca) {
                import.mapped(written, "clients are asked for no certificate, as here");
            }
            return;
        }
    };
    match (verify, ca) {
        (Some(verify), Some(ca)) => {
            import.put(table, &key("mode"), mode, verify, "");
            import.apply_key(&key("ca"), Conversion::Paths, "", ca, table);
        }
        (Some(verify), None) => {
            let why = "client-verify is on without client-verify-ca";
            let remedy = "name the file of the authorities";
            import.fault(&verify.place, "client-verify", why, remedy);
        }
        (None, _) => {}
    }
}

/// `client = on`: plaintext in front, TLS behind, which hitch does not verify.
fn write_client(
    options: &Statements,
    import: &mut Import,
    table: &mut DraftTable,
    certificate: Option<&DraftValue>,
) {
    let Some(written) = options.find("client") else {
        return;
    };
    // Clients of plaintext negotiate no protocol.
    table.take("front.tls.alpn");
    table.take("front.tls.unknown-name");
    table.set("front.tls.mode", "off", written.place.clone());
    let difference = "front.tls = \"off\", and servers are not verified, as by hitch: name `ca`";
    import.put(table, "service.back.tls.verify", "off", written, difference);
    let remark = "hitch verifies no server. Take this out, and name the authorities in `ca`.";
    table.remark("back.tls.verify", remark);
    let Some(DraftValue { value, origin }) = certificate else {
        return;
    };
    let part = |name: &str| value.as_table().and_then(|table| table.get(name)).cloned();
    let chain: Value = part("chain").unwrap_or_else(|| value.clone());
    table.set("back.tls.certificate", chain, origin.clone());
    if let Some(key) = part("key") {
        table.set("back.tls.key", key, origin.clone());
    }
}
