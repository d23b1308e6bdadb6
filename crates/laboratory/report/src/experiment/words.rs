//! Ratios and intervals in words.

use measure::quantity::Count;
use measure::ratio::Ratio;
use measure::student::CONFIDENCE;

/// `12 % less (9.1 to 15 %)`, or `2.3 times as much (2.1 to 2.5)`.
pub(crate) fn difference(ratio: &Ratio) -> String {
    /// From here on it is told as a multiple.
    const MULTIPLE_FROM: f64 = 2.0;
    if ratio.ratio >= MULTIPLE_FROM {
        let times = format!("{} times as much", digits(ratio.ratio));
        return match ratio.interval {
            Some((from, to)) => format!("{times} ({} to {})", digits(from), digits(to)),
            None => times,
        };
    }
    let is_less = ratio.ratio < 1.0;
    let percent = |ratio: f64| (if is_less { 1.0 - ratio } else { ratio - 1.0 }) * 100.0;
    let word = if is_less { "less" } else { "more" };
    let middle = format!("{} % {word}", hundredths(percent(ratio.ratio)));
    let Some((from, to)) = ratio.interval else {
        return middle;
    };
    let (from, to) = match is_less {
        true => (percent(to), percent(from)),
        false => (percent(from), percent(to)),
    };
    format!("{middle} ({} to {} %)", hundredths(from), hundredths(to))
}

/// `1.34× (1.30 to 1.38)`; without an interval where there were too few rounds.
pub(crate) fn times(ratio: &Ratio) -> String {
    match ratio.interval {
        Some(_) => format!("{}× ({})", digits(ratio.ratio), interval(ratio)),
        None => format!("{}×", digits(ratio.ratio)),
    }
}

/// `1.30 to 1.38`; empty where there is none.
pub(crate) fn interval(ratio: &Ratio) -> String {
    let Some((from, to)) = ratio.interval else {
        return String::new();
    };
    format!("{} to {}", digits(from), digits(to))
}

/// `B` to `A` as a change in percent: `+3.1 % (+2.0 to +4.2)`.
pub(crate) fn change(ratio: &Ratio) -> String {
    let percent = |ratio: f64| signed((ratio - 1.0) * 100.0);
    match ratio.interval {
        Some((from, to)) => format!(
            "{} % ({} to {})",
            percent(ratio.ratio),
            percent(from),
            percent(to)
        ),
        None => format!("{} %", percent(ratio.ratio)),
    }
}

/// With its sign, as differences are told.
pub(crate) fn signed(value: f64) -> String {
    if value >= 1e4 {
        return "over +10\u{202f}000".to_owned();
    }
    let text = hundredths(value.abs());
    match text.trim_matches(['0', '.']).is_empty() {
        true => "0".to_owned(),
        false if value < 0.0 => format!("\u{2212}{text}"),
        false => format!("+{text}"),
    }
}

/// A percentage: one decimal under 10.
fn hundredths(percent: f64) -> String {
    match percent.abs() {
        ..9.95 => format!("{percent:.1}"),
        _ => digits(percent.round()).trim_end_matches(".0").to_owned(),
    }
}

/// Two decimals under 10, one under 100; where an interval has no end to speak of, that is said.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        ..1e4 => Count(value.round()).to_string(),
        _ => "over 10\u{202f}000".to_owned(),
    }
}

/// With a capital letter, as titles begin.
pub(crate) fn titled(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters
        .next()
        .map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}

/// How many of so many comparisons are told as differences by chance alone.
pub(crate) fn by_chance(all: usize) -> String {
    let few = all as f64 * (1.0 - CONFIDENCE);
    format!("Of {all} comparisons of equals about {few:.1} would differ by chance (5 %).")
}

/// Names in a row: `a, b and c`.
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(ratio: f64, from: f64, to: f64) -> Ratio {
        Ratio {
            ratio,
            interval: Some((from, to)),
            chance: None,
            count: 3,
        }
    }

    #[test]
    fn differences_are_percents_or_multiples() {
        assert_eq!(
            difference(&ratio(0.88, 0.85, 0.91)),
            "12 % less (9.0 to 15 %)"
        );
        assert_eq!(
            difference(&ratio(1.05, 1.01, 1.09)),
            "5.0 % more (1.0 to 9.0 %)"
        );
        assert_eq!(
            difference(&ratio(1.05, 0.95, 1.15)),
            "5.0 % more (-5.0 to 15 %)"
        );
        assert_eq!(
            difference(&ratio(2.3, 2.1, 2.5)),
            "2.30 times as much (2.10 to 2.50)"
        );
    }

    #[test]
    fn changes_have_signs() {
        assert_eq!(
            change(&ratio(0.9, 0.8, 1.0)),
            "\u{2212}10 % (\u{2212}20 to 0)"
        );
        let none = Ratio {
            interval: None,
            chance: None,
            ..ratio(1.5, 0.0, 0.0)
        };
        assert_eq!(change(&none), "+50 %");
        assert_eq!(times(&none), "1.50×");
    }

    #[test]
    fn an_interval_of_two_rounds_may_be_very_wide() {
        assert_eq!(
            times(&ratio(1.0, 1e-9, 1e9)),
            "1.00× (0.00 to over 10\u{202f}000)"
        );
    }
}
