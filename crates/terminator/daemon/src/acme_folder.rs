//! The folder of certificates obtained by ACME: accounts, the state of orders, and certificates
//! with their keys. Only the process that touches files opens this folder.
//!
//! Handles the paths inside the folder, keeps them private, and replaces a file whole: the new file
//! is on the disk then, or the old one stays. The contents of files are the caller's task.

use std::fmt::{self, Write as _};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use acme::messages::ServedCertificate;
use config::{AcmeEntry, AcmeOptions};
use serde::{Deserialize, Serialize};
use sys::process;
use tls::certificate::{Certificate, KeyKind};
use tls::identity::sha256;
use tls::options::CertificateSource;

use crate::acme_hook::Hook;
use crate::handover::Secret;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Subfolders of the ACME folder.
const PARTS: [&str; 3] = ["accounts", "certificates", "state"];

/// Contents of the folder, as far as the configuration uses them.
#[derive(Clone, Default, Deserialize, Serialize)]
pub(crate) struct FoundAcme {
    /// Accounts with their keys, by the URLs of their directories.
    pub(crate) accounts: Vec<(String, String)>,
    /// States of orders, by the names of certificates.
    pub(crate) states: Vec<(String, String)>,
    /// The orders that are under way, by the same names; with their keys.
    #[serde(default)]
    pub(crate) open: Vec<(String, String)>,
    /// Certificates by their names, without their keys.
    pub(crate) certificates: Vec<(String, ServedCertificate)>,
    /// Files not there yet, because the previous program could not store them.
    pub(crate) waiting: Vec<WaitingFile>,
    /// Records that a previous program may have left in the DNS.
    #[serde(default)]
    pub(crate) records: Vec<Hook>,
}

/// A file that waits to be stored.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct WaitingFile {
    pub(crate) path: PathBuf,
    pub(crate) text: Secret,
    /// Certificate that is served once the file is on the disk.
    pub(crate) issued: Option<(String, ServedCertificate)>,
    /// Requests by which the ACME process asked whether the file is on the disk.
    #[serde(skip)]
    pub(crate) asked: Vec<u64>,
}

impl fmt::Debug for FoundAcme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FoundAcme({:?})", self.certificates)
    }
}

/// Reads a file that has the chain before the key of the named kind. `None` if the certificate
/// cannot be served.
pub(crate) fn certificate_of(key: &str, pem: &str) -> Option<ServedCertificate> {
    loaded(key, pem).map(|(_, served)| served)
}

fn loaded(key: &str, pem: &str) -> Option<(Certificate, ServedCertificate)> {
    let source = CertificateSource {
        place: String::new(),
        chain_pem: pem.as_bytes().to_vec(),
        key_pem: None,
        key_place: None,
        ocsp_der: None,
        holder: tls::key_holder::KeyHolder::default(),
    };
    let (certificate, _) = Certificate::load(&source).ok()?;
    let key_line = pem.lines().find(|line| line.ends_with("PRIVATE KEY-----"));
    let (chain, _) = pem.split_once(key_line?)?;
    let served = ServedCertificate {
        key: key.to_owned(),
        chain_pem: chain.to_owned(),
        not_before: certificate.validity.from,
        not_after: certificate.validity.until,
    };
    Some((certificate, served))
}

/// Checks a certificate with its key as received for an entry: it must be for exactly that entry's
/// names, have a key of that kind, and be valid now. The sender may be compromised.
///
/// # Errors
/// Fails with the reason why the certificate is not served.
pub(crate) fn issued(
    entry: &AcmeEntry,
    key: &str,
    pem: &str,
    now: SystemTime,
) -> Result<ServedCertificate, &'static str> {
    let (certificate, served) = loaded(key, pem).ok_or("chain and key do not fit")?;
    let mut names: Vec<&str> = certificate.names.iter().map(|name| &**name).collect();
    let mut domains: Vec<&str> = entry.domains.iter().map(String::as_str).collect();
    for list in [&mut names, &mut domains] {
        list.sort_unstable();
        list.dedup();
    }
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    if names != domains {
        Err("its names are not those of the configuration")
    } else if (certificate.kind == KeyKind::Rsa) != key.starts_with("rsa") {
        Err("its key is of another kind")
    } else if served.not_after <= now || served.not_before > now + CLOCK_SKEW_S {
        Err("it is not valid now")
    } else {
        Ok(served)
    }
}

/// Seconds by which this host's clock may be behind an authority's.
const CLOCK_SKEW_S: i64 = 3600;

/// Returns the path of the account file for an authority.
pub(crate) fn account_file(directory: &str) -> PathBuf {
    let mut name = String::new();
    for byte in sha256(directory.as_bytes()).iter().take(8) {
        // Writing to a `String` cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    Path::new("accounts").join(name + ".json")
}

pub(crate) fn state_file(name: &str) -> PathBuf {
    Path::new("state").join(format!("{name}.json"))
}

/// The file of the order that is under way; empty = there is none.
pub(crate) fn order_file(name: &str) -> PathBuf {
    Path::new("state").join(format!("{name}.order.json"))
}

/// Returns the path of the file that lists records that may be in the DNS.
pub(crate) fn records_file() -> PathBuf {
    Path::new("state").join(".dns-records.json")
}

/// Makes the folder if it is not there, and reads its contents.
///
/// # Errors
/// Fails with a sentence and hint if the folder cannot be made or read, or is open to others.
pub(crate) fn look(options: &AcmeOptions) -> Result<FoundAcme, String> {
    let mut found = FoundAcme::default();
    if options.entries.is_empty() {
        return Ok(found);
    }
    let folder = &options.folder;
    let failed = |error: io::Error| {
        let folder = folder.display();
        format!(
            "acme.folder: cannot use {folder}: {error}\nhint: the supervisor's user must be able \
             to make it, or it must be that user's own"
        )
    };
    for part in std::iter::once("").chain(PARTS) {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(FOLDER_MODE).create(folder.join(part)).map_err(failed)?;
    }
    if let Some((message, hint)) = fault(folder) {
        return Err(format!("acme.folder: {message}\nhint: {hint}"));
    }
    let read = |path: PathBuf| match fs::read(folder.join(&path)) {
        // A damaged file may hold any bytes.
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!(
            "acme.folder: cannot read {}: {error}\n\
             hint: the supervisor's user must be able to; without that file it begins anew",
            folder.join(path).display()
        )),
    };
    let records = read(records_file())?;
    found.records = records.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    for entry in &options.entries {
        let account = read(account_file(&entry.directory))?;
        found.accounts.extend(account.map(|text| (entry.directory.clone(), text)));
        let state = read(state_file(&entry.name))?;
        found.states.extend(state.map(|text| (entry.name.clone(), text)));
        let open = read(order_file(&entry.name))?;
        found.open.extend(open.map(|text| (entry.name.clone(), text)));
        let served = certificates(folder, entry).into_iter();
        found.certificates.extend(served.map(|one| (entry.name.clone(), one)));
    }
    Ok(found)
}

/// Returns the certificates of an entry that exist and can be read and served.
pub(crate) fn certificates(folder: &Path, entry: &AcmeEntry) -> Vec<ServedCertificate> {
    let keys = entry.keys.iter();
    let there = keys.filter_map(|key| {
        let file = folder.join(config::certificate_file(&entry.name, key));
        certificate_of(key, &fs::read_to_string(file).ok()?)
    });
    there.collect()
}

/// Returns a fault of the folder and its remedy; `None` if it is private to its user or absent.
pub(crate) fn fault(folder: &Path) -> Option<(String, &'static str)> {
    let found = fs::metadata(folder).ok()?;
    let (ours, mode, folder) = (process::identity().user, found.mode() & 0o7777, folder.display());
    if !found.is_dir() {
        return Some((format!("{folder} is no directory"), "name another"));
    }
    if found.uid() != ours {
        let message = format!(
            "{folder} belongs to user {}, who could read every key, and we are user {ours}",
            found.uid()
        );
        return Some((message, "`chown` it, or name another"));
    }
    let message = || format!("{folder} has mode {mode:04o}, so that others can look into it");
    (mode & 0o077 != 0).then(|| (message(), "`chmod 700` it, or name another"))
}

/// Stores files, each replacing its predecessor or not at all; they are on the disk afterwards.
///
/// # Errors
/// Fails with a sentence about the first file that could not be stored.
pub(crate) fn store(folder: &Path, files: &[(PathBuf, Secret)]) -> Result<(), String> {
    let one = |(path, bytes): &(PathBuf, Secret)| {
        let path = folder.join(path);
        put(&path, bytes.bytes())
            .map_err(|error| format!("cannot store {}: {error}", path.display()))
    };
    files.iter().try_for_each(one)
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let new = path.with_file_name(format!(".{}.new", name.to_string_lossy()));
    // A killed process may have left the file.
    let _ = fs::remove_file(&new);
    let written = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&new);
    let written = written.and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&new);
        return written;
    }
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use testkit::authority::Authority;
    use testkit::directory::Directory;

    #[test]
    fn what_cannot_be_stored_leaves_what_was_there() {
        let directory = Directory::new();
        let folder = directory.join("");
        let of = |text: &str| vec![(PathBuf::from("x"), Secret::new(text.as_bytes().to_vec()))];
        store(&folder, &of("first")).unwrap();
        let mode = fs::metadata(folder.join("x")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, FILE_MODE);
        fs::create_dir(folder.join(".x.new")).unwrap();
        let said = store(&folder, &of("second")).unwrap_err();
        assert!(said.starts_with("cannot store "), "{said}");
        assert_eq!(fs::read_to_string(folder.join("x")).unwrap(), "first");
        fs::remove_dir(folder.join(".x.new")).unwrap();
        // A process killed in the middle of a write left this file.
        fs::write(folder.join(".x.new"), "half").unwrap();
        store(&folder, &of("second")).unwrap();
        assert_eq!(fs::read_to_string(folder.join("x")).unwrap(), "second");
    }

    #[test]
    fn only_what_was_asked_for_is_served() {
        let entry = AcmeEntry {
            name: "a".to_owned(),
            service: String::new(),
            domains: ["a.example", "*.b.example"].map(str::to_owned).to_vec(),
            contact: Vec::new(),
            directory: String::new(),
            roots: Vec::new(),
            profile: None,
            keys: Vec::new(),
            challenge: config::AcmeChallenge::TlsAlpn,
            eab: None,
        };
        let authority = Authority::root("root");
        let now = SystemTime::now();
        let ours = &["*.b.example", "a.example"][..];
        for (names, key, is_expired, why) in [
            (ours, "ecdsa-p256", false, None),
            (&ours[..1], "ecdsa-p256", false, Some("names")),
            (&["a.example", "*.b.example", "bank.example"], "ecdsa-p256", false, Some("names")),
            (ours, "rsa-2048", false, Some("another kind")),
            (ours, "ecdsa-p256", true, Some("not valid now")),
        ] {
            let leaf = authority.leaf(names);
            let leaf = if is_expired { leaf.expired() } else { leaf }.issue();
            let found = issued(&entry, key, &leaf.pem(), now).err();
            let fits = found.is_some_and(|found| why.is_some_and(|why| found.contains(why)));
            assert!(fits || found.is_none() && why.is_none(), "{names:?}: {found:?}");
        }
        let [one, other] = [0; 2].map(|_| authority.leaf(ours).issue());
        let mixed = one.certificate_pem().to_owned() + other.key_pem();
        assert!(issued(&entry, "ecdsa-p256", &mixed, now).unwrap_err().contains("do not fit"));
    }

    #[test]
    fn a_folder_that_others_can_open_is_refused() {
        let directory = Directory::new();
        let folder = directory.join("acme");
        assert_eq!(fault(&folder), None);
        DirBuilder::new().mode(0o700).create(&folder).unwrap();
        assert_eq!(fault(&folder), None);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(fault(&folder).unwrap().0.contains("mode 0750"));
        fs::write(directory.join("file"), "").unwrap();
        assert!(fault(&directory.join("file")).unwrap().0.contains("is no directory"));
    }
}
