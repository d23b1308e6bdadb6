//! `ssl_*` and `proxy_ssl_*`: TLS with clients and with servers.

use toml::Value;

use crate::convert::{array, size};
use crate::import::{Import, Importer, inline_table};
use crate::meanings::Conversion;
use crate::nginx::servers::NginxTarget;
use crate::source::{Statement, Statements};
use crate::tls_policy::{ORDER, SpokenVersions, WrittenSuites, is_of_verification};

const CERTIFICATES: &str = "service.front.tls.certificates";

/// Writes TLS of clients. Returns whether Lariat refuses everyone whom nginx refuses, and there is
/// a certificate.
pub(super) fn write_front(options: &Statements, import: &mut Importer<'_>, is_http: bool) -> bool {
    let has_policy = write_policy(options, import, ("front.tls", "ssl"));
    import.joined(options.find("ssl_prefer_server_ciphers"), "service.front.tls.suites", ORDER);
    if let Some(written) = options.find("ssl_alpn") {
        import.apply_key("service.front.tls.alpn", Conversion::Words, "", written);
    } else if is_http {
        let path = "front.tls.alpn";
        let remark = "nginx negotiates HTTP/1.1 with all clients that offer a protocol.";
        import.service.set_default(path, array(["http/1.1", "http/1.0"]), remark);
    }
    import.joined(options.find("ssl"), "service.front.tls", "");
    write_sessions(options, import);
    let has_certificate = write_certificates(options, import);
    write_clients(options, import) && has_certificate && has_policy
}

/// Reports TLS options where TLS is not used.
pub(super) fn report_unused(options: &Statements, import: &mut Import, begin: &str) {
    for (name, written) in options.iter() {
        if name.starts_with(begin) && !["ssl_preread", "ssl_session_timeout"].contains(&name) {
            import.mapped(written, "without effect: no TLS here");
        }
    }
}

/// Writes versions, groups and suites, of clients or of servers. Returns whether no command
/// concerns verification of the other side.
fn write_policy(options: &Statements, import: &mut Import, (table, prefix): (&str, &str)) -> bool {
    let named = |name: &str| options.find(&format!("{prefix}_{name}"));
    let key = format!("service.{table}.versions");
    import.apply_key(&key, Conversion::Versions, "", named("protocols"));
    let mut groups = named("ecdh_curve").cloned();
    let mut suites = WrittenSuites { tls12: named("ciphers").cloned(), tls13: None };
    let (mut spoken, mut is_whole) = (SpokenVersions::all(), true);
    for written in options.all(&format!("{prefix}_conf_command")) {
        let name = written.words.first().map_or_else(String::new, |name| name.to_ascii_lowercase());
        let rest = written.with(written.words.iter().skip(1).cloned());
        match name.as_str() {
            "ciphersuites" => suites.tls13 = Some(rest),
            "curves" | "groups" => groups = Some(rest),
            _ if spoken.bound_by_command(import, &rest, &name, table) => {}
            _ => {
                is_whole &= !is_of_verification(&name);
                import.lacks(written, "commands of OpenSSL are not executed", "see `front.tls`");
            }
        }
    }
    spoken.write(import, table);
    if let Some(written) = groups {
        if written.value() == "auto" {
            import.mapped(&written, "`auto`, as here");
        } else {
            let key = format!("service.{table}.groups");
            import.apply_key(&key, Conversion::Groups, "", &written);
        }
    }
    suites.write(import, table);
    is_whole
}

fn write_certificates(options: &Statements, import: &mut Importer<'_>) -> bool {
    let mut keys = options.all("ssl_certificate_key");
    let mut responses = options.all("ssl_stapling_file");
    let mut is_whole = true;
    for written in options.all("ssl_certificate") {
        let key = keys.next();
        let mut parts = vec![("chain", written)];
        parts.extend(key.map(|key| ("key", key)));
        parts.extend(responses.next().map(|response| ("ocsp", response)));
        let is_path = |text: &str| {
            let elsewhere = ["data:", "engine:", "store:"];
            !text.contains('$') && !elsewhere.iter().any(|begin| text.contains(begin))
        };
        if let Some((_, odd)) = parts.iter().find(|(_, one)| !is_path(&one.value())) {
            let why = "certificates and keys are read from files that are known at start";
            import.lacks(*odd, why, "a file, or a folder of them: `front.tls.certificates`");
            is_whole = false;
            continue;
        }
        for (name, part) in &parts {
            import.look_for(*part);
            let path = format!("{CERTIFICATES}.{name}");
            import.joined(*part, if *name == "chain" { CERTIFICATES } else { &path }, "");
        }
        let one_file = key.is_none_or(|key| key.value() == written.value());
        parts.retain(|(name, _)| !(one_file && *name == "key"));
        let value = match parts.as_slice() {
            [(_, alone)] => Value::from(alone.value()),
            _ => inline_table(parts.iter().map(|(name, part)| (*name, Value::from(part.value())))),
        };
        import.service.push("front.tls.certificates", value, written.place.clone());
    }
    import.mapped(keys.chain(responses), "without effect: there is no certificate for it");
    is_whole && import.service.has("front.tls.certificates")
}

/// Writes the verification of clients' certificates.
fn write_clients(options: &Statements, import: &mut Importer<'_>) -> bool {
    const TABLE: &str = "service.front.tls.client-certificates";
    let key = |name: &str| format!("{TABLE}.{name}");
    let named: Vec<_> = ["ssl_client_certificate", "ssl_trusted_certificate"]
        .into_iter()
        .filter_map(|name| options.find(name))
        .collect();
    let crl = options.find("ssl_crl");
    let verify = options.find("ssl_verify_client");
    let responder = options.find("ssl_ocsp");
    let lower = |written: &Statement| written.value().to_ascii_lowercase();
    let mode = match verify.map(|written| (written, lower(written))) {
        Some((_, value)) if value == "on" => "required",
        Some((_, value)) if value == "optional" => "optional",
        Some((written, value)) if value != "off" => {
            let why = "a certificate that does not verify is refused in any case";
            import.lacks(written, why, "`mode = \"optional\"` and `ca`");
            named.iter().copied().chain(crl).for_each(|one| {
                import.lacks(one, "its service is left out", "see ssl_verify_client");
            });
            return false;
        }
        _ => {
            for written in named.into_iter().chain(verify).chain(crl).chain(responder) {
                import.mapped(written, "without effect: clients are asked for no certificate");
            }
            return true;
        }
    };
    let Some(written) = verify.filter(|_| !named.is_empty()) else {
        let place = verify.map(|one| one.place.clone());
        if let Some(place) = place {
            let why = "is on without ssl_client_certificate";
            import.fault(&place, "ssl_verify_client", why, "name the file of the authorities");
        }
        return false;
    };
    let note = "others are refused by TLS itself, before a request is answered; any number of \
                authorities may stand between";
    import.put(&key("mode"), mode, written, note);
    if let Some(written) = responder {
        if written.value() != "off" {
            import.lacks(written, "no OCSP responder is asked about clients", "`ssl_crl`");
            return false;
        }
        import.mapped(written, "`off`, as here");
    }
    for ca in named {
        import.look_for(ca);
        import.apply_key(&key("ca"), Conversion::Paths, "", ca);
    }
    if let Some(crl) = crl {
        import.look_for(crl);
        let note = "authorities above the issuer of the client's own certificate need no list";
        import.apply_key(&key("crl"), Conversion::Paths, note, crl);
    }
    true
}

/// Writes session caches and tickets.
fn write_sessions(options: &Statements, import: &mut Import) {
    let cache = options.find("ssl_session_cache");
    let tickets = options.find("ssl_session_tickets").filter(|one| one.value() == "off");
    let words = cache.map_or(Vec::new(), |cache| cache.words.clone());
    let is_cached = words.iter().any(|one| one.starts_with("shared:") || one.contains("builtin"));
    match tickets {
        Some(written) if is_cached => {
            let why = "clients that take tickets get them";
            import.lacks(written, why, "`resumption.tls13 = \"cache\"`, for TLS 1.3");
        }
        Some(written) => import.put("service.front.tls.resumption", false, written, ""),
        None => {}
    }
    let written = options.find("ssl_session_tickets").filter(|_| tickets.is_none());
    import.mapped(written, "`on`, as here");
    let Some(cache) = cache else { return };
    let key = "resumption.session-cache.entries";
    if !is_cached {
        let note = "sessions of clients without tickets are cached, unless tickets are off too";
        return import.joined(cache, key, note);
    }
    // nginx's manual: a megabyte holds about 4000 sessions.
    let entries = words.iter().filter_map(|word| {
        let amount = word.rsplit_once(':').map(|(_, amount)| amount)?;
        if word.starts_with("builtin") { amount.parse().ok() } else { Some(size(amount)? / 262) }
    });
    match entries.max() {
        Some(entries) => {
            let one = cache.with([entries.to_string()]);
            let note = "one cache for all services and workers";
            import.apply_key(key, Conversion::Number, note, &one);
        }
        None => import.joined(cache, key, "of the size that is usual here"),
    }
}

/// Writes TLS of servers.
pub(super) fn write_back(
    options: &Statements,
    import: &mut Importer<'_>,
    (pass, target): (&Statement, &NginxTarget),
) -> bool {
    let origin = options.find("proxy_ssl").unwrap_or(pass).place.clone();
    import.joined(options.find("proxy_ssl"), "service.back.tls", "");
    let is_verified = options.is_on("proxy_ssl_verify");
    let authorities = options.find("proxy_ssl_trusted_certificate");
    if let Some(written) = options.find("proxy_ssl_verify") {
        let value = if is_verified { "on" } else { "off" };
        import.put("service.back.tls.verify", value, written, "");
        if is_verified && authorities.is_none() {
            let why = "is on without proxy_ssl_trusted_certificate";
            let remedy = "name the file of the authorities";
            import.fault(&written.place, "proxy_ssl_verify", why, remedy);
        }
    } else {
        import.service.set("back.tls.verify", "off", origin);
    }
    if !is_verified {
        let remark = "nginx verifies no server unless proxy_ssl_verify is on. Take this out, and name the \
             authorities in `ca`.";
        import.remark("back.tls.verify", remark);
    }
    write_name(options, import, target, is_verified);
    for (name, written) in [("ca", authorities), ("crl", options.find("proxy_ssl_crl"))].into_iter()
    {
        match written {
            Some(written) if is_verified => {
                import.look_for(written);
                let key = format!("service.back.tls.{name}");
                import.apply_key(&key, Conversion::Paths, "", written);
            }
            Some(written) => import.mapped(written, "without effect: nothing is verified"),
            None => {}
        }
    }
    write_own_certificate(options, import);
    let written = options.find("proxy_ssl_session_reuse");
    import.apply_key("service.back.tls.resumption", Conversion::Switch, "", written);
    match options.find("proxy_ssl_alpn") {
        Some(written) => import.apply_key("service.back.tls.alpn", Conversion::Words, "", written),
        None => {
            let none = Value::Array(Vec::new());
            import.service.set_default("back.tls.alpn", none, "nginx offers servers no protocol.");
        }
    }
    write_policy(options, import, ("back.tls", "proxy_ssl"))
}

/// Writes the certificate that the proxy shows to servers.
fn write_own_certificate(options: &Statements, import: &mut Importer<'_>) {
    for name in ["certificate", "key"] {
        let option =
            if name == "key" { "proxy_ssl_certificate_key" } else { "proxy_ssl_certificate" };
        match options.find(option) {
            Some(written) if written.value().contains(['$', ':']) => {
                import.lacks(written, "certificates are read from files", "name a file");
            }
            Some(written) if name == "key" && !import.service.has("back.tls.certificate") => {
                import.mapped(written, "without effect: there is no certificate");
            }
            Some(written) => {
                import.look_for(written);
                let key = format!("service.back.tls.{name}");
                import.apply_key(&key, Conversion::Path, "", written);
            }
            None => {}
        }
    }
}

/// Writes the name that is sent and compared.
fn write_name(options: &Statements, import: &mut Import, target: &NginxTarget, is_verified: bool) {
    let key = "service.back.tls.name";
    let of_client = ["$ssl_server_name", "$ssl_preread_server_name", "$host", "$http_host"];
    match options.find("proxy_ssl_name") {
        Some(written) if of_client.contains(&written.value().as_str()) => {
            import.put(key, "client", written, "the name that the client asked TLS for");
        }
        Some(written) if written.value().contains('$') && written.value() != "$proxy_host" => {
            import.lacks(written, "Lariat has no variables", "the name itself, or `client`");
        }
        Some(written) if written.value() != "$proxy_host" => {
            import.put(key, written.value(), written, "");
        }
        written => {
            import.joined(written, key, "");
            if let Some(host) = target.host().filter(|_| is_verified) {
                let remark = "nginx compares the name that proxy_pass has.";
                import.service.set_default("back.tls.name", host, remark);
            }
        }
    }
    import.joined(options.find("proxy_ssl_server_name"), key, "a server name is sent in any case");
}
