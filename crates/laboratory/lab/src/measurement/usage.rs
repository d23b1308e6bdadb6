//! CPU time of server, origin and client, at two moments.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use load::run::Stopper;
use measure::record::Background;

use super::failure::Failure;
use super::machine::{Machine, share};
use crate::process::tree::{CpuReading, Tree};

/// The processes whose CPU time is read.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) server: Tree,
    pub(crate) origin: Tree,
    /// The CPUs that they and the client run on.
    pub(crate) cpus: BTreeSet<u16>,
    /// The load in the background, beside which the server never rests.
    pub(crate) background: Option<Stopper>,
}

/// CPU time at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    server: CpuReading,
    /// How often threads of the server went to sleep.
    server_switches: u64,
    origin: CpuReading,
    /// This process, which makes the load.
    own: Duration,
    /// Processes of ours that have ended.
    ended: Duration,
    machine: Machine,
    /// Bytes received in the background.
    background: Option<(u64, u64)>,
    at: Instant,
}

/// CPU time between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) server: Duration,
    /// How often threads of it went to sleep.
    pub(crate) server_switches: u64,
    pub(crate) origin: Duration,
    pub(crate) ended: Duration,
    /// The share of others, 0 to 1.
    pub(crate) foreign: f64,
    /// The share that the hypervisor gave away, 0 to 1.
    pub(crate) stolen: f64,
    pub(crate) background: Option<Background>,
}

impl Watched {
    /// Waits until the server is at rest; but beside a load in the background it never is.
    ///
    /// # Errors
    /// It does not come to rest.
    pub(crate) fn usage_at_rest(&self) -> Result<Usage, Failure> {
        match &self.background {
            None => self.with_others(self.server.cpu_at_rest()?),
            Some(_) => self.usage_now(),
        }
    }

    /// Now, whatever is in progress.
    pub(crate) fn usage_now(&self) -> Result<Usage, Failure> {
        self.with_others(self.server.cpu()?)
    }

    fn with_others(&self, server: CpuReading) -> Result<Usage, Failure> {
        let own = sys::cpu::process_time(std::process::id())?;
        Ok(Usage {
            server,
            server_switches: self.server.switches()?,
            origin: self.origin.cpu()?,
            own,
            ended: sys::cpu::ended_children_time(),
            machine: Machine::now(&self.cpus)?,
            background: self.background.as_ref().map(Stopper::done),
            at: Instant::now(),
        })
    }
}

impl Usage {
    /// Leaves the processes of the server out that have ended by then: what they used is not known.
    pub(crate) fn forget_ended(&mut self, after: &Self) {
        self.server.forget_ended(&after.server);
    }

    /// What was used since then.
    ///
    /// # Errors
    /// A process of the server or the origin ended in between: what it used is lost.
    pub(crate) fn since(&self, before: &Self) -> Result<Used, Failure> {
        let server = self.server.since(&before.server)?;
        let origin = self.origin.since(&before.origin);
        let origin = origin.map_err(|fault| Failure::Failed(format!("of the origin: {fault}")))?;
        let ended = self.ended.saturating_sub(before.ended);
        let own = self.own.saturating_sub(before.own);
        let machine = self.machine.since(before.machine);
        Ok(Used {
            server,
            server_switches: self.server_switches.saturating_sub(before.server_switches),
            origin,
            ended,
            foreign: machine.foreign(server + origin + own + ended),
            stolen: machine.stolen(),
            background: self
                .background
                .zip(before.background)
                .map(|((bytes, succeeded), then)| Background {
                    received_bytes: bytes - then.0,
                    succeeded: Some(succeeded - then.1),
                    elapsed_ns: self.at.saturating_duration_since(before.at).as_nanos() as u64,
                }),
        })
    }
}

impl Used {
    /// The share of a time that `cpus` CPUs of the server worked for it, 0 to 1.
    pub(crate) fn server_busy(&self, elapsed: Duration, cpus: usize) -> f64 {
        share(
            self.server,
            elapsed * u32::try_from(cpus).unwrap_or(u32::MAX),
        )
    }
}
