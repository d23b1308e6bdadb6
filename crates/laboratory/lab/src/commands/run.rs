//! `lariat-lab run`: from the names of scenarios to a record of them.
//!
//! Owns the order of things: everything that can be wrong is told before the first server starts.

mod arguments;
mod listing;

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use lexopt::Parser;
use load::speed::Rows;
use measure::experiment::{self, Event, Moment, Placement, Way};
use measure::host::HostReport;
use measure::record::Tool;

use self::arguments::{Mode, Speeds, Typed};
use super::help;
use crate::exit::Exit;
use crate::experiment::fielded::Fielded;
use crate::experiment::journal::{Journal, JournalFault};
use crate::experiment::needs::Means;
use crate::experiment::{Experiment, Past, Tally, now, placement};
use crate::host::{self, Timing};
use crate::interrupt::Interrupt;
use crate::load::complaint::{self, Source};
use crate::load::date::Date;
use crate::process::scratch::Scratch;
use crate::scenario::catalogue::{self as scenarios, Listed};
use crate::scenario::cells::{self, Contender, Expanded};
use crate::talk::{Talk, print};
use crate::target::catalogue as targets;
use crate::target::form::Target;
use crate::usage::UsageError;

/// Between two looks whether a signal has come.
const PAUSE: Duration = Duration::from_millis(20);

/// Said at the first signal.
const ENDING: &str = "Ending; what was read is in the record.";

/// Runs scenarios, lists them, or tells what it would do.
pub(super) fn run(parser: &mut Parser, talk: Talk) -> Result<Exit, UsageError> {
    let (typed, words) = arguments::read(parser)?;
    if typed.help {
        return Ok(print(help::command("run").unwrap_or_default()));
    }
    if let Some(path) = &typed.resume {
        return Ok(resume(path, &typed, words, talk));
    }
    if typed.list {
        return list(&typed, talk);
    }
    if typed.scenarios.is_empty() {
        return Err(UsageError::new(
            "there is no scenario",
            "for example: lariat-lab run implementations; `lariat-lab run --list` lists them",
        ));
    }
    match prepare(&typed, talk) {
        Err(exit) => exit,
        Ok(prepared) if typed.dry_run => Ok(print(listing::plan(
            &prepared.expanded,
            &prepared.fielded,
            &prepared.placement,
        ))),
        Ok(prepared) => Ok(begin(prepared, &typed, words, talk)),
    }
}

/// What lies ready before the first server starts.
struct Prepared {
    fielded: Vec<Fielded>,
    expanded: Vec<Expanded>,
    placement: Placement,
    host: HostReport,
}

/// Told already, or still to be told.
type Refused = Result<Exit, UsageError>;

/// Everything that can be wrong about what was asked.
fn prepare(typed: &Typed, talk: Talk) -> Result<Prepared, Refused> {
    let targets = targets(typed, talk)?;
    let listed = scenarios::choose(&typed.scenarios, typed.scenario_folder.as_deref());
    let listed = listed.map_err(|fault| Err(UsageError::new(fault.to_string(), fault.hint())))?;
    let host = host::report(None);
    let placement = placement::place(&typed.seating, &host.cores).map_err(|denied| {
        let allowed: Vec<_> = host.cores.iter().map(|core| core.cpu.to_string()).collect();
        Err(UsageError::new(
            denied.to_string(),
            format!("it may use {}", allowed.join(",")),
        ))
    })?;
    let expanded = expand(&listed, &targets, typed, &host, talk)?;
    Ok(Prepared {
        fielded: field(targets, &expanded, typed),
        expanded,
        placement,
        host,
    })
}

/// All targets there are.
fn targets(typed: &Typed, talk: Talk) -> Result<Vec<Target>, Refused> {
    let targets = targets::load_all(typed.target_folder.as_deref()).map_err(|fault| {
        talk.error(fault);
        talk.hint(
            "--target-folder names a folder with a folder for each target, as targets/ is one",
        );
        Ok(Exit::Usage)
    })?;
    let only = typed.only.get("target").into_iter().flatten();
    let asked = typed.targets.iter().flatten();
    for name in asked.chain(only).chain(typed.programs.keys()) {
        listing::check_target(name, &targets).map_err(Err)?;
    }
    Ok(targets)
}

/// The programs of those targets that take part.
fn field(targets: Vec<Target>, expanded: &[Expanded], typed: &Typed) -> Vec<Fielded> {
    let mut fielded = Vec::new();
    let mut others = targets;
    for cell in expanded.iter().flat_map(|one| &one.cells) {
        let place = others
            .iter()
            .position(|target| target.name == cell.cell.target);
        if let Some(place) = place {
            fielded.push(Fielded::find(others.remove(place), &typed.programs));
        }
    }
    fielded
}

/// Cells of all scenarios. Files that are wrong are told all at once.
fn expand(
    listed: &[Listed],
    targets: &[Target],
    typed: &Typed,
    host: &HostReport,
    talk: Talk,
) -> Result<Vec<Expanded>, Refused> {
    let asked = typed.asked(host);
    let contenders = targets.iter().map(|target| Contender {
        target,
        is_given: typed.programs.contains_key(&target.name),
    });
    let contenders: Vec<_> = contenders.collect();
    let mut forms = Vec::new();
    let mut is_wrong = false;
    let mut tell = |listed: &Listed, wrong: &[complaint::Complaint]| {
        let (path, text) = (&listed.path, &listed.text);
        complaint::tell(wrong, Some(Source { path, text }), talk);
        is_wrong = true;
    };
    for one in listed {
        match one.form() {
            Ok(form) => forms.push((one, form)),
            Err(wrong) => tell(one, &wrong),
        }
    }
    listing::check_only(&asked.only, forms.iter().map(|(_, form)| form)).map_err(Err)?;
    let mut expanded = Vec::new();
    for (one, form) in &forms {
        match cells::expand(&one.name, form, &contenders, &asked) {
            Ok(cells) => expanded.push(cells),
            Err(wrong) => tell(one, &wrong),
        }
    }
    match is_wrong {
        true => Err(Ok(Exit::Usage)),
        false => Ok(expanded),
    }
}

fn list(typed: &Typed, talk: Talk) -> Result<Exit, UsageError> {
    let prepared = || {
        let listed = scenarios::list(typed.scenario_folder.as_deref());
        let listed =
            listed.map_err(|fault| Err(UsageError::new(fault.to_string(), fault.hint())))?;
        let targets = targets(typed, talk)?;
        let host = HostReport::default();
        let of_mode = |mode| {
            let mode = Typed {
                mode,
                ..Typed::default()
            };
            expand(&listed, &targets, &mode, &host, talk)
        };
        Ok((of_mode(Mode::Quick)?, of_mode(Mode::Full)?))
    };
    match prepared() {
        Err(refused) => refused,
        Ok((quick, full)) => Ok(print(listing::list(&quick, &full))),
    }
}

/// A run of its own.
fn begin(mut prepared: Prepared, typed: &Typed, words: Vec<String>, talk: Talk) -> Exit {
    let date = Date::of(SystemTime::now());
    let begun = Ground::new(typed, talk).and_then(|ground| {
        let journal = Journal::create(typed.record.as_deref(), date);
        let mut journal = journal.map_err(|fault| refuse(&fault, talk))?;
        let plan = plan(&mut prepared, typed, words, date, &ground);
        let first = Event::Began(Box::new(plan.clone()));
        let written = journal.append(&first);
        written.map_err(|fault| refuse(&fault, talk))?;
        carry_out(&prepared, &plan, journal, Past::default(), typed, &ground)
    });
    begun.unwrap_or_else(|exit| exit)
}

/// What a run stands on: a folder, and an ear for signals.
struct Ground {
    scratch: Scratch,
    stop: Interrupt,
    talk: Talk,
}

impl Ground {
    fn new(typed: &Typed, talk: Talk) -> Result<Self, Exit> {
        let failed = |error: std::io::Error| {
            talk.error(format_args!("the host refuses: {error}"));
            talk.hint("look at the limits (`ulimit -a`)");
            Exit::Failed
        };
        let stop = Interrupt::new(talk, ENDING).map_err(failed)?;
        let mut scratch = Scratch::new().map_err(|fault| {
            talk.error(&fault);
            talk.hint(fault.hint());
            Exit::Failed
        })?;
        if typed.keep {
            scratch.keep();
            let path = scratch.path().display();
            talk.say(format_args!("configurations and keys are kept in {path}"));
        }
        // Without it, few connections fit; cells that want more say so.
        let _ = sys::limit::raise_open_files();
        Ok(Self {
            scratch,
            stop,
            talk,
        })
    }
}

fn refuse(fault: &JournalFault, talk: Talk) -> Exit {
    talk.error(fault);
    talk.hint(fault.hint());
    match fault {
        JournalFault::Refused { .. } => Exit::Failed,
        _ => Exit::Usage,
    }
}

/// The first line of the record.
fn plan(
    prepared: &mut Prepared,
    typed: &Typed,
    words: Vec<String>,
    date: Date,
    ground: &Ground,
) -> experiment::Plan {
    measure_speeds(prepared, typed, ground);
    let seed = typed.seed.unwrap_or_else(|| seed_of(date));
    let mut command = vec!["lariat-lab".to_owned(), "run".to_owned()];
    command.extend(words);
    if typed.seed.is_none() {
        command.extend(["--seed".to_owned(), seed.to_string()]);
    }
    experiment::Plan {
        format: experiment::FORMAT,
        tool: Tool {
            name: "lariat-lab".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            tls: load::outcome::tls_library(),
        },
        command,
        started: date.to_string(),
        mode: typed.mode_name().to_owned(),
        seed,
        host: prepared.host.clone(),
        placement: prepared.placement.clone(),
        targets: told(prepared, ground.scratch.path()),
        scenarios: prepared
            .expanded
            .iter()
            .map(|one| one.scenario.clone())
            .collect(),
    }
}

/// Keys and ciphers; a signal ends that at once, and the run with it.
fn measure_speeds(prepared: &mut Prepared, typed: &Typed, ground: &Ground) {
    let talk = ground.talk;
    let rows = match (typed.speeds, typed.mode) {
        (Some(Speeds::None), _) => return,
        (Some(Speeds::Quick), _) | (None, Mode::Quick) => Rows::Quick,
        (Some(Speeds::Full), _) | (None, Mode::Full) => Rows::Full,
    };
    let timing = Timing::of(rows);
    if !typed.quiet {
        let seconds = timing.total().as_secs();
        talk.say(format_args!(
            "measuring keys and ciphers for {seconds} s (--speeds none leaves that out)"
        ));
    }
    let (tell, told) = channel();
    // Nobody waits for it to end when a signal has come: it ends with the program.
    thread::spawn(move || {
        let _ = tell.send(host::report(Some(timing)));
    });
    while !ground.stop.is_heard() {
        match told.recv_timeout(PAUSE) {
            Ok(report) => {
                prepared.host = report;
                return;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Where nobody chose: another order in each run, as a number that can be typed.
fn seed_of(date: Date) -> u64 {
    let digits = date.compact();
    let digits = digits.chars().filter(char::is_ascii_digit);
    digits.collect::<String>().parse().unwrap_or(1)
}

/// The targets that take part, in the order of the tables; the versions of those that are there.
fn told(prepared: &mut Prepared, folder: &Path) -> Vec<experiment::Target> {
    let told = prepared.fielded.iter_mut().map(|one| {
        one.probe(folder);
        one.told()
    });
    told.collect()
}

/// A run that was stopped, from where it stopped.
fn resume(path: &Path, typed: &Typed, words: Vec<String>, talk: Talk) -> Exit {
    let resumed = Ground::new(typed, talk).and_then(|ground| {
        let (record, mut journal) = Journal::resume(path).map_err(|fault| refuse(&fault, talk))?;
        let first = arguments::of_command(&record.plan.command).map_err(|error| {
            talk.error(error);
            Exit::Usage
        })?;
        let prepared = prepare(&first, talk);
        let mut prepared = prepared.map_err(|refused| {
            refused.unwrap_or_else(|error| {
                talk.error(error);
                Exit::Usage
            })
        })?;
        let targets = told(&mut prepared, ground.scratch.path());
        if let Some(change) =
            listing::changed(&record.plan, &prepared.expanded, &targets, &prepared.host)
        {
            talk.error(format_args!("{}: {change}", path.display()));
            talk.hint("what was read before and after could not be compared: begin anew");
            return Err(Exit::Usage);
        }
        let is_complete = record.ended.as_ref().is_some_and(|ended| ended.is_complete);
        let has_failed = record.misses.iter().any(|miss| miss.way != Way::Cannot);
        if is_complete && !has_failed {
            talk.say(format_args!(
                "{} has come to its end already",
                path.display()
            ));
            return Ok(Exit::Success);
        }
        let mut command = vec!["lariat-lab".to_owned(), "run".to_owned()];
        command.extend(words);
        let moment = Event::Resumed(Moment { at: now(), command });
        let written = journal.append(&moment);
        written.map_err(|fault| refuse(&fault, talk))?;
        let past = match is_complete {
            false => Past::of(&record),
            true => {
                talk.say("it has come to its end; what failed is measured again");
                Past::of_readings(&record)
            }
        };
        carry_out(&prepared, &record.plan, journal, past, typed, &ground)
    });
    resumed.unwrap_or_else(|exit| exit)
}

fn carry_out(
    prepared: &Prepared,
    plan: &experiment::Plan,
    mut journal: Journal,
    past: Past,
    typed: &Typed,
    ground: &Ground,
) -> Result<Exit, Exit> {
    let talk = ground.talk;
    tell_missing(plan, &prepared.fielded, talk);
    let run = Experiment {
        plan,
        scenarios: &prepared.expanded,
        fielded: &prepared.fielded,
        means: Means::new(&plan.placement, sys::limit::open_files()),
        folder: ground.scratch.path(),
        halt: &ground.stop,
        talk,
        is_quiet: typed.quiet,
    };
    let tally = run.run(&mut journal, past).map_err(|fault| {
        talk.error(&fault);
        talk.hint(format_args!(
            "--resume {} takes it up when that is mended",
            journal.path().display()
        ));
        Exit::Failed
    })?;
    Ok(conclude(tally, &journal, typed, talk))
}

/// Targets that take no part, and the remedy.
fn tell_missing(plan: &experiment::Plan, fielded: &[Fielded], talk: Talk) {
    for target in &plan.targets {
        let one = fielded.iter().find(|one| one.target.name == target.name);
        if let Some(Err(missing)) = one.map(|one| &one.program) {
            talk.warn(format_args!("{} takes no part: {missing}", target.name));
            talk.hint(missing.hint());
        }
    }
}

fn conclude(tally: Tally, journal: &Journal, typed: &Typed, talk: Talk) -> Exit {
    let path = journal.path().display().to_string();
    if !tally.is_complete {
        talk.say(format_args!("stopped; the record is {path}"));
        talk.hint(format_args!("lariat-lab run --resume {path} takes it up"));
        return Exit::Partial;
    }
    if !typed.quiet {
        talk.say(format_args!("the record is {path}"));
        talk.hint(format_args!(
            "lariat-lab report {path} -o page.html makes a page of it"
        ));
    }
    match tally {
        Tally { read: 0, .. } => {
            talk.error("not one cell was read");
            talk.hint("the reasons stand above, and in the record");
            Exit::Failed
        }
        Tally { lacking: 0, .. } => Exit::Success,
        Tally { lacking, .. } => {
            talk.warn(format_args!(
                "{lacking} cells were not read as often as they should"
            ));
            talk.hint("the reasons stand above, and in the record");
            Exit::Partial
        }
    }
}
