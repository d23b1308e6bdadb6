//! Durations, sizes, ranges and CPU lists as people write them. Pure text to values and back.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Units of durations, each with its milliseconds, the largest first.
const DURATION_UNITS: &[(&str, u64)] = &[
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Units of sizes, each with its bytes, the largest first.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// No CPU number of Linux is larger: the kernel's NR_CPUS ends at 8192.
const CPU_MAX: u16 = 8191;

/// `250ms`, `10s`, `5m`, `12h`, `7d`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    scaled(text, DURATION_UNITS).map(Duration::from_millis)
}

/// The shortest text for a duration of whole milliseconds.
pub(crate) fn show_duration(duration: Duration) -> String {
    let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    show(milliseconds, DURATION_UNITS)
}

/// `512B`, `64KiB`, `32MiB`, `1GiB`.
pub(crate) fn size(text: &str) -> Option<u64> {
    scaled(text, SIZE_UNITS)
}

/// The shortest text for a number of bytes.
pub(crate) fn show_size(bytes: u64) -> String {
    show(bytes, SIZE_UNITS)
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn show(amount: u64, units: &[(&str, u64)]) -> String {
    let fits = |(_, factor): &&(&str, u64)| amount >= *factor && amount.is_multiple_of(*factor);
    match units.iter().find(fits).or_else(|| units.last()) {
        Some((unit, factor)) => format!("{}{unit}", amount / factor),
        None => amount.to_string(),
    }
}

/// `6`, `0-3`: a number, or the first and the last of several.
pub(crate) fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..=last)
}

/// `0-3,6`: CPU numbers in the order written, without repetition.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<u16>> {
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
    fn durations_read_and_show() {
        for (text, milliseconds) in [
            ("250ms", 250),
            ("10s", 10_000),
            ("5m", 300_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(milliseconds)));
            assert_eq!(show_duration(Duration::from_millis(milliseconds)), text);
        }
        assert_eq!(show_duration(Duration::from_secs(90)), "90s");
        assert_eq!(show_duration(Duration::ZERO), "0ms");
    }

    #[test]
    fn what_is_no_duration() {
        for text in [
            "",
            "10",
            "s",
            "-1s",
            "1.5s",
            "1 year",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_read_and_show() {
        assert_eq!(size("64KiB"), Some(65_536));
        assert_eq!(show_size(65_536), "64KiB");
        assert_eq!(show_size(1000), "1000B");
        assert_eq!(size("64kb"), None);
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
