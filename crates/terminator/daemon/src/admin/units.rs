//! Numbers, times and tables for people.
//!
//! Owns the form alone. Text is plain ASCII and carries no colour, so it reads the same in a pipe.

use std::fmt;

use wire::date::civil_from_days;

/// Bytes with a binary prefix: `0 B`, `1.5 KiB`.
pub(super) struct Bytes(pub(super) f64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0;
        let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].into_iter();
        let mut unit = units.next().unwrap_or_default();
        for larger in units {
            if value < 1024.0 {
                break;
            }
            value /= 1024.0;
            unit = larger;
        }
        let digits = usize::from(unit != "B" && value < 100.0);
        write!(f, "{value:.digits$} {unit}")
    }
}

/// A count with spaces between thousands: `1 234 567`.
pub(super) struct Count(pub(super) u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_str(" ")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// Events a second: `0`, `0.2`, `12`, `3 400`.
pub(super) struct Rate(pub(super) f64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            rate if rate > 0.0 && rate < 10.0 => write!(f, "{rate:.1}"),
            rate => Count(rate.round() as u64).fmt(f),
        }
    }
}

/// Microseconds in a unit that fits: `50 us`, `2 ms`, `1.5 s`.
pub(super) struct Latency(pub(super) u64);

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            us if us < 1000 => write!(f, "{us} us"),
            us if us < 1_000_000 => write!(f, "{} ms", us as f64 / 1e3),
            us => write!(f, "{} s", us as f64 / 1e6),
        }
    }
}

/// Seconds in its two largest units: `42 s`, `3 h 12 min`, `9 d 1 h`.
pub(super) struct AgeText(pub(super) u64);

impl fmt::Display for AgeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, hours) = (self.0 / 86_400, self.0 / 3600 % 24);
        let (minutes, seconds) = (self.0 / 60 % 60, self.0 % 60);
        match (days, hours, minutes) {
            (0, 0, 0) => write!(f, "{seconds} s"),
            (0, 0, _) => write!(f, "{minutes} min {seconds} s"),
            (0, _, _) => write!(f, "{hours} h {minutes} min"),
            _ => write!(f, "{days} d {hours} h"),
        }
    }
}

/// Seconds since the epoch as a date in UTC: `2026-11-21`.
pub(super) struct Date(pub(super) u64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0 / 86_400);
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// Seconds since the epoch as a time in UTC: `2026-11-21 20:41:11 UTC`.
pub(super) struct Time(pub(super) u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hour, minute, second) = (self.0 / 3600 % 24, self.0 / 60 % 60, self.0 % 60);
        write!(f, "{} {hour:02}:{minute:02}:{second:02} UTC", Date(self.0))
    }
}

/// Rows in columns that are as wide as their widest cell.
pub(super) struct Table {
    /// Whether cells of a column stand right, as numbers do.
    stands_right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a heading: each column's name behind `<` if its cells stand left, or `>`.
    pub(super) fn new(columns: &[&str]) -> Self {
        let names = columns.iter().map(|column| column.trim_start_matches(['<', '>']).to_owned());
        Self {
            stands_right: columns.iter().map(|column| column.starts_with('>')).collect(),
            rows: vec![names.collect()],
        }
    }

    /// One more row, with as many cells as there are columns.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.stands_right.len());
        self.rows.push(cells);
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<_> =
            (0..self.stands_right.len()).map(|column| self.width(column)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), stands_right) in row.iter().zip(&widths).zip(&self.stands_right) {
                line.push_str("  ");
                line.push_str(&match stands_right {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:<width$}"),
                });
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_binary_prefixes() {
        let shown = [0.0, 1023.0, 1536.0, 200.0 * 1048576.0, 1e18].map(|b| Bytes(b).to_string());
        assert_eq!(shown, ["0 B", "1023 B", "1.5 KiB", "200 MiB", "909495 TiB"]);
    }

    #[test]
    fn counts_and_rates_are_grouped() {
        let shown = [0, 999, 1000, 1_234_567].map(|c| Count(c).to_string());
        assert_eq!(shown, ["0", "999", "1 000", "1 234 567"]);
        let shown = [0.0, 0.25, 12.4, 12_345.6].map(|r| Rate(r).to_string());
        assert_eq!(shown, ["0", "0.2", "12", "12 346"]);
    }

    #[test]
    fn times_have_the_units_that_fit() {
        let shown = [50, 2000, 1_500_000].map(|us| Latency(us).to_string());
        assert_eq!(shown, ["50 us", "2 ms", "1.5 s"]);
        let shown = [0, 61, 3 * 3600 + 720, 9 * 86_400 + 3600].map(|s| AgeText(s).to_string());
        assert_eq!(shown, ["0 s", "1 min 1 s", "3 h 12 min", "9 d 1 h"]);
        assert_eq!(Time(951_827_696).to_string(), "2000-02-29 12:34:56 UTC");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["<NAME", ">N"]);
        table.row(vec!["a".into(), "100".into()]);
        assert_eq!(table.to_string(), "  NAME    N\n  a     100\n");
    }
}
