//! What was typed, in flags or in a plan file, before anybody asks what it means.

use std::ops::Range;

use load::options::table::Setting;

/// A setting and what was typed for it.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// Which.
    pub(crate) setting: &'static Setting,
    /// The whole of it.
    pub(crate) spot: Spot,
    /// Its text, or the texts of its list.
    pub(crate) texts: Vec<Text>,
}

/// A text and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    /// Without quotes.
    pub(crate) text: String,
    /// Where.
    pub(crate) spot: Spot,
}

/// Where something was typed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Spot {
    /// On the command line.
    Flag,
    /// In these bytes of the plan file.
    File(Range<usize>),
}

/// What a flag replaces in a plan file beside its namesake: it says the same in another way, or
/// is said about that other way.
const REPLACED: &[(&str, &[&str])] = &[
    (
        "connections",
        &[
            "rate",
            "ramp",
            "steps",
            "find-capacity",
            "spacing",
            "session-arrivals",
            "step-duration",
            "limit",
            "precision",
        ],
    ),
    ("rate", &["connections", "ramp", "steps"]),
    (
        "ramp",
        &[
            "connections",
            "rate",
            "steps",
            "find-capacity",
            "step-duration",
            "limit",
            "precision",
            "duration",
        ],
    ),
    (
        "steps",
        &[
            "connections",
            "rate",
            "ramp",
            "find-capacity",
            "limit",
            "precision",
            "duration",
        ],
    ),
    (
        "find-capacity",
        &["connections", "ramp", "steps", "duration", "count"],
    ),
    ("body", &["body-file"]),
    ("body-file", &["body"]),
];

/// What the file says where no flag says otherwise, and the flags.
pub(crate) fn merged(file: Vec<Given>, flags: Vec<Given>) -> Vec<Given> {
    let is_replaced = |old: &Given| {
        flags.iter().any(|new| {
            let name = new.setting.name;
            let mut others = REPLACED.iter().filter(|(by, _)| *by == name);
            name == old.setting.name
                || others.any(|(_, replaced)| replaced.contains(&old.setting.name))
        })
    };
    let mut all: Vec<Given> = file.into_iter().filter(|old| !is_replaced(old)).collect();
    all.extend(flags);
    all
}

/// The parts of a list that was typed as one text.
pub(crate) fn split(text: &str, spot: &Spot) -> Vec<Text> {
    let parts = text.split(',').map(|part| Text {
        text: part.trim().to_owned(),
        spot: spot.clone(),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::options::table;

    fn given(name: &str, text: &str) -> Given {
        let spot = Spot::Flag;
        Given {
            setting: table::find(name).unwrap(),
            texts: split(text, &spot),
            spot,
        }
    }

    fn names(list: &[Given]) -> Vec<&str> {
        list.iter().map(|given| given.setting.name).collect()
    }

    #[test]
    fn flags_replace_what_the_file_says() {
        let file = vec![
            given("rate", "5"),
            given("duration", "3s"),
            given("suites", "a,b"),
        ];
        let both = merged(file.clone(), vec![given("suites", "c")]);
        assert_eq!(names(&both), ["rate", "duration", "suites"]);
        assert_eq!(both[2].texts.len(), 1);
        let closed = merged(file.clone(), vec![given("connections", "4")]);
        assert_eq!(names(&closed), ["duration", "suites", "connections"]);
        let ramp = merged(file, vec![given("ramp", "1:2:3s")]);
        assert_eq!(names(&ramp), ["suites", "ramp"]);
    }

    #[test]
    fn every_replaced_name_is_a_setting() {
        for (name, others) in REPLACED {
            assert!(table::find(name).is_some(), "{name}");
            assert!(others.iter().all(|other| table::find(other).is_some()));
        }
    }
}
