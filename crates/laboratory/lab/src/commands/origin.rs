//! `lariat-lab origin`: its arguments and messages.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::sync::Once;
use std::time::Duration;

use measure::quantity::{ByteCount, RoundedCount};
use options::quantity;
use sys::cpu::allowed_cpus;
use sys::socket::Zoned;
use wire::address::{Address, UnixName};

use super::flags::{Arguments, Command, wrong};
use crate::console::Console;
use crate::exit::Exit;
use crate::origin::{BoundOrigin, OriginFault, OriginOptions, Totals, url};
use crate::usage::UsageError;

pub(super) const COMMAND: Command = Command {
    name: "origin",
    takes_words: false,
    help: "\
lariat-lab origin: serve objects of any size, as plain HTTP

  lariat-lab origin [--listen ADDRESS]… [--unix PATH] [FLAGS]

  --listen ADDRESS
      Where to listen [default: 127.0.0.1:8000]; port 0 takes a free one; may be given again
  --unix PATH
      A Unix socket to listen at; may be given again
  --threads N
      Threads, each with its own socket and loop [default: the allowed CPUs]
  --cpus LIST|none
      CPUs that threads are pinned to, as in 0,2-3, or none
  --idle-timeout TIME
      Close a connection that is idle for this long [default: 60s]
  -q, --quiet
      Print nothing but errors

/1k, /64k, /10m and /1g have that many bytes. /?size=64k&time=20&close=1&chunked=1&code=503 is
64 KiB after 20 ms, chunked, with status 503, and closes the connection.
",
};

const LISTEN_DEFAULT: &str = "127.0.0.1:8000";

/// Idle connections are closed after this unless it is set.
const IDLE_DEFAULT: Duration = Duration::from_secs(60);

/// More threads than this are a slip.
const THREADS_MAX: u16 = 1024;

pub(super) fn run(arguments: &Arguments, console: Console) -> Result<Exit, UsageError> {
    let served = serve(options(arguments)?, arguments.has("quiet"), console);
    Ok(served.map_or_else(
        |fault| {
            console.fail(&fault, remedy(&fault));
            match fault {
                OriginFault::Listen { .. } => Exit::Address,
                OriginFault::Cpu { .. } => Exit::Usage,
                OriginFault::Kernel(_) => Exit::Failed,
            }
        },
        |()| Exit::Success,
    ))
}

fn serve(options: OriginOptions, quiet: bool, console: Console) -> Result<(), OriginFault> {
    let origin = BoundOrigin::open(options)?;
    if !quiet {
        for address in origin.addresses() {
            console.say(format_args!("listening on {}", url(address)));
        }
    }
    let totals = origin.serve()?;
    if !quiet {
        console.say(summary(&totals));
    }
    Ok(())
}

fn summary(totals: &Totals) -> String {
    format!(
        "{} replies on {} connections, {}",
        RoundedCount(totals.replies as f64),
        RoundedCount(totals.connections as f64),
        ByteCount(totals.sent_bytes),
    )
}

fn remedy(fault: &OriginFault) -> &'static str {
    match fault {
        OriginFault::Listen { error, .. } => match error.kind() {
            ErrorKind::AddrInUse => {
                "another program has it (`ss -ltnp` says which); port 0 takes a free one"
            }
            ErrorKind::PermissionDenied => "ports below 1024 and other users' folders need root",
            ErrorKind::AddrNotAvailable => "the address must be one of this host (`ip address`)",
            _ => "--listen takes ADDRESS:PORT, --unix a path in a folder that is there",
        },
        OriginFault::Cpu { .. } => "--cpus takes CPUs that this process may use, or none",
        OriginFault::Kernel(_) => "look at the limits of this process (`ulimit -a`)",
    }
}

/// Called by the first worker that can accept no connection.
fn warn(error: &io::Error) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let console = Console::to_stderr();
        console.warn(format_args!("connections wait to be accepted: {error}"));
        console.hint("raise the limit of open files (`ulimit -n`)");
    });
}

fn options(arguments: &Arguments) -> Result<OriginOptions, UsageError> {
    let mut listen = arguments.all("listen", address)?;
    for path in arguments.values("unix") {
        listen.push(unix(path)?);
    }
    if listen.is_empty() {
        listen.push(LISTEN_DEFAULT.parse().expect("our own constant"));
    }
    let cpus = arguments.one("cpus", cpus)?.unwrap_or_default();
    let threads = arguments.number("threads", THREADS_MAX, "2")?;
    let allowed = allowed_cpus();
    if let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        let message = format!("--cpus: this process may not use CPU {cpu}");
        return Err(UsageError::new(message, format!("it may use {allowed:?}")));
    }
    let usual = if cpus.is_empty() {
        allowed.len()
    } else {
        cpus.len()
    };
    Ok(OriginOptions {
        listen,
        threads: threads.unwrap_or_else(|| clamp(usual)),
        cpus,
        idle_timeout: arguments.one("idle-timeout", idle)?.unwrap_or(IDLE_DEFAULT),
        warn,
    })
}

fn clamp(count: usize) -> u16 {
    u16::try_from(count)
        .unwrap_or(THREADS_MAX)
        .clamp(1, THREADS_MAX)
}

fn address(text: &str) -> Result<Address, UsageError> {
    let refused =
        |error: &dyn std::fmt::Display| wrong("listen", text, &error.to_string(), "127.0.0.1:8000");
    let Zoned(address) = text.parse().map_err(|error| refused(&error))?;
    Ok(address)
}

fn unix(path: &OsStr) -> Result<Address, UsageError> {
    if path.is_empty() || path.len() > 107 {
        let message = "--unix: a socket's path has 1 to 107 bytes";
        return Err(UsageError::new(message, "as in --unix /tmp/origin.sock"));
    }
    Ok(Address::Unix(UnixName::Path(path.into())))
}

fn cpus(text: &str) -> Result<Vec<u16>, UsageError> {
    match (text, quantity::cpu_list(text)) {
        ("none", _) => Ok(Vec::new()),
        (_, Some(cpus)) => Ok(cpus),
        _ => Err(wrong(
            "cpus",
            text,
            "is not CPU numbers and ranges, or `none`",
            "0,2-3",
        )),
    }
}

fn idle(text: &str) -> Result<Duration, UsageError> {
    let time = quantity::duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| {
        wrong(
            "idle-timeout",
            text,
            "is no time with its unit above 0",
            "10s",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<OriginOptions, String> {
        options(&COMMAND.parsed(line)).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_mean_what_they_say() {
        let last = allowed_cpus().pop().unwrap();
        let all = parsed(&format!(
            "--listen [::1]:0 --listen=127.0.0.1:81 --unix /o.sock --threads 2 --cpus {last} \
             --idle-timeout 500ms --quiet",
        ))
        .unwrap();
        let listen: Vec<_> = all.listen.iter().map(ToString::to_string).collect();
        assert_eq!(listen, ["[::1]:0", "127.0.0.1:81", "unix:/o.sock"]);
        assert_eq!((all.threads, all.cpus), (2, vec![last]));
        assert_eq!(all.idle_timeout, Duration::from_millis(500));
        assert!(parsed("--cpus none").unwrap().cpus.is_empty());
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let all = parsed("").unwrap();
        assert_eq!(all.listen, [LISTEN_DEFAULT.parse().unwrap()]);
        assert_eq!(usize::from(all.threads), allowed_cpus().len());
        assert_eq!(all.idle_timeout, IDLE_DEFAULT);
        let unix = parsed("--unix /o.sock").unwrap();
        assert_eq!(unix.listen.len(), 1, "and no port");
        let last = allowed_cpus().pop().unwrap();
        let pinned = parsed(&format!("--cpus {last}")).unwrap();
        assert_eq!((pinned.threads, pinned.cpus), (1, vec![last]));
    }

    #[test]
    fn slips_have_remedies() {
        let fault = |line: &str| parsed(line).unwrap_err();
        assert!(fault("--listen 8000").contains("has no port"));
        assert!(fault("--threads 0").contains("--threads: `0` "));
        assert!(fault("--cpus 3-1").contains("--cpus: `3-1` is not CPU numbers"));
        assert!(fault("--idle-timeout 60").contains("no time with its unit"));
        assert!(fault("--idle-timeout 0s").contains("is no time"));
        assert!(fault("--cpus 1023").contains("may not use CPU 1023"));
    }
}
