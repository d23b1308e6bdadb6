//! The JA4 fingerprint of a client, which names its TLS software: version, what it offers and in
//! which extensions, without what changes from connection to connection.
//!
//! Written after FoxIO's "JA4: TLS Client Fingerprinting" (technical details, BSD 3-Clause). The
//! hash is the caller's.

use std::fmt::Write as _;

use super::ClientHello;
use crate::cursor::Cursor;

const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;

/// Characters of a hash that are kept.
const HASH_CHARACTERS: usize = 12;

/// More is counted as this.
const COUNT_MAX: usize = 99;

impl ClientHello<'_> {
    /// The JA4 fingerprint: `t13d1516h2_8daaf6152771_e5627efa2ab1`.
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

    /// The types of all extensions, in the client's order.
    fn extension_kinds(&self) -> impl Iterator<Item = u16> {
        let mut list = extension_list(&self.body).unwrap_or_else(|| Cursor::new(&[]));
        std::iter::from_fn(move || {
            let kind = list.u16()?;
            list.vector16()?;
            Some(kind)
        })
    }
}

/// The extensions behind the other fields of a hello.
fn extension_list(hello: &[u8]) -> Option<Cursor<'_>> {
    let mut cursor = Cursor::new(hello);
    cursor.u16()?;
    cursor.array::<32>()?;
    cursor.vector8()?;
    cursor.vector16()?;
    cursor.vector8()?;
    cursor.vector16()
}

/// GREASE values (RFC 8701) are random.
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

/// The first and the last character of a protocol, in hexadecimal unless both are of an
/// identifier; of none, zeros.
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
