//! Anything that a client can put on an established connection: no panic, and our own record layer
//! hears no more and nothing else than the TLS library's.
//!
//! The input is a script: records under the right key with any type, content and padding, altered
//! records, changes of key, junk, and replies. Each is said on two connections that differ in the
//! layer alone.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use testkit::authority::Authority;
use testkit::client::ClientChoice;
use testkit::raw_client::{ALERT, APPLICATION_DATA, HANDSHAKE, KEY_UPDATES, RawClient};
use tls::handshake::Handshake;
use tls::options::{CertificateSource, Group, RecordLayer, ServerOptions, UnknownName};
use tls::policy::SuiteOrder;
use tls::record::{Layout, RECORD_BYTES_MAX};
use tls::resumption::{Resumption, ResumptionOptions};
use tls::server::Server;
use tls::traffic::{Incoming, RecordSealer, Traffic};
use wire::client_hello::{self, Peek};

const SUITES: [u16; 6] = [0x1301, 0x1302, 0x1303, 0xc02b, 0xc02c, 0xcca9];

/// Steps of one script: a client that says nothing but what is legal goes on for ever.
const STEPS_MAX: usize = 200;

/// Records without data that ours lets pass in a row.
const IDLE_MAX: usize = 32;

/// Our own layer's service, the library's, and who vouches for them.
static SERVICES: LazyLock<([Server; 2], String)> = LazyLock::new(|| {
    let authority = Authority::root("records");
    let pem = authority.leaf(&["localhost"]).issue().pem();
    let servers = [RecordLayer::InPlace, RecordLayer::Library].map(|layer| server(layer, &pem));
    (servers, authority.pem().to_owned())
});

fuzz_target!(|bytes: &[u8]| {
    let Some((suite, mut rest)) = bytes.split_first() else {
        return;
    };
    let suite = SUITES[usize::from(*suite) % SUITES.len()];
    let (servers, authority_pem) = &*SERVICES;
    let choice = ClientChoice::new(authority_pem, suite >> 8 == 0x13, &[suite]);
    let mut both = servers.each_ref().map(|one| Connection::new(one, &choice));
    for _ in 0..STEPS_MAX {
        let Some(step) = Step::read(&mut rest) else {
            break;
        };
        both.iter_mut().for_each(|one| one.take(&step));
        let [ours, library] = &both;
        if ours.heard != library.heard || ours.said != library.said {
            assert!(ours.is_other_end_of(library, &step), "{step:?}");
            return;
        }
        if ours.is_ended() {
            break;
        }
    }
    both.iter_mut().for_each(Connection::say_goodbye);
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

#[derive(Debug, Eq, PartialEq)]
enum Heard {
    Data(Vec<u8>),
    Control,
    CloseNotify,
    End,
}

struct Connection {
    client: RawClient,
    traffic: Box<Traffic>,
    /// On its way: not yet a whole record.
    wire: Vec<u8>,
    heard: Vec<Heard>,
    said: Vec<(u8, Vec<u8>)>,
}

impl Connection {
    fn new(server: &Server, choice: &ClientChoice) -> Self {
        let mut handshake: Option<Handshake> = None;
        let (mut incoming, mut traffic) = (Vec::new(), None);
        let client = RawClient::connect(choice, "localhost", |wire| {
            incoming.extend_from_slice(wire);
            let mut out = Vec::new();
            let shaking = handshake.get_or_insert_with(|| {
                let Ok(Peek::Hello(hello)) = client_hello::read(wire) else {
                    panic!("no hello");
                };
                let config = server.select(&hello).expect("a shared suite");
                Handshake::new(config, false).expect("a handshake")
            });
            let step = shaking.advance(&mut incoming, &mut out).expect("no fault");
            incoming.drain(..step.consumed);
            if step.done {
                let done = handshake.take().expect("it has just advanced");
                traffic = Some(done.finish().expect("a known suite").traffic);
            }
            out
        });
        Self {
            client,
            traffic: traffic.expect("the handshake is over"),
            wire: Vec::new(),
            heard: Vec::new(),
            said: Vec::new(),
        }
    }

    fn is_ended(&self) -> bool {
        matches!(self.heard.last(), Some(Heard::End | Heard::CloseNotify))
    }

    /// Ours refuses a record from its header alone, where the library waits for it; it counts
    /// together what carries no data, where the library counts each kind apart; and it takes a
    /// close_notify at any level (RFC 8446 section 6), where the library knows only two.
    fn is_other_end_of(&self, library: &Self, step: &Step<'_>) -> bool {
        if let (Some(Heard::CloseNotify), Some(Heard::End)) =
            (self.heard.last(), library.heard.last())
        {
            let same_before = self.heard.iter().rev().skip(1).eq(library
                .heard
                .iter()
                .rev()
                .skip(1));
            return same_before && self.said == library.said && step.is_odd_close_notify();
        }
        let Some(before) = self.heard.strip_suffix(&[Heard::End]) else {
            return false;
        };
        let more = library.heard.strip_prefix(before);
        let idle = before.iter().rev();
        let idle = idle.take_while(|heard| **heard == Heard::Control).count();
        match more {
            Some([]) => self.said == library.said && library.wire.len() >= 5,
            Some([Heard::Control]) => idle == IDLE_MAX && library.said.starts_with(&self.said),
            _ => false,
        }
    }

    fn take(&mut self, step: &Step<'_>) {
        match step {
            Step::Say {
                kind,
                content,
                padding,
            } => {
                // Ours refuses renegotiation without a look at what is in the hello.
                let is_hello = *kind == HANDSHAKE && matches!(content.first(), Some(0 | 1));
                if self.client.is_tls13() || !is_hello {
                    let wire = self.client.seal(*kind, content, *padding);
                    self.hear(&wire);
                }
            }
            Step::Alter { index, bit } => {
                let mut wire = self.client.seal(APPLICATION_DATA, b"some words", 0);
                // In TLS 1.3 the library does not look at the type and the version outside.
                let first = if self.client.is_tls13() { 3 } else { 0 };
                let index = first + index % (wire.len() - first);
                wire[index] ^= 1 << bit;
                self.hear(&wire);
            }
            Step::Update { wants_reply } if self.client.is_tls13() => {
                let update = KEY_UPDATES[usize::from(*wants_reply)];
                let wire = self.client.seal(HANDSHAKE, &update, 0);
                self.hear(&wire);
                self.client.change_sealing_key();
            }
            Step::Update { .. } => {}
            Step::Junk(wire) => self.hear(wire),
            Step::Reply(length) => self.reply(&vec![3; *length]),
        }
    }

    fn hear(&mut self, wire: &[u8]) {
        self.wire.extend_from_slice(wire);
        while !self.is_ended() {
            let heard = match self.traffic.record_bytes(&self.wire) {
                Ok(None) => return,
                Err(_) => Heard::End,
                Ok(Some(length)) if length > self.wire.len() => return,
                Ok(Some(length)) => {
                    let record: Vec<u8> = self.wire.drain(..length).collect();
                    self.hear_record(&record)
                }
            };
            self.heard.push(heard);
        }
    }

    fn hear_record(&mut self, record: &[u8]) -> Heard {
        let mut plain = vec![0; RECORD_BYTES_MAX];
        let heard = match self.traffic.open(record, &mut plain) {
            Ok(Incoming::Data(bytes)) => Heard::Data(plain[..bytes].to_vec()),
            Ok(Incoming::Control) => Heard::Control,
            Ok(Incoming::CloseNotify) => Heard::CloseNotify,
            Ok(Incoming::FatalAlert(_)) | Err(_) => Heard::End,
        };
        if self.traffic.is_control_due() {
            let mut out = Vec::new();
            self.traffic.seal_control(&mut out).expect("a fresh key");
            self.said.extend(self.client.open(&out));
        }
        heard
    }

    fn reply(&mut self, plain: &[u8]) {
        let Layout { head, tail } = self.traffic.layout();
        let mut record = [&vec![0; head][..], plain, &vec![0; tail]].concat();
        self.traffic.seal(&mut record).expect("a fresh key");
        let opened = self.client.open(&record);
        assert!(opened == [(APPLICATION_DATA, plain.to_vec())]);
    }

    /// Whatever came, the last words are right.
    fn say_goodbye(&mut self) {
        let mut out = Vec::new();
        if self.heard.last() == Some(&Heard::End) {
            let _not_after_its_own = self.traffic.seal_alert(80, &mut out);
        } else {
            self.traffic
                .seal_close_notify(&mut out)
                .expect("a fresh key");
        }
        drop(self.client.open(&out));
    }
}

fn server(record_layer: RecordLayer, pem: &str) -> Server {
    let resumption = Arc::new(Resumption::new(&ResumptionOptions::new([7; 32])));
    let options = ServerOptions {
        unknown_name: UnknownName::Refuse,
        groups: vec![Group::X25519],
        resumption: false,
        record_layer,
        ..ServerOptions::new(vec![CertificateSource::whole(
            "localhost.pem",
            pem.as_bytes(),
        )])
    };
    let built = Server::build(&options, "web", &resumption, &SuiteOrder::default());
    built.expect("a server").0
}
