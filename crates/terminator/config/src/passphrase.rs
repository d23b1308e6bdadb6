//! Passphrases of private keys: where they are written, and keys that are opened by them; for a key
//! in a token the URI that stands in the place of a file, and where its PIN is.
//!
//! The process that reads the configuration opens the keys. The worker process gets them open, and
//! never a passphrase. No token is opened here, and no PIN read: the certificate says which public
//! half the key must have, and the daemon has a process try it.

use std::path::{Path, PathBuf};

use options::{Field, KeyPlace};
use tls::certificate::key;
use tls::signing::reference_to_leaf;
use wire::pkcs11_uri::{Pkcs11Uri, Pkcs11UriFault, SCHEME};
use zeroize::Zeroizing;

use crate::settings::{PinOrigin, TokenKey};
use crate::shelf::Shelf;

/// The passphrase of a certificate's keys, read when the first of them needs it.
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

    /// The text of a file with its keys opened, if they are encrypted and a passphrase is named.
    pub(crate) fn open(
        &mut self,
        path: &Path,
        pem: Vec<u8>,
        shelf: &mut Shelf<'_>,
    ) -> Option<Vec<u8>> {
        let is_named = self.file.is_written() || self.command.is_written();
        if !is_named || !key::is_encrypted(&pem) {
            return Some(pem);
        }
        let passphrase = match self.read.take() {
            Some(passphrase) => passphrase,
            None => self.read_from(shelf)?,
        };
        let opened = key::decrypt(&pem, &passphrase);
        self.read = Some(passphrase);
        match opened {
            Ok(opened) => {
                shelf.files.replace(path, &opened);
                Some(opened)
            }
            Err(fault) => {
                let place = path.display().to_string();
                let message = format!("the key in {place} {fault}");
                shelf.fault(self.place(), &message, &fault.remedy(&place))
            }
        }
    }

    fn place(&self) -> &KeyPlace<'a> {
        if self.file.is_written() { self.file } else { self.command }
    }

    fn read_from(&self, shelf: &mut Shelf<'_>) -> Option<Zeroizing<Vec<u8>>> {
        let (mut passphrase, origin) = match self.file.value.as_ref()? {
            Some(path) => {
                let (path, bytes) = shelf.secret(self.file, path)?;
                shelf.files.forget(&path);
                (bytes, path.display().to_string())
            }
            None => {
                let mut words = self.command.value.clone()?;
                let program = words.first_mut()?;
                *program = shelf.base.join(&*program).display().to_string();
                let program = program.clone();
                match shelf.outputs.of(&words, shelf.files) {
                    Ok(output) => (output, program),
                    Err(error) => {
                        let message = format!("cannot have {program} write a passphrase: {error}");
                        let hint = "run it as the user that starts lariat, and see what it writes";
                        return shelf.fault(self.command, &message, hint);
                    }
                }
            }
        };
        // The first line, as OpenSSL takes it.
        let end = passphrase.iter().position(|byte| b"\r\n".contains(byte));
        let bytes = end.unwrap_or(passphrase.len());
        passphrase.truncate(bytes);
        if passphrase.is_empty() {
            let message = format!("{origin} gives an empty passphrase");
            return shelf.fault(self.place(), &message, "its first line is the passphrase");
        }
        Some(passphrase)
    }
}

/// Whether a key's place is a token.
pub(crate) fn is_in_token(place: &str) -> bool {
    let scheme = place.get(..SCHEME.len());
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
}

/// The keys that say where the PIN is: those of a passphrase.
pub(crate) type PinKeys<'k, 'a> = (&'k Field<'a, Option<String>>, &'k Field<'a, Vec<String>>);

/// The URI without its query, for messages.
pub(crate) fn shown(uri: &str) -> String {
    uri.split('?').next().unwrap_or_default().to_owned()
}

/// Notes a key in a token, and gives the reference that stands for it. `signs_to_servers`: we are
/// the client that shows the certificate.
pub(crate) fn note_token_key(
    key: &Field<'_, Option<String>>,
    uri: &str,
    (chain, chain_pem): (&str, &[u8]),
    pin_keys: PinKeys<'_, '_>,
    signs_to_servers: bool,
    shelf: &mut Shelf<'_>,
) -> Option<Vec<u8>> {
    let parsed = match Pkcs11Uri::parse(uri) {
        Ok(parsed) => parsed,
        Err(fault) => return key.fail(fault.to_string(), hint(&fault)),
    };
    let pin = pin_of(&parsed, pin_keys, shelf)?;
    let Some((reference, public_key)) = reference_to_leaf(chain_pem) else {
        let message = format!("is in a token, and {chain} holds no certificate that can be read");
        return key.fail(message, "name the chain as PEM, leaf first");
    };
    shelf.token_keys.push(TokenKey {
        place: chain.to_owned(),
        uri: uri.to_owned(),
        pin,
        public_key,
        signs_to_servers,
        is_optional: shelf.skipped.is_some(),
    });
    Some(reference.into_bytes())
}

fn pin_of(
    uri: &Pkcs11Uri,
    (file, command): PinKeys<'_, '_>,
    shelf: &Shelf<'_>,
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
        (_, Some(path), _) => PinOrigin::File(shelf.base.join(path)),
        (.., Some((program, arguments))) => {
            let program = shelf.base.join(program).display().to_string();
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
