//! Verifies certificates of clients and of servers: trusted authorities, revocation, the clients
//! that are allowed, and the reason for a refusal.
//!
//! Revocation (RFC 5280 section 6.3) is checked for the whole chain as soon as the service has any
//! list. For the peer's own certificate it fails closed: a certificate whose issuer has no list is
//! refused. A certificate between it and the authority is refused if it is on a list, and accepted
//! if its issuer has none: lists of roots are rare, and an operator who has only the issuing CA's
//! would lock out everybody. The lists' validity is judged at the time of each handshake, and of
//! each resumption.
//!
//! Before the library looks for a path, [`wire::certificate_chain`] ensures that this is cheap: the
//! library would spend seconds on a chain that a hostile peer makes up.

mod authorities;
mod fault;
mod revocation;
pub mod server;

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertRevocationListError, CertificateError, DigitallySignedStruct, DistinguishedName,
    OtherError, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{
    EndEntityCert, ExpirationPolicy, KeyUsage, RevocationCheckDepth, RevocationOptionsBuilder,
    UnknownStatusPolicy, VerifiedPath,
};
use wire::certificate_chain::{self, ChainFault};
use x509_parser::prelude::{FromDer, X509Certificate};

pub(crate) use authorities::PeerRole;
use authorities::{Authorities, NameConstraints};
use fault::EMPTY_CERTIFICATE;
pub(crate) use fault::{
    ChainRefusal, is_chain_fault, is_empty_certificate, refusal_of, signature_fault,
};
pub use fault::{FileFault, TrustConcern, VerifyConcern, VerifyFault};

use crate::context;
use crate::identity::{AllowedIdentity, with_identities};
use crate::kept::{FileCache, name_of};
use crate::options::{ClientMode, ClientVerification, ExpiredLists, PemSource};
use crate::validity::{Clock, ExpirySummary, Moment, seconds};
use fault::{fault_in, read_revocation_lists};
use revocation::{ListSignatures, RevocationList, RevocationLists};

/// Maximum number of bytes of authorities' names in a request for a certificate. The list has a
/// length of 16 bits (RFC 8446 section 4.2.4), and clients take no message much longer.
pub const NAMES_BYTES_MAX: usize = 60_000;

/// Maximum number of characters of a distinguished name in a log line: the client writes it.
const NAME_CHARS_MAX: usize = 120;

/// The verifier for a service's options; `None` = clients are not asked for certificates.
pub(crate) type Verifier = Option<Arc<ClientVerifier>>;

/// Verifies clients' chains by the options of one service.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    chains: Arc<ChainVerifier>,
    hints: Vec<DistinguishedName>,
    unsent_names_bytes: Option<usize>,
    is_mandatory: bool,
    /// Identities that are allowed; empty = every client whose chain verifies.
    allowed: Vec<AllowedIdentity>,
}

/// Verifier of chains: a chain must lead to an authority, and contain no revoked certificate.
#[derive(Debug)]
pub(crate) struct ChainVerifier {
    authorities: Authorities,
    lists: RevocationLists,
    list_signatures: ListSignatures,
    algorithms: WebPkiSupportedAlgorithms,
    peer: PeerRole,
}

/// The verifiers of all plans of this process.
static KEPT: FileCache<ChainVerifier> = FileCache::new();

/// Builds the verifier. Fails with the reason if the options cannot be used.
pub(crate) fn verifier(options: &ClientVerification) -> Result<Verifier, VerifyFault> {
    if options.mode == ClientMode::None {
        return Ok(None);
    }
    let chains = ChainVerifier::shared(
        (&options.authorities, false),
        &options.crls,
        options.expired_lists,
        PeerRole::Client,
    )?;
    let mut hints = chains.authorities.hints();
    // A name has its length before it.
    let names_bytes = hints.iter().map(|name| name.as_ref().len() + 2).sum();
    let is_too_much = names_bytes > NAMES_BYTES_MAX && !options.omits_names;
    if is_too_much || options.omits_names {
        hints.clear();
    }
    Ok(Some(Arc::new(ClientVerifier {
        hints,
        unsent_names_bytes: is_too_much.then_some(names_bytes),
        chains,
        is_mandatory: options.mode == ClientMode::Required,
        allowed: options.allow.clone(),
    })))
}

fn read_lists(sources: &[PemSource]) -> Result<Vec<RevocationList>, VerifyFault> {
    let mut lists = Vec::new();
    for source in sources {
        let read = read_revocation_lists(source)?;
        for (number, der) in (1..).zip(&read) {
            let list = RevocationList::read(source, number, der);
            lists.push(list.map_err(|fault| fault_in(source, fault))?);
        }
    }
    Ok(lists)
}

/// Returns the present concerns about servers' authorities that no service uses.
pub fn concerns_of(authorities: &[PemSource]) -> Vec<VerifyConcern> {
    let now = seconds(Clock::default().now());
    let read = Authorities::read(authorities, false, PeerRole::Server).unwrap_or_default();
    read.concerns(Moment { since: None, now }).collect()
}

/// Returns the faults of files of authorities and of revocation lists, one for each faulty file.
pub fn examine(authorities: &[PemSource], lists: &[PemSource]) -> Vec<VerifyFault> {
    let each = |source| std::slice::from_ref(source);
    let authorities =
        authorities.iter().map(|one| Authorities::read(each(one), false, PeerRole::Client).err());
    let lists = lists.iter().map(|one| read_lists(each(one)).err());
    authorities.chain(lists).flatten().collect()
}

/// Verification of chains without a handshake around it, for benchmarks and tests of chains that
/// hostile peers may send.
#[derive(Debug)]
pub struct BareVerifier(ChainVerifier);

impl BareVerifier {
    /// Builds a verifier with these authorities and lists, for clients' chains or for servers'.
    ///
    /// # Errors
    /// Fails if the files cannot be used.
    pub fn new(
        authorities: &[PemSource],
        lists: &[PemSource],
        is_of_clients: bool,
    ) -> Result<Self, VerifyFault> {
        let peer = if is_of_clients { PeerRole::Client } else { PeerRole::Server };
        let authorities = Authorities::read(authorities, false, peer)?;
        ChainVerifier::new(authorities, lists, ExpiredLists::Refuse, peer).map(Self)
    }

    /// Verifies a chain (DER, the peer's own certificate first) at a second of Unix time.
    ///
    /// # Errors
    /// Fails with the reason of the refusal, as it is logged.
    pub fn verify(&self, chain: &[Vec<u8>], now: u64) -> Result<(), String> {
        let chain: Vec<_> = chain.iter().map(|one| CertificateDer::from(&**one)).collect();
        let (leaf, others) = chain.split_first().ok_or("no certificate")?;
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
        let verified = self.0.verify(leaf, others, now);
        verified.map_err(|refusal| self.0.describe(&refusal, leaf, others, now))
    }
}

impl ClientVerifier {
    pub(crate) fn chains(&self) -> &ChainVerifier {
        &self.chains
    }

    /// Returns the length of the list of authorities' names, if it is too long to be sent.
    pub(crate) fn unsent_names_bytes(&self) -> Option<usize> {
        self.unsent_names_bytes
    }

    /// Verifies a client's chain at `now`: it must lead to an authority, with no certificate
    /// outside its validity or revoked.
    pub(crate) fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), ChainRefusal> {
        self.chains.verify(leaf, others, now)
    }

    /// Reports whether a client with this certificate is allowed, once its chain has been verified.
    pub(crate) fn allows(&self, leaf: &CertificateDer<'_>) -> bool {
        self.allowed.is_empty() || with_identities(leaf, |its| its.are_among(&self.allowed))
    }
}

impl ChainVerifier {
    fn new(
        authorities: Authorities,
        lists: &[PemSource],
        expired_lists: ExpiredLists,
        peer: PeerRole,
    ) -> Result<Self, VerifyFault> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        let mut lists = RevocationLists::new(read_lists(lists)?, expired_lists);
        Ok(Self {
            authorities,
            list_signatures: ListSignatures::new(algorithms.all, lists.signed()),
            lists,
            algorithms,
            peer,
        })
    }

    /// Returns one verifier for all users of the same files, as long as these hold the same bytes.
    /// Unusable authorities of the host (`are_of_host`) are tolerated.
    fn shared(
        (authorities, are_of_host): (&[PemSource], bool),
        lists: &[PemSource],
        expired_lists: ExpiredLists,
        peer: PeerRole,
    ) -> Result<Arc<Self>, VerifyFault> {
        let choices = [
            u8::from(are_of_host),
            u8::from(expired_lists == ExpiredLists::Accept),
            u8::from(peer == PeerRole::Server),
        ];
        let count = authorities.len().to_be_bytes();
        let sources = authorities.iter().chain(lists);
        let sources = sources.flat_map(|one| [one.place.as_bytes(), one.pem.sha256()]);
        KEPT.find_or_make(name_of([&choices[..], &count].into_iter().chain(sources)), || {
            let authorities = Authorities::read(authorities, are_of_host, peer)?;
            Self::new(authorities, lists, expired_lists, peer)
        })
    }

    /// Returns when the authorities and the revocation lists end.
    pub(crate) fn ends(&self, now: i64) -> (ExpirySummary, ExpirySummary) {
        (self.authorities.ends(now), self.lists.ends(now))
    }

    pub(crate) fn concerns(&self, moment: Moment) -> impl Iterator<Item = VerifyConcern> {
        let authorities = self.authorities.concerns(moment);
        authorities.chain(self.lists.concerns(moment))
    }

    /// Returns the next second after `now` at which the concerns may change.
    pub(crate) fn next_change(&self, now: i64) -> Option<i64> {
        let authorities = self.authorities.next_change(now).into_iter();
        authorities.chain(self.lists.next_change(now)).min()
    }

    fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), ChainRefusal> {
        let others: Vec<&[u8]> = others.iter().map(AsRef::as_ref).collect();
        let others = certificate_chain::intermediates(leaf, &others)?;
        let others: Vec<_> = others.into_iter().map(CertificateDer::from).collect();
        let read = EndEntityCert::try_from(leaf)?;
        if !may_sign_handshakes(leaf)? {
            return Err(ChainRefusal::KeyUsage);
        }
        if let Some(is_good) = self.authorities.own(leaf, now) {
            let is_listed = self.lists.place_of(&read).is_some();
            is_good?;
            return (!is_listed).then_some(()).ok_or_else(|| webpki::Error::CertRevoked.into());
        }
        self.verify_path(&read, &others, now, RevocationCheckDepth::Chain)?;
        if self.lists.is_empty() || self.lists.covers_all_of(read.issuer()) {
            return Ok(());
        }
        // Two calls may find two paths, but the leaf's status is the same in both, because its
        // issuer's name and key are.
        self.verify_path(&read, &others, now, RevocationCheckDepth::EndEntity)?;
        Ok(())
    }

    /// Looks for a path without a revoked certificate. The leaf's status alone must be known.
    fn verify_path(
        &self,
        leaf: &EndEntityCert<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
        depth: RevocationCheckDepth,
    ) -> Result<(), webpki::Error> {
        let lists = self.lists.all();
        let unknown = match depth {
            RevocationCheckDepth::EndEntity => UnknownStatusPolicy::Deny,
            RevocationCheckDepth::Chain => UnknownStatusPolicy::Allow,
        };
        let expired = match self.lists.expired {
            ExpiredLists::Refuse => ExpirationPolicy::Enforce,
            ExpiredLists::Accept => ExpirationPolicy::Ignore,
        };
        // Without a list there is nothing to check, and the options cannot be built.
        let options = RevocationOptionsBuilder::new(&lists).ok().map(|builder| {
            builder
                .with_depth(depth)
                .with_status_policy(unknown)
                .with_expiration_policy(expired)
                .build()
        });
        let usage = match self.peer {
            PeerRole::Client => KeyUsage::client_auth(),
            PeerRole::Server => KeyUsage::server_auth(),
        };
        let algorithms = self.list_signatures.algorithms();
        let anchors = self.authorities.anchors();
        let permit = |path: &VerifiedPath<'_>| self.authorities.permit(path, now, self.peer);
        leaf.verify_for_usage(&algorithms, anchors, others, now, usage, options, Some(&permit))
            .map(drop)
    }

    /// Returns the reason if a certificate of a chain, or its issuer in `ca`, has name constraints
    /// on directory names.
    fn confined_by_directory(&self, one: &webpki::Cert<'_>) -> Option<String> {
        const WHY: &str = "has name constraints on directory names, which are not supported";
        if let Some(place) = self.authorities.confined_by_directory(one.issuer()) {
            return Some(format!("its issuer, in {place}, {WHY}"));
        }
        let der = one.der();
        let (_, read) = X509Certificate::from_der(&der).ok()?;
        let is_confined = read.is_ca() && NameConstraints::of(&read).are_on_directory_names;
        is_confined.then(|| format!("it {WHY}"))
    }

    /// Describes an error, with the certificate of the chain that caused it.
    fn describe(
        &self,
        refusal: &ChainRefusal,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> String {
        let error = match refusal {
            ChainRefusal::Library(error) => error,
            ChainRefusal::Chain(_) | ChainRefusal::KeyUsage => {
                return format!("{refusal}: {}", names_of(leaf));
            }
        };
        let chain = || std::iter::once(leaf).chain(others);
        let about = |place_of: &dyn Fn(&webpki::Cert<'_>) -> Option<String>| {
            chain().find_map(|der| {
                let place = place_of(&*EndEntityCert::try_from(der).ok()?)?;
                Some((der, place))
            })
        };
        let found = match error {
            webpki::Error::CertRevoked => about(&|one| {
                let place = self.lists.place_of(one)?;
                Some(format!("revoked by {place}"))
            }),
            webpki::Error::CrlExpired { .. } => about(&|one| {
                let place = self.lists.expired_of(one.issuer(), now)?;
                Some(format!("the revocation list in {place} is past its nextUpdate"))
            }),
            webpki::Error::UnknownRevocationStatus => {
                Some((leaf, "no revocation list of its issuer is loaded".to_owned()))
            }
            webpki::Error::UnknownIssuer
            | webpki::Error::CertExpired { .. }
            | webpki::Error::CertNotValidYet { .. } => {
                about(&|one| self.authorities.distrust_of(one.issuer(), now))
            }
            webpki::Error::NameConstraintViolation => about(&|one| self.confined_by_directory(one)),
            _ => None,
        };
        let (der, why) = found.unwrap_or_else(|| (leaf, why_of(error)));
        format!("{why}: {}", names_of(der))
    }
}

/// Reports whether a peer may prove with this certificate that it has the key. The peer signs in
/// every handshake that we support, and a key usage must allow that (RFC 8446 section 4.4.2.2; RFC
/// 5246 sections 7.4.2 and 7.4.6). The library does not check the key usage.
fn may_sign_handshakes(leaf: &CertificateDer<'_>) -> Result<bool, webpki::Error> {
    let (_, leaf) = X509Certificate::from_der(leaf).map_err(|_| webpki::Error::BadDer)?;
    let usage = leaf.key_usage().map_err(|_| webpki::Error::BadDer)?;
    Ok(usage.is_none_or(|usage| usage.value.digital_signature()))
}

/// Returns subject and issuer of a certificate, for the log.
fn names_of(certificate: &CertificateDer<'_>) -> String {
    let Ok((_, read)) = X509Certificate::from_der(certificate) else {
        return "a certificate that is no valid X.509".to_owned();
    };
    let short = |name: String| name.chars().take(NAME_CHARS_MAX).collect::<String>();
    format!(
        "subject \"{}\", issuer \"{}\"",
        short(read.subject().to_string()),
        short(read.issuer().to_string())
    )
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let (refusal, error) = match self.verify(leaf, others, now) {
            Ok(()) if self.allows(leaf) => return Ok(ClientCertVerified::assertion()),
            Ok(()) => (
                with_identities(leaf, |its| format!("`allow` lists none of {its}")),
                // Answered with access_denied (RFC 8446 section 6.2).
                CertificateError::ApplicationVerificationFailure.into(),
            ),
            Err(error) => {
                let refusal = self.chains.describe(&error, leaf, others, now);
                (refusal, library_error(error))
            }
        };
        context::with(|context| context.refusal = Some(refusal));
        Err(error)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let message = context::as_sent(message);
        verify_tls12_signature(&message, certificate, signature, &self.chains.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.chains.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.algorithms.supported_schemes()
    }
}

/// Describes the fault of a chain in words.
fn why_of(error: &webpki::Error) -> String {
    use webpki::Error;

    let words = match error {
        Error::UnknownIssuer => "it leads to no trusted authority (`ca`)",
        Error::CertExpired { .. } => "the chain has expired",
        Error::CertNotValidYet { .. } => "the chain is not valid yet",
        Error::CaUsedAsEndEntity => {
            "it is the certificate of an authority, and does not stand in `ca` itself"
        }
        Error::EndEntityUsedAsCa => {
            "what issued a certificate of the chain may not sign certificates (no CA:TRUE, or a key \
             usage without keyCertSign)"
        }
        Error::NameConstraintViolation => {
            "an authority of the chain may not certify one of its names (name constraints, against \
             which the common name of a client is held too if it looks like a host; no name is \
             within those on e-mail addresses or URIs, nothing within those on directory names)"
        }
        Error::PathLenConstraintViolated => {
            "there are more authorities in the chain than one of them allows (pathLenConstraint)"
        }
        Error::RequiredEkuNotFoundContext(_) => "its extended key usage is for something else",
        Error::UnsupportedCriticalExtension => "it has a critical extension that is not known here",
        Error::UnsupportedCertVersion => "it is not of X.509 version 3",
        Error::BadDer | Error::BadDerTime | Error::TrailingData(_) => "it is damaged",
        Error::InvalidSignatureForPublicKey => "a signature in the chain is wrong",
        other => return other.to_string(),
    };
    words.to_owned()
}

/// Returns the reason why our verifier refused a server, if the library has no word for it.
pub fn reason_of(error: &rustls::Error) -> Option<String> {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) => {
            inner.downcast_ref().map(why_of)
        }
        rustls::Error::InvalidCertificate(CertificateError::InvalidPurpose) => {
            Some("its key usage or extended key usage is for something else".to_owned())
        }
        _ => None,
    }
}

/// Converts a refusal into the library's error, which decides the alert (RFC 8446 section 6.2).
fn library_error(refusal: ChainRefusal) -> rustls::Error {
    use webpki::Error;

    let error = match refusal {
        ChainRefusal::Library(error) => error,
        // Answered with unsupported_certificate (RFC 8446 section 6.2).
        ChainRefusal::KeyUsage => return CertificateError::InvalidPurpose.into(),
        // Answered with decode_error, because the message is malformed.
        ChainRefusal::Chain(ChainFault::Empty(_)) => {
            return EMPTY_CERTIFICATE.into();
        }
        ChainRefusal::Chain(fault) => {
            return CertificateError::Other(OtherError(Arc::new(fault))).into();
        }
    };
    let error = match error {
        Error::BadDer | Error::BadDerTime | Error::TrailingData(_) => CertificateError::BadEncoding,
        Error::CertNotValidYet { time, not_before } => {
            CertificateError::NotValidYetContext { time, not_before }
        }
        Error::CertExpired { time, not_after } => {
            CertificateError::ExpiredContext { time, not_after }
        }
        Error::InvalidCertValidity => CertificateError::Expired,
        Error::UnknownIssuer => CertificateError::UnknownIssuer,
        Error::CertRevoked => CertificateError::Revoked,
        Error::UnknownRevocationStatus => CertificateError::UnknownRevocationStatus,
        Error::CrlExpired { time, next_update } => {
            CertificateError::ExpiredRevocationListContext { time, next_update }
        }
        Error::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        Error::CertNotValidForName(context) => CertificateError::NotValidForNameContext {
            expected: context.expected,
            presented: context.presented,
        },
        Error::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        Error::IssuerNotCrlSigner => {
            return CertRevocationListError::IssuerInvalidForCrl.into();
        }
        Error::InvalidCrlSignatureForPublicKey => {
            return CertRevocationListError::BadSignature.into();
        }
        other => CertificateError::Other(OtherError(Arc::new(other))),
    };
    error.into()
}
