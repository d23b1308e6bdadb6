//! Reads the files that a configuration names and reports errors at the keys that name them;
//! `lariat check` finds further faults in them that do not keep a configuration from being read.
//!
//! Handles the places of errors; `tls` checks the contents of PEM files. Serving needs no such
//! inspection, because it checks again what it loads.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use options::{Field, KeyPlace, Problem, Severity};
use proxy::options::FrontOptions;
use proxy::routes::NamePattern;
use tls::certificate::Certificate;
use tls::certificate::chain::{self, KnownAuthorities};
use tls::options::{BadCertificate, CertificateSource, PemSource};
use tls::verify;
use wire::address::{Network, NetworkSet};
use zeroize::Zeroizing;

use crate::files::{Files, ProgramOutputs, bundle_of_host};
use crate::settings::{AcmeEntry, Password, TokenKey};

/// Files, and where relative paths to them begin.
pub(crate) struct FileResolver<'f> {
    /// The directory of the configuration file.
    pub(crate) base: PathBuf,
    pub(crate) files: &'f mut dyn Files,
    pub(crate) outputs: &'f mut ProgramOutputs,
    /// Inspector of the files' contents, if any; called while their keys are at hand.
    pub(crate) inspector: Option<&'f Inspector>,
    /// Unreadable certificates, while those may be left out; `None` = they are errors.
    pub(crate) skipped: Option<Vec<String>>,
    /// Authorities and revocation lists read so far, by path, because many services name the same
    /// files.
    pem_files: HashMap<PathBuf, PemSource>,
    /// Authorities of this host, if a service has asked for them.
    host_authorities: Option<PemSource>,
    /// Folder of the certificates that were issued by ACME.
    pub(crate) acme_folder: PathBuf,
    /// Certificates to be ordered for the services read so far.
    pub(crate) acme: Vec<AcmeEntry>,
    /// Keys in tokens of the services read so far.
    pub(crate) token_keys: Vec<TokenKey>,
}

impl<'f> FileResolver<'f> {
    pub(crate) fn new(
        base: PathBuf,
        (files, outputs): (&'f mut dyn Files, &'f mut ProgramOutputs),
        inspector: Option<&'f Inspector>,
    ) -> Self {
        Self {
            base,
            files,
            outputs,
            inspector,
            skipped: None,
            pem_files: HashMap::new(),
            host_authorities: None,
            acme_folder: PathBuf::new(),
            acme: Vec::new(),
            token_keys: Vec::new(),
        }
    }

    pub(crate) fn is_directory(&mut self, path: &Path) -> bool {
        let read = self.files.read(path);
        matches!(read, Err(error) if error.kind() == io::ErrorKind::IsADirectory)
    }

    /// Warns if every user can read a file that holds a secret; only during an inspection.
    pub(crate) fn is_private(&mut self, key: &KeyPlace<'_>, path: &Path) {
        if self.inspector.is_some() && self.files.is_open_to_all(path) {
            let message = format!("{} can be read by every user of this host", path.display());
            let hint = "`chmod 600` keeps it from them, and then replace it: it may be known";
            key.warn(message, hint);
        }
    }

    /// Reads a file; reports why it cannot be read.
    pub(crate) fn read(&mut self, key: &KeyPlace<'_>, path: &Path) -> Option<Vec<u8>> {
        match self.files.read(path) {
            Ok(bytes) => Some(bytes),
            Err(error) => self.unreadable(key, path, &error),
        }
    }

    /// Returns the path and the bytes of a file with a secret.
    pub(crate) fn secret(
        &mut self,
        key: &KeyPlace<'_>,
        path: &str,
    ) -> Option<(PathBuf, Zeroizing<Vec<u8>>)> {
        let path = self.base.join(path);
        let bytes = Zeroizing::new(self.read(key, &path)?);
        self.is_private(key, &path);
        Some((path, bytes))
    }

    /// Reports an unreadable file, as an error unless the file may be left out.
    pub(crate) fn unreadable<T>(
        &mut self,
        key: &KeyPlace<'_>,
        path: &Path,
        error: &io::Error,
    ) -> Option<T> {
        let message = format!("cannot read {}: {error}", path.display());
        self.fault(key, &message, hint_of_unreadable(error))
    }

    /// Reports a faulty certificate, as an error unless the certificate may be left out.
    pub(crate) fn fault<T>(&mut self, key: &KeyPlace<'_>, message: &str, hint: &str) -> Option<T> {
        match &mut self.skipped {
            Some(skipped) => {
                key.warn(message, hint);
                skipped.push(message.to_owned());
            }
            None => key.refuse(message, hint),
        }
        None
    }

    /// Reads the PEM files of a list of paths.
    pub(crate) fn pem_files(&mut self, listed: &Field<'_, Vec<String>>) -> Option<Vec<PemSource>> {
        let mut sources = Vec::new();
        for path in listed.value.as_ref()? {
            sources.push(self.pem_file(listed, self.base.join(path))?);
        }
        if let Some(inspector) = self.inspector {
            inspector.pem_files(listed, &sources);
        }
        Some(sources)
    }

    fn pem_file(&mut self, key: &KeyPlace<'_>, path: PathBuf) -> Option<PemSource> {
        if let Some(known) = self.pem_files.get(&path) {
            return Some(known.clone());
        }
        let pem = self.read(key, &path)?.into();
        let source = PemSource { place: path.display().to_string(), pem };
        self.pem_files.insert(path, source.clone());
        Some(source)
    }

    /// Reads the authorities that a key lists, or else those of this host.
    pub(crate) fn authorities(&mut self, ca: &Field<'_, Vec<String>>) -> Option<Vec<PemSource>> {
        if ca.is_written() {
            return self.pem_files(ca);
        }
        if let Some(known) = &self.host_authorities {
            return Some(vec![known.clone()]);
        }
        let bundle = bundle_of_host(self.files);
        if bundle.is_none() {
            let message = "names no authorities, and this host has no bundle of them";
            let hint = "write the authorities of the servers, or install ca-certificates";
            ca.refuse(message, hint);
        }
        let (place, pem) = bundle?;
        let source = PemSource { place, pem: pem.into() };
        self.host_authorities = Some(source.clone());
        Some(vec![source])
    }
}

/// Transposes an optional key: `None` only if the key was written and failed.
pub(crate) fn optional<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        Some(read) => read.map(Some),
        None => Some(None),
    }
}

/// Reads the password from the file that a key names; `Some(None)` if the key names none.
pub(crate) fn password(
    key: &Field<'_, Option<String>>,
    resolver: &mut FileResolver<'_>,
) -> Option<Option<Password>> {
    let Some(path) = key.value.as_ref()? else { return Some(None) };
    let path = resolver.base.join(path);
    let bytes = Zeroizing::new(resolver.read(key, &path)?);
    let text = std::str::from_utf8(&bytes).map(str::trim_ascii_end);
    match text {
        Ok(text) if !text.is_empty() => Some(Some(Password(Zeroizing::new(text.to_owned())))),
        Ok(_) | Err(_) => {
            let message = format!("{} holds no password", path.display());
            key.fail(message, "write the password into it, as UTF-8")
        }
    }
}

fn hint_of_unreadable(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound if error.get_ref().is_some() => {
            "put the file there, or have the link lead to one"
        }
        io::ErrorKind::NotFound => {
            "relative paths begin at the directory of the configuration file, or for flags at the \
             working directory"
        }
        io::ErrorKind::PermissionDenied => {
            "start as a user who may read it: the rights are dropped after it has been read"
        }
        io::ErrorKind::FileTooLarge => "no file that a configuration names may exceed 64 MiB",
        io::ErrorKind::InvalidInput => "name a regular file, or a link to one",
        _ => "check what is at that path",
    }
}

/// Most invalid lines of a file that are reported one by one.
const FAULTS_MAX: usize = 10;

/// Reads a list of networks, and of files with a network per line.
pub(crate) fn networks_of(
    listed: &Field<'_, Vec<String>>,
    resolver: &mut FileResolver<'_>,
) -> Option<NetworkSet> {
    let mut networks = Vec::new();
    let mut is_whole = true;
    for text in listed.value.as_ref()? {
        match text.parse() {
            Ok(network) => networks.push(network),
            Err(_) => match networks_of_file(listed, text, resolver) {
                Some(of_file) => networks.extend(of_file),
                None => is_whole = false,
            },
        }
    }
    is_whole.then(|| networks.into_iter().collect())
}

/// The networks of a file; reports all lines that are none.
fn networks_of_file(
    key: &KeyPlace<'_>,
    text: &str,
    resolver: &mut FileResolver<'_>,
) -> Option<Vec<Network>> {
    let path = resolver.base.join(text);
    let Ok(content) = resolver.files.read(&path) else {
        // It says why there is no such file, but it may have been meant for a network.
        if text.starts_with(|first: char| first.is_ascii_digit() || first == ':') {
            let hint = "write 10.0.0.0/8, 2001:db8::/32, one IP address, unix, or a file's path";
            return key.fail(format!("\"{text}\" is neither a network nor a file"), hint);
        }
        return resolver.read(key, &path).and(None);
    };
    let content = String::from_utf8_lossy(&content);
    let content = content.strip_prefix('\u{feff}').unwrap_or(&content);
    let (mut networks, mut faults) = (Vec::new(), Vec::new());
    for (number, line) in content.lines().enumerate() {
        let entry = line.split(['#', ';']).next().unwrap_or_default().trim();
        match entry.parse() {
            _ if entry.is_empty() => {}
            Ok(network) => networks.push(network),
            Err(_) => faults.push((number + 1, entry)),
        }
    }
    if faults.is_empty() {
        return Some(networks);
    }
    let (broken, path) = (faults.len(), path.display());
    for (number, entry) in faults.into_iter().take(FAULTS_MAX) {
        let entry: String = entry.chars().take(60).collect();
        let message = format!("{path}:{number}: \"{}\" is no network", entry.escape_debug());
        let hint = "write 10.0.0.0/8, 2001:db8::/32, one IP address or unix, one per line";
        key.refuse(message, hint);
    }
    if broken > FAULTS_MAX {
        let more = broken - FAULTS_MAX;
        key.error(Problem::new(format!("{path} has {more} more such lines")));
    }
    None
}

/// Inspects the contents of files while they are read.
#[derive(Debug, Default)]
pub(crate) struct Inspector {
    known: KnownAuthorities,
}

/// Most names without a certificate that a warning lists.
const NAMES_SHOWN_MAX: usize = 10;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PemUse {
    Shown,
    ToServers,
}

impl Inspector {
    /// Makes an inspector that knows the authorities of this host.
    pub(crate) fn new(files: &mut dyn Files) -> Self {
        let bundle = bundle_of_host(files);
        let known =
            bundle.map(|(place, pem)| KnownAuthorities::of(&PemSource { place, pem: pem.into() }));
        Self { known: known.unwrap_or_default() }
    }

    /// Reports faults of a certificate and its key.
    pub(crate) fn certificate(
        &self,
        (key, private_key): (&KeyPlace<'_>, Option<&KeyPlace<'_>>),
        source: &CertificateSource,
        (usage, severity): (PemUse, Severity),
    ) {
        // A certificate that is left out gets a warning.
        let (certificate, first) = match Certificate::load(source) {
            Ok(loaded) => loaded,
            Err(error) => {
                let at = private_key.filter(|_| error.is_of_key()).unwrap_or(key);
                return at.say(severity, problem(&error.to_string()));
            }
        };
        if let Some(concern) = first {
            let text = format!("{}: {concern}", source.place);
            key.say(Severity::Warning, problem(&text));
        }
        if usage == PemUse::ToServers {
            return;
        }
        for (place, concern) in chain::examine(source, &certificate, &self.known) {
            let problem = problem(&format!("{place}: {concern}"));
            let severity = if concern.is_note() { Severity::Note } else { Severity::Warning };
            key.say(severity, problem);
        }
    }

    /// Warns of names that a service answers for and that none of its certificates has.
    pub(crate) fn names(
        &self,
        names_key: &KeyPlace<'_>,
        options: &FrontOptions,
        wanted: &[NamePattern],
    ) {
        let Some(tls) = options.terminated() else { return };
        let loaded = tls.certificates.iter().map(Certificate::load);
        let certificates: Vec<_> = loaded.flatten().collect();
        let is_whole = certificates.len() == tls.certificates.len();
        let is_refused = !is_whole && tls.bad_certificate == BadCertificate::Refuse;
        if is_refused || tls.placeholder.is_some() {
            // Missing and unusable certificates are reported elsewhere.
            return;
        }
        let names: Vec<&str> =
            certificates.iter().flat_map(|(one, _)| one.names.iter().map(|name| &**name)).collect();
        let lacking = wanted.iter().filter(|one| !covers(&names, one));
        let lacking: Vec<_> = lacking.map(|pattern| format!("\"{pattern}\"")).collect();
        if lacking.is_empty() {
            return;
        }
        let shown = lacking.iter().take(NAMES_SHOWN_MAX).map(String::as_str).collect::<Vec<_>>();
        let more = match lacking.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!("no certificate of the service is for {}{more}", shown.join(", "));
        let hint = "clients will refuse what they are shown: add a certificate for each";
        names_key.warn(message, hint);
    }

    /// Reports faults in files of authorities or revocation lists.
    pub(crate) fn pem_files(&self, key: &KeyPlace<'_>, sources: &[PemSource]) {
        let faults = match key.key.name() {
            "ca" | "roots" => verify::examine(sources, &[]),
            "crl" => verify::examine(&[], sources),
            _ => Vec::new(),
        };
        for fault in faults {
            key.error(problem(&fault.to_string()));
        }
    }
}

/// Whether one of a certificate's names covers all hosts of a pattern: a wildcard stands for one
/// label (RFC 9525 section 6.3).
fn covers(names: &[&str], pattern: &NamePattern) -> bool {
    let has = |wanted: &str| names.contains(&wanted);
    match pattern {
        NamePattern::Exact(name) => {
            let parent = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
            has(name) || parent.is_some_and(|wildcard| has(&wildcard))
        }
        NamePattern::Beneath(name) => has(&format!("*.{name}")),
    }
}

/// Makes a problem from a sentence with its remedy after a semicolon, as [`tls`] writes them.
pub fn problem(text: &str) -> Problem {
    match text.split_once("; ") {
        Some((message, hint)) => Problem::new(message).hint(hint),
        None => Problem::new(text),
    }
}
