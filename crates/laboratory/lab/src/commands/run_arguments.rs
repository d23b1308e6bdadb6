//! The arguments of `lariat-lab run`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueHint, value_parser};
use load::speed::SpeedRows;
use measure::quantity::nanoseconds;
use measure::record::HostReport;
use measure::until::StoppingRule;
use options::command_line::proposals_and_paths;

use super::values::{
    BuildArguments, CpuList, Pair, SOME_TIME, SpeedChoice, cpu_list, pair, time, value,
};
use crate::fault::{LabFault, LabResult};
use crate::run::scenario;
use crate::run::scenario::expansion::ScenarioOverrides;

/// Measure servers side by side, and record the results
///
/// A scenario is a question: what a cipher costs, what a second core brings. For each of its
/// configurations a server is started, loaded and ended; each measurement is recorded at once. A
/// scenario that ends in .toml is a file of your own: docs/guide/lab.md describes it.
#[derive(Debug, Default, Parser)]
#[command(override_usage = "lariat-lab run SCENARIO… [OPTIONS]
       lariat-lab run all --full
       lariat-lab run --resume RECORD.jsonl")]
#[command(after_help = "\
Examples:
  Which terminator costs least on one core? Under five minutes:
    lariat-lab run implementations

  Two of them, and one cipher:
    lariat-lab run ciphers --targets lariat,haproxy-tcp --only suite=aes-128-gcm

  Does my build need more CPU than the packaged one? Until it is known within 3 %:
    lariat-lab run terminate --targets lariat,hitch --only connection=full-13 --until ±3%

  The programs of Debian sid, which `lariat-lab targets --install --suite sid` installs:
    lariat-lab run implementations --suite sid

Ctrl-C ends a run; --resume continues it. `lariat-lab report RECORD.jsonl -o page.html` makes a
page.")]
pub(super) struct RunArguments {
    /// Scenarios: names, files of your own, or all
    #[arg(value_name = "SCENARIO", add = proposals_and_paths(scenario_names))]
    pub(super) scenarios: Vec<String>,
    /// List the scenarios that there are, and how long they take
    #[arg(long)]
    pub(super) list: bool,
    /// Print what would be done, with the command that makes the load of each configuration
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Few repeats of the main configurations [default]
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// All configurations, more often
    #[arg(long)]
    pub(super) full: bool,
    /// Targets; the others are compared with the first [default: the scenario's]
    #[arg(long, alias = "peers", value_name = "NAME,…", value_parser = names)]
    targets: Option<NameList>,
    /// Only configurations of these values; target is a factor too; may be given again
    #[arg(long, value_name = "FACTOR=VALUE,…", value_parser = pair("suite=aes-128-gcm"))]
    only: Vec<Pair>,
    /// How often each configuration is measured [default: the scenario's]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1000))]
    repeats: Option<u32>,
    /// Repeat until intervals of main metrics reach no farther to either side, 17 times at least
    #[arg(long, value_name = "±PERCENT", conflicts_with = "repeats")]
    #[arg(value_parser = value(reach, "a percentage from ±0.1% to ±50%", "±3%"))]
    until: Option<f64>,
    /// With --until: begin no round of a scenario after this time [default: 10m]
    #[arg(long, value_name = "TIME", requires = "until")]
    #[arg(value_parser = time((SOME_TIME, Duration::MAX), "a time", "20m"))]
    time_max: Option<Duration>,
    /// How long each load lasts [default: the scenario's]
    #[arg(long, value_name = "TIME")]
    #[arg(value_parser = time((SOME_TIME, Duration::MAX), "a time", "2s"))]
    duration: Option<Duration>,
    #[command(flatten)]
    pub(super) builds: BuildArguments,
    /// CPUs of servers, as in 0,2-3 [default: half of the cores]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    server_cpus: Option<CpuList>,
    /// CPUs of the load and of the origin behind servers [default: the other half]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    client_cpus: Option<CpuList>,
    /// How long keys and ciphers of this host are measured first [default: quick; full with --full]
    #[arg(long)]
    speeds: Option<SpeedChoice>,
    /// Repeat the order of configurations of another run [default: by the clock; it is recorded]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Path of the record [default: lariat-run-DATE-TIME.jsonl in the working directory]
    #[arg(long, value_name = "RECORD.jsonl", value_hint = ValueHint::AnyPath)]
    pub(super) record: Option<PathBuf>,
    /// Resume a run that was stopped, or measure again what failed in one that is complete
    #[arg(long, value_name = "RECORD.jsonl", value_hint = ValueHint::AnyPath)]
    #[arg(conflicts_with_all = OF_NEW_RUNS.split(' '))]
    pub(super) resume: Option<PathBuf>,
    /// Scenarios in place of ours
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) scenario_folder: Option<PathBuf>,
    /// Keep the folder with the configurations of servers
    #[arg(long)]
    pub(super) keep: bool,
    /// Print nothing but failures
    #[arg(short, long)]
    pub(super) quiet: bool,
}

/// Arguments of new runs: one that is resumed goes by its record.
const OF_NEW_RUNS: &str = "scenarios list dry_run quick full targets only repeats until time_max \
                           duration program target_folder suite root root_folder server_cpus \
                           client_cpus speeds seed record";

/// Names that one flag lists.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct NameList(Vec<String>);

fn names(text: &str) -> Result<NameList, &'static str> {
    let names: Vec<_> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        return Err("no list of names\nhint: for example: lariat,haproxy-tcp");
    }
    Ok(NameList(names))
}

/// The factor of the self-test, whose values are percentages of CPU.
pub(super) const SELF_TEST_PLANTED: &str = "planted";

/// `±3%`, as a part of 1; the sign need not be typed.
fn reach(text: &str) -> Option<f64> {
    let text = text.trim_start_matches(['±', '+', '/', '-']).strip_suffix('%')?;
    let percent: f64 = text.trim_end().parse().ok()?;
    (0.1..=50.0).contains(&percent).then_some(percent / 100.0)
}

/// A comparison of two targets on a shared host takes less, mostly.
const TIME_MAX: Duration = Duration::from_secs(600);

fn scenario_names() -> Vec<String> {
    scenario::list(None).unwrap_or_default().into_iter().map(|one| one.name).collect()
}

impl RunArguments {
    pub(super) fn of_mode(full: bool) -> Self {
        Self { full, ..Self::default() }
    }

    /// The same as expansion takes it.
    pub(super) fn asked(&self, host: &HostReport) -> ScenarioOverrides {
        let lacking = host.abilities.iter().filter(|ability| !ability.is_there);
        let lacking = lacking.map(|ability| (ability.name.clone(), ability.why.clone()));
        ScenarioOverrides {
            is_quick: !self.full,
            targets: self.targets.clone().map(|NameList(names)| names),
            repeats: self.repeats,
            until: self.until.map(|reach| StoppingRule {
                reach,
                time_max_ns: nanoseconds(self.time_max.unwrap_or(TIME_MAX)),
            }),
            duration: self.duration,
            only: self.only(),
            lacks: lacking.collect(),
        }
    }

    pub(super) fn targets(&self) -> Vec<String> {
        let NameList(mut names) = self.targets.clone().unwrap_or_default();
        names.extend(self.only().remove("target").unwrap_or_default());
        names
    }

    fn only(&self) -> BTreeMap<String, Vec<String>> {
        let mut only: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (factor, values) in &self.only {
            let values = values.split(',').map(|value| value.trim().to_owned());
            only.entry(factor.clone()).or_default().extend(values);
        }
        only
    }

    /// The CPUs of servers, and those of the load.
    pub(super) fn cpus(&self) -> [Option<&[u16]>; 2] {
        [&self.server_cpus, &self.client_cpus]
            .map(|list| list.as_ref().map(|CpuList(cpus)| cpus.as_slice()))
    }

    /// The keys and ciphers that are measured first, if any.
    pub(super) fn speeds(&self) -> Option<SpeedRows> {
        let usual = if self.full { SpeedChoice::Full } else { SpeedChoice::Quick };
        self.speeds.unwrap_or(usual).rows()
    }

    pub(super) fn mode_name(&self) -> &'static str {
        match self.full {
            _ if self.repeats.is_some() || self.until.is_some() || self.duration.is_some() => "own",
            false => "quick",
            true => "full",
        }
    }

    /// The arguments by which a record was begun, from the words of its command.
    pub(super) fn of_command(command: &[String]) -> LabResult<Self> {
        let read = Self::try_parse_from(command.iter().skip(1));
        read.map_err(|error| {
            let hint = "another version of lariat-lab began the record: begin anew";
            LabFault::new(error.to_string(), hint)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::values::read;

    #[test]
    fn everything_is_understood() {
        let arguments: RunArguments = read(
            "keys ./mine.toml --full --targets lariat,plain --only key=p256,rsa2048 --only \
             target=lariat --repeats 2 --duration 300ms --seed 9 --program plain=/x --server-cpus \
             0,2-3 --speeds none --record r.jsonl --keep -q",
        )
        .unwrap();
        assert_eq!(arguments.scenarios, ["keys", "./mine.toml"]);
        assert_eq!(arguments.only()["key"], ["p256", "rsa2048"]);
        assert_eq!(arguments.targets(), ["lariat", "plain", "lariat"]);
        assert_eq!(arguments.cpus(), [Some(&[0, 2, 3][..]), None]);
        assert_eq!((arguments.repeats, arguments.seed), (Some(2), Some(9)));
        assert_eq!((arguments.mode_name(), arguments.speeds()), ("own", None));
        assert!(arguments.keep && arguments.quiet && arguments.full);
    }

    #[test]
    fn slips_have_remedies() {
        for (line, remedy) in [
            ("--repeats 0", "0 is not in 1..=1000"),
            ("--until 3", "not a percentage"),
            ("--until ±0%", "for example: ±3%"),
            ("--until 3% --repeats 4", "cannot be used with"),
            ("--time-max 5m", "--until <±PERCENT>"),
            ("--duration 5", "for example: 2s"),
            ("--only key", "not NAME=VALUE"),
            ("--targets a,,b", "no list of names"),
            ("--quick --full", "cannot be used with"),
            ("--resume x keys", "'--resume <RECORD.jsonl>' cannot be used with"),
            ("--resume x --full", "cannot be used with"),
            ("--suite sid --root /x", "cannot be used with"),
            ("--server-cpus none", "not a list of CPUs"),
        ] {
            let fault = read::<RunArguments>(line).unwrap_err();
            assert!(fault.contains(remedy), "{line}: {fault}");
        }
    }
}
