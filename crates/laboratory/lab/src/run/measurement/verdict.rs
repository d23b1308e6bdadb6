//! Judges whether the intended configuration was measured, and names reasons why not.

use std::collections::BTreeMap;
use std::fmt::Write;

use measure::choice::Kind;
use measure::record::{HandshakeCounts, LoadRecord, LoadSecond, TransactionCounts};

use crate::run::scenario::settings::{Expect, ShareBounds};

/// Error rate above which a closed load measures faults.
const CLOSED_ERROR_RATE: ShareBounds = ShareBounds { least: 0.0, most: 0.01 };

/// Share of clients' failures to begin above which an open load did not offer its rate.
const UNOFFERED_MAX: f64 = 0.02;

/// Names of failures to begin.
const UNOFFERED: [&str; 2] = ["clients-exhausted", "schedule-overrun"];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) record: &'a LoadRecord,
    /// Whether TLS is spoken; otherwise handshakes are not checked.
    pub(crate) is_tls: bool,
    /// Whether the load waits for the server. An open load may overwhelm it, so that some or all of
    /// the expected kinds of handshake may be missing.
    pub(crate) is_closed: bool,
}

/// Checks that the results are as expected.
///
/// # Errors
/// Fails with [`MeasurementFailure::Void`] and all deviations.
pub(crate) fn judge(expect: &Expect, evidence: Evidence<'_>) -> Measured<()> {
    let mut faults = Vec::new();
    let has_any = evidence.is_closed || !evidence.record.handshakes.is_empty();
    if evidence.is_tls && has_any {
        faults.extend(of_handshakes(expect, evidence));
        faults.extend(of_resumed(expect, &evidence.record.seconds));
    }
    faults.extend(of_error_rate(expect, evidence));
    faults.extend(of_offer(evidence));
    if faults.is_empty() { Ok(()) } else { Err(MeasurementFailure::Void(faults.join("; "))) }
}

fn of_handshakes(expect: &Expect, evidence: Evidence<'_>) -> Vec<String> {
    let rows = &evidence.record.handshakes;
    let version = |row: &HandshakeCounts| Some(row.version.clone());
    let suite = |row: &HandshakeCounts| Some(row.suite.clone());
    let found = [
        of_kinds(expect.kinds.as_deref(), rows, evidence.is_closed),
        of_one("version", expect.version.as_ref(), rows, version),
        of_one("suite", expect.suite.as_ref(), rows, suite),
        of_one("group", expect.group.as_ref(), rows, |row| row.group.clone()),
        of_one("signature", expect.signature.as_ref(), rows, |row| row.signature.clone()),
    ];
    found.into_iter().flatten().collect()
}

/// Checks that no other kinds occur, and, if `all`, that each of these does.
fn of_kinds(wanted: Option<&[Kind]>, rows: &[HandshakeCounts], all: bool) -> Option<String> {
    let wanted = wanted?;
    let made = |kind: Kind| !all || rows.iter().any(|row| row.kind == kind);
    let is_kept =
        wanted.iter().all(|kind| made(*kind)) && rows.iter().all(|row| wanted.contains(&row.kind));
    let names: Vec<_> = wanted.iter().map(|kind| kind.name()).collect();
    let names = names.join(" and ");
    (!is_kept).then(|| {
        let got = counted(rows, |row| Some(row.kind.name().to_owned()));
        format!("asked for handshakes {names}, got {got}")
    })
}

/// Checks that every row that has the value has the wanted one, and at least one row has it.
fn of_one(
    what: &str,
    wanted: Option<&String>,
    rows: &[HandshakeCounts],
    of: impl Fn(&HandshakeCounts) -> Option<String>,
) -> Option<String> {
    let wanted = wanted?;
    let mut found = rows.iter().filter_map(&of).peekable();
    let is_kept = found.peek().is_some() && found.all(|got| got == *wanted);
    (!is_kept).then(|| format!("asked for {what} {wanted}, got {}", counted(rows, of)))
}

/// Formats `TLS_A in 1203, TLS_B in 7`, the most frequent first.
fn counted(rows: &[HandshakeCounts], of: impl Fn(&HandshakeCounts) -> Option<String>) -> String {
    let mut counts = BTreeMap::<String, u64>::new();
    for row in rows {
        if let Some(name) = of(row) {
            *counts.entry(name).or_default() += row.count;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words: Vec<_> =
        counts.into_iter().map(|(name, count)| format!("{name} in {count}")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// Checks how connections to the origin began; those of the warm-up count too.
///
/// # Errors
/// Fails with [`MeasurementFailure::Void`] and the share that resumed.
pub(crate) fn judge_origin(wanted: ShareBounds, rows: &[HandshakeCounts]) -> Measured<()> {
    let full: u64 = rows.iter().filter(|row| row.kind == Kind::Full).map(|row| row.count).sum();
    let resumed = rows.iter().map(|row| row.count).sum::<u64>() - full;
    let fault = of_share("handshakes with the origin", wanted, resumed, full);
    fault.map_or(Ok(()), |fault| Err(MeasurementFailure::Void(fault)))
}

/// Checks resumptions without the warm-up, because every session begins there.
fn of_resumed(expect: &Expect, seconds: &[LoadSecond]) -> Option<String> {
    let wanted = expect.resumed?;
    let resumed: u64 = seconds.iter().map(|second| second.resumed).sum();
    let full: u64 = seconds.iter().map(|second| second.full).sum();
    of_share("handshakes", wanted, resumed, full)
}

fn of_share(what: &str, wanted: ShareBounds, resumed: u64, full: u64) -> Option<String> {
    let share = share(resumed, resumed + full);
    (!wanted.holds(nearest(wanted, share, resumed + full))).then(|| {
        let mut text = format!("asked for {} {what} resumed, got ", bounds(wanted));
        let _ = write!(text, "{} ({resumed} of {})", percent(share), resumed + full);
        text
    })
}

/// Returns the violated bound if the share is within two standard errors of it, because few
/// handshakes are a small sample: of 60, none may happen to be the full one in 100.
fn nearest(wanted: ShareBounds, share: f64, count: u64) -> f64 {
    const ERRORS: f64 = 2.0;
    let bound = share.clamp(wanted.least, wanted.most.max(wanted.least));
    let error = (bound * (1.0 - bound) / count.max(1) as f64).sqrt();
    if (share - bound).abs() <= ERRORS * error { bound } else { share }
}

fn of_error_rate(expect: &Expect, evidence: Evidence<'_>) -> Option<String> {
    let wanted = expect.error_rate.or_else(|| evidence.is_closed.then_some(CLOSED_ERROR_RATE))?;
    let TransactionCounts { attempted, failed, .. } = evidence.record.totals;
    let share = share(failed, attempted);
    let failures = evidence.record.failures.iter();
    let reasons: Vec<_> = failures.map(|(name, count)| format!("{name} {count}")).collect();
    let reasons =
        if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    (!wanted.holds(share)).then(|| {
        let wanted = bounds(wanted);
        format!("{wanted} transactions may fail, and {} did{reasons}", percent(share))
    })
}

/// Checks the offered rate, because a hello that never left the client is no failure of the server.
fn of_offer(evidence: Evidence<'_>) -> Option<String> {
    let counts = UNOFFERED.iter().map(|name| evidence.record.failures.get(*name));
    let unoffered: u64 = counts.flatten().sum();
    let share = share(unoffered, evidence.record.totals.attempted);
    (!evidence.is_closed && share > UNOFFERED_MAX).then(|| {
        format!(
            "the load could not begin {} of what it was to offer ({unoffered}): it wants more \
             clients, or more CPU",
            percent(share)
        )
    })
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn bounds(ShareBounds { least, most }: ShareBounds) -> String {
    match (least <= 0.0, most >= 1.0) {
        (true, true) => "any share of".to_owned(),
        (true, false) => format!("at most {} of", percent(most)),
        (false, true) => format!("at least {} of", percent(least)),
        (false, false) => format!("{} to {} of", percent(least), percent(most)),
    }
}

fn percent(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    format!("{} %", text.trim_end_matches(".0"))
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum MeasurementFailure {
    /// The server did not start, or ended; or nothing succeeded. The reason, with its own words.
    Failed(String),
    /// Something else than the configuration was measured. Contains what was expected and found.
    Void(String),
    Cancelled,
}

/// The result of a measurement, or of a step of one.
pub(crate) type Measured<T> = Result<T, MeasurementFailure>;

impl<E: std::error::Error> From<E> for MeasurementFailure {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

impl MeasurementFailure {
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Failed(why) | Self::Void(why) => why,
            Self::Cancelled => "it was stopped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: Kind, suite: &str, signature: Option<&str>, count: u64) -> HandshakeCounts {
        HandshakeCounts {
            kind,
            version: "TLSv1.3".to_owned(),
            suite: suite.to_owned(),
            group: Some("x25519".to_owned()),
            signature: signature.map(str::to_owned),
            count,
            ..HandshakeCounts::default()
        }
    }

    fn rows() -> Vec<HandshakeCounts> {
        let ecdsa = Some("ecdsa_secp256r1_sha256");
        vec![
            row(Kind::Psk, "TLS_AES_128_GCM_SHA256", None, 75),
            row(Kind::Full, "TLS_AES_128_GCM_SHA256", ecdsa, 25),
        ]
    }

    fn why(expect: &str, handshakes: &[HandshakeCounts], failed: u64, is_closed: bool) -> String {
        let second = LoadSecond { resumed: 75, full: 25, ..LoadSecond::default() };
        let record = LoadRecord {
            handshakes: handshakes.to_vec(),
            seconds: vec![second],
            totals: TransactionCounts { attempted: 200, succeeded: 200 - failed, failed },
            failures: BTreeMap::from([("reply-timeout".to_owned(), failed)]),
            ..LoadRecord::default()
        };
        let evidence = Evidence { record: &record, is_tls: true, is_closed };
        match judge(&toml::from_str(expect).unwrap(), evidence) {
            Ok(()) => String::new(),
            Err(MeasurementFailure::Void(why)) => why,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_as_it_should_be_is_not_void() {
        let all = "kinds = [\"psk\", \"full\"]\nversion = \"TLSv1.3\"\ngroup = \"x25519\"\n\
                   suite = \"TLS_AES_128_GCM_SHA256\"\nsignature = \"ecdsa_secp256r1_sha256\"\n\
                   resumed = { least = 0.74, most = 0.76 }\nerror-rate = { most = 0.05 }";
        assert_eq!(why(all, &rows(), 10, true), "");
        assert_eq!(why("", &[], 0, true), "", "nothing is expected");
    }

    #[test]
    fn another_choice_is_void() {
        let mut rows = rows();
        rows.push(row(Kind::Full, "TLS_AES_256_GCM_SHA384", None, 3));
        assert_eq!(
            why("suite = \"TLS_AES_128_GCM_SHA256\"", &rows, 0, true),
            "asked for suite TLS_AES_128_GCM_SHA256, got TLS_AES_128_GCM_SHA256 in 100, \
             TLS_AES_256_GCM_SHA384 in 3"
        );
        let signature = why("signature = \"ed25519\"", &rows, 0, true);
        assert!(signature.ends_with("got ecdsa_secp256r1_sha256 in 25"), "{signature}");
        let version = why("version = \"TLSv1.2\"", &rows, 0, true);
        assert_eq!(version, "asked for version TLSv1.2, got TLSv1.3 in 103");
        assert_eq!(why("group = \"x25519\"", &[], 0, true), "asked for group x25519, got none");
    }

    #[test]
    fn another_kind_is_void() {
        let other = why("kinds = [\"full\"]", &rows(), 0, true);
        assert_eq!(other, "asked for handshakes full, got psk in 75, full in 25");
        let missing = why("kinds = [\"full\", \"psk\", \"ticket\"]", &rows(), 0, true);
        assert!(missing.starts_with("asked for handshakes full and psk and ticket"), "{missing}");
        assert_eq!(
            why("resumed = { least = 0.9 }", &rows(), 0, true),
            "asked for at least 90 % of handshakes resumed, got 75 % (75 of 100)"
        );
    }

    #[test]
    fn few_handshakes_contradict_less_than_many() {
        let of = |resumed, full| {
            of_share("handshakes", ShareBounds { least: 0.97, most: 0.996 }, resumed, full)
        };
        assert_eq!(of(60, 0), None);
        assert_eq!(of(58, 2), None);
        assert!(of(1500, 0).is_some() && of(50, 10).is_some());
        let all = ShareBounds { least: 1.0, most: 1.0 };
        assert!(of_share("handshakes", all, 59, 1).is_some());
    }

    #[test]
    fn failures_are_void_where_none_are_expected() {
        assert_eq!(why("", &rows(), 2, true), "", "one in a hundred may fail");
        assert_eq!(
            why("", &rows(), 3, true),
            "at most 1 % of transactions may fail, and 1.5 % did (reply-timeout 3)"
        );
        assert_eq!(why("", &rows(), 150, false), "", "overload fails");
        let expected = why("error-rate = { least = 0.9 }", &rows(), 150, false);
        assert!(expected.starts_with("at least 90 % of transactions"), "{expected}");
    }

    #[test]
    fn a_load_that_was_not_offered_is_void() {
        let of = |name: &str, count: u64, is_closed: bool| {
            let record = LoadRecord {
                totals: TransactionCounts {
                    attempted: 1000,
                    succeeded: 1000 - count,
                    failed: count,
                },
                failures: BTreeMap::from([(name.to_owned(), count)]),
                ..LoadRecord::default()
            };
            let evidence = Evidence { record: &record, is_tls: true, is_closed };
            judge(&Expect::default(), evidence)
        };
        assert_eq!(of("clients-exhausted", 20, false), Ok(()));
        assert_eq!(of("handshake-timeout", 900, false), Ok(()));
        let Err(MeasurementFailure::Void(why)) = of("schedule-overrun", 21, false) else {
            panic!("the load was the limit");
        };
        assert!(why.contains("could not begin 2.1 %"), "{why}");
    }

    #[test]
    fn what_is_overwhelmed_need_not_do_all() {
        let full = &rows()[1..];
        assert_eq!(why("kinds = [\"full\", \"psk\"]", full, 150, false), "");
        assert_eq!(why("kinds = [\"full\"]\nresumed = { least = 1 }", &[], 200, false), "");
        assert_ne!(why("kinds = [\"psk\"]", full, 150, false), "");
    }
}
