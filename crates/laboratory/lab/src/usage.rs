//! What is said about arguments that mean nothing.

use std::fmt;

/// Why arguments say nothing, and what would.
#[derive(Debug)]
pub(crate) struct UsageError {
    message: String,
    hint: String,
}

impl UsageError {
    /// One sentence without a full stop, and the remedy.
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: {}", self.message, self.hint)
    }
}

impl From<lexopt::Error> for UsageError {
    fn from(error: lexopt::Error) -> Self {
        Self::new(error.to_string(), "`lariat-lab help` explains the commands")
    }
}

/// Names that flags and keys of scenarios and targets had, and those that they have now.
const RENAMED: [(&str, &str); 4] = [
    ("peers", "targets"),
    ("peer-folder", "target-folder"),
    ("cannot", "unsupported"),
    ("given-too", "any-build"),
];

/// What a name of former times is called now.
pub(crate) fn renamed(old: &str) -> Option<&'static str> {
    let found = RENAMED.iter().find(|(former, _)| *former == old);
    found.map(|(_, new)| *new)
}

/// The name nearest to what was typed, if any is near.
pub(crate) fn nearest<'n>(
    typed: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Option<&'n str> {
    let typed = typed.to_ascii_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&typed, &name.to_ascii_lowercase());
    names
        .into_iter()
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names() {
        let names = ["load", "origin", "report"];
        assert_eq!(nearest("laod", names), Some("load"));
        assert_eq!(nearest("REPORT", names), Some("report"));
        assert_eq!(nearest("qqq", names), None);
    }

    #[test]
    fn an_error_has_its_remedy() {
        let error = UsageError::new("no", "yes");
        assert_eq!(error.to_string(), "no\nhint: yes");
    }
}
