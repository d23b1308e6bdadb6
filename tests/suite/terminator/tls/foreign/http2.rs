//! A browser speaks HTTP/2 through us to a server behind.

use suite::chromium::dump_page;
use suite::nginx::Nginx;
use suite::prelude::*;

#[test]
fn chromium_and_curl_get_a_page_by_http2() {
    let nginx = Nginx::start("http2", "<p>spoken: $server_protocol</p>");
    let site = Site::new();
    let service = Service::new(&site, nginx.address).tls("alpn = ['h2']");
    let lariat = service.start();
    let curl = curl_tls(&site, service.address).args(&["--http2"]).run().success();
    assert_has(&curl, "spoken: HTTP/2.0");
    let page = dump_page(&format!("https://localhost:{}/", service.address.port()), 1000);
    assert_has(&page, "spoken: HTTP/2.0");
    lariat.wait_for_line(&["\"h2\""]);
}
