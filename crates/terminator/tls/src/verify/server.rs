//! Verifies certificates of servers that we connect to: by authorities, by pins, or not at all.

use std::sync::Arc;

use base64ct::{Base64, Encoding};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use webpki::EndEntityCert;

use super::{ChainVerifier, PeerRole, VerifyFault, library_error, names_of};
use crate::context;
use crate::identity::sha256;
use crate::options::{ExpiredLists, PemSource, ServerVerification};

/// Maximum number of names of a certificate in a log line: the server writes them.
const NAMES_SHOWN_MAX: usize = 5;

/// Returns a verifier for handshakes that other code drives; unusable authorities are skipped. It
/// judges like `ca` everywhere.
///
/// # Errors
/// Fails if there is no usable authority, or a file is no PEM.
pub fn server_verifier(
    authorities: &[PemSource],
) -> Result<Arc<dyn ServerCertVerifier>, VerifyFault> {
    let verification = ServerVerification {
        authorities: authorities.to_vec(),
        are_of_host: true,
        crls: Vec::new(),
        expired_lists: ExpiredLists::Refuse,
    };
    Ok(Arc::new(ServerVerifier::new(Some(&verification), &[])?))
}

/// Verifies servers by the options of one service.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    chains: Option<Arc<ChainVerifier>>,
    pins: Vec<[u8; 32]>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerVerifier {
    /// Reads authorities and lists; without a `verification` only the pins count.
    pub(crate) fn new(
        verification: Option<&ServerVerification>,
        pins: &[[u8; 32]],
    ) -> Result<Self, VerifyFault> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        let chains = verification.map(chains_of);
        Ok(Self { chains: chains.transpose()?, pins: pins.to_vec(), algorithms })
    }

    /// Returns the verifier of chains, if chains are verified.
    pub(crate) fn chains(&self) -> Option<&ChainVerifier> {
        self.chains.as_deref()
    }

    fn judge(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), (Error, String)> {
        if let Some(chains) = &self.chains {
            chains.verify(leaf, others, now).map_err(|error| {
                let detail = chains.describe(&error, leaf, others, now);
                (library_error(error), detail)
            })?;
        }
        let read = || EndEntityCert::try_from(leaf);
        let damaged = |error: webpki::Error| (library_error(error.into()), names_of(leaf));
        if self.chains.is_some() {
            let named = read().and_then(|one| one.verify_is_valid_for_subject_name(name));
            named.map_err(|error| {
                let detail = name_detail(&error, name);
                (library_error(error.into()), detail)
            })?;
        }
        if self.pins.is_empty() {
            return Ok(());
        }
        let key = read().map_err(damaged)?.subject_public_key_info();
        let hash = sha256(&key);
        if self.pins.contains(&hash) {
            return Ok(());
        }
        let shown = Base64::encode_string(&hash);
        let detail = format!("its key, sha256//{shown}, is none of `pins`: {}", names_of(leaf));
        Err((CertificateError::ApplicationVerificationFailure.into(), detail))
    }

    /// Reports whether servers need not prove their identity.
    fn accepts_all(&self) -> bool {
        self.chains.is_none() && self.pins.is_empty()
    }
}

fn chains_of(options: &ServerVerification) -> Result<Arc<ChainVerifier>, VerifyFault> {
    let authorities = (&*options.authorities, options.are_of_host);
    ChainVerifier::shared(authorities, &options.crls, options.expired_lists, PeerRole::Server)
}

/// Returns the wanted name, and the certificate's names.
fn name_detail(error: &webpki::Error, name: &ServerName<'_>) -> String {
    let wanted = name.to_str();
    let webpki::Error::CertNotValidForName(context) = error else {
        return format!("{error}: wanted \"{wanted}\"");
    };
    let presented = &context.presented;
    if presented.is_empty() {
        return format!("it has no name (subjectAltName); wanted \"{wanted}\"");
    }
    // The library writes `DnsName("a.example")`.
    let bare = |name: &String| match name.split_once('(') {
        Some((_, name)) => name.trim_end_matches(')').to_owned(),
        None => name.clone(),
    };
    let shown: Vec<_> = presented.iter().take(NAMES_SHOWN_MAX).map(bare).collect();
    let more = if presented.len() > shown.len() { ", …" } else { "" };
    format!("it is for {}{more}; wanted \"{wanted}\"", shown.join(", "))
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _staple: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.judge(leaf, others, name, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err((error, detail)) => {
                context::with(|context| context.refusal = Some(detail));
                Err(error)
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.accepts_all() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.accepts_all() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
