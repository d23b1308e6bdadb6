//! The last ten minutes as JSON: what `/history` answers.
//!
//! Owns the form of the answer and of its question. What is kept of an interval is `telemetry`'s.

use serde_json::{Value, json};
use telemetry::history::{History, INTERVAL, IntervalCounts};

use super::document::metrics_counted;

/// What is asked for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Question<'a> {
    /// Intervals that ended later than this, in milliseconds since the epoch.
    pub(super) after_ms: u64,
    /// Those of this service; `None` = of all together. Names of services need no encoding.
    pub(super) service: Option<&'a str>,
}

impl<'a> Question<'a> {
    /// Reads a URL's query. What it does not know is ignored, what it cannot read is an error.
    pub(super) fn read(query: &'a str) -> Option<Self> {
        let mut question = Self::default();
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some(("after", value)) => question.after_ms = value.parse().ok()?,
                Some(("service", value)) => question.service = Some(value),
                _ => {}
            }
        }
        Some(question)
    }
}

/// The answer, one line of JSON.
pub(super) fn answer(history: &History, question: &Question<'_>, bounds_us: &[u64]) -> Vec<u8> {
    let intervals = history.intervals(question.after_ms, question.service);
    let intervals: Vec<_> = intervals.map(|one| interval(&one)).collect();
    let answer = json!({
        "version": 1,
        "interval_ms": u64::try_from(INTERVAL.as_millis()).unwrap_or(u64::MAX),
        "bounds_us": bounds_us,
        "intervals": intervals,
    });
    let mut out = answer.to_string().into_bytes();
    out.push(b'\n');
    out
}

fn interval(interval: &IntervalCounts) -> Value {
    json!({
        "end_ms": interval.end_ms,
        "duration_ms": interval.duration_ms,
        "metrics": metrics_counted(&interval.counts),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read() {
        let read = |query| Question::read(query);
        assert_eq!(read(""), Some(Question::default()));
        let asked = |after_ms, service| Some(Question { after_ms, service });
        assert_eq!(read("after=12&x=y&"), asked(12, None));
        assert_eq!(read("service=web&after=3"), asked(3, Some("web")));
        for wrong in ["after=", "after=-1", "after=99999999999999999999"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
