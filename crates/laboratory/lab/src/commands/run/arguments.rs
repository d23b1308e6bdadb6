//! The arguments of `lariat-lab run`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};
use load::options::value::{self, OrNone};
use measure::host::HostReport;

use crate::experiment::placement::Seating;
use crate::scenario::cells::Asked;
use crate::usage::{UsageError, nearest, renamed};

/// Flags, for slips.
const FLAGS: [&str; 20] = [
    "quick",
    "full",
    "targets",
    "only",
    "repeats",
    "duration",
    "seed",
    "program",
    "server-cpus",
    "client-cpus",
    "speeds",
    "record",
    "resume",
    "scenario-folder",
    "target-folder",
    "keep",
    "list",
    "dry-run",
    "quiet",
    "help",
];

/// More repeats than this are a slip.
const REPEATS_MAX: u32 = 1000;

/// How long a run may take.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Mode {
    /// Few repeats of the main cells.
    #[default]
    Quick,
    /// All cells.
    Full,
}

/// How long keys and ciphers are measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Speeds {
    /// Not at all.
    None,
    /// The main ones.
    Quick,
    /// All.
    Full,
}

/// What was typed.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    pub(super) help: bool,
    pub(super) list: bool,
    pub(super) dry_run: bool,
    pub(super) quiet: bool,
    pub(super) keep: bool,
    pub(super) mode: Mode,
    /// The order of cells; `None` = chosen by the clock.
    pub(super) seed: Option<u64>,
    pub(super) repeats: Option<u32>,
    pub(super) duration: Option<Duration>,
    pub(super) targets: Option<Vec<String>>,
    pub(super) only: BTreeMap<String, Vec<String>>,
    pub(super) programs: BTreeMap<String, PathBuf>,
    pub(super) seating: Seating,
    pub(super) speeds: Option<Speeds>,
    pub(super) record: Option<PathBuf>,
    pub(super) resume: Option<PathBuf>,
    pub(super) scenario_folder: Option<PathBuf>,
    pub(super) target_folder: Option<PathBuf>,
    pub(super) scenarios: Vec<String>,
}

impl Default for Typed {
    fn default() -> Self {
        Self {
            help: false,
            list: false,
            dry_run: false,
            quiet: false,
            keep: false,
            mode: Mode::Quick,
            seed: None,
            repeats: None,
            duration: None,
            targets: None,
            only: BTreeMap::new(),
            programs: BTreeMap::new(),
            seating: Seating::default(),
            speeds: None,
            record: None,
            resume: None,
            scenario_folder: None,
            target_folder: None,
            scenarios: Vec::new(),
        }
    }
}

impl Typed {
    /// What scenarios are asked for.
    pub(super) fn asked(&self, host: &HostReport) -> Asked {
        let lacking = host.abilities.iter().filter(|ability| !ability.is_there);
        Asked {
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

    /// As records name it.
    pub(super) fn mode_name(&self) -> &'static str {
        match self.mode {
            _ if self.repeats.is_some() || self.duration.is_some() => "own",
            Mode::Quick => "quick",
            Mode::Full => "full",
        }
    }
}

/// What was typed, and the words of it.
pub(super) fn read(parser: &mut Parser) -> Result<(Typed, Vec<String>), UsageError> {
    let words: Vec<OsString> = parser.raw_args()?.collect();
    let told = words.iter().map(|word| word.to_string_lossy().into_owned());
    let told = told.collect();
    parse(&mut Parser::from_args(words)).map(|typed| (typed, told))
}

/// What was typed when a record was begun.
pub(super) fn of_command(command: &[String]) -> Result<Typed, UsageError> {
    parse(&mut Parser::from_args(command.iter().skip(2)))
}

fn parse(parser: &mut Parser) -> Result<Typed, UsageError> {
    let mut typed = Typed::default();
    let mut seen = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') => typed.help = true,
            Arg::Short('q') => typed.quiet = true,
            Arg::Value(name) => typed.scenarios.push(name.string()?),
            Arg::Long(flag) => {
                let flag = known(flag)?;
                seen.push(flag);
                typed.take(flag, parser)?;
            }
            other @ Arg::Short(_) => return Err(other.unexpected().into()),
        }
    }
    check(&typed, &seen)?;
    Ok(typed)
}

fn known(flag: &str) -> Result<&'static str, UsageError> {
    if let Some(known) = FLAGS.into_iter().find(|known| *known == flag) {
        return Ok(known);
    }
    let hint = match (renamed(flag), nearest(flag, FLAGS)) {
        (Some(new), _) => format!("it is --{new} now"),
        (None, Some(near)) => format!("did you mean --{near}?"),
        (None, None) => "`lariat-lab help run` lists the flags".to_owned(),
    };
    Err(UsageError::new(
        format!("there is no flag --{}", flag.escape_debug()),
        hint,
    ))
}

/// What stands twice or contradicts.
fn check(typed: &Typed, seen: &[&str]) -> Result<(), UsageError> {
    for (index, flag) in seen.iter().enumerate() {
        if !["only", "program"].contains(flag) && seen[..index].contains(flag) {
            return Err(UsageError::new(
                format!("--{flag} stands twice"),
                "leave out one of the two",
            ));
        }
    }
    if seen.contains(&"quick") && seen.contains(&"full") {
        return Err(UsageError::new(
            "--quick and --full contradict each other",
            "leave out one of the two",
        ));
    }
    if typed.resume.is_none() {
        return Ok(());
    }
    let allowed = ["resume", "quiet", "keep", "help"];
    let other = seen.iter().find(|flag| !allowed.contains(flag));
    let other = other.map(|flag| format!("--{flag}"));
    match other.or_else(|| typed.scenarios.first().cloned()) {
        None => Ok(()),
        Some(other) => Err(UsageError::new(
            format!("{other} beside --resume"),
            "what is taken up goes by what its record says; leave the rest out",
        )),
    }
}

impl Typed {
    fn take(&mut self, flag: &'static str, parser: &mut Parser) -> Result<(), UsageError> {
        match flag {
            "help" => self.help = true,
            "list" => self.list = true,
            "dry-run" => self.dry_run = true,
            "quiet" => self.quiet = true,
            "keep" => self.keep = true,
            "quick" => self.mode = Mode::Quick,
            "full" => self.mode = Mode::Full,
            _ => {
                let value = parser.value()?;
                self.take_value(flag, value)?;
            }
        }
        Ok(())
    }

    fn take_value(&mut self, flag: &'static str, value: OsString) -> Result<(), UsageError> {
        match flag {
            "record" => self.record = Some(value.into()),
            "resume" => self.resume = Some(value.into()),
            "scenario-folder" => self.scenario_folder = Some(value.into()),
            "target-folder" => self.target_folder = Some(value.into()),
            _ => self.take_text(flag, &value.string()?)?,
        }
        Ok(())
    }

    fn take_text(&mut self, flag: &'static str, text: &str) -> Result<(), UsageError> {
        match flag {
            "targets" => self.targets = Some(names(flag, text)?),
            "repeats" => {
                let repeats = text
                    .parse()
                    .ok()
                    .filter(|count| (1..=REPEATS_MAX).contains(count));
                self.repeats = Some(repeats.ok_or_else(|| {
                    wrong(flag, text, "is no number from 1 to 1000", "--repeats 7")
                })?);
            }
            "seed" => {
                let seed = text.parse().ok();
                let wrong = || wrong(flag, text, "is no whole number", "--seed 7");
                self.seed = Some(seed.ok_or_else(wrong)?);
            }
            "duration" => {
                let time = value::some_time(text).ok();
                self.duration =
                    Some(time.ok_or_else(|| wrong(flag, text, "is not a time", "--duration 2s"))?);
            }
            "server-cpus" => self.seating.server = Some(cpus(flag, text)?),
            "client-cpus" => self.seating.client = Some(cpus(flag, text)?),
            "speeds" => self.speeds = Some(speeds(text)?),
            "only" => {
                let (factor, levels) = pair(flag, text, "--only suite=aes-128-gcm")?;
                self.only
                    .entry(factor.to_owned())
                    .or_default()
                    .extend(names(flag, levels)?);
            }
            _ => {
                let (name, path) = pair(flag, text, "--program haproxy-tcp=/opt/bin/haproxy")?;
                self.programs.insert(name.to_owned(), path.into());
            }
        }
        Ok(())
    }
}

fn wrong(flag: &str, text: &str, what: &str, example: &str) -> UsageError {
    let typed = text.escape_debug();
    UsageError::new(
        format!("--{flag}: `{typed}` {what}"),
        format!("for example: {example}"),
    )
}

fn names(flag: &str, text: &str) -> Result<Vec<String>, UsageError> {
    let names = text.split(',').map(str::trim);
    let names: Vec<_> = names.map(ToOwned::to_owned).collect();
    match names.iter().any(String::is_empty) {
        true => Err(wrong(
            flag,
            text,
            "is no list of names with commas between them",
            "--targets lariat,haproxy-tcp",
        )),
        false => Ok(names),
    }
}

fn pair<'t>(flag: &str, text: &'t str, example: &str) -> Result<(&'t str, &'t str), UsageError> {
    let halves = text.split_once('=');
    let halves = halves.filter(|(name, value)| !name.is_empty() && !value.is_empty());
    halves.ok_or_else(|| wrong(flag, text, "is not NAME=VALUE", example))
}

fn cpus(flag: &str, text: &str) -> Result<Vec<u16>, UsageError> {
    match value::cpus(text) {
        Ok(OrNone::This(cpus)) => Ok(cpus),
        _ => {
            let example = format!("--{flag} 0,2-3");
            Err(wrong(flag, text, "is no list of CPUs", &example))
        }
    }
}

fn speeds(text: &str) -> Result<Speeds, UsageError> {
    match text {
        "none" => Ok(Speeds::None),
        "quick" => Ok(Speeds::Quick),
        "full" => Ok(Speeds::Full),
        _ => Err(wrong(
            "speeds",
            text,
            "is none of none, quick, full",
            "--speeds none",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Typed, String> {
        let mut parser = Parser::from_args(line.split_whitespace());
        let read = read(&mut parser).map_err(|error| error.to_string());
        read.map(|(typed, words)| {
            assert_eq!(words.join(" "), line);
            typed
        })
    }

    #[test]
    fn everything_is_understood() {
        let typed = parsed(
            "keys ./mine.toml --full --targets lariat,plain --only key=p256,rsa2048 --only \
             target=lariat --repeats 2 --duration 300ms --seed 9 --program plain=/x --server-cpus \
             0,2-3 --speeds none --record r.jsonl --keep -q"
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .as_str(),
        )
        .unwrap();
        assert_eq!(typed.scenarios, ["keys", "./mine.toml"]);
        assert_eq!(typed.only["key"], ["p256", "rsa2048"]);
        assert_eq!(typed.seating.server, Some(vec![0, 2, 3]));
        assert_eq!((typed.repeats, typed.seed), (Some(2), Some(9)));
        assert_eq!(typed.mode_name(), "own");
        assert!(typed.keep && typed.quiet && typed.mode == Mode::Full);
    }

    #[test]
    fn slips_have_remedies() {
        let fault = |line: &str| parsed(line).unwrap_err();
        assert!(fault("--ful").contains("did you mean --full?"));
        assert!(fault("--repeats 0").contains("is no number from 1 to 1000"));
        assert!(fault("--duration 5").contains("for example: --duration 2s"));
        assert!(fault("--only key").contains("is not NAME=VALUE"));
        assert!(fault("--targets a,,b").contains("no list of names"));
        assert!(fault("--seed 1 --seed 2").contains("--seed stands twice"));
        assert!(fault("--quick --full").contains("contradict"));
        assert!(fault("--resume x keys").contains("keys beside --resume"));
        assert!(fault("--resume x --full").contains("--full beside --resume"));
        assert!(fault("--server-cpus none").contains("no list of CPUs"));
        assert!(fault("--speeds fast").contains("none of none, quick, full"));
    }

    #[test]
    fn a_command_is_read_again() {
        let words = ["lariat-lab", "run", "keys", "--seed", "3"].map(str::to_owned);
        let typed = of_command(&words).unwrap();
        assert_eq!(typed.scenarios, ["keys"]);
        assert_eq!(typed.seed, Some(3));
    }
}
