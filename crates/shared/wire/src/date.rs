//! Converts seconds since the epoch to calendar dates and back. Reads no clock.

/// Appends a time, given in microseconds since the epoch: RFC 3339, in UTC, with microseconds.
pub fn put_time(out: &mut Vec<u8>, time_us: u64) {
    let (seconds, fraction) = (time_us / 1_000_000, time_us % 1_000_000);
    let (year, month, day) = civil_from_days(seconds / 86_400);
    let second = seconds % 86_400;
    put_digits(out, year, 4);
    for (sign, value, width) in [
        (b'-', month, 2),
        (b'-', day, 2),
        (b'T', second / 3600, 2),
        (b':', second / 60 % 60, 2),
        (b':', second % 60, 2),
        (b'.', fraction, 6),
    ] {
        out.push(sign);
        put_digits(out, value, width);
    }
    out.push(b'Z');
}

fn put_digits(out: &mut Vec<u8>, value: u64, width: u32) {
    for place in (0..width).rev() {
        out.push(b'0' + (value / 10u64.pow(place) % 10) as u8);
    }
}

/// Returns year, month and day of the day `days` days after 1970-01-01, in the Gregorian calendar.
/// After Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`:
/// <https://howardhinnant.github.io/date_algorithms.html>. Years begin in March there, so that the
/// leap day is the last.
pub fn civil_from_days(days: u64) -> (u64, u64, u64) {
    const DAYS_FROM_YEAR_0: u64 = 719_468;
    const DAYS_PER_ERA: u64 = 146_097;
    let days = days + DAYS_FROM_YEAR_0;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let leap_days = day_of_era / 1460 + day_of_era / (DAYS_PER_ERA - 1);
    let year_of_era = (day_of_era - leap_days + day_of_era / 36_524) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

/// Parses an RFC 3339 time in UTC, without a fraction, such as `2026-11-23T01:30:00Z`. Returns
/// seconds since the epoch.
pub fn seconds_of(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    if !(1970..=9999).contains(&year) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // The search covers at most one year's days, from the first of them.
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    let first = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    let day = (first..first + 366).find(|it| civil_from_days(*it) == (year, month, day))?;
    Some(day * 86_400 + hour * 3600 + minute * 60 + second)
}

fn numbers(text: &str, sign: char, widths: [usize; 3]) -> Option<[u64; 3]> {
    let mut parts = text.split(sign);
    let mut numbers = [0; 3];
    for (number, width) in numbers.iter_mut().zip(widths) {
        let part = parts.next().filter(|part| part.len() == width)?;
        let is_number = part.bytes().all(|digit| digit.is_ascii_digit());
        *number = part.parse().ok().filter(|_| is_number)?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let date = civil_from_days;
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(10_957), (2000, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(11_017), (2000, 3, 1));
        assert_eq!(date(47_540), (2100, 2, 28));
        assert_eq!(date(47_541), (2100, 3, 1));
        assert_eq!(date(20_453), (2025, 12, 31));
    }

    #[test]
    fn dates_follow_each_other() {
        let mut yesterday = civil_from_days(0);
        for day in 1..100_000 {
            let (y, m, d) = civil_from_days(day);
            let next = yesterday.2 + 1 == d && yesterday.1 == m && yesterday.0 == y;
            let turn = d == 1 && (m == yesterday.1 + 1 || (m == 1 && y == yesterday.0 + 1));
            assert!(next || turn, "{yesterday:?} {:?}", (y, m, d));
            yesterday = (y, m, d);
        }
    }

    #[test]
    fn a_time_is_read_as_it_is_written() {
        assert_eq!(seconds_of("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds_of("2000-02-29T12:34:56Z"), Some(951_827_696));
        for day in (0..60_000).step_by(61) {
            let mut out = Vec::new();
            put_time(&mut out, (day * 86_400 + 86_399) * 1_000_000);
            let text = String::from_utf8(out).unwrap().replace(".000000", "");
            assert_eq!(seconds_of(&text), Some(day * 86_400 + 86_399), "{text}");
        }
        for wrong in [
            "",
            "2026-11-23",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-23T24:00:00Z",
            "2026-11-23T00:00:00",
            "2026-11-23T00:00:00+01:00",
            "+026-11-23T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-11-23-01T00:00:00Z",
        ] {
            assert_eq!(seconds_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_time_is_written_to_the_microsecond() {
        let mut out = Vec::new();
        put_time(&mut out, 951_827_696_000_007);
        assert_eq!(out, b"2000-02-29T12:34:56.000007Z");
    }
}
