//! The hand-over of a connection's sealing to the kernel, and what goes past our buffers after it.
//!
//! Owns the bytes in a pipe between a server and a client. When to
//! hand over is `flow`'s to say.

use std::io::ErrorKind;

use flow::buffer::Pool;
use flow::connection::Flow;
use flow::options::Offload;
use sys::transfer::Pipe;
use telemetry::catalogue::{ServiceCounter, ServiceGauge};
use telemetry::counters::ServiceCounters;
use telemetry::outcome::OffloadRefusal;

use crate::driver::{Received, Socket};
use crate::pipes::Pipes;

/// Tries to hand the sealing over, and tells the connection and the counters what came of it.
pub(crate) fn offload(
    flow: &mut Flow,
    front: &Socket,
    ability: Option<&Offload>,
    counters: &ServiceCounters,
    pool: &mut Pool,
) {
    match hand_over(flow, front, ability) {
        Ok(()) => {
            flow.offloaded(pool);
            counters.count(ServiceCounter::Offloads);
            counters.raise(ServiceGauge::Offloaded);
        }
        Err(refusal) => {
            flow.offload_refused(pool);
            refusal
                .into_iter()
                .for_each(|refusal| counters.offload_refused(refusal));
        }
    }
}

/// An error says why the kernel refuses it; `None` = it is not the kernel's refusal.
fn hand_over(
    flow: &Flow,
    front: &Socket,
    ability: Option<&Offload>,
) -> Result<(), Option<OffloadRefusal>> {
    if ability.is_none_or(|ability| ability.taken.is_empty()) {
        return Err(Some(OffloadRefusal::NoKernelTls));
    }
    // Where the suite is not taken, no keys are kept for it.
    let keys = flow.kernel_keys().ok_or(Some(OffloadRefusal::Suite))?;
    let handed = front.hand_over(&keys, false);
    // Of a client that has gone, or has ended its stream, no connection is left to take.
    handed.map_err(|error| {
        (error.kind() != ErrorKind::NotConnected).then_some(OffloadRefusal::Failed)
    })
}

/// Gives the kernel the next key, and tells the connection and the counters.
pub(crate) fn rekey(flow: &mut Flow, front: &Socket, counters: &ServiceCounters, pool: &mut Pool) {
    let keys = flow.kernel_keys();
    let is_taken = keys.is_some_and(|keys| front.hand_over(&keys, true).is_ok());
    if is_taken {
        counters.count(ServiceCounter::Rekeys);
        flow.rekeyed(pool);
    } else {
        flow.rekey_refused(pool);
    }
}

/// Bytes on their way from a server to a client through a pipe.
#[derive(Debug, Default)]
pub(crate) struct Splice {
    pipe: Option<Pipe>,
    held: usize,
}

impl Splice {
    /// Takes a pipe, if none is held and one is to be had; says whether one is held now.
    pub(crate) fn is_ready(&mut self, pipes: &mut Pipes) -> bool {
        if self.pipe.is_none() {
            self.pipe = pipes.take();
        }
        self.pipe.is_some()
    }

    /// Takes in what the server has sent, if all that came before has gone out.
    pub(crate) fn receive(&mut self, back: &mut Socket) -> Received {
        let Some(pipe) = self.pipe.as_ref().filter(|_| self.held == 0) else {
            return Received::Nothing;
        };
        let received = back.fill(pipe);
        if let Received::Bytes(count) | Received::Last(count) = received {
            self.held = count;
        }
        received
    }

    /// Gives out what is held, as [`Socket::send`] does.
    pub(crate) fn send(&mut self, front: &mut Socket) -> Option<usize> {
        let Some(pipe) = self.pipe.as_ref().filter(|_| self.held > 0) else {
            return Some(0);
        };
        let sent = front.drain(pipe, self.held)?;
        self.held -= sent;
        Some(sent)
    }

    /// Whether the client has not been given all yet.
    pub(crate) fn is_holding(&self) -> bool {
        self.held > 0
    }

    /// Gives the pipe back; what is in it is lost.
    pub(crate) fn let_go(&mut self, pipes: &mut Pipes) {
        if let Some(pipe) = self.pipe.take() {
            pipes.give(pipe, self.held == 0);
            self.held = 0;
        }
    }
}
