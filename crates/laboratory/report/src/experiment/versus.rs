//! A target against the first one: by how much its figure differs, and whether that is proven.

use super::found::Found;
use super::limits::{is_quiet, tells_of_load};
use super::study::Entry;
use super::yardstick::Yardstick;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Versus {
    /// The target's figure against the first one's, by round.
    pub(crate) found: Found,
    pub(crate) verdict: Verdict,
}

/// Who is ahead.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Verdict {
    /// The target, by all that the interval holds.
    Ahead,
    /// No difference is established.
    Level,
    /// The first, by all that the interval holds.
    Behind,
    /// The figure tells of what loaded the server.
    OfLoad,
    /// There are too few rounds to tell a difference from noise.
    Unjudged,
    /// The target does other work than the first, and is no rival.
    Apart,
}

/// Fewer rounds are not judged.
pub(crate) const ROUNDS_MIN: usize = 3;

/// A target against the first one, in rounds in which both were read; `None` without any.
pub(crate) fn versus(entry: &Entry<'_>, first: &Entry<'_>, yardstick: Yardstick) -> Option<Versus> {
    let read = |is_judged: bool| {
        let pairs = entry.readings.iter().filter_map(move |(repeat, reading)| {
            let other = first.readings.get(repeat)?;
            let is_told = !is_judged || (is_quiet(reading) && is_quiet(other));
            is_told.then_some((yardstick.of(reading)?, yardstick.of(other)?))
        });
        pairs.collect::<Vec<_>>()
    };
    // What is too noisy to be judged is shown nevertheless.
    let (pairs, is_judged) = match read(true) {
        pairs if pairs.is_empty() => (read(false), false),
        pairs => (pairs, true),
    };
    let found = Found::of_pairs(&pairs, yardstick)?;
    let verdict = match entry.is_rival_of(first) {
        false => Verdict::Apart,
        true if [entry, first].iter().any(|it| tells_of_load(it, yardstick)) => Verdict::OfLoad,
        true if !is_judged => Verdict::Unjudged,
        true => verdict(&found, yardstick),
    };
    Some(Versus { found, verdict })
}

/// What a comparison says about who has the figure that is told first.
pub(crate) fn verdict(found: &Found, yardstick: Yardstick) -> Verdict {
    match found.is_proven() {
        _ if found.count() < ROUNDS_MIN => Verdict::Unjudged,
        false => Verdict::Level,
        true if found.is_less() == yardstick.is_cost() => Verdict::Ahead,
        true => Verdict::Behind,
    }
}

impl Versus {
    /// `▽ 1.34× (1.30 to 1.38)`.
    pub(crate) fn words(&self) -> String {
        self.signed(&self.found.in_cell())
    }

    /// `▽ 1.34×`.
    pub(crate) fn short(&self) -> String {
        self.signed(&self.found.in_short())
    }

    fn signed(&self, words: &str) -> String {
        let words = format!("{} {words}", self.verdict.sign());
        words.trim_start().to_owned()
    }
}

impl Verdict {
    /// In front of a comparison, for those who see no colours.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Ahead => "▲",
            Self::Level => "≈",
            Self::Behind => "▽",
            Self::OfLoad => "○",
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
            Self::OfLoad => "of-load",
            Self::Unjudged => "unjudged",
            Self::Apart => "apart",
        }
    }
}
