//! Files that ticket keys come from: those of HAProxy and nginx, and a secret that hosts share.
//!
//! The bytes read are a secret to derive our own keys from, never a key as those programs use it:
//! they seal by AES-CBC and HMAC, and what OpenSSL puts into a ticket nobody else reads. Hosts
//! with the same files agree on their keys.
//!
//! A secret that hosts share is the root of all that they agree on, and worker processes get only
//! what is extracted from it for their tasks ([`SharedSecret::for_workers`]).

use std::collections::HashSet;
use std::fmt::{self, Debug, Formatter};

use aws_lc_rs::hkdf::{HKDF_SHA256, Prk};
use aws_lc_rs::hmac;
use base64ct::{Base64, Encoding};
use zeroize::Zeroizing;

/// Sizes of one key: name and two keys of 128 bits, or a name and two keys of 256 bits.
const KEY_BYTES: [usize; 2] = [48, 80];

/// Keys of a file with lines that count: the last ones, as in HAProxy. So a file that only grows
/// retires its oldest key with each line.
const LINES_ALIVE: usize = 3;

/// A shorter secret could be guessed.
const SECRET_BYTES_MIN: usize = 32;

/// Different bytes of a secret: of 32 random digits of hexadecimal there are fewer than once in a
/// billion.
const DIFFERENT_BYTES_MIN: usize = 8;

/// Ticket keys as an operator lists them; at least one.
#[derive(Clone, Eq, PartialEq)]
pub struct ListedKeys {
    secrets: Vec<Zeroizing<Vec<u8>>>,
    encrypting: usize,
}

/// A file's place and contents.
type TicketKeyFile = (String, Zeroizing<Vec<u8>>);

/// The bytes of a root: of a hash of SHA-256.
pub const ROOT_BYTES: usize = 32;

/// The task of a worker process that needs keys of a shared secret.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WorkerTask {
    Datagrams,
    Store,
    Tickets,
    Ech,
}

impl WorkerTask {
    const ALL: [Self; 4] = [Self::Datagrams, Self::Store, Self::Tickets, Self::Ech];

    /// The salt of its root, by which hosts of all versions agree on it.
    pub(crate) fn salt(self) -> &'static [u8] {
        match self {
            Self::Datagrams => b"lariat cluster datagrams 1",
            Self::Store => b"lariat cluster store 1",
            Self::Tickets => b"lariat resumption 1",
            Self::Ech => b"lariat ech 1",
        }
    }
}

/// The salt of the root that stays with supervisors.
const NOTICES: &[u8] = b"lariat cluster notices 1";

/// The beginning of what worker processes get in the place of a secret; roots follow.
const FOR_WORKERS: &[u8] = b"lariat roots 1\n";

/// A secret that hosts share, as the roots of keys that HKDF (RFC 5869) extracts from it: neither
/// the secret nor another root can be had from one. A worker process has those of its tasks.
#[derive(Clone, Eq, PartialEq)]
pub struct SharedSecret {
    /// In the order of [`WorkerTask::ALL`].
    roots: Zeroizing<Vec<u8>>,
    notices: Option<Zeroizing<[u8; ROOT_BYTES]>>,
    is_guessable: bool,
}

/// The fault of a file of keys.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum KeyFileFault {
    /// No file, or one without a key.
    #[error("holds no ticket key")]
    Empty,
    #[error("{0}: has {1} bytes and is not lines of base64; nginx's form has 48 or 80 bytes")]
    Form(String, usize),
    /// A line that is no key.
    #[error("{0}: line {1} is no ticket key: 48 or 80 bytes in base64 are")]
    Line(String, usize),
    /// Both forms, which disagree about what encrypts.
    #[error("{0}: has lines, so it is the only file that can be named")]
    Mixed(String),
    #[error("{0}: holds a key that was named before")]
    Twice(String),
    /// Too short to be safe.
    #[error("{0}: has {1} bytes before the white space at its end; a secret has at least 32")]
    SecretShort(String, usize),
}

impl ListedKeys {
    /// Reads files, each with the place where it was found.
    ///
    /// Either each holds one key, as nginx has it (`ssl_session_ticket_key`): 48 or 80 bytes; the
    /// first file's key encrypts. Or there is one with lines, as HAProxy has it
    /// (`tls-ticket-keys`): base64 of 48 or 80 bytes each, of which the last three count; the last
    /// line but one encrypts, so that every host knows the last before any uses it.
    ///
    /// # Errors
    /// The fault of the first file that has one.
    pub fn read(files: Vec<(String, Vec<u8>)>) -> Result<Self, KeyFileFault> {
        let zeroing = |(place, bytes)| (place, Zeroizing::new(bytes));
        Self::read_zeroing(&files.into_iter().map(zeroing).collect::<Vec<_>>())
    }

    fn read_zeroing(files: &[TicketKeyFile]) -> Result<Self, KeyFileFault> {
        let keys = match files {
            [(place, bytes)] if !KEY_BYTES.contains(&bytes.len()) => Self::of_lines(place, bytes)?,
            _ => Self::of_files(files)?,
        };
        for (place, secret) in keys.secrets.iter().enumerate() {
            if keys.secrets[..place].contains(secret) {
                let file = files.get(place).or_else(|| files.first());
                return Err(KeyFileFault::Twice(
                    file.map_or_else(String::new, |file| file.0.clone()),
                ));
            }
        }
        Ok(keys)
    }

    pub fn count(&self) -> usize {
        self.secrets.len()
    }

    pub(super) fn encrypting(&self) -> usize {
        self.encrypting
    }

    pub(super) fn secrets(&self) -> impl Iterator<Item = &[u8]> {
        self.secrets.iter().map(|secret| secret.as_slice())
    }

    fn of_files(files: &[TicketKeyFile]) -> Result<Self, KeyFileFault> {
        if files.is_empty() {
            return Err(KeyFileFault::Empty);
        }
        let secret = |(place, bytes): &TicketKeyFile| match bytes.len() {
            length if KEY_BYTES.contains(&length) => Ok(bytes.clone()),
            _ if Self::of_lines(place, bytes).is_ok() => Err(KeyFileFault::Mixed(place.clone())),
            length => Err(KeyFileFault::Form(place.clone(), length)),
        };
        Ok(Self { secrets: files.iter().map(secret).collect::<Result<_, _>>()?, encrypting: 0 })
    }

    fn of_lines(place: &str, bytes: &[u8]) -> Result<Self, KeyFileFault> {
        let form = || KeyFileFault::Form(place.to_owned(), bytes.len());
        let text = std::str::from_utf8(bytes).map_err(|_| form())?;
        let mut secrets = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let secret = Base64::decode_vec(line).map(Zeroizing::new);
            let secret = secret.ok().filter(|secret| KEY_BYTES.contains(&secret.len()));
            secrets.push(secret.ok_or_else(|| KeyFileFault::Line(place.to_owned(), number))?);
            if secrets.len() > LINES_ALIVE {
                secrets.remove(0);
            }
        }
        if secrets.is_empty() {
            return Err(KeyFileFault::Empty);
        }
        let encrypting = secrets.len().saturating_sub(2);
        Ok(Self { secrets, encrypting })
    }
}

impl SharedSecret {
    /// Takes the contents of a file: at least 32 bytes, not counting white space at the end; or
    /// what [`Self::for_workers`] has put in its place.
    ///
    /// # Errors
    /// It is too short.
    pub fn read(place: &str, bytes: Vec<u8>) -> Result<Self, KeyFileFault> {
        let bytes = Zeroizing::new(bytes);
        let roots = bytes.strip_prefix(FOR_WORKERS);
        if let Some(roots) = roots.filter(|all| all.len() == WorkerTask::ALL.len() * ROOT_BYTES) {
            let roots = Zeroizing::new(roots.to_vec());
            return Ok(Self { roots, notices: None, is_guessable: false });
        }
        // A blank page is no secret, however long it is.
        let secret = bytes.trim_ascii_end();
        if secret.len() < SECRET_BYTES_MIN {
            return Err(KeyFileFault::SecretShort(place.to_owned(), secret.len()));
        }
        let roots = WorkerTask::ALL.map(|task| extract(task.salt(), secret));
        Ok(Self {
            roots: Zeroizing::new(roots.map(|root| *root).concat()),
            notices: Some(extract(NOTICES, secret)),
            is_guessable: is_guessable(secret),
        })
    }

    /// The text that worker processes read in the place of the secret.
    pub fn for_workers(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([FOR_WORKERS, &self.roots].concat())
    }

    /// The root of the keys by which supervisors speak to each other; `None` in what worker
    /// processes get.
    pub fn notices(&self) -> Option<&[u8; ROOT_BYTES]> {
        self.notices.as_deref()
    }

    /// Whether it looks like what people think of: few different characters, or words without a
    /// digit. Who records one datagram or ticket can try such secrets at home. Those that programs
    /// draw at random, as bytes, in hexadecimal or Base64, are not among them.
    pub fn is_guessable(&self) -> bool {
        self.is_guessable
    }

    /// The root of the keys for a task.
    pub(crate) fn root(&self, task: WorkerTask) -> Prk {
        let root = self.roots.chunks(ROOT_BYTES).nth(task as usize);
        Prk::new_less_safe(HKDF_SHA256, root.expect("there is a root of each task"))
    }
}

fn is_guessable(secret: &[u8]) -> bool {
    let different = secret.iter().collect::<HashSet<_>>().len();
    let is_words = secret.is_ascii() && !secret.iter().any(u8::is_ascii_digit);
    different < DIFFERENT_BYTES_MIN || is_words
}

/// HKDF-Extract (RFC 5869 section 2.2), whose outcome the library does not show.
fn extract(salt: &[u8], secret: &[u8]) -> Zeroizing<[u8; ROOT_BYTES]> {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, salt), secret);
    let mut root = Zeroizing::new([0; ROOT_BYTES]);
    root.copy_from_slice(tag.as_ref());
    root
}

/// Secrets must not reach a log.
impl Debug for ListedKeys {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListedKeys").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl Debug for SharedSecret {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedSecret").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::hkdf;

    fn file(bytes: impl Into<Vec<u8>>) -> (String, Vec<u8>) {
        ("keys".to_owned(), bytes.into())
    }

    fn lines(keys: &[(u8, usize)]) -> String {
        let line =
            |(byte, length): &(u8, usize)| Base64::encode_string(&vec![*byte; *length]) + "\n";
        keys.iter().map(line).collect()
    }

    #[test]
    fn the_first_of_nginx_files_encrypts() {
        let keys = ListedKeys::read(vec![file([1; 80]), file([2; 48])]).unwrap();
        assert_eq!((keys.count(), keys.encrypting()), (2, 0));
        assert_eq!(keys.secrets().next(), Some(&[1; 80][..]));
        let none = ListedKeys::read(Vec::new());
        assert_eq!(none, Err(KeyFileFault::Empty));
        let short = ListedKeys::read(vec![file([1; 80]), file([2; 47])]);
        assert_eq!(short, Err(KeyFileFault::Form("keys".into(), 47)));
        let twice = ListedKeys::read(vec![file([1; 80]), file([1; 80])]);
        assert_eq!(twice, Err(KeyFileFault::Twice("keys".into())));
    }

    #[test]
    fn the_last_line_but_one_of_haproxys_file_encrypts() {
        let read = |keys: &[(u8, usize)]| ListedKeys::read(vec![file(lines(keys))]).unwrap();
        let three = read(&[(1, 48), (2, 80), (3, 48)]);
        assert_eq!((three.count(), three.encrypting()), (3, 1));
        assert_eq!(read(&[(1, 48), (2, 48)]).encrypting(), 0);
        assert_eq!(read(&[(1, 48)]).encrypting(), 0);
        let grown = read(&[(1, 48), (2, 48), (3, 48), (4, 48), (5, 48)]);
        assert_eq!((grown.count(), grown.encrypting()), (3, 1));
        assert_eq!(grown.secrets().next(), Some(&[3; 48][..]));
        let noted = format!("# made by hand\r\n\n{}", lines(&[(1, 80)]));
        assert_eq!(ListedKeys::read(vec![file(noted)]).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_key_is_named() {
        let fault = |bytes: Vec<u8>| ListedKeys::read(vec![file(bytes)]).unwrap_err();
        let place = || "keys".to_owned();
        assert_eq!(fault(Vec::new()), KeyFileFault::Empty);
        assert_eq!(fault(b"\n# none\n".to_vec()), KeyFileFault::Empty);
        assert_eq!(fault(vec![0xff; 49]), KeyFileFault::Form(place(), 49));
        let second = lines(&[(1, 48), (2, 47)]).into_bytes();
        assert_eq!(fault(second), KeyFileFault::Line(place(), 2));
        let twice = lines(&[(1, 48), (1, 48)]).into_bytes();
        assert_eq!(fault(twice), KeyFileFault::Twice(place()));
        let mixed = vec![file([1; 48]), file(lines(&[(2, 48)]))];
        assert_eq!(ListedKeys::read(mixed), Err(KeyFileFault::Mixed(place())));
    }

    #[test]
    fn a_secret_is_long_enough_and_its_line_end_does_not_count() {
        let read = |bytes: &[u8]| SharedSecret::read("s", bytes.to_vec());
        assert_eq!(read(&[b'x'; 32]), read(&[&[b'x'; 32][..], b"\r\n"].concat()));
        assert_ne!(read(&[b'x'; 32]), read(&[b'y'; 32]));
        assert_eq!(read(&[b'x'; 31]), Err(KeyFileFault::SecretShort("s".into(), 31)));
        assert_eq!(read(&[b'\n'; 64]), Err(KeyFileFault::SecretShort("s".into(), 0)));
    }

    #[test]
    fn worker_processes_get_what_their_tasks_need_and_no_more() {
        let secret = [b'x'; 32];
        let whole = SharedSecret::read("s", secret.to_vec()).unwrap();
        let part = SharedSecret::read("s", whole.for_workers().to_vec()).unwrap();
        let expanded = |root: &Prk| {
            let mut out = [0; 32];
            hkdf::expand(root, &[b"test"], &mut out);
            out
        };
        for task in WorkerTask::ALL {
            // As hosts that keep the secret itself have it.
            let root = expanded(&hkdf::extract(task.salt(), &secret));
            assert_eq!(root, expanded(&whole.root(task)), "{task:?}");
            assert_eq!(root, expanded(&part.root(task)), "{task:?}");
        }
        assert!(part.notices().is_none() && part != whole);
        let notices = &whole.notices().unwrap()[..];
        for hidden in [notices, &secret[..]] {
            assert!(!whole.for_workers().windows(32).any(|bytes| bytes == hidden));
        }
        assert_eq!(part.for_workers(), whole.for_workers());
    }

    #[test]
    fn a_secret_that_a_person_thought_of_is_told_from_a_random_one() {
        let is_guessable = |text: &str| {
            let secret = SharedSecret::read("s", text.into()).unwrap();
            secret.is_guessable()
        };
        for text in [
            &"s".repeat(64),
            &"0123".repeat(16),
            "correct horse battery staple and more of it",
            "CHANGE-ME-CHANGE-ME-CHANGE-ME-CHANGE-ME",
        ] {
            assert!(is_guessable(text), "{text}");
        }
        for text in [
            "c7b2f48d1e6a9035c7b2f48d1e6a9035",
            "1yR0f9uXk3r9KQxqv0JXq1m8cTn5mJ4kXh2wQe7dLZb3V6sGtYaUoPiEwRzNcBvH",
        ] {
            assert!(!is_guessable(text), "{text}");
        }
        let drawn = SharedSecret::read("s", (0..32).map(|byte| (byte * 7) | 0x80).collect());
        assert!(!drawn.unwrap().is_guessable());
    }

    #[test]
    fn secrets_are_not_in_debug_forms() {
        let keys = ListedKeys::read(vec![file([0x41; 48])]).unwrap();
        let secret = SharedSecret::read("s", vec![0x41; 32]).unwrap();
        let told = format!("{keys:?}{secret:?}");
        assert!(!told.contains("65") && !told.contains('A'), "{told}");
    }
}
