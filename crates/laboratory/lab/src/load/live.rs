//! Formats the lines shown while a load runs: the plan, then a line per second.
//!
//! Only turns figures into text, which fits the given width, with or without Unicode and colours.

use std::collections::BTreeMap;
use std::time::Duration;

use load::plan::{ArrivalModel, Clients, Handshake, LoadPlan, Spacing, Stretch};
use measure::quantity::{Nanoseconds, Percentage, RoundedCount};
use measure::record::LoadSecond;
use options::diagnostic::Paint;

#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveLine {
    /// Columns that a line may have; the figures of a second take 78 of them.
    pub(crate) width: usize,
    /// Whether lines may have colours (ECMA-48).
    pub(crate) colour: bool,
    /// Whether the terminal can show more than ASCII.
    pub(crate) unicode: bool,
}

/// Columns of the progress bar, its ends not counted.
const BAR_CELLS: usize = 10;

/// Headings of [`figures`].
pub(crate) const FIGURES: [&str; 6] =
    ["attempted", "succeeded", "failed", "mean", "p99", "resumed"];

/// Columns of figures in a line per second.
const WIDTHS: [usize; 6] = [9, 9, 9, 8, 8, 8];

/// Formats transactions attempted, succeeded and failed, the mean and the 99th percentile of their
/// response times in nanoseconds, and the share of handshakes that resumed a session.
pub(crate) fn figures(counts: [f64; 3], times: [f64; 2], resumed: Percentage) -> [String; 6] {
    let [attempted, succeeded, failed] = counts.map(|count| RoundedCount(count).to_string());
    let [mean, p99] = times.map(|ns| match counts[1] {
        0.0 => "-".to_owned(),
        _ => Nanoseconds(ns).to_string(),
    });
    let resumed = match resumed.whole {
        0 => "-".to_owned(),
        _ => resumed.to_string(),
    };
    [attempted, succeeded, failed, mean, p99, resumed]
}

/// Returns these figures of one second.
pub(crate) fn figures_of(second: &LoadSecond) -> [String; 6] {
    let counts = [second.attempted, second.succeeded, second.failed].map(|count| count as f64);
    let resumed = Percentage { part: second.resumed, whole: second.resumed + second.full };
    figures(counts, [second.mean_ns as f64, second.p99_ns as f64], resumed)
}

fn spaced<T: std::fmt::Display>(cells: [T; 6]) -> [String; 6] {
    let mut widths = WIDTHS.into_iter();
    cells.map(|cell| format!(" {cell:>0$}", widths.next().unwrap_or_default()))
}

pub(crate) const DIM: &str = "2";
pub(crate) const RED: &str = "1;31";

impl LiveLine {
    /// Returns the style for the standard error: 80 columns, ASCII unless the locale is UTF-8.
    pub(crate) fn to_stderr(colour: bool) -> Self {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        // The order of setlocale(3).
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
        Self { width: 80, colour, unicode: locale.is_some_and(|locale| is_utf8(&locale)) }
    }

    /// Formats the plan in a line or more, and the headings of [`Self::text`].
    pub(crate) fn header(self, plan: &LoadPlan) -> String {
        let columns = format!("{:>6}  {:<12}{}", "time", "", spaced(FIGURES).concat());
        let about = wrap(&sentence(plan), self.width);
        format!("{}\n{}", self.encode(&about), self.paint(&columns, DIM))
    }

    /// Formats the figures of a second, followed by the reasons of its failures. `planned` is the
    /// duration of the load, if known.
    pub(crate) fn text(
        self,
        second: &LoadSecond,
        failures: &BTreeMap<String, u64>,
        elapsed: Duration,
        planned: Option<Duration>,
    ) -> String {
        let bar = match planned {
            Some(planned) => self.paint(&self.bar(elapsed, planned), DIM),
            None => " ".repeat(BAR_CELLS + 2),
        };
        let mut cells = spaced(figures_of(second));
        if second.failed > 0 {
            cells[2] = self.paint(&cells[2], RED);
        }
        let line = format!("{:>4} s  {bar}{}", elapsed.as_secs(), cells.concat());
        self.encode(&(line + &self.reasons(failures)))
    }

    /// Draws `▕███▋      ▏`, or `[###-      ]`.
    pub(crate) fn bar(self, elapsed: Duration, planned: Duration) -> String {
        let share = if planned.is_zero() {
            1.0
        } else {
            (elapsed.as_secs_f64() / planned.as_secs_f64()).min(1.0)
        };
        let eighths = (share * (BAR_CELLS * 8) as f64) as usize;
        let (full, rest) = (eighths / 8, eighths % 8);
        let (fill, parts, ends) = if self.unicode {
            ("█", ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"], ["▕", "▏"])
        } else {
            ("#", ["", "", "", "", "-", "-", "-", "-"], ["[", "]"])
        };
        let filled = fill.repeat(full) + parts[rest];
        format!("{}{filled:<BAR_CELLS$}{}", ends[0], ends[1])
    }

    /// Lists reasons of failures, the most frequent first, as many as fit in a line.
    fn reasons(self, failures: &BTreeMap<String, u64>) -> String {
        let mut failures: Vec<_> = failures.iter().filter(|(_, count)| **count > 0).collect();
        if failures.is_empty() {
            return String::new();
        }
        failures.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let mut line = "        failed:".to_owned();
        let count = failures.len();
        for (index, (reason, times)) in failures.into_iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let word = format!("{comma} {reason} {}", RoundedCount(*times as f64));
            let more = ", …";
            let room = self.width - if index + 1 < count { more.chars().count() } else { 0 };
            if index > 0 && columns(&line) + columns(&word) > room {
                line += more;
                break;
            }
            line += &word;
        }
        format!("\n{}", self.paint(&clip(&line, self.width), RED))
    }

    pub(crate) fn paint(self, text: &str, code: &str) -> String {
        let colour = self.colour;
        Paint { colour }.wrap(code, text)
    }

    /// Replaces all but ASCII if the terminal shows only that.
    pub(crate) fn encode(self, text: &str) -> String {
        if self.unicode {
            return text.to_owned();
        }
        let ascii = |c: char| match c {
            'µ' => 'u',
            '…' => '~',
            '\u{202f}' => ' ',
            c if c.is_ascii() => c,
            _ => '?',
        };
        text.chars().map(ascii).collect()
    }
}

fn is_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

pub(crate) fn sentence(plan: &LoadPlan) -> String {
    let mut parts = vec![arrival(plan), clients(&plan.clients, &plan.arrival)];
    parts.extend(plan.tls.as_ref().map(|tls| kinds(&tls.handshakes)));
    parts.extend(match plan.requests.len() {
        0 => Some("no request".to_owned()),
        1 => None,
        count => Some(format!("{count} requests by weight")),
    });
    let sessions = plan.clients.requests_per_session;
    parts.extend(sessions.map(|count| format!("{count} requests a session")));
    parts.extend(match plan.clients.requests_per_connection {
        Some(1) => None,
        Some(count) => Some(format!("{count} requests a connection")),
        None => Some("connections kept".to_owned()),
    });
    format!(
        "Loading {} ({}) for {}: {}.",
        plan.target.url,
        plan.target.places(),
        length(plan),
        parts.join(", ")
    )
}

fn length(plan: &LoadPlan) -> String {
    let time = format!("{} s", RoundedCount(plan.duration.as_secs_f64()));
    let warm_up = if plan.warm_up.is_zero() {
        String::new()
    } else {
        format!(" after {} s of warm-up", RoundedCount(plan.warm_up.as_secs_f64()))
    };
    match plan.count_max {
        Some(count) => {
            let count = RoundedCount(count as f64);
            format!("{count} transactions, at most {time}{warm_up}")
        }
        None => format!("{time}{warm_up}"),
    }
}

fn arrival(plan: &LoadPlan) -> String {
    let (stretches, spacing) = match &plan.arrival {
        ArrivalModel::Closed { connections } => {
            return format!("{connections} connections at once");
        }
        ArrivalModel::Open { stretches, spacing, .. } => (stretches.as_slice(), *spacing),
    };
    let rate = |per_s: f64| format!("{}/s", RoundedCount(per_s));
    let rates = match stretches {
        [Stretch { from_per_s, to_per_s, .. }] if from_per_s == to_per_s => rate(*from_per_s),
        [only] => format!("{} to {}", rate(only.from_per_s), rate(only.to_per_s)),
        [first, .., last] => {
            let (from, to) = (rate(first.from_per_s), rate(last.to_per_s));
            format!("{} steps from {from} to {to}", stretches.len())
        }
        [] => rate(0.0),
    };
    match spacing {
        Spacing::Constant => rates,
        Spacing::Poisson => format!("{rates} (Poisson)"),
    }
}

/// Describes the clients; empty if each connection has its own client.
fn clients(clients: &Clients, arrival: &ArrivalModel) -> String {
    let think = if clients.think.is_zero() {
        String::new()
    } else {
        format!(" that rest {}", Nanoseconds(clients.think.as_nanos() as f64))
    };
    let same =
        matches!(arrival, ArrivalModel::Closed { connections } if *connections == clients.count);
    let has_session_arrivals = matches!(arrival, ArrivalModel::Open { session_arrivals: true, .. });
    let count = RoundedCount(clients.count.into());
    match (has_session_arrivals, same && think.is_empty()) {
        (true, _) => format!("new clients{think}, {count} at once at most"),
        (false, true) => "a client each".to_owned(),
        (false, false) => format!("{count} clients{think}"),
    }
}

fn kinds(handshakes: &[Handshake]) -> String {
    let name = |handshake: &Handshake| match handshake {
        Handshake::Full => "full handshakes",
        Handshake::SessionId => "resumption by session id",
        Handshake::Ticket => "resumption by ticket",
        Handshake::Psk => "resumption by PSK",
        Handshake::Any => "any resumption",
    };
    match handshakes {
        [] | [_] => handshakes.first().map_or("", name).to_owned(),
        several => several.iter().map(name).collect::<Vec<_>>().join(" / "),
    }
}

/// Wraps words at `width` columns, the second and later lines indented.
fn wrap(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("it is never emptied");
        let is_first = line.trim().is_empty();
        if !is_first && columns(line) + 1 + columns(word) > width {
            lines.push(format!("  {word}"));
        } else {
            line.push_str(if is_first { "" } else { " " });
            line.push_str(word);
        }
    }
    let clipped: Vec<_> = lines.iter().map(|line| clip(line, width)).collect();
    clipped.join("\n")
}

/// Cuts the text at `width` columns.
pub(crate) fn clip(text: &str, width: usize) -> String {
    if columns(text) > width {
        text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}

/// Counts columns of a text without colours: each character that we print is one column wide.
fn columns(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::plan::{ClientSelection, ConnectionEnding, PlannedRequest, PlannedTarget, Threads};

    const PLAIN: LiveLine = LiveLine { width: 80, colour: false, unicode: true };

    fn second() -> LoadSecond {
        LoadSecond {
            at_s: 6,
            attempted: 512,
            succeeded: 512,
            resumed: 384,
            full: 128,
            mean_ns: 3_100_000,
            median_ns: 3_000_000,
            p99_ns: 8_050_000,
            max_ns: 9_000_000,
            open: 50,
            ..LoadSecond::default()
        }
    }

    fn text(line: LiveLine, second: &LoadSecond, failures: &[(&str, u64)]) -> String {
        let failures = failures.iter().map(|(name, count)| ((*name).to_owned(), *count));
        let (elapsed, planned) = (Duration::from_secs(7), Duration::from_secs(10));
        line.text(second, &failures.collect(), elapsed, Some(planned))
    }

    fn plan() -> LoadPlan {
        LoadPlan {
            target: PlannedTarget {
                url: "http://127.0.0.1:8000/1k".to_owned(),
                addresses: vec!["127.0.0.1:8000".parse().unwrap()],
                moves_sessions: false,
                authority: "127.0.0.1:8000".to_owned(),
            },
            sources: Vec::new(),
            proxy_header: None,
            tls: None,
            requests: vec![PlannedRequest {
                method: "GET".to_owned(),
                path: "/1k".to_owned(),
                headers: Vec::new(),
                body: Vec::new(),
                weight: 1,
            }],
            ending: ConnectionEnding::Close,
            clients: Clients {
                count: 50,
                requests_per_session: None,
                requests_per_connection: Some(1),
                think: Duration::ZERO,
                selection: ClientSelection::RoundRobin,
            },
            arrival: ArrivalModel::Closed { connections: 50 },
            warm_up: Duration::ZERO,
            rests: false,
            is_background: false,
            duration: Duration::from_secs(10),
            count_max: None,
            timeout: Duration::from_secs(5),
            threads: Threads { count: 1, cpus: Vec::new() },
            seed: 1,
        }
    }

    #[test]
    fn a_second_is_a_line() {
        let expected =
            "   7 s  ▕███████   ▏       512       512         0  3.10 ms  8.05 ms   75.0 %";
        assert_eq!(text(PLAIN, &second(), &[]), expected);
        let ascii = LiveLine { unicode: false, ..PLAIN };
        let expected =
            "   7 s  [#######   ]       512       512         0  3.10 ms  8.05 ms   75.0 %";
        assert_eq!(text(ascii, &second(), &[]), expected);
    }

    #[test]
    fn nothing_is_no_figure() {
        let nothing = LoadSecond { attempted: 3, failed: 3, ..LoadSecond::default() };
        let shown = text(PLAIN, &nothing, &[("connect-refused", 3)]);
        let mut lines = shown.lines();
        let figures: Vec<_> = lines.next().unwrap().split_whitespace().skip(4).collect();
        assert_eq!(figures, ["3", "0", "3", "-", "-", "-"]);
        assert_eq!(lines.next().unwrap().trim(), "failed: connect-refused 3");
    }

    #[test]
    fn the_commonest_reason_comes_first_and_no_line_wraps() {
        let reasons = [
            ("not-tls", 2),
            ("resumption-not-offered", 1_000_000),
            ("alert-bad_certificate_status_response", 3),
            ("connect-timeout", 40),
        ];
        let busy = LoadSecond {
            attempted: 9_876_543,
            succeeded: 8_876_543,
            failed: 1_000_045,
            mean_ns: 999_000,
            p99_ns: 99_900,
            ..second()
        };
        for unicode in [true, false] {
            let shown = text(LiveLine { unicode, ..PLAIN }, &busy, &reasons);
            assert!(shown.contains("failed: resumption-not-offered 1"), "{shown}");
            assert!(shown.lines().all(|line| columns(line) <= 80), "{shown}");
            assert_eq!(shown.is_ascii(), !unicode, "{shown}");
        }
        let narrow = LiveLine { width: 40, ..PLAIN };
        let shown = text(narrow, &busy, &[("alert-bad_certificate_status_response", 3)]);
        assert!(shown.lines().skip(1).all(|line| columns(line) <= 40), "{shown}");
    }

    #[test]
    fn colours_add_nothing_but_colours() {
        let colour = LiveLine { colour: true, ..PLAIN };
        let failing = LoadSecond { failed: 4, ..second() };
        let shown = text(colour, &failing, &[("not-tls", 4)]);
        let mut bare = String::new();
        for (index, part) in shown.split('\u{1b}').enumerate() {
            let rest = part.split_once('m').map_or(part, |(_, rest)| rest);
            bare += if index == 0 { part } else { rest };
        }
        assert!(shown.contains("\u{1b}[1;31m"));
        assert_eq!(bare, text(PLAIN, &failing, &[("not-tls", 4)]));
    }

    #[test]
    fn the_bar_grows_to_its_end() {
        let bar = |ms| PLAIN.bar(Duration::from_millis(ms), Duration::from_secs(10));
        assert_eq!(bar(0), "▕          ▏");
        assert_eq!(bar(125), "▕▏         ▏");
        assert_eq!(bar(5500), "▕█████▌    ▏");
        assert_eq!(bar(10_000), "▕██████████▏");
        assert_eq!(bar(11_000), "▕██████████▏");
        let unknown = PLAIN.text(&second(), &BTreeMap::new(), Duration::from_secs(7), None);
        assert_eq!(columns(&unknown), columns(&text(PLAIN, &second(), &[])));
        assert!(!unknown.contains('█'));
    }

    #[test]
    fn the_header_says_what_will_be_done() {
        let header = PLAIN.header(&plan());
        let lines: Vec<_> = header.lines().collect();
        assert_eq!(
            lines[..2],
            [
                "Loading http://127.0.0.1:8000/1k (127.0.0.1:8000) for 10 s: 50 connections at",
                "  once, a client each."
            ]
        );
        assert!(lines[2].ends_with(" mean      p99  resumed"), "{header}");
        let figures = text(PLAIN, &second(), &[]);
        assert_eq!(columns(lines[2]), columns(&figures), "columns stand under their heads");
    }

    #[test]
    fn open_load_is_told_by_its_rates() {
        let stretch =
            |from_per_s, to_per_s| Stretch { length: Duration::from_secs(5), from_per_s, to_per_s };
        let told = |stretches: &[Stretch], spacing, session_arrivals| {
            let arrival =
                ArrivalModel::Open { stretches: stretches.to_vec(), spacing, session_arrivals };
            sentence(&LoadPlan { arrival, ..plan() })
        };
        let even = [stretch(500.0, 500.0)];
        let constant = told(&even, Spacing::Constant, false);
        assert!(constant.contains(": 500/s, 50 clients"), "{constant}");
        let users = told(&even, Spacing::Constant, true);
        assert!(users.contains(": 500/s, new clients, 50 at once at most"), "{users}");
        let ramp = [stretch(10.0, 1000.0)];
        let ramp = told(&ramp, Spacing::Poisson, false);
        assert!(ramp.contains(": 10/s to 1000/s (Poisson)"), "{ramp}");
        let steps = [stretch(100.0, 100.0), stretch(200.0, 200.0)];
        let steps = told(&steps, Spacing::Constant, false);
        assert!(steps.contains("2 steps from 100/s to 200/s"), "{steps}");
    }

    #[test]
    fn locales_are_known_by_their_encoding() {
        assert!(is_utf8("C.UTF-8") && is_utf8("de_DE.utf8"));
        assert!(!is_utf8("C") && !is_utf8("de_DE.ISO-8859-1"));
    }
}
