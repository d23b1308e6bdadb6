//! Certificates of clients and of servers: who may have issued them, which are revoked, which
//! clients may enter, and what a refusal meant.
//!
//! Revocation (RFC 5280 section 6.3) is looked at for the whole chain as soon as the service has
//! any list. For the peer's own certificate it fails closed: one whose issuer has no list is
//! refused. A certificate between it and the authority is refused if it is on a list, and passes
//! if its issuer has none: lists of roots are rare, and an operator who has only the issuing CA's
//! would lock out everybody. What the lists say is judged at the time of each handshake, and of
//! each resumption.

mod fault;
mod lists;
pub(crate) mod server;

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertRevocationListError, CertificateError, DigitallySignedStruct, DistinguishedName,
    OtherError, RootCertStore, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use webpki::{
    EndEntityCert, ExpirationPolicy, KeyUsage, RevocationCheckDepth, RevocationOptionsBuilder,
    UnknownStatusPolicy,
};
use x509_parser::prelude::{FromDer, X509Certificate};

pub(crate) use fault::refusal_of;
pub use fault::{FileFault, ListConcern, VerifyConcern, VerifyFault};

use crate::certificate::pem::{self, BlockKind};
use crate::context;
use crate::identity::{AllowedIdentity, with_identities};
use crate::options::{ClientMode, ClientVerification, ExpiredLists, PemSource};
use lists::{RevocationList, RevocationLists};

/// The most characters of a distinguished name in a log line: the client writes it.
const NAME_CHARS_MAX: usize = 120;

/// The verifier that these options ask for; `None` = clients are not asked.
pub(crate) type Verifier = Option<Arc<ClientVerifier>>;

/// Verifies clients' chains as one service wants it.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    chains: ChainVerifier,
    root_subjects: Vec<DistinguishedName>,
    is_mandatory: bool,
    /// Empty = every client whose chain verifies.
    allowed: Vec<AllowedIdentity>,
}

/// Whether a chain leads to an authority, and nothing in it is revoked.
#[derive(Debug)]
struct ChainVerifier {
    roots: RootCertStore,
    lists: RevocationLists,
    algorithms: WebPkiSupportedAlgorithms,
    /// Of the first certificate: that of a client or of a server.
    usage: fn() -> KeyUsage,
}

/// Builds the verifier, or says why it cannot be.
pub(crate) fn verifier(options: &ClientVerification) -> Result<Verifier, VerifyFault> {
    if options.mode == ClientMode::None {
        return Ok(None);
    }
    let roots = read_authorities(&options.authorities)?;
    Ok(Some(Arc::new(ClientVerifier {
        root_subjects: roots.subjects(),
        chains: ChainVerifier {
            roots,
            lists: RevocationLists::new(read_lists(&options.crls)?, options.expired_lists),
            algorithms: aws_lc_rs::default_provider().signature_verification_algorithms,
            usage: KeyUsage::client_auth,
        },
        is_mandatory: options.mode == ClientMode::Required,
        allowed: options.allow.clone(),
    })))
}

fn read_authorities(sources: &[PemSource]) -> Result<RootCertStore, VerifyFault> {
    let mut roots = RootCertStore::empty();
    for source in sources {
        let certificates = read_certificates(source)?;
        for (number, certificate) in (1..).zip(certificates) {
            let added = roots.add(certificate);
            added.map_err(|_| fault_in(source, FileFault::AuthorityMalformed(number)))?;
        }
    }
    if roots.is_empty() {
        Err(VerifyFault::NoAuthority)
    } else {
        Ok(roots)
    }
}

/// The same of this host's own bundles, in which there may be some that cannot be used.
fn read_authorities_of_host(sources: &[PemSource]) -> Result<RootCertStore, VerifyFault> {
    let mut roots = RootCertStore::empty();
    for source in sources {
        let certificates = read_certificates(source)?;
        roots.add_parsable_certificates(certificates);
    }
    if roots.is_empty() {
        Err(VerifyFault::NoHostAuthority)
    } else {
        Ok(roots)
    }
}

fn read_lists(sources: &[PemSource]) -> Result<Vec<RevocationList>, VerifyFault> {
    let mut lists = Vec::new();
    for source in sources {
        let read = read_blocks(source, BlockKind::RevocationList, FileFault::NoList)?;
        for (number, der) in (1..).zip(read) {
            let der = &CertificateRevocationListDer::from(der);
            let list = RevocationList::read(source, number, der);
            lists.push(list.map_err(|fault| fault_in(source, fault))?);
        }
    }
    Ok(lists)
}

fn read_certificates(source: &PemSource) -> Result<Vec<CertificateDer<'static>>, VerifyFault> {
    let read = read_blocks(source, BlockKind::Certificate, FileFault::NoCertificate)?;
    Ok(read.into_iter().map(CertificateDer::from).collect())
}

/// All blocks of one kind in a file; there is one at least.
fn read_blocks(
    source: &PemSource,
    kind: BlockKind,
    empty: FileFault,
) -> Result<Vec<Vec<u8>>, VerifyFault> {
    let blocks = pem::read(&source.pem).map_err(|fault| {
        let line = fault.line.map(|line| format!(":{line}"));
        let place = format!("{}{}", source.place, line.unwrap_or_default());
        VerifyFault::File(place, FileFault::Pem(fault.sentence(&source.place)))
    })?;
    let of_kind: Vec<_> = pem::all_of(blocks, kind).collect();
    match of_kind.is_empty() {
        true => Err(fault_in(source, empty)),
        false => Ok(of_kind),
    }
}

/// With the line of the block at fault, if it is one.
fn fault_in(source: &PemSource, fault: FileFault) -> VerifyFault {
    let place = &source.place;
    let line = match fault {
        FileFault::AuthorityMalformed(number) => {
            pem::line_of(&source.pem, BlockKind::Certificate, number - 1)
        }
        FileFault::ListMalformed(number) | FileFault::ListUnsupported(number, _) => {
            pem::line_of(&source.pem, BlockKind::RevocationList, number - 1)
        }
        FileFault::Pem(_) | FileFault::NoCertificate | FileFault::NoList => None,
    };
    let place = line.map_or_else(|| place.clone(), |line| format!("{place}:{line}"));
    VerifyFault::File(place, fault)
}

/// What is wrong with files of authorities and of revocation lists: all of it, a fault for each
/// file.
pub fn examine(authorities: &[PemSource], lists: &[PemSource]) -> Vec<VerifyFault> {
    let each = |source| std::slice::from_ref(source);
    let authorities = authorities
        .iter()
        .map(|one| read_authorities(each(one)).err());
    let lists = lists.iter().map(|one| read_lists(each(one)).err());
    authorities.chain(lists).flatten().collect()
}

impl ClientVerifier {
    /// The service's revocation lists.
    pub(crate) fn lists(&self) -> &RevocationLists {
        &self.chains.lists
    }

    /// Whether this client is welcome at `now`: its chain leads to an authority, and nothing in it
    /// is out of its validity or revoked.
    pub(crate) fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        self.chains.verify(leaf, others, now)
    }

    /// Whether a client with this certificate may enter, once its chain has been verified.
    pub(crate) fn allows(&self, leaf: &CertificateDer<'_>) -> bool {
        self.allowed.is_empty() || with_identities(leaf, |its| its.are_among(&self.allowed))
    }
}

impl ChainVerifier {
    fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        let leaf = EndEntityCert::try_from(leaf)?;
        self.verify_path(&leaf, others, now, RevocationCheckDepth::Chain)?;
        if self.lists.is_empty() || self.lists.covers_all_of(leaf.issuer()) {
            return Ok(());
        }
        // Two calls may find two paths, and the leaf's status is the same in both: its issuer's
        // name and key are.
        self.verify_path(&leaf, others, now, RevocationCheckDepth::EndEntity)
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
        let usage = (self.usage)();
        let (algorithms, roots) = (self.algorithms.all, &self.roots.roots);
        leaf.verify_for_usage(algorithms, roots, others, now, usage, options, None)
            .map(drop)
    }

    /// Says which certificate of the chain an error is about.
    fn describe(
        &self,
        error: &webpki::Error,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> String {
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
                Some(format!(
                    "the revocation list in {place} is past its nextUpdate"
                ))
            }),
            webpki::Error::UnknownRevocationStatus => Some((
                leaf,
                "no revocation list of its issuer is loaded".to_owned(),
            )),
            _ => None,
        };
        let (der, why) = found.unwrap_or_else(|| (leaf, why_of(error)));
        format!("{why}: {}", names_of(der))
    }
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
        &self.root_subjects
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
        verify_tls12_signature(message, certificate, signature, &self.chains.algorithms)
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

/// What is wrong with a chain, in words.
fn why_of(error: &webpki::Error) -> String {
    use webpki::Error;

    let words = match error {
        Error::UnknownIssuer => "it leads to no trusted authority (`ca`)",
        Error::CertExpired { .. } => "the chain has expired",
        Error::CertNotValidYet { .. } => "the chain is not valid yet",
        Error::CaUsedAsEndEntity => "it is the certificate of an authority",
        Error::RequiredEkuNotFoundContext(_) => "its extended key usage is for something else",
        Error::UnsupportedCertVersion => "it is not of X.509 version 3",
        Error::BadDer | Error::BadDerTime | Error::TrailingData(_) => "it is damaged",
        Error::InvalidSignatureForPublicKey => "a signature in the chain is wrong",
        other => return other.to_string(),
    };
    words.to_owned()
}

/// The library's error for one of its verifier: it decides the alert (RFC 8446 section 6.2).
fn library_error(error: webpki::Error) -> rustls::Error {
    use webpki::Error;

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
