//! One figure against another, with an interval, and that in words: how many times it is, or by
//! how much it is more. Knows figures and their units; not who is ahead by it.

use measure::ratio::{Margin, Ratio};

use super::words::{change, difference, digits, signed, times};
use super::yardstick::Yardstick;

/// What was found of two figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Found {
    /// How many times.
    Ratio(Ratio),
    /// By how much: of shares, and where a figure is 0, of which nothing is a multiple.
    Margin(Margin, Yardstick),
}

impl Found {
    /// Of pairs, one a round; `None` without any, or where there is nothing but 0 of a figure that
    /// is no share.
    pub(crate) fn of_pairs(pairs: &[(f64, f64)], yardstick: Yardstick) -> Option<Self> {
        let is_nothing = pairs.iter().all(|pair| *pair == (0.0, 0.0));
        if is_nothing && !yardstick.is_share() {
            return None;
        }
        let ratio = Ratio::of_pairs(pairs).filter(|_| !yardstick.is_share());
        let margin = || Some(Self::Margin(Margin::of_pairs(pairs)?, yardstick));
        ratio.map(Self::Ratio).or_else(margin)
    }

    /// Of samples of two runs.
    pub(crate) fn of_samples(above: &[f64], below: &[f64], yardstick: Yardstick) -> Option<Self> {
        let is_nothing = above.iter().chain(below).all(|sample| *sample == 0.0);
        if is_nothing && !yardstick.is_share() {
            return None;
        }
        let ratio = Ratio::of_samples(above, below).filter(|_| !yardstick.is_share());
        let margin = || Some(Self::Margin(Margin::of_samples(above, below)?, yardstick));
        ratio.map(Self::Ratio).or_else(margin)
    }

    /// The ratio or difference itself, in the unit of the record.
    pub(crate) fn value(&self) -> f64 {
        match self {
            Self::Ratio(ratio) => ratio.ratio,
            Self::Margin(margin, _) => margin.difference(),
        }
    }

    /// The ends of its interval.
    pub(crate) fn interval(&self) -> Option<(f64, f64)> {
        match self {
            Self::Ratio(ratio) => ratio.interval,
            Self::Margin(margin, _) => margin.interval,
        }
    }

    /// From how many rounds.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Ratio(ratio) => ratio.count,
            Self::Margin(margin, _) => margin.count,
        }
    }

    /// How likely equals differ so much by chance; `None` where there is no interval.
    pub(crate) fn chance(&self) -> Option<f64> {
        match self {
            Self::Ratio(ratio) => ratio.chance,
            Self::Margin(margin, _) => margin.chance,
        }
    }

    /// Whether the two differ, by all that the interval holds.
    pub(crate) fn is_proven(&self) -> bool {
        match self {
            Self::Ratio(ratio) => ratio.is_proven(),
            Self::Margin(margin, _) => margin.is_proven(),
        }
    }

    /// Whether it is less than what it is compared with.
    pub(crate) fn is_less(&self) -> bool {
        match self {
            Self::Ratio(ratio) => ratio.ratio < 1.0,
            Self::Margin(margin, _) => margin.difference() < 0.0,
        }
    }

    /// `12 % less (9.1 to 15 %)`, or `0 % against 40 % (−44 to −36 points)`.
    pub(crate) fn in_full(&self) -> String {
        match self {
            Self::Ratio(ratio) => difference(ratio),
            Self::Margin(margin, yardstick) => {
                let (above, below) = (yardstick.told(margin.above), yardstick.told(margin.below));
                with_interval(&format!("{above} against {below}"), margin, *yardstick)
            }
        }
    }

    /// `1.34× (1.30 to 1.38)`, or `−40 points (−44 to −36)`.
    pub(crate) fn in_cell(&self) -> String {
        match self {
            Self::Ratio(ratio) => times(ratio),
            Self::Margin(margin, yardstick) => match ends(margin, *yardstick) {
                Some((from, to)) => format!("{} ({from} to {to})", self.in_short()),
                None => self.in_short(),
            },
        }
    }

    /// `1.34×`, or `−40 points`.
    pub(crate) fn in_short(&self) -> String {
        match self {
            Self::Ratio(ratio) => format!("{}×", digits(ratio.ratio)),
            Self::Margin(margin, yardstick) => {
                let scaled = yardstick.scaled(margin.difference());
                format!("{} {}", signed(scaled), yardstick.points())
            }
        }
    }

    /// `+3.1 % (+2.0 to +4.2)`, or as in a cell.
    pub(crate) fn as_change(&self) -> String {
        match self {
            Self::Ratio(ratio) => change(ratio),
            Self::Margin(..) => self.in_cell(),
        }
    }
}

fn ends(margin: &Margin, yardstick: Yardstick) -> Option<(String, String)> {
    let (from, to) = margin.interval?;
    Some((signed(yardstick.scaled(from)), signed(yardstick.scaled(to))))
}

fn with_interval(words: &str, margin: &Margin, yardstick: Yardstick) -> String {
    match ends(margin, yardstick) {
        Some((from, to)) => format!("{words} ({from} to {to} {})", yardstick.points()),
        None => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use measure::experiment::Figure;

    use super::*;

    const LOSS: Yardstick = Yardstick::Of(Figure::Loss);

    #[test]
    fn shares_are_told_in_points() {
        let pairs = [(0.0, 0.38), (0.0, 0.40), (0.0, 0.42)];
        let found = Found::of_pairs(&pairs, LOSS).unwrap();
        assert_eq!(
            found.in_full(),
            "0 % against 40 % (\u{2212}45 to \u{2212}35 points)"
        );
        assert_eq!(
            found.in_cell(),
            "\u{2212}40 points (\u{2212}45 to \u{2212}35)"
        );
        assert!(found.is_proven() && found.is_less());
        // Shares above 0 are subtracted as well.
        let pairs = [(0.2, 0.4), (0.21, 0.4), (0.19, 0.4)];
        let found = Found::of_pairs(&pairs, LOSS).unwrap();
        assert_eq!(found.in_short(), "\u{2212}20 points");
    }

    #[test]
    fn a_round_with_nothing_is_not_dropped() {
        let memory = Yardstick::Of(Figure::ConnectionMemory);
        let pairs = [(2048.0, 1024.0), (2048.0, 1024.0), (0.0, 1024.0)];
        let found = Found::of_pairs(&pairs, memory).unwrap();
        assert_eq!(found.count(), 3);
        assert_eq!(found.in_short(), "+0.3 KiB");
        assert!(!found.is_proven());
        let found = Found::of_samples(&[0.0, 0.0], &[1024.0, 1024.0], memory).unwrap();
        assert_eq!(
            found.as_change(),
            "\u{2212}1.0 KiB (\u{2212}1.0 to \u{2212}1.0)"
        );
    }

    #[test]
    fn nothing_at_all_is_a_figure_of_shares_alone() {
        let nothing = [(0.0, 0.0); 3];
        assert!(Found::of_pairs(&nothing, LOSS).is_some());
        assert_eq!(
            Found::of_pairs(&nothing, Yardstick::Of(Figure::Bandwidth)),
            None
        );
    }
}
