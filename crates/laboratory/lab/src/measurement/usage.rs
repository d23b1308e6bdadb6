//! CPU time of all who take part, at two moments.

use std::collections::BTreeSet;
use std::time::Duration;

use super::machine::{Machine, share};
use super::missed::Missed;
use crate::process::tree::{CpuReading, Tree};

/// Whose CPU time is read.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// The server under test.
    pub(crate) server: Tree,
    /// What is behind it.
    pub(crate) origin: Tree,
    /// The CPUs that they and the client run on.
    pub(crate) cpus: BTreeSet<u16>,
}

/// CPU time at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    server: CpuReading,
    origin: CpuReading,
    /// This process, which makes the load.
    own: Duration,
    /// Processes of ours that have ended.
    ended: Duration,
    machine: Machine,
}

/// CPU time between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    /// Of the server.
    pub(crate) server: Duration,
    /// Of what is behind it.
    pub(crate) origin: Duration,
    /// Of programs that came and went.
    pub(crate) ended: Duration,
    /// The share of others, 0 to 1.
    pub(crate) foreign: f64,
    /// The share that the hypervisor gave away, 0 to 1.
    pub(crate) stolen: f64,
}

impl Watched {
    /// When the server is at rest, which is waited for.
    ///
    /// # Errors
    /// It does not come to rest; or the kernel tells nothing.
    pub(crate) fn usage_at_rest(&self) -> Result<Usage, Missed> {
        let server = self.server.cpu_at_rest().map_err(Missed::failed)?;
        self.with_others(server)
    }

    /// Now, whatever is under way.
    ///
    /// # Errors
    /// The kernel tells nothing.
    pub(crate) fn usage_now(&self) -> Result<Usage, Missed> {
        let server = self.server.cpu().map_err(Missed::failed)?;
        self.with_others(server)
    }

    fn with_others(&self, server: CpuReading) -> Result<Usage, Missed> {
        let own = sys::cpu::process_time(std::process::id()).map_err(Missed::failed)?;
        Ok(Usage {
            server,
            origin: self.origin.cpu().map_err(Missed::failed)?,
            own,
            ended: sys::cpu::ended_children_time(),
            machine: Machine::now(&self.cpus).map_err(Missed::failed)?,
        })
    }
}

impl Usage {
    /// What was used since then.
    ///
    /// # Errors
    /// A process of the server or the origin ended in between: what it used is lost.
    pub(crate) fn since(&self, before: &Self) -> Result<Used, Missed> {
        let server = self.server.since(&before.server);
        let server = server.map_err(Missed::failed)?;
        let origin = self.origin.since(&before.origin);
        let origin = origin.map_err(|fault| Missed::Failed(format!("of the origin: {fault}")))?;
        let ended = self.ended.saturating_sub(before.ended);
        let own = self.own.saturating_sub(before.own);
        let machine = self.machine.since(before.machine);
        Ok(Used {
            server,
            origin,
            ended,
            foreign: machine.foreign(server + origin + own + ended),
            stolen: machine.stolen(),
        })
    }
}

impl Used {
    /// The share of a time that so many CPUs of the server were working for it, 0 to 1.
    pub(crate) fn server_busy(&self, elapsed: Duration, cpus: usize) -> f64 {
        share(
            self.server,
            elapsed * u32::try_from(cpus).unwrap_or(u32::MAX),
        )
    }
}
