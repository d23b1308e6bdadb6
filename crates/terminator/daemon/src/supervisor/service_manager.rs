//! The service manager: the last message to it, the descriptors that it hands over and keeps, the
//! next time. What it is told when is `reporting`'s.

pub(super) mod descriptor_store;
pub(super) mod handed_over;
pub(super) mod notify;

use std::time::{Duration, Instant};

use super::upgrade::state::Inherited;
use descriptor_store::{DescriptorStore, names_of};
use notify::{Notice, Notifier};

/// From one question to the worker process to the next: how old the number of connections gets.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Questions within the time after which the watchdog bites: two may be late.
const LOOKS_PER_WATCHDOG: u32 = 4;

/// The last message to the manager, and the time of the next one.
#[derive(Default)]
pub(super) struct ServiceManager {
    pub(super) notifier: Notifier,
    pub(super) look: Option<Instant>,
    /// Since when the worker process has not answered, if it was asked.
    pub(super) asked: Option<Instant>,
    is_missed: bool,
    pub(super) connections: Option<u64>,
    /// The sentence that the manager has.
    pub(super) status: String,
    pub(super) store: DescriptorStore,
}

impl ServiceManager {
    /// The manager that the environment names, which keeps what was inherited from it.
    pub(super) fn of_environment(inherited: &Inherited) -> Self {
        let store = DescriptorStore::knowing(names_of(inherited));
        Self { store, notifier: Notifier::of_environment(), ..Self::default() }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.look.into_iter().chain(self.notifier.due()).min()
    }

    /// The time between questions to the worker process.
    pub(super) fn interval(&self) -> Duration {
        let watchdog = self.notifier.watchdog;
        let of_watchdog = watchdog.map(|time| time / LOOKS_PER_WATCHDOG);
        of_watchdog.map_or(LOOK_INTERVAL, |time| time.min(LOOK_INTERVAL))
    }

    /// How long it has had no answer, if that is long and was not said.
    pub(super) fn missed(&mut self, now: Instant) -> Option<Duration> {
        let missed = now.saturating_duration_since(self.asked?);
        let is_long = missed >= LOOK_INTERVAL;
        (is_long && !std::mem::replace(&mut self.is_missed, true)).then_some(missed)
    }

    /// The worker process answers, or there is another. How long an answer was missed, if that was
    /// said; `None` = nothing was asked.
    pub(super) fn answered(&mut self, now: Instant) -> Option<Option<Duration>> {
        let asked = self.asked.take()?;
        let was_missed = std::mem::take(&mut self.is_missed);
        Some(was_missed.then(|| now.saturating_duration_since(asked)))
    }

    /// Says that all is well, while no plan is served by this program.
    pub(super) fn beat(&mut self) {
        if self.notifier.watchdog.is_some() {
            self.notifier.send(&[Notice::Watchdog]);
        }
    }

    /// A sentence in place of the last one, with these things.
    pub(super) fn say_status(&mut self, mut notices: Vec<Notice>, status: String) {
        if self.status != status {
            notices.push(Notice::Status(status.clone()));
            self.status = status;
        }
        if !notices.is_empty() {
            self.notifier.send(&notices);
        }
    }
}
