//! Hands a connection's encryption over to the kernel (kTLS), and moves a server's bytes past our
//! buffers through a pipe after that.
//!
//! `flow` decides when to hand over.

use std::io::ErrorKind;

use flow::connection::Flow;
use flow::events::ReceiveResult;
use flow::options::Offload;
use sys::transfer::Pipe;
use telemetry::catalogue::{ServiceCounter, ServiceGauge};
use telemetry::outcome::OffloadRefusal;

use crate::descriptors::Pipes;
use crate::driver::Socket;
use crate::service::Service;

/// Tries to hand the encryption over, and counts the outcome; returns whether the kernel took it.
pub(crate) fn offload(flow: &Flow, front: &Socket, service: &Service) -> bool {
    let counters = &service.counters;
    match hand_over(flow, front, service.settings.offload.as_ref()) {
        Ok(()) => {
            counters.count(ServiceCounter::Offloads);
            counters.raise(ServiceGauge::Offloaded);
            true
        }
        Err(refusal) => {
            if let Some(refusal) = refusal {
                counters.offload_refused(refusal);
            }
            false
        }
    }
}

/// Hands the encryption over. The error is the kernel's refusal; `None` = another cause.
fn hand_over(
    flow: &Flow,
    front: &Socket,
    ability: Option<&Offload>,
) -> Result<(), Option<OffloadRefusal>> {
    if ability.is_none_or(|ability| ability.taken.is_empty()) {
        return Err(Some(OffloadRefusal::NoKernelTls));
    }
    // No keys are kept for a suite that the kernel does not take.
    let keys = flow.kernel_keys().ok_or(Some(OffloadRefusal::Suite))?;
    let handed = front.hand_over(&keys, false);
    // A client that has gone, or has ended its stream, leaves no connection to hand over.
    handed.map_err(|error| {
        (error.kind() != ErrorKind::NotConnected).then_some(OffloadRefusal::Failed)
    })
}

/// Gives the kernel the key that follows a KeyUpdate, and counts it; returns whether it was taken.
pub(crate) fn rekey(flow: &Flow, front: &Socket, service: &Service) -> bool {
    let keys = flow.kernel_keys();
    let is_taken = keys.is_some_and(|keys| front.hand_over(&keys, true).is_ok());
    if is_taken {
        service.counters.count(ServiceCounter::Rekeys);
    }
    is_taken
}

/// Bytes on their way from a server to a client through a pipe.
#[derive(Debug, Default)]
pub(crate) struct Splice {
    pipe: Option<Pipe>,
    held: usize,
}

impl Splice {
    /// Takes a pipe, if none is held and one is available; returns whether one is held now.
    pub(crate) fn is_ready(&mut self, pipes: &mut Pipes) -> bool {
        if self.pipe.is_none() {
            self.pipe = pipes.take();
        }
        self.pipe.is_some()
    }

    /// Receives into the pipe, if everything before has gone out.
    pub(crate) fn receive(&mut self, back: &mut Socket) -> ReceiveResult {
        let Some(pipe) = self.pipe.as_ref().filter(|_| self.held == 0) else {
            return ReceiveResult::Nothing;
        };
        let received = back.fill(pipe);
        if let ReceiveResult::Bytes(count) | ReceiveResult::Last(count) = received {
            self.held = count;
        }
        received
    }

    /// Sends what the pipe holds, as [`Socket::send`] does.
    pub(crate) fn send(&mut self, front: &mut Socket) -> Option<usize> {
        let Some(pipe) = self.pipe.as_ref().filter(|_| self.held > 0) else {
            return Some(0);
        };
        let sent = front.drain(pipe, self.held)?;
        self.held -= sent;
        Some(sent)
    }

    /// Reports whether the pipe still holds bytes for the client.
    pub(crate) fn is_holding(&self) -> bool {
        self.held > 0
    }

    /// Gives the pipe back; what is in it is lost.
    pub(crate) fn release(&mut self, pipes: &mut Pipes) {
        if let Some(pipe) = self.pipe.take() {
            pipes.give(pipe, self.held == 0);
            self.held = 0;
        }
    }
}
