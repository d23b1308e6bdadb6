//! The command line of the benchmark. Owns words and defaults, and starts nothing.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use lexopt::{Arg, Parser, ValueExt};

/// What `--help` prints.
pub(crate) const HELP: &str = "\
cargo xtask bench terminate      server CPU per handshake, request and GiB
cargo xtask bench idle           resident memory per idle connection
cargo xtask bench certificates   load time and memory of many certificates
cargo xtask bench load           client CPU of lariat-lab load and of other load generators
cargo xtask bench origin         server CPU of lariat-lab origin and of nginx
cargo xtask bench memory         memory of lariat-lab load by number of transactions
cargo xtask bench resumption     server CPU per resumed connection, with one and two workers
cargo xtask bench sessions       memory and CPU of a small and a large session cache

  --servers LIST        which, in this order; ratios are the first one's to each other
                        (lariat,haproxy,nginx,hitch; certificates: lariat)
  --lariat PATH         the program (target/release/lariat)
  --haproxy LABEL=PATH  one more build of haproxy, beside the one on PATH
  --lab PATH            the laboratory's program (target/release/lariat-lab)
  --rows LIST           only these rows, but of idle and certificates
  --rounds N            rounds, interleaved (5; certificates, sessions: 3)
  --scale X             operations of a row, times X (1)
  --connections N       open at once (terminate: 32; idle: 8000)
  --count N             certificates (10000); entries of the larger session cache (1000000)
  --suite NAME          the only TLS 1.3 and 1.2 AEAD offered: aes-128, aes-256 or chacha20
                        (all three in that order; the server may have an order of its own;
                        load, memory: aes-128, the only one that nginx takes)
  --group NAME          the only key exchange offered: x25519, secp256r1 or x25519mlkem768 (x25519)
  --server-core N       the servers' core (the last one allowed)
  --client-core N       the client's and backend's core (the first one allowed)
  --record PATH         where the JSON record goes (target/bench/COMMAND-TIME.json)
";

/// What is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Command {
    /// CPU per operation.
    Terminate,
    /// Memory per idle connection.
    Idle,
    /// Load time and memory of many certificates.
    Certificates,
    /// CPU of clients per operation.
    Load,
    /// CPU of origins per request.
    Origin,
    /// Memory of a client by the number of its transactions.
    Memory,
    /// CPU per resumed connection by the number of workers.
    Resumption,
    /// Memory and CPU by the size of the session cache.
    Sessions,
    /// This text.
    Help,
}

impl Command {
    /// Its word on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Terminate => "terminate",
            Self::Idle => "idle",
            Self::Certificates => "certificates",
            Self::Load => "load",
            Self::Origin => "origin",
            Self::Memory => "memory",
            Self::Resumption => "resumption",
            Self::Sessions => "sessions",
            Self::Help => "--help",
        }
    }
}

/// An AEAD to pin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Suite {
    /// AES-128-GCM with SHA-256.
    Aes128,
    /// AES-256-GCM with SHA-384.
    Aes256,
    /// ChaCha20-Poly1305 with SHA-256.
    ChaCha20,
}

/// The key exchange group to offer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Group {
    /// RFC 7748.
    X25519,
    /// NIST P-256.
    Secp256r1,
    /// The hybrid of X25519 and ML-KEM-768.
    X25519MlKem768,
}

/// The command line, understood.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// What is asked for.
    pub(crate) command: Command,
    /// Names of servers in the order of a round; empty = the command's own.
    pub(crate) servers: Vec<String>,
    /// Lariat's program.
    pub(crate) lariat: PathBuf,
    /// The laboratory's program.
    pub(crate) lab: PathBuf,
    /// Further builds of haproxy: label and program.
    pub(crate) haproxies: Vec<(String, PathBuf)>,
    /// Names of rows; empty = all.
    pub(crate) rows: Vec<String>,
    /// Rounds; `None` = the command's own.
    pub(crate) rounds: Option<usize>,
    /// Multiplies the operations of each row.
    pub(crate) scale: f64,
    /// Connections open at once; `None` = the command's own.
    pub(crate) connections: Option<usize>,
    /// Certificates to load, or entries of the larger session cache; `None` = the command's own.
    pub(crate) count: Option<usize>,
    /// The only AEAD offered, if one is pinned.
    pub(crate) suite: Option<Suite>,
    /// The only group offered.
    pub(crate) group: Group,
    /// The servers' core.
    pub(crate) server_core: Option<usize>,
    /// The client's and the backend's core.
    pub(crate) client_core: Option<usize>,
    /// Where the record goes.
    pub(crate) record: Option<PathBuf>,
}

impl Options {
    /// The rows that were asked for by name, or all.
    ///
    /// # Errors
    /// A name that no row has.
    pub(crate) fn chosen<R>(
        &self,
        all: &'static [R],
        name: fn(&R) -> &str,
    ) -> Result<Vec<&'static R>> {
        if self.rows.is_empty() {
            return Ok(all.iter().collect());
        }
        let find = |wanted: &String| {
            let found = all.iter().find(|row| name(row) == wanted);
            found.with_context(|| {
                let names: Vec<_> = all.iter().map(name).collect();
                format!("no row is called {wanted}; there are {}", names.join(", "))
            })
        };
        self.rows.iter().map(find).collect()
    }

    /// Understands the words after `bench`.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self> {
        let mut parser = Parser::from_args(arguments);
        let mut options = Self::default();
        let mut command = None;
        while let Some(argument) = parser.next()? {
            match argument {
                Arg::Value(word) if command.is_none() => command = Some(parse_command(&word)?),
                Arg::Long("help") | Arg::Short('h') => command = Some(Command::Help),
                Arg::Long(name) => {
                    let name = name.to_owned();
                    let value = parser.value()?.string()?;
                    options
                        .set(&name, &value)
                        .with_context(|| format!("--{name} {value}"))?;
                }
                other => return Err(other.unexpected().into()),
            }
        }
        options.command = command.unwrap_or(Command::Help);
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "servers" => self.servers = parse_list(value),
            "lariat" => self.lariat = value.into(),
            "lab" => self.lab = value.into(),
            "haproxy" => self.haproxies.push(parse_labelled(value)?),
            "rows" => self.rows = parse_list(value),
            "rounds" => self.rounds = Some(parse_positive(value)?),
            "scale" => self.scale = value.parse()?,
            "connections" => self.connections = Some(parse_positive(value)?),
            "count" => self.count = Some(parse_positive(value)?),
            "suite" => self.suite = Some(parse_suite(value)?),
            "group" => self.group = parse_group(value)?,
            "server-core" => self.server_core = Some(value.parse()?),
            "client-core" => self.client_core = Some(value.parse()?),
            "record" => self.record = Some(value.into()),
            _ => bail!("no such option; `cargo xtask bench --help` lists them"),
        }
        Ok(())
    }

    /// The laboratory's program with its whole path, for processes that run elsewhere.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn lab_program(&self) -> Result<PathBuf> {
        let missing = || format!("{} does not exist; bench/run builds it", self.lab.display());
        self.lab.canonicalize().with_context(missing)
    }

    /// Whether a row is to be measured.
    pub(crate) fn wants_row(&self, name: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|row| row == name)
    }

    /// The servers asked for, or those the command has by default, and every extra haproxy.
    pub(crate) fn servers_or(&self, default: &[&str]) -> Vec<String> {
        if !self.servers.is_empty() {
            return self.servers.clone();
        }
        let extra = self.haproxies.iter().map(|(label, _)| label.clone());
        default
            .iter()
            .copied()
            .map(String::from)
            .chain(extra)
            .collect()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            command: Command::Help,
            servers: Vec::new(),
            lariat: "target/release/lariat".into(),
            lab: "target/release/lariat-lab".into(),
            haproxies: Vec::new(),
            rows: Vec::new(),
            rounds: None,
            scale: 1.0,
            connections: None,
            count: None,
            suite: None,
            group: Group::X25519,
            server_core: None,
            client_core: None,
            record: None,
        }
    }
}

const COMMANDS: [Command; 8] = [
    Command::Terminate,
    Command::Idle,
    Command::Certificates,
    Command::Load,
    Command::Origin,
    Command::Memory,
    Command::Resumption,
    Command::Sessions,
];

fn parse_command(word: &OsString) -> Result<Command> {
    COMMANDS
        .into_iter()
        .find(|command| word == command.name())
        .with_context(|| format!("no benchmark is called {}", word.display()))
}

fn parse_list(value: &str) -> Vec<String> {
    value
        .split(',')
        .filter(|word| !word.is_empty())
        .map(String::from)
        .collect()
}

fn parse_labelled(value: &str) -> Result<(String, PathBuf)> {
    let (label, path) = value.split_once('=').context("write it as LABEL=PATH")?;
    Ok((label.to_owned(), path.into()))
}

fn parse_positive(value: &str) -> Result<usize> {
    match value.parse()? {
        0 => bail!("must be at least 1"),
        number => Ok(number),
    }
}

fn parse_suite(value: &str) -> Result<Suite> {
    Ok(match value {
        "aes-128" => Suite::Aes128,
        "aes-256" => Suite::Aes256,
        "chacha20" => Suite::ChaCha20,
        _ => bail!("must be aes-128, aes-256 or chacha20"),
    })
}

fn parse_group(value: &str) -> Result<Group> {
    Ok(match value {
        "x25519" => Group::X25519,
        "secp256r1" => Group::Secp256r1,
        "x25519mlkem768" => Group::X25519MlKem768,
        _ => bail!("must be x25519, secp256r1 or x25519mlkem768"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options> {
        Options::parse(words.iter().copied().map(OsString::from))
    }

    #[test]
    fn options_follow_the_command() {
        let options = parse(&[
            "terminate",
            "--rounds",
            "3",
            "--haproxy",
            "new=/opt/haproxy",
        ])
        .expect("well formed");
        assert_eq!(options.command, Command::Terminate);
        assert_eq!(options.rounds, Some(3));
        assert_eq!(options.servers_or(&["lariat"]), ["lariat", "new"]);
    }

    #[test]
    fn rows_are_chosen_by_name() {
        let chosen = |rows: &[&str]| {
            let options = Options {
                rows: rows.iter().map(|row| (*row).to_owned()).collect(),
                ..Options::default()
            };
            options.chosen(&["a", "b"], |row| *row)
        };
        assert_eq!(chosen(&[]).expect("all"), [&"a", &"b"]);
        assert_eq!(chosen(&["b"]).expect("one of them"), [&"b"]);
        let fault = chosen(&["c"]).expect_err("none of them").to_string();
        assert_eq!(fault, "no row is called c; there are a, b");
    }

    #[test]
    fn mistakes_are_named() {
        for words in [
            &["fly"][..],
            &["terminate", "--rounds", "0"],
            &["terminate", "--wings", "2"],
            &["idle", "--group", "p999"],
        ] {
            parse(words).expect_err("not to be understood");
        }
    }
}
