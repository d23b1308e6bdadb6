//! How a host that started, or was cut off, learns of the sessions that it missed: it asks one peer
//! at a time, and is sent them at a bounded pace.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use wire::cluster::Message;

use super::outside::LocalSessions;
use super::parts::session;

/// How long a peer that was asked may send no answer before another one is asked. Twice as long
/// later it may be the same.
const PATIENCE: Duration = Duration::from_secs(2);

/// Peers asked before it is given up: what is then missing is fetched session by session.
const TRIES_MAX: u8 = 5;

/// Peers that are sent sessions at a time.
const REPLAYS_MAX: usize = 8;

/// Bytes of sessions that a peer is sent at a time, and how long until the next ones. So peers are
/// sent 5 MB per second at most, whatever `resync-rate` says.
const STEP_BYTES: usize = 24 << 10;
const STEP_PAUSE: Duration = Duration::from_millis(5);

/// How often the end is said: a datagram may be lost, and then all is asked for again.
const ENDS: u8 = 3;

/// How far a host is with the sessions that it missed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CatchUpState {
    /// It has missed none, or was told all of them.
    #[default]
    Done,
    /// No peer has answered yet.
    Asking,
    Receiving,
    /// It has asked in vain, or a peer stopped sending.
    GivenUp,
}

/// The sessions that a host has missed, as the peer says that sends them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CatchUp {
    pub state: CatchUpState,
    /// The peer's number; `None` = none has answered.
    pub peer: Option<[u8; 8]>,
    /// Sessions that it has sent.
    pub sent: u32,
    /// Sessions that it has to send, about.
    pub all: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Missed {
    /// Since when, by the clock of the peer to be asked; 0 = all. `None` = nothing is missed.
    since_ms: Option<u64>,
    /// Who was asked, and when it last answered: signs of life say nothing of a request that was
    /// lost, or refused.
    asked: Option<([u8; 8], Instant)>,
    tries: u8,
    progress: CatchUp,
}

impl Missed {
    /// All, or all since then.
    pub(crate) fn note(&mut self, since_ms: u64) {
        let before = self.since_ms.unwrap_or(u64::MAX);
        *self = Self {
            since_ms: Some(since_ms.min(before)),
            progress: CatchUp { state: CatchUpState::Asking, ..CatchUp::default() },
            ..Self::default()
        };
    }

    /// A peer was heard: since when it is to be asked now, if it is.
    pub(crate) fn heard(&mut self, peer: [u8; 8], now: Instant) -> Option<u64> {
        let since_ms = self.since_ms?;
        if let Some((asked, answered)) = self.asked {
            let patience = PATIENCE * (1 + u32::from(asked == peer));
            if now.saturating_duration_since(answered) < patience {
                return None;
            }
        }
        if self.tries == TRIES_MAX {
            self.end(CatchUpState::GivenUp);
            return None;
        }
        self.tries += 1;
        self.asked = Some((peer, now));
        Some(since_ms)
    }

    /// A peer has sent `sent` sessions of `all`.
    pub(crate) fn sent(&mut self, peer: [u8; 8], (sent, all): (u32, u32), now: Instant) {
        if self.since_ms.is_none() || self.asked.is_none_or(|(asked, _)| asked != peer) {
            return;
        }
        self.asked = Some((peer, now));
        self.progress = CatchUp { state: CatchUpState::Receiving, peer: Some(peer), sent, all };
        if sent == all {
            self.end(CatchUpState::Done);
        }
    }

    fn end(&mut self, state: CatchUpState) {
        let progress = CatchUp { state, ..self.progress };
        *self = Self { progress, ..Self::default() };
    }

    pub(crate) fn progress(&self) -> CatchUp {
        self.progress
    }

    /// Whether something is missed, as far as is known.
    pub(crate) fn is_open(&self) -> bool {
        self.since_ms.is_some()
    }

    /// Whether a peer is just sending it.
    pub(crate) fn is_answered(&self, now: Instant) -> bool {
        let is_late = |at| now.saturating_duration_since(at) >= PATIENCE;
        self.progress.state == CatchUpState::Receiving
            && !self.asked.is_none_or(|one| is_late(one.1))
    }
}

/// The sessions that a peer has missed and is still to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replay {
    peer: [u8; 8],
    to: SocketAddr,
    /// Older sessions are not sent; `None` = all are.
    since: Option<Instant>,
    /// The place of the walk.
    place: u64,
    sent: u32,
    /// How often its end was said.
    ends: u8,
}

impl Replay {
    pub(crate) fn new(peer: [u8; 8], to: SocketAddr, since: Option<Instant>) -> Self {
        Self { peer, to, since, place: 0, sent: 0, ends: 0 }
    }

    /// The progress of the catch-up, of `count` sessions.
    fn said(&self, count: usize) -> Message<'static> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let all = match self.ends {
            0 => count.max(self.sent.saturating_add(1)),
            _ => self.sent,
        };
        Message::Resynced { peer: self.peer, sent: self.sent, all }
    }
}

/// All of them; each has its turn.
#[derive(Debug, Default)]
pub(crate) struct Replays(VecDeque<Replay>);

impl Replays {
    /// Ends all if there is no rate: none would come to its end, and who is sent one asks no other
    /// host.
    pub(crate) fn end_without(&mut self, rate: u32) {
        if rate == 0 {
            self.0.clear();
        }
    }

    /// A peer asks, perhaps again. Beyond the bound it has to ask another one.
    pub(crate) fn begin(&mut self, replay: Replay) {
        self.0.retain(|other| other.peer != replay.peer);
        if self.0.len() < REPLAYS_MAX {
            self.0.push_back(replay);
        }
    }

    /// Sends the next one a few of its sessions, by this rate per second: how long it is until the
    /// next step.
    pub(crate) fn step(
        &mut self,
        rate: u32,
        now: Instant,
        sessions: &dyn LocalSessions,
        mut send: impl FnMut(SocketAddr, &Message<'_>) -> bool,
    ) -> Duration {
        let pause = STEP_PAUSE.max(Duration::from_secs(1) / rate.max(1));
        let Some(mut replay) = self.0.pop_front() else {
            return pause;
        };
        let age_max = replay.since.map(|since| now.saturating_duration_since(since));
        let age_max = age_max.unwrap_or(Duration::MAX);
        let mut bytes = 0;
        for _ in 0..(f64::from(rate) * pause.as_secs_f64()).round() as usize {
            if bytes >= STEP_BYTES {
                break;
            }
            let Some(found) = sessions.walk(&mut replay.place, age_max, now) else {
                replay.ends += 1;
                break;
            };
            if let Some(found) = found {
                let message = session(&found.key, &found.value, found.lifetime);
                send(replay.to, &message);
                replay.sent = replay.sent.saturating_add(1);
                bytes += message.bytes();
            }
        }
        send(replay.to, &replay.said(sessions.count()));
        if replay.ends < ENDS {
            self.0.push_back(replay);
        }
        pause
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
mod tests {
    use super::*;

    #[test]
    fn peers_are_asked_one_by_one_until_one_has_answered() {
        let (a, b) = ([1; 8], [2; 8]);
        let start = Instant::now();
        let mut missed = Missed::default();
        assert_eq!(missed.heard(a, start), None);
        missed.note(70);
        missed.note(90);
        assert_eq!(missed.heard(a, start), Some(70));
        assert_eq!(missed.heard(b, start + PATIENCE / 2), None);
        assert_eq!(missed.heard(a, start + PATIENCE), None, "another one first");
        assert_eq!(missed.heard(b, start + PATIENCE), Some(70));
        missed.sent(a, (5, 5), start + PATIENCE);
        assert!(missed.is_open(), "it is not the one that was asked");
        missed.sent(b, (5, 9), start + 2 * PATIENCE);
        assert!(missed.is_answered(start + 2 * PATIENCE));
        assert_eq!(missed.heard(a, start + 5 * PATIENCE / 2), None);
        missed.sent(b, (9, 9), start + 5 * PATIENCE / 2);
        assert_eq!(missed.heard(a, start + 9 * PATIENCE), None);
        let CatchUp { state, peer, sent, .. } = missed.progress();
        assert_eq!((state, peer, sent), (CatchUpState::Done, Some(b), 9));
    }

    #[test]
    fn who_is_alone_is_asked_again_and_asking_ends() {
        let start = Instant::now();
        let mut missed = Missed::default();
        missed.note(0);
        let asks = |half: &u32| missed.heard([1; 8], start + PATIENCE * *half / 2).is_some();
        let asked: Vec<_> = (0..40).filter(asks).collect();
        assert_eq!(asked, [0, 4, 8, 12, 16]);
        assert_eq!(missed.progress().state, CatchUpState::GivenUp);
    }
    /// A catch-up would not come to its end, and who waits for one asks no other host.
    #[test]
    fn a_rate_of_nothing_ends_what_is_being_sent() {
        let mut replays = Replays::default();
        let to = SocketAddr::from(([192, 0, 2, 1], 8888));
        replays.begin(Replay::new([1; 8], to, None));
        replays.end_without(1);
        assert!(!replays.is_empty());
        replays.end_without(0);
        assert!(replays.is_empty());
    }
}
