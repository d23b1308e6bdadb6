//! How the server's certificate is judged, and what is kept of what it presented.

use std::mem;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, PeerMisbehaved, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use wire::certificate_chain;

/// The chain that a server presented last to a thread, whose connections take turns.
#[derive(Debug, Default)]
pub(crate) struct Presented {
    scheme: AtomicU16,
    /// `None` = staples are not kept.
    staple: Option<Mutex<Vec<u8>>>,
}

impl Presented {
    /// One that keeps staples as well.
    pub(crate) fn with_staple() -> Self {
        Self { staple: Some(Mutex::default()), ..Self::default() }
    }

    /// The scheme since the last call, if there was a signature.
    #[inline]
    pub(crate) fn take_scheme(&self) -> Option<SignatureScheme> {
        match self.scheme.swap(0, Relaxed) {
            0 => None,
            number => Some(SignatureScheme::from(number)),
        }
    }

    /// The stapled OCSP response since the last call; empty if there was none.
    pub(crate) fn take_staple(&self) -> Vec<u8> {
        self.staple_slot().map_or_else(Vec::new, |mut slot| mem::take(&mut *slot))
    }

    fn staple_slot(&self) -> Option<MutexGuard<'_, Vec<u8>>> {
        Some(self.staple.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Debug)]
pub(crate) enum ChainCheck {
    Off,
    /// That the certificate is one of these, byte by byte.
    These(Vec<CertificateDer<'static>>),
    /// That the server has the key of its certificate.
    Signature,
    /// That, and the chain, the name and the time.
    Chain(Arc<WebPkiServerVerifier>),
}

/// The part of a server's chain that the library may look at: the search for a path costs it
/// seconds, if the server has made it so.
///
/// # Errors
/// There is too much of it.
pub(crate) fn bounded<'c>(
    leaf: &CertificateDer<'_>,
    others: &'c [CertificateDer<'_>],
) -> Result<Vec<CertificateDer<'c>>, Error> {
    let others: Vec<&[u8]> = others.iter().map(AsRef::as_ref).collect();
    let found = certificate_chain::intermediates(leaf, &others);
    let found = found.map_err(|fault| CertificateError::Other(OtherError(Arc::new(fault))))?;
    Ok(found.into_iter().map(CertificateDer::from).collect())
}

/// Judges by the plan, and offers the schemes of the plan.
#[derive(Debug)]
pub(crate) struct PlanVerifier {
    pub(crate) check: ChainCheck,
    pub(crate) offered: Vec<SignatureScheme>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
    pub(crate) presented: Arc<Presented>,
}

impl PlanVerifier {
    /// The server signed by this scheme, which must be one that was offered (RFC 8446, section
    /// 4.4.3).
    fn judge(
        &self,
        scheme: SignatureScheme,
        verify: impl FnOnce() -> Result<HandshakeSignatureValid, Error>,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.presented.scheme.store(u16::from(scheme), Relaxed);
        if !self.offered.contains(&scheme) {
            return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
        }
        match self.check {
            ChainCheck::Off | ChainCheck::These(_) => Ok(HandshakeSignatureValid::assertion()),
            ChainCheck::Signature | ChainCheck::Chain(_) => verify(),
        }
    }
}

impl ServerCertVerifier for PlanVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(mut slot) = self.presented.staple_slot() {
            *slot = ocsp.to_vec();
        }
        match &self.check {
            ChainCheck::Off | ChainCheck::Signature => Ok(ServerCertVerified::assertion()),
            ChainCheck::These(known) if known.contains(leaf) => Ok(ServerCertVerified::assertion()),
            ChainCheck::These(_) => Err(CertificateError::ApplicationVerificationFailure.into()),
            ChainCheck::Chain(chain) => {
                let intermediates = bounded(leaf, intermediates)?;
                chain.verify_server_cert(leaf, &intermediates, name, ocsp, now)
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verify = || verify_tls12_signature(message, leaf, signed, &self.algorithms);
        self.judge(signed.scheme, verify)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verify = || verify_tls13_signature(message, leaf, signed, &self.algorithms);
        self.judge(signed.scheme, verify)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.offered.clone()
    }
}
