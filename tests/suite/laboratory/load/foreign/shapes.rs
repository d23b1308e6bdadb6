//! Arrival of load: as many transactions as the plan says, and the rates of a search.

use suite::nginx::Nginx;
use suite::prelude::*;

fn nginx(site: &Site) -> Nginx {
    Nginx::terminate(&site.path("site.pem"), "")
}

#[test]
fn an_even_rate_brings_as_many_as_it_says() {
    let site = Site::new();
    for (how, attempted) in [
        ("--rate 40 --duration 1500ms", 60),
        ("--rate 12.5 --duration 800ms", 10),
        ("--rate 1000 --duration 1h --count 70", 70),
        ("--steps 20,10,30 --step-duration 500ms", 30),
        ("--ramp 0:60:1s", 30),
        ("--ramp 10:50:500ms --duration 1s", 40),
    ] {
        let nginx = nginx(&site);
        let record = Load::alone(nginx.address).args(how).record();
        let [all, answered, _] = record.totals();
        assert_eq!(all, attempted, "{how}");
        assert_eq!(answered, nginx.end().len() as u64, "{how}");
        // The only failures allowed are those of a busy host.
        let busy = ["clients-exhausted", "schedule-overrun"];
        let failures = record.failures();
        assert!(failures.keys().all(|reason| busy.contains(&reason.as_str())), "{failures:?}");
    }
}

#[test]
fn clients_that_come_once_cannot_resume_and_are_told_so() {
    let site = Site::new();
    let nginx = nginx(&site);
    let warnings = |clients| {
        let record = Load::alone(nginx.address)
            .args("--rate 40 --duration 1s --handshake ticket --clients")
            .arg(clients)
            .record();
        record.at("/warnings").to_string()
    };
    assert!(warnings("40").contains("40 clients made 40 transactions"));
    assert!(!warnings("20").contains("clients made"));
}

#[test]
fn each_step_has_its_own_counts() {
    let site = Site::new();
    let nginx = nginx(&site);
    let record = Load::alone(nginx.address).args("--steps 20,10,30 --step-duration 1s").record();
    let steps = record.list("/steps").iter();
    let attempted: Vec<_> =
        steps.map(|step| step["counts"]["attempted"].as_u64().unwrap()).collect();
    assert_eq!(attempted, [20, 10, 30]);
}

#[test]
fn chance_repeats_itself_by_its_seed() {
    let site = Site::new();
    let nginx = nginx(&site);
    let of_seed = |seed| {
        let record = Load::alone(nginx.address)
            .args("--rate 50 --duration 2s --spacing poisson --seed")
            .arg(seed)
            .record();
        record.seconds("attempted")[..2].to_vec()
    };
    let first = of_seed("1");
    assert_eq!(first, of_seed("1"));
    let others = ["2", "3", "4"].map(of_seed);
    assert!(others.iter().any(|other| *other != first), "{others:?}");
    // Five standard deviations of a Poisson process on either side of 100.
    let sum: u64 = first.iter().sum();
    assert!((50..=150).contains(&sum), "{first:?}");
}

/// Ten users of four requests, and none after them.
const TEN_USERS: &str = "--session-arrivals --ramp 400:0:200ms --duration 60s --clients 50 \
                         --handshake ticket --requests-per-session 4";

#[test]
fn users_bring_a_session_each_and_those_who_fail_give_up() {
    let site = Site::new();
    let nginx = nginx(&site);
    let load = Load::alone(nginx.address).args(TEN_USERS);
    let loaded = load.args("--count 40").run();
    let record = loaded.record();
    assert_eq!(record.totals(), [40, 40, 0], "{:?}", record.failures());
    assert_eq!(record.kinds(), [10, 0, 30, 0]);
    assert_eq!(record.flag("session-arrivals"), "true");
    let log = nginx.end();
    let of = |state| {
        let lines = log.iter();
        lines.filter(|line| line.field("session_reused") == state).count()
    };
    assert_eq!((of("."), of("r")), (10, 30));
    let told = &loaded.finished.stdout;
    assert_has(told, "to bring 4 requests");
    // Without tickets the second request of each fails, and the rest are never made.
    let nginx = Nginx::terminate(&site.path("site.pem"), "ssl_session_tickets off;");
    let load = Load::alone(nginx.address).args(TEN_USERS);
    let record = load.args("--count 20").run().record();
    assert_eq!(record.totals(), [20, 10, 10]);
    assert_eq!(record.reason(), "resumption-not-offered");
    assert_eq!(nginx.end().len(), 20);
}

#[test]
fn what_cannot_begin_has_failed() {
    let server = Server::start(Behaviour::Swallow);
    let record = Load::alone(server.address().parse().unwrap())
        .args("--rate 50 --duration 1s --clients 3 --timeout 2s")
        .run()
        .record();
    assert_eq!(record.totals(), [50, 0, 50]);
    let failures = record.failures();
    let count = |reason: &str| failures.get(reason).copied().unwrap_or_default();
    assert_eq!(count("clients-exhausted") + count("schedule-overrun"), 47, "{failures:?}");
    assert_eq!(count("handshake-timeout"), 3, "{failures:?}");
}

#[test]
fn a_search_finds_a_rate_and_reads_the_four_off() {
    let (site, origin) = (Site::new(), Origin::start());
    // Two connections and 20 ms a reply: at most 100 transactions a second are possible.
    let service = Service::new(&site, origin.address).more("limits = { connections = 2 }");
    let _lariat = service.start();
    let port = service.address.port();
    let load = Load::bare()
        .arg(format!("https://localhost:{port}/?size=1k&time=20"))
        .args("--find-capacity --step-duration 1s --rate 40 --limit mean<20s,error-rate<50%")
        .args("--clients 50 --threads 1 --cpus none --precision 50%")
        .args(&format!("--connect {}", service.address))
        .run();
    assert_eq!(load.finished.code(), 0, "{:?}", load.finished);
    let record = load.record();
    let mut points: Vec<_> = record.list("/steps").iter().map(Point::of).collect();
    points.sort_by(|a, b| a.offered.total_cmp(&b.offered));
    // The majority of the trials of a rate decides. Compares the least rate that broke the limit,
    // and the one before it.
    let rates: Vec<_> = points.chunk_by(|a, b| a.offered == b.offered).collect();
    let kept = |trials: &[Point]| {
        let kept: Vec<_> = trials.iter().filter(|point| point.error_rate < 0.5).collect();
        let least = kept.iter().map(|point| point.succeeded).min_by(f64::total_cmp);
        least.filter(|_| 2 * kept.len() > trials.len())
    };
    let broken = rates.iter().find(|trials| kept(trials).is_none());
    let capacity = |name: &str| record.at(&format!("/capacity/{name}_per_s")).as_f64();
    let found = rates.iter().map_while(|trials| kept(trials)).last();
    assert_eq!(capacity("found"), found, "{points:?}");
    assert_eq!(capacity("broken_at"), broken.map(|trials| trials[0].offered), "{points:?}");
    let read_off = |name: &str| capacity(&format!("read_offs/{name}"));
    assert_eq!(read_off("peak"), greatest(points.iter()));
    // A limit ends where it is first broken.
    let until = |is_kept: fn(&&Point) -> bool| greatest(points.iter().take_while(is_kept));
    assert_eq!(read_off("under_100_ms"), until(|point| point.mean_ns < 100e6));
    assert_eq!(read_off("under_500_ms"), until(|point| point.mean_ns < 500e6));
    assert_eq!(read_off("few_errors"), until(|point| point.error_rate < 1e-4));
    assert!(load.finished.stdout.contains("Capacity"), "{load:?}");
}

#[derive(Debug)]
struct Point {
    offered: f64,
    succeeded: f64,
    error_rate: f64,
    mean_ns: f64,
}

impl Point {
    fn of(step: &Value) -> Self {
        let number = |name: &str| step["point"][name].as_f64().unwrap();
        Self {
            offered: number("offered_per_s"),
            succeeded: number("succeeded_per_s"),
            error_rate: number("error_rate"),
            mean_ns: number("mean_ns"),
        }
    }
}

/// Returns the greatest rate of successes.
fn greatest<'a>(points: impl Iterator<Item = &'a Point>) -> Option<f64> {
    let rates = points.map(|point| point.succeeded);
    rates.filter(|rate| *rate > 0.0).max_by(f64::total_cmp)
}

#[test]
fn a_search_in_vain_says_so() {
    let load =
        Load::alone(free_address()).args("--find-capacity --step-duration 1s --rate 1").run();
    // Not one transaction succeeded: the stronger word.
    assert_eq!(load.finished.code(), 4, "{:?}", load.finished);
    assert!(load.record().at("/capacity/found_per_s").is_null());
    assert_eq!(load.record().reason(), "connect-refused");
}
