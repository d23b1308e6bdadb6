//! The keys that the key process is to hold, taken from a configuration; and the messages by which
//! it gets them and is asked.
//!
//! Owns the forms. Who starts the process and who asks it is `supervisor`'s and `worker_process`'s.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use config::{Recording, Settings};
use serde::{Deserialize, Serialize};
use tls::certificate::reference;
use tls::options::CertificateSource;
use tls::signing::{HeldKey, KeyId, SIGNED_BYTES_MAX, SigningRoles, key_id};
use zeroize::Zeroize;

use crate::handover::{Fences, Secret, encode};

/// The order that begins the process's life; the keys, a list of [`KeyToHold`], are the message
/// behind it.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum KeyAsk {
    /// Give up these rights, and open the keys that follow.
    Enter(Fences),
    /// Sign what comes by the channels that come with this.
    Serve,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum KeyReply {
    /// The rights could not be given up.
    Stuck(String),
    /// All keys are open.
    Opened,
    /// A key cannot be opened: a sentence with its hint.
    Failed(String),
}

/// Bytes of a reply: a sentence.
pub(crate) const REPLY_BYTES_MAX: usize = 64 << 10;

/// A list of [`KeyToHold`], as it is sent.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct PackedKeys(pub(crate) Secret);

impl PackedKeys {
    pub(crate) fn of(keys: &[KeyToHold]) -> Result<Self, String> {
        let packed = if keys.is_empty() { Ok(Secret::default()) } else { encode(&keys) };
        packed.map(Self).map_err(|error| format!("cannot pack the keys: {error}"))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.bytes().is_empty()
    }
}

/// A key that signs.
#[derive(Deserialize, Serialize)]
pub(crate) struct KeyToHold {
    pub(crate) id: KeyId,
    /// The certificate's path, for messages.
    pub(crate) place: String,
    /// What it signs: for clients, and for servers that ask for a certificate.
    pub(crate) roles: [bool; 2],
    pub(crate) origin: KeyOrigin,
}

#[derive(Deserialize, Serialize)]
pub(crate) enum KeyOrigin {
    /// The key in DER.
    File(Secret),
}

impl KeyToHold {
    pub(crate) fn signing_roles(&self) -> SigningRoles {
        let [server, client] = self.roles;
        SigningRoles { server, client }
    }
}

/// Takes the keys out of a configuration and what was read of it, if it has a process hold them.
pub(crate) fn take_out(settings: &Settings, recording: &mut Recording) -> Vec<KeyToHold> {
    let mut keys = BTreeMap::<KeyId, KeyToHold>::new();
    for (source, roles) in certificates(settings) {
        let key = settings.process.key_process.then(|| of_file(source)).flatten();
        if let Some((id, origin)) = key {
            let place = source.key_place.as_ref().unwrap_or(&source.place).clone();
            let key = KeyToHold { id, place, roles: [false; 2], origin };
            let [server, client] = &mut keys.entry(id).or_insert(key).roles;
            (*server, *client) = (*server || roles[0], *client || roles[1]);
        }
    }
    if settings.process.key_process {
        recording.replace_files(reference::without_keys);
    }
    keys.into_values().collect()
}

/// All certificates, with what their keys sign.
fn certificates(settings: &Settings) -> impl Iterator<Item = (&CertificateSource, [bool; 2])> {
    let services = settings.plane.services.iter();
    services.flat_map(|service| {
        let front = service.front.terminated().into_iter();
        let front = front.flat_map(|tls| &tls.certificates).map(|one| (one, [true, false]));
        let back = service.back.servers().and_then(|servers| servers.tls.as_ref());
        let back = back.and_then(|tls| tls.client.certificate.as_ref());
        front.chain(back.map(|one| (one, [false, true])))
    })
}

fn of_file(source: &CertificateSource) -> Option<(KeyId, KeyOrigin)> {
    let mut der = reference::key_of(source)?;
    // One that cannot be read is reported by whoever builds the plan.
    let public_key = HeldKey::read(&der)?.public_key()?;
    let key = Secret::new(std::mem::take(&mut *der));
    Some((key_id(&public_key), KeyOrigin::File(key)))
}

/// What a worker thread asks: a number, the key, the scheme, and the message that follows.
pub(crate) struct SignatureRequest<'m> {
    pub(crate) number: u64,
    pub(crate) key: KeyId,
    pub(crate) scheme: u16,
    pub(crate) message: &'m [u8],
}

const REQUEST_HEADER_BYTES: usize = 8 + 32 + 2;

/// The longest request and the longest answer, in bytes.
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

    /// `None` = it is none.
    pub(crate) fn read(bytes: &'m [u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (key, rest) = rest.split_first_chunk()?;
        let (scheme, message) = rest.split_first_chunk()?;
        let (number, scheme) = (u64::from_le_bytes(*number), u16::from_le_bytes(*scheme));
        Some(Self { number, key: *key, scheme, message })
    }
}

/// How a request ended, or that a process has begun to hear, which has none of the requests that
/// the one before it had taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum SignatureStatus {
    Signed = 0,
    Unknown = 1,
    Refused = 2,
    Failed = 3,
    Begun = 4,
}

impl SignatureStatus {
    pub(crate) fn write(self, number: u64, signature: &[u8], to: &mut Vec<u8>) {
        to.zeroize();
        to.extend(number.to_le_bytes());
        to.push(self as u8);
        to.extend(signature);
    }

    /// The number of the request, its end, and the signature.
    pub(crate) fn read(bytes: &[u8]) -> Option<(u64, Self, &[u8])> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (status, signature) = rest.split_first()?;
        let all = [Self::Signed, Self::Unknown, Self::Refused, Self::Failed, Self::Begun];
        let status = *all.get(usize::from(*status))?;
        Some((u64::from_le_bytes(*number), status, signature))
    }
}

/// What has been asked since the worker process started, whatever plan it was for.
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
        assert_eq!(SignatureStatus::read(&[5; 9]), None);
    }
}
