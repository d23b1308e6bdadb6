//! Any messages of peers, decrypted, in any order: no panic, each datagram sent has a legal size
//! and goes to a peer, and sessions that arrive in parts take bounded memory.
#![no_main]

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use session::Key;
use session::mesh::{
    ClockReading, DatagramCipher, LocalSessions, Mesh, MeshOptions, Target, WalkedSession,
};
use telemetry::outcome::{ClusterRejection, SessionTier};
use wire::cluster::{
    BODY_BYTES_MAX, DATAGRAM_BYTES_MAX, HEADER_BYTES, Header, Stream, TAG_BYTES, WHOLE_BYTES_MAX,
};
use zeroize::Zeroizing;

/// Cipher that accepts everything as authentic, because the fuzzer has the secret.
#[derive(Debug)]
struct Clear;

impl DatagramCipher for Clear {
    fn key_id(&self) -> [u8; 4] {
        [0; 4]
    }

    fn seal(&mut self, _: &Header, _: &[u8; HEADER_BYTES], body: &mut Vec<u8>) {
        body.extend_from_slice(&[0; TAG_BYTES]);
    }

    fn open<'b>(
        &mut self,
        _: &Header,
        _: &[u8; HEADER_BYTES],
        sealed: &'b mut [u8],
    ) -> Result<&'b [u8], ClusterRejection> {
        Ok(&sealed[..sealed.len() - TAG_BYTES])
    }
}

/// Cache that has each session whose key begins with an even byte, longer than a datagram.
struct Sessions(Cell<usize>);

impl LocalSessions for Sessions {
    fn find(&self, key: &Key, _: Instant) -> Option<(Zeroizing<Vec<u8>>, Duration)> {
        let is_here = key.bytes()[0] % 2 == 0;
        is_here.then(|| (vec![7; 3000].into(), Duration::from_secs(60)))
    }

    fn insert(&self, key: &Key, value: &[u8], _: Duration, _: Instant) -> bool {
        assert!(value.len() <= WHOLE_BYTES_MAX);
        self.0.set(self.0.get() + 1);
        key.bytes()[0] % 2 == 1
    }

    fn remove(&self, _: &Key) {}

    fn count(&self) -> usize {
        50
    }

    fn walk(&self, place: &mut u64, _: Duration, _: Instant) -> Option<Option<WalkedSession>> {
        *place += 1;
        (*place <= 50).then(|| {
            let key = Key::new(&place.to_be_bytes()).filter(|_| *place % 3 > 0)?;
            Some(WalkedSession {
                key,
                value: vec![7; 3000].into(),
                lifetime: Duration::from_secs(60),
            })
        })
    }
}

fn place(host: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], u16::from(host)))
}

fn options() -> MeshOptions {
    MeshOptions {
        time_window: Duration::from_secs(30),
        replay_window: 64,
        senders: 3,
        receive_rate: 1000,
        send_rate: 1000,
        fetch_rate: 1000,
        fetch_timeout: None,
        resync_rate: 1000,
        send_to: Some([1, 2].map(place).into()),
    }
}

// Datagrams, each behind its head: sender (2 bits), boot (1), stream (1), 4 bits of time; and the
// length of its body, in two bytes.
fuzz_target!(|bytes: &[u8]| {
    let mut moment = ClockReading { now: Instant::now(), unix_ms: 1_700_000_000_000 };
    let sessions = Sessions(Cell::new(0));
    let mut mesh = Mesh::new(options(), Box::new(Clear), ([9; 8], [1; 8]), moment);
    let (mut rest, mut sequence) = (bytes, 0);
    while let Some((&[head, high, low], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low])) % (BODY_BYTES_MAX + 1);
        let (body, after) = after.split_at(length.min(after.len()));
        rest = after;
        let pause = Duration::from_millis(1 << (head >> 4));
        moment.now += pause;
        moment.unix_ms += pause.as_millis() as u64;
        sequence += 1;
        let header = Header {
            stream: [Stream::All, Stream::One][usize::from(head >> 3 & 1)],
            key_id: [0; 4],
            sender: [head & 3; 8],
            boot: [head >> 2 & 1; 8],
            sequence,
            time_ms: moment.unix_ms,
        };
        let mut datagram = [&header.to_bytes(), body, &[0; TAG_BYTES]].concat();
        let from = place(head & 3);
        // The mesh counts the reason of a drop.
        let _ = mesh.receive(&mut datagram, from, moment, &sessions);
        if let Some(key) = body.get(..32).and_then(Key::new) {
            mesh.fetch(key, sequence, moment);
        }
        while mesh.deadline() <= moment.now {
            mesh.tick(moment, &sessions);
        }
        while let Some((target, datagram)) = mesh.poll_transmit() {
            assert!(datagram.len() <= DATAGRAM_BYTES_MAX);
            let is_peer = |to| to == place(1) || to == place(2);
            assert!(!matches!(target, Target::One(to) if !is_peer(to)));
        }
    }
    // Waiting requests are answered.
    moment.now += Duration::from_secs(1);
    mesh.tick(moment, &sessions);
    while let Some((_, tier)) = mesh.poll_fetched() {
        assert!(tier == SessionTier::Nowhere || sessions.0.get() > 0);
    }
});
