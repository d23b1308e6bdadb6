//! A flood of new sessions stays within the cache's limits and evicts no regular client.

use suite::prelude::*;

const ENTRIES: u64 = 200;
/// The smallest cache that can be configured; it has room for more sessions than that.
const BYTES: f64 = 65_536.0;
const REGULARS: usize = 40;
const FLOOD: u64 = 1000;

#[test]
fn a_flood_of_new_sessions_washes_itself_out() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let lariat = Lariat::start(&format!(
        "[workers]\nthreads = 2\n\
         [resumption]\nsession-cache = {{ entries = {ENTRIES}, bytes = '64KiB' }}\n{}",
        service.toml()
    ));
    let regulars: Vec<_> = (0..REGULARS).map(|_| Client::without_tickets(&site)).collect();
    let resumed = || {
        let visit = |client: &&Client| {
            let connection = client.echo(service.address);
            connection.kind() == HandshakeKind::Resumed
        };
        regulars.iter().filter(visit).count()
    };
    assert_eq!(resumed(), 0);
    // A client that comes back once is a regular client.
    assert_eq!(resumed(), REGULARS);
    let flood = Load::of(service.address)
        .args(&format!("--no-request --tls 1.2 --tickets off --count {FLOOD}"))
        .record();
    assert_eq!(flood.kinds(), [FLOOD, 0, 0, 0]);
    let metrics = lariat.metrics();
    let cache = |what: &str| metrics.sum(&format!("lariat_session_cache_{what}"), &[]);
    let held = cache("entries");
    assert!(held <= ENTRIES as f64 && cache("bytes") <= BYTES, "{held}");
    // All stored sessions are there, or were evicted: none is lost, and the flood was one.
    let stored = (REGULARS as u64 + FLOOD) as f64;
    assert_eq!(cache("evictions_total"), stored - held);
    assert!(held >= ENTRIES as f64 / 2.0, "{held}");
    assert_eq!(resumed(), REGULARS);
}
