//! Catch-up of a host that started, or was cut off: the host asks one peer at a time for the
//! sessions that it missed, and receives them at a bounded pace.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use wire::cluster::Message;

use super::outside::LocalSessions;
use super::parts::session;

/// Time that an asked peer may stay silent before another one is asked. The same peer may be asked
/// again after twice this time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Peers asked before giving up: each session still missing is then fetched when it is offered.
const TRIES_MAX: u8 = 5;

/// Most peers that are sent their missed sessions at a time.
const REPLAYS_MAX: usize = 8;

/// Bytes of sessions sent to a peer per step, and the pause between steps. Together they bound the
/// pace to 5 MB per second, whatever `resync-rate` says.
const STEP_BYTES: usize = 24 << 10;
const STEP_PAUSE: Duration = Duration::from_millis(5);

/// Repetitions of the final message: a datagram may be lost, and then all is asked for again.
const ENDS: u8 = 3;

/// State of a host's catch-up with the sessions that it missed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CatchUpState {
    /// The host has missed none, or has received all of them.
    #[default]
    Done,
    /// No peer has answered yet.
    Asking,
    Receiving,
    /// The host has asked in vain, or a peer stopped sending.
    GivenUp,
}

/// Progress of the catch-up, as the sending peer reports it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CatchUp {
    pub state: CatchUpState,
    /// Number of the sending peer; `None` if none has answered.
    pub peer: Option<[u8; 8]>,
    /// Sessions that the peer has sent.
    pub sent: u32,
    /// Approximate number of sessions that the peer has to send.
    pub all: u32,
}

#[derive(Debug, Default)]
pub(crate) struct MissedSessions {
    /// Start of the missed time, by the asked peer's clock; 0 = everything, `None` = nothing.
    since_ms: Option<u64>,
    /// Peer that was asked, and the time of its last answer: heartbeats do not show that a request
    /// was lost, or refused.
    asked: Option<([u8; 8], Instant)>,
    tries: u8,
    progress: CatchUp,
}

impl MissedSessions {
    /// Notes that all sessions since `since_ms` are missed; 0 = all.
    pub(crate) fn note(&mut self, since_ms: u64) {
        let before = self.since_ms.unwrap_or(u64::MAX);
        *self = Self {
            since_ms: Some(since_ms.min(before)),
            progress: CatchUp { state: CatchUpState::Asking, ..CatchUp::default() },
            ..Self::default()
        };
    }

    /// Notes a peer's datagram. Returns since when sessions are missed if it is to be asked now.
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

    /// Notes that a peer has sent `sent` sessions of `all`.
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

    /// Reports whether sessions are known to be missing.
    pub(crate) fn is_open(&self) -> bool {
        self.since_ms.is_some()
    }

    /// Reports whether a peer is sending them right now.
    pub(crate) fn is_answered(&self, now: Instant) -> bool {
        let is_late = |at| now.saturating_duration_since(at) >= PATIENCE;
        self.progress.state == CatchUpState::Receiving
            && !self.asked.is_none_or(|one| is_late(one.1))
    }
}

/// Sessions that a peer has missed and must still be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replay {
    peer: [u8; 8],
    to: SocketAddr,
    /// Age limit: older sessions are not sent; `None` = all are.
    since: Option<Instant>,
    /// Place of the walk through the sessions.
    place: u64,
    sent: u32,
    /// Number of final messages sent.
    ends: u8,
}

impl Replay {
    pub(crate) fn new(peer: [u8; 8], to: SocketAddr, since: Option<Instant>) -> Self {
        Self { peer, to, since, place: 0, sent: 0, ends: 0 }
    }

    /// Returns the message about the progress, of `count` sessions.
    fn said(&self, count: usize) -> Message<'static> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let all = match self.ends {
            0 => count.max(self.sent.saturating_add(1)),
            _ => self.sent,
        };
        Message::Resynced { peer: self.peer, sent: self.sent, all }
    }
}

/// Queue of all replays, served in turn.
#[derive(Debug, Default)]
pub(crate) struct Replays(VecDeque<Replay>);

impl Replays {
    /// Ends all replays if the rate is 0: none would ever finish, and a peer that waits for one
    /// asks no other host.
    pub(crate) fn end_without(&mut self, rate: u32) {
        if rate == 0 {
            self.0.clear();
        }
    }

    /// Starts a peer's replay, or restarts it. Beyond the limit, the peer has to ask another host.
    pub(crate) fn begin(&mut self, replay: Replay) {
        self.0.retain(|other| other.peer != replay.peer);
        if self.0.len() < REPLAYS_MAX {
            self.0.push_back(replay);
        }
    }

    /// Sends the next peer a few of its sessions, at this rate per second. Returns the pause until
    /// the next step.
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
        let mut missed = MissedSessions::default();
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
        let mut missed = MissedSessions::default();
        missed.note(0);
        let asks = |half: &u32| missed.heard([1; 8], start + PATIENCE * *half / 2).is_some();
        let asked: Vec<_> = (0..40).filter(asks).collect();
        assert_eq!(asked, [0, 4, 8, 12, 16]);
        assert_eq!(missed.progress().state, CatchUpState::GivenUp);
    }
    /// A catch-up would never finish, and a peer that waits for one asks no other host.
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
