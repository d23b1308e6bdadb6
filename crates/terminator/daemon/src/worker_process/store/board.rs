//! Notices of supervisors by way of the store, for hosts that share nothing else: each host has a
//! mailbox there, a value with what it has said of late, and reads those of all others.
//!
//! Owns the mailboxes' places and form, pure: values and the time in. A store that is trusted with
//! nothing can drop or delay notices, as a network can; what they say is sealed by supervisors
//! (`tls::resumption::cluster`), who take each once. A mailbox is its owner's number in a line of
//! its own, and a line for each notice.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use wire::store::VALUE_BYTES_MAX;

/// Mailboxes, so the most hosts: each reads all of them twice per second.
pub(super) const PLACES: usize = 16;

/// From one look into the mailboxes to the next: a challenge waits for two looks of each host, and
/// for no longer than five seconds.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// How long a notice stays in its mailbox: others have looked several times.
const NOTICE_KEPT: Duration = Duration::from_secs(5);

/// Seconds after which the store deletes the mailbox of a host that says nothing: more than a host
/// of which nothing is heard counts as alive.
pub(super) const MAILBOX_SECONDS: u64 = 15;

/// No mailbox is looked into for a supervisor that has said nothing for so long: it shares no
/// certificates any more, or has another worker process.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Notices taken from a mailbox at a time: a host says some two per second.
const TAKEN_MAX: usize = 64;

/// The longest notice that is passed on, which is longer than any of ours.
const NOTICE_BYTES_MAX: usize = VALUE_BYTES_MAX / 2;

/// The mailbox of this host, and what was seen in those of others.
#[derive(Default)]
pub(super) struct NoticeBoard {
    own: String,
    /// The place of its mailbox.
    place: usize,
    notices: VecDeque<(Instant, String)>,
    has_news: bool,
    /// When its supervisor said something last.
    said: Option<Instant>,
    /// The last contents of each place; `None` = it was not looked at yet.
    seen: [Option<String>; PLACES],
}

impl NoticeBoard {
    /// For the host with this number, which no other has.
    pub(super) fn new(own: [u8; 8]) -> Self {
        let own = u64::from_be_bytes(own);
        Self {
            own: format!("{own:016x}"),
            place: usize::try_from(own % PLACES as u64).unwrap_or_default(),
            ..Self::default()
        }
    }

    pub(super) fn name(prefix: &str, place: usize) -> String {
        format!("{prefix}notices-{place}")
    }

    pub(super) fn add(&mut self, notice: String, now: Instant) {
        self.notices.push_back((now, notice));
        (self.has_news, self.said) = (true, Some(now));
        let bytes = |notices: &VecDeque<(Instant, String)>| {
            notices.iter().map(|(_, notice)| notice.len() + 1).sum::<usize>()
        };
        // The newest ones fit; others are said again.
        while bytes(&self.notices) > VALUE_BYTES_MAX - self.own.len() {
            self.notices.pop_front();
        }
    }

    pub(super) fn is_used(&self, now: Instant) -> bool {
        self.said.is_some_and(|said| now < said + SILENCE_MAX)
    }

    /// The place and the new contents of this host's mailbox, once it is known whose that is.
    pub(super) fn post(&mut self, now: Instant) -> Option<(usize, String)> {
        let is_ours = self.seen[self.place].as_ref().is_some_and(|seen| self.may_take(seen));
        if !is_ours || !std::mem::take(&mut self.has_news) {
            return None;
        }
        self.notices.retain(|(at, _)| now < *at + NOTICE_KEPT);
        let notices = self.notices.iter().map(|(_, notice)| &notice[..]);
        let lines: Vec<_> = std::iter::once(&self.own[..]).chain(notices).collect();
        Some((self.place, lines.join("\n")))
    }

    fn may_take(&self, contents: &str) -> bool {
        contents.is_empty() || contents.lines().next() == Some(&self.own)
    }

    /// Takes what lies at each place, and returns the notices that are new. Two hosts that have
    /// taken one place find that only the later one has it; the other goes to a free one.
    pub(super) fn look(&mut self, contents: [Option<Vec<u8>>; PLACES]) -> Vec<String> {
        let mut new = Vec::new();
        for (seen, now) in self.seen.iter_mut().zip(contents) {
            let now = now.and_then(|now| String::from_utf8(now).ok()).unwrap_or_default();
            let owner = now.lines().next().unwrap_or_default();
            // What came before this host first looked has been taken, or was not for it.
            if let Some(before) = seen.as_ref().filter(|_| owner != self.own) {
                let is_new = |notice: &&str| {
                    notice.len() <= NOTICE_BYTES_MAX && before.lines().all(|one| one != *notice)
                };
                let notices = now.lines().skip(1).take(TAKEN_MAX);
                new.extend(notices.filter(is_new).map(str::to_owned));
            }
            *seen = Some(now);
        }
        let is_free = |place: &usize| self.seen[*place].as_ref().is_some_and(String::is_empty);
        let is_taken = self.seen[self.place].as_ref().is_some_and(|seen| !self.may_take(seen));
        if is_taken {
            let later = (self.place..PLACES).chain(0..self.place);
            self.place = later.into_iter().find(is_free).unwrap_or(self.place);
            self.has_news = true;
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Places = [Option<Vec<u8>>; PLACES];

    /// One look of each host; what it writes is there for the next one.
    fn turn(hosts: &mut [NoticeBoard], places: &mut Places, now: Instant) -> Vec<Vec<String>> {
        let look = |host: &mut NoticeBoard| {
            if let Some((place, contents)) = host.post(now) {
                places[place] = Some(contents.into_bytes());
            }
            host.look(places.clone())
        };
        hosts.iter_mut().map(look).collect()
    }

    #[test]
    fn each_notice_comes_once_at_all_others() {
        // Two of them want the same place.
        let numbers = [3_u64, 3 + PLACES as u64, 9];
        let mut hosts = numbers.map(|number| NoticeBoard::new(number.to_be_bytes()));
        let (mut places, mut now) = (Places::default(), Instant::now());
        for host in &mut hosts {
            assert!(!host.is_used(now));
            host.add("before".to_owned(), now);
        }
        for _ in 0..4 {
            turn(&mut hosts, &mut places, now);
        }
        assert_eq!(places.iter().flatten().count(), 3, "each has a place of its own");
        for round in 0..40 {
            now += Duration::from_secs(1);
            for (number, host) in (0..).zip(&mut hosts) {
                host.add(format!("{round} of {number}"), now);
            }
            let mut heard = turn(&mut hosts, &mut places, now);
            let later = turn(&mut hosts, &mut places, now);
            heard.iter_mut().zip(later).for_each(|(heard, later)| heard.extend(later));
            for (number, heard) in heard.iter_mut().enumerate() {
                heard.sort();
                let others = (0..3).filter(|other| *other != number);
                let expected: Vec<_> = others.map(|other| format!("{round} of {other}")).collect();
                assert_eq!(*heard, expected);
            }
        }
        let longest = places.iter().flatten().map(Vec::len).max();
        assert!(longest.is_some_and(|longest| longest < 100), "old ones go: {longest:?}");
        assert!(hosts[0].is_used(now) && !hosts[0].is_used(now + SILENCE_MAX));
    }

    #[test]
    fn a_store_that_lies_or_is_full_costs_little() {
        let mut host = NoticeBoard::new([0; 8]);
        let now = Instant::now();
        host.look(Places::default());
        let mut lies = Places::default();
        lies[0] = Some(b"other\nfirst".to_vec());
        lies[1] = Some(vec![0xff; VALUE_BYTES_MAX]);
        lies[2] = Some([&b"x\n"[..], &b"a\n".repeat(VALUE_BYTES_MAX / 2 - 1)].concat());
        lies[3] = Some([&b"x\n"[..], &[b'a'; NOTICE_BYTES_MAX + 1]].concat());
        assert_eq!(host.look(lies).len(), 1 + TAKEN_MAX);
        // Somebody else has its place, and all others.
        host.look([(); PLACES].map(|()| Some(b"x".to_vec())));
        host.add("a".to_owned(), now);
        assert_eq!(host.post(now), None);
        host.look(Places::default());
        for number in 0..100 {
            host.add(format!("{number:0>9999}"), now);
        }
        let (_, contents) = host.post(now).expect("it has a place again");
        assert!(contents.len() <= VALUE_BYTES_MAX && contents.ends_with("99"));
    }
}
