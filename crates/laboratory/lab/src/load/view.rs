//! Shows a running load on the whole terminal: its figures so far (rates, response times,
//! handshakes, failures), as many and as wide as there is room for.
//!
//! Draws on the alternate screen of a terminal (ECMA-48, and xterm's private mode 1049), which
//! leaves the earlier contents as they were: at the end, and while the program is stopped or in the
//! background.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use load::plan::LoadPlan;
use load::run::SecondProgress;
use measure::choice::Kind;
use measure::histogram::Histogram;
use measure::merge::add_all;
use measure::quantity::{Nanoseconds, Percentage, RoundedCount};
use measure::record::{LoadSecond, TransactionCounts};
use sys::process::is_in_foreground;
use terminal_size::{Height, Width};

use super::live::{DIM, FIGURES, LiveLine, RED, clip, figures, figures_of, sentence};

/// Rows of the histogram: fewer show no shape, more show noise.
const HISTOGRAM_ROWS: std::ops::RangeInclusive<usize> = 3..=12;

/// Columns before the bars of the histogram.
const LABEL_COLUMNS: usize = 12;

/// A line, and the colour of the whole line.
type ViewLine = (String, Option<&'static str>);

pub(crate) struct LoadView<'a> {
    pub(crate) line: LiveLine,
    pub(crate) plan: &'a LoadPlan,
    /// Duration of the load, if known.
    pub(crate) planned: Option<Duration>,
    /// The rate that a search tries now.
    pub(crate) note: &'a str,
}

impl LoadView<'_> {
    /// Returns lines for that many columns and rows, the most important first: where rows are few,
    /// the histogram is dropped, then the last lines.
    pub(crate) fn lines(
        &self,
        progress: &LoadProgress,
        (width, height): (usize, usize),
    ) -> Vec<String> {
        let mut lines = self.head(progress, width);
        let tail = tail(progress);
        let room = height.saturating_sub(lines.len() + tail.len() + 1);
        if room >= *HISTOGRAM_ROWS.start() && !progress.total.is_empty() {
            lines.push((String::new(), None));
            lines.extend(self.histogram(&progress.total, room.min(*HISTOGRAM_ROWS.end()), width));
        }
        lines.extend(tail);
        lines.truncate(height);
        let shown = lines.into_iter().map(|(text, colour)| {
            let text = self.line.encode(&clip(&text, width));
            colour.map_or_else(|| text.clone(), |code| self.line.paint(&text, code))
        });
        shown.collect()
    }

    fn head(&self, progress: &LoadProgress, width: usize) -> Vec<ViewLine> {
        let elapsed = Duration::from_secs(progress.last.at_s + 1);
        let bar = self.planned.map(|planned| self.line.bar(elapsed, planned) + " ");
        let of = self.planned.map(|planned| format!(" of {}", planned.as_secs_f64().ceil()));
        let time = format!(
            "{}{}{} s   {}Ctrl-C ends it",
            bar.unwrap_or_default(),
            elapsed.as_secs(),
            of.as_deref().unwrap_or_default(),
            self.note,
        );
        let (now, all) = (figures_of(&progress.last), figures_of_all(progress));
        if width < columns("", FIGURES.map(str::to_owned)).len() {
            // A number that is cut would be another number, so each has a line.
            let lines = FIGURES.iter().zip(now).map(|(name, now)| format!("{name:<9}{now:>10}"));
            let time = format!("{} s{}", elapsed.as_secs(), of.unwrap_or_default());
            return [time].into_iter().chain(lines).map(|line| (line, None)).collect();
        }
        vec![
            (sentence(self.plan), Some(DIM)),
            (time, None),
            (columns("", FIGURES.map(str::to_owned)), Some(DIM)),
            (columns("now, /s", now), None),
            (columns("so far, /s", all), None),
            (self.course(&progress.succeeded, width), None),
        ]
    }

    /// Draws successes by second, the latest at the right.
    fn course(&self, succeeded: &[u64], width: usize) -> String {
        let levels: Vec<char> =
            if self.line.unicode { "▁▂▃▄▅▆▇█" } else { "_.-=+*%#" }.chars().collect();
        let most = succeeded.iter().copied().max().unwrap_or(0).max(1);
        let room = width.saturating_sub(LABEL_COLUMNS);
        let shown = succeeded.iter().skip(succeeded.len().saturating_sub(room));
        let bars = shown.map(|count| {
            let level = *count as f64 / most as f64 * (levels.len() - 1) as f64;
            levels[level.round() as usize]
        });
        format!("{:<LABEL_COLUMNS$}{}", "succeeded/s", bars.collect::<String>())
    }

    /// Draws response times so far in `rows` buckets whose widths grow by a constant factor.
    fn histogram(&self, total: &Histogram, rows: usize, width: usize) -> Vec<ViewLine> {
        let (least, most) = (total.min_ns().max(1) as f64, total.max_ns().max(1) as f64);
        let factor = (most / least).powf(1.0 / rows as f64).max(1.000_001);
        let mut counts = vec![0; rows];
        for (ns, count) in total.buckets() {
            let row = ((ns as f64 / least).ln() / factor.ln()).ceil() as usize;
            counts[row.saturating_sub(1).min(rows - 1)] += count;
        }
        let greatest = counts.iter().copied().max().unwrap_or(0).max(1);
        let cell = if self.line.unicode { "█" } else { "#" };
        let room = width.saturating_sub(LABEL_COLUMNS + 10);
        let rows = counts.into_iter().enumerate().map(|(row, count)| {
            let end = Nanoseconds(least * factor.powi(row as i32 + 1)).to_string();
            let bar = cell.repeat((count as f64 / greatest as f64 * room as f64).ceil() as usize);
            (format!("{end:>10}  {bar} {}", RoundedCount(count as f64)), None)
        });
        rows.collect()
    }
}

fn columns(name: &str, cells: [String; 6]) -> String {
    let cells = cells.map(|text| format!("{text:>10}"));
    format!("{name:<LABEL_COLUMNS$}{}", cells.concat())
}

fn figures_of_all(progress: &LoadProgress) -> [String; 6] {
    let (counts, seconds) = (progress.counts, progress.seconds.max(1) as f64);
    let counts = [counts.attempted, counts.succeeded, counts.failed];
    let total = &progress.total;
    let made = progress.handshakes.iter();
    let of_kinds = |is_resumed: bool| -> u64 {
        let kinds = made.clone().filter(|(kind, _)| kind.is_resumption() || !is_resumed);
        kinds.map(|(_, count)| count).sum()
    };
    let resumed = Percentage { part: of_kinds(true), whole: of_kinds(false) };
    let times = [total.mean_ns(), total.quantile_ns(0.99) as f64];
    figures(counts.map(|count| count as f64 / seconds), times, resumed)
}

/// Lists percentiles, kinds of handshake, and reasons of failures.
fn tail(progress: &LoadProgress) -> Vec<ViewLine> {
    let total = &progress.total;
    let mut lines = Vec::new();
    if !total.is_empty() {
        let quantiles = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
        let named = quantiles.map(|(name, share)| (name, total.quantile_ns(share)));
        let named = named.into_iter().chain([("max", total.max_ns())]);
        let named = named.map(|(name, ns)| format!("{name} {}", Nanoseconds(ns as f64)));
        lines.push((format!("response    {}", named.collect::<Vec<_>>().join(", ")), None));
    }
    let whole = progress.handshakes.values().sum();
    let kinds = progress.handshakes.iter().map(|(kind, part)| {
        let share = Percentage { part: *part, whole };
        format!("{} {} ({share})", kind.name(), RoundedCount(*part as f64))
    });
    let kinds: Vec<_> = kinds.collect();
    if !kinds.is_empty() {
        lines.push((format!("handshakes  {}", kinds.join(", ")), None));
    }
    let mut failures: Vec<_> = progress.failures.iter().collect();
    failures.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let failed =
        failures.iter().map(|(name, count)| format!("{name} {}", RoundedCount(**count as f64)));
    let failed: Vec<_> = failed.collect();
    if !failed.is_empty() {
        lines.push((format!("failed      {}", failed.join(", ")), Some(RED)));
    }
    lines
}

/// Seconds that are kept one by one for the chart: a row of a wide terminal.
const SECONDS_KEPT: usize = 240;

#[derive(Clone, Debug, Default)]
pub(crate) struct LoadProgress {
    pub(crate) seconds: u64,
    pub(crate) counts: TransactionCounts,
    pub(crate) failures: BTreeMap<String, u64>,
    pub(crate) handshakes: BTreeMap<Kind, u64>,
    /// Response times of transactions that succeeded.
    pub(crate) total: Histogram,
    /// The latest second.
    pub(crate) last: LoadSecond,
    /// Successes in each of the latest seconds.
    pub(crate) succeeded: Vec<u64>,
}

impl LoadProgress {
    pub(crate) fn add(&mut self, more: &SecondProgress) {
        let LoadSecond { attempted, succeeded, failed, .. } = more.second;
        self.seconds += 1;
        let attempted = attempted + more.late;
        self.counts += TransactionCounts { attempted, succeeded, failed };
        add_all(&mut self.failures, &more.failures);
        add_all(&mut self.handshakes, &more.handshakes);
        self.total.add(&more.total);
        self.last = more.second;
        if self.succeeded.len() == SECONDS_KEPT {
            self.succeeded.remove(0);
        }
        self.succeeded.push(succeeded);
    }
}

/// Global, because threads that handle signals and panics must restore the terminal.
static SHOWN: Mutex<ShownFrame> =
    Mutex::new(ShownFrame { is_wanted: false, is_taken: false, frame: String::new() });

/// Switches to the alternate screen and hides the cursor; `GIVE` undoes both.
const TAKE: &str = "\x1b[?1049h\x1b[?25l";
const GIVE: &str = "\x1b[?25h\x1b[?1049l";

/// Columns and rows of a terminal that does not report its size.
const SIZE: (usize, usize) = (80, 24);

#[derive(Debug)]
pub(crate) struct Screen(());

struct ShownFrame {
    is_wanted: bool,
    /// Whether the terminal shows the alternate screen.
    is_taken: bool,
    frame: String,
}

impl ShownFrame {
    fn draw(&mut self) {
        if !self.is_wanted || !is_in_foreground(io::stderr()) {
            return;
        }
        if !std::mem::replace(&mut self.is_taken, true) {
            put(TAKE);
        }
        put(&self.frame);
    }

    fn give_back(&mut self) {
        if std::mem::take(&mut self.is_taken) {
            put(GIVE);
        }
    }
}

impl Screen {
    /// Takes the terminal of the standard error; `None` if that is no terminal, or lacks a cursor.
    pub(crate) fn take() -> Option<Self> {
        static HOOK: Once = Once::new();
        let is_dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
        if is_dumb || !io::stderr().is_terminal() {
            return None;
        }
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        let mut shown = shown();
        *shown = ShownFrame { is_wanted: true, is_taken: false, frame: String::new() };
        shown.draw();
        Some(Self(()))
    }

    /// Returns columns and rows; the last row is left to messages.
    pub(crate) fn room(&self) -> (usize, usize) {
        let size = terminal_size::terminal_size_of(io::stderr());
        let size = size.map(|(Width(width), Height(height))| (width.into(), height.into()));
        let (width, height) = size.filter(|(width, height)| width * height > 0).unwrap_or(SIZE);
        (width, height - 1)
    }

    /// Shows these lines, which fit, and clears the rest.
    pub(crate) fn show(&self, lines: &[String]) {
        let rows: Vec<_> = lines.iter().map(|line| format!("{line}\x1b[K\r\n")).collect();
        let mut shown = shown();
        shown.frame = format!("\x1b[H{}\x1b[J", rows.concat());
        shown.draw();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal for good if it was taken. Must be called before the program ends.
pub(crate) fn give_back() {
    let mut shown = shown();
    shown.is_wanted = false;
    shown.give_back();
}

/// Restores the terminal while `act` runs, then draws the last frame again.
pub(crate) fn give_back_during(act: impl FnOnce()) {
    let mut shown = shown();
    shown.give_back();
    act();
    shown.draw();
}

fn shown() -> MutexGuard<'static, ShownFrame> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the text in one piece, so that no half of it shows. Ignores a closed terminal.
fn put(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
