//! The keys that the key process holds, taken from a configuration; and the messages that carry
//! keys and signature requests to it.
//!
//! Handles the formats. `supervisor` starts the process and `worker_process` sends it requests.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use config::{Files, PinOrigin, Recording, Settings, TokenKey};
use serde::{Deserialize, Serialize};
use tls::key_holder::{KeyId, SIGNED_BYTES_MAX};
use tls::options::CertificateSource;
use tls::signing;
use tls::signing::{HeldKey, SigningRoles, key_id};
use wire::pkcs11_uri::Pkcs11Uri;
use zeroize::Zeroize;

use crate::handover::{Confinement, Secret, decode, encode};
use crate::status_parts::at_most;

/// Order that begins the process's life; the keys, a list of [`KeyToHold`], are the next message.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum KeyAsk {
    /// Give up these rights, and open the keys that follow.
    Enter(Confinement),
    /// Sign requests from the channels sent along.
    Serve,
    /// Confirm that the process goes on.
    AreYouWell,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum KeyReply {
    /// The rights could not be given up.
    Stuck(String),
    /// All keys are open but these.
    Opened(#[serde(deserialize_with = "at_most::<UNOPENED_MAX, _, _>")] Vec<UnopenedKey>),
    Well,
}

/// A key that cannot be opened. The process refuses to sign with it at once.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct UnopenedKey {
    /// Path of the certificate.
    pub(crate) place: String,
    /// Reason as a sentence with its hint.
    pub(crate) why: String,
    /// Whether the token refuses its PIN; the token locks the PIN after a few more tries.
    pub(crate) is_pin_refused: bool,
    /// Whether another try is useless before a reload, because only a reload reads another PIN.
    pub(crate) waits_for_reload: bool,
    /// Whether the configuration is served all the same.
    pub(crate) is_optional: bool,
}

/// Maximum bytes of a reply: a sentence for each key.
pub(crate) const REPLY_BYTES_MAX: usize = 4 << 20;

/// Maximum keys in a reply: each takes more bytes than that with its path and sentence.
const UNOPENED_MAX: usize = REPLY_BYTES_MAX / 64;

/// Keys that one process holds: those of files, or those of one token. An absent or hanging token
/// then blocks no other keys, and its library shares no process with keys of files.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct KeyGroup {
    /// `files`, or the part of the keys' URIs that names the token; unique among groups.
    pub(crate) name: String,
    pub(crate) ids: Vec<KeyId>,
    /// List of [`KeyToHold`], as it is sent.
    pub(crate) packed: Secret,
}

impl KeyGroup {
    fn of((name, keys): (String, Vec<KeyToHold>)) -> Result<Self, String> {
        let ids = keys.iter().map(|key| key.id).collect();
        let packed = encode(&keys).map_err(|error| format!("cannot pack the keys: {error}"))?;
        Ok(Self { name, ids, packed })
    }

    pub(crate) fn is_of_token(&self) -> bool {
        self.name != FILES
    }

    /// Returns all keys of the group as unopened, for one reason.
    pub(crate) fn none_opens(&self, why: &str) -> Vec<UnopenedKey> {
        // This process packed the list.
        let keys: Vec<KeyToHold> = decode(self.packed.bytes()).unwrap_or_default();
        let unopened = keys.into_iter().map(|key| UnopenedKey {
            why: format!("the key of {} in a token: {why}", key.place),
            place: key.place,
            is_pin_refused: false,
            waits_for_reload: false,
            is_optional: key.is_optional,
        });
        unopened.collect()
    }

    /// Removes PINs that a token has refused in a trial, so that no process tries them again.
    pub(crate) fn withhold_pins(&mut self, unopened: &[UnopenedKey]) -> Result<(), String> {
        let refused: Vec<_> = unopened.iter().filter(|one| one.is_pin_refused).collect();
        if refused.is_empty() || !self.is_of_token() {
            return Ok(());
        }
        // This process packed the list.
        let mut keys: Vec<KeyToHold> = decode(self.packed.bytes()).unwrap_or_default();
        for key in &mut keys {
            let why = refused.iter().find(|one| one.place == key.place);
            if let (KeyOrigin::Token { pin, .. }, Some(one)) = (&mut key.origin, why) {
                *pin = Err(one.why.clone());
            }
        }
        *self = Self::of((std::mem::take(&mut self.name), keys))?;
        Ok(())
    }

    pub(crate) fn copy(&self) -> Self {
        let packed = Secret::new(self.packed.bytes().to_vec());
        Self { name: self.name.clone(), ids: self.ids.clone(), packed }
    }
}

/// Name of the group of keys of files.
const FILES: &str = "files";

/// Maximum number of tokens: each has its own process, with a thread for each worker thread.
pub(crate) const TOKENS_MAX: usize = 16;

/// Returns the keys of each group; `None` for those of files, of which there may be thousands.
pub(crate) fn listed_ids(groups: &[KeyGroup]) -> Vec<Option<Vec<KeyId>>> {
    let ids = |group: &KeyGroup| group.is_of_token().then(|| group.ids.clone());
    groups.iter().map(ids).collect()
}

/// Groups the keys, one group for each process that will hold them.
///
/// # Errors
/// Fails with a sentence and hint if there are too many groups.
pub(crate) fn grouped(keys: Vec<KeyToHold>) -> Result<Vec<KeyGroup>, String> {
    let mut groups = BTreeMap::<String, Vec<KeyToHold>>::new();
    for key in keys {
        groups.entry(key.group()).or_default().push(key);
    }
    if groups.keys().filter(|name| *name != FILES).count() > TOKENS_MAX {
        return Err(format!(
            "the keys are in more than {TOKENS_MAX} tokens, each of which takes a process\n\
             hint: name each token in the same way in all URIs of its keys"
        ));
    }
    groups.into_iter().map(KeyGroup::of).collect()
}

/// A key that signs.
#[derive(Deserialize, Serialize)]
pub(crate) struct KeyToHold {
    pub(crate) id: KeyId,
    /// Path of the certificate, for messages.
    pub(crate) place: String,
    /// Whether the key signs for clients, and for servers that ask for a certificate.
    pub(crate) roles: [bool; 2],
    /// Whether the certificate is served without an open key (`bad-certificate = "skip"`).
    pub(crate) is_optional: bool,
    pub(crate) origin: KeyOrigin,
}

#[derive(Deserialize, Serialize)]
pub(crate) enum KeyOrigin {
    /// The key in DER.
    File(Secret),
    /// URI of a key in a token, its PIN or why it is missing, and the public half that the key must
    /// have.
    Token { uri: String, pin: Result<Option<Secret>, String>, public_key: Vec<u8> },
}

impl KeyToHold {
    pub(crate) fn is_in_token(&self) -> bool {
        matches!(self.origin, KeyOrigin::Token { .. })
    }

    /// Whether the PIN, if needed, could be read and was not refused.
    pub(crate) fn has_pin(&self) -> bool {
        !matches!(self.origin, KeyOrigin::Token { pin: Err(_), .. })
    }

    fn group(&self) -> String {
        let KeyOrigin::Token { uri, .. } = &self.origin else {
            return FILES.to_owned();
        };
        // The URI has been parsed before.
        Pkcs11Uri::parse(uri).unwrap_or_default().token_name()
    }

    pub(crate) fn signing_roles(&self) -> SigningRoles {
        let [server, client] = self.roles;
        SigningRoles { server, client }
    }
}

/// Returns the keys that processes must hold: those in tokens, and those of files if the
/// configuration says so. PINs are read through `files`.
pub(crate) fn of(settings: &Settings, files: &mut dyn Files) -> Vec<KeyToHold> {
    let mut keys = BTreeMap::<KeyId, KeyToHold>::new();
    let mut add = |id, place: &str, origin, roles: [bool; 2], is_optional| {
        let place = place.to_owned();
        let key = KeyToHold { id, place, roles: [false; 2], is_optional, origin };
        let known = keys.entry(id).or_insert(key);
        known.roles = [known.roles[0] || roles[0], known.roles[1] || roles[1]];
        known.is_optional &= is_optional;
    };
    for key in &settings.token_keys {
        let TokenKey { place, uri, public_key, signs_to_servers, is_optional, .. } = key;
        let (uri, public_key) = (uri.clone(), public_key.clone());
        let id = key_id(&public_key);
        let origin = KeyOrigin::Token { uri, pin: pin(key, files), public_key };
        add(id, place, origin, [!signs_to_servers, *signs_to_servers], *is_optional);
    }
    for (source, roles) in certificates(settings).filter(|_| settings.process.key_process) {
        if let Some((id, origin)) = of_file(source) {
            add(id, source.key_place.as_ref().unwrap_or(&source.place), origin, roles, false);
        }
    }
    keys.into_values().collect()
}

/// Removes keys from the recorded files if the configuration has a process hold them.
pub(crate) fn take_out(settings: &Settings, recording: &mut Recording) {
    if settings.process.key_process {
        recording.replace_files(signing::without_keys);
    }
}

/// Reads a token's PIN: the first line, as of a passphrase. An error is a sentence with its hint.
fn pin(key: &TokenKey, files: &mut dyn Files) -> Result<Option<Secret>, String> {
    let (read, origin) = match &key.pin {
        PinOrigin::Nowhere => return Ok(None),
        PinOrigin::File(path) => (files.read(path), path.display().to_string()),
        PinOrigin::Command(words) => {
            let output = files.output_of(words).map(|mut output| std::mem::take(&mut *output));
            (output, words.first().cloned().unwrap_or_default())
        }
    };
    let of = &key.place;
    let mut pin = read.map_err(|error| {
        format!(
            "the PIN of the key of {of} does not come from {origin}: {error}\n\
             hint: a file must be readable, and a program write the PIN, for who starts lariat"
        )
    })?;
    let line = pin.iter().position(|byte| b"\r\n".contains(byte)).unwrap_or(pin.len());
    pin[line..].zeroize();
    pin.truncate(line);
    if pin.is_empty() {
        return Err(format!(
            "the PIN of the key of {of} is empty in {origin}\nhint: its first line is the PIN"
        ));
    }
    Ok(Some(Secret::new(pin)))
}

/// Returns all certificates, with the roles that their keys sign for.
fn certificates(settings: &Settings) -> impl Iterator<Item = (&CertificateSource, [bool; 2])> {
    let services = settings.data_plane.services.iter();
    services.flat_map(|service| {
        let front = service.front.terminated().into_iter();
        let front = front.flat_map(|tls| &tls.certificates).map(|one| (one, [true, false]));
        let back = service.back.servers().and_then(|servers| servers.tls.as_ref());
        let back = back.and_then(|tls| tls.client.certificate.as_ref());
        front.chain(back.map(|one| (one, [false, true])))
    })
}

fn of_file(source: &CertificateSource) -> Option<(KeyId, KeyOrigin)> {
    let mut der = signing::key_of(source)?;
    // The builder of the plan reports a key that cannot be read.
    let public_key = HeldKey::read(&der)?.public_key()?;
    let key = Secret::new(std::mem::take(&mut *der));
    Some((key_id(&public_key), KeyOrigin::File(key)))
}

/// A request of a worker thread: a number, the key, the scheme, and the message that follows.
pub(crate) struct SignatureRequest<'m> {
    pub(crate) number: u64,
    pub(crate) key: KeyId,
    pub(crate) scheme: u16,
    pub(crate) message: &'m [u8],
}

const REQUEST_HEADER_BYTES: usize = 8 + 32 + 2;

/// Maximum bytes of a request and of an answer.
pub(crate) const REQUEST_BYTES_MAX: usize = REQUEST_HEADER_BYTES + SIGNED_BYTES_MAX;
pub(crate) const ANSWER_BYTES_MAX: usize = 9 + 1024;

impl<'m> SignatureRequest<'m> {
    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        to.clear();
        to.extend(self.number.to_le_bytes());
        to.extend(self.key);
        to.extend(self.scheme.to_le_bytes());
        to.extend(self.message);
    }

    /// Parses a request; `None` if the bytes are not one.
    pub(crate) fn read(bytes: &'m [u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (key, rest) = rest.split_first_chunk()?;
        let (scheme, message) = rest.split_first_chunk()?;
        let (number, scheme) = (u64::from_le_bytes(*number), u16::from_le_bytes(*scheme));
        Some(Self { number, key: *key, scheme, message })
    }
}

/// Outcome of a request, or notice that a new process listens, which lacks the requests taken by
/// its predecessor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum SignatureStatus {
    Signed = 0,
    Unknown = 1,
    Refused = 2,
    Failed = 3,
    Begun = 4,
    Unopened = 5,
}

impl SignatureStatus {
    /// All outcomes, by number.
    const ALL: [Self; 6] =
        [Self::Signed, Self::Unknown, Self::Refused, Self::Failed, Self::Begun, Self::Unopened];

    pub(crate) fn write(self, number: u64, signature: &[u8], to: &mut Vec<u8>) {
        to.zeroize();
        to.extend(number.to_le_bytes());
        to.push(self as u8);
        to.extend(signature);
    }

    /// Parses the number of the request, its outcome, and the signature.
    pub(crate) fn read(bytes: &[u8]) -> Option<(u64, Self, &[u8])> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (status, signature) = rest.split_first()?;
        let status = *Self::ALL.get(usize::from(*status))?;
        Some((u64::from_le_bytes(*number), status, signature))
    }
}

/// Signatures requested since the worker process started, for all plans.
#[derive(Debug, Default)]
pub(crate) struct KeyCounts {
    pub(crate) signed: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) waiting_us: AtomicU64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_come_as_they_were_written() {
        let mut bytes = Vec::new();
        let request = SignatureRequest { number: 7, key: [9; 32], scheme: 0x0804, message: b"m" };
        request.write(&mut bytes);
        let read = SignatureRequest::read(&bytes).unwrap();
        assert_eq!((read.number, read.key, read.scheme), (7, [9; 32], 0x0804));
        assert_eq!(read.message, b"m");
        assert!(SignatureRequest::read(&bytes[..REQUEST_HEADER_BYTES - 1]).is_none());
        SignatureStatus::Refused.write(8, b"", &mut bytes);
        assert_eq!(SignatureStatus::read(&bytes), Some((8, SignatureStatus::Refused, &b""[..])));
        assert_eq!(SignatureStatus::read(&[0; 8]), None);
        assert_eq!(SignatureStatus::read(&[6; 9]), None);
    }
}
