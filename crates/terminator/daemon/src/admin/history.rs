//! The last ten minutes as JSON: what `/history` answers.
//!
//! Owns the form of the answer and of its question. What is kept of an interval is `telemetry`'s.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use telemetry::catalogue::Service;
use telemetry::history::{History, HistoryInterval, INTERVAL, IntervalCounts};

use super::document::{ShownCounts, metrics_counted};
use crate::named_servers::HISTORY_BYTES_MAX;

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Question<'a> {
    /// Intervals that ended later than this, in milliseconds since the epoch.
    pub(super) after_ms: u64,
    /// The samples of this service; `None` = of all together. Names of services need no encoding.
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

/// The newest intervals, as many as fit, for another worker process. It may be of another version:
/// counts go by their names.
pub(super) fn handed_over(history: &History) -> String {
    let mut lines = Vec::new();
    let mut bytes = 0;
    for recorded in history.recorded().rev() {
        let services = recorded.services.iter();
        let services = services.map(|(name, counts)| (name.to_string(), metrics_counted(counts)));
        let line = json!([recorded.end_ms, recorded.duration_ms, services.collect::<Map<_, _>>()]);
        let line = line.to_string();
        bytes += line.len() + 1;
        if bytes > HISTORY_BYTES_MAX {
            break;
        }
        lines.push(line);
    }
    lines.reverse();
    lines.join("\n")
}

/// Goes on with such a history; of what cannot be read nothing is taken.
pub(super) fn take_over(history: &mut History, handed_over: &str) {
    let lines = handed_over.lines().map(|line| {
        let (end_ms, duration_ms, services) = serde_json::from_str::<Line>(line).ok()?;
        let services = services.into_iter();
        Some(HistoryInterval {
            end_ms,
            duration_ms,
            services: services.map(|(name, counts)| (name.into(), counts.counts)).collect(),
        })
    });
    if let Some(intervals) = lines.collect::<Option<Vec<_>>>() {
        history.replace(intervals);
    }
}

type Line = (u64, u64, BTreeMap<String, ShownCounts<Service>>);

fn interval(interval: &IntervalCounts) -> Value {
    json!({
        "end_ms": interval.end_ms,
        "duration_ms": interval.duration_ms,
        "metrics": metrics_counted(&interval.counts),
    })
}

#[cfg(test)]
mod tests {
    use telemetry::Registry;
    use telemetry::catalogue::{Histogram, ServiceCounter};

    use super::*;

    #[test]
    fn another_worker_process_goes_on_with_the_history() {
        let registry = Registry::new(1);
        let services = ["web", "mail"].map(|name| registry.service(0, name, &[]));
        let mut history = History::default();
        let second = INTERVAL.as_millis() as u64;
        for number in 1..=20 {
            services[0].add(ServiceCounter::ConnectionsAccepted, number);
            services[1].observe(Histogram::HandshakeFull, INTERVAL);
            history.add(number * second, INTERVAL, &registry.changes());
        }
        let handed = handed_over(&history);
        let mut next = History::default();
        next.add(0, INTERVAL, &registry.changes());
        next.add(20_900, INTERVAL, &registry.changes());
        for nonsense in ["[1]", &handed[1..]] {
            take_over(&mut next, nonsense);
            assert_eq!(next.intervals(0, None).count(), 1, "{nonsense}");
        }
        take_over(&mut next, &handed);
        for service in [None, Some("web"), Some("mail")] {
            let all = |history| {
                let question = Question { service, after_ms: 0 };
                String::from_utf8(answer(history, &question, &[])).unwrap()
            };
            assert_eq!(all(&next), all(&history));
        }
        next.add(22_000, INTERVAL, &registry.changes());
        assert_eq!(next.intervals(0, None).count(), 20);
    }

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
