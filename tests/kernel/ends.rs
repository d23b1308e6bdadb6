//! Ends of connections where the kernel encrypts: cleanly, with an alert, or abruptly.

use suite::kernel::{Bench, LARGE, SMALL, pattern};
use suite::prelude::*;

const HUGE: usize = 32 << 20;

#[test]
fn openssl_sees_close_notify() {
    let bench = Bench::files(|service| service);
    for (count, version) in [(1, "-tls1_2"), (2, "-tls1_3")] {
        let mut session = Talk::start_quiet(&bench.site, bench.service.address, &[version]);
        session.send("GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        // Without close_notify it fails with "unexpected eof".
        let Finished { status, stderr: said, .. } = session.wait();
        assert!(status.success(), "{said}");
        assert!(!said.contains("error"), "{said}");
        bench.wait_for_end_of(count);
    }
}

#[test]
fn a_half_closed_client_gets_the_rest_and_close_notify() {
    let bench = Bench::files(|service| service);
    for client in Client::of_each_version(&bench.site) {
        let mut connection = client.connect(bench.service.address);
        connection.ask("large");
        connection.end();
        connection.head();
        assert!(connection.read_to_end().unwrap() == pattern(LARGE));
    }
    bench.wait_for_end_of(2);
}

#[test]
fn nonsense_is_answered_by_an_alert_that_the_kernel_seals() {
    let bench = Bench::files(|service| service);
    for client in Client::of_each_version(&bench.site) {
        let mut connection = client.connect(bench.service.address);
        assert!(connection.fetch("large") == pattern(LARGE));
        let mut socket = connection.socket();
        // A record of application data that no key of ours opens.
        let record = [&[23, 3, 3, 0, 32][..], &[0x5a; 32]].concat();
        socket.write_all(&record).unwrap();
        let end = connection.read_to_end().unwrap_err().to_string();
        assert_has(&end, "BadRecordMac");
    }
    bench.wait_for_end_of(2);
}

#[test]
fn renegotiation_is_refused_by_a_warning_that_the_kernel_seals() {
    let bench = Bench::files(|service| service);
    let head = bench.head_length("large");
    let mut session = Talk::start_quiet(&bench.site, bench.service.address, &["-tls1_2"]);
    session.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    session.wait_for_bytes(head + LARGE);
    session.say("R");
    // OpenSSL takes the warning for the end.
    let Finished { status, stderr: said, .. } = session.wait();
    assert!(!status.success() && said.contains("no renegotiation"), "{said}");
    bench.wait_for_end_of(1);
}

#[test]
fn clients_that_leave_in_mid_file_leave_nothing_behind() {
    let bench = Bench::files(|service| service);
    bench.folder.write("huge", pattern(HUGE));
    let before = bench.descriptors().len();
    let visits = 20;
    for _ in 0..visits {
        for client in Client::of_each_version(&bench.site) {
            let mut connection = client.connect(bench.service.address);
            connection.ask("huge");
            connection.receive(300_000);
            // The client closes with bytes unread, or on their way: a reset.
        }
    }
    bench.wait_for_end_of(2 * visits);
    let count = || bench.descriptors().len();
    until_true("as few descriptors as before", || count() <= before);
    // If nothing was unread at that moment, its FIN comes before the reset.
    let ended = |reason: &str| {
        let reason = [("reason", reason)];
        bench.lariat.sum("lariat_connections_ended_total", &reason)
    };
    until_true("all to be ended by clients", || {
        let sum = ended("client-reset") + ended("client-truncated");
        sum == f64::from(2 * visits)
    });
}

/// Asks for more than the queues hold, and reads only after it has been given up.
fn assert_stalled_is_cut(bench: &Bench, ask: impl Fn(&mut Connection)) {
    let mut stalled = Client::of_each_version(&bench.site).map(|client| {
        let mut connection = client.connect(bench.service.address);
        ask(&mut connection);
        connection
    });
    bench.lariat.wait_for_reason("idle-timeout", 2);
    bench.wait_for_end_of(2);
    for connection in &mut stalled {
        let mut got = Vec::new();
        connection.read_to_cut(&mut got);
    }
}

/// Long enough for a loaded machine to begin.
const IDLE: &str = "timeouts = { idle = \"3s\" }";

#[test]
fn a_client_that_reads_no_file_is_given_up_and_not_told_that_it_has_all() {
    let bench = Bench::files(|service| service.more(IDLE));
    bench.folder.write("huge", pattern(HUGE));
    assert_stalled_is_cut(&bench, |connection| connection.ask("huge"));
}

#[test]
fn a_client_that_reads_no_relay_is_given_up_and_not_told_that_it_has_all() {
    let server = Server::start(Behaviour::Speak(pattern(HUGE)));
    let bench = Bench::relay(&server, |service| service.more(IDLE));
    // The relay is handed over when it has flowed for a while.
    assert_stalled_is_cut(&bench, |connection| {
        connection.receive(4 << 20);
    });
}

#[test]
fn others_go_on_while_one_client_stalls() {
    let bench = Bench::files(|service| service);
    bench.folder.write("huge", pattern(HUGE));
    let client = Client::new(&bench.site);
    let mut stalled = client.connect(bench.service.address);
    stalled.ask("huge");
    stalled.head();
    for _ in 0..5 {
        let mut connection = client.connect(bench.service.address);
        assert!(connection.fetch("large") == pattern(LARGE));
        assert_eq!(connection.fetch("small"), pattern(SMALL));
    }
    assert!(stalled.receive(HUGE) == pattern(HUGE), "in the end it reads");
    drop(stalled);
    bench.wait_for_end_of(6);
}
