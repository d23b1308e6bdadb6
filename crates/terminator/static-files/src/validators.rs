//! Identifies the version of a file, and whether it is the one that the client means (RFC 9110
//! sections 8.8 and 13). Handles entity tags and conditions; `response` chooses the status.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;

/// Minimum age of a change before the response for strong validators: a younger file may change
/// again without a new time, because some file systems count in steps of two seconds. Its
/// validators are weak (RFC 9110 section 8.8.1), so nobody joins parts of two versions by them.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Tags that distinguish one version of a file from the others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Validators {
    modified_ns: u128,
    bytes: u64,
    identity: u32,
    /// Whole seconds, and never after the response (RFC 9110 section 8.8.2.1).
    last_modified: SystemTime,
    strong: bool,
}

impl Validators {
    /// Returns the validators of a file of this length, modification time and inode.
    pub(crate) fn of(bytes: u64, modified: SystemTime, identity: u64, now: SystemTime) -> Self {
        let since = modified.duration_since(SystemTime::UNIX_EPOCH);
        let settled = now.duration_since(modified);
        let modified_ns = since.unwrap_or_else(|before| before.duration()).as_nanos();
        Self {
            modified_ns,
            bytes,
            identity: folded(identity, bytes, modified_ns),
            last_modified: whole_second(modified.min(now)),
            strong: settled.is_ok_and(|age| age >= SETTLED_AFTER),
        }
    }

    pub(crate) fn last_modified(&self) -> SystemTime {
        self.last_modified
    }

    /// Returns the value of the `ETag` field.
    pub(crate) fn entity_tag(&self) -> String {
        let weak = if self.strong { "" } else { "W/" };
        format!("{weak}\"{}\"", self.opaque_tag())
    }

    fn opaque_tag(&self) -> String {
        format!("{:x}-{:x}-{:08x}", self.modified_ns, self.bytes, self.identity)
    }

    /// Reports whether an `If-Range` field certainly means this version (RFC 9110 section 13.1.5).
    pub(crate) fn is_meant_by(&self, if_range: &[u8]) -> bool {
        if !self.strong {
            return false;
        }
        if let Some((tag, [])) = next_tag(if_range) {
            return !tag.weak && tag.opaque == self.opaque_tag().as_bytes();
        }
        parse_http_date(if_range) == Some(self.last_modified)
    }

    fn is_in(&self, list: &[u8], may_be_weak: bool) -> bool {
        if list == b"*" {
            return true;
        }
        let ours = self.opaque_tag();
        let mut rest = list;
        while let Some((tag, after)) = next_tag(rest) {
            let alike = may_be_weak || (self.strong && !tag.weak);
            if alike && tag.opaque == ours.as_bytes() {
                return true;
            }
            rest = after;
        }
        false
    }
}

/// Hashes the identity of a file to distinguish it from others with the same time and length,
/// because clients must not learn inode numbers.
fn folded(identity: u64, bytes: u64, modified_ns: u128) -> u32 {
    let low = modified_ns.to_le_bytes();
    let nanoseconds = low.first_chunk().map_or(0, |low| u64::from_le_bytes(*low));
    let mut mixed = identity ^ nanoseconds.rotate_left(32) ^ bytes.rotate_left(16);
    // The finalizer of SplitMix64.
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 32) as u32
}

/// A parsed entity tag.
struct EntityTag<'a> {
    weak: bool,
    opaque: &'a [u8],
}

/// Returns the first tag of a list, and the rest; `None` at the list's end or at a malformed tag.
/// Tags may contain commas, and lists too many of them (RFC 9110 section 5.6.1.2).
fn next_tag(list: &[u8]) -> Option<(EntityTag<'_>, &[u8])> {
    let begin = list.iter().position(|byte| !b", \t".contains(byte))?;
    let list = &list[begin..];
    let strong = list.strip_prefix(b"W/");
    let quoted = strong.unwrap_or(list).strip_prefix(b"\"")?;
    let end = quoted.iter().position(|byte| *byte == b'"')?;
    let tag = EntityTag { weak: strong.is_some(), opaque: &quoted[..end] };
    Some((tag, &quoted[end + 1..]))
}

/// Conditional fields of a request other than `If-Range`, as sent.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Conditions {
    pub(crate) if_match: Option<Box<[u8]>>,
    pub(crate) if_none_match: Option<Box<[u8]>>,
    pub(crate) if_modified_since: Option<Box<[u8]>>,
    pub(crate) if_unmodified_since: Option<Box<[u8]>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ConditionResult {
    /// All conditions are met, or there are none.
    Met,
    /// The client has this version already.
    NotModified,
    /// The client asks for another version than this.
    Failed,
}

impl Conditions {
    /// Judges in the order of RFC 9110 section 13.2.2. Malformed dates are ignored.
    pub(crate) fn judge(&self, validators: &Validators) -> ConditionResult {
        let date = |field: &Option<Box<[u8]>>| field.as_deref().and_then(parse_http_date);
        let last_modified = validators.last_modified;
        if let Some(list) = &self.if_match {
            if !validators.is_in(list, false) {
                return ConditionResult::Failed;
            }
        } else if date(&self.if_unmodified_since).is_some_and(|date| last_modified > date) {
            return ConditionResult::Failed;
        }
        let unchanged = match &self.if_none_match {
            Some(list) => validators.is_in(list, true),
            None => date(&self.if_modified_since).is_some_and(|date| last_modified <= date),
        };
        if unchanged {
            return ConditionResult::NotModified;
        }
        ConditionResult::Met
    }
}

/// 9999-12-31 23:59:59, in seconds since 1970.
const SECONDS_MAX: u64 = 253_402_300_799;

/// Rounds a time down to the second.
pub(crate) fn whole_second(time: SystemTime) -> SystemTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH + Duration::from_secs(since.as_secs().min(SECONDS_MAX))
}

pub(crate) fn http_date(time: SystemTime) -> HttpDate {
    HttpDate::from(whole_second(time))
}

/// Parses a field in any of the three forms; `None` if it is no date.
pub(crate) fn parse_http_date(field: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(field).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn modified() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(784_111_777_250)
    }

    fn settled() -> Validators {
        Validators::of(1000, modified(), 7, modified() + SETTLED_AFTER)
    }

    fn fresh() -> Validators {
        Validators::of(1000, modified(), 7, modified() + SETTLED_AFTER / 2)
    }

    fn field(value: &str) -> Option<Box<[u8]>> {
        Some(value.as_bytes().into())
    }

    #[test]
    fn each_version_has_a_tag_of_its_own() {
        let now = modified() + SETTLED_AFTER;
        let tag =
            |bytes, modified, identity| Validators::of(bytes, modified, identity, now).entity_tag();
        let ours = tag(1000, modified(), 7);
        assert!(ours.starts_with('"') && ours.ends_with('"'), "{ours}");
        assert_eq!(ours, settled().entity_tag());
        assert_ne!(ours, tag(1001, modified(), 7));
        assert_ne!(ours, tag(1000, modified() - Duration::from_nanos(1), 7));
        assert_ne!(ours, tag(1000, modified(), 8));
    }

    #[test]
    fn what_may_change_again_is_weak() {
        let fresh = fresh();
        assert_eq!(fresh.entity_tag(), format!("W/{}", settled().entity_tag()));
        assert!(!fresh.is_meant_by(fresh.entity_tag().as_bytes()));
        assert!(!fresh.is_meant_by(settled().entity_tag().as_bytes()));
        assert!(!fresh.is_meant_by(MODIFIED.as_bytes()));
        let coming = Validators::of(1, modified(), 7, modified() - SETTLED_AFTER);
        assert!(coming.entity_tag().starts_with("W/"));
        assert_eq!(http_date(coming.last_modified()).to_string(), "Sun, 06 Nov 1994 08:49:35 GMT");
    }

    #[test]
    fn if_range_must_mean_this_version() {
        let tag = settled().entity_tag();
        assert!(settled().is_meant_by(tag.as_bytes()));
        assert!(settled().is_meant_by(MODIFIED.as_bytes()));
        let weak = format!("W/{tag}");
        let two = format!("{tag}, {tag}");
        for other in [&weak, &two, "\"x\"", "x", "", "*", "\"", AFTER, BEFORE] {
            assert!(!settled().is_meant_by(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn tags_are_found_in_lists() {
        let tag = settled().entity_tag();
        let holding = [
            tag.clone(),
            "*".to_owned(),
            format!("\"x\", {tag}"),
            format!(" ,,\"a,b\"\t,{tag},"),
            format!("{tag} x"),
        ];
        for list in &holding {
            assert!(settled().is_in(list.as_bytes(), false), "{list}");
        }
        let weak = format!("W/{tag}");
        assert!(settled().is_in(weak.as_bytes(), true) && !settled().is_in(weak.as_bytes(), false));
        for list in ["", "\"x\"", "x", "\"", "W/", "W/\"", ",,", &tag[1..], &format!("x {tag}")] {
            assert!(!settled().is_in(list.as_bytes(), true), "{list}");
        }
    }

    #[test]
    fn each_condition_has_its_verdict() {
        let tag = settled().entity_tag();
        let judge = |conditions: Conditions| conditions.judge(&settled());
        let with = |set: fn(&mut Conditions) -> &mut Option<Box<[u8]>>, value: &str| {
            let mut conditions = Conditions::default();
            *set(&mut conditions) = field(value);
            conditions
        };
        let if_match = |value: &str| with(|all| &mut all.if_match, value);
        let if_none_match = |value: &str| with(|all| &mut all.if_none_match, value);
        let since = |value: &str| with(|all| &mut all.if_modified_since, value);
        let not_since = |value: &str| with(|all| &mut all.if_unmodified_since, value);
        let cases = [
            (Conditions::default(), ConditionResult::Met),
            (if_match(&tag), ConditionResult::Met),
            (if_match("*"), ConditionResult::Met),
            (if_match("\"x\""), ConditionResult::Failed),
            (if_match(&format!("W/{tag}")), ConditionResult::Failed),
            (if_none_match(&tag), ConditionResult::NotModified),
            (if_none_match(&format!("W/{tag}")), ConditionResult::NotModified),
            (if_none_match("*"), ConditionResult::NotModified),
            (if_none_match("\"x\""), ConditionResult::Met),
            (since(MODIFIED), ConditionResult::NotModified),
            (since(AFTER), ConditionResult::NotModified),
            (since(BEFORE), ConditionResult::Met),
            (since("yesterday"), ConditionResult::Met),
            (not_since(MODIFIED), ConditionResult::Met),
            (not_since(AFTER), ConditionResult::Met),
            (not_since(BEFORE), ConditionResult::Failed),
            (not_since("yesterday"), ConditionResult::Met),
        ];
        for (conditions, verdict) in cases {
            assert_eq!(judge(conditions.clone()), verdict, "{conditions:?}");
        }
    }

    #[test]
    fn tags_go_before_dates_and_failures_before_all() {
        let tag = settled().entity_tag();
        let all = |if_match, if_none_match, since, not_since| Conditions {
            if_match,
            if_none_match,
            if_modified_since: since,
            if_unmodified_since: not_since,
        };
        let cases = [
            // A date that contradicts is ignored beside a tag that matches.
            (all(field(&tag), None, None, field(BEFORE)), ConditionResult::Met),
            (all(None, field("\"x\""), field(AFTER), None), ConditionResult::Met),
            (all(field(&tag), field(&tag), None, None), ConditionResult::NotModified),
            (all(field("\"x\""), field(&tag), None, None), ConditionResult::Failed),
            (all(None, field(&tag), None, field(BEFORE)), ConditionResult::Failed),
        ];
        for (conditions, verdict) in cases {
            assert_eq!(conditions.judge(&settled()), verdict, "{conditions:?}");
        }
    }
}

#[cfg(test)]
mod dates_tests {
    use super::*;

    #[test]
    fn any_time_can_be_written() {
        let day = Duration::from_secs(86_400);
        let cases = [
            (UNIX_EPOCH - day, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (UNIX_EPOCH + Duration::from_millis(784_111_777_999), "Sun, 06 Nov 1994 08:49:37 GMT"),
            (UNIX_EPOCH + Duration::from_secs(SECONDS_MAX + 1), "Fri, 31 Dec 9999 23:59:59 GMT"),
        ];
        for (time, text) in cases {
            assert_eq!(http_date(time).to_string(), text);
            assert_eq!(parse_http_date(text.as_bytes()), Some(whole_second(time)));
        }
    }

    #[test]
    fn all_three_forms_are_read() {
        let time = Some(UNIX_EPOCH + Duration::from_secs(784_111_777));
        assert_eq!(parse_http_date(b"Sunday, 06-Nov-94 08:49:37 GMT"), time);
        assert_eq!(parse_http_date(b"Sun Nov  6 08:49:37 1994"), time);
        for no_date in [&b"yesterday"[..], b"", b"\xff", b"784111777"] {
            assert_eq!(parse_http_date(no_date), None);
        }
    }
}
