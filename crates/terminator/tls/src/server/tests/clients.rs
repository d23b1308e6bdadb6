//! Client certificates.

use rustls::CertificateError;

use super::*;
use crate::identity::AllowedIdentity;
use crate::options::ExpiredLists;
use crate::verify::{FileFault, TrustConcern, VerifyFault};

/// Returns the library's fault with the client's certificate, the same in both versions of TLS.
fn refused(options: &ServerOptions, client: Client) -> CertificateError {
    let server = build(options);
    let newer = client.connect(&server);
    let older = client.tls12().connect(&server);
    let [newer, older] = [newer, older].map(|result| certificate_error(result.err()));
    // Their times may differ.
    assert_eq!(std::mem::discriminant(&newer), std::mem::discriminant(&older));
    newer
}

pub(super) fn certificate_error(failure: Option<Failure>) -> CertificateError {
    match failure.expect("refused").server() {
        rustls::Error::InvalidCertificate(error) => error,
        other => panic!("of another kind: {other:?}"),
    }
}

fn accepted(options: &ServerOptions, client: &Client) -> bool {
    client.connect(&build(options)).is_ok()
}

pub(super) fn showing(leaf: Leaf) -> Client {
    client("a.example").identity(leaf)
}

#[test]
fn a_certificate_must_verify_and_be_there_if_it_is_required() {
    let [required, optional] = [ClientMode::Required, ClientMode::Optional].map(verifying);
    for options in [&required, &optional] {
        assert!(accepted(options, &showing(root().client("alice"))));
        let stranger = Authority::root("another").client("mallory");
        let error = refused(options, showing(stranger));
        assert_eq!(error, CertificateError::UnknownIssuer);
    }
    assert!(accepted(&optional, &client("a.example")));
    let missing = client("a.example").connect(&build(&required));
    let missing = missing.expect_err("refused").server();
    assert_eq!(missing, rustls::Error::NoCertificatesPresented);
    let expired = root().leaf(&["alice"]).expired().issue();
    let error = refused(&required, showing(expired));
    assert!(matches!(error, CertificateError::ExpiredContext { .. }));
    let servers = root().leaf(&["alice"]).issue();
    let error = refused(&required, showing(servers));
    assert_eq!(error, CertificateError::InvalidPurpose);
}

#[test]
fn a_revoked_client_is_refused() {
    let (alice, mallory) = (root().client("alice"), root().client("mallory"));
    let mut required = verifying(ClientMode::Required);
    assert!(accepted(&required, &showing(mallory.clone())));
    required.client.crls = vec![pem("list.pem", &root().revocation_list(&[&mallory]))];
    assert!(accepted(&required, &showing(alice)));
    let error = refused(&required, showing(mallory));
    assert_eq!(error, CertificateError::Revoked);
}

#[test]
fn only_a_listed_identity_enters_and_only_below_the_authority() {
    let bob = AllowedIdentity::CommonName("bob".into());
    for mode in [ClientMode::Required, ClientMode::Optional] {
        let mut options = verifying(mode);
        options.client.allow = vec![bob.clone()];
        assert!(accepted(&options, &showing(root().client("bob"))));
        let error = refused(&options, showing(root().client("alice")));
        assert_eq!(error, CertificateError::ApplicationVerificationFailure);
        let stranger = Authority::root("another").client("bob");
        let error = refused(&options, showing(stranger));
        assert_eq!(error, CertificateError::UnknownIssuer);
        let is_served_bare = accepted(&options, &client("a.example"));
        assert_eq!(is_served_bare, mode == ClientMode::Optional);
    }
}

#[test]
fn with_lists_an_issuer_without_one_is_refused() {
    let second = Authority::root("second root");
    let mut required = verifying(ClientMode::Required);
    let authorities = &mut required.client.authorities;
    authorities.push(pem("second.pem", second.pem()));
    assert!(accepted(&required, &showing(second.client("bob"))));
    required.client.crls = vec![pem("list.pem", &root().revocation_list(&[]))];
    assert!(accepted(&required, &showing(root().client("alice"))));
    let error = refused(&required, showing(second.client("bob")));
    assert_eq!(error, CertificateError::UnknownRevocationStatus);
}

/// Root, intermediate and client, with the lists that the caller wants.
struct Chain {
    root: Authority,
    between: Authority,
    alice: Leaf,
}

impl Chain {
    fn new() -> Self {
        let root = Authority::root("chain root");
        let between = root.intermediate("chain intermediate");
        let alice = between.client("alice");
        Self { root, between, alice }
    }

    fn options(&self, lists: &[String]) -> ServerOptions {
        let mut options = verifying(ClientMode::Required);
        options.client.authorities = vec![pem("ca.pem", self.root.pem())];
        let named = lists.iter().enumerate();
        options.client.crls =
            named.map(|(number, list)| pem(&format!("list-{number}.pem"), list)).collect();
        options
    }

    fn client(&self) -> Client {
        showing(self.alice.clone())
    }
}

/// Returns the words by which the last handshake refused its client's certificate.
pub(super) fn refusal() -> Option<String> {
    context::with(|context| context.refusal.take())
}

#[test]
fn a_client_below_a_revoked_intermediate_is_refused() {
    let chain = Chain::new();
    let of_root = |serials: &[u64]| chain.root.revocation_list_for(serials, 0, 4_000_000_000);
    let of_between = chain.between.revocation_list(&[]);
    let lists = [of_between.clone(), of_root(&[])];
    assert!(accepted(&chain.options(&lists), &chain.client()));
    // The root's list alone does not cover the client's own certificate.
    let error = refused(&chain.options(&[of_root(&[])]), chain.client());
    assert_eq!(error, CertificateError::UnknownRevocationStatus);
    // The intermediate's list alone is enough: the root has none.
    assert!(accepted(&chain.options(&lists[..1]), &chain.client()));
    let revoking = [of_between, of_root(&[chain.between.serial()])];
    let error = refused(&chain.options(&revoking), chain.client());
    assert_eq!(error, CertificateError::Revoked);
    assert_eq!(
        refusal().as_deref(),
        Some("revoked by list-1.pem: subject \"CN=chain intermediate\", issuer \"CN=chain root\"")
    );
}

#[test]
fn a_session_ends_with_the_intermediate_of_its_client() {
    let chain = Chain::new();
    let resumption = new_resumption();
    let both = |serials: &[u64]| {
        let of_root = chain.root.revocation_list_for(serials, 0, 4_000_000_000);
        chain.options(&[chain.between.revocation_list(&[]), of_root])
    };
    for client in [chain.client(), chain.client().tls12()] {
        let (config, _) = client.config();
        let kind = |options: &ServerOptions| {
            let server = build_as("web", options, &resumption);
            connect(&server, &config, "a.example").map(|outcome| outcome.kind)
        };
        assert_eq!(kind(&both(&[])).ok(), Some(HandshakeKind::Full));
        assert_eq!(kind(&both(&[])).ok(), Some(HandshakeKind::Resumed));
        let revoked = kind(&both(&[chain.between.serial()]));
        assert_eq!(certificate_error(revoked.err()), CertificateError::Revoked);
    }
}

/// Seconds of Unix time in 2026, when all test certificates are valid.
const NOW: u64 = 1_782_000_000;
const DAY: u64 = 24 * 60 * 60;

#[test]
fn a_list_past_its_next_update_refuses_while_the_server_runs() {
    let chain = Chain::new();
    let of_root = chain.root.revocation_list_for(&[], NOW - DAY, NOW + 9 * DAY);
    let of_between = chain.between.revocation_list_for(&[], NOW - DAY, NOW + DAY);
    let mut options = chain.options(&[of_between, of_root]);
    for version in rustls::ALL_VERSIONS {
        let hands = ManualClock::at(NOW);
        let (server, _) = hands.build(&options);
        let mut client = chain.client();
        client.versions = vec![version];
        let (config, _) = client.config();
        let connect = || connect(&server, &config, "a.example");
        assert_eq!(connect().expect("served").kind, HandshakeKind::Full);
        hands.move_to(NOW + DAY - 1);
        assert_eq!(connect().expect("served").kind, HandshakeKind::Resumed);
        // The session offered for resumption is refused as well, and then the certificate.
        hands.move_to(NOW + DAY);
        let error = certificate_error(connect().err());
        let is_over = matches!(error, CertificateError::ExpiredRevocationListContext { .. });
        assert!(is_over, "{error:?}");
        let words = refusal().expect("words");
        assert!(words.contains("list-0.pem") && words.contains("CN=alice"), "{words}");
    }
    options.client.expired_lists = ExpiredLists::Accept;
    let (server, warnings) = ManualClock::at(NOW + 10 * DAY).build(&options);
    assert!(chain.client().connect(&server).is_ok());
    assert_eq!(warnings.len(), 2);
    for warning in warnings {
        assert!(matches!(
            warning.concern,
            WarningSubject::Verify(one) if one.concern == TrustConcern::StillCounts
        ));
    }
}

#[test]
fn of_one_issuers_lists_the_newest_counts() {
    let chain = Chain::new();
    let list =
        |serials: &[u64], begin| chain.between.revocation_list_for(serials, begin, begin + 2 * DAY);
    let old = list(&[], NOW - 3 * DAY);
    let newer = list(&[chain.alice.serial()], NOW - DAY);
    for lists in [[old.clone(), newer.clone()], [newer, old]] {
        let (server, warnings) = ManualClock::at(NOW).build(&chain.options(&lists));
        let error = certificate_error(chain.client().connect(&server).err());
        assert_eq!(error, CertificateError::Revoked);
        assert_eq!(warnings, [], "nobody is told of the old one");
    }
}

#[test]
fn bad_bundles_and_lists_are_named() {
    const BAD_DER: &str = "-----BEGIN CERTIFICATE-----\nMAMCAQA=\n-----END CERTIFICATE-----\n";
    /// A list made by `openssl ca -gencrl` without `crl_extensions`.
    const OLD_LIST: &str = "-----BEGIN X509 CRL-----\n\
        MIGaMEEwCgYIKoZIzj0EAwIwEzERMA8GA1UEAwwIT2xkIHJvb3QXDTI2MTEyNTE5\n\
        NTUxNVoYDzIxMDkwMTE0MTk1NTE1WjAKBggqhkjOPQQDAgNJADBGAiEA5hqTRgGH\n\
        vvHRQzbBmsivqgFizBg0h3rCyYwpKnyhRYwCIQCGZGclJU26OUvIHaAy3AvjXp2F\n\
        pZjqwOBifARbg8pDAA==\n\
        -----END X509 CRL-----\n";
    const BAD_LIST: &str = "-----BEGIN X509 CRL-----\nMAMCAQA=\n-----END X509 CRL-----\n";
    let fault = |change: &dyn Fn(&mut ServerOptions)| {
        let mut options = verifying(ClientMode::Required);
        change(&mut options);
        match build_error(&options).fault {
            BuildFault::Verify(fault) => fault,
            other => panic!("{other:?}"),
        }
    };
    let none = fault(&|options| options.client.authorities.clear());
    assert_eq!(none, VerifyFault::NoAuthority);
    let half = "is no valid PEM: a CERTIFICATE block has no END line; get the file again from who \
                made it";
    let half = FileFault::Pem(half.to_owned());
    let old = FileFault::ListUnsupported(1, "it is an X.509 CRL of version 1".to_owned());
    let marked = BAD_DER.replace("CERTIFICATE", "TRUSTED CERTIFICATE");
    let uses = "has a TRUSTED CERTIFICATE, whose trusted and rejected uses are not read; name a file \
                of plain certificates (`openssl x509 -in FILE -out FILE.pem` writes one)";
    for (is_list, text, wanted) in [
        (false, &*marked, FileFault::Pem(uses.to_owned())),
        (false, "text", FileFault::NoCertificate),
        (false, BAD_DER, FileFault::AuthorityMalformed(1)),
        (false, &BAD_DER[..40], half),
        (true, "text", FileFault::NoList),
        (true, BAD_LIST, FileFault::ListMalformed(1)),
        (true, OLD_LIST, old),
    ] {
        let file = fault(&|options| {
            let place =
                if is_list { &mut options.client.crls } else { &mut options.client.authorities };
            *place = vec![pem("x.pem", text)];
        });
        let place = if text == "text" { "x.pem" } else { "x.pem:1" };
        assert_eq!(file, VerifyFault::File(place.to_owned(), wanted));
    }
}
