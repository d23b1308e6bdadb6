//! Any bytes that a client can send on an established connection: no panic, and only data that the
//! client sent is received, in its order.
//!
//! The input is a script: records under the right key with any type, content and padding, altered
//! records, changes of key, junk, and replies.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use testkit::raw_client::{APPLICATION_DATA, HANDSHAKE, KEY_UPDATES};

#[path = "../../crates/terminator/tls/src/traffic/tests/connection.rs"]
#[expect(dead_code, reason = "the tests want to see more of a connection")]
mod connection;

use connection::{Connection, PeerEvent, SUITES, Service};

/// Maximum steps of a script, because a client that sends only legal records never ends.
const STEPS_MAX: usize = 200;

static SERVICE: LazyLock<Service> = LazyLock::new(Service::new);

fuzz_target!(|bytes: &[u8]| {
    let Some((suite, mut rest)) = bytes.split_first() else { return };
    let suite = SUITES[usize::from(*suite) % SUITES.len()];
    let mut talk = Talk::new(SERVICE.connect(suite));
    for _ in 0..STEPS_MAX {
        let Some(step) = Step::read(&mut rest) else { break };
        talk.take(&step);
        talk.assert_own_words();
        if talk.connection.is_ended() {
            break;
        }
    }
    talk.say_goodbye();
});

/// Step of the script.
#[derive(Debug)]
enum Step<'b> {
    Say { kind: u8, content: Vec<u8>, padding: usize },
    Alter { index: usize, bit: u8 },
    Update { wants_reply: bool },
    Junk(&'b [u8]),
    Reply(usize),
}

impl<'b> Step<'b> {
    fn read(rest: &mut &'b [u8]) -> Option<Self> {
        let ([action, a, b], after) = rest.split_first_chunk()?;
        *rest = after;
        let number = usize::from(u16::from_le_bytes([*a, *b]));
        let mut take = |count: usize| {
            let (taken, after) = rest.split_at(count.min(rest.len()));
            *rest = after;
            taken
        };
        Some(match action % 8 {
            0 | 1 => {
                Self::Say { kind: 20 + a % 5, content: take(usize::from(*b)).to_vec(), padding: 0 }
            }
            2 => Self::Say {
                kind: 20 + a % 5,
                content: take(usize::from(b % 8)).to_vec(),
                padding: number % 17_000,
            },
            3 => {
                Self::Say { kind: APPLICATION_DATA, content: vec![*a; number % 17_000], padding: 0 }
            }
            4 => Self::Alter { index: usize::from(*a), bit: b % 8 },
            5 => Self::Update { wants_reply: a % 2 == 1 },
            6 => Self::Junk(take(usize::from(*b))),
            _ => Self::Reply(1 + number % 16_384),
        })
    }
}

/// Connection, and the bytes in transit to it: less than a whole record.
struct Talk {
    connection: Connection,
    wire: Vec<u8>,
    /// Data of records that were sent under the right key.
    said: Vec<Vec<u8>>,
}

impl Talk {
    fn new(connection: Connection) -> Self {
        Self { connection, wire: Vec::new(), said: Vec::new() }
    }

    fn assert_own_words(&self) {
        let mut said = self.said.iter();
        for heard in &self.connection.heard {
            if let PeerEvent::Data(heard) = heard {
                assert!(said.any(|said| said == heard), "{} bytes", heard.len());
            }
        }
    }

    fn take(&mut self, step: &Step<'_>) {
        let Connection { client, .. } = &mut self.connection;
        match step {
            Step::Say { kind, content, padding } => {
                if *kind == APPLICATION_DATA {
                    self.said.push(content.clone());
                }
                let wire = client.seal(*kind, content, *padding);
                self.hear(&wire);
            }
            Step::Alter { index, bit } => {
                let mut wire = client.seal(APPLICATION_DATA, b"some words", 0);
                let index = index % wire.len();
                wire[index] ^= 1 << bit;
                self.hear(&wire);
            }
            Step::Update { wants_reply } if client.is_tls13() => {
                let update = KEY_UPDATES[usize::from(*wants_reply)];
                let wire = client.seal(HANDSHAKE, &update, 0);
                self.hear(&wire);
                self.connection.client.change_sealing_key();
            }
            Step::Update { .. } => {}
            Step::Junk(wire) => self.hear(wire),
            Step::Reply(length) => self.connection.reply(&vec![3; *length]),
        }
    }

    fn hear(&mut self, wire: &[u8]) {
        self.wire.extend_from_slice(wire);
        let rest = self.connection.hear(&self.wire).len();
        self.wire.drain(..self.wire.len() - rest);
    }

    /// Sends a proper last record, whatever was sent before.
    fn say_goodbye(&mut self) {
        let Connection { client, traffic, heard, .. } = &mut self.connection;
        let mut out = Vec::new();
        if heard.last() == Some(&PeerEvent::End) {
            let _not_after_its_own = traffic.seal_alert(80, &mut out);
        } else {
            traffic.seal_close_notify(&mut out).expect("a fresh key");
        }
        drop(client.open(&out));
    }
}
