//! What the supervisor does with names: it has them looked up, and tells the worker process.
//!
//! Which are looked up when is `lookups`'s.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Supervisor;
use super::child::Heard;
use super::events::Event;
use super::failure::Failure;
use super::lookups::Resolution;
use super::messages::say_failed;
use crate::handover::Order;
use crate::resolve::Reply;
use crate::server_target::Name;

/// How long a plan waits for the addresses of its names. Later ones follow it.
const RESOLVE_TIME_MAX: Duration = Duration::from_secs(2);

impl Supervisor<'_> {
    /// Wants these names, and waits a little for those that are new.
    pub(super) fn resolve(&mut self, names: BTreeMap<Name, Duration>) -> Result<(), Failure> {
        self.names.want(names.clone());
        let until = Instant::now() + RESOLVE_TIME_MAX;
        while !self.names.have_heard_of(&names) {
            let is_resolver = |news: &Event| matches!(news, Event::Resolver(..));
            let news = self.events.next_of(until, is_resolver);
            let Some(Event::Resolver(number, heard)) =
                news.map_err(Failure::host("wait for events"))?
            else {
                break;
            };
            self.resolver_said(number, heard);
        }
        Ok(())
    }

    pub(super) fn resolver_said(&mut self, number: u64, heard: Heard<Reply>) {
        if let Some(news) = self.names.heard(number, heard) {
            self.resolved(news);
        }
    }

    pub(super) fn resolved(&mut self, news: Resolution) {
        match news {
            Resolution::Changed(resolved) => self.tell(&Order::Resolved(resolved)),
            Resolution::Failed(name, why) => say_failed(&name, &why),
        }
    }
}
