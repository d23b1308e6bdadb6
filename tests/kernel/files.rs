//! Long files go from the kernel's cache to the client without passing through us.

use std::fs::OpenOptions;

use suite::kernel::{Bench, LARGE, SMALL, pattern};
use suite::prelude::*;

#[test]
fn the_counters_of_the_service_and_of_the_kernel_agree() {
    let bench = Bench::files(|service| service);
    for (count, client) in [1, 2].into_iter().zip(Client::of_each_version(&bench.site)) {
        let mut connection = client.connect(bench.service.address);
        assert!(connection.fetch("large") == pattern(LARGE));
        let counts = bench.counts();
        assert_eq!((counts.taken, counts.sealing), (count, 1), "{counts:?}");
        let open = [("service", "web")];
        let metrics = bench.lariat.metrics();
        assert_eq!(metrics.sum("lariat_ktls_connections_open", &open), 1.0);
        connection.finish();
        drop(connection);
        bench.wait_for_end_of(count as u32);
    }
    let line = bench.lariat.wait_for_line(&["TLSv1.3"]);
    assert_eq!(line["encrypted_by"], "kernel", "{line}");
    assert_eq!(bench.sent("sendfile"), 2.0 * LARGE as f64);
    assert_eq!(bench.sent("splice"), 0.0);
}

#[test]
fn small_responses_are_ours() {
    let bench = Bench::files(|service| service);
    bench.folder.write("below", pattern((128 << 10) - 1));
    for client in Client::of_each_version(&bench.site) {
        let mut connection = client.connect(bench.service.address);
        for _ in 0..20 {
            assert_eq!(connection.fetch("small"), pattern(SMALL));
            assert!(connection.fetch("below") == pattern((128 << 10) - 1));
        }
    }
    let line = bench.lariat.wait_for_line(&["TLSv1.2"]);
    assert_eq!(line["encrypted_by"], "user-space", "{line}");
    assert_eq!(bench.sent("sendfile") + bench.sent("kernel"), 0.0);
    bench.wait_for_end_of(0);
}

#[test]
fn the_setting_says_from_which_length_on() {
    let from = "ktls = { mode = \"auto\", min-size = \"1MiB\" }";
    let bench = Bench::files(|service| service.tls(from));
    for (name, length) in [("below", (1 << 20) - 1), ("exactly", 1 << 20)] {
        bench.folder.write(name, pattern(length));
        let got = curl_tls_for(&bench.site, bench.service.address, &[name]).bytes();
        assert!(got == pattern(length));
    }
    bench.wait_for_end_of(1);
    assert_eq!(bench.sent("sendfile"), f64::from(1 << 20));
}

#[test]
fn nothing_is_handed_over_where_that_is_off() {
    let bench = Bench::files(|service| service.tls("ktls = \"off\""));
    for client in Client::of_each_version(&bench.site) {
        let mut connection = client.connect(bench.service.address);
        assert!(connection.fetch("large") == pattern(LARGE));
    }
    bench.wait_for_end_of(0);
    assert!(bench.sent("user-space") >= 2.0 * LARGE as f64);
    assert_eq!(bench.sent("sendfile") + bench.sent("kernel"), 0.0);
    let refused = bench.lariat.sum("lariat_ktls_refusals_total", &[]);
    assert_eq!(refused, 0.0, "nothing was asked for");
}

#[test]
fn ranges_are_what_was_asked_for() {
    let bench = Bench::files(|service| service);
    let whole = pattern(LARGE);
    for client in Client::of_each_version(&bench.site) {
        let mut connection = client.connect(bench.service.address);
        for (range, wanted) in [
            ("0-", &whole[..]),
            ("1000000-2999999", &whole[1_000_000..3_000_000]),
            ("-1000001", &whole[LARGE - 1_000_001..]),
            ("4194303-4194304", &whole[4_194_303..=4_194_304]),
            ("7-7", &whole[7..=7]),
        ] {
            connection.ask_with("large", &format!("Range: bytes={range}\r\n"));
            let (head, body) = connection.response();
            assert!(head.starts_with("HTTP/1.1 206 "), "{head}");
            assert!(body == wanted, "{range}");
        }
        connection.ask_with("large", "Range: bytes=9999999-\r\n");
        assert!(connection.response().0.starts_with("HTTP/1.1 416 "));
    }
    bench.wait_for_end_of(2);
}

#[test]
fn parts_of_several_ranges_are_between_their_boundaries() {
    let bench = Bench::files(|service| service);
    let whole = pattern(LARGE);
    let mut connection = Client::new(&bench.site).connect(bench.service.address);
    // The whole first, so that the kernel encrypts whatever the parts are.
    assert!(connection.fetch("large") == whole);
    let parts = [0..1_500_000, 2_000_000..2_000_100, 2_500_000..4_000_000];
    let asked = parts.each_ref().map(|part| format!("{}-{}", part.start, part.end - 1));
    connection.ask_with("large", &format!("Range: bytes={}\r\n", asked.join(",")));
    let (head, body) = connection.response();
    assert!(head.starts_with("HTTP/1.1 206 "), "{head}");
    let boundary = head.split_once("boundary=").unwrap().1;
    let boundary = boundary.lines().next().unwrap().trim_matches('"');
    let mut rest = &body[..];
    for part in parts {
        let place = format!("bytes {}-{}/{LARGE}\r\n", part.start, part.end - 1);
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(rest[..end + 2].to_vec()).unwrap();
        assert!(head.contains(boundary) && head.contains(&place), "{head}");
        let (bytes, after) = rest[end + 4..].split_at(part.len());
        assert!(bytes == &whole[part], "{place}");
        rest = after;
    }
    assert_eq!(rest, format!("\r\n--{boundary}--\r\n").as_bytes());
    drop(connection);
    bench.wait_for_end_of(1);
}

#[test]
fn requests_in_one_piece_are_answered_in_order_across_the_hand_over() {
    let bench = Bench::files(|service| service);
    for client in Client::of_each_version(&bench.site) {
        let mut connection = client.connect(bench.service.address);
        let request = |path: &str| format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let head = "HEAD /large HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned();
        let all = ["small", "large", "small", "none", "large"].map(request);
        connection.send((all.concat() + &head + &request("small")).as_bytes());
        for (status, body) in [
            ("200", Some(pattern(SMALL))),
            ("200", Some(pattern(LARGE))),
            ("200", Some(pattern(SMALL))),
            ("404", None),
            ("200", Some(pattern(LARGE))),
        ] {
            let (head, got) = connection.response();
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
            assert!(body.is_none_or(|body| got == body));
        }
        assert!(connection.head().contains(&format!(": {LARGE}\r\n")));
        assert_eq!(connection.response().1, pattern(SMALL));
        connection.finish();
    }
    bench.wait_for_end_of(2);
    assert!(bench.sent("sendfile") >= 4.0 * LARGE as f64);
    assert!(bench.sent("kernel") > 0.0, "what is short, after the hand-over");
}

/// Too large to lie in the connection's queues at once.
const HUGE: usize = 32 << 20;

#[test]
fn a_file_that_shrinks_is_cut_and_never_padded() {
    let bench = Bench::files(|service| service);
    let whole = pattern(HUGE);
    // A length below what has been sent, and one above.
    for (client, left) in Client::of_each_version(&bench.site).iter().zip([2 << 20, 24 << 20]) {
        let path = bench.folder.write("huge", &whole);
        let mut connection = client.connect(bench.service.address);
        connection.ask("huge");
        assert!(connection.head().contains(&format!(": {HUGE}\r\n")));
        let mut got = connection.receive(1 << 20);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(left).unwrap();
        connection.read_to_cut(&mut got);
        assert!(got.len() < HUGE && got == whole[..got.len()], "{}", got.len());
    }
    bench.lariat.wait_for_reason("file-failed", 2);
    bench.wait_for_end_of(2);
}

#[test]
fn a_file_that_is_replaced_is_sent_to_its_end() {
    let bench = Bench::files(|service| service);
    let whole = pattern(HUGE);
    bench.folder.write("huge", &whole);
    let mut connection = Client::new(&bench.site).connect(bench.service.address);
    connection.ask("huge");
    connection.head();
    let new = bench.folder.write("new", "other");
    fs::rename(new, bench.folder.join("huge")).unwrap();
    assert!(connection.receive(HUGE) == whole);
    assert_eq!(connection.fetch("huge"), b"other");
    drop(connection);
    bench.wait_for_end_of(1);
}

#[test]
fn a_file_is_closed_when_it_has_been_sent() {
    let bench = Bench::files(|service| service);
    let mut connection = Client::new(&bench.site).connect(bench.service.address);
    connection.ask("large");
    connection.response();
    let large = bench.folder.join("large");
    until_true("the file to be closed", || !bench.descriptors().contains(&large));
}
