//! The certificate is chosen by server name: exact, then wildcard, then default or refusal.

use suite::prelude::*;

struct Names {
    site: Site,
    service: Service,
    _server: Server,
}

fn names() -> Names {
    let site = Site::new();
    for (file, names) in [
        ("a.pem", &["default.example"][..]),
        ("b.pem", &["*.shop.example"]),
        ("c.pem", &["eu.shop.example", "www.example"]),
    ] {
        site.leaf(names).write(&site.directory, &format!("certs/{file}"));
    }
    let server = Server::start(Behaviour::Echo);
    let service = Service::new(&site, &server);
    let service = service.certificates(&format!("[{:?}]", site.path("certs")));
    Names { site, service, _server: server }
}

fn subject(names: &Names, server_name: &[&str]) -> String {
    let answer = s_client(&names.site, names.service.address, server_name);
    let line = answer.stdout.lines().find_map(|line| line.strip_prefix("subject=CN = "));
    line.unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

#[test]
fn exact_then_wildcard_then_default() {
    let names = names();
    let _lariat = names.service.start();
    for (asked, answered) in [
        ("eu.shop.example", "eu.shop.example"),
        ("WWW.Example", "eu.shop.example"),
        ("us.shop.example", "*.shop.example"),
        ("a.us.shop.example", "default.example"),
        ("unknown.example", "default.example"),
    ] {
        assert_eq!(subject(&names, &["-servername", asked]), answered, "{asked}");
    }
    assert_eq!(subject(&names, &["-noservername"]), "default.example");
}

#[test]
fn an_unknown_name_is_refused_if_so_configured() {
    let mut names = names();
    names.service = names.service.tls("unknown-name = 'refuse'");
    let lariat = names.service.start();
    let known = subject(&names, &["-servername", "www.example"]);
    assert_eq!(known, "eu.shop.example");
    let address = names.service.address;
    let unknown = s_client(&names.site, address, &["-servername", "unknown.example"]);
    unknown.assert_stderr("unrecognized name");
    lariat.wait_for_reason("name-unknown", 1);
    let nameless = s_client(&names.site, address, &["-noservername"]);
    assert!(!nameless.status.success(), "{nameless:?}");
    lariat.wait_for_reason("name-missing", 1);
}

/// RFC 6066 section 3 does not require refusing them, and other servers send them the default.
#[test]
fn what_is_no_host_name_gets_the_default_certificate() {
    let site = Site::new();
    site.leaf(&["default.example"]).write(&site.directory, "certs/a.pem");
    site.leaf(&["odd-.example"]).write(&site.directory, "certs/b.pem");
    let server = Server::start(Behaviour::Echo);
    let service = Service::new(&site, &server);
    let service = service.certificates(&format!("[{:?}]", site.path("certs")));
    let lariat = service.start();
    let names = Names { site, service, _server: server };
    for (asked, answered) in [
        ("default.example:443", "default.example"),
        ("-x.example", "default.example"),
        ("a.1", "default.example"),
        ("127.0.0.1", "default.example"),
        ("b\u{fc}cher.example", "default.example"),
        // A certificate can be for that one, though the TLS library takes no such name.
        ("odd-.example", "odd-.example"),
    ] {
        // A group that makes a HelloRetryRequest, so that two hellos are in the transcript.
        for how in [&["-tls1_2"][..], &["-tls1_3"], &["-tls1_3", "-groups", "P-521:P-256"]] {
            let arguments = [how, &["-servername", asked]].concat();
            assert_eq!(subject(&names, &arguments), answered, "{arguments:?}");
        }
        lariat.wait_for_line(&[&format!("\"sni\":{asked:?}")]);
    }
}
