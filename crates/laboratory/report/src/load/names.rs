//! In what records differ: their names when several are shown.

use std::collections::BTreeSet;

use measure::record::Record;

/// What a run was made with: names and values.
pub(crate) type Conditions<'r> = Vec<(&'r str, &'r str)>;

/// Names of settings that say nothing about what was measured.
const BESIDE: [&str; 3] = ["record", "quiet", "seed"];

/// Of a record: its settings, and where and by what it was made. Equal ones are repetitions.
pub(crate) fn conditions(record: &Record) -> Conditions<'_> {
    let settings = record.settings.iter();
    let settings = settings.map(|it| (it.name.as_str(), it.value.as_str()));
    let mut all: Vec<_> = settings
        .filter(|(name, _)| !BESIDE.contains(name))
        .collect();
    let places = [
        ("url", record.target.url.as_str()),
        ("at", &record.target.address),
        ("on", &record.host.cpu),
        ("kernel", &record.host.kernel),
        ("by", &record.tool.version),
    ];
    for (name, value) in places {
        if value_of(&all, name).is_none() {
            all.push((name, value));
        }
    }
    all
}

fn value_of<'r>(conditions: &Conditions<'r>, name: &str) -> Option<&'r str> {
    let found = conditions.iter().find(|(other, _)| *other == name);
    found.map(|(_, value)| *value)
}

/// For each record in what it differs from the others; its URL if it differs in nothing.
pub(crate) fn names(records: &[&Record]) -> Vec<String> {
    let all: Vec<Conditions<'_>> = records.iter().map(|record| conditions(record)).collect();
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in all.iter().flatten() {
        let values: BTreeSet<_> = all
            .iter()
            .map(|conditions| value_of(conditions, key))
            .collect();
        if values.len() > 1 && !keys.contains(key) {
            keys.push(key);
        }
    }
    let names = records.iter().zip(&all);
    names
        .map(|(record, conditions)| name(record, conditions, &keys))
        .collect()
}

/// By what was given for this record, since defaults follow from that; if nothing was, by all.
fn name(record: &Record, conditions: &Conditions<'_>, keys: &[&str]) -> String {
    // The URL has no flag, but is always given.
    let is_setting =
        |key: &str| key != "url" && record.settings.iter().any(|setting| setting.name == key);
    let is_shown = |key: &&str| !is_setting(key) || is_given(record, key);
    let mut shown: Vec<&str> = keys.iter().copied().filter(is_shown).collect();
    if shown.is_empty() {
        shown = keys.to_vec();
    }
    if shown.contains(&"url") {
        shown.retain(|key| *key != "at");
    }
    let part = |key: &str| match (key, value_of(conditions, key)?) {
        ("url", value) => Some(value.to_owned()),
        (_, value) => Some(format!("{key} {value}")),
    };
    let parts: Vec<String> = shown.into_iter().filter_map(part).collect();
    if parts.is_empty() {
        record.target.url.clone()
    } else {
        parts.join(", ")
    }
}

/// Whether a flag of the command line gives it, or a plan may.
fn is_given(record: &Record, key: &str) -> bool {
    let flags = [format!("--{key}"), "--plan".to_owned()];
    let mut words = record.command.iter();
    words.any(|word| {
        flags
            .iter()
            .any(|flag| word.split('=').next() == Some(flag))
    })
}
