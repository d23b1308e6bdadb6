//! Formats quantities for records, and for people with three significant digits and a unit; and
//! checks the bounds of quantities in files that others may have edited: none is negative, and none
//! so large or so small that results computed from it would be nonsense.
//!
//! The users of figures check whether they agree with each other.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Converts a duration for records; centuries become the greatest number.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds, shown as `412 ns`, `17.3 µs`, `8.05 ms` or `2.50 s`.
#[derive(Clone, Copy, Debug)]
pub struct Nanoseconds(pub f64);

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0, 1000.0, &["ns", "µs", "ms", "s"])
    }
}

/// Bytes, shown as `512 B`, `1.00 KiB`, `3.20 GiB`.
#[derive(Clone, Copy, Debug)]
pub struct ByteCount(pub u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0 as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
    }
}

/// A count or rate with its thousands set apart, as `12 345`; under 10 with two decimals unless
/// whole, under 100 with one.
#[derive(Clone, Copy, Debug)]
pub struct RoundedCount(pub f64);

impl fmt::Display for RoundedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.fract().abs() < 1e-9;
        let text = match self.0.abs() {
            _ if whole => format!("{:.0}", self.0),
            ..9.995 => format!("{:.2}", self.0),
            ..99.95 => format!("{:.1}", self.0),
            _ => format!("{:.0}", self.0),
        };
        f.pad(&grouped(&text))
    }
}

/// A share of a whole, shown as a percentage: `75 %`, `0.012 %`, `100 %`. Only the whole is 100 %.
#[derive(Clone, Copy, Debug)]
pub struct Percentage {
    pub part: u64,
    pub whole: u64,
}

impl fmt::Display for Percentage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = match self.whole {
            0 => 0.0,
            whole => self.part as f64 / whole as f64 * 100.0,
        };
        let text = match percent {
            _ if self.part == self.whole && self.whole > 0 => "100 %".to_owned(),
            0.0 => "0 %".to_owned(),
            ..0.1 => format!("{percent:.3} %"),
            ..10.0 => format!("{percent:.2} %"),
            // A part must not be rounded up to the whole.
            _ => format!("{:.1} %", percent.min(99.9)),
        };
        f.pad(&text)
    }
}

fn scaled(f: &mut fmt::Formatter<'_>, value: f64, step: f64, units: &[&str]) -> fmt::Result {
    let mut scaled = value;
    let mut index = 0;
    // 999.5 would be shown as 1000.
    while scaled.abs() >= step.min(999.5) && index + 1 < units.len() {
        scaled /= step;
        index += 1;
    }
    let decimals = match scaled.abs() {
        _ if index == 0 => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    f.pad(&format!("{scaled:.decimals$} {}", units[index]))
}

/// Separates thousands by a narrow space, from five digits on.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let digits = whole.trim_start_matches('-').len();
    if digits < 5 {
        return number.to_owned();
    }
    let mut text = String::with_capacity(number.len() + 8);
    for (index, digit) in whole.chars().enumerate() {
        let left = whole.len() - index;
        if index > 0 && left % 3 == 0 && !text.ends_with('-') {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text + rest
}

/// Greatest figure: in nanoseconds a hundred days, in bytes eight PiB. The sum of some thousand of
/// them fits into 64 bits, and JSON keeps all their digits.
const LARGEST: u64 = 1 << 53;

/// Least figure except zero: shares that are differences have such errors of rounding.
const SMALLEST: f64 = 1e-30;

/// Field that may be any number, because it only decides the order of a run.
const SEED: &str = "seed";

/// Refuses a JSON document with a figure that cannot have been measured.
///
/// # Errors
/// Fails with the first such figure, its line and column; or if the text is no JSON.
pub fn check(text: &[u8]) -> Result<(), serde_json::Error> {
    serde_json::from_slice::<PlausibleFigures>(text).map(drop)
}

/// Any JSON value whose figures are plausible.
struct PlausibleFigures;

impl<'de> Deserialize<'de> for PlausibleFigures {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for PlausibleFigures {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("figures that can be measured")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self, E> {
        if value <= LARGEST { Ok(self) } else { Err(implausible(&value)) }
    }

    /// The reader calls this for negative figures alone.
    fn visit_i64<E: Error>(self, value: i64) -> Result<Self, E> {
        if value >= 0 { Ok(self) } else { Err(implausible(&value)) }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self, E> {
        let is_plausible = value == 0.0 || (SMALLEST..=LARGEST as f64).contains(&value);
        if is_plausible { Ok(self) } else { Err(implausible(&format_args!("{value:e}"))) }
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self, A::Error> {
        while let Some(Self) = all.next_element()? {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Self, A::Error> {
        while let Some(name) = all.next_key::<String>()? {
            if name == SEED {
                all.next_value::<IgnoredAny>()?;
            } else {
                all.next_value::<Self>()?;
            }
        }
        Ok(self)
    }
}

fn implausible<E: Error>(value: &dyn fmt::Display) -> E {
    E::custom(format_args!("the figure {value} cannot have been measured"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_a_unit() {
        let shown = |ns: f64| Nanoseconds(ns).to_string();
        assert_eq!(shown(0.0), "0 ns");
        assert_eq!(shown(999.0), "999 ns");
        assert_eq!(shown(999.6), "1.00 µs");
        assert_eq!(shown(17_340.0), "17.3 µs");
        assert_eq!(shown(8_050_000.0), "8.05 ms");
        assert_eq!(shown(2.5e9), "2.50 s");
        assert_eq!(shown(4e12), "4000 s");
    }

    #[test]
    fn sizes_are_binary() {
        assert_eq!(ByteCount(512).to_string(), "512 B");
        assert_eq!(ByteCount(1024).to_string(), "1.00 KiB");
        assert_eq!(ByteCount(3 << 30).to_string(), "3.00 GiB");
    }

    #[test]
    fn counts_are_grouped() {
        let shown = |count: f64| RoundedCount(count).to_string();
        assert_eq!(shown(7.0), "7");
        assert_eq!(shown(7.25), "7.25");
        assert_eq!(shown(71.26), "71.3");
        assert_eq!(shown(7126.0), "7126");
        assert_eq!(shown(1_234_567.0), "1\u{202f}234\u{202f}567");
        assert_eq!(shown(-123_456.0), "-123\u{202f}456");
    }

    #[test]
    fn only_all_is_a_hundred_percent() {
        let shown = |part, whole| Percentage { part, whole }.to_string();
        assert_eq!(shown(3, 4), "75.0 %");
        assert_eq!(shown(99_999, 100_000), "99.9 %");
        assert_eq!(shown(4, 4), "100 %");
        assert_eq!(shown(0, 0), "0 %");
        assert_eq!(shown(12, 100_000), "0.012 %");
    }

    #[test]
    fn what_cannot_be_measured_is_refused_where_it_stands() {
        for good in ["0", "1.5", "[[1,2],[]]", r#"{"seed":18446744073709551615,"a":null}"#, "1e-17"]
        {
            assert!(check(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in ["-1", "-0.5", "1e308", "5e-324", "18446744073709551615", "9007199254740993"] {
            let text = format!("{{\"a\": true,\n \"b\": [\"x\", {{\"c\": {bad}}}]}}");
            let error = check(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("cannot have been measured at line 2"), "{bad}: {error}");
        }
        assert!(check(b"1e400").is_err() && check(b"{").is_err());
    }
}
