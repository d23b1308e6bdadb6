//! The first bytes of a TLS connection: decides whether they are a ClientHello, and reads it.
//!
//! Handles the reading of records and of the hello in them (RFC 8446 sections 4.1.2, 4.2 and 5.1,
//! RFC 5246 section 7.4.1.2), in one pass and, unless the hello is fragmented, without copying.
//! Enforces no policy besides "TLS 1.2 at least", and answers nothing. A client's JA4 fingerprint
//! names its TLS software: version, offers and extensions, without values that change from
//! connection to connection. It follows FoxIO's "JA4: TLS Client Fingerprinting" (technical
//! details, BSD 3-Clause); the hash is the caller's task.

mod extensions;
mod records;

use std::borrow::Cow;
use std::fmt::Write as _;

pub use crate::alert::alert_record;
use crate::cursor::Cursor;
use extensions::{Extensions, HelloSpan, HostName};
pub use records::{HELLO_BYTES_MAX, HelloFault};

const TLS_1_2: u16 = 0x0303;
const TLS_1_3: u16 = 0x0304;

/// Result so far.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "it is looked at where it is made")]
pub enum HelloProgress<'a> {
    Incomplete,
    /// The hello is complete.
    Hello(ClientHello<'a>),
}

/// Reads the first bytes of a connection as they come. It keeps its position, but no bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader(records::HelloJoiner);

impl Reader {
    /// Reads the first bytes of a connection; to be called again with the same bytes and more
    /// behind them while it is [`HelloProgress::Incomplete`].
    ///
    /// Bytes after the hello's last record are ignored. The answer depends on the bytes alone, not
    /// on how they were cut: a fault that a prefix shows is the fault of the whole.
    ///
    /// # Errors
    /// Returns the [`HelloFault`] as early as the bytes show it.
    pub fn read<'a>(&mut self, bytes: &'a [u8]) -> Result<HelloProgress<'a>, HelloFault> {
        if records::is_handshake(bytes)?.is_none() {
            return Ok(HelloProgress::Incomplete);
        }
        match self.0.join(bytes)? {
            None => Ok(HelloProgress::Incomplete),
            Some(message) => {
                ClientHello::read(message.body, message.wire_bytes).map(HelloProgress::Hello)
            }
        }
    }
}

/// Reads the first bytes of a connection at once; see [`Reader::read`].
///
/// # Errors
/// Returns the [`HelloFault`] as early as the bytes show it.
pub fn read(bytes: &[u8]) -> Result<HelloProgress<'_>, HelloFault> {
    Reader::default().read(bytes)
}

/// Returns a text as the host name that a hello can ask for, without a closing dot; `None` if it is
/// not a host name.
pub fn host_name(text: &str) -> Option<&str> {
    match extensions::judge_host_name(text.as_bytes()) {
        HostName::Valid(length) => text.get(..length),
        HostName::Other => None,
    }
}

/// A ClientHello whose fields have all been checked for form, as far as methods return them.
///
/// Lists have the client's order and are empty if the client did not send them; numbers are those
/// of the IANA registries, GREASE values (RFC 8701) included.
#[derive(Clone, Debug)]
pub struct ClientHello<'a> {
    body: Cow<'a, [u8]>,
    wire_bytes: usize,
    legacy_version: u16,
    highest_version: u16,
    random: [u8; 32],
    session_id: HelloSpan,
    cipher_suites: HelloSpan,
    extensions: Extensions,
}

impl<'a> ClientHello<'a> {
    fn read(body: Cow<'a, [u8]>, wire_bytes: usize) -> Result<Self, HelloFault> {
        use HelloFault::Malformed;
        let mut cursor = Cursor::new(&body);
        let legacy_version = cursor.u16().ok_or(Malformed("legacy_version"))?;
        let random = cursor.array().ok_or(Malformed("random"))?;
        let session_id = cursor.vector8().ok_or(Malformed("session_id"))?;
        if session_id.rest().len() > 32 {
            return Err(Malformed("session_id of over 32 bytes"));
        }
        let cipher_suites = cursor.vector16().ok_or(Malformed("cipher_suites"))?;
        if cipher_suites.is_empty() || cipher_suites.rest().len() % 2 != 0 {
            return Err(Malformed("cipher_suites"));
        }
        let compression = cursor.vector8().ok_or(Malformed("compression methods"))?;
        if compression.is_empty() {
            return Err(Malformed("compression methods"));
        }
        let (session_id, cipher_suites) =
            (HelloSpan::of(&session_id), HelloSpan::of(&cipher_suites));
        let extensions = extensions::read(cursor)?;
        let highest_version = highest_version(&body, legacy_version, &extensions)?;
        if !compression.rest().contains(&0) {
            return Err(HelloFault::Illegal("no null compression offered"));
        }
        Ok(Self {
            wire_bytes,
            legacy_version,
            highest_version,
            random,
            session_id,
            cipher_suites,
            extensions,
            body,
        })
    }

    /// Returns how many bytes of input the hello took, record and handshake headers included.
    pub fn wire_bytes(&self) -> usize {
        self.wire_bytes
    }

    /// Returns the message without its handshake header, its fragments joined.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns the newest known version offered: `0x0303` (TLS 1.2) or `0x0304` (TLS 1.3).
    pub fn highest_version(&self) -> u16 {
        self.highest_version
    }

    /// Returns the "newest version" of a client before TLS 1.3; `0x0303` from later ones.
    pub fn legacy_version(&self) -> u16 {
        self.legacy_version
    }

    pub fn random(&self) -> &[u8; 32] {
        &self.random
    }

    /// Returns the session id: empty, a session of TLS 1.2, or random (RFC 8446 appendix D.4).
    pub fn session_id(&self) -> &[u8] {
        self.session_id.within(&self.body)
    }

    pub fn cipher_suites(&self) -> impl Iterator<Item = u16> + Clone {
        numbers(self.cipher_suites.within(&self.body))
    }

    /// Returns the host name asked for, in the client's spelling, without a closing dot.
    ///
    /// Anything else in its place, such as an IP address, is treated as no name.
    pub fn server_name(&self) -> Option<&str> {
        let name = self.extensions.server_name?.within(&self.body);
        std::str::from_utf8(name).ok()
    }

    /// Returns the bytes in the place of a host name, if they are no host name.
    pub fn other_name(&self) -> Option<&[u8]> {
        Some(self.extensions.other_name?.within(&self.body))
    }

    /// Returns the offset in the body of the extension with the name.
    pub fn name_extension(&self) -> Option<usize> {
        self.extensions.name_extension
    }

    /// Returns the offsets in the body and the types of extensions that a server without ECH
    /// ignores (RFC 8446 section 4.1.2) and a TLS library may refuse for their form: malformed ones
    /// of ECH, `compress_certificate` with an algorithm twice.
    pub fn ignorable_extensions(&self) -> impl Iterator<Item = (usize, u16)> + Clone {
        self.extensions.ignorable.into_iter().flatten()
    }

    /// Returns types that no extension of the hello has: one for [`Self::name_extension`], and as
    /// many as there can be [`Self::ignorable_extensions`].
    pub fn unused_extension_types(&self) -> impl Iterator<Item = u16> + Clone {
        self.extensions.unused.into_iter()
    }

    /// Returns the application protocols (RFC 7301).
    pub fn alpn_protocols(&self) -> impl Iterator<Item = &[u8]> + Clone {
        items(self.extension(self.extensions.alpn), |list| {
            list.vector8().map(|protocol| protocol.rest())
        })
    }

    /// Returns the versions in supported_versions; none before TLS 1.3.
    pub fn supported_versions(&self) -> impl Iterator<Item = u16> + Clone {
        numbers(self.extension(self.extensions.supported_versions))
    }

    pub fn supported_groups(&self) -> impl Iterator<Item = u16> + Clone {
        numbers(self.extension(self.extensions.supported_groups))
    }

    /// Reports whether key_share is present; its list may be empty (RFC 8446 section 4.2.8).
    pub fn has_key_share(&self) -> bool {
        self.extensions.key_shares.is_some()
    }

    /// Returns the groups for which the client sent a key share.
    pub fn key_share_groups(&self) -> impl Iterator<Item = u16> + Clone {
        items(self.extension(self.extensions.key_shares), |list| {
            let group = list.u16()?;
            list.vector16()?;
            Some(group)
        })
    }

    /// Returns the signature schemes for handshake signatures, and for certificates unless
    /// [`Self::signature_algorithms_cert`] names others.
    pub fn signature_algorithms(&self) -> impl Iterator<Item = u16> + Clone {
        numbers(self.extension(self.extensions.signature_algorithms))
    }

    /// Returns the signature schemes for certificates, if the client names them separately.
    pub fn signature_algorithms_cert(&self) -> impl Iterator<Item = u16> + Clone {
        numbers(self.extension(self.extensions.signature_algorithms_cert))
    }

    /// Returns the content of session_ticket (RFC 5077): empty asks for a ticket, other bytes are
    /// one to resume with, `None` wants none.
    pub fn session_ticket(&self) -> Option<&[u8]> {
        Some(self.extensions.session_ticket?.within(&self.body))
    }

    /// Returns the identities of the offered pre-shared keys, by which TLS 1.3 resumes.
    pub fn psk_identities(&self) -> impl Iterator<Item = &[u8]> + Clone {
        items(self.extension(self.extensions.psk_identities), |list| {
            let identity = list.vector16()?;
            list.u32()?;
            Some(identity.rest())
        })
    }

    /// Reports whether an offered session of TLS 1.3 may be resumed with a key exchange.
    pub fn offers_psk_with_exchange(&self) -> bool {
        self.extensions.psk_with_exchange
    }

    /// Reports whether a session is offered. The session id of a client with TLS 1.3 does not tell.
    pub fn offers_session(&self) -> bool {
        let has_ticket = self.session_ticket().is_some_and(|bytes| !bytes.is_empty());
        let has_id = !self.session_id().is_empty() && self.highest_version < TLS_1_3;
        has_ticket || has_id || self.psk_identities().next().is_some()
    }

    /// Reports whether data before the handshake's end (0-RTT) is announced.
    pub fn offers_early_data(&self) -> bool {
        self.extensions.early_data
    }

    fn extension(&self, span: Option<HelloSpan>) -> &[u8] {
        span.map_or(&[], |span| span.within(&self.body))
    }
}

/// Returns the newest version offered. RFC 8446 section 4.2.1: the extension, if present, decides.
fn highest_version(body: &[u8], legacy: u16, extensions: &Extensions) -> Result<u16, HelloFault> {
    let highest = match extensions.supported_versions {
        Some(span) => numbers(span.within(body))
            .filter(|version| (0x0300..=TLS_1_3).contains(version))
            .max()
            .unwrap_or(0),
        None => legacy.min(TLS_1_2),
    };
    if highest >= TLS_1_2 { Ok(highest) } else { Err(HelloFault::VersionTooOld { highest }) }
}

fn numbers(list: &[u8]) -> impl Iterator<Item = u16> + Clone {
    list.as_chunks().0.iter().map(|pair| u16::from_be_bytes(*pair))
}

/// Returns the items of a list until it ends; its form was checked when the hello was read.
fn items<'a, T>(
    list: &'a [u8],
    item: impl Fn(&mut Cursor<'a>) -> Option<T> + Clone,
) -> impl Iterator<Item = T> + Clone {
    let mut cursor = Cursor::new(list);
    std::iter::from_fn(move || item(&mut cursor))
}

const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;

/// Characters of a hash in the fingerprint.
const HASH_CHARACTERS: usize = 12;

/// Largest count in the fingerprint.
const COUNT_MAX: usize = 99;

impl ClientHello<'_> {
    /// Returns the JA4 fingerprint: `t13d1516h2_8daaf6152771_e5627efa2ab1`.
    pub fn ja4(&self, sha256: impl Fn(&[u8]) -> [u8; 32]) -> String {
        let mut suites: Vec<u16> = self.cipher_suites().filter(is_no_grease).collect();
        let mut kinds: Vec<u16> = self.extension_kinds().filter(is_no_grease).collect();
        let has_name = kinds.contains(&SERVER_NAME);
        let mut text = format!(
            "t{}{}{:02}{:02}{}_",
            version(self.supported_versions().filter(is_no_grease).max(), self.legacy_version),
            if has_name { 'd' } else { 'i' },
            suites.len().min(COUNT_MAX),
            kinds.len().min(COUNT_MAX),
            ends(self.alpn_protocols().next().unwrap_or_default()),
        );
        suites.sort_unstable();
        kinds.retain(|kind| !matches!(*kind, SERVER_NAME | ALPN));
        kinds.sort_unstable();
        let schemes: Vec<u16> = self.signature_algorithms().filter(is_no_grease).collect();
        let mut extensions = listed(&kinds);
        if !schemes.is_empty() {
            extensions = format!("{extensions}_{}", listed(&schemes));
        }
        put_hash(&mut text, &listed(&suites), suites.is_empty(), &sha256);
        text.push('_');
        put_hash(&mut text, &extensions, kinds.is_empty(), &sha256);
        text
    }

    /// Returns the types of all extensions, in the client's order.
    fn extension_kinds(&self) -> impl Iterator<Item = u16> {
        let mut list = extension_list(&self.body).unwrap_or_else(|| Cursor::new(&[]));
        std::iter::from_fn(move || {
            let kind = list.u16()?;
            list.vector16()?;
            Some(kind)
        })
    }
}

/// Returns the extensions behind the other fields of a hello.
fn extension_list(hello: &[u8]) -> Option<Cursor<'_>> {
    let mut cursor = Cursor::new(hello);
    cursor.u16()?;
    cursor.array::<32>()?;
    cursor.vector8()?;
    cursor.vector16()?;
    cursor.vector8()?;
    cursor.vector16()
}

/// Rejects GREASE values (RFC 8701), which are random.
fn is_no_grease(number: &u16) -> bool {
    let [high, low] = number.to_be_bytes();
    high != low || low & 0x0f != 0x0a
}

fn version(newest: Option<u16>, legacy: u16) -> &'static str {
    match newest.unwrap_or(legacy) {
        0x0304 => "13",
        0x0303 => "12",
        0x0302 => "11",
        0x0301 => "10",
        0x0300 => "s3",
        _ => "00",
    }
}

/// Returns the first and the last character of a protocol, in hexadecimal unless both are
/// alphanumeric; zeros if there is no protocol.
fn ends(protocol: &[u8]) -> String {
    let (Some(first), Some(last)) = (protocol.first(), protocol.last()) else {
        return "00".to_owned();
    };
    if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        return [char::from(*first), char::from(*last)].iter().collect();
    }
    format!("{:x}{:x}", first >> 4, last & 0x0f)
}

fn listed(numbers: &[u16]) -> String {
    let mut text = String::new();
    for (place, number) in numbers.iter().enumerate() {
        let comma = if place > 0 { "," } else { "" };
        _ = write!(text, "{comma}{number:04x}");
    }
    text
}

fn put_hash(text: &mut String, list: &str, is_empty: bool, sha256: impl Fn(&[u8]) -> [u8; 32]) {
    let hash = if is_empty { [0; 32] } else { sha256(list.as_bytes()) };
    for byte in &hash[..HASH_CHARACTERS / 2] {
        _ = write!(text, "{byte:02x}");
    }
}
