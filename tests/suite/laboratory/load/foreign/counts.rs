//! `lariat-lab load` counts what the server counts, to the last handshake.

use suite::load::Record;
use suite::nginx::{Line, Nginx};
use suite::prelude::*;

/// Flags, and what `--requests-per-session 4` makes of 40 transactions of two clients: the kinds
/// full, session id, ticket, PSK, and how many transactions had no handshake.
const LOADS: [(&str, [u64; 4], u64); 8] = [
    ("--handshake full --tls 1.2", [40, 0, 0, 0], 0),
    ("--handshake full --tls 1.3", [40, 0, 0, 0], 0),
    ("--handshake session-id --requests-per-session 4", [10, 30, 0, 0], 0),
    ("--handshake ticket --requests-per-session 4", [10, 0, 30, 0], 0),
    ("--handshake psk --requests-per-session 4", [10, 0, 0, 30], 0),
    ("--handshake full --requests-per-connection 5", [8, 0, 0, 0], 32),
    ("--handshake psk --requests-per-session 4 --requests-per-connection 2", [10, 0, 0, 10], 20),
    ("--handshake ticket --requests-per-session 4 --requests-per-connection 3", [10, 0, 10, 0], 20),
];

fn load(load: Load, flags: &str) -> Record {
    // One client each, because another's transactions would cut the last session short.
    load.args(flags).args("--count 40").record()
}

/// Reports whether a line is of a connection's first request, which is when there was a handshake.
fn has_handshake(line: &&Line) -> bool {
    line.field("connection_requests") == "1"
}

/// Counts full and resumed handshakes in a log.
fn handshakes(log: &[Line]) -> [u64; 2] {
    let count = |reused| {
        let lines = log.iter().filter(has_handshake);
        lines.filter(|line| line.field("session_reused") == reused).count() as u64
    };
    [count("."), count("r")]
}

#[test]
fn nginx_has_logged_what_the_record_tells() {
    let site = Site::new();
    for (flags, kinds, kept) in LOADS {
        let nginx = Nginx::terminate(
            &site.path("site.pem"),
            "ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:sessions:1m;",
        );
        let record = load(Load::alone(nginx.address).args("--connections 1"), flags);
        assert_eq!(record.kinds(), kinds, "{flags}");
        let log = nginx.end();
        let [full, resumed] = handshakes(&log);
        assert_eq!(full, kinds[0], "{flags}");
        assert_eq!(resumed, kinds[1..].iter().sum::<u64>(), "{flags}");
        assert_eq!(log.len() as u64, full + resumed + kept, "{flags}");
        assert_eq!(record.totals(), [40, 40, 0], "{flags}");
        assert_eq!(record.number("/traffic/connections"), full + resumed);
        assert_eq!(record.number("/traffic/body_bytes"), 40 * "ok".len() as u64);
    }
}

#[test]
fn lariat_has_counted_what_the_record_tells() {
    let (_site, _server, service, lariat) = serve(http());
    let mut sums = [0; 4];
    for (flags, kinds, _) in LOADS {
        let record = load(Load::alone(service.address).args("--connections 1"), flags);
        assert_eq!(record.kinds(), kinds, "{flags}");
        for (sum, count) in sums.iter_mut().zip(kinds) {
            *sum += count;
        }
        lariat.wait_for_metric("lariat_connections_open", &[], 0.0);
        assert_eq!(counted(&lariat), sums, "{flags}");
    }
}

#[test]
fn clients_of_all_kinds_in_open_load_are_counted_alike_by_both_sides() {
    let (_site, _server, service, lariat) = serve(http());
    let url = format!("https://localhost:{}/", service.address.port());
    let record = Load::bare()
        .arg(url)
        .args(&format!("--connect {} --threads 2 --cpus none", service.address))
        .args("--handshake mixed --requests-per-session 3 --rate 60 --duration 2s --clients 12")
        .args("--warm-up 1s")
        .record();
    lariat.wait_for_metric("lariat_connections_open", &[], 0.0);
    let kinds = record.kinds();
    assert_eq!(kinds, counted(&lariat));
    // Handshakes of the warm-up are counted, its transactions apart.
    let begun = record.number("/warm_up/attempted") + record.totals()[0];
    assert_eq!(begun, 180);
    assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
}

/// Returns handshakes in lariat's metrics: full, by session id, by ticket, by PSK.
fn counted(lariat: &Lariat) -> [u64; 4] {
    let metrics = lariat.metrics();
    ["full", "session-id", "ticket", "psk"]
        .map(|kind| metrics.sum("lariat_handshakes_total", &[("kind", kind)]) as u64)
}
