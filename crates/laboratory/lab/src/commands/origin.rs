//! `lariat-lab origin`: its arguments, and what is said while it serves.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};
use load::options::ValueFault;
use load::options::value::{self, OrNone};
use measure::quantity::{Bytes, Count};
use sys::cpu::allowed_cpus;
use wire::address::{Address, UnixName};

use super::help;
use crate::exit::Exit;
use crate::origin::{Fault, Options, Origin, Totals, url};
use crate::talk::{Talk, print};
use crate::usage::{UsageError, nearest};

/// Flags, for slips.
const FLAGS: [&str; 7] = [
    "listen",
    "unix",
    "threads",
    "cpus",
    "idle-timeout",
    "quiet",
    "help",
];

/// Where it listens unless it is told.
const LISTEN_DEFAULT: &str = "127.0.0.1:8000";

/// More threads than this are a slip.
const THREADS_MAX: u16 = 1024;

/// What was typed.
#[derive(Debug, Default)]
struct Typed {
    help: bool,
    quiet: bool,
    listen: Vec<Address>,
    threads: Option<u16>,
    cpus: Vec<u16>,
    idle_timeout: Option<Duration>,
}

/// Serves until a signal.
pub(super) fn run(parser: &mut Parser, talk: Talk) -> Result<Exit, UsageError> {
    let typed = read(parser)?;
    if typed.help {
        return Ok(print(help::command("origin").unwrap_or_default()));
    }
    let quiet = typed.quiet;
    let exit = match serve(options(typed)?, quiet, talk) {
        Ok(()) => Exit::Success,
        Err(fault) => {
            talk.error(&fault);
            talk.hint(remedy(&fault));
            match fault {
                Fault::Listen { .. } => Exit::Address,
                Fault::Cpu { .. } => Exit::Usage,
                Fault::Kernel(_) => Exit::Failed,
            }
        }
    };
    Ok(exit)
}

fn serve(options: Options, quiet: bool, talk: Talk) -> Result<(), Fault> {
    let origin = Origin::open(options)?;
    if !quiet {
        for address in origin.addresses() {
            talk.say(format_args!("listening on {}", url(address)));
        }
    }
    let totals = origin.serve()?;
    if !quiet {
        talk.say(summary(&totals));
    }
    Ok(())
}

fn summary(totals: &Totals) -> String {
    format!(
        "{} replies on {} connections, {}",
        Count(totals.replies as f64),
        Count(totals.connections as f64),
        Bytes(totals.sent_bytes),
    )
}

fn remedy(fault: &Fault) -> &'static str {
    match fault {
        Fault::Listen { error, .. } => match error.kind() {
            ErrorKind::AddrInUse => {
                "another program has it (`ss -ltnp` says which); port 0 takes a free one"
            }
            ErrorKind::PermissionDenied => "ports below 1024 and other users' folders need root",
            ErrorKind::AddrNotAvailable => "the address must be one of this host (`ip address`)",
            _ => "--listen takes ADDRESS:PORT, --unix a path in a folder that is there",
        },
        Fault::Cpu { .. } => "--cpus takes CPUs that this process may use, or none",
        Fault::Kernel(_) => "look at the limits of this process (`ulimit -a`)",
    }
}

/// Told by the first worker that can accept nobody.
fn warn(error: &io::Error) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let talk = Talk::to_stderr();
        talk.warn(format_args!("connections wait to be accepted: {error}"));
        talk.hint("raise the limit of open files (`ulimit -n`)");
    });
}

fn options(typed: Typed) -> Result<Options, UsageError> {
    let mut listen = typed.listen;
    if listen.is_empty() {
        listen.push(LISTEN_DEFAULT.parse().expect("our own constant"));
    }
    let threads = match (typed.threads, typed.cpus.len()) {
        (Some(threads), _) => threads,
        (None, 0) => clamp(allowed_cpus().len()),
        (None, cpus) => clamp(cpus),
    };
    if let Some(cpu) = typed.cpus.iter().find(|cpu| !allowed_cpus().contains(cpu)) {
        let message = format!("--cpus: this process may not use CPU {cpu}");
        return Err(UsageError::new(
            message,
            format!("it may use {:?}", allowed_cpus()),
        ));
    }
    Ok(Options {
        listen,
        threads,
        cpus: typed.cpus,
        idle_timeout: typed.idle_timeout.unwrap_or(Duration::from_secs(60)),
        warn,
    })
}

fn clamp(count: usize) -> u16 {
    u16::try_from(count)
        .unwrap_or(THREADS_MAX)
        .clamp(1, THREADS_MAX)
}

fn read(parser: &mut Parser) -> Result<Typed, UsageError> {
    let mut typed = Typed::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => typed.help = true,
            Arg::Short('q') | Arg::Long("quiet") => typed.quiet = true,
            Arg::Long("listen") => typed.listen.push(address(parser.value()?)?),
            Arg::Long("unix") => typed.listen.push(path(parser.value()?)?),
            Arg::Long("threads") => {
                typed.threads = Some(valued("threads", parser, value::threads)?);
            }
            Arg::Long("cpus") => typed.cpus = valued("cpus", parser, cpus)?,
            Arg::Long("idle-timeout") => {
                typed.idle_timeout = Some(valued("idle-timeout", parser, value::some_time)?);
            }
            other => return Err(unknown(&other)),
        }
    }
    Ok(typed)
}

fn unknown(argument: &Arg<'_>) -> UsageError {
    let (message, near) = match argument {
        Arg::Long(name) => (format!("origin has no flag --{name}"), nearest(name, FLAGS)),
        Arg::Short(letter) => (format!("origin has no flag -{letter}"), None),
        Arg::Value(value) => {
            let value = value.to_string_lossy();
            (
                format!("origin takes no argument `{}`", value.escape_debug()),
                None,
            )
        }
    };
    match near {
        Some(name) => UsageError::new(message, format!("did you mean --{name}?")),
        None => UsageError::new(message, "`lariat-lab help origin` lists the flags"),
    }
}

fn address(value: OsString) -> Result<Address, UsageError> {
    let text = value.string()?;
    text.parse().map_err(|error| {
        let message = format!("--listen: `{}` {error}", text.escape_debug());
        UsageError::new(message, "as in --listen 127.0.0.1:8000")
    })
}

fn path(value: OsString) -> Result<Address, UsageError> {
    let path = PathBuf::from(value);
    let is_too_long = path.as_os_str().len() > 107;
    if is_too_long || path.as_os_str().is_empty() {
        let message = "--unix: a socket's path has 1 to 107 bytes";
        return Err(UsageError::new(message, "as in --unix /tmp/origin.sock"));
    }
    Ok(Address::Unix(UnixName::Path(path)))
}

/// The value of a flag whose grammar is that of `lariat-lab load`.
fn valued<T>(
    flag: &str,
    parser: &mut Parser,
    read: fn(&str) -> Result<T, ValueFault>,
) -> Result<T, UsageError> {
    let text = parser.value()?.string()?;
    read(&text).map_err(|fault| {
        let typed = text.escape_debug();
        match fault {
            ValueFault::Form(wanted, example) => UsageError::new(
                format!("--{flag}: `{typed}` is not {wanted}"),
                format!("for example: {example}"),
            ),
            ValueFault::Refused(why, hint) => {
                UsageError::new(format!("--{flag}: `{typed}` {why}"), hint)
            }
            ValueFault::Name(known) => UsageError::new(
                format!("--{flag}: `{typed}` is not known"),
                format!("one of: {}", known.join(", ")),
            ),
        }
    })
}

fn cpus(text: &str) -> Result<Vec<u16>, ValueFault> {
    Ok(match value::cpus(text)? {
        OrNone::Nothing => Vec::new(),
        OrNone::This(cpus) => cpus,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Result<Typed, String> {
        let words = line.split_whitespace().map(OsString::from);
        read(&mut Parser::from_args(words)).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_mean_what_they_say() {
        let all = typed(
            "--listen [::1]:0 --listen=127.0.0.1:81 --unix /o.sock --threads 2 --cpus 0,2-3 \
             --idle-timeout 500ms --quiet",
        )
        .unwrap();
        let listen: Vec<_> = all.listen.iter().map(ToString::to_string).collect();
        assert_eq!(listen, ["[::1]:0", "127.0.0.1:81", "unix:/o.sock"]);
        assert_eq!((all.threads, all.quiet), (Some(2), true));
        assert_eq!(all.cpus, [0, 2, 3]);
        assert_eq!(all.idle_timeout, Some(Duration::from_millis(500)));
        assert!(typed("--cpus none").unwrap().cpus.is_empty());
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let all = options(typed("").unwrap()).unwrap();
        assert_eq!(all.listen, [LISTEN_DEFAULT.parse().unwrap()]);
        assert_eq!(usize::from(all.threads), allowed_cpus().len());
        assert_eq!(all.idle_timeout, Duration::from_secs(60));
        let unix = options(typed("--unix /o.sock").unwrap()).unwrap();
        assert_eq!(unix.listen.len(), 1, "and no port");
        let last = allowed_cpus().pop().unwrap();
        let pinned = options(typed(&format!("--cpus {last}")).unwrap()).unwrap();
        assert_eq!((pinned.threads, pinned.cpus), (1, vec![last]));
    }

    #[test]
    fn slips_have_remedies() {
        let fault = |line: &str| typed(line).unwrap_err();
        assert!(fault("--listne 1").contains("did you mean --listen?"));
        assert!(fault("--listen 8000").contains("has no port"));
        assert!(fault("--threads 0").contains("--threads: `0` "));
        assert!(fault("--cpus 3-1").contains("--cpus: `3-1` is not CPU numbers"));
        assert!(fault("--idle-timeout 60").contains("a time with its unit"));
        assert!(fault("--idle-timeout 0s").contains("is no time"));
        assert!(fault("127.0.0.1:8000").contains("takes no argument"));
        assert!(fault("-x").contains("no flag -x"));
        let fault = options(typed("--cpus 1023").unwrap()).unwrap_err();
        assert!(fault.to_string().contains("may not use CPU 1023"));
    }
}
