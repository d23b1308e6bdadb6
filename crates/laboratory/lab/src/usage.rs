//! Errors of usage, with their remedies.

use std::fmt;

use options::{Problem, nearest};

#[derive(Debug)]
pub(crate) struct UsageError {
    message: String,
    hint: String,
}

impl UsageError {
    /// One sentence without a full stop, and the remedy.
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: {}", self.message, self.hint)
    }
}

impl From<Problem> for UsageError {
    fn from(problem: Problem) -> Self {
        Self::new(problem.message, problem.hint.unwrap_or_default())
    }
}

/// Names that flags and keys of scenarios and targets had, and those that they have now.
const RENAMED: [(&str, &str); 9] = [
    ("peers", "targets"),
    ("peer-folder", "target-folder"),
    ("cannot", "unsupported"),
    ("given-too", "any-build"),
    ("figures", "metrics"),
    ("left-out", "omitted"),
    ("level", "value"),
    ("loss", "error-rate"),
    ("value", "number"),
];

/// The new name of one that was renamed, or the nearest of the known ones, as a remedy.
pub(crate) fn did_you_mean<'n>(
    typed: &str,
    known: impl IntoIterator<Item = &'n str> + Clone,
    prefix: &str,
) -> Option<String> {
    let renamed = RENAMED.iter().find(|(old, _)| *old == typed);
    let renamed = renamed.filter(|(_, new)| known.clone().into_iter().any(|name| name == *new));
    match (renamed, nearest(typed, known)) {
        (Some((_, new)), _) => Some(format!("it is `{prefix}{new}` now")),
        (None, near) => near.map(|near| format!("did you mean `{prefix}{near}`?")),
    }
}

/// There is nothing of that name among those that are known.
pub(crate) fn unknown<'n>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'n str> + Clone,
) -> UsageError {
    let all = || known.clone().into_iter().collect::<Vec<_>>().join(", ");
    UsageError::new(
        format!("there is no {what} `{}`", name.escape_debug()),
        did_you_mean(name, known.clone(), "").unwrap_or_else(|| format!("there are {}", all())),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_remedy() {
        let error = UsageError::new("no", "yes");
        assert_eq!(error.to_string(), "no\nhint: yes");
    }
}
