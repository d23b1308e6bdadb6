//! Options of hitch for a frontend, or for all of them, and the service that comes of them.

use std::path::Path;

use toml::Value;

use crate::convert::{Unfit, address, array, split_endpoint, switch};
use crate::draft::{DraftTable, DraftValue};
use crate::hitch::syntax::HitchEntry;
use crate::import::{Import, inline_table};
use crate::meaning::{Conversion, Meaning};
use crate::meanings;
use crate::predecessor::Predecessor;
use crate::source::{SourceFiles, SourceLine, Statement};
use crate::tls_policy::WrittenSuites;

/// The order of suites, which is always the server's.
pub(super) const ORDER: &str =
    "the order of suites is Lariat's own; by `auto` it is what costs this CPU least";

/// Options at the top level, or in a frontend.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    table: DraftTable,
    suites: WrittenSuites,
    versions: Option<Statement>,
    /// Whether an option for the versions of TLS was there.
    has_protocols: bool,
    groups: Option<Statement>,
    /// `pem-file`, in the order of the file: the value of ours, and its line.
    certificates: Vec<DraftValue>,
    directory: Option<Statement>,
    glob: Option<Statement>,
    verify: Option<Statement>,
    verify_ca: Option<Statement>,
    match_global: bool,
    /// Those of the options for a header that are on.
    headers: Vec<Statement>,
    tlv: Option<Statement>,
    authority: Option<Statement>,
    client_certificate: Option<Statement>,
    client: Option<Statement>,
    backend: Option<Statement>,
}

impl Scope {
    /// Whether more than one kind of header is on, which hitch refuses.
    pub(super) fn is_mutual(&self) -> bool {
        self.headers.len() > 1
    }

    /// Takes an option that is not for the process.
    pub(super) fn take(
        &mut self,
        import: &mut Import,
        files: &mut dyn SourceFiles,
        meaning: &Meaning,
        entry: HitchEntry,
    ) {
        let written = entry.statement;
        let value = written.value();
        let is_on = switch(&value) == Some(true);
        self.refuse_second_protocols(import, meaning, &written);
        match meaning.option {
            "pem-file" if value.is_empty() && entry.block.is_none() => {
                import.mapped(&written, "empty: no certificate");
            }
            "pem-file" => self.certificate(import, files, written, entry.block),
            "pem-dir" => {
                import.look_for(files, &value, &written);
                self.directory = Some(written);
            }
            "pem-dir-glob" => self.glob = Some(written),
            "match-global-certs" => {
                self.match_global = is_on;
                import.apply_joined(meaning, &written);
            }
            "ciphers" => self.suites.tls12 = Some(written),
            "ciphersuites" => self.suites.tls13 = Some(written),
            "tls-protos" => self.versions = Some(written),
            "ssl" | "tls" if is_on => {
                let words = ["TLSv1.0", "TLSv1.1", "TLSv1.2", "TLSv1.3"].map(str::to_owned);
                self.versions = Some(Statement { words: words.into(), ..written });
            }
            "ecdh-curve" if value == "auto" => import.mapped(&written, "`auto`, as here"),
            "ecdh-curve" => self.groups = Some(written),
            "client-verify" => self.verify = Some(written),
            "client-verify-ca" => {
                import.look_for(files, &value, &written);
                self.verify_ca = Some(written);
            }
            "client" if is_on => self.client = Some(written),
            "backend" => self.backend = Some(written),
            "write-proxy-v1" | "write-proxy-v2" | "write-proxy" | "proxy-proxy" if is_on => {
                self.headers.push(written);
            }
            "write-ip" => {
                if is_on {
                    self.headers.push(written.clone());
                }
                import.apply(meaning, &written, &mut self.table);
            }
            "proxy-tlv" => self.tlv = Some(written),
            "proxy-authority" => self.authority = Some(written),
            "proxy-client-cert" if is_on => self.client_certificate = Some(written),
            "prefer-server-ciphers" => {
                import.joined(&written, "", if is_on { "" } else { ORDER });
            }
            "sni-nomatch-abort" => {
                let answer = if is_on { "refuse-named" } else { "default" };
                self.table.set("front.tls.unknown-name", answer, written.place.clone());
                import.joined(&written, "service.front.tls.unknown-name", "");
            }
            "backend-refresh" if value == "0" => {
                let note = "names are looked up every 10 seconds; hitch does so once";
                import.joined(&written, "service.back.resolve", note);
            }
            "backend-refresh" => {
                let key = "service.back.resolve";
                import.apply_key(key, Conversion::Seconds, "", &written, &mut self.table);
            }
            _ if import.apply(meaning, &written, &mut self.table) => {
                let off = switch(&value) == Some(false);
                import.mapped(&written, if off { "`off`, as here" } else { "without effect here" });
            }
            _ => {}
        }
    }

    /// Of the options for the versions of TLS, hitch takes one.
    fn refuse_second_protocols(
        &mut self,
        import: &mut Import,
        meaning: &Meaning,
        written: &Statement,
    ) {
        if matches!(meaning.option, "tls-protos" | "ssl" | "tls") {
            if self.has_protocols {
                let why = "tls-protos, ssl and tls exclude each other";
                import.fault(&written.place, &written.option, why, "leave tls-protos alone");
            }
            self.has_protocols = true;
        }
    }

    /// A certificate of one file, or a block that names several.
    fn certificate(
        &mut self,
        import: &mut Import,
        files: &mut dyn SourceFiles,
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
                "ocsp-verify-staple" | "client-verify" | "client-verify-ca" => {
                    let why = "one certificate of several has no such rule of its own";
                    let remedy = "give the certificate a frontend, and so a service, of its own";
                    import.unmapped(&inner, Unfit::new(why, remedy));
                    continue;
                }
                _ => {
                    import.unknown(&inner, meanings::of(Predecessor::Hitch));
                    continue;
                }
            };
            import.look_for(files, &inner.value(), &inner);
            import.joined(&inner, &format!("service.front.tls.certificates.{name}"), "");
            keys.push((name, Value::from(inner.value())));
        }
        let value = if written.words.is_empty() {
            if !keys.iter().any(|(name, _)| *name == "chain") {
                let remedy = "write `cert = \"FILE\"` into it";
                return import.fault(&written.place, &written.option, "has no `cert`", remedy);
            }
            match keys.as_slice() {
                [(_, chain)] => chain.clone(),
                _ => inline_table(keys),
            }
        } else {
            import.look_for(files, &written.value(), &written);
            Value::from(written.value())
        };
        let difference = if self.certificates.is_empty() { "" } else { LAST };
        import.joined(&written, "service.front.tls.certificates", difference);
        self.certificates.push(DraftValue { value, origin: Some(written.place) });
    }

    /// All certificates: hitch's default is the last file, or the first of the directory.
    fn all_certificates(
        &self,
        import: &mut Import,
        files: &mut dyn SourceFiles,
    ) -> Vec<DraftValue> {
        let mut all: Vec<_> = self.certificates.iter().rev().cloned().collect();
        if let Some(directory) = &self.directory {
            let folder = directory.value();
            let glob = self.glob.as_ref().map(|glob| (glob, glob.value()));
            let key = "service.front.tls.certificates";
            let mut add = |path: String, of: &Statement| {
                let origin = Some(of.place.clone());
                all.push(DraftValue { value: Value::from(path), origin });
            };
            let listed = files.list(Path::new(&folder)).unwrap_or_default();
            import.joined(directory, key, "");
            match glob {
                glob if glob.as_ref().is_some_and(|(_, glob)| !EVERY.contains(&glob.as_str()))
                    || !listed.iter().all(|path| is_read_in_folder(path)) =>
                {
                    let (written, glob) = glob.unwrap_or_else(|| (directory, "*".to_owned()));
                    let paths = listed.iter().map(|path| path.display().to_string());
                    let fits = |path: &String| {
                        glob_fits(&glob, path.rsplit('/').next().unwrap_or_default())
                    };
                    paths.filter(fits).for_each(|path| add(path, written));
                    let note = "the files of today are listed: new ones must be added";
                    import.joined(written, key, note);
                }
                glob => {
                    if let Some((written, _)) = glob {
                        import.joined(written, key, "the folder: every certificate with its key");
                    }
                    add(folder, directory);
                }
            }
        }
        all
    }
}

/// Patterns that every certificate fits.
const EVERY: [&str; 2] = ["*", "*.pem"];

/// Whether Lariat reads a file of that name in a folder of certificates.
fn is_read_in_folder(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ["pem", "crt", "cer", "cert", "rsa", "ecdsa", "key", "ocsp"].contains(&ending)
}

/// Whether a name fits a pattern of `*` and `?`.
fn glob_fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<_>, Vec<_>) = (pattern.chars().collect(), name.chars().collect());
    // fits[n]: the first characters of the name fit the part of the pattern so far.
    let mut fits = vec![false; name.len() + 1];
    fits[0] = true;
    for sign in pattern {
        let mut next = vec![false; name.len() + 1];
        next[0] = sign == '*' && fits[0];
        for place in 1..=name.len() {
            next[place] = match sign {
                '*' => fits[place] || next[place - 1],
                '?' => fits[place - 1],
                sign => fits[place - 1] && name[place - 1] == sign,
            };
        }
        fits = next;
    }
    fits[name.len()]
}

/// An endpoint that hitch listens at.
#[derive(Debug, Default)]
pub(super) struct Frontend {
    host: Option<Statement>,
    port: Option<Statement>,
    place: Option<SourceLine>,
    /// The address on its one line.
    endpoint: Option<String>,
    scope: Scope,
}

/// A service, with the addresses of all frontends that are like it.
#[derive(Debug)]
pub(super) struct ServiceOfFrontends {
    pub(super) listen: Vec<(String, Option<SourceLine>)>,
    table: DraftTable,
}

impl ServiceOfFrontends {
    /// Whether both services say the same but for their addresses.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let said = |table: &DraftTable| format!("{:?}", table.keys);
        said(&self.table) == said(&other.table)
    }

    pub(super) fn write(self, import: &mut Import, is_alone: bool) {
        let first = self.listen.first().map_or("", |(address, _)| address.as_str());
        let port = first.rsplit(':').next().unwrap_or_default();
        let name = if is_alone { "main".to_owned() } else { format!("port-{port}") };
        let mut service = DraftTable::default();
        service.set("name", import.draft.free_name(&name), None);
        for (address, place) in self.listen {
            service.push("front.listen", address, place);
        }
        service.keys.extend(self.table.keys);
        import.draft.services.push(service);
    }
}

impl Frontend {
    pub(super) fn new(place: &SourceLine) -> Self {
        Self { place: Some(place.clone()), ..Self::default() }
    }

    /// Where hitch listens if nobody says where.
    pub(super) fn default_one() -> Self {
        Self { endpoint: Some("[*]:8443".to_owned()), ..Self::default() }
    }

    /// `[HOST]:PORT`, or `[HOST]:PORT+CERTIFICATE`.
    pub(super) fn of_line(
        import: &mut Import,
        files: &mut dyn SourceFiles,
        written: &Statement,
    ) -> Self {
        let value = written.value();
        let mut frontend = Self::new(&written.place);
        let (endpoint, certificate) = value.split_once('+').unwrap_or((&value, ""));
        frontend.endpoint = Some(endpoint.to_owned());
        import.joined(written, "service.front.listen", "");
        if !certificate.is_empty() {
            let words = vec![certificate.to_owned()];
            let written = Statement { words, ..written.clone() };
            frontend.scope.certificate(import, files, written, None);
        }
        frontend
    }

    /// Takes an option of its block.
    pub(super) fn take(
        &mut self,
        import: &mut Import,
        files: &mut dyn SourceFiles,
        entry: HitchEntry,
    ) {
        let written = &entry.statement;
        import.expect(written);
        match meanings::find(Predecessor::Hitch, &written.option) {
            Some(meaning) if meaning.option == "host" => self.host = Some(entry.statement),
            Some(meaning) if meaning.option == "port" => self.port = Some(entry.statement),
            Some(meaning) => self.scope.take(import, files, meaning, entry),
            None => import.unknown(written, meanings::of(Predecessor::Hitch)),
        }
    }

    /// The service of it, with what the top level says for all.
    pub(super) fn finish(
        self,
        import: &mut Import,
        files: &mut dyn SourceFiles,
        global: &Scope,
        place: &SourceLine,
    ) -> ServiceOfFrontends {
        let listen = self.listen(import);
        let own = self.scope;
        let mut table = global.table.clone();
        for key in own.table.keys.clone() {
            table.take(&key.path);
            table.keys.push(key);
        }
        let own_certificates = own.all_certificates(import, files);
        let mut certificates = own_certificates.clone();
        if own_certificates.is_empty() || own.match_global || global.match_global {
            certificates.extend(global.all_certificates(import, files));
        }
        let merged = Scope {
            table: DraftTable::default(),
            suites: WrittenSuites {
                tls12: own.suites.tls12.or(global.suites.tls12.clone()),
                tls13: own.suites.tls13.or(global.suites.tls13.clone()),
            },
            versions: own.versions.or(global.versions.clone()),
            groups: own.groups.or(global.groups.clone()),
            verify: own.verify.or(global.verify.clone()),
            verify_ca: own.verify_ca.or(global.verify_ca.clone()),
            ..global.clone()
        };
        merged.write(import, &mut table, certificates);
        import.defaults(meanings::defaults_of(Predecessor::Hitch), place, &mut table);
        ServiceOfFrontends { listen, table }
    }

    fn listen(&self, import: &mut Import) -> Vec<(String, Option<SourceLine>)> {
        let part = |of: &Option<Statement>| of.as_ref().map_or(String::new(), Statement::value);
        let (host, port) = match &self.endpoint {
            Some(path) if path.starts_with('/') => {
                return vec![(format!("unix:{path}"), self.place.clone())];
            }
            Some(endpoint) => split_endpoint(endpoint),
            None => (part(&self.host), part(&self.port)),
        };
        for written in self.host.iter().chain(&self.port) {
            import.joined(written, "service.front.listen", "");
        }
        let place = self.place.clone().unwrap_or_else(|| SourceLine::outside("frontend"));
        if port.parse::<u16>().is_err() {
            let remedy = "write `[HOST]:PORT`, with a number as port";
            import.fault(&place, "frontend", format!("`{port}` is no port"), remedy);
        }
        let host = if host == "localhost" { "127.0.0.1".to_owned() } else { host };
        let is_address = host.parse::<std::net::IpAddr>().is_ok();
        if !is_address && !["", "*"].contains(&host.as_str()) {
            let written = Statement { place, option: "frontend".to_owned(), words: vec![host] };
            let why = "names of hosts are not listened at";
            import.unmapped(&written, Unfit::new(why, "write its IP address into `front.listen`"));
            return vec![(format!("[::]:{port}"), self.place.clone())];
        }
        vec![(address(&host, &port), self.place.clone())]
    }
}

impl Scope {
    /// Writes what must be seen whole into the table of a service.
    fn write(&self, import: &mut Import, table: &mut DraftTable, certificates: Vec<DraftValue>) {
        self.write_backend(import, table);
        self.write_header(import, table);
        let side = if self.client.is_some() { "back.tls" } else { "front.tls" };
        let conversions = [
            ("versions", Conversion::Versions, &self.versions),
            ("groups", Conversion::Groups, &self.groups),
        ];
        for (name, conversion, written) in conversions {
            if let Some(written) = written {
                import.apply_key(&format!("service.{side}.{name}"), conversion, "", written, table);
            }
        }
        self.suites.write(import, table, side);
        if let Some(client) = &self.client {
            return write_client(import, table, client, &certificates);
        }
        for certificate in certificates {
            table.push("front.tls.certificates", certificate.value, certificate.origin);
        }
        self.write_verification(import, table);
    }

    fn write_backend(&self, import: &mut Import, table: &mut DraftTable) {
        let key = "service.back.servers";
        let Some(written) = &self.backend else {
            table.push("back.servers", "127.0.0.1:8000", None);
            return;
        };
        let value = written.value();
        let server = if value.starts_with('/') {
            format!("unix:{value}")
        } else {
            let (host, port) = split_endpoint(&value);
            match host.as_str() {
                "" | "*" => address("127.0.0.1", &port),
                host => address(host, &port),
            }
        };
        table.push("back.servers", server, written.place.clone());
        import.joined(written, key, "");
    }

    fn write_header(&self, import: &mut Import, table: &mut DraftTable) {
        let Some(written) = self.headers.iter().find(|one| !one.option.contains("write-ip")) else {
            let unused = [&self.tlv, &self.authority, &self.client_certificate];
            for written in unused.into_iter().flatten() {
                import.mapped(written, "without effect: no PROXY header of version 2 is sent");
            }
            return;
        };
        let origin = written.place.clone();
        let version = match written.option.trim_start_matches('-') {
            "write-proxy-v1" => "v1",
            "proxy-proxy" => "pass",
            _ => "v2",
        };
        table.set("back.send-proxy.version", version, origin.clone());
        let difference = if version == "pass" {
            table.set("front.accept-proxy", array(["0.0.0.0/0", "::/0"]), origin);
            table.remark("front.accept-proxy", "Name the networks of your load balancers alone.");
            "every address may send a header, as with hitch: name your load balancers"
        } else {
            ""
        };
        import.joined(written, "service.back.send-proxy", difference);
        for (name, written) in [("tls", &self.tlv), ("authority", &self.authority)] {
            let Some(written) = written else {
                continue;
            };
            let is_on = switch(&written.value()) != Some(false);
            let key = format!("back.send-proxy.{name}");
            if version == "v2" && !is_on {
                table.set(&key, false, written.place.clone());
                if name == "tls" {
                    table.set("back.send-proxy.authority", false, written.place.clone());
                }
            }
            import.joined(written, &format!("service.{key}"), "");
        }
        if let Some(written) = &self.client_certificate {
            let key = "back.send-proxy.client-certificate";
            table.set(key, "pem", written.place.clone());
            import.joined(written, &format!("service.{key}"), "");
        }
    }

    fn write_verification(&self, import: &mut Import, table: &mut DraftTable) {
        let mode = self.verify.as_ref().map_or("none".to_owned(), Statement::value);
        let mode = match mode.as_str() {
            "require" | "required" => "required",
            "optional" => "optional",
            "none" => {
                for written in self.verify.iter().chain(&self.verify_ca) {
                    import.mapped(written, "clients are asked for no certificate, as here");
                }
                return;
            }
            other => {
                let place = self.verify.as_ref().map(|one| one.place.clone());
                let place = place.unwrap_or_else(|| SourceLine::outside("client-verify"));
                let remedy = "write required, optional or none";
                import.fault(&place, "client-verify", format!("`{other}` is no mode"), remedy);
                return;
            }
        };
        let (Some(verify), Some(ca)) = (&self.verify, &self.verify_ca) else {
            let place = self.verify.as_ref().map(|one| one.place.clone());
            let place = place.unwrap_or_else(|| SourceLine::outside("client-verify"));
            let why = "client-verify is on without client-verify-ca";
            return import.fault(&place, "client-verify", why, "name the file of the authorities");
        };
        table.set("front.tls.client-certificates.mode", mode, verify.place.clone());
        import.joined(verify, "service.front.tls.client-certificates.mode", "");
        let key = "service.front.tls.client-certificates.ca";
        import.apply_key(key, Conversion::Paths, "", ca, table);
    }
}

/// `client = on`: plaintext in front, TLS behind, which hitch does not verify.
fn write_client(
    import: &mut Import,
    table: &mut DraftTable,
    written: &Statement,
    certificates: &[DraftValue],
) {
    let origin = written.place.clone();
    // Clients of plaintext negotiate no protocol.
    table.take("front.tls.alpn");
    table.take("front.tls.unknown-name");
    table.set("front.tls.mode", "off", origin.clone());
    table.set("back.tls.verify", "off", origin);
    let remark = "hitch verifies no server. Take this out, and name the authorities in `ca`.";
    table.remark("back.tls.verify", remark);
    if let Some(first) = certificates.first() {
        let table_of = first.value.as_table();
        let part = |name: &str| table_of.and_then(|table| table.get(name)).cloned();
        let chain = part("chain").unwrap_or_else(|| first.value.clone());
        table.set("back.tls.certificate", chain, first.origin.clone());
        if let Some(key) = part("key") {
            table.set("back.tls.key", key, first.origin.clone());
        }
    }
    let difference = "front.tls = \"off\", and servers are not verified, as by hitch: name `ca`";
    import.joined(written, "service.back.tls", difference);
}
