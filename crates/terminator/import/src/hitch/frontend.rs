//! A frontend of hitch, or its top level: options, certificates and the address.

use std::net::IpAddr;
use std::path::Path;

use toml::Value;

use crate::convert::{address, glob_fits, split_endpoint, switch};
use crate::draft::DraftValue;
use crate::hitch::syntax::{HitchEntry, is_switch};
use crate::import::{Import, Importer, inline_table};
use crate::source::{SourceLine, Statement};
use crate::statements::Statements;

/// Options, certificates and an address to listen at.
#[derive(Debug)]
pub(super) struct Frontend {
    place: Option<SourceLine>,
    /// The address on its one line.
    endpoint: Option<String>,
    pub(super) options: Statements,
    /// `pem-file`, in the order of the file: the value of ours, and its line.
    certificates: Vec<DraftValue>,
}

const CERTIFICATES: &str = "service.front.tls.certificates";

impl Frontend {
    pub(super) fn new(place: &SourceLine) -> Self {
        Self { place: Some(place.clone()), ..Self::default_one() }
    }

    /// The frontend that hitch has if none is configured.
    pub(super) fn default_one() -> Self {
        let (options, certificates) = (Statements::default(), Vec::new());
        Self { place: None, endpoint: Some("[*]:8443".to_owned()), options, certificates }
    }

    /// `[HOST]:PORT`, or `[HOST]:PORT+CERTIFICATE`.
    pub(super) fn of_line(import: &mut Importer<'_>, written: &Statement) -> Self {
        let value = written.value();
        let mut frontend = Self::new(&written.place);
        let (endpoint, certificate) = value.split_once('+').unwrap_or((&value, ""));
        frontend.endpoint = Some(endpoint.to_owned());
        import.joined(written, "service.front.listen", "");
        if !certificate.is_empty() {
            let words = vec![certificate.to_owned()];
            let written = Statement { words, ..written.clone() };
            frontend.take_certificate(import, written, None);
        }
        frontend
    }

    /// Takes an option.
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
            Some("pem-file") => {
                self.take_certificate(import, entry.statement, entry.block);
            }
            Some(name) => {
                if ["pem-dir", "client-verify-ca"].contains(&name) {
                    import.look_for(&entry.statement.value(), &entry.statement);
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

    /// A certificate of one file, or a block that names several.
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
                // Whom hitch would refuse must not be let in.
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
            import.look_for(&inner.value(), &inner);
            import.joined(&inner, &format!("{CERTIFICATES}.{name}"), "");
            keys.push((name, Value::from(inner.value())));
        }
        let value = if let Some(path) = Some(written.value()).filter(|path| !path.is_empty()) {
            import.look_for(&path, &written);
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

    /// How many certificates are named one by one.
    pub(super) fn certificates(&self) -> usize {
        self.certificates.len()
    }

    /// All options and certificates, with those of the top level.
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

    /// All certificates: hitch's default is the last file, or the first of the directory.
    fn all_certificates(&self, import: &mut Importer<'_>) -> Vec<DraftValue> {
        let mut all: Vec<_> = self.certificates.iter().rev().cloned().collect();
        let Some(directory) = self.options.find("pem-dir") else {
            return all;
        };
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
        // Lariat knows certificates in a folder by their names' endings, hitch takes every file.
        let are_known = listed.iter().all(|path| is_read_in_folder(path));
        let every = Statement { words: vec!["*".to_owned()], ..directory.clone() };
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
                if let Some(glob) = glob {
                    import.joined(glob, CERTIFICATES, "every certificate with its key");
                }
            }
        }
        all
    }

    /// Whether it is all of IPv6, which hitch takes without IPv4; `*` has both.
    pub(super) fn is_of_ipv6_alone(&self) -> bool {
        let host = match &self.endpoint {
            Some(endpoint) => split_endpoint(endpoint).0,
            None => self.options.value("host").unwrap_or_default(),
        };
        host.trim_matches(['[', ']']) == "::"
    }

    /// The address to listen at, and its line.
    pub(super) fn listen(&self, import: &mut Import) -> (String, Option<SourceLine>) {
        let part = |name: &str| self.options.value(name).unwrap_or_default();
        let (host, port) = match &self.endpoint {
            Some(path) if path.starts_with('/') => {
                return (format!("unix:{path}"), self.place.clone());
            }
            Some(endpoint) => split_endpoint(endpoint),
            None => (part("host"), part("port")),
        };
        for written in ["host", "port"].iter().filter_map(|name| self.options.find(name)) {
            import.joined(written, "service.front.listen", "");
        }
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

/// Whether Lariat reads a file of that name in a folder of certificates.
fn is_read_in_folder(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ["pem", "crt", "cer", "cert", "rsa", "ecdsa", "key", "ocsp"].contains(&ending)
}
