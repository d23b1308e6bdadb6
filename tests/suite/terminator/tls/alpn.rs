//! Application protocols are agreed on, in our order.

use suite::prelude::*;

#[test]
fn the_first_of_ours_that_the_client_offers() {
    let (site, _server, service, lariat) =
        serve_as(Behaviour::Echo, |service| service.tls("alpn = ['h2', 'http/1.1']"));
    for (offered, chosen) in [("http/1.1,h2", "h2"), ("http/1.1", "http/1.1")] {
        let answer = s_client(&site, service.address, &["-alpn", offered]);
        let line = format!("ALPN protocol: {chosen}\n");
        answer.assert_stdout(&line);
    }
    let none = s_client(&site, service.address, &[]);
    none.assert_stdout("No ALPN negotiated");
    let other = s_client(&site, service.address, &["-alpn", "imap"]);
    other.assert_stderr("no application protocol");
    lariat.wait_for_reason("no-common-parameters", 1);
}
