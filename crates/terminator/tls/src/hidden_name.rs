//! Server names that the TLS library refuses, so that their clients get the default certificate, as
//! other servers give it (RFC 6066 section 3 asks nobody to refuse them).
//!
//! The library reads the hello itself and answers a name that breaks its rules with
//! `illegal_parameter`. So the extension is shown to it under a type that nobody knows, and the
//! transcript that the handshake is signed and checked by has it as the client sent it. That is
//! sound: a type is two bytes, their place is known, and nothing else is changed.

use rustls_pki_types::ServerName;
use wire::client_hello::{self, ClientHello, Peek};

use crate::record::HEADER_BYTES;

const CHANGE_CIPHER_SPEC: u8 = 20;
const CLIENT_HELLO: u8 = 1;
const MESSAGE_HEADER_BYTES: usize = 4;
const SERVER_NAME: [u8; 2] = [0, 0];

/// Where in the extension the type of the first name is, behind its own type and two lengths.
const FIRST_TYPE_AT: usize = 6;
const HOST_NAME: u8 = 0;

/// A server name that is hidden from the library.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HiddenName {
    at: usize,
    stand_in: [u8; 2],
    /// The name, if a certificate can be for it.
    pub(crate) name: Option<Box<str>>,
}

impl HiddenName {
    /// The name of a hello, if the library would refuse it.
    pub(crate) fn of(hello: &ClientHello<'_>) -> Option<Self> {
        let name = hello.server_name();
        let is_taken = |bytes: &[u8]| ServerName::try_from(bytes).is_ok();
        let sent = name.map(str::as_bytes).or_else(|| hello.other_name())?;
        let (at, unused) = hello.name_extension()?;
        // Nor does the library look for a name behind one of another type.
        let is_first = hello.body().get(at + FIRST_TYPE_AT) == Some(&HOST_NAME);
        if is_first && is_taken(sent) {
            return None;
        }
        Some(Self {
            at: MESSAGE_HEADER_BYTES + at,
            stand_in: unused.to_be_bytes(),
            name: name.map(Into::into),
        })
    }

    /// Hides the name of the hello that `incoming` begins with, if there is one to hide.
    pub(crate) fn hide_in(incoming: &mut [u8]) -> Option<Self> {
        let mut start = 0;
        // One may stand before a second hello (RFC 8446 appendix D.4).
        while incoming.get(start) == Some(&CHANGE_CIPHER_SPEC) {
            start += HEADER_BYTES + 1;
        }
        let records = incoming.get_mut(start..)?;
        let hidden = match client_hello::read(records) {
            Ok(Peek::Hello(hello)) => Self::of(&hello)?,
            Ok(Peek::Incomplete) | Err(_) => return None,
        };
        for (at, byte) in (hidden.at..).zip(hidden.stand_in) {
            *within_records(records, at)? = byte;
        }
        Some(hidden)
    }

    /// A message of the transcript as the client sent it; `None` = it is so already.
    pub(crate) fn restored(&self, message: &[u8]) -> Option<Vec<u8>> {
        let place = self.at..self.at + SERVER_NAME.len();
        let is_it = message.first() == Some(&CLIENT_HELLO)
            && message.get(place.clone()) == Some(&self.stand_in);
        is_it.then(|| {
            let mut restored = message.to_vec();
            restored[place].copy_from_slice(&SERVER_NAME);
            restored
        })
    }
}

/// The byte of a message that is there in these records.
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

    /// The message of a hello with these names, each with its type.
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
        let body = [
            &[3, 3][..],
            &[7; 32],
            &[0, 0, 2, 0xc0, 0x2b, 1, 0],
            &length(&extension),
            &extension,
        ]
        .concat();
        [&[CLIENT_HELLO, 0][..], &length(&body), &body].concat()
    }

    /// The same in records of so many bytes.
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
                let hidden = HiddenName::hide_in(&mut shown);
                assert_eq!(hidden.is_some(), is_hidden, "{names:?}");
                let Some(hidden) = hidden else {
                    assert_eq!(shown, sent);
                    continue;
                };
                let Ok(Peek::Hello(read)) = client_hello::read(&shown) else {
                    panic!("no hello");
                };
                assert_eq!((read.server_name(), read.other_name()), (None, None));
                let altered = [&message[..MESSAGE_HEADER_BYTES], read.body()].concat();
                assert_eq!(hidden.restored(&altered), Some(message.clone()));
                assert_eq!(hidden.restored(&message), None);
                // Hidden once, it is not found again.
                assert_eq!(HiddenName::hide_in(&mut shown), None);
            }
        }
    }
}
