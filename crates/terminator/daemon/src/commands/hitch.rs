//! `lariat hitch`: hitch's command line and configuration, served by Lariat.
//!
//! Owns what hitch does that is no setting: its exit codes, going to the background, the file of
//! `dbg-listen`. What its options mean is the importer's.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use config::Disk;
use import::{Import, ImportOutcome};
use sys::file;
use wire::address::Address;

use super::args::StatusSocket;
use super::console::{Console, Exit, print};
use super::{check, control, serve};
use crate::reader::{ConfigSource, hitch_import};
use crate::supervisor::ServingFacts;

const HELP: &str = "\
Usage: lariat hitch [OPTIONS] [PEM]...

Takes the command line and the configuration files of hitch 1.8, and of stud, as they are, and
serves what they say. hitch(8) and hitch.conf(5) describe them.

  --config=FILE   Read this configuration
  --test, -t      Look for faults, and end with 1 if there are any
  --daemon        Go to the background when all addresses are listened at
  --version, -V   Print the version

What Lariat does otherwise, and what it refuses, is said at the start. To move on:
`lariat import hitch FILE -o lariat.toml`.
";

/// Says to the program, started again, that it is in the background.
const BACKGROUND: &str = "LARIAT_HITCH_BACKGROUND";

/// The mode of the log, if it is made: addresses of clients are in it.
const LOG_MODE: u32 = 0o640;

/// Reading and building a configuration may take no longer (`docs/architecture.md`).
const START_TIME_MAX: Duration = Duration::from_secs(450);

/// How long the list of `dbg-listen` may take after that.
const HOSTS_TIME_MAX: Duration = Duration::from_secs(2);

/// The pause between looks at the status socket of the program in the background.
const PAUSE: Duration = Duration::from_millis(20);

/// Every failure is 1, as hitch's.
pub(super) fn run(words: Vec<String>, console: Console) -> Exit {
    let import = hitch_import(&words, &mut Disk);
    if import.is_on("--help") {
        print(HELP);
        return Exit::Success;
    }
    if import.is_on("--version") {
        print(format_args!("lariat {} (in the place of hitch)\n", env!("CARGO_PKG_VERSION")));
        return Exit::Success;
    }
    if import.is_faulty() || !import.unknown().is_empty() {
        console.say(faults(&import));
        return Exit::Failed;
    }
    let source = ConfigSource::Hitch(words.clone());
    let is_background = std::env::var_os(BACKGROUND).is_some();
    if !is_background {
        differences(&import).for_each(|finding| console.hint(finding));
    }
    let ended = if import.is_on("--test") {
        check::errors(&source).map_or(Ok(()), Err)
    } else if import.is_on("daemon") && !is_background {
        go_to_background(source, &import, &words)
    } else {
        if is_background {
            // After an upgrade this process leads a session already.
            let _ = sys::process::new_session();
        }
        let hosts = import.setting("dbg-listen").map(PathBuf::from);
        let exit = serve::run_and_tell(source, console, |started| {
            serve::tell(started);
            // At each reload too.
            if let Some(hosts) = &hosts {
                write_hosts(hosts, started, console);
            }
        });
        return if exit == Exit::Success { exit } else { Exit::Failed };
    };
    match ended {
        Ok(()) => Exit::Success,
        Err(fault) => {
            console.error(fault.strip_prefix("error: ").unwrap_or(&fault));
            Exit::Failed
        }
    }
}

/// Findings for a start that hitch would refuse: faults, and options that are not mapped.
fn faults(import: &Import) -> String {
    let is_told = |outcome: &ImportOutcome| {
        matches!(outcome, ImportOutcome::Fault { .. } | ImportOutcome::Unmapped { .. })
    };
    let told = import.findings().iter().filter(|one| is_told(&one.outcome));
    told.map(|one| format!("{one}\n")).collect()
}

/// Differences from hitch, one text for each option.
fn differences(import: &Import) -> impl Iterator<Item = String> {
    let own = ["dbg-listen", "daemon"];
    let findings = import.findings().iter().filter(move |one| {
        let is_own = own.iter().any(|own| one.option.trim_start_matches('-').starts_with(own));
        matches!(one.outcome, ImportOutcome::Unmapped { .. }) && !is_own
    });
    findings.map(ToString::to_string)
}

/// Starts this program again, and waits until that serves or has ended.
fn go_to_background(source: ConfigSource, import: &Import, words: &[String]) -> Result<(), String> {
    if let Some(faults) = check::errors(&source) {
        return Err(faults);
    }
    let socket = control::socket(&StatusSocket::Of(source)).map_err(|error| error.to_string())?;
    let log = import.setting("log-filename").filter(|_| !import.is_on("syslog"));
    // A list that is written replaces the file of an earlier start.
    let hosts = || Some(std::fs::metadata(import.setting("dbg-listen")?).ok()?.ino());
    let earlier = hosts();
    let mut child =
        start_again(words, log).map_err(|error| format!("cannot start again: {error}"))?;
    let until = Instant::now() + START_TIME_MAX;
    loop {
        let serves = control::ask(&socket).and_then(|answer| answer.supervisor());
        if serves.is_ok_and(|supervisor| supervisor.pid() == child.id()) {
            // The list follows at once, unless the log says why it cannot be written.
            let until = Instant::now() + HOSTS_TIME_MAX;
            let is_asked = import.setting("dbg-listen").is_some();
            while is_asked && hosts() == earlier && Instant::now() < until {
                std::thread::sleep(PAUSE);
            }
            return Ok(());
        }
        let ended = child.try_wait().map_err(|error| error.to_string())?;
        if let Some(status) = ended {
            let mut why = log.map_or_else(String::new, |log| format!("; {log} says why"));
            if let Some(mut messages) = child.stderr.take() {
                let _ = io::Read::read_to_string(&mut messages, &mut why);
            }
            return Err(format!("the process in the background ended: {status}\n{why}"));
        }
        if Instant::now() >= until {
            // What it has not begun to serve by now it will not.
            let _ = child.kill().and_then(|()| child.wait());
            return Err(format!(
                "the process in the background did not serve within {START_TIME_MAX:?}, and was \
                 ended\nhint: `lariat hitch` without `daemon` shows how far it gets"
            ));
        }
        std::thread::sleep(PAUSE);
    }
}

fn start_again(words: &[String], log: Option<&str>) -> io::Result<Child> {
    let messages = match log {
        Some(path) => Stdio::from(file::open_append(Path::new(path), LOG_MODE)?),
        // Nobody hears it once this process has ended.
        None => Stdio::piped(),
    };
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("hitch").args(words).env(BACKGROUND, "1");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages).spawn()
}

/// The file of `dbg-listen`: an address of IPv4 a line that a client can connect to.
fn write_hosts(path: &Path, started: &ServingFacts, console: Console) {
    let reachable = started.listeners.iter().filter_map(|(_, address)| match address {
        Address::Ip(address) if address.ip().is_unspecified() => {
            Some(format!("127.0.0.1:{}\n", address.port()))
        }
        Address::Ip(address) if address.is_ipv4() => Some(format!("{address}\n")),
        _ => None,
    });
    let text: String = reachable.collect();
    if let Err(error) = file::replace(path, text.as_bytes()) {
        console.error(format_args!("cannot write {}: {error}", path.display()));
    }
}
