//! Runs phases one after the other, and checks what must hold after each.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, thread};

use serde_json::Value;

use crate::footprint::Footprint;
use crate::lariat;
use crate::metrics::Metrics;
use crate::patience::{pause, within};

use super::journal::Journal;
use super::log_book::LogBook;
use super::phase::{self, Counted};
use super::rig::{FILE_THREADS, Rig};
use super::script::{Fault, Phase};

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Seed of everything else.
    pub seed: u64,
    /// The first phase, to go on where another run broke.
    pub first: u64,
    pub phases: u64,
    pub time: Duration,
}

/// Time after the last client until all connections have ended: the longest wait is for a server
/// that was dialled while it stalled.
const QUIET_MAX: Duration = Duration::from_secs(40);

/// Longest time without an answer about the status: a worker process that is stopped for some
/// seconds or replaced answers afterwards.
const STATUS_GAP_MAX: Duration = Duration::from_secs(20);

/// Interval between questions for the status.
const STATUS_EVERY: Duration = Duration::from_millis(200);

/// Pause between lines after which no more are expected.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// KiB of its own memory that a process may hold more than after the first phase: buffers that its
/// pools keep for the next connections, memory that the allocator does not give back after a
/// reload, and queues of lines. A leaked connection costs more than 1 KiB, a buffer 18 KiB.
const GROWTH_KIB_MAX: u64 = 32 << 10;

/// Descriptors that pools may keep: pipes of the kernel's TLS, 64 a worker, of two workers.
const GROWTH_DESCRIPTORS_MAX: u64 = 2 * 2 * 64;

/// Threads that read files start when there is work for them and stay.
const GROWTH_THREADS_MAX: u64 = FILE_THREADS as u64;

/// Runs a plan; the journal gets the broken promises. Stops after the first phase that broke one.
pub fn run(plan: &Plan, journal: &Arc<Journal>) {
    attended(journal, |rig| {
        let mut auditor = Auditor::default();
        for number in plan.numbers(journal) {
            auditor.play(rig, &Phase::by_seed(plan.seed, number), plan.seed);
        }
    });
}

impl Plan {
    /// Reads a plan from `NAME_SEED`, `NAME_SECONDS`, `NAME_FIRST` and `NAME_PHASES`.
    pub fn of_environment(name: &str, seconds: u64) -> Self {
        let setting = |what: &str| {
            let text = env::var(format!("{name}_{what}")).ok()?;
            let number = text.parse::<u64>();
            Some(number.unwrap_or_else(|_| panic!("{name}_{what}: {text} is no whole number")))
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let plan = Self {
            seed: setting("SEED").unwrap_or_else(|| now.map_or(1, |now| now.as_secs())),
            first: setting("FIRST").unwrap_or(0),
            phases: setting("PHASES").unwrap_or(u64::MAX),
            time: Duration::from_secs(setting("SECONDS").unwrap_or(seconds)),
        };
        println!("{} for {} s", plan.again(name), plan.time.as_secs());
        plan
    }

    /// Returns the variables that make the same script again.
    pub fn again(&self, name: &str) -> String {
        format!("{name}_SEED={} {name}_FIRST={}", self.seed, self.first)
    }

    /// Yields the numbers of phases until the time is over or something is broken.
    pub(super) fn numbers(self, journal: &Journal) -> impl Iterator<Item = u64> {
        let begun = Instant::now();
        let goes_on = move || begun.elapsed() < self.time && journal.all_broken().is_empty();
        let all = (self.first..).take(self.phases as usize);
        all.take_while(move |_| goes_on())
    }
}

/// Starts everything, acts while the status is asked for all the time, and ends everything.
pub(super) fn attended(journal: &Arc<Journal>, act: impl FnOnce(&mut Rig)) {
    let mut rig = Rig::start(journal);
    let stop = AtomicBool::new(false);
    let watched = Arc::clone(&rig.watched);
    thread::scope(|scope| {
        scope.spawn(|| watch(journal, &watched, &stop));
        let played = catch_unwind(AssertUnwindSafe(|| {
            act(&mut rig);
            rig.end();
        }));
        stop.store(true, Ordering::Release);
        if let Err(panic) = played {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            journal.broken(&format!("a step failed: {}", text.unwrap_or("a panic")));
        }
    });
}

/// Asks for the status all the time.
fn watch(journal: &Journal, watched: &Mutex<Option<PathBuf>>, stop: &AtomicBool) {
    let mut last = Instant::now();
    while !stop.load(Ordering::Acquire) {
        let socket = watched.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_answered = socket.is_none_or(|path| lariat::try_status(&path).is_some());
        if last.elapsed() > STATUS_GAP_MAX {
            let text = format!("no status for {:.1} s", last.elapsed().as_secs_f64());
            journal.broken(&text);
        }
        if is_answered || last.elapsed() > STATUS_GAP_MAX {
            last = Instant::now();
        }
        pause(STATUS_EVERY);
    }
}

/// The counts of a worker process.
#[derive(Clone, Debug, Default)]
struct Books {
    pid: i64,
    ended: BTreeMap<String, u64>,
    handshakes: BTreeMap<&'static str, u64>,
    up: u64,
    down: u64,
    lost: u64,
}

/// Compares books from phase to phase.
#[derive(Default)]
pub(super) struct Auditor {
    before: Books,
    /// Whether lines were lost in the phase before, or came from a process that was killed: their
    /// number is unknown, so the last may come in this phase.
    was_lossy: bool,
    servers_before: [u64; 2],
    held: Option<[Footprint; 2]>,
}

impl Auditor {
    /// Plays a phase, waits until all is quiet, and compares the books.
    pub(super) fn play(&mut self, rig: &mut Rig, phase: &Phase, seed: u64) {
        rig.journal.step(&format!(
            "phase {}: {}, {} honest clients, {:?}, {:?}",
            phase.number,
            if phase.is_calm { "calm" } else { "faults" },
            phase.honest,
            phase.hostile,
            phase.loads,
        ));
        let counted = phase::play(rig, phase, seed);
        let Some(books) = quiet(rig) else { return };
        rig.journal.step(&format!(
            "quiet: {} of {} visits whole, {} connections ended in all",
            counted.tally.whole,
            counted.tally.visits,
            books.ended.values().sum::<u64>()
        ));
        if books.pid != self.before.pid {
            self.before = Books::default();
        }
        self.check_log(rig, phase, &books);
        if phase.is_calm {
            self.check_calm(rig, &counted, &books);
        }
        check_restarts(rig, &books);
        self.check_footprints(rig);
        rig.check_talk(&rig.talk.take().join("\n"));
        self.servers_before = servers(rig);
        self.was_lossy = books.lost != self.before.lost || phase.has(Fault::Kill);
        self.before = books;
    }

    /// Checks that each ended connection has one line, with the reason that it is counted for.
    fn check_log(&self, rig: &Rig, phase: &Phase, books: &Books) {
        let mut ended = books.ended.clone();
        for (reason, count) in &self.before.ended {
            *ended.entry(reason.clone()).or_default() -= count;
        }
        ended.retain(|_, count| *count > 0);
        let count = ended.values().sum::<u64>() as usize;
        // Lines missing in the log, also because of a full disk, are counted as lost.
        let is_whole = books.lost == self.before.lost;
        if is_whole && !self.was_lossy && !phase.has(Fault::Kill) {
            // The log's writer is a thread of its own.
            within(QUIET_MAX, || (rig.log.count() >= count).then_some(()));
        } else {
            within(QUIET_MAX, || has_settled(rig));
        }
        let book = LogBook::read(&rig.log.take());
        let journal = &rig.journal;
        journal.check(book.doubled.is_empty(), || {
            format!("connections with two lines: {:?}", book.doubled)
        });
        if phase.has(Fault::Kill) {
            // Killed processes have lines of their own, and may have torn the last.
            let is_torn_once = is_whole && !phase.has(Fault::FillDisk);
            let torn_max = if is_torn_once { 1 } else { usize::MAX };
            journal.check(book.torn.len() <= torn_max, || format!("torn lines: {:?}", book.torn));
            let is_enough = !is_whole || book.count() >= count as u64;
            return journal
                .check(is_enough, || format!("{} lines of {count} connections", book.count()));
        }
        journal.check(book.torn.is_empty(), || format!("torn lines: {:?}", book.torn));
        let is_there = |(reason, count): (&String, &u64)| book.ended.get(reason) >= Some(count);
        let agrees = book.ended == ended || self.was_lossy && ended.iter().all(is_there);
        journal.check(!is_whole || agrees, || {
            format!("the log has {:?}, the counters {ended:?}", book.ended)
        });
    }

    /// Checks that nothing failed, and that clients, Lariat and servers have counted the same.
    fn check_calm(&self, rig: &Rig, counted: &Counted, books: &Books) {
        let journal = &rig.journal;
        let failures: Vec<_> = counted.records.iter().map(|one| one.failures()).collect();
        journal.check(failures.iter().all(BTreeMap::is_empty), || {
            format!("loads failed without a fault: {failures:?}")
        });
        let handshakes = |service| {
            let before = self.before.handshakes.get(service).copied();
            books.handshakes[service] - before.unwrap_or(0)
        };
        let kinds = |record: &crate::load::Record| record.handshakes_with(&[]);
        let web: u64 = counted.records.iter().map(kinds).sum();
        let tally = counted.tally;
        let servers = servers(rig);
        for (what, ours, theirs) in [
            ("handshakes of loads", web, handshakes("web")),
            ("handshakes", tally.handshakes, handshakes("exchange")),
            ("bytes up", tally.up, books.up - self.before.up),
            ("bytes down", tally.down, books.down - self.before.down),
            ("bytes to servers", tally.up, servers[0] - self.servers_before[0]),
            ("bytes of servers", tally.down, servers[1] - self.servers_before[1]),
            ("whole visits", tally.visits, tally.whole),
        ] {
            journal.check(ours == theirs, || {
                format!("{what}: clients have counted {ours}, the other side {theirs}")
            });
        }
    }

    /// Checks that memory, descriptors and threads have not grown beyond what pools may keep.
    fn check_footprints(&mut self, rig: &Rig) {
        let Some(now) = rig.footprints() else {
            return rig.journal.step("skipped: only root may see what processes hold");
        };
        let Some(then) = self.held else {
            self.held = Some(now);
            return;
        };
        for (name, now, then) in
            [("supervisor", now[0], then[0]), ("worker process", now[1], then[1])]
        {
            let is_back = now.anonymous_kib <= then.anonymous_kib + GROWTH_KIB_MAX
                && now.descriptors <= then.descriptors + GROWTH_DESCRIPTORS_MAX
                && now.threads <= then.threads + GROWTH_THREADS_MAX;
            rig.journal.check(is_back, || format!("the {name} held {then:?}, and now {now:?}"));
        }
    }
}

/// Waits until no connection is open, and reads the books; all accepted connections have ended.
fn quiet(rig: &Rig) -> Option<Books> {
    let quiet = within(QUIET_MAX, || {
        let (metrics, status) = (rig.lariat.metrics(), rig.status()?);
        let open = metrics.sum("lariat_connections_open", &[])
            + metrics.sum("lariat_handshakes_in_progress", &[]);
        let books = read_books(&metrics, &status)?;
        let accepted = metrics.sum("lariat_connections_accepted_total", &[]);
        let ended: u64 = books.ended.values().sum();
        (open == 0.0 && accepted == ended as f64).then_some(books)
    });
    if quiet.is_none() {
        let status = rig.status().unwrap_or_default();
        let connections = status["services"].as_array().map(|all| {
            let texts = all.iter().map(|one| one["metrics"].to_string());
            texts.collect::<Vec<_>>()
        });
        let text = format!("open, or not all ended, after {QUIET_MAX:?}: {connections:?}");
        rig.journal.broken(&text);
    }
    quiet
}

fn read_books(metrics: &Metrics, status: &Value) -> Option<Books> {
    let mut ended = BTreeMap::new();
    for service in status["services"].as_array()? {
        // Reasons that never occurred are left out.
        let reasons = service["metrics"]["connections_ended"].as_object();
        for (reason, faults) in reasons.into_iter().flatten() {
            let counts = faults.as_object()?.values().filter_map(Value::as_u64);
            *ended.entry(reason.clone()).or_default() += counts.sum::<u64>();
        }
    }
    let sum = |name: &str, labels: &[(&str, &str)]| metrics.sum(name, labels) as u64;
    let handshakes = ["exchange", "web"].map(|service| {
        let labels = [("service", service)];
        (service, sum("lariat_handshakes_total", &labels))
    });
    let relayed = |direction| {
        let labels = [("service", "exchange"), ("direction", direction)];
        sum("lariat_relayed_bytes_total", &labels)
    };
    Some(Books {
        pid: status["process"]["pid"].as_i64()?,
        ended,
        handshakes: handshakes.into(),
        up: relayed("client-to-backend"),
        down: relayed("backend-to-client"),
        lost: sum("lariat_worker_log_lost_bytes_total", &[])
            + sum("lariat_log_lost_bytes_total", &[]),
    })
}

/// Reports that no line has come for a while, where their number is unknown.
fn has_settled(rig: &Rig) -> Option<()> {
    let count = rig.log.count();
    pause(SETTLED_AFTER);
    (rig.log.count() == count).then_some(())
}

/// Checks that only we killed worker processes, and no connection ended by Lariat's fault.
fn check_restarts(rig: &Rig, books: &Books) {
    let status = rig.status().unwrap_or_default();
    let restarts = status["process"]["metrics"]["worker_process_restarts"].as_u64();
    rig.journal.check(restarts == Some(rig.kills), || {
        format!("{} worker processes were killed, {restarts:?} restarted", rig.kills)
    });
    let internal = books.ended.get("internal");
    rig.journal.check(internal.is_none(), || {
        format!("connections ended by internal faults: {internal:?}")
    });
}

/// Returns the bytes that the servers have read and written in all.
fn servers(rig: &Rig) -> [u64; 2] {
    let both = rig.servers.iter().map(|server| server.traffic());
    both.fold([0; 2], |[up, down], one| [up + one[0], down + one[1]])
}
