//! How a host that started, or was cut off, learns of the sessions that it missed: it asks one peer
//! at a time, and is sent them at a bounded pace.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long a peer that was asked may send no answer before one is asked again, be it the same.
const PATIENCE: Duration = Duration::from_secs(2);

/// Peers asked before it is given up: what is then missing is fetched session by session.
const TRIES_MAX: u8 = 5;

/// Peers that are sent sessions at a time.
const REPLAYS_MAX: usize = 8;

/// What a host has missed.
#[derive(Debug, Default)]
pub(crate) struct Missed {
    /// Since when, by the clock of the peer to be asked; 0 = all. `None` = nothing is missed.
    since_ms: Option<u64>,
    /// Who was asked, and when it last sent something that may be an answer: signs of life say
    /// nothing of a request that was lost, or refused.
    asked: Option<([u8; 8], Instant)>,
    tries: u8,
}

impl Missed {
    /// All, or all since then.
    pub(crate) fn note(&mut self, since_ms: u64) {
        let before = self.since_ms.unwrap_or(u64::MAX);
        *self = Self {
            since_ms: Some(since_ms.min(before)),
            ..Self::default()
        };
    }

    /// A peer has sent something, to all or as an answer: since when it is to be asked now, if it
    /// is.
    pub(crate) fn heard(&mut self, peer: [u8; 8], is_answer: bool, now: Instant) -> Option<u64> {
        let since_ms = self.since_ms?;
        match &mut self.asked {
            Some((asked, heard)) if *asked == peer && is_answer => {
                *heard = now;
                return None;
            }
            Some((_, heard)) if now.saturating_duration_since(*heard) < PATIENCE => return None,
            _ => {}
        }
        if self.tries == TRIES_MAX {
            *self = Self::default();
            return None;
        }
        self.tries += 1;
        self.asked = Some((peer, now));
        Some(since_ms)
    }

    /// Whether something is missed, as far as is known.
    pub(crate) fn is_open(&self) -> bool {
        self.since_ms.is_some()
    }

    /// A peer has sent all that it has.
    pub(crate) fn ended(&mut self, peer: [u8; 8]) {
        if self.asked.is_some_and(|(asked, _)| asked == peer) {
            *self = Self::default();
        }
    }
}

/// What a peer that has missed sessions is still to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replay {
    pub(crate) peer: [u8; 8],
    pub(crate) to: SocketAddr,
    /// The place in what is remembered.
    pub(crate) next: u64,
}

/// All of them; each has its turn.
#[derive(Debug, Default)]
pub(crate) struct Replays(VecDeque<Replay>);

impl Replays {
    /// A peer asks, perhaps again. Beyond the bound it has to ask another one.
    pub(crate) fn begin(&mut self, replay: Replay) {
        self.0.retain(|other| other.peer != replay.peer);
        if self.0.len() < REPLAYS_MAX {
            self.0.push_back(replay);
        }
    }

    pub(crate) fn take(&mut self) -> Option<Replay> {
        self.0.pop_front()
    }

    pub(crate) fn resume(&mut self, replay: Replay) {
        self.0.push_back(replay);
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
        assert_eq!(missed.heard(a, true, start), None);
        missed.note(70);
        missed.note(90);
        assert_eq!(missed.heard(a, true, start), Some(70));
        assert_eq!(missed.heard(b, true, start + PATIENCE / 2), None);
        assert_eq!(missed.heard(b, true, start + PATIENCE), Some(70));
        missed.ended(a);
        assert_eq!(missed.heard(a, true, start + 2 * PATIENCE), Some(70));
        missed.ended(a);
        assert_eq!(missed.heard(b, true, start + 9 * PATIENCE), None);
    }

    #[test]
    fn signs_of_life_are_no_answer() {
        let (a, start) = ([1; 8], Instant::now());
        let mut missed = Missed::default();
        missed.note(0);
        let at = [
            (0, false),
            (1, false),
            (2, false),
            (3, true),
            (4, false),
            (5, false),
        ];
        let asked = at.map(|(half, is_answer)| {
            let now = start + PATIENCE * half / 2;
            missed.heard(a, is_answer, now).is_some()
        });
        assert_eq!(asked, [true, false, true, false, false, true]);
    }

    #[test]
    fn asking_ends() {
        let start = Instant::now();
        let mut missed = Missed::default();
        missed.note(0);
        let asked = (0u32..20).filter(|&round| {
            let peer = [(round % 3) as u8; 8];
            missed
                .heard(peer, false, start + PATIENCE * round)
                .is_some()
        });
        assert_eq!(asked.count(), usize::from(TRIES_MAX));
    }
}
