//! Certificates of clients and of servers: who may have issued them, which are revoked, which
//! clients may enter, and what a refusal meant.
//!
//! Revocation (RFC 5280 section 6.3) is looked at for the whole chain as soon as the service has
//! any list. For the peer's own certificate it fails closed: one whose issuer has no list is
//! refused. A certificate between it and the authority is refused if it is on a list, and passes
//! if its issuer has none: lists of roots are rare, and an operator who has only the issuing CA's
//! would lock out everybody. What the lists say is judged at the time of each handshake, and of
//! each resumption.
//!
//! Before the library looks for a path, [`wire::certificate_chain`] has seen to it that this costs
//! little: the library would try for seconds what a hostile peer makes up.

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
use crate::kept::{Kept, name_of};
use crate::options::{ClientMode, ClientVerification, ExpiredLists, PemSource};
use crate::validity::{Clock, Ends, Moment, seconds};
use fault::{fault_in, read_revocation_lists};
use revocation::{ListSignatures, RevocationList, RevocationLists};

/// The most bytes of authorities' names in a request for a certificate. Their list has a length of
/// 16 bits (RFC 8446 section 4.2.4), and clients take no message much longer.
pub const NAMES_BYTES_MAX: usize = 60_000;

/// The most characters of a distinguished name in a log line: the client writes it.
const NAME_CHARS_MAX: usize = 120;

/// The verifier that these options ask for; `None` = clients are not asked.
pub(crate) type Verifier = Option<Arc<ClientVerifier>>;

/// Verifies clients' chains as one service wants it.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    chains: Arc<ChainVerifier>,
    hints: Vec<DistinguishedName>,
    unsent_names_bytes: Option<usize>,
    is_mandatory: bool,
    /// Empty = every client whose chain verifies.
    allowed: Vec<AllowedIdentity>,
}

/// Whether a chain leads to an authority, and nothing in it is revoked.
#[derive(Debug)]
pub(crate) struct ChainVerifier {
    authorities: Authorities,
    lists: RevocationLists,
    list_signatures: ListSignatures,
    algorithms: WebPkiSupportedAlgorithms,
    peer: PeerRole,
}

/// The verifiers of all plans of this process.
static KEPT: Kept<ChainVerifier> = Kept::new();

/// Builds the verifier, or says why it cannot be.
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
    // Each has its length before it.
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

/// The present concerns about servers' authorities that no service has.
pub fn concerns_of(authorities: &[PemSource]) -> Vec<VerifyConcern> {
    let now = seconds(Clock::default().now());
    let read = Authorities::read(authorities, false, PeerRole::Server).unwrap_or_default();
    read.concerns(Moment { since: None, now }).collect()
}

/// The faults of files of authorities and of revocation lists: all of them, a fault for each
/// file.
pub fn examine(authorities: &[PemSource], lists: &[PemSource]) -> Vec<VerifyFault> {
    let each = |source| std::slice::from_ref(source);
    let authorities =
        authorities.iter().map(|one| Authorities::read(each(one), false, PeerRole::Client).err());
    let lists = lists.iter().map(|one| read_lists(each(one)).err());
    authorities.chain(lists).flatten().collect()
}

/// The verification of chains without a handshake around it: here is measured and tried what
/// hostile peers may send.
#[derive(Debug)]
pub struct BareVerifier(ChainVerifier);

impl BareVerifier {
    /// By these authorities and lists, for clients' chains or for servers'.
    ///
    /// # Errors
    /// They cannot be used.
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
    /// The reason why it is refused, as the log says it.
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

    /// How long the list of authorities' names is, if that is too long to be sent.
    pub(crate) fn unsent_names_bytes(&self) -> Option<usize> {
        self.unsent_names_bytes
    }

    /// Whether this client is welcome at `now`: its chain leads to an authority, and nothing in it
    /// is out of its validity or revoked.
    pub(crate) fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), ChainRefusal> {
        self.chains.verify(leaf, others, now)
    }

    /// Whether a client with this certificate may enter, once its chain has been verified.
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

    /// One for all that go by the same files, for as long as these hold the same bytes. Among the
    /// authorities of the host (`are_of_host`) there may be some that cannot be used.
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

    /// When the authorities and the revocation lists end.
    pub(crate) fn ends(&self, now: i64) -> (Ends, Ends) {
        (self.authorities.ends(now), self.lists.ends(now))
    }

    pub(crate) fn concerns(&self, moment: Moment) -> impl Iterator<Item = VerifyConcern> {
        let authorities = self.authorities.concerns(moment);
        authorities.chain(self.lists.concerns(moment))
    }

    /// The next second after `now` at which there may be others.
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
        // Two calls may find two paths, and the leaf's status is the same in both: its issuer's
        // name and key are.
        self.verify_path(&read, &others, now, RevocationCheckDepth::EndEntity)?;
        Ok(())
    }

    /// Whether there is a path on which nothing is on a list. Of the leaf alone it must be known.
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
        // Without a list there is nothing to look at, and no options can be built.
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

    /// The words for a certificate of a chain that has name constraints on directory names, or
    /// whose issuer in `ca` has.
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

    /// Says which certificate of the chain an error is about.
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

/// Whether a peer may prove by this certificate that it has the key. In every handshake that we
/// make it signs, and a key usage must allow that (RFC 8446 section 4.4.2.2; RFC 5246 sections
/// 7.4.2 and 7.4.6). The library leaves the key usage out.
fn may_sign_handshakes(leaf: &CertificateDer<'_>) -> Result<bool, webpki::Error> {
    let (_, leaf) = X509Certificate::from_der(leaf).map_err(|_| webpki::Error::BadDer)?;
    let usage = leaf.key_usage().map_err(|_| webpki::Error::BadDer)?;
    Ok(usage.is_none_or(|usage| usage.value.digital_signature()))
}

/// Subject and issuer of a certificate, for the log.
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

/// The fault of a chain, in words.
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

/// The reason why a verifier of ours refused a server, if the library has no word for it.
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

/// The library's error for one of its verifier: it decides the alert (RFC 8446 section 6.2).
fn library_error(refusal: ChainRefusal) -> rustls::Error {
    use webpki::Error;

    let error = match refusal {
        ChainRefusal::Library(error) => error,
        // Answered with unsupported_certificate (RFC 8446 section 6.2).
        ChainRefusal::KeyUsage => return CertificateError::InvalidPurpose.into(),
        // Answered with decode_error: the message is not of its form.
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
