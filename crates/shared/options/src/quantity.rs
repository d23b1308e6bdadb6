//! Parses and formats durations, sizes, ranges and CPU lists as people write them.

use std::ops::RangeInclusive;
use std::time::Duration;

pub const SECOND: Duration = Duration::from_secs(1);
pub const HOUR: Duration = Duration::from_secs(3600);
pub const DAY: Duration = Duration::from_secs(86_400);

/// Units of durations, each with its nanoseconds, the largest first.
const DURATION_UNITS: &[(&[&str], u64)] = &[
    (&["d"], 86_400_000_000_000),
    (&["h"], 3_600_000_000_000),
    (&["m"], 60_000_000_000),
    (&["s"], 1_000_000_000),
    (&["ms"], 1_000_000),
    (&["us", "µs"], 1000),
    (&["ns"], 1),
];

/// Units of sizes, each with its bytes, the largest first.
const SIZE_UNITS: &[(&[&str], u64)] = &[
    (&["TiB", "t"], 1 << 40),
    (&["GiB", "g"], 1 << 30),
    (&["MiB", "m"], 1 << 20),
    (&["KiB", "k"], 1 << 10),
    (&["B", ""], 1),
];

/// Largest CPU number of Linux: the kernel's NR_CPUS ends at 8192.
const CPU_MAX: u16 = 8191;

/// Parses `250us`, `1.5s`, `5m`, `12h`, `7d`.
pub fn duration(text: &str) -> Option<Duration> {
    let nanoseconds = scaled(text, DURATION_UNITS)?.round();
    (nanoseconds < u64::MAX as f64).then(|| Duration::from_nanos(nanoseconds as u64))
}

/// Returns the shortest text for a duration.
pub fn show_duration(duration: Duration) -> String {
    if duration.is_zero() {
        return "0s".to_owned();
    }
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    show(nanoseconds, DURATION_UNITS)
}

/// Parses a whole number as people write it: `50000`, `50k`, `50K`, `1M`, `50_000`, `50,000`.
pub fn count(text: &str) -> Option<u64> {
    let digits = text.trim().replace(['_', ',', ' '], "");
    let units: &[(&[&str], u64)] = &[(&[""], 1), (&["k"], 1_000), (&["m"], 1_000_000)];
    let number = scaled(&digits, units)?;
    (number.fract() == 0.0 && number < u64::MAX as f64).then_some(number as u64)
}

/// Parses `512`, `512B`, `64KiB`, `64k`, `32MiB`, `1GiB`: powers of 1024.
pub fn size(text: &str) -> Option<u64> {
    let bytes = scaled(text, SIZE_UNITS)?;
    (bytes.fract() == 0.0 && bytes < u64::MAX as f64).then_some(bytes as u64)
}

/// Returns the shortest text for a number of bytes.
pub fn show_size(bytes: u64) -> String {
    show(bytes, SIZE_UNITS)
}

/// Parses a decimal number with one of these units.
fn scaled(text: &str, units: &[(&[&str], u64)]) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.trim_start();
    let (_, factor) = units.iter().find(|(names, _)| {
        let mut names = names.iter();
        names.any(|name| name.eq_ignore_ascii_case(unit))
    })?;
    Some(number.parse::<f64>().ok()? * *factor as f64)
}

fn show(amount: u64, units: &[(&[&str], u64)]) -> String {
    let fits = |(_, factor): &&(&[&str], u64)| amount >= *factor && amount.is_multiple_of(*factor);
    match units.iter().find(fits).or_else(|| units.last()) {
        Some((names, factor)) => format!("{}{}", amount / factor, names[0]),
        None => amount.to_string(),
    }
}

/// Parses `6` or `0-3`: a number, or the first and the last of several.
pub fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..=last)
}

/// Parses `0-3,6`: CPU numbers in the order written, without repetition.
pub fn cpu_list(text: &str) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let range = range(part.trim()).filter(|range| *range.end() <= CPU_MAX)?;
        for cpu in range {
            if cpus.contains(&cpu) {
                return None;
            }
            cpus.push(cpu);
        }
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, nanoseconds) in [
            ("80us", 80_000),
            ("250ms", 250_000_000),
            ("10s", 10_000_000_000),
            ("90s", 90_000_000_000),
            ("5m", 300_000_000_000),
            ("1d", 86_400_000_000_000),
            ("0s", 0),
        ] {
            let time = Duration::from_nanos(nanoseconds);
            assert_eq!(duration(text), Some(time), "{text}");
            assert_eq!(show_duration(time), text);
        }
        assert_eq!(duration("1.5 s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("80µs"), Some(Duration::from_micros(80)));
        let long = ["99999999999999999999s", "18446744073709551615d"];
        for text in
            ["", "10", "s", "-1s", "1.2.3s", "1 year", "1e3s", "nans"].into_iter().chain(long)
        {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn counts() {
        let written = ["50k", "50K", "50_000", "50,000", "0.05M", " 50000 "];
        assert!(written.iter().all(|text| count(text) == Some(50_000)));
        assert!(["", "k", "many", "50kB", "1.5", "-1"].iter().all(|text| count(text).is_none()));
    }

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("64KiB", 65_536), ("64k", 65_536), ("1.5KiB", 1536), ("1000B", 1000), ("0", 0)]
        {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        assert_eq!((show_size(65_536), show_size(1000)), ("64KiB".into(), "1000B".into()));
        for text in ["", "k", "1.5", "64kb", "1p", "-1", "99999999999t"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_list("0-3,6"), Some(vec![0, 1, 2, 3, 6]));
        assert_eq!(cpu_list("4-4"), Some(vec![4]));
        for text in ["", "3-1", "0,0", "a", "0-9000", "1,", "-1"] {
            assert_eq!(cpu_list(text), None, "{text}");
        }
    }
}
