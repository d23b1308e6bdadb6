//! The command line: parses what was typed into a command, without executing it.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use import::Predecessor;
use options::command_line::{FlagTable, SHELLS, TableFlags, outcome, proposals, unknown_word};

use super::console::Exit;
use super::predecessors;
use crate::named_servers::{ChangeWord, ServerName};
use crate::reader::{self, ConfigSource};
use crate::{acme_process, handover, key_process, resolve, watcher, worker_process};

/// Terminates TLS in front of any TCP service, on all cores
#[derive(Debug, Parser)]
#[command(name = "lariat", version, disable_help_subcommand = true, max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<TerminatorCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EchAction {
    /// Print the ECHConfigList and a record of type HTTPS for each name, as lines of a zone file
    Show {
        #[command(flatten)]
        config: ConfigArguments,
        /// One JSON document, for the API of a DNS service
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CertificateAction {
    /// Show each with its state, its age, and why the last attempt failed
    List {
        /// Print them as in the status document
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: SocketArguments,
    },
    /// Order it anew now, within the authority's limits
    Renew(NamedCertificate),
    /// Have the authority revoke it, and order another
    Revoke(NamedCertificate),
}

/// A certificate of the running lariat.
#[derive(Args, Debug)]
pub(crate) struct NamedCertificate {
    /// The name of the certificate, or a domain of it
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) socket: SocketArguments,
}

// The following comments are the help: its first paragraph the short one.
#[derive(Debug, Subcommand)]
pub(crate) enum TerminatorCommand {
    /// See it work: no files, no arguments
    ///
    /// Makes a certificate authority with an ECDSA and an RSA certificate for localhost in a
    /// temporary directory, starts a small server, terminates TLS in front of it, and prints the
    /// curl lines that prove it and the address of the status page. Ctrl-C stops it and removes
    /// the directory.
    Demo {
        /// Address where TLS is terminated; port 0 takes a free one
        #[arg(long, value_name = "ADDRESS", value_parser = address)]
        #[arg(default_value = "127.0.0.1:8443")]
        listen: SocketAddr,
        /// Address of the status page [default: 127.0.0.1:8444, or a free port if that is taken]
        #[arg(long, value_name = "ADDRESS", value_parser = address)]
        admin: Option<SocketAddr>,
    },

    /// Serve what a TOML file says, or one service from flags alone
    ///
    /// Every flag stands for a key of the file; docs/reference/configuration.md lists flags and
    /// keys. Lines about connections go to the standard output. SIGHUP or `lariat reload` reads
    /// the configuration again; SIGTERM or `lariat drain` ends it when connections have finished;
    /// SIGUSR1 opens the log file again; SIGUSR2 or `lariat upgrade` has it become the
    /// program as installed now.
    ///
    /// A second one with the same status socket is refused: `lariat upgrade` replaces the program
    /// of the running one, under the same process number, and no client notices.
    #[command(override_usage = "lariat serve FILE
       lariat serve --listen ADDRESS --certificate PATH --backend ADDRESS [FLAGS]
       lariat serve --listen ADDRESS --certificate PATH --files PATH [FLAGS]")]
    Serve(ConfigArguments),

    /// Check a file, and report all errors in it at once
    ///
    /// Reports each error with its place: reads every file that is named, builds every
    /// certificate with its key, follows chains, and looks at addresses, names, rights of files
    /// and limits. Ends with 0 if `lariat serve` would serve it, else with 2. Takes the flags of
    /// `lariat serve` instead of a file too.
    #[command(override_usage = "lariat check FILE [OPTIONS]
       lariat check FLAGS [OPTIONS]    # those of `lariat serve`")]
    Check(ConfigCheck),

    /// Serve what hitch's command line or configuration says
    ///
    /// Takes the options and the files of hitch 1.8 and of stud as they are: `lariat hitch
    /// --config=/etc/hitch/hitch.conf`. A program of the name `hitch` that links to this one does
    /// the same. SIGHUP reads the files again as a transaction. What Lariat does otherwise is said
    /// at the start; every failure ends with 1.
    #[command(disable_help_flag = true, override_usage = "lariat hitch [OPTIONS] [PEM]...")]
    Hitch {
        /// Options of hitch, and files of certificates
        #[arg(value_name = "OPTION", trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },

    /// Turn a configuration of another program into one of Lariat
    ///
    /// Writes TOML whose comments name the line that each value comes from, and reports for each
    /// option on the standard error whether it is mapped, mapped with a difference, or not mapped,
    /// and what to do instead. Defaults of the other program are written out where they differ.
    /// Ends with 6 if something is not mapped; with 2 if the files cannot be read, and then writes
    /// nothing. Look at the outcome by `lariat check`.
    #[command(override_usage = "lariat import KIND FILE... [-o lariat.toml]
       lariat import hitch|stud [-o lariat.toml] -- FLAGS [PEM]...")]
    #[command(after_help = "For example: lariat import stunnel /etc/stunnel/stunnel.conf")]
    Import {
        /// The program whose configuration it is
        #[arg(value_parser = predecessor())]
        kind: Predecessor,
        /// The files of that program; or after --, the command line of hitch or stud
        #[arg(value_name = "FILE", required = true, value_hint = ValueHint::AnyPath)]
        files: Vec<PathBuf>,
        /// Write to this file, which must not be there [default: the standard output]
        #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
        output: Option<PathBuf>,
    },

    /// Show connections, handshakes and servers
    ///
    /// Prints tables for people, or with --json the status document, which
    /// docs/reference/status.md describes.
    Status {
        #[command(flatten)]
        socket: SocketArguments,
        /// Print the document as it is
        #[arg(long)]
        json: bool,
    },

    /// Make the running lariat read its configuration again
    ///
    /// Applies the whole new configuration or keeps the old one; open connections continue either
    /// way. Waits for the outcome: exits with 0 if the new one is served, and prints the warnings
    /// about it; with 5 and the reason if it was refused.
    Reload {
        #[command(flatten)]
        socket: SocketArguments,
        /// Exit with 6 if there are warnings; the new one is served all the same
        #[arg(long)]
        strict: bool,
    },

    /// Have the running one become the program as installed now
    ///
    /// The program that is installed now, by the path and with the arguments of the start, is run
    /// to check whether it could serve; then it takes the process over, under the same number.
    /// Nobody is refused: it keeps the listening sockets, the sessions and the keys of tickets, and
    /// the worker process before ends when its connections have. Waits for the outcome: exits with
    /// 0 if the new program serves; with 5 and the reason if it cannot, and then the one before
    /// goes on.
    Upgrade(SocketArguments),

    /// Accept no more, let connections finish, end
    ///
    /// It goes on accepting connections for `process.drain-delay`, while /ready answers 503; then
    /// it accepts no more and lets those there are finish, for as long as `process.drain` allows.
    /// Waits until it has ended.
    Drain(SocketArguments),

    /// Take a server out of use for maintenance, or back in
    ///
    /// A disabled server gets no new connections; open ones go on, unless --close or
    /// `back.on-down` ends them. With `weight` a server has another share of new connections, 0 to
    /// 256, or the `configured` one again; with 0 it gets only those that affinity leads there.
    /// Both last when the configuration is read again and when the worker process dies, until the
    /// server leaves the configuration, or lariat ends; `lariat upgrade` keeps them. `lariat
    /// status` lists the servers.
    #[command(after_help = "For example: lariat server disable web/10.0.0.3:80")]
    Server {
        /// Whether it is taken out of use or back in, or its share changes
        #[arg(value_name = "disable|enable|weight")]
        word: ChangeWord,
        /// Name and address of the server, as `lariat status` lists it
        #[arg(value_name = "SERVICE/ADDRESS", value_parser = server_name)]
        name: ServerName,
        /// The weight, 0 to 256, or `configured`
        #[arg(value_name = "WEIGHT", value_parser = weight)]
        weight: Option<String>,
        /// End the sessions of the server that is disabled
        #[arg(long)]
        close: bool,
        #[command(flatten)]
        socket: SocketArguments,
    },

    /// List, renew or revoke certificates that come by ACME
    ///
    /// They are named as `lariat certificate list` names them, or by one of their domains.
    Certificate {
        #[command(subcommand)]
        action: CertificateAction,
    },

    /// Show what DNS is to publish of encrypted hellos (ECH)
    Ech {
        #[command(subcommand)]
        action: EchAction,
    },

    /// Explain a command, a key of the file, or a flag
    Help {
        /// Command, path of a key or the end of one, or flag
        #[arg(value_name = "COMMAND|KEY|--FLAG", allow_hyphen_values = true, add = proposals(explained))]
        name: Option<String>,
    },

    /// Complete commands in bash, zsh or fish
    ///
    /// Prints the script by which a shell asks lariat for words. Packages bring them along.
    /// Without one, `source <(lariat completion bash)` in ~/.bashrc, the same with zsh in ~/.zshrc
    /// after compinit, or `lariat completion fish | source` in fish's config.fish.
    Completion {
        /// The shell
        #[arg(value_parser = SHELLS)]
        shell: String,
    },

    /// Print a page of the manual, as man reads it
    ///
    /// Without a name, lariat(1), about the commands; lariat.toml(5) is about the configuration.
    #[command(after_help = "For example: lariat manual lariat.toml | man -l -")]
    Manual {
        /// The page
        #[arg(value_parser = ["lariat", "lariat.toml"], default_value = "lariat")]
        page: String,
    },

    /// Print the version
    Version,

    /// Print what was asked for beside a command.
    #[command(skip)]
    Text(String),
    /// Be a process of a supervisor.
    #[command(skip)]
    Helper(HelperRun),
}

/// Table of the configuration, whose flags `serve` and `check` take.
#[derive(Clone, Debug)]
pub(crate) struct ConfigTable;

impl FlagTable for ConfigTable {
    const TABLE: &'static options::Table = &config::TABLE;
}

#[derive(Args, Debug)]
pub(crate) struct ConfigArguments {
    /// TOML file with all services; - is the standard input, for a check
    #[arg(value_hint = ValueHint::AnyPath)]
    file: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    #[arg(conflicts_with = "file")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: TableFlags<ConfigTable>,
}

impl ConfigArguments {
    /// Returns the source for `lariat serve`, which reads it again at each reload.
    pub(crate) fn source_to_serve(self) -> Result<ConfigSource, String> {
        let source = self.source()?;
        let inputs =
            [config::STANDARD_INPUT, "/dev/stdin"].map(|one| ConfigSource::File(one.into()));
        if inputs.contains(&source) {
            return Err(
                "<stdin> cannot be served: the standard input can be read once, and each reload \
                        and upgrade reads the configuration again\n\
                        hint: write it to a file, and `lariat serve FILE`; `lariat check -` reads \
                        the standard input"
                    .to_owned(),
            );
        }
        Ok(source)
    }

    /// Returns the file or the flags, of which there must be one and only one.
    pub(crate) fn source(self) -> Result<ConfigSource, String> {
        let flags = self.flags.typed;
        match (self.config.or(self.file), flags.first()) {
            (None, None) => Err("there is neither a file nor a flag\n\
                 hint: lariat serve FILE, or \
                 lariat serve --listen ADDRESS --certificate PATH --backend ADDRESS"
                .to_owned()),
            (Some(file), None) => Ok(ConfigSource::File(file)),
            (None, Some(_)) => {
                let flags = flags.into_iter();
                let flags = flags.map(|(flag, value)| (flag.to_owned(), value));
                Ok(ConfigSource::Flags(flags.collect()))
            }
            // hitch and stud take their certificate as the last argument.
            (Some(file), Some(_)) if file.extension().is_some_and(|ending| ending != "toml") => {
                Err(format!(
                    "{} is taken for a file with all services, and flags describe one service\n\
                     hint: if it is a certificate, write --certificate {0}",
                    file.display()
                ))
            }
            (Some(file), Some((flag, _))) => Err(format!(
                "--{flag} stands beside {}\n\
                 hint: write `{}` into the file, or give flags alone",
                file.display(),
                config::TABLE.find_flag(flag).map_or("it", |key| key.path)
            )),
        }
    }
}

/// The arguments of `lariat check`.
#[derive(Args, Debug)]
pub(crate) struct ConfigCheck {
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    /// Warnings are errors too
    #[arg(long)]
    pub(crate) strict: bool,
    /// Try the addresses as well: whether they are free, and this user may listen there. If that
    /// alone fails, it ends with 3
    #[arg(long)]
    pub(crate) bind: bool,
    /// One JSON document on the standard output: `good`, and `diagnostics` with `severity` (error,
    /// warning or note), `file`, `line`, `column`, `key`, `message` and `hint`
    #[arg(long)]
    pub(crate) json: bool,
    /// Show the limits of this host beside what the configuration may come to need, and what to
    /// set
    #[arg(long)]
    pub(crate) host: bool,
}

/// The running lariat that a command is for.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub(crate) struct SocketArguments {
    /// Configuration of the running lariat, which says where its status socket is. Without it, that
    /// is /run/lariat/status.sock for root, else in $XDG_RUNTIME_DIR/lariat/
    #[arg(value_parser = running_file, value_hint = ValueHint::AnyPath)]
    file: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    config: Option<PathBuf>,
    /// Status socket of the running lariat
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    status_socket: Option<PathBuf>,
}

#[derive(Debug)]
pub(crate) enum StatusSocket {
    Usual,
    Path(PathBuf),
    Of(ConfigSource),
}

impl SocketArguments {
    /// Takes a file that stands where a weight may stand, if there is none yet.
    pub(crate) fn with_file(self, file: &mut Option<String>) -> Self {
        match self.file {
            None => Self { file: file.take().map(PathBuf::from), ..self },
            Some(_) => self,
        }
    }
}

impl From<SocketArguments> for StatusSocket {
    fn from(arguments: SocketArguments) -> Self {
        match (arguments.status_socket, arguments.config.or(arguments.file)) {
            (Some(path), _) => Self::Path(path),
            (None, Some(file)) => Self::Of(ConfigSource::File(file)),
            (None, None) => Self::Usual,
        }
    }
}

/// Returns the command line, for its help, its manual and completion.
pub(crate) fn command() -> clap::Command {
    let codes = exit_codes();
    CommandLine::command()
        .after_help(format!("Begin with: lariat demo\n\nExit codes:\n{codes}"))
        .mut_subcommand("check", |check| {
            check.mut_args(|argument| match argument.get_help_heading() {
                Some(_) => argument.hide(true),
                None => argument,
            })
        })
}

/// Returns the meaning of each exit code, a line each.
pub(crate) fn exit_codes() -> String {
    let codes = Exit::ALL.map(|exit| format!("  {}  {}\n", exit as u8, exit.help()));
    codes.concat()
}

pub(crate) type HelperRun = fn() -> ExitCode;

/// Processes that a supervisor starts, each by its first argument.
const HELPERS: [(&str, HelperRun); 6] = [
    (handover::WORKER_ARGUMENT, worker_process::run),
    (reader::READER_ARGUMENT, reader::run),
    (resolve::RESOLVER_ARGUMENT, resolve::run),
    (acme_process::ACME_ARGUMENT, acme_process::run),
    (key_process::KEYS_ARGUMENT, key_process::run),
    (watcher::WATCHER_ARGUMENT, watcher::run),
];

/// Parses the arguments, without the program's name. A fault has lines that begin with `hint: `.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<TerminatorCommand, String> {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let first = arguments.first().and_then(|first| first.to_str());
    if let Some((_, run)) = HELPERS.iter().find(|(name, _)| Some(*name) == first) {
        return Ok(TerminatorCommand::Helper(*run));
    }
    let table = matches!(first, Some("serve" | "check")).then_some(&config::TABLE);
    let words: Vec<_> = arguments.iter().map(|one| one.to_string_lossy().into_owned()).collect();
    let line = [OsString::from("lariat")].into_iter().chain(arguments);
    let matches = command().try_get_matches_from(line);
    match matches.and_then(|matches| CommandLine::from_arg_matches(&matches)) {
        Ok(line) => Ok(line.command.unwrap_or(TerminatorCommand::Help { name: None })),
        Err(error) => {
            let habit = unknown_word(&error).and_then(|word| predecessors::hint(word, &words));
            outcome(&error, table, habit).map(TerminatorCommand::Text)
        }
    }
}

/// Returns every name that `lariat help` explains.
fn explained() -> Vec<String> {
    let command = CommandLine::command();
    let commands = command.get_subcommands().map(|one| one.get_name().to_owned());
    let keys = config::TABLE.keys.iter().map(|key| key.path.to_owned());
    commands.chain(keys).collect()
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    let fault = "no IP address with a port\nhint: for example: 127.0.0.1:9443";
    text.parse().map_err(|_| fault)
}

fn predecessor() -> impl TypedValueParser<Value = Predecessor> {
    let words = Predecessor::ALL.map(Predecessor::word);
    PossibleValuesParser::new(words).try_map(|word| Predecessor::named(&word).ok_or("no program"))
}

/// Parses a weight as it was written, or the file in its place after another word.
fn weight(text: &str) -> Result<String, &'static str> {
    running_file(text).map(|_| text.to_owned())
}

fn server_name(text: &str) -> Result<ServerName, &'static str> {
    ServerName::parse(text).ok_or(
        "it is named SERVICE/ADDRESS\nhint: for example: lariat server disable web/10.0.0.3:80",
    )
}

/// Parses a path. One with a colon counts as a second server, because hardly any file has one.
fn running_file(text: &str) -> Result<PathBuf, &'static str> {
    if text.contains(':') {
        return Err("no configuration file\nhint: one file, or --status-socket PATH");
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<TerminatorCommand, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn flags(line: &str) -> Vec<(String, String)> {
        match parsed(line) {
            Ok(TerminatorCommand::Serve(arguments)) => match arguments.source() {
                Ok(ConfigSource::Flags(flags)) => flags,
                other => panic!("{line}: {other:?}"),
            },
            other => panic!("{line}: {other:?}"),
        }
    }

    fn fault(line: &str) -> String {
        match parsed(line) {
            Ok(TerminatorCommand::Serve(arguments)) => arguments.source().unwrap_err(),
            other => other.unwrap_err(),
        }
    }

    #[test]
    fn the_commands_agree_with_each_other() {
        command().debug_assert();
    }

    #[test]
    fn nothing_is_a_call_for_help() {
        let is_help = |line, of| {
            let command = parsed(line);
            matches!(command, Ok(TerminatorCommand::Help { name }) if name.as_deref() == of)
        };
        assert!(is_help("", None));
        assert!(is_help("help drain", Some("drain")));
        assert!(is_help("help --weight", Some("--weight")));
        let Ok(TerminatorCommand::Text(text)) = parsed("serve --help") else {
            panic!("a text");
        };
        assert!(text.contains("Usage: lariat serve FILE\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn flags_keep_their_order() {
        let flags = flags("serve --listen 0.0.0.0:443 --backend a:80 --weight=3 --backend b:80");
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
            let flags = flags(&format!("serve {line}"));
            let told = ("backend-tls".to_owned(), value.to_owned());
            assert!(flags.contains(&told), "{line}: {flags:?}");
        }
        assert!(fault("serve --backend --backend-tls").contains("for example: --backend "));
        assert!(fault("serve --backend-tls --backend").contains("for example: --backend "));
    }

    #[test]
    fn slips_have_remedies() {
        for (line, remedy) in [
            ("srve", "'serve'"),
            ("start", "`lariat serve FILE`, or `systemctl start lariat`"),
            ("stop", "`lariat drain`"),
            ("restart", "`lariat upgrade`"),
            ("test a.toml", "`lariat check a.toml`"),
            ("-t", "`lariat check FILE`"),
            ("-t -c /etc/a", "`lariat check /etc/a`"),
            ("-s reload", "`lariat reload`"),
            ("-s stop", "`lariat drain`"),
            ("-s quit", "`lariat drain`"),
            ("-s reopen", "kill -USR1"),
            ("-c a.toml", "`lariat serve a.toml`"),
            ("-c -f a.cfg", "`lariat check a.cfg`"),
            ("-f a.cfg", "`lariat serve a.cfg`"),
            ("-f a.cfg -sf 12", "`lariat serve a.cfg`"),
            ("-sf 12", "`lariat upgrade`"),
            ("-D -f a.cfg", "in the foreground: `lariat serve a.cfg`"),
            ("--daemon", "in the foreground: `lariat serve FILE`"),
            ("--config=a.toml", "`lariat serve a.toml`"),
            ("a.toml", "`lariat serve a.toml`"),
            ("--listen a:1", "`lariat serve --listen a:1`"),
            ("--frontend=a:1", "`lariat hitch --frontend=a:1`"),
            ("-v", "`lariat version`"),
            ("import nginx a.conf -f b", "'--help'"),
            ("serve -c a.toml", "`lariat serve a.toml`"),
            ("serve a.toml -D", "in the foreground: `lariat serve a.toml`"),
            ("serve --daemon a.toml", "in the foreground"),
            ("reload -c a.toml", "`lariat reload a.toml`"),
            ("serve --lisen x", "exists: '--listen'"),
            ("check --bnd a.toml", "exists: '--bind'"),
            ("serve", "hint: "),
            ("serve a.toml --workers 2", "`workers.threads`"),
            ("serve a.toml b.toml", "unexpected argument 'b.toml'"),
            ("serve a.toml --config b.toml", "cannot be used with"),
            ("demo --listen here", "127.0.0.1"),
            ("server", "Usage: lariat server <disable|enable|weight> <SERVICE/ADDRESS>"),
            ("server disble web/a:1", "a similar value exists: 'disable'"),
            ("server disable", "<SERVICE/ADDRESS>"),
            ("server enable web", "SERVICE/ADDRESS"),
            ("server enable web/a:1 web/b:1", "web/b:1"),
            ("status a.toml --status-socket /run/a", "cannot be used with"),
            ("reload --json", "--json"),
            ("completion tcsh", "possible values: bash, zsh, fish"),
            ("manual lariat.conf", "lariat.toml"),
        ] {
            let fault = fault(line);
            assert!(fault.contains(remedy) && fault.contains("\nhint: "), "{line}: {fault}");
        }
    }

    #[test]
    fn a_supervisors_processes_are_hidden_commands() {
        for (argument, run) in HELPERS {
            let Ok(TerminatorCommand::Helper(found)) = parsed(argument) else {
                panic!("{argument} is no command");
            };
            assert!(std::ptr::fn_addr_eq(found, run), "{argument}");
            assert!(command().find_subcommand(argument).is_none(), "{argument}");
        }
    }
}
