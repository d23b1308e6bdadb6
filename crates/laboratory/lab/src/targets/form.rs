//! Parses a target's file, `targets/NAME/target.toml`, and holds the templates beside it.
//!
//! `program` finds where a target is installed, and `server` starts it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::Value;

/// A program that can be put under test.
#[derive(Clone, Debug)]
pub(crate) struct TestTarget {
    /// Name of the target's folder, used in flags and tables.
    pub(crate) name: String,
    pub(crate) form: TargetForm,
    /// Templates by the names of the files that they become.
    pub(crate) templates: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TargetForm {
    pub(crate) title: String,
    pub(crate) program: String,
    /// Debian packages that contain the program; empty for our own programs.
    #[serde(default)]
    pub(crate) packages: Vec<String>,
    /// Default Debian suite in whose root it runs, unless `--suite` is given.
    pub(crate) root: Option<String>,
    /// Further files that the packaged program needs, for example modules.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    #[serde(default)]
    pub(crate) role: TargetRole,
    /// Who answers requests to a server.
    #[serde(default)]
    pub(crate) serves: Serves,
    #[serde(default)]
    pub(crate) scheme: Scheme,
    /// Protocols that the templates can make clients speak.
    #[serde(default = "tls_alone")]
    pub(crate) fronts: Vec<TargetFront>,
    /// Whether its templates can make it speak TLS to the origin.
    #[serde(default)]
    pub(crate) back_tls: bool,
    /// Commands that print its version, as templates.
    pub(crate) version: Vec<Vec<String>>,
    /// Prefixes of the lines to keep; if empty, the first line of each command is kept.
    #[serde(default)]
    pub(crate) version_lines: Vec<String>,
    /// Command that starts the target in the foreground, as templates.
    pub(crate) start: Vec<String>,
    /// File in its folder that shows that it serves, if it accepts connections before that.
    pub(crate) ready: Option<String>,
    /// Command that starts the clients' end of a tunnel to it, on their CPUs, as templates.
    #[serde(default)]
    pub(crate) near: Vec<String>,
    /// Command that returns when a running server has read its configuration again.
    #[serde(default)]
    pub(crate) reload: Vec<String>,
    /// Command that kills a node of a farm; only farms have it.
    #[serde(default)]
    pub(crate) lose_node: Vec<String>,
    /// Places of a client's numbers in its output.
    #[serde(default)]
    pub(crate) output: OutputForm,
    /// Names of the configuration files that are made from the templates of these names.
    #[serde(default)]
    pub(crate) files: Vec<String>,
    #[serde(default)]
    pub(crate) unsupported: Vec<Unsupported>,
}

fn tls_alone() -> Vec<TargetFront> {
    vec![TargetFront::Tls]
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TargetRole {
    #[default]
    Server,
    Client,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Serves {
    /// The plain HTTP server behind it.
    #[default]
    Origin,
    /// The target itself: `/?size=N` has N bytes.
    Itself,
    /// The target itself, from files: `/N` has N bytes.
    Files,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scheme {
    Http,
    #[default]
    Https,
}

impl Scheme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Unsupported {
    /// Conditions that describe unsupported server specs; all must hold.
    pub(crate) when: BTreeMap<String, Condition>,
    pub(crate) why: String,
    /// Whether the rule holds for every build, not only the packaged one.
    #[serde(default)]
    pub(crate) any_build: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Condition {
    /// A lower bound; for a list, of its length.
    Least(Least),
    /// A value; a list must contain it, or all of these.
    Is(Value),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Least {
    least: i64,
}

impl TestTarget {
    /// Parses a form, or returns what is wrong with it.
    pub(crate) fn parse(
        name: &str,
        text: &str,
        templates: BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let form: TargetForm = toml::from_str(text).map_err(|error| error.to_string())?;
        let known = spec_fields();
        let mut conditions = form.unsupported.iter().flat_map(|entry| entry.when.keys());
        if let Some(unknown) = conditions.find(|field| !known.contains(field)) {
            return Err(format!(
                "`{unknown}` in `when` is nothing that a server is asked for; there are {}",
                known.join(", ")
            ));
        }
        if let Some(missing) = form.files.iter().find(|&file| !templates.contains_key(file)) {
            return Err(format!("there is no template for `{missing}` beside target.toml"));
        }
        if form.start.is_empty() {
            return Err("`start` is empty".to_owned());
        }
        Ok(Self { name: name.to_owned(), form, templates })
    }

    /// Returns the reason why the target does not support the spec; `None` if it does. `is_given`:
    /// the user gave another build than the packaged one.
    pub(crate) fn unsupported(&self, spec: &ServerSpec, is_given: bool) -> Option<String> {
        if self.form.role == TargetRole::Server && !self.form.fronts.contains(&spec.front) {
            return Some(format!("its templates have no front of {}", spec.front));
        }
        if self.form.role == TargetRole::Server && spec.back_tls && !self.form.back_tls {
            return Some("its templates have no TLS to the origin".to_owned());
        }
        if self.form.role == TargetRole::Server
            && (spec.nodes > 0) == self.form.lose_node.is_empty()
        {
            let why = match spec.nodes {
                0 => "it is a farm of `nodes`",
                _ => "its templates make no farm",
            };
            return Some(why.to_owned());
        }
        let fields = fields_of(spec);
        let holds = |entry: &&Unsupported| {
            let mut conditions = entry.when.iter();
            (entry.any_build || !is_given)
                && conditions
                    .all(|(field, condition)| condition.holds(&fields[&field.replace('-', "_")]))
        };
        Some(self.form.unsupported.iter().find(holds)?.why.trim().to_owned())
    }
}

impl Condition {
    fn holds(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Least(bound), Value::Array(list)) => list.len() as i64 >= bound.least,
            (Self::Least(bound), Value::Integer(number)) => *number >= bound.least,
            (Self::Least(_), _) => false,
            (Self::Is(Value::Array(all)), Value::Array(list)) => {
                all.iter().all(|wanted| list.contains(wanted))
            }
            (Self::Is(wanted), Value::Array(list)) => list.contains(wanted),
            (Self::Is(wanted), value) => wanted == value,
        }
    }
}

fn fields_of(spec: &ServerSpec) -> toml::Table {
    toml::Table::try_from(spec).expect("a spec is a table of numbers, words and lists")
}

fn spec_fields() -> Vec<String> {
    fields_of(&ServerSpec::default()).keys().map(|field| field.replace('_', "-")).collect()
}

/// A server as a configuration asks for it. Templates may use every field by its name.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all(deserialize = "kebab-case"), default)]
pub(crate) struct ServerSpec {
    /// Threads or processes that accept connections, each on a CPU of its own.
    pub(crate) workers: u16,
    pub(crate) front: TargetFront,
    /// Whether it speaks TLS to the origin behind it, and verifies it.
    pub(crate) back_tls: bool,
    pub(crate) certificates: Vec<ServerKeyKind>,
    /// Versions of TLS, in ascending order.
    pub(crate) versions: Vec<TargetTlsVersion>,
    /// Cipher suites by their standard names, the preferred first; empty: the target's default.
    pub(crate) suites: Vec<String>,
    /// Groups of the key exchange by their standard names; empty: the target's default.
    pub(crate) groups: Vec<String>,
    /// Whether sessions may be resumed by session id (TLS 1.2).
    pub(crate) session_ids: bool,
    /// Whether sessions may be resumed by ticket (TLS 1.2) and by PSK (TLS 1.3).
    pub(crate) tickets: bool,
    /// Whether the kernel is asked to encrypt sent data.
    pub(crate) ktls: bool,
    /// Whether TLS 1.3 sessions are in the server's cache (stateful tickets), not with clients.
    pub(crate) stateful_tickets: bool,
    /// Sessions that the cache must hold; 0: some 100,000, as far as that can be set.
    pub(crate) session_cache: u64,
    /// Number of certificates, each with its own key and name, that replace `certificates`.
    pub(crate) sites: u32,
    /// Connections that it must hold at once; 0: as many as the limit of open files allows, capped.
    pub(crate) connections: u64,
    /// Further services, which share the address by names of their own.
    pub(crate) services: u32,
    /// Number of addresses in a deny list; no client has one of them.
    pub(crate) denied: u32,
    pub(crate) request_log: bool,
    /// Nodes of a farm behind a balancer; 0: the server stands alone.
    pub(crate) nodes: u16,
    /// Whether the nodes of a farm resume each other's sessions.
    pub(crate) shared_sessions: bool,
    /// Whether the nodes share sessions through a store.
    pub(crate) session_store: bool,
    /// Sizes in bytes of the objects that will be requested, for servers that answer from files.
    pub(crate) objects: Vec<u64>,
    /// The planted CPU time of a server of the self-test, as a percentage of its own.
    pub(crate) burn_percent: u16,
}

impl Default for ServerSpec {
    fn default() -> Self {
        Self {
            workers: 1,
            front: TargetFront::Tls,
            back_tls: false,
            certificates: vec![ServerKeyKind::P256],
            versions: vec![TargetTlsVersion::Tls12, TargetTlsVersion::Tls13],
            suites: Vec::new(),
            groups: Vec::new(),
            session_ids: true,
            tickets: true,
            ktls: false,
            stateful_tickets: false,
            session_cache: 0,
            sites: 0,
            connections: 0,
            services: 0,
            denied: 0,
            request_log: false,
            nodes: 0,
            shared_sessions: false,
            session_store: false,
            objects: Vec::new(),
            burn_percent: 0,
        }
    }
}

impl ServerSpec {
    /// Reports whether the origin must speak TLS: to the server, or through it to the clients.
    pub(crate) fn needs_tls_origin(&self) -> bool {
        self.back_tls || self.front == TargetFront::Passthrough
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TargetFront {
    Tls,
    Plain,
    /// TLS that the server does not terminate: it reads the server name and relays.
    Passthrough,
}

impl fmt::Display for TargetFront {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Tls => "TLS",
            Self::Plain => "no TLS",
            Self::Passthrough => "TLS that it does not terminate",
        })
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ServerKeyKind {
    Rsa2048,
    Rsa3072,
    Rsa4096,
    P256,
    P384,
    Ed25519,
}

/// The names in scenario files.
impl fmt::Display for ServerKeyKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(out)
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) enum TargetTlsVersion {
    #[serde(rename = "1.2")]
    Tls12,
    #[serde(rename = "1.3")]
    Tls13,
}

/// Places of a load generator's numbers in its output.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OutputForm {
    /// Operations that succeeded; 1 if the program does not print their number.
    operations: Option<Number>,
    failed: Option<Number>,
    bytes: Option<Number>,
    seconds: Option<Number>,
    /// The 95th percentile of the response time, in milliseconds.
    #[serde(rename = "p95-ms")]
    p95_ms: Option<Number>,
    faults: Vec<String>,
    /// File in its folder that has the numbers, if it does not print them.
    pub(crate) file: Option<String>,
}

/// A number, located by the text next to it. The first match counts.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Number {
    /// After these texts, one after the other.
    After(Vec<String>),
    Before(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OutputNumbers {
    pub(crate) operations: u64,
    pub(crate) failed: u64,
    pub(crate) bytes: u64,
    /// Duration by the program's own clock, if it prints that.
    pub(crate) took: Option<Duration>,
    /// The 95th percentile of the response time, if it prints that.
    pub(crate) p95: Option<Duration>,
}

impl OutputForm {
    /// Reads the numbers from a program's output; `None` if one is missing or the program failed.
    pub(crate) fn read(&self, text: &str) -> Option<OutputNumbers> {
        if self.faults.iter().any(|fault| text.contains(fault)) {
            return None;
        }
        let number = |of: &Option<Number>, otherwise: f64| match of {
            None => Some(otherwise),
            Some(number) => number.find(text),
        };
        let time = |of: &Option<Number>, unit_s: f64| match of {
            None => Some(None),
            Some(number) => {
                Some(Some(Duration::try_from_secs_f64(number.find(text)? * unit_s).ok()?))
            }
        };
        // The casts saturate.
        Some(OutputNumbers {
            operations: number(&self.operations, 1.0)? as u64,
            failed: number(&self.failed, 0.0)? as u64,
            bytes: number(&self.bytes, 0.0)? as u64,
            took: time(&self.seconds, 1.0)?,
            p95: time(&self.p95_ms, 1e-3)?,
        })
    }
}

impl Number {
    fn find<'t>(&self, text: &'t str) -> Option<f64> {
        let is_digit = |letter: char| letter.is_ascii_digit() || letter == '.';
        let digits = match self {
            Self::After(marks) => {
                let next = |text: &'t str, mark| text.split_once(mark).map(|(_, behind)| behind);
                let behind = marks.iter().try_fold(text, |text, mark| next(text, mark.as_str()))?;
                let behind = behind.trim_start();
                &behind[..behind.find(|letter| !is_digit(letter)).unwrap_or(behind.len())]
            }
            Self::Before(mark) => {
                let (before, _) = text.split_once(mark)?;
                before.trim_end().rsplit(|letter| !is_digit(letter)).next()?
            }
        };
        digits.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "title = \"x\"\nprogram = \"x\"\nserves = \"origin\"\nscheme = \"https\"\n\
                        version = [[\"x\"]]\nstart = [\"x\"]\n";

    fn target(rest: &str) -> Result<TestTarget, String> {
        TestTarget::parse("x", &format!("{HEAD}{rest}"), BTreeMap::new())
    }

    fn fault(rest: &str) -> String {
        target(rest).unwrap_err()
    }

    #[test]
    fn conditions_are_about_wishes() {
        let target = target(
            "[[unsupported]]\nwhen = { workers = { least = 2 }, tickets = false }\nwhy = \"two\"\n\
             [[unsupported]]\nwhen = { certificates = [\"p256\", \"rsa2048\"] }\nwhy = \"pair\"\n\
             [[unsupported]]\nwhen = { certificates = { least = 3 } }\nwhy = \"three\"\n\
             [[unsupported]]\nwhen = { groups = \"X25519MLKEM768\" }\nwhy = \"pq\"\n\
             any-build = true\n",
        )
        .unwrap();
        let plain = ServerSpec::default();
        let why = |spec: &ServerSpec, is_given| target.unsupported(spec, is_given);
        assert_eq!(why(&plain, false), None);
        let two = ServerSpec { workers: 2, ..plain.clone() };
        assert_eq!(why(&two, false), None, "both must hold");
        let two = ServerSpec { tickets: false, ..two };
        assert_eq!(why(&two, false), Some("two".to_owned()));
        assert_eq!(why(&two, true), None, "another build may do it");
        let mut many = plain.clone();
        many.certificates = vec![ServerKeyKind::Rsa2048, ServerKeyKind::P256];
        assert_eq!(why(&many, false), Some("pair".to_owned()));
        many.certificates =
            vec![ServerKeyKind::Rsa2048, ServerKeyKind::Rsa3072, ServerKeyKind::Ed25519];
        assert_eq!(why(&many, false), Some("three".to_owned()));
        let mut hybrid = plain;
        hybrid.groups = vec!["x25519".into(), "X25519MLKEM768".into()];
        assert_eq!(why(&hybrid, true), Some("pq".to_owned()));
    }

    #[test]
    fn slips_are_named() {
        let unknown = fault("[[unsupported]]\nwhen = { worker = 2 }\nwhy = \"\"");
        assert!(unknown.contains("`worker`") && unknown.contains("workers"));
        assert!(fault("files = [\"x.conf\"]").contains("`x.conf`"));
        assert!(fault("colour = 1").contains("`colour`"));
    }

    fn read(form: &str, text: &str) -> Option<OutputNumbers> {
        toml::from_str::<OutputForm>(form).unwrap().read(text)
    }

    #[test]
    fn numbers_are_found_by_their_neighbours() {
        let counted = |operations, failed, bytes, took| OutputNumbers {
            operations,
            failed,
            bytes,
            took,
            p95: None,
        };
        let form = "operations = { before = \" requests in \" }\nfaults = [\"Non-2xx\"]";
        let said = "  90934 requests in 5.09s, 1.00MB read\n";
        assert_eq!(read(form, said), Some(counted(90934, 0, 0, None)));
        assert_eq!(read(form, &format!("{said}Non-2xx responses: 4\n")), None);
        let form = "operations = { after = [\"Complete\", \"requests:\"] }\n\
                    failed = { after = [\"Failed requests:\"] }";
        let said = "Complete requests:      300\nFailed requests:        2\n";
        assert_eq!(read(form, said), Some(counted(300, 2, 0, None)));
        let form = "bytes = { before = \" bytes\" }\nseconds = { after = [\"bytes in \"] }";
        let took = Some(Duration::from_millis(1250));
        assert_eq!(read(form, "1024 bytes in 1.25\n"), Some(counted(1, 0, 1024, took)));
        let form = "operations = { after = [\"queries:\"] }\np95-ms = { after = [\"95th:\"] }";
        let timed =
            OutputNumbers { p95: Some(Duration::from_micros(1640)), ..counted(16, 0, 0, None) };
        assert_eq!(read(form, "queries:   16 (4)\n 95th:  1.64\n"), Some(timed));
        assert_eq!(read(form, "queries:   16 (4)\n"), None);
    }

    #[test]
    fn what_is_no_number_is_none() {
        let form = "seconds = { after = [\"in \"] }";
        for said in ["", "in ", "in -1", "in long", "in 1.2.3"] {
            assert_eq!(read(form, said), None, "{said}");
        }
    }
}
