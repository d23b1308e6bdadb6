//! The states of a connection: the stage of the whole, the state of either end, from plaintext to
//! TLS that the kernel seals, and the state of an opened encrypted hello (ECH, RFC 9849).
//!
//! Handles the time limits of stages; the steps of an end, which are the same for clients and
//! servers; and the progress of a hand-over to the kernel (kTLS) and whether it is worth its price.
//! The hand-over cannot be undone: no kernel gives its half of a connection back. For an encrypted
//! hello, handles whether the server asks for a second one, and opens that.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use telemetry::outcome::Reason;
use tls::ech::{EchContext, EchFault};
use tls::record::PLAINTEXT_BYTES_MAX;
use tls::traffic::{ControlRecord, Traffic};
use wire::client_hello::{HelloFault, HelloProgress, Reader};
use wire::ech::{RecordGate, RetryWatch};
use wire::starttls::Dialog;
use wire::tunnel::TunnelDialog;

use crate::facts::ConnectionEnd;
use crate::options::{Starttls, Timeouts};
use crate::relay::StreamEnd;

/// Time for a client that has been sent an alert to read it and close. Closing at once would reset
/// the connection if bytes of the client were unread, and lose the alert.
const CLOSING_MAX: Duration = Duration::from_secs(2);

/// Time without a byte for a client that has been sent the server's end. Its bytes have a reader
/// only if the server closed one direction, and few do.
const HALF_CLOSED_MAX: Duration = Duration::from_secs(60);

pub(crate) enum ConnectionStage {
    /// Up to the end of the handshake, or to the first byte of early data.
    Handshaking,
    /// No server is connected yet.
    Dialling { since: Instant },
    /// Bytes go both ways.
    Relaying,
    /// Last bytes go to the client, its own bytes are dropped.
    Closing { until: Instant, dropped: usize },
    /// The connection has ended, and is to be closed.
    Over,
}

/// An event on the server's side that waits for the end of a handshake with early data.
pub(crate) enum PostponedBackEvent {
    /// The server's stream has ended.
    BackEnd,
    /// No server could be connected, or it broke the connection off.
    BackFailure(ConnectionEnd),
}

/// Returns the ending if a side has ended its stream: the first to do so has ended the connection.
pub(crate) fn first_to_end(up: Option<StreamEnd>, is_down_ended: bool) -> Option<Reason> {
    match (up, is_down_ended) {
        (Some(StreamEnd::CloseNotify | StreamEnd::Plain), _) => Some(Reason::ClientClosed),
        (Some(StreamEnd::Fin), _) => Some(Reason::ClientTruncated),
        (None, true) => Some(Reason::BackendClosed),
        (None, false) => None,
    }
}

impl ConnectionStage {
    /// Begins the stage in which the last bytes go to the client.
    pub(crate) fn closing(now: Instant) -> Self {
        Self::Closing { until: now + CLOSING_MAX, dropped: 0 }
    }

    /// Restarts the time limit of a dial, if one is under way.
    pub(crate) fn restart_dial(&mut self, now: Instant) {
        if let Self::Dialling { since } = self {
            *since = now;
        }
    }

    /// Returns the deadline of the stage. The handshake has a limit of its own.
    pub(crate) fn deadline(
        &self,
        timeouts: &Timeouts,
        last_byte: Instant,
        is_half_closed: bool,
    ) -> Option<Instant> {
        match self {
            Self::Handshaking | Self::Over => None,
            Self::Dialling { since } => Some(*since + timeouts.dial),
            Self::Relaying if is_half_closed => {
                Some(last_byte + timeouts.idle.min(HALF_CLOSED_MAX))
            }
            Self::Relaying => Some(last_byte + timeouts.idle),
            Self::Closing { until, .. } => Some(*until),
        }
    }
}

/// Conversation before TLS, led by [`wire::starttls`]. It goes on under TLS until nothing is left
/// to rewrite.
pub(crate) struct StarttlsTalk {
    pub(crate) dialog: Dialog,
    /// Request that goes to every server instead of one.
    pub(crate) broadcast: Option<Broadcast>,
}

pub(crate) struct Broadcast {
    pub(crate) bytes: Vec<u8>,
    pub(crate) has_reached_one: bool,
}

impl StarttlsTalk {
    pub(crate) fn new(settings: &Starttls, has_back_tls: bool) -> Self {
        let mut dialog = Dialog::new(settings.dialect, settings.sides, settings.names());
        if has_back_tls {
            dialog.server_is_secured();
        }
        Self { dialog, broadcast: None }
    }
}

/// State of an end whose TLS is set up by `H`.
#[derive(Default)]
pub(crate) enum EndState<H> {
    /// Bytes are relayed as they come.
    #[default]
    Plain,
    /// A proxy is asked for the server; the following state is not made yet.
    Tunnel(Box<TunnelDialog>),
    /// A STARTTLS dialog goes on, and the handshake may follow it.
    Dialog(H),
    Handshaking(H),
    Tls(Box<Traffic>),
    /// Reading has ended; an alert may wait to be sent.
    Closed,
}

impl<H> EndState<H> {
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }

    pub(crate) fn is_in_dialog(&self) -> bool {
        matches!(self, Self::Dialog(_))
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Handshaking(_))
    }

    pub(crate) fn is_in_tunnel(&self) -> bool {
        matches!(self, Self::Tunnel(_))
    }

    /// Reports whether a tunnel or TLS may still come up.
    pub(crate) fn is_opening(&self) -> bool {
        self.is_in_tunnel() || self.is_in_dialog() || self.is_handshaking()
    }

    pub(crate) fn handshake(&self) -> Option<&H> {
        match self {
            Self::Handshaking(handshake) => Some(handshake),
            _ => None,
        }
    }

    pub(crate) fn handshake_mut(&mut self) -> Option<&mut H> {
        match self {
            Self::Handshaking(handshake) => Some(handshake),
            _ => None,
        }
    }

    pub(crate) fn traffic(&self) -> Option<&Traffic> {
        match self {
            Self::Tls(traffic) => Some(traffic),
            _ => None,
        }
    }

    pub(crate) fn traffic_mut(&mut self) -> Option<&mut Traffic> {
        match self {
            Self::Tls(traffic) => Some(traffic),
            _ => None,
        }
    }

    /// Begins the handshake that follows a dialog.
    pub(crate) fn begin(&mut self) {
        *self = match std::mem::replace(self, Self::Closed) {
            Self::Dialog(handshake) => Self::Handshaking(handshake),
            other => other,
        };
    }

    /// Gives up TLS that is not yet up.
    pub(crate) fn abandon(&mut self) {
        if self.is_opening() {
            *self = Self::Closed;
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Encryption {
    /// Our record layer, to the end.
    #[default]
    Ours,
    /// Our record layer while little is sent; counts the bytes that have come in one go.
    OursSoFar {
        run_bytes: u64,
    },
    /// Our record layer, until all its encrypted bytes have been sent.
    Wanted,
    /// Neither: the kernel was asked and has not answered.
    Asked,
    Kernel,
    /// The kernel, once it has the key that follows a KeyUpdate.
    KernelRekeying,
}

/// State of the encryption to a client, and the records without data for the kernel to send.
#[derive(Debug, Default)]
pub(crate) struct KtlsState {
    encryption: Encryption,
    /// Waiting records without application data: an answer to the client, and the end.
    pub(crate) records: VecDeque<ControlRecord>,
}

impl KtlsState {
    /// Allows the kernel to be asked.
    pub(crate) fn allow(&mut self) {
        if self.encryption == Encryption::Ours {
            self.encryption = Encryption::OursSoFar { run_bytes: 0 };
        }
    }

    /// Counts `count` bytes that were received at once. A run ends when fewer bytes come than fill
    /// a record.
    pub(crate) fn received(&mut self, count: usize, from: u64) {
        if let Encryption::OursSoFar { run_bytes } = &mut self.encryption {
            let before = if count < PLAINTEXT_BYTES_MAX { 0 } else { *run_bytes };
            *run_bytes = before + count as u64;
            let run = *run_bytes;
            self.expect(run, from);
        }
    }

    /// Requests the kernel if at least `from` bytes are sent in one go.
    pub(crate) fn expect(&mut self, bytes: u64, from: u64) {
        if matches!(self.encryption, Encryption::OursSoFar { .. }) && bytes >= from {
            self.encryption = Encryption::Wanted;
        }
    }

    /// Reports whether the kernel has not refused.
    pub(crate) fn may_be_kernel(&self) -> bool {
        self.encryption != Encryption::Ours
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.encryption == Encryption::Wanted
    }

    pub(crate) fn asked(&mut self) {
        self.encryption = Encryption::Asked;
    }

    pub(crate) fn answered(&mut self, is_taken: bool) {
        self.encryption = if is_taken { Encryption::Kernel } else { Encryption::Ours };
    }

    pub(crate) fn is_kernel(&self) -> bool {
        matches!(self.encryption, Encryption::Kernel | Encryption::KernelRekeying)
    }

    /// Reports whether no data may be sent now.
    pub(crate) fn holds_back(&self) -> bool {
        let is_between = matches!(self.encryption, Encryption::Asked | Encryption::KernelRekeying);
        is_between || !self.records.is_empty()
    }

    /// Removes the first record, which was sent. Returns whether the kernel needs its next key now.
    pub(crate) fn record_sent(&mut self) -> bool {
        let is_key_update = self.records.pop_front().is_some_and(|record| record.is_key_update());
        if is_key_update {
            self.encryption = Encryption::KernelRekeying;
        }
        is_key_update
    }
}

/// State of a connection whose hello was opened, until its server has accepted a hello.
pub(crate) struct HiddenHello {
    context: EchContext,
    pub(crate) watch: RetryWatch,
    pub(crate) gate: RecordGate,
    /// Reader of the second hello, if the server asks for one.
    pub(crate) second: Option<Reader>,
}

/// Progress of the second hello.
pub(crate) enum SecondHello {
    NotWhole,
    /// Inner hello, and the number of bytes that it replaces.
    Opened(Vec<u8>, usize),
    Refused(EchFault),
}

impl HiddenHello {
    pub(crate) fn new(context: EchContext) -> Self {
        Self { context, watch: RetryWatch::default(), gate: RecordGate::default(), second: None }
    }

    /// Reads the second hello at the front of these bytes, if one is due.
    pub(crate) fn read_second(&mut self, bytes: &[u8]) -> SecondHello {
        let Some(reader) = self.second.as_mut().filter(|_| !bytes.is_empty()) else {
            return SecondHello::NotWhole;
        };
        match reader.read(bytes) {
            Ok(HelloProgress::Incomplete) => SecondHello::NotWhole,
            Ok(HelloProgress::Hello(hello)) => match self.context.open_second(&hello) {
                Ok(inner) => SecondHello::Opened(inner, hello.wire_bytes()),
                Err(fault) => SecondHello::Refused(fault),
            },
            Err(fault) => SecondHello::Refused(unreadable(&fault)),
        }
    }
}

fn unreadable(fault: &HelloFault) -> EchFault {
    let alert = fault.alert().unwrap_or(wire::alert::DECODE_ERROR);
    EchFault { alert, detail: format!("second hello: {fault}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: usize = PLAINTEXT_BYTES_MAX;

    #[test]
    fn long_runs_want_the_kernel_and_short_ones_do_not() {
        let mut ktls = KtlsState::default();
        ktls.received(100 * FULL, 0);
        assert!(!ktls.is_wanted(), "the kernel may not be asked");
        ktls.allow();
        let from = 3 * FULL as u64;
        for _ in 0..10 {
            ktls.received(2 * FULL, from);
            // A reply that ends: the next one begins anew.
            ktls.received(100, from);
        }
        assert!(!ktls.is_wanted());
        ktls.received(2 * FULL, from);
        ktls.received(FULL, from);
        assert!(ktls.is_wanted());
    }

    #[test]
    fn a_length_that_is_known_counts_at_once() {
        let mut ktls = KtlsState::default();
        ktls.allow();
        ktls.expect(999, 1000);
        assert!(!ktls.is_wanted());
        ktls.expect(1000, 1000);
        assert!(ktls.is_wanted());
    }

    #[test]
    fn a_refusal_is_for_good() {
        let mut ktls = KtlsState::default();
        ktls.allow();
        ktls.expect(1, 0);
        ktls.asked();
        assert!(ktls.holds_back() && !ktls.is_kernel());
        ktls.answered(false);
        ktls.expect(u64::MAX, 0);
        assert!(!ktls.is_wanted() && !ktls.holds_back());
    }

    #[test]
    fn nothing_is_sent_between_a_key_update_and_its_key() {
        let mut ktls = KtlsState::default();
        ktls.answered(true);
        ktls.records.push_back(ControlRecord::close_notify());
        assert!(ktls.holds_back());
        assert!(!ktls.record_sent());
        assert!(!ktls.holds_back());
    }
}
