//! What was asked for, option by option: typed, but not held against each other.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use options::Section;
use wire::address::Endpoint;
use wire::starttls::Dialect;

use super::limit::CapacityLimit;
use super::url::Url;
use super::value::{Kinds, OrNone, Ramp, Read, Times};
use super::{limit, value};
use crate::plan::{
    ClientSelection, ConnectionEnding, Group, Handshake, ProxyVersion, Signature, Spacing, Suite,
    Verify, Versions,
};

/// Every option; what nobody wrote is its default, or absent.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the record is to be written; `None` = at the usual place.
    pub record: Option<OrNone<PathBuf>>,
    /// Whether nothing is to be said while it runs.
    pub quiet: bool,
    /// When it is to begin, in seconds since 1970; `None` = at once.
    pub start_at_s: Option<u64>,
    pub(crate) url: Url,
    pub(crate) connect: Vec<Endpoint>,
    pub(crate) move_sessions: bool,
    pub(crate) sources: Vec<IpAddr>,
    pub(crate) send_proxy: Option<ProxyVersion>,
    pub(crate) starttls: Option<Dialect>,
    pub(crate) greeting_timeout: Duration,
    pub(crate) kinds: Kinds,
    pub(crate) requests_per_session: Option<Times>,
    pub(crate) requests_per_connection: Times,
    pub(crate) clients: Option<u32>,
    pub(crate) selection: Option<ClientSelection>,
    pub(crate) think: Duration,
    pub(crate) ending: ConnectionEnding,
    pub(crate) method: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<String>,
    pub(crate) body_file: Option<PathBuf>,
    pub(crate) size: Option<usize>,
    pub(crate) no_request: bool,
    pub(crate) versions: Option<Versions>,
    pub(crate) suites: Vec<Suite>,
    pub(crate) groups: Vec<Group>,
    pub(crate) signatures: Vec<Signature>,
    pub(crate) alpn: Vec<Vec<u8>>,
    pub(crate) server_name: Option<OrNone<String>>,
    pub(crate) client_certificate: Option<PathBuf>,
    pub(crate) client_key: Option<PathBuf>,
    pub(crate) verify: Option<Verify>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) tickets: bool,
    pub(crate) session_ids: bool,
    pub(crate) early_data: bool,
    pub(crate) connections: Option<u32>,
    pub(crate) rate_per_s: Option<f64>,
    pub(crate) spacing: Spacing,
    pub(crate) session_arrivals: bool,
    pub(crate) ramp: Option<Ramp>,
    pub(crate) steps_per_s: Vec<f64>,
    pub(crate) step_duration: Option<Duration>,
    pub(crate) duration: Option<Duration>,
    pub(crate) count: Option<u64>,
    pub(crate) warm_up: Duration,
    pub(crate) timeout: Duration,
    pub(crate) find_capacity: bool,
    pub(crate) limit: Option<CapacityLimit>,
    pub(crate) precision: Option<f64>,
    pub(crate) threads: Option<u16>,
    pub(crate) cpus: Option<OrNone<Vec<u16>>>,
    pub(crate) seed: u64,
}

const KINDS: &[(&str, Kinds)] = &[
    ("full", Kinds::Only(Handshake::Full)),
    ("session-id", Kinds::Only(Handshake::SessionId)),
    ("ticket", Kinds::Only(Handshake::Ticket)),
    ("psk", Kinds::Only(Handshake::Psk)),
    ("any", Kinds::Only(Handshake::Any)),
    ("mixed", Kinds::Mixed),
];

/// Options that may be left out. What cannot be read has been reported, and counts as left out.
#[derive(Clone, Copy)]
struct Optional<'s, 'a>(&'s Section<'a>);

impl Optional<'_, '_> {
    fn text<T>(self, name: &str, read: fn(&str) -> Read<T>) -> Option<T> {
        self.0.if_written(name, |top, name| top.read_as(name, read))?
    }

    fn texts<T: PartialEq>(self, name: &str, read: fn(&str) -> Read<T>) -> Vec<T> {
        unique(self.0.read_all_as(name, read).unwrap_or_default())
    }

    fn choice<T: Clone>(self, name: &str, named: &[(&str, T)]) -> Option<T> {
        self.0.if_written(name, |top, name| top.choice(name, named))?
    }

    fn choices<T: Clone + PartialEq>(self, name: &str, named: &[(&str, T)]) -> Vec<T> {
        unique(self.0.choices(name, named).unwrap_or_default())
    }

    fn count<T: TryFrom<u64>>(self, name: &str) -> Option<T> {
        self.0.if_written(name, Section::count)?
    }

    fn time(self, name: &str) -> Option<Duration> {
        self.0.if_written(name, Section::duration)?
    }

    fn path(self, name: &str) -> Option<PathBuf> {
        self.0.text_if_written(name)?.map(PathBuf::from)
    }

    fn switch(self, name: &str) -> bool {
        self.0.has(name) && self.0.boolean(name) == Some(true)
    }
}

fn unique<T: PartialEq>(mut list: Vec<T>) -> Vec<T> {
    let mut place = 0;
    while place < list.len() {
        if list[..place].contains(&list[place]) { drop(list.remove(place)) } else { place += 1 }
    }
    list
}

impl Options {
    /// Reads all of them; what cannot be read is reported. `None` = there is no URL.
    pub(crate) fn read(top: &Section<'_>) -> Option<Self> {
        let written = Optional(top);
        let signatures = written.choices("signatures", &value::signatures());
        Some(Self {
            record: written.path("record").map(|path| match path.to_str() {
                Some("none") => OrNone::Nothing,
                _ => OrNone::This(path),
            }),
            quiet: written.switch("quiet"),
            start_at_s: written.text("start-at", value::moment),
            connect: written.texts("connect", value::endpoint),
            move_sessions: written.switch("move-sessions"),
            sources: written.texts("source", value::source),
            send_proxy: written.choice("send-proxy", ProxyVersion::NAMED),
            starttls: written.choice("starttls", Dialect::ALL),
            greeting_timeout: top.duration("greeting-timeout").unwrap_or_default(),
            kinds: top.choice("handshake", KINDS).unwrap_or(Kinds::Mixed),
            requests_per_session: written.text("requests-per-session", value::times),
            requests_per_connection: top
                .read_as("requests-per-connection", value::times)
                .unwrap_or(Times::Unlimited),
            clients: written.count("clients"),
            selection: written.choice("client-selection", ClientSelection::NAMED),
            think: top.duration("think-time").unwrap_or_default(),
            ending: top.choice("close", ConnectionEnding::NAMED).unwrap_or(ConnectionEnding::Close),
            method: written.text("method", value::method),
            headers: top.read_all_as("header", value::header).unwrap_or_default(),
            body: top.text_if_written("body").flatten(),
            body_file: written.path("body-file"),
            size: top.if_written("size", Section::size).flatten(),
            no_request: written.switch("no-request"),
            versions: written.choice("tls", Versions::NAMED),
            suites: written.choices("suites", Suite::NAMED),
            groups: written.choices("groups", Group::NAMED),
            signatures: unique(signatures.concat()),
            alpn: written.texts("alpn", value::protocol),
            server_name: written.text("server-name", value::server_name),
            client_certificate: written.path("client-certificate"),
            client_key: written.path("client-key"),
            verify: written.choice("verify", Verify::NAMED),
            ca: written.path("ca"),
            tickets: top.boolean("tickets") != Some(false),
            session_ids: top.boolean("session-ids") != Some(false),
            early_data: written.switch("early-data"),
            connections: written.count("connections"),
            rate_per_s: written.text("rate", value::some_rate),
            spacing: written.choice("spacing", Spacing::NAMED).unwrap_or(Spacing::Constant),
            session_arrivals: written.switch("session-arrivals"),
            ramp: written.text("ramp", value::ramp),
            steps_per_s: top.read_all_as("steps", value::some_rate).unwrap_or_default(),
            step_duration: written.time("step-duration"),
            duration: written.time("duration"),
            count: written.count("count"),
            warm_up: top.duration("warm-up").unwrap_or_default(),
            timeout: top.duration("timeout").unwrap_or_default(),
            find_capacity: written.switch("find-capacity"),
            limit: written.text("limit", limit::parse),
            precision: written.text("precision", value::percentage),
            threads: written.count("threads"),
            cpus: written.text("cpus", value::cpus),
            seed: top.count("seed").unwrap_or_default(),
            url: top.read_as("url", str::parse)?,
        })
    }
}
