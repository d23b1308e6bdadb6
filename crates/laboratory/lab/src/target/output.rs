//! What a load generator prints: where its numbers are, and what they are.

use std::time::Duration;

use serde::Deserialize;

/// Where a load generator's numbers are in what it prints.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Output {
    /// Operations that succeeded; it does one if it does not print how many.
    operations: Option<Number>,
    failed: Option<Number>,
    bytes: Option<Number>,
    seconds: Option<Number>,
    /// The 95th percentile of the response time, in milliseconds.
    #[serde(rename = "p95-ms")]
    p95_ms: Option<Number>,
    faults: Vec<String>,
    /// The file in its folder that it writes them to, if it does not print them.
    file: Option<String>,
}

/// A number by its neighbour in the text. The first place counts.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Number {
    /// Behind these, one after the other.
    After(Vec<String>),
    Before(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counted {
    pub(crate) operations: u64,
    pub(crate) failed: u64,
    pub(crate) bytes: u64,
    /// How long it took by its own clock, if it prints that.
    pub(crate) took: Option<Duration>,
    /// The 95th percentile of the response time, if it prints that.
    pub(crate) p95: Option<Duration>,
}

impl Output {
    /// The file in its folder that it writes its numbers to, if it does not print them.
    pub(crate) fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The numbers in what a program printed; `None` where one is missing, or it failed.
    pub(crate) fn read(&self, text: &str) -> Option<Counted> {
        if self.faults.iter().any(|fault| text.contains(fault)) {
            return None;
        }
        let number = |of: &Option<Number>, otherwise: f64| match of {
            None => Some(otherwise),
            Some(number) => number.find(text),
        };
        let time = |of: &Option<Number>, unit_s: f64| match of {
            None => Some(None),
            Some(number) => {
                let seconds = number.find(text)? * unit_s;
                Some(Some(Duration::try_from_secs_f64(seconds).ok()?))
            }
        };
        // The casts saturate.
        Some(Counted {
            operations: number(&self.operations, 1.0)? as u64,
            failed: number(&self.failed, 0.0)? as u64,
            bytes: number(&self.bytes, 0.0)? as u64,
            took: time(&self.seconds, 1.0)?,
            p95: time(&self.p95_ms, 1e-3)?,
        })
    }
}

impl Number {
    fn find<'t>(&self, text: &'t str) -> Option<f64> {
        let is_digit = |letter: char| letter.is_ascii_digit() || letter == '.';
        let digits = match self {
            Self::After(marks) => {
                let next = |text: &'t str, mark| text.split_once(mark).map(|(_, behind)| behind);
                let behind = marks
                    .iter()
                    .try_fold(text, |text, mark| next(text, mark.as_str()))?;
                let behind = behind.trim_start();
                &behind[..behind
                    .find(|letter| !is_digit(letter))
                    .unwrap_or(behind.len())]
            }
            Self::Before(mark) => {
                let (before, _) = text.split_once(mark)?;
                before
                    .trim_end()
                    .rsplit(|letter| !is_digit(letter))
                    .next()?
            }
        };
        digits.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: &str, text: &str) -> Option<Counted> {
        toml::from_str::<Output>(form).unwrap().read(text)
    }

    #[test]
    fn numbers_are_found_by_their_neighbours() {
        let counted = |operations, failed, bytes, took| Counted {
            operations,
            failed,
            bytes,
            took,
            p95: None,
        };
        let form = "operations = { before = \" requests in \" }\nfaults = [\"Non-2xx\"]";
        let said = "  90934 requests in 5.09s, 1.00MB read\n";
        assert_eq!(read(form, said), Some(counted(90934, 0, 0, None)));
        assert_eq!(read(form, &format!("{said}Non-2xx responses: 4\n")), None);
        let form = "operations = { after = [\"Complete\", \"requests:\"] }\n\
                    failed = { after = [\"Failed requests:\"] }";
        let said = "Complete requests:      300\nFailed requests:        2\n";
        assert_eq!(read(form, said), Some(counted(300, 2, 0, None)));
        let form = "bytes = { before = \" bytes\" }\nseconds = { after = [\"bytes in \"] }";
        let took = Some(Duration::from_millis(1250));
        assert_eq!(
            read(form, "1024 bytes in 1.25\n"),
            Some(counted(1, 0, 1024, took))
        );
        let form = "operations = { after = [\"queries:\"] }\np95-ms = { after = [\"95th:\"] }";
        let timed = Counted {
            p95: Some(Duration::from_micros(1640)),
            ..counted(16, 0, 0, None)
        };
        assert_eq!(read(form, "queries:   16 (4)\n 95th:  1.64\n"), Some(timed));
        assert_eq!(read(form, "queries:   16 (4)\n"), None);
    }

    #[test]
    fn what_is_no_number_is_none() {
        let form = "seconds = { after = [\"in \"] }";
        for said in ["", "in ", "in -1", "in long", "in 1.2.3"] {
            assert_eq!(read(form, said), None, "{said}");
        }
    }
}
