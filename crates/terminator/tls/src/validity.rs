//! Spans of wall time in which a certificate, OCSP response or revocation list may be used.
//!
//! Defines "now" for them, so that each is judged when it is used. Decides no consequences.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::mem::discriminant;
use std::sync::Arc;

use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls_pki_types::UnixTime;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Days before the end at which a warning is given, and repeated, if the item is not renewed.
/// Programs that renew certificates of 90 days do so when 30 are left: for these, [`WARNING_PART`]
/// limits the first warning.
const EXPIRY_WARNING_DAYS: [i64; 3] = [30, 7, 1];

/// Part of a short life that must be left before a warning: a certificate of 45 days is usually
/// renewed when it has 15 left.
const WARNING_PART: i64 = 4;

/// A span of wall time in Unix seconds, including both ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Validity {
    /// First second.
    pub from: i64,
    /// Last second.
    pub until: i64,
}

/// Position of `now` in a [`Validity`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ValidityState {
    /// The span begins in this number of seconds.
    NotYet(i64),
    /// The span has begun, and its end is far.
    Good,
    /// The span ends soon, in this number of seconds.
    EndsSoon(i64),
    /// The span ended this number of seconds ago.
    Over(i64),
}

impl Validity {
    /// End of an endless span: an OCSP response without nextUpdate.
    pub(crate) const ENDLESS: i64 = i64::MAX;

    /// Reports whether `now` (Unix seconds) is within the span.
    pub fn contains(self, now: i64) -> bool {
        self.from <= now && now <= self.until
    }

    /// Reports whether the span contains `other`.
    pub(crate) fn covers(self, other: Self) -> bool {
        self.from <= other.from && other.until <= self.until
    }

    /// Returns the position of `now` (Unix seconds) in the span.
    pub fn at(self, now: i64) -> ValidityState {
        if now > self.until {
            ValidityState::Over(now.saturating_sub(self.until))
        } else if now < self.from {
            ValidityState::NotYet(self.from.saturating_sub(now))
        } else if self.stage(now) > 0 {
            ValidityState::EndsSoon(self.until.saturating_sub(now))
        } else {
            ValidityState::Good
        }
    }

    /// Like [`Self::at`], but [`ValidityState::Good`] if the kind of result is not new.
    pub(crate) fn news(self, moment: Moment) -> ValidityState {
        let standing = self.at(moment.now);
        let is_known = moment.since.is_some_and(|since| {
            discriminant(&self.at(since)) == discriminant(&standing)
                && self.stage(since) == self.stage(moment.now)
        });
        if is_known { ValidityState::Good } else { standing }
    }

    /// Returns the next second after `now` at which the kind of [`Validity::at`] changes.
    pub fn next_change(self, now: i64) -> Option<i64> {
        let ends = [self.from, self.until.saturating_add(1)].into_iter();
        let warned = self.warned_from().into_iter();
        let changes = ends.chain(warned.map(|from| from.saturating_add(1)));
        changes.filter(|change| *change > now).min()
    }

    /// Returns how many of the warnings about the end are due.
    fn stage(self, now: i64) -> usize {
        let due = self.warned_from().into_iter().filter(|from| now > *from);
        due.count()
    }

    fn warned_from(self) -> [i64; EXPIRY_WARNING_DAYS.len()] {
        let part = self.until.saturating_sub(self.from) / WARNING_PART;
        EXPIRY_WARNING_DAYS.map(|days| {
            let lead = part.min(days * DAY_SECONDS);
            self.until.saturating_sub(lead.max(0))
        })
    }
}

/// Time of a check for concerns, in Unix seconds.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Time of the previous check; `None` = never.
    pub since: Option<i64>,
    pub now: i64,
}

/// Maximum number of expiries listed by name for each service, the earliest first.
pub const EXPIRIES_MAX: usize = 256;

/// End of one certificate, OCSP response or revocation list.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Expiry {
    /// File that contains it.
    pub file: Box<str>,
    /// First name of the certificate, or issuer of the revocation list.
    pub name: Box<str>,
    /// Key of the certificate, as in "RSA 2048"; empty for a revocation list.
    pub key: Cow<'static, str>,
    /// Last second, in Unix seconds; nextUpdate of a revocation list.
    pub time: i64,
}

/// The notAfter of certificates without a well-defined end (RFC 5280 section 4.1.2.5): the end of
/// the year 9999, in Unix seconds. Our own placeholders have it.
const NO_END: i64 = 253_402_300_799;

/// Ends of several validities, at one time.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ExpirySummary {
    pub loaded: u64,
    pub expired: u64,
    /// The earliest ends, up to [`EXPIRIES_MAX`], soonest first. Excludes endless items; one entry
    /// for each file, name and kind of key.
    pub listed: Vec<Expiry>,
}

impl ExpirySummary {
    pub(crate) fn of(all: impl Iterator<Item = Expiry>, now: i64) -> Self {
        let mut all: Vec<_> = all.collect();
        let (loaded, expired) = (all.len(), all.iter().filter(|one| one.time < now).count());
        all.retain(|one| one.time < NO_END);
        all.sort_by_key(|one| one.time);
        let mut seen = HashSet::new();
        all.retain(|one| seen.insert((one.file.clone(), one.name.clone(), one.key.clone())));
        all.truncate(EXPIRIES_MAX);
        Self { loaded: loaded as u64, expired: expired as u64, listed: all }
    }

    #[must_use]
    pub fn and(self, mut other: Self) -> Self {
        let mut listed = self.listed;
        listed.append(&mut other.listed);
        listed.sort_by_key(|one| one.time);
        listed.truncate(EXPIRIES_MAX);
        Self { loaded: self.loaded + other.loaded, expired: self.expired + other.expired, listed }
    }

    /// Returns the first end, in Unix seconds; `None` = no item ends.
    pub fn first(&self) -> Option<i64> {
        self.listed.first().map(|one| one.time)
    }
}

/// Returns Unix seconds, as X.509 counts them.
pub fn seconds(now: UnixTime) -> i64 {
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// A duration in seconds, displayed in words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span(pub i64);

impl Display for Span {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const HOUR_SECONDS: i64 = 60 * 60;
        match (self.0 / DAY_SECONDS, self.0 / HOUR_SECONDS) {
            (0, 0) => f.write_str("less than an hour"),
            (0, 1) => f.write_str("1 hour"),
            (0, hours) => write!(f, "{hours} hours"),
            (1, _) => f.write_str("1 day"),
            (days, _) => write!(f, "{days} days"),
        }
    }
}

/// Source of wall time: the system, or a test.
#[derive(Clone, Debug)]
pub struct Clock(pub(crate) Arc<dyn TimeProvider>);

impl Clock {
    /// Returns the time. An unreadable clock returns the epoch, at which no item is valid.
    pub fn now(&self) -> UnixTime {
        let epoch = UnixTime::since_unix_epoch(std::time::Duration::ZERO);
        self.0.current_time().unwrap_or(epoch)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self(Arc::new(DefaultTimeProvider))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_validity_is_warned_of_30_and_7_days_and_1_day_before_its_end() {
        let year = Validity { from: 0, until: 365 * DAY_SECONDS };
        let [warned, again, last] = EXPIRY_WARNING_DAYS.map(|days| year.until - days * DAY_SECONDS);
        let left = |now| ValidityState::EndsSoon(year.until - now);
        for (now, standing, next) in [
            (-1, ValidityState::NotYet(1), Some(0)),
            (0, ValidityState::Good, Some(warned + 1)),
            (warned, ValidityState::Good, Some(warned + 1)),
            (warned + 1, left(warned + 1), Some(again + 1)),
            (again + 1, left(again + 1), Some(last + 1)),
            (last + 1, left(last + 1), Some(year.until + 1)),
            (year.until, ValidityState::EndsSoon(0), Some(year.until + 1)),
            (year.until + 1, ValidityState::Over(1), None),
        ] {
            assert_eq!((year.at(now), year.next_change(now)), (standing, next));
            assert_eq!(year.contains(now), (0..=year.until).contains(&now));
        }
    }

    #[test]
    fn each_warning_is_news_once() {
        let year = Validity { from: 0, until: 365 * DAY_SECONDS };
        let mut since = None;
        let news = (0..=366).filter(|day| {
            let now = day * DAY_SECONDS + 1;
            let standing = year.news(Moment { since, now });
            since = Some(now);
            standing != ValidityState::Good
        });
        assert_eq!(news.collect::<Vec<_>>(), [335, 358, 364, 365]);
    }

    #[test]
    fn a_short_one_when_a_quarter_is_left() {
        let day = Validity { from: 0, until: 80 };
        assert_eq!(day.at(60), ValidityState::Good);
        assert_eq!(day.at(61), ValidityState::EndsSoon(19));
    }

    #[test]
    fn the_first_end_is_of_what_ends() {
        let until = |time| Expiry {
            file: format!("{time}.pem").into(),
            name: "example.com".into(),
            key: "RSA 2048".into(),
            time,
        };
        let endless = [Validity::ENDLESS, NO_END].map(until);
        let all = endless.clone().into_iter().chain([until(20), until(10), until(20)]);
        let ends = ExpirySummary::of(all, 15);
        assert_eq!((ends.loaded, ends.expired, ends.first()), (5, 1, Some(10)));
        assert_eq!(ends.listed, [until(10), until(20)]);
        let both = ends.and(ExpirySummary::of([until(15)].into_iter(), 15));
        assert_eq!((both.loaded, both.expired), (6, 1));
        assert_eq!(both.listed, [until(10), until(15), until(20)]);
        let alone = ExpirySummary::of(endless.into_iter(), 15);
        assert_eq!((alone.loaded, alone.first()), (2, None));
        let many = ExpirySummary::of((0..1000).map(until), 15);
        assert_eq!((many.loaded, many.listed.len()), (1000, EXPIRIES_MAX));
    }

    #[test]
    fn an_end_that_never_comes_overflows_nothing() {
        let endless = Validity { from: 0, until: Validity::ENDLESS };
        assert_eq!(endless.at(i64::MAX - 1), ValidityState::EndsSoon(1));
        assert_eq!(endless.at(1 << 40), ValidityState::Good);
        let nothing = Validity { from: 5, until: i64::MIN };
        assert!(matches!(nothing.at(5), ValidityState::Over(_)));
    }
}
