//! Hides extensions of a hello that the TLS library refuses and servers ignore: invalid names,
//! whose clients get the default certificate (RFC 6066 section 3 does not require a refusal),
//! malformed extensions of ECH, which this server does not have (RFC 8446 section 4.1.2), and
//! `compress_certificate` with a repeated algorithm (RFC 8879 does not forbid it).
//!
//! The library reads the hello itself and answers these with an alert. So it sees the extension
//! under an unknown type, while the transcript that is signed and checked has the type that the
//! client sent. This is sound: a type is two bytes, its place is known, and no other byte is
//! changed.

use rustls_pki_types::ServerName;
use wire::client_hello::{self, ClientHello, HelloProgress};

use crate::record::HEADER_BYTES;

const CHANGE_CIPHER_SPEC: u8 = 20;
const CLIENT_HELLO: u8 = 1;
const MESSAGE_HEADER_BYTES: usize = 4;
const SERVER_NAME: u16 = 0;

/// Offset of the first name's type in the extension, after its own type and two lengths.
const FIRST_TYPE_AT: usize = 6;
const HOST_NAME: u8 = 0;

/// Extensions that are hidden from the library.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HiddenExtensions {
    hidden: Vec<HiddenType>,
    /// The hidden name, if a certificate can be for it.
    pub(crate) name: Option<Box<str>>,
}

/// An extension type in the message: its place, the type sent, and the type shown instead.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct HiddenType {
    at: usize,
    sent: [u8; 2],
    shown: [u8; 2],
}

impl HiddenExtensions {
    /// Returns the extensions of a hello that the library would refuse, if there are any.
    pub(crate) fn of(hello: &ClientHello<'_>) -> Option<Self> {
        let name_at = hello.name_extension().filter(|at| is_refused(*at, hello));
        let name = name_at.map(|at| (at, SERVER_NAME));
        let all = name.into_iter().chain(hello.ignorable_extensions());
        let hidden: Vec<_> = all
            .zip(hello.unused_extension_types())
            .map(|((at, sent), shown)| HiddenType {
                at: MESSAGE_HEADER_BYTES + at,
                sent: sent.to_be_bytes(),
                shown: shown.to_be_bytes(),
            })
            .collect();
        (!hidden.is_empty()).then(|| Self {
            hidden,
            name: name_at.and_then(|_| hello.server_name()).map(Into::into),
        })
    }

    /// Hides those extensions in the hello at the start of `incoming`.
    pub(crate) fn hide_in(incoming: &mut [u8]) -> Option<Self> {
        let mut start = 0;
        // A ChangeCipherSpec may precede a second hello (RFC 8446 appendix D.4).
        while incoming.get(start) == Some(&CHANGE_CIPHER_SPEC) {
            start += HEADER_BYTES + 1;
        }
        let records = incoming.get_mut(start..)?;
        let hidden = match client_hello::read(records) {
            Ok(HelloProgress::Hello(hello)) => Self::of(&hello)?,
            Ok(HelloProgress::Incomplete) | Err(_) => return None,
        };
        for one in &hidden.hidden {
            for (at, byte) in (one.at..).zip(one.shown) {
                *within_records(records, at)? = byte;
            }
        }
        Some(hidden)
    }

    /// Returns a message of the transcript as the client sent it; `None` = it is unchanged.
    pub(crate) fn restored(&self, message: &[u8]) -> Option<Vec<u8>> {
        if message.first() != Some(&CLIENT_HELLO) {
            return None;
        }
        let mut restored = None;
        for one in &self.hidden {
            let place = one.at..one.at + one.sent.len();
            if message.get(place.clone()) == Some(&one.shown) {
                let restored = restored.get_or_insert_with(|| message.to_vec());
                restored[place].copy_from_slice(&one.sent);
            }
        }
        restored
    }
}

/// Reports whether the library would refuse the name in the extension at this offset of the body.
fn is_refused(at: usize, hello: &ClientHello<'_>) -> bool {
    let name = hello.server_name().map(str::as_bytes);
    let Some(sent) = name.or_else(|| hello.other_name()) else {
        return false;
    };
    // The library also ignores a name behind one of another type.
    let is_first = hello.body().get(at + FIRST_TYPE_AT) == Some(&HOST_NAME);
    !is_first || ServerName::try_from(sent).is_err()
}

/// Returns a byte of the message that these records carry.
fn within_records(mut records: &mut [u8], mut at: usize) -> Option<&mut u8> {
    loop {
        let length = records.get(3..HEADER_BYTES)?;
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        let (record, rest) = records.split_at_mut_checked(HEADER_BYTES + length)?;
        if at < length {
            return record.get_mut(HEADER_BYTES + at);
        }
        at -= length;
        records = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds the message of a hello with these names, each with its type.
    fn hello(names: &[(u8, &str)]) -> Vec<u8> {
        let length = |bytes: &[u8]| (bytes.len() as u16).to_be_bytes();
        let list: Vec<u8> = names
            .iter()
            .flat_map(|(kind, name)| {
                [&[*kind][..], &length(name.as_bytes()), name.as_bytes()].concat()
            })
            .collect();
        let data = [&length(&list)[..], &list].concat();
        let extension = [&[0, 0][..], &length(&data), &data].concat();
        let body =
            [&[3, 3][..], &[7; 32], &[0, 0, 2, 0xc0, 0x2b, 1, 0], &length(&extension), &extension]
                .concat();
        [&[CLIENT_HELLO, 0][..], &length(&body), &body].concat()
    }

    /// Splits the message into records of this number of bytes.
    fn records(message: &[u8], bytes: usize) -> Vec<u8> {
        let record = |part: &[u8]| [&[22, 3, 1, 0, part.len() as u8][..], part].concat();
        message.chunks(bytes).flat_map(record).collect()
    }

    #[test]
    fn what_the_library_refuses_is_hidden_and_nothing_else_is_changed() {
        for (names, is_hidden) in [
            (&[(0, "a.example")][..], false),
            (&[(0, "_a.example.")], false),
            (&[(0, "a-.example")], true),
            (&[(0, "a.example:443")], true),
            (&[(0, "\u{e9}")], true),
            (&[(9, "?"), (0, "a.example")], true),
        ] {
            let message = hello(names);
            for bytes in [1, 50, 200] {
                let sent = records(&message, bytes);
                let mut shown = sent.clone();
                let hidden = HiddenExtensions::hide_in(&mut shown);
                assert_eq!(hidden.is_some(), is_hidden, "{names:?}");
                let Some(hidden) = hidden else {
                    assert_eq!(shown, sent);
                    continue;
                };
                let Ok(HelloProgress::Hello(read)) = client_hello::read(&shown) else {
                    panic!("no hello");
                };
                assert_eq!((read.server_name(), read.other_name()), (None, None));
                let altered = [&message[..MESSAGE_HEADER_BYTES], read.body()].concat();
                assert_eq!(hidden.restored(&altered), Some(message.clone()));
                assert_eq!(hidden.restored(&message), None);
                // An extension that is hidden is not found again.
                assert_eq!(HiddenExtensions::hide_in(&mut shown), None);
            }
        }
    }

    #[test]
    fn ignorable_extensions_are_hidden_with_the_name() {
        let extension = |kind: u16, data: &[u8]| {
            let length = (data.len() as u16).to_be_bytes();
            [&kind.to_be_bytes()[..], &length, data].concat()
        };
        // Outer hello of ECH: KDF, AEAD, configuration, key, payload.
        let outer = [0, 0, 1, 0, 1, 9, 0, 1, 5, 0, 2, 6, 7];
        for (extensions, count) in [
            (extension(0xfe0d, &outer), 0),
            (extension(0xfe0d, &[&outer[..], &[0]].concat()), 1),
            (extension(0xfe0d, &outer[..12]), 1),
            (extension(0xfe0d, &[]), 1),
            (extension(0xfd00, &[2, 0, 0]), 1),
            (extension(27, &[4, 0, 1, 0, 2]), 0),
            (extension(27, &[6, 0, 1, 0, 2, 0, 1]), 1),
            // Malformed: the library must refuse this one.
            (extension(27, &[5, 0, 1, 0, 1]), 0),
            (
                [extension(27, &[4, 0, 1, 0, 1]), extension(0xfe0d, &[3]), extension(0xfd00, &[])]
                    .concat(),
                3,
            ),
        ] {
            let message = {
                let named = hello(&[(0, "a-.example")]);
                // The list of extensions is the last field of the message, after its length.
                let (head, list) = named.split_at(MESSAGE_HEADER_BYTES + 2 + 32 + 1 + 4 + 2);
                let list = [&list[2..], &extensions].concat();
                let body =
                    [&head[MESSAGE_HEADER_BYTES..], &(list.len() as u16).to_be_bytes(), &list]
                        .concat();
                [&[CLIENT_HELLO, 0][..], &(body.len() as u16).to_be_bytes(), &body].concat()
            };
            let mut shown = records(&message, 20);
            let hidden = HiddenExtensions::hide_in(&mut shown).expect("the name is refused");
            assert_eq!(hidden.hidden.len(), count + 1, "{extensions:x?}");
            let Ok(HelloProgress::Hello(read)) = client_hello::read(&shown) else {
                panic!("no hello");
            };
            assert_eq!(read.ignorable_extensions().count(), 0);
            let altered = [&message[..MESSAGE_HEADER_BYTES], read.body()].concat();
            assert_ne!(altered, message);
            assert_eq!(hidden.restored(&altered), Some(message));
        }
    }
}
