//! The programs whose configurations can be imported.

use std::fmt;

/// A program that may have stood in Lariat's place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Predecessor {
    Hitch,
    Stud,
    Stunnel,
    Haproxy,
    Nginx,
}

impl Predecessor {
    pub const ALL: [Self; 5] = [Self::Hitch, Self::Stud, Self::Stunnel, Self::Haproxy, Self::Nginx];

    /// The word for it on a command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hitch => "hitch",
            Self::Stud => "stud",
            Self::Stunnel => "stunnel",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
        }
    }

    /// The name of the program.
    pub fn title(self) -> &'static str {
        match self {
            Self::Haproxy => "HAProxy",
            other => other.word(),
        }
    }

    /// The program of that word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }
}

impl fmt::Display for Predecessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}
