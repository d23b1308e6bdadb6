//! A frontend of hitch, or its top level: options, certificates and the address; and its options as
//! keys of a service.

use std::net::IpAddr;
use std::path::Path;

use toml::Value;

use crate::convert::{address, array, glob_fits, is_among, split_endpoint};
use crate::draft::DraftValue;
use crate::hitch::syntax::{HitchEntry, is_switch};
use crate::import::{Import, Importer, inline_table};
use crate::meanings::{self, Conversion, Predecessor};
use crate::source::{SourceLine, Statement, Statements, switch};
use crate::tls_policy::{ORDER, WrittenSuites};

/// Options, certificates and an address to listen at.
#[derive(Debug)]
pub(super) struct Frontend {
    place: Option<SourceLine>,
    /// Address written on one line.
    endpoint: Option<String>,
    pub(super) options: Statements,
    /// Values of `pem-file` in the order of the file, converted, with their source lines.
    certificates: Vec<DraftValue>,
}

const CERTIFICATES: &str = "service.front.tls.certificates";

impl Frontend {
    pub(super) fn new(place: &SourceLine) -> Self {
        Self { place: Some(place.clone()), ..Self::default_one() }
    }

    /// Returns the frontend that hitch uses if none is configured.
    pub(super) fn default_one() -> Self {
        let (options, certificates) = (Statements::default(), Vec::new());
        Self { place: None, endpoint: Some("[*]:8443".to_owned()), options, certificates }
    }

    /// Parses `[HOST]:PORT`, or `[HOST]:PORT+CERTIFICATE`.
    pub(super) fn of_line(import: &mut Importer<'_>, written: &Statement) -> Self {
        let value = written.value();
        let mut frontend = Self::new(&written.place);
        let (endpoint, certificate) = value.split_once('+').unwrap_or((&value, ""));
        frontend.endpoint = Some(endpoint.to_owned());
        import.joined(written, "service.front.listen", "");
        if !certificate.is_empty() {
            frontend.take_certificate(import, written.with([certificate]), None);
        }
        frontend
    }

    /// Adds an option.
    pub(super) fn take(&mut self, import: &mut Importer<'_>, entry: HitchEntry) {
        import.expect(&entry.statement);
        match entry.name() {
            Some("frontend") => {
                let why = "a frontend stands in a frontend";
                let place = &entry.statement.place;
                import.fault(place, "frontend", why, "close the block of the first with `}`");
            }
            Some("pem-file") if entry.block.is_none() && entry.statement.value().is_empty() => {
                import.mapped(&entry.statement, "empty: no certificate");
            }
            Some("pem-file") => self.take_certificate(import, entry.statement, entry.block),
            Some(name) => {
                if ["pem-dir", "client-verify-ca"].contains(&name) {
                    import.look_for(&entry.statement);
                }
                if ["host", "port"].contains(&name) {
                    self.endpoint = None;
                } else if entry.statement.value().is_empty() && name != "ocsp-dir" {
                    return import.mapped(&entry.statement, "empty: the default");
                }
                let value = entry.statement.value();
                if is_switch(name) && switch(&value).is_none() {
                    let why = format!("`{value}` is neither on nor off");
                    import.fault(&entry.statement.place, name, why, "write on or off");
                }
                if PROTOCOLS.contains(&name)
                    && PROTOCOLS.iter().any(|one| self.options.find(one).is_some())
                {
                    let why = "tls-protos, ssl and tls exclude each other";
                    import.fault(&entry.statement.place, name, why, "leave tls-protos alone");
                }
                self.options.push(name, entry.statement);
            }
            None => import.note_unknown(&entry.statement),
        }
    }

    /// Adds a certificate: one file, or a block that names several.
    fn take_certificate(
        &mut self,
        import: &mut Importer<'_>,
        written: Statement,
        block: Option<Vec<HitchEntry>>,
    ) {
        const LAST: &str =
            "hitch's default is the last `pem-file`, Lariat's the first: turned round";
        let mut keys = Vec::new();
        for inner in block.into_iter().flatten() {
            let inner = inner.statement;
            let name = match inner.option.as_str() {
                "cert" => "chain",
                "private-key" => "key",
                "ocsp-resp-file" => "ocsp",
                "ocsp-verify-staple" => {
                    let why = "the signature is verified, unless the chain lacks the issuer";
                    import.lacks(&inner, why, "append the issuer's certificate to the chain");
                    continue;
                }
                // Clients that hitch would refuse must not be accepted.
                "client-verify" | "client-verify-ca" => {
                    let why = "one certificate of several has no rule about clients of its own";
                    let remedy = "write it into a frontend of its own for that certificate";
                    import.fault(&inner.place, &inner.option, why, remedy);
                    continue;
                }
                _ => {
                    import.note_unknown(&inner);
                    continue;
                }
            };
            import.look_for(&inner);
            import.joined(&inner, &format!("{CERTIFICATES}.{name}"), "");
            keys.push((name, Value::from(inner.value())));
        }
        let value = if let Some(path) = Some(written.value()).filter(|path| !path.is_empty()) {
            import.look_for_path(&path, &written);
            Value::from(path)
        } else if keys.iter().any(|(name, _)| *name == "chain") {
            inline_table(keys)
        } else {
            let remedy = "write `cert = \"FILE\"` into it";
            return import.fault(&written.place, &written.option, "has no `cert`", remedy);
        };
        let difference = if self.certificates.is_empty() { "" } else { LAST };
        import.joined(&written, CERTIFICATES, difference);
        self.certificates.push(DraftValue { value, origin: Some(written.place) });
    }

    /// Returns how many certificates are named individually.
    pub(super) fn certificates(&self) -> usize {
        self.certificates.len()
    }

    /// Returns all options and certificates, with those of the top level.
    pub(super) fn with(
        &self,
        import: &mut Importer<'_>,
        global: &Self,
    ) -> (Statements, Vec<DraftValue>) {
        let options = global.options.and(&self.options);
        let mut certificates = self.all_certificates(import);
        if certificates.is_empty() || options.is_on("match-global-certs") {
            certificates.extend(global.all_certificates(import));
        }
        (options, certificates)
    }

    /// Returns all certificates: hitch's default is the last file, or the first of the directory.
    fn all_certificates(&self, import: &mut Importer<'_>) -> Vec<DraftValue> {
        let mut all: Vec<_> = self.certificates.iter().rev().cloned().collect();
        let Some(directory) = self.options.find("pem-dir") else { return all };
        import.joined(directory, CERTIFICATES, "");
        let mut add = |path: String, of: &Statement| {
            all.push(DraftValue { value: Value::from(path), origin: Some(of.place.clone()) });
        };
        let glob = self.options.find("pem-dir-glob");
        let listed = import.files.list(Path::new(&directory.value())).unwrap_or_default();
        if !import.take_options(listed.len(), &directory.place) {
            return all;
        }
        let chosen = glob.filter(|glob| !["*", "*.pem"].contains(&glob.value().as_str()));
        // Lariat recognises certificates in a folder by file ending; hitch takes every file.
        let are_known = listed.iter().all(|path| is_read_in_folder(path));
        let every = directory.with(["*"]);
        match chosen.or_else(|| glob.or(Some(&every)).filter(|_| !are_known)) {
            Some(glob) => {
                let paths = listed.iter().map(|path| path.display().to_string());
                let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
                let fitting = paths.filter(|path| glob_fits(&glob.value(), &name(path)));
                fitting.for_each(|path| add(path, glob));
                let note = "the files of today are listed: new ones must be added";
                import.joined(glob, CERTIFICATES, note);
            }
            None => {
                add(directory.value(), directory);
                import.joined(glob, CERTIFICATES, "every certificate with its key");
            }
        }
        all
    }

    /// Reports whether the address is all of IPv6, which hitch takes without IPv4; `*` has both.
    pub(super) fn is_of_ipv6_alone(&self) -> bool {
        let host = match &self.endpoint {
            Some(endpoint) => split_endpoint(endpoint).0,
            None => self.options.value("host").unwrap_or_default(),
        };
        host.trim_matches(['[', ']']) == "::"
    }

    /// Returns the address to listen at, and its source line.
    pub(super) fn listen(&self, import: &mut Import) -> (String, Option<SourceLine>) {
        let part = |name: &str| self.options.value(name).unwrap_or_default();
        let (host, port) = match &self.endpoint {
            Some(path) if path.starts_with('/') => {
                return (format!("unix:{path}"), self.place.clone());
            }
            Some(endpoint) => split_endpoint(endpoint),
            None => (part("host"), part("port")),
        };
        import.joined(self.options.each(&["host", "port"]), "service.front.listen", "");
        let place = self.place.clone().unwrap_or_else(|| SourceLine::outside("frontend"));
        if port.parse::<u16>().is_err() {
            let remedy = "write `[HOST]:PORT`, with a number as port";
            import.fault(&place, "frontend", format!("`{port}` is no port"), remedy);
        }
        let host = if host == "localhost" { "127.0.0.1".to_owned() } else { host };
        if !["", "*"].contains(&host.as_str()) && host.parse::<IpAddr>().is_err() {
            let why = format!("`{host}` is a name, and names of hosts are not listened at");
            import.fault(&place, "frontend", why, "write its IP address");
        }
        (address(&host, &port), self.place.clone())
    }
}

/// Options for the versions of TLS, of which hitch takes one.
const PROTOCOLS: [&str; 3] = ["tls-protos", "ssl", "tls"];

/// Reports whether Lariat reads a file of that name in a folder of certificates.
fn is_read_in_folder(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ["pem", "crt", "cer", "cert", "rsa", "ecdsa", "key", "ocsp"].contains(&ending)
}

/// Options that share a key with others: they are reported with it.
const TAKEN_TOGETHER: &str = "\
    backend ciphers ciphersuites client client-verify client-verify-ca ecdh-curve host \
    pem-dir pem-dir-glob port proxy-authority proxy-client-cert proxy-proxy proxy-tlv ssl \
    tls tls-protos write-proxy write-proxy-v1 write-proxy-v2";

/// Options for the first bytes sent to a server, of which hitch takes one.
const HEADERS: [&str; 5] =
    ["write-ip", "write-proxy", "write-proxy-v1", "write-proxy-v2", "proxy-proxy"];

/// Writes the keys of a service, except its name and address.
pub(super) fn write(options: &Statements, import: &mut Import, certificates: Vec<DraftValue>) {
    for (name, written) in options.iter() {
        take_alone(name, written, import);
    }
    write_backend(options, import);
    write_header(options, import);
    write_tls(options, import);
    if options.is_on("client") {
        write_client(options, import, certificates.first());
    } else {
        for certificate in certificates {
            import.service.push("front.tls.certificates", certificate.value, certificate.origin);
        }
        write_verification(options, import);
    }
}

/// Applies an option that depends on no other.
fn take_alone(name: &str, written: &Statement, import: &mut Import) {
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
            import.apply_key("service.back.resolve", Conversion::Seconds, "", written);
        }
        _ => {
            let meaning = meanings::find(Predecessor::Hitch, name);
            let is_joined = meaning.is_some_and(|meaning| import.apply(meaning, written));
            match meaning {
                Some(_) if is_joined && is_off => import.mapped(written, "`off`, as here"),
                Some(meaning) if is_joined => import.apply_joined(meaning, written),
                _ => {}
            }
        }
    }
}

fn write_backend(options: &Statements, import: &mut Import) {
    let Some(written) = options.find("backend") else {
        return import.service.push("back.servers", "127.0.0.1:8000", None);
    };
    let value = written.value();
    let (host, port) = split_endpoint(&value);
    let server = match host.as_str() {
        _ if value.starts_with('/') => format!("unix:{value}"),
        "" | "*" => address("127.0.0.1", &port),
        host => address(host, &port),
    };
    import.add("service.back.servers", server, written, "");
}

fn write_header(options: &Statements, import: &mut Import) {
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
            import.service.set("front.accept-proxy", everyone, written.place.clone());
            import.remark("front.accept-proxy", "Name the networks of your load balancers alone.");
            "every address may send a header, as with hitch: name your load balancers"
        } else {
            ""
        };
        import.put("service.back.send-proxy.version", version, *written, difference);
    }
    for name in ["proxy-tlv", "proxy-authority", "proxy-client-cert"] {
        let Some(written) = options.find(name) else { continue };
        let is_on = switch(&written.value()) != Some(false);
        let key = |name: &str| format!("service.back.send-proxy.{name}");
        match name {
            _ if version != "v2" => {
                import.mapped(written, "without effect: no PROXY header of version 2 is sent");
            }
            "proxy-client-cert" if is_on => {
                import.put(&key("client-certificate"), "pem", written, "");
            }
            "proxy-tlv" if !is_on => {
                import.put(&key("tls"), false, written, "");
                import.put(&key("authority"), false, written, "");
            }
            "proxy-authority" if !is_on => import.put(&key("authority"), false, written, ""),
            _ => import.mapped(written, "as here"),
        }
    }
}

/// Writes versions, groups and suites, of clients or of servers.
fn write_tls(options: &Statements, import: &mut Import) {
    let side = if options.is_on("client") { "back.tls" } else { "front.tls" };
    let of_all = ["ssl", "tls"].into_iter().filter(|name| options.is_on(name));
    let all = of_all
        .filter_map(|name| options.find(name))
        .next()
        .map(|written| written.with(["TLSv1.0", "TLSv1.1", "TLSv1.2", "TLSv1.3"]));
    let key = format!("service.{side}.versions");
    import.apply_key(&key, Conversion::Versions, "", options.find("tls-protos").or(all.as_ref()));
    if let Some(groups) = options.find("ecdh-curve") {
        if groups.value() == "auto" {
            import.mapped(groups, "`auto`, as here");
        } else {
            let key = format!("service.{side}.groups");
            import.apply_key(&key, Conversion::Groups, "", groups);
        }
    }
    let [tls12, tls13] = ["ciphers", "ciphersuites"].map(|name| options.find(name).cloned());
    WrittenSuites { tls12, tls13 }.write(import, side);
}

fn write_verification(options: &Statements, import: &mut Import) {
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
            import.put(&key("mode"), mode, verify, "");
            import.apply_key(&key("ca"), Conversion::Paths, "", ca);
        }
        (Some(verify), None) => {
            let why = "client-verify is on without client-verify-ca";
            import.fault(&verify.place, "client-verify", why, "name the file of the authorities");
        }
        (None, _) => {}
    }
}

/// Writes `client = on`: plaintext in front, TLS behind, which hitch does not verify.
fn write_client(options: &Statements, import: &mut Import, certificate: Option<&DraftValue>) {
    let Some(written) = options.find("client") else { return };
    // Plaintext clients negotiate no protocol.
    import.service.take("front.tls.alpn");
    import.service.take("front.tls.unknown-name");
    import.service.set("front.tls.mode", "off", written.place.clone());
    let difference = "front.tls = \"off\", and servers are not verified, as by hitch: name `ca`";
    import.put("service.back.tls.verify", "off", written, difference);
    let remark = "hitch verifies no server. Take this out, and name the authorities in `ca`.";
    import.remark("back.tls.verify", remark);
    let Some(DraftValue { value, origin }) = certificate else { return };
    let part = |name: &str| value.as_table().and_then(|table| table.get(name)).cloned();
    let chain: Value = part("chain").unwrap_or_else(|| value.clone());
    import.service.set("back.tls.certificate", chain, origin.clone());
    if let Some(key) = part("key") {
        import.service.set("back.tls.key", key, origin.clone());
    }
}
