//! How grave something is that is said.

/// How grave something is, by the names and numbers of syslog (RFC 5424, 6.2.1).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Level {
    /// Something is broken, and clients notice.
    Error = 3,
    Warning = 4,
    /// A deed of an operator, or a change for the better.
    Notice = 5,
    Info = 6,
}

impl Level {
    const ALL: [Self; 4] = [Self::Error, Self::Warning, Self::Notice, Self::Info];

    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
            Self::Info => "info",
        }
    }

    pub fn severity(self) -> u8 {
        self as u8
    }

    /// The level of this number; of an unknown one, a warning.
    pub fn of_severity(severity: u8) -> Self {
        let found = Self::ALL.into_iter().find(|one| one.severity() == severity);
        found.unwrap_or(Self::Warning)
    }

    /// The level that a text names in its first words, `error: ` or `warning: `, and the rest.
    pub fn split(text: &str) -> Option<(Self, &str)> {
        [Self::Error, Self::Warning].into_iter().find_map(|level| {
            let rest = text.strip_prefix(level.name())?.strip_prefix(": ")?;
            Some((level, rest))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_syslogs() {
        for (level, severity, name) in [
            (Level::Error, 3, "error"),
            (Level::Warning, 4, "warning"),
            (Level::Notice, 5, "notice"),
            (Level::Info, 6, "info"),
        ] {
            assert_eq!((level.severity(), level.name()), (severity, name));
            assert_eq!(Level::of_severity(severity), level);
        }
        assert_eq!(Level::of_severity(0), Level::Warning);
        assert_eq!(Level::split("error: a: b"), Some((Level::Error, "a: b")));
        assert_eq!(Level::split("notice: a"), None);
    }
}
