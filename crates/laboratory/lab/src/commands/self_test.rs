//! Runs `lariat-lab self-test`: checks the laboratory's findings where the truth is known.
//!
//! Each trial is a run with a record of its own in a folder, so that it can be stopped, resumed,
//! and shown by `report`. The load and the statistics are those of every run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint, value_parser};
use measure::experiment::Experiment;
use report::experiment::{Finding, findings};

use super::run::carry_out_alone;
use super::run_arguments::{RunArguments, SELF_TEST_PLANTED};
use super::values::{SOME_TIME, time};
use crate::console::{Console, print};
use crate::fault::{Exit, LabFault, LabResult};
use crate::interrupt::{Cancel, Interrupt};
use crate::run::journal;
use crate::run::scenario::SELF_TEST;

/// Find out what the laboratory finds on this host, and what it misses
///
/// Two equal servers are compared, of which one burns 0, 3, 7 or 15 % more CPU in proportion to
/// what it uses. Printed is what `run --until ±3%` says of them, and how often it is right.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  lariat-lab self-test --quick     # three trials

Ctrl-C ends it; the same command goes on where it ended.")]
pub(super) struct SelfTestArguments {
    /// Folder of the records, one for each trial
    #[arg(value_name = "DIR", default_value = "lariat-self-test", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
    /// Trials, each of 0, 3, 7 and 15 % [default: 20]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=TRIALS_MAX))]
    times: Option<u16>,
    /// Three trials, of at most 8 minutes each
    #[arg(long)]
    quick: bool,
    /// How long a trial of four comparisons goes on at most [default: 40m]
    #[arg(long, value_name = "TIME")]
    #[arg(value_parser = time((SOME_TIME, Duration::MAX), "a time", "40m"))]
    time_max: Option<Duration>,
    /// Print nothing but the table and failures
    #[arg(short, long)]
    quiet: bool,
}

/// Limit of trials, because records of more would not have sorted names.
const TRIALS_MAX: i64 = 999;

/// Ten minutes for each of the four comparisons of a trial; two with `--quick`.
const TIME_MAX: (Duration, Duration) = (Duration::from_secs(2400), Duration::from_secs(480));

pub(super) fn run(arguments: SelfTestArguments, console: Console) -> LabResult<Exit> {
    let (times, time_max) = if arguments.quick { (3, TIME_MAX.1) } else { (20, TIME_MAX.0) };
    let times = arguments.times.unwrap_or(times);
    let time_max = arguments.time_max.unwrap_or(time_max);
    let folder = &arguments.folder;
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    let interrupt = Interrupt::new(console, "Ending; what was measured is in the records.")?;
    if !arguments.quiet {
        console.say(format_args!(
            "{times} trial{}, each in {} at most; the records are in {}",
            if times == 1 { "" } else { "s" },
            journal::minutes(time_max),
            folder.display()
        ));
    }
    let mut trials = Vec::new();
    for number in 1..=times {
        let path = folder.join(format!("trial-{number:03}.jsonl"));
        let is_over = measure_trial(&path, time_max, arguments.quiet, console, &interrupt)?;
        if path.exists() {
            trials.push(read(&path)?);
        }
        if !is_over {
            break;
        }
    }
    let exit = print(table(&trials))?;
    if trials.iter().flat_map(findings).all(|finding| finding.effect.interval.is_none()) {
        console.hint("no trial had time for two rounds: a longer --time-max");
    }
    Ok(if interrupt.is_requested() { Exit::Partial } else { exit })
}

/// Runs a trial and reports whether it was completed.
fn measure_trial(
    path: &Path,
    time_max: Duration,
    quiet: bool,
    console: Console,
    interrupt: &Interrupt,
) -> LabResult<bool> {
    let name = path.to_string_lossy();
    let time_max = format!("{}ms", time_max.as_millis());
    let quiet = quiet.then_some("--quiet");
    let record = path.exists().then(|| read(path)).transpose()?;
    let words = match record.map(|record| record.ended) {
        Some(Some(ended)) if ended.is_complete => return Ok(true),
        Some(_) => vec!["--resume", &*name],
        None => {
            let rule = ["--until", "±3%", "--time-max", &time_max, "--speeds", "none"];
            [&[SELF_TEST], &rule[..], &["--record", &name]].concat()
        }
    };
    let words = ["lariat-lab", "run"].into_iter().chain(words).chain(quiet);
    let command: Vec<_> = words.map(str::to_owned).collect();
    carry_out_alone(&RunArguments::of_command(&command)?, command, console, interrupt.clone())?;
    Ok(!interrupt.is_requested())
}

fn read(path: &Path) -> LabResult<Experiment> {
    let file = File::open(path).map_err(|error| unwritable(path, &error))?;
    let (experiment, _) = journal::read(path, &file).map_err(|fault| {
        LabFault::new(fault.message, "take that file away, or name another folder")
    })?;
    Ok(experiment)
}

fn unwritable(path: &Path, error: &std::io::Error) -> LabFault {
    let message = format!("{}: {error}", path.display());
    LabFault::failed(message, "name a folder with room that we may write to")
}

/// Findings of trials of one planted share.
#[derive(Debug, Default)]
struct PlantedTally {
    trials: usize,
    worse: usize,
    better: usize,
    equal: usize,
    not_known: usize,
    /// Number of intervals that contained the truth.
    held: usize,
    rounds: usize,
    /// Sum of the logarithms of ratios.
    logarithms: f64,
}

impl PlantedTally {
    fn add(&mut self, finding: &Finding, truth: f64) {
        let Some((from, to)) = finding.effect.interval else {
            return;
        };
        self.trials += 1;
        match finding.word {
            "worse" => self.worse += 1,
            "better" => self.better += 1,
            "equal" => self.equal += 1,
            _ => self.not_known += 1,
        }
        self.held += usize::from(from <= truth && truth <= to);
        self.rounds += finding.effect.count;
        self.logarithms += finding.effect.value.ln();
    }
}

fn table(trials: &[Experiment]) -> String {
    let mut tallies: BTreeMap<u32, PlantedTally> = BTreeMap::new();
    for finding in trials.iter().flat_map(findings) {
        let planted = finding.values.get(SELF_TEST_PLANTED).and_then(|name| name.parse().ok());
        if let Some(planted) = planted {
            let truth = 1.0 + f64::from(planted) / 100.0;
            tallies.entry(planted).or_default().add(&finding, truth);
        }
    }
    let mut text = String::from(
        "planted  trials  worse  equal  not known  better  truth held  rounds  mean found\n",
    );
    for (planted, tally) in tallies.iter().filter(|(_, tally)| tally.trials > 0) {
        let PlantedTally { trials, worse, equal, not_known, better, held, .. } = tally;
        let rounds = tally.rounds as f64 / *trials as f64;
        let mean = ((tally.logarithms / *trials as f64).exp() - 1.0) * 100.0;
        text += &format!(
            "{planted:>5} %  {trials:>6}  {worse:>5}  {equal:>5}  {not_known:>9}  {better:>6}  \
             {held:>10}  {rounds:>6.0}  {mean:>+8.1} %\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use measure::effect::Effect;
    use measure::metric::Metric;

    use super::*;

    fn finding(word: &'static str, pairs: &[(f64, f64)]) -> Finding {
        let effect = Effect::of_metric(Metric::ServerCpu, pairs).unwrap();
        Finding { values: BTreeMap::new(), word, effect }
    }

    #[test]
    fn trials_are_counted_by_what_was_said_and_what_is_true() {
        let mut tally = PlantedTally::default();
        let found = [(1.06, 1.0), (1.07, 1.0), (1.08, 1.0)];
        tally.add(&finding("worse", &found), 1.07);
        tally.add(&finding("worse", &found), 1.15);
        tally.add(&finding("not-known", &[(0.9, 1.0), (1.3, 1.0)]), 1.07);
        // A single round has no interval and does not count as a trial.
        tally.add(&finding("too-few-rounds", &[(1.0, 1.0)]), 1.0);
        assert_eq!((tally.trials, tally.worse, tally.not_known, tally.held), (3, 2, 1, 2));
        assert_eq!(tally.rounds, 8);
    }
}
