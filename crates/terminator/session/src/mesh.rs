//! The peers' tier: hosts that send each other their sessions in datagrams.
//!
//! Handles the protocol without I/O: datagrams and the time in, datagrams out. Every new session
//! goes to all peers at once; a lost one is fetched when a client offers it. A datagram can do
//! little here: add a missing session, remove one, or pass on a notice. `wire::cluster` handles the
//! form of datagrams; cryptography and sockets are the caller's task.

mod catch_up;
mod fetches;
mod outside;
mod parts;
mod senders;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Debug, Formatter};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use telemetry::outcome::{ClusterRejection, ClusterUpdate, SessionTier};
use wire::cluster::{BODY_BYTES_MAX, DatagramFault, HEADER_BYTES, Header, Message, Stream};

pub use catch_up::{CatchUp, CatchUpState};
pub use fetches::DeletedKeys;
pub use outside::{
    ClockReading, DatagramCipher, LocalSessions, MeshCounters, MeshOptions, Target, WalkedSession,
};
pub use senders::{Bucket, PeerFacts};

use catch_up::{MissedSessions, Replay, Replays};
use fetches::{Fetches, RecentQuestions};
use parts::{NOTICES_MAX, SessionParts, empty_body, session};
use senders::{DatagramArrival, IncomingBuckets, Senders};

use crate::tiers::Key;

/// Pause between two heartbeats of a host that sends nothing else.
pub const HEARTBEAT: Duration = Duration::from_secs(1);

/// Silence after which a peer has missed heartbeats, and so probably sessions as well.
const SILENCE: Duration = Duration::from_secs(4);

/// Time that a session waits for others to share its datagram: no client comes back as fast.
const LINGER: Duration = Duration::from_millis(1);

/// Time before a silence in which the last datagrams may have been lost, by the sender's clock.
const SILENCE_MARGIN_MS: u64 = 2000;

/// One host's side of the protocol.
pub struct Mesh {
    options: MeshOptions,
    cipher: Box<dyn DatagramCipher>,
    sender: [u8; 8],
    boot: [u8; 8],
    started: Instant,
    /// Datagrams sent before this time are rejected, because an earlier process may have accepted
    /// them already.
    accepted_since_ms: u64,
    /// Next sequence number of either stream.
    sequences: [u64; 2],
    senders: Senders,
    /// Body of the datagram for all peers, and the latest time to send it.
    body: Vec<u8>,
    flush_at: Option<Instant>,
    heartbeat_at: Instant,
    answers: BTreeMap<SocketAddr, Vec<u8>>,
    outgoing: VecDeque<(Target, Vec<u8>)>,
    /// Number of the last session that was sent in parts, and the parts received so far.
    divided: u32,
    parts: SessionParts,
    fetches: Fetches,
    fetched: VecDeque<(u64, SessionTier)>,
    notices: VecDeque<Vec<u8>>,
    deleted: DeletedKeys,
    asked: RecentQuestions,
    missed: MissedSessions,
    replays: Replays,
    replay_at: Instant,
    ping_at: Instant,
    receiving: IncomingBuckets,
    sending: Bucket,
    fetching: Bucket,
    counters: MeshCounters,
}

impl Mesh {
    /// Creates a host that starts now, with unique numbers: `sender` for the host, `boot` for this
    /// start. It sends a heartbeat at once.
    pub fn new(
        options: MeshOptions,
        cipher: Box<dyn DatagramCipher>,
        (sender, boot): ([u8; 8], [u8; 8]),
        moment: ClockReading,
    ) -> Self {
        let now = moment.now;
        let mut missed = MissedSessions::default();
        missed.note(0);
        Self {
            receiving: IncomingBuckets::new(options.receive_rate, now),
            sending: Bucket::new(options.send_rate, now),
            fetching: Bucket::new(options.fetch_rate, now),
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
            parts: SessionParts::default(),
            fetches: Fetches::default(),
            fetched: VecDeque::new(),
            notices: VecDeque::new(),
            deleted: DeletedKeys::default(),
            asked: RecentQuestions::default(),
            missed,
            replays: Replays::default(),
            replay_at: now,
            ping_at: now,
            counters: MeshCounters::default(),
        }
    }

    /// Continues with other limits and secrets. The knowledge of senders stays, so that no datagram
    /// is accepted twice because of it.
    pub fn reconfigure(
        &mut self,
        options: MeshOptions,
        cipher: Box<dyn DatagramCipher>,
        moment: ClockReading,
    ) {
        if options.time_window > self.options.time_window {
            // The narrower window has forgotten datagrams that it would have rejected anyway.
            let floor_ms = moment.unix_ms.saturating_sub(self.options.window_ms());
            self.accepted_since_ms = self.accepted_since_ms.max(floor_ms);
        }
        self.receiving.set_rate(options.receive_rate);
        self.sending.set_rate(options.send_rate);
        self.fetching.set_rate(options.fetch_rate);
        self.senders.relist(|address| options.listed(address).is_some());
        self.replays.end_without(options.resync_rate);
        (self.options, self.cipher) = (options, cipher);
    }

    pub fn counters(&self) -> &MeshCounters {
        &self.counters
    }

    pub fn peers(&self) -> impl Iterator<Item = PeerFacts> {
        let to_all = self.sequences[Stream::All as usize];
        self.senders.facts().map(move |peer| PeerFacts { sent: peer.sent + to_all, ..peer })
    }

    /// Returns the progress of the catch-up with missed sessions.
    pub fn catch_up(&self) -> CatchUp {
        self.missed.progress()
    }

    /// Returns how long a handshake waits for the peers; `None` if all would answer too late, or
    /// there is no peer.
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        let trips = self.heard(now).map(|peer| peer.round_trip);
        fetches::wait(self.options.fetch_timeout, trips)
    }

    /// Returns the longest wait of a handshake. Peers with longer round trips are not waited for.
    pub fn longest_wait(&self) -> Duration {
        self.options.fetch_timeout.unwrap_or(fetches::WAIT_MAX)
    }

    /// Reports whether a datagram of the peer came recently, so that the peer may be asked.
    pub fn hears(peer: &PeerFacts, now: Instant) -> bool {
        now.saturating_duration_since(peer.last_seen) < SILENCE
    }

    /// Counts a datagram that the host failed to send.
    pub fn send_failed(&mut self) {
        self.counters.update(ClusterUpdate::Dropped);
    }

    /// Sends all peers a session that was made here.
    pub fn publish(&mut self, key: Key, value: &[u8], lifetime: Duration, moment: ClockReading) {
        let message = session(&key, value, lifetime);
        let what = if self.send_all(&message, LINGER, moment) {
            ClusterUpdate::Published
        } else {
            ClusterUpdate::TooLarge
        };
        self.counters.update(what);
    }

    /// Sends all peers a text for their supervisors. `false` if it is too long.
    pub fn notify(&mut self, text: &[u8], moment: ClockReading) -> bool {
        self.send_all(&Message::Notice(text), Duration::ZERO, moment)
    }

    /// Returns the next text that a peer has sent for the supervisor.
    pub fn poll_notice(&mut self) -> Option<Vec<u8>> {
        self.notices.pop_front()
    }

    /// Asks all peers to drop a session that was used up here.
    pub fn delete(&mut self, key: Key, moment: ClockReading) {
        self.remember_deleted(key, moment);
        let message = Message::Delete { key: key.bytes() };
        if self.send_all(&message, Duration::ZERO, moment) {
            self.counters.update(ClusterUpdate::Deleted);
        }
    }

    /// Asks the peers for a session; [`Self::poll_fetched`] gives the answer under `token`.
    pub fn fetch(&mut self, key: Key, token: u64, moment: ClockReading) {
        if self.fetches.join(&key, token) {
            return;
        }
        let wait = self.wait(moment.now).filter(|_| {
            !self.deleted.contains(&key, moment.unix_ms)
                && !self.fetches.is_full()
                && self.fetching.take(1, moment.now)
        });
        let Some(wait) = wait else {
            return self.answer(token, SessionTier::Nowhere);
        };
        self.send_all(&Message::Get { key: key.bytes() }, Duration::ZERO, moment);
        self.fetches.begin(key, token, moment.now, wait);
    }

    /// Returns the next answer to a fetch: its token, and the tier that had the session.
    pub fn poll_fetched(&mut self) -> Option<(u64, SessionTier)> {
        self.fetched.pop_front()
    }

    /// Returns the next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<(Target, Vec<u8>)> {
        self.outgoing.pop_front()
    }

    pub fn deadline(&self) -> Instant {
        let replay = (!self.replays.is_empty()).then_some(self.replay_at);
        let dues = [self.flush_at, self.fetches.due(), replay, Some(self.ping_at)];
        let dues = dues.into_iter().flatten();
        dues.fold(self.heartbeat_at, Instant::min)
    }

    /// Takes a datagram that came from `from`. Its bytes are overwritten.
    ///
    /// # Errors
    /// Returns the reason for dropping the datagram, which is counted too.
    pub fn receive(
        &mut self,
        datagram: &mut [u8],
        from: SocketAddr,
        moment: ClockReading,
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
        moment: ClockReading,
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
        let (bytes, sealed) =
            datagram.split_first_chunk_mut::<HEADER_BYTES>().ok_or(ClusterRejection::Malformed)?;
        let body = self.cipher.open(&header, bytes, sealed)?;
        self.accepted_since_ms = moment.not_ahead(self.accepted_since_ms, self.started);
        let is_in_time = moment.unix_ms.abs_diff(header.time_ms) <= self.options.window_ms();
        if is_in_time && header.time_ms < self.accepted_since_ms {
            return Err(ClusterRejection::BeforeStart);
        }
        let listed = self.options.listed(from);
        let arrival = self.senders.take(
            &header,
            (listed.unwrap_or(from), listed.is_some()),
            &self.options,
            SILENCE,
            (moment.now, moment.unix_ms),
        )?;
        self.receiving.heard(from, self.options.senders, moment.now);
        let messages = Message::read_all(body).map_err(|_| ClusterRejection::Malformed)?;
        let to = self.senders.place_of(header.sender);
        self.greet(&header, to, arrival, moment);
        for message in messages {
            self.handle(message, &header, to, moment, sessions);
        }
        Ok(())
    }

    /// Sends a new peer a datagram soon; asks a silent one for the sessions it sent meanwhile.
    fn greet(
        &mut self,
        header: &Header,
        to: Option<SocketAddr>,
        arrival: DatagramArrival,
        moment: ClockReading,
    ) {
        if arrival.is_new {
            let soon = moment.now + LINGER;
            self.flush_at = Some(self.flush_at.map_or(soon, |at| at.min(soon)));
        }
        if let Some(since_ms) = arrival.silent_since_ms {
            self.missed.note(since_ms.saturating_sub(SILENCE_MARGIN_MS));
        }
        if let Some(to) = to
            && let Some(since_ms) = self.missed.heard(header.sender, moment.now)
        {
            let peer = header.sender;
            self.send_one(to, &Message::Resync { peer, since_ms }, moment);
        }
    }

    /// Executes a message. A sender without a known place gets no answer, because somebody else may
    /// have forwarded the datagram.
    fn handle(
        &mut self,
        message: Message<'_>,
        header: &Header,
        to: Option<SocketAddr>,
        moment: ClockReading,
        sessions: &dyn LocalSessions,
    ) {
        match message {
            Message::Session { key, lifetime_s, value } => {
                let lifetime = Duration::from_secs(lifetime_s.into());
                if let Some(key) = Key::new(key) {
                    self.store(key, value, lifetime, moment, sessions);
                }
            }
            Message::Get { key } => {
                if let Some((key, to)) = Key::new(key).zip(to) {
                    self.answer_get(&key, to, moment, sessions);
                }
            }
            Message::Delete { key } => {
                if let Some(key) = Key::new(key) {
                    self.remember_deleted(key, moment);
                    sessions.remove(&key);
                    self.counters.update(ClusterUpdate::Removed);
                }
            }
            // A host that has just started has fewer sessions than others: they are asked next.
            Message::Resync { peer, since_ms }
                if peer == self.sender && !self.is_new(moment) && self.options.resync_rate > 0 =>
            {
                let age = Duration::from_millis(moment.unix_ms.saturating_sub(since_ms));
                let since = moment.now.checked_sub(age);
                let peer = header.sender;
                let begun = to.map(|to| Replay::new(peer, to, since));
                begun.into_iter().for_each(|one| self.replays.begin(one));
            }
            Message::Resynced { peer, sent, all } if peer == self.sender => {
                self.missed.sent(header.sender, (sent, all), moment.now);
            }
            Message::Ping { peer, id } if peer == self.sender => {
                let peer = header.sender;
                if let Some(to) = to {
                    self.send_one(to, &Message::Pong { peer, id }, moment);
                }
            }
            Message::Pong { peer, id } if peer == self.sender => {
                self.senders.pong(header.sender, id, moment.now);
            }
            Message::Notice(text) if self.notices.len() < NOTICES_MAX => {
                self.notices.push_back(text.to_vec());
            }
            Message::Part(part) => {
                let name = (header.sender, header.boot);
                if let Some(whole) = self.parts.take(name, &part, moment.now) {
                    match Message::read_whole(&whole) {
                        Ok(message) => self.handle(message, header, to, moment, sessions),
                        Err(_) => self.counters.reject(ClusterRejection::Malformed),
                    }
                }
            }
            // Multicast shows every host the messages for one.
            Message::Notice(_)
            | Message::Resync { .. }
            | Message::Resynced { .. }
            | Message::Ping { .. }
            | Message::Pong { .. } => {}
        }
    }

    fn store(
        &mut self,
        key: Key,
        value: &[u8],
        lifetime: Duration,
        moment: ClockReading,
        sessions: &dyn LocalSessions,
    ) {
        if self.deleted.contains(&key, moment.unix_ms) {
            return;
        }
        if sessions.insert(&key, value, lifetime, moment.now) {
            self.counters.update(ClusterUpdate::Stored);
        }
        for token in self.fetches.found(&key) {
            self.answer(token, SessionTier::Peers);
        }
    }

    fn answer_get(
        &mut self,
        key: &Key,
        to: SocketAddr,
        moment: ClockReading,
        sessions: &dyn LocalSessions,
    ) {
        let peers = self.heard(moment.now).count();
        if let Some((value, lifetime)) = sessions.find(key, moment.now)
            && self.asked.is_ours(key, self.sender, peers, moment.unix_ms)
            && self.send_one(to, &session(key, &value, lifetime), moment)
        {
            self.counters.update(ClusterUpdate::Answered);
        }
    }

    fn answer(&mut self, token: u64, tier: SessionTier) {
        self.counters.fetched(tier);
        self.fetched.push_back((token, tier));
    }

    fn remember_deleted(&mut self, key: Key, moment: ClockReading) {
        let window_ms = self.options.window_ms();
        let until_ms = moment.unix_ms.saturating_add(window_ms.saturating_mul(2));
        self.deleted.add(key, until_ms, moment.unix_ms);
    }

    /// Reports whether this host started a moment ago and has not learned the peers' sessions yet,
    /// or is still receiving them.
    fn is_new(&self, moment: ClockReading) -> bool {
        let is_young = moment.now < self.started + SILENCE;
        self.missed.is_open() && (is_young || self.missed.is_answered(moment.now))
    }

    /// Returns the peers that sent something recently.
    fn heard(&self, now: Instant) -> impl Iterator<Item = PeerFacts> {
        let facts = self.senders.facts();
        facts.filter(move |peer| Self::hears(peer, now))
    }

    /// Does what is due: sends waiting messages, and gives up what took too long.
    pub fn tick(&mut self, moment: ClockReading, sessions: &dyn LocalSessions) {
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
        if self.ping_at <= moment.now {
            self.ping_at = moment.now + HEARTBEAT;
            let is_heard = |peer: &PeerFacts| Self::hears(peer, moment.now);
            for (peer, to, id) in self.senders.ping(moment.now, is_heard) {
                self.send_one(to, &Message::Ping { peer, id }, moment);
            }
        }
        for (to, body) in std::mem::take(&mut self.answers) {
            self.flush_one(to, body, moment);
        }
        let is_due = self.flush_at.is_some_and(|at| at <= moment.now);
        if is_due || self.heartbeat_at <= moment.now {
            self.flush_all(moment);
        }
    }

    /// Sends a peer that catches up a few of its missed sessions, and their number.
    fn replay(&mut self, moment: ClockReading, sessions: &dyn LocalSessions) {
        let mut replays = std::mem::take(&mut self.replays);
        let rate = self.options.resync_rate;
        let send = |to, message: &Message<'_>| self.send_one(to, message, moment);
        let pause = replays.step(rate, moment.now, sessions, send);
        self.replay_at = moment.now + pause;
        self.replays = replays;
    }

    /// Adds a message to the datagram for all, sent within `linger`. `false` if it is too long.
    fn send_all(&mut self, message: &Message<'_>, linger: Duration, moment: ClockReading) -> bool {
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

    /// Adds a message to the datagram for one peer, which is sent with the next tick.
    fn send_one(&mut self, to: SocketAddr, message: &Message<'_>, moment: ClockReading) -> bool {
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

    /// Sends a message that fits no datagram in parts. `false` if it is too long even for that.
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

    fn flush_all(&mut self, moment: ClockReading) {
        let body = std::mem::replace(&mut self.body, empty_body());
        self.flush_at = None;
        self.heartbeat_at = moment.now + HEARTBEAT;
        self.transmit(Stream::All, Target::All, body, moment);
    }

    fn flush_one(&mut self, to: SocketAddr, body: Vec<u8>, moment: ClockReading) {
        if !body.is_empty() {
            self.senders.note_sent(to);
            self.transmit(Stream::One, Target::One(to), body, moment);
        }
    }

    fn transmit(
        &mut self,
        stream: Stream,
        target: Target,
        mut body: Vec<u8>,
        moment: ClockReading,
    ) {
        let copies = match target {
            Target::All => self.options.copies(),
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

impl Debug for Mesh {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mesh").field("options", &self.options).finish_non_exhaustive()
    }
}
