//! Drives the client's half of a handshake to check whether a server can complete one.
//!
//! Drives the library's client for active checks; opens no socket and never waits. If a service
//! uses TLS to its servers, they are verified as for connections
//! ([`crate::client::Client::probe`]). Otherwise the certificate is not verified: a check asks
//! whether the server answers, not who it is, and no byte of any client is ever sent to it.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, Error};
use rustls_pki_types::ServerName;

use crate::context;
use crate::verify::server::ServerVerifier;

/// Maximum bytes that a server may send before its answer: a chain, tickets, and the answer.
const RECEIVED_BYTES_MAX: usize = 1 << 20;

/// A handshake in progress: the caller passes received bytes and sends the output.
#[derive(Debug)]
pub struct Probe {
    connection: ClientConnection,
    received: usize,
    is_ended: bool,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProbeFault {
    /// Our configuration is wrong: the name for SNI is no host name.
    #[error("the server name of the check is no host name")]
    NameInvalid,
    /// The server closed before the handshake was over.
    #[error("closed during the TLS handshake")]
    Closed,
    /// The server ended its stream and continued to send.
    #[error("sent bytes behind its close_notify")]
    Ended,
    /// The server sent too much without an answer.
    #[error("sent {} KiB without an answer among them", RECEIVED_BYTES_MAX >> 10)]
    TooMuch,
    /// The server sent an alert or bytes that are not TLS, or shares no parameters with us.
    #[error("no TLS handshake: {0}")]
    Refused(String),
}

impl Probe {
    /// Starts a handshake with all versions, suites and groups, with that name in SNI, or none.
    ///
    /// # Errors
    /// Fails with [`ProbeFault::NameInvalid`].
    pub fn new(name: Option<&str>) -> Result<Self, ProbeFault> {
        let server = match name {
            Some(name) => ServerName::try_from(name.to_owned()),
            // The library requires a name; an address is never sent.
            None => Ok(ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into())),
        };
        let server = server.map_err(|_| ProbeFault::NameInvalid)?;
        Self::by(configuration()?, server)
    }

    /// Starts a handshake with this configuration.
    pub(crate) fn by(config: ClientConfig, name: ServerName<'static>) -> Result<Self, ProbeFault> {
        let connection = ClientConnection::new(Arc::new(config), name);
        Ok(Self { connection: connection.map_err(refused)?, received: 0, is_ended: false })
    }

    /// Queues data to send after the handshake.
    pub fn send(&mut self, data: &[u8]) {
        // Writing into memory cannot fail, and no request of ours exceeds its limit.
        let _ = self.connection.writer().write_all(data);
    }

    /// Takes bytes received after the handshake; appends their data, and data that arrived together
    /// with the handshake.
    ///
    /// # Errors
    /// Fails like [`Self::input`].
    pub fn data(&mut self, mut bytes: &[u8], data: &mut Vec<u8>) -> Result<(), ProbeFault> {
        loop {
            // Ends where no more data is available.
            let _ = self.connection.reader().read_to_end(data);
            if bytes.is_empty() {
                return Ok(());
            }
            self.read(&mut bytes)?;
        }
    }

    /// Records that the answer has arrived: the server may send as much again.
    pub fn answered(&mut self) {
        self.received = 0;
    }

    /// Returns the bytes that must be sent now; often none.
    pub fn output(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.connection.wants_write() {
            // Writing into memory cannot fail.
            if self.connection.write_tls(&mut bytes).is_err() {
                break;
            }
        }
        bytes
    }

    /// Takes received bytes, which may be more than the handshake: a server that speaks first sends
    /// as soon as it can. Empty input means that the server has closed.
    ///
    /// # Errors
    /// Fails with [`ProbeFault::Closed`] and [`ProbeFault::Refused`]. An alert may have to be sent
    /// ([`Self::output`]).
    pub fn input(&mut self, mut bytes: &[u8]) -> Result<(), ProbeFault> {
        if bytes.is_empty() {
            return Err(ProbeFault::Closed);
        }
        while !bytes.is_empty() {
            self.read(&mut bytes)?;
        }
        Ok(())
    }

    /// Takes some of the bytes. After a close_notify the library takes none.
    fn read(&mut self, bytes: &mut &[u8]) -> Result<(), ProbeFault> {
        let fault = |error: std::io::Error| ProbeFault::Refused(error.to_string());
        let count = self.connection.read_tls(bytes).map_err(fault)?;
        if count == 0 {
            return Err(ProbeFault::Ended);
        }
        self.received += count;
        if self.received > RECEIVED_BYTES_MAX {
            return Err(ProbeFault::TooMuch);
        }
        let state = self.connection.process_new_packets().map_err(refused)?;
        self.is_ended |= state.peer_has_closed();
        Ok(())
    }

    /// Reports whether the server has sent close_notify: no data follows.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Reports whether the handshake is over; its last bytes may still have to be sent.
    pub fn is_done(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// Ends the connection; returns the bytes still to be sent, with close_notify.
    pub fn close(mut self) -> Vec<u8> {
        self.connection.send_close_notify();
        self.output()
    }
}

fn configuration() -> Result<ClientConfig, ProbeFault> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let unjudged = ServerVerifier::new(None, &[]).expect("without authorities no file is read");
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(unjudged))
        .with_no_client_auth();
    // Each check must show that a full handshake works.
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn refused(error: Error) -> ProbeFault {
    let judged = context::with(|context| context.refusal.take());
    ProbeFault::Refused(judged.unwrap_or_else(|| error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion, version};
    use rustls_pki_types::pem::PemObject;
    use rustls_pki_types::{CertificateDer, PrivateKeyDer};
    use testkit::authority::Authority;

    /// Creates a server with an untrusted, expired certificate for another name.
    fn server(versions: &[&'static SupportedProtocolVersion]) -> ServerConnection {
        let leaf = Authority::root("nobody").leaf(&["other.example"]).expired().issue();
        let chain = vec![CertificateDer::from(leaf.certificate_der().to_vec())];
        let key = PrivateKeyDer::from_pem_slice(leaf.key_pem().as_bytes()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        ServerConnection::new(Arc::new(config)).unwrap()
    }

    /// Carries bytes, `step` at a time, until the probe is done.
    fn converse(probe: &mut Probe, server: &mut ServerConnection, step: usize) {
        while !probe.is_done() {
            deliver(&probe.output(), server);
            let mut answer = Vec::new();
            server.write_tls(&mut answer).unwrap();
            for part in answer.chunks(step) {
                probe.input(part).unwrap();
            }
        }
    }

    fn deliver(mut bytes: &[u8], server: &mut ServerConnection) {
        while !bytes.is_empty() {
            server.read_tls(&mut bytes).unwrap();
            server.process_new_packets().unwrap();
        }
    }

    /// Returns both ends after their handshake.
    fn connected() -> (Probe, ServerConnection) {
        let mut server = server(&[&version::TLS13]);
        let mut probe = Probe::new(None).unwrap();
        converse(&mut probe, &mut server, 20_000);
        deliver(&probe.output(), &mut server);
        (probe, server)
    }

    /// Returns these bytes and all other pending output of the server, encrypted.
    fn said(server: &mut ServerConnection, plain: &[u8]) -> Vec<u8> {
        server.writer().write_all(plain).unwrap();
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    #[test]
    fn bytes_behind_the_servers_end_are_its_fault() {
        let (mut probe, mut server) = connected();
        let mut data = Vec::new();
        probe.data(&said(&mut server, b"answer"), &mut data).unwrap();
        server.send_close_notify();
        probe.data(&said(&mut server, b""), &mut data).unwrap();
        assert_eq!(data, b"answer");
        assert_eq!(probe.data(b"x", &mut data), Err(ProbeFault::Ended));
    }

    #[test]
    fn a_server_that_does_not_come_to_the_point_is_given_up() {
        let (mut probe, mut server) = connected();
        let mut outcome = Ok(());
        for _ in 0..RECEIVED_BYTES_MAX / 10_000 + 1 {
            let bytes = said(&mut server, &[0; 10_000]);
            outcome = outcome.and_then(|()| probe.data(&bytes, &mut Vec::new()));
        }
        assert_eq!(outcome, Err(ProbeFault::TooMuch));
    }

    #[test]
    fn a_handshake_is_made_by_either_version_however_the_bytes_are_cut() {
        for versions in [&[&version::TLS12], &[&version::TLS13]] {
            for step in [1, 7, 20_000] {
                let mut server = server(versions);
                let mut probe = Probe::new(Some("app.example")).unwrap();
                converse(&mut probe, &mut server, step);
                deliver(&probe.close(), &mut server);
                assert!(!server.is_handshaking());
                assert_eq!(server.server_name(), Some("app.example"));
                let mut rest = [0; 8];
                // A clean end, which only a close_notify makes.
                assert_eq!(server.reader().read(&mut rest).unwrap(), 0);
            }
        }
    }

    #[test]
    fn data_that_comes_along_with_the_end_of_the_handshake_is_kept() {
        let greeting = [b'2'; 12_000];
        let mut server = server(&[&version::TLS12]);
        let mut probe = Probe::new(None).unwrap();
        server.writer().write_all(&greeting).unwrap();
        converse(&mut probe, &mut server, 20_000);
        let mut data = Vec::new();
        probe.data(&[], &mut data).unwrap();
        assert_eq!(data, greeting);
    }

    #[test]
    fn no_name_is_sent_if_there_is_none() {
        let mut server = server(&[&version::TLS13]);
        let mut probe = Probe::new(None).unwrap();
        converse(&mut probe, &mut server, 20_000);
        assert_eq!(server.server_name(), None);
    }

    #[test]
    fn each_way_to_fail_has_its_fault() {
        let fault = |bytes: &[u8]| {
            let mut probe = Probe::new(None).unwrap();
            probe.output();
            probe.input(bytes).unwrap_err()
        };
        assert_eq!(fault(b""), ProbeFault::Closed);
        assert!(matches!(fault(b"HTTP/1.1 400 Bad Request\r\n\r\n"), ProbeFault::Refused(_)));
        let alert = fault(&[21, 3, 3, 0, 2, 2, 40]).to_string();
        assert!(alert.contains("HandshakeFailure"), "{alert}");
        assert_eq!(Probe::new(Some("no name")).err(), Some(ProbeFault::NameInvalid));
    }
}
