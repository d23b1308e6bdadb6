//! The journal of a run: each step with its time, and the promises that were broken.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Steps that are shown again beside a broken promise.
const LAST_STEPS: usize = 40;

/// Broken promises that are kept; one fault may show a thousand times.
const BROKEN_MAX: usize = 100;

/// The steps of a run, printed as they come.
#[derive(Debug)]
pub struct Journal {
    begun: Instant,
    pages: Mutex<Pages>,
    /// Number of begun and ended kills of a worker process: its connections may end in any way.
    kills: AtomicU64,
    /// Whether Lariat does not listen, because it is being started again.
    is_down: AtomicBool,
}

#[derive(Debug, Default)]
struct Pages {
    last: VecDeque<String>,
    broken: Vec<String>,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            pages: Mutex::default(),
            kills: AtomicU64::new(0),
            is_down: AtomicBool::new(false),
        }
    }
}

impl Journal {
    pub fn step(&self, what: &str) {
        self.write(what);
    }

    pub fn broken(&self, what: &str) {
        let line = self.write(&format!("BROKEN: {what}"));
        let mut pages = self.pages();
        if pages.broken.len() < BROKEN_MAX {
            pages.broken.push(line);
        }
    }

    /// Notes a broken promise unless `holds` is true.
    pub fn check(&self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.broken(&otherwise());
        }
    }

    pub fn all_broken(&self) -> Vec<String> {
        self.pages().broken.clone()
    }

    pub fn last_steps(&self) -> Vec<String> {
        self.pages().last.iter().cloned().collect()
    }

    /// Prints at the end of a program whether all promises held; if not, the last steps, the broken
    /// promises, and the command that repeats the run.
    pub fn conclude(&self, program: &str, settings: &str) -> ExitCode {
        let broken = self.all_broken();
        if broken.is_empty() {
            println!("all promises held");
            return ExitCode::SUCCESS;
        }
        println!("\n== the last steps\n{}", self.last_steps().join("\n"));
        println!("\n== broken\n{}", broken.join("\n"));
        println!("\nagain: {settings} ./run-tests {program}");
        ExitCode::FAILURE
    }

    /// Notes that a worker process is about to be killed, or that the next one serves.
    pub(super) fn kill(&self) {
        self.kills.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns how often that was noted.
    pub(super) fn kills(&self) -> u64 {
        self.kills.load(Ordering::Acquire)
    }

    /// Reports whether no worker process was killed since, or while, the number of [`Self::kills`]
    /// was this.
    pub(super) fn is_unhurt_since(&self, kills: u64) -> bool {
        kills.is_multiple_of(2) && kills == self.kills()
    }

    /// Notes whether Lariat does not listen for the time being.
    pub(super) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Release);
    }

    pub(super) fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Acquire)
    }

    fn write(&self, what: &str) -> String {
        let line = format!("{:9.3} s  {what}", self.begun.elapsed().as_secs_f64());
        println!("{line}");
        let mut pages = self.pages();
        if pages.last.len() == LAST_STEPS {
            pages.last.pop_front();
        }
        pages.last.push_back(line.clone());
        line
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
