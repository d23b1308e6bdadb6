//! What the file of a scenario says.
//!
//! Owns its form, and what is told of a file that has another. What it comes to with its targets,
//! `cells` finds.

use std::time::Duration;

use load::options::value::some_time;
use measure::experiment::{Omission, Published, Source};
use measure::metric::Metric;
use serde::{Deserialize, Deserializer};
use toml::de::{DeTable, DeValue};

use super::expect::Expect;
use super::settings::{Offered, RESERVED, Settings};
use crate::load::complaint::Complaint;
use crate::load::given::Spot;
use crate::load::plan_file;
use crate::target::server_spec::ServerSpec;
use crate::usage::did_you_mean;

/// What is wrong with the form is told with this.
const WHAT_IT_HOLDS: &str = "docs/guide/lab.md tells what the file of a scenario holds";

/// A file. `S` is what its tables `server` are read as: [`ServerSpec`] to see whether they are one,
/// tables to lay them over one another.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "kebab-case",
    bound = "S: Default + Deserialize<'de>"
)]
pub(crate) struct File<S> {
    /// What it asks, as a sentence.
    pub(crate) question: String,
    /// What a cell does, in a few sentences.
    pub(crate) method: String,
    /// What the server's CPU time is divided by, in plural.
    pub(crate) operation: String,
    /// What is told, the main one first.
    pub(crate) figures: Vec<Metric>,
    /// Who takes part, the one that others are compared with first.
    pub(crate) targets: Vec<String>,
    /// Whose tables it repeats.
    #[serde(default)]
    pub(crate) source: Vec<Source>,
    /// What of them is left out.
    #[serde(default)]
    pub(crate) left_out: Vec<Omission>,
    /// Their figures.
    #[serde(default)]
    pub(crate) published: Vec<Published>,
    /// How often and how long, where there is little time.
    pub(crate) quick: Pace,
    /// The same where there is enough.
    pub(crate) full: Pace,
    /// What the server is asked to be.
    #[serde(default)]
    pub(crate) server: S,
    /// The settings of our own load; read by [`Loads`].
    #[serde(default, rename = "load")]
    _load: Table,
    /// The target that makes the load in place of ours.
    pub(crate) client: Option<String>,
    /// The server that targets load which are clients.
    pub(crate) against: Option<String>,
    /// How it is found out what a target is capable of.
    pub(crate) capacity: Option<Capacity>,
    /// What is offered, in multiples of that.
    pub(crate) of_capacity: Option<Offered>,
    /// Void unless.
    #[serde(default)]
    pub(crate) expect: Expect,
    /// What is varied.
    #[serde(default = "Vec::new")]
    pub(crate) factor: Vec<Factor<S>>,
}

/// Any table, for a look of its own.
type Table = toml::Table;

/// How it is found out what a target is capable of.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Capacity {
    /// How long that load lasts.
    #[serde(deserialize_with = "time")]
    pub(crate) duration: Duration,
    #[serde(default, rename = "load")]
    _load: Table,
}

/// How often and how long.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Pace {
    /// How often each cell is read.
    pub(crate) repeats: u32,
    /// Load before the figures begin.
    #[serde(deserialize_with = "any_time")]
    pub(crate) warm_up: Duration,
    /// Load for the figures.
    #[serde(deserialize_with = "time")]
    pub(crate) duration: Duration,
    /// Who takes part, where that is fewer.
    pub(crate) targets: Option<Vec<String>>,
}

/// What is varied.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, bound = "S: Default + Deserialize<'de>")]
pub(crate) struct Factor<S> {
    /// In flags and keys of cells.
    pub(crate) name: String,
    /// At the head of tables.
    pub(crate) title: String,
    /// Its values.
    pub(crate) level: Vec<Level<S>>,
}

/// A value of a factor. Its tables lie over those of the file, key by key.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "kebab-case",
    bound = "S: Default + Deserialize<'de>"
)]
pub(crate) struct Level<S> {
    /// In flags and keys of cells.
    pub(crate) name: String,
    /// In tables.
    pub(crate) title: String,
    /// Where it lies on an axis.
    pub(crate) value: Option<f64>,
    /// What the server is asked to be here.
    #[serde(default)]
    pub(crate) server: S,
    #[serde(default, rename = "load")]
    _load: Table,
    /// The server that clients load here.
    pub(crate) against: Option<String>,
    /// Load for the figures here, in place of the run's.
    #[serde(default, deserialize_with = "optional_time")]
    pub(crate) duration: Option<Duration>,
    /// Full handshakes before, which fill the server's session cache.
    #[serde(default)]
    pub(crate) fill: u64,
    /// What is offered here.
    pub(crate) of_capacity: Option<Offered>,
    /// Void unless, here.
    #[serde(default)]
    pub(crate) expect: Expect,
    /// What the kernel must be able to do, by its name in `lariat-lab host`.
    pub(crate) needs: Option<String>,
    /// Whether quick runs have it too.
    #[serde(default = "yes")]
    pub(crate) in_quick: bool,
    /// Who takes part here; else all of the file.
    pub(crate) targets: Option<Vec<String>>,
}

fn yes() -> bool {
    true
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    of_text(&String::deserialize(deserializer)?)
}

fn optional_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    time(deserializer).map(Some)
}

fn of_text<E: serde::de::Error>(text: &str) -> Result<Duration, E> {
    some_time(text).map_err(|_| {
        let typed = text.escape_debug();
        E::custom(format!("`{typed}` is not a time, as in 500ms or 2s"))
    })
}

fn any_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.as_str() {
        "0s" => Ok(Duration::ZERO),
        _ => of_text(&text),
    }
}

/// A file that was read.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    /// What it says.
    pub(crate) file: File<Table>,
    /// The settings of its loads.
    pub(crate) loads: Loads,
}

/// The settings of a file's loads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    /// Of all cells.
    pub(crate) base: Settings,
    /// Over them, where a capacity is found out.
    pub(crate) capacity: Settings,
    /// Over them, by factor and level, in the order of the file.
    pub(crate) levels: Vec<Vec<Settings>>,
}

/// Reads a file.
///
/// # Errors
/// What is wrong with its form; of contradicting settings `cells` tells.
pub(crate) fn parse(text: &str) -> Result<Form, Vec<Complaint>> {
    let one = |error: toml::de::Error| vec![of_toml(&error)];
    toml::from_str::<File<ServerSpec>>(text).map_err(one)?;
    let file: File<Table> = toml::from_str(text).map_err(one)?;
    let table = DeTable::parse(text).map_err(one)?;
    let loads = loads(table.get_ref())?;
    check(&file)?;
    Ok(Form { file, loads })
}

/// All tables `load`, whose form the file's own has shown to be right.
fn loads(root: &DeTable<'_>) -> Result<Loads, Vec<Complaint>> {
    let mut complaints = Vec::new();
    let mut read = |table: Option<&DeTable<'_>>| {
        let (given, wrong) = table.map(plan_file::entries).unwrap_or_default();
        complaints.extend(wrong);
        complaints.extend(given.iter().filter(|one| is_reserved(one)).map(reserved));
        Settings::new(given)
    };
    let base = read(inner(root, "load"));
    let capacity = read(inner(root, "capacity").and_then(|table| inner(table, "load")));
    let mut levels = Vec::new();
    for factor in list(root, "factor") {
        let of_level = |level| read(inner(level, "load"));
        levels.push(list(factor, "level").map(of_level).collect());
    }
    match complaints.is_empty() {
        true => Ok(Loads {
            base,
            capacity,
            levels,
        }),
        false => Err(complaints),
    }
}

fn inner<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<&'t DeTable<'i>> {
    table.get(key)?.get_ref().as_table()
}

fn list<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> impl Iterator<Item = &'t DeTable<'i>> {
    let array = table.get(key).map(toml::Spanned::get_ref);
    let array = array.and_then(DeValue::as_array).into_iter().flatten();
    array.filter_map(|one| one.get_ref().as_table())
}

fn is_reserved(given: &crate::load::given::Given) -> bool {
    RESERVED.contains(&given.setting.name)
}

fn reserved(given: &crate::load::given::Given) -> Complaint {
    Complaint {
        subject: Some(given.setting.name.to_owned()),
        message: "is not a scenario's to set".to_owned(),
        spot: Some(given.spot.clone()),
        hint: "[quick] and [full] give times; whom to load, and from which CPUs, follows from the \
               run"
        .to_owned(),
    }
}

/// What a table cannot say of itself.
fn check(file: &File<Table>) -> Result<(), Vec<Complaint>> {
    let mut wrong = Vec::new();
    let mut note = |is_so: bool, message: String| {
        if is_so {
            wrong.push(Complaint {
                subject: None,
                message,
                spot: None,
                hint: WHAT_IT_HOLDS.to_owned(),
            });
        }
    };
    note(file.figures.is_empty(), "`figures` is empty".to_owned());
    note(file.targets.is_empty(), "`targets` is empty".to_owned());
    for (mode, pace) in [("quick", &file.quick), ("full", &file.full)] {
        note(pace.repeats == 0, format!("[{mode}] repeats nothing"));
    }
    let of_levels = file.factor.iter().flat_map(|factor| &factor.level);
    let mut of_capacity = of_levels.map(|level| level.of_capacity);
    note(
        file.capacity.is_none()
            && (file.of_capacity.is_some() || of_capacity.any(|offered| offered.is_some())),
        "`of-capacity` needs [capacity], which tells how that is found out".to_owned(),
    );
    note(
        twice(file.factor.iter().map(|factor| factor.name.as_str())),
        "two factors have the same name".to_owned(),
    );
    for factor in &file.factor {
        let levels = || factor.level.iter().map(|level| level.name.as_str());
        let name = &factor.name;
        let is_plain = |name: &str| {
            let fits = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
            !name.is_empty() && name.chars().all(fits)
        };
        note(
            factor.level.is_empty(),
            format!("factor `{name}` has no level"),
        );
        note(
            twice(levels()),
            format!("two levels of `{name}` have the same name"),
        );
        note(
            name == "target" || !is_plain(name) || !levels().all(is_plain),
            format!("factor `{name}` or a level of it has a name that is no plain word"),
        );
    }
    for published in &file.published {
        let columns = published.columns.len();
        note(
            published.rows.iter().any(|row| row.len() != columns),
            format!(
                "a row of `{}` is not as long as its columns",
                published.title
            ),
        );
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong),
    }
}

fn twice<'n>(names: impl Iterator<Item = &'n str>) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    names.into_iter().any(|name| !seen.insert(name))
}

/// In our words, with the nearest of the known names.
fn of_toml(error: &toml::de::Error) -> Complaint {
    let told = error.message().lines().collect::<Vec<_>>().join(", ");
    let quoted: Vec<&str> = told.split('`').skip(1).step_by(2).collect();
    let (message, hint) = match (told.split_once(" `"), quoted.split_first()) {
        (Some(("unknown field", _)), Some((typed, known))) => (
            format!("there is no key `{}`", typed.escape_debug()),
            near(typed, known),
        ),
        (Some(("unknown variant", _)), Some((typed, known))) => {
            (format!("there is no `{}` here", typed.escape_debug()), {
                near(typed, known)
            })
        }
        (Some(("missing field", _)), Some((field, _))) => {
            (format!("`{field}` is missing"), WHAT_IT_HOLDS.to_owned())
        }
        _ => (told.clone(), WHAT_IT_HOLDS.to_owned()),
    };
    Complaint {
        subject: None,
        message,
        spot: error.span().map(Spot::File),
        hint,
    }
}

fn near(typed: &str, known: &[&str]) -> String {
    let otherwise = || match known {
        [] => WHAT_IT_HOLDS.to_owned(),
        known => format!("known are {}", known.join(", ")),
    };
    did_you_mean(typed, known.iter().copied(), "").unwrap_or_else(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "\
question = \"?\"
method = \"!\"
operation = \"requests\"
figures = [\"rate\"]
targets = [\"lariat\"]
[quick]
repeats = 1
warm-up = \"100ms\"
duration = \"300ms\"
[full]
repeats = 2
warm-up = \"100ms\"
duration = \"1s\"
[load]
connections = 2
[[factor]]
name = \"size\"
title = \"size\"
[[factor.level]]
name = \"1k\"
title = \"1 KiB\"
load = { size = \"1k\" }
";

    fn told(text: &str) -> String {
        let wrong = parse(text).expect_err("it is wrong");
        let lines = wrong
            .iter()
            .map(|one| format!("{} ({})", one.message, one.hint));
        lines.collect::<Vec<_>>().join("; ")
    }

    fn spoilt(from: &str, to: &str) -> String {
        assert!(SMALL.contains(from), "{from}");
        told(&SMALL.replacen(from, to, 1))
    }

    #[test]
    fn a_small_one_is_read() {
        let form = parse(SMALL).unwrap();
        assert_eq!(form.file.quick.duration, Duration::from_millis(300));
        assert_eq!(form.loads.base.text("connections").as_deref(), Some("2"));
        assert_eq!(form.loads.levels[0][0].text("size").as_deref(), Some("1k"));
    }

    #[test]
    fn slips_have_remedies() {
        let near = spoilt("question", "questoin");
        assert!(near.contains("no key `questoin` (did you mean `question`?)"));
        let near = spoilt("\"rate\"", "\"raet\"");
        assert!(near.contains("no `raet` here (did you mean `rate`?)"));
        let near = spoilt("connections = 2", "conections = 2");
        assert!(near.contains("no setting `conections` (did you mean `connections`?)"));
        assert!(spoilt("size = \"1k\"", "duration = \"1s\"").contains("not a scenario's"));
        assert!(spoilt("targets = [\"lariat\"]\n", "").contains("`targets` is missing"));
        assert!(spoilt("300ms", "300").contains("`300` is not a time"));
        assert!(spoilt("[load]", "[server]\nworkres = 1\n[load]").contains("mean `workers`?"));
        assert!(spoilt("repeats = 1", "repeats = 0").contains("[quick] repeats nothing"));
        assert!(spoilt("targets", "of-capacity = 2\ntargets").contains("needs [capacity]"));
        assert!(spoilt("name = \"1k\"", "name = \"1 k\"").contains("no plain word"));
    }

    #[test]
    fn what_is_offered_is_a_number_or_a_ramp() {
        let small = format!("{SMALL}[capacity]\nduration = \"1s\"\n");
        let with =
            |text: &str| small.replacen("targets", &format!("of-capacity = {text}\ntargets"), 1);
        let ramp = parse(&with("{ from = 0.2, to = 1.5 }")).unwrap();
        let Some(Offered::Ramp(ramp)) = ramp.file.of_capacity else {
            panic!("{:?}", ramp.file.of_capacity);
        };
        assert_eq!((ramp.from, ramp.to), (0.2, 1.5));
        assert!(told(&with("\"much\"")).contains("a multiple, or { from = 0.2, to = 1.5 }"));
    }
}
