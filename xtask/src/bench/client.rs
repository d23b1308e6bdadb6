//! The load: a closed loop over a fixed number of connections, one thread, that counts exactly.
//!
//! A connection begins its next operation when its last one is done. Certificates are checked
//! once a server, by [`check_server`]; under load they are not, so that the client stays lighter
//! than what it measures. Everything else of TLS is real: each reply is decrypted and counted.

use std::io::{self, BufRead, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, Tls12Resumption};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, NamedGroup,
    RootCertStore, SignatureScheme, SupportedCipherSuite,
};

use super::arguments::{Group, Options, Suite};
use super::work::{Ending, Exchange, Handshakes, STALL_MAX, Version, Work, body_byte, reply_head};

/// Below this a read has emptied the socket, most likely: the next one waits for an event.
const READ_AGAIN_BYTES: usize = 4096;

/// The longest that a checked server may be silent: it may take connections before it has loaded
/// its certificates.
const CHECK_MAX: Duration = Duration::from_secs(120);

/// What the client offers, but for version and resumption, which the work tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    suite: Option<Suite>,
    group: Group,
}

impl Offer {
    /// As the command line says.
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            suite: options.suite,
            group: options.group,
        }
    }

    fn provider(self, version: Version) -> CryptoProvider {
        CryptoProvider {
            cipher_suites: self.suites(),
            kx_groups: self.groups(version),
            ..aws_lc_rs::default_provider()
        }
    }

    /// One group in TLS 1.3. In TLS 1.2 the list also says which curves of certificates are
    /// understood (RFC 8422, section 5.1), and there is no hybrid.
    fn groups(self, version: Version) -> Vec<&'static dyn SupportedKxGroup> {
        use aws_lc_rs::kx_group::{SECP256R1, X25519, X25519MLKEM768};
        match (version, self.group) {
            (Version::Tls13, Group::X25519) => vec![X25519],
            (Version::Tls13, Group::Secp256r1) => vec![SECP256R1],
            (Version::Tls13, Group::X25519MlKem768) => vec![X25519MLKEM768],
            (Version::Tls12, Group::Secp256r1) => vec![SECP256R1],
            (Version::Tls12, Group::X25519 | Group::X25519MlKem768) => vec![X25519, SECP256R1],
        }
    }

    /// In the order of today's browsers: AES-128 first.
    fn suites(self) -> Vec<SupportedCipherSuite> {
        use aws_lc_rs::cipher_suite as suite;
        let aes_128 = [
            suite::TLS13_AES_128_GCM_SHA256,
            suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ];
        let aes_256 = [
            suite::TLS13_AES_256_GCM_SHA384,
            suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        ];
        let chacha20 = [
            suite::TLS13_CHACHA20_POLY1305_SHA256,
            suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        ];
        match self.suite {
            Some(Suite::Aes128) => aes_128.to_vec(),
            Some(Suite::Aes256) => aes_256.to_vec(),
            Some(Suite::ChaCha20) => chacha20.to_vec(),
            None => [aes_128, aes_256, chacha20].concat(),
        }
    }

    fn configuration(
        self,
        version: Version,
        verifier: Arc<dyn ServerCertVerifier>,
    ) -> Result<ClientConfig> {
        let versions = match version {
            Version::Tls12 => &[&rustls::version::TLS12],
            Version::Tls13 => &[&rustls::version::TLS13],
        };
        Ok(
            ClientConfig::builder_with_provider(Arc::new(self.provider(version)))
                .with_protocol_versions(versions)?
                .dangerous()
                .with_custom_certificate_verifier(verifier)
                .with_no_client_auth(),
        )
    }

    fn load_configuration(self, work: Work) -> Result<Arc<ClientConfig>> {
        let mut configuration = self.configuration(work.version, Arc::new(NoVerifier))?;
        configuration.resumption = match work.handshakes {
            Handshakes::Full => Resumption::disabled(),
            Handshakes::SessionId => {
                Resumption::in_memory_sessions(8).tls12_resumption(Tls12Resumption::SessionIdOnly)
            }
            Handshakes::Ticket => Resumption::in_memory_sessions(8),
        };
        Ok(Arc::new(configuration))
    }
}

/// What was counted in a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Finished operations.
    pub(crate) operations: u64,
    /// Handshakes that were full, with or without a second hello.
    pub(crate) full: u64,
    /// Of these, those that took a HelloRetryRequest.
    pub(crate) retried: u64,
    /// Handshakes that resumed a session.
    pub(crate) resumed: u64,
    /// Connections that the server closed with close_notify and FIN.
    pub(crate) ended_by_notify: u64,
    /// Connections that the server closed with FIN alone.
    pub(crate) ended_by_fin: u64,
    /// Connections that the server reset instead of closing.
    pub(crate) ended_by_reset: u64,
    /// The suite of the last handshake, in this run or an earlier one.
    pub(crate) suite: Option<CipherSuite>,
    /// The group of the last handshake; none if that exchanged no keys.
    pub(crate) group: Option<NamedGroup>,
}

/// Connections to one server, and the work they do.
pub(crate) struct Client {
    target: SocketAddr,
    name: ServerName<'static>,
    work: Work,
    reply_bytes: usize,
    epoll: rustix::fd::OwnedFd,
    slots: Vec<Slot>,
    tally: Tally,
}

/// One place for a connection. Each has its own session store: the session that one connection
/// brings is what the next one in this place offers.
struct Slot {
    configuration: Arc<ClientConfig>,
    session: Option<Session>,
}

struct Session {
    stream: TcpStream,
    tls: ClientConnection,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Handshake,
    Reply { bytes_left: usize },
    Idle,
    Closing,
}

/// What became of a connection after an event.
enum Progress {
    Waiting,
    Finished,
}

impl Client {
    /// A client that will hold `connections` connections; it opens none yet.
    pub(crate) fn new(
        target: SocketAddr,
        name: &str,
        offer: Offer,
        work: Work,
        connections: usize,
    ) -> Result<Self> {
        let slots = (0..connections)
            .map(|_| {
                Ok(Slot {
                    configuration: offer.load_configuration(work)?,
                    session: None,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            target,
            name: ServerName::try_from(name.to_owned())?,
            work,
            reply_bytes: reply_head(0).len() + work.exchange.body_bytes(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            slots,
            tally: Tally::default(),
        })
    }

    /// Finishes exactly so many operations; the first ones begin one in each slot.
    ///
    /// # Errors
    /// One operation failed, or nothing happened for [`STALL_MAX`].
    pub(crate) fn run(&mut self, operations: u64) -> Result<Tally> {
        let (suite, group) = (self.tally.suite, self.tally.group);
        self.tally = Tally {
            suite,
            group,
            ..Tally::default()
        };
        let mut to_begin = operations;
        for index in 0..self.slots.len().min(usize::try_from(operations)?) {
            self.begin(index)?;
            to_begin -= 1;
        }
        let mut finished = Vec::new();
        while self.tally.operations < operations {
            self.wait(&mut finished)?;
            for index in finished.drain(..) {
                if to_begin > 0 {
                    to_begin -= 1;
                    self.begin(index)?;
                }
            }
        }
        Ok(self.tally.clone())
    }

    /// Handles one batch of events; leaves the slots whose operation is done in `finished`.
    fn wait(&mut self, finished: &mut Vec<usize>) -> Result<()> {
        let mut events = Vec::with_capacity(64);
        let timeout = Timespec::try_from(STALL_MAX)?;
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
            Ok(0) => bail!(
                "nothing happened for {STALL_MAX:?}; so far: {:?}",
                self.tally
            ),
            Err(rustix::io::Errno::INTR) => return Ok(()),
            other => other?,
        };
        for event in events {
            let index = usize::try_from(event.data.u64())?;
            let slot = &mut self.slots[index];
            let session = slot
                .session
                .as_mut()
                .context("an event for a closed connection")?;
            let stage = session.stage;
            let progress = session
                .advance(self.work, self.reply_bytes, &mut self.tally)
                .with_context(|| format!("in {stage:?}; so far: {:?}", self.tally))?;
            if matches!(progress, Progress::Finished) {
                if !self.work.exchange.keeps_connection() {
                    slot.session = None;
                }
                self.tally.operations += 1;
                finished.push(index);
            }
        }
        Ok(())
    }

    fn begin(&mut self, index: usize) -> Result<()> {
        let slot = &mut self.slots[index];
        if let Some(session) = &mut slot.session {
            return session.ask(self.work.exchange, self.reply_bytes);
        }
        let stream = TcpStream::connect(self.target)
            .with_context(|| format!("cannot connect to {}", self.target))?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
        let tls = ClientConnection::new(Arc::clone(&slot.configuration), self.name.clone())?;
        let mut session = Session {
            stream,
            tls,
            stage: Stage::Handshake,
        };
        session.flush()?;
        slot.session = Some(session);
        Ok(())
    }
}

impl Session {
    /// Reads what has come and takes every step that it allows.
    fn advance(&mut self, work: Work, reply_bytes: usize, tally: &mut Tally) -> Result<Progress> {
        loop {
            let count = match self.tls.read_tls(&mut self.stream) {
                Ok(0) => return self.end_of_stream(tally),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if self.stage == Stage::Closing && is_reset(&error) => {
                    tally.ended_by_reset += 1;
                    return Ok(Progress::Finished);
                }
                Err(error) => return Err(error.into()),
            };
            self.tls.process_new_packets()?;
            self.flush()?;
            let plain_bytes = self.discard_plaintext()?;
            if let Progress::Finished = self.step(work, reply_bytes, plain_bytes, tally)? {
                return Ok(Progress::Finished);
            }
            if count < READ_AGAIN_BYTES {
                break;
            }
        }
        Ok(Progress::Waiting)
    }

    fn step(
        &mut self,
        work: Work,
        reply_bytes: usize,
        plain_bytes: usize,
        tally: &mut Tally,
    ) -> Result<Progress> {
        match self.stage {
            Stage::Handshake if self.tls.is_handshaking() => Ok(Progress::Waiting),
            Stage::Handshake => {
                ensure!(plain_bytes == 0, "the server spoke before it was asked");
                self.count_handshake(tally)?;
                match work.exchange {
                    Exchange::Nothing => self.end(work.ending),
                    _ => self
                        .ask(work.exchange, reply_bytes)
                        .map(|()| Progress::Waiting),
                }
            }
            Stage::Reply { bytes_left } => {
                let bytes_left = bytes_left
                    .checked_sub(plain_bytes)
                    .context("the reply is too long")?;
                self.stage = Stage::Reply { bytes_left };
                match bytes_left {
                    1.. => Ok(Progress::Waiting),
                    0 if work.exchange.keeps_connection() => {
                        self.stage = Stage::Idle;
                        Ok(Progress::Finished)
                    }
                    0 => self.end(work.ending),
                }
            }
            Stage::Idle | Stage::Closing => {
                ensure!(plain_bytes == 0, "data after the reply");
                Ok(Progress::Waiting)
            }
        }
    }

    fn ask(&mut self, exchange: Exchange, reply_bytes: usize) -> Result<()> {
        self.tls.writer().write_all(exchange.request())?;
        self.flush()?;
        self.stage = Stage::Reply {
            bytes_left: reply_bytes,
        };
        Ok(())
    }

    fn end(&mut self, ending: Ending) -> Result<Progress> {
        match ending {
            Ending::Close => {
                self.tls.send_close_notify();
                self.flush()?;
                self.stream.shutdown(Shutdown::Write)?;
                self.stage = Stage::Closing;
                Ok(Progress::Waiting)
            }
            Ending::Reset => {
                rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO))?;
                Ok(Progress::Finished)
            }
        }
    }

    fn end_of_stream(&mut self, tally: &mut Tally) -> Result<Progress> {
        ensure!(
            self.stage == Stage::Closing,
            "the server closed the connection"
        );
        match self.tls.process_new_packets()?.peer_has_closed() {
            true => tally.ended_by_notify += 1,
            false => tally.ended_by_fin += 1,
        }
        Ok(Progress::Finished)
    }

    /// The client never has more than a few KiB under way: a full socket is a mistake of ours.
    fn flush(&mut self) -> Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.stream)?;
        }
        Ok(())
    }

    fn discard_plaintext(&mut self) -> Result<usize> {
        let mut total = 0;
        loop {
            let mut reader = self.tls.reader();
            let count = match reader.fill_buf() {
                Ok(chunk) => chunk.len(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error.into()),
            };
            if count == 0 {
                return Ok(total);
            }
            reader.consume(count);
            total += count;
        }
    }

    fn count_handshake(&self, tally: &mut Tally) -> Result<()> {
        match self
            .tls
            .handshake_kind()
            .context("a handshake without a kind")?
        {
            HandshakeKind::Full => tally.full += 1,
            HandshakeKind::FullWithHelloRetryRequest => {
                tally.full += 1;
                tally.retried += 1;
            }
            HandshakeKind::Resumed => tally.resumed += 1,
        }
        tally.suite = self
            .tls
            .negotiated_cipher_suite()
            .map(|suite| suite.suite());
        let group = self.tls.negotiated_key_exchange_group();
        tally.group = group.map(|group| group.name());
        Ok(())
    }
}

fn is_reset(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}

/// One connection that is checked in full: chain, name, signatures, and each byte of the reply.
///
/// # Errors
/// Any of these is not as it should be, or the server cannot be reached.
pub(crate) fn check_server(
    target: SocketAddr,
    name: &str,
    roots: RootCertStore,
    offer: Offer,
    work: Work,
) -> Result<()> {
    let provider = Arc::new(offer.provider(work.version));
    let verifier =
        rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()?;
    let configuration = offer.configuration(work.version, verifier)?;
    let mut tls = ClientConnection::new(
        Arc::new(configuration),
        ServerName::try_from(name.to_owned())?,
    )?;
    let mut stream = TcpStream::connect(target)?;
    stream.set_read_timeout(Some(CHECK_MAX))?;
    stream.set_nodelay(true)?;
    let mut link = rustls::Stream::new(&mut tls, &mut stream);
    link.write_all(work.exchange.request())?;
    link.flush()?;
    match work.exchange {
        Exchange::Nothing => {}
        _ => check_reply(&mut link, work.exchange.body_bytes())?,
    }
    tls.send_close_notify();
    tls.write_tls(&mut stream)?;
    Ok(())
}

fn check_reply(link: &mut impl Read, body_bytes: usize) -> Result<()> {
    let expected = reply_head(body_bytes);
    let mut head = vec![0; expected.len()];
    link.read_exact(&mut head)?;
    ensure!(head == expected.as_bytes(), "not the backend's reply");
    let mut buffer = vec![0; 64 << 10];
    let mut offset = 0;
    while offset < body_bytes {
        let room = buffer.len().min(body_bytes - offset);
        let count = link.read(&mut buffer[..room])?;
        ensure!(count > 0, "the reply ends after {offset} bytes");
        for (byte, place) in buffer[..count].iter().zip(offset..) {
            ensure!(
                *byte == body_byte(place),
                "byte {place} of the reply is wrong"
            );
        }
        offset += count;
    }
    Ok(())
}

/// Believes everything; see the file's head.
#[derive(Debug)]
struct NoVerifier;

impl ServerCertVerifier for NoVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
