//! The files that a service's TLS names: certificates with keys and staples, authorities, CRLs.
//!
//! Finds and reads them; whether they hold what they should is judged in `tls`.

use std::io;
use std::path::{Path, PathBuf};

use options::{Problem, Section, Severity, all};
use tls::certificate::pem;
use tls::options::{BadCertificate, CertificateSource, PemSource};

use crate::certificate_folder::{self, FolderContents};
use crate::files::{Files, bundle_of_host};
use crate::inspection::{Inspector, Use, problem};

/// Files, and where relative paths to them begin.
pub(crate) struct Shelf<'f> {
    /// The directory of the configuration file.
    pub(crate) base: PathBuf,
    pub(crate) files: &'f mut dyn Files,
    /// Who wants to know what is in them, while their keys are at hand.
    pub(crate) inspector: Option<&'f Inspector>,
    /// Certificates that cannot be read, while those may be left out; `None` = they are errors.
    pub(crate) skipped: Option<Vec<String>>,
}

/// All certificates of a front, in the order written, and what is wrong with those that are left
/// out because they cannot be read.
pub(crate) fn certificates(
    tls: &Section<'_>,
    bad: BadCertificate,
    shelf: &mut Shelf<'_>,
) -> Option<(Vec<CertificateSource>, Vec<String>)> {
    shelf.skipped = (bad == BadCertificate::Skip).then(Vec::new);
    let entries = tls.sections("certificates");
    let read: Vec<_> = entries
        .iter()
        .map(|entry| certificate(entry, shelf))
        .collect();
    let skipped = shelf.skipped.take();
    let certificates: Vec<_> = match &skipped {
        Some(_) => read.into_iter().flatten().flatten().collect(),
        None => all(read.into_iter())?.into_iter().flatten().collect(),
    };
    let skipped = skipped.unwrap_or_default();
    if certificates.is_empty() {
        for text in &skipped {
            tls.error("certificates", problem(text));
        }
        return None;
    }
    Some((certificates, skipped))
}

/// PEM files that a list of paths names.
pub(crate) fn pem_files(
    section: &Section<'_>,
    name: &str,
    shelf: &mut Shelf<'_>,
) -> Option<Vec<PemSource>> {
    let mut sources = Vec::new();
    for path in section.texts(name)? {
        let path = shelf.base.join(path);
        let pem = shelf.read(section, name, &path)?;
        sources.push(PemSource {
            place: path.display().to_string(),
            pem,
        });
    }
    if let Some(inspector) = shelf.inspector {
        inspector.pem_files(section, name, &sources);
    }
    Some(sources)
}

/// Those of `ca`, or else of this host.
pub(crate) fn authorities(tls: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<Vec<PemSource>> {
    if tls.has("ca") {
        pem_files(tls, "ca", shelf)
    } else {
        host_bundle(tls, shelf).map(|bundle| vec![bundle])
    }
}

/// The authorities that this host trusts.
fn host_bundle(tls: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<PemSource> {
    let found = bundle_of_host(shelf.files);
    let found = found.map(|(place, pem)| PemSource { place, pem });
    if found.is_none() {
        let problem = Problem::new("names no authorities, and this host has no bundle of them");
        let hint = "write the authorities of the servers, or install ca-certificates";
        tls.error("ca", problem.hint(hint));
    }
    found
}

fn certificate(entry: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<Vec<CertificateSource>> {
    let typed = entry.text("chain");
    let key = entry.has("key").then(|| entry.text("key"));
    let ocsp = entry.has("ocsp").then(|| entry.text("ocsp"));
    let chain = shelf.base.join(typed?);
    if shelf.is_directory(&chain) {
        if key.is_some() || ocsp.is_some() {
            let problem = Problem::new(format!("{} is a directory", chain.display()));
            entry.error("chain", problem.hint("a key or staple belongs to one file"));
            return None;
        }
        return directory(entry, &chain, shelf);
    }
    let key = match key {
        Some(path) => Some(shelf.base.join(path?)),
        None => certificate_folder::key_beside(shelf.files, &chain),
    };
    let ocsp = match ocsp {
        Some(path) => Staple::At(shelf.base.join(path?)),
        None => Staple::IfThere(chain.with_extension("ocsp")),
    };
    let found = Found { chain, key, ocsp };
    found.read(entry, shelf).map(|source| vec![source])
}

/// The files of one certificate.
struct Found {
    chain: PathBuf,
    key: Option<PathBuf>,
    ocsp: Staple,
}

enum Staple {
    At(PathBuf),
    IfThere(PathBuf),
    Nowhere,
}

impl Found {
    fn read(self, entry: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<CertificateSource> {
        let chain_pem = shelf.read(entry, "chain", &self.chain);
        let key_pem = self.key.as_ref();
        let key_pem = key_pem.map(|path| shelf.read(entry, "key", path));
        let ocsp_der = match &self.ocsp {
            Staple::At(path) => Some(shelf.read(entry, "ocsp", path)),
            Staple::IfThere(path) => match shelf.files.read(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => Some(shelf.unreadable(entry, "ocsp", path, &error)),
                Ok(bytes) => Some(Some(bytes)),
            },
            Staple::Nowhere => None,
        };
        let source = CertificateSource {
            place: self.chain.display().to_string(),
            chain_pem: chain_pem?,
            key_pem: option(key_pem)?,
            key_place: self.key.as_ref().map(|path| path.display().to_string()),
            ocsp_der: option(ocsp_der)?,
        };
        let key = if entry.has("key") { "key" } else { "chain" };
        if holds_key(&source) {
            shelf.is_private(entry, key, self.key.as_ref().unwrap_or(&self.chain));
        }
        if let Some(inspector) = shelf.inspector {
            let severity = match shelf.skipped {
                Some(_) => Severity::Warning,
                None => Severity::Error,
            };
            inspector.certificate(entry, "chain", &source, (Use::Shown, severity));
        }
        Some(source)
    }
}

/// Whether a private key comes with it. That there is none where one should be is an error anyway.
pub(crate) fn holds_key(source: &CertificateSource) -> bool {
    source.key_pem.is_some() || pem::holds_key(&source.chain_pem)
}

/// Asked for and read, or not asked for; `None` only for what was asked for and failed.
#[allow(
    clippy::option_option,
    reason = "two kinds of absence meet here and are told apart"
)]
fn option<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        Some(read) => read.map(Some),
        None => Some(None),
    }
}

fn directory(
    entry: &Section<'_>,
    path: &Path,
    shelf: &mut Shelf<'_>,
) -> Option<Vec<CertificateSource>> {
    let folder = match certificate_folder::look_through(shelf.files, path) {
        Ok(folder) => folder,
        Err(error) => return shelf.unreadable(entry, "chain", path, &error),
    };
    if folder.found.is_empty() && folder.keyless.is_empty() {
        let problem = Problem::new(format!("{} holds no certificate", path.display()));
        let hint = "put x.pem with its key, or x.crt and x.key, into it";
        entry.error("chain", problem.hint(hint));
        return None;
    }
    for keyless in &folder.keyless {
        let problem = format!(
            "{} is passed over: its key is not beside it",
            keyless.display()
        );
        let hint = "put the key there, or move the certificate elsewhere";
        let severity = if folder.found.is_empty() {
            Severity::Error
        } else {
            Severity::Warning
        };
        entry.say(severity, "chain", Problem::new(problem).hint(hint));
    }
    if shelf.inspector.is_some() {
        passed_over(entry, path, &folder);
    }
    if folder.found.is_empty() {
        return None;
    }
    let read = folder.found.into_iter().map(|one| {
        let found = Found {
            chain: one.chain,
            key: one.key,
            ocsp: one.ocsp.map_or(Staple::Nowhere, Staple::At),
        };
        found.read(entry, shelf)
    });
    let read: Vec<_> = read.collect();
    if shelf.skipped.is_some() {
        return Some(read.into_iter().flatten().collect());
    }
    all(read.into_iter())
}

/// The most names in the note about files of no use.
const PASSED_OVER_MAX: usize = 8;

/// Notes what of a folder is no part of a certificate that is served.
fn passed_over(entry: &Section<'_>, path: &Path, folder: &FolderContents) {
    let others = folder.passed_over.iter();
    let others: Vec<_> = others.filter(|one| !folder.keyless.contains(one)).collect();
    let shown = others.iter().take(PASSED_OVER_MAX);
    let name = |one: &&PathBuf| one.strip_prefix(path).unwrap_or(one).display().to_string();
    let mut names = shown.map(name).collect::<Vec<_>>().join(", ");
    match others.len().checked_sub(PASSED_OVER_MAX) {
        _ if others.is_empty() => return,
        Some(more @ 1..) => names = format!("{names} and {more} more"),
        _ => {}
    }
    let problem = format!("of {} are passed over: {names}", path.display());
    entry.say(Severity::Note, "chain", Problem::new(problem));
}

impl Shelf<'_> {
    fn is_directory(&mut self, path: &Path) -> bool {
        let read = self.files.read(path);
        matches!(read, Err(error) if error.kind() == io::ErrorKind::IsADirectory)
    }

    /// Sees whether a file that holds a secret is kept from other users, if somebody wants to know.
    pub(crate) fn is_private(&mut self, section: &Section<'_>, name: &str, path: &Path) {
        if self.inspector.is_some() && self.files.is_open_to_all(path) {
            let problem = format!("{} can be read by every user of this host", path.display());
            let hint = "`chmod 600` keeps it from them, and then replace it: it may be known";
            section.warn(name, Problem::new(problem).hint(hint));
        }
    }

    /// A file's bytes; reports why there are none.
    pub(crate) fn read(
        &mut self,
        section: &Section<'_>,
        name: &str,
        path: &Path,
    ) -> Option<Vec<u8>> {
        match self.files.read(path) {
            Ok(bytes) => Some(bytes),
            Err(error) => self.unreadable(section, name, path, &error),
        }
    }

    /// Reports that a file cannot be read, as an error unless it may be left out.
    fn unreadable<T>(
        &mut self,
        section: &Section<'_>,
        name: &str,
        path: &Path,
        error: &io::Error,
    ) -> Option<T> {
        let problem = format!("cannot read {}: {error}", path.display());
        let told = Problem::new(problem.as_str()).hint(hint_of_unreadable(error));
        match &mut self.skipped {
            Some(skipped) => {
                section.warn(name, told);
                skipped.push(problem);
            }
            None => section.error(name, told),
        }
        None
    }
}

fn hint_of_unreadable(error: &io::Error) -> &'static str {
    match error.kind() {
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
