//! How the server's certificate is judged, and which scheme it signed with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// The scheme of the last signature that a thread saw. Its connections take turns.
#[derive(Debug, Default)]
pub(crate) struct LastSignature(AtomicU16);

impl LastSignature {
    /// The scheme since the last call, if there was a signature.
    #[inline]
    pub(crate) fn take(&self) -> Option<SignatureScheme> {
        match self.0.swap(0, Relaxed) {
            0 => None,
            number => Some(SignatureScheme::from(number)),
        }
    }

    fn note(&self, scheme: SignatureScheme) {
        self.0.store(u16::from(scheme), Relaxed);
    }
}

/// What is checked.
#[derive(Debug)]
pub(crate) enum Check {
    /// Nothing.
    Off,
    /// That the certificate is one of these, byte by byte.
    These(Vec<CertificateDer<'static>>),
    /// That the server has the key of its certificate.
    Signature,
    /// That, and the chain, the name and the time.
    Chain(Arc<WebPkiServerVerifier>),
}

/// Judges by the plan, and offers the schemes of the plan.
#[derive(Debug)]
pub(crate) struct Verifier {
    pub(crate) check: Check,
    pub(crate) offered: Vec<SignatureScheme>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
    pub(crate) last: Arc<LastSignature>,
}

impl Verifier {
    /// The server signed by this scheme, which must be one that was offered (RFC 8446, section
    /// 4.4.3).
    fn take(&self, scheme: SignatureScheme) -> Result<(), Error> {
        self.last.note(scheme);
        if self.offered.contains(&scheme) {
            Ok(())
        } else {
            Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.check {
            Check::Off | Check::Signature => Ok(ServerCertVerified::assertion()),
            Check::These(known) if known.contains(leaf) => Ok(ServerCertVerified::assertion()),
            Check::These(_) => Err(CertificateError::ApplicationVerificationFailure.into()),
            Check::Chain(chain) => chain.verify_server_cert(leaf, intermediates, name, ocsp, now),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.take(signed.scheme)?;
        match self.check {
            Check::Off | Check::These(_) => Ok(HandshakeSignatureValid::assertion()),
            _ => verify_tls12_signature(message, leaf, signed, &self.algorithms),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.take(signed.scheme)?;
        match self.check {
            Check::Off | Check::These(_) => Ok(HandshakeSignatureValid::assertion()),
            _ => verify_tls13_signature(message, leaf, signed, &self.algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.offered.clone()
    }
}
