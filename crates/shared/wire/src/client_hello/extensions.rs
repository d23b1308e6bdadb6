//! One pass over a hello's extensions: checks the form of those we use, and notes their positions,
//! so that a parsed hello can own its bytes and still be read; and decides which bytes of a
//! server_name extension are a host name (RFC 6066 section 3).

use std::net::IpAddr;
use std::ops::RangeInclusive;

use HelloFault::{Illegal, Malformed};

use super::records::HelloFault;
use crate::cursor::Cursor;

/// Positions of the extensions that methods return. A list that must not be empty is not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extensions {
    pub(super) server_name: Option<HelloSpan>,
    /// Bytes in the place of the name that are no name.
    pub(super) other_name: Option<HelloSpan>,
    /// Offset of the extension with either.
    pub(super) name_extension: Option<usize>,
    /// Extensions that this server ignores, in forms that a TLS library may refuse.
    pub(super) ignorable: [Option<(usize, u16)>; IGNORABLE_MAX],
    /// Types that no extension has, if the name or an ignorable extension is present.
    pub(super) unused: [u16; IGNORABLE_MAX + 1],
    pub(super) alpn: Option<HelloSpan>,
    pub(super) supported_versions: Option<HelloSpan>,
    pub(super) supported_groups: Option<HelloSpan>,
    pub(super) signature_algorithms: Option<HelloSpan>,
    pub(super) signature_algorithms_cert: Option<HelloSpan>,
    pub(super) key_shares: Option<HelloSpan>,
    pub(super) session_ticket: Option<HelloSpan>,
    pub(super) psk_identities: Option<HelloSpan>,
    /// Whether a pre-shared key may come with a key exchange (RFC 8446 section 4.2.9).
    pub(super) psk_with_exchange: bool,
    pub(super) early_data: bool,
}

/// Most ignorable extensions: [`COMPRESS_CERTIFICATE`] and the two of ECH.
pub(super) const IGNORABLE_MAX: usize = 3;

/// RFC 8879.
const COMPRESS_CERTIFICATE: u16 = 27;
/// RFC 9849 section 5.
const ECH_OUTER_EXTENSIONS: u16 = 0xfd00;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// Reads all extensions, from behind the compression methods to the end of the hello.
pub(super) fn read(mut hello: Cursor<'_>) -> Result<Extensions, HelloFault> {
    let mut found = Extensions::default();
    if hello.is_empty() {
        return Ok(found);
    }
    let mut list = hello.vector16().ok_or(Malformed("extensions"))?;
    if !hello.is_empty() {
        return Err(Malformed("bytes after the extensions"));
    }
    let mut seen = SeenExtensions([0; 1 << 10]);
    let mut ignorable = 0;
    while !list.is_empty() {
        let at = list.position();
        let kind = list.u16().ok_or(Malformed("extension type"))?;
        let data = list.vector16().ok_or(Malformed("extension length"))?;
        seen.note(kind)?;
        if found.psk_identities.is_some() {
            return Err(Illegal("pre_shared_key is not the last extension"));
        }
        if is_ignorable(kind, data) {
            found.ignorable[ignorable] = Some((at, kind));
            ignorable += 1;
        }
        found.read_one(kind, data)?;
        if kind == 0 {
            found.name_extension = Some(at);
        }
    }
    if found.name_extension.is_some() || ignorable > 0 {
        // The hello is too short to hold all of these types.
        let unused = PRIVATE_USE.clone().filter(|kind| !seen.has(*kind));
        for (place, kind) in found.unused.iter_mut().zip(unused) {
            *place = kind;
        }
    }
    Ok(found)
}

impl Extensions {
    fn read_one(&mut self, kind: u16, data: Cursor<'_>) -> Result<(), HelloFault> {
        match kind {
            0 => (self.server_name, self.other_name) = server_name(data)?,
            10 => self.supported_groups = Some(numbers16(data, "supported_groups")?),
            13 => self.signature_algorithms = Some(numbers16(data, "signature_algorithms")?),
            16 => self.alpn = Some(alpn(data)?),
            23 => drop(flag(data, "extended_master_secret")?),
            35 => self.session_ticket = Some(HelloSpan::of(&data)),
            45 => self.psk_with_exchange = has_psk_dhe(data),
            41 => self.psk_identities = Some(psk_identities(data)?),
            42 => self.early_data = flag(data, "early_data")?,
            43 => self.supported_versions = Some(supported_versions(data)?),
            50 => {
                let span = numbers16(data, "signature_algorithms_cert")?;
                self.signature_algorithms_cert = Some(span);
            }
            51 => self.key_shares = Some(key_shares(data)?),
            0xff01 => renegotiation_info(data)?,
            _ => {}
        }
        Ok(())
    }
}

/// Types seen so far, a bit each: a hello may carry any number that fits (RFC 8446 section 4.1.2:
/// unknown ones are ignored), so that the search for duplicates must not depend on it.
struct SeenExtensions([u64; 1 << 10]);

/// Types for private use (RFC 8447 section 7), the least used first.
static PRIVATE_USE: RangeInclusive<u16> = 0x8a00..=0xfeff;

impl SeenExtensions {
    fn has(&self, kind: u16) -> bool {
        self.0[usize::from(kind >> 6)] & 1 << (kind & 63) != 0
    }

    /// Notes a type. RFC 8446 section 4.2 forbids two extensions of one type.
    fn note(&mut self, kind: u16) -> Result<(), HelloFault> {
        let (word, bit) = (usize::from(kind >> 6), 1 << (kind & 63));
        let seen = &mut self.0[word];
        if *seen & bit != 0 {
            return Err(Illegal("two extensions of one type"));
        }
        *seen |= bit;
        Ok(())
    }
}

/// Reports whether a server without ECH, or one that accepts a repeated algorithm, ignores the
/// extension because it breaks no rule that it knows (RFC 8446 section 4.1.2).
fn is_ignorable(kind: u16, data: Cursor<'_>) -> bool {
    match kind {
        COMPRESS_CERTIFICATE => repeats_an_algorithm(data),
        ENCRYPTED_CLIENT_HELLO => !is_outer_hello(data),
        ECH_OUTER_EXTENSIONS => true,
        _ => false,
    }
}

fn repeats_an_algorithm(mut data: Cursor<'_>) -> bool {
    let Some(list) = data.vector8() else {
        return false;
    };
    let (algorithms, rest) = list.rest().as_chunks::<2>();
    let is_repeated = |at: usize| algorithms[..at].contains(&algorithms[at]);
    data.is_empty() && rest.is_empty() && (0..algorithms.len()).any(is_repeated)
}

/// Reports whether this is an outer hello's ECHClientHello (RFC 9849 section 5), as browsers send.
fn is_outer_hello(mut data: Cursor<'_>) -> bool {
    const OUTER: u8 = 0;
    let mut read = || {
        let kind = data.u8()?;
        let (_kdf, _aead) = (data.u16()?, data.u16()?);
        let _config = data.u8()?;
        let _key = data.vector16()?;
        let payload = data.vector16()?;
        Some(kind == OUTER && !payload.is_empty())
    };
    read() == Some(true) && data.is_empty()
}

fn flag(data: Cursor<'_>, name: &'static str) -> Result<bool, HelloFault> {
    if data.is_empty() { Ok(true) } else { Err(Malformed(name)) }
}

/// Returns the vector that fills the extension to its end.
fn whole16<'a>(mut data: Cursor<'a>, name: &'static str) -> Result<Cursor<'a>, HelloFault> {
    let list = data.vector16().ok_or(Malformed(name))?;
    if data.is_empty() { Ok(list) } else { Err(Malformed(name)) }
}

fn even(list: Cursor<'_>, name: &'static str) -> Result<HelloSpan, HelloFault> {
    let bytes = list.rest().len();
    if bytes > 0 && bytes.is_multiple_of(2) {
        Ok(HelloSpan::of(&list))
    } else {
        Err(Malformed(name))
    }
}

fn numbers16(data: Cursor<'_>, name: &'static str) -> Result<HelloSpan, HelloFault> {
    even(whole16(data, name)?, name)
}

fn supported_versions(mut data: Cursor<'_>) -> Result<HelloSpan, HelloFault> {
    const NAME: &str = "supported_versions";
    let list = data.vector8().ok_or(Malformed(NAME))?;
    if data.is_empty() { even(list, NAME) } else { Err(Malformed(NAME)) }
}

/// Reads server_name (RFC 6066 section 3). Names of other types than host_name are skipped: each
/// begins with its length.
///
/// An invalid host name is no fault: the client is treated like one without a name.
fn server_name(data: Cursor<'_>) -> Result<(Option<HelloSpan>, Option<HelloSpan>), HelloFault> {
    const NAME: &str = "server_name";
    let mut host_name = None;
    each(whole16(data, NAME)?, NAME, |list| {
        let kind = list.u8()?;
        let name = list.vector16()?;
        (kind != 0 || host_name.replace(name).is_none()).then_some(())
    })?;
    let mut name = host_name.ok_or(Illegal("server_name without a host name"))?;
    match judge_host_name(name.rest()) {
        HostName::Valid(bytes) => Ok((name.part(bytes).as_ref().map(HelloSpan::of), None)),
        HostName::Other if name.is_empty() => Err(Illegal("server_name is empty")),
        HostName::Other => Ok((None, Some(HelloSpan::of(&name)))),
    }
}

/// Checks that a first hello renegotiates nothing (RFC 5746 section 3.6).
fn renegotiation_info(mut data: Cursor<'_>) -> Result<(), HelloFault> {
    let renegotiated = data.vector8().filter(|_| data.is_empty());
    match renegotiated.map(|verify_data| verify_data.is_empty()) {
        Some(true) => Ok(()),
        Some(false) => Err(HelloFault::Renegotiation),
        None => Err(Malformed("renegotiation_info")),
    }
}

/// Reads the protocols (RFC 7301 section 3.1).
fn alpn(data: Cursor<'_>) -> Result<HelloSpan, HelloFault> {
    const NAME: &str = "application_layer_protocol_negotiation";
    let list = whole16(data, NAME)?;
    each(list, NAME, |list| {
        let protocol = list.vector8()?;
        (!protocol.is_empty()).then_some(())
    })?;
    Ok(HelloSpan::of(&list))
}

/// Reads key_share (RFC 8446 section 4.2.8); an empty list asks for a HelloRetryRequest.
fn key_shares(data: Cursor<'_>) -> Result<HelloSpan, HelloFault> {
    const NAME: &str = "key_share";
    let list = whole16(data, NAME)?;
    if !list.is_empty() {
        each(list, NAME, |list| {
            list.u16()?;
            let key = list.vector16()?;
            (!key.is_empty()).then_some(())
        })?;
    }
    Ok(HelloSpan::of(&list))
}

/// Reports whether a pre-shared key may come with a key exchange (RFC 8446 section 4.2.11). The TLS
/// library refuses malformed content.
fn has_psk_dhe(mut data: Cursor<'_>) -> bool {
    const PSK_DHE_KE: u8 = 1;
    data.vector8().is_some_and(|modes| modes.rest().contains(&PSK_DHE_KE))
}

fn psk_identities(mut data: Cursor<'_>) -> Result<HelloSpan, HelloFault> {
    const NAME: &str = "pre_shared_key";
    let identities = data.vector16().ok_or(Malformed(NAME))?;
    let identity_count = each(identities, NAME, |list| {
        let identity = list.vector16()?;
        list.u32()?;
        (!identity.is_empty()).then_some(())
    })?;
    let binder_count = each(whole16(data, NAME)?, NAME, |list| {
        let binder = list.vector8()?;
        (binder.rest().len() >= 32).then_some(())
    })?;
    if identity_count == binder_count {
        Ok(HelloSpan::of(&identities))
    } else {
        Err(Illegal("pre_shared_key has not one binder an identity"))
    }
}

/// Reads items until the list, which must have at least one, is used up. Returns their number.
fn each<'a>(
    mut list: Cursor<'a>,
    name: &'static str,
    mut item: impl FnMut(&mut Cursor<'a>) -> Option<()>,
) -> Result<usize, HelloFault> {
    let mut count = 0;
    while count == 0 || !list.is_empty() {
        item(&mut list).ok_or(Malformed(name))?;
        count += 1;
    }
    Ok(count)
}

/// Kind of the bytes in the place of a host name.
pub(super) enum HostName {
    /// Host name of this many bytes, without one closing dot.
    Valid(usize),
    /// IP address, which is not permitted, or anything else. Such clients exist and mean no harm.
    Other,
}

/// Accepts names that DNS can look up and people write in ASCII: labels of letters, digits, hyphens
/// and underscores. RFC 1123 is stricter about hyphens, and names that break it are in use.
pub(super) fn judge_host_name(bytes: &[u8]) -> HostName {
    let name = bytes.strip_suffix(b".").unwrap_or(bytes);
    let is_name = name.len() <= 253 && name.split(|byte| *byte == b'.').all(is_label);
    if is_name && !is_address(name) { HostName::Valid(name.len()) } else { HostName::Other }
}

fn is_label(label: &[u8]) -> bool {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    (1..=63).contains(&label.len()) && label.iter().all(allowed)
}

fn is_address(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.parse::<IpAddr>().is_ok())
}

/// Range of bytes from `start` up to, not including, `end`.
///
/// Two bytes each, because a body is at most [`super::HELLO_BYTES_MAX`] long.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HelloSpan {
    start: u16,
    end: u16,
}

impl HelloSpan {
    pub(super) fn of(cursor: &Cursor<'_>) -> Self {
        let place = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
        Self {
            start: place(cursor.position()),
            end: place(cursor.position() + cursor.rest().len()),
        }
    }

    /// Returns the bytes of the body in this range.
    pub(super) fn within(self, body: &[u8]) -> &[u8] {
        body.get(self.start.into()..self.end.into()).unwrap_or(&[])
    }
}

#[cfg(test)]
mod host_name_tests {
    use super::*;

    #[test]
    fn names_and_what_is_none() {
        for name in [
            "localhost",
            "a.b",
            "A-1.example",
            "_x.y",
            "xn--a.b.",
            "1.a",
            "-a",
            "a-.b",
            "1.2.3",
            "a.1",
        ] {
            let length = name.trim_end_matches('.').len();
            assert!(
                matches!(judge_host_name(name.as_bytes()), HostName::Valid(n) if n == length),
                "{name}"
            );
        }
        let long = "a.".repeat(127);
        for other in [
            "127.0.0.1",
            "127.0.0.1.",
            "::1",
            "2001:db8::1",
            "",
            ".",
            "a..b",
            "a b",
            "a\0b",
            "a:443",
            "\u{e9}",
            "a/b",
            "a..",
            "[::1]",
            &format!("{long}a"),
            &"a".repeat(64),
        ] {
            assert!(matches!(judge_host_name(other.as_bytes()), HostName::Other), "{other:?}");
        }
    }
}
