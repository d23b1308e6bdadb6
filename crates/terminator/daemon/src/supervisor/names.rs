//! The process that resolves names, kept alive while there are any.
//!
//! Owns its life: it is started, killed when it is stuck or answers what nobody asked, and started
//! again, later and later. What is asked when is `lookups`'s.

pub(super) mod lookups;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use telemetry::printable;

use super::child::{Backoff, Child, Heard, Program};
use super::events::{Event, EventSender};
use crate::handover::{Fences, ProcessMessageForm};
use crate::messages::warn;
use crate::resolve::{Ask, REPLY_BYTES_MAX, RESOLVER_ARGUMENT, RESOLVER_NAME, Reply};
use crate::server_target::Name;

use lookups::{Lookups, Nonsense, Over, Resolution};

const RESOLVER: Program = Program {
    argument: RESOLVER_ARGUMENT,
    name: RESOLVER_NAME,
    form: ProcessMessageForm::Postcard,
    answer_bytes_max: REPLY_BYTES_MAX,
    has_environment: false,
};

pub(super) struct Names {
    pub(super) lookups: Lookups,
    fences: Fences,
    pub(super) process: Option<Child>,
    processes: u64,
    backoff: Backoff,
    sender: EventSender,
}

impl Names {
    /// None yet. The process that looks them up is to give up these rights.
    pub(super) fn new(fences: Fences, sender: EventSender) -> Self {
        Self {
            lookups: Lookups::default(),
            fences,
            process: None,
            processes: 0,
            backoff: Backoff::default(),
            sender,
        }
    }

    /// Replaces the names to resolve, each with its interval between lookups.
    pub(super) fn want(&mut self, names: BTreeMap<Name, Duration>) {
        let new = self.lookups.want(names, Instant::now());
        if self.lookups.wanted.is_empty() {
            self.pause();
        }
        self.look_up(new);
    }

    /// Looks up what is due, or gives up who does not answer. What is news.
    pub(super) fn time_is_over(&mut self) -> Vec<Resolution> {
        match self.lookups.over(Instant::now()) {
            Over::LookUp(names) => {
                self.look_up(names);
                Vec::new()
            }
            Over::Stuck(news) => {
                self.is_gone("does not answer");
                news
            }
        }
    }

    pub(super) fn heard(&mut self, number: u64, heard: Heard<Reply>) -> Option<Resolution> {
        if self.process.as_ref().map(Child::number) != Some(number) {
            // The last words of the process before.
            return None;
        }
        match heard {
            Heard::Answer(Reply::LookedUp(name, result)) => {
                match self.lookups.answered(name, result, Instant::now()) {
                    Ok(news) => return news,
                    Err(Nonsense) => self.is_gone("talks nonsense"),
                }
            }
            Heard::Answer(Reply::Stale) => {
                self.process = None;
                self.start_again();
            }
            Heard::Answer(Reply::Stuck(why)) => {
                let why = printable::line(&why);
                self.is_gone(&format!("cannot give up its rights: {why}"));
            }
            Heard::End | Heard::Stopped => self.is_gone("has ended"),
        }
        None
    }

    /// Ends the process until a name is due the next time, which is at once.
    pub(super) fn pause(&mut self) {
        self.process = None;
        self.lookups.start_again(Instant::now(), Duration::ZERO);
    }

    fn is_gone(&mut self, why: &str) {
        if let Some(process) = self.process.take() {
            let pid = process.pid();
            warn(format_args!(
                "the process that resolves names (pid {pid}) {why}; another is started"
            ));
        }
        self.start_again();
    }

    fn start_again(&mut self) {
        let now = Instant::now();
        let pause = self.backoff.died(now);
        self.lookups.start_again(now, pause);
    }

    fn look_up(&mut self, names: Vec<Name>) {
        if names.is_empty() {
            return;
        }
        let sent = match &self.process {
            Some(process) => process.send(&Ask::LookUp(names), &[]).map_err(Into::into),
            None => self.start(names),
        };
        if let Err(error) = sent {
            self.is_gone("takes no question");
            warn(format_args!("names cannot be resolved: {error}"));
        }
    }

    fn start(&mut self, names: Vec<Name>) -> std::io::Result<()> {
        self.processes += 1;
        let (number, sender) = (self.processes, self.sender.clone());
        let hear = move |heard| sender.send(Event::Resolver(number, heard));
        let process = Child::start(number, &RESOLVER, hear)?;
        let process = self.process.insert(process);
        process.send(&Ask::Enter(self.fences.clone()), &[])?;
        Ok(process.send(&Ask::LookUp(names), &[])?)
    }
}
