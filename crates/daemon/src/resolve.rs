//! Names of servers, resolved again and again, in the supervisor.
//!
//! Owns the thread that asks (the C library's `getaddrinfo`, which waits) and the comparison;
//! the data process, which may open nothing, is told of changes by others.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// From one round's end to the next one's start. Short against the lives of most records, and a
/// query every ten seconds is nothing to a resolver.
pub(crate) const INTERVAL_DEFAULT: Duration = Duration::from_secs(10);

/// Names asked for at once, so that one whose name server is dead does not hold up all others.
const LOOKUPS_MAX: usize = 8;

/// A name and a port, as in `app.example:8080`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Name {
    /// A host name.
    pub(crate) host: String,
    /// A TCP port.
    pub(crate) port: u16,
}

/// News about a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Resolution {
    /// It has these addresses now, in ascending order.
    Addresses(Name, Vec<SocketAddr>),
    /// It could not be resolved, and why. What addresses it had still count.
    Failed(Name, String),
}

/// The thread that resolves. It ends soon after the drop, but nobody waits for it: a lookup under
/// way cannot be stopped.
#[derive(Debug)]
pub(crate) struct Resolver {
    names: Sender<BTreeSet<Name>>,
}

impl Resolver {
    /// Begins at once. `report` is called from the thread: for each name after its first lookup,
    /// then at each change, and when a failure begins, changes or ends.
    ///
    /// # Errors
    /// No thread could be made.
    pub(crate) fn start(
        names: BTreeSet<Name>,
        interval: Duration,
        report: impl FnMut(Resolution) + Send + 'static,
    ) -> io::Result<Self> {
        Self::start_with(look_up, names, interval, report)
    }

    /// Resolves these from now on, beginning at once. All are reported as if they were new: what
    /// a reload has built knows no addresses yet.
    pub(crate) fn replace(&self, names: BTreeSet<Name>) {
        // The thread ends only with us.
        let _ = self.names.send(names);
    }

    fn start_with(
        look_up: impl Fn(&Name) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
        names: BTreeSet<Name>,
        interval: Duration,
        mut report: impl FnMut(Resolution) + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let thread = thread::Builder::new().name("resolver".to_owned());
        thread.spawn(move || run(&look_up, names, interval, &receiver, &mut report))?;
        Ok(Self { names: sender })
    }
}

fn look_up(name: &Name) -> io::Result<Vec<SocketAddr>> {
    Ok((name.host.as_str(), name.port).to_socket_addrs()?.collect())
}

fn run(
    look_up: &(impl Fn(&Name) -> io::Result<Vec<SocketAddr>> + Sync),
    mut names: BTreeSet<Name>,
    interval: Duration,
    replaced: &Receiver<BTreeSet<Name>>,
    report: &mut impl FnMut(Resolution),
) {
    let mut ledger = Ledger::default();
    loop {
        for (name, result) in one_round(look_up, &names) {
            ledger.note(name, result).into_iter().for_each(&mut *report);
        }
        let next = match names.is_empty() {
            true => replaced.recv().map_err(RecvTimeoutError::from),
            false => replaced.recv_timeout(interval),
        };
        match next {
            Ok(new) => (names, ledger) = (new, Ledger::default()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

type Answers = Vec<(Name, io::Result<Vec<SocketAddr>>)>;

/// Resolves each name once, several at a time.
fn one_round(
    look_up: &(impl Fn(&Name) -> io::Result<Vec<SocketAddr>> + Sync),
    names: &BTreeSet<Name>,
) -> Answers {
    let queue = Mutex::new(names.iter());
    let next = || queue.lock().ok().and_then(|mut queue| queue.next());
    let work = || -> Answers {
        let answer = |name: &Name| (name.clone(), look_up(name));
        std::iter::from_fn(next).map(answer).collect()
    };
    thread::scope(|scope| {
        let others = LOOKUPS_MAX.min(names.len()).saturating_sub(1);
        // With fewer threads than wanted it only takes longer.
        let thread = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let mut threads = Vec::with_capacity(others);
        threads.extend((0..others).filter_map(thread));
        let mut answers = work();
        let joined = threads.into_iter().filter_map(|thread| thread.join().ok());
        answers.extend(joined.flatten());
        answers
    })
}

/// What was last said about each name.
#[derive(Debug, Default)]
struct Ledger {
    addresses: BTreeMap<Name, Vec<SocketAddr>>,
    failures: BTreeMap<Name, String>,
}

impl Ledger {
    /// What is news in a result.
    fn note(&mut self, name: Name, result: io::Result<Vec<SocketAddr>>) -> Option<Resolution> {
        let why = match result {
            Ok(addresses) if addresses.is_empty() => "it has no addresses".to_owned(),
            Ok(addresses) => return self.note_addresses(name, addresses),
            Err(error) => error.to_string(),
        };
        let before = self.failures.insert(name.clone(), why.clone());
        (before.as_deref() != Some(&why)).then_some(Resolution::Failed(name, why))
    }

    /// Resolvers shuffle their answers: only the set counts.
    fn note_addresses(&mut self, name: Name, mut addresses: Vec<SocketAddr>) -> Option<Resolution> {
        addresses.sort_unstable();
        addresses.dedup();
        let failed = self.failures.remove(&name).is_some();
        let before = self.addresses.insert(name.clone(), addresses.clone());
        let is_news = failed || before.as_ref() != Some(&addresses);
        is_news.then_some(Resolution::Addresses(name, addresses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// How long a test waits for what is bound to come.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn name(host: &str) -> Name {
        Name {
            host: host.to_owned(),
            port: 80,
        }
    }

    fn addresses(last: &[u8]) -> Vec<SocketAddr> {
        last.iter()
            .map(|last| SocketAddr::from(([192, 0, 2, *last], 80)))
            .collect()
    }

    /// A name server that gives each name its answers in turn, and the last one for ever.
    type Script = BTreeMap<Name, Vec<Result<Vec<SocketAddr>, &'static str>>>;

    fn start(script: Script, names: &[&str]) -> (Resolver, Receiver<Resolution>) {
        let script = Arc::new(Mutex::new(script));
        let look_up = move |name: &Name| {
            let mut script = script.lock().unwrap();
            let answers = script.get_mut(name).unwrap();
            let answer = match answers.len() {
                1 => answers[0].clone(),
                _ => answers.remove(0),
            };
            answer.map_err(io::Error::other)
        };
        let (sender, receiver) = mpsc::channel();
        // After the test nobody listens any more.
        let report = move |news| drop(sender.send(news));
        let names = names.iter().map(|host| name(host)).collect();
        let resolver = Resolver::start_with(look_up, names, Duration::from_millis(1), report);
        (resolver.unwrap(), receiver)
    }

    #[test]
    fn changes_are_told_and_repetitions_are_not() {
        let answers = vec![
            Ok(addresses(&[2, 1, 1])),
            Ok(addresses(&[1, 2])),
            Err("no route"),
            Err("no route"),
            Ok(Vec::new()),
            Ok(addresses(&[1, 2])),
            Ok(addresses(&[3])),
        ];
        let app = name("app.example");
        let (_resolver, news) = start(BTreeMap::from([(app.clone(), answers)]), &["app.example"]);
        let expected = [
            Resolution::Addresses(app.clone(), addresses(&[1, 2])),
            Resolution::Failed(app.clone(), "no route".to_owned()),
            Resolution::Failed(app.clone(), "it has no addresses".to_owned()),
            Resolution::Addresses(app.clone(), addresses(&[1, 2])),
            Resolution::Addresses(app, addresses(&[3])),
        ];
        for one in expected {
            assert_eq!(news.recv_timeout(PATIENCE).unwrap(), one);
        }
    }

    #[test]
    fn a_reload_is_told_all_again_and_only_of_its_names() {
        let script = |host: &str, last| (name(host), vec![Ok(addresses(&[last]))]);
        let script = BTreeMap::from([script("a", 1), script("b", 2), script("c", 3)]);
        let (resolver, news) = start(script, &["a", "b"]);
        let told = || match news.recv_timeout(PATIENCE).unwrap() {
            Resolution::Addresses(name, _) => name.host,
            failed => panic!("{failed:?}"),
        };
        let mut first = [told(), told()];
        first.sort();
        assert_eq!(first, ["a", "b"]);
        resolver.replace([name("b"), name("c")].into());
        let mut second = [told(), told()];
        second.sort();
        assert_eq!(second, ["b", "c"]);
    }

    #[test]
    fn the_thread_ends_with_its_owner() {
        let script = BTreeMap::from([(name("a"), vec![Ok(addresses(&[1]))])]);
        let (resolver, news) = start(script, &["a"]);
        news.recv_timeout(PATIENCE).unwrap();
        drop(resolver);
        // The sender lives in the thread.
        assert_eq!(
            news.recv_timeout(PATIENCE),
            Err(RecvTimeoutError::Disconnected)
        );
    }

    #[test]
    fn more_names_than_lookups_at_once_are_all_resolved() {
        let names: BTreeSet<Name> = (0..50).map(|number| name(&number.to_string())).collect();
        let answers = one_round(&|_: &Name| Ok(addresses(&[1])), &names);
        let resolved: BTreeSet<Name> = answers.into_iter().map(|(name, _)| name).collect();
        assert_eq!(resolved, names);
    }

    #[test]
    fn the_systems_resolver_knows_localhost() {
        let found = look_up(&name("localhost")).unwrap();
        assert!(
            found
                .iter()
                .all(|address| address.ip().is_loopback() && address.port() == 80)
        );
        assert!(!found.is_empty());
    }
}
