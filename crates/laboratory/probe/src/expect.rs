//! Compares a report with the expectations of an endpoint, which are a file of facts with values.

use measure::probe::ProbeReport;
use options::{Entry, Node, Problem, Report, Value as Typed, document, nearest};

use crate::facts::{FactValue, ProbeFact, all};
use crate::points;

pub struct Expectations(Vec<Expectation>);

struct Expectation {
    fact: ProbeFact,
    wanted: Vec<ExpectedValue>,
}

#[derive(Clone, Debug, PartialEq)]
enum ExpectedValue {
    Is(FactValue),
    Least(u64),
    Most(u64),
    /// A list that contains all of these.
    Has(Vec<String>),
    /// A list without any of these, or a text that differs from each.
    Not(Vec<String>),
    OneOf(Vec<String>),
    /// Whether the value is known at all.
    Known(bool),
}

/// An expectation that does not hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FailedExpectation {
    pub fact: String,
    pub address: String,
    pub wanted: String,
    /// Value of the fact, or that it is unknown, and why.
    pub found: String,
}

const CONDITIONS: [&str; 6] = ["least", "most", "has", "not", "one-of", "known"];

impl Expectations {
    /// Reads a file's text. `None` if it has an error, which has been reported.
    pub fn read(text: &str, report: &Report<'_>) -> Option<Self> {
        let root = document::parse(text, report)?;
        let (mut facts, mut found) = (all(), Vec::new());
        tables(&root, "", &mut facts, &mut found, report);
        (report.errors() == 0).then_some(Self(found))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the expectations that do not hold.
    pub fn unmet(&self, report: &ProbeReport) -> Vec<FailedExpectation> {
        let mut unmet = Vec::new();
        for (index, node) in report.nodes.iter().enumerate() {
            for Expectation { fact, wanted } in &self.0 {
                let value = fact.value(report, index);
                let failed = wanted.iter().filter(|one| !one.holds(value.as_ref()));
                unmet.extend(failed.map(|one| FailedExpectation {
                    fact: fact.name.clone(),
                    address: node.address.clone(),
                    wanted: one.to_string(),
                    found: match (&value, &node.trouble) {
                        (Some(value), _) => value.to_string(),
                        (None, Some(trouble)) => format!("not known ({})", trouble.text),
                        (None, None) => "not known".to_owned(),
                    },
                }));
            }
        }
        unmet
    }
}

fn tables(
    node: &Node,
    path: &str,
    facts: &mut Vec<ProbeFact>,
    found: &mut Vec<Expectation>,
    report: &Report<'_>,
) {
    for entry in node.entries() {
        let full = match path {
            "" => entry.key.clone(),
            parent => format!("{parent}.{}", entry.key),
        };
        let group = format!("{full}.");
        if let Some(at) = facts.iter().position(|fact| fact.name == full) {
            let wanted = conditions(entry, report);
            if matches!(entry.key.as_str(), "faults" | "advice") {
                known_points(&entry.node, report);
            }
            let fact = facts.swap_remove(at);
            found.push(Expectation { fact, wanted });
        } else if facts.iter().any(|fact| fact.name.starts_with(&group))
            && matches!(entry.node.value, Typed::Table(_))
        {
            tables(&entry.node, &full, facts, found, report);
        } else {
            let names = facts.iter().map(|fact| fact.name.as_str());
            report.error_here(&entry.key_spot, unknown("fact", &full, names));
        }
    }
}

fn unknown<'n>(what: &str, name: &str, names: impl Iterator<Item = &'n str>) -> Problem {
    let problem = Problem::new(format!("there is no {what} `{}`", name.escape_debug()));
    problem.hint(match nearest(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`lariat-lab probe --facts` lists them".to_owned(),
    })
}

/// Refuses unknown points: a misspelt one is never found, and its expectation would always hold.
fn known_points(node: &Node, report: &Report<'_>) {
    let names = || points::all().iter().map(|point| point.name.as_str());
    let of_conditions = node.entries().iter().map(|entry| &entry.node);
    let lists = of_conditions.chain([node]).flat_map(Node::elements);
    for one in lists {
        let name = one.value.text().unwrap_or_default();
        if names().all(|known| known != name) {
            report.error_here(&one.spot, unknown("point", &name, names()));
        }
    }
}

fn conditions(entry: &Entry, report: &Report<'_>) -> Vec<ExpectedValue> {
    let Typed::Table(conditions) = &entry.node.value else {
        let value = plain(&entry.node, report);
        return value.map(ExpectedValue::Is).into_iter().collect();
    };
    let empty = |node: &Node, what: String| {
        // An empty expectation would hold always, or never.
        let problem = Problem::new(format!("{what} expects nothing"));
        report.error_here(&node.spot, problem.hint("for example: { has = [\"TLSv1.3\"] }"));
    };
    if conditions.is_empty() {
        empty(&entry.node, "a table without a condition".to_owned());
    }
    let mut wanted = Vec::new();
    for condition in conditions {
        let node = &condition.node;
        let name = condition.key.as_str();
        if matches!(name, "has" | "not" | "one-of") && node.texts().is_empty() {
            empty(node, format!("`{name}` without a name"));
        }
        let one = match (name, &node.value) {
            ("known", Typed::Boolean(known)) => ExpectedValue::Known(*known),
            ("least", Typed::Integer(Some(number))) => ExpectedValue::Least(*number),
            ("most", Typed::Integer(Some(number))) => ExpectedValue::Most(*number),
            ("has", _) => ExpectedValue::Has(node.texts()),
            ("not", _) => ExpectedValue::Not(node.texts()),
            ("one-of", _) => ExpectedValue::OneOf(node.texts()),
            ("least" | "most" | "known", other) => {
                let (what, example) =
                    if name == "known" { ("boolean", "true") } else { ("number", "20") };
                let problem = Problem::new(format!("`{name}` is {}, no {what}", other.kind()));
                let hint = format!("for example: {name} = {example}");
                report.error_here(&node.spot, problem.hint(hint));
                continue;
            }
            _ => {
                let shown = name.escape_debug();
                let problem = Problem::new(format!("there is no condition `{shown}`"));
                let hint = match nearest(name, CONDITIONS) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there are {}", CONDITIONS.join(", ")),
                };
                report.error_here(&condition.key_spot, problem.hint(hint));
                continue;
            }
        };
        wanted.push(one);
    }
    wanted
}

fn plain(node: &Node, report: &Report<'_>) -> Option<FactValue> {
    match &node.value {
        Typed::Text(text) => Some(FactValue::Text(text.clone())),
        Typed::Integer(Some(number)) => Some(FactValue::Number(*number)),
        Typed::Boolean(boolean) => Some(FactValue::Boolean(*boolean)),
        Typed::List(_) => Some(FactValue::List(node.texts())),
        other => {
            let problem = Problem::new(format!("{} is no value of a fact", other.kind()));
            let hint = "facts are texts, whole numbers, booleans and lists of texts";
            report.error_here(&node.spot, problem.hint(hint));
            None
        }
    }
}

impl ExpectedValue {
    /// Reports whether a value meets the expectation. An unknown value meets only `Not` and
    /// `Known(false)`.
    fn holds(&self, value: Option<&FactValue>) -> bool {
        let listed = |names: &[String], all: bool| match value {
            Some(FactValue::List(found)) if all => names.iter().all(|name| found.contains(name)),
            Some(FactValue::List(found)) => names.iter().any(|name| found.contains(name)),
            Some(other) => names.contains(&other.to_string()),
            None => false,
        };
        let number = match value {
            Some(FactValue::Number(number)) => Some(*number),
            _ => None,
        };
        match self {
            Self::Is(FactValue::List(wanted)) => match value {
                Some(FactValue::List(found)) => {
                    found.len() == wanted.len() && wanted.iter().all(|one| found.contains(one))
                }
                _ => false,
            },
            Self::Is(wanted) => value == Some(wanted),
            Self::Least(least) => number.is_some_and(|number| number >= *least),
            Self::Most(most) => number.is_some_and(|number| number <= *most),
            Self::Has(names) => listed(names, true),
            Self::Not(names) => !listed(names, false),
            Self::OneOf(names) => listed(names, false),
            Self::Known(known) => value.is_some() == *known,
        }
    }
}

impl std::fmt::Display for ExpectedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Is(value) => write!(f, "{value}"),
            Self::Least(least) => write!(f, "at least {least}"),
            Self::Most(most) => write!(f, "at most {most}"),
            Self::Has(names) => write!(f, "to have {}", names.join(", ")),
            Self::Not(names) => write!(f, "none of {}", names.join(", ")),
            Self::OneOf(names) => write!(f, "one of {}", names.join(", ")),
            Self::Known(true) => f.write_str("something that is known"),
            Self::Known(false) => f.write_str("nothing that is known"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::probe::{ClientReport, NodeReport as Found, VersionReport};

    fn report() -> ProbeReport {
        let version = |name: &str| VersionReport {
            name: name.to_owned(),
            spoken: true,
            ..VersionReport::default()
        };
        let client = ClientReport {
            kind: "modern".to_owned(),
            suite: "TLS_AES_128_GCM_SHA256".to_owned(),
            ..ClientReport::default()
        };
        ProbeReport {
            nodes: vec![Found {
                address: "127.0.0.1:443".to_owned(),
                versions: vec![version("TLSv1.3"), version("TLSv1.2")],
                clients: vec![client],
                ..Found::default()
            }],
            ..ProbeReport::default()
        }
    }

    fn unmet(text: &str) -> Vec<String> {
        let complaints = Report::new(None);
        let expectations = Expectations::read(text, &complaints).expect("a good file");
        let unmet = expectations.unmet(&report());
        unmet.into_iter().map(|one| one.fact).collect()
    }

    #[test]
    fn expectations_hold_or_not() {
        for (text, holds) in [
            ("versions = ['TLSv1.2', 'TLSv1.3']", true),
            ("versions = ['TLSv1.3']", false),
            ("versions = { has = ['TLSv1.3'], not = ['TLSv1.0'] }", true),
            ("versions = { not = ['TLSv1.2'] }", false),
            ("[modern]\nsuite = 'TLS_AES_128_GCM_SHA256'", true),
            ("modern.suite = { one-of = ['a', 'b'] }", false),
            ("modern.group = 'x25519'", false),
            ("speaks-tls = true\nfaults = []", true),
            ("certificate.days-left = { least = 1 }", false),
            ("certificate.days-left = { known = false }", true),
            ("modern.suite = { known = false }", false),
            ("modern.suite = { known = true }", true),
            ("advice = { not = ['no-tls13'] }", true),
        ] {
            assert_eq!(unmet(text).is_empty(), holds, "{text}");
        }
    }

    #[test]
    fn slips_have_their_place_and_the_nearest_word() {
        for (text, words) in [
            ("[modern]\nsiute = 'x'", "2:1 did you mean `modern.suite`?"),
            ("versions = { hass = ['x'] }", "1:14 did you mean `has`?"),
            ("certificate.days-left = { least = 'x' }", "1:35 for example: least = 20"),
            ("versions = 1.5", "1:12 facts are texts"),
            ("faults = { not = ['weak-dhe'] }", "1:19 did you mean `weak-dh`?"),
            ("advice = ['no-tls3']", "1:11 did you mean `no-tls13`?"),
            ("modern.refused = { not = [] }", "1:26 for example"),
            ("versions = { has = [] }", "1:20 for example"),
            ("versions = {}", "1:12 for example"),
            ("modern.alpn = { known = 1 }", "1:25 for example: known = true"),
            ("zzz = 1", "1:1 `lariat-lab probe --facts` lists them"),
        ] {
            let report = Report::new(Some(("expect.toml", text)));
            assert!(Expectations::read(text, &report).is_none());
            let told = report.into_diagnostics().remove(0);
            let options::FaultLocation::File { line, column, .. } = told.place else {
                panic!("{told:?}");
            };
            let hint = told.hint.unwrap_or_default();
            let found = format!("{line}:{column} {hint}");
            assert!(found.starts_with(words), "{found}");
        }
    }
}
