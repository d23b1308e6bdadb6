//! Keys in tokens, by PKCS #11: the library, the token, the key that a URI names, and signatures.
//!
//! Handles what the standard leaves to its callers: selection of the token and key, and the forms
//! of signatures that TLS uses. The library is foreign code, which may do anything to this process;
//! the process therefore holds nothing but keys.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use aws_lc_rs::digest;
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsPssParams};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::{Slot, TokenInfo};
use cryptoki::types::AuthPin;
use wire::pkcs11_uri::Pkcs11Uri;
use zeroize::Zeroizing;

/// Library that speaks to all tokens known to p11-kit, by its name for the dynamic linker.
pub(crate) const DEFAULT_MODULE: &str = "p11-kit-proxy.so";

/// Libraries in use: each is initialised once in a process.
#[derive(Default)]
pub(crate) struct Modules {
    by_path: HashMap<String, Pkcs11>,
    /// PINs that tokens have refused. They are not retried, because tokens lock them after a few
    /// tries.
    refused: Vec<(Slot, Zeroizing<String>)>,
    /// Whether the last key was not opened because of its PIN.
    pub(crate) has_refused_pin: bool,
}

/// A key in a token. Each thread that signs has a session of its own.
pub(crate) struct OpenTokenKey {
    module: Pkcs11,
    slot: Slot,
    key: ObjectHandle,
    /// Session that has logged in: while it stands, so do the others' rights.
    _session: std::sync::Mutex<Session>,
}

thread_local! {
    static SESSIONS: RefCell<HashMap<Slot, Session>> = RefCell::default();
}

/// Reason why there is no signature.
#[derive(Debug)]
pub(crate) enum TokenFault {
    /// The key cannot make such a signature.
    Unfit,
    /// The token, the library or the session is gone: a sentence.
    Lost(String),
}

impl Modules {
    /// Opens the key that a URI names. An error is a sentence with its hint.
    pub(crate) fn open(
        &mut self,
        uri: &Pkcs11Uri,
        pin: Option<&str>,
    ) -> Result<OpenTokenKey, String> {
        let path = uri.module_path.as_deref().unwrap_or(DEFAULT_MODULE);
        let module = self.module(path)?;
        let slot = slot(&module, uri, path)?;
        let failed = |what: &'static str| move |error| format!("{what}: {}", words_of(&error));
        let session = module.open_ro_session(slot).map_err(failed("no session opens"))?;
        if let Some(pin) = pin {
            self.log_in(&module, slot, (&session, pin))?;
        }
        let mut template = vec![Attribute::Class(ObjectClass::PRIVATE_KEY)];
        template.extend(uri.object.as_ref().map(|one| Attribute::Label(one.clone().into_bytes())));
        template.extend(uri.id.clone().map(Attribute::Id));
        let found = session.find_objects(&template).map_err(failed("keys cannot be searched"))?;
        match *found {
            [key] => {
                Ok(OpenTokenKey { module, slot, key, _session: std::sync::Mutex::new(session) })
            }
            [] if pin.is_none() => Err("the token shows no such private key without a PIN\n\
                 hint: name its PIN by `key-passphrase-file` or by `pin-source` in the URI"
                .to_owned()),
            [] => Err("the token has no private key with this `object` and `id`\n\
                       hint: `pkcs11-tool --module MODULE --login --list-objects` lists them"
                .to_owned()),
            _ => Err(format!(
                "{} private keys of the token fit\nhint: add `id` to the URI",
                found.len()
            )),
        }
    }

    fn log_in(
        &mut self,
        module: &Pkcs11,
        slot: Slot,
        (session, pin): (&Session, &str),
    ) -> Result<(), String> {
        if self.refused.iter().any(|(one, refused)| *one == slot && **refused == *pin) {
            self.has_refused_pin = true;
            return Err("the token has refused the PIN for another key".to_owned());
        }
        log_in(module, slot, session, pin).map_err(|(why, is_pin)| {
            self.has_refused_pin = is_pin;
            if is_pin {
                self.refused.push((slot, Zeroizing::new(pin.to_owned())));
            }
            why
        })
    }

    fn module(&mut self, path: &str) -> Result<Pkcs11, String> {
        if let Some(module) = self.by_path.get(path) {
            return Ok(module.clone());
        }
        let module = Pkcs11::new(path).map_err(|error| {
            format!(
                "the library {path} cannot be loaded: {}\n\
                 hint: name the token's library by `?module-path=/...` at the end of the URI",
                words_of(&error)
            )
        })?;
        let arguments = CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK);
        module.initialize(arguments).map_err(|error| {
            let error = words_of(&error);
            format!(
                "the library {path} does not begin: {error}\nhint: see that the process's user \
                 (`process.user`) may use what it is configured with"
            )
        })?;
        self.by_path.insert(path.to_owned(), module.clone());
        Ok(module)
    }
}

fn slot(module: &Pkcs11, uri: &Pkcs11Uri, path: &str) -> Result<Slot, String> {
    let slots = module.get_slots_with_initialized_token();
    let slots = slots.map_err(|error| format!("no token can be listed: {}", words_of(&error)))?;
    let mut labels = Vec::new();
    let mut fitting = Vec::new();
    for slot in slots {
        let Ok(token) = module.get_token_info(slot) else {
            continue;
        };
        if is_meant(uri, slot, &token) {
            fitting.push(slot);
        }
        labels.push(format!("`{}`", token.label()));
    }
    match *fitting {
        [slot] => Ok(slot),
        [] if labels.is_empty() => Err(format!(
            "the library {path} shows no token\nhint: see that it is plugged in, and that the \
             process's user may use it (`process.user`, `process.group`)"
        )),
        [] => Err(format!("none of the tokens {} is meant\nhint: see `token`", labels.join(", "))),
        _ => Err(format!(
            "{} tokens are meant, of {}\nhint: add `token` or `serial` to the URI",
            fitting.len(),
            labels.join(", ")
        )),
    }
}

fn is_meant(uri: &Pkcs11Uri, slot: Slot, token: &TokenInfo) -> bool {
    let fits = |wanted: &Option<String>, has: &str| {
        wanted.as_ref().is_none_or(|wanted| wanted.trim_end() == has.trim_end())
    };
    fits(&uri.token, token.label())
        && fits(&uri.manufacturer, token.manufacturer_id())
        && fits(&uri.model, token.model())
        && fits(&uri.serial, token.serial_number())
        && uri.slot_id.is_none_or(|id| id == slot.id())
}

/// Logs in. An error is a sentence with its hint, and whether the PIN was refused.
fn log_in(module: &Pkcs11, slot: Slot, session: &Session, pin: &str) -> Result<(), (String, bool)> {
    let login = session.login(UserType::User, Some(&AuthPin::from(pin.to_owned())));
    let (why, is_pin) = match login {
        // Another key of the token has logged in.
        Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => return Ok(()),
        Err(Error::Pkcs11(RvError::PinIncorrect | RvError::PinLenRange, _)) => {
            let left = module.get_token_info(slot).ok().filter(TokenInfo::user_pin_final_try);
            let last = left.map_or("", |_| ", and the next wrong one locks it");
            (format!("the token refuses the PIN{last}"), true)
        }
        Err(Error::Pkcs11(RvError::PinLocked, _)) => {
            ("the token has locked its PIN".to_owned(), true)
        }
        Err(error) => (format!("nobody can log in to the token: {}", words_of(&error)), false),
    };
    let hint = "hint: see the file or program that the configuration names for the PIN, then \
                `lariat reload`";
    Err((format!("{why}\n{hint}"), is_pin))
}

/// Returns the library's error text, without that of the crate in between.
fn words_of(error: &Error) -> String {
    match error {
        Error::Pkcs11(code, function) => format!("C_{function:?} says {code:?}"),
        Error::LibraryLoading(error) => error.to_string(),
        error => error.to_string(),
    }
}

impl OpenTokenKey {
    /// Signs a message in a scheme of TLS (RFC 8446 section 4.2.3).
    pub(crate) fn sign(&self, scheme: u16, message: &[u8]) -> Result<Vec<u8>, TokenFault> {
        let form = SignatureForm::of(scheme).ok_or(TokenFault::Unfit)?;
        let (mechanism, bytes) = form.of_message(message);
        SESSIONS.with_borrow_mut(|sessions| {
            let session = match sessions.entry(self.slot) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    place.insert(self.module.open_ro_session(self.slot).map_err(fault_of)?)
                }
            };
            let signature = session.sign(&mechanism, self.key, &bytes).map_err(fault_of)?;
            Ok(if matches!(mechanism, Mechanism::Ecdsa) { der(&signature) } else { signature })
        })
    }
}

/// Classifies an error: faults of the key or the mechanism recur with another session.
fn fault_of(error: Error) -> TokenFault {
    use RvError::{
        FunctionNotSupported, KeyFunctionNotPermitted, KeySizeRange, KeyTypeInconsistent,
        MechanismInvalid, MechanismParamInvalid,
    };
    match error {
        Error::Pkcs11(
            FunctionNotSupported
            | KeyFunctionNotPermitted
            | KeySizeRange
            | KeyTypeInconsistent
            | MechanismInvalid
            | MechanismParamInvalid,
            _,
        ) => TokenFault::Unfit,
        error => TokenFault::Lost(words_of(&error)),
    }
}

/// Scheme of TLS in the terms of the standard. The token gets hashes, so that messages need not go
/// to it.
#[derive(Clone, Copy)]
enum SignatureForm {
    Ecdsa(Hash),
    RsaPss(Hash),
    RsaPkcs1(Hash),
    Ed25519,
}

#[derive(Clone, Copy)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

impl SignatureForm {
    fn of(scheme: u16) -> Option<Self> {
        Some(match scheme {
            0x0403 => Self::Ecdsa(Hash::Sha256),
            0x0503 => Self::Ecdsa(Hash::Sha384),
            0x0603 => Self::Ecdsa(Hash::Sha512),
            0x0804 => Self::RsaPss(Hash::Sha256),
            0x0805 => Self::RsaPss(Hash::Sha384),
            0x0806 => Self::RsaPss(Hash::Sha512),
            0x0401 => Self::RsaPkcs1(Hash::Sha256),
            0x0501 => Self::RsaPkcs1(Hash::Sha384),
            0x0601 => Self::RsaPkcs1(Hash::Sha512),
            0x0807 => Self::Ed25519,
            _ => return None,
        })
    }

    fn of_message(self, message: &[u8]) -> (Mechanism<'static>, Vec<u8>) {
        match self {
            Self::Ecdsa(hash) => (Mechanism::Ecdsa, hash.digest(message)),
            Self::RsaPss(hash) => (Mechanism::RsaPkcsPss(hash.pss()), hash.digest(message)),
            Self::RsaPkcs1(hash) => {
                (Mechanism::RsaPkcs, [hash.digest_info(), &hash.digest(message)].concat())
            }
            Self::Ed25519 => {
                let parameters = EddsaParams::new(EddsaSignatureScheme::Pure);
                (Mechanism::Eddsa(parameters), message.to_vec())
            }
        }
    }
}

impl Hash {
    fn digest(self, message: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, message).as_ref().to_vec()
    }

    fn pss(self) -> PkcsPssParams {
        let (hash_alg, mgf, length) = match self {
            Self::Sha256 => (MechanismType::SHA256, PkcsMgfType::MGF1_SHA256, 32_u8),
            Self::Sha384 => (MechanismType::SHA384, PkcsMgfType::MGF1_SHA384, 48),
            Self::Sha512 => (MechanismType::SHA512, PkcsMgfType::MGF1_SHA512, 64),
        };
        // The salt is as long as the hash (RFC 8446 section 4.2.3).
        PkcsPssParams { hash_alg, mgf, s_len: u64::from(length).into() }
    }

    /// Returns the beginning of DigestInfo in DER (RFC 8017 section 9.2, note 1).
    fn digest_info(self) -> &'static [u8] {
        match self {
            Self::Sha256 => b"\x301\x30\x0d\x06\x09`\x86H\x01e\x03\x04\x02\x01\x05\0\x04\x20",
            Self::Sha384 => b"\x30A\x30\x0d\x06\x09`\x86H\x01e\x03\x04\x02\x02\x05\0\x04\x30",
            Self::Sha512 => b"\x30Q\x30\x0d\x06\x09`\x86H\x01e\x03\x04\x02\x03\x05\0\x04\x40",
        }
    }
}

/// Encodes two numbers of the same length as a SEQUENCE of INTEGERs (RFC 8422 section 5.4).
fn der(numbers: &[u8]) -> Vec<u8> {
    let (one, other) = numbers.split_at(numbers.len() / 2);
    let both: Vec<u8> = [one, other].into_iter().flat_map(integer).collect();
    [element(0x30, both.len()), both].concat()
}

fn integer(number: &[u8]) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let digits = number.get(zeros..).unwrap_or_default();
    // A first bit that is set would make it negative; and zero has a digit too.
    let needs_zero = digits.first().is_none_or(|first| *first >= 0x80);
    let zero: &[u8] = if needs_zero { &[0] } else { &[] };
    [&element(2, digits.len() + zero.len()), zero, digits].concat()
}

/// Returns the header of an element of less than 256 bytes.
fn element(tag: u8, length: usize) -> Vec<u8> {
    let short = length as u8;
    if length < 0x80 { vec![tag, short] } else { vec![tag, 0x81, short] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_der() {
        assert_eq!(der(&[0, 1, 0x80, 2]), b"\x30\x08\x02\x01\x01\x02\x03\x00\x80\x02"[..]);
        assert_eq!(der(&[0, 0]), b"\x30\x06\x02\x01\x00\x02\x01\x00");
        let long = der(&[0xff; 132]);
        assert_eq!(long[..5], [0x30, 0x81, 138, 2, 67]);
        assert_eq!(long.len(), 141);
    }
}
