//! The OCSP response in the file beside a certificate is stapled.

use suite::prelude::*;

/// Makes a service whose certificate has this OCSP response in the file beside it.
fn stapling(site: &Site, server: &Server, response: impl FnOnce(&Leaf) -> Vec<u8>) -> Service {
    let leaf = site.leaf(&["localhost"]);
    leaf.write(&site.directory, "certs/site.pem");
    site.write("certs/site.ocsp", response(&leaf));
    Service::new(site, server).certificates(&format!("[{:?}]", site.path("certs")))
}

#[test]
fn a_response_beside_the_certificate_is_stapled() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = stapling(&site, &server, |leaf| site.authority.ocsp_response(leaf));
    let _lariat = service.start();
    for version in ["-tls1_2", "-tls1_3"] {
        let answer = s_client(&site, service.address, &[version, "-status"]);
        answer.assert_stdout("OCSP Response Status: successful");
        answer.assert_stdout("Cert Status: good");
    }
}

#[test]
fn without_a_response_nothing_is_stapled() {
    let (site, _server, service, _lariat) = serve(Behaviour::Echo);
    let answer = s_client(&site, service.address, &["-status"]);
    answer.assert_stdout("OCSP response: no response sent");
}

#[test]
fn a_response_is_stapled_until_its_next_update_and_not_longer() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let end = now_seconds() + 4;
    let response = |leaf: &Leaf| site.authority.ocsp_response_until(leaf, end);
    let service = stapling(&site, &server, response);
    let lariat = service.start();
    until_true("the response to end", || now_seconds() > end);
    for version in ["-tls1_2", "-tls1_3"] {
        let answer = s_client(&site, service.address, &[version, "-status"]);
        let is_bare = answer.stdout.contains("OCSP response: no response sent");
        assert!(is_bare, "{answer:?}");
    }
    let web = [("service", "web")];
    lariat.wait_for_metric("lariat_ocsp_responses_expired", &web, 1.0);
    lariat.wait_for_stderr("is not stapled");
    let table = lariat.ask("status").success();
    assert_has(&table, "OCSP          1, 1 EXPIRED");
}

#[test]
fn a_response_that_says_revoked_is_refused() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let response = |leaf: &Leaf| site.authority.ocsp_response_revoked(leaf);
    let service = stapling(&site, &server, response);
    let answer = lariat::check(&service.toml());
    assert_ne!(answer.code(), 0, "{answer:?}");
    answer.assert_stderr("says that the certificate is revoked");
}

#[test]
fn a_response_that_the_issuer_has_not_signed_is_refused() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let issuer = site.authority.intermediate("issuer");
    let leaf = issuer.leaf(&["localhost"]).issue();
    leaf.write(&site.directory, "certs/site.pem");
    site.write("certs/site.ocsp", issuer.ocsp_response_forged(&leaf, now_seconds() + 86400));
    let service = Service::new(&site, &server);
    let service = service.certificates(&format!("[{:?}]", site.path("certs")));
    let answer = lariat::check(&service.toml());
    assert_ne!(answer.code(), 0, "{answer:?}");
    answer.assert_stderr("is not signed by the certificate's issuer");
}
