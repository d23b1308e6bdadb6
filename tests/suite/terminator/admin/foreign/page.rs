//! The status page shows live numbers in a browser.

use std::collections::BTreeSet;

use suite::chromium::{assert_drawn, draw, dump_page, keeps_pictures};
use suite::load::Load;
use suite::prelude::*;

#[test]
fn chromium_shows_the_service_and_its_server() {
    let (site, server, service, lariat) = serve_as(http(), |service| service.named("shop-window"));
    curl_tls(&site, service.address).run().success();
    let page = dump_page(&format!("http://{}/", lariat.admin()), 3000);
    assert!(page.contains("shop-window") && page.contains(server.address()), "{page}");
}

#[test]
fn the_page_asks_nobody_else_for_anything() {
    let (_site, _server, _service, lariat) = serve(Behaviour::Echo);
    let url = format!("http://{}/", lariat.admin());
    let answer = curl().url(&url).args(&["--include"]).run().success();
    assert!(answer.to_lowercase().contains("content-security-policy: default-src 'none'"));
    for elsewhere in ["src=\"http", "href=\"http", "url(http", "fetch(\"http", "import "] {
        assert!(!answer.contains(elsewhere), "{elsewhere}");
    }
}

/// Returns the page as a script would see it in a window of this width, in a document that reports
/// its widths and what it shows. The page's own policy forbids scripts to inspect it, so it is a
/// copy that gets its documents from here.
fn framed(lariat: &Lariat, width: u32) -> String {
    let get = |path: &str| {
        let url = format!("http://{}/{path}", lariat.admin());
        curl().url(&url).run().success()
    };
    let (page, status, history) = (get(""), get("status"), get("history"));
    let answers = format!(
        "<script>window.fetch = async (path) => ({{ ok: true, \
         json: async () => path.startsWith('/status') ? {status} : \
         {{ ...{history}, ...(!path.includes('after=0') && {{ intervals: [] }}) }} }});</script>"
    );
    let page = page.replacen("<head>", &format!("<head>{answers}"), 1);
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!doctype html><title>waiting</title>\
         <iframe width=\"{width}\" height=\"900\" style=\"border:0\" srcdoc=\"{page}\"></iframe>\
         <pre></pre><script>setTimeout(() => {{\
         const page = document.querySelector('iframe').contentDocument;\
         const root = page.documentElement;\
         document.querySelector('pre').textContent = [`it is ${{root.scrollWidth - \
         root.clientWidth}} pixels too wide`, page.querySelector('main').innerText, \
         page.querySelector('.stroke.blue')?.getAttribute('d')].join('\\n');\
         document.querySelector('iframe').remove(); }}, 2500)</script>"
    )
}

#[test]
fn it_opens_with_the_past_and_fits_any_width() {
    let (site, server) = (Site::new(), Server::start(http()));
    let service = Service::new(&site, &server);
    let named = Service::new(&site, free_address())
        .named("a-service-with-a-name-that-is-longer-than-any-column");
    let lariat = Lariat::start(&[service.toml(), named.toml()].join("\n"));
    let _refused = curl_tls(&site, named.address).run();
    curl_tls(&site, service.address).run().success();
    // The load is past when the page is opened.
    lariat.wait_for_metric("lariat_connections_open", &[], 0.0);
    let url = format!("http://{}/history", lariat.admin());
    let quiet = || {
        let answer: Value = serde_json::from_str(&curl().url(&url).run().success()).ok()?;
        let intervals = answer["intervals"].as_array()?;
        let accepted = |one: &Value| one["metrics"]["connections_accepted"].as_u64();
        let busy = intervals.iter().rposition(|one| accepted(one).is_some())?;
        (busy + 2 < intervals.len()).then_some(())
    };
    until("a second without connections", quiet);
    for width in [390, 1280] {
        let file = site.write("framed.html", framed(&lariat, width));
        let shown = dump_page(&format!("file://{}", file.display()), 5000);
        assert_has(&shown, "it is 0 pixels too wide\n");
        assert_has(&shown, server.address());
        // A certificate by name, kind of key and expiry.
        let (_, certificates) = shown.split_once("Certificates").expect("a title");
        for words in ["localhost", "ECDSA", "days left"] {
            assert_has(certificates, words);
        }
        let path = shown.lines().find(|line| line.starts_with('M')).expect("a line");
        let heights: BTreeSet<_> =
            path.split('L').filter_map(|point| point.split(' ').nth(1)).collect();
        assert!(heights.len() > 1, "the line of connections is flat: {path}");
    }
}

/// The docs show it: `PICTURES=docs/pictures` draws it anew, after a longer load.
#[test]
fn its_picture_is_that_of_a_service_under_load() {
    let (site, server) = (Site::new(), Server::start(http()));
    let shop = Service::new(&site, &server).named("shop");
    let mail = Service::new(&site, &server).named("mail");
    let lariat = Lariat::start(&[shop.toml(), mail.toml()].join("\n"));
    let _plain = curl().url(&format!("http://{}/", mail.address)).run();
    let duration = if keeps_pictures() { "20s" } else { "1s" };
    let flags = "--rate 60 --handshake psk --requests-per-session 4 --clients 20";
    Load::alone(shop.address).args(&format!("{flags} --duration {duration}")).run();
    assert_drawn(&draw(&format!("http://{}/", lariat.admin()), "status"));
}
