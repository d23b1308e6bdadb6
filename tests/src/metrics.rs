//! Reads the Prometheus text back.

#[derive(Clone, Debug)]
pub struct Metrics(Vec<Sample>);

#[derive(Clone, Debug)]
struct Sample {
    /// Name and labels as written: `name{label="value",...}`.
    series: String,
    value: f64,
}

impl Metrics {
    /// Reads the text format 0.0.4.
    pub fn parse(text: &str) -> Self {
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ').expect("a series and its value");
            let value = value.parse().expect("a number");
            Sample { series: series.to_owned(), value }
        };
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(lines.map(sample).collect())
    }

    /// Returns the sum of all series with this name and all these `label="value"` pairs.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let matching = self.0.iter().filter(|sample| sample.matches(name, labels));
        matching.map(|sample| sample.value).sum()
    }
}

impl Sample {
    fn matches(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        let rest = self.series.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('{'))
            && labels.iter().all(|(label, value)| {
                self.series.contains(&format!("{{{label}=\"{value}\""))
                    || self.series.contains(&format!(",{label}=\"{value}\""))
            })
    }
}
