//! Channel binding in a login to PostgreSQL ("SASL Authentication" in its documentation, RFC 5802
//! section 6): the server's offer, and the client's choice.
//!
//! The client proves with its password what it chose and what it believed to be offered, so that
//! neither can be rewritten later. Only a client without TLS may be offered less: it declares that
//! it has no binding, and a server under TLS accepts that.

use crate::starttls::held::HeldBytes;

/// Mechanism that binds a login to the certificate that the server shows.
const BOUND: &[u8] = b"SCRAM-SHA-256-PLUS\0";

/// Longest offer that is rewritten, in bytes; servers send fewer than 50.
const OFFER_BYTES_MAX: usize = 1 << 10;

/// Limit for messages before the offer, in bytes: at most a few notices. Beyond it the offer passes
/// unchanged.
const NOTICES_BYTES_MAX: usize = 64 << 10;

/// Length of a message's type and its length, which counts itself.
const HEAD_BYTES: usize = 5;

/// Watch over a client's login to a server under TLS.
#[derive(Debug, Default)]
pub(super) enum Login {
    #[default]
    Passing,
    /// First message of the client, and how much of its startup packet comes before that.
    Choice(usize, Vec<u8>),
    Offer(OfferWatch),
}

/// Messages of the server up to its offer.
#[derive(Debug, Default)]
pub(super) struct OfferWatch {
    /// Bytes that still pass of a message that has begun.
    passing: usize,
    /// Bytes that have passed.
    passed: usize,
    held: HeldBytes,
}

impl Login {
    /// Takes bytes of the client, which pass. Returns whether it binds its login; `None` if that is
    /// not known yet, or not watched.
    pub(super) fn client_sent(&mut self, bytes: &[u8]) -> Option<bool> {
        let Self::Choice(startup, message) = self else {
            return None;
        };
        let passed = bytes.len().min(*startup);
        *startup -= passed;
        let missing = (HEAD_BYTES + BOUND.len()).saturating_sub(message.len());
        message.extend(bytes.iter().skip(passed).take(missing));
        let is_bound = binds(message);
        if is_bound.is_some() {
            *self = Self::Passing;
        }
        is_bound
    }

    /// Takes bytes of the server, and appends those for the client.
    pub(super) fn server_sent(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let Self::Offer(watch) = self else {
            return out.extend_from_slice(bytes);
        };
        if watch.take(bytes, out) {
            *self = Self::Passing;
        }
    }

    /// Returns the part of a message that was held for the rest of it.
    pub(super) fn server_ended(&mut self) -> Vec<u8> {
        match self {
            Self::Offer(watch) => watch.held.take_all(),
            Self::Passing | Self::Choice(..) => Vec::new(),
        }
    }

    /// Reports whether the watch is over.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Passing)
    }
}

impl OfferWatch {
    /// Appends the bytes for the client, and returns whether the watch is over.
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        self.held.push(bytes);
        loop {
            let passed = self.held.take(self.passing);
            out.extend_from_slice(passed);
            self.passing -= passed.len();
            self.passed += passed.len();
            let rest = self.held.rest();
            match (rest.first(), length(rest)) {
                _ if self.passed > NOTICES_BYTES_MAX => break,
                (None, _) | (Some(b'R' | b'N' | b'v'), None) => return false,
                // A notice, or NegotiateProtocolVersion.
                (Some(b'N' | b'v'), Some(length @ 4..)) => self.passing = 1 + length,
                (Some(b'R'), Some(length @ 4..OFFER_BYTES_MAX)) if rest.len() <= length => {
                    return false;
                }
                (Some(b'R'), Some(length @ 4..OFFER_BYTES_MAX)) => {
                    out.extend_from_slice(&without_binding(self.held.take(1 + length)));
                    break;
                }
                _ => break,
            }
        }
        out.append(&mut self.held.take_all());
        true
    }
}

fn length(message: &[u8]) -> Option<usize> {
    let (_, rest) = message.split_first()?;
    let length = u32::from_be_bytes(*rest.first_chunk()?);
    usize::try_from(length).ok()
}

/// Reports whether a client's first message is a SASLInitialResponse with binding; `None` if too
/// little of it has come.
fn binds(message: &[u8]) -> Option<bool> {
    if *message.first()? != b'p' {
        return Some(false);
    }
    let name = message.get(HEAD_BYTES..)?;
    let end = BOUND.len().min(name.len());
    if name[..end] != BOUND[..end] {
        return Some(false);
    }
    // A password may have these letters, but then nothing follows.
    let is_password = length(message) == Some(HEAD_BYTES - 1 + BOUND.len());
    (end == BOUND.len()).then_some(!is_password)
}

/// Removes binding from an AuthenticationSASL with other offers; keeps other messages.
fn without_binding(message: &[u8]) -> Vec<u8> {
    const SASL: [u8; 4] = 10_u32.to_be_bytes();
    let (head, body) = message.split_at(HEAD_BYTES);
    let Some(names) = body.strip_prefix(&SASL) else {
        return message.to_vec();
    };
    let names = names.split_inclusive(|byte| *byte == 0);
    let others: Vec<_> = names.filter(|name| *name != BOUND).collect();
    // The last name is empty.
    if others.len() < 2 {
        return message.to_vec();
    }
    let others = others.concat();
    let length = (4 + SASL.len() + others.len()) as u32;
    [&head[..1], &length.to_be_bytes(), &SASL, &others].concat()
}
