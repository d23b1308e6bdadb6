//! The command line: what was typed to what is to be done. Does nothing of it.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use config::Key;
use lexopt::{Arg, Parser, ValueExt};
use options::completion::Shell;

use crate::demo::DemoOptions;

use crate::handover::WORKER_ARGUMENT;
use crate::maintenance::{Change, ServerName};
use crate::reader::{ConfigSource, READER_ARGUMENT};
use crate::resolve::RESOLVER_ARGUMENT;
use crate::watcher::WATCHER_ARGUMENT;

#[derive(Debug)]
pub(crate) enum Command {
    /// Explain a command, or all of them.
    Help(Topic),
    /// Explain keys of a configuration.
    HelpOnKeys(Vec<&'static Key>),
    Version,
    /// Print the script by which a shell completes commands.
    Completion(Shell),
    /// Print a page of the manual.
    Manual(Page),
    /// Show what the program does, without any file.
    Demo(DemoOptions),
    Serve(ConfigSource),
    /// Say what is wrong with a configuration.
    Check(CheckOptions),
    /// Say what the running one does.
    Status {
        socket: StatusSocket,
        /// The document as it is.
        json: bool,
    },
    /// Make the running one read its configuration again.
    Reload {
        socket: StatusSocket,
        /// Whether warnings are an exit code of their own.
        strict: bool,
    },
    /// Make the running one finish.
    Drain {
        socket: StatusSocket,
    },
    /// Have another process of the program take over from the running one.
    Upgrade {
        socket: StatusSocket,
    },
    /// Take a server of the running one out of use, or back in.
    Server {
        socket: StatusSocket,
        change: Change,
        name: ServerName,
    },
    /// Be the worker process of a supervisor.
    WorkerProcess,
    /// Be a supervisor's reader of files.
    Reader,
    /// Be a supervisor's resolver of names.
    Resolver,
    /// Be a supervisor's watcher of files.
    Watcher,
}

/// What `lariat check` is to look at.
#[derive(Debug)]
pub(crate) struct CheckOptions {
    pub(crate) config: ConfigSource,
    pub(crate) strict: bool,
    /// Whether the addresses are tried.
    pub(crate) bind: bool,
    pub(crate) json: bool,
    /// Whether the host's limits are shown beside it.
    pub(crate) host: bool,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) enum StatusSocket {
    #[default]
    Usual,
    Path(PathBuf),
    Of(ConfigSource),
}

impl StatusSocket {
    fn name(&mut self, named: Self) -> Result<(), UsageError> {
        match std::mem::replace(self, named) {
            Self::Usual => Ok(()),
            Self::Path(_) | Self::Of(_) => Err(UsageError::new(
                "the running lariat is named twice",
                "give its configuration file, or its status socket with --status-socket",
            )),
        }
    }

    fn of_file(file: OsString) -> Self {
        Self::Of(ConfigSource::File(file.into()))
    }
}

/// A page of the manual.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Page {
    Commands,
    Configuration,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Topic {
    Program,
    Check,
    Completion,
    Demo,
    Drain,
    Manual,
    Reload,
    Serve,
    Server,
    Status,
    Upgrade,
}

impl Topic {
    pub(crate) const NAMES: [(&str, Self); 10] = [
        ("demo", Self::Demo),
        ("serve", Self::Serve),
        ("check", Self::Check),
        ("status", Self::Status),
        ("reload", Self::Reload),
        ("upgrade", Self::Upgrade),
        ("drain", Self::Drain),
        ("server", Self::Server),
        ("completion", Self::Completion),
        ("manual", Self::Manual),
    ];

    fn named(name: &str) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        names
            .find(|(known, _)| *known == name)
            .map(|(_, topic)| *topic)
    }
}

#[derive(Debug)]
pub(crate) struct UsageError {
    message: String,
    hint: String,
}

impl UsageError {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: {}", self.message, self.hint)
    }
}

impl From<lexopt::Error> for UsageError {
    fn from(error: lexopt::Error) -> Self {
        Self::new(error.to_string(), "`lariat help` explains the commands")
    }
}

/// Reads the arguments, without the program's name.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    let arguments: Vec<_> = arguments.into_iter().collect();
    match arguments.first().and_then(|first| first.to_str()) {
        Some(WORKER_ARGUMENT) => return Ok(Command::WorkerProcess),
        Some(READER_ARGUMENT) => return Ok(Command::Reader),
        Some(RESOLVER_ARGUMENT) => return Ok(Command::Resolver),
        Some(WATCHER_ARGUMENT) => return Ok(Command::Watcher),
        _ => {}
    }
    let mut parser = Parser::from_args(arguments);
    match parser.next()? {
        None | Some(Arg::Short('h') | Arg::Long("help")) => Ok(Command::Help(Topic::Program)),
        Some(Arg::Short('V') | Arg::Long("version")) => Ok(Command::Version),
        Some(Arg::Value(name)) => command(&name.to_string_lossy(), &mut parser),
        Some(other) => Err(other.unexpected().into()),
    }
}

fn command(name: &str, parser: &mut Parser) -> Result<Command, UsageError> {
    match name {
        "version" => return Ok(Command::Version),
        "help" => return help(parser),
        _ => {}
    }
    let Some(topic) = Topic::named(name) else {
        return Err(unknown_command(name));
    };
    match topic {
        Topic::Demo => demo(parser),
        Topic::Serve => served(parser),
        Topic::Check => check(parser),
        Topic::Status => running(parser, topic, "json", |socket, json| Command::Status {
            socket,
            json,
        }),
        Topic::Reload => running(parser, topic, "strict", |socket, strict| Command::Reload {
            socket,
            strict,
        }),
        Topic::Drain => running(parser, topic, "", |socket, _| Command::Drain { socket }),
        Topic::Upgrade => running(parser, topic, "", |socket, _| Command::Upgrade { socket }),
        Topic::Server => server(parser),
        Topic::Completion => completion(parser),
        Topic::Manual => manual(parser),
        Topic::Program => Ok(Command::Help(Topic::Program)),
    }
}

fn unknown_command(name: &str) -> UsageError {
    let names = Topic::NAMES.iter().map(|(name, _)| *name);
    let message = format!("there is no command `{}`", name.escape_debug());
    match config::nearest(name, names.chain(["help", "version"])) {
        Some(near) => UsageError::new(message, format!("did you mean `lariat {near}`?")),
        None => UsageError::new(message, "`lariat help` lists the commands"),
    }
}

fn help(parser: &mut Parser) -> Result<Command, UsageError> {
    match parser.next()? {
        None => Ok(Command::Help(Topic::Program)),
        Some(Arg::Value(name)) => {
            let name = name.to_string_lossy();
            match Topic::named(&name) {
                Some(topic) => Ok(Command::Help(topic)),
                None => help_on_keys(&name, &name),
            }
        }
        Some(Arg::Long(flag)) => help_on_keys(&format!("--{flag}"), flag),
        Some(other) => Err(other.unexpected().into()),
    }
}

/// A key, the end of its path, or a flag.
fn help_on_keys(name: &str, bare: &str) -> Result<Command, UsageError> {
    let keys = config::TABLE.meant(name);
    if !keys.is_empty() {
        return Ok(Command::HelpOnKeys(keys));
    }
    let name = name.escape_debug();
    let message = format!("there is no command, key or flag `{name}`");
    let rows = config::TABLE.keys.iter();
    let known = rows.flat_map(|key| [Some(key.path), Some(key.name()), key.flag]);
    let commands = Topic::NAMES.iter().map(|(name, _)| *name);
    Err(
        match config::nearest(bare, commands.chain(known.flatten())) {
            Some(near) => UsageError::new(message, format!("did you mean `lariat help {near}`?")),
            None => UsageError::new(message, "`lariat help` and `lariat help serve` list them"),
        },
    )
}

fn demo(parser: &mut Parser) -> Result<Command, UsageError> {
    let mut options = DemoOptions::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(Topic::Demo)),
            Arg::Long("listen") => options.listen = ip_address(parser, "--listen")?,
            Arg::Long("admin") => options.admin = Some(ip_address(parser, "--admin")?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Command::Demo(options))
}

fn ip_address(parser: &mut Parser, flag: &str) -> Result<SocketAddr, UsageError> {
    let text = parser.value()?.string()?;
    text.parse().map_err(|_| {
        let message = format!(
            "{flag}: \"{}\" is no IP address with a port",
            text.escape_debug()
        );
        UsageError::new(message, format!("for example: {flag} 127.0.0.1:9443"))
    })
}

fn served(parser: &mut Parser) -> Result<Command, UsageError> {
    let config = configuration(parser, &mut [])?;
    Ok(config.map_or(Command::Help(Topic::Serve), Command::Serve))
}

fn check(parser: &mut Parser) -> Result<Command, UsageError> {
    let mut switches = ["strict", "bind", "json", "host"].map(|name| (name, false));
    let config = configuration(parser, &mut switches)?;
    let [(_, strict), (_, bind), (_, json), (_, host)] = switches;
    let options = |config| CheckOptions {
        config,
        strict,
        bind,
        json,
        host,
    };
    let check = |config| Command::Check(options(config));
    Ok(config.map_or(Command::Help(Topic::Check), check))
}

/// A file, or the flags that mean its keys, and switches of the command; `None` = help was asked
/// for.
fn configuration(
    parser: &mut Parser,
    switches: &mut [(&str, bool)],
) -> Result<Option<ConfigSource>, UsageError> {
    let (mut file, mut flags) = (None, Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Long("config") => set_file(&mut file, parser.value()?)?,
            Arg::Long(name) => match switches.iter_mut().find(|(known, _)| *known == name) {
                Some((_, is_on)) => *is_on = true,
                None => {
                    let key = known_flag(name)?;
                    let name = key.flag.unwrap_or_default().to_owned();
                    flags.push((name, flag_value(parser, key)?));
                }
            },
            Arg::Value(path) => set_file(&mut file, path)?,
            Arg::Short(_) => return Err(argument.unexpected().into()),
        }
    }
    match (file, flags.first()) {
        (None, None) => Err(UsageError::new(
            "there is neither a file nor a flag",
            "lariat serve FILE, or lariat serve --listen ADDRESS --certificate PATH --backend ADDRESS",
        )),
        (Some(file), None) => Ok(Some(ConfigSource::File(file))),
        (None, Some(_)) => Ok(Some(ConfigSource::Flags(flags))),
        (Some(file), Some((flag, _))) => Err(UsageError::new(
            format!("--{flag} stands beside {}", file.display()),
            format!(
                "write `{}` into the file, or give flags alone",
                key_of(flag)
            ),
        )),
    }
}

fn known_flag(name: &str) -> Result<&'static Key, UsageError> {
    config::TABLE.find_flag(name).ok_or_else(|| {
        let problem = config::TABLE.unknown_flag(name);
        UsageError::new(problem.message, problem.hint.unwrap_or_default())
    })
}

/// What follows a flag. One that may stand alone does so at the end and before another flag.
fn flag_value(parser: &mut Parser, key: &Key) -> Result<String, UsageError> {
    let Some(alone) = key.alone else {
        return Ok(parser.value()?.string()?);
    };
    if let Some(value) = parser.optional_value() {
        return Ok(value.string()?);
    }
    let mut following = parser.raw_args()?;
    match following.next_if(|word| !word.as_encoded_bytes().starts_with(b"-")) {
        Some(value) => Ok(value.string()?),
        None => Ok(alone.to_owned()),
    }
}

fn key_of(flag: &str) -> &'static str {
    config::TABLE.find_flag(flag).map_or("it", |key| key.path)
}

fn set_file(file: &mut Option<PathBuf>, path: OsString) -> Result<(), UsageError> {
    match file.replace(path.into()) {
        None => Ok(()),
        Some(first) => Err(UsageError::new(
            format!("there is a second file after {}", first.display()),
            "one file holds all services",
        )),
    }
}

/// `switch` = the command's only one; none if it is empty.
fn running(
    parser: &mut Parser,
    topic: Topic,
    switch: &str,
    make: impl FnOnce(StatusSocket, bool) -> Command,
) -> Result<Command, UsageError> {
    let (mut socket, mut is_on) = (StatusSocket::default(), false);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(topic)),
            Arg::Long(flag) if flag == switch => is_on = true,
            Arg::Long("status-socket") => {
                socket.name(StatusSocket::Path(parser.value()?.into()))?
            }
            Arg::Long("config") => socket.name(StatusSocket::of_file(parser.value()?))?,
            Arg::Value(file) => socket.name(StatusSocket::of_file(file))?,
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(make(socket, is_on))
}

/// The one word after a command, or that its help is wanted.
fn only_word(parser: &mut Parser) -> Result<Option<String>, UsageError> {
    let mut word = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Some("--help".to_owned())),
            Arg::Value(value) if word.is_none() => word = Some(value.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(word)
}

fn completion(parser: &mut Parser) -> Result<Command, UsageError> {
    let word = only_word(parser)?.unwrap_or_default();
    match (word.as_str(), Shell::named(&word)) {
        ("--help", _) => Ok(Command::Help(Topic::Completion)),
        (_, Some(shell)) => Ok(Command::Completion(shell)),
        (_, None) => Err(UsageError::new(
            format!(
                "`lariat completion` knows no shell `{}`",
                word.escape_debug()
            ),
            "there are bash, zsh and fish",
        )),
    }
}

fn manual(parser: &mut Parser) -> Result<Command, UsageError> {
    match only_word(parser)?.as_deref() {
        None => Ok(Command::Manual(Page::Commands)),
        Some("--help") => Ok(Command::Help(Topic::Manual)),
        Some("lariat.toml") => Ok(Command::Manual(Page::Configuration)),
        Some(other) => Err(UsageError::new(
            format!("there is no page `{}`", other.escape_debug()),
            "`lariat manual` is about the commands, `lariat manual lariat.toml` about the file",
        )),
    }
}

/// What the hint of every mistake in `lariat server` shows.
const SERVER_EXAMPLE: &str = "for example: lariat server disable web/10.0.0.3:80";

fn server(parser: &mut Parser) -> Result<Command, UsageError> {
    let (mut socket, mut change, mut name) = (StatusSocket::default(), None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(Topic::Server)),
            Arg::Long("status-socket") => {
                socket.name(StatusSocket::Path(parser.value()?.into()))?
            }
            Arg::Long("config") => socket.name(StatusSocket::of_file(parser.value()?))?,
            Arg::Value(word) if change.is_none() => change = Some(server_change(&word.string()?)?),
            Arg::Value(text) if name.is_none() => name = Some(server_name(&text.string()?)?),
            // Every address has a colon, and hardly any file.
            Arg::Value(file) if !file.as_encoded_bytes().contains(&b':') => {
                socket.name(StatusSocket::of_file(file))?;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    match (change, name) {
        (Some(change), Some(name)) => Ok(Command::Server {
            socket,
            change,
            name,
        }),
        (None, _) => Err(UsageError::new(
            "`lariat server` says neither disable nor enable",
            SERVER_EXAMPLE,
        )),
        (Some(_), None) => Err(UsageError::new("no server is named", SERVER_EXAMPLE)),
    }
}

fn server_change(word: &str) -> Result<Change, UsageError> {
    Change::named(word).ok_or_else(|| {
        let message = format!("`lariat server` has no `{}`", word.escape_debug());
        match config::nearest(word, [Change::Disable, Change::Enable].map(Change::word)) {
            Some(near) => UsageError::new(message, format!("did you mean `lariat server {near}`?")),
            None => UsageError::new(message, SERVER_EXAMPLE),
        }
    })
}

fn server_name(text: &str) -> Result<ServerName, UsageError> {
    ServerName::parse(text).ok_or_else(|| {
        let message = format!(
            "\"{}\" is no server: it is named SERVICE/ADDRESS",
            text.escape_debug()
        );
        UsageError::new(message, SERVER_EXAMPLE)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        let words = line.split_whitespace().map(OsString::from);
        parse(words).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_a_call_for_help() {
        assert!(matches!(parsed(""), Ok(Command::Help(Topic::Program))));
        assert!(matches!(
            parsed("serve --help"),
            Ok(Command::Help(Topic::Serve))
        ));
        assert!(matches!(
            parsed("help drain"),
            Ok(Command::Help(Topic::Drain))
        ));
    }

    #[test]
    fn flags_keep_their_order() {
        let line = "serve --listen 0.0.0.0:443 --backend a:80 --weight=3 --backend b:80";
        let Ok(Command::Serve(ConfigSource::Flags(flags))) = parsed(line) else {
            panic!("flags alone are a configuration");
        };
        let names: Vec<_> = flags.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["listen", "backend", "weight", "backend"]);
        assert_eq!(flags[2].1, "3");
    }

    #[test]
    fn a_flag_whose_value_may_be_left_out_takes_one_that_is_there() {
        for (line, value) in [
            ("--backend-tls --backend-ca ca.pem", "on"),
            ("--backend a:80 --backend-tls", "on"),
            ("--backend-tls off --backend a:80", "off"),
            ("--backend-tls=off --backend a:80", "off"),
            ("--backend-tls on", "on"),
        ] {
            let Ok(Command::Serve(ConfigSource::Flags(flags))) = parsed(&format!("serve {line}"))
            else {
                panic!("{line} is a configuration");
            };
            let told = ("backend-tls".to_owned(), value.to_owned());
            assert!(flags.contains(&told), "{line}: {flags:?}");
        }
        assert!(
            parsed("serve --backend --backend-tls").is_ok(),
            "a value may begin so"
        );
        assert!(
            parsed("serve --backend-tls --backend").is_err(),
            "another has none"
        );
    }

    #[test]
    fn slips_have_remedies() {
        let error = |line: &str| parsed(line).unwrap_err();
        assert!(error("srve").contains("did you mean `lariat serve`?"));
        assert!(error("serve --lisen x").contains("did you mean --listen?"));
        assert!(error("serve --passive-pause 5s").contains("it is now --passive-ejection-time"));
        assert!(error("serve").contains("hint: "));
        assert!(error("serve a.toml --workers 2").contains("`workers.threads`"));
        assert!(error("serve a.toml b.toml").contains("second file"));
        assert!(error("demo --listen here").contains("127.0.0.1"));
        for (line, remedy) in [
            ("server", "neither disable nor enable"),
            (
                "server disble web/a:1",
                "did you mean `lariat server disable`?",
            ),
            ("server disable", "no server is named"),
            ("server enable web", "SERVICE/ADDRESS"),
            ("server enable web/a:1 web/b:1", "web/b:1"),
        ] {
            assert!(error(line).contains(remedy), "{line}: {}", error(line));
        }
        assert!(error("reload --json").contains("--json"));
        assert!(error("help balanse").contains("did you mean `lariat help balance`?"));
        assert!(error("help --lisen").contains("did you mean `lariat help listen`?"));
        assert!(error("help --front.listen").contains("`--front.listen`"));
    }

    #[test]
    fn keys_are_explained_by_path_by_its_end_and_by_flag() {
        let paths = |name: &str| match parsed(&format!("help {name}")) {
            Ok(Command::HelpOnKeys(keys)) => keys.iter().map(|key| key.path).collect::<Vec<_>>(),
            other => panic!("{name}: {other:?}"),
        };
        for name in [
            "service.back.balance",
            "back.balance",
            "balance",
            "--balance",
        ] {
            assert_eq!(paths(name), ["service.back.balance"], "{name}");
        }
        assert_eq!(paths("--backend"), ["service.back.servers"]);
        assert_eq!(paths("redirect"), ["service.front.redirect"]);
        assert!(paths("tls.versions").len() == 2, "of both sides");
    }

    #[test]
    fn a_supervisors_processes_are_hidden_commands() {
        assert!(matches!(
            parsed(WORKER_ARGUMENT),
            Ok(Command::WorkerProcess)
        ));
        assert!(matches!(parsed(READER_ARGUMENT), Ok(Command::Reader)));
        assert!(matches!(parsed(RESOLVER_ARGUMENT), Ok(Command::Resolver)));
        assert!(matches!(parsed(WATCHER_ARGUMENT), Ok(Command::Watcher)));
    }
}
