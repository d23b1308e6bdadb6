//! Makes our own load, and reads how it used server and machine.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use load::outcome::{Frame, LoadOutcome};
use load::plan::{ArrivalModel, LoadPlan};
use load::run::{self, RunningLoad, Stopper};
use measure::record::{LoadRecord, RunEnding};

use super::programs::ServerEvent;
use super::usage::{CpuUsage, TimedReading, WatchedProcesses};
use super::verdict::{Measured, MeasurementFailure};
use crate::interrupt::Cancel;
use crate::process::ProcessTree;

/// Time before the end of the load at which memory is read; at most a tenth of the load.
const BEFORE_END_MAX: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct LoadResult {
    pub(crate) record: LoadRecord,
    pub(crate) elapsed: Duration,
    /// Share of the time in which the load's busiest thread was busy.
    pub(crate) busiest: f64,
    /// Transactions of the warm-up that succeeded after its end.
    pub(crate) carried: u64,
    /// Transactions that succeeded from the end of the warm-up until no more were begun.
    pub(crate) ended_in_time: u64,
    /// Use from the end of the warm-up until the server was at rest.
    pub(crate) used: CpuUsage,
    /// State of the server near the end.
    pub(crate) at_load: LoadedUsage,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadedUsage {
    pub(crate) resident_bytes: u64,
    pub(crate) open_connections: u64,
}

/// Makes the load.
///
/// # Errors
/// Fails if the load cannot begin or was stopped, or if the server cannot be read.
pub(crate) fn run(
    plan: &LoadPlan,
    watched: &WatchedProcesses,
    event: Option<&ServerEvent>,
    cancel: &dyn Cancel,
) -> Measured<LoadResult> {
    let run = run::start(plan.clone())?;
    cancel.watch(run.stopper());
    let stopper = run.stopper();
    let before = at_beginning(&run, watched);
    if before.is_err() {
        stopper.stop();
    }
    let (outcome, at_load, happened) = finish(run, plan, watched.server, event);
    let outcome = outcome?;
    if outcome.ending == RunEnding::Interrupted && cancel.is_requested() {
        return Err(MeasurementFailure::Cancelled);
    }
    let after = watched.usage_at_rest();
    let after = match plan.arrival {
        ArrivalModel::Closed { .. } => after?,
        // An overwhelmed server works on long after its clients have gone.
        ArrivalModel::Open { .. } => after.or_else(|_| watched.usage_now())?,
    };
    happened?;
    let mut before = before?;
    if event.is_some() {
        before.forget_ended(&after);
    }
    let used = after.since(&before)?;
    let (busiest, carried) = (outcome.busiest, outcome.carried());
    let ended_in_time = outcome.ended_in_time();
    // Transactions that were begun in time and ended later occupied the server until then.
    let elapsed = plan.duration.max(outcome.until_last_success);
    Ok(LoadResult {
        elapsed,
        // The record of the experiment has the frame.
        record: outcome.record(plan, Frame::default(), None),
        busiest,
        carried,
        ended_in_time,
        used,
        at_load: at_load?,
    })
}

/// Makes one transaction, to find a server that does not answer before anything is measured.
///
/// # Errors
/// Fails if the transaction fails.
pub(crate) fn probe(plan: &LoadPlan, cancel: &dyn Cancel) -> Measured<()> {
    let mut plan = plan.clone();
    plan.arrival = ArrivalModel::Closed { connections: 1 };
    plan.clients.count = 1;
    plan.threads.count = 1;
    plan.warm_up = Duration::ZERO;
    plan.rests = false;
    plan.duration = plan.timeout;
    plan.count_max = Some(1);
    let run = run::start(plan.clone())?;
    cancel.watch(run.stopper());
    let outcome = run.finish()?;
    match outcome.totals().succeeded {
        0 if cancel.is_requested() => Err(MeasurementFailure::Cancelled),
        0 => Err(fruitless(&outcome.record(&plan, Frame::default(), None))),
        _ => Ok(()),
    }
}

/// Returns the reason why no transaction succeeded.
pub(crate) fn fruitless(record: &LoadRecord) -> MeasurementFailure {
    let certificate = load::failure::TransactionFailure::Certificate.name();
    if record.failures.contains_key(certificate.as_ref()) {
        let why =
            "the server showed another certificate than the one that the configuration is about";
        return MeasurementFailure::Void(why.to_owned());
    }
    // The first warning of a load that failed names the most frequent failure.
    let has_failed = record.totals.failed > 0;
    let warning = record.warnings.first().filter(|_| has_failed);
    let said = warning.map(|warning| format!("{}: {}", warning.seen, warning.hint));
    MeasurementFailure::Failed(said.unwrap_or_else(|| "nothing was attempted".to_owned()))
}

/// Waits for the end of the warm-up.
fn at_beginning(run: &RunningLoad, watched: &WatchedProcesses) -> Measured<TimedReading> {
    if run.wait_for_rest() {
        let usage = watched.usage_at_rest();
        run.go_on();
        return usage;
    }
    thread::sleep(run.zero().saturating_duration_since(Instant::now()));
    watched.usage_now()
}

/// Waits for the end of the load; meanwhile reads the server's memory and triggers the event.
fn finish(
    run: RunningLoad,
    plan: &LoadPlan,
    server: ProcessTree,
    event: Option<&ServerEvent>,
) -> (std::io::Result<LoadOutcome>, Measured<LoadedUsage>, Measured<()>) {
    let stopper = run.stopper();
    let lead = BEFORE_END_MAX.min(plan.duration / 10);
    let (zero, at) = (run.zero(), run.zero() + plan.duration - lead);
    thread::scope(|scope| {
        let (hold, over) = channel();
        let (hold_event, over_before) = channel();
        let event = event.map(|event| {
            let due = zero + event.at;
            scope.spawn(move || happen(due, &over_before, event))
        });
        let look = scope.spawn(move || look_at(at, &over, server, &stopper));
        let outcome = run.finish();
        drop::<[std::sync::mpsc::Sender<()>; 2]>([hold, hold_event]);
        let panicked = "a panic ends the program";
        let happened = event.map_or(Ok(()), |event| event.join().expect(panicked));
        (outcome, look.join().expect(panicked), happened)
    })
}

/// Triggers the event when it is due, unless the load is over before.
fn happen(due: Instant, over: &Receiver<()>, event: &ServerEvent) -> Measured<()> {
    match over.recv_timeout(due.saturating_duration_since(Instant::now())) {
        Err(RecvTimeoutError::Timeout) => event.command.run(),
        _ => Ok(()),
    }
}

/// Reads memory at that instant, or when the load is over, whichever comes first.
fn look_at(
    at: Instant,
    over: &Receiver<()>,
    server: ProcessTree,
    stopper: &Stopper,
) -> Measured<LoadedUsage> {
    let waited = over.recv_timeout(at.saturating_duration_since(Instant::now()));
    let is_over = waited == Err(RecvTimeoutError::Disconnected);
    Ok(LoadedUsage {
        open_connections: if is_over { 0 } else { stopper.open_connections() },
        resident_bytes: server.resident_bytes()?,
    })
}

/// A load in the background; dropping this ends it.
pub(crate) struct BackgroundLoad(Option<RunningLoad>);

impl BackgroundLoad {
    /// Starts the load. Its threads yield the CPU to those of the measured load.
    pub(crate) fn start(mut plan: LoadPlan, cancel: &dyn Cancel) -> Measured<Self> {
        plan.warm_up = Duration::ZERO;
        plan.rests = false;
        plan.is_background = true;
        let run = run::start(plan)?;
        cancel.watch(run.stopper());
        Ok(Self(Some(run)))
    }

    pub(crate) fn stopper(&self) -> Stopper {
        self.0.as_ref().expect("it runs until it is dropped").stopper()
    }
}

impl Drop for BackgroundLoad {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run.stopper().stop();
            // The counts are not needed, and failures affect the measured load as well.
            let _ = run.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
    use std::process::{Child, Command, Stdio};
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::SeqCst;

    use load::options::TABLE;
    use options::Report;
    use wire::address::Address;

    use super::*;

    /// Starts a server of plain HTTP in this process; its threads end with it.
    fn server(reply: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                thread::spawn(move || answer(stream.unwrap(), reply));
            }
        });
        address
    }

    fn answer(mut stream: TcpStream, reply: &[u8]) {
        let mut request = Vec::new();
        let mut byte = [0];
        while stream.read(&mut byte).is_ok_and(|count| count == 1) {
            request.push(byte[0]);
            if request.ends_with(b"\r\n\r\n") {
                request.clear();
                let _ = stream.write_all(reply);
            }
        }
    }

    const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

    fn plan(address: SocketAddr, settings: &[(&str, &str)]) -> LoadPlan {
        let given = [("url", "http://lab.test/")].iter().chain(settings).copied();
        let report = Report::new(None);
        let root = options::flags::parse(given, &TABLE, &report);
        let cpus = sys::cpu::allowed_cpus();
        let read = load::options::read(&root, &|_| unreachable!("no file"), &cpus, &report);
        let (_, draft) = read.unwrap();
        let mut plan = draft.plan(vec![Address::Ip(address)]).unwrap();
        plan.rests = true;
        plan
    }

    /// An idle process in the place of server and origin.
    struct Idle(Child);

    impl Idle {
        fn new() -> Self {
            let mut cat = Command::new("cat");
            Self(cat.stdin(Stdio::piped()).spawn().unwrap())
        }

        fn watched(&self) -> WatchedProcesses {
            let tree = ProcessTree::of(self.0.id());
            WatchedProcesses {
                server: tree,
                origin: tree,
                cpus: sys::cpu::allowed_cpus().into_iter().collect(),
                background: None,
            }
        }
    }

    impl Drop for Idle {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            let _ = self.0.wait();
        }
    }

    /// A cancellation as soon as a load has begun, or never.
    struct LoadInterrupter {
        ends: bool,
        asked: AtomicBool,
    }

    impl LoadInterrupter {
        fn new(ends: bool) -> Self {
            let asked = AtomicBool::new(false);
            Self { ends, asked }
        }
    }

    impl Cancel for LoadInterrupter {
        fn is_requested(&self) -> bool {
            self.asked.load(SeqCst)
        }

        fn watch(&self, stopper: Stopper) {
            if self.ends {
                self.asked.store(true, SeqCst);
                stopper.stop();
            }
        }
    }

    #[test]
    fn connections_that_stay_are_seen_while_they_are_open() {
        let idle = Idle::new();
        let stay = [
            ("requests-per-connection", "unlimited"),
            ("connections", "3"),
            ("clients", "6"),
            ("duration", "300ms"),
            ("warm-up", "50ms"),
        ];
        let plan = plan(server(OK), &stay);
        let never = LoadInterrupter::new(false);
        probe(&plan, &never).unwrap();
        let loaded = run(&plan, &idle.watched(), None, &never).unwrap();
        assert_eq!(loaded.at_load.open_connections, 6);
        assert!(loaded.at_load.resident_bytes > 0);
        assert!(loaded.record.totals.succeeded > 0);
        assert_eq!(loaded.record.totals.failed, 0);
        assert_eq!(loaded.carried, 0);
        assert_eq!(loaded.record.traffic.connections, 0, "all were opened in the warm-up");
    }

    #[test]
    fn a_load_in_the_background_is_counted_beside_it() {
        let idle = Idle::new();
        let never = LoadInterrupter::new(false);
        let settings = [("rate", "200"), ("duration", "300ms"), ("warm-up", "100ms")];
        let address = server(OK);
        let background =
            BackgroundLoad::start(plan(address, &[("duration", "1h")]), &never).unwrap();
        let watched = WatchedProcesses { background: Some(background.stopper()), ..idle.watched() };
        let loaded = run(&plan(address, &settings), &watched, None, &never).unwrap();
        drop(background);
        assert_eq!(loaded.record.totals.attempted, 60, "its own alone");
        let found = loaded.used.background.unwrap();
        assert!(found.received_bytes > 0 && found.succeeded > Some(0) && found.elapsed_ns > 0);
        let loaded = run(&plan(address, &settings), &idle.watched(), None, &never).unwrap();
        assert_eq!(loaded.used.background, None);
    }

    #[test]
    fn open_load_is_read_too() {
        let idle = Idle::new();
        let plan = plan(server(OK), &[("rate", "200"), ("duration", "300ms")]);
        let loaded = run(&plan, &idle.watched(), None, &LoadInterrupter::new(false)).unwrap();
        assert_eq!(loaded.record.totals.attempted, 60);
        assert!(loaded.used.foreign >= 0.0 && loaded.used.foreign <= 1.0);
    }

    #[test]
    fn a_server_that_does_not_answer_is_found_first() {
        let never = LoadInterrupter::new(false);
        let refusing = plan(server(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"), &[]);
        let MeasurementFailure::Failed(why) = probe(&refusing, &never).unwrap_err() else {
            panic!("it is the server's failure");
        };
        assert!(why.starts_with("nothing succeeded: status-503 1: "), "{why}");
    }
}
