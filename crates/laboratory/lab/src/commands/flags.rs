//! A command's table of flags, from which its parser, its help and its messages come.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use lexopt::{Arg, Parser, ValueExt};
use options::manual;

use crate::console::print;
use crate::exit::Exit;
use crate::usage::{UsageError, did_you_mean};

/// A command. Its help is its table of flags: each stands on a line that begins with two spaces
/// and a dash, with the name of its value if it has one, and with "may be given again" beneath.
pub(super) struct Command {
    pub(super) name: &'static str,
    /// Whether it takes arguments that are no flags.
    pub(super) takes_words: bool,
    pub(super) help: &'static str,
}

/// The command line of a command, by its table.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    flags: Vec<(&'static str, OsString)>,
    pub(super) words: Vec<OsString>,
}

impl Command {
    pub(super) fn purpose(&self) -> &'static str {
        let line = self.help.lines().next().unwrap_or_default();
        line.split_once(": ").map_or("", |(_, purpose)| purpose)
    }

    /// The rest of the command line; or how the program ends, where only help was asked for.
    pub(super) fn parse(&self, parser: &mut Parser) -> Result<Result<Arguments, Exit>, UsageError> {
        let flags = manual::flags(self.help);
        let mut arguments = Arguments::default();
        while let Some(argument) = parser.next()? {
            let (found, text) = match &argument {
                Arg::Short('h') | Arg::Long("help") => return Ok(Err(print(self.help))),
                Arg::Value(word) if self.takes_words => {
                    arguments.words.push(word.clone());
                    continue;
                }
                Arg::Value(word) => {
                    let word = word.to_string_lossy();
                    (None, format!("takes no argument `{}`", word.escape_debug()))
                }
                Arg::Short(letter) => (
                    flags.iter().find(|flag| flag.letter == Some(*letter)),
                    format!("has no flag -{letter}"),
                ),
                Arg::Long(name) => (
                    flags.iter().find(|flag| flag.name == *name),
                    format!("has no flag --{}", name.escape_debug()),
                ),
            };
            let Some(flag) = found else {
                let near = match argument {
                    Arg::Long(name) => did_you_mean(name, flags.iter().map(|flag| flag.name), "--"),
                    _ => None,
                };
                let listed = || format!("`lariat-lab help {}` lists the flags", self.name);
                let message = format!("{} {text}", self.name);
                return Err(UsageError::new(message, near.unwrap_or_else(listed)));
            };
            let repeats = flag.help.contains("may be given again");
            if !repeats && arguments.has(flag.name) {
                return Err(UsageError::new(
                    format!("--{} is given twice", flag.name),
                    "leave out one of the two",
                ));
            }
            let value = if flag.value.is_some() {
                parser.value()?
            } else {
                OsString::new()
            };
            arguments.flags.push((flag.name, value));
        }
        Ok(Ok(arguments))
    }
}

impl Arguments {
    pub(super) fn has(&self, flag: &str) -> bool {
        self.values(flag).next().is_some()
    }

    /// The names of all flags that were given.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.flags.iter().map(|(name, _)| *name)
    }

    pub(super) fn values(&self, flag: &str) -> impl Iterator<Item = &OsStr> {
        let given = self.flags.iter().filter(move |(name, _)| *name == flag);
        given.map(|(_, value)| value.as_os_str())
    }

    pub(super) fn path(&self, flag: &str) -> Option<PathBuf> {
        self.values(flag).next().map(PathBuf::from)
    }

    /// Every value of a flag, read by a function that gets the text.
    pub(super) fn all<T>(
        &self,
        flag: &str,
        read: impl Fn(&str) -> Result<T, UsageError>,
    ) -> Result<Vec<T>, UsageError> {
        let read = |value: &OsStr| read(&value.to_owned().string()?);
        self.values(flag).map(read).collect()
    }

    /// The value of a flag that is given once or not at all.
    pub(super) fn one<T>(
        &self,
        flag: &str,
        read: impl Fn(&str) -> Result<T, UsageError>,
    ) -> Result<Option<T>, UsageError> {
        Ok(self.all(flag, read)?.pop())
    }

    pub(super) fn text(&self, flag: &str) -> Result<Option<String>, UsageError> {
        self.one(flag, |text| Ok(text.to_owned()))
    }

    /// The same as a number from 1 on.
    pub(super) fn number<T: FromStr + PartialOrd + Display + From<u8>>(
        &self,
        flag: &str,
        max: T,
        example: &str,
    ) -> Result<Option<T>, UsageError> {
        let range = T::from(1)..=max;
        self.one(flag, |text| {
            let read = text.parse().ok().filter(|number| range.contains(number));
            let what = format!("is no number from 1 to {}", range.end());
            read.ok_or_else(|| wrong(flag, text, &what, example))
        })
    }

    /// The same as what is known by a name.
    pub(super) fn choice<T: Copy>(
        &self,
        flag: &str,
        known: &[(&str, T)],
    ) -> Result<Option<T>, UsageError> {
        self.one(flag, |text| {
            let found = known.iter().find(|(name, _)| *name == text);
            found.map(|(_, value)| *value).ok_or_else(|| {
                let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
                let what = format!("is not one of: {}", names.join(", "));
                wrong(flag, text, &what, names[0])
            })
        })
    }

    pub(super) fn texts(&self) -> Result<Vec<String>, UsageError> {
        let texts = self.words.iter().map(|word| word.clone().string());
        Ok(texts.collect::<Result<_, _>>()?)
    }
}

/// A value of a flag that is wrong, with an example of one that is not.
pub(super) fn wrong(flag: &str, text: &str, what: &str, example: &str) -> UsageError {
    let typed = text.escape_debug();
    UsageError::new(
        format!("--{flag}: `{typed}` {what}"),
        format!("for example: --{flag} {example}"),
    )
}

pub(super) fn pair<'t>(
    flag: &str,
    text: &'t str,
    example: &str,
) -> Result<(&'t str, &'t str), UsageError> {
    let halves = text.split_once('=');
    let halves = halves.filter(|(name, value)| !name.is_empty() && !value.is_empty());
    halves.ok_or_else(|| wrong(flag, text, "is not NAME=VALUE", example))
}

#[cfg(test)]
impl Command {
    /// A command line without slips.
    pub(super) fn parsed(&self, line: &str) -> Arguments {
        let mut parser = Parser::from_args(line.split_whitespace());
        let parsed = self.parse(&mut parser).expect("a line without slips");
        parsed.expect("a line that asks for no help")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: Command = Command {
        name: "draw",
        takes_words: true,
        help: "\
lariat-lab draw: a page

  lariat-lab draw WORD… [-o PAGE]

  -o, --output PAGE
      Write there
  --targets NAME
      Take part; may be given again
  --quiet
      Print nothing
",
    };

    fn fault(command: &Command, line: &str) -> String {
        let parsed = command.parse(&mut Parser::from_args(line.split_whitespace()));
        parsed.unwrap_err().to_string()
    }

    #[test]
    fn flags_and_words_come_in_any_order() {
        let arguments = COMMAND.parsed("a -o p.html --targets x b --targets=y");
        assert_eq!(arguments.texts().unwrap(), ["a", "b"]);
        assert_eq!(arguments.path("output"), Some("p.html".into()));
        let targets = arguments.all("targets", |text| Ok(text.to_owned()));
        assert_eq!(targets.unwrap(), ["x", "y"]);
        assert!(!arguments.has("quiet"));
    }

    #[test]
    fn slips_have_remedies() {
        assert!(fault(&COMMAND, "--outptu x").contains("did you mean `--output`?"));
        assert!(fault(&COMMAND, "--peers x").contains("it is `--targets` now"));
        assert!(fault(&COMMAND, "--zzz").contains("`lariat-lab help draw` lists the flags"));
        assert!(fault(&COMMAND, "-x").contains("draw has no flag -x"));
        assert!(fault(&COMMAND, "-o x --output y").contains("--output is given twice"));
        let wordless = Command {
            takes_words: false,
            ..COMMAND
        };
        assert!(fault(&wordless, "eth0").contains("draw takes no argument `eth0`"));
    }

    #[test]
    fn every_help_is_a_table() {
        assert_eq!(COMMAND.purpose(), "a page");
        for command in crate::commands::help::TABLES {
            assert!(command.help.lines().all(|line| line.chars().count() <= 105));
            let flags = manual::flags(command.help);
            let lines = command.help.lines().filter(|line| line.starts_with("  -"));
            assert_eq!(flags.len(), lines.count(), "{}", command.help);
            assert!(flags.iter().all(|flag| !flag.name.is_empty()));
        }
    }
}
