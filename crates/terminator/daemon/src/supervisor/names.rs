//! Names of servers of the served plan and of one that may be served: the schedule of lookups, the
//! results so far, and the process that looks up, kept alive while there are any.
//!
//! Owns the schedule and the results, as a pure state, and the life of the process: it is started,
//! killed when it is stuck or answers what nobody asked, and started again, later and later.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use backend::options::WEIGHT_MAX;
use telemetry::printable;

use super::child::{Backoff, Child, ChildEvent, Program};
use super::events::{Event, EventSender};
use crate::handover::{Confinement, ProcessMessageForm, ResolvedName};
use crate::messages::warn;
use crate::named_servers::{ADDRESSES_MAX, Instance, Name, Port};
use crate::resolve::{REPLY_BYTES_MAX, RESOLVER_ARGUMENT, RESOLVER_NAME, Reply, ResolverRequest};

const RESOLVER: Program = Program {
    argument: RESOLVER_ARGUMENT,
    name: RESOLVER_NAME,
    form: ProcessMessageForm::Postcard,
    answer_bytes_max: REPLY_BYTES_MAX,
    has_environment: false,
};

pub(super) struct Names {
    pub(super) lookups: Lookups,
    confinement: Confinement,
    pub(super) process: Option<Child>,
    processes: u64,
    backoff: Backoff,
    sender: EventSender,
}

impl Names {
    /// None yet. The process that looks them up is to give up these rights.
    pub(super) fn new(confinement: Confinement, sender: EventSender) -> Self {
        Self {
            lookups: Lookups::default(),
            confinement,
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
            DeadlineAction::LookUp(names) => {
                self.look_up(names);
                Vec::new()
            }
            DeadlineAction::Stuck(news) => {
                self.is_gone("does not answer");
                news
            }
        }
    }

    pub(super) fn heard(&mut self, number: u64, heard: ChildEvent<Reply>) -> Option<Resolution> {
        if self.process.as_ref().map(Child::number) != Some(number) {
            // The last words of the process before.
            return None;
        }
        match heard {
            ChildEvent::Answer(Reply::LookedUp(name, result)) => {
                match self.lookups.answered(name, result, Instant::now()) {
                    Ok(news) => return news,
                    Err(UnaskedAnswer) => self.is_gone("talks nonsense"),
                }
            }
            ChildEvent::Answer(Reply::Stale) => {
                self.process = None;
                self.start_again();
            }
            ChildEvent::Answer(Reply::Stuck(why)) => {
                let why = printable::line(&why);
                self.is_gone(&format!("cannot give up its rights: {why}"));
            }
            ChildEvent::End | ChildEvent::Stopped => self.is_gone("has ended"),
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
            Some(process) => process.send(&ResolverRequest::LookUp(names), &[]).map_err(Into::into),
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
        process.send(&ResolverRequest::Enter(self.confinement.clone()), &[])?;
        Ok(process.send(&ResolverRequest::LookUp(names), &[])?)
    }
}

/// How long an answer may take. The C library asks three name servers twice, for 5 s each, and does
/// so for each search domain; after a minute it is stuck.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Resolution {
    /// It stands for other servers now, or they have other addresses, in ascending order.
    Changed(ResolvedName),
    /// It could not be resolved, and why. The addresses that it had stay in use.
    Failed(Name, String),
}

/// The action that is due when the time is over.
#[derive(Debug, PartialEq)]
pub(crate) enum DeadlineAction {
    LookUp(Vec<Name>),
    /// There is no answer for these: the resolver hangs.
    Stuck(Vec<Resolution>),
}

/// An answer to no question: what gives it is not what we started.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct UnaskedAnswer;

/// Names with their last results, and the questions that are open.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    /// Each name with the time from an answer to the next question.
    pub(crate) wanted: BTreeMap<Name, Duration>,
    known: BTreeMap<Name, Vec<Option<Instance>>>,
    /// The last message about each name that could not be resolved.
    failures: BTreeMap<Name, String>,
    /// Names that have been looked up at least once, even in vain.
    heard_of: BTreeSet<Name>,
    /// Each name with a pending question, and the time by which the answer must come.
    asked: BTreeMap<Name, Instant>,
    /// Names without a pending question, with the time of the next one.
    next: BTreeMap<Name, Instant>,
}

impl Lookups {
    /// Replaces the wanted names, each with its interval between lookups; returns the new ones,
    /// which are looked up at once.
    pub(crate) fn want(&mut self, names: BTreeMap<Name, Duration>, now: Instant) -> Vec<Name> {
        let is_new = |name: &&Name| !self.wanted.contains_key(*name);
        let new: Vec<Name> = names.keys().filter(is_new).cloned().collect();
        self.known.retain(|name, _| names.contains_key(name));
        self.failures.retain(|name, _| names.contains_key(name));
        self.heard_of.retain(|name| names.contains_key(name));
        self.next.retain(|name, _| names.contains_key(name));
        for (name, at) in &mut self.next {
            let interval = names.get(name).copied().unwrap_or_default();
            *at = (*at).min(now + interval);
        }
        self.wanted = names;
        self.ask(new, now)
    }

    /// Whether each of these has been looked up.
    pub(crate) fn have_heard_of(&self, names: &BTreeMap<Name, Duration>) -> bool {
        names.keys().all(|name| self.heard_of.contains(name))
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.asked.values().chain(self.next.values()).min().copied()
    }

    pub(crate) fn over(&mut self, now: Instant) -> DeadlineAction {
        if self.asked.values().all(|until| *until > now) {
            let due = self.next.iter().filter(|(_, at)| **at <= now);
            let due = due.map(|(name, _)| name.clone()).collect();
            return DeadlineAction::LookUp(self.ask(due, now));
        }
        let why = format!("no answer within {} s", ANSWER_TIME_MAX.as_secs());
        let asked = std::mem::take(&mut self.asked).into_keys();
        let failed = asked.filter_map(|name| self.failed(name, why.clone()));
        DeadlineAction::Stuck(failed.collect())
    }

    /// The resolver is gone; the names are to be looked up after this pause.
    pub(crate) fn start_again(&mut self, now: Instant, pause: Duration) {
        self.asked.clear();
        let all = self.wanted.keys().cloned();
        self.next = all.map(|name| (name, now + pause)).collect();
    }

    /// Takes the answer for a name; returns what has changed.
    ///
    /// # Errors
    /// Nobody asked for it.
    pub(crate) fn answered(
        &mut self,
        name: Name,
        result: Result<Vec<Instance>, String>,
        now: Instant,
    ) -> Result<Option<Resolution>, UnaskedAnswer> {
        let is_well_formed = |instances: &Vec<Instance>| {
            let addresses: usize = instances.iter().map(|one| one.addresses.len()).sum();
            addresses <= ADDRESSES_MAX
                && instances.len() <= name.instances_max()
                && instances.iter().all(|one| is_of(one, &name))
        };
        if self.asked.remove(&name).is_none() || !result.as_ref().ok().is_none_or(is_well_formed) {
            return Err(UnaskedAnswer);
        }
        // What was on its way when the name was dropped.
        let Some(interval) = self.wanted.get(&name) else {
            return Ok(None);
        };
        self.next.insert(name.clone(), now + *interval);
        Ok(match result {
            Ok(instances) if instances.iter().all(|one| one.addresses.is_empty()) => {
                self.failed(name, "it has no addresses".to_owned())
            }
            Ok(instances) => self.resolved(name, instances),
            Err(why) => self.failed(name, printable::line(&why).to_string()),
        })
    }

    /// All that is known about these.
    pub(crate) fn known(&self, names: &BTreeMap<Name, Duration>) -> Vec<ResolvedName> {
        let known = self.known.iter();
        let known = known.filter(|(name, _)| names.contains_key(name));
        known.map(|(name, instances)| resolved(name, instances)).collect()
    }

    /// The names that nobody has been asked for yet.
    fn ask(&mut self, names: Vec<Name>, now: Instant) -> Vec<Name> {
        let mut new = Vec::new();
        for name in names {
            self.next.remove(&name);
            let asked = self.asked.entry(name.clone());
            if let Entry::Vacant(place) = asked {
                place.insert(now + ANSWER_TIME_MAX);
                new.push(name);
            }
        }
        new
    }

    fn failed(&mut self, name: Name, why: String) -> Option<Resolution> {
        self.heard_of.insert(name.clone());
        let before = self.failures.insert(name.clone(), why.clone());
        (before.as_ref() != Some(&why)).then_some(Resolution::Failed(name, why))
    }

    /// Name servers shuffle their answers: only the set counts.
    fn resolved(&mut self, name: Name, mut instances: Vec<Instance>) -> Option<Resolution> {
        for one in &mut instances {
            one.addresses.sort_unstable();
            one.addresses.dedup();
        }
        self.heard_of.insert(name.clone());
        self.failures.remove(&name);
        let before = self.known.remove(&name).unwrap_or_default();
        let placed = placed(&before, instances, name.instances_max());
        let news = (placed != before).then(|| Resolution::Changed(resolved(&name, &placed)));
        self.known.insert(name, placed);
        news
    }
}

/// Whether a server can be one that the name stands for.
fn is_of(instance: &Instance, name: &Name) -> bool {
    let is_named = match name.port {
        Port::Number(port) => instance.port == port,
        Port::Records(_) => true,
    };
    let is_there = |address: &SocketAddr| address.port() == instance.port;
    let weight_fits = (1..=WEIGHT_MAX).contains(&instance.weight);
    is_named && weight_fits && instance.addresses.iter().all(is_there)
}

/// Gives each server its place: the one that it had, so that what is known of it stays with it, or
/// else the first that is free. One whose host is not resolved now keeps its addresses.
fn placed(
    before: &[Option<Instance>],
    found: Vec<Instance>,
    count: usize,
) -> Vec<Option<Instance>> {
    let mut placed = vec![None; count];
    let mut new = Vec::new();
    for mut one in found {
        let is_same = |old: &Instance| (&old.host, old.port) == (&one.host, one.port);
        let place = before.iter().position(|old| old.as_ref().is_some_and(is_same));
        let Some(place) = place.filter(|place| *place < count) else {
            new.push(one);
            continue;
        };
        if let (true, Some(old)) = (one.addresses.is_empty(), &before[place]) {
            one.addresses.clone_from(&old.addresses);
        }
        placed[place] = Some(one);
    }
    let free = placed.iter_mut().filter(|place| place.is_none());
    for (place, one) in free.zip(new) {
        *place = Some(one);
    }
    placed
}

fn resolved(name: &Name, instances: &[Option<Instance>]) -> ResolvedName {
    ResolvedName { name: name.clone(), instances: instances.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(host: &str) -> Name {
        Name { host: host.to_owned(), port: Port::Number(80) }
    }

    fn instance(host: &str, addresses: Vec<SocketAddr>) -> Instance {
        Instance { priority: 0, weight: 1, host: host.to_owned(), port: 80, addresses }
    }

    const INTERVAL: Duration = Duration::from_secs(10);

    fn names(hosts: &[&str]) -> BTreeMap<Name, Duration> {
        hosts.iter().map(|host| (name(host), INTERVAL)).collect()
    }

    fn addresses(last: &[u8]) -> Vec<Instance> {
        let address = |last: &u8| SocketAddr::from(([10, 0, 0, *last], 80));
        vec![instance("", last.iter().map(address).collect())]
    }

    fn known(last: &[u8]) -> Vec<Option<Instance>> {
        addresses(last).into_iter().map(Some).collect()
    }

    fn news(host: &str, last: &[u8]) -> Option<Resolution> {
        Some(Resolution::Changed(resolved(&name(host), &known(last))))
    }

    fn failed(host: &str, why: &str) -> Option<Resolution> {
        Some(Resolution::Failed(name(host), why.to_owned()))
    }

    #[test]
    fn changes_are_news_and_repetitions_are_not() {
        let (mut lookups, mut now) = (Lookups::default(), Instant::now());
        assert_eq!(lookups.want(names(&["app"]), now), [name("app")]);
        let no_route = || Err("no route\u{1b}".to_owned());
        for (answer, expected) in [
            (Ok(addresses(&[2, 1, 1])), news("app", &[1, 2])),
            (Ok(addresses(&[1, 2])), None),
            (no_route(), failed("app", "no route\\u001b")),
            (no_route(), None),
            (Ok(Vec::new()), failed("app", "it has no addresses")),
            (Ok(addresses(&[1, 2])), None),
            (Ok(addresses(&[3])), news("app", &[3])),
        ] {
            assert_eq!(lookups.answered(name("app"), answer, now), Ok(expected));
            assert!(lookups.have_heard_of(&names(&["app"])));
            now = lookups.due().unwrap();
            assert_eq!(lookups.over(now), DeadlineAction::LookUp(vec![name("app")]));
        }
        assert_eq!(lookups.known(&names(&["app"])), [resolved(&name("app"), &known(&[3]))]);
    }

    #[test]
    fn a_server_of_records_keeps_its_place_as_long_as_it_is_named() {
        let (mut lookups, mut now) = (Lookups::default(), Instant::now());
        let name = Name { host: "_app._tcp".to_owned(), port: Port::Records(3) };
        lookups.want(BTreeMap::from([(name.clone(), INTERVAL)]), now);
        let one = |host: &str| {
            let last = host.bytes().last().unwrap_or(0);
            let known = host.chars().all(char::is_lowercase);
            let address = SocketAddr::from(([10, 0, 0, last], 80));
            instance(&host.to_lowercase(), known.then_some(address).into_iter().collect())
        };
        // In upper case: the host of a record that has no address now.
        for (answer, expected) in [
            ("a b c", Some("a b c")),
            ("c B a", None),
            ("c a", Some("a - c")),
            ("d c", Some("d - c")),
            ("e f d", Some("d e f")),
            ("E f", Some("- e f")),
            ("", None),
            ("G", None),
        ] {
            let found = answer.split_whitespace().map(one).collect();
            let news = lookups.answered(name.clone(), Ok(found), now);
            let places = |text: &str| -> Vec<Option<Instance>> {
                let each = text.split(' ');
                each.map(|host| (host != "-").then(|| one(host))).collect()
            };
            let changed = |news: &Option<Resolution>| match news {
                Some(Resolution::Changed(resolved)) => Some(resolved.instances.clone()),
                _ => None,
            };
            assert_eq!(news.as_ref().map(changed), Ok(expected.map(places)), "{answer}");
            now = lookups.due().unwrap();
            lookups.over(now);
        }
        let many = "a b c d".split(' ').map(one).collect();
        assert_eq!(lookups.answered(name, Ok(many), now), Err(UnaskedAnswer));
    }

    #[test]
    fn each_name_has_its_interval_and_one_that_hangs_holds_up_no_other() {
        let (mut lookups, begin) = (Lookups::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        let mut wanted = names(&["dead", "slow"]);
        wanted.insert(name("fast"), Duration::from_secs(3));
        lookups.want(wanted, begin);
        for host in ["fast", "slow"] {
            let answer = lookups.answered(name(host), Ok(addresses(&[1])), begin);
            assert_eq!(answer, Ok(news(host, &[1])));
        }
        let mut asked = Vec::new();
        while let Some(due) = lookups.due().filter(|due| *due < after(60)) {
            let DeadlineAction::LookUp(names) = lookups.over(due) else {
                panic!("none has taken too long yet");
            };
            for name in names {
                asked.push((name.host.clone(), (due - begin).as_secs()));
                lookups.answered(name, Ok(addresses(&[1])), due).unwrap();
            }
        }
        let times = |host| asked.iter().filter(move |(one, _)| one == host).map(|(_, at)| *at);
        assert!(times("fast").eq((3..60).step_by(3)));
        assert!(times("slow").eq((10..60).step_by(10)));
        assert_eq!(times("dead").count(), 0);
        assert!(matches!(lookups.over(after(60)), DeadlineAction::Stuck(_)));
        // A shorter interval holds at once.
        lookups.start_again(begin, Duration::from_secs(90));
        lookups.want(BTreeMap::from([(name("slow"), Duration::from_secs(1))]), begin);
        assert_eq!(lookups.due(), Some(after(1)));
    }

    #[test]
    fn a_reload_asks_for_new_names_at_once_and_forgets_the_others() {
        let (mut lookups, now) = (Lookups::default(), Instant::now());
        lookups.want(names(&["a", "b"]), now);
        let answer = lookups.answered(name("a"), Ok(addresses(&[1])), now);
        assert_eq!(answer, Ok(news("a", &[1])));
        assert_eq!(lookups.want(names(&["b", "c"]), now), [name("c")]);
        assert_eq!(lookups.known(&names(&["a", "b", "c"])), []);
        lookups.want(names(&["c"]), now);
        let late = lookups.answered(name("b"), Ok(addresses(&[2])), now);
        assert_eq!(late, Ok(None), "it was asked for, and is wanted no more");
        assert_eq!(lookups.answered(name("c"), Ok(addresses(&[3])), now), Ok(news("c", &[3])));
        assert_eq!(lookups.want(BTreeMap::new(), now), []);
        assert_eq!(lookups.due(), None);
    }

    #[test]
    fn without_an_answer_the_names_are_asked_for_again() {
        let (mut lookups, now) = (Lookups::default(), Instant::now());
        lookups.want(names(&["a", "b"]), now);
        lookups.answered(name("a"), Ok(addresses(&[1])), now).unwrap();
        assert_eq!(lookups.due(), Some(now + INTERVAL), "the other goes on");
        let due = now + ANSWER_TIME_MAX;
        let stuck = failed("b", "no answer within 60 s").into_iter().collect();
        assert_eq!(lookups.over(due), DeadlineAction::Stuck(stuck));
        lookups.start_again(due, Duration::from_secs(1));
        let again = due + Duration::from_secs(1);
        assert_eq!(lookups.due(), Some(again));
        assert_eq!(lookups.over(again), DeadlineAction::LookUp(vec![name("a"), name("b")]));
        assert!(!lookups.known(&names(&["a"])).is_empty());
    }

    #[test]
    fn answers_to_no_question_are_nonsense() {
        let (mut lookups, now) = (Lookups::default(), Instant::now());
        let ask = |lookups: &mut Lookups| drop(lookups.want(names(&["a"]), now));
        ask(&mut lookups);
        let other = lookups.answered(name("b"), Ok(addresses(&[1])), now);
        assert_eq!(other, Err(UnaskedAnswer));
        let many = addresses(&[1; ADDRESSES_MAX + 1]);
        assert_eq!(lookups.answered(name("a"), Ok(many), now), Err(UnaskedAnswer));
        lookups.start_again(now, Duration::ZERO);
        lookups.over(now);
        let port = vec![instance("", vec![SocketAddr::from(([10, 0, 0, 1], 22))])];
        assert_eq!(lookups.answered(name("a"), Ok(port), now), Err(UnaskedAnswer));
        lookups.start_again(now, Duration::ZERO);
        lookups.over(now);
        lookups.answered(name("a"), Ok(addresses(&[1])), now).unwrap();
        let twice = lookups.answered(name("a"), Ok(addresses(&[1])), now);
        assert_eq!(twice, Err(UnaskedAnswer));
    }
}
