//! The status page shows live numbers in a browser.

use suite::chromium::dump_page;
use suite::configuration::Service;
use suite::curl::{curl, curl_tls};
use suite::lariat::Lariat;
use suite::site::Site;
use testkit::server::{Behaviour, Server};

#[test]
fn chromium_shows_the_service_and_its_server() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Http("hello".into())));
    let service = Service::new(&site, &server).named("shop-window");
    let lariat = Lariat::start(&service.toml());
    curl_tls(&site, service.address).run().success();

    let page = dump_page(&format!("http://{}/", lariat.admin()), 3000);
    assert!(
        page.contains("shop-window") && page.contains(server.address()),
        "{page}"
    );
}

#[test]
fn the_page_asks_nobody_else_for_anything() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let lariat = Lariat::start(&Service::new(&site, &server).toml());
    let url = format!("http://{}/", lariat.admin());
    let answer = curl().url(&url).args(&["--include"]).run().success();
    assert!(
        answer
            .to_lowercase()
            .contains("content-security-policy: default-src 'none'")
    );
    for elsewhere in [
        "src=\"http",
        "href=\"http",
        "url(http",
        "fetch(\"http",
        "import ",
    ] {
        assert!(!answer.contains(elsewhere), "{elsewhere}");
    }
}
