//! The command line of `lariat-lab load`, by its table of options.

use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};
use load::options::TABLE;
use options::Kind;

use crate::usage::UsageError;

/// A command line whose flags are there.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    /// Whether an explanation was asked for instead.
    pub(crate) help: bool,
    /// The plan file, if there is one.
    pub(crate) plan: Option<PathBuf>,
    /// All other flags with their values, and the URL.
    pub(crate) given: Vec<(&'static str, String)>,
}

/// Reads the rest of the command line.
pub(crate) fn read(parser: &mut Parser) -> Result<Flags, UsageError> {
    let mut flags = Flags::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => flags.help = true,
            Arg::Short('q') => flags.given.push(("quiet", "true".to_owned())),
            Arg::Long("plan") => {
                if let Some(first) = flags.plan.replace(parser.value()?.into()) {
                    return Err(UsageError::new(
                        format!("there is a second plan after {}", first.display()),
                        "one plan file, and flags for the rest",
                    ));
                }
            }
            Arg::Long(name) => {
                let name = name.to_owned();
                flags.given.push(flag(parser, &name)?);
            }
            Arg::Value(url) => flags.given.push(("url", url.string()?)),
            Arg::Short(letter) => return Err(TABLE.unknown_flag(&letter.to_string()).into()),
        }
    }
    Ok(flags)
}

/// A flag with its value; that of a switch stands only after `=`.
fn flag(parser: &mut Parser, name: &str) -> Result<(&'static str, String), UsageError> {
    let key = TABLE
        .find_flag(name)
        .ok_or_else(|| TABLE.unknown_flag(name))?;
    if matches!(key.kind, Kind::Switch) {
        let value = parser
            .optional_value()
            .map_or(Ok("true".to_owned()), ValueExt::string);
        return Ok((key.path, value?));
    }
    let missing = |_| {
        let hint = format!("for example: --{name} {}", key.example_value());
        UsageError::new(format!("--{name} has no value"), hint)
    };
    Ok((key.path, parser.value().map_err(missing)?.string()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Flags, String> {
        read(&mut Parser::from_args(line.split_whitespace())).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_and_the_url_are_options() {
        let flags = parsed("https://h/ --rate=5 --early-data --no-request=false --plan p.toml -q");
        let flags = flags.unwrap();
        let told: Vec<_> = flags
            .given
            .iter()
            .map(|(name, text)| format!("{name} {text}"))
            .collect();
        let expected = [
            "url https://h/",
            "rate 5",
            "early-data true",
            "no-request false",
            "quiet true",
        ];
        assert_eq!(told, expected);
        assert_eq!(flags.plan, Some(PathBuf::from("p.toml")));
        assert!(parsed("--help").unwrap().help);
    }

    #[test]
    fn slips_have_remedies() {
        for (line, told) in [
            ("--handshaek full", "did you mean --handshake?"),
            ("--turns all", "it is now --client-selection"),
            ("--zzz", "--help` lists the flags"),
            ("--rate", "for example: --rate 500"),
            ("--plan a --plan b", "second plan"),
            ("-x", "no flag -x"),
            ("-k", "-k of curl is --verify off here"),
            ("--insecure", "--insecure of curl is --verify off here"),
            ("-c 10", "is --connections here"),
            (
                "-d 10s",
                "-d of wrk is --duration here; for example: --duration ",
            ),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(told), "{line}: {error}");
        }
    }
}
