//! Times as HTTP writes them (RFC 9110 section 5.6.7): whole seconds, from 1970 to 9999. What lies
//! outside is moved to the nearest of them, since file systems hold any number.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;

/// 9999-12-31 23:59:59, in seconds since 1970.
const SECONDS_MAX: u64 = 253_402_300_799;

/// The second that this time lies in.
pub(crate) fn whole_second(time: SystemTime) -> SystemTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH + Duration::from_secs(since.as_secs().min(SECONDS_MAX))
}

pub(crate) fn written(time: SystemTime) -> HttpDate {
    HttpDate::from(whole_second(time))
}

/// Reads a field in any of the three forms; `None` if it is no date.
pub(crate) fn read(field: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(field).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_time_can_be_written() {
        let day = Duration::from_secs(86_400);
        let cases = [
            (UNIX_EPOCH - day, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (
                UNIX_EPOCH + Duration::from_millis(784_111_777_999),
                "Sun, 06 Nov 1994 08:49:37 GMT",
            ),
            (
                UNIX_EPOCH + Duration::from_secs(SECONDS_MAX + 1),
                "Fri, 31 Dec 9999 23:59:59 GMT",
            ),
        ];
        for (time, text) in cases {
            assert_eq!(written(time).to_string(), text);
            assert_eq!(read(text.as_bytes()), Some(whole_second(time)));
        }
    }

    #[test]
    fn all_three_forms_are_read() {
        let time = Some(UNIX_EPOCH + Duration::from_secs(784_111_777));
        assert_eq!(read(b"Sunday, 06-Nov-94 08:49:37 GMT"), time);
        assert_eq!(read(b"Sun Nov  6 08:49:37 1994"), time);
        for no_date in [&b"yesterday"[..], b"", b"\xff", b"784111777"] {
            assert_eq!(read(no_date), None);
        }
    }
}
