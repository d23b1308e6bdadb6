//! A peer against the first one: how many times its figure, and whether that proves anything.

use measure::ratio::Ratio;

use super::study::Entry;
use super::yardstick::Yardstick;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Versus {
    /// The peer's figure to the first one's, by round.
    pub(crate) ratio: Ratio,
    pub(crate) verdict: Verdict,
}

/// Who is ahead.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// The peer, by all that the interval holds.
    Ahead,
    /// No difference is established.
    Level,
    /// The first, by all that the interval holds.
    Behind,
}

/// A peer against the first one, in rounds in which both were read; `None` without any.
pub(crate) fn versus(entry: &Entry<'_>, first: &Entry<'_>, yardstick: Yardstick) -> Option<Versus> {
    let pairs = entry.readings.iter().filter_map(|(repeat, reading)| {
        let other = first.readings.get(repeat)?;
        Some((yardstick.of(reading)?, yardstick.of(other)?))
    });
    let ratio = Ratio::of_pairs(&pairs.collect::<Vec<_>>())?;
    let verdict = verdict(&ratio, yardstick.is_cost());
    Some(Versus { ratio, verdict })
}

/// What a ratio says about who has the figure above its line.
pub(crate) fn verdict(ratio: &Ratio, is_cost: bool) -> Verdict {
    match ratio.is_proven() {
        false => Verdict::Level,
        true if (ratio.ratio < 1.0) == is_cost => Verdict::Ahead,
        true => Verdict::Behind,
    }
}

impl Verdict {
    /// In front of a ratio, for those who see no colours.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Ahead => "▲",
            Self::Level => "≈",
            Self::Behind => "▽",
        }
    }

    /// The style of it.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Ahead => "ahead",
            Self::Level => "level",
            Self::Behind => "behind",
        }
    }
}
