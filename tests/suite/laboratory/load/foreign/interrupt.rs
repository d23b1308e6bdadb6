//! A load that is told to stop writes the record of what was done.

use suite::load::Loaded;
use suite::nginx::Nginx;
use suite::prelude::*;

/// Begins a load of an hour, and stops it when a server has done ten things.
fn stopped(nginx: &Nginx, how: &str, signal: Signal) -> Loaded {
    let mut load = Load::alone(nginx.address).args(how).start();
    until_true("ten answers", || {
        load.assert_running();
        nginx.log().len() >= 10
    });
    load.signal(signal);
    load.wait()
}

#[test]
fn what_was_done_is_in_the_record() {
    let site = Site::new();
    for (how, signal) in [
        ("--connections 2 --duration 1h", Signal::INT),
        ("--connections 2 --requests-per-connection unlimited", Signal::INT),
        ("--rate 50 --duration 1h", Signal::INT),
        ("--ramp 20:50:1h --spacing poisson", Signal::TERM),
    ] {
        let nginx = Nginx::terminate(&site.path("site.pem"), "");
        let loaded = stopped(&nginx, how, signal);
        assert_eq!(loaded.finished.code(), 0, "{how}: {:?}", loaded.finished);
        assert!(loaded.finished.stderr.contains("Ending early"), "{loaded:?}");
        let record = loaded.record();
        assert_eq!(record.at("/ending"), "interrupted", "{how}");
        let [_, succeeded, _] = record.totals();
        assert_eq!(succeeded, nginx.end().len() as u64, "{how}: {record:?}");
        assert!(loaded.finished.stdout.contains("nterrupted"), "{loaded:?}");
    }
}

#[test]
fn what_was_under_way_has_failed_for_that_reason() {
    let server = Server::start(Behaviour::Swallow);
    let address: SocketAddr = server.address().parse().unwrap();
    let load = Load::of(address).args("--timeout 1h").start();
    server.wait_until(|seen| seen.iter().filter(|one| !one.bytes.is_empty()).count() == 2);
    load.signal(Signal::INT);
    let loaded = load.wait();
    // No transaction succeeded.
    assert_eq!(loaded.finished.code(), 4, "{:?}", loaded.finished);
    let record = loaded.record();
    assert_eq!(record.at("/ending"), "interrupted");
    assert_eq!(record.totals(), [2, 0, 2]);
    assert_eq!(record.reason(), "interrupted");
}

#[test]
fn a_search_tells_what_it_had_found() {
    let site = Site::new();
    let nginx = Nginx::terminate(&site.path("site.pem"), "");
    let how = "--find-capacity --rate 20 --step-duration 1h";
    let loaded = stopped(&nginx, how, Signal::INT);
    let record = loaded.record();
    assert_eq!(record.at("/ending"), "interrupted");
    assert!(record.at("/capacity/found_per_s").is_null());
    // No rate was tried to its end.
    assert_eq!(loaded.finished.code(), 5, "{:?}", loaded.finished);
    // Each rate begins with a warm-up.
    let succeeded = record.number("/warm_up/succeeded") + record.totals()[1];
    assert_eq!(succeeded, nginx.end().len() as u64);
}
