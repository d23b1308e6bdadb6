//! Drives one connection to the server: dial, handshake, requests, end.
//!
//! Handles the socket and the connection's state. The begin of transactions and the meaning of
//! their ends are the worker's task.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use measure::record::TrafficBytes;

use crate::channel::{ClientChannel, FlushResult};
use crate::failure::TransactionFailure;
use crate::http::{ReplyProgress, ReplyReader};

/// Maximum of reads in a row on one connection: a server that sends faster than we read must not
/// block all others.
const READS_MAX: usize = 16;

#[derive(Debug)]
pub(crate) struct ClientConnection {
    pub(crate) fd: OwnedFd,
    pub(crate) channel: ClientChannel,
    pub(crate) stage: LoadStage,
    pub(crate) reply: ReplyReader,
    /// Whether the socket may have more bytes without a further event.
    pub(crate) may_read: bool,
    /// Whether the server has ended its stream.
    is_ended: bool,
    /// Whether the request went with the hello: its reply may arrive before the handshake is over.
    is_early: bool,
    /// Whether the socket was full at the last write.
    pub(crate) is_full: bool,
    /// Whether a write found the connection reset; a read would only report its end.
    is_reset: bool,
    /// Instants at which the transaction's handshake was over, and its reply began.
    pub(crate) marks: TransactionTimes,
}

/// Instants of the current transaction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TransactionTimes {
    /// Instant at which the first byte of the hello was sent.
    pub(crate) hello: Option<Instant>,
    pub(crate) open: Option<Instant>,
    pub(crate) first_byte: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LoadStage {
    /// The dial is in progress.
    Dialling,
    /// TLS is being negotiated, or requested in a protocol that begins in plaintext.
    Handshake,
    /// The connection is usable, without a request.
    Open,
    Reply,
    /// The work is done, and the connection waits for the server's end.
    Closing,
}

impl LoadStage {
    /// Returns the failure of a transaction that times out at this stage.
    pub(crate) fn timeout(self) -> TransactionFailure {
        match self {
            Self::Dialling => TransactionFailure::ConnectTimeout,
            Self::Handshake => TransactionFailure::HandshakeTimeout,
            Self::Open | Self::Reply | Self::Closing => TransactionFailure::ReplyTimeout,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ConnectionStep {
    Waiting,
    /// Data can be sent now, for the first time.
    Opened,
    Replied,
    /// The connection has ended properly.
    Over,
    /// The connection is unusable.
    Failed(TransactionFailure),
}

impl ClientConnection {
    /// Makes a connection over a connected or connecting socket.
    pub(crate) fn new(fd: OwnedFd, is_connected: bool, channel: ClientChannel) -> Self {
        Self {
            fd,
            channel,
            stage: if is_connected { LoadStage::Handshake } else { LoadStage::Dialling },
            reply: ReplyReader::new(false),
            may_read: false,
            is_ended: false,
            is_early: false,
            is_full: false,
            is_reset: false,
            marks: TransactionTimes::default(),
        }
    }

    /// Sends the first bytes, if the connection is established.
    pub(crate) fn start(&mut self, traffic: &mut TrafficBytes) -> ConnectionStep {
        if self.stage == LoadStage::Dialling {
            return ConnectionStep::Waiting;
        }
        if !self.channel.is_before_tls() {
            self.marks.hello = Some(Instant::now());
        }
        self.flush(traffic);
        if self.channel.is_open() { self.opened() } else { ConnectionStep::Waiting }
    }

    /// Sends the request with the hello, if the session allows it.
    pub(crate) fn ask_early(&mut self, request: &[u8], to_head: bool) {
        self.is_early = self.channel.send_early(request);
        self.reply = ReplyReader::new(to_head);
    }

    /// Reports whether the server accepted the early request; `None` if there was none.
    pub(crate) fn early_data_accepted(&self) -> Option<bool> {
        Some(self.channel.session().filter(|_| self.is_early)?.is_early_data_accepted())
    }

    /// Sends the request, once the connection is open, unless the server has accepted it already.
    pub(crate) fn ask(
        &mut self,
        request: &[u8],
        to_head: bool,
        traffic: &mut TrafficBytes,
    ) -> ConnectionStep {
        debug_assert_eq!(self.stage, LoadStage::Open, "one request at a time");
        self.stage = LoadStage::Reply;
        if self.early_data_accepted() == Some(true) {
            self.is_early = false;
            self.flush(traffic);
            return if self.reply.is_whole() { self.replied() } else { ConnectionStep::Waiting };
        }
        self.is_early = false;
        self.reply = ReplyReader::new(to_head);
        self.channel.send(request);
        self.flush(traffic);
        ConnectionStep::Waiting
    }

    /// Forgets the instants of the last transaction.
    pub(crate) fn renew(&mut self) {
        self.marks = TransactionTimes::default();
    }

    /// Ends our stream; the server's is still read.
    pub(crate) fn close(&mut self, traffic: &mut TrafficBytes) -> ConnectionStep {
        self.channel.send_close();
        self.stage = LoadStage::Closing;
        self.flush(traffic);
        if self.is_ended {
            return ConnectionStep::Over;
        }
        // A full socket is not waited for: nobody needs these bytes.
        match sys::socket::shutdown_write(&self.fd) {
            Ok(()) => ConnectionStep::Waiting,
            Err(_) => ConnectionStep::Over,
        }
    }

    /// Makes the coming drop a reset. Sends pending bytes before: the end of a handshake.
    pub(crate) fn reset(&mut self, traffic: &mut TrafficBytes) {
        self.flush(traffic);
        // This call fails on a socket that is reset already.
        let _ = sys::socket::reset_on_close(&self.fd);
    }

    /// Handles an event: the socket has bytes, or room.
    pub(crate) fn on_ready(
        &mut self,
        event: &sys::epoll::Event,
        buffer: &mut [u8],
        traffic: &mut TrafficBytes,
    ) -> ConnectionStep {
        if self.stage == LoadStage::Dialling {
            match self.dialled(event, traffic) {
                ConnectionStep::Waiting if self.stage != LoadStage::Dialling => {}
                step => return step,
            }
        }
        self.may_read |= event.readable || event.read_closed || event.hung_up || event.error;
        if event.writable {
            self.flush(traffic);
        }
        // A stream that has ended is read to its end: no event will come for it.
        self.advance(event.read_closed || event.hung_up || event.error, buffer, traffic)
    }

    /// Continues after a step, if bytes may be left.
    pub(crate) fn go_on(
        &mut self,
        buffer: &mut [u8],
        traffic: &mut TrafficBytes,
    ) -> ConnectionStep {
        self.advance(true, buffer, traffic)
    }

    fn dialled(&mut self, event: &sys::epoll::Event, traffic: &mut TrafficBytes) -> ConnectionStep {
        match sys::socket::take_error(&self.fd) {
            Ok(None) if event.writable => {
                self.stage = LoadStage::Handshake;
                self.start(traffic)
            }
            Ok(None) => ConnectionStep::Waiting,
            Ok(Some(error)) | Err(error) => ConnectionStep::Failed(dial_failure(&error)),
        }
    }

    fn replied(&mut self) -> ConnectionStep {
        self.stage = LoadStage::Open;
        ConnectionStep::Replied
    }

    /// Reads until a step is made or no bytes are left.
    fn advance(
        &mut self,
        reads_on: bool,
        buffer: &mut [u8],
        traffic: &mut TrafficBytes,
    ) -> ConnectionStep {
        for _ in 0..READS_MAX {
            if !self.may_read {
                break;
            }
            self.may_read = false;
            let count = match sys::socket::read(&self.fd, buffer) {
                Ok(0) => return self.end(),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return self.broken(&error),
            };
            traffic.received_bytes += count as u64;
            // Later bytes have their own event.
            self.may_read = reads_on || count == buffer.len();
            match self.take(buffer.get(..count).unwrap_or_default(), traffic) {
                ConnectionStep::Waiting => {}
                step => return step,
            }
        }
        ConnectionStep::Waiting
    }

    fn take(&mut self, mut bytes: &[u8], traffic: &mut TrafficBytes) -> ConnectionStep {
        let was_shaking = self.stage == LoadStage::Handshake;
        let was_before_tls = self.channel.is_before_tls();
        let (mut is_whole, mut has_closed) = (false, false);
        while !bytes.is_empty() {
            match self.channel.receive(&mut bytes) {
                Ok(closed) => has_closed |= closed,
                Err(failure) => {
                    // An alert may be pending; whether it arrives does not matter.
                    let _ = self.channel.flush(self.fd.as_fd(), &mut traffic.sent_bytes);
                    return self.excused(ConnectionStep::Failed(failure));
                }
            }
            // Data before the handshake is over can only answer early data.
            if was_shaking && !self.is_early {
                continue;
            }
            match self.take_data(&mut bytes) {
                Ok(whole) => is_whole |= whole,
                Err(failure) => return ConnectionStep::Failed(failure),
            }
        }
        self.is_ended |= has_closed;
        if was_before_tls && !self.channel.is_before_tls() {
            self.marks.hello = Some(Instant::now());
        }
        if was_shaking && self.channel.is_open() {
            // Our last flight is sent with the request, if there is one.
            return self.opened();
        }
        match (is_whole, has_closed) {
            (true, _) => self.replied(),
            (_, true) => self.end(),
            // Answers to the server's messages: a KeyUpdate, a flight.
            _ => {
                self.flush(traffic);
                ConnectionStep::Waiting
            }
        }
    }

    fn opened(&mut self) -> ConnectionStep {
        self.stage = LoadStage::Open;
        self.marks.open = Some(Instant::now());
        ConnectionStep::Opened
    }

    /// Reports whether the reply is complete.
    fn take_data(&mut self, bytes: &mut &[u8]) -> Result<bool, TransactionFailure> {
        let Self { channel, reply, stage, marks, is_early, .. } = self;
        let is_awaited = *stage == LoadStage::Reply || *is_early;
        let mut is_whole = false;
        channel.data(bytes, |data| match stage {
            _ if is_awaited => {
                if marks.first_byte.is_none() {
                    marks.first_byte = Some(Instant::now());
                }
                let progress = reply.take(data).map_err(|_| TransactionFailure::ReplyMalformed)?;
                is_whole |= progress == ReplyProgress::Whole;
                Ok(())
            }
            // Bytes after the end of the work are read and dropped.
            LoadStage::Closing => Ok(()),
            _ => Err(TransactionFailure::ReplyMalformed),
        })?;
        Ok(is_whole)
    }

    /// Handles the end of the server's stream.
    fn end(&mut self) -> ConnectionStep {
        if self.is_reset {
            return self.broken(&io::ErrorKind::ConnectionReset.into());
        }
        self.is_ended = true;
        match self.stage {
            LoadStage::Dialling | LoadStage::Handshake => {
                ConnectionStep::Failed(TransactionFailure::HandshakeClosed)
            }
            LoadStage::Open | LoadStage::Closing => ConnectionStep::Over,
            LoadStage::Reply => match self.reply.close() {
                ReplyProgress::Whole if self.channel.ends_cleanly() => self.replied(),
                _ => ConnectionStep::Failed(TransactionFailure::ReplyClosed),
            },
        }
    }

    fn broken(&mut self, error: &io::Error) -> ConnectionStep {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        let is_reset = matches!(error.kind(), ConnectionReset | BrokenPipe);
        self.is_ended = true;
        self.excused(ConnectionStep::Failed(match self.stage {
            LoadStage::Dialling => dial_failure(error),
            LoadStage::Handshake if is_reset => TransactionFailure::HandshakeReset,
            LoadStage::Handshake => TransactionFailure::ConnectFailed,
            LoadStage::Reply | LoadStage::Open | LoadStage::Closing => {
                TransactionFailure::ReplyReset
            }
        }))
    }

    /// Excuses a failure after the work is done, unless an alert tells that the server rejected the
    /// handshake.
    fn excused(&self, step: ConnectionStep) -> ConnectionStep {
        match (self.stage, step) {
            (LoadStage::Closing, ConnectionStep::Failed(TransactionFailure::Alert(_))) => step,
            (LoadStage::Open | LoadStage::Closing, _) => ConnectionStep::Over,
            _ => step,
        }
    }

    /// Writes pending bytes. A full socket reports room later; the cause of an error is learnt by
    /// reading, as the server may have sent it before.
    fn flush(&mut self, traffic: &mut TrafficBytes) {
        match self.channel.flush(self.fd.as_fd(), &mut traffic.sent_bytes) {
            Ok(flushed) => self.is_full = flushed == FlushResult::Part,
            Err(error) => {
                self.is_reset |= error.kind() == io::ErrorKind::ConnectionReset;
                self.may_read = true;
            }
        }
    }
}

pub(crate) fn dial_failure(error: &io::Error) -> TransactionFailure {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotFound, WouldBlock};
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => TransactionFailure::NoLocalPort,
        io::ErrorKind::TimedOut => TransactionFailure::ConnectTimeout,
        // The queue of a Unix socket is full, or the socket does not exist.
        WouldBlock | NotFound => TransactionFailure::ConnectRefused,
        ConnectionRefused | ConnectionReset => TransactionFailure::ConnectRefused,
        _ => match error.raw_os_error() {
            // EMFILE and ENFILE have no separate kind.
            Some(23 | 24) => TransactionFailure::NoDescriptor,
            _ => TransactionFailure::ConnectFailed,
        },
    }
}
