//! `lariat-lab host`: its arguments, and what is said while it measures.

use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};
use load::speed::Rows;

use super::help;
use crate::exit::Exit;
use crate::host::{self, Timing};
use crate::talk::{Talk, print, stdout_colour};
use crate::usage::{UsageError, nearest};

/// Flags, for slips.
const FLAGS: [&str; 4] = ["json", "speeds", "seconds", "help"];

/// Characters in a line of text.
const WIDTH: usize = 80;

/// A minute for each row is more than enough to tell.
const SECONDS_MAX: f64 = 60.0;
/// Less is no measurement.
const SECONDS_MIN: f64 = 0.01;

/// What was typed.
#[derive(Debug, Default)]
struct Typed {
    help: bool,
    json: bool,
    speeds: Option<Speeds>,
    each: Option<Duration>,
}

/// Which keys and ciphers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Speeds {
    None,
    Some(Rows),
}

/// Tells of this host.
pub(super) fn run(parser: &mut Parser, talk: Talk) -> Result<Exit, UsageError> {
    let typed = read(parser)?;
    if typed.help {
        return Ok(print(help::command("host").unwrap_or_default()));
    }
    let timing = timing(&typed)?;
    if let Some(timing) = timing {
        let seconds = timing.total().as_secs_f64().ceil();
        talk.say(format_args!(
            "Measuring keys and ciphers on one CPU for {seconds} s; --speeds none leaves that out."
        ));
    }
    let report = host::report(timing);
    Ok(match typed.json {
        true => print(report.to_json() + "\n"),
        false => print(report::host::text(&report, WIDTH, stdout_colour())),
    })
}

fn timing(typed: &Typed) -> Result<Option<Timing>, UsageError> {
    let rows = match typed.speeds.unwrap_or(Speeds::Some(Rows::Quick)) {
        Speeds::Some(rows) => rows,
        Speeds::None if typed.each.is_some() => {
            let message =
                "--seconds says how long speeds are measured, --speeds none that none are";
            return Err(UsageError::new(message, "leave one of them out"));
        }
        Speeds::None => return Ok(None),
    };
    let usual = Timing::of(rows);
    let each = typed.each.unwrap_or(usual.each);
    Ok(Some(Timing { each, ..usual }))
}

fn read(parser: &mut Parser) -> Result<Typed, UsageError> {
    let mut typed = Typed::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => typed.help = true,
            Arg::Long("json") => typed.json = true,
            Arg::Long("speeds") => typed.speeds = Some(speeds(&parser.value()?.string()?)?),
            Arg::Long("seconds") => typed.each = Some(seconds(&parser.value()?.string()?)?),
            other => return Err(unknown(&other)),
        }
    }
    Ok(typed)
}

fn speeds(text: &str) -> Result<Speeds, UsageError> {
    match text {
        "none" => Ok(Speeds::None),
        "quick" => Ok(Speeds::Some(Rows::Quick)),
        "full" => Ok(Speeds::Some(Rows::Full)),
        other => Err(UsageError::new(
            format!("--speeds: `{}` is not known", other.escape_debug()),
            "one of: none, quick, full",
        )),
    }
}

fn seconds(text: &str) -> Result<Duration, UsageError> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>();
    let seconds = seconds
        .ok()
        .filter(|seconds| (SECONDS_MIN..=SECONDS_MAX).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        let typed = text.escape_debug();
        UsageError::new(
            format!("--seconds: `{typed}` is not {SECONDS_MIN} to {SECONDS_MAX} seconds"),
            "for example: --seconds 3",
        )
    })
}

fn unknown(argument: &Arg<'_>) -> UsageError {
    let (message, near) = match argument {
        Arg::Long(name) => (format!("host has no flag --{name}"), nearest(name, FLAGS)),
        Arg::Short(letter) => (format!("host has no flag -{letter}"), None),
        Arg::Value(value) => {
            let value = value.to_string_lossy();
            let message = format!("host takes no argument `{}`", value.escape_debug());
            (message, None)
        }
    };
    match near {
        Some(name) => UsageError::new(message, format!("did you mean --{name}?")),
        None => UsageError::new(message, "`lariat-lab help host` lists the flags"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn typed(line: &str) -> Result<Typed, String> {
        let words = line.split_whitespace().map(OsString::from);
        read(&mut Parser::from_args(words)).map_err(|error| error.to_string())
    }

    fn planned(line: &str) -> Option<Timing> {
        timing(&typed(line).unwrap()).unwrap()
    }

    #[test]
    fn flags_mean_what_they_say() {
        assert_eq!(planned(""), Some(Timing::of(Rows::Quick)));
        assert_eq!(planned("--speeds none"), None);
        let long = planned("--speeds full --seconds 2.5s").unwrap();
        assert_eq!(
            (long.rows, long.each),
            (Rows::Full, Duration::from_millis(2500))
        );
        assert!(typed("--json").unwrap().json);
    }

    #[test]
    fn slips_have_remedies() {
        let fault = |line: &str| typed(line).unwrap_err();
        assert!(fault("--speed none").contains("did you mean --speeds?"));
        assert!(fault("--speeds fast").contains("one of: none, quick, full"));
        assert!(fault("eth0").contains("takes no argument"));
        for seconds in ["0", "-1", "nan", "61", "1e9", "x", ""] {
            let fault = fault(&format!("--seconds={seconds}"));
            assert!(fault.contains("is not 0.01 to 60 seconds"), "{fault}");
        }
        let both = typed("--speeds none --seconds 1").unwrap();
        assert!(
            timing(&both)
                .unwrap_err()
                .to_string()
                .contains("leave one of them out")
        );
    }
}
