//! Finds and reads the certificates of a front, with keys and staples, each in files or in a
//! folder; `tls` checks their contents.
//!
//! Passphrases, wherever they are written, decrypt the keys; for a key in a token, a URI replaces
//! the file. The process that reads the configuration decrypts the keys: the worker process gets
//! them decrypted, and never a passphrase. No token is opened here, and no PIN read: the
//! certificate has the key's public half, and a process of the daemon tries the key.

use std::io;
use std::path::{Path, PathBuf};

use options::row::{path, row};
use options::{
    Field, Key, KeyPlace, Kind, Problem, Severity, Tables, Value, all, choice, section, table,
};
use tls::certificate::{key, pem};
use tls::key_holder::KeyHolder;
use tls::options::{BadCertificate, CertificateSource, Placeholder};
use tls::signing::reference_to_leaf;
use wire::pkcs11_uri::{Pkcs11Uri, Pkcs11UriFault, SCHEME};
use zeroize::Zeroizing;

use crate::certificate_folder::{self, FolderContents};
use crate::resolver::{FileResolver, PemUse, optional, problem};
use crate::settings::{PinOrigin, TokenKey};

section! {
    table("service.front.tls.certificates")
        .many().shorthand("chain").flag("certificate").absent("no TLS is terminated")
        .example(r#"certificates = ["certs/", { chain = "a.crt", key = "a.key" }]"#);
    /// Certificates with their keys: PEM files with both, tables that name them apart, or
    /// directories (docs/guide/reload.md). The server name chooses; of two for one name, clients
    /// that verify ECDSA get that one. Flags of the keys beneath follow their `--certificate`.
    pub(crate) struct WrittenCertificate<'a> {
        /// The certificate chain as PEM, leaf first.
        chain: String = path().example(r#"chain = "site.crt""#),
        /// The private key: PEM, also encrypted (PKCS #8), or the URI of a key in a token
        /// (`pkcs11:`; docs/guide/keys.md).
        key: Option<String> = path()
            .absent("it is in the chain's file, or beside it under a usual name (`x.key`, \
             `privkey.pem`, `../private/x.key`)")
            .flag("key").example(r#"key = "site.key""#),
        /// A file whose first line is the key's passphrase, or the token's PIN.
        key_passphrase_file: Option<String> = path()
            .absent("keys are not encrypted").flag("key-passphrase-file")
            .example(r#"key-passphrase-file = "/run/lariat/site.passphrase""#),
        /// A program with arguments that prints the passphrase. Start, reload and check run it with
        /// lariat's rights, for 5 s at most.
        key_passphrase_command: Vec<String> = row(Kind::Text("PROGRAM"), word)
            .many().absent("none is run").flag("key-passphrase-command")
            .example(r#"key-passphrase-command = ["/usr/bin/systemd-creds", "cat", "site-key"]"#),
        /// A DER-encoded OCSP response to staple.
        ocsp: Option<String> = path()
            .absent("the chain's path with the ending `.ocsp`, if there is such a file")
            .flag("ocsp").example(r#"ocsp = "site.ocsp""#),
        /// Without the file of `chain`, `refuse` acts as `bad-certificate`; with `self-signed` the
        /// service starts, and clients get another certificate or a self-signed one.
        on_missing: bool = choice!["refuse" => false, "self-signed" => true]
            .default("refuse").flag("on-missing-certificate")
            .example(r#"on-missing = "self-signed""#),
    }
}

/// The certificates of a front.
#[derive(Default)]
pub(crate) struct OwnCertificates {
    /// Certificates in the order written.
    pub(crate) certificates: Vec<CertificateSource>,
    /// Errors of certificates that are left out because they cannot be read.
    pub(crate) skipped: Vec<String>,
    /// Placeholder that is served if there are no certificates.
    pub(crate) placeholder: Option<Placeholder>,
}

/// Reads all certificates of a front that are in files.
pub(crate) fn certificates(
    written: &Tables<'_, WrittenCertificate<'_>>,
    bad: BadCertificate,
    resolver: &mut FileResolver<'_>,
) -> Option<OwnCertificates> {
    let mut missing = Vec::new();
    resolver.skipped = (bad == BadCertificate::Skip).then(Vec::new);
    let entries = written.required().iter().filter(|entry| match missing_file(entry, resolver) {
        Some(why) => {
            missing.push(why);
            false
        }
        None => true,
    });
    let entries: Vec<_> = entries.collect();
    let read: Vec<_> = entries.into_iter().map(|entry| certificate(entry, resolver)).collect();
    let skipped = resolver.skipped.take();
    let certificates: Vec<_> = match &skipped {
        Some(_) => read.into_iter().flatten().flatten().collect(),
        None => all(read.into_iter())?.into_iter().flatten().collect(),
    };
    let mut skipped = skipped.unwrap_or_default();
    if certificates.is_empty() && missing.is_empty() {
        for text in &skipped {
            written.error(problem(text));
        }
        return None;
    }
    let placeholder = certificates.is_empty().then(|| missing.pop()).flatten();
    skipped.extend(missing);
    let placeholder = placeholder.map(|why| Placeholder { names: Vec::new(), why });
    Some(OwnCertificates { certificates, skipped, placeholder })
}

/// Says that an entry's file is not there, if the service is to start without it.
fn missing_file(entry: &WrittenCertificate<'_>, resolver: &mut FileResolver<'_>) -> Option<String> {
    if entry.on_missing.value != Some(true) {
        return None;
    }
    let path = resolver.base.join(entry.chain.value.as_deref()?);
    let error = resolver.files.read(&path).err()?;
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    is_missing.then(|| format!("there is no {}", path.display()))
}

fn certificate(
    entry: &WrittenCertificate<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<Vec<CertificateSource>> {
    let chain = resolver.base.join(entry.chain.value.as_deref()?);
    if resolver.is_directory(&chain) {
        if entry.key.is_written() || entry.ocsp.is_written() {
            let message = format!("{} is a directory", chain.display());
            return entry.chain.fail(message, "a key or staple belongs to one file");
        }
        return directory(entry, &chain, resolver);
    }
    let key = match entry.key.value.as_ref()? {
        Some(uri) if is_in_token(uri) => {
            return in_token(entry, &chain, uri, resolver).map(|source| vec![source]);
        }
        Some(path) => Some(resolver.base.join(path)),
        None => certificate_folder::key_beside(resolver.files, &chain),
    };
    let ocsp = staple_file(entry, &chain, resolver)?;
    let pair = PairFiles { chain, key, ocsp };
    pair.read(entry, &mut passphrase_of(entry)?, resolver).map(|source| vec![source])
}

fn staple_file(
    entry: &WrittenCertificate<'_>,
    chain: &Path,
    resolver: &FileResolver<'_>,
) -> Option<StapleFile> {
    Some(match entry.ocsp.value.as_ref()? {
        Some(path) => StapleFile::At(resolver.base.join(path)),
        None => StapleFile::IfThere(chain.with_extension("ocsp")),
    })
}

/// Reads a certificate whose key is in a token.
fn in_token(
    entry: &WrittenCertificate<'_>,
    chain: &Path,
    uri: &str,
    resolver: &mut FileResolver<'_>,
) -> Option<CertificateSource> {
    let ocsp = staple_file(entry, chain, resolver)?;
    let chain_pem = resolver.read(&entry.chain, chain)?;
    let pin_keys = (&entry.key_passphrase_file, &entry.key_passphrase_command);
    let place = chain.display().to_string();
    let reference =
        note_token_key(&entry.key, uri, (&place, &chain_pem), pin_keys, false, resolver)?;
    let source = CertificateSource {
        place,
        chain_pem,
        key_pem: Some(reference),
        key_place: Some(shown(uri)),
        ocsp_der: ocsp.read(entry, resolver)?,
        holder: KeyHolder::default(),
    };
    inspect(entry, &source, resolver);
    Some(source)
}

fn inspect(
    entry: &WrittenCertificate<'_>,
    source: &CertificateSource,
    resolver: &FileResolver<'_>,
) {
    if let Some(inspector) = resolver.inspector {
        let severity = match resolver.skipped {
            Some(_) => Severity::Warning,
            None => Severity::Error,
        };
        let key = entry.key.is_written().then_some(&*entry.key);
        inspector.certificate((&entry.chain, key), source, (PemUse::Shown, severity));
    }
}

fn passphrase_of<'w, 'a>(entry: &'w WrittenCertificate<'a>) -> Option<Passphrase<'w, 'a>> {
    Passphrase::new(&entry.key_passphrase_file, &entry.key_passphrase_command)
}

/// Reads a word of a command.
pub(crate) fn word(value: &Value, _: &Key) -> Result<String, Problem> {
    options::as_text(value).map(str::to_owned)
}

/// The files of one certificate.
struct PairFiles {
    chain: PathBuf,
    key: Option<PathBuf>,
    ocsp: StapleFile,
}

enum StapleFile {
    At(PathBuf),
    IfThere(PathBuf),
    Nowhere,
}

impl StapleFile {
    fn read(
        &self,
        entry: &WrittenCertificate<'_>,
        resolver: &mut FileResolver<'_>,
    ) -> Option<Option<Vec<u8>>> {
        optional(match self {
            Self::At(path) => Some(resolver.read(&entry.ocsp, path)),
            Self::IfThere(path) => match resolver.files.read(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => Some(resolver.unreadable(&entry.ocsp, path, &error)),
                Ok(bytes) => Some(Some(bytes)),
            },
            Self::Nowhere => None,
        })
    }
}

impl PairFiles {
    fn read(
        self,
        entry: &WrittenCertificate<'_>,
        passphrase: &mut Passphrase<'_, '_>,
        resolver: &mut FileResolver<'_>,
    ) -> Option<CertificateSource> {
        let chain_pem = resolver.read(&entry.chain, &self.chain);
        let chain_pem = chain_pem.and_then(|pem| match &self.key {
            None => passphrase.open(&self.chain, pem, resolver),
            Some(_) => Some(pem),
        });
        let key_pem = self.key.as_ref().map(|path| {
            let pem = resolver.read(&entry.key, path)?;
            passphrase.open(path, pem, resolver)
        });
        let ocsp_der = self.ocsp.read(entry, resolver);
        let source = CertificateSource {
            place: self.chain.display().to_string(),
            chain_pem: chain_pem?,
            key_pem: optional(key_pem)?,
            key_place: self.key.as_ref().map(|path| path.display().to_string()),
            ocsp_der: ocsp_der?,
            holder: KeyHolder::default(),
        };
        if holds_key(&source) {
            let place = if entry.key.is_written() { &*entry.key } else { &*entry.chain };
            resolver.is_private(place, self.key.as_ref().unwrap_or(&self.chain));
        }
        inspect(entry, &source, resolver);
        Some(source)
    }
}

/// Whether a private key is where it should be. A missing one is an error anyway.
pub(crate) fn holds_key(source: &CertificateSource) -> bool {
    pem::holds_key(source.key_pem.as_ref().unwrap_or(&source.chain_pem))
}

fn directory(
    entry: &WrittenCertificate<'_>,
    path: &Path,
    resolver: &mut FileResolver<'_>,
) -> Option<Vec<CertificateSource>> {
    let folder = match certificate_folder::look_through(resolver.files, path) {
        Ok(folder) => folder,
        Err(error) => return resolver.unreadable(&entry.chain, path, &error),
    };
    if [&folder.keyless, &folder.unfit].iter().all(|left| left.is_empty())
        && folder.found.is_empty()
    {
        let hint = "put x.pem with its key, or x.crt and x.key, into it";
        let message = format!("{} holds no certificate", path.display());
        return entry.chain.fail(message, hint);
    }
    let severity = if folder.found.is_empty() { Severity::Error } else { Severity::Warning };
    let why = "its key is not in the folder";
    let hint = "put the key there, name both (`{ chain = \"x.crt\", key = \"keys/x.key\" }`), or \
        name the folder that the folders of both are in";
    let keyless = folder.keyless.iter().map(|path| (path, why, hint));
    let why = "it is an authority's or a client's, by its usage or its name";
    let hint = "move it elsewhere; if clients are to get it, name its file instead of the folder";
    let unfit = folder.unfit.iter().map(|path| (path, why, hint));
    for (path, why, hint) in keyless.chain(unfit) {
        let problem = Problem::new(format!("{} is passed over: {why}", path.display()));
        entry.chain.say(severity, problem.hint(hint));
    }
    if resolver.inspector.is_some() {
        passed_over(entry, path, &folder);
    }
    if folder.found.is_empty() {
        return None;
    }
    let mut passphrase = passphrase_of(entry)?;
    let read = folder.found.into_iter().map(|one| {
        let pair = PairFiles {
            chain: one.chain,
            key: one.key,
            ocsp: one.ocsp.map_or(StapleFile::Nowhere, StapleFile::At),
        };
        pair.read(entry, &mut passphrase, resolver)
    });
    let read: Vec<_> = read.collect();
    if resolver.skipped.is_some() {
        return Some(read.into_iter().flatten().collect());
    }
    all(read.into_iter())
}

/// Most names in the note about useless files.
const PASSED_OVER_MAX: usize = 8;

/// Notes the files of a folder that are no part of a served certificate.
fn passed_over(entry: &WrittenCertificate<'_>, path: &Path, folder: &FolderContents) {
    let others = folder.passed_over.iter();
    let is_said = |one: &PathBuf| folder.keyless.contains(one) || folder.unfit.contains(one);
    let others: Vec<_> = others.filter(|one| !is_said(one)).collect();
    let shown = others.iter().take(PASSED_OVER_MAX);
    let name = |one: &&PathBuf| one.strip_prefix(path).unwrap_or(one).display().to_string();
    let mut names = shown.map(name).collect::<Vec<_>>().join(", ");
    match others.len().checked_sub(PASSED_OVER_MAX) {
        _ if others.is_empty() => return,
        Some(more @ 1..) => names = format!("{names} and {more} more"),
        _ => {}
    }
    let problem = format!("in {} no certificate needs {names}", path.display());
    entry.chain.say(Severity::Note, Problem::new(problem));
}

/// Passphrase of a certificate's keys, read when the first of them needs it.
pub(crate) struct Passphrase<'w, 'a> {
    file: &'w Field<'a, Option<String>>,
    command: &'w Field<'a, Vec<String>>,
    read: Option<Zeroizing<Vec<u8>>>,
}

impl<'w, 'a> Passphrase<'w, 'a> {
    pub(crate) fn new(
        file: &'w Field<'a, Option<String>>,
        command: &'w Field<'a, Vec<String>>,
    ) -> Option<Self> {
        if file.is_written() && command.is_written() {
            return command
                .fail("stands beside a file with the passphrase", "take one of them out");
        }
        (file.value.is_some() && command.value.is_some()).then_some(Self {
            file,
            command,
            read: None,
        })
    }

    /// Returns a file's text, with encrypted keys decrypted if a passphrase is named.
    pub(crate) fn open(
        &mut self,
        path: &Path,
        pem: Vec<u8>,
        resolver: &mut FileResolver<'_>,
    ) -> Option<Vec<u8>> {
        let is_named = self.file.is_written() || self.command.is_written();
        if !is_named || !key::is_encrypted(&pem) {
            return Some(pem);
        }
        let passphrase = match self.read.take() {
            Some(passphrase) => passphrase,
            None => self.read_from(resolver)?,
        };
        let opened = key::decrypt(&pem, &passphrase);
        self.read = Some(passphrase);
        match opened {
            Ok(opened) => {
                resolver.files.replace(path, &opened);
                Some(opened)
            }
            Err(fault) => {
                let place = path.display().to_string();
                let message = format!("the key in {place} {fault}");
                resolver.fault(self.place(), &message, &fault.remedy(&place))
            }
        }
    }

    fn place(&self) -> &KeyPlace<'a> {
        if self.file.is_written() { self.file } else { self.command }
    }

    fn read_from(&self, resolver: &mut FileResolver<'_>) -> Option<Zeroizing<Vec<u8>>> {
        let (mut passphrase, origin) = match self.file.value.as_ref()? {
            Some(path) => {
                let (path, bytes) = resolver.secret(self.file, path)?;
                resolver.files.forget(&path);
                (bytes, path.display().to_string())
            }
            None => {
                let mut words = self.command.value.clone()?;
                let program = words.first_mut()?;
                *program = resolver.base.join(&*program).display().to_string();
                let program = program.clone();
                match resolver.outputs.of(&words, resolver.files) {
                    Ok(output) => (output, program),
                    Err(error) => {
                        let message = format!("cannot have {program} write a passphrase: {error}");
                        let hint = "run it as the user that starts lariat, and see what it writes";
                        return resolver.fault(self.command, &message, hint);
                    }
                }
            }
        };
        // Only the first line counts, as in OpenSSL.
        let end = passphrase.iter().position(|byte| b"\r\n".contains(byte));
        let bytes = end.unwrap_or(passphrase.len());
        passphrase.truncate(bytes);
        if passphrase.is_empty() {
            let message = format!("{origin} gives an empty passphrase");
            return resolver.fault(self.place(), &message, "its first line is the passphrase");
        }
        Some(passphrase)
    }
}

/// Whether a key is in a token.
pub(crate) fn is_in_token(place: &str) -> bool {
    let scheme = place.get(..SCHEME.len());
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
}

/// Keys of the PIN's origin: those of a passphrase.
type PinKeys<'k, 'a> = (&'k Field<'a, Option<String>>, &'k Field<'a, Vec<String>>);

/// Returns the URI without its query, for messages.
pub(crate) fn shown(uri: &str) -> String {
    uri.split('?').next().unwrap_or_default().to_owned()
}

/// Records a key in a token, and returns the reference that stands for it. `signs_to_servers`:
/// Lariat is the client that presents the certificate.
pub(crate) fn note_token_key(
    key: &Field<'_, Option<String>>,
    uri: &str,
    (chain, chain_pem): (&str, &[u8]),
    pin_keys: PinKeys<'_, '_>,
    signs_to_servers: bool,
    resolver: &mut FileResolver<'_>,
) -> Option<Vec<u8>> {
    let parsed = match Pkcs11Uri::parse(uri) {
        Ok(parsed) => parsed,
        Err(fault) => return key.fail(fault.to_string(), hint(&fault)),
    };
    let pin = pin_of(&parsed, pin_keys, resolver)?;
    let Some((reference, public_key)) = reference_to_leaf(chain_pem) else {
        let message = format!("is in a token, and {chain} holds no certificate that can be read");
        return key.fail(message, "name the chain as PEM, leaf first");
    };
    resolver.token_keys.push(TokenKey {
        place: chain.to_owned(),
        uri: uri.to_owned(),
        pin,
        public_key,
        signs_to_servers,
        is_optional: resolver.skipped.is_some(),
    });
    Some(reference.into_bytes())
}

fn pin_of(
    uri: &Pkcs11Uri,
    (file, command): PinKeys<'_, '_>,
    resolver: &FileResolver<'_>,
) -> Option<PinOrigin> {
    let words = command.value.as_ref()?;
    let named = file.value.as_ref()?;
    let count = [uri.pin_source.is_some(), named.is_some(), !words.is_empty()];
    if count.iter().filter(|one| **one).count() > 1 {
        let place = if command.is_written() { &**command } else { &**file };
        return place.fail("stands beside another place of the PIN", "take one of them out");
    }
    Some(match (&uri.pin_source, named, words.split_first()) {
        (Some(path), ..) => PinOrigin::File(PathBuf::from(path)),
        (_, Some(path), _) => PinOrigin::File(resolver.base.join(path)),
        (.., Some((program, arguments))) => {
            let program = resolver.base.join(program).display().to_string();
            PinOrigin::Command([&[program], arguments].concat())
        }
        _ => PinOrigin::Nowhere,
    })
}

fn hint(fault: &Pkcs11UriFault) -> &'static str {
    match fault {
        Pkcs11UriFault::PinValue => {
            "name a file with it by `key-passphrase-file` or `pin-source=file:/...`, and change the \
             PIN: it may be known"
        }
        Pkcs11UriFault::PinSource => {
            "write pin-source=file:/... with an absolute path, or name it by `key-passphrase-file`"
        }
        Pkcs11UriFault::NoKey => "write pkcs11:token=...;object=... with the label of the key",
        Pkcs11UriFault::Unused(_) => {
            "choose by token, manufacturer, model, serial, slot-id, object and id; name the library \
             by module-path"
        }
        _ => "write pkcs11:token=...;object=...?module-path=/... (RFC 7512)",
    }
}
