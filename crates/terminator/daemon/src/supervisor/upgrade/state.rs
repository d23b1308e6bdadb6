//! The state that outlasts a supervisor's program: secrets, sessions, listeners and the orders of
//! an operator, as a new program of the same process gets it, or a new process from the service
//! manager.
//!
//! Handles its format and the choice of versions. It is JSON, and its reader may be an older or a
//! newer program: unknown fields are skipped, unless the state says that they must be understood.
//! The format of orders to the earlier worker process (`handover::SupervisorOrder`) goes with it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use telemetry::printable::line;
use wire::address::Address;

use crate::handover::{EndedUpgrade, Secret, SessionKey};
use crate::named_servers::ServerName;

/// Version of the program, and the oldest and newest formats of the state that we speak. Another
/// number means that programs that know only earlier ones would go wrong.
///
/// It is read from these bytes, so that tests can make a copy of the program that has others.
static RELEASE: &str =
    concat!("lariat ", env!("CARGO_PKG_VERSION"), " hands over in the formats 1 to 1");

/// Maximum bytes of the state: ten thousand listeners, with their names.
pub(crate) const STATE_BYTES_MAX: usize = 4 << 20;

/// Known fields of a [`SupervisorState`], for [`SupervisorState::must_understand`].
const KNOWN: [&str; 11] = [
    "format",
    "program",
    "secret",
    "last_number",
    "sessions",
    "disabled",
    "weights",
    "listeners",
    "admin",
    "cluster",
    "image",
];

/// Release of a program that is to replace the running one. This stays readable in every format.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Release {
    /// The oldest and the newest format that it speaks.
    pub(crate) formats: [u32; 2],
    pub(crate) program: String,
}

/// The new program's judgement of the state and of its configuration.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct UpgradeVerdict {
    /// Reason why it would not serve; `None` if it would.
    pub(crate) refused: Option<String>,
}

/// State that is handed on. These descriptors come along: that of the session memory, then each
/// listener's, then the admin's and the cluster's, then what [`ImageState`] says.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SupervisorState {
    /// Format of the state.
    pub(crate) format: u32,
    pub(crate) program: String,
    /// Fields that a reader must not skip even if it does not know them.
    #[serde(default)]
    pub(crate) must_understand: Vec<String>,
    pub(crate) secret: SessionKey,
    /// Last number of the worker processes that have used the session memory.
    pub(crate) last_number: u64,
    /// Memory of stored sessions.
    #[serde(default)]
    pub(crate) sessions: Option<SessionsState>,
    #[serde(default)]
    pub(crate) disabled: Vec<ServerName>,
    /// Weights that an operator has ordered.
    #[serde(default)]
    pub(crate) weights: Vec<(ServerName, u16)>,
    #[serde(default)]
    pub(crate) listeners: Vec<ListenerState>,
    #[serde(default)]
    pub(crate) admin: Option<String>,
    /// Address where datagrams of the cluster's peers arrive, as configured.
    #[serde(default)]
    pub(crate) cluster: Option<String>,
    /// Part that only the next program of the same process gets.
    #[serde(default)]
    pub(crate) image: Option<ImageState>,
}

/// Part that stays with the process. The descriptors of the status socket and of the channel to
/// each worker process and to each process with keys come along.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ImageState {
    pub(crate) status_socket: PathBuf,
    #[serde(default)]
    pub(crate) pid_file: Option<PathBuf>,
    #[serde(default)]
    pub(crate) workers: Vec<WorkerState>,
    /// Version of the program that has forbidden this process system calls, if one has. They stay
    /// forbidden, and each program that did it once more would make every call slower.
    #[serde(default)]
    pub(crate) calls_forbidden_by: Option<String>,
    #[serde(default)]
    pub(crate) last_upgrade: Option<EndedUpgrade>,
    #[serde(default)]
    pub(crate) key_processes: Vec<KeyProcessState>,
    /// Programs that change the DNS and still run.
    #[serde(default)]
    pub(crate) hooks: Vec<HookState>,
}

/// A program that the supervisor has started, and leaves to the next program of its process: its
/// effect on the record is unknown until it has ended.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct HookState {
    pub(crate) record: String,
    pub(crate) value: String,
    pub(crate) reader: u32,
}

/// A process with keys that a worker process of a previous program uses.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct KeyProcessState {
    pub(crate) number: u64,
    pub(crate) pid: u32,
    /// Number of that worker process.
    pub(crate) worker: u64,
    /// Time of its end, by the clock that stops in sleep; `None` = with the worker process.
    #[serde(default)]
    pub(crate) ends_ms: Option<u64>,
}

/// A worker process that the process has started.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct WorkerState {
    pub(crate) number: u64,
    pub(crate) pid: u32,
    /// Time when it is killed, by the clock that stops in sleep; `None` if it serves.
    #[serde(default)]
    pub(crate) drains_until_ms: Option<u64>,
}

/// Memory of stored sessions: its limits determine the layout of entries.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SessionsState {
    pub(crate) key: SessionKey,
    pub(crate) entries_max: usize,
    pub(crate) bytes_max: usize,
    pub(crate) lifetime_ms: u64,
}

/// Listening sockets of one address.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct ListenerState {
    pub(crate) address: String,
    #[serde(default)]
    pub(crate) interface: Option<String>,
    #[serde(default)]
    pub(crate) mptcp: bool,
    #[serde(default)]
    pub(crate) ipv6_only: bool,
    /// Number of equal addresses before it, if the kernel chooses their ports.
    #[serde(default)]
    pub(crate) place: usize,
    pub(crate) sockets: usize,
    /// Whether a service manager has opened them: a path among them is its own to remove.
    #[serde(default)]
    pub(crate) handed_over: bool,
    #[serde(default)]
    pub(crate) name: Option<String>,
}

impl SessionsState {
    pub(crate) fn limits(&self) -> session::Options {
        session::Options {
            entries_max: self.entries_max,
            bytes_max: self.bytes_max,
            lifetime: Duration::from_millis(self.lifetime_ms),
        }
    }
}

impl Release {
    /// Returns our own release.
    pub(crate) fn own() -> Self {
        let mut words = std::hint::black_box(RELEASE).split(' ');
        let program = words.nth(1).unwrap_or_default().to_owned();
        let mut number = |place| {
            let word = words.nth(place);
            word.and_then(|word| word.parse().ok()).unwrap_or_default()
        };
        Self { formats: [number(5), number(1)], program }
    }

    /// Returns the newest format that both sides speak. An error is a sentence.
    pub(crate) fn format(&self) -> Result<u32, String> {
        let Self { formats: [oldest, newest], program: version } = Self::own();
        let [their_oldest, their_newest] = self.formats;
        let common = their_newest.min(newest);
        if common >= their_oldest.max(oldest) {
            return Ok(common);
        }
        Err(format!(
            "lariat {} takes over in the formats {their_oldest} to {their_newest}, and the running \
             lariat {version} hands over in {oldest} to {newest}",
            line(&self.program),
        ))
    }
}

impl SupervisorState {
    /// Checks that we can take all of it. An error is a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        let program = line(&self.program);
        let [oldest, newest] = Release::own().formats;
        if !(oldest..=newest).contains(&self.format) {
            let format = self.format;
            return Err(format!(
                "lariat {program} hands over in the format {format}, and this one takes \
                 {oldest} to {newest}"
            ));
        }
        let known = |name: &&String| KNOWN.contains(&name.as_str());
        match self.must_understand.iter().find(|name| !known(name)) {
            None => Ok(()),
            Some(name) => {
                let name = line(name);
                Err(format!("lariat {program} hands over `{name}`, which this one does not know"))
            }
        }
    }

    /// Returns the number of descriptors that go with it.
    pub(crate) fn descriptors(&self) -> usize {
        let image = self.image.as_ref();
        let others = [
            self.sessions.is_some(),
            self.admin.is_some(),
            self.cluster.is_some(),
            image.is_some(),
        ];
        let others = others.into_iter().filter(|is_there| *is_there).count();
        let processes = image.map_or(0, |image| image.workers.len() + image.key_processes.len());
        let counts = self.listeners.iter().map(|one| one.sockets);
        counts.fold(others + processes, usize::saturating_add)
    }

    /// Checks as [`Self::check`], and that the number of descriptors matches too.
    pub(crate) fn check_with(&self, descriptors: usize) -> Result<(), String> {
        self.check()?;
        if self.descriptors() != descriptors {
            let program = line(&self.program);
            return Err(format!("lariat {program} hands over other descriptors than it names"));
        }
        Ok(())
    }
}

/// State and descriptors that are handed on, by their use.
#[derive(Default)]
pub(crate) struct InheritedState {
    pub(crate) secret: Option<SessionKey>,
    pub(crate) last_number: u64,
    pub(crate) sessions: Option<(SessionsState, OwnedFd)>,
    pub(crate) disabled: BTreeSet<ServerName>,
    pub(crate) weights: BTreeMap<ServerName, u16>,
    pub(crate) listeners: Vec<(ListenerState, Vec<OwnedFd>)>,
    pub(crate) admin: Option<(String, OwnedFd)>,
    pub(crate) cluster: Option<(String, OwnedFd)>,
    pub(crate) image: Option<InheritedImage>,
    /// Names of what the service manager keeps.
    pub(crate) kept: BTreeSet<String>,
}

/// State and descriptors that stay with the process from program to program.
pub(crate) struct InheritedImage {
    /// Version of the previous program.
    pub(crate) program: String,
    pub(crate) state: ImageState,
    /// Status socket; `None` once it is taken.
    pub(crate) status: Option<OwnedFd>,
    /// Channel to each worker process, in the state's order.
    pub(crate) workers: Vec<OwnedFd>,
    /// Channel to each process with keys, in the state's order.
    pub(crate) key_processes: Vec<OwnedFd>,
}

impl InheritedState {
    /// Takes the admin listener, if it listens there.
    pub(crate) fn take_admin(&mut self, address: &Address) -> Option<OwnedFd> {
        let is_it = |(name, _): &mut (String, OwnedFd)| *name == address.to_string();
        self.admin.take_if(is_it).map(|(_, fd)| fd)
    }

    /// Assigns the descriptors of a checked state: there are as many as it names.
    pub(crate) fn new(state: SupervisorState, fds: Vec<OwnedFd>) -> Self {
        let mut fds = fds.into_iter();
        let sessions = state.sessions.and_then(|one| Some((one, fds.next()?)));
        let listeners = state.listeners.into_iter().map(|one| {
            let sockets = one.sockets;
            (one, fds.by_ref().take(sockets).collect())
        });
        let listeners = listeners.collect();
        let program = state.program;
        Self {
            secret: Some(state.secret),
            last_number: state.last_number,
            sessions,
            disabled: state.disabled.into_iter().collect(),
            weights: state.weights.into_iter().collect(),
            listeners,
            admin: state.admin.and_then(|name| Some((name, fds.next()?))),
            cluster: state.cluster.and_then(|name| Some((name, fds.next()?))),
            image: state.image.and_then(|state| {
                let status = Some(fds.next()?);
                let workers = fds.by_ref().take(state.workers.len()).collect();
                let key_processes = fds.collect();
                Some(InheritedImage { program, state, status, workers, key_processes })
            }),
            kept: BTreeSet::new(),
        }
    }

    /// Takes what goes with the sockets, which have come by other ways.
    pub(crate) fn take_state(&mut self, state: SupervisorState, sessions: Option<OwnedFd>) {
        let state = Self::new(state, sessions.into_iter().collect());
        self.secret = state.secret;
        self.last_number = state.last_number;
        self.sessions = state.sessions;
        self.disabled = state.disabled;
        self.weights = state.weights;
    }
}

/// Serializes a message.
pub(crate) fn encode(message: &impl Serialize) -> Secret {
    let bytes = serde_json::to_vec(message);
    // Every field is a number, text, a list of them, or a path of ours that is text.
    Secret::new(bytes.unwrap_or_default())
}

/// Parses a message. An error is a sentence without a full stop.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let parsed = serde_json::from_slice(bytes);
    parsed.map_err(|error| format!("what it says is no message of a lariat: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_a_version_and_formats() {
        let Release { formats, program } = Release::own();
        assert_eq!((&*program, formats), (env!("CARGO_PKG_VERSION"), [1, 1]));
    }

    #[test]
    fn both_sides_take_the_newest_format_that_both_know() {
        for (formats, expected) in
            [([1, 1], Some(1)), ([0, 7], Some(1)), ([0, 0], None), ([2, 9], None), ([9, 0], None)]
        {
            let program = "7.7".to_owned();
            let chosen = Release { formats, program }.format();
            assert_eq!(chosen.clone().ok(), expected, "{formats:?}");
            let says = format!("formats {} to {}", formats[0], formats[1]);
            assert!(chosen.err().is_none_or(|error| error.contains(&says)));
        }
    }

    const STATE: &str = r#""format":1,"program":"9.9","last_number":3"#;

    fn state(more: &str) -> Result<SupervisorState, String> {
        let secret = [7u8; 32];
        let text = format!("{{{STATE},\"secret\":{secret:?}{more}}}");
        decode(text.as_bytes())
    }

    #[test]
    fn what_is_not_known_is_skipped_unless_it_must_be_understood() {
        let plain = state("").unwrap();
        assert_eq!((plain.check(), plain.last_number), (Ok(()), 3));
        let newer = state(r#","colours":["red"],"must_understand":["listeners"]"#);
        assert_eq!(newer.unwrap().check(), Ok(()));
        let strange = state(r#","colours":["red"],"must_understand":["colours"]"#);
        let error = strange.unwrap().check().unwrap_err();
        assert!(error.contains("`colours`"), "{error}");
        let mut other = state("").unwrap();
        other.format = 2;
        assert!(other.check().unwrap_err().contains("the format 2"));
    }

    #[test]
    fn descriptors_are_as_many_as_are_named() {
        let named = r#","admin":"127.0.0.1:1","listeners":[{"address":"*:443","sockets":2}],
            "image":{"status_socket":"/s","workers":[{"number":1,"pid":2}],
            "key_processes":[{"number":1,"pid":3,"worker":1}]}"#;
        let named = state(named).unwrap();
        assert_eq!(named.check_with(6), Ok(()));
        for wrong in [0, 5, 7] {
            let error = named.check_with(wrong).unwrap_err();
            assert!(error.contains("other descriptors"));
        }
        let many = format!(
            r#","listeners":[{{"address":"*:443","sockets":{0}}},{{"address":"*:444","sockets":{0}}}]"#,
            usize::MAX
        );
        state(&many).unwrap().check_with(3).unwrap_err();
    }

    #[test]
    fn nonsense_is_no_state() {
        let deep = "[".repeat(100_000);
        for text in ["", "{}", "\"image", "{\"format\":-1}", "\0\0", &deep, STATE] {
            decode::<SupervisorState>(text.as_bytes()).unwrap_err();
            decode::<Release>(text.as_bytes()).unwrap_err();
        }
    }
}
