//! Bytes in transit between two sides, scripted changes of the TLS records in them, and a
//! connection that receives them.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use flow::buffer::Pool;
use flow::connection::Flow;
use flow::events::{Action, Event};
use flow::facts::{ConnectionFacts, Route};
use flow::options::{Front, SendProxy, ServerTls, Settings, Timeouts};

const HEADER_BYTES: usize = 5;

/// Records that a peer may not send, or not everywhere.
const INTRUDERS: [&[u8]; 10] = [
    &[20, 3, 3, 0, 1, 1],
    &[20, 3, 3, 0, 1, 2],
    &[21, 3, 3, 0, 2, 1, 90],
    &[21, 3, 3, 0, 2, 1, 0],
    &[21, 3, 3, 0, 2, 2, 40],
    &[21, 3, 3, 0, 0],
    &[22, 3, 3, 0, 5, 24, 0, 0, 1, 0],
    &[22, 3, 3, 0, 4, 20, 0, 255, 255],
    &[23, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2],
    &[23, 3, 3, 0x48, 1],
];

pub const DISTURBANCES: u8 = 6;

/// Bytes that one side has sent and the other has not received.
#[derive(Default)]
pub struct Wire(pub VecDeque<u8>);

impl Wire {
    /// Applies one of [`DISTURBANCES`] changes to the bytes in transit.
    pub fn disturb(&mut self, action: u8, a: u8, b: u8) {
        match action % DISTURBANCES {
            0 => self.alter(usize::from(u16::from_le_bytes([a, b])), b),
            1 => drop(self.take_record()),
            2 => {
                let record = self.take_record();
                self.put(&record);
                self.put(&record);
            }
            3 => {
                let (first, second) = (self.take_record(), self.take_record());
                self.put(&first);
                self.put(&second);
            }
            4 => self.put(INTRUDERS[usize::from(a) % INTRUDERS.len()]),
            _ => self.0.extend([a, b]),
        }
    }

    /// Moves at most `most` bytes into `room`; returns their number.
    pub fn deliver(&mut self, room: &mut [u8], most: usize) -> usize {
        let count = most.min(self.0.len()).min(room.len());
        for (to, from) in room.iter_mut().zip(self.0.drain(..count)) {
            *to = from;
        }
        count
    }

    fn alter(&mut self, place: usize, bit: u8) {
        let length = self.0.len();
        if length > 0 {
            self.0[place % length] ^= 1 << (bit % 8);
        }
    }

    /// Takes the first record, as far as it has arrived.
    fn take_record(&mut self) -> Vec<u8> {
        let mut header = [0; HEADER_BYTES];
        let there = self.0.len().min(HEADER_BYTES);
        header.iter_mut().zip(&self.0).for_each(|(to, from)| *to = *from);
        let body = match there {
            HEADER_BYTES => usize::from(u16::from_be_bytes([header[3], header[4]])),
            _ => 0,
        };
        let end = (HEADER_BYTES + body).min(self.0.len());
        self.0.drain(..end).collect()
    }

    /// Puts a record before all bytes in transit.
    pub fn put(&mut self, record: &[u8]) {
        record.iter().rev().for_each(|byte| self.0.push_front(*byte));
    }
}

/// Returns the place to cut an input at, read from its end because parsers read its beginning.
pub fn cut_of(bytes: &[u8]) -> usize {
    let place = bytes.last_chunk().map_or(0, |two| usize::from(u16::from_le_bytes(*two)));
    place.min(bytes.len())
}

/// Returns the settings of a service that terminates TLS, or originates it.
pub fn settings(front: Front, back_tls: Option<ServerTls>) -> Rc<Settings> {
    Rc::new(Settings {
        ja4: false,
        front,
        send_proxy: SendProxy::Off,
        accepts_proxy: false,
        passing_sessions: None,
        ech: None,
        back_tls,
        tunnel: None,
        starttls: None,
        timeouts: Timeouts {
            handshake: Duration::from_secs(10),
            dial: Duration::from_secs(3),
            greeting: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            lifetime: None,
        },
        offload: None,
    })
}

/// Connection under test, with its own clock.
pub struct Subject {
    pub flow: Flow,
    pub pool: Pool,
    pub now: Instant,
    /// Bytes in transit to the connection from the side that speaks TLS.
    pub wire: Wire,
    closes: usize,
}

impl Subject {
    pub fn new(settings: &Rc<Settings>) -> Self {
        let now = Instant::now();
        let route = Route { source: None, destination: None };
        Self {
            flow: Flow::new(Rc::clone(settings), false, ConnectionFacts::new(1, route, now)),
            pool: Pool::new(),
            now,
            wire: Wire::default(),
            closes: 0,
        }
    }

    pub fn handle(&mut self, event: Event) {
        self.flow.handle(event, self.now, &mut self.pool);
    }

    /// Returns the next action that differs between targets; performs the others.
    pub fn next_action(&mut self) -> Option<Action> {
        loop {
            match self.flow.poll_action()? {
                Action::Admit => self.handle(Event::Admitted),
                Action::Close => self.closes += 1,
                action => return Some(action),
            }
        }
    }

    /// Ends the client's connection, if nothing else has ended it.
    pub fn leave(&mut self) {
        if !self.flow.is_over() {
            self.handle(Event::FrontFailed);
        }
    }

    pub fn assert_over(&self) {
        assert!(self.flow.is_over());
        assert!(self.flow.ending().is_some(), "an end has a reason");
        assert_eq!(self.pool.in_use(), 0, "every buffer has gone back");
        assert_eq!(self.closes, 1);
    }
}
