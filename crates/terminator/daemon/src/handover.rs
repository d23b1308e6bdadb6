//! Messages between the supervisor and the worker process, over a `sys::channel`.
//!
//! Owns the messages and their forms. Orders and answers are JSON: after an upgrade the worker
//! process before it is another version's, and takes [`SupervisorOrder::Pause`], [`SupervisorOrder::Accept`],
//! [`SupervisorOrder::Log`] and [`SupervisorOrder::Drain`] still (`supervisor::state` numbers the form). All else is
//! [postcard](https://postcard.jamesmunns.com), between two processes of one build. Who says what
//! when stands in `supervisor` and `worker_process`.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};
use std::{fmt, io};

use config::{ProcessOptions, SandboxOptions};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use telemetry::message::LogLevel;
use tls::key_holder::KeyId;
use wire::address::{Address, Endpoint, UnixName};
use zeroize::Zeroize;

use crate::kernel::KernelTls;
use crate::key_holder_status::KeyHolderStatus;
use crate::named_servers::{Instance, Name, Observations, ServerName};
use crate::status_parts::{
    AcmeStatus, LastReload, UpgradeStatus, Validations, at_most, milliseconds,
};

/// The program's first argument when it is to be the worker process.
pub(crate) const WORKER_ARGUMENT: &str = "--worker-process";

/// The name of the supervisor in `ps`.
pub(crate) const SUPERVISOR_NAME: &str = "lariat";

pub(crate) const WORKER_NAME: &str = "lariat: worker";

/// An order of the supervisor. The worker process obeys; it has no say.
#[derive(Debug, Deserialize, Serialize)]
#[expect(clippy::large_enum_variant, reason = "an order is made and read once, and none is stored")]
pub(crate) enum SupervisorOrder {
    /// The first: give up these rights, but for reading in the folders that come with it and
    /// connecting to these places. No secret comes before it.
    Enter(Confinement, ConnectRights),
    /// The second: this is who we are. Serve the plan that follows.
    Start(WorkerStart, ServeOrder),
    /// Serve another plan; the one served stays if this one is refused.
    Replace(ServeOrder),
    /// A name has these addresses now.
    Resolved(ResolvedName),
    /// An operator has disabled these servers and no others.
    Disabled(BTreeSet<ServerName>),
    /// An operator has ordered these weights and no others.
    Weights(Vec<(ServerName, u16)>),
    /// An operator ends the sessions of this server.
    CloseSessions(ServerName),
    Reloads(Reloads),
    /// Answer authorities so, and say that you do, by `Answering` with this number.
    Validations(u64, Validations),
    /// The certificates that come by ACME are in this state.
    Acme(Vec<AcmeStatus>),
    /// The processes that hold keys are in this state.
    Keys(Vec<KeyHolderStatus>),
    /// Send this to the supervisors of the cluster's peers.
    Notify(String),
    /// Say whether the workers go on, by `Alive`.
    AreYouWell,
    /// The lines about connections go to the descriptor that comes with this.
    Log,
    /// The file of these lines could not be opened anew, for this reason, so that they go where
    /// they went; or that is over.
    LogUnopened(Option<String>),
    /// Answer that no further client should come; those who do are served.
    Unready,
    /// Take what waits at the listeners and leave them alone, and the stored sessions too: another
    /// worker process is about to serve.
    Pause,
    /// Accept: the worker process before has paused, and has observed this; or the next one has not
    /// come to serve.
    Accept(Observations),
    /// Accept no more, let connections finish, and end.
    Drain {
        time: Duration,
        /// Another worker process has the sockets now, the status's, admin's and cluster's too.
        is_replaced: bool,
    },
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Answer {
    /// To `Enter`: the rights that were given up.
    Entered(Rights),
    /// To `Enter`: it could not be done.
    Stuck(String),
    /// To `WorkerStart` and `Replace`: that plan is served.
    Ready {
        generation: u64,
        /// Warnings that deserve a second look.
        #[serde(deserialize_with = "at_most::<SENTENCES_MAX, _, _>")]
        warnings: Vec<String>,
    },
    /// To `WorkerStart` and `Replace`: that plan cannot be served.
    Refused {
        generation: u64,
        message: String,
    },
    /// To `WorkerStart` and `Replace`, from time to time: that plan is still being built.
    Building,
    /// Without an order: that something is well again.
    Note(String),
    /// Without an order: the log daemon is not at the socket that came with the plan.
    LogAway,
    /// To `Pause`: no connection and no session comes here any more, and this was observed.
    Paused(Observations),
    Accepting,
    /// To `Validations`: every worker answers so.
    Answering(u64),
    /// To `AreYouWell`, once every worker has answered.
    Alive {
        connections: u64,
    },
    /// To `Drain`: the last connection has ended, or the time was over.
    Drained {
        cut: u64,
    },
    /// Without an order: what an operator should know, or what deserves a second look by now.
    Warned(#[serde(deserialize_with = "at_most::<SENTENCES_MAX, _, _>")] Vec<String>),
    /// Without an order: the supervisor of a cluster's peer says this.
    Notified(String),
    /// Without an order: lines of the key log, and how many found no room.
    KeyLog {
        lines: String,
        dropped: u64,
    },
    /// Without an order: messages about changes, each with its severity in syslog.
    Said(#[serde(deserialize_with = "at_most::<SENTENCES_MAX, _, _>")] Vec<(u8, String)>),
}

/// An order may be as long as a channel's message; an answer is a page of sentences, or what was
/// observed, as JSON within JSON. More is no answer, and the worker process is taken for broken.
pub(crate) const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Warnings in an answer: nobody reads more, and ten thousand certificates may all have expired.
const WARNINGS_MAX: usize = 100;

/// These, and the one that says how many more there are.
const SENTENCES_MAX: usize = WARNINGS_MAX + 1;

/// Characters of a warning or of a message why a plan was refused.
const SENTENCE_CHARACTERS_MAX: usize = 2000;

impl Answer {
    /// The answer that a plan is served, with as many of the warnings as fit and the number of the
    /// others.
    pub(crate) fn ready(generation: u64, warnings: Vec<String>) -> Self {
        Self::Ready { generation, warnings: bounded(warnings) }
    }

    /// The same of what came up since.
    pub(crate) fn warned(warnings: Vec<String>) -> Self {
        Self::Warned(bounded(warnings))
    }

    /// The messages about changes: as many as fit, and the number of the others.
    pub(crate) fn said(messages: Vec<(LogLevel, String)>) -> Self {
        let (levels, texts): (Vec<_>, Vec<_>) = messages.into_iter().unzip();
        let levels = levels.iter().map(|level: &LogLevel| level.severity());
        let more = std::iter::once(LogLevel::Warning.severity());
        Self::Said(levels.take(WARNINGS_MAX).chain(more).zip(bounded(texts)).collect())
    }

    /// The answer that a plan cannot be served.
    pub(crate) fn refused(generation: u64, message: String) -> Self {
        Self::Refused { generation, message: shortened(message) }
    }
}

fn bounded(mut warnings: Vec<String>) -> Vec<String> {
    let more = warnings.len().saturating_sub(WARNINGS_MAX);
    warnings.truncate(WARNINGS_MAX);
    let mut warnings: Vec<_> = warnings.into_iter().map(shortened).collect();
    if more > 0 {
        warnings.push(format!("there are {more} more warnings"));
    }
    warnings
}

fn shortened(sentence: String) -> String {
    match sentence.char_indices().nth(SENTENCE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{} ...", sentence.get(..end).unwrap_or_default()),
        None => sentence,
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Confinement {
    /// The user to become; `None` = stay who we are.
    pub(crate) become_user: Option<WorkerUser>,
    pub(crate) files: bool,
    pub(crate) system_calls: bool,
    /// Our parent: if it is another when this is read, it has died.
    pub(crate) supervisor_pid: u32,
}

impl Confinement {
    /// The fences that a configuration asks of a child of this process.
    pub(crate) fn of(process: &ProcessOptions, become_user: Option<WorkerUser>) -> Self {
        let SandboxOptions { files, system_calls } = process.sandbox;
        Self { become_user, files, system_calls, supervisor_pid: std::process::id() }
    }
}

/// The addresses that the worker process can connect to, for its life; Unix sockets that have paths
/// are not limited.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct ConnectRights {
    /// TCP ports; `None` = any.
    pub(crate) tcp_ports: Option<BTreeSet<u16>>,
    pub(crate) abstract_sockets: bool,
    pub(crate) sources: SourceRights,
}

/// The addresses that a worker process may connect from; each may what those before it may.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) enum SourceRights {
    #[default]
    Any,
    Own,
    /// Addresses of other hosts, for which it keeps a right.
    Foreign,
}

impl ConnectRights {
    pub(crate) fn includes(&self, server: &Endpoint) -> bool {
        if let Endpoint::Address(Address::Unix(name)) = server {
            return self.abstract_sockets || !matches!(name, UnixName::Abstract(_));
        }
        let listed = |ports: &BTreeSet<u16>| {
            let port = server.tcp_port();
            port.is_some_and(|port| ports.contains(&port))
        };
        self.tcp_ports.as_ref().is_none_or(listed)
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct User {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct WorkerUser {
    pub(crate) user: User,
    /// Beside the user's own group.
    pub(crate) further_groups: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Rights {
    pub(crate) user: User,
    pub(crate) files: ConfinementState,
    /// Whether some folders are excepted: those that it serves.
    pub(crate) reads_folders: bool,
    pub(crate) tcp_ports: ConfinementState,
    pub(crate) system_calls: ConfinementState,
}

/// How far a right is given up.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum ConfinementState {
    Off,
    Full,
    Partly,
    /// This kernel cannot restrict the process.
    Absent,
}

impl ConfinementState {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Full => "full",
            Self::Partly => "partly",
            Self::Absent => "absent",
        }
    }
}

/// How long a worker process has to live until those that died before it are forgotten.
pub(crate) const STEADY_AFTER: Duration = Duration::from_secs(60);

/// Facts that stay the same for a worker process's life.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct WorkerStart {
    pub(crate) supervisor_pid: u32,
    pub(crate) supervisor_start: SystemTime,
    /// Worker processes started again after one died, this one with them.
    pub(crate) restarts: u64,
    /// How the ones before it died, if they died again and again.
    pub(crate) dying: Option<String>,
    /// The secret that ticket keys are derived from; the same for all worker processes of a
    /// supervisor, so that sessions outlive them.
    pub(crate) secret: SessionKey,
    /// Tells the worker processes of a supervisor apart.
    pub(crate) number: u32,
    pub(crate) reloads: Reloads,
}

/// A plan to serve. The message after this one is its [`Bundle`].
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ServeOrder {
    /// The plan's number; 1 is the first.
    pub(crate) generation: u64,
    /// How many threads carry connections, whatever the plan says: a reload changes none.
    pub(crate) workers: usize,
    pub(crate) session_key: SessionKey,
    /// The role of each descriptor that comes with this.
    pub(crate) roles: Vec<DescriptorRole>,
    /// The addresses of the names that its servers have, as far as known.
    pub(crate) resolved: Vec<ResolvedName>,
    pub(crate) disabled: BTreeSet<ServerName>,
    pub(crate) weights: Vec<(ServerName, u16)>,
    /// The kernel's part of TLS; `None` = no service wants it.
    pub(crate) kernel_tls: Option<KernelTls>,
    pub(crate) waits: bool,
    /// The keys that each key process holds; `None` = all that no other does.
    pub(crate) key_groups: Vec<Option<Vec<KeyId>>>,
}

/// The key that stored sessions are sealed with, in one memory that worker processes use one after
/// the other: another key means another memory.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct SessionKey(pub(crate) [u8; 32]);

impl Drop for SessionKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum DescriptorRole {
    /// Lines about connections are written to it.
    Log,
    /// Memory of stored sessions, as the worker process before left it.
    Sessions,
    /// Each client gets the status document.
    StatusSocket,
    /// The status page and the metrics are served on it.
    AdminListener,
    /// Datagrams of the cluster's peers come and go.
    ClusterSocket,
    /// A thread has signatures made by it.
    KeyChannel {
        /// The group of keys that sign.
        group: u32,
    },
    /// A service serves the files beneath it.
    FilesRoot {
        /// The service's place in the plan.
        service: u32,
    },
    /// A service listens on it.
    Listener {
        worker: u32,
        /// The service's place in the plan.
        service: u32,
        /// The address's place in the service's list.
        address: u32,
        /// Whether other workers have it too.
        is_shared: bool,
    },
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct ResolvedName {
    pub(crate) name: Name,
    /// Each server at its place, which it keeps as long as it is named.
    pub(crate) instances: Vec<Option<Instance>>,
}

/// How reloads went since the supervisor started.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Reloads {
    pub(crate) ok: u64,
    pub(crate) refused: u64,
    pub(crate) last: Option<LastReload>,
    /// When the last one ended that was not refused.
    pub(crate) last_ok: Option<SystemTime>,
    /// Warnings about the first configuration, as in [`LastReload::warnings`].
    pub(crate) start_warnings: String,
    pub(crate) last_upgrade: Option<EndedUpgrade>,
    /// The one that is under way.
    pub(crate) upgrade: Option<UpgradeStatus>,
}

/// An upgrade that has ended: another program serves, or it was refused and the same one does.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct EndedUpgrade {
    /// The first has 1. Whatever programs came and went, it grows.
    pub(crate) number: u64,
    pub(crate) time: SystemTime,
    pub(crate) program: String,
    pub(crate) refused: Option<String>,
}

impl Reloads {
    /// The start has ended, with these warnings.
    pub(crate) fn started(&mut self, warnings: Vec<String>) {
        self.start_warnings = bounded(warnings).join("\n");
    }

    /// One more upgrade has ended, refused for a reason or not.
    pub(crate) fn upgrade_ended(&mut self, program: String, refused: Option<String>) {
        self.upgrade = None;
        let before = self.last_upgrade.as_ref();
        self.last_upgrade = Some(EndedUpgrade {
            number: before.map_or(0, |last| last.number) + 1,
            time: SystemTime::now(),
            program,
            refused: refused.map(shortened),
        });
    }

    /// One more has ended, refused for a reason or not, with these warnings.
    pub(crate) fn ended(
        &mut self,
        time: SystemTime,
        refused: Option<String>,
        warnings: Vec<String>,
    ) {
        match refused {
            None => {
                self.ok += 1;
                self.last_ok = Some(time);
            }
            Some(_) => self.refused += 1,
        }
        let warnings = Some(bounded(warnings).join("\n")).filter(|text| !text.is_empty());
        self.last = Some(LastReload { time_ms: milliseconds(time), refused, warnings });
    }
}

/// A configuration with every file that it names: from it, a process without rights makes the
/// same settings again.
#[derive(Deserialize, Serialize)]
pub(crate) struct Bundle {
    pub(crate) source: config::TypedConfiguration,
    pub(crate) recording: config::Recording,
}

/// Bytes with keys in them: shown to nobody, and overwritten when they go.
#[derive(Clone, Default, Deserialize, Serialize)]
pub(crate) struct Secret(Vec<u8>);

impl Secret {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// The form of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProcessMessageForm {
    Json,
    Postcard,
}

impl ProcessMessageForm {
    pub(crate) fn encode(self, message: &impl Serialize) -> io::Result<Secret> {
        match self {
            Self::Json => serde_json::to_vec(message).map(Secret).map_err(io::Error::other),
            Self::Postcard => encode(message).map_err(io::Error::other),
        }
    }

    pub(crate) fn decode<T: DeserializeOwned>(self, bytes: &[u8]) -> io::Result<T> {
        match self {
            Self::Json => serde_json::from_slice(bytes).map_err(io::Error::other),
            Self::Postcard => decode(bytes).map_err(io::Error::other),
        }
    }
}

/// The bytes of a message.
pub(crate) fn encode<T: Serialize>(message: &T) -> Result<Secret, postcard::Error> {
    postcard::to_stdvec(message).map(Secret)
}

/// The message of these bytes, all of them.
pub(crate) fn decode<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T, postcard::Error> {
    match postcard::take_from_bytes(bytes)? {
        (message, []) => Ok(message),
        _ => Err(postcard::Error::DeserializeBadEncoding),
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let User { user, group } = self.user;
        write!(f, "runs as user {user}, group {group}")?;
        let but = if self.reads_folders { " but those it serves" } else { "" };
        match self.files {
            ConfinementState::Off => f.write_str("; it can open files, as configured")?,
            ConfinementState::Full => write!(f, "; it can open no file{but}")?,
            ConfinementState::Partly => {
                write!(f, "; it can open no file{but} (this kernel knows no more)")?
            }
            ConfinementState::Absent => {
                f.write_str("; it can open files: this kernel has no Landlock")?
            }
        }
        match self.tcp_ports {
            ConfinementState::Off => {}
            ConfinementState::Full | ConfinementState::Partly => {
                f.write_str(", connect by TCP to listed ports only")?
            }
            ConfinementState::Absent => f.write_str(
                ", connect to any TCP port (this kernel's Landlock has no rules for them: Linux \
                 6.7 has)",
            )?,
        }
        match self.system_calls {
            ConfinementState::Off => f.write_str(" and make all system calls, as configured"),
            ConfinementState::Full | ConfinementState::Partly => {
                f.write_str(" and make few system calls")
            }
            ConfinementState::Absent => {
                f.write_str(" and make all system calls: this kernel has no seccomp")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named_servers::ObservedServer;

    fn bundle() -> Bundle {
        let mut recording = config::Recording::default();
        recording.insert("/a.pem", b"key".to_vec());
        let source = config::TypedConfiguration::Flags(vec![("listen".into(), "*:443".into())]);
        Bundle { source, recording }
    }

    #[test]
    fn a_bundle_arrives_with_its_files() {
        let sent = bundle();
        let mut received: Bundle = decode(encode(&sent).unwrap().bytes()).unwrap();
        assert_eq!(received.source, sent.source);
        let read = config::Files::read(&mut received.recording, "/a.pem".as_ref());
        assert_eq!(read.unwrap(), b"key");
    }

    #[test]
    fn bytes_cut_short_or_too_long_are_no_message() {
        let answer = Answer::Ready { generation: 3, warnings: vec!["expires".into()] };
        for form in [ProcessMessageForm::Json, ProcessMessageForm::Postcard] {
            let sent = form.encode(&answer).unwrap();
            let decoded = |bytes: &[u8]| form.decode::<Answer>(bytes);
            for length in 0..sent.bytes().len() {
                decoded(&sent.bytes()[..length]).unwrap_err();
            }
            decoded(&[sent.bytes(), &[0]].concat()).unwrap_err();
            let same = decoded(sent.bytes());
            assert!(matches!(same, Ok(Answer::Ready { generation: 3, .. })));
        }
    }

    #[test]
    fn every_answer_fits() {
        let long = "\u{20ac}".repeat(10_000);
        let ready = Answer::ready(1, vec![long.clone(); 1000]);
        let length =
            |answer: &Answer| ProcessMessageForm::Json.encode(answer).unwrap().bytes().len();
        assert!(length(&ready) < ANSWER_BYTES_MAX);
        let Answer::Ready { warnings, .. } = ready else { panic!("another answer") };
        assert_eq!(warnings.last().unwrap(), "there are 900 more warnings");
        let refused = Answer::refused(1, long);
        assert!(length(&refused) < ANSWER_BYTES_MAX);
    }

    #[test]
    fn a_list_without_end_is_no_answer() {
        let answers = |count| {
            let (texts, observed) = (
                vec![String::new(); count],
                Observations {
                    servers: vec![ObservedServer::default(); count],
                    history: String::new(),
                },
            );
            let said = texts.iter().map(|text| (4, text.clone())).collect();
            let ready = Answer::Ready { generation: 1, warnings: texts.clone() };
            [Answer::Warned(texts), Answer::Said(said), ready, Answer::Paused(observed)]
        };
        let is_read = |answer: &Answer| {
            let sent = ProcessMessageForm::Json.encode(answer).unwrap();
            ProcessMessageForm::Json.decode::<Answer>(sent.bytes()).is_ok()
        };
        assert_eq!(answers(SENTENCES_MAX).each_ref().map(is_read), [true; 4]);
        let more = answers(SENTENCES_MAX + 1);
        assert_eq!(more.each_ref().map(is_read), [false, false, false, true]);
        let many = answers(crate::named_servers::SERVERS_MAX + 1);
        assert_eq!(many.each_ref().map(is_read), [false; 4]);
        let full = Answer::said(vec![(LogLevel::Warning, "news".to_owned()); 1000]);
        assert!(is_read(&full) && is_read(&Answer::ready(1, vec!["news".to_owned(); 1000])));
    }

    #[test]
    fn secrets_are_not_shown() {
        let start = WorkerStart {
            supervisor_pid: 1,
            supervisor_start: SystemTime::UNIX_EPOCH,
            restarts: 0,
            dying: None,
            secret: SessionKey([42; 32]),
            number: 1,
            reloads: Reloads::default(),
        };
        assert!(!format!("{start:?}").contains("42"));
        assert!(!format!("{:?}", SessionKey([42; 32])).contains("42"));
        assert!(!format!("{:?}", Secret::new(vec![42; 3])).contains("42"));
    }
}
