//! The process that watches files, started each time that they have been read.
//!
//! Owns its life. What it tells of is a reload like any other; `crate::watcher` says how it looks.

use std::io;
use std::time::{Duration, Instant};

use config::ReloadOptions;
use telemetry::printable::line;

use super::child::{Backoff, Child, ChildEvent, Program};
use super::events::{Event, EventSender};
use crate::handover::ProcessMessageForm;
use crate::messages::{note, warn};
use crate::watcher::{
    ChangedFiles, REPLY_BYTES_MAX, Stamps, WATCHER_ARGUMENT, WATCHER_NAME, WatchRequest,
};

const WATCHER: Program = Program {
    argument: WATCHER_ARGUMENT,
    name: WATCHER_NAME,
    form: ProcessMessageForm::Postcard,
    answer_bytes_max: REPLY_BYTES_MAX,
    has_environment: false,
};

/// From a reading that came to nothing, since files did not answer, to the next.
const PAUSE: Duration = Duration::from_secs(60);

/// The files that the configuration was last read from, and who watches them.
pub(super) struct Watched {
    files: Stamps,
    /// Until the first look at them.
    pause: Duration,
    /// `None` = nobody does until [`Self::follow`].
    pub(super) process: Option<Child>,
    processes: u64,
    backoff: Backoff,
    sender: EventSender,
}

impl Watched {
    pub(super) fn new(sender: EventSender, looked: Option<Stamps>) -> Self {
        Self {
            pause: if looked.is_some() { Duration::ZERO } else { PAUSE },
            files: looked.unwrap_or_default(),
            process: None,
            processes: 0,
            backoff: Backoff::default(),
            sender,
        }
    }

    /// These have been read. `None` = nobody knows what has been: those before are looked at again.
    pub(super) fn looked(&mut self, files: Option<Stamps>) {
        match files {
            Some(files) => (self.files, self.pause) = (files, Duration::ZERO),
            None => self.pause = PAUSE,
        }
    }

    pub(super) fn follow(&mut self, options: ReloadOptions) {
        // It has another's files.
        self.process = None;
        if options.watch
            && let Err(error) = self.start(options.debounce)
        {
            warn(format_args!(
                "cannot start the process that watches files: {error}; changes are not \
                 seen until the next reload"
            ));
        }
    }

    fn start(&mut self, debounce: Duration) -> io::Result<()> {
        self.processes += 1;
        let (number, sender) = (self.processes, self.sender.clone());
        let hear = move |heard| sender.send(Event::Watched(number, heard));
        let process = Child::start(number, &WATCHER, hear)?;
        let ask = WatchRequest { files: self.files.clone(), debounce, pause: self.pause };
        Ok(self.process.insert(process).send(&ask, &[])?)
    }

    /// Takes an answer of the process. Returns whether the configuration is to be read again.
    pub(super) fn heard(
        &mut self,
        number: u64,
        heard: ChildEvent<ChangedFiles>,
        options: ReloadOptions,
    ) -> bool {
        if self.process.as_ref().map(Child::number) != Some(number) {
            // The last words of the process before.
            return false;
        }
        self.process = None;
        match heard {
            ChildEvent::Answer(changed) => {
                let files = changed.files.iter().map(|path| path.display().to_string());
                // Who may add one to a directory of certificates chooses its name.
                let files = files.map(|path| line(&path).to_string());
                let files = files.collect::<Vec<_>>().join(", ");
                let more = match changed.more {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                note(format_args!("files have changed, and are read again: {files}{more}"));
                true
            }
            ChildEvent::End | ChildEvent::Stopped => {
                warn("the process that watches files has ended");
                self.pause = self.backoff.died(Instant::now());
                self.follow(options);
                false
            }
        }
    }
}
