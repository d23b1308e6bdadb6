//! A peer against the first one: how many times its figure, and whether that proves anything.

use measure::ratio::Ratio;

use super::study::Entry;
use super::words::{digits, times};
use super::yardstick::Yardstick;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Versus {
    /// The peer's figure to the first one's, by round.
    pub(crate) ratio: Ratio,
    pub(crate) verdict: Verdict,
}

/// Who is ahead.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Verdict {
    /// The peer, by all that the interval holds.
    Ahead,
    /// No difference is established.
    Level,
    /// The first, by all that the interval holds.
    Behind,
    /// There are too few rounds to tell a difference from noise.
    Unjudged,
    /// The peer does no TLS: it shows what TLS costs, and is no rival.
    Apart,
}

/// A peer against the first one, in rounds in which both were read; `None` without any.
pub(crate) fn versus(entry: &Entry<'_>, first: &Entry<'_>, yardstick: Yardstick) -> Option<Versus> {
    let pairs = entry.readings.iter().filter_map(|(repeat, reading)| {
        let other = first.readings.get(repeat)?;
        Some((yardstick.of(reading)?, yardstick.of(other)?))
    });
    let ratio = Ratio::of_pairs(&pairs.collect::<Vec<_>>())?;
    let verdict = match entry.is_plain() {
        true => Verdict::Apart,
        false => verdict(&ratio, yardstick.is_cost()),
    };
    Some(Versus { ratio, verdict })
}

/// What a ratio says about who has the figure above its line.
pub(crate) fn verdict(ratio: &Ratio, is_cost: bool) -> Verdict {
    match ratio.is_proven() {
        _ if ratio.interval.is_none() => Verdict::Unjudged,
        false => Verdict::Level,
        true if (ratio.ratio < 1.0) == is_cost => Verdict::Ahead,
        true => Verdict::Behind,
    }
}

impl Versus {
    /// `▽ 1.34× (1.30 to 1.38)`.
    pub(crate) fn words(&self) -> String {
        let words = format!("{} {}", self.verdict.sign(), times(&self.ratio));
        words.trim_start().to_owned()
    }

    /// `▽ 1.34×`.
    pub(crate) fn short(&self) -> String {
        let words = format!("{} {}×", self.verdict.sign(), digits(self.ratio.ratio));
        words.trim_start().to_owned()
    }
}

impl Verdict {
    /// In front of a ratio, for those who see no colours.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Ahead => "▲",
            Self::Level => "≈",
            Self::Behind => "▽",
            Self::Unjudged => "?",
            Self::Apart => "",
        }
    }

    /// The style of it.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Ahead => "ahead",
            Self::Level => "level",
            Self::Behind => "behind",
            Self::Unjudged => "unjudged",
            Self::Apart => "apart",
        }
    }
}
