//! Anything that a client can put on an established connection: no panic, and our own record layer
//! hears no more and nothing else than the TLS library's.
//!
//! The input is a script: records under the right key with any type, content and padding, altered
//! records, changes of key, junk, and replies. Each is said on two connections that differ in the
//! layer alone.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use testkit::raw_client::{ALERT, APPLICATION_DATA, HANDSHAKE, KEY_UPDATES};

#[path = "../../crates/terminator/tls/src/traffic/tests/connection.rs"]
#[expect(dead_code, reason = "the tests want to see more of a connection")]
mod connection;

use connection::{Connection, Heard, SUITES, Services};

/// Steps of one script: a client that says nothing but what is legal goes on for ever.
const STEPS_MAX: usize = 200;

/// Records without data that ours lets pass in a row.
const IDLE_MAX: usize = 32;

static SERVICES: LazyLock<Services> = LazyLock::new(Services::new);

fuzz_target!(|bytes: &[u8]| {
    let Some((suite, mut rest)) = bytes.split_first() else {
        return;
    };
    let suite = SUITES[usize::from(*suite) % SUITES.len()];
    let mut both = SERVICES.connect(suite).map(Side::new);
    for _ in 0..STEPS_MAX {
        let Some(step) = Step::read(&mut rest) else {
            break;
        };
        both.iter_mut().for_each(|one| one.take(&step));
        let [ours, library] = &both;
        let is_same = ours.connection.heard == library.connection.heard
            && ours.connection.said == library.connection.said;
        if !is_same {
            assert!(ours.is_other_end_of(library, &step), "{step:?}");
            return;
        }
        if ours.connection.is_ended() {
            break;
        }
    }
    both.iter_mut().for_each(Side::say_goodbye);
});

/// One step of the script.
#[derive(Debug)]
enum Step<'b> {
    Say {
        kind: u8,
        content: Vec<u8>,
        padding: usize,
    },
    Alter {
        index: usize,
        bit: u8,
    },
    Update {
        wants_reply: bool,
    },
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
            0 | 1 => Self::Say {
                kind: 20 + a % 5,
                content: take(usize::from(*b)).to_vec(),
                padding: 0,
            },
            2 => Self::Say {
                kind: 20 + a % 5,
                content: take(usize::from(b % 8)).to_vec(),
                padding: number % 17_000,
            },
            3 => Self::Say {
                kind: APPLICATION_DATA,
                content: vec![*a; number % 17_000],
                padding: 0,
            },
            4 => Self::Alter {
                index: usize::from(*a),
                bit: b % 8,
            },
            5 => Self::Update {
                wants_reply: a % 2 == 1,
            },
            6 => Self::Junk(take(usize::from(*b))),
            _ => Self::Reply(1 + number % 16_384),
        })
    }
}

impl Step<'_> {
    fn is_odd_close_notify(&self) -> bool {
        const KNOWN_LEVELS: [u8; 2] = [1, 2];
        let Self::Say {
            kind: ALERT,
            content,
            ..
        } = self
        else {
            return false;
        };
        matches!(content[..], [level, 0] if !KNOWN_LEVELS.contains(&level))
    }
}

/// A connection, and what is on its way to it: not yet a whole record.
struct Side {
    connection: Connection,
    wire: Vec<u8>,
}

impl Side {
    fn new(connection: Connection) -> Self {
        Self {
            connection,
            wire: Vec::new(),
        }
    }

    /// Ours refuses a record from its header alone, where the library waits for it; it counts
    /// together what carries no data, where the library counts each kind apart; and it takes a
    /// close_notify at any level (RFC 8446 section 6), where the library knows only two.
    fn is_other_end_of(&self, other: &Self, step: &Step<'_>) -> bool {
        let (ours, library) = (&self.connection, &other.connection);
        if let Some((Heard::CloseNotify, before)) = ours.heard.split_last()
            && let Some((Heard::End, same)) = library.heard.split_last()
        {
            return before == same && ours.said == library.said && step.is_odd_close_notify();
        }
        let Some(before) = ours.heard.strip_suffix(&[Heard::End]) else {
            return false;
        };
        let more = library.heard.strip_prefix(before);
        let idle = before.iter().rev();
        let idle = idle.take_while(|heard| **heard == Heard::Control).count();
        match more {
            Some([]) => ours.said == library.said && other.wire.len() >= 5,
            Some([Heard::Control]) => idle == IDLE_MAX && library.said.starts_with(&ours.said),
            _ => false,
        }
    }

    fn take(&mut self, step: &Step<'_>) {
        let Connection { client, .. } = &mut self.connection;
        match step {
            Step::Say {
                kind,
                content,
                padding,
            } => {
                // Ours refuses renegotiation without a look at what is in the hello.
                let is_hello = *kind == HANDSHAKE && matches!(content.first(), Some(0 | 1));
                if client.is_tls13() || !is_hello {
                    let wire = client.seal(*kind, content, *padding);
                    self.hear(&wire);
                }
            }
            Step::Alter { index, bit } => {
                let mut wire = client.seal(APPLICATION_DATA, b"some words", 0);
                // In TLS 1.3 the library does not look at the type and the version outside.
                let first = if client.is_tls13() { 3 } else { 0 };
                let index = first + index % (wire.len() - first);
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

    /// Whatever came, the last words are right.
    fn say_goodbye(&mut self) {
        let Connection {
            client,
            traffic,
            heard,
            ..
        } = &mut self.connection;
        let mut out = Vec::new();
        if heard.last() == Some(&Heard::End) {
            let _not_after_its_own = traffic.seal_alert(80, &mut out);
        } else {
            traffic.seal_close_notify(&mut out).expect("a fresh key");
        }
        drop(client.open(&out));
    }
}
