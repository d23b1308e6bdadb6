//! KeyUpdate amid a connection (RFC 8446 section 4.6.3), where the kernel encrypts.

use suite::kernel::{Bench, KernelCounts, LARGE, SMALL, pattern};
use suite::prelude::*;

const GET_SMALL: &str = "GET /small HTTP/1.1\r\nHost: localhost\r\n\r\n";
const GET_LARGE: &str = "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Waits for a body at the end of what was received; `head_and` counts all bytes so far.
fn wait_for(session: &mut Talk, head_and: &mut usize, body: &[u8]) {
    *head_and += body.len();
    let got = session.wait_for_bytes(*head_and);
    assert!(got.ends_with(body), "other bytes");
}

fn can_rekey() -> bool {
    KernelCounts::read().rekeys.is_some()
}

fn rekeys(bench: &Bench) -> f64 {
    bench.lariat.sum("lariat_ktls_rekeys_total", &[])
}

#[test]
fn a_client_that_changes_only_its_own_keys_goes_on() {
    let bench = Bench::files(|service| service);
    let head = bench.head_length("large");
    let mut session = Talk::start_quiet(&bench.site, bench.service.address, &["-tls1_3"]);
    let mut expected = 0;
    for _ in 0..5 {
        session.send(GET_LARGE);
        expected += head;
        wait_for(&mut session, &mut expected, &pattern(LARGE));
        session.update_keys(false);
    }
    let Finished { status, stderr: said, .. } = session.quit();
    assert!(status.success(), "{said}");
    bench.wait_for_end_of(1);
    assert_eq!(rekeys(&bench), 0.0);
    assert_eq!(bench.counts().rekeys.unwrap_or(0), 0);
}

#[test]
fn a_client_that_asks_for_new_keys_gets_them_or_a_clean_word() {
    let bench = Bench::files(|service| service);
    let head = bench.head_length("large");
    let mut session = Talk::start_quiet(&bench.site, bench.service.address, &["-tls1_3"]);
    // Once before the hand-over: that one is ours.
    session.update_keys(true);
    session.send(GET_LARGE);
    let mut expected = head;
    wait_for(&mut session, &mut expected, &pattern(LARGE));
    session.update_keys(true);
    if !can_rekey() {
        let Finished { status, stderr: said, .. } = session.wait();
        assert!(!status.success() && said.contains("alert"), "{said}");
        bench.lariat.wait_for_reason("kernel-rekey", 1);
        bench.wait_for_end_of(1);
        return;
    }
    let small_head = bench.head_length("small");
    for round in 1..=20u32 {
        session.send(GET_SMALL);
        expected += small_head;
        wait_for(&mut session, &mut expected, &pattern(SMALL));
        assert_eq!(rekeys(&bench), f64::from(round));
        session.update_keys(true);
    }
    session.send(GET_LARGE);
    expected += head;
    wait_for(&mut session, &mut expected, &pattern(LARGE));
    let Finished { status, stderr: said, .. } = session.quit();
    assert!(status.success(), "{said}");
    bench.wait_for_end_of(1);
    let kernel = bench.counts().rekeys.unwrap();
    assert_eq!(rekeys(&bench), kernel as f64);
    assert!(kernel >= 20, "{kernel}");
}

#[test]
fn keys_change_while_a_file_is_on_its_way() {
    const HUGE: usize = 32 << 20;
    let bench = Bench::files(|service| service);
    let whole = pattern(HUGE);
    bench.folder.write("huge", &whole);
    let mut connection = Client::new(&bench.site).connect(bench.service.address);
    connection.ask("huge");
    connection.head();
    let mut got = connection.receive(1 << 20);
    if !can_rekey() {
        connection.change_keys();
        let end = connection.read_on(&mut got).unwrap_err();
        assert!(end.to_string().contains("alert"), "{end}");
        assert!(got == whole[..got.len()], "nothing but a beginning");
        bench.lariat.wait_for_reason("kernel-rekey", 1);
        return;
    }
    for _ in 0..10 {
        connection.change_keys();
        got.extend(connection.receive(1 << 20));
    }
    got.extend(connection.receive(HUGE - got.len()));
    assert!(got == whole);
    assert_eq!(connection.fetch("small"), pattern(SMALL));
    drop(connection);
    bench.wait_for_end_of(1);
    assert_eq!(rekeys(&bench), bench.counts().rekeys.unwrap() as f64);
}

#[test]
fn keys_change_both_ways_while_a_relay_is_spliced() {
    let server = Server::start(Behaviour::Greet(pattern(16 << 20)));
    let bench = Bench::relay(&server, |service| service);
    let mut connection = Client::new(&bench.site).connect(bench.service.address);
    let mut got = connection.receive(8 << 20);
    assert_eq!(bench.counts().taken, 1);
    if !can_rekey() {
        connection.change_keys();
        let end = connection.read_on(&mut got).unwrap_err();
        assert!(end.to_string().contains("alert"), "{end}");
        bench.lariat.wait_for_reason("kernel-rekey", 1);
        return;
    }
    let mut sent = Vec::new();
    for piece in pattern(1 << 20).chunks(64 << 10) {
        connection.change_keys();
        connection.send(piece);
        sent.extend_from_slice(piece);
        got.extend(connection.receive(256 << 10));
    }
    connection.end();
    connection.read_on(&mut got).unwrap();
    assert!(got == [pattern(16 << 20), sent.clone()].concat());
    assert!(server.wait_for_end(1).bytes == sent);
    bench.wait_for_end_of(1);
    assert_eq!(rekeys(&bench), bench.counts().rekeys.unwrap() as f64);
    assert!(rekeys(&bench) >= 1.0);
}
