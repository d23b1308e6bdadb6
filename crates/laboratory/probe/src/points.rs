//! Holds the points of judgement: how bad each is, why, and which setting to change. Data alone, in
//! `points.toml`.

use std::sync::OnceLock;

use measure::probe::Level;
use options::{Node, Report, document};

#[derive(Debug)]
pub struct JudgedPoint {
    pub name: String,
    pub level: Level,
    pub why: String,
    pub(crate) advice: Vec<(String, String)>,
}

/// Programs whose settings are known, in the order of advice.
const PROGRAMS: [&str; 5] = ["lariat", "nginx", "haproxy", "hitch", "stunnel"];

/// Returns all points in the order of the file: the worst first.
pub fn all() -> &'static [JudgedPoint] {
    static POINTS: OnceLock<Vec<JudgedPoint>> = OnceLock::new();
    POINTS.get_or_init(|| {
        let report = Report::new(None);
        let root = document::parse(include_str!("points.toml"), &report);
        let root = root.expect("a test reads it");
        let points = root.entries().iter();
        points.map(|entry| point(&entry.key, &entry.node)).collect()
    })
}

/// Returns the point of that name.
pub(crate) fn find(name: &str) -> &'static JudgedPoint {
    let found = all().iter().find(|point| point.name == name);
    found.expect("a test looks for every name")
}

fn point(name: &str, node: &Node) -> JudgedPoint {
    let text = |key: &str| {
        let found = node.get(key);
        found.and_then(|node| node.value.text()).unwrap_or_default()
    };
    let advice = PROGRAMS.map(|program| (program.to_owned(), text(program)));
    JudgedPoint {
        name: name.to_owned(),
        level: match text("level").as_str() {
            "fault" => Level::Fault,
            _ => Level::Advice,
        },
        why: text("why"),
        advice: advice.into_iter().filter(|(_, text)| !text.is_empty()).collect(),
    }
}
