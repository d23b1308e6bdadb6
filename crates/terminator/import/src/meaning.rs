//! The form of the table of meanings: what an option of another program is in Lariat.
//!
//! The table serves the importers, the pages about each program, and hints for misplaced options.
//! A key is written as its path: `service.front.tls.versions`.

use toml::{Table, Value};

/// One option of a program.
#[derive(Clone, Debug)]
pub struct Meaning {
    /// The option's name in the program's file; its long flag with dashes if no file has it.
    pub option: &'static str,
    /// All names, the option's own first; flags with their dashes.
    pub names: Vec<&'static str>,
    /// Beginnings of more names.
    pub begins: Vec<&'static str>,
    /// Values by which nothing is lost, and for which no key is written.
    pub harmless: Vec<&'static str>,
    /// The key that begins to do the same, where no key does; or empty.
    pub near: &'static str,
    /// Whether stud has it too, where hitch does.
    pub is_of_stud: bool,
    pub sense: Sense,
}

/// The way in which Lariat covers an option.
#[derive(Clone, Debug)]
pub enum Sense {
    /// A key has the option's value, converted.
    Key { key: &'static str, conversion: Conversion, note: &'static str },
    /// Keys have it together with other options: the importer's own code writes them.
    Joined { keys: &'static str, note: &'static str },
    /// Lariat does so in any case, or what it was for does not exist here: no key is written.
    Always(&'static str),
    /// Lariat does not do it.
    Lacks {
        why: &'static str,
        remedy: &'static str,
        /// Without it a service would serve whom the program refuses, where one of these words
        /// stands in its value; the empty word stands in all.
        guards: Vec<&'static str>,
    },
}

/// How the words of an option become the value of a key.
#[derive(Clone, Copy, Debug)]
pub enum Conversion {
    /// As it is.
    Text,
    /// A word, in small letters.
    Word,
    /// A path, one value.
    Path,
    /// A path, added to a list.
    Paths,
    /// A number within the key's range.
    Number,
    /// `on`, `yes`, `true` and `1`, and their contraries.
    Switch,
    /// A time; a bare number counts seconds.
    Seconds,
    /// A time; a bare number counts milliseconds.
    Milliseconds,
    /// A number of bytes, with or without `k`, `m` and `g`.
    Size,
    /// Words with commas or blanks between them, as a list.
    Words,
    /// Curves by the names that OpenSSL has, with colons between them.
    Groups,
    /// Versions of TLS by the names that OpenSSL and others have.
    Versions,
    /// One word for another.
    Choice(&'static Table),
}

/// The value that a program uses for what nobody wrote, where Lariat's own differs.
#[derive(Clone, Debug)]
pub struct OldDefault {
    /// The kind of service that has it alone; empty = all.
    pub of: &'static str,
    pub option: &'static str,
    pub key: &'static str,
    /// The value of the key.
    pub value: Value,
    pub note: &'static str,
}

impl Meaning {
    /// Whether a service must be left out because of this value: it would serve more clients, or
    /// trust more servers, than before.
    pub(crate) fn guards(&self, value: &str) -> bool {
        let Sense::Lacks { guards, .. } = &self.sense else {
            return false;
        };
        let value = value.to_ascii_lowercase();
        let is_in = |word: &&str| value.contains(&word.to_ascii_lowercase());
        !self.is_harmless(&value) && guards.iter().any(is_in)
    }

    /// Whether nothing is lost without that value.
    pub(crate) fn is_harmless(&self, value: &str) -> bool {
        self.harmless.iter().any(|one| one.eq_ignore_ascii_case(value))
    }

    /// Whether keys are written for it.
    pub(crate) fn is_written(&self) -> bool {
        matches!(self.sense, Sense::Key { .. } | Sense::Joined { .. })
    }

    /// The first key that it names, or one that is near.
    pub fn key(&self) -> Option<&'static str> {
        match self.sense {
            Sense::Key { key, .. } => Some(key),
            Sense::Joined { keys, .. } => {
                keys.split([' ', ',']).find(|word| word.contains('.') || *word == "service")
            }
            _ => Some(self.near).filter(|near| !near.is_empty()),
        }
    }
}
