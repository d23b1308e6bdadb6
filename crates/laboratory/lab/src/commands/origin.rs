//! `lariat-lab origin`: its arguments and messages.

use std::ffi::OsString;
use std::io;
use std::sync::Once;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueHint, value_parser};
use measure::quantity::{ByteCount, RoundedCount};
use sys::cpu::allowed_cpus;
use sys::socket::AddressWithZone;
use wire::address::{Address, UnixName};

use super::values::{CpuList, SOME_TIME, cpu_list, time, value};
use crate::console::Console;
use crate::fault::{Exit, LabFault, LabResult};
use crate::origin::{BoundOrigin, OriginOptions, Totals, url};

/// Serve objects of any size, as plain HTTP
///
/// /1k, /64k, /10m and /1g have that many bytes. /?size=64k&time=20&close=1&chunked=1&code=503 is
/// 64 KiB after 20 ms, chunked, with status 503, and closes the connection.
#[derive(Args, Debug)]
pub(super) struct OriginArguments {
    /// Address to listen at [default: 127.0.0.1:8000]; port 0 takes a free one; may be given again
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Vec<Address>,
    /// Unix socket to listen at; may be given again
    #[arg(long, value_name = "PATH", value_parser = OsStringValueParser::new().try_map(unix))]
    #[arg(value_hint = ValueHint::AnyPath)]
    unix: Vec<Address>,
    /// Threads, each with its own socket and loop [default: the allowed CPUs]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=THREADS_MAX))]
    threads: Option<u16>,
    /// CPUs that threads are pinned to, as in 0,2-3, or none
    #[arg(long, value_name = "LIST|none", value_parser = value(cpus, "CPUs or none", "0,2-3"))]
    cpus: Option<CpuList>,
    /// Close a connection that is idle for this long
    #[arg(long, value_name = "TIME", default_value = "60s")]
    #[arg(value_parser = time((SOME_TIME, Duration::MAX), "a time with its unit above 0", "10s"))]
    idle_timeout: Duration,
    /// Burn that much CPU time more, in proportion to what is used: for the self-test
    #[arg(long, hide = true, value_name = "PERCENT", value_parser = value(burn, "a percentage", "7%"))]
    burn: Option<f64>,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

const LISTEN_DEFAULT: &str = "127.0.0.1:8000";

/// More threads than this are a slip.
const THREADS_MAX: i64 = 1024;

pub(super) fn run(arguments: OriginArguments, console: Console) -> LabResult<Exit> {
    let quiet = arguments.quiet;
    let origin = BoundOrigin::open(options(arguments)?)?;
    if !quiet {
        for address in &origin.addresses {
            console.say(format_args!("listening on {}", url(address)));
        }
    }
    let totals = origin.serve()?;
    if !quiet {
        console.say(summary(&totals));
    }
    Ok(Exit::Success)
}

fn summary(totals: &Totals) -> String {
    format!(
        "{} replies on {} connections, {}",
        RoundedCount(totals.replies as f64),
        RoundedCount(totals.connections as f64),
        ByteCount(totals.sent_bytes),
    )
}

/// Called by the first worker that can accept no connection.
fn warn(error: &io::Error) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let text = format_args!("connections wait to be accepted: {error}");
        Console::to_stderr().advise(text, "raise the limit of open files (`ulimit -n`)");
    });
}

fn options(arguments: OriginArguments) -> LabResult<OriginOptions> {
    let mut listen = arguments.listen;
    listen.extend(arguments.unix);
    if listen.is_empty() {
        listen.push(LISTEN_DEFAULT.parse().expect("our own constant"));
    }
    let CpuList(cpus) = arguments.cpus.unwrap_or_default();
    let allowed = allowed_cpus();
    if let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        let message = format!("--cpus: this process may not use CPU {cpu}");
        return Err(LabFault::new(message, format!("it may use {allowed:?}")));
    }
    let usual = if cpus.is_empty() { allowed.len() } else { cpus.len() };
    Ok(OriginOptions {
        listen,
        threads: arguments.threads.unwrap_or_else(|| clamp(usual)),
        cpus,
        idle_timeout: arguments.idle_timeout,
        burn: arguments.burn,
        warn,
    })
}

fn clamp(count: usize) -> u16 {
    u16::try_from(count.clamp(1, THREADS_MAX.unsigned_abs() as usize)).unwrap_or(1)
}

fn address(text: &str) -> Result<Address, String> {
    let AddressWithZone(address) =
        text.parse().map_err(|error| format!("{error}\nhint: for example: 127.0.0.1:8000"))?;
    Ok(address)
}

fn unix(path: OsString) -> Result<Address, &'static str> {
    if path.is_empty() || path.len() > 107 {
        return Err("a socket's path has 1 to 107 bytes\nhint: as in --unix /tmp/origin.sock");
    }
    Ok(Address::Unix(UnixName::Path(path.into())))
}

/// `7%`, as a part of 1.
fn burn(text: &str) -> Option<f64> {
    let percent: u16 = text.strip_suffix('%')?.parse().ok()?;
    Some(f64::from(percent) / 100.0)
}

fn cpus(text: &str) -> Option<CpuList> {
    match text {
        "none" => Some(CpuList::default()),
        list => cpu_list(list).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::values::read;

    fn parsed(line: &str) -> Result<OriginOptions, String> {
        options(read(line)?).map_err(|error| error.to_string())
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
        assert_eq!(all.idle_timeout, Duration::from_secs(60));
        let unix = parsed("--unix /o.sock").unwrap();
        assert_eq!(unix.listen.len(), 1, "and no port");
        let last = allowed_cpus().pop().unwrap();
        let pinned = parsed(&format!("--cpus {last}")).unwrap();
        assert_eq!((pinned.threads, pinned.cpus), (1, vec![last]));
    }
}
