//! `lariat-lab host`: its arguments and messages.

use std::time::Duration;

use load::speed::SpeedRows;

use super::flags::{Arguments, Command, wrong};
use crate::console::{Console, print, stdout_colour};
use crate::exit::Exit;
use crate::host;
use crate::host::SpeedTiming;
use crate::usage::UsageError;

pub(super) const COMMAND: Command = Command {
    name: "host",
    takes_words: false,
    help: "\
lariat-lab host: show what this host has for TLS, and how fast its keys and ciphers are

  lariat-lab host [--json] [--speeds none|quick|full] [--seconds T]

Describes the CPU and what it makes cheap, caches and memory nodes, kTLS and io_uring (which are
tried) and why they are not there, limits, network cards, quotas and whatever else figures depend
on. Where something should be done about it, a hint says what.

  --speeds none|quick|full
      Which keys and ciphers are measured [default: quick]. On one CPU, in CPU time, by the library
      that lariat-lab is built with and by `openssl speed`, if openssl is installed
  --seconds T
      How long for each row [default: 0.2 for quick, 1 for full]; openssl takes whole seconds
  --json
      Print one JSON document instead of text

docs/guide/host.md explains how to read it.
",
};

/// Characters in a line of text.
const WIDTH: usize = 80;

/// A minute for each row is more than enough.
const SECONDS_MAX: f64 = 60.0;
const SECONDS_MIN: f64 = 0.01;

pub(super) fn run(arguments: &Arguments, console: Console) -> Result<Exit, UsageError> {
    let timing = timing(arguments)?;
    if let Some(timing) = timing {
        let seconds = timing.total().as_secs_f64().ceil();
        console.say(format_args!(
            "Measuring keys and ciphers on one CPU for {seconds} s; --speeds none leaves that out."
        ));
    }
    let report = host::report(timing);
    Ok(if arguments.has("json") {
        print(report.to_json() + "\n")
    } else {
        print(report::host::document(&report).text(WIDTH, stdout_colour()))
    })
}

fn timing(arguments: &Arguments) -> Result<Option<SpeedTiming>, UsageError> {
    let each = arguments.one("seconds", seconds)?;
    let speeds = arguments.choice("speeds", &SPEEDS)?;
    let Some(rows) = speeds.unwrap_or(Some(SpeedRows::Quick)) else {
        return match each {
            None => Ok(None),
            Some(_) => Err(UsageError::new(
                "--seconds says how long speeds are measured, --speeds none that none are",
                "leave one of them out",
            )),
        };
    };
    let usual = SpeedTiming::of(rows);
    let each = each.unwrap_or(usual.each);
    Ok(Some(SpeedTiming { each, ..usual }))
}

/// Which keys and ciphers are measured, if any.
pub(super) const SPEEDS: [(&str, Option<SpeedRows>); 3] = [
    ("none", None),
    ("quick", Some(SpeedRows::Quick)),
    ("full", Some(SpeedRows::Full)),
];

fn seconds(text: &str) -> Result<Duration, UsageError> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>();
    let seconds = seconds
        .ok()
        .filter(|seconds| (SECONDS_MIN..=SECONDS_MAX).contains(seconds));
    let what = format!("is not {SECONDS_MIN} to {SECONDS_MAX} seconds");
    let seconds = seconds.map(Duration::from_secs_f64);
    seconds.ok_or_else(|| wrong("seconds", text, &what, "3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(line: &str) -> Result<Option<SpeedTiming>, String> {
        timing(&COMMAND.parsed(line)).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_mean_what_they_say() {
        assert_eq!(
            planned("").unwrap(),
            Some(SpeedTiming::of(SpeedRows::Quick))
        );
        assert_eq!(planned("--speeds none").unwrap(), None);
        let long = planned("--speeds full --seconds 2.5s").unwrap().unwrap();
        let each = Duration::from_millis(2500);
        assert_eq!((long.rows, long.each), (SpeedRows::Full, each));
    }

    #[test]
    fn slips_have_remedies() {
        let fault = |line: &str| planned(line).unwrap_err();
        assert!(fault("--speeds fast").contains("not one of: none, quick, full"));
        for seconds in ["0", "-1", "nan", "61", "1e9", "x", ""] {
            let fault = fault(&format!("--seconds={seconds}"));
            assert!(fault.contains("is not 0.01 to 60 seconds"), "{fault}");
        }
        assert!(fault("--speeds none --seconds 1").contains("leave one of them out"));
    }
}
