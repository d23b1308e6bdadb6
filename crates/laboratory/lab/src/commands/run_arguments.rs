//! The arguments of `lariat-lab run`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::Parser;
use load::speed::SpeedRows;
use measure::host::HostReport;
use options::quantity;

use super::flags::{Arguments, Command, pair, wrong};
use super::host::SPEEDS;
use crate::exit::Exit;
use crate::run::needs::Seating;
use crate::run::scenario::expansion::ScenarioOverrides;
use crate::usage::UsageError;

pub(super) const COMMAND: Command = Command {
    name: "run",
    takes_words: true,
    help: "\
lariat-lab run: measure servers side by side, and record the results

  lariat-lab run SCENARIO… [FLAGS]
  lariat-lab run all --full
  lariat-lab run --resume RECORD.jsonl

A scenario is a question: what a cipher costs, what a second core brings. For each of its
configurations a server is started, loaded and ended; each measurement is recorded at once. A
scenario that ends in .toml is a file of your own: docs/guide/lab.md describes it.

  --list
      The scenarios that there are, and how long they take
  --dry-run
      Print what would be done, with the command that makes the load of each configuration
  --quick
      Few repeats of the main configurations [default]
  --full
      All configurations, more often
  --targets NAME,…
      The targets; the others are compared with the first [default: the scenario's]
  --only FACTOR=VALUE,…
      Only configurations of these values; target is a factor too; may be given again
  --repeats N
      How often each configuration is measured [default: the scenario's]
  --duration TIME
      How long each load lasts [default: the scenario's]
  --program TARGET=PATH
      Another build of a target than the packaged one; may be given again
  --suite NAME
      Take packaged programs from the root of that Debian suite, and run them there (by chroot)
  --root DIR
      Take them from a root of your own: a folder with a Debian system
  --root-folder DIR
      Where the roots of suites are [default: $XDG_CACHE_HOME/lariat-lab/roots]
  --server-cpus LIST
      The CPUs of servers, as in 0,2-3 [default: half of the cores]
  --client-cpus LIST
      The CPUs of the load and of the origin behind servers [default: the other half]
  --speeds none|quick|full
      How long keys and ciphers of this host are measured first [default: quick; full with --full]
  --seed N
      Repeats the order of configurations of another run [default: by the clock; it is recorded]
  --record RECORD.jsonl
      Where the record is written [default: lariat-run-DATE-TIME.jsonl in the working directory]
  --resume RECORD.jsonl
      Resume a run that was stopped, or measure again what failed in one that is complete
  --scenario-folder DIR
      Scenarios in place of ours
  --target-folder DIR
      Targets beside ours, or in their place
  --keep
      Keep the folder with the configurations of servers
  -q, --quiet
      Print nothing but failures

Examples:
  Which terminator costs least on one core? Under five minutes:
    lariat-lab run implementations

  Two of them, and one cipher:
    lariat-lab run ciphers --targets lariat,haproxy-tcp --only suite=aes-128-gcm

  The programs of Debian sid, which `lariat-lab targets --install --suite sid` installs:
    lariat-lab run implementations --suite sid

Ctrl-C ends a run; --resume continues it. `lariat-lab report RECORD.jsonl -o page.html` makes a
page.
",
};

/// More repeats than this are a slip.
const REPEATS_MAX: u32 = 1000;

/// How long a run may take.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Mode {
    /// Few repeats of the main configurations.
    #[default]
    Quick,
    Full,
}

#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) list: bool,
    pub(super) dry_run: bool,
    pub(super) quiet: bool,
    pub(super) keep: bool,
    pub(super) mode: Mode,
    /// The order of configurations; `None` = chosen by the clock.
    pub(super) seed: Option<u64>,
    pub(super) repeats: Option<u32>,
    pub(super) duration: Option<Duration>,
    pub(super) targets: Option<Vec<String>>,
    pub(super) only: BTreeMap<String, Vec<String>>,
    pub(super) seating: Seating,
    /// Which keys and ciphers are measured first, if any.
    pub(super) speeds: Option<SpeedRows>,
    pub(super) record: Option<PathBuf>,
    pub(super) resume: Option<PathBuf>,
    pub(super) scenario_folder: Option<PathBuf>,
    pub(super) scenarios: Vec<String>,
    /// All of them, for the parts that read their own.
    pub(super) arguments: Arguments,
}

impl Request {
    pub(super) fn asked(&self, host: &HostReport) -> ScenarioOverrides {
        let lacking = host.abilities.iter().filter(|ability| !ability.is_there);
        ScenarioOverrides {
            is_quick: self.mode == Mode::Quick,
            targets: self.targets.clone(),
            repeats: self.repeats,
            duration: self.duration,
            only: self.only.clone(),
            lacks: lacking
                .map(|ability| (ability.name.clone(), ability.why.clone()))
                .collect(),
        }
    }

    pub(super) fn mode_name(&self) -> &'static str {
        match self.mode {
            _ if self.repeats.is_some() || self.duration.is_some() => "own",
            Mode::Quick => "quick",
            Mode::Full => "full",
        }
    }
}

/// What was asked for, and the words of it; or how the program ends.
pub(super) fn read(
    parser: &mut Parser,
) -> Result<Result<(Request, Vec<String>), Exit>, UsageError> {
    let words: Vec<OsString> = parser.raw_args()?.collect();
    let texts = words.iter().map(|word| word.to_string_lossy().into_owned());
    let texts = texts.collect();
    let parsed = COMMAND.parse(&mut Parser::from_args(words))?;
    Ok(match parsed {
        Err(exit) => Err(exit),
        Ok(arguments) => Ok((parse(arguments)?, texts)),
    })
}

/// What was asked for when a record was begun.
pub(super) fn of_command(command: &[String]) -> Result<Request, UsageError> {
    let parsed = COMMAND.parse(&mut Parser::from_args(command.iter().skip(2)))?;
    parse(parsed.unwrap_or_default())
}

fn parse(arguments: Arguments) -> Result<Request, UsageError> {
    check(&arguments)?;
    let mode = if arguments.has("full") {
        Mode::Full
    } else {
        Mode::Quick
    };
    let usual = match mode {
        Mode::Quick => SpeedRows::Quick,
        Mode::Full => SpeedRows::Full,
    };
    let mut only: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (factor, values) in arguments.all("only", |text| {
        let (factor, values) = pair("only", text, "suite=aes-128-gcm")?;
        Ok((factor.to_owned(), names("only", values)?))
    })? {
        only.entry(factor).or_default().extend(values);
    }
    Ok(Request {
        list: arguments.has("list"),
        dry_run: arguments.has("dry-run"),
        quiet: arguments.has("quiet"),
        keep: arguments.has("keep"),
        mode,
        seed: arguments.one("seed", |text| {
            let seed = text.parse().ok();
            seed.ok_or_else(|| wrong("seed", text, "is no whole number", "7"))
        })?,
        repeats: arguments.number("repeats", REPEATS_MAX, "7")?,
        duration: arguments.one("duration", |text| {
            let time = quantity::duration(text).filter(|time| !time.is_zero());
            time.ok_or_else(|| wrong("duration", text, "is not a time", "2s"))
        })?,
        targets: arguments.one("targets", |text| names("targets", text))?,
        only,
        seating: Seating {
            server: arguments.one("server-cpus", |text| cpus("server-cpus", text))?,
            client: arguments.one("client-cpus", |text| cpus("client-cpus", text))?,
        },
        speeds: arguments.choice("speeds", &SPEEDS)?.unwrap_or(Some(usual)),
        record: arguments.path("record"),
        resume: arguments.path("resume"),
        scenario_folder: arguments.path("scenario-folder"),
        scenarios: arguments.texts()?,
        arguments,
    })
}

/// Flags that contradict each other.
fn check(arguments: &Arguments) -> Result<(), UsageError> {
    if arguments.has("quick") && arguments.has("full") {
        return Err(UsageError::new(
            "--quick and --full contradict each other",
            "leave out one of the two",
        ));
    }
    if !arguments.has("resume") {
        return Ok(());
    }
    let mut flags = arguments.names();
    let other = flags.find(|flag| !["resume", "quiet", "keep"].contains(flag));
    let other = other.map(|flag| format!("--{flag}"));
    match other.or_else(|| arguments.texts().ok()?.first().cloned()) {
        None => Ok(()),
        Some(other) => Err(UsageError::new(
            format!("{other} beside --resume"),
            "a run that is resumed goes by its record; leave the rest out",
        )),
    }
}

fn names(flag: &str, text: &str) -> Result<Vec<String>, UsageError> {
    let names = text.split(',').map(str::trim);
    let names: Vec<_> = names.map(ToOwned::to_owned).collect();
    if names.iter().any(String::is_empty) {
        let what = "is no list of names with commas between them";
        return Err(wrong(flag, text, what, "lariat,haproxy-tcp"));
    }
    Ok(names)
}

fn cpus(flag: &str, text: &str) -> Result<Vec<u16>, UsageError> {
    let cpus = quantity::cpu_list(text);
    cpus.ok_or_else(|| wrong(flag, text, "is no list of CPUs", "0,2-3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, String> {
        let mut parser = Parser::from_args(line.split_whitespace());
        let read = read(&mut parser).map_err(|error| error.to_string())?;
        let (request, words) = read.expect("no help");
        assert!(words.iter().eq(line.split_whitespace()));
        Ok(request)
    }

    #[test]
    fn everything_is_understood() {
        let request = parsed(
            "keys ./mine.toml --full --targets lariat,plain --only key=p256,rsa2048 --only \
             target=lariat --repeats 2 --duration 300ms --seed 9 --program plain=/x --server-cpus \
             0,2-3 --speeds none --record r.jsonl --keep -q",
        )
        .unwrap();
        assert_eq!(request.scenarios, ["keys", "./mine.toml"]);
        assert_eq!(request.only["key"], ["p256", "rsa2048"]);
        assert_eq!(request.seating.server, Some(vec![0, 2, 3]));
        assert_eq!((request.repeats, request.seed), (Some(2), Some(9)));
        assert_eq!((request.mode_name(), request.speeds), ("own", None));
        assert!(request.keep && request.quiet && request.mode == Mode::Full);
    }

    #[test]
    fn slips_have_remedies() {
        let fault = |line: &str| parsed(line).unwrap_err();
        assert!(fault("--repeats 0").contains("is no number from 1 to 1000"));
        assert!(fault("--duration 5").contains("for example: --duration 2s"));
        assert!(fault("--only key").contains("is not NAME=VALUE"));
        assert!(fault("--targets a,,b").contains("no list of names"));
        assert!(fault("--quick --full").contains("contradict"));
        assert!(fault("--resume x keys").contains("keys beside --resume"));
        assert!(fault("--resume x --full").contains("--full beside --resume"));
        assert!(fault("--server-cpus none").contains("no list of CPUs"));
    }

    #[test]
    fn a_command_is_read_again() {
        let words = ["lariat-lab", "run", "keys", "--seed", "3"].map(str::to_owned);
        let request = of_command(&words).unwrap();
        assert_eq!(request.scenarios, ["keys"]);
        assert_eq!(request.seed, Some(3));
    }
}
