//! Client certificates.

use super::*;
use crate::verify::{ClientCertificateFault, VerifyFault};

fn verifying(mode: ClientMode) -> ServerOptions {
    let mut options = simple();
    options.client.mode = mode;
    options.client.authorities = vec![pem("ca.pem", root().pem())];
    options
}

fn refused(options: &ServerOptions, client: Client) -> ClientCertificateFault {
    let server = build(options);
    let both = [client.connect(&server), {
        let older = Client {
            versions: vec![&rustls::version::TLS12],
            ..client
        };
        older.connect(&server)
    }];
    let [newer, older] = both.map(|result| {
        let error = result.expect_err("refused").server();
        ClientCertificateFault::of(&error).unwrap_or_else(|| panic!("of another kind: {error:?}"))
    });
    assert_eq!(newer, older);
    newer
}

fn accepted(options: &ServerOptions, client: &Client) -> bool {
    client.connect(&build(options)).is_ok()
}

#[test]
fn a_required_certificate_must_be_there_and_verify() {
    let required = verifying(ClientMode::Required);
    let known = client("a.example").identity(root().client("alice"));
    assert!(accepted(&required, &known));
    assert_eq!(
        refused(&required, client("a.example")),
        ClientCertificateFault::Missing
    );
    let stranger = Authority::root("another").client("mallory");
    assert_eq!(
        refused(&required, client("a.example").identity(stranger)),
        ClientCertificateFault::UnknownIssuer
    );
}

#[test]
fn an_optional_certificate_may_be_missing_but_not_bad() {
    let optional = verifying(ClientMode::Optional);
    assert!(accepted(&optional, &client("a.example")));
    assert!(accepted(
        &optional,
        &client("a.example").identity(root().client("alice"))
    ));
    let stranger = Authority::root("another").client("mallory");
    assert_eq!(
        refused(&optional, client("a.example").identity(stranger)),
        ClientCertificateFault::UnknownIssuer
    );
}

#[test]
fn what_is_wrong_with_a_certificate_is_told_apart() {
    let required = verifying(ClientMode::Required);
    let expired = root().leaf(&["alice"]).expired().issue();
    assert_eq!(
        refused(&required, client("a.example").identity(expired)),
        ClientCertificateFault::Expired
    );
    let servers = root().leaf(&["alice"]).issue();
    assert_eq!(
        refused(&required, client("a.example").identity(servers)),
        ClientCertificateFault::WrongPurpose
    );
}

#[test]
fn a_revoked_client_is_refused() {
    let (alice, mallory) = (root().client("alice"), root().client("mallory"));
    let mut required = verifying(ClientMode::Required);
    assert!(accepted(
        &required,
        &client("a.example").identity(mallory.clone())
    ));
    required.client.crls = vec![pem("list.pem", &root().revocation_list(&[&mallory]))];
    assert!(accepted(&required, &client("a.example").identity(alice)));
    assert_eq!(
        refused(&required, client("a.example").identity(mallory)),
        ClientCertificateFault::Revoked
    );
}

#[test]
fn with_lists_an_issuer_without_one_is_refused() {
    let second = Authority::root("second root");
    let mut required = verifying(ClientMode::Required);
    required
        .client
        .authorities
        .push(pem("second.pem", second.pem()));
    assert!(accepted(
        &required,
        &client("a.example").identity(second.client("bob"))
    ));
    required.client.crls = vec![pem("list.pem", &root().revocation_list(&[]))];
    assert!(accepted(
        &required,
        &client("a.example").identity(root().client("alice"))
    ));
    assert_eq!(
        refused(
            &required,
            client("a.example").identity(second.client("bob"))
        ),
        ClientCertificateFault::RevocationUnknown
    );
}

#[test]
fn an_error_about_something_else_is_not_about_the_certificate() {
    assert_eq!(
        ClientCertificateFault::of(&rustls::Error::DecryptError),
        None
    );
}

#[test]
fn bad_bundles_and_lists_are_named() {
    let fault = |change: &dyn Fn(&mut ServerOptions)| {
        let mut options = verifying(ClientMode::Required);
        change(&mut options);
        match build_error(&options).fault {
            BuildFault::Verify(fault) => fault,
            other => panic!("{other:?}"),
        }
    };
    let place = || "x.pem".to_owned();
    let bad_der = "-----BEGIN CERTIFICATE-----\nMAMCAQA=\n-----END CERTIFICATE-----\n";
    let bad_list = "-----BEGIN X509 CRL-----\nMAMCAQA=\n-----END X509 CRL-----\n";
    let authorities = |text: &'static str| {
        fault(&move |options| options.client.authorities = vec![pem("x.pem", text)])
    };
    let lists =
        |text: &'static str| fault(&move |options| options.client.crls = vec![pem("x.pem", text)]);
    assert_eq!(
        fault(&|options| options.client.authorities.clear()),
        VerifyFault::NoAuthority
    );
    assert_eq!(
        authorities(""),
        VerifyFault::NoCertificate { place: place() }
    );
    let malformed = VerifyFault::AuthorityMalformed {
        place: place(),
        index: 0,
    };
    assert_eq!(authorities(bad_der), malformed);
    assert!(matches!(
        authorities(&bad_der[..40]),
        VerifyFault::Pem { .. }
    ));
    assert_eq!(lists(""), VerifyFault::NoList { place: place() });
    assert_eq!(
        lists(bad_list),
        VerifyFault::ListMalformed {
            place: place(),
            index: 0
        }
    );
}
