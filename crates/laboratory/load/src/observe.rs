//! Observes one handshake closely: what was offered and answered, byte by byte; and whether the
//! chain of certificates leads to a trusted root.
//!
//! The client generates no load: it makes one connection at a time over a stream that its caller
//! opened and limits, and reports the findings. Other judgement is the caller's task.

pub mod records;

use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{
    ClientConnection, ResolvesClientCert, Tls12ClientSessionValue, WebPkiServerVerifier,
};
use rustls::crypto::aws_lc_rs as library;
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, Error, HandshakeKind, InvalidMessage, KeyLog, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use wire::ocsp::{OcspHash, SignatureAlgorithms};

use crate::channel::certificate_failure;
use crate::ech;
use crate::failure::TransactionFailure;
use crate::plan::{Handshake, PlannedTls};
use crate::tls::{
    PresentedChain, ThreadSessions, TlsFault, bounded, configuration, group_name, offered,
    scheme_name, server_name, suite_name,
};
use records::Ticket;

pub use measure::choice::EchOutcome;
pub use measure::probe::End;

/// A client with at most one session, which it offers as often as requested.
#[derive(Debug)]
pub struct ObservingClient {
    config: ClientConfig,
    name: ServerName<'static>,
    sessions: Arc<ThreadSessions>,
    /// The TLS 1.2 session that the last connection offered.
    offered: Mutex<Option<Tls12ClientSessionValue>>,
    seen: Arc<CallbackNotes>,
    presented: Arc<PresentedChain>,
}

/// Notes of the library's callbacks about the connection in progress.
#[derive(Debug, Default)]
struct CallbackNotes {
    /// Server's secret of application traffic (RFC 8446, section 7.1).
    secret: Mutex<Option<Vec<u8>>>,
    /// Server's secret of handshake traffic.
    handshake_secret: Mutex<Option<Vec<u8>>>,
    certificate_asked: AtomicBool,
}

pub trait TimeLimited: Read + Write {
    /// Makes reads and writes fail after this time, or after the one set before, if that is
    /// shorter.
    fn shorten(&mut self, limit: Duration);
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ObservedConversation<'a> {
    /// Request to send after the handshake; `None` sends our close_notify alone.
    pub request: Option<&'a [u8]>,
    /// Early data to send if the session allows it.
    pub early: Option<&'a [u8]>,
    /// Further time to wait: after our close_notify, or after the first bytes of a reply.
    pub linger: Duration,
}

#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub version: String,
    /// Standard name of the suite.
    pub suite: String,
    /// Group; empty if no keys were exchanged.
    pub group: String,
    /// Scheme of the server's signature; empty if it gave none.
    pub signature: String,
    /// Application protocol; empty if none.
    pub alpn: String,
    /// Chain in DER, the leaf first. For a resumed session, the chain of its first handshake.
    pub chain: Vec<Vec<u8>>,
    /// Algorithm of the chain's compression (RFC 8879, section 3); `None` if uncompressed.
    pub certificate_compression: Option<u16>,
    /// Stapled OCSP response in DER; empty if none.
    pub staple: Vec<u8>,
    /// Our first hello, as sent.
    pub hello: Vec<u8>,
    /// Kind of resumption that the hello offered.
    pub offered: Option<Handshake>,
    pub resumed: bool,
    /// Whether a full handshake had a HelloRetryRequest.
    pub hello_retry: bool,
    pub certificate_asked: bool,
    /// Session ID that the server gave (TLS 1.2); empty if none.
    pub session_id: Vec<u8>,
    /// Tickets that the server gave.
    pub tickets: Vec<Ticket>,
    /// Whether our early data was accepted; `None` if none could be sent.
    pub early_data_accepted: Option<bool>,
    /// Outcome of ECH; `None` if the hello was not encrypted.
    pub ech: Option<EchOutcome>,
    /// Time from the first byte of our hello to the end of the handshake.
    pub handshake: Duration,
    /// Number of waits for the server in the handshake.
    pub round_trips: u32,
    /// Bytes of application data in each record.
    pub records: Vec<u32>,
    /// First bytes of the application data.
    pub reply: Vec<u8>,
    /// Bytes of application data.
    pub bytes: u64,
    /// How the server ended its stream.
    pub end: End,
    /// Number of the fatal alert by which the server ended the connection after the handshake.
    pub alert: Option<u8>,
}

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ObserveFault {
    /// The server's alert, by its number.
    #[error("the server refused by the alert {}", wire::alert::label(*.0))]
    Alert(u8),
    /// The server closed or reset the connection.
    #[error("the server {} the connection in the handshake", if *.0 { "reset" } else { "closed" })]
    Closed(bool),
    /// The stream's time was over.
    #[error("the handshake was not over in time")]
    Timeout,
    /// The first bytes were not TLS.
    #[error("what the server sent is no TLS")]
    NotTls(Vec<u8>),
    /// The server rejected ECH and answered for the public name (RFC 9849, section 6.1.6).
    #[error("the server rejected the encrypted hello")]
    EchRejected {
        /// Newer configurations that the server sent.
        retry_configurations: usize,
        /// Chain of the answering server, in DER, the leaf first.
        chain: Vec<Vec<u8>>,
    },
    /// A handshake message is longer than the 64 KiB that the library accepts.
    #[error("its handshake message of type {message} takes {bytes} bytes")]
    TooLong { message: u8, bytes: usize },
    #[error("{0}")]
    Protocol(String),
}

/// Index of the only client.
const ONLY: usize = 0;

/// Maximum bytes of a handshake before the connection is dropped: 1 MiB. Chains are a few KiB.
const HANDSHAKE_BYTES_MAX: usize = 1 << 20;
/// Maximum of application data to keep: no more is examined.
const REPLY_BYTES_MAX: usize = 16 << 10;
/// Maximum bytes to read from a server before the connection is dropped: 4 MiB.
const WIRE_BYTES_MAX: usize = 4 << 20;
/// Maximum of records whose lengths are kept.
const RECORDS_MAX: usize = 64;

impl ObservingClient {
    /// Makes a client for connections with this offer. Only the first kind of handshake counts.
    ///
    /// # Errors
    /// Fails with [`TlsFault`] if the offer is inconsistent, or one of its files is unusable.
    pub fn new(tls: &PlannedTls) -> Result<Self, TlsFault> {
        let seen = Arc::new(CallbackNotes::default());
        let sessions = Arc::new(ThreadSessions::new(1));
        let presented = Arc::new(PresentedChain::with_staple());
        let kind = tls.handshakes.first().copied().unwrap_or(Handshake::Full);
        let mut config = configuration(tls, kind, &sessions, &presented)?;
        let inner = Arc::clone(&config.client_auth_cert_resolver);
        config.client_auth_cert_resolver =
            Arc::new(NotingResolver { inner, seen: Arc::clone(&seen) });
        config.key_log = Arc::clone(&seen) as _;
        let offered = Mutex::default();
        Ok(Self { config, name: server_name(tls)?, sessions, offered, seen, presented })
    }

    /// Drops the sessions received so far.
    pub fn forget(&self) {
        self.sessions.forget(ONLY);
    }

    /// Makes the next connection offer the last one's TLS 1.2 session once more.
    pub fn offer_again(&self) {
        if let Some(offered) = locked(&self.offered).clone() {
            self.sessions.keep_tls12(offered);
        }
    }

    /// Reports whether the server requested a certificate on the last connection, even if that
    /// failed.
    pub fn certificate_asked(&self) -> bool {
        self.seen.certificate_asked.load(Relaxed)
    }

    /// Reports whether there is a session to offer.
    pub fn has_session(&self) -> bool {
        self.sessions.has_any(ONLY)
    }

    /// Makes a handshake over a stream whose reads and writes fail when its time is over, and goes
    /// on to the server's end.
    ///
    /// # Errors
    /// Fails with [`ObserveFault`] without a handshake. Later errors are part of the findings.
    pub fn converse(
        &self,
        stream: &mut impl TimeLimited,
        conversation: ObservedConversation<'_>,
    ) -> Result<Observed, ObserveFault> {
        *locked(&self.seen.secret) = None;
        *locked(&self.seen.handshake_secret) = None;
        *locked(&self.offered) = self.sessions.tls12();
        self.seen.certificate_asked.store(false, Relaxed);
        let _of_another_connection = (self.presented.take_scheme(), self.presented.take_staple());
        let mut config = self.config.clone();
        config.enable_early_data = conversation.early.is_some();
        let connection = ClientConnection::new(Arc::new(config), self.name.clone());
        let connection = connection.map_err(|error| ObserveFault::Protocol(error.to_string()))?;
        let mut talk = TalkInProgress {
            connection,
            stream,
            received: Vec::new(),
            sent_hello: Vec::new(),
            observed: Observed::default(),
        };
        talk.handshake(conversation.early).map_err(|fault| self.measured(fault, &talk))?;
        talk.finish(conversation);
        Ok(self.observed(talk))
    }

    /// Adds the message's length, which the library does not report.
    fn measured<S>(&self, fault: ObserveFault, talk: &TalkInProgress<'_, S>) -> ObserveFault {
        let ObserveFault::TooLong { .. } = fault else { return fault };
        let suite = talk.connection.negotiated_cipher_suite();
        let secret = locked(&self.seen.handshake_secret);
        let messages = match (&*secret, suite) {
            (Some(secret), Some(suite)) => records::encrypted(&talk.received, suite, secret),
            _ => records::clear(&talk.received),
        };
        let (message, bytes) = records::unfinished(&messages).unwrap_or_default();
        ObserveFault::TooLong { message, bytes }
    }

    fn observed<S>(&self, talk: TalkInProgress<'_, S>) -> Observed {
        let TalkInProgress { connection, received, sent_hello, mut observed, .. } = talk;
        observed.version = match connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3".to_owned(),
            _ => "TLSv1.2".to_owned(),
        };
        let suite = connection.negotiated_cipher_suite();
        observed.suite = suite.map(|suite| suite_name(suite.suite())).unwrap_or_default();
        let group = connection.negotiated_key_exchange_group();
        observed.group = group.map(|group| group_name(group.name())).unwrap_or_default();
        observed.signature = self.presented.take_scheme().map(scheme_name).unwrap_or_default();
        let alpn = connection.alpn_protocol().unwrap_or_default();
        observed.alpn = String::from_utf8_lossy(alpn).into_owned();
        observed.chain = chain(&connection);
        observed.ech = ech::outcome(connection.ech_status());
        observed.staple = self.presented.take_staple();
        observed.offered = Some(offered(&sent_hello));
        observed.hello = sent_hello;
        let kind = connection.handshake_kind();
        observed.resumed = kind == Some(HandshakeKind::Resumed);
        observed.hello_retry = kind == Some(HandshakeKind::FullWithHelloRetryRequest);
        observed.certificate_asked = self.certificate_asked();
        let is_tls13 = observed.version == "TLSv1.3";
        let secret = locked(&self.seen.secret).clone().filter(|_| is_tls13);
        let after = match (secret, suite) {
            (Some(secret), Some(suite)) => records::decrypted(&received, suite, &secret),
            _ => records::opaque(&received, suite),
        };
        if let (Some(secret), Some(suite)) = (&*locked(&self.seen.handshake_secret), suite) {
            observed.certificate_compression = records::compression(&received, suite, secret);
        }
        observed.session_id = after.session_id;
        observed.tickets = after.tickets;
        observed.records = after.application;
        observed.records.truncate(RECORDS_MAX);
        observed
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct TalkInProgress<'s, S> {
    connection: ClientConnection,
    stream: &'s mut S,
    received: Vec<u8>,
    sent_hello: Vec<u8>,
    observed: Observed,
}

enum StreamInput {
    Bytes,
    End,
}

impl<S: TimeLimited> TalkInProgress<'_, S> {
    fn handshake(&mut self, early: Option<&[u8]>) -> Result<(), ObserveFault> {
        let mut early_sent = false;
        if let Some(bytes) = early
            && let Some(mut writer) = self.connection.early_data()
        {
            early_sent = writer.write(bytes).is_ok_and(|count| count > 0);
        }
        let begun = Instant::now();
        while self.connection.is_handshaking() {
            self.send().map_err(|error| broken(&error))?;
            if !self.connection.is_handshaking() {
                break;
            }
            self.observed.round_trips += 1;
            // All messages of one answer count as one wait.
            while self.connection.is_handshaking() && !self.connection.wants_write() {
                if self.received.len() > HANDSHAKE_BYTES_MAX {
                    let text = "its handshake is longer than 1 MiB";
                    return Err(ObserveFault::Protocol(text.to_owned()));
                }
                match self.receive().map_err(|error| broken(&error))? {
                    StreamInput::End => return Err(ObserveFault::Closed(false)),
                    StreamInput::Bytes => self.process()?,
                }
            }
        }
        self.observed.handshake = begun.elapsed();
        let accepted = self.connection.is_early_data_accepted();
        self.observed.early_data_accepted = early_sent.then_some(accepted);
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            let mut out = Vec::new();
            self.connection.write_tls(&mut out)?;
            if self.sent_hello.is_empty() {
                self.sent_hello.clone_from(&out);
            }
            self.stream.write_all(&out)?;
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<StreamInput> {
        let mut chunk = [0; 16 << 10];
        let count = self.stream.read(&mut chunk)?;
        if count == 0 {
            return Ok(StreamInput::End);
        }
        let chunk = chunk.get(..count).unwrap_or_default();
        self.received.extend_from_slice(chunk);
        let mut rest = chunk;
        while !rest.is_empty() {
            let taken = self.connection.read_tls(&mut rest)?;
            if taken == 0 {
                break;
            }
            // The library holds at most a handshake; its data must be read in between.
            if !rest.is_empty() && self.connection.process_new_packets().is_err() {
                break;
            }
        }
        Ok(StreamInput::Bytes)
    }

    fn process(&mut self) -> Result<(), ObserveFault> {
        let processed = self.connection.process_new_packets();
        processed.map(drop).map_err(|error| {
            // The server gets the reason, if it still reads.
            let _unheard = self.send();
            if let Some(retry_configurations) = ech::retry_configurations(&error) {
                let chain = chain(&self.connection);
                ObserveFault::EchRejected { retry_configurations, chain }
            } else if records::is_tls(&self.received) {
                fault(error)
            } else {
                ObserveFault::NotTls(self.received.clone())
            }
        })
    }

    /// Ends the conversation after the handshake: no error there is a fault of the handshake.
    fn finish(&mut self, conversation: ObservedConversation<'_>) {
        match conversation.request {
            // Refused early data must be sent once more.
            Some(request) if self.observed.early_data_accepted != Some(true) => {
                let _held = self.connection.writer().write_all(request);
            }
            Some(_) => {}
            None => self.connection.send_close_notify(),
        }
        if conversation.request.is_none() {
            self.stream.shorten(conversation.linger);
        }
        self.observed.end = match self.converse_to_end(conversation.linger) {
            Ok(end) => end,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => End::Reset,
            Err(_) => End::Open,
        };
    }

    fn converse_to_end(&mut self, linger: Duration) -> io::Result<End> {
        self.send()?;
        loop {
            let state = match self.connection.process_new_packets() {
                Ok(state) => state,
                Err(Error::AlertReceived(alert)) => {
                    self.observed.alert = Some(u8::from(alert));
                    return Ok(End::Reset);
                }
                Err(error) => return Err(io::Error::other(error.to_string())),
            };
            let closed = state.peer_has_closed();
            let mut plain = vec![0; state.plaintext_bytes_to_read()];
            if !plain.is_empty() {
                self.connection.reader().read_exact(&mut plain)?;
                if self.observed.bytes == 0 {
                    self.stream.shorten(linger);
                }
                self.observed.bytes += plain.len() as u64;
                let room = REPLY_BYTES_MAX.saturating_sub(self.observed.reply.len());
                self.observed.reply.extend(plain.iter().take(room));
            }
            if closed {
                return Ok(End::CloseNotify);
            }
            if self.received.len() > WIRE_BYTES_MAX {
                return Ok(End::Open);
            }
            if matches!(self.receive()?, StreamInput::End) {
                return Ok(End::Truncated);
            }
        }
    }
}

fn chain(connection: &ClientConnection) -> Vec<Vec<u8>> {
    connection.peer_certificates().unwrap_or_default().iter().map(|one| one.to_vec()).collect()
}

fn broken(error: &io::Error) -> ObserveFault {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ObserveFault::Timeout,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => ObserveFault::Closed(true),
        ErrorKind::UnexpectedEof => ObserveFault::Closed(false),
        _ => ObserveFault::Protocol(error.to_string()),
    }
}

fn fault(error: Error) -> ObserveFault {
    match error {
        Error::AlertReceived(alert) => ObserveFault::Alert(u8::from(alert)),
        Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge) => {
            ObserveFault::TooLong { message: 0, bytes: 0 }
        }
        other => ObserveFault::Protocol(other.to_string()),
    }
}

impl KeyLog for CallbackNotes {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        let kept = match label {
            "SERVER_TRAFFIC_SECRET_0" => &self.secret,
            "SERVER_HANDSHAKE_TRAFFIC_SECRET" => &self.handshake_secret,
            _ => return,
        };
        *locked(kept) = Some(secret.to_vec());
    }
}

/// Resolver of our certificate, which notes that it was called.
#[derive(Debug)]
struct NotingResolver {
    inner: Arc<dyn ResolvesClientCert>,
    seen: Arc<CallbackNotes>,
}

impl ResolvesClientCert for NotingResolver {
    fn resolve(&self, hints: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.seen.certificate_asked.store(true, Relaxed);
        self.inner.resolve(hints, schemes)
    }

    fn has_certs(&self) -> bool {
        self.inner.has_certs()
    }
}

#[derive(Clone, Debug)]
pub struct TrustedRoots {
    verifier: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Path {
    /// The chain leads to a root.
    Trusted,
    /// No issuer of the chain's certificates is a root.
    UnknownIssuer,
    /// The chain leads to a root, but a part of it was not valid at that time.
    NotInTime,
    /// The search for a path would cost too much.
    TooLong,
    /// A part of the chain is wrong.
    Broken,
}

impl TrustedRoots {
    /// Reads the roots in PEM text. Unreadable ones are skipped, as some systems have them. `None`
    /// if there is none.
    pub fn read(pem: &[u8]) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
        let certificates: Vec<_> = certificates.collect();
        let (taken, _) = roots.add_parsable_certificates(certificates.iter().cloned());
        if taken == 0 {
            return None;
        }
        let provider = Arc::new(library::default_provider());
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.build().ok().map(|verifier| Self { verifier, certificates })
    }

    /// Returns the roots themselves, in DER.
    pub fn certificates(&self) -> impl Iterator<Item = &[u8]> {
        self.certificates.iter().map(AsRef::as_ref)
    }

    /// Searches a path from the first certificate to a root, at a second of Unix time. The name
    /// does not matter.
    pub fn path(&self, chain: &[Vec<u8>], at_s: u64) -> Path {
        let chain: Vec<_> = chain.iter().map(|one| CertificateDer::from(&**one)).collect();
        let Some((leaf, above)) = chain.split_first() else {
            return Path::Broken;
        };
        // The library accepts no root as a server's own certificate; clients do.
        if self.certificates.contains(leaf) {
            return Path::Trusted;
        }
        let Ok(above) = bounded(leaf, above) else {
            return Path::TooLong;
        };
        // The name is checked last, so that an impossible one shows that the rest is valid.
        let name = ServerName::try_from("name.invalid").expect("it is a host name");
        let at = UnixTime::since_unix_epoch(Duration::from_secs(at_s));
        match self.verifier.verify_server_cert(leaf, &above, &name, &[], at) {
            Ok(_) => Path::Trusted,
            Err(Error::InvalidCertificate(wrong)) => match certificate_failure(&wrong) {
                TransactionFailure::CertificateName => Path::Trusted,
                TransactionFailure::CertificateIssuer => Path::UnknownIssuer,
                TransactionFailure::CertificateTime => Path::NotInTime,
                _ => Path::Broken,
            },
            Err(_) => Path::Broken,
        }
    }
}

/// Returns the SHA-256 of a certificate, in hexadecimal.
pub fn fingerprint(certificate: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, certificate);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the signature algorithms that connections accept.
pub fn signature_algorithms() -> SignatureAlgorithms<'static> {
    library::default_provider().signature_verification_algorithms.all
}

/// Reports whether bytes have this hash.
pub fn is_hash(kind: OcspHash, hash: &[u8], bytes: &[u8]) -> bool {
    let known = match kind {
        OcspHash::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        OcspHash::Sha256 => &digest::SHA256,
        OcspHash::Sha384 => &digest::SHA384,
        OcspHash::Sha512 => &digest::SHA512,
    };
    digest::digest(known, bytes).as_ref() == hash
}
