//! The time of a run as text, in UTC.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use wire::date::civil_from_days;

/// Seconds since 1970.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Date(u64);

impl Date {
    /// A clock before 1970 says 1970.
    pub(crate) fn of(time: SystemTime) -> Self {
        Self(
            time.duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs(),
        )
    }

    /// `20261121-233245`, as a part of file names.
    pub(crate) fn compact(self) -> String {
        self.to_string()
            .replace(['-', ':', 'Z'], "")
            .replace('T', "-")
    }
}

/// As in RFC 3339.
impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0 / 86_400);
        let (hour, minute, second) = (self.0 / 3600 % 24, self.0 / 60 % 60, self.0 % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn known_moments() {
        let date = |second| Date::of(UNIX_EPOCH + Duration::from_secs(second));
        assert_eq!(date(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_399).to_string(), "2000-02-28T23:59:59Z");
        assert_eq!(date(1_795_303_965).to_string(), "2026-11-21T23:32:45Z");
        assert_eq!(date(1_795_303_965).compact(), "20261121-233245");
    }
}
