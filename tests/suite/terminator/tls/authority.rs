//! Certificates in `ca` for clients, and chains that are made to cost much.

use suite::prelude::*;
use testkit::authority::Trait;

/// Makes a service that greets clients with certificates, verified by these files.
fn welcoming(site: &Site, mode: &str, authorities: &[&str]) -> (Server, Service) {
    let server = Server::start(Behaviour::Speak("welcome".into()));
    let ca = authorities.iter().map(|name| site.path(name));
    let ca: Vec<_> = ca.collect();
    let service = Service::new(site, &server)
        .tls(&format!("client-certificates = {{ mode = '{mode}', ca = {ca:?} }}"));
    (server, service)
}

/// Returns `openssl s_client`'s output in each version, with a file's certificates.
fn shown(site: &Site, service: &Service, file: &str) -> [String; 2] {
    let path = site.path(file).display().to_string();
    ["-tls1_2", "-tls1_3"].map(|version| {
        let arguments = ["-cert", &path, "-key", &path, "-cert_chain", &path];
        let arguments = [&arguments[..], &[version, "-ign_eof"]].concat();
        let finished = s_client(site, service.address, &arguments);
        finished.stdout + &finished.stderr
    })
}

#[test]
fn a_clients_own_certificate_in_ca_lets_it_in_and_nobody_else() {
    let site = Site::new();
    let own = Authority::own_issuer_by_openssl("-newkey rsa:2048");
    site.write("own.pem", own);
    let bare = Authority::root_with("bare", &[], &[Trait::EndEntity]);
    bare.as_leaf().write(&site.directory, "bare.pem");
    bare.client("admin").write(&site.directory, "admin.pem");
    let (_server, service) = welcoming(&site, "required", &["own.pem", "bare.pem"]);
    let lariat = service.start();
    for file in ["own.pem", "bare.pem"] {
        for said in shown(&site, &service, file) {
            assert_has(said, "welcome");
        }
    }
    for said in shown(&site, &service, "admin.pem") {
        assert!(said.contains("unknown ca") && !said.contains("welcome"), "{said}");
    }
    lariat.wait_for_reason("client-certificate-refused", 2);
    lariat.wait_for_line(&["CN=admin", "bare.pem:1, may not sign certificates"]);
}

#[test]
fn an_expired_authority_is_said_and_lets_nobody_in() {
    let site = Site::new();
    let past = Trait::Valid(1_577_836_800, 1_609_459_200);
    let old = Authority::root_with("old root", &[], &[past]);
    old.write(&site.directory, "old.pem");
    old.client("admin").write(&site.directory, "admin.pem");
    let new = Authority::root("new root");
    new.write(&site.directory, "new.pem");
    new.client("alice").write(&site.directory, "alice.pem");
    let (_server, service) = welcoming(&site, "required", &["old.pem", "new.pem"]);
    let lariat = service.start();
    lariat.wait_for_stderr("old.pem:1: the certificate of \"CN=old root\" expired");
    for said in shown(&site, &service, "admin.pem") {
        assert!(said.contains("certificate expired"), "{said}");
    }
    for said in shown(&site, &service, "alice.pem") {
        assert_has(said, "welcome");
    }
    let web = [("service", "web")];
    lariat.wait_for_metric("lariat_authorities", &web, 2.0);
    lariat.wait_for_metric("lariat_authorities_expired", &web, 1.0);
    let file = site.path("old.pem").display().to_string();
    let labels = [("file", &*file), ("subject", "CN=old root")];
    let family = "lariat_authority_expiry_timestamp_seconds";
    lariat.wait_for_metric(family, &labels, 1_609_459_200.0);
    assert_has(lariat.ask("status").success(), "authorities   2, 1 EXPIRED");
}

#[test]
fn a_client_with_a_chain_made_to_cost_seconds_is_refused_for_it() {
    let site = Site::new();
    site.authority.client("alice").write(&site.directory, "alice.pem");
    site.authority.write(&site.directory, "ca.pem");
    let mallory = Authority::root("x");
    let mallory = mallory.leaf(&["mallory"]).for_client().issue_costly();
    mallory.write(&site.directory, "flat.pem");
    let (_server, service) = welcoming(&site, "optional", &["ca.pem"]);
    let lariat = service.start();
    for (said, count) in shown(&site, &service, "flat.pem").iter().zip(1..) {
        assert!(said.contains("certificate unknown"), "{count} {said}");
    }
    lariat.wait_for_reason("client-chain-limit", 2);
    lariat.wait_for_line(&["of 141 certificates sent with its own, more than 6", "CN=mallory"]);
    for said in shown(&site, &service, "alice.pem") {
        assert_has(said, "welcome");
    }
}

/// As `openssl x509 -req` makes it without `-extfile`.
#[test]
fn a_certificate_of_version_1_is_refused_by_a_reason_of_its_own() {
    let site = Site::new();
    site.authority.write(&site.directory, "ca.pem");
    site.write("ca.key", site.authority.as_leaf().key_pem());
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        command.args(arguments.split_whitespace());
        run(command.current_dir(site.directory.path())).success();
    };
    openssl("req -newkey rsa:2048 -nodes -keyout old.key -subj /CN=bob -out old.csr");
    openssl("x509 -req -in old.csr -CA ca.pem -CAkey ca.key -days 30 -out old.crt");
    let read = |name: &str| fs::read_to_string(site.path(name)).unwrap();
    site.write("old.pem", read("old.crt") + &read("old.key"));
    let (_server, service) = welcoming(&site, "required", &["ca.pem"]);
    let lariat = service.start();
    for said in shown(&site, &service, "old.pem") {
        assert!(!said.contains("welcome"), "{said}");
    }
    lariat.wait_for_reason("client-certificate-version", 2);
    lariat.wait_for_line(&["client-certificate-version", "CN=bob"]);
}
