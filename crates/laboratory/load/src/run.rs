//! Runs a load on all its threads: start, a second at a time, stop, outcome.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use measure::choice::Kind;
use measure::histogram::Histogram;
use measure::quantity::nanoseconds;
use measure::record::{LoadSecond, LoadThread, RunEnding};
use sys::epoll::Waker;

use crate::failure::LoadStartFault;
use crate::outcome::LoadOutcome;
use crate::plan::LoadPlan;
use crate::recorder::ThreadRecorder;
use crate::scheduler::{ThreadContext, ThreadReport, ThreadsInCommon};
use crate::tally::{LoadTally, SecondTally};
use crate::tls::warm_thread;
use crate::worker::LoadWorker;

#[derive(Debug)]
pub struct RunningLoad {
    plan: Arc<LoadPlan>,
    threads: Vec<JoinHandle<std::io::Result<ThreadRecorder>>>,
    begin: Instant,
    reports: Receiver<ThreadReport>,
    stopper: Stopper,
    /// Seconds that not every thread has reported.
    parts: BTreeMap<u64, SecondTally>,
    /// First second that each thread has not reported; `None` if the thread has ended.
    reported: Vec<Option<u64>>,
    seconds: Vec<LoadSecond>,
    /// Unreported attempts of seconds that were over when they were counted.
    late: u64,
}

#[derive(Clone, Debug)]
pub struct SecondProgress {
    pub second: LoadSecond,
    /// Attempts that belong to earlier seconds, which did not contain them yet.
    pub late: u64,
    pub failures: BTreeMap<String, u64>,
    /// Handshakes by kind.
    pub handshakes: BTreeMap<Kind, u64>,
    /// Response times of successes.
    pub total: Histogram,
}

/// Handle that ends a load early, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    common: Arc<ThreadsInCommon>,
}

impl Stopper {
    /// Stops new transactions; those in progress have a second to finish.
    pub fn stop(&self) {
        self.common.stop();
    }

    /// Returns the number of open connections, as last published by the threads.
    pub fn open_connections(&self) -> u64 {
        self.common.open()
    }

    /// Returns the bytes received since the beginning, and the successful transactions, as last
    /// published by the threads.
    pub fn done(&self) -> (u64, u64) {
        self.common.done()
    }
}

/// Begins a load.
///
/// # Errors
/// Fails with [`LoadStartFault`]; no packet was sent then.
pub fn start(plan: LoadPlan) -> Result<RunningLoad, LoadStartFault> {
    for source in &plan.sources {
        check_source(*source)?;
    }
    let plan = Arc::new(plan);
    let wakers = (0..plan.threads.count).map(|_| Waker::new().map(Arc::new));
    let wakers: Vec<_> = wakers.collect::<Result<_, _>>()?;
    let common = Arc::new(ThreadsInCommon::new(plan.count_max, wakers.clone()));
    let (sender, reports) = channel();
    let mut workers = Vec::new();
    for (index, waker) in (0..plan.threads.count).zip(wakers) {
        let context = ThreadContext {
            index,
            threads: plan.threads.count,
            waker,
            reports: sender.clone(),
            common: Arc::clone(&common),
        };
        workers.push((context.clone(), LoadWorker::new(&plan, context)?));
    }
    let starter =
        Arc::new(StartBarrier { barrier: Barrier::new(workers.len() + 1), begin: OnceLock::new() });
    let mut threads = Vec::new();
    for (index, worker) in workers.into_iter().enumerate() {
        let cpu = cpu_of(&plan, index);
        threads.push(spawn(index, (cpu, plan.is_background), worker, &starter)?);
    }
    Ok(RunningLoad {
        begin: starter.wait(),
        reported: vec![Some(0); threads.len()],
        plan,
        threads,
        reports,
        stopper: Stopper { common },
        parts: BTreeMap::new(),
        seconds: Vec::new(),
        late: 0,
    })
}

/// Checks that an address is ours: a dial from a foreign one looks as if no port were free.
fn check_source(source: IpAddr) -> Result<(), LoadStartFault> {
    match UdpSocket::bind((source, 0)) {
        Ok(_) => Ok(()),
        Err(error) => Err(LoadStartFault::Source(source, error)),
    }
}

/// Starts all threads at one instant.
#[derive(Debug)]
struct StartBarrier {
    barrier: Barrier,
    begin: OnceLock<Instant>,
}

impl StartBarrier {
    fn wait(&self) -> Instant {
        self.barrier.wait();
        *self.begin.get_or_init(Instant::now)
    }
}

fn cpu_of(plan: &LoadPlan, index: usize) -> Option<u16> {
    let cpus = &plan.threads.cpus;
    cpus.get(index % cpus.len().max(1)).copied()
}

fn spawn(
    index: usize,
    (cpu, is_background): (Option<u16>, bool),
    (context, worker): (ThreadContext, LoadWorker),
    starter: &Arc<StartBarrier>,
) -> Result<JoinHandle<std::io::Result<ThreadRecorder>>, LoadStartFault> {
    let starter = Arc::clone(starter);
    let thread = std::thread::Builder::new().name(format!("load-{index}"));
    let handle = thread.spawn(move || {
        let pinned = cpu.map(sys::cpu::pin_current_thread).transpose();
        let gives_way = is_background.then(sys::cpu::give_way_on_current_thread);
        let placed = pinned.and_then(|_| gives_way.transpose());
        warm_thread();
        let begin = starter.wait();
        let ended = placed.and_then(|_| worker.run(begin));
        if ended.is_err() {
            // The other threads would continue with a part of the load, and hide the failure.
            context.abort();
        }
        ended
    })?;
    Ok(handle)
}

impl RunningLoad {
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits until the warm-up is over and no transaction is in progress, in a load that pauses;
    /// `false` if it does not pause, or was stopped.
    pub fn wait_for_rest(&self) -> bool {
        self.plan.has_rest() && self.stopper.common.rest.wait_for(self.threads.len())
    }

    /// Begins the figures of a load that pauses.
    pub fn go_on(&self) {
        self.stopper.common.rest.end();
    }

    /// Returns when the figures begin; for a load that pauses, when they would without it.
    pub fn zero(&self) -> Instant {
        let over = self.stopper.common.rest.over().filter(|_| self.plan.has_rest());
        over.unwrap_or(self.begin + self.plan.warm_up)
    }

    /// Waits for the next second that all threads have reported; `None` if the load is over.
    pub fn next_second(&mut self) -> Option<SecondProgress> {
        loop {
            if let Some(progress) = self.whole_second() {
                return Some(progress);
            }
            if self.reported.iter().all(Option::is_none) {
                return None;
            }
            let report = self.reports.recv().ok()?;
            self.take(report);
        }
    }

    fn take(&mut self, report: ThreadReport) {
        let next = report.second.as_ref().map(|(number, _)| number + 1);
        if let Some(reported) = self.reported.get_mut(usize::from(report.thread)) {
            *reported = next;
        }
        if let Some((number, tally)) = report.second {
            self.parts.entry(number).or_default().add(tally);
        }
        for (number, count) in report.late {
            let reported = usize::try_from(number).ok();
            match reported.and_then(|number| self.seconds.get_mut(number)) {
                Some(second) => {
                    second.attempted += count;
                    self.late += count;
                }
                None => self.parts.entry(number).or_default().attempted += count,
            }
        }
    }

    fn whole_second(&mut self) -> Option<SecondProgress> {
        let number = *self.parts.first_key_value()?.0;
        let is_whole = self.reported.iter().flatten().all(|next| *next > number);
        if !is_whole {
            return None;
        }
        let tally = self.parts.remove(&number)?;
        let second = tally.second(number);
        self.seconds.push(second);
        let failures = tally.failures_by_name();
        let SecondTally { handshakes, total, .. } = tally;
        let late = std::mem::take(&mut self.late);
        Some(SecondProgress { second, late, failures, handshakes, total })
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// Fails if the kernel failed a thread.
    pub fn finish(mut self) -> std::io::Result<LoadOutcome> {
        while self.next_second().is_some() {}
        let mut tally = LoadTally::default();
        let mut threads = Vec::new();
        let zero = self.zero();
        let (mut last_end, mut last_success) = (None, None);
        for (index, thread) in self.threads.into_iter().enumerate() {
            let recorder = thread.join().expect("a panic ends the program")?;
            last_end = last_end.max(recorder.last_end);
            last_success = last_success.max(recorder.last_success);
            threads.push(LoadThread {
                cpu: cpu_of(&self.plan, index),
                cpu_ns: nanoseconds(recorder.cpu),
                lag: recorder.tally.lag.clone(),
            });
            tally.add(recorder.tally);
        }
        let until = |end: Option<Instant>| {
            end.map_or(Duration::ZERO, |end| end.saturating_duration_since(zero))
        };
        let (worked, succeeded) = (until(last_end), until(last_success));
        let is_stopped = self.stopper.common.is_stopped();
        Ok(LoadOutcome {
            ending: if is_stopped { RunEnding::Interrupted } else { RunEnding::Completed },
            busiest: busiest(&threads, worked),
            until_last_success: succeeded,
            elapsed: elapsed(&self.plan, worked, is_stopped),
            steps: crate::outcome::steps(&self.plan.arrival, &tally),
            tally,
            seconds: self.seconds,
            threads,
        })
    }
}

/// Returns the load's duration. A timed load has its planned one: rates must not depend on its last
/// transaction. A counted or stopped load lasts until the last transaction ended.
fn elapsed(plan: &LoadPlan, worked: Duration, is_stopped: bool) -> Duration {
    if plan.count_max.is_none() && !is_stopped { plan.duration } else { worked }
}

/// Returns the busy share of the busiest thread's time.
fn busiest(threads: &[LoadThread], worked: Duration) -> f64 {
    let worked_ns = (worked.as_nanos() as f64).max(1.0);
    threads.iter().map(|thread| thread.cpu_ns as f64 / worked_ns).fold(0.0, f64::max)
}
