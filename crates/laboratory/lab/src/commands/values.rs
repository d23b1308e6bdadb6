//! Readers of what flags are given, and arguments that several commands take.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use load::speed::SpeedRows;
use options::quantity;
use report::ReportDocument;

use crate::console::{Console, WIDTH, print, stdout_colour};
use crate::fault::LabResult;
use crate::pages::write_page;

/// CPUs that a flag lists; none of them for `none`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct CpuList(pub(super) Vec<u16>);

/// A name with what it is given: a target and its program, a factor and its values.
pub(super) type Pair = (String, String);

/// The keys and ciphers that are measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum SpeedChoice {
    None,
    Quick,
    Full,
}

impl SpeedChoice {
    pub(super) fn rows(self) -> Option<SpeedRows> {
        match self {
            Self::None => None,
            Self::Quick => Some(SpeedRows::Quick),
            Self::Full => Some(SpeedRows::Full),
        }
    }
}

/// How an answer is given.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct AnswerOutput {
    /// Print JSON instead of text: one document, of several sites one per line
    #[arg(long)]
    pub(super) json: bool,
    /// Write one page that needs no network, instead of text
    #[arg(short, long, value_name = "PAGE.html", value_hint = ValueHint::AnyPath)]
    pub(super) output: Option<PathBuf>,
}

/// The places where programs under test are looked for.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct BuildArguments {
    /// Another build of a target than the packaged one; may be given again
    #[arg(long, value_name = "TARGET=PATH", value_parser = pair("haproxy-tcp=/opt/haproxy/sbin/haproxy"))]
    pub(super) program: Vec<Pair>,
    /// Targets of your own beside ours, a folder for each with a target.toml as in
    /// targets/README.md
    #[arg(long, alias = "peer-folder", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) target_folder: Option<PathBuf>,
    /// Take packaged programs from the root of that Debian suite, and run them there (by chroot)
    #[arg(long, value_name = "NAME")]
    pub(super) suite: Option<String>,
    /// Take them from a root of your own: a folder with a Debian system
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "suite")]
    pub(super) root: Option<PathBuf>,
    /// Folder of the roots of suites [default: $XDG_CACHE_HOME/lariat-lab/roots]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) root_folder: Option<PathBuf>,
}

/// Writes the page if one is named, and prints JSON if that was asked for; else text without one.
pub(super) fn give(
    output: &AnswerOutput,
    document: &ReportDocument,
    json: impl FnOnce() -> String,
    console: Console,
) -> LabResult<()> {
    if let Some(page) = &output.output {
        write_page(page, &document.html(), console)?;
    }
    if output.json {
        print(json())?;
    } else if output.output.is_none() {
        print(document.text(WIDTH, stdout_colour()))?;
    }
    Ok(())
}

/// A parser of values: what a text says; or that it is not `wanted`, and an example of one that is.
pub(super) fn value<T>(
    read: impl Fn(&str) -> Option<T> + Clone,
    wanted: &'static str,
    example: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| read(text).ok_or_else(|| format!("not {wanted}\nhint: for example: {example}"))
}

/// One of the names, as what it stands for.
pub(super) fn choice<T: Copy + Send + Sync + 'static>(
    known: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(known.iter().map(|(name, _)| *name)).map(|typed| {
        let mut all = known.iter();
        all.find(|(name, _)| *name == typed).expect("the parser knows no other names").1
    })
}

/// A time with its unit, within these bounds.
pub(super) fn time(
    (min, max): (Duration, Duration),
    wanted: &'static str,
    example: &'static str,
) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    let read = move |text: &str| quantity::duration(text).filter(|time| (min..=max).contains(time));
    value(read, wanted, example)
}

pub(super) const SOME_TIME: Duration = Duration::from_nanos(1);

pub(super) fn cpu_list(text: &str) -> Result<CpuList, String> {
    let read = |text: &str| quantity::cpu_list(text).map(CpuList);
    value(read, "a list of CPUs", "0,2-3")(text)
}

pub(super) fn pair(example: &'static str) -> impl Fn(&str) -> Result<Pair, String> + Clone {
    let read = |text: &str| {
        let (name, value) = text.split_once('=')?;
        let is_whole = !name.is_empty() && !value.is_empty();
        is_whole.then(|| (name.to_owned(), value.to_owned()))
    };
    value(read, "NAME=VALUE", example)
}

/// The arguments of a command, without its name.
#[cfg(test)]
pub(super) fn read<A: Args>(line: &str) -> Result<A, String> {
    let command = A::augment_args(clap::Command::new("command").no_binary_name(true));
    let matches = command.try_get_matches_from(line.split_whitespace());
    let read = matches.and_then(|matches| A::from_arg_matches(&matches));
    read.map_err(|error| error.to_string())
}

/// The same of a line without slips.
#[cfg(test)]
pub(super) fn parsed<A: Args>(line: &str) -> A {
    read(line).expect("a line without slips")
}
