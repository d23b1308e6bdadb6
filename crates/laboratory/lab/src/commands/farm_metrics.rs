//! A host's own day as the question of `plan`: ranges of Lariat's metrics, as Prometheus answers
//! `/api/v1/query_range`, or Lariat's log of connections.
//!
//! Counters of all services and hosts are summed; the busiest interval is the day that is planned
//! for. A counter that fell began anew. Of a log, intervals are the minutes of the clock.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::Value;

use super::farm_question::{FarmQuestion, WrittenValue};
use crate::fault::{LabFault, LabResult};
use crate::load::read_text;
use crate::pages::{shown, tame};

/// Handshakes by kind and version.
const HANDSHAKES: &str = "lariat_handshakes_total";

/// CPU time of the worker process.
const CPU: &str = "process_cpu_seconds_total";

/// The busiest interval of a range.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct BusiestInterval {
    pub(super) handshakes_per_s: f64,
    pub(super) resumed_share: f64,
    pub(super) tls13_share: f64,
    /// CPU time for a handshake with all that its connection did, where that was in the file.
    pub(super) cpu_us: Option<f64>,
}

/// Sums of an interval.
#[derive(Clone, Copy, Debug, Default)]
struct IntervalSums {
    all: f64,
    resumed: f64,
    tls13: f64,
    cpu_s: f64,
}

impl IntervalSums {
    fn add(&mut self, count: f64, kind: &str, version: &str) {
        self.all += count;
        self.resumed += if kind == "full" { 0.0 } else { count };
        self.tls13 += if version == "TLSv1.3" { count } else { 0.0 };
    }

    /// The busiest of intervals of that length.
    fn busiest(
        sums: impl IntoIterator<Item = Self>,
        length_s: f64,
    ) -> Result<BusiestInterval, &'static str> {
        let most = sums.into_iter().max_by(|a, b| a.all.total_cmp(&b.all));
        let Self { all, resumed, tls13, cpu_s } =
            most.filter(|most| most.all > 0.0).ok_or("no handshake is in it")?;
        Ok(BusiestInterval {
            handshakes_per_s: all / length_s,
            resumed_share: resumed / all,
            tls13_share: tls13 / all,
            cpu_us: (cpu_s > 0.0).then_some(cpu_s / all * 1e6),
        })
    }
}

/// # Errors
/// [`LabFault`] for a file that is no answer of Prometheus, or has no handshake in it.
pub(super) fn read(path: &Path) -> LabResult<BusiestInterval> {
    let file = File::open(path).map_err(|error| foreign(path, &error.to_string()))?;
    // A log may be as large as a day was busy.
    let answer = read_text(path).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let answer = answer.filter(|answer| answer.get("time").is_none());
    let busiest =
        answer.map_or_else(|| busiest_of_log(BufReader::new(file)), |answer| busiest(&answer));
    busiest.map_err(|why| foreign(path, why))
}

fn foreign(path: &Path, why: &str) -> LabFault {
    LabFault::new(
        format!("cannot read `{}` as metrics or a log: {}", shown(path), tame(why)),
        "give Lariat's log of connections as text or JSON, or what this prints: curl 'http://prometheus:9090/api/v1/query_range' --data-urlencode \
         'query={__name__=~\"lariat_handshakes_total|process_cpu_seconds_total\",job=\"lariat\"}' \
         -d start=… -d end=… -d step=60 > day.json",
    )
}

fn busiest(answer: &Value) -> Result<BusiestInterval, &'static str> {
    let series = answer["data"]["result"].as_array().ok_or("it has no data.result")?;
    // By the instant at which an interval ends, in seconds.
    let mut sums = BTreeMap::<u64, IntervalSums>::new();
    let mut step_s = 1;
    for one in series {
        let label = |name: &str| one["metric"][name].as_str().unwrap_or_default();
        let values = one["values"].as_array().ok_or("it is no range: ask for query_range")?;
        let increases = increases(values).ok_or("a value is no count, or has no time")?;
        for (at, length_s, more) in increases {
            let sums = sums.entry(at).or_default();
            match label("__name__") {
                HANDSHAKES => {
                    step_s = step_s.max(length_s);
                    sums.add(more, label("kind"), label("version"));
                }
                CPU => sums.cpu_s += more,
                _ => {}
            }
        }
    }
    IntervalSums::busiest(sums.into_values(), step_s as f64)
}
const NOT_A_LOG: &str = "it is neither an answer of Prometheus nor a log of connections";

/// Length of `2026-11-28T14:16`, the minute of a time in RFC 3339.
const MINUTE_LENGTH: usize = 16;

/// A line of the log is shorter.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A file without one entry in so many lines is something else.
const LINES_WITHOUT_MAX: usize = 1000;

/// Lines that are no entries, such as Lariat's messages in the same file, are passed over.
fn busiest_of_log(mut text: impl BufRead) -> Result<BusiestInterval, &'static str> {
    let mut minutes = BTreeMap::<String, IntervalSums>::new();
    let (mut line, mut entries, mut others) = (Vec::new(), 0, 0);
    loop {
        line.clear();
        let read = text.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(|_| "it cannot be read to its end")? == 0 {
            break;
        }
        let fields = str::from_utf8(&line).ok().and_then(|line| log_fields(line.trim_end()));
        let Some(fields) = fields else {
            others += 1;
            if entries == 0 && others > LINES_WITHOUT_MAX {
                return Err(NOT_A_LOG);
            }
            continue;
        };
        entries += 1;
        let field = |name: &str| fields.get(name).map_or("-", String::as_str);
        let minute = field("time").get(..MINUTE_LENGTH).ok_or(NOT_A_LOG)?;
        let kind = field("handshake");
        // A line of a connection that ended before it had one, or of a message.
        if kind == "-" {
            continue;
        }
        // A line may stand for several that were not written.
        let count = field("sampled").parse::<u32>().map_or(1.0, f64::from);
        minutes.entry(minute.to_owned()).or_default().add(count, kind, field("version"));
    }
    if entries == 0 {
        return Err(NOT_A_LOG);
    }
    IntervalSums::busiest(minutes.into_values(), 60.0)
}

/// The fields of a line of the log, in either of its forms; `None` = it is none.
fn log_fields(line: &str) -> Option<BTreeMap<String, String>> {
    if line.starts_with('{') {
        let Value::Object(fields) = serde_json::from_str(line).ok()? else {
            return None;
        };
        let texts = fields.into_iter().filter_map(|(name, value)| match value {
            Value::Null => None,
            Value::String(text) => Some((name, text)),
            other => Some((name, other.to_string())),
        });
        return Some(texts.collect());
    }
    let (mut is_quoted, mut is_escaped) = (false, false);
    let words = line.split(|c: char| {
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        c == ' ' && !is_quoted
    });
    let pair = |word: &str| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    };
    let fields: BTreeMap<_, _> = words.filter_map(pair).collect();
    fields.contains_key("time").then_some(fields)
}

/// No counter is larger: above, an increase of one is lost.
const COUNT_MAX: f64 = 9e15;

/// The end and length of each interval, in seconds, and how much the counter rose.
fn increases(values: &[Value]) -> Option<Vec<(u64, u64, f64)>> {
    let read = |pair: &Value| {
        let value: f64 = pair[1].as_str()?.parse().ok()?;
        let is_plausible = (0.0..=COUNT_MAX).contains(&value);
        Some((pair[0].as_f64()?, value)).filter(|_| is_plausible)
    };
    let points: Vec<(f64, f64)> = values.iter().map(read).collect::<Option<_>>()?;
    let rose = |pair: &[(f64, f64)]| {
        let ((from, before), (to, after)) = (pair[0], pair[1]);
        let more = if after >= before { after - before } else { after };
        (to as u64, (to - from).round() as u64, more)
    };
    Some(points.windows(2).map(rose).collect())
}

impl BusiestInterval {
    /// The question with what the day says, where it does not say otherwise itself.
    pub(super) fn asked(&self, question: FarmQuestion) -> FarmQuestion {
        let value = |number: f64| Some(WrittenValue(number.to_string()));
        let each = question.requests_per_connection.as_ref();
        let each = each.and_then(|text| text.0.parse::<f64>().ok()).unwrap_or(1.0);
        let tls = if self.tls13_share >= 0.5 { "1.3" } else { "1.2" };
        FarmQuestion {
            rate: question.rate.or_else(|| value(self.handshakes_per_s * each)),
            resumed: question.resumed.or_else(|| value(self.resumed_share)),
            tls: question.tls.or_else(|| Some(WrittenValue(tls.to_owned()))),
            ..question
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, kind: &str, values: &str) -> String {
        format!(
            r#"{{"metric":{{"__name__":"{name}","kind":"{kind}","version":"TLSv1.3"}},
                "values":[{values}]}}"#
        )
    }

    fn of(series: &[String]) -> Result<BusiestInterval, &'static str> {
        let text = format!(r#"{{"data":{{"result":[{}]}}}}"#, series.join(","));
        busiest(&serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn the_busiest_interval_counts_and_a_restart_is_no_loss() {
        let found = of(&[
            series(HANDSHAKES, "full", r#"[60,"0"],[120,"600"],[180,"300"]"#),
            series(HANDSHAKES, "psk", r#"[60,"0"],[120,"1800"],[180,"1900"]"#),
            series(CPU, "", r#"[60,"5"],[120,"5.48"],[180,"6"]"#),
        ])
        .unwrap();
        assert_eq!((found.handshakes_per_s, found.resumed_share), (40.0, 0.75));
        assert_eq!(found.tls13_share, 1.0);
        assert!((found.cpu_us.unwrap() - 200.0).abs() < 1e-6);
    }

    #[test]
    fn a_log_in_either_form_says_the_same() {
        let line = |minute: u32, kind: &str, more: &str| {
            format!(
                "time=2026-11-28T10:{minute:02}:07.5Z id=1 sni=\"a handshake=x\" version=TLSv1.3 \
                 handshake={kind} {more} reason=client-closed"
            )
        };
        let text = [
            "2026-11-28T10:01:00Z lariat: notice: service `web` listens".to_owned(),
            line(1, "full", ""),
            line(2, "full", "sampled=30"),
            line(2, "psk", "sampled=90"),
            line(2, "-", "sampled=500"),
        ];
        let wanted = BusiestInterval {
            handshakes_per_s: 2.0,
            resumed_share: 0.75,
            tls13_share: 1.0,
            cpu_us: None,
        };
        assert_eq!(busiest_of_log(text.join("\n").as_bytes()), Ok(wanted.clone()));
        let json = |kind: &str, sampled: u32| {
            format!(
                r#"{{"time":"2026-11-28T10:02:07Z","version":"TLSv1.3","handshake":{kind},"sampled":{sampled}}}"#
            )
        };
        let text = [json(r#""full""#, 30), json(r#""psk""#, 90), json("null", 500)].join("\n");
        assert_eq!(busiest_of_log(text.as_bytes()), Ok(wanted));
        assert_eq!(busiest_of_log("handshake=full".as_bytes()), Err(NOT_A_LOG));
        assert_eq!(busiest_of_log("Nov 28 nginx: started".as_bytes()), Err(NOT_A_LOG));
        assert_eq!(busiest_of_log(line(1, "-", "").as_bytes()), Err("no handshake is in it"));
    }

    #[test]
    fn other_files_say_what_they_lack() {
        assert_eq!(of(&[]), Err("no handshake is in it"));
        let no_count = of(&[series(HANDSHAKES, "full", r#"[60,"x"]"#)]);
        assert_eq!(no_count, Err("a value is no count, or has no time"));
        assert!(busiest(&Value::Null).is_err());
    }
}
