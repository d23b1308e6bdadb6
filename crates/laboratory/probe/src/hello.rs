//! Sends handwritten hellos, which no library would offer, and reads the servers' answers.
//!
//! A TLS 1.3 hello has no key share, so that the server's HelloRetryRequest names the suite and the
//! group that it chooses (RFC 8446, section 4.1.4). Older versions answer in plaintext.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use load::observe::TimeLimited;
use load::observe::records::{
    self, ALERT, CERTIFICATE, CHANGE_CIPHER_SPEC, HANDSHAKE, RecordBytesFault, SERVER_HELLO,
};
use measure::probe::{ProbeTrouble, TroubleKind};

use crate::reach::{ReachedAddress, TimedStream, long_chain, malformed, trouble};
use crate::registry::{SSL_3, suite_name, told};

const SERVER_KEY_EXCHANGE: u8 = 12;
const SERVER_HELLO_DONE: u8 = 14;
const CERTIFICATE_STATUS: u8 = 22;

pub(crate) const TLS_1_2: u16 = 0x0303;
pub(crate) const TLS_1_3: u16 = 0x0304;

/// Numbers of extensions (RFC 8446, section 4.2).
const SERVER_NAME: u16 = 0;
const SUPPORTED_GROUPS: u16 = 10;
const POINT_FORMATS: u16 = 11;
const SIGNATURE_ALGORITHMS: u16 = 13;
const HEARTBEAT: u16 = 15;
const PRE_SHARED_KEY: u16 = 41;
const SUPPORTED_VERSIONS: u16 = 43;
const PSK_KEY_EXCHANGE_MODES: u16 = 45;
const KEY_SHARE: u16 = 51;
const RENEGOTIATION_INFO: u16 = 0xff01;

/// Maximum bytes of a server's first flight; a longer answer is not TLS.
const FLIGHT_BYTES_MAX: usize = 256 << 10;

/// How long to wait for an alert about an early message; a server that sends one does so at once.
const COMPLAINT_WAIT: Duration = Duration::from_secs(1);
/// Alerts of a server that tries to decrypt a plaintext record (RFC 5246, section 7.2).
const UNDECIPHERED: [u8; 2] = [20, 21];

#[derive(Clone, Debug)]
pub(crate) struct RawHello {
    pub(crate) versions: Vec<u16>,
    pub(crate) suites: Vec<u16>,
    pub(crate) groups: Vec<u16>,
    pub(crate) signatures: Vec<u16>,
    pub(crate) server_name: Option<String>,
    pub(crate) heartbeat: bool,
    /// Whether the hello offers a TLS 1.3 pre-shared key that the client does not have.
    pub(crate) psk: bool,
    /// Whether the hello has a share of X25519, so that a server goes on to its signature.
    pub(crate) share: bool,
}

/// The default identity of OpenSSL's programs; other servers do not know it.
const PSK_IDENTITY: &[u8] = b"Client_identity";

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct HelloChoice {
    pub(crate) version: u16,
    pub(crate) suite: u16,
    pub(crate) group: Option<u16>,
    /// Bits of the prime of DHE.
    pub(crate) dh_bits: Option<u32>,
    /// Whether the server accepts a PSK.
    pub(crate) psk: bool,
    pub(crate) compression: bool,
    /// Whether the server binds a renegotiation to the previous handshake (RFC 5746).
    pub(crate) secure_renegotiation: bool,
    /// Whether the server accepts the client's offer of heartbeats (RFC 6520).
    pub(crate) heartbeat: bool,
    /// The server's chain, leaf first; in plaintext up to TLS 1.2.
    pub(crate) chain: Vec<Vec<u8>>,
    /// The stapled OCSP response, in plaintext up to TLS 1.2; empty if none.
    pub(crate) staple: Vec<u8>,
}

/// Two old library bugs that can be detected without harm to the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct OldErrors {
    pub(crate) heartbeat: bool,
    /// Whether the server accepts a ChangeCipherSpec before any key is agreed on (CVE-2014-0224).
    pub(crate) early_change: bool,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum HelloAnswer {
    Choice(HelloChoice),
    Alert(u8),
}

impl RawHello {
    /// Sends the hello on a new connection and reads the answer. Retries a connection that fails,
    /// because that is no answer: a busy host drops some.
    pub(crate) fn ask(&self, reach: &ReachedAddress<'_>) -> Result<HelloAnswer, ProbeTrouble> {
        reach.again(|| ask(reach, &self.wire()))
    }

    /// Offers heartbeats, and sends a ChangeCipherSpec too early. `None` if the answer is that of
    /// neither a correct server nor one with a known bug.
    pub(crate) fn old_errors(&self, reach: &ReachedAddress<'_>) -> Option<OldErrors> {
        let hello = Self { heartbeat: true, ..self.clone() };
        let (mut wire, answer) = converse(reach, &hello.wire()).ok()?;
        let HelloAnswer::Choice(choice) = answer else { return None };
        let [major, minor] = choice.version.to_be_bytes();
        let early = [CHANGE_CIPHER_SPEC, major, minor, 0, 1, 1];
        wire.shorten(COMPLAINT_WAIT * 2);
        let mut early_change = false;
        wire.write_all(&early).ok()?;
        if is_silent(&mut wire) {
            wire.write_all(&early).ok()?;
            let mut said = [0; 7];
            wire.read_exact(&mut said).ok()?;
            let [kind, _, _, _, _, _, description] = said;
            early_change = kind == ALERT && UNDECIPHERED.contains(&description);
        }
        Some(OldErrors { heartbeat: choice.heartbeat, early_change })
    }

    /// Returns the record to send.
    fn wire(&self) -> Vec<u8> {
        let highest = self.versions.iter().copied().max().unwrap_or(TLS_1_3);
        let is_tls13 = highest >= TLS_1_3;
        let mut body = highest.min(TLS_1_2).to_be_bytes().to_vec();
        body.extend(noise());
        // RFC 8446, appendix D.4.
        body.extend(vector8(if is_tls13 { &[7; 32] } else { &[] }));
        body.extend(vector16(&words(&self.suites)));
        // DEFLATE (RFC 3749), to see whether the server accepts it. TLS 1.3 has no compression.
        body.extend(vector8(if is_tls13 { &[0] } else { &[1, 0] }));
        let mut extensions = Vec::new();
        let mut add = |kind: u16, data: &[u8]| {
            extensions.extend([&kind.to_be_bytes(), &*vector16(data)].concat());
        };
        if let Some(name) = &self.server_name {
            let mut entry = vec![0];
            entry.extend(vector16(name.as_bytes()));
            add(SERVER_NAME, &vector16(&entry));
        }
        add(SUPPORTED_GROUPS, &vector16(&words(&self.groups)));
        add(POINT_FORMATS, &[1, 0]);
        if highest >= TLS_1_2 {
            add(SIGNATURE_ALGORITHMS, &vector16(&words(&self.signatures)));
        }
        add(RENEGOTIATION_INFO, &[0]);
        if self.heartbeat {
            add(HEARTBEAT, &[1]);
        }
        if is_tls13 {
            add(SUPPORTED_VERSIONS, &vector8(&words(&self.versions)));
            let share = if self.share { [&[0, 29], &*vector16(&noise())].concat() } else { vec![] };
            add(KEY_SHARE, &vector16(&share));
        }
        if self.psk {
            add(PSK_KEY_EXCHANGE_MODES, &[2, 0, 1]);
            let identity = [vector16(PSK_IDENTITY), vec![0; 4]].concat();
            let binder = vector16(&vector8(&noise()));
            // RFC 8446, section 4.2.11: this extension is the last.
            add(PRE_SHARED_KEY, &[vector16(&identity), binder].concat());
        }
        // SSL 3.0 has no extensions (RFC 6101, section 5.6.1.2).
        if highest > SSL_3 {
            body.extend(vector16(&extensions));
        }
        let mut message = vec![1, 0];
        message.extend(vector16(&body));
        // RFC 8446, section 5.1: version of the first hello's record, for old servers.
        let mut record = vec![HANDSHAKE, 3, u8::from(highest > SSL_3)];
        record.extend(vector16(&message));
        record
    }
}

/// Reports whether nothing arrives while a server could send an alert.
fn is_silent(wire: &mut TimedStream<'_>) -> bool {
    wire.within(COMPLAINT_WAIT, |wire| {
        let read = wire.read(&mut [0]);
        read.is_err_and(|error| matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock))
    })
}

/// Sends the bytes of a hello and reads the answer.
pub(crate) fn ask(reach: &ReachedAddress<'_>, hello: &[u8]) -> Result<HelloAnswer, ProbeTrouble> {
    converse(reach, hello).map(|(_, answer)| answer)
}

/// Sends a hello and returns the answer with its connection.
fn converse<'r>(
    reach: &'r ReachedAddress<'_>,
    hello: &[u8],
) -> Result<(TimedStream<'r>, HelloAnswer), ProbeTrouble> {
    let mut wire = reach.open()?;
    let failed = |error: io::Error| reach.broken(&error, "the hello");
    wire.write_all(hello).map_err(failed)?;
    let mut received = Vec::new();
    loop {
        if let Some(answer) = read(&received)? {
            return Ok((wire, answer));
        }
        if received.len() > FLIGHT_BYTES_MAX {
            let longest = records::unfinished(&records::clear(&received));
            return Err(match longest {
                Some((CERTIFICATE, bytes)) => long_chain(bytes),
                _ => malformed("its first flight is longer than 256 KiB"),
            });
        }
        let mut chunk = [0; 4096];
        let count = wire.read(&mut chunk).map_err(failed)?;
        if count == 0 {
            return Err(failed(ErrorKind::UnexpectedEof.into()));
        }
        received.extend(chunk.iter().take(count));
    }
}

/// Returns the answer if it is complete.
fn read(received: &[u8]) -> Result<Option<HelloAnswer>, ProbeTrouble> {
    let (mut rest, mut messages) = (received, Vec::new());
    loop {
        match records::next(rest) {
            Err(RecordBytesFault::NotTls) => return not_tls(received, rest),
            Err(fault) => return Err(malformed(fault)),
            Ok(None) => break,
            Ok(Some((ALERT, &[FATAL, description], _))) => {
                return Ok(Some(HelloAnswer::Alert(description)));
            }
            Ok(Some((kind, fragment, behind))) => {
                if kind == HANDSHAKE {
                    messages.extend_from_slice(fragment);
                }
                rest = behind;
            }
        }
    }
    // TLS 1.3 puts everything in the first message; older versions use all up to ServerHelloDone.
    let (choice, is_whole) = flight_so_far(&messages)?;
    Ok(choice.filter(|_| is_whole).map(HelloAnswer::Choice))
}

const FATAL: u8 = 2;

/// Judges an answer that does not begin with a record; a few more bytes may identify it.
fn not_tls(received: &[u8], rest: &[u8]) -> Result<Option<HelloAnswer>, ProbeTrouble> {
    Err(if rest.len() == received.len() {
        trouble(TroubleKind::NotTls, told(received))
    } else {
        malformed("what follows its first record is no record")
    })
}

/// Returns a flight's choice so far, and whether it is complete. A resumption has no chain.
pub(crate) fn flight_so_far(messages: &[u8]) -> Result<(Option<HelloChoice>, bool), ProbeTrouble> {
    let mut choice: Option<HelloChoice> = None;
    let mut rest = messages;
    while let Some((kind, body, behind)) = records::message(rest) {
        match (kind, &mut choice) {
            (SERVER_HELLO, None) => {
                let read = server_hello(body).ok_or_else(|| malformed("its ServerHello is cut"))?;
                if read.version >= TLS_1_3 {
                    return Ok((Some(read), true));
                }
                choice = Some(read);
            }
            (CERTIFICATE, Some(choice)) => choice.chain = certificates(body),
            // RFC 6066, section 8: the type of an OCSP response, and its length.
            (CERTIFICATE_STATUS, Some(choice)) => {
                choice.staple = body.get(4..).unwrap_or_default().to_vec();
            }
            (SERVER_KEY_EXCHANGE, Some(choice)) if is_dhe(choice.suite) => {
                choice.dh_bits = prime_bits(body);
            }
            // ECParameters of a named curve (RFC 8422, section 5.4).
            (SERVER_KEY_EXCHANGE, Some(choice)) => {
                if let [3, high, low, ..] = body {
                    choice.group = Some(u16::from_be_bytes([*high, *low]));
                }
            }
            (SERVER_HELLO_DONE, Some(_)) => return Ok((choice, true)),
            (_, None) => return Err(malformed("its first message is no ServerHello")),
            _ => {}
        }
        rest = behind;
    }
    Ok((choice, false))
}

/// Returns the complete certificates of a TLS 1.2 message (RFC 5246, section 7.4.2).
fn certificates(body: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut chain) = (body.get(3..).unwrap_or_default(), Vec::new());
    while let Some((&[high, middle, low], behind)) = rest.split_first_chunk() {
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        let Some((one, behind)) = behind.split_at_checked(length) else {
            break;
        };
        chain.push(one.to_vec());
        rest = behind;
    }
    chain
}

fn is_dhe(suite: u16) -> bool {
    let name = suite_name(suite);
    name.starts_with("TLS_DHE_") && !name.contains("_PSK_")
}

/// Returns the size of ServerDHParams' prime, which comes first (RFC 5246, section 7.4.3).
fn prime_bits(body: &[u8]) -> Option<u32> {
    let (length, rest) = body.split_first_chunk()?;
    let prime = rest.get(..usize::from(u16::from_be_bytes(*length)))?;
    let first = prime.iter().position(|byte| *byte != 0)?;
    let [top, below @ ..] = prime.get(first..)? else {
        return None;
    };
    let bits = 8 - top.leading_zeros();
    Some(bits + 8 * u32::try_from(below.len()).ok()?)
}

fn server_hello(body: &[u8]) -> Option<HelloChoice> {
    let (version, rest) = body.split_first_chunk()?;
    let (id_length, rest) = rest.get(32..)?.split_first()?;
    let (suite, rest) = rest.get(usize::from(*id_length)..)?.split_first_chunk()?;
    let (compression, rest) = rest.split_first()?;
    let mut choice = HelloChoice {
        version: u16::from_be_bytes(*version),
        suite: u16::from_be_bytes(*suite),
        compression: *compression != 0,
        ..HelloChoice::default()
    };
    let mut extensions = rest.get(2..).unwrap_or_default();
    while let Some(([a, b, c, d], rest)) = extensions.split_first_chunk() {
        let (data, behind) = rest.split_at_checked(usize::from(u16::from_be_bytes([*c, *d])))?;
        match (u16::from_be_bytes([*a, *b]), data) {
            (SUPPORTED_VERSIONS, [high, low]) => {
                choice.version = u16::from_be_bytes([*high, *low]);
            }
            (KEY_SHARE, [high, low, ..]) => choice.group = Some(u16::from_be_bytes([*high, *low])),
            (PRE_SHARED_KEY, _) => choice.psk = true,
            (HEARTBEAT, _) => choice.heartbeat = true,
            (RENEGOTIATION_INFO, _) => choice.secure_renegotiation = true,
            _ => {}
        }
        extensions = behind;
    }
    Some(choice)
}

/// Returns new bytes each time, as servers may watch for repetition. No secret depends on them.
fn noise() -> Vec<u8> {
    let random = RandomState::new();
    let word = |index: u64| {
        let mut hasher = random.build_hasher();
        hasher.write_u64(index);
        hasher.finish().to_be_bytes()
    };
    (0..4).flat_map(word).collect()
}

fn words(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|one| one.to_be_bytes()).collect()
}

fn vector8(bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("our own lists are short");
    [&[length], bytes].concat()
}

fn vector16(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("our own lists are short");
    [&length.to_be_bytes(), bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::client_hello::{self, HelloProgress};

    fn hello(versions: &[u16]) -> RawHello {
        RawHello {
            versions: versions.to_vec(),
            suites: vec![0x1301, 0xc02b],
            groups: vec![29, 23],
            signatures: vec![0x0403],
            server_name: Some("a.example".to_owned()),
            heartbeat: false,
            psk: false,
            share: false,
        }
    }

    #[test]
    fn our_hello_is_one() {
        let plain = hello(&[TLS_1_3, TLS_1_2]);
        for (heartbeat, psk, share) in
            [(false, false, false), (true, true, false), (false, false, true)]
        {
            let wire = RawHello { heartbeat, psk, share, ..plain.clone() }.wire();
            let Ok(HelloProgress::Hello(hello)) = client_hello::read(&wire) else {
                panic!("no hello");
            };
            assert_eq!(hello.server_name(), Some("a.example"));
            assert!(hello.supported_versions().eq([TLS_1_3, TLS_1_2]));
            assert!(hello.supported_groups().eq([29, 23]) && hello.has_key_share());
        }
    }

    fn record(kind: u8, fragment: &[u8]) -> Vec<u8> {
        [&[kind, 3, 3], &*vector16(fragment)].concat()
    }

    fn retry() -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([9; 32]);
        body.extend([0, 0x13, 1, 0]);
        body.extend(vector16(&[0, 43, 0, 2, 3, 4, 0, 51, 0, 2, 0, 29]));
        record(22, &[&[2, 0][..], &vector16(&body)].concat())
    }

    #[test]
    fn answers_are_read_when_they_are_whole() {
        let answer = HelloAnswer::Choice(HelloChoice {
            version: 0x0304,
            suite: 0x1301,
            group: Some(29),
            ..HelloChoice::default()
        });
        let whole = retry();
        assert_eq!(read(&whole), Ok(Some(answer)));
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), Ok(None), "{length}");
        }
        assert_eq!(read(&record(21, &[2, 70])), Ok(Some(HelloAnswer::Alert(70))));
        // A warning, such as unrecognized_name, precedes the answer.
        assert_eq!(read(&record(21, &[1, 112])), Ok(None));
    }

    #[test]
    fn a_chain_in_clear_text_is_read_as_far_as_it_is_whole() {
        let chain = [0, 0, 9, 0, 0, 2, 7, 7, 0, 0, 1, 8];
        assert_eq!(certificates(&chain), [vec![7, 7], vec![8]]);
        assert_eq!(certificates(&chain[..11]), [vec![7, 7]]);
        assert!(certificates(&chain[..2]).is_empty());
    }

    #[test]
    fn the_prime_of_dhe_has_bits() {
        assert_eq!(prime_bits(&[0, 3, 0, 0x80, 1]), Some(16));
        assert_eq!(prime_bits(&[0, 2, 0x01, 0xff, 9, 9]), Some(9));
        for none in [&[][..], &[0, 0], &[0, 2, 0, 0], &[0, 9, 1]] {
            assert_eq!(prime_bits(none), None);
        }
        assert!(is_dhe(0x009e) && !is_dhe(0xc02b) && !is_dhe(0x1301));
    }

    #[test]
    fn nonsense_has_its_reason() {
        let kind = |bytes: &[u8]| read(bytes).unwrap_err().kind;
        assert_eq!(kind(b"HTTP/1.1 400"), TroubleKind::NotTls);
        assert_eq!(kind(&[22, 3, 3, 255, 255]), TroubleKind::Malformed);
        assert_eq!(kind(&record(22, &[2, 0, 0, 1, 3])), TroubleKind::Malformed);
        assert_eq!(kind(&record(22, &[11, 0, 0, 0])), TroubleKind::Malformed);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..90_usize) {
            let _answer = read(&bytes);
            let mut whole = retry();
            whole.truncate(at);
            whole.extend(bytes);
            let _answer = read(&whole);
        }
    }
}
