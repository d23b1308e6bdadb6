//! Servers that go down and come back up: since when, why, and the messages about it.
//!
//! Owns what was seen before and how often it may be said. Whether a server is up is the pools' to
//! decide; here is only seen how many workers would use it.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use telemetry::catalogue::ServerGauge;
use telemetry::message::LogLevel;

use super::document::{DIAL_FAILURES, ServerState, ServerStatus, ServiceStatus};
use super::servers::{CONFIRM_TIME_MAX, is_known_up};
use crate::named_servers::ObservedServer;

/// Messages about one server, or about one service, in [`FLAP_TIME`]: twice down and up. Further
/// changes are counted, and said as one when the time is over.
const SAID_MAX: usize = 4;

const FLAP_TIME: Duration = Duration::from_secs(60);

/// A message for an operator.
pub(crate) type LogMessage = (LogLevel, String);

#[derive(Debug, Default)]
pub(super) struct ServerWatch {
    services: BTreeMap<String, WatchedService>,
}

#[derive(Debug)]
struct WatchedService {
    change: ServerTransition,
    servers: BTreeMap<String, WatchedServer>,
}

#[derive(Debug)]
struct WatchedServer {
    change: ServerTransition,
    workers_up: u64,
    /// Fewer workers use it than at the last look, and some still do.
    is_doubtful: bool,
    is_taken_out: bool,
    cause: Option<String>,
    failures: [u64; DIAL_FAILURES.len()],
    /// Addresses that are down, or have been a little while ago.
    addresses: BTreeMap<String, ServerTransition>,
    /// Another worker process has seen it go down, and this one has not yet: until then.
    unconfirmed_until: Option<Instant>,
}

impl ServerWatch {
    /// The reason why a server is down that was seen to go down.
    pub(super) fn of(&self, service: &str, server: &str) -> Option<&str> {
        let server = self.services.get(service)?.servers.get(server)?;
        server.cause.as_deref().filter(|_| !server.change.is_up)
    }

    /// Another worker process has observed these, and has said so. Those that were down count as
    /// down until it is known better.
    pub(super) fn take_over(&mut self, observed: &[ObservedServer], now: Instant, now_ms: u64) {
        for one in observed {
            let lasted = Duration::from_millis(now_ms.saturating_sub(one.since_ms));
            let since = now.checked_sub(lasted).unwrap_or(now);
            let new = || WatchedService {
                change: ServerTransition::down(since),
                servers: BTreeMap::new(),
            };
            let service = self.services.entry(one.service.clone());
            let service = service.or_insert_with(new);
            service.change.since = service.change.since.max(since);
            let is_down = one.state == ServerState::Down.word();
            service.change.is_up |= !is_down;
            if is_down {
                let watched = WatchedServer {
                    cause: one.cause.clone(),
                    unconfirmed_until: Some(now + CONFIRM_TIME_MAX),
                    ..WatchedServer::with(ServerTransition::down(since))
                };
                service.servers.insert(one.server.clone(), watched);
            }
        }
    }

    /// The services that are to be looked at even if they do not change: more is to be said of
    /// them when time has passed.
    pub(super) fn pending(&self) -> impl Iterator<Item = &str> {
        let pending = self.services.iter().filter(|(_, service)| service.is_pending());
        pending.map(|(name, _)| &**name)
    }

    /// These services are gone.
    pub(super) fn forget<'a>(&mut self, services: impl IntoIterator<Item = &'a String>) {
        for name in services {
            self.services.remove(name);
        }
    }

    /// These services have changed, or were pending.
    pub(super) fn look(
        &mut self,
        services: &[ServiceStatus],
        workers: u64,
        now: Instant,
    ) -> Vec<LogMessage> {
        let mut said = Vec::new();
        for service in services {
            let new =
                || WatchedService { change: ServerTransition::new(now), servers: BTreeMap::new() };
            let mut watched = self.services.remove(&service.name).unwrap_or_else(new);
            if service.servers.is_empty() {
                continue;
            }
            watched.look(service, workers, now, &mut said);
            self.services.insert(service.name.clone(), watched);
        }
        said
    }
}

impl WatchedService {
    fn is_pending(&self) -> bool {
        self.change.unsaid > 0 || self.servers.values().any(WatchedServer::is_pending)
    }

    fn look(
        &mut self,
        service: &ServiceStatus,
        workers: u64,
        now: Instant,
        said: &mut Vec<LogMessage>,
    ) {
        let name = &service.name;
        let mut before = std::mem::take(&mut self.servers);
        for server in &service.servers {
            let new = || WatchedServer::new(server, workers, now);
            let mut watched = before.remove(&server.name).unwrap_or_else(new);
            let addresses = watched.look_at_addresses(server, now);
            let text = watched.look(server, workers, now);
            said.extend(addresses.into_iter().chain(text).map(|(level, text)| {
                (level, format!("service `{name}`: server {} {text}", server.name))
            }));
            self.servers.insert(server.name.clone(), watched);
        }
        let is_up = self.servers.values().any(|server| server.workers_up > 0);
        let text = match self.change.seen(is_up, now) {
            Some(Seen::Down) => (
                LogLevel::Error,
                format!(
                    "service `{name}`: no server is up, so clients are not served\n\
                     hint: `lariat status` says why each is down"
                ),
            ),
            Some(Seen::Up(after)) => (
                LogLevel::Notice,
                format!("service `{name}`: a server is up again after {}", shown(after)),
            ),
            Some(Seen::Flapped(times)) => (
                LogLevel::Warning,
                format!(
                    "service `{name}`: {} now, after {times} changes that were not said",
                    if is_up { "a server is up" } else { "no server is up" }
                ),
            ),
            None => return,
        };
        said.push(text);
    }
}

impl WatchedServer {
    /// All workers use a server until they know better.
    fn new(server: &ServerStatus, workers: u64, now: Instant) -> Self {
        let is_taken_out = server.is_taken_out();
        Self { workers_up: workers, is_taken_out, ..Self::with(ServerTransition::new(now)) }
    }

    fn with(change: ServerTransition) -> Self {
        Self {
            change,
            workers_up: 0,
            is_doubtful: false,
            is_taken_out: false,
            cause: None,
            // Its dials may have failed before the first look.
            failures: Default::default(),
            addresses: BTreeMap::new(),
            unconfirmed_until: None,
        }
    }

    fn is_pending(&self) -> bool {
        let waits = self.is_doubtful || self.unconfirmed_until.is_some();
        waits || self.change.unsaid > 0 || !self.addresses.is_empty()
    }

    fn look(&mut self, server: &ServerStatus, workers: u64, now: Instant) -> Option<LogMessage> {
        let up = server.metrics.get(ServerGauge::WorkersUp);
        if let Some(until) = self.unconfirmed_until {
            if up > 0 && !is_known_up(&server.metrics) {
                if now >= until {
                    *self = Self::new(server, workers, now);
                }
                return None;
            }
            self.unconfirmed_until = None;
        }
        // An operator's order is said by the supervisor, and what follows from it is not news.
        let is_ordered = server.is_taken_out() || self.is_taken_out;
        let has_fallen = up < self.workers_up;
        // Workers hear of a check one after the other.
        if has_fallen && up > 0 && !self.is_doubtful {
            self.is_doubtful = true;
            return None;
        }
        self.is_doubtful = false;
        self.is_taken_out = server.is_taken_out();
        if has_fallen || up == 0 && self.cause.is_none() {
            self.cause = Some(self.cause_of(server));
        }
        self.failures = failures(server);
        let is_up = match up.cmp(&self.workers_up) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => self.change.is_up,
            std::cmp::Ordering::Greater => true,
        };
        self.workers_up = up;
        let seen = self.change.seen(is_up, now);
        if is_up {
            self.cause = None;
        }
        let cause = self.cause.as_deref().unwrap_or("its cause is not known");
        let down = || match up {
            0 => format!("is down: {cause}"),
            _ => format!("is down for {} of {workers} workers: {cause}", workers - up),
        };
        let text = match seen? {
            Seen::Down => (LogLevel::Warning, down()),
            Seen::Up(after) => (LogLevel::Notice, format!("is up again after {}", shown(after))),
            Seen::Flapped(times) => {
                let state = if is_up { "is up".to_owned() } else { down() };
                let text = format!("{state}; it changed {times} times more than was said");
                (LogLevel::Warning, text)
            }
        };
        Some(text).filter(|_| !is_ordered)
    }

    /// Messages about addresses that went down and came back while others are up.
    fn look_at_addresses(&mut self, server: &ServerStatus, now: Instant) -> Vec<LogMessage> {
        let is_partial = server.state != ServerState::Down && !server.addresses_down.is_empty();
        for address in server.addresses_down.iter().filter(|_| is_partial) {
            let new = || ServerTransition::new(now);
            self.addresses.entry(address.clone()).or_insert_with(new);
        }
        let kinds = self.failed_since(server);
        let mut said = Vec::new();
        self.addresses.retain(|address, change| {
            let is_up = !server.addresses_down.contains(address);
            let seen = change.seen(is_up, now);
            said.extend(seen.map(|seen| match (seen, is_up) {
                (Seen::Up(after), _) => {
                    let after = shown(after);
                    (LogLevel::Notice, format!("is used at {address} again after {after}"))
                }
                (Seen::Flapped(_), true) => {
                    (LogLevel::Notice, format!("is used at {address} again"))
                }
                (Seen::Down | Seen::Flapped(_), _) => {
                    let cause = cause_at(server, address, &kinds);
                    (LogLevel::Warning, format!("is not used at {address}: {cause}"))
                }
            }));
            !is_up || !change.said.is_empty()
        });
        said
    }

    /// The cause that the status names, with the kinds of dials that have failed since the last
    /// look.
    fn cause_of(&self, server: &ServerStatus) -> String {
        let note = server.note.as_deref().unwrap_or("its dials failed");
        let kinds = self.failed_since(server);
        if kinds.is_empty() || !note.contains("dials failed") {
            return note.to_owned();
        }
        // It may be what was the cause before, with the kinds of then.
        let note = note.split_once(" (").map_or(note, |(note, _)| note);
        format!("{note}{kinds}")
    }

    /// The kinds of dials that have failed since the last look, in brackets.
    fn failed_since(&self, server: &ServerStatus) -> String {
        let kinds = DIAL_FAILURES.iter().zip(failures(server)).zip(self.failures);
        let grown = kinds.filter(|((_, now), before)| now > before);
        let names: Vec<_> = grown.map(|(((_, name), _), _)| *name).collect();
        match &*names {
            [] => String::new(),
            names => format!(" ({})", names.join(", ")),
        }
    }
}

/// The reason why a server is not used at an address: what its check says, or else dials.
fn cause_at(server: &ServerStatus, address: &str, kinds: &str) -> String {
    let note = server.note.as_deref().unwrap_or_default();
    let checks = note.split_once("not used: ").map_or(note, |(_, checks)| checks);
    let of_it = |check: &str| Some(check.strip_prefix(address)?.strip_prefix(' ')?.to_owned());
    let found = checks.split("; ").find_map(of_it);
    found.unwrap_or_else(|| format!("its last dials failed{kinds}"))
}

fn failures(server: &ServerStatus) -> [u64; DIAL_FAILURES.len()] {
    DIAL_FAILURES.map(|(counter, _)| server.metrics.get(counter))
}

/// A server or address that is up or down, since when, and the message about it.
#[derive(Debug)]
struct ServerTransition {
    is_up: bool,
    since: Instant,
    said: VecDeque<Instant>,
    unsaid: u32,
}

#[derive(Debug, Eq, PartialEq)]
enum Seen {
    Down,
    Up(Duration),
    /// The server is in its last state after this number of changes that were not reported.
    Flapped(u32),
}

impl ServerTransition {
    fn new(now: Instant) -> Self {
        Self { is_up: true, since: now, said: VecDeque::new(), unsaid: 0 }
    }

    fn down(since: Instant) -> Self {
        Self { is_up: false, ..Self::new(since) }
    }

    fn seen(&mut self, is_up: bool, now: Instant) -> Option<Seen> {
        let lasted = now.saturating_duration_since(self.since);
        let has_changed = is_up != self.is_up;
        if has_changed {
            (self.is_up, self.since) = (is_up, now);
        }
        let is_old = |said: &Instant| now.saturating_duration_since(*said) >= FLAP_TIME;
        while self.said.front().is_some_and(is_old) {
            self.said.pop_front();
        }
        if !has_changed && self.unsaid == 0 {
            return None;
        }
        if self.said.len() >= SAID_MAX {
            self.unsaid += u32::from(has_changed);
            return None;
        }
        self.said.push_back(now);
        Some(match (std::mem::take(&mut self.unsaid), is_up) {
            (0, true) => Seen::Up(lasted),
            (0, false) => Seen::Down,
            (unsaid, _) => Seen::Flapped(unsaid + u32::from(has_changed)),
        })
    }
}

fn shown(duration: Duration) -> String {
    super::units::AgeText(duration.as_secs()).to_string()
}

#[cfg(test)]
mod tests {
    use telemetry::catalogue::ServerCounter;

    use super::*;

    const WORKERS: u64 = 2;

    fn service(servers: &[(&str, u64, Option<&str>)]) -> Vec<ServiceStatus> {
        let servers = servers.iter().map(|(name, up, note)| {
            let mut server = ServerStatus {
                name: (*name).to_owned(),
                note: note.map(str::to_owned),
                ..ServerStatus::default()
            };
            server.metrics.set(ServerGauge::WorkersUp, *up);
            server
        });
        vec![ServiceStatus {
            name: "web".to_owned(),
            servers: servers.collect(),
            ..ServiceStatus::default()
        }]
    }

    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_server_that_goes_down_and_comes_back_is_said_once_each() {
        let (mut watch, start) = (ServerWatch::default(), Instant::now());
        let mut look = |seconds, servers: &[_]| {
            let said = watch.look(&service(servers), WORKERS, at(start, seconds));
            let said = said.into_iter().map(|(level, text)| format!("{}: {text}", level.name()));
            (said.collect::<Vec<_>>(), watch.of("web", "a").map(str::to_owned))
        };
        let why = Some("answered with status 503");
        let both = [("a", 2, None), ("b", 2, None)];
        assert_eq!(look(0, &both), (vec![], None));
        // Workers hear of it one after the other.
        assert_eq!(look(1, &[("a", 1, why), ("b", 2, None)]).0, [""; 0]);
        let down = "warning: service `web`: server a is down: answered with status 503";
        let (said, cause) = look(2, &[("a", 0, why), ("b", 2, None)]);
        assert_eq!((said, cause.as_deref()), (vec![down.to_owned()], why));
        assert_eq!(look(3, &[("a", 0, why), ("b", 2, None)]).0, [""; 0]);
        let (said, _) = look(4, &[("a", 0, why), ("b", 0, Some("gone"))]);
        assert_eq!(said[0], "warning: service `web`: server b is down: gone");
        assert!(said[1].starts_with("error: service `web`: no server is up"), "{said:?}");
        let (said, _) = look(14, &[("a", 1, None), ("b", 0, Some("gone"))]);
        assert_eq!(
            said,
            [
                "notice: service `web`: server a is up again after 12 s",
                "notice: service `web`: a server is up again after 10 s"
            ]
        );
        assert_eq!(look(15, &[("a", 2, None), ("b", 0, Some("gone"))]).0, [""; 0]);
        // What stays doubtful for some workers is said as well.
        assert_eq!(look(16, &[("a", 1, why), ("b", 0, None)]).0, [""; 0]);
        let (said, _) = look(17, &[("a", 1, why), ("b", 0, None)]);
        assert!(said[0].contains("server a is down for 1 of 2 workers"), "{said:?}");
        // A server of another configuration is new.
        assert_eq!(look(18, &[("c", 2, None)]).0, [""; 0]);
    }

    #[test]
    fn the_kinds_of_failed_dials_are_the_cause() {
        let (mut watch, start) = (ServerWatch::default(), Instant::now());
        watch.look(&service(&[("a", 2, None)]), WORKERS, start);
        let mut now = service(&[("a", 0, Some("its last dials failed"))]);
        now[0].servers[0].metrics.set(ServerCounter::DialsRefused, 3);
        watch.look(&now, WORKERS, at(start, 1));
        let cause = |watch: &ServerWatch| watch.of("web", "a").map(str::to_owned);
        let refused = "its last dials failed (refused)";
        assert_eq!(cause(&watch).as_deref(), Some(refused));
        // The status has the cause as its note; another worker finds the same, or another kind.
        now[0].servers[0].metrics.set(ServerGauge::WorkersUp, 1);
        watch.look(&now, WORKERS, at(start, 2));
        let mut fall = |counter, second, note: &str| {
            let server = &mut now[0].servers[0];
            server.note = Some(note.to_owned());
            server.metrics.set(ServerGauge::WorkersUp, 0);
            server.metrics.set(counter, 10 * second);
            watch.look(&now, WORKERS, at(start, second));
            cause(&watch).unwrap()
        };
        assert_eq!(fall(ServerCounter::DialsRefused, 3, refused), refused);
    }

    #[test]
    fn what_another_worker_process_has_said_is_not_said_again() {
        let (start, now_ms) = (Instant::now(), 700_000);
        let looks = |seconds: &[(u64, u64, Option<ServerCounter>)]| {
            let mut watch = ServerWatch::default();
            let observed = ObservedServer {
                service: "web".to_owned(),
                server: "a".to_owned(),
                state: "down".to_owned(),
                since_ms: now_ms - 660_000,
                cause: Some("refused".to_owned()),
            };
            // On a host that has just started, nothing can be that long ago.
            watch.take_over(&[observed], at(start, 660), now_ms);
            let mut said = Vec::new();
            for (second, up, counted) in seconds {
                let mut now = service(&[("a", *up, Some("refused"))]);
                let metrics = &mut now[0].servers[0].metrics;
                counted.inspect(|counter| metrics.set(*counter, 9));
                said.extend(watch.look(&now, WORKERS, at(start, 660 + second)));
            }
            said.into_iter().map(|(_, text)| text).collect::<Vec<_>>()
        };
        // It is used until its first dial has failed, or its first check.
        assert_eq!(looks(&[(1, 2, None), (2, 0, None), (3, 0, None)]), [""; 0]);
        let again = "service `web`: server a is up again after 11 min 2 s";
        assert_eq!(looks(&[(1, 0, None), (2, 2, None)])[0], again);
        // It has served, or a check found it down and up again between two looks.
        for sign in [ServerCounter::BytesDown, ServerCounter::WentUp] {
            assert_eq!(looks(&[(1, 2, None), (2, 2, Some(sign))])[0], again);
        }
        // Nobody knows whether it came back meanwhile.
        let said = looks(&[(60, 2, None), (61, 0, None)]);
        assert!(said[1].contains("server a is down: refused"), "{said:?}");
    }

    #[test]
    fn a_disabled_server_is_no_news() {
        let (mut watch, start) = (ServerWatch::default(), Instant::now());
        watch.look(&service(&[("a", 2, None), ("b", 2, None)]), WORKERS, start);
        for (seconds, disabled, up) in [(1, true, 2), (2, true, 0), (3, false, 0), (4, false, 2)] {
            let mut now = service(&[("a", up, None), ("b", 2, None)]);
            now[0].servers[0].disabled = disabled;
            let said = watch.look(&now, WORKERS, at(start, seconds));
            assert!(said.is_empty() || seconds == 4, "{said:?}");
        }
    }

    #[test]
    fn a_server_that_flaps_is_said_a_few_times_and_then_summed_up() {
        let start = Instant::now();
        let mut change = ServerTransition::new(start);
        let said: Vec<_> =
            (1..=20).filter_map(|second| change.seen(second % 2 == 0, at(start, second))).collect();
        let once = Duration::from_secs(1);
        assert_eq!(said, [Seen::Down, Seen::Up(once), Seen::Down, Seen::Up(once)]);
        assert_eq!(change.seen(true, at(start, 60)), None);
        assert_eq!(change.seen(true, at(start, 61)), Some(Seen::Flapped(16)));
        assert_eq!(change.seen(true, at(start, 62)), None);
        assert_eq!(change.seen(false, at(start, 90)), Some(Seen::Down));
    }
}
