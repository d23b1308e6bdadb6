//! Encrypted Client Hello (RFC 9849): the configurations that DNS publishes, the outer hello as far
//! as a client-facing server reads it, and the inner hello, decoded.
//!
//! Pure, and without cryptography: the owner of the keys decrypts the payload. All work is linear
//! in the length of the outer hello, which limits the inner one too: an extension that the inner
//! hello refers to stands once in the outer one, and may be referred to once.

use crate::client_hello::{ClientHello, HELLO_BYTES_MAX, HelloFault};
use crate::cursor::Cursor;

/// Type of the extension, and version of configurations (RFC 9849 sections 4 and 5).
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
const ECH_OUTER_EXTENSIONS: u16 = 0xfd00;
const SUPPORTED_VERSIONS: u16 = 43;
const OUTER: u8 = 0;
const INNER: u8 = 1;

/// Algorithms offered: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, and two ciphers (RFC 9180 section
/// 7).
pub const KEM_X25519: u16 = 0x0020;
pub const KDF_SHA256: u16 = 1;
pub const AEAD_AES_128_GCM: u16 = 1;
pub const AEAD_CHACHA20_POLY1305: u16 = 3;
pub const PUBLIC_KEY_BYTES: usize = 32;

/// Length to which clients pad shorter names. Equal on all farms, so that a configuration tells
/// nothing about the names behind it.
const NAME_BYTES_PADDED: u8 = 64;

/// A configuration to publish, or read from a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EchConfig {
    pub id: u8,
    pub public_name: String,
    pub public_key: [u8; PUBLIC_KEY_BYTES],
    /// Bytes of the whole ECHConfig, to which the encryption is bound.
    pub bytes: Vec<u8>,
}

impl EchConfig {
    /// Makes a configuration for these ciphers; `public_name`: a host name of at most 253 bytes.
    pub fn new(id: u8, public_name: &str, public_key: [u8; PUBLIC_KEY_BYTES]) -> Self {
        let mut contents = vec![id];
        contents.extend(KEM_X25519.to_be_bytes());
        contents.extend(vector16(&public_key));
        let suite = |aead: u16| [KDF_SHA256.to_be_bytes(), aead.to_be_bytes()].concat();
        let suites = [suite(AEAD_AES_128_GCM), suite(AEAD_CHACHA20_POLY1305)].concat();
        contents.extend(vector16(&suites));
        contents.push(NAME_BYTES_PADDED);
        contents.push(u8::try_from(public_name.len()).expect("a host name is short"));
        contents.extend(public_name.as_bytes());
        contents.extend([0, 0]);
        let bytes = [&ENCRYPTED_CLIENT_HELLO.to_be_bytes()[..], &vector16(&contents)].concat();
        Self { id, public_name: public_name.to_owned(), public_key, bytes }
    }

    /// Reads an ECHConfigList, and skips configurations that we cannot use: other versions and
    /// KEMs, and mandatory extensions (RFC 9849 section 4.2). `None` if it is malformed.
    pub fn read_list(bytes: &[u8]) -> Option<Vec<Self>> {
        let mut all = Cursor::new(bytes);
        let mut list = all.vector16().filter(|_| all.is_empty())?;
        let mut configs = Vec::new();
        while !list.is_empty() {
            let before = list.rest();
            let version = list.u16()?;
            let contents = list.vector16()?;
            let whole = before.get(..before.len() - list.rest().len())?;
            if version == ENCRYPTED_CLIENT_HELLO {
                configs.extend(Self::read(contents, whole)?);
            }
        }
        Some(configs)
    }

    fn read(mut contents: Cursor<'_>, whole: &[u8]) -> Option<Option<Self>> {
        const MANDATORY: u16 = 1 << 15;
        let id = contents.u8()?;
        let kem = contents.u16()?;
        let key = contents.vector16()?.rest();
        let suites = contents.vector16()?;
        let _padded = contents.u8()?;
        let name = std::str::from_utf8(contents.vector8()?.rest()).ok()?;
        let mut extensions = contents.vector16().filter(|_| contents.is_empty())?;
        let mut is_mandatory = false;
        while !extensions.is_empty() {
            is_mandatory |= extensions.u16()? & MANDATORY != 0;
            extensions.vector16()?;
        }
        let is_form = !suites.is_empty() && suites.rest().len() % 4 == 0 && !name.is_empty();
        let key = key.try_into().ok().filter(|_| kem == KEM_X25519 && !is_mandatory);
        is_form.then(|| {
            key.map(|public_key| Self {
                id,
                public_name: name.to_owned(),
                public_key,
                bytes: whole.to_vec(),
            })
        })
    }
}

/// Returns the ECHConfigList of configurations, the preferred one first.
pub fn config_list<'c>(configs: impl IntoIterator<Item = &'c EchConfig>) -> Vec<u8> {
    let all: Vec<u8> = configs.into_iter().flat_map(|one| one.bytes.iter().copied()).collect();
    vector16(&all)
}

/// Content of a hello's extension encrypted_client_hello.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EchOffer<'a> {
    Absent,
    Malformed,
    Inner,
    Outer(OuterHello<'a>),
}

/// An outer hello, as far as its payload is concerned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OuterHello<'a> {
    pub kdf: u16,
    pub aead: u16,
    pub config_id: u8,
    /// Encapsulated key; empty in the second hello of a connection.
    pub key: &'a [u8],
    pub payload: &'a [u8],
    body: &'a [u8],
    payload_at: usize,
}

impl OuterHello<'_> {
    /// Returns the data that authenticates the payload: the body with zeros in the payload's place
    /// (RFC 9849 section 5.2).
    pub fn additional_data(&self) -> Vec<u8> {
        let mut body = self.body.to_vec();
        body[self.payload_at..][..self.payload.len()].fill(0);
        body
    }
}

/// Reads the extension of a hello.
pub fn offer<'a>(hello: &'a ClientHello<'_>) -> EchOffer<'a> {
    let body = hello.body();
    let Some((_, mut extensions)) = Body::read(&mut Cursor::new(body)) else {
        return EchOffer::Absent;
    };
    let found = std::iter::from_fn(|| next_extension(&mut extensions))
        .find(|(kind, _)| *kind == ENCRYPTED_CLIENT_HELLO);
    let Some((_, mut data)) = found else {
        return EchOffer::Absent;
    };
    if data.rest() == [INNER] {
        return EchOffer::Inner;
    }
    match outer(body, &mut data) {
        Some(outer) if data.is_empty() => EchOffer::Outer(outer),
        _ => EchOffer::Malformed,
    }
}

fn outer<'a>(body: &'a [u8], data: &mut Cursor<'a>) -> Option<OuterHello<'a>> {
    data.u8().filter(|kind| *kind == OUTER)?;
    let (kdf, aead, config_id) = (data.u16()?, data.u16()?, data.u8()?);
    let key = data.vector16()?.rest();
    let payload = data.vector16().filter(|payload| !payload.is_empty())?;
    let payload_at = payload.position();
    Some(OuterHello { kdf, aead, config_id, key, payload: payload.rest(), body, payload_at })
}

/// Fault of an inner hello, with its detail.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum InnerFault {
    /// Wrong encoding (RFC 9849 section 5.1).
    Encoding(&'static str),
    /// No inner hello, or one for a version that has none (section 7.1).
    Illegal(&'static str),
    Hello(HelloFault),
}

impl std::fmt::Display for InnerFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Encoding(detail) => write!(f, "inner hello wrongly encoded: {detail}"),
            Self::Illegal(detail) => write!(f, "illegal inner hello: {detail}"),
            Self::Hello(fault) => write!(f, "inner hello: {fault}"),
        }
    }
}

/// Returns the records of the inner hello, made of the decrypted bytes and of the parts of the
/// outer hello that they refer to. They are no longer than those of the outer hello.
///
/// # Errors
/// Fails where a client-facing server has to refuse the hello.
pub fn inner_records(outer: &ClientHello<'_>, encoded: &[u8]) -> Result<Vec<u8>, InnerFault> {
    use InnerFault::{Encoding, Illegal};
    let mut cursor = Cursor::new(encoded);
    let (head, extensions) = Body::read(&mut cursor).ok_or(Encoding("not a ClientHello"))?;
    if cursor.rest().iter().any(|byte| *byte != 0) {
        return Err(Illegal("padding that is not zero"));
    }
    if !head.session_id.is_empty() {
        return Err(Illegal("legacy_session_id of its own"));
    }
    let extensions = expanded(extensions, outer.body())?;
    let session_id = outer.session_id();
    let id_bytes = u8::try_from(session_id.len()).map_err(|_| Encoding("legacy_session_id"))?;
    let body = [
        head.version_and_random,
        &[id_bytes],
        session_id,
        head.suites_and_compression,
        &vector16(&extensions),
    ]
    .concat();
    if body.len() > HELLO_BYTES_MAX - MESSAGE_HEADER_BYTES {
        return Err(Encoding("too long"));
    }
    let records = records_of(&body);
    match crate::client_hello::read(&records).map_err(InnerFault::Hello)? {
        crate::client_hello::HelloProgress::Hello(_) => Ok(records),
        crate::client_hello::HelloProgress::Incomplete => Err(Encoding("cut off")),
    }
}

const MESSAGE_HEADER_BYTES: usize = 4;

/// Returns one record with a hello, in the form of first records (RFC 8446 section 5.1).
fn records_of(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("bounded above").to_be_bytes();
    let message = [&[1][..], &length[1..], body].concat();
    [&[22, 3, 1][..], &vector16(&message)].concat()
}

/// Returns the extensions of the inner hello with references replaced by extensions of the outer
/// hello, in one pass over either (RFC 9849 section 5.1).
fn expanded(mut inner: Cursor<'_>, outer_body: &[u8]) -> Result<Vec<u8>, InnerFault> {
    use InnerFault::{Encoding, Illegal};
    let mut all = Vec::with_capacity(outer_body.len());
    let (mut is_inner, mut is_tls13, mut has_references) = (false, false, false);
    while !inner.is_empty() {
        let (kind, data) = next_extension(&mut inner).ok_or(Encoding("extension"))?;
        match kind {
            ECH_OUTER_EXTENSIONS if has_references => {
                return Err(Illegal("ech_outer_extensions twice"));
            }
            ECH_OUTER_EXTENSIONS => {
                has_references = true;
                let taken = referred(data, outer_body)?;
                for (kind, data) in taken {
                    is_tls13 |= kind == SUPPORTED_VERSIONS && judge_versions(data)?;
                    append(&mut all, kind, data.rest());
                }
                continue;
            }
            ENCRYPTED_CLIENT_HELLO if data.rest() != [INNER] => {
                return Err(Illegal("without the mark of an inner hello"));
            }
            ENCRYPTED_CLIENT_HELLO => is_inner = true,
            SUPPORTED_VERSIONS => is_tls13 |= judge_versions(data)?,
            _ => {}
        }
        append(&mut all, kind, data.rest());
    }
    if !is_inner {
        return Err(Illegal("without the mark of an inner hello"));
    }
    if !is_tls13 {
        return Err(Illegal("for TLS 1.2"));
    }
    Ok(all)
}

/// Returns the extensions of the outer hello that are referred to. They stand there in the same
/// order, so that each is read once.
fn referred<'a>(
    mut data: Cursor<'_>,
    outer_body: &'a [u8],
) -> Result<Vec<(u16, Cursor<'a>)>, InnerFault> {
    use InnerFault::{Encoding, Illegal};
    let list = data.vector8().filter(|list| data.is_empty() && !list.is_empty());
    let (kinds, rest) = list.ok_or(Encoding("ech_outer_extensions"))?.rest().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Encoding("ech_outer_extensions"));
    }
    let outer = Body::read(&mut Cursor::new(outer_body));
    let (_, mut outer) = outer.ok_or(Encoding("no extensions outside"))?;
    let mut taken = Vec::with_capacity(kinds.len());
    for kind in kinds.iter().map(|kind| u16::from_be_bytes(*kind)) {
        if matches!(kind, ENCRYPTED_CLIENT_HELLO | ECH_OUTER_EXTENSIONS) {
            return Err(Illegal("refers to ECH itself"));
        }
        let mut rest = std::iter::from_fn(|| next_extension(&mut outer));
        let found = rest.find(|(other, _)| *other == kind);
        taken.push(found.ok_or(Illegal("refers to what is not there, or not in order"))?);
    }
    Ok(taken)
}

/// Reports whether TLS 1.3 is offered; an older version beside it is a fault.
fn judge_versions(mut data: Cursor<'_>) -> Result<bool, InnerFault> {
    let mut list = data.vector8().ok_or(InnerFault::Encoding("supported_versions"))?;
    let versions: Vec<_> = std::iter::from_fn(|| list.u16()).collect();
    if versions.iter().any(|version| (0x0300..=0x0303).contains(version)) {
        return Err(InnerFault::Illegal("for TLS 1.2"));
    }
    Ok(versions.contains(&0x0304))
}

fn append(all: &mut Vec<u8>, kind: u16, data: &[u8]) {
    all.extend(kind.to_be_bytes());
    all.extend(vector16(data));
}

fn next_extension<'a>(list: &mut Cursor<'a>) -> Option<(u16, Cursor<'a>)> {
    Some((list.u16()?, list.vector16()?))
}

/// Parts of a hello's body before its extensions, undecoded.
struct Body<'a> {
    version_and_random: &'a [u8],
    session_id: &'a [u8],
    suites_and_compression: &'a [u8],
}

impl<'a> Body<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Option<(Self, Cursor<'a>)> {
        let version_and_random = cursor.take(2 + 32)?;
        let session_id = cursor.vector8()?.rest();
        let before = cursor.rest();
        cursor.vector16()?;
        cursor.vector8()?;
        let suites_and_compression = before.get(..before.len() - cursor.rest().len())?;
        let extensions = cursor.vector16()?;
        Some((Self { version_and_random, session_id, suites_and_compression }, extensions))
    }
}

/// Returns the bytes behind two bytes of length.
fn vector16(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("what is written is short");
    [&length.to_be_bytes()[..], bytes].concat()
}

/// Result of the search for a server's request for a second hello.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ServerAnswer {
    Incomplete,
    /// HelloRetryRequest (RFC 8446 section 4.1.4).
    Retry,
    Other,
}

/// Random of HelloRetryRequest.
const RETRY_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Reads a server's first message, whose bytes come in any pieces and records.
#[derive(Clone, Debug, Default)]
pub struct RetryWatch {
    header: Vec<u8>,
    left_in_record: usize,
    message: Vec<u8>,
}

impl RetryWatch {
    /// Bytes of the message up to the end of its random.
    const BYTES: usize = MESSAGE_HEADER_BYTES + 2 + RETRY_RANDOM.len();

    /// Takes the next bytes; to be called while it returns [`ServerAnswer::Incomplete`].
    pub fn take(&mut self, bytes: &[u8]) -> ServerAnswer {
        for byte in bytes {
            if self.left_in_record > 0 {
                self.left_in_record -= 1;
                self.message.push(*byte);
                if self.message.len() == Self::BYTES {
                    let is_hello = self.message[0] == 2;
                    let random = &self.message[MESSAGE_HEADER_BYTES + 2..];
                    let is_retry = is_hello && random == RETRY_RANDOM;
                    return if is_retry { ServerAnswer::Retry } else { ServerAnswer::Other };
                }
                continue;
            }
            self.header.push(*byte);
            if let [kind, _, _, high, low] = self.header[..] {
                if kind != 22 {
                    return ServerAnswer::Other;
                }
                self.left_in_record = u16::from_be_bytes([high, low]).into();
                self.header.clear();
            }
        }
        ServerAnswer::Incomplete
    }
}

/// Limits of a client's records: decides which bytes may be passed on before its second hello.
#[derive(Clone, Debug, Default)]
pub struct RecordGate {
    left_in_record: usize,
}

impl RecordGate {
    /// Returns how many of the bytes belong to records that have begun: all except an incomplete
    /// header, and except a handshake record and all bytes behind it, if `stops_at_handshake`.
    pub fn pass(&mut self, bytes: &[u8], stops_at_handshake: bool) -> usize {
        let mut at = self.left_in_record.min(bytes.len());
        self.left_in_record -= at;
        while let Some([kind, _, _, high, low]) =
            bytes.get(at..).and_then(|rest| rest.first_chunk())
        {
            if stops_at_handshake && *kind == 22 {
                break;
            }
            let record = 5 + usize::from(u16::from_be_bytes([*high, *low]));
            let there = record.min(bytes.len() - at);
            self.left_in_record = record - there;
            at += there;
        }
        at
    }
}

#[cfg(test)]
mod tests;
