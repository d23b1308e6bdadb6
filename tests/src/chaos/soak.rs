//! Hours of mixed load, in which nothing may grow; samples, and their table.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::footprint::Footprint;
use crate::patience::pause;

use super::journal::Journal;
use super::rig::FILE_THREADS;
use super::run::{Auditor, Plan, attended};
use super::script::Phase;

/// Interval between samples under load; one more is taken whenever all is quiet.
const SAMPLE_EVERY: Duration = Duration::from_secs(5);

/// Largest difference between the medians of a quiet process's memory in the second quarter of a
/// run and the last, in KiB. The allocator's own share varies by some hundreds; a leak of one KiB
/// for each thousandth connection exceeds this in less than an hour.
const GROWTH_KIB_MAX: u64 = 2048;

/// Quiet samples that a quarter needs for its median to mean anything.
const QUARTER_MIN: usize = 3;

#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub at: Duration,
    pub is_quiet: bool,
    pub held: [Footprint; 2],
}

const NAMES: [&str; 2] = ["supervisor", "worker process"];

/// Loads until the time is over; the journal gets the broken promises.
pub fn soak(plan: &Plan, journal: &Arc<Journal>) -> Vec<Sample> {
    let samples = Mutex::new(Vec::new());
    attended(journal, |rig| {
        let (begun, stop) = (Instant::now(), AtomicBool::new(false));
        let processes = [rig.lariat.supervisor(), rig.lariat.worker_process()];
        let take = |is_quiet| {
            let sample = sample(processes, begun, is_quiet);
            let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
            samples.extend(sample);
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Acquire) {
                    take(false);
                    pause(SAMPLE_EVERY);
                }
            });
            let mut auditor = Auditor::default();
            for number in plan.numbers(journal) {
                auditor.play(rig, &Phase::of_soak(plan.seed, number), plan.seed);
                take(true);
            }
            stop.store(true, Ordering::Release);
        });
    });
    let samples = samples.into_inner().unwrap_or_else(PoisonError::into_inner);
    check_flat(&samples, journal);
    samples
}

fn sample(processes: [Pid; 2], begun: Instant, is_quiet: bool) -> Option<Sample> {
    let [supervisor, data] = processes.map(Footprint::of);
    Some(Sample { at: begun.elapsed(), is_quiet, held: [supervisor?, data?] })
}

/// Checks that no value is higher in the last quarter of the run than in the second, when quiet:
/// memory and threads within a bound, descriptors not at all.
fn check_flat(samples: &[Sample], journal: &Journal) {
    let quiet: Vec<_> = samples.iter().filter(|sample| sample.is_quiet).collect();
    let quarter = quiet.len() / 4;
    if quarter < QUARTER_MIN {
        return journal.step("skipped: too short to say whether anything grows");
    }
    let (early, late) = (&quiet[quarter..2 * quarter], &quiet[3 * quarter..]);
    for (process, name) in NAMES.iter().enumerate() {
        for (what, of, growth) in VALUES {
            let medians = [early, late]
                .map(|part| median(part.iter().map(|sample| of(&sample.held[process])).collect()));
            let text = format!("{name}: {what} {} and then {}", medians[0], medians[1]);
            journal.step(&text);
            journal.check(medians[1] <= medians[0] + growth, || text);
        }
    }
}

/// Name of a value, its place, and how much it may grow.
type Value = (&'static str, fn(&Footprint) -> u64, u64);

const VALUES: [Value; 4] = [
    ("resident KiB", |held| held.resident_kib, GROWTH_KIB_MAX),
    ("anonymous KiB", |held| held.anonymous_kib, GROWTH_KIB_MAX),
    ("descriptors", |held| held.descriptors, 0),
    // Threads that read files start late and stay.
    ("threads", |held| held.threads, FILE_THREADS as u64),
];

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Writes all samples as CSV, one row per process.
pub fn table(samples: &[Sample]) -> String {
    let mut text = "seconds,quiet,process,resident_kib,anonymous_kib,proportional_kib,descriptors,\
                    threads,cpu_ticks\n"
        .to_owned();
    for sample in samples {
        for (name, held) in NAMES.iter().zip(&sample.held) {
            let Footprint {
                resident_kib,
                anonymous_kib,
                proportional_kib,
                descriptors,
                threads,
                cpu_ticks,
            } = held;
            let _a_string_takes_all = writeln!(
                text,
                "{:.1},{},{name},{resident_kib},{anonymous_kib},{proportional_kib},\
                 {descriptors},{threads},{cpu_ticks}",
                sample.at.as_secs_f64(),
                sample.is_quiet,
            );
        }
    }
    text
}
