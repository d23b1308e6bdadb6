//! A request in early data (0-RTT) whose answer is long: the kernel takes over after the handshake.

use suite::kernel::{Bench, LARGE, SMALL, pattern};
use suite::openssl::Talk;

#[test]
fn a_long_answer_to_early_data_arrives_whole() {
    let bench = Bench::files(|service| service.tls("early-data = \"16KiB\""));
    let path = |name: &str| bench.site.path(name).display().to_string();
    let (session, early) = (path("session"), path("early"));
    let request = |path: &str| format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let heads = ["small", "large"].map(|path| bench.head_length(path));
    bench.site.write("early", request("large"));
    let visit = |arguments: &[&str]| {
        let arguments = [&["-tls1_3"], arguments].concat();
        Talk::start_quiet(&bench.site, bench.service.address, &arguments)
    };
    let mut first = visit(&["-sess_out", &session]);
    first.send(&request("small"));
    first.wait_for_bytes(heads[0] + SMALL);
    assert!(first.quit().status.success());
    let mut second = visit(&["-sess_in", &session, "-early_data", &early]);
    let got = second.wait_for_bytes(heads[1] + LARGE);
    assert!(got.ends_with(&pattern(LARGE)));
    second.send(&request("small"));
    let got = second.wait_for_bytes(heads[1] + LARGE + heads[0] + SMALL);
    assert!(got.ends_with(&pattern(SMALL)));
    assert!(second.quit().status.success());
    bench.wait_for_end_of(1);
    let accepted = [("result", "accepted")];
    let early = "lariat_early_data_total";
    bench.lariat.wait_for_metric(early, &accepted, 1.0);
}
