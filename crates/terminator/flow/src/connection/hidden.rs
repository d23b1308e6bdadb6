//! A hello that came encrypted (ECH, RFC 9849 section 7): it is opened before its service is
//! chosen, and the server gets the inner one in its place.
//!
//! The server may ask for a second hello. Until its first message has shown whether it does, the
//! client's records are followed, so that the second is found among what early data there is.

use telemetry::outcome::{EchResult, Reason};
use tls::ech::{AcceptedHello, EchFault, OpenedHello};
use wire::client_hello::{self, Peek, Reader};
use wire::ech::ServerAnswer;

use super::Flow;
use crate::buffer::{Buffer, Pool};
use crate::facts::Ending;
use crate::hidden_hello::{HiddenHello, SecondHello};

impl Flow {
    /// Whether the hello came encrypted and was opened: names behind the front are for such alone.
    pub fn is_hidden(&self) -> bool {
        self.hidden.is_some()
    }

    /// Opens the hello that is there, once; whether the connection goes on.
    pub(super) fn open_hello(&mut self, pool: &mut Pool) -> bool {
        let Some(keys) = self.settings.ech.as_ref().filter(|_| self.facts.ech.is_none()) else {
            return true;
        };
        let Some(buffer) = &mut self.up.inbox.buffer else {
            return true;
        };
        let Ok(Peek::Hello(hello)) = client_hello::read(buffer.data()) else {
            return true;
        };
        let outer_bytes = hello.wire_bytes();
        match keys.open(&hello) {
            OpenedHello::Absent => true,
            OpenedHello::Rejected(result) => {
                self.facts.ech = Some(result);
                true
            }
            OpenedHello::Accepted(AcceptedHello { inner, result, context }) => {
                replace_front(buffer, outer_bytes, &inner);
                self.facts.ech = Some(result);
                self.facts.server_name = name_in(&inner);
                self.hidden = Some(Box::new(HiddenHello::new(context)));
                true
            }
            OpenedHello::Refused(fault) => {
                self.facts.ech = Some(EchResult::Illegal);
                self.refuse_hello(fault, pool);
                false
            }
        }
    }

    /// Looks into what the server answers.
    pub(super) fn watch_answer(hidden: &mut Option<Box<HiddenHello>>, bytes: &[u8]) {
        let Some(one) = hidden.as_mut().filter(|one| one.second.is_none()) else {
            return;
        };
        match one.watch.take(bytes) {
            ServerAnswer::Incomplete => {}
            ServerAnswer::Retry => one.second = Some(Reader::default()),
            ServerAnswer::Other => *hidden = None,
        }
    }

    /// Passes on what may go, with the second hello opened once it is whole.
    pub(super) fn pass_hidden(&mut self, pool: &mut Pool) {
        let Some(hidden) = &mut self.hidden else {
            return;
        };
        let data = self.up.inbox.data();
        let passed = hidden.gate.pass(data, hidden.second.is_some());
        let (mut ready, mut taken) = (data[..passed].to_vec(), passed);
        match hidden.read_second(&data[passed..]) {
            SecondHello::NotWhole => {}
            SecondHello::Opened(inner, bytes) => {
                ready.extend([&inner, &data[passed + bytes..]].concat());
                taken = data.len();
                self.hidden = None;
            }
            SecondHello::Refused(fault) => return self.refuse_hello(fault, pool),
        }
        self.facts.bytes_up += ready.len() as u64;
        self.up.inbox.consume(taken, pool);
        if !ready.is_empty() {
            self.up.add_early(&ready, pool);
        }
        self.advance(pool);
    }

    fn refuse_hello(&mut self, fault: EchFault, pool: &mut Pool) {
        self.hidden = None;
        self.down.append(&client_hello::alert_record(fault.alert), pool);
        let ending = Ending::with(Reason::HelloMalformed, fault.detail);
        self.close_gracefully(ending, self.last_byte, pool);
    }
}

/// Puts an inner hello in the place of the outer one, which is no shorter.
fn replace_front(buffer: &mut Buffer, outer_bytes: usize, inner: &[u8]) {
    let saved = outer_bytes.checked_sub(inner.len());
    let saved = saved.expect("an inner hello is made of a part of its outer one");
    buffer.data_mut()[saved..outer_bytes].copy_from_slice(inner);
    buffer.consume(saved);
}

fn name_in(inner: &[u8]) -> Option<Box<str>> {
    match client_hello::read(inner) {
        Ok(Peek::Hello(hello)) => Some(hello.server_name()?.to_ascii_lowercase().into()),
        Ok(Peek::Incomplete) | Err(_) => None,
    }
}
