//! Channel binding in a login to PostgreSQL ("SASL Authentication" in its documentation, RFC 5802
//! section 6): what a server offers, and what a client chooses of it.
//!
//! The client proves with its password what it chose and what it believed to be offered, so that
//! neither can be rewritten later. Only a client without TLS may be offered less: it says that it
//! has no binding, and a server under TLS takes that.

use crate::starttls::held::HeldBytes;

/// The mechanism that binds a login to the certificate that the server shows.
const BOUND: &[u8] = b"SCRAM-SHA-256-PLUS\0";

/// The longest offer that is rewritten, in bytes; servers send fewer than 50.
const OFFER_BYTES_MAX: usize = 1 << 10;

/// The limit for what comes before the offer, in bytes: a few notices at most. A server that goes
/// on for longer has its offer passed as it is.
const NOTICES_BYTES_MAX: usize = 64 << 10;

/// A message's type and its length, which counts itself.
const HEAD_BYTES: usize = 5;

/// The watch over a client's login to a server under TLS.
#[derive(Debug, Default)]
pub(super) enum Login {
    #[default]
    Passing,
    /// The client's first message, and how much of its startup packet comes before that.
    Choice(usize, Vec<u8>),
    Offer(OfferWatch),
}

/// The server's messages up to its offer.
#[derive(Debug, Default)]
pub(super) struct OfferWatch {
    /// How much of a message passes that has begun.
    passing: usize,
    /// How much has passed.
    passed: usize,
    held: HeldBytes,
}

impl Login {
    /// Takes what the client sent, which passes. Whether it binds its login; `None` = that is not
    /// known yet, or not looked at.
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

    /// Takes what the server sent, and appends what the client gets of it.
    pub(super) fn server_sent(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let Self::Offer(watch) = self else {
            return out.extend_from_slice(bytes);
        };
        if watch.take(bytes, out) {
            *self = Self::Passing;
        }
    }

    /// The part of a message that was held for the rest of it.
    pub(super) fn server_ended(&mut self) -> Vec<u8> {
        match self {
            Self::Offer(watch) => watch.held.take_all(),
            Self::Passing | Self::Choice(..) => Vec::new(),
        }
    }

    /// Whether nothing is looked at any more.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Passing)
    }
}

impl OfferWatch {
    /// Appends what the client gets now, and returns whether that is all there is to watch.
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

/// Whether a client's first message is a SASLInitialResponse with binding; `None` = too little of
/// it has come.
fn binds(message: &[u8]) -> Option<bool> {
    if *message.first()? != b'p' {
        return Some(false);
    }
    let name = message.get(HEAD_BYTES..)?;
    let end = BOUND.len().min(name.len());
    if name[..end] != BOUND[..end] {
        return Some(false);
    }
    // A password may have these letters, but nothing comes behind it.
    let is_password = length(message) == Some(HEAD_BYTES - 1 + BOUND.len());
    (end == BOUND.len()).then_some(!is_password)
}

/// An AuthenticationSASL without binding if it offers anything else; other messages as they are.
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
