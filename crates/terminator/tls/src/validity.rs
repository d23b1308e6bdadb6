//! Spans of wall time: when a certificate, an OCSP response or a revocation list may be used.
//!
//! Owns what "now" means for them, so that each is judged when it is used. Says nothing about
//! what follows from it.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::mem::discriminant;
use std::sync::Arc;

use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls_pki_types::UnixTime;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// How long before its end something that is not renewed is worth a warning, in days, and another
/// one each time that the next of these is left. Programs that renew certificates of 90 days do so
/// when 30 are left: of these, the first warning is bounded by [`WARNING_PART`].
const EXPIRY_WARNING_DAYS: [i64; 3] = [30, 7, 1];

/// A short life is not worth a warning before this part of it is left: a certificate of
/// 45 days is usually renewed when it has 15 left.
const WARNING_PART: i64 = 4;

/// A span of wall time in Unix seconds. Both ends belong to it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Validity {
    /// The first second.
    pub from: i64,
    /// The last second.
    pub until: i64,
}

/// The standing of `now` to a [`Validity`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// It begins in this number of seconds.
    NotYet(i64),
    /// It has begun, and its end is far.
    Good,
    /// It ends soon, in this number of seconds.
    EndsSoon(i64),
    /// It ended this number of seconds ago.
    Over(i64),
}

impl Validity {
    /// The end of what has none: an OCSP response without nextUpdate.
    pub(crate) const ENDLESS: i64 = i64::MAX;

    /// Whether `now` (Unix seconds) is within it.
    pub fn contains(self, now: i64) -> bool {
        self.from <= now && now <= self.until
    }

    /// Whether it holds at every time at which `other` does.
    pub(crate) fn covers(self, other: Self) -> bool {
        self.from <= other.from && other.until <= self.until
    }

    /// The standing of `now` (Unix seconds) to it.
    pub fn at(self, now: i64) -> Standing {
        if now > self.until {
            Standing::Over(now.saturating_sub(self.until))
        } else if now < self.from {
            Standing::NotYet(self.from.saturating_sub(now))
        } else if self.stage(now) > 0 {
            Standing::EndsSoon(self.until.saturating_sub(now))
        } else {
            Standing::Good
        }
    }

    /// The same, but [`Standing::Good`] for what was already so in kind.
    pub(crate) fn news(self, moment: Moment) -> Standing {
        let standing = self.at(moment.now);
        let is_known = moment.since.is_some_and(|since| {
            discriminant(&self.at(since)) == discriminant(&standing)
                && self.stage(since) == self.stage(moment.now)
        });
        if is_known { Standing::Good } else { standing }
    }

    /// The next second after `now` at which [`Validity::at`] says something else in kind.
    pub fn next_change(self, now: i64) -> Option<i64> {
        let ends = [self.from, self.until.saturating_add(1)].into_iter();
        let warned = self.warned_from().into_iter();
        let changes = ends.chain(warned.map(|from| from.saturating_add(1)));
        changes.filter(|change| *change > now).min()
    }

    /// How many of the warnings about its end are due.
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

/// When is asked what an operator should know, in Unix seconds.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// When it was asked before; `None` = never.
    pub since: Option<i64>,
    pub now: i64,
}

/// The most expiries that are listed by name for each service; those that come first.
pub const EXPIRIES_MAX: usize = 256;

/// When one certificate, OCSP response or revocation list ends.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Expiry {
    /// The file it came from.
    pub file: Box<str>,
    /// The certificate's first name, or the revocation list's issuer.
    pub name: Box<str>,
    /// The certificate's key, as in "RSA 2048"; empty for a revocation list.
    pub key: Cow<'static, str>,
    /// The last second, in Unix seconds; of a revocation list, its nextUpdate.
    pub time: i64,
}

/// The notAfter of certificates without a well-defined end (RFC 5280 section 4.1.2.5): the end of
/// the year 9999, in Unix seconds. Our own stand-ins have it.
const NO_END: i64 = 253_402_300_799;

/// The ends of several validities, at one time.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Ends {
    pub loaded: u64,
    pub expired: u64,
    /// The first of them to end, up to [`EXPIRIES_MAX`], soonest first. Without those that do not
    /// end; one for each file, name and kind of key.
    pub listed: Vec<Expiry>,
}

impl Ends {
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

    /// The first end, in Unix seconds; `None` = none of them ends.
    pub fn first(&self) -> Option<i64> {
        self.listed.first().map(|one| one.time)
    }
}

/// Unix seconds, as X.509 counts them.
pub fn seconds(now: UnixTime) -> i64 {
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// A span of time in seconds, shown in words.
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

/// The source of wall time: the system, or a test.
#[derive(Clone, Debug)]
pub struct Clock(pub(crate) Arc<dyn TimeProvider>);

impl Clock {
    /// A clock that cannot be read stands at the epoch: nothing is valid then.
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
        let left = |now| Standing::EndsSoon(year.until - now);
        for (now, standing, next) in [
            (-1, Standing::NotYet(1), Some(0)),
            (0, Standing::Good, Some(warned + 1)),
            (warned, Standing::Good, Some(warned + 1)),
            (warned + 1, left(warned + 1), Some(again + 1)),
            (again + 1, left(again + 1), Some(last + 1)),
            (last + 1, left(last + 1), Some(year.until + 1)),
            (year.until, Standing::EndsSoon(0), Some(year.until + 1)),
            (year.until + 1, Standing::Over(1), None),
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
            standing != Standing::Good
        });
        assert_eq!(news.collect::<Vec<_>>(), [335, 358, 364, 365]);
    }

    #[test]
    fn a_short_one_when_a_quarter_is_left() {
        let day = Validity { from: 0, until: 80 };
        assert_eq!(day.at(60), Standing::Good);
        assert_eq!(day.at(61), Standing::EndsSoon(19));
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
        let ends = Ends::of(all, 15);
        assert_eq!((ends.loaded, ends.expired, ends.first()), (5, 1, Some(10)));
        assert_eq!(ends.listed, [until(10), until(20)]);
        let both = ends.and(Ends::of([until(15)].into_iter(), 15));
        assert_eq!((both.loaded, both.expired), (6, 1));
        assert_eq!(both.listed, [until(10), until(15), until(20)]);
        let alone = Ends::of(endless.into_iter(), 15);
        assert_eq!((alone.loaded, alone.first()), (2, None));
        let many = Ends::of((0..1000).map(until), 15);
        assert_eq!((many.loaded, many.listed.len()), (1000, EXPIRIES_MAX));
    }

    #[test]
    fn an_end_that_never_comes_overflows_nothing() {
        let endless = Validity { from: 0, until: Validity::ENDLESS };
        assert_eq!(endless.at(i64::MAX - 1), Standing::EndsSoon(1));
        assert_eq!(endless.at(1 << 40), Standing::Good);
        let nothing = Validity { from: 5, until: i64::MIN };
        assert!(matches!(nothing.at(5), Standing::Over(_)));
    }
}
