//! What a data process inherits of the ones before it: secrets, and the memory of stored sessions.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use sys::shared::SharedMemory;
use sys::timer;
use tls::resumption::{Resumption, ResumptionOptions, SessionMemory};

use crate::handover::Start;

/// What all data processes of a supervisor have in common. Zeroed when it goes.
pub(super) struct Inheritance {
    /// What ticket keys are derived from.
    pub(super) secret: [u8; 32],
    session_key: [u8; 32],
    process_number: u32,
}

impl Inheritance {
    pub(super) fn of(start: &Start) -> Self {
        Self {
            secret: start.secret,
            session_key: start.session_key,
            process_number: start.number,
        }
    }

    /// Resumption with the sessions in the memory that was handed over; without one they end with
    /// this process, as the supervisor has said.
    ///
    /// An error is a sentence.
    pub(super) fn resumption(
        &self,
        options: &ResumptionOptions,
        memory: Option<OwnedFd>,
    ) -> Result<Resumption, String> {
        let Some(fd) = memory else {
            return Ok(Resumption::new(options));
        };
        let words = SharedMemory::map(fd.as_fd())
            .map_err(|error| format!("the memory of stored sessions cannot be used: {error}"))?;
        let memory = SessionMemory {
            words: Arc::new(words),
            key: self.session_key,
            process_number: self.process_number,
            zero: timer::clock_zero(),
        };
        Ok(Resumption::within(options, &memory))
    }
}

impl Drop for Inheritance {
    fn drop(&mut self) {
        self.secret.fill(0);
        self.session_key.fill(0);
        // The compiler must not leave out a write that nobody reads.
        std::hint::black_box((&mut self.secret, &mut self.session_key));
    }
}
