//! A table of costs: a line a candidate, beside the ratios of ours to each.

use serde_json::{Value, json};

use super::statistics::{Summary, ratios};

/// What one candidate cost, round by round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// Its name.
    pub(crate) label: String,
    /// Whether it is ours, so that the others are compared with it.
    pub(crate) is_ours: bool,
    /// CPU time of an operation in each round, in µs.
    pub(crate) costs_us: Vec<f64>,
    /// How much of the time on the clock the server ran, in percent, in each round.
    pub(crate) server_percent: Vec<f64>,
    /// The same of the client.
    pub(crate) client_percent: Vec<f64>,
    /// What else is to be said.
    pub(crate) notes: Vec<String>,
    /// Why there are no readings, or no more.
    pub(crate) failure: Option<String>,
}

/// Prints the lines with a column of ratios for each of ours.
pub(crate) fn print(title: &str, lines: &[Line], unit: &str) {
    println!("{title}");
    let ours: Vec<_> = lines.iter().filter(|line| line.is_ours).collect();
    let heads: Vec<_> = (1..=ours.len())
        .map(|number| format!("[{number}]"))
        .collect();
    println!(
        "  {:<34} {:>8}  {:<17} {}  {:>6} {:>6}  notes",
        "",
        "µs",
        "min .. max",
        columns(&heads),
        "server",
        "client",
    );
    let mut numbers = heads.iter();
    for line in lines {
        let number = match line.is_ours {
            true => numbers.next().map(String::as_str).unwrap_or_default(),
            false => "",
        };
        line.print(number, &ours);
    }
    println!("  {unit}; [n] = ratio of the nth of ours to this one\n");
}

fn columns(words: &[String]) -> String {
    let columns: Vec<_> = words.iter().map(|word| format!("{word:>6}")).collect();
    columns.join(" ")
}

impl Line {
    fn print(&self, number: &str, ours: &[&Self]) {
        let label = format!("{} {number}", self.label);
        let summary = match (&self.failure, Summary::of(&self.costs_us)) {
            (Some(why), _) => return println!("  {label:<34} FAILED: {why}"),
            (None, None) => return println!("  {label:<34} no rounds"),
            (None, Some(summary)) => summary,
        };
        let range = format!("{:.1} .. {:.1}", summary.min, summary.max);
        let ratios: Vec<_> = ours.iter().map(|ours| self.ratio_of(ours)).collect();
        let line = format!(
            "  {label:<34} {:>8.1}  {range:<17} {}  {:>5.0}% {:>5.0}%  {}",
            summary.median,
            columns(&ratios),
            median(&self.server_percent),
            median(&self.client_percent),
            self.notes.join(", "),
        );
        println!("{}", line.trim_end());
    }

    /// The median of the rounds' ratios: what both suffered in a round cancels out.
    fn ratio_of(&self, ours: &Self) -> String {
        let ratios = ratios(&ours.costs_us, &self.costs_us);
        Summary::of(&ratios).map_or_else(|| "-".into(), |ratio| format!("x{:.2}", ratio.median))
    }

    /// For the record.
    pub(crate) fn describe(&self) -> Value {
        let summary = Summary::of(&self.costs_us);
        json!({
            "label": self.label,
            "ours": self.is_ours,
            "us_median": summary.map(|summary| summary.median),
            "spread_percent": summary.map(|summary| summary.spread_percent()),
            "us_rounds": self.costs_us,
            "server_percent_rounds": self.server_percent,
            "client_percent_rounds": self.client_percent,
            "notes": self.notes,
            "failure": self.failure,
        })
    }
}

fn median(readings: &[f64]) -> f64 {
    Summary::of(readings).map_or(f64::NAN, |summary| summary.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_medians_of_rounds() {
        let line = |costs: &[f64]| Line {
            costs_us: costs.to_vec(),
            ..Line::default()
        };
        let (ours, theirs) = (line(&[1.0, 2.0, 9.0]), line(&[2.0, 4.0, 10.0]));
        assert_eq!(theirs.ratio_of(&ours), "x0.50");
        assert_eq!(line(&[]).ratio_of(&ours), "-");
    }
}
