//! `lariat-lab host`: its arguments and messages.

use std::time::Duration;

use clap::Args;
use measure::record::to_json;

use super::values::{SpeedChoice, value};
use crate::console::{Console, WIDTH, print, stdout_colour};
use crate::fault::{Exit, LabFault, LabResult};
use crate::host::{self, SpeedTiming};

/// Show what this host has for TLS, and how fast its keys and ciphers are
///
/// Describes the CPU and what it makes cheap, caches and memory nodes, kTLS and io_uring (which are
/// tried) and why they are not there, limits, network cards, quotas and whatever else figures
/// depend on. If something should be done about it, a hint says what. docs/guide/host.md explains
/// how to read it.
#[derive(Args, Debug)]
pub(super) struct HostArguments {
    /// Keys and ciphers that are measured, on one CPU, in CPU time, by the library that lariat-lab
    /// is built with and by `openssl speed`, if openssl is installed
    #[arg(long, default_value = "quick")]
    speeds: SpeedChoice,
    /// Time for each row [default: 0.2 for quick, 1 for full]; openssl takes whole seconds
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    #[arg(value_parser = value(seconds, "0.01 to 60 seconds", "3"))]
    seconds: Option<Duration>,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// A minute for each row is more than enough.
const SECONDS_MAX: f64 = 60.0;
const SECONDS_MIN: f64 = 0.01;

pub(super) fn run(arguments: HostArguments, console: Console) -> LabResult<Exit> {
    let timing = timing(&arguments)?;
    if let Some(timing) = timing {
        let seconds = timing.total().as_secs_f64().ceil();
        console.say(format_args!(
            "Measuring keys and ciphers on one CPU for {seconds} s; --speeds none leaves that out."
        ));
    }
    let report = host::report(timing);
    if arguments.json {
        return print(to_json(&report) + "\n");
    }
    print(report::host::document(&report).text(WIDTH, stdout_colour()))
}

fn timing(arguments: &HostArguments) -> LabResult<Option<SpeedTiming>> {
    let Some(rows) = arguments.speeds.rows() else {
        return match arguments.seconds {
            None => Ok(None),
            Some(_) => Err(LabFault::new(
                "--seconds says how long speeds are measured, --speeds none that none are",
                "leave one of them out",
            )),
        };
    };
    let usual = SpeedTiming::of(rows);
    let each = arguments.seconds.unwrap_or(usual.each);
    Ok(Some(SpeedTiming { each, ..usual }))
}

fn seconds(text: &str) -> Option<Duration> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok()?;
    (SECONDS_MIN..=SECONDS_MAX).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::values::read;
    use load::speed::SpeedRows;

    fn planned(line: &str) -> Result<Option<SpeedTiming>, String> {
        timing(&read(line)?).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_mean_what_they_say() {
        assert_eq!(planned("").unwrap(), Some(SpeedTiming::of(SpeedRows::Quick)));
        assert_eq!(planned("--speeds none").unwrap(), None);
        let long = planned("--speeds full --seconds 2.5s").unwrap().unwrap();
        let each = Duration::from_millis(2500);
        assert_eq!((long.rows, long.each), (SpeedRows::Full, each));
    }
}
