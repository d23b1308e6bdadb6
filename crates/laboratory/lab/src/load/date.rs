//! Dates of the civil calendar, in UTC.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment to the second.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Date {
    year: u64,
    month: u64,
    day: u64,
    second_of_day: u64,
}

const DAY_S: u64 = 86_400;

impl Date {
    /// That moment. A clock before 1970 says 1970.
    pub(crate) fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (year, month, day) = civil(since.as_secs() / DAY_S);
        Self {
            year,
            month,
            day,
            second_of_day: since.as_secs() % DAY_S,
        }
    }

    fn time(self) -> [u64; 3] {
        let second = self.second_of_day;
        [second / 3600, second / 60 % 60, second % 60]
    }

    /// `20261121-233245`, as a part of file names.
    pub(crate) fn compact(self) -> String {
        let [hour, minute, second] = self.time();
        let Self {
            year, month, day, ..
        } = self;
        format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
    }
}

/// As in RFC 3339.
impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [hour, minute, second] = self.time();
        let Self {
            year, month, day, ..
        } = self;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

/// Year, month and day of a day since 1970-01-01, by Howard Hinnant's `civil_from_days`: years
/// begin in March, so that the leap day comes last.
fn civil(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + carry, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn known_moments() {
        for (second, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_795_303_965, "2026-11-21T23:32:45Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            let date = Date::of(UNIX_EPOCH + Duration::from_secs(second));
            assert_eq!(date.to_string(), text);
        }
        let date = Date::of(UNIX_EPOCH + Duration::from_secs(1_795_303_965));
        assert_eq!(date.compact(), "20261121-233245");
    }
}
