//! The peers' tier: hosts that send each other their sessions in datagrams.
//!
//! Owns the protocol, pure: datagrams and the time in, datagrams out. Every new session goes to all
//! peers at once; one that did not arrive is asked for when a client offers it. What a datagram can
//! do is little: it brings a session that is not here, or removes one. The form of datagrams is
//! `wire::cluster`'s, the cryptography and the sockets are the caller's.

mod asked;
mod bucket;
mod catch_up;
mod counters;
mod fetches;
mod history;
mod outside;
mod parts;
mod senders;
mod window;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Debug, Formatter};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use telemetry::outcome::{ClusterRejection, ClusterUpdate, SessionTier};
use wire::cluster::{
    BODY_BYTES_MAX, DatagramFault, HEADER_BYTES, Header, Message, Stream, TAG_BYTES,
};

pub use bucket::Bucket;
pub use counters::MeshCounters;
pub use history::Deleted;
pub use outside::{DatagramCipher, LocalSessions, MeshOptions, Moment, Target};
pub use senders::PeerFacts;

use asked::Asked;
use bucket::Incoming;
use catch_up::{Missed, Replay, Replays};
use fetches::Fetches;
use history::Recent;
use parts::Parts;
use senders::{Arrival, Limits, Senders};

use crate::key::Key;

/// How often a host that sends nothing else gives a sign of life.
pub const HEARTBEAT: Duration = Duration::from_secs(1);

/// A peer that was silent for so long has missed signs of life: some sessions were missed as well.
const SILENCE: Duration = Duration::from_secs(4);

/// How long a session waits for others that go with it: no client comes back as fast.
const LINGER: Duration = Duration::from_millis(1);

/// Sessions that a peer which catches up is sent at a time, after how many bytes of them there are
/// no more, and how long until the next ones.
const REPLAY_SESSIONS: usize = 64;
const REPLAY_BYTES: usize = 12 << 10;
const REPLAY_PAUSE: Duration = Duration::from_millis(5);

/// What the sender's clock may have gone on while the last datagrams before a silence were lost.
const SILENCE_MARGIN_MS: u64 = 2000;

/// One host's part of the protocol.
pub struct Mesh {
    options: MeshOptions,
    cipher: Box<dyn DatagramCipher>,
    sender: [u8; 8],
    boot: [u8; 8],
    started: Instant,
    /// Datagrams that were sent before are not taken, whatever the time window.
    accepted_since_ms: u64,
    /// The next number of either stream.
    sequences: [u64; 2],
    senders: Senders,
    /// For all, and when it goes at the latest.
    body: Vec<u8>,
    flush_at: Option<Instant>,
    heartbeat_at: Instant,
    /// For one peer each.
    answers: BTreeMap<SocketAddr, Vec<u8>>,
    outgoing: VecDeque<(Target, Vec<u8>)>,
    /// The number of the last session that was sent in parts, and what came in parts.
    divided: u32,
    parts: Parts,
    fetches: Fetches,
    fetched: VecDeque<(u64, SessionTier)>,
    recent: Recent,
    deleted: Deleted,
    asked: Asked,
    missed: Missed,
    replays: Replays,
    replay_at: Instant,
    receiving: Incoming,
    sending: Bucket,
    fetching: Bucket,
    counters: MeshCounters,
}

impl Mesh {
    /// A host that starts now, with numbers that no other has: `sender` for the host, `boot` for
    /// this start. It gives a sign of life at once.
    pub fn new(
        options: MeshOptions,
        cipher: Box<dyn DatagramCipher>,
        (sender, boot): ([u8; 8], [u8; 8]),
        moment: Moment,
    ) -> Self {
        let now = moment.now;
        let mut missed = Missed::default();
        missed.note(0);
        Self {
            receiving: Incoming::new(options.receive_rate, now),
            sending: Bucket::new(options.send_rate, now),
            fetching: Bucket::new(options.fetch_rate, now),
            recent: Recent::new(options.resync),
            options,
            cipher,
            sender,
            boot,
            started: now,
            accepted_since_ms: moment.unix_ms,
            sequences: [0; 2],
            senders: Senders::default(),
            body: empty_body(),
            flush_at: None,
            heartbeat_at: now,
            answers: BTreeMap::new(),
            outgoing: VecDeque::new(),
            divided: 0,
            parts: Parts::default(),
            fetches: Fetches::default(),
            fetched: VecDeque::new(),
            deleted: Deleted::default(),
            asked: Asked::default(),
            missed,
            replays: Replays::default(),
            replay_at: now,
            counters: MeshCounters::default(),
        }
    }

    /// Goes on with other limits and secrets. What is known of senders stays: no datagram comes in
    /// again because of it.
    pub fn reconfigure(
        &mut self,
        options: MeshOptions,
        cipher: Box<dyn DatagramCipher>,
        moment: Moment,
    ) {
        if options.time_window > self.options.time_window {
            // The narrower window has forgotten what it would not let in anyway.
            let floor_ms = moment.unix_ms.saturating_sub(ms(self.options.time_window));
            self.accepted_since_ms = self.accepted_since_ms.max(floor_ms);
        }
        self.receiving.set_rate(options.receive_rate);
        self.sending.set_rate(options.send_rate);
        self.fetching.set_rate(options.fetch_rate);
        if options.resync != self.options.resync {
            self.recent = Recent::new(options.resync);
        }
        (self.options, self.cipher) = (options, cipher);
    }

    /// What it has done.
    pub fn counters(&self) -> &MeshCounters {
        &self.counters
    }

    /// What is known of its peers.
    pub fn peers(&self) -> impl Iterator<Item = PeerFacts> {
        let to_all = self.sequences[Stream::All as usize];
        self.senders.facts().map(move |peer| PeerFacts {
            sent: peer.sent + to_all,
            ..peer
        })
    }

    /// Whether a peer was heard of late: it may be asked.
    pub fn hears(peer: &PeerFacts, now: Instant) -> bool {
        now.saturating_duration_since(peer.last_seen) < SILENCE
    }

    /// Counts a datagram that the host did not send.
    pub fn send_failed(&mut self) {
        self.counters.update(ClusterUpdate::Dropped);
    }

    /// Sends all peers a session that was made here.
    pub fn publish(&mut self, key: Key, value: &[u8], lifetime: Duration, moment: Moment) {
        let message = session(&key, value, lifetime);
        let what = if self.send_all(&message, LINGER, moment) {
            self.recent.add(key, moment.unix_ms);
            ClusterUpdate::Published
        } else {
            ClusterUpdate::TooLarge
        };
        self.counters.update(what);
    }

    /// Has all peers drop a session that was used up here.
    pub fn delete(&mut self, key: Key, moment: Moment) {
        self.remember_deleted(key, moment);
        let message = Message::Delete { key: key.bytes() };
        if self.send_all(&message, Duration::ZERO, moment) {
            self.counters.update(ClusterUpdate::Deleted);
        }
    }

    /// Asks the peers for a session; [`Self::poll_fetched`] gives the answer under `token`.
    pub fn fetch(&mut self, key: Key, token: u64, moment: Moment) {
        if self.fetches.join(&key, token) {
            return;
        }
        let is_alone = self.heard(moment.now).next().is_none();
        if is_alone
            || self.deleted.contains(&key, moment.unix_ms)
            || self.fetches.is_full()
            || !self.fetching.take(1, moment.now)
        {
            return self.answer(token, SessionTier::Nowhere);
        }
        self.send_all(&Message::Get { key: key.bytes() }, Duration::ZERO, moment);
        let timeout = self.options.fetch_timeout;
        self.fetches.begin(key, token, moment.now, timeout);
    }

    /// The next session that was asked for: its token, and where it was found.
    pub fn poll_fetched(&mut self) -> Option<(u64, SessionTier)> {
        self.fetched.pop_front()
    }

    /// The next datagram to be sent.
    pub fn poll_transmit(&mut self) -> Option<(Target, Vec<u8>)> {
        self.outgoing.pop_front()
    }

    /// When [`Self::tick`] is due.
    pub fn deadline(&self) -> Instant {
        let replay = (!self.replays.is_empty()).then_some(self.replay_at);
        let dues = [self.flush_at, self.fetches.due(), replay].into_iter();
        let dues = dues.flatten();
        dues.fold(self.heartbeat_at, Instant::min)
    }

    /// Takes a datagram that came from there. It is overwritten.
    ///
    /// # Errors
    /// Why it was dropped; it is counted.
    pub fn receive(
        &mut self,
        datagram: &mut [u8],
        from: SocketAddr,
        moment: Moment,
        sessions: &dyn LocalSessions,
    ) -> Result<(), ClusterRejection> {
        self.counters.datagrams_received += 1;
        self.counters.bytes_received += datagram.len() as u64;
        let taken = self.take(datagram, from, moment, sessions);
        taken.inspect_err(|why| self.counters.reject(*why))
    }

    fn take(
        &mut self,
        datagram: &mut [u8],
        from: SocketAddr,
        moment: Moment,
        sessions: &dyn LocalSessions,
    ) -> Result<(), ClusterRejection> {
        if !self.receiving.take(from, moment.now) {
            return Err(ClusterRejection::RateLimited);
        }
        let header = Header::read(datagram).map_err(|fault| match fault {
            DatagramFault::Version(_) => ClusterRejection::Version,
            DatagramFault::Malformed => ClusterRejection::Malformed,
        })?;
        if header.sender == self.sender {
            return Err(ClusterRejection::Reflected);
        }
        let (bytes, sealed) = datagram
            .split_first_chunk_mut::<HEADER_BYTES>()
            .ok_or(ClusterRejection::Malformed)?;
        let body = self.cipher.open(&header, bytes, sealed)?;
        // What was sent before this process began may have come in before it: a window that was
        // lost with the process before must not let it in again.
        if header.time_ms < self.accepted_since_ms {
            return Err(ClusterRejection::OutOfTime);
        }
        let arrival = self.senders.take(
            &header,
            from,
            &Limits::from(&self.options),
            SILENCE,
            (moment.now, moment.unix_ms),
        )?;
        self.receiving.heard(from, self.options.senders, moment.now);
        let messages = Message::read_all(body).map_err(|_| ClusterRejection::Malformed)?;
        self.greet(&header, from, arrival, moment);
        for message in messages {
            self.handle(message, &header, from, moment, sessions);
        }
        Ok(())
    }

    /// A peer that is new hears of us at once; one that was not heard is asked for what it sent.
    fn greet(&mut self, header: &Header, from: SocketAddr, arrival: Arrival, moment: Moment) {
        if arrival.is_new {
            let soon = moment.now + LINGER;
            self.flush_at = Some(self.flush_at.map_or(soon, |at| at.min(soon)));
        }
        if let Some(since_ms) = arrival.silent_since_ms {
            self.missed.note(since_ms.saturating_sub(SILENCE_MARGIN_MS));
        }
        let is_answer = header.stream == Stream::One;
        if let Some(since_ms) = self.missed.heard(header.sender, is_answer, moment.now) {
            let ask = Message::Resync {
                peer: header.sender,
                since_ms,
            };
            self.send_one(from, &ask, moment);
        }
    }

    fn handle(
        &mut self,
        message: Message<'_>,
        header: &Header,
        from: SocketAddr,
        moment: Moment,
        sessions: &dyn LocalSessions,
    ) {
        match message {
            Message::Session {
                key,
                lifetime_s,
                value,
            } => {
                let lifetime = Duration::from_secs(lifetime_s.into());
                if let Some(key) = Key::new(key) {
                    self.store(key, value, lifetime, moment, sessions);
                }
            }
            Message::Get { key } => {
                if let Some(key) = Key::new(key) {
                    self.answer_get(&key, from, moment, sessions);
                }
            }
            Message::Delete { key } => {
                if let Some(key) = Key::new(key) {
                    self.remember_deleted(key, moment);
                    sessions.remove(&key);
                    self.counters.update(ClusterUpdate::Removed);
                }
            }
            // A host that has begun just now has less than others, one of which is asked next.
            Message::Resync { peer, since_ms } if peer == self.sender && !self.is_new(moment) => {
                self.replays.begin(Replay {
                    peer: header.sender,
                    to: from,
                    next: self.recent.since(since_ms),
                });
            }
            Message::ResyncEnd { peer } if peer == self.sender => {
                self.missed.ended(header.sender);
            }
            Message::Part(part) => {
                let name = (header.sender, header.boot);
                if let Some(whole) = self.parts.take(name, &part, moment.now) {
                    match Message::read_whole(&whole) {
                        Ok(session) => self.handle(session, header, from, moment, sessions),
                        Err(_) => self.counters.reject(ClusterRejection::Malformed),
                    }
                }
            }
            // Multicast shows everybody what is for one.
            Message::Resync { .. } | Message::ResyncEnd { .. } => {}
        }
    }

    fn store(
        &mut self,
        key: Key,
        value: &[u8],
        lifetime: Duration,
        moment: Moment,
        sessions: &dyn LocalSessions,
    ) {
        if self.deleted.contains(&key, moment.unix_ms) {
            return;
        }
        if sessions.insert(&key, value, lifetime, moment.now) {
            self.recent.add(key, moment.unix_ms);
            self.counters.update(ClusterUpdate::Stored);
        }
        for token in self.fetches.found(&key) {
            self.answer(token, SessionTier::Peers);
        }
    }

    fn answer_get(
        &mut self,
        key: &Key,
        from: SocketAddr,
        moment: Moment,
        sessions: &dyn LocalSessions,
    ) {
        let peers = self.heard(moment.now).count();
        if let Some((value, lifetime)) = sessions.find(key, moment.now)
            && self.asked.is_ours(key, self.sender, peers, moment.unix_ms)
            && self.send_one(from, &session(key, &value, lifetime), moment)
        {
            self.counters.update(ClusterUpdate::Answered);
        }
    }

    fn answer(&mut self, token: u64, tier: SessionTier) {
        self.counters.fetched(tier);
        self.fetched.push_back((token, tier));
    }

    fn remember_deleted(&mut self, key: Key, moment: Moment) {
        let window_ms = ms(self.options.time_window);
        let until_ms = moment.unix_ms.saturating_add(window_ms.saturating_mul(2));
        self.deleted.add(key, until_ms, moment.unix_ms);
    }

    /// Whether this host has begun a moment ago, and does not know yet what there is.
    fn is_new(&self, moment: Moment) -> bool {
        self.missed.is_open() && moment.now < self.started + SILENCE
    }

    /// Peers that were heard, and may still be there.
    fn heard(&self, now: Instant) -> impl Iterator<Item = PeerFacts> {
        let facts = self.senders.facts();
        facts.filter(move |peer| Self::hears(peer, now))
    }

    /// Does what is due: sends what waits, and gives up what took too long.
    pub fn tick(&mut self, moment: Moment, sessions: &dyn LocalSessions) {
        while let Some(key) = self.fetches.retry(moment.now) {
            self.send_all(&Message::Get { key: key.bytes() }, Duration::ZERO, moment);
        }
        while let Some(tokens) = self.fetches.give_up(moment.now) {
            let nowhere = |token| self.answer(token, SessionTier::Nowhere);
            tokens.into_iter().for_each(nowhere);
        }
        let given_up = self.parts.expire(moment.now);
        (0..given_up).for_each(|_| self.counters.update(ClusterUpdate::Incomplete));
        if self.replay_at <= moment.now {
            self.replay(moment, sessions);
        }
        for (to, body) in std::mem::take(&mut self.answers) {
            self.flush_one(to, body, moment);
        }
        let is_due = self.flush_at.is_some_and(|at| at <= moment.now);
        if is_due || self.heartbeat_at <= moment.now {
            self.flush_all(moment);
        }
    }

    /// Sends a peer that catches up a few of the sessions that it missed.
    fn replay(&mut self, moment: Moment, sessions: &dyn LocalSessions) {
        let Some(mut replay) = self.replays.take() else {
            return;
        };
        let mut bytes = 0;
        for _ in 0..REPLAY_SESSIONS {
            let Some((key, next)) = self.recent.at(replay.next) else {
                let peer = replay.peer;
                self.send_one(replay.to, &Message::ResyncEnd { peer }, moment);
                self.replay_at = moment.now;
                return;
            };
            replay.next = next;
            if let Some((value, lifetime)) = sessions.find(&key, moment.now) {
                self.send_one(replay.to, &session(&key, &value, lifetime), moment);
                bytes += value.len();
            }
            if bytes >= REPLAY_BYTES {
                break;
            }
        }
        self.replays.resume(replay);
        self.replay_at = moment.now + REPLAY_PAUSE;
    }

    /// Puts a message into the datagram for all, which goes by then. `false` = it fits none.
    fn send_all(&mut self, message: &Message<'_>, linger: Duration, moment: Moment) -> bool {
        if message.bytes() > BODY_BYTES_MAX {
            return self.divide(message, |mesh, part| mesh.send_all(part, linger, moment));
        }
        if self.body.len() + message.bytes() > BODY_BYTES_MAX {
            self.flush_all(moment);
        }
        if !message.write(&mut self.body) {
            return false;
        }
        let by = moment.now + linger;
        self.flush_at = Some(self.flush_at.map_or(by, |at| at.min(by)));
        true
    }

    /// The same into the datagram for one peer, which goes with the next tick.
    fn send_one(&mut self, to: SocketAddr, message: &Message<'_>, moment: Moment) -> bool {
        if message.bytes() > BODY_BYTES_MAX {
            return self.divide(message, |mesh, part| mesh.send_one(to, part, moment));
        }
        let body = self.answers.entry(to).or_insert_with(empty_body);
        if body.len() + message.bytes() > BODY_BYTES_MAX {
            let full = std::mem::replace(body, empty_body());
            self.flush_one(to, full, moment);
        }
        let body = self.answers.entry(to).or_insert_with(empty_body);
        let is_written = message.write(body);
        self.flush_at = Some(moment.now);
        is_written
    }

    /// Sends a message that fits no datagram in parts. `false` = it is too long for that as well.
    fn divide(
        &mut self,
        message: &Message<'_>,
        mut send: impl FnMut(&mut Self, &Message<'_>) -> bool,
    ) -> bool {
        let Some(whole) = parts::whole(message) else {
            return false;
        };
        self.divided = self.divided.wrapping_add(1);
        Message::parts(self.divided, &whole).all(|part| send(self, &part))
    }

    fn flush_all(&mut self, moment: Moment) {
        let body = std::mem::replace(&mut self.body, empty_body());
        self.flush_at = None;
        self.heartbeat_at = moment.now + HEARTBEAT;
        self.transmit(Stream::All, Target::All, body, moment);
    }

    fn flush_one(&mut self, to: SocketAddr, body: Vec<u8>, moment: Moment) {
        if !body.is_empty() {
            self.senders.note_sent(to);
            self.transmit(Stream::One, Target::One(to), body, moment);
        }
    }

    fn transmit(&mut self, stream: Stream, target: Target, mut body: Vec<u8>, moment: Moment) {
        let copies = match target {
            Target::All => self.options.copies,
            Target::One(_) => 1,
        };
        if !self.sending.take(copies, moment.now) {
            return self.counters.update(ClusterUpdate::Dropped);
        }
        let sequence = &mut self.sequences[stream as usize];
        let header = Header {
            stream,
            key_id: self.cipher.key_id(),
            sender: self.sender,
            boot: self.boot,
            sequence: *sequence,
            time_ms: moment.unix_ms,
        };
        *sequence += 1;
        let bytes = header.to_bytes();
        self.cipher.seal(&header, &bytes, &mut body);
        let datagram = [&bytes[..], &body].concat();
        self.counters.datagrams_sent += u64::from(copies);
        self.counters.bytes_sent += datagram.len() as u64 * u64::from(copies);
        self.outgoing.push_back((target, datagram));
    }
}

/// Never grown, so that no copy of what it held stays behind unencrypted.
fn empty_body() -> Vec<u8> {
    Vec::with_capacity(BODY_BYTES_MAX + TAG_BYTES)
}

fn session<'m>(key: &'m Key, value: &'m [u8], lifetime: Duration) -> Message<'m> {
    Message::Session {
        key: key.bytes(),
        lifetime_s: u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX),
        value,
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Debug for Mesh {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mesh")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
