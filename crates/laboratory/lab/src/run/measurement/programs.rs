//! Programs beside a server under test: the test server behind all servers and the CPUs that all of
//! them run on, how a server logged its requests, commands while it is loaded, and the load of
//! another program.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use measure::choice::Kind;
use measure::experiment::Placement;
use measure::record::HandshakeCounts;

use super::verdict::{Measured, MeasurementFailure};
use crate::interrupt::Cancel;
use crate::process::{GuardedChild, ProcessTree, cpu_list, first_lines};
use crate::targets::form::{OutputNumbers, ServerKeyKind, ServerSpec, TestTarget};
use crate::targets::server::REQUEST_LOG;
use crate::targets::templates::{self, ClientValues};

/// The file that we are, even if it has been replaced since we started.
const OWN_PROGRAM: &str = "/proc/self/exe";

const LISTENING: &str = "listening on http://";

/// Longer than any start of it.
const START_MAX: Duration = Duration::from_secs(10);

/// Between two checks whether it serves.
const SERVES_PAUSE: Duration = Duration::from_millis(2);

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
pub(crate) fn origin_spec(of: &ServerSpec, cpus: usize) -> ServerSpec {
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
                thread::sleep(SERVES_PAUSE);
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

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LoggedRequests {
    pub(crate) succeeded: u64,
    /// Handshakes of the connections that the requests came by.
    pub(crate) handshakes: Vec<HandshakeCounts>,
}

/// The requests that the server of this folder logged since it started, or since they were read.
///
/// # Errors
/// There is no log, or it is malformed.
pub(crate) fn logged(folder: &Path, spec: &ServerSpec) -> Measured<LoggedRequests> {
    let path = folder.join(REQUEST_LOG);
    let failed =
        |why: &dyn Display| MeasurementFailure::Failed(format!("{}: {why}", path.display()));
    let log = fs::read_to_string(&path).map_err(|fault| failed(&fault))?;
    // It grows by megabytes, and the run's folder stays until its end.
    let _ = fs::remove_file(&path);
    parse(&log, spec).ok_or_else(|| failed(&"a line is malformed"))
}

/// Reads a log of nginx: `$ssl_protocol $ssl_cipher $ssl_curve $ssl_session_reused $status
/// $connection_requests` in each line, `-` for what is empty. By what a resumed session was
/// resumed the log does not say, but the server was asked for.
fn parse(log: &str, spec: &ServerSpec) -> Option<LoggedRequests> {
    let mut requests = LoggedRequests::default();
    let mut counts = BTreeMap::<(&str, &str, &str, bool), u64>::new();
    for line in log.lines() {
        let mut fields = line.split(' ');
        let mut next = || fields.next();
        let (version, suite, group) = (next()?, next()?, next()?);
        let is_resumed = next()? == "r";
        requests.succeeded += u64::from(next()?.starts_with('2'));
        if next()? == "1" {
            *counts.entry((version, suite, group, is_resumed)).or_default() += 1;
        }
    }
    let handshakes = counts.into_iter();
    let handshakes =
        handshakes.map(|((version, suite, group, is_resumed), count)| HandshakeCounts {
            kind: match (is_resumed, version, spec.tickets) {
                (false, ..) => Kind::Full,
                (true, "TLSv1.3", _) => Kind::Psk,
                (true, _, true) => Kind::Ticket,
                (true, _, false) => Kind::SessionId,
            },
            version: version.to_owned(),
            suite: suite.to_owned(),
            group: (group != "-").then(|| group.to_ascii_lowercase()),
            count,
            ..HandshakeCounts::default()
        });
    requests.handshakes = handshakes.collect();
    Some(requests)
}

/// Between two looks at whether it has ended.
const PAUSE: Duration = Duration::from_millis(1);

/// The command, not yet run.
#[derive(Debug)]
pub(crate) struct EventCommand {
    name: &'static str,
    words: Vec<OsString>,
    /// The client's CPUs: what is measured must not be disturbed.
    cpus: Vec<u16>,
    folder: PathBuf,
}

/// An event that befalls a server under load, once.
#[derive(Debug)]
pub(crate) struct ServerEvent {
    /// When, from the end of the warm-up.
    pub(crate) at: Duration,
    pub(crate) command: EventCommand,
}

impl EventCommand {
    /// That of these words, in which `{{program}}` and `{{folder}}` are replaced.
    pub(super) fn new(
        name: &'static str,
        words: &[String],
        program: &Path,
        folder: &Path,
        cpus: &[u16],
    ) -> Self {
        let (path, own) = (program.to_string_lossy(), folder.to_string_lossy());
        let words = words
            .iter()
            .map(|word| word.replace("{{program}}", &path).replace("{{folder}}", &own).into());
        Self { name, words: words.collect(), cpus: cpus.to_owned(), folder: folder.to_owned() }
    }

    pub(super) fn start(&self) -> io::Result<GuardedChild> {
        let output = self.folder.join(format!("{}.output", self.name));
        GuardedChild::start(&self.words, &self.cpus, &self.folder, &output)
    }

    /// Judges it by how it ended.
    ///
    /// # Errors
    /// It failed.
    pub(super) fn judge(&self, child: &mut GuardedChild) -> Measured<()> {
        if child.ended().is_some_and(|how| how.ends_with(" 0")) {
            return Ok(());
        }
        let said = first_lines(&child.output());
        let name = self.name;
        Err(MeasurementFailure::Failed(format!("the command `{name}` failed: {said}")))
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// It failed.
    pub(super) fn run(&self) -> Measured<()> {
        let mut child = self.start()?;
        while child.ended().is_none() {
            thread::sleep(PAUSE);
        }
        self.judge(&mut child)
    }
}

/// A load that takes longer hangs.
const FETCH_MAX: Duration = Duration::from_secs(180);

/// Between two checks whether it has ended.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// The result of one run of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FetchedRun {
    pub(crate) counted: OutputNumbers,
    /// How long it took, by its own clock, or else by ours with its start and end.
    pub(crate) took: Duration,
    /// Resident memory of the server while the program ran, at its most.
    pub(crate) server_bytes: u64,
    /// The same of the program itself.
    pub(crate) client_bytes: u64,
}

/// Runs it once, in its folder.
///
/// # Errors
/// It cannot be started, fails, hangs, or does not print its numbers; or it was cancelled.
pub(crate) fn fetch(
    client: &TestTarget,
    values: &ClientValues<'_>,
    cpus: &[u16],
    server_bytes: impl Fn() -> u64,
    cancel: &dyn Cancel,
) -> Measured<FetchedRun> {
    let mut child = start(client, values, cpus)?;
    let begun = Instant::now();
    let mut most = (server_bytes(), 0);
    let how = loop {
        if let Some(how) = child.ended() {
            break how.to_owned();
        }
        if cancel.is_requested() {
            return Err(MeasurementFailure::Cancelled);
        }
        if begun.elapsed() > FETCH_MAX {
            let (name, seconds) = (&client.name, FETCH_MAX.as_secs());
            return Err(MeasurementFailure::Failed(format!(
                "{name} has not ended after {seconds} s"
            )));
        }
        most = (most.0.max(server_bytes()), most.1.max(child.tree().resident_bytes().unwrap_or(0)));
        thread::sleep(LOOK_PAUSE);
    };
    let took = begun.elapsed();
    let said = child.output();
    let is_over = how.ends_with(" 0");
    let output = &client.form.output;
    let written = output.file.as_ref().map(|name| values.folder.join(name));
    let written = written.map(|path| fs::read_to_string(path).unwrap_or_default());
    let counted = output.read(written.as_ref().unwrap_or(&said)).filter(|_| is_over);
    let counted = counted.ok_or_else(|| {
        let said = first_lines(&said);
        MeasurementFailure::Failed(format!("{} ended ({how}): {said}", client.name))
    })?;
    Ok(FetchedRun {
        counted,
        took: counted.took.unwrap_or(took),
        server_bytes: most.0,
        client_bytes: most.1,
    })
}

fn start(client: &TestTarget, values: &ClientValues<'_>, cpus: &[u16]) -> Measured<GuardedChild> {
    let folder: &Path = values.folder;
    for (name, text) in templates::files(client, values)? {
        fs::write(folder.join(name), text)?;
    }
    let words = templates::command(client, &client.form.start, values)?;
    let words: Vec<_> = words.into_iter().map(OsString::from).collect();
    let output = folder.join("output");
    Ok(GuardedChild::start(&words, cpus, folder, &output)?)
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

    #[test]
    fn a_connection_counts_once_and_a_request_each_time() {
        let log = "TLSv1.3 TLS_AES_128_GCM_SHA256 X25519 . 200 1\n\
                   TLSv1.3 TLS_AES_128_GCM_SHA256 X25519 . 200 2\n\
                   TLSv1.3 TLS_AES_128_GCM_SHA256 X25519 r 404 1\n\
                   TLSv1.2 ECDHE-ECDSA-AES128-GCM-SHA256 - r 200 1\n";
        let requests = parse(log, &ServerSpec::default()).unwrap();
        assert_eq!(requests.succeeded, 3);
        let kinds: Vec<_> = requests.handshakes.iter().map(|row| row.kind).collect();
        assert_eq!(kinds, [Kind::Ticket, Kind::Full, Kind::Psk]);
        assert_eq!(requests.handshakes[0].group, None);
        assert_eq!(requests.handshakes[1].group.as_deref(), Some("x25519"));
        assert_eq!(parse("rubbish\n", &ServerSpec::default()), None);
    }
}
