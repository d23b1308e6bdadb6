//! The form of the table of meanings: what an option of another program is in Lariat.
//!
//! It is data, for the importers and for the pages of the guide. A key is written as its path:
//! `service.front.tls.versions`.

/// One option of a program.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    /// The option's name in the program's file; its long flag with dashes if no file has it.
    pub option: &'static str,
    /// Other names of it, such as short flags: `-c`.
    pub also: &'static [&'static str],
    /// Last words, with blanks between them, of names that begin as `option` does.
    pub like: &'static str,
    pub sense: Sense,
}

/// The way in which Lariat covers an option.
#[derive(Clone, Copy, Debug)]
pub enum Sense {
    /// A key has the option's value, converted.
    Key { key: &'static str, conversion: Conversion, note: &'static str },
    /// Keys have it together with other options: the importer's own code writes them.
    Joined { keys: &'static str, note: &'static str },
    /// Lariat does so in any case, or what it was for does not exist here: no key is written.
    Always(&'static str),
    /// Lariat does not do it; with the values by which nothing is lost.
    Lacks { harmless: &'static [&'static str], why: &'static str, remedy: &'static str },
}

/// How the words of an option become the value of a key.
#[derive(Clone, Copy, Debug)]
pub enum Conversion {
    /// As it is.
    Text,
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
    Choice(&'static [(&'static str, &'static str)]),
}

/// The value that a program uses for what nobody wrote, where Lariat's own differs.
#[derive(Clone, Copy, Debug)]
pub struct OldDefault {
    pub option: &'static str,
    pub key: &'static str,
    /// The value of the key, in TOML.
    pub value: &'static str,
    pub note: &'static str,
}

impl Meaning {
    const fn new(option: &'static str, sense: Sense) -> Self {
        Self { option, also: &[], like: "", sense }
    }

    /// With other names.
    pub(crate) const fn or(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }

    /// With names that differ in their last word.
    pub(crate) const fn like(self, like: &'static str) -> Self {
        Self { like, ..self }
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let scope = self.option.rsplit_once(' ').map(|(scope, _)| scope);
        let like = self.like.split_whitespace();
        let like = like.map(move |last| match scope {
            Some(scope) => format!("{scope} {last}"),
            None => last.to_owned(),
        });
        let whole = std::iter::once(&self.option).chain(self.also);
        whole.map(|name| (*name).to_owned()).chain(like)
    }

    /// Whether the option has that name, which may be its long flag.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.option == name
            || self.also.contains(&name)
            || (!self.like.is_empty() && self.names().any(|one| one == name))
            || name.strip_prefix("--").is_some_and(|name| self.option == name)
    }
}

/// The key says the same.
pub(crate) const fn same(
    option: &'static str,
    key: &'static str,
    conversion: Conversion,
) -> Meaning {
    differs(option, key, conversion, "")
}

/// The key says nearly the same: the note tells what differs.
pub(crate) const fn differs(
    option: &'static str,
    key: &'static str,
    conversion: Conversion,
    note: &'static str,
) -> Meaning {
    Meaning::new(option, Sense::Key { key, conversion, note })
}

/// The importer's own code writes these keys; the note tells what differs, if anything does.
pub(crate) const fn joined(
    option: &'static str,
    keys: &'static str,
    note: &'static str,
) -> Meaning {
    Meaning::new(option, Sense::Joined { keys, note })
}

/// Lariat does so in any case: the words say how, and no key is written.
pub(crate) const fn always(option: &'static str, words: &'static str) -> Meaning {
    Meaning::new(option, Sense::Always(words))
}

/// Lariat does not do it: the reason, and what to do instead.
pub(crate) const fn lacks(
    option: &'static str,
    why: &'static str,
    remedy: &'static str,
) -> Meaning {
    Meaning::new(option, Sense::Lacks { harmless: &[], why, remedy })
}

/// The same, but for values by which nothing is lost.
pub(crate) const fn lacks_unless(
    option: &'static str,
    harmless: &'static [&'static str],
    why: &'static str,
    remedy: &'static str,
) -> Meaning {
    Meaning::new(option, Sense::Lacks { harmless, why, remedy })
}
