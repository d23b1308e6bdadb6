//! Decides when a certificate is ordered: a pure function of what is known of it and of the time.
//!
//! Handles the renewal's time, the back-off and the authority's limits. Reads no clock, so that a
//! year passes in a test within a second. Times are seconds since the epoch.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Maximum orders of an account in [`ORDERS_TIME`]: Let's Encrypt's "New Orders per Account" is 300
/// (<https://letsencrypt.org/docs/rate-limits/>); a tenth is left to other users of the account.
pub const ORDERS_MAX: usize = 270;

/// See [`ORDERS_MAX`].
pub const ORDERS_TIME: u64 = 3 * HOUR;

/// Certificates for the same names in a week: "New Certificates per Exact Set of Identifiers" is 5.
pub const SAME_NAMES_MAX: usize = 5;

/// See [`SAME_NAMES_MAX`].
pub const SAME_NAMES_TIME: u64 = 7 * DAY;

/// Back-off after the first failure, and its maximum: they allow four attempts in the first hour,
/// fewer than the five of "Authorization Failures per Identifier per Account".
const BACK_OFF_MIN: u64 = MINUTE;
const BACK_OFF_MAX: u64 = 12 * HOUR;
const BACK_OFF_GROWTH: u64 = 5;

/// No certificate is ordered again so soon after it came, whatever became of it, unless half of its
/// life has passed.
const AGAIN_AFTER: u64 = HOUR;

/// A certificate that lives for less is renewed as if it lived for so long.
const LIFE_MIN: u64 = MINUTE;

/// One that lives for less counts for the limits as if it lived for so long: what is remembered of
/// orders stays short, and nobody has such certificates for days.
const COUNTED_LIFE_MIN: u64 = 5 * MINUTE;

/// Bounds of the time after which the authority wants to be asked again when to renew (RFC 9773
/// section 4.3.2), and its value if the authority gives none.
const LOOK_MIN: u64 = HOUR;
const LOOK_MAX: u64 = DAY;
const LOOK_DEFAULT: u64 = 6 * HOUR;

/// Maximum time that an authority may ask us to wait.
pub const WAIT_MAX: u64 = 7 * DAY;

/// Maximum distance of a stored time into the future. A later time was written by a clock that was
/// set back since, and is ignored: how long ago that was is unknown, and a wait cut to some time
/// from now would begin anew with each look, until the clock reaches the stored time.
const CLOCK_MAX: u64 = HOUR;

/// Facts about a certificate that its renewal needs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KnownCertificate {
    /// Kind of its key.
    pub key: String,
    /// The identifier of RFC 9773 section 4.1; empty = the certificate has none.
    pub id: String,
    pub not_before: u64,
    pub not_after: u64,
}

/// Renewal time that an authority suggests.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct SuggestedRenewal {
    /// Identifier of the certificate that the suggestion is for.
    pub id: String,
    /// Suggested window; `None` = the authority suggests none.
    pub window: Option<(u64, u64)>,
    pub look_again: u64,
}

/// All facts about an entry that must be remembered, over restarts too.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct RenewalSchedule {
    /// Times when orders were placed, the oldest first.
    orders: Vec<u64>,
    /// Times when certificates were issued, by the kind of key.
    issued: BTreeMap<String, Vec<u64>>,
    failures: u32,
    /// Time when the last attempt began, or failed.
    last_attempt: u64,
    /// Time until which the authority has asked us to wait.
    wait_until: u64,
    pub last_failure: Option<String>,
    renewals: BTreeMap<String, SuggestedRenewal>,
    /// Kinds of keys for which an operator wants another certificate.
    wanted: Vec<String>,
    /// He waits for an attempt, or for what comes of another configuration: none has been made
    /// since. The back-off does not count then.
    is_urgent: bool,
    /// Chains whose certificates an operator wants revoked, until they are.
    to_revoke: Vec<String>,
}

/// A step that is due.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum DueStep {
    /// Ask the authority when the certificate of this kind of key should be renewed.
    Look(String),
    /// Order a certificate for this kind of key; in place of the one with that identifier.
    Order(String, Option<String>),
    /// Revoke the certificate of this chain.
    Revoke(String),
}

impl RenewalSchedule {
    /// Parses a stored schedule; `None` = the text is damaged.
    pub fn of_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Returns the text to store.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("it has names as keys")
    }

    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Reports whether the next attempt follows a failed one, and no operator waits for it.
    pub fn is_repeated(&self) -> bool {
        self.failures > 0 && !self.is_urgent
    }

    /// Returns when the last attempt failed, if it did, in seconds since the epoch.
    pub fn failed_at(&self) -> Option<u64> {
        self.last_failure.as_ref().map(|_| self.last_attempt)
    }

    /// Returns the next step, and when it is due. `account_orders` are the orders of all entries of
    /// the account. `name` seeds the chance, because an entry's name does not change.
    pub fn next(
        &self,
        name: &str,
        keys: &[String],
        certificates: &[KnownCertificate],
        account_orders: &[u64],
        now: u64,
    ) -> Option<(u64, DueStep)> {
        let steps = keys.iter().flat_map(|key| {
            let certificate = certificates.iter().find(|one| one.key == *key);
            let (at, order) = self.order(name, key, certificate, account_orders, now);
            [Some((at, order)), certificate.and_then(|one| self.look(one, now))]
        });
        let revoked = self.to_revoke.iter().map(|chain| {
            let at = self.allowed(name, now).max(self.waits_until(now));
            (at, DueStep::Revoke(chain.clone()))
        });
        steps.flatten().chain(revoked).min()
    }

    fn look(&self, certificate: &KnownCertificate, now: u64) -> Option<(u64, DueStep)> {
        let step = || DueStep::Look(certificate.key.clone());
        if certificate.id.is_empty() || certificate.not_after <= now {
            return None;
        }
        let known = self.renewals.get(&certificate.key).filter(|one| one.id == certificate.id);
        let at = known.map_or(0, |one| one.look_again);
        let at = if at > now + LOOK_MAX + CLOCK_MAX { now } else { at };
        Some((at.max(self.waits_until(now)), step()))
    }

    fn order(
        &self,
        name: &str,
        key: &str,
        certificate: Option<&KnownCertificate>,
        account_orders: &[u64],
        now: u64,
    ) -> (u64, DueStep) {
        let is_wanted = self.wanted.iter().any(|one| one == key);
        let mut at = match certificate {
            _ if is_wanted => 0,
            None => 0,
            Some(one) => self.renewal(name, one),
        };
        at = at.max(self.allowed(name, now));
        let issued = self.issued.get(key).map_or(&[][..], Vec::as_slice);
        if let (Some(last), false) = (issued.last(), is_wanted) {
            let again_after = AGAIN_AFTER.min(life(certificate) / 2);
            at = at.max(past(*last, now).map_or(0, |last| last + again_after));
        }
        at = at.max(self.waits_until(now));
        at = at.max(free_at(issued, same_names_max(certificate), SAME_NAMES_TIME, now));
        at = at.max(free_at(account_orders, ORDERS_MAX, ORDERS_TIME, now));
        let replaced = certificate.filter(|one| !one.id.is_empty() && one.not_after > now);
        let replaced = replaced.filter(|_| !is_wanted).filter(|one| {
            let suggested = self.renewals.get(key);
            suggested.is_some_and(|known| known.id == one.id && known.window.is_some())
        });
        (at, DueStep::Order(key.to_owned(), replaced.map(|one| one.id.clone())))
    }

    /// Returns the end of the back-off after failures; 0 without one.
    fn allowed(&self, name: &str, now: u64) -> u64 {
        if !self.is_repeated() {
            return 0;
        }
        let back_off = BACK_OFF_GROWTH.saturating_pow(self.failures - 1);
        let back_off = BACK_OFF_MIN.saturating_mul(back_off).min(BACK_OFF_MAX);
        // Entries that failed together are not tried again together.
        let spread = chance(name, self.failures.into()) % (back_off / 10 + 1);
        past(self.last_attempt, now).map_or(0, |last| last + back_off + spread)
    }

    /// Returns the time until which the authority has asked us to wait; 0 if it has not.
    fn waits_until(&self, now: u64) -> u64 {
        past(self.wait_until, now + WAIT_MAX).unwrap_or_default()
    }

    /// Returns a time in the window that the authority suggests (RFC 9773 section 4.2); without
    /// one, when a third of the life is left, or a little earlier.
    fn renewal(&self, name: &str, certificate: &KnownCertificate) -> u64 {
        let KnownCertificate { key, id, not_before, not_after } = certificate;
        let suggested = self.renewals.get(key).filter(|one| one.id == *id);
        let life = not_after.saturating_sub(*not_before);
        let (from, to) = suggested
            .and_then(|one| one.window)
            .filter(|(from, to)| from <= to && from < not_after)
            .unwrap_or((not_after - life * 11 / 30, not_after - life / 3));
        let time = to.min(*not_after) - from;
        from + chance(name, *not_after) % time.max(1)
    }

    /// Notes that an operator wants these chains revoked.
    pub fn revoke(&mut self, chains: impl Iterator<Item = String>) {
        self.to_revoke.extend(chains);
        self.to_revoke.sort_unstable();
        self.to_revoke.dedup();
    }

    /// Notes that the authority has revoked the certificate.
    pub fn is_revoked(&mut self, chain: &str) {
        self.to_revoke.retain(|one| one != chain);
        (self.failures, self.last_failure) = (0, None);
    }

    /// Notes that an order is about to be placed. Until it succeeds it counts as failed, so that no
    /// crash makes a loop of orders.
    pub fn begins(&mut self, now: u64) {
        self.orders.retain(|at| at.saturating_add(ORDERS_TIME) > now);
        self.orders.push(now);
        self.attempts(now);
    }

    /// The order that [`Self::begins`] was told of goes on, which is no other attempt.
    pub fn goes_on(&mut self) {
        self.failures = self.failures.saturating_sub(1);
        self.is_urgent = true;
    }

    /// Notes that the order begun by [`Self::begins`] was not placed: the disk took nothing.
    /// No attempt is counted, so that the pause does not grow; an operator need not wait for it.
    pub fn was_not_placed(&mut self, why: &str, now: u64) {
        self.orders.pop();
        self.failures = self.failures.saturating_sub(1).max(1);
        self.has_failed(why, None, now);
    }

    /// Notes that another request is about to be made, which counts as failed in the same way.
    pub fn attempts(&mut self, now: u64) {
        self.failures = self.failures.saturating_add(1);
        self.last_attempt = now;
        self.wait_until = 0;
        self.is_urgent = false;
    }

    /// Notes that the ordered certificate was issued.
    pub fn has_succeeded(&mut self, key: &str, now: u64) {
        self.was_issued(key, now);
        (self.failures, self.last_failure) = (0, None);
        self.wanted.retain(|one| one != key);
    }

    /// Counts a certificate for the authority's limits, even if it differs from the order.
    pub fn was_issued(&mut self, key: &str, now: u64) {
        let issued = self.issued.entry(key.to_owned()).or_default();
        issued.retain(|at| at.saturating_add(SAME_NAMES_TIME) > now);
        issued.push(now);
    }

    /// Notes a failure; the authority may have asked us to wait. The back-off begins now, because
    /// an attempt that failed after a long time would otherwise be repeated at once.
    pub fn has_failed(&mut self, why: &str, wait_until: Option<u64>, now: u64) {
        self.last_failure = Some(why.to_owned());
        self.last_attempt = now;
        self.wait_until = wait_until.unwrap_or_default();
    }

    /// Notes the window that the authority suggests, or none, and when to ask again.
    pub fn suggested(
        &mut self,
        key: &str,
        id: &str,
        window: Option<(u64, u64)>,
        again_s: Option<u64>,
        now: u64,
    ) {
        let again = again_s.map_or(LOOK_DEFAULT, |again| again.clamp(LOOK_MIN, LOOK_MAX));
        // An authority that cannot be reached has not withdrawn its suggestion.
        let known = self.renewals.get(key).filter(|one| one.id == id).and_then(|one| one.window);
        let suggested = SuggestedRenewal {
            id: id.to_owned(),
            window: window.or(known),
            look_again: now + again,
        };
        self.renewals.insert(key.to_owned(), suggested);
    }

    /// Notes that an operator wants other certificates.
    pub fn want(&mut self, keys: &[String]) {
        self.wanted = keys.to_vec();
        self.hurry();
    }

    /// The next attempt does not wait for the back-off.
    pub fn hurry(&mut self) {
        self.is_urgent = true;
    }

    /// Returns the times of the orders that count for the limit.
    pub fn orders(&self) -> &[u64] {
        &self.orders
    }
}

/// Seconds, which a missing certificate has no end of.
fn life(certificate: Option<&KnownCertificate>) -> u64 {
    let life = certificate.map(|one| one.not_after.saturating_sub(one.not_before));
    life.map_or(u64::MAX, |life| life.max(LIFE_MIN))
}

/// [`SAME_NAMES_MAX`]; where certificates live for a few days or hours, as those of an authority of
/// one's own do, twice as many as are in use one after the other, because each is renewed early.
fn same_names_max(certificate: Option<&KnownCertificate>) -> usize {
    let used = SAME_NAMES_TIME / life(certificate).max(COUNTED_LIFE_MIN);
    usize::try_from(used * 2).unwrap_or(usize::MAX).max(SAME_NAMES_MAX)
}

/// Returns a stored time, unless its clock has been set back since.
fn past(at: u64, now: u64) -> Option<u64> {
    Some(at).filter(|at| *at <= now + CLOCK_MAX)
}

/// Returns when one more fits in: `max` in each `time`.
fn free_at(done: &[u64], max: usize, time: u64, now: u64) -> u64 {
    let noted = done.iter().filter_map(|at| past(*at, now));
    let mut counted: Vec<u64> = noted.filter(|at| at + time > now).collect();
    counted.sort_unstable();
    let oldest = counted.len().checked_sub(max).and_then(|index| counted.get(index));
    oldest.map_or(0, |at| at + time)
}

/// Returns a number that is the same for the same words.
fn chance(name: &str, seed: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (name, seed).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const KEYS: [&str; 1] = ["ecdsa-p256"];

    fn keys() -> Vec<String> {
        KEYS.map(str::to_owned).to_vec()
    }

    fn certificate(not_before: u64, days: u64) -> KnownCertificate {
        KnownCertificate {
            key: KEYS[0].to_owned(),
            id: format!("id-{not_before}"),
            not_before,
            not_after: not_before + days * DAY,
        }
    }

    fn order_at(schedule: &RenewalSchedule, certificates: &[KnownCertificate], now: u64) -> u64 {
        let certificate = certificates.first();
        schedule.order("a", KEYS[0], certificate, schedule.orders(), now).0
    }

    #[test]
    fn what_is_missing_is_ordered_at_once_and_then_less_and_less_often() {
        let mut schedule = RenewalSchedule::default();
        let (mut now, mut attempts) = (1_000_000_000, Vec::new());
        for _ in 0..12 {
            now = order_at(&schedule, &[], now).max(now);
            attempts.push(now);
            schedule.begins(now);
            schedule.has_failed("no", None, now);
        }
        let first_hour = attempts.iter().filter(|at| **at < attempts[0] + HOUR).count();
        assert!(first_hour <= 4, "{attempts:?}");
        assert!((MINUTE..=MINUTE * 11 / 10).contains(&(attempts[1] - attempts[0])));
        assert!(attempts[11] - attempts[10] >= BACK_OFF_MAX);
        // The authority's wait overrides the back-off.
        schedule.has_failed("slow down", Some(now + 3 * DAY), now);
        assert_eq!(order_at(&schedule, &[], now), now + 3 * DAY);
        // A clock that was a year ahead does not stop orders for a year: the schedule is asked
        // again and again, as time goes by.
        let mut then = now - 365 * DAY;
        let mut orders = Vec::new();
        for _ in 0..7 * 24 * 60 {
            if order_at(&schedule, &[], then) <= then {
                orders.push(then);
                schedule.begins(then);
                schedule.has_failed("no", None, then);
            }
            then += MINUTE;
        }
        assert_eq!(orders.first(), Some(&(now - 365 * DAY)), "{orders:?}");
        assert!((10..=16).contains(&orders.len()), "{orders:?}");
    }

    #[test]
    fn what_came_by_a_clock_that_was_ahead_is_no_reason_to_wait_for_it() {
        let (now, year) = (1_800_000_000, 365 * DAY);
        let mut schedule = RenewalSchedule::default();
        for ahead in [year, year + DAY] {
            schedule.begins(now + ahead);
            schedule.has_succeeded(KEYS[0], now + ahead);
        }
        let mut then = now;
        let mut orders = 0;
        while then < now + 7 * DAY {
            if order_at(&schedule, &[], then) <= then {
                schedule.begins(then);
                schedule.has_succeeded(KEYS[0], then);
                orders += 1;
            }
            then += MINUTE;
        }
        assert_eq!(orders, SAME_NAMES_MAX, "each by its hour, and no more in a week");
    }

    #[test]
    fn a_clock_that_jumps_makes_no_loop_of_orders_and_no_standstill() {
        let (now, year) = (1_800_000_000, 365 * DAY);
        let mut schedule = RenewalSchedule::default();
        schedule.begins(now);
        schedule.has_succeeded(KEYS[0], now);
        let served = [certificate(now, 90)];
        // The clock is ten years ahead for hours: served and new certificates have all expired.
        let mut then = now + 10 * year;
        let mut orders = 0;
        for _ in 0..1000 {
            if order_at(&schedule, &served, then) <= then {
                schedule.begins(then);
                schedule.has_succeeded(KEYS[0], then);
                orders += 1;
            }
            then += MINUTE;
        }
        assert!((1..=SAME_NAMES_MAX).contains(&orders), "{orders} orders");
        // Back again: valid certificates are renewed in time, and missing ones come within a week.
        let back = now + DAY;
        let renewal = order_at(&schedule, &served, back);
        assert!((now + 50 * DAY..now + 70 * DAY).contains(&renewal), "{renewal}");
        assert!(order_at(&schedule, &[], back) <= back + 7 * DAY);
        // The clock is ten years behind: nothing is due, and later orders count for nothing.
        let behind = now - 10 * year;
        assert!(order_at(&schedule, &served, behind) > behind + year);
        assert!(order_at(&schedule, &[], behind) <= behind + 7 * DAY);
    }

    #[test]
    fn what_the_disk_did_not_let_be_ordered_costs_no_attempt() {
        let (mut schedule, mut now) = (RenewalSchedule::default(), 1_000_000);
        for _ in 0..ORDERS_MAX {
            schedule.begins(now);
            schedule.was_not_placed("the disk is full", now);
            let pause = order_at(&schedule, &[], now) - now;
            assert!((MINUTE..=MINUTE * 11 / 10).contains(&pause), "{pause}");
            now += pause;
        }
    }

    #[test]
    fn what_did_not_end_has_failed() {
        let mut schedule = RenewalSchedule::default();
        schedule.begins(1000);
        let text = serde_json::to_string(&schedule).unwrap();
        let again: RenewalSchedule = serde_json::from_str(&text).unwrap();
        assert!(order_at(&again, &[], 1001) >= 1000 + BACK_OFF_MIN);
    }

    #[test]
    fn what_fails_late_is_not_tried_again_at_once() {
        let mut schedule = RenewalSchedule::default();
        schedule.begins(1000);
        schedule.has_failed("pending for ever", None, 1300);
        assert!(order_at(&schedule, &[], 1300) >= 1300 + BACK_OFF_MIN);
    }

    #[test]
    fn what_came_is_not_ordered_again_at_once_even_if_it_could_not_be_stored() {
        let mut schedule = RenewalSchedule::default();
        let mut now = 1_000_000;
        let begun = now;
        for _ in 0..SAME_NAMES_MAX + 1 {
            now = order_at(&schedule, &[], now).max(now);
            schedule.begins(now);
            schedule.has_succeeded(KEYS[0], now);
        }
        assert!(now >= begun + SAME_NAMES_TIME);
    }

    #[test]
    fn renewal_is_when_the_authority_says_or_a_third_of_life_is_left() {
        let (mut schedule, now) = (RenewalSchedule::default(), 1_000_000);
        let one = certificate(now, 90);
        let at = schedule.renewal("a", &one);
        assert!((now + 57 * DAY..=now + 60 * DAY).contains(&at));
        let step = |schedule: &RenewalSchedule, now| {
            schedule.next("a", &keys(), std::slice::from_ref(&one), &[], now).unwrap()
        };
        assert_eq!(step(&schedule, now).1, DueStep::Look(KEYS[0].to_owned()));
        schedule.suggested(KEYS[0], &one.id, Some((now + DAY, now + 2 * DAY)), Some(3), now);
        let (at, look) = step(&schedule, now);
        assert_eq!((at, look), (now + LOOK_MIN, DueStep::Look(KEYS[0].to_owned())));
        let at = order_at(&schedule, std::slice::from_ref(&one), now);
        assert!((now + DAY..now + 2 * DAY).contains(&at));
        // The authority revokes the certificate: the order is due at once.
        schedule.suggested(KEYS[0], &one.id, Some((now - 2, now - 1)), None, now);
        let (_, order) = step(&schedule, now);
        assert_eq!(order, DueStep::Order(KEYS[0].to_owned(), Some(one.id.clone())));
        // A suggestion is for one certificate.
        let other = KnownCertificate { id: "other".to_owned(), ..one.clone() };
        assert!(order_at(&schedule, &[other], now) > now + 50 * DAY);
        // An operator skips the back-off, once for each order of his.
        schedule.begins(now);
        assert!(order_at(&schedule, &[], now) > now);
        schedule.want(&keys());
        let (at, order) = schedule.order("a", KEYS[0], Some(&one), &[], now);
        assert_eq!((at, order), (0, DueStep::Order(KEYS[0].to_owned(), None)));
    }

    #[test]
    fn a_revocation_is_tried_until_it_is_done_after_the_order_of_another() {
        let (mut schedule, now) = (RenewalSchedule::default(), 1_000_000);
        let mut one = certificate(now, 90);
        one.id.clear();
        let known = std::slice::from_ref(&one);
        let keys = keys();
        let next =
            |schedule: &RenewalSchedule, now| schedule.next("a", &keys, known, &[], now).unwrap();
        schedule.want(&keys);
        schedule.revoke(["chain".to_owned()].into_iter());
        assert_eq!(next(&schedule, now), (0, DueStep::Order(KEYS[0].to_owned(), None)));
        schedule.begins(now);
        schedule.has_succeeded(KEYS[0], now);
        let revoke = DueStep::Revoke("chain".to_owned());
        assert_eq!(next(&schedule, now), (0, revoke.clone()));
        schedule.attempts(now);
        schedule.has_failed("503", None, now);
        // The revocation outlasts a restart.
        let text = serde_json::to_string(&schedule).unwrap();
        let mut schedule: RenewalSchedule = serde_json::from_str(&text).unwrap();
        let (at, step) = next(&schedule, now);
        assert!(at >= now + BACK_OFF_MIN && step == revoke, "{at}");
        schedule.is_revoked("chain");
        assert!(!matches!(next(&schedule, now).1, DueStep::Revoke(_)));
    }

    #[test]
    fn certificates_of_a_day_or_of_minutes_are_renewed_before_they_expire() {
        for life in [DAY, HOUR, MINUTE] {
            let (mut schedule, mut now) = (RenewalSchedule::default(), 1_000_000);
            let mut served: Option<KnownCertificate> = None;
            for _ in 0..200 {
                let (at, _) = schedule.order("a", KEYS[0], served.as_ref(), &[], now);
                now = now.max(at);
                assert!(served.is_none_or(|one| now < one.not_after), "of {life} s: late");
                schedule.begins(now);
                schedule.has_succeeded(KEYS[0], now);
                served = Some(KnownCertificate { not_after: now + life, ..certificate(now, 0) });
            }
        }
    }

    /// Simulates a year of 1,000 names, with 90 days and windows as Let's Encrypt's.
    #[test]
    fn a_year_of_a_thousand_names_keeps_the_limits() {
        let begun = 1_700_000_000;
        let mut entries: Vec<_> = (0..1000)
            .map(|number| (format!("{number}.example"), RenewalSchedule::default(), Vec::new()))
            .collect();
        let (mut orders, mut looks) = (Vec::<u64>::new(), Vec::new());
        let mut due: BTreeSet<_> = (0..entries.len()).map(|index| (begun, index)).collect();
        let end = begun + 365 * DAY;
        while let Some((now, index)) = due.pop_first().filter(|(at, _)| *at < end) {
            let (name, schedule, certificates) = &mut entries[index];
            let recent = orders.partition_point(|at| at + ORDERS_TIME <= now);
            let next = schedule.next(name, &keys(), certificates, &orders[recent..], now);
            match next.unwrap() {
                (at, _) if at > now => drop(due.insert((at, index))),
                (_, DueStep::Look(key)) => {
                    let one: &KnownCertificate = &certificates[0];
                    let window = (one.not_before + 60 * DAY, one.not_before + 62 * DAY);
                    schedule.suggested(&key, &one.id, Some(window), Some(6 * HOUR), now);
                    looks.push(now);
                    due.insert((now, index));
                }
                (_, DueStep::Order(key, _)) => {
                    schedule.begins(now);
                    schedule.has_succeeded(&key, now);
                    *certificates = vec![certificate(now, 90)];
                    orders.push(now);
                    due.insert((now, index));
                }
                (_, DueStep::Revoke(_)) => unreachable!("nobody has ordered that"),
            }
        }
        let most = |all: &[u64], time: u64| {
            let in_window =
                |from: usize| all[from..].iter().take_while(|at| **at < all[from] + time).count();
            (0..all.len()).map(in_window).max().unwrap_or(0)
        };
        let (three_hours, day) = (most(&orders, ORDERS_TIME), most(&orders, DAY));
        let looks_a_day = looks.len() / 365;
        eprintln!(
            "{} orders in a year, at most {three_hours} in 3 h and {day} in a day; {looks_a_day} \
             questions a day when to renew",
            orders.len()
        );
        assert!(three_hours <= ORDERS_MAX);
        assert!((5000..=7000).contains(&orders.len()), "{}", orders.len());
        for (name, _, certificates) in &entries {
            assert!(certificates[0].not_after > end, "{name}");
        }
    }
}
