//! Compares one metric of two configurations: the effect in words, and the verdict about the first.

use measure::effect::{Effect, EffectScale};
use measure::experiment::Measurement;
use measure::metric::Metric;

use super::study::StudyEntry;
use crate::words::{digits, in_percent, percentage};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) metric: Metric,
    pub(crate) effect: Effect,
    pub(crate) verdict: ComparisonVerdict,
    /// Greater step of the two ramps, as a share of the value read from them.
    pub(crate) step: Option<f64>,
}

/// Verdict of a comparison about its first metric.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum ComparisonVerdict {
    Better,
    /// The interval lies within [`EQUAL_WITHIN`].
    Equal,
    /// The interval contains both zero and a difference that matters.
    NotKnown,
    /// The two lie within one step of the ramp, however often they are measured.
    WithinStep,
    Worse,
    /// The metric depends on the machine that loaded the server.
    LoadLimited,
    /// A difference cannot be distinguished from noise.
    TooFewRounds,
    /// The two do different work, and are not ranked.
    OtherWork,
}

/// Minimum of rounds for a verdict.
pub(crate) const ROUNDS_MIN: usize = 3;

/// Minimum busy share of a server's time at which the server limits a closed load.
pub(crate) const BUSY_MIN: f64 = 0.85;

/// Maximum reach of a ratio's interval at which figures are called equal: the test of equivalence
/// of Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987), with an interval at
/// 95 % where 90 % would do.
const EQUAL_WITHIN: f64 = 0.05;

/// Limit for shares, which are subtracted: in parts of 1.
const EQUAL_WITHIN_POINTS: f64 = 0.01;

/// Reports whether a metric depends on the load generator rather than the server: a rate or
/// response time of a closed load that shared the server's CPUs, or left them idle.
fn is_load_limited(entry: &StudyEntry<'_>, metric: Metric) -> bool {
    let mut closed = entry.measurements.values().filter(|it| is_closed(it));
    let is_shared = closed.any(|it| it.noise.is_shared);
    let is_idle = !entry.scenario.end_to_end && busy(entry).is_some_and(|busy| busy < BUSY_MIN);
    metric.depends_on_load() && (is_shared || is_idle)
}

/// Returns the busy share of the server's CPU time, as the median of the known values; an open load
/// leaves a server idle by intent.
pub(crate) fn busy(entry: &StudyEntry<'_>) -> Option<f64> {
    let known = entry.measurements.values().filter(|it| is_closed(it) && !it.noise.is_shared);
    let mut shares: Vec<f64> = known.map(|it| it.noise.server_busy).collect();
    shares.sort_by(f64::total_cmp);
    shares.get(shares.len() / 2).copied()
}

fn is_closed(measurement: &Measurement) -> bool {
    measurement.offered_per_s.is_none() && measurement.seconds.is_empty()
}

/// Compares two entries in the rounds in which both were measured; `None` if there are none.
pub(crate) fn compare(
    entry: &StudyEntry<'_>,
    base: &StudyEntry<'_>,
    metric: Metric,
) -> Option<Comparison> {
    let effect = Effect::of_metric(metric, &entry.pairs(base, metric, |_| true));
    let found = effect.map(|effect| judged([entry, base], metric, effect));
    if entry.does_same_work(base) {
        return found;
    }
    found.map(|found| Comparison { verdict: ComparisonVerdict::OtherWork, ..found })
}

/// Compares the entries of two runs.
pub(crate) fn compare_runs(
    entry: &StudyEntry<'_>,
    base: &StudyEntry<'_>,
    metric: Metric,
) -> Option<Comparison> {
    let effect = Effect::of_runs(metric, &entry.samples(metric), &base.samples(metric));
    effect.map(|effect| judged([entry, base], metric, effect))
}

fn judged(entries: [&StudyEntry<'_>; 2], metric: Metric, effect: Effect) -> Comparison {
    let step = entries.iter().filter_map(|entry| entry.step(metric)).reduce(f64::max);
    Comparison { metric, effect, verdict: verdict(entries, metric, &effect, step), step }
}

fn verdict(
    entries: [&StudyEntry<'_>; 2],
    metric: Metric,
    effect: &Effect,
    step: Option<f64>,
) -> ComparisonVerdict {
    let is_within = |step: f64| effect.value.max(effect.value.recip()) <= 1.0 + step;
    if entries.iter().any(|entry| is_load_limited(entry, metric)) {
        ComparisonVerdict::LoadLimited
    } else if effect.count < ROUNDS_MIN {
        ComparisonVerdict::TooFewRounds
    } else if effect.scale == EffectScale::Ratio && step.is_some_and(is_within) {
        ComparisonVerdict::WithinStep
    } else if !effect.is_proven() && is_equal(metric, effect) {
        ComparisonVerdict::Equal
    } else if !effect.is_proven() {
        ComparisonVerdict::NotKnown
    } else if effect.is_less() == metric.is_less_better() {
        ComparisonVerdict::Better
    } else {
        ComparisonVerdict::Worse
    }
}

fn is_equal(metric: Metric, effect: &Effect) -> bool {
    let margin = match effect.scale {
        EffectScale::Ratio => EQUAL_WITHIN,
        EffectScale::Difference if metric.is_share() => EQUAL_WITHIN_POINTS,
        // A figure was 0 in a round.
        EffectScale::Difference => EQUAL_WITHIN * effect.means.1.abs(),
    };
    effect.reach().is_some_and(|(possible, _)| possible <= margin)
}

impl ComparisonVerdict {
    pub(crate) fn is_counted(self) -> bool {
        !matches!(self, Self::LoadLimited | Self::TooFewRounds | Self::OtherWork)
    }

    pub(crate) fn is_difference(self) -> bool {
        matches!(self, Self::Better | Self::Worse)
    }

    /// Returns the sign in front of a comparison, since colours alone do not suffice, and an id.
    fn marks(self) -> (&'static str, &'static str) {
        match self {
            Self::Better => ("▲ ", "better"),
            Self::Equal => ("≈ ", "equal"),
            Self::NotKnown | Self::WithinStep => ("~ ", "not-known"),
            Self::Worse => ("▽ ", "worse"),
            Self::LoadLimited => ("○ ", "load-limited"),
            Self::TooFewRounds => ("? ", "too-few-rounds"),
            Self::OtherWork => ("", "other-work"),
        }
    }

    pub(crate) fn sign(self) -> &'static str {
        self.marks().0
    }

    pub(crate) fn id(self) -> &'static str {
        self.marks().1
    }
}

pub(crate) const SIGNS: &str = "▲ better than the reference, ▽ worse, ≈ equal within 5 %, ~ \
     not known, or equal within one step of the ramp (± %), ○ limited by the load, ? too few \
     rounds; medians of repeats; ratios, or differences of shares, by round with their 95 % \
     interval";

impl Comparison {
    /// Returns the effect with its sign: `▽ 1.34× (1.30 to 1.38)`.
    pub(crate) fn signed(&self) -> String {
        self.verdict.sign().to_owned() + &in_cell(&self.effect, self.metric)
    }

    pub(crate) fn short(&self) -> String {
        self.verdict.sign().to_owned() + &in_short(&self.effect, self.metric)
    }

    /// Returns `▽ +34 % (+30 to +38)`, or the text of a cell.
    pub(crate) fn as_change(&self) -> String {
        let percent = |ratio: f64| signed((ratio - 1.0) * 100.0);
        let words = match self.effect.scale {
            EffectScale::Difference => in_cell(&self.effect, self.metric),
            EffectScale::Ratio => {
                let middle = format!("{} %", percent(self.effect.value));
                with_interval(middle, self.effect.interval, percent, "")
            }
        };
        let remark = self.remark().map_or_else(String::new, |remark| format!("; {remark}"));
        self.verdict.sign().to_owned() + &words + &remark
    }

    /// Returns `equal within 2.1 %`, or `not known: less than 12 % could not have been seen`;
    /// `None` for better, worse or unjudged comparisons.
    pub(crate) fn remark(&self) -> Option<String> {
        let (possible, visible) = self.effect.reach()?;
        let shown = |value: f64| match self.effect.scale {
            EffectScale::Ratio => format!("{} %", percentage(value * 100.0)),
            EffectScale::Difference => {
                let value = percentage(self.metric.scaled(value));
                format!("{value} {}", self.metric.unit().of_differences())
            }
        };
        match self.verdict {
            ComparisonVerdict::Equal if possible == 0.0 => {
                Some("the same in each round".to_owned())
            }
            ComparisonVerdict::Equal => Some(format!("equal within {}", shown(possible))),
            ComparisonVerdict::NotKnown => {
                let visible = shown(visible);
                Some(format!("not known: less than {visible} could not have been seen"))
            }
            ComparisonVerdict::WithinStep => self.step.map(within_step),
            _ => None,
        }
    }

    /// Returns the effect and its interval: `12 % less` and `9.1 to 15 %`, `2.30 times as much` and
    /// `2.10 to 2.50`, or `0 % against 40 %` and `−44 to −36 points`.
    pub(crate) fn parts(&self) -> (String, Option<String>) {
        /// Least ratio that is shown as a multiple.
        const MULTIPLE_FROM: f64 = 2.0;
        let Effect { value, interval, means, .. } = self.effect;
        if self.effect.scale == EffectScale::Difference {
            let amount = |mean| self.metric.amount(mean);
            let words = format!("{} against {}", amount(means.0), amount(means.1));
            let points = |value| signed(self.metric.scaled(value));
            let unit = format!(" {}", self.metric.unit().of_differences());
            return (words, shown_interval(interval, points, &unit));
        }
        if value >= MULTIPLE_FROM {
            let words = format!("{} times as much", digits(value));
            return (words, shown_interval(interval, digits, ""));
        }
        let (sign, word) = if value < 1.0 { (-1.0, "less") } else { (1.0, "more") };
        let percent = |ratio: f64| percentage((ratio - 1.0) * sign * 100.0);
        let interval = match interval {
            Some((from, to)) if value < 1.0 => Some((to, from)),
            interval => interval,
        };
        (format!("{} % {word}", percent(value)), shown_interval(interval, percent, " %"))
    }
}

pub(crate) fn within_step(step: f64) -> String {
    format!("equal within one step of the ramp: {}", in_percent(step))
}

/// Returns `1.34× (1.30 to 1.38)`, or `−40 points (−44 to −36)`; without an interval if there were
/// too few rounds.
pub(crate) fn in_cell(effect: &Effect, metric: Metric) -> String {
    let shown = |value: f64| match effect.scale {
        EffectScale::Ratio => digits(value),
        EffectScale::Difference => signed(metric.scaled(value)),
    };
    with_interval(in_short(effect, metric), effect.interval, shown, "")
}

fn in_short(effect: &Effect, metric: Metric) -> String {
    match effect.scale {
        EffectScale::Ratio => format!("{}×", digits(effect.value)),
        EffectScale::Difference => {
            let value = signed(metric.scaled(effect.value));
            format!("{value} {}", metric.unit().of_differences())
        }
    }
}

fn with_interval(
    words: String,
    interval: Option<(f64, f64)>,
    shown: impl Fn(f64) -> String,
    unit: &str,
) -> String {
    match shown_interval(interval, shown, unit) {
        Some(interval) => format!("{words} ({interval})"),
        None => words,
    }
}

fn shown_interval(
    interval: Option<(f64, f64)>,
    shown: impl Fn(f64) -> String,
    unit: &str,
) -> Option<String> {
    let (from, to) = interval?;
    Some(format!("{} to {}{unit}", shown(from), shown(to)))
}

/// Formats a difference with its sign.
fn signed(value: f64) -> String {
    if value >= 1e4 {
        return "over +10\u{202f}000".to_owned();
    }
    let text = percentage(value.abs());
    let sign = match value {
        _ if text.trim_matches(['0', '.']).is_empty() => return "0".to_owned(),
        ..0.0 => '\u{2212}',
        _ => '+',
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(metric: Metric, effect: Effect) -> Comparison {
        Comparison { metric, effect, verdict: ComparisonVerdict::OtherWork, step: None }
    }

    fn ratio(value: f64, from: f64, to: f64) -> Comparison {
        let effect = Effect::of_pairs(&[(1.0, 1.0)], EffectScale::Ratio).unwrap();
        let interval = (from < to).then_some((from, to));
        of(Metric::Rate, Effect { value, interval, ..effect })
    }

    fn in_full(comparison: Comparison) -> String {
        let (words, interval) = comparison.parts();
        format!("{words} ({})", interval.unwrap())
    }

    #[test]
    fn ratios_are_percents_or_multiples() {
        for (comparison, wanted) in [
            (ratio(0.88, 0.85, 0.91), "12 % less (9.0 to 15 %)"),
            (ratio(1.05, 1.01, 1.09), "5.0 % more (1.0 to 9.0 %)"),
            (ratio(1.05, 0.95, 1.15), "5.0 % more (-5.0 to 15 %)"),
            (ratio(2.3, 2.1, 2.5), "2.30 times as much (2.10 to 2.50)"),
        ] {
            assert_eq!(in_full(comparison), wanted);
        }
        let change = ratio(0.9, 0.8, 1.0).as_change();
        assert_eq!(change, "\u{2212}10 % (\u{2212}20 to 0)");
        assert_eq!(ratio(1.5, 0.0, 0.0).as_change(), "+50 %");
        assert_eq!(ratio(1.5, 0.0, 0.0).signed(), "1.50×");
        let wide = ratio(1.0, 1e-9, 1e9).signed();
        assert_eq!(wide, "1.00× (0.00 to over 10\u{202f}000)");
    }

    #[test]
    fn shares_differ_by_points() {
        let metric = Metric::ErrorRate;
        let pairs = [(0.0, 0.38), (0.0, 0.40), (0.0, 0.42)];
        let found = of(metric, Effect::of_metric(metric, &pairs).unwrap());
        let wanted = "0 % against 40 % (\u{2212}45 to \u{2212}35 points)";
        assert_eq!(in_full(found), wanted);
        let wanted = "\u{2212}40 points (\u{2212}45 to \u{2212}35)";
        assert_eq!(found.signed(), wanted);
        assert!(found.effect.is_proven() && found.effect.is_less());
        // Shares above 0 are subtracted as well.
        let pairs = [(0.2, 0.4), (0.21, 0.4), (0.19, 0.4)];
        let found = of(metric, Effect::of_metric(metric, &pairs).unwrap());
        assert_eq!(found.short(), "\u{2212}20 points");
        assert!(Effect::of_metric(metric, &[(0.0, 0.0); 3]).is_some());
        assert_eq!(Effect::of_metric(Metric::Bandwidth, &[(0.0, 0.0); 3]), None);
    }

    #[test]
    fn a_round_with_nothing_is_not_dropped() {
        let metric = Metric::ConnectionMemory;
        let pairs = [(2048.0, 1024.0), (2048.0, 1024.0), (0.0, 1024.0)];
        let found = of(metric, Effect::of_metric(metric, &pairs).unwrap());
        assert_eq!((found.effect.count, found.short().as_str()), (3, "+0.3 KiB"));
        assert!(!found.effect.is_proven());
        let effect = Effect::of_runs(metric, &[0.0, 0.0], &[1024.0, 1024.0]).unwrap();
        let wanted = "\u{2212}1.0 KiB (\u{2212}1.0 to \u{2212}1.0)";
        assert_eq!(of(metric, effect).as_change(), wanted);
    }
}
