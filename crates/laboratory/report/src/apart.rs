//! In what records differ: their names when several are shown.

use measure::record::Record;

use crate::hostile::harmless;
use crate::reading::setting;

/// What a run was made with: names and values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Facts(Vec<(String, String)>);

/// Names of settings that say nothing about what was measured.
const BESIDE: [&str; 3] = ["record", "quiet", "seed"];

impl Facts {
    /// Of a record: its settings, and where and by what it was made. Equal ones are repetitions.
    pub(crate) fn of(record: &Record) -> Self {
        let settings = record.settings.iter();
        let settings = settings.filter(|setting| !BESIDE.contains(&setting.name.as_str()));
        let mut facts = Self(
            settings
                .map(|setting| (setting.name.clone(), setting.value.clone()))
                .collect(),
        );
        facts.add("url", &record.target.url);
        facts.add("at", &record.target.address);
        facts.add("on", &record.host.cpu);
        facts.add("kernel", &record.host.kernel);
        facts.add("by", &record.tool.version);
        facts
    }

    fn add(&mut self, name: &str, value: &str) {
        if self.value(name).is_none() {
            self.0.push((name.to_owned(), value.to_owned()));
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// For each record in what it differs from the others; its URL if it differs in nothing.
pub(crate) fn names(records: &[Record]) -> Vec<String> {
    let all: Vec<Facts> = records.iter().map(Facts::of).collect();
    let keys = differing(&all);
    let name = |(record, facts): (&Record, &Facts)| harmless(&name(record, facts, &keys));
    records.iter().zip(&all).map(name).collect()
}

/// By what was typed for this record, since defaults follow from that; if nothing was, by all.
fn name(record: &Record, facts: &Facts, keys: &[&str]) -> String {
    let is_told = |key: &&str| !is_setting(record, key) || is_typed(record, key);
    let typed: Vec<&str> = keys.iter().copied().filter(is_told).collect();
    let mut shown = if typed.is_empty() {
        keys.to_vec()
    } else {
        typed
    };
    if shown.contains(&"url") {
        shown.retain(|key| *key != "at");
    }
    let part = |key: &str| match (key, facts.value(key)?) {
        ("url", value) => Some(value.to_owned()),
        (_, value) => Some(format!("{key} {value}")),
    };
    let parts: Vec<String> = shown.into_iter().filter_map(part).collect();
    match parts.is_empty() {
        true => record.target.url.clone(),
        false => parts.join(", "),
    }
}

/// Facts that are not the same everywhere.
fn differing(all: &[Facts]) -> Vec<&str> {
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in all.iter().flat_map(|facts| &facts.0) {
        let mut values = all.iter().map(|facts| facts.value(key));
        let first = values.next();
        let differs = values.any(|value| Some(value) != first);
        if differs && !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    keys
}

fn is_typed(record: &Record, key: &str) -> bool {
    let flag = format!("--{key}");
    let is_it = |word: &str| word.split('=').next() == Some(flag.as_str());
    let is_plan = |word: &str| word == "--plan" || word.starts_with("--plan=");
    let mut words = record.command.iter();
    words.any(|word| is_it(word) || is_plan(word))
}

/// The URL has no flag, but is always typed.
fn is_setting(record: &Record, key: &str) -> bool {
    key != "url" && setting(record, key).is_some()
}
