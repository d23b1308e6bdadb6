//! What a running supervisor and the one that takes over from it say to each other.
//!
//! Owns the messages, their form and which forms we speak; each is one JSON text in a message of a
//! `sys::channel`, with descriptors beside it. The other one may be an older or a newer version: so
//! fields that are not known are skipped, unless the message says that they must be understood.
//! Who says what when stands in `supervisor`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use telemetry::printable::line;

use crate::handover::{Secret, SessionKey};
use crate::maintenance::ServerName;
use crate::observations::Observations;
use crate::reader::ConfigSource;

/// The program's version, and the forms of what is handed over that we speak, the oldest and the
/// newest. Another number means that one who knows only those before it would go wrong.
///
/// It is read from these bytes, so that tests can make a copy of the program that has others.
static RELEASE: &str = concat!(
    "lariat ",
    env!("CARGO_PKG_VERSION"),
    " hands over in the formats 1 to 1"
);

/// More than the largest message that a successor has to say.
pub(crate) const SUCCESSOR_BYTES_MAX: usize = 64 << 10;

/// Ten thousand listeners, with their names; a predecessor says no more.
pub(crate) const PREDECESSOR_BYTES_MAX: usize = 4 << 20;

/// Where the program that a supervisor starts in its place finds that supervisor's socket, also if
/// the configuration has moved the status socket.
pub(crate) const PREDECESSOR_VARIABLE: &str = "LARIAT_PREDECESSOR";

/// What is added to the status socket's path.
const SUFFIX: &str = ".takeover";

/// The fields of an [`Offer`] that we know, for [`Offer::must_understand`].
const KNOWN: [&str; 10] = [
    "format",
    "program",
    "secret",
    "last_number",
    "sessions",
    "disabled",
    "listeners",
    "admin",
    "cluster",
    "watches",
];

/// Where the supervisor with that status socket listens for one that takes over from it.
pub(crate) fn socket_path(status_socket: &Path) -> PathBuf {
    let mut path = status_socket.as_os_str().to_owned();
    path.push(SUFFIX);
    path.into()
}

/// The version and the formats.
pub(crate) fn release() -> (&'static str, [u32; 2]) {
    let mut words = std::hint::black_box(RELEASE).split(' ');
    let version = words.nth(1).unwrap_or_default();
    let mut number = |place| {
        let word = words.nth(place);
        word.and_then(|word| word.parse().ok()).unwrap_or_default()
    };
    (version, [number(5), number(1)])
}

/// What a supervisor that has been started beside a running one says, and `lariat upgrade`.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Successor {
    /// The first: it wants to take over.
    Hello(Hello),
    /// Its worker process has built its plan, and waits.
    Ready,
    /// It serves; the predecessor may drain.
    Serving {
        /// Paths that are its own now: the predecessor leaves them.
        kept: Vec<PathBuf>,
        /// Where it listens for services, as configured. An older one does not say it.
        #[serde(default)]
        addresses: Vec<String>,
    },
    /// After `Serving`, to one that watches: it needs nobody any more that serves in its place.
    /// It stops since it was told to, or has handed over itself.
    Settled,
    /// Whenever it comes to that, also in the place of a hello: it cannot take over. After
    /// `Serving`: its worker process has died.
    Failed {
        /// Why, as it stands on its standard error.
        why: String,
    },
    /// In the place of a hello: start a successor, and say what comes of it.
    Upgrade,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Predecessor {
    /// To `Hello`: what is handed over. The descriptors come with it.
    Offer(Box<Offer>),
    /// To `Hello` or later: no; the predecessor goes on.
    Refused {
        /// Why, as a sentence without a full stop.
        why: String,
    },
    /// To `Ready`: it has paused; serve.
    Yours {
        /// A reload was asked for meanwhile.
        reload: bool,
        /// By the worker process that has paused. An older one does not say it.
        #[serde(default)]
        observations: Observations,
    },
    /// To `Serving`: the service manager, if there is one, has been told of the successor, and
    /// hears it from now on.
    Released,
    /// To `Upgrade`: that process serves.
    Upgraded { pid: u32, program: String },
}

/// Who would take over. This stays readable in every format.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Hello {
    /// The formats that it speaks, the oldest and the newest.
    pub(crate) formats: [u32; 2],
    pub(crate) program: String,
    /// Which configuration it serves; see [`identity`].
    pub(crate) configuration: String,
    /// The same file's path without symbolic links and `..`. An older one does not say it.
    #[serde(default)]
    pub(crate) real_path: Option<String>,
}

/// What is handed over. With it come the descriptors: of the session memory, then each listener's,
/// then the admin's and the cluster's.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Offer {
    /// The format that it is in.
    pub(crate) format: u32,
    pub(crate) program: String,
    /// Fields that who does not know them must not leave out.
    #[serde(default)]
    pub(crate) must_understand: Vec<String>,
    pub(crate) secret: SessionKey,
    /// Worker processes up to this number have used the session memory.
    pub(crate) last_number: u64,
    /// The memory of stored sessions.
    #[serde(default)]
    pub(crate) sessions: Option<SessionsOffer>,
    /// Servers that an operator has disabled.
    #[serde(default)]
    pub(crate) disabled: Vec<ServerName>,
    #[serde(default)]
    pub(crate) listeners: Vec<ListenerOffer>,
    #[serde(default)]
    pub(crate) admin: Option<String>,
    /// Where datagrams of the cluster's peers come, as configured.
    #[serde(default)]
    pub(crate) cluster: Option<String>,
    /// Whether the predecessor has somebody else serve if the successor fails in its first seconds.
    #[serde(default)]
    pub(crate) watches: bool,
}

/// The memory of stored sessions: its limits say how entries lie in it.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SessionsOffer {
    pub(crate) key: SessionKey,
    pub(crate) entries_max: usize,
    pub(crate) bytes_max: usize,
    pub(crate) lifetime_ms: u64,
}

/// The listening sockets of one address.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct ListenerOffer {
    pub(crate) address: String,
    #[serde(default)]
    pub(crate) interface: Option<String>,
    #[serde(default)]
    pub(crate) mptcp: bool,
    /// How many equal addresses stand before it, if the kernel chooses their ports.
    #[serde(default)]
    pub(crate) place: usize,
    pub(crate) sockets: usize,
    /// Whether a service manager has opened them: a path among them is its own to remove.
    #[serde(default)]
    pub(crate) handed_over: bool,
    #[serde(default)]
    pub(crate) name: Option<String>,
}

impl SessionsOffer {
    pub(crate) fn limits(&self) -> session::Options {
        session::Options {
            entries_max: self.entries_max,
            bytes_max: self.bytes_max,
            lifetime: Duration::from_millis(self.lifetime_ms),
        }
    }
}

impl Hello {
    /// Ours. To be called when the file has just been read: its file system answers.
    pub(crate) fn new(config: &ConfigSource) -> Self {
        let (version, formats) = release();
        Self {
            formats,
            program: version.to_owned(),
            configuration: identity(config),
            real_path: real_path(config),
        }
    }

    /// Whether both are for one configuration.
    pub(crate) fn has_configuration_of(&self, other: &Self) -> bool {
        let is_one_file = self.real_path.is_some() && self.real_path == other.real_path;
        is_one_file || self.configuration == other.configuration
    }

    /// The newest format that both sides speak. An error is a sentence.
    pub(crate) fn format(&self) -> Result<u32, String> {
        let (version, [oldest, newest]) = release();
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

impl Offer {
    /// Sees whether we can take all of it with this many descriptors. An error is a sentence.
    pub(crate) fn check(&self, descriptors: usize) -> Result<(), String> {
        let program = line(&self.program);
        let (_, [oldest, newest]) = release();
        if !(oldest..=newest).contains(&self.format) {
            let format = self.format;
            return Err(format!(
                "lariat {program} hands over in the format {format}, and this one takes \
                 {oldest} to {newest}"
            ));
        }
        let known = |name: &&String| KNOWN.contains(&name.as_str());
        if let Some(name) = self.must_understand.iter().find(|name| !known(name)) {
            let name = line(name);
            return Err(format!(
                "lariat {program} hands over `{name}`, which this one does not know"
            ));
        }
        let others = [
            self.sessions.is_some(),
            self.admin.is_some(),
            self.cluster.is_some(),
        ];
        let others = others.into_iter().filter(|is_there| *is_there).count();
        let counts = self.listeners.iter().map(|one| one.sockets);
        if counts.fold(others, usize::saturating_add) != descriptors {
            return Err(format!(
                "lariat {program} hands over other descriptors than it names"
            ));
        }
        Ok(())
    }
}

/// Which configuration that is: the file's path, or where the flags have it listen.
fn identity(config: &ConfigSource) -> String {
    match config {
        ConfigSource::File(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            path.display().to_string()
        }
        ConfigSource::Flags(flags) => {
            let listen = flags.iter().filter(|(name, _)| name == "listen");
            let mut values: Vec<_> = listen.map(|(_, value)| value.as_str()).collect();
            values.sort_unstable();
            format!("--listen {}", values.join(" --listen "))
        }
    }
}

fn real_path(config: &ConfigSource) -> Option<String> {
    let ConfigSource::File(path) = config else {
        return None;
    };
    let path = std::fs::canonicalize(path).ok()?;
    path.into_os_string().into_string().ok()
}

/// The bytes of a message.
pub(crate) fn encode(message: &impl Serialize) -> Secret {
    let bytes = serde_json::to_vec(message);
    // Every field is a number, text, a list of them, or a path of ours that is text.
    Secret::new(bytes.unwrap_or_default())
}

/// The message of these bytes. An error is a sentence without a full stop.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let parsed = serde_json::from_slice(bytes);
    parsed.map_err(|error| format!("what it says is no message of a lariat: {error}"))
}

/// What the other one says reaches a terminal.
pub(crate) fn printable(text: &str) -> String {
    telemetry::printable::lines(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(formats: [u32; 2]) -> Hello {
        Hello {
            formats,
            ..Hello::new(&ConfigSource::File("/etc/lariat.toml".into()))
        }
    }

    #[test]
    fn a_release_is_a_version_and_formats() {
        assert_eq!(release(), (env!("CARGO_PKG_VERSION"), [1, 1]));
    }

    #[test]
    fn both_sides_take_the_newest_format_that_both_know() {
        for (formats, expected) in [
            ([1, 1], Some(1)),
            ([0, 7], Some(1)),
            ([0, 0], None),
            ([2, 9], None),
            ([9, 0], None),
        ] {
            let chosen = hello(formats).format();
            assert_eq!(chosen.clone().ok(), expected, "{formats:?}");
            let says = format!("formats {} to {}", formats[0], formats[1]);
            assert!(chosen.err().is_none_or(|error| error.contains(&says)));
        }
    }

    const OFFER: &str = r#""format":1,"program":"9.9","last_number":3"#;

    fn offer(more: &str) -> Result<Offer, String> {
        let secret = [7u8; 32];
        let text = format!("{{{OFFER},\"secret\":{secret:?}{more}}}");
        decode(text.as_bytes())
    }

    #[test]
    fn what_is_not_known_is_skipped_unless_it_must_be_understood() {
        let plain = offer("").unwrap();
        assert_eq!((plain.check(0), plain.last_number), (Ok(()), 3));
        let newer = offer(r#","colours":["red"],"must_understand":["listeners"]"#);
        assert_eq!(newer.unwrap().check(0), Ok(()));
        let strange = offer(r#","colours":["red"],"must_understand":["colours"]"#);
        let error = strange.unwrap().check(0).unwrap_err();
        assert!(error.contains("`colours`"), "{error}");
        let mut other = offer("").unwrap();
        other.format = 2;
        assert!(other.check(0).unwrap_err().contains("the format 2"));
    }

    #[test]
    fn descriptors_are_as_many_as_are_named() {
        let named = r#","admin":"127.0.0.1:1","listeners":[{"address":"*:443","sockets":2}]"#;
        let offer = offer(named).unwrap();
        assert_eq!(offer.check(3), Ok(()));
        for wrong in [0, 2, 4] {
            assert!(
                offer
                    .check(wrong)
                    .unwrap_err()
                    .contains("other descriptors")
            );
        }
        let many = format!(
            r#","listeners":[{{"address":"*:443","sockets":{0}}},{{"address":"*:444","sockets":{0}}}]"#,
            usize::MAX
        );
        self::offer(&many).unwrap().check(3).unwrap_err();
    }

    #[test]
    fn nonsense_is_no_message() {
        let deep = "[".repeat(100_000);
        let long = format!("{{\"Hello\":\"{}\"}}", "x".repeat(SUCCESSOR_BYTES_MAX));
        let short = offer("").is_ok().then(|| OFFER.to_owned()).unwrap();
        for text in [
            "",
            "{}",
            "\"Ready",
            "{\"Hello\":{}}",
            "{\"Hello\":{\"formats\":[1],\"program\":\"\",\"configuration\":\"\"}}",
            "{\"Hello\":{\"formats\":[-1,2],\"program\":\"\",\"configuration\":\"\"}}",
            "\"Ready\"\"Ready\"",
            "\"Later\"",
            "\0\0",
            &deep,
            &long,
            &short,
        ] {
            decode::<Successor>(text.as_bytes()).unwrap_err();
            decode::<Predecessor>(text.as_bytes()).unwrap_err();
        }
        assert!(matches!(decode(b"\"Ready\""), Ok(Successor::Ready)));
    }

    #[test]
    fn messages_survive_the_way() {
        let offer = offer(r#","disabled":[{"service":"a","server":"b:1"}]"#).unwrap();
        let sent = encode(&Predecessor::Offer(Box::new(offer)));
        let Predecessor::Offer(came) = decode(sent.bytes()).unwrap() else {
            panic!("another message");
        };
        assert_eq!(came.disabled[0].service, "a");
        assert_eq!(came.secret, SessionKey([7; 32]));
        // An older one says nothing of servers, and a newer one may say more.
        for (observed, count) in [
            ("", 0),
            (r#","observations":{}"#, 0),
            (
                r#","observations":{"colour":"red","servers":[{"since_ms":7}]}"#,
                1,
            ),
        ] {
            let text = format!(r#"{{"Yours":{{"reload":true{observed}}}}}"#);
            let Predecessor::Yours { observations, .. } = decode(text.as_bytes()).unwrap() else {
                panic!("another message");
            };
            assert_eq!(observations.servers.len(), count);
        }
    }

    #[test]
    fn a_configuration_is_its_file_or_where_its_flags_listen() {
        let flags = |all: &[(&str, &str)]| {
            let each = all.iter();
            let each = each.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            identity(&ConfigSource::Flags(each.collect()))
        };
        let first = flags(&[("listen", "*:1"), ("workers", "2"), ("listen", "*:2")]);
        let second = flags(&[("listen", "*:2"), ("listen", "*:1"), ("workers", "4")]);
        assert_eq!(first, second);
        assert_ne!(first, flags(&[("listen", "*:1")]));
        let file = identity(&ConfigSource::File("a.toml".into()));
        assert!(Path::new(&file).is_absolute());
    }
}
