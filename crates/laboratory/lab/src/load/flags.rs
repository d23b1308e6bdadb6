//! Flags of `lariat-lab load`, by the table of settings.

use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};
use load::options::table::{self, SETTINGS, Setting, Shape};

use super::given::{Given, Spot, Text, split};
use crate::usage::UsageError;
use options::diagnostic::nearest;

/// A command line that was understood.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    /// Whether an explanation was asked for instead.
    pub(crate) help: bool,
    /// The plan file, if there is one.
    pub(crate) plan: Option<PathBuf>,
    /// All other flags, and the URL.
    pub(crate) given: Vec<Given>,
}

/// Reads the rest of the command line.
pub(crate) fn read(parser: &mut Parser) -> Result<Flags, UsageError> {
    let mut flags = Flags::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => flags.help = true,
            Arg::Short('q') => flags.add(named("quiet")?, "true".to_owned())?,
            Arg::Long("plan") => flags.set_plan(parser.value()?.into())?,
            Arg::Long(name) => {
                let setting = named(name)?;
                let text = value(parser, setting)?;
                flags.add(setting, text)?;
            }
            Arg::Value(url) => flags.add(named("url")?, url.string()?)?,
            Arg::Short(letter) => {
                let message = format!("there is no flag -{}", letter.escape_debug());
                return Err(UsageError::new(message, LISTED));
            }
        }
    }
    Ok(flags)
}

const LISTED: &str = "`lariat-lab load --help` lists the flags";

fn named(name: &str) -> Result<&'static Setting, UsageError> {
    table::find(name).ok_or_else(|| {
        let message = format!("there is no flag --{}", name.escape_debug());
        let names = SETTINGS.iter().map(|setting| setting.name);
        match (
            table::renamed(name),
            nearest(name, names.chain(["plan", "help"])),
        ) {
            (Some(now), _) => UsageError::new(message, format!("it is now --{now}")),
            (None, Some(near)) => UsageError::new(message, format!("did you mean --{near}?")),
            (None, None) => UsageError::new(message, LISTED),
        }
    })
}

/// A switch has its value only after `=`.
fn value(parser: &mut Parser, setting: &Setting) -> Result<String, UsageError> {
    if setting.shape == Shape::Switch {
        let value = parser.optional_value();
        return Ok(value.map_or_else(|| Ok("true".to_owned()), ValueExt::string)?);
    }
    let missing = |_| {
        let message = format!("--{} has no value", setting.name);
        let hint = format!("for example: --{} {}", setting.name, setting.example);
        UsageError::new(message, hint)
    };
    Ok(parser.value().map_err(missing)?.string()?)
}

impl Flags {
    fn set_plan(&mut self, path: PathBuf) -> Result<(), UsageError> {
        match self.plan.replace(path) {
            None => Ok(()),
            Some(first) => Err(UsageError::new(
                format!("there is a second plan after {}", first.display()),
                "one plan file, and flags for the rest",
            )),
        }
    }

    fn add(&mut self, setting: &'static Setting, text: String) -> Result<(), UsageError> {
        let spot = Spot::Flag;
        let texts = match setting.shape {
            Shape::Commas(_) => split(&text, &spot),
            _ => vec![Text {
                text,
                spot: spot.clone(),
            }],
        };
        let before = self
            .given
            .iter_mut()
            .find(|given| given.setting.name == setting.name);
        match before {
            None => self.given.push(Given {
                setting,
                spot,
                texts,
            }),
            Some(before) if setting.is_list() => before.texts.extend(texts),
            Some(before) => return Err(twice(setting, &before.texts, &texts)),
        }
        Ok(())
    }
}

fn twice(setting: &Setting, first: &[Text], second: &[Text]) -> UsageError {
    let words = |texts: &[Text]| {
        texts
            .first()
            .map(|text| text.text.escape_debug().to_string())
    };
    let (first, second) = (
        words(first).unwrap_or_default(),
        words(second).unwrap_or_default(),
    );
    match setting.name {
        "url" => UsageError::new(
            format!("there is `{second}` after the URL `{first}`"),
            "one URL; flags begin with --",
        ),
        name => UsageError::new(
            format!("--{name} stands twice: {first} and {second}"),
            "leave out one of the two",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn parsed(line: &str) -> Result<Flags, String> {
        let words = line.split_whitespace().map(OsString::from);
        read(&mut Parser::from_args(words)).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_and_the_url_are_settings() {
        let flags = parsed(
            "https://h/ --rate=5 --source 127.0.0.2,127.0.0.3 --source 127.0.0.4 --header a:b \
             --header c:d --early-data --no-request=false --plan p.toml -q",
        )
        .unwrap();
        let told: Vec<_> = flags
            .given
            .iter()
            .map(|given| {
                let texts: Vec<_> = given.texts.iter().map(|text| text.text.as_str()).collect();
                format!("{} {}", given.setting.name, texts.join("|"))
            })
            .collect();
        let expected = [
            "url https://h/",
            "rate 5",
            "source 127.0.0.2|127.0.0.3|127.0.0.4",
            "header a:b|c:d",
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
        let error = |line: &str| parsed(line).unwrap_err();
        assert!(error("--handshaek full").contains("did you mean --handshake?"));
        assert!(error("--turns all").contains("it is now --client-selection"));
        assert!(error("--zzz").contains("--help` lists the flags"));
        assert!(error("--rate").contains("for example: --rate 500"));
        assert!(error("--rate 1 --rate 2").contains("stands twice: 1 and 2"));
        assert!(error("https://a/ https://b/").contains("after the URL"));
        assert!(error("--plan a --plan b").contains("second plan"));
        assert!(error("-x").contains("no flag -x"));
    }
}
