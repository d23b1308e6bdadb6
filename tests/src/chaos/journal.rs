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
    /// Kills of a worker process that have begun and that are over: its connections may end in any
    /// way.
    kills: AtomicU64,
    /// Lariat does not listen: it is being started again.
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

    /// Notes a broken promise unless this holds.
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

    /// Says at the end of a program whether all held; if not, what came last, what was broken, and
    /// the command that does it again.
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

    /// How often that was noted.
    pub(super) fn kills(&self) -> u64 {
        self.kills.load(Ordering::Acquire)
    }

    /// Whether no worker process was killed since, or while, that was the number of
    /// [`Self::kills`].
    pub(super) fn is_unhurt_since(&self, kills: u64) -> bool {
        kills.is_multiple_of(2) && kills == self.kills()
    }

    /// Notes whether nobody listens for the time being.
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
