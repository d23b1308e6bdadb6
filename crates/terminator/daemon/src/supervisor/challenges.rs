//! Challenges of authorities: those in place, and those being put there.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use acme::messages::Challenge;
use config::{AcmeChallenge, AcmeEntry};
use sys::peer::Process;

use super::reading::{HOOK_PROCESSES_MAX, RunningReaders};
use super::upgrade::state::HookState;
use crate::acme_hook::Hook;
use crate::status_parts::Validations;

/// Maximum challenges at a time: ten concurrent orders of 100 names, and some that are being
/// removed.
pub(super) const CHALLENGES_MAX: usize = 1200;

/// Characters of a token and of a record's value; authorities have 43 (RFC 8555 section 8).
const TOKEN_MAX: usize = 128;

/// Programs that work at a time: a name server's interface may take few.
const HOOKS_MAX: usize = 4;

/// Time after which a program counts as only waiting, perhaps forever, and others begin.
const HOOK_WORK_TIME: Duration = Duration::from_secs(10);

/// Checks that a challenge may be put in place for an entry: its kind, one of the entry's domains,
/// and bounded sizes. The requester may be compromised, or repeat an authority's lies.
///
/// # Errors
/// Fails with the reason, as the end of a sentence.
pub(super) fn allowed(challenge: Challenge, entry: &AcmeEntry) -> Result<Challenge, &'static str> {
    let is_ours = |name: &str| {
        entry.domains.iter().any(|domain| domain.strip_prefix("*.").unwrap_or(domain) == name)
    };
    let is_token = |text: &str| {
        let of_base64url = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=TOKEN_MAX).contains(&text.len()) && text.bytes().all(of_base64url)
    };
    let no_token = "its token is too long, or no Base64url text (RFC 8555 section 8)";
    match (challenge, &entry.challenge) {
        (Challenge::TlsAlpn { identifier, digest }, AcmeChallenge::TlsAlpn) => {
            let identifier = identifier.to_ascii_lowercase();
            if !is_ours(&identifier) {
                return Err("it is for a name that the configuration does not have there");
            }
            Ok(Challenge::TlsAlpn { identifier, digest })
        }
        (Challenge::Http { token, key_authorization }, AcmeChallenge::Http) => {
            let thumbprint = key_authorization.strip_prefix(&token);
            let thumbprint = thumbprint.and_then(|rest| rest.strip_prefix('.'));
            if !is_token(&token) || !thumbprint.is_some_and(is_token) {
                return Err(no_token);
            }
            Ok(Challenge::Http { token, key_authorization })
        }
        (Challenge::Dns { domain, value, .. }, AcmeChallenge::Dns { .. }) => {
            let domain = domain.to_ascii_lowercase();
            if !is_ours(&domain) {
                return Err("it is for a name that the configuration does not have there");
            }
            if !is_token(&value) {
                return Err(no_token);
            }
            let record = format!("_acme-challenge.{domain}");
            Ok(Challenge::Dns { domain, record, value })
        }
        _ => Err("it is of another kind than the configuration has"),
    }
}

pub(super) struct RunningHook {
    pub(super) hook: Hook,
    /// Process that runs the program, once it runs.
    pub(super) reader: Option<u32>,
    works_until: Instant,
}

#[derive(Default)]
pub(super) struct PendingChallenges {
    /// Challenges that workers answer, or will, each with its certificate's name.
    pub(super) answered: BTreeMap<u64, (String, Challenge)>,
    /// Records that are in the DNS, or are being put there.
    pub(super) records: BTreeMap<u64, Hook>,
    /// Number of the last order to workers.
    pub(super) number: u64,
    /// Challenges in place once workers, here and on other hosts, have taken an order: the order's
    /// number, the challenge's, and the deadline of waiting for others.
    pub(super) asked: VecDeque<(u64, u64, Instant)>,
    pub(super) hooks: VecDeque<(u64, Hook)>,
    /// The challenges whose programs run: one at a time for each and for each record, because a
    /// record must not be taken away before it is there, nor once an order that another process
    /// goes on with has put it there again.
    pub(super) running: BTreeMap<u64, RunningHook>,
    /// Programs left by the previous program.
    pub(super) inherited: Vec<(HookState, Process)>,
    /// All records that may be in the DNS, as the disk must have them: the next start removes what
    /// is left when this process is killed.
    pub(super) recorded: Vec<Hook>,
    /// Programs that add records once the disk has [`Self::recorded`].
    pub(super) unrecorded: Vec<(u64, Hook)>,
    pub(super) readers: RunningReaders,
}

impl PendingChallenges {
    /// Returns all that workers must answer, with the order's number: for this host and for others.
    pub(super) fn in_place<'a>(
        &'a mut self,
        foreign: impl Iterator<Item = &'a Challenge>,
    ) -> (u64, Validations) {
        self.number += 1;
        let mut validations = Validations::default();
        for challenge in self.answered.values().map(|(_, challenge)| challenge).chain(foreign) {
            match challenge.clone() {
                Challenge::TlsAlpn { identifier, digest } => {
                    validations.tls.push((identifier, digest));
                }
                Challenge::Http { token, key_authorization } => {
                    validations.http.push((token, key_authorization));
                }
                Challenge::Dns { .. } => {}
            }
        }
        (self.number, validations)
    }

    /// Starts the next program if there is room for it, and returns it.
    pub(super) fn next_hook(&mut self, now: Instant) -> Option<(u64, Hook)> {
        let working = self.running.values().filter(|one| one.works_until > now).count();
        if working >= HOOKS_MAX || self.running.len() >= HOOK_PROCESSES_MAX {
            return None;
        }
        let waits = |hook: &Hook| {
            let mut running = self.running.values();
            running.any(|one| hook.is_for_record_of(&one.hook))
        };
        let place = self
            .hooks
            .iter()
            .position(|(id, hook)| !self.running.contains_key(id) && !waits(hook))?;
        let (id, hook) = self.hooks.remove(place)?;
        let works_until = now + HOOK_WORK_TIME;
        self.running.insert(id, RunningHook { hook: hook.clone(), reader: None, works_until });
        Some((id, hook))
    }

    /// Returns the running programs, for the next program of this process.
    pub(super) fn handed_on(&self) -> Vec<HookState> {
        let running = self.running.values().filter_map(|one| Some((&one.hook, one.reader?)));
        let state = |(hook, reader): (&Hook, u32)| {
            let (record, value) = (hook.record.clone(), hook.value.clone());
            HookState { record, value, reader }
        };
        running.map(state).collect()
    }

    /// Takes programs left by a previous program. Readers that are gone are not awaited, nor are
    /// unrelated processes that reused their numbers, which may never end.
    pub(super) fn inheriting(hooks: Vec<HookState>) -> Self {
        let living = hooks.into_iter().filter_map(|one| {
            let reader = Process::of(one.reader).ok()?;
            let is_ours = reader.parent().is_ok_and(|parent| parent == std::process::id());
            is_ours.then_some((one, reader))
        });
        Self { inherited: living.collect(), ..Self::default() }
    }

    /// Returns the process of an inherited program that changes the same record: the record's next
    /// program has to wait for it.
    pub(super) fn awaited(&mut self, id: u64, hook: &Hook) -> Option<Process> {
        let is_it = |one: &(HookState, Process)| {
            (&one.0.record, &one.0.value) == (&hook.record, &hook.value)
        };
        let place = self.inherited.iter().position(is_it)?;
        let (HookState { reader, .. }, process) = self.inherited.swap_remove(place);
        let (hook, reader, works_until) = (hook.clone(), Some(reader), Instant::now());
        self.running.insert(id, RunningHook { hook, reader, works_until });
        Some(process)
    }

    /// Returns when there may be room for another program, though none has ended.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let working = self.running.values().map(|one| one.works_until).filter(|at| *at > now);
        working.min().filter(|_| !self.hooks.is_empty())
    }

    /// Drops a record that no program has begun to put into the DNS.
    pub(super) fn leave_out(&mut self, id: u64, hook: &Hook) -> bool {
        let before = self.hooks.len() + self.unrecorded.len();
        self.hooks.retain(|(one, waiting)| *one != id || !waiting.presents);
        self.unrecorded.retain(|(one, _)| *one != id);
        let is_left_out = self.hooks.len() + self.unrecorded.len() < before;
        if is_left_out {
            self.recorded.retain(|one| one != hook);
        }
        is_left_out
    }

    pub(super) fn is_known(&self, id: u64) -> bool {
        self.answered.contains_key(&id) || self.records.contains_key(&id)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn programs_that_only_wait_hold_up_no_others_and_are_bounded() {
        let hook = |id: u64| Hook {
            program: PathBuf::new(),
            timeout: Duration::from_secs(86_400),
            presents: true,
            domain: String::new(),
            record: id.to_string(),
            value: String::new(),
        };
        let mut challenges = PendingChallenges::default();
        challenges.hooks.extend((0..100).map(|id| (id, hook(id))));
        let begin = |challenges: &mut PendingChallenges, now| {
            std::iter::from_fn(|| challenges.next_hook(now)).count()
        };
        let mut now = Instant::now();
        for _ in 0..HOOK_PROCESSES_MAX / HOOKS_MAX {
            assert_eq!(begin(&mut challenges, now), HOOKS_MAX);
            now = challenges.due(now).unwrap();
        }
        assert_eq!((begin(&mut challenges, now), challenges.due(now)), (0, None));
        challenges.running.remove(&0);
        assert_eq!(begin(&mut challenges, now), 1);
        // One that has to do with a record that another has in hand waits.
        challenges.hooks.push_front((1000, hook(1)));
        challenges.running.remove(&2);
        assert!(challenges.next_hook(now).is_some_and(|(id, _)| id != 1000));
        challenges.running.remove(&1);
        assert!(challenges.next_hook(now).is_some_and(|(id, _)| id == 1000));
        // A record that was not begun need not be removed.
        challenges.recorded = vec![hook(1), hook(99)];
        assert!(challenges.leave_out(99, &hook(99)) && !challenges.leave_out(1, &hook(1)));
        assert_eq!(challenges.recorded, [hook(1)]);
    }

    #[test]
    fn nobody_gets_another_name_validated_than_the_configuration_has() {
        let entry = |challenge| AcmeEntry {
            name: "a".to_owned(),
            service: String::new(),
            domains: ["a.example", "*.b.example", "192.0.2.1"].map(str::to_owned).to_vec(),
            contact: Vec::new(),
            directory: String::new(),
            roots: Vec::new(),
            profile: None,
            keys: Vec::new(),
            challenge,
            eab: None,
        };
        let hook = AcmeChallenge::Dns { hook: PathBuf::new(), timeout: Duration::ZERO };
        let tls = |name: &str| Challenge::TlsAlpn { identifier: name.to_owned(), digest: [0; 32] };
        let http = |token: &str, answer: &str| Challenge::Http {
            token: token.to_owned(),
            key_authorization: answer.to_owned(),
        };
        let dns = |domain: &str, record: &str, value: &str| {
            let [domain, record, value] = [domain, record, value].map(str::to_owned);
            Challenge::Dns { domain, record, value }
        };
        let long = "x".repeat(TOKEN_MAX + 1);
        for (challenge, of, is_allowed) in [
            (tls("A.example"), AcmeChallenge::TlsAlpn, true),
            (tls("192.0.2.1"), AcmeChallenge::TlsAlpn, true),
            (tls("c.example"), AcmeChallenge::TlsAlpn, false),
            (tls("*.b.example"), AcmeChallenge::TlsAlpn, false),
            (tls("a.example"), AcmeChallenge::Http, false),
            (http("t0", "t0.th-u_mb"), AcmeChallenge::Http, true),
            (http("t0", "other.thumb"), AcmeChallenge::Http, false),
            (http("t0", "t0.thumb\n"), AcmeChallenge::Http, false),
            (http("../t", "../t.thumb"), AcmeChallenge::Http, false),
            (http(&long, &format!("{long}.a")), AcmeChallenge::Http, false),
            (http("t0", "t0.thumb"), hook.clone(), false),
            (dns("b.example", "b.example", "v"), hook.clone(), true),
            (dns("c.example", "_acme-challenge.b.example", "v"), hook.clone(), false),
            (dns("a.example", "", &long), hook, false),
        ] {
            let found = allowed(challenge.clone(), &entry(of));
            assert_eq!(found.is_ok(), is_allowed, "{challenge:?}: {found:?}");
            if let Ok(Challenge::Dns { record, .. }) = found {
                assert_eq!(record, "_acme-challenge.b.example");
            }
        }
    }
}
