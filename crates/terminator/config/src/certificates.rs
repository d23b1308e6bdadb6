//! The files that a service's TLS names: certificates with keys and staples, authorities, CRLs.
//!
//! Finds and reads them; whether they hold what they should is judged in `tls`.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use options::{Problem, Section, all};
use tls::certificate::pem;
use tls::options::{CertificateSource, PemSource};

use crate::files::Files;
use crate::inspection::{Inspector, Use};

/// Files, and where relative paths to them begin.
pub(crate) struct Shelf<'f> {
    /// The directory of the configuration file.
    pub(crate) base: PathBuf,
    /// Who opens them.
    pub(crate) files: &'f mut dyn Files,
    /// Who wants to know what is in them, while their keys are at hand.
    pub(crate) inspector: Option<&'f Inspector>,
}

/// All certificates of a front, in the order written.
pub(crate) fn certificates(
    tls: &Section<'_>,
    shelf: &mut Shelf<'_>,
) -> Option<Vec<CertificateSource>> {
    let entries = tls.sections("certificates");
    let read = all(entries.iter().map(|entry| certificate(entry, shelf)))?;
    let certificates: Vec<_> = read.into_iter().flatten().collect();
    (!certificates.is_empty()).then_some(certificates)
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
    let found = Found {
        key: match key {
            Some(path) => Some(shelf.base.join(path?)),
            None => None,
        },
        ocsp: match ocsp {
            Some(path) => Staple::At(shelf.base.join(path?)),
            None => Staple::IfThere(chain.with_extension("ocsp")),
        },
        chain,
    };
    found.read(entry, shelf).map(|source| vec![source])
}

/// The files of one certificate.
struct Found {
    chain: PathBuf,
    key: Option<PathBuf>,
    ocsp: Staple,
}

/// Where an OCSP response is.
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
                Err(error) => Some(unreadable(entry, "ocsp", path, &error)),
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
            inspector.certificate(entry, "chain", &source, Use::Shown);
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
    let listed = match shelf.files.list(path) {
        Ok(listed) => listed,
        Err(error) => return unreadable(entry, "chain", path, &error),
    };
    let found = sorted_out(&listed);
    if found.is_empty() {
        let problem = Problem::new(format!("{} holds no certificate", path.display()));
        entry.error(
            "chain",
            problem.hint("put x.pem, or x.crt and x.key, into it"),
        );
        return None;
    }
    all(found.into_iter().map(|one| one.read(entry, shelf)))
}

/// Which files of a directory belong together.
fn sorted_out(listed: &[PathBuf]) -> Vec<Found> {
    let names: BTreeSet<&Path> = listed.iter().map(PathBuf::as_path).collect();
    let beside = |path: &Path, ending: &str| {
        let other = path.with_extension(ending);
        names.contains(other.as_path()).then_some(other)
    };
    let staple = |path: &Path| beside(path, "ocsp").map_or(Staple::Nowhere, Staple::At);
    if let Some(found) = certbot(&names) {
        return vec![found];
    }
    let is_kubernetes = ["tls.crt", "tls.key"].map(|name| named(&names, name).is_some());
    let is_beside = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| BESIDE_TLS_CRT.contains(&name))
    };
    let chains = listed.iter().filter(|path| is_chain(path));
    chains
        .filter(|path| is_kubernetes != [true, true] || !is_beside(path))
        .map(|path| Found {
            chain: path.clone(),
            key: beside(path, "key"),
            ocsp: staple(path),
        })
        .collect()
}

fn is_chain(path: &Path) -> bool {
    let hidden = path
        .file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden
        && path
            .extension()
            .is_some_and(|ending| ending == "pem" || ending == "crt")
}

/// What a Secret of the type `kubernetes.io/tls` holds beside `tls.crt` and `tls.key`: the
/// authority that issued it, and chain and key once more (cert-manager).
const BESIDE_TLS_CRT: [&str; 2] = ["ca.crt", "tls-combined.pem"];

fn named(names: &BTreeSet<&Path>, wanted: &str) -> Option<PathBuf> {
    let mut all = names.iter();
    let found = all.find(|path| path.file_name().is_some_and(|name| name == wanted));
    found.map(|path| path.to_path_buf())
}

/// certbot's `live/NAME`: four files for one certificate.
fn certbot(names: &BTreeSet<&Path>) -> Option<Found> {
    let named = |wanted: &str| named(names, wanted);
    Some(Found {
        chain: named("fullchain.pem")?,
        key: Some(named("privkey.pem")?),
        ocsp: named("fullchain.ocsp").map_or(Staple::Nowhere, Staple::At),
    })
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
            Err(error) => unreadable(section, name, path, &error),
        }
    }
}

fn unreadable<T>(section: &Section<'_>, name: &str, path: &Path, error: &io::Error) -> Option<T> {
    let hint = match error.kind() {
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
    };
    let problem = Problem::new(format!("cannot read {}: {error}", path.display())).hint(hint);
    section.error(name, problem);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chains(names: &[&str]) -> Vec<(String, bool, bool)> {
        let listed: Vec<_> = names.iter().map(PathBuf::from).collect();
        let show = |found: Found| {
            let stapled = matches!(found.ocsp, Staple::At(_));
            (
                found.chain.display().to_string(),
                found.key.is_some(),
                stapled,
            )
        };
        sorted_out(&listed).into_iter().map(show).collect()
    }

    #[test]
    fn pem_alone_and_crt_with_key() {
        let found = chains(&[
            "d/.x.pem", "d/a.ocsp", "d/a.pem", "d/b.crt", "d/b.key", "d/README",
        ]);
        let a = ("d/a.pem".to_owned(), false, true);
        let b = ("d/b.crt".to_owned(), true, false);
        assert_eq!(found, [a, b]);
    }

    #[test]
    fn a_folder_of_a_kubernetes_secret_holds_one_certificate() {
        let secret = ["d/ca.crt", "d/tls-combined.pem", "d/tls.crt", "d/tls.key"];
        let tls = ("d/tls.crt".to_owned(), true, false);
        assert_eq!(chains(&secret), std::slice::from_ref(&tls));
        // Beside others it is still what it is, and another's ca.crt is a certificate.
        let other = ("d/web.pem".to_owned(), false, false);
        let mixed = ["d/ca.crt", "d/tls.crt", "d/tls.key", "d/web.pem"];
        assert_eq!(chains(&mixed), [tls, other]);
        let ca = ("d/ca.crt".to_owned(), true, false);
        assert_eq!(chains(&["d/ca.crt", "d/ca.key"]), [ca]);
    }

    #[test]
    fn a_directory_of_certbot_is_one_certificate() {
        let found = chains(&[
            "d/cert.pem",
            "d/chain.pem",
            "d/fullchain.pem",
            "d/privkey.pem",
        ]);
        assert_eq!(found, [("d/fullchain.pem".to_owned(), true, false)]);
    }
}
