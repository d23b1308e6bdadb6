//! A worker in virtual time, by seed: its own code over real sockets whose other ends the schedule
//! controls, as it does the order of events.
//!
//! Real are the kernel's sockets and epoll, TLS, and all code of the worker; scripted are the time,
//! what peers do and when, in which order events come, what has happened when they are handled, and
//! when a server's answer to a dial arrives. `verdict` checks each schedule. `SCHEDULES` sets how
//! many there are, `SEED` the first seed.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::Once;
use std::time::Duration;

use crate::clock;
use course::Simulation;
use host::{SERVICES, SimulatedHost};
use script::{ClientStep, Part, Script, ScriptStep};

mod course;
mod deeds;
mod host;
mod peers;
mod script;
mod verdict;

thread_local! {
    /// Whether panics are silent, because the search for the shortest failure reports them.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
    static PLACE: Cell<String> = const { Cell::new(String::new()) };
}

/// Makes the panics of schedules silent.
fn be_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |panic| {
            if IS_QUIET.get() {
                let place = panic.location().map(ToString::to_string);
                PLACE.set(place.unwrap_or_default());
            } else {
                loud(panic);
            }
        }));
    });
}

/// Runs a schedule, and judges it: returns for each connection its service and why it ended.
fn run(host: &SimulatedHost, script: &Script) -> Vec<(&'static str, String)> {
    let mut simulation = Simulation::new(host, script);
    simulation.follow();
    verdict::of_settled(&simulation);
    simulation.end();
    verdict::of_ended(simulation)
}

/// Runs a schedule likewise; the error is the message of a panic.
fn outcome(host: &SimulatedHost, script: &Script) -> Result<Vec<(&'static str, String)>, String> {
    IS_QUIET.set(true);
    let ended = catch_unwind(AssertUnwindSafe(|| run(host, script)));
    IS_QUIET.set(false);
    clock::simulated::end();
    Simulation::clear(host, script);
    ended.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        format!("{} ({})", text.unwrap_or("a panic"), PLACE.take())
    })
}

/// Finds the same failure with fewer steps, on a new host for each run.
fn shrunk(script: Script) -> (Script, String) {
    let again = |script: &Script| outcome(&SimulatedHost::new(), script).err();
    let mut least = script;
    let mut words = again(&least).unwrap_or_else(|| "another host does not repeat it".to_owned());
    let mut at = 0;
    while at < least.steps.len() {
        let mut fewer = least.clone();
        fewer.steps.remove(at);
        match again(&fewer) {
            Some(said) => (least, words) = (fewer, said),
            None => at += 1,
        }
    }
    (least, words)
}

fn number_of(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// Runs the schedules of these seeds; counts why connections of which services ended.
fn run_seeds(seeds: impl Iterator<Item = u64>) -> BTreeMap<(&'static str, String), usize> {
    let (host, mut ends) = (SimulatedHost::new(), BTreeMap::new());
    for seed in seeds {
        let script = script::write(seed);
        match outcome(&host, &script) {
            Ok(all) => all.into_iter().for_each(|end| *ends.entry(end).or_default() += 1),
            Err(words) => {
                let (least, again) = shrunk(script);
                panic!(
                    "{words}\nRepeat it: SEED={seed} SCHEDULES=1 cargo test -p proxy --lib \
                     simulation\nWith fewer steps: {again}\n{}",
                    least.tell()
                );
            }
        }
    }
    ends
}

#[test]
fn no_order_of_events_breaks_what_must_hold() {
    be_quiet();
    let (first, count) = (number_of("SEED", 1), number_of("SCHEDULES", 3000));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let seeds = |thread| (first..first + count).skip(thread).step_by(threads);
    let mut ends = BTreeMap::<(&str, String), usize>::new();
    std::thread::scope(|scope| {
        let run = |thread| scope.spawn(move || run_seeds(seeds(thread)));
        let all: Vec<_> = (0..threads).map(run).collect();
        for thread in all {
            let some = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            some.into_iter().for_each(|(end, count)| *ends.entry(end).or_default() += count);
        }
    });
    for ((service, reason), count) in &ends {
        println!("{service}: {reason}: {count}");
    }
    let reasons: BTreeSet<_> = ends.keys().map(|(_, reason)| reason).collect();
    assert!(count < 3000 || reasons.len() >= 20, "the seeds reach few ends: {reasons:?}");
}

/// Makes a schedule by hand.
fn scripted(service: &str, steps: &[ScriptStep]) -> Script {
    let service = SERVICES.iter().position(|kind| kind.name == service);
    let part = Part {
        service: service.expect("there is such a service"),
        bytes: 300,
        ends_first: true,
        is_tls13: true,
        is_odd: true,
    };
    Script {
        seed: 0,
        clients: vec![part],
        replies: [(300, true); 4],
        connections_max: 1000,
        connects_later: true,
        look: Duration::ZERO,
        never_answers: false,
        ignores_stalls: true,
        steps: steps.to_vec(),
    }
}

/// Each schedule failed once; its message says what it found.
#[test]
fn schedules_that_have_found_something_hold() {
    use ClientStep::{Reads, Says};
    use ScriptStep as Step;
    be_quiet();
    let all = usize::MAX;
    let (says, reads) = (Step::Client(0, Says(all)), Step::Client(0, Reads(all)));
    let due = Step::DeadlineIsDue(0, 60_000);
    let connects = Step::ClientConnects(0);
    let (held, let_go) = (Step::DialsAreHeld(true), Step::DialsAreHeld(false));
    let mut failures = Vec::new();
    for (what, service, steps) in [
        (
            "a server's answer in the turn of its dial timeout: another got the client's bytes",
            "plain-header",
            &[connects, held, says, Step::Turn, let_go, due][..],
        ),
        (
            "a dial's timer after a stall: its server had failed, though its answer had come",
            "plain-header",
            &[connects, held, says, Step::Turn, Step::EventsAreTaken(0), let_go, due],
        ),
        (
            "a PROXY header, data and the end in one packet: the data were dropped",
            "plain-header",
            &[connects, Step::Turn],
        ),
        ("new keys in the packet of a command under STARTTLS: an abort", "smtp", &[connects]),
        (
            "a drain after the lifetime's close_notify: the connection counted as cut by the drain",
            "tls-header",
            &[
                connects,
                says,
                Step::Turn,
                reads,
                says,
                Step::Turn,
                Step::Drain(Duration::from_secs(1)),
                Step::TimerIsDue,
                Step::Turn,
                due,
            ],
        ),
    ] {
        let ended = outcome(&SimulatedHost::new(), &scripted(service, steps));
        failures.extend(ended.err().map(|words| format!("{what}: {words}")));
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
