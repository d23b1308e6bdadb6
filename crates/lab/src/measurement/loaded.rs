//! A load of ours, and what server and machine did meanwhile.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use load::outcome::{Frame, Outcome};
use load::plan::{Arrival, Plan};
use load::run::{self, Run, Stopper};
use measure::record::{Ending, Host, Record};

use super::missed::{Halt, Missed};
use super::usage::{Usage, Used, Watched};
use crate::process::tree::Tree;

/// Memory is looked at so long before the last transaction begins, or a tenth of the load before.
const BEFORE_END_MAX: Duration = Duration::from_millis(100);

/// What came of it.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// What the load tells.
    pub(crate) record: Record,
    /// The share of the time that its busiest thread was busy.
    pub(crate) busiest: f64,
    /// Transactions of the warm-up that succeeded when it was over.
    pub(crate) carried: u64,
    /// What was used from the end of the warm-up until the server was at rest.
    pub(crate) used: Used,
    /// The server near the end.
    pub(crate) under: Under,
}

/// A server with its connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Under {
    /// Resident memory.
    pub(crate) resident_bytes: u64,
    /// Connections that were open then.
    pub(crate) open_connections: u64,
}

/// Makes the load.
///
/// # Errors
/// It cannot begin, or was stopped, or the server cannot be read.
pub(crate) fn run(plan: &Plan, watched: &Watched, halt: &dyn Halt) -> Result<Loaded, Missed> {
    let run = run::start(plan.clone()).map_err(Missed::failed)?;
    halt.watch(run.stopper());
    let stopper = run.stopper();
    let before = at_beginning(&run, watched);
    if before.is_err() {
        stopper.stop();
    }
    let (outcome, under) = finish(run, plan, watched.server);
    let outcome = outcome.map_err(Missed::failed)?;
    if outcome.ending() == Ending::Interrupted && halt.is_asked() {
        return Err(Missed::Interrupted);
    }
    let used = watched.usage_at_rest()?.since(&before?)?;
    let (busiest, carried) = (outcome.busiest(), outcome.carried());
    Ok(Loaded {
        record: outcome.record(plan, frame(), None),
        busiest,
        carried,
        used,
        under: under?,
    })
}

/// One transaction, so that a server that does not answer is found before anything is measured.
///
/// # Errors
/// It fails.
pub(crate) fn probe(plan: &Plan, halt: &dyn Halt) -> Result<(), Missed> {
    let mut plan = plan.clone();
    plan.arrival = Arrival::Closed { connections: 1 };
    plan.clients.count = 1;
    plan.threads.count = 1;
    plan.warm_up = Duration::ZERO;
    plan.duration = plan.timeout;
    plan.count_max = Some(1);
    let run = run::start(plan.clone()).map_err(Missed::failed)?;
    halt.watch(run.stopper());
    let outcome = run.finish().map_err(Missed::failed)?;
    match outcome.totals().succeeded {
        0 if halt.is_asked() => Err(Missed::Interrupted),
        0 => Err(fruitless(&outcome.record(&plan, frame(), None))),
        _ => Ok(()),
    }
}

/// Why nothing succeeded.
pub(crate) fn fruitless(record: &Record) -> Missed {
    let certificate = load::failure::Failure::Certificate.name();
    if record.failures.contains_key(certificate.as_ref()) {
        let why = "the server showed another certificate than the one that the cell is about";
        return Missed::Void(why.to_owned());
    }
    let warning = record.warnings.first();
    let said = warning.map(|warning| format!("{}: {}", warning.seen, warning.hint));
    Missed::Failed(said.unwrap_or_else(|| "nothing was attempted".to_owned()))
}

/// What is of no use here: the experiment's own record tells it once.
fn frame() -> Frame {
    Frame {
        version: String::new(),
        command: Vec::new(),
        settings: Vec::new(),
        started: String::new(),
        host: Host::default(),
    }
}

/// Waits for the end of the warm-up.
fn at_beginning(run: &Run, watched: &Watched) -> Result<Usage, Missed> {
    if run.wait_for_rest() {
        let usage = watched.usage_at_rest();
        run.go_on();
        return usage;
    }
    thread::sleep(run.zero().saturating_duration_since(Instant::now()));
    watched.usage_now()
}

/// Waits for the end of the load; on its way there, looks at the server's memory.
fn finish(
    run: Run,
    plan: &Plan,
    server: Tree,
) -> (std::io::Result<Outcome>, Result<Under, Missed>) {
    let stopper = run.stopper();
    let lead = BEFORE_END_MAX.min(plan.duration / 10);
    let at = run.zero() + plan.duration - lead;
    thread::scope(|scope| {
        let (hold, over) = channel();
        let look = scope.spawn(move || look_at(at, &over, server, &stopper));
        let outcome = run.finish();
        drop::<std::sync::mpsc::Sender<()>>(hold);
        (outcome, look.join().expect("a panic ends the program"))
    })
}

/// At that instant, or when the load is over, if that comes first.
fn look_at(
    at: Instant,
    over: &Receiver<()>,
    server: Tree,
    stopper: &Stopper,
) -> Result<Under, Missed> {
    let waited = over.recv_timeout(at.saturating_duration_since(Instant::now()));
    let is_over = waited == Err(RecvTimeoutError::Disconnected);
    Ok(Under {
        open_connections: if is_over {
            0
        } else {
            stopper.open_connections()
        },
        resident_bytes: server.resident_bytes().map_err(Missed::failed)?,
    })
}
