//! The test server behind the servers under test, and the CPUs that all of them run on.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use measure::experiment::Placement;

use super::failure::{Measured, MeasurementFailure};
use crate::process::tree::ProcessTree;
use crate::process::{GuardedChild, cpu_list, first_lines};
use crate::targets::form::{ServerKeyKind, ServerSpec};

/// The file that we are, even if it has been replaced since we started.
const OWN_PROGRAM: &str = "/proc/self/exe";

const LISTENING: &str = "listening on http://";

/// Longer than any start of it.
const START_MAX: Duration = Duration::from_secs(10);

/// Between two checks whether it serves.
const PAUSE: Duration = Duration::from_millis(2);

/// Connections that rest are kept for longer than any configuration lasts.
const IDLE_TIMEOUT: &str = "3600s";

/// A running origin; it is ended on drop.
#[derive(Debug)]
pub(crate) struct RunningOrigin {
    child: GuardedChild,
    pub(crate) address: SocketAddr,
    pub(crate) cpus: Vec<u16>,
}

impl RunningOrigin {
    /// Starts it on these CPUs, a thread on each.
    ///
    /// # Errors
    /// It does not serve.
    pub(crate) fn start(cpus: &[u16], folder: &Path) -> Measured<Self> {
        let words = format!(
            "{OWN_PROGRAM} origin --listen 127.0.0.1:0 --idle-timeout {IDLE_TIMEOUT} --cpus {}",
            cpu_list(cpus)
        );
        let words: Vec<_> = words.split(' ').map(OsString::from).collect();
        let output = folder.join("origin.output");
        let mut child = GuardedChild::start(&words, cpus, folder, &output)?;
        let address = wait_until_serving(&mut child)?;
        Ok(Self { child, address, cpus: cpus.to_vec() })
    }

    pub(crate) fn tree(&self) -> ProcessTree {
        self.child.tree()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.ended().is_some()
    }
}

/// In its place, the server behind one that speaks TLS to it. It logs requests, which say how its
/// connections began.
pub(crate) fn spec(of: &ServerSpec, cpus: usize) -> ServerSpec {
    ServerSpec {
        workers: u16::try_from(cpus).unwrap_or(u16::MAX),
        certificates: vec![ServerKeyKind::P256],
        versions: of.versions.clone(),
        groups: of.groups.clone(),
        objects: of.objects.clone(),
        request_log: true,
        ..ServerSpec::default()
    }
}

fn wait_until_serving(child: &mut GuardedChild) -> Measured<SocketAddr> {
    let begun = Instant::now();
    loop {
        if let Some(address) = address_in(&child.output()) {
            return Ok(address);
        }
        let how = match child.ended() {
            Some(how) => how.to_owned(),
            None if begun.elapsed() > START_MAX => format!("silent for {} s", START_MAX.as_secs()),
            None => {
                thread::sleep(PAUSE);
                continue;
            }
        };
        let said = first_lines(&child.output());
        return Err(MeasurementFailure::Failed(format!(
            "the origin behind the servers does not serve ({how}): {said}"
        )));
    }
}

/// `listening on http://127.0.0.1:4711/`, once the line is whole.
fn address_in(said: &str) -> Option<SocketAddr> {
    let (_, rest) = said.split_once(LISTENING)?;
    let (line, _) = rest.split_once('\n')?;
    line.trim_end().trim_end_matches('/').parse().ok()
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct CpuAssignment {
    /// One for each worker of the server.
    pub(crate) server: Vec<u16>,
    /// One for each thread of the load.
    pub(crate) client: Vec<u16>,
    pub(crate) is_shared: bool,
}

impl CpuAssignment {
    /// For `workers` workers. A server that needs more CPUs than were set aside takes some of the
    /// client's; where that leaves the client none, the load spreads over all of them, lest one
    /// worker have a neighbour and the others none.
    pub(crate) fn of(placement: &Placement, workers: u16) -> Self {
        let others = placement.client.iter().filter(|cpu| !placement.server.contains(cpu));
        let in_order = placement.server.iter().chain(others).copied();
        let server: Vec<_> = in_order.take(workers.max(1).into()).collect();
        let left = placement.client.iter().copied();
        let mut client: BTreeSet<_> = left.filter(|cpu| !server.contains(cpu)).collect();
        let is_shared = client.is_empty();
        if is_shared {
            client.extend(server.iter().chain(&placement.client));
        }
        Self { server, client: client.into_iter().collect(), is_shared }
    }

    pub(crate) fn all(&self) -> BTreeSet<u16> {
        self.server.iter().chain(&self.client).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_where_it_listens() {
        let whole = "listening on http://127.0.0.1:4711/\n";
        assert_eq!(address_in(whole), Some(([127, 0, 0, 1], 4711).into()));
        assert_eq!(address_in(whole.trim_end()), None, "the line may go on");
        assert_eq!(address_in("error: no\n"), None);
    }
}

#[cfg(test)]
mod cpu_assignment_tests {
    use super::*;

    fn cpus(server: &[u16], client: &[u16], workers: u16) -> (Vec<u16>, Vec<u16>, bool) {
        let placement = Placement { server: server.to_vec(), client: client.to_vec() };
        let cpus = CpuAssignment::of(&placement, workers);
        (cpus.server, cpus.client, cpus.is_shared)
    }

    #[test]
    fn servers_have_cpus_of_their_own_while_there_are_some() {
        assert_eq!(cpus(&[1, 3], &[0], 1), (vec![1], vec![0], false));
        assert_eq!(cpus(&[3, 1], &[0], 2), (vec![3, 1], vec![0], false));
        assert_eq!(cpus(&[2], &[0, 1], 2), (vec![2, 0], vec![1], false));
        assert_eq!(cpus(&[0, 1], &[0, 1], 1), (vec![0], vec![1], false));
    }

    #[test]
    fn where_there_are_too_few_they_share_evenly() {
        assert_eq!(cpus(&[1], &[0], 2), (vec![1, 0], vec![0, 1], true));
        assert_eq!(cpus(&[0], &[0], 1), (vec![0], vec![0], true));
        assert_eq!(cpus(&[1, 0], &[0], 2), (vec![1, 0], vec![0, 1], true));
    }
}
