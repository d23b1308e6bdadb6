//! In what records differ: their names when several are shown.

use std::collections::BTreeSet;

use measure::record::Record;

/// What a run was made with: names and values.
pub(crate) type Conditions = Vec<(String, String)>;

/// Names of flags that say nothing about what was measured.
const BESIDE: [&str; 3] = ["record", "quiet", "seed"];

/// Of a record: what was given, and where and by what it was made. Equal ones are repetitions.
pub(crate) fn conditions(record: &Record) -> Conditions {
    let mut all = given(record);
    all.retain(|(name, _)| !BESIDE.contains(&name.as_str()));
    let places = [
        ("url", record.target.url.as_str()),
        ("at", &record.target.address),
        ("on", &record.host.cpu),
        ("kernel", &record.host.kernel),
        ("by", &record.tool.version),
    ];
    all.extend(places.map(|(name, value)| (name.to_owned(), value.to_owned())));
    all
}

/// The flags of the command that repeats it, whose values may stand in the next word.
fn given(record: &Record) -> Conditions {
    let mut flags: Conditions = Vec::new();
    for word in &record.command {
        match (word.strip_prefix("--"), flags.last_mut()) {
            (Some(flag), _) => {
                let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
                flags.push((name.to_owned(), value.to_owned()));
            }
            (None, Some((_, value))) => value.push_str(word),
            // The program, the command and the URL.
            (None, None) => {}
        }
    }
    flags
}

fn value_of<'c>(conditions: &'c Conditions, name: &str) -> Option<&'c str> {
    let found = conditions.iter().find(|(other, _)| *other == name);
    found.map(|(_, value)| value.as_str())
}

/// For each record in what it differs from the others; its URL if it differs in nothing.
pub(crate) fn names(records: &[&Record]) -> Vec<String> {
    let all: Vec<Conditions> = records.iter().map(|record| conditions(record)).collect();
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in all.iter().flatten() {
        let values: BTreeSet<_> = all
            .iter()
            .map(|conditions| value_of(conditions, key))
            .collect();
        if values.len() > 1 && !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    let names = records.iter().zip(&all);
    names
        .map(|(record, conditions)| name(record, conditions, &keys))
        .collect()
}

fn name(record: &Record, conditions: &Conditions, keys: &[&str]) -> String {
    let mut shown = keys.to_vec();
    if shown.contains(&"url") {
        shown.retain(|key| *key != "at");
    }
    let part = |key: &str| match (key, value_of(conditions, key)?) {
        ("url", value) => Some(value.to_owned()),
        (_, "") => Some(key.to_owned()),
        (_, value) => Some(format!("{key} {value}")),
    };
    let parts: Vec<String> = shown.into_iter().filter_map(part).collect();
    if parts.is_empty() {
        record.target.url.clone()
    } else {
        parts.join(", ")
    }
}
