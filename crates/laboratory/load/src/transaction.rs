//! A transaction in progress: what is expected of it, and its outcome.

use std::time::{Duration, Instant};

use measure::kind::Kind;
use rustls::SignatureScheme;

use crate::connection::Connection;
use crate::failure::Failure;
use crate::plan::Handshake;
use crate::tally::{Negotiated, Timing};

#[derive(Debug)]
pub(crate) struct Transaction {
    /// Its planned instant: durations count from here.
    pub(crate) due: Instant,
    /// Whether its request is to go with the hello.
    pub(crate) sends_early: bool,
    /// A session is to be resumed.
    must_resume: bool,
    offers: bool,
    kind: Kind,
    fault: Option<Failure>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict {
    Success(Timing),
    Failure(Failure),
}

impl Transaction {
    pub(crate) fn new(due: Instant, must_resume: bool, offers: bool, sends_early: bool) -> Self {
        Self {
            due,
            sends_early,
            must_resume,
            offers,
            kind: Kind::Full,
            fault: None,
        }
    }

    pub(crate) fn plain(due: Instant) -> Self {
        Self {
            kind: Kind::Plain,
            ..Self::new(due, false, false, false)
        }
    }

    /// On a connection that stands, with or without TLS.
    pub(crate) fn kept(due: Instant, has_tls: bool) -> Self {
        Self {
            kind: if has_tls { Kind::Kept } else { Kind::Plain },
            ..Self::new(due, false, false, false)
        }
    }

    /// The connection is open: what was negotiated, if there was a handshake.
    pub(crate) fn opened(
        &mut self,
        connection: &Connection,
        signature: Option<SignatureScheme>,
    ) -> Option<Negotiated> {
        let channel = connection.channel();
        let (session, shaken) = (channel.session()?, channel.shaken()?);
        self.kind = kind(shaken.as_kind);
        let early_data_accepted = connection.early_data_accepted();
        self.fault = self.fault(early_data_accepted);
        Some(Negotiated {
            kind: self.kind,
            version: session.protocol_version(),
            suite: session.negotiated_cipher_suite().map(|suite| suite.suite()),
            group: session
                .negotiated_key_exchange_group()
                .map(|group| group.name()),
            signature: signature.filter(|_| self.kind == Kind::Full),
            alpn: session.alpn_protocol().map(<[u8]>::to_vec),
            retried: shaken.retried,
            early_data_accepted,
        })
    }

    /// What is wrong with the handshake, by the plan.
    fn fault(&self, early_data_accepted: Option<bool>) -> Option<Failure> {
        match (self.must_resume, self.offers, self.kind.is_resumption()) {
            (true, false, _) => Some(Failure::ResumptionNotOffered),
            (true, true, false) => Some(Failure::ResumptionDeclined),
            _ if self.sends_early && early_data_accepted != Some(true) => {
                Some(Failure::EarlyDataRejected)
            }
            _ => None,
        }
    }

    /// Its outcome, now that its work is done; `asked` if a reply was expected.
    pub(crate) fn verdict(&self, connection: &Connection, asked: bool) -> Verdict {
        if let Some(fault) = self.fault {
            return Verdict::Failure(fault);
        }
        let status = connection.reply().status();
        if asked && !(200..400).contains(&status) {
            return Verdict::Failure(Failure::Status(status));
        }
        let marks = &connection.marks;
        let since_due = |at: Instant| at.saturating_duration_since(self.due);
        Verdict::Success(Timing {
            kind: self.kind,
            handshake: self.handshake_duration(connection),
            first_byte: marks.first_byte.filter(|_| asked).map(since_due),
            total: match (asked, marks.open) {
                (false, Some(open)) => since_due(open),
                _ => since_due(Instant::now()),
            },
        })
    }

    fn handshake_duration(&self, connection: &Connection) -> Option<Duration> {
        let (hello, open) = (connection.marks.hello?, connection.marks.open?);
        self.kind.is_handshake().then(|| open - hello)
    }
}

fn kind(shaken: Handshake) -> Kind {
    match shaken {
        // What is offered is never `Any`.
        Handshake::Full | Handshake::Any => Kind::Full,
        Handshake::SessionId => Kind::SessionId,
        Handshake::Ticket => Kind::Ticket,
        Handshake::Psk => Kind::Psk,
    }
}
