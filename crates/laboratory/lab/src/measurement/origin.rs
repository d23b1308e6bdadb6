//! The plain server behind those that relay: our own `lariat-lab origin`, as a process of its own.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::failure::Failure;
use crate::process::child::{Child, first_lines};
use crate::process::tree::Tree;
use crate::target::server_spec::{KeyKind, ServerSpec};

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
pub(crate) struct Origin {
    child: Child,
    address: SocketAddr,
    cpus: Vec<u16>,
}

impl Origin {
    /// Starts it on these CPUs, a thread on each.
    ///
    /// # Errors
    /// It does not serve.
    pub(crate) fn start(cpus: &[u16], folder: &Path) -> Result<Self, Failure> {
        let numbers: Vec<_> = cpus.iter().map(u16::to_string).collect();
        let words = format!(
            "{OWN_PROGRAM} origin --listen 127.0.0.1:0 --idle-timeout {IDLE_TIMEOUT} --cpus {}",
            numbers.join(",")
        );
        let words: Vec<_> = words.split(' ').map(OsString::from).collect();
        let output = folder.join("origin.output");
        let mut child = Child::start(&words, cpus, folder, &output)?;
        let address = wait_until_serving(&mut child)?;
        Ok(Self {
            child,
            address,
            cpus: cpus.to_vec(),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn cpus(&self) -> &[u16] {
        &self.cpus
    }

    pub(crate) fn tree(&self) -> Tree {
        self.child.tree()
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.ended().is_some()
    }
}

/// In its place, the server behind one that speaks TLS to it. It logs requests, which say how its
/// connections began.
pub(crate) fn spec(of: &ServerSpec, cpus: usize) -> ServerSpec {
    ServerSpec {
        workers: u16::try_from(cpus).unwrap_or(u16::MAX),
        certificates: vec![KeyKind::P256],
        versions: of.versions.clone(),
        groups: of.groups.clone(),
        objects: of.objects.clone(),
        request_log: true,
        ..ServerSpec::default()
    }
}

fn wait_until_serving(child: &mut Child) -> Result<SocketAddr, Failure> {
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
        return Err(Failure::Failed(format!(
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
