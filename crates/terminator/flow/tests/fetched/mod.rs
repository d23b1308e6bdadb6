//! A client offers a session of another host: the handshake waits for it, briefly.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use flow::events::{Action, Event};
use flow::options::SendProxy;
use session::mesh::LocalSessions;
use session::{Request, Tiers};
use telemetry::outcome::{HandshakeKind, ResumptionMiss, SessionTier};
use testkit::client::ClientChoice;
use tls::options::Tls13Sessions;
use tls::resumption::{OfferedSession, Resumption, ResumptionOptions};

use crate::simulation::{Run, Stage};

const CACHE: Tls13Sessions = Tls13Sessions::Cache { early_data_bytes_max: 0 };

/// Two hosts of one service, each with its tiers.
struct Hosts {
    stages: [Stage; 2],
    tiers: [Arc<Tiers>; 2],
}

impl Hosts {
    fn new(tls13_sessions: Tls13Sessions) -> Self {
        let stage = Stage::with_sessions(SendProxy::Off, tls13_sessions);
        let options = [1, 2].map(|secret| ResumptionOptions::new([secret; 32]));
        let tiers = options.each_ref().map(|one| Arc::clone(&one.tiers));
        tiers.iter().for_each(|one| one.open(|| {}));
        let host = |options: ResumptionOptions| {
            let mut stage = stage.clone();
            stage.resumption = Arc::new(Resumption::new(&options));
            // The server is rebuilt with the new session cache.
            stage.changed(|_| {})
        };
        Self { stages: options.map(host), tiers }
    }

    /// Makes one connection to the first host, and returns its requests to the tiers.
    fn first_visit(&self, choice: &ClientChoice, seed: u64) -> Vec<Request> {
        let mut run = Run::relaying(&self.stages[0], choice, seed, b"reply".to_vec());
        run.until("the reply", |run| run.client_got == b"reply");
        assert!(!run.actions.contains(&Action::FetchSession), "a first visit offers nothing");
        run.backend.as_mut().unwrap().is_ended = true;
        run.finish();
        self.tiers[0].take(9).into()
    }

    /// Looks for a session on the second host, which gets what the first one published.
    fn bring(&self, wanted: OfferedSession, published: &[Request]) -> SessionTier {
        let sessions = self.stages[1].resumption.shared_sessions();
        for request in published {
            if let Request::Publish { key, once, value, lifetime } = request {
                let now = std::time::Instant::now();
                assert_eq!(*once, wanted.once, "both hosts know how often");
                let is_new = sessions.insert(key, value, *lifetime, now);
                assert!(is_new || *key != wanted.key);
            }
        }
        SessionTier::Peers
    }
}

fn kinds_of_client(stage: &Stage) -> [(ClientChoice, HandshakeKind); 2] {
    [
        (stage.choice(false, &[]).without_tickets(), HandshakeKind::SessionId),
        (stage.choice(true, &[]), HandshakeKind::PskCache),
    ]
}

#[test]
fn a_session_that_another_host_has_is_resumed_at_any_split() {
    let hosts = Rc::new(Hosts::new(CACHE));
    for seed in 0..20 {
        for (choice, kind) in kinds_of_client(&hosts.stages[0]) {
            let published = hosts.first_visit(&choice, seed);
            let mut run = Run::new(&hosts.stages[1], &choice, seed, b"reply".to_vec());
            let its = Rc::clone(&hosts);
            run.on_fetch = Some(Box::new(move |key| Some(its.bring(key, &published))));
            run.until("the reply", |run| run.client_got == b"reply");
            assert_eq!(run.flow.facts().handshake, Some(kind));
            assert_eq!(run.flow.facts().session_tier, Some(SessionTier::Peers));
            run.backend.as_mut().unwrap().is_ended = true;
            run.finish();
            let deleted = hosts.tiers[1].take(9).into_iter();
            let deleted = deleted.filter(|one| matches!(one, Request::Delete { .. }));
            let is_used_up = kind == HandshakeKind::PskCache;
            assert_eq!(deleted.count(), usize::from(is_used_up), "single use is told");
        }
    }
}

#[test]
fn a_session_that_nobody_has_or_nobody_answers_for_ends_in_a_full_handshake() {
    let hosts = Hosts::new(CACHE);
    for is_answered in [true, false] {
        for (choice, _) in kinds_of_client(&hosts.stages[0]) {
            hosts.first_visit(&choice, 1);
            let mut run = Run::new(&hosts.stages[1], &choice, 2, b"reply".to_vec());
            run.on_fetch = Some(Box::new(move |_| is_answered.then_some(SessionTier::Nowhere)));
            run.until("the question", |run| run.actions.contains(&Action::FetchSession));
            if !is_answered {
                let deadline = run.flow.deadline().expect("an answer may be late");
                assert!(deadline <= run.now + Duration::from_millis(1200));
                assert!(run.flow.front_room(&mut run.pool).is_none(), "nothing is read");
                run.now = deadline;
                run.handle(Event::Timeout);
            }
            run.until("the reply", |run| run.client_got == b"reply");
            let facts = run.flow.facts();
            assert_eq!(facts.handshake, Some(HandshakeKind::Full));
            assert_eq!(facts.session_tier, Some(SessionTier::Nowhere));
            assert_eq!(facts.resumption_miss, Some(ResumptionMiss::Unknown));
            run.handle(Event::SessionFetched(SessionTier::Peers));
            run.backend.as_mut().unwrap().is_ended = true;
            run.finish();
            let asked = run.actions.iter().filter(|one| **one == Action::FetchSession);
            assert_eq!(asked.count(), 1);
        }
    }
}

#[test]
fn sessions_that_let_early_data_in_stay_on_their_host() {
    let early = Tls13Sessions::Cache { early_data_bytes_max: 16_640 };
    let hosts = Hosts::new(early);
    let [_, (choice, _)] = kinds_of_client(&hosts.stages[0]);
    assert!(hosts.first_visit(&choice, 1).is_empty(), "nothing is published");
    let mut run = Run::new(&hosts.stages[1], &choice, 2, b"reply".to_vec());
    run.until("the reply", |run| run.client_got == b"reply");
    assert!(!run.actions.contains(&Action::FetchSession));
}
