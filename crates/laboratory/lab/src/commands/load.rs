//! Runs `lariat-lab load`, from the command line to the record.
//!
//! Reports every error that can be found in advance before the first packet is sent.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueHint};
use load::capacity::Finder;
use load::failure::LoadStartFault;
use load::options::{Search, TABLE, UnresolvedPlan};
use load::outcome::{Frame, LoadOutcome};
use load::plan::LoadPlan;
use load::run::{self, RunningLoad, SecondProgress};
use measure::bounds::LoadBound;
use measure::quantity::{Nanoseconds, RoundedCount};
use measure::record::{CapacitySearch, LoadRecord, LoadSecond, RunWarning, to_json};
use options::command_line::{FlagTable, TableFlags};
use options::flags::overlaid;
use options::{Problem, Report};
use wire::address::{Address, Endpoint};

use crate::console::{Console, WIDTH, print, stdout_colour};
use crate::fault::{Exit, LabFault, LabResult};
use crate::host;
use crate::interrupt::{Cancel, Interrupt};
use crate::load::destination::{Destination, HdrFile, RecordDate};
use crate::load::live::LiveLine;
use crate::load::metrics::MetricsPage;
use crate::load::view::{LoadProgress, LoadView, Screen};
use crate::load::{PlanFile, read, resolve};

/// Load a TLS server, and count what succeeded and how long it took
///
/// Shows how it goes, prints a summary, and writes a record of the run. A plan file has a key
/// for each flag; flags replace what it says. A plan that contradicts itself is refused before the
/// first packet. docs/reference/load.md describes each flag.
#[derive(Args, Debug)]
#[command(override_usage = "lariat-lab load URL [FLAGS]
       lariat-lab load --plan FILE.toml [URL] [FLAGS]")]
#[command(after_help = "\
Examples:
  What can it do? 50 connections at once, full handshakes, for 10 seconds:
    lariat-lab load https://127.0.0.1:8443/1k

  500 transactions per second, of which three in four resume a TLS 1.2 session:
    lariat-lab load https://127.0.0.1:8443/1k --tls 1.2 --handshake session-id \\
        --requests-per-session 4 --rate 500 --duration 10s --record out.json

  Where does it break? Handshakes alone, ever more of them, with the post-quantum group:
    lariat-lab load https://127.0.0.1:8443/ --no-request --groups X25519MLKEM768 \\
        --ramp 50:3000:60s

  The greatest rate at which 99 % of requests on kept connections take under 20 ms:
    lariat-lab load https://127.0.0.1:8443/1k --requests-per-connection unlimited \\
        --find-capacity --limit 'p99<20ms,error-rate<0.01%'

Ctrl-C ends a load early; its record is written all the same.")]
pub(super) struct LoadArguments {
    /// Page of the server under load, as in https://127.0.0.1:8443/1k
    #[arg(id = "page", value_name = "URL")]
    url: Option<String>,
    /// A file with a key for each flag
    #[arg(long, value_name = "FILE.toml", value_hint = ValueHint::AnyPath)]
    plan: Option<PathBuf>,
    #[command(flatten)]
    flags: TableFlags<LoadTable>,
}

/// Table of the settings of a load, which become flags of the command.
#[derive(Clone, Debug)]
struct LoadTable;

impl FlagTable for LoadTable {
    const TABLE: &'static options::Table = &TABLE;
}

/// Completes the command with what the table lacks.
pub(super) fn completed(command: clap::Command) -> clap::Command {
    command.mut_arg("url", |url| url.hide(true)).mut_arg("quiet", |quiet| quiet.short('q'))
}

pub(super) fn run(arguments: LoadArguments, console: Console) -> LabResult<Exit> {
    let (plan, url) = (arguments.plan, arguments.url);
    let mut flags = arguments.flags.typed;
    flags.extend(url.map(|url| ("url", url)));
    if plan.is_none() && flags.is_empty() {
        return Err(LabFault::new(
            "there is neither a URL nor a plan",
            "for example: lariat-lab load https://127.0.0.1:8443/",
        ));
    }
    carry_out(prepare(plan.as_deref(), &flags, console)?, console)
}

/// Message at the first signal.
const ENDING: &str = "Ending early; once more ends at once, without a record.";

/// The latest start time, from now: a day. A later one is a mistake in the time zone or the date.
const START_AHEAD_MAX: Duration = Duration::from_secs(86_400);

/// Pause between two checks for a signal.
const WAIT_STEP: Duration = Duration::from_millis(50);

struct PreparedLoad {
    command: Vec<String>,
    quiet: bool,
    lines: bool,
    hdr: Option<String>,
    metrics: Option<SocketAddr>,
    expected: Vec<LoadBound>,
    plan: LoadPlan,
    search: Option<Search>,
    /// Expected duration, if known.
    planned: Option<Duration>,
    start_at: Option<SystemTime>,
    started: RecordDate,
    destination: Destination,
}

/// Checks the arguments and reports every error that can be found in advance.
fn prepare(
    plan: Option<&Path>,
    flags: &[(&'static str, String)],
    console: Console,
) -> LabResult<PreparedLoad> {
    let file = plan.map(PlanFile::open).transpose();
    let file = file.map_err(|reason| {
        let hint = "--plan names a TOML file; `lariat-lab load --help` describes it";
        LabFault::new(format_args!("the plan cannot be had: {reason}"), hint)
    })?;
    let place = file.as_ref().map(|file| (&*file.path, &*file.text));
    let refuse = |report: Report<'_>| {
        console.tell(report.into_complaints(), place);
        LabFault::reported(Exit::Usage)
    };
    let report = Report::new(place);
    let typed = flags.iter().map(|(name, text)| (*name, text.as_str()));
    let mut root = options::flags::parse(typed, &TABLE, &report);
    if let Some(file) = &file {
        match file.root(&report) {
            Some(base) => root = overlaid(&base, &root, &TABLE),
            None => return Err(refuse(report)),
        }
    }
    let read = load::options::read(&root, &read, &sys::cpu::allowed_cpus(), &report);
    let Some((written, draft)) = read else {
        return Err(refuse(report));
    };
    let now = SystemTime::now();
    let start_at = &written.run.start_at;
    let start_at = start_at.given().map(|at| UNIX_EPOCH + Duration::from_secs(*at));
    if let Some(at) = start_at {
        let ahead = at.duration_since(now).ok();
        if ahead.is_none_or(|ahead| ahead > START_AHEAD_MAX) {
            let (at, now) = (RecordDate::of(at), RecordDate::of(now));
            let problem = Problem::new(format!("{at} is not within the day that follows {now}"));
            written.run.start_at.error(problem.hint("a time in UTC that is yet to come"));
            return Err(refuse(report));
        }
    }
    let started = RecordDate::of(start_at.unwrap_or(now));
    let destination = Destination::open("record", written.run.record.given(), started)?;
    let (source, run) = (written.target.source, written.run);
    let (search, planned) = (draft.search, draft.planned);
    let addresses = resolved(&draft, console)?;
    let plan = match draft.plan(addresses) {
        Ok(plan) => plan,
        Err(problem) => {
            source.error(problem);
            return Err(refuse(report));
        }
    };
    Ok(PreparedLoad {
        command: [vec!["lariat-lab".to_owned()], load::options::command(&root)].concat(),
        quiet: run.quiet.is_on(),
        lines: run.lines.is_on(),
        hdr: run.hdr.given().cloned(),
        metrics: run.metrics.given().copied(),
        expected: run.expect.given().cloned().unwrap_or_default(),
        plan,
        search,
        planned,
        start_at,
        started,
        destination,
    })
}

fn resolved(draft: &UnresolvedPlan, console: Console) -> LabResult<Vec<Address>> {
    let one = |endpoint: &Endpoint| match resolve(endpoint) {
        Ok(resolved) => {
            if let Some(other) = resolved.others.first() {
                let (address, count) = (&resolved.address, resolved.others.len());
                console.say(format_args!("{endpoint} is {address}, and {count} more."));
                console.hint(format_args!("--connect {other} goes there instead"));
            }
            Ok(resolved.address)
        }
        Err(reason) => {
            let message = format!("{endpoint} cannot be resolved: {reason}");
            let hint = "--connect ADDRESS:PORT goes there without asking for the name";
            Err(LabFault::new(message, hint).with(Exit::Address))
        }
    };
    draft.endpoints.iter().map(one).collect()
}

fn carry_out(prepared: PreparedLoad, console: Console) -> LabResult<Exit> {
    let interrupt = Interrupt::new(console, ENDING)?;
    // Without a higher limit few clients fit; the others fail with a reason of their own.
    let _ = sys::usage::raise_open_files();
    let mut frame = frame(&prepared);
    let mut watch = LoadWatcher {
        line: LiveLine::to_stderr(console.colour()),
        quiet: prepared.quiet,
        lines: prepared.lines,
        interrupt,
        console,
        screen: None,
        note: String::new(),
        progress: LoadProgress::default(),
        page: metrics_page(&prepared, console)?,
        hdr: None,
    };
    if let Some(at) = prepared.start_at {
        watch.wait_until(at)?;
    }
    if let Some(path) = &prepared.hdr {
        watch.hdr = Some(HdrFile::create(path, &frame.command.join(" "), SystemTime::now())?);
    }
    let (outcome, capacity) = match prepared.search {
        None => (watch.one(&prepared.plan, prepared.planned)?, None),
        Some(search) => {
            let (outcome, capacity) = watch.search(&prepared.plan, search)?;
            (outcome, Some(capacity))
        }
    };
    frame.stood_still = watch.interrupt.stood_still();
    drop(watch);
    let mut record = outcome.record(&prepared.plan, frame, capacity);
    if prepared.start_at.is_some() && !sys::clock::is_synchronized() {
        record.warnings.push(RunWarning {
            seen: "the clock of this host is not synchronized with others".to_owned(),
            hint: "hosts that begin at one time by --start-at need NTP".to_owned(),
        });
    }
    let handed = hand_over(&record, prepared.destination, console)?;
    let unmet: Vec<_> = prepared.expected.iter().filter_map(|one| one.unmet(&record)).collect();
    unmet.iter().for_each(|one| console.error(one));
    Ok(if unmet.is_empty() { handed } else { Exit::Unmet })
}

fn metrics_page(prepared: &PreparedLoad, console: Console) -> LabResult<Option<MetricsPage>> {
    let Some(address) = prepared.metrics else {
        return Ok(None);
    };
    let page = MetricsPage::open(address, &prepared.plan.target.url).map_err(|error| {
        let message = format!("metrics cannot be served at {address}: {error}");
        LabFault::new(message, "--metrics names an address of this host with a free port")
            .with(Exit::Address)
    })?;
    console.say(format_args!("Metrics are at http://{}/metrics.", page.address));
    Ok(Some(page))
}

fn frame(prepared: &PreparedLoad) -> Frame {
    Frame {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: prepared.command.clone(),
        started: prepared.started.to_string(),
        host: host::facts(),
        stood_still: Duration::ZERO,
    }
}

/// Runs loads and displays their progress.
struct LoadWatcher {
    line: LiveLine,
    quiet: bool,
    /// Whether to print lines even if the terminal could show a view.
    lines: bool,
    interrupt: Interrupt,
    console: Console,
    screen: Option<Screen>,
    /// The rate that a search tries now.
    note: String,
    progress: LoadProgress,
    page: Option<MetricsPage>,
    hdr: Option<HdrFile>,
}

impl LoadWatcher {
    /// Waits until the start time; a signal ends the wait.
    fn wait_until(&self, at: SystemTime) -> LabResult<()> {
        if !self.quiet {
            let at = RecordDate::of(at);
            self.console.say(format_args!("Waiting until {at}."));
        }
        while let Ok(left) = at.duration_since(SystemTime::now()) {
            if self.interrupt.is_requested() {
                return Err(LabFault::reported(Exit::Failed));
            }
            thread::sleep(left.min(WAIT_STEP));
        }
        Ok(())
    }

    fn one(&mut self, plan: &LoadPlan, planned: Option<Duration>) -> LabResult<LoadOutcome> {
        let run = self.begin(plan.clone())?;
        self.open(plan);
        self.follow(run, plan, planned)
    }

    /// Takes the terminal from now on, or prints the heads of the lines to come.
    fn open(&mut self, plan: &LoadPlan) {
        if self.quiet {
            return;
        }
        if !self.lines {
            self.screen = Screen::take();
        }
        if self.screen.is_none() {
            self.console.say(self.line.header(plan));
        }
    }

    fn search(
        &mut self,
        plan: &LoadPlan,
        search: Search,
    ) -> LabResult<(LoadOutcome, CapacitySearch)> {
        if !self.quiet {
            let Search { limit, step, .. } = search;
            let step = Nanoseconds(step.as_nanos() as f64);
            self.console
                .say(format_args!("Searching the greatest rate with {limit}, {step} a rate."));
        }
        self.open(plan);
        let mut finder = Finder::new(plan.clone(), search);
        while let Some(next) = finder.next_plan() {
            self.note = format!("{}/s is tried.   ", RoundedCount(next.arrival.first_per_s()));
            if !self.quiet && self.screen.is_none() {
                self.console.say(format_args!("{}/s:", RoundedCount(next.arrival.first_per_s())));
            }
            let run = self.begin(next.clone())?;
            let outcome = self.follow(run, &next, Some(next.duration))?;
            finder.take(&next, outcome);
        }
        Ok(finder.finish())
    }

    fn begin(&self, plan: LoadPlan) -> LabResult<RunningLoad> {
        let run = run::start(plan).map_err(|fault| refused(&fault))?;
        self.interrupt.watch(run.stopper());
        Ok(run)
    }

    fn follow(
        &mut self,
        mut run: RunningLoad,
        plan: &LoadPlan,
        planned: Option<Duration>,
    ) -> LabResult<LoadOutcome> {
        while let Some(second) = run.next_second() {
            self.progress.add(&second);
            if let Some(hdr) = &mut self.hdr {
                hdr.add(&second.total)?;
            }
            if let Some(page) = &self.page {
                page.show(&self.progress);
            }
            match &self.screen {
                Some(screen) => {
                    let view = LoadView { line: self.line, plan, planned, note: &self.note };
                    screen.show(&view.lines(&self.progress, screen.room()));
                }
                None if !self.quiet => self.say_second(&second, planned),
                None => {}
            }
        }
        run.finish().map_err(|error| {
            let message = format!("a thread of the load ended early: {error}");
            LabFault::failed(message, "--cpus none, if it is about a CPU; else `ulimit -a`")
        })
    }

    fn say_second(&self, progress: &SecondProgress, planned: Option<Duration>) {
        let LoadSecond { at_s, attempted, failed, .. } = progress.second;
        let elapsed = Duration::from_secs(at_s + 1);
        let is_rest = planned.is_some_and(|planned| elapsed > planned) && attempted == 0;
        if !is_rest || failed > 0 {
            // Otherwise, operations in flight at the end have completed: nothing to look at.
            let failures = &progress.failures;
            self.console.say(self.line.text(&progress.second, failures, elapsed, planned));
        }
    }
}

fn refused(fault: &LoadStartFault) -> LabFault {
    let (hint, exit) = match fault {
        LoadStartFault::Tls(_) => ("look at the files and names that the plan names", Exit::Usage),
        LoadStartFault::Source(..) => {
            ("`ip address` lists the addresses of this host", Exit::Address)
        }
        LoadStartFault::Kernel(_) => {
            ("look at the limits of this process (`ulimit -a`)", Exit::Failed)
        }
    };
    LabFault::new(fault, hint).with(exit)
}

fn hand_over(record: &LoadRecord, destination: Destination, console: Console) -> LabResult<Exit> {
    let takes_output = destination.is_output();
    let written = destination.write(&to_json(record));
    let report = report::load::document(&[("", record)]);
    let summary = |colour| report.text(WIDTH, colour);
    let told = if takes_output {
        console.say(summary(console.colour()));
        Ok(Exit::Success)
    } else {
        print(summary(stdout_colour()))
    };
    if let Some(path) = written? {
        let path = path.display();
        console.say(format_args!("The record is {path}; a page of it makes"));
        console.say(format_args!("  lariat-lab report {path} -o page.html"));
    }
    told.map(|_| exit_of(record))
}

/// Failures are a measurement, unless nothing succeeded.
fn exit_of(record: &LoadRecord) -> Exit {
    let totals = record.totals;
    match &record.capacity {
        _ if totals.attempted > 0 && totals.succeeded == 0 => Exit::Fruitless,
        Some(capacity) if capacity.found_per_s.is_none() => Exit::NoCapacity,
        _ => Exit::Success,
    }
}
