//! Carries the bytes of a connection, through TLS or unchanged.
//!
//! Handles the library's connection and unsent bytes. The socket is the caller's task.

use std::io::{self, BufRead, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustls::{
    CertificateError, ClientConfig, ClientConnection, Error, HandshakeKind, InvalidMessage,
    OtherError,
};
use rustls_pki_types::ServerName;
use wire::certificate_chain::ChainFault;
use wire::starttls::{Dialect, Dialog, DialogAction, HostNames, Output};

use crate::ech::retry_configurations;
use crate::failure::TransactionFailure;
use crate::plan::Handshake;
use crate::tls::offered;

/// The layer that carries the bytes.
#[derive(Debug)]
enum Layer {
    Plain,
    Tls(Box<ClientConnection>),
}

/// Bytes of one connection.
#[derive(Debug)]
pub(crate) struct ClientChannel {
    layer: Layer,
    /// The dialog before TLS, until the server has agreed to it.
    opening: Option<Box<TlsOpening>>,
    /// Goes out before anything else of the layer: a PROXY header, plain bytes, or what the
    /// socket had no room for.
    pending: Vec<u8>,
    /// Kind of resumption that the hello offers; `Full` if none.
    pub(crate) offered: Handshake,
    sent: usize,
}

/// A dialogue in plaintext that leads to TLS.
#[derive(Debug)]
struct TlsOpening {
    dialog: Dialog,
    /// TLS bytes written so far, to be sent behind the dialogue.
    hello: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct HandshakeResult {
    /// `Full` if it was one, else the kind of resumption.
    pub(crate) as_kind: Handshake,
    /// Whether the server requested a second hello.
    pub(crate) retried: bool,
}

impl ClientChannel {
    pub(crate) fn plain(preface: Vec<u8>) -> Self {
        Self::new(Layer::Plain, preface, Handshake::Full)
    }

    /// Makes a channel with TLS; `reads_offer` if the hello may offer anything.
    ///
    /// # Errors
    /// Fails with the library's error, of a kind that a plan does not allow.
    pub(crate) fn tls(
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
        preface: Vec<u8>,
        reads_offer: bool,
    ) -> Result<Self, Error> {
        let mut tls = ClientConnection::new(Arc::clone(config), name)?;
        // The limit is off because a body is written whole: the plan bounds its length.
        tls.set_buffer_limit(None);
        if !reads_offer {
            return Ok(Self::new(Layer::Tls(Box::new(tls)), preface, Handshake::Full));
        }
        let start = preface.len();
        let mut pending = preface;
        drain(&mut tls, &mut pending);
        let offered = offered(pending.get(start..).unwrap_or_default());
        Ok(Self::new(Layer::Tls(Box::new(tls)), pending, offered))
    }

    fn new(layer: Layer, pending: Vec<u8>, offered: Handshake) -> Self {
        Self { layer, opening: None, pending, offered, sent: 0 }
    }

    /// Begins TLS only once the server has agreed to it in this protocol. Everything behind the
    /// first `preface_bytes` waits for that.
    ///
    /// # Errors
    /// Fails with the dialogue's error, before its first byte.
    pub(crate) fn ask_for_tls(
        &mut self,
        dialect: Dialect,
        names: HostNames<'_>,
        preface_bytes: usize,
    ) -> Result<(), TransactionFailure> {
        self.opening = Some(Box::new(TlsOpening {
            dialog: Dialog::asking(dialect, names),
            hello: self.pending.split_off(preface_bytes),
        }));
        self.negotiate(Dialog::server_connected)
    }

    /// Reports whether the server has yet to agree to TLS.
    pub(crate) fn is_before_tls(&self) -> bool {
        self.opening.is_some()
    }

    fn negotiate(
        &mut self,
        happen: impl FnOnce(&mut Dialog) -> Output,
    ) -> Result<(), TransactionFailure> {
        let Some(opening) = &mut self.opening else {
            return Ok(());
        };
        let step = happen(&mut opening.dialog);
        self.pending.extend_from_slice(&step.to_server);
        match step.next {
            DialogAction::More => {}
            DialogAction::StartServerTls => {
                self.pending.append(&mut opening.hello);
                self.opening = None;
            }
            _ => return Err(TransactionFailure::StarttlsFailed),
        }
        Ok(())
    }

    /// Returns the library's connection, if there is TLS.
    pub(crate) fn session(&self) -> Option<&ClientConnection> {
        match &self.layer {
            Layer::Plain => None,
            Layer::Tls(tls) => Some(tls),
        }
    }

    /// Reports whether data can be sent and received.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        match &self.layer {
            Layer::Plain => true,
            Layer::Tls(tls) => !tls.is_handshaking(),
        }
    }

    /// The result of the handshake; `None` without TLS.
    pub(crate) fn shaken(&self) -> Option<HandshakeResult> {
        let kind = self.session()?.handshake_kind()?;
        Some(HandshakeResult {
            as_kind: match kind {
                HandshakeKind::Resumed => self.offered,
                HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest => Handshake::Full,
            },
            // The library does not tell this for a resumed handshake.
            retried: kind == HandshakeKind::FullWithHelloRetryRequest,
        })
    }

    /// Sends data as soon as the handshake allows it.
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        match &mut self.layer {
            Layer::Plain => self.pending.extend_from_slice(bytes),
            Layer::Tls(tls) => {
                tls.writer().write_all(bytes).expect("the library's buffer has no limit but memory")
            }
        }
    }

    /// Sends data with the hello, if the offered session allows that much.
    pub(crate) fn send_early(&mut self, bytes: &[u8]) -> bool {
        let Layer::Tls(tls) = &mut self.layer else {
            return false;
        };
        let Some(mut early) = tls.early_data().filter(|early| early.bytes_left() >= bytes.len())
        else {
            return false;
        };
        early.write_all(bytes).is_ok()
    }

    /// Announces the end of our data.
    pub(crate) fn send_close(&mut self) {
        if let Layer::Tls(tls) = &mut self.layer {
            tls.send_close_notify();
        }
    }

    /// Takes some of the socket's bytes; call it until none are left. `true` if the server has
    /// announced the end of its data.
    ///
    /// # Errors
    /// Fails with the reason why the connection cannot go on; an alert may have to be sent.
    #[inline]
    pub(crate) fn receive(&mut self, bytes: &mut &[u8]) -> Result<bool, TransactionFailure> {
        if self.is_before_tls() {
            let received = std::mem::take(bytes);
            self.negotiate(|dialog| dialog.server_sent(received))?;
            return Ok(false);
        }
        let Layer::Tls(tls) = &mut self.layer else {
            return Ok(false);
        };
        let count = tls.read_tls(bytes).map_err(|_| TransactionFailure::BadRecord)?;
        if count == 0 {
            // Bytes behind a close_notify are ignored (RFC 8446, section 6.1).
            *bytes = &[];
        }
        match tls.process_new_packets() {
            Ok(state) => Ok(state.peer_has_closed()),
            Err(error) => Err(failure(&error, self.has_spoken())),
        }
    }

    /// Reports whether a TLS record has arrived. Any other first bytes fail at their head.
    fn has_spoken(&self) -> bool {
        let tls = self.session();
        tls.is_some_and(|tls| tls.protocol_version().is_some())
    }

    /// Passes received data to `take`, piece by piece; without TLS, the bytes themselves, which are
    /// consumed.
    #[inline]
    pub(crate) fn data<F>(
        &mut self,
        bytes: &mut &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), F>,
    ) -> Result<(), F> {
        let Layer::Tls(tls) = &mut self.layer else {
            return take(std::mem::take(bytes));
        };
        loop {
            let mut reader = tls.reader();
            // The read would block: no more data now.
            let Ok(chunk) = reader.fill_buf() else {
                return Ok(());
            };
            let count = chunk.len();
            if count == 0 {
                return Ok(());
            }
            take(chunk)?;
            reader.consume(count);
        }
    }

    /// Reports whether the server has announced the end of its data (close_notify); without TLS,
    /// the socket's end suffices.
    pub(crate) fn ends_cleanly(&mut self) -> bool {
        match &mut self.layer {
            Layer::Plain => true,
            Layer::Tls(tls) => matches!(tls.reader().read(&mut [0; 1]), Ok(0)),
        }
    }

    /// Writes pending bytes, and adds the number of bytes sent.
    ///
    /// # Errors
    /// Fails with the socket's error.
    #[inline]
    pub(crate) fn flush(
        &mut self,
        fd: BorrowedFd<'_>,
        sent_bytes: &mut u64,
    ) -> io::Result<FlushResult> {
        if self.is_before_tls() {
            return self.flush_pending(fd, sent_bytes);
        }
        if !self.pending.is_empty() {
            if let Layer::Tls(tls) = &mut self.layer {
                drain(tls, &mut self.pending);
            }
            return self.flush_pending(fd, sent_bytes);
        }
        let Layer::Tls(tls) = &mut self.layer else {
            return Ok(FlushResult::All);
        };
        while tls.wants_write() {
            match tls.write_tls(&mut ChannelSocket(fd)) {
                Ok(count) => *sent_bytes += count as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(FlushResult::Part);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(FlushResult::All)
    }

    fn flush_pending(
        &mut self,
        fd: BorrowedFd<'_>,
        sent_bytes: &mut u64,
    ) -> io::Result<FlushResult> {
        while let Some(rest) = self.pending.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match sys::socket::write(fd, rest) {
                Ok(count) => {
                    self.sent += count;
                    *sent_bytes += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(FlushResult::Part);
                }
                Err(error) => return Err(error),
            }
        }
        // A kept connection frees room that it used once.
        self.pending = Vec::new();
        self.sent = 0;
        Ok(FlushResult::All)
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FlushResult {
    All,
    Part,
}

fn drain(tls: &mut ClientConnection, into: &mut Vec<u8>) {
    while tls.wants_write() {
        tls.write_tls(into).expect("memory takes everything");
    }
}

/// Socket to which the library writes several pieces at once.
struct ChannelSocket<'a>(BorrowedFd<'a>);

impl Write for ChannelSocket<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        sys::socket::write(self.0.as_fd(), bytes)
    }

    #[inline]
    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match pieces {
            [piece] => sys::socket::write(self.0.as_fd(), piece),
            _ => sys::socket::write_vectored(self.0.as_fd(), pieces),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Names the side and the reason of a library error.
fn failure(error: &Error, has_spoken: bool) -> TransactionFailure {
    if let Some(configurations) = retry_configurations(error) {
        return match configurations {
            0 => TransactionFailure::EchRejected,
            _ => TransactionFailure::EchOutdated,
        };
    }
    match error {
        Error::AlertReceived(alert) => TransactionFailure::Alert(u8::from(*alert)),
        Error::InvalidCertificate(fault) => certificate_failure(fault),
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::MessageTooLarge
            | InvalidMessage::InvalidEmptyPayload,
        ) if !has_spoken => TransactionFailure::NotTls,
        Error::DecryptError
        | Error::PeerSentOversizedRecord
        | Error::InvalidMessage(InvalidMessage::MessageTooLarge) => TransactionFailure::BadRecord,
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => {
            TransactionFailure::Incompatible
        }
        Error::NoCertificatesPresented => TransactionFailure::Certificate,
        _ => TransactionFailure::ProtocolViolation,
    }
}

/// Tells whether a certificate, its chain, or its owner is at fault.
pub(crate) fn certificate_failure(fault: &CertificateError) -> TransactionFailure {
    use CertificateError as Fault;
    match fault {
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => {
            TransactionFailure::CertificateName
        }
        Fault::Expired
        | Fault::ExpiredContext { .. }
        | Fault::NotValidYet
        | Fault::NotValidYetContext { .. } => TransactionFailure::CertificateTime,
        Fault::UnknownIssuer => TransactionFailure::CertificateIssuer,
        Fault::Other(OtherError(other)) if other.is::<ChainFault>() => {
            TransactionFailure::CertificateChain
        }
        // The library has no separate name for this fault.
        Fault::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            TransactionFailure::CertificateIsAuthority
        }
        _ => TransactionFailure::Certificate,
    }
}
