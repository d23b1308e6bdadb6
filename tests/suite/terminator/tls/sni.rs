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
        site.leaf(names)
            .write(&site.directory, &format!("certs/{file}"));
    }
    let server = Server::start(Behaviour::Echo);
    let service = Service::new(&site, &server);
    let service = service.certificates(&format!("[{:?}]", site.path("certs")));
    Names {
        site,
        service,
        _server: server,
    }
}

fn subject(names: &Names, server_name: &[&str]) -> String {
    let answer = s_client(&names.site, names.service.address, server_name);
    let line = answer
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("subject=CN = "));
    line.unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

#[test]
fn exact_then_wildcard_then_default() {
    let names = names();
    let _lariat = Lariat::start(&names.service.toml());

    for (asked, answered) in [
        ("eu.shop.example", "eu.shop.example"),
        ("WWW.Example", "eu.shop.example"),
        ("us.shop.example", "*.shop.example"),
        ("a.us.shop.example", "default.example"),
        ("unknown.example", "default.example"),
    ] {
        assert_eq!(
            subject(&names, &["-servername", asked]),
            answered,
            "{asked}"
        );
    }
    assert_eq!(subject(&names, &["-noservername"]), "default.example");
}

#[test]
fn an_unknown_name_is_refused_if_so_configured() {
    let mut names = names();
    names.service = names.service.tls("unknown-name = 'refuse'");
    let lariat = Lariat::start(&names.service.toml());

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
