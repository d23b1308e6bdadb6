//! What a running supervisor knows of the one that takes over from it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::takeover_socket::Link;
use crate::takeover::Hello;

/// A program that cannot do its work shows it with its first connections.
pub(super) const TRIAL_TIME: Duration = Duration::from_secs(5);

/// How far a supervisor is that hands over.
#[derive(Default)]
pub(super) struct Succession {
    /// What this one says when it takes over.
    pub(super) own: Hello,
    pub(super) program: Option<StartedAs>,
    pub(super) successor: Option<Taking>,
    /// Asked before we served, or while a reload was in progress.
    pub(super) waiting: Option<(Link, Hello)>,
    /// A successor has been started here and has not asked yet: until when it may, and its process.
    pub(super) expected: Option<(Instant, u32)>,
    /// One more reference for each that has not become the program.
    pub(super) starting: Arc<()>,
    /// Those who asked for an upgrade and want to hear of its end.
    pub(super) askers: Vec<Link>,
    /// It was told to stop when it could not take back what it had given.
    pub(super) stop_asked: bool,
    /// The one that serves now, while this one watches it.
    pub(super) trial: Option<Trial>,
    /// That one has failed, and another one is to take over.
    pub(super) is_replacing: bool,
}

/// How this process was started, and so is its successor.
pub(super) struct StartedAs {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) socket: PathBuf,
}

pub(super) struct Taking {
    pub(super) link: Link,
    pub(super) program: String,
    pub(super) stage: Stage,
    pub(super) until: Instant,
    /// It was told of a reload, which is to be made here if it comes to nothing.
    pub(super) has_reload: bool,
}

/// A successor that serves, and is watched.
pub(super) struct Trial {
    pub(super) link: Link,
    pub(super) program: String,
    pub(super) until: Instant,
    pub(super) why: Option<String>,
    /// The worker process here has drained meanwhile, and cut so many connections.
    pub(super) cut: Option<u64>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    Offered,
    /// It is ready, and our worker process pauses.
    Pausing,
    Given,
}

impl Succession {
    pub(super) fn new(own: Hello, socket: PathBuf) -> Self {
        Self {
            own,
            program: program().map(|program| StartedAs {
                program,
                arguments: std::env::args_os().skip(1).collect(),
                socket,
            }),
            ..Self::default()
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let trial = self.trial.as_ref().map(|trial| trial.until);
        let taking = self.successor.as_ref().map(|taking| taking.until);
        trial
            .or(taking)
            .or_else(|| self.expected.map(|(until, _)| until))
    }

    /// Whether a reload has to wait for the end of it.
    pub(super) fn is_in_progress(&self) -> bool {
        self.successor.is_some()
    }

    /// How far the successor is, if there is one.
    pub(super) fn stage(&self) -> Option<Stage> {
        Some(self.successor.as_ref()?.stage)
    }

    /// Whether the listening sockets are kept for another one that may have to take over.
    pub(super) fn is_watching(&self) -> bool {
        self.trial.is_some() || self.is_replacing
    }

    pub(super) fn stop_watching(&mut self) {
        self.trial = None;
        self.is_replacing = false;
    }
}

impl Trial {
    pub(super) fn begin(link: Link, program: String) -> Self {
        Self {
            link,
            program,
            until: Instant::now() + TRIAL_TIME,
            why: None,
            cut: None,
        }
    }
}

/// The file to start again: by the path that this process was started by, so that it is the new
/// program after an upgrade.
fn program() -> Option<PathBuf> {
    let name = PathBuf::from(std::env::args_os().next()?);
    if name.components().count() > 1 {
        return std::path::absolute(name).ok();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|folder| folder.join(&name));
    let found = candidates.find(|candidate| candidate.is_file());
    found.or_else(|| std::env::current_exe().ok())
}
