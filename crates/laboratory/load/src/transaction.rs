//! A transaction in progress: what is expected of it, and its outcome.

use std::time::{Duration, Instant};

use measure::choice::Kind;
use rustls::SignatureScheme;
use sys::epoll::Interest;

use crate::connection::{ClientConnection, LoadStage};
use crate::ech;
use crate::failure::TransactionFailure;
use crate::plan::Handshake;
use crate::tally::{Negotiated, TransactionTiming};

#[derive(Debug)]
pub(crate) struct Transaction {
    /// The planned instant: durations count from here.
    pub(crate) due: Instant,
    /// The place of its request in the plan; 0 where there is none.
    pub(crate) request: usize,
    /// Whether its request is to go with the hello.
    pub(crate) sends_early: bool,
    /// A session is to be resumed.
    must_resume: bool,
    offers: bool,
    kind: Kind,
    fault: Option<TransactionFailure>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum TransactionVerdict {
    Success(TransactionTiming),
    Failure(TransactionFailure),
}

impl Transaction {
    pub(crate) fn new(
        (due, request): (Instant, usize),
        must_resume: bool,
        offers: bool,
        sends_early: bool,
    ) -> Self {
        Self { due, request, sends_early, must_resume, offers, kind: Kind::Full, fault: None }
    }

    pub(crate) fn plain(work: (Instant, usize)) -> Self {
        Self { kind: Kind::Plain, ..Self::new(work, false, false, false) }
    }

    /// On a connection that stands, with or without TLS.
    pub(crate) fn kept(work: (Instant, usize), has_tls: bool) -> Self {
        Self {
            kind: if has_tls { Kind::Kept } else { Kind::Plain },
            ..Self::new(work, false, false, false)
        }
    }

    /// The connection is open: what was negotiated, if there was a handshake.
    pub(crate) fn opened(
        &mut self,
        connection: &ClientConnection,
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
            group: session.negotiated_key_exchange_group().map(|group| group.name()),
            signature: signature.filter(|_| self.kind == Kind::Full),
            alpn: session.alpn_protocol().map(<[u8]>::to_vec),
            retried: shaken.retried,
            early_data_accepted,
            ech: ech::outcome(session.ech_status()),
        })
    }

    /// The fault of the handshake, by the plan.
    fn fault(&self, early_data_accepted: Option<bool>) -> Option<TransactionFailure> {
        match (self.must_resume, self.offers, self.kind.is_resumption()) {
            (true, false, _) => Some(TransactionFailure::ResumptionNotOffered),
            (true, true, false) => Some(TransactionFailure::ResumptionDeclined),
            _ if self.sends_early && early_data_accepted != Some(true) => {
                Some(TransactionFailure::EarlyDataRejected)
            }
            _ => None,
        }
    }

    /// The outcome, now that the work is done; `asked` if a reply was expected.
    pub(crate) fn verdict(&self, connection: &ClientConnection, asked: bool) -> TransactionVerdict {
        if let Some(fault) = self.fault {
            return TransactionVerdict::Failure(fault);
        }
        let status = connection.reply().status();
        if asked && !(200..400).contains(&status) {
            return TransactionVerdict::Failure(TransactionFailure::Status(status));
        }
        let marks = &connection.marks;
        let since_due = |at: Instant| at.saturating_duration_since(self.due);
        TransactionVerdict::Success(TransactionTiming {
            kind: self.kind,
            handshake: self.handshake_duration(connection),
            first_byte: marks.first_byte.filter(|_| asked).map(since_due),
            total: match (asked, marks.open) {
                (false, Some(open)) => since_due(open),
                _ => since_due(Instant::now()),
            },
        })
    }

    fn handshake_duration(&self, connection: &ClientConnection) -> Option<Duration> {
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

/// Stands where a client would: what comes yet is for none of them.
pub(crate) const NOBODY: u32 = u32::MAX;

/// A connection and who uses it.
pub(crate) struct ConnectionSlot {
    pub(crate) connection: ClientConnection,
    /// Who uses it; [`NOBODY`] of one that a user has left.
    pub(crate) client: u32,
    pub(crate) serial: u32,
    pub(crate) transaction: Option<Transaction>,
    /// Whether the client waits for it.
    pub(crate) holds_client: bool,
    /// When it is given up; `None` = it is idle.
    pub(crate) deadline: Option<Instant>,
    /// Whether the socket tells when it has room.
    pub(crate) watches_room: bool,
    /// How the server signed, once it has.
    pub(crate) signature: Option<SignatureScheme>,
}

impl ConnectionSlot {
    /// The transaction of a connection that a client has begun to make.
    pub(crate) fn new(
        connection: ClientConnection,
        client: u32,
        serial: u32,
        transaction: Transaction,
    ) -> Self {
        Self {
            watches_room: connection.stage() == LoadStage::Dialling,
            connection,
            client,
            serial,
            transaction: Some(transaction),
            holds_client: true,
            deadline: None,
            signature: None,
        }
    }

    /// Whether it stands, and nobody waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        !self.holds_client && self.connection.stage() != LoadStage::Closing
    }
}

/// The events of a socket: that it can be read, and, if asked for, that it has room.
pub(crate) fn interest(watches_room: bool) -> Interest {
    if watches_room {
        Interest::READ | Interest::WRITE | Interest::EDGE
    } else {
        Interest::READ | Interest::EDGE
    }
}

/// The name of a place and of who has it.
pub(crate) fn token(key: usize, serial: u32) -> u64 {
    (u64::from(serial) << 32) | key as u64
}

/// Place and number of a name.
pub(crate) fn parts(token: u64) -> (usize, u32) {
    ((token & u64::from(u32::MAX)) as usize, (token >> 32) as u32)
}
