//! The inheritance of a worker process from the ones before it, and of a plan from the plan before:
//! secrets, the memory of stored sessions, and the answers of all services to authorities that
//! validate us.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use proxy::options::{BackOptions, FrontTls, Options};
use session::Tiers;
use static_files::challenge::HttpChallenges;
use sys::clock;
use sys::memory::SharedMemory;
use tls::challenge::TlsChallenges;
use tls::resumption::{Resumption, ResumptionOptions, SessionMemory};
use tls::self_signed::answer_validations;
use zeroize::Zeroize;

use crate::handover::{SessionKey, WorkerStart};
use crate::held_keys::KeyCounts;
use crate::status_parts::Validations;

/// Secrets that all worker processes of a supervisor have in common. Zeroed when it goes.
pub(super) struct Inheritance {
    pub(super) secret: [u8; 32],
    /// The way to where sessions lie beyond this host.
    pub(super) tiers: Arc<Tiers>,
    process_number: u32,
    /// The answers to authorities, of all plans.
    pub(super) authorities: AuthorityAnswers,
    /// The signatures that were asked of the key process, by all plans.
    pub(super) key_counts: Arc<KeyCounts>,
}

/// The sources of the next plan's sessions.
pub(super) struct Sessions {
    pub(super) inheritance: Arc<Inheritance>,
    /// The sessions of the plan before, and the key of the memory that they lie in.
    pub(super) before: Option<(Arc<Resumption>, SessionKey)>,
    /// Whether another process still uses the memory that was handed over.
    pub(super) is_in_use: bool,
}

impl Inheritance {
    pub(super) fn of(start: &WorkerStart) -> Self {
        Self {
            secret: start.secret.0,
            tiers: Arc::default(),
            process_number: start.number,
            authorities: AuthorityAnswers::default(),
            key_counts: Arc::default(),
        }
    }

    /// The memory that was handed over. An error is a sentence.
    fn memory(
        &self,
        key: &SessionKey,
        fd: &OwnedFd,
        is_in_use: bool,
    ) -> Result<SessionMemory, String> {
        let words = SharedMemory::map(fd.as_fd())
            .map_err(|error| format!("the memory of stored sessions cannot be used: {error}"))?;
        Ok(SessionMemory {
            words: Arc::new(words),
            key: key.0,
            process_number: self.process_number,
            zero: clock::clock_zero(),
            is_in_use,
        })
    }
}

impl Sessions {
    /// Resumption by a plan's options: with the sessions of the plan before while their memory
    /// stays, else with those in the memory that was handed over. Without one they end with this
    /// process, as the supervisor has said.
    ///
    /// An error is a sentence.
    pub(super) fn next(
        &self,
        options: &ResumptionOptions,
        key: &SessionKey,
        fd: Option<OwnedFd>,
    ) -> Result<Resumption, String> {
        if let Some((before, _)) = self.before.as_ref().filter(|(_, same)| same == key) {
            return Ok(before.renewed(&options.tickets));
        }
        let map = |fd| self.inheritance.memory(key, &fd, self.is_in_use);
        let memory = fd.map(map).transpose()?;
        Ok(match (&self.before, &memory) {
            (Some((before, _)), memory) => before.moved(options, memory.as_ref()),
            (None, Some(memory)) => Resumption::within(options, memory),
            (None, None) => Resumption::new(options),
        })
    }
}

impl Drop for Inheritance {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

/// Cloning shares them.
#[derive(Clone, Default)]
pub(super) struct AuthorityAnswers {
    tls: TlsChallenges,
    http: HttpChallenges,
}

impl AuthorityAnswers {
    /// Answers so from now on, in every worker.
    ///
    /// # Errors
    /// A sentence: some answers cannot be made. All others are in place.
    pub(super) fn set(&self, validations: Validations) -> Result<(), String> {
        self.http.set(validations.http);
        let set = answer_validations(&self.tls, &validations.tls);
        set.map_err(|why| format!("no certificate can be made to answer an authority: {why}"))
    }

    /// Gives them to all services of a plan.
    pub(super) fn join(&self, data_plane: &mut Options) {
        for service in &mut data_plane.services {
            if let FrontTls::Terminate(terminated) = &mut service.front.tls {
                terminated.challenges = self.tls.clone();
            }
            service.front.challenges = self.http.clone();
            if let BackOptions::Files(files) = &mut service.back {
                files.serving.challenges = self.http.clone();
            }
        }
    }
}
