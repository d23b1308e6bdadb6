//! The file of a scenario: its form, and messages about files of another form.
//!
//! `expansion` decides which configurations it has with its targets.

use std::time::Duration;

use load::options::TABLE;
use measure::experiment::{CitedSource, LeftOutPart, Published};
use measure::metric::Metric;
use options::{Complaint, Node, Problem, RawLocation, Report, document, flags, quantity};
use serde::{Deserialize, Deserializer};
use toml::de::{DeTable, DeValue};

use super::settings::{ConfigurationSettings, Expect, OfferedLoad, RESERVED};
use crate::fault::did_you_mean;
use crate::targets::form::ServerSpec;

/// The hint where no better one is known.
const REFERENCE: &str = "docs/guide/lab.md describes the file of a scenario";

/// A scenario, as its file says it. `S` is the type of its tables `server`: [`ServerSpec`] to check
/// them, tables to lay them over one another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", bound = "S: Default + Deserialize<'de>")]
pub(crate) struct ScenarioForm<S = toml::Table> {
    pub(crate) question: String,
    pub(crate) method: String,
    /// The operation by which the server's CPU time is divided, in plural.
    pub(crate) operation: String,
    pub(crate) metrics: Vec<Metric>,
    /// Whether rates and response times are those of client and server together, by intent.
    #[serde(default)]
    pub(crate) end_to_end: bool,
    /// The one that others are compared with first.
    pub(crate) targets: Vec<String>,
    /// Publications whose tables it repeats.
    #[serde(default)]
    pub(crate) source: Vec<CitedSource>,
    #[serde(default)]
    pub(crate) omitted: Vec<LeftOutPart>,
    #[serde(default)]
    pub(crate) published: Vec<Published>,
    pub(crate) quick: RunPace,
    pub(crate) full: RunPace,
    #[serde(default)]
    pub(crate) server: S,
    #[serde(default)]
    pub(crate) load: ConfigurationSettings,
    /// The settings of a load in the background; empty where there is none.
    #[serde(default)]
    pub(crate) background: ConfigurationSettings,
    /// The target that makes the load in place of ours.
    pub(crate) client: Option<String>,
    /// The server that targets load which are clients.
    pub(crate) against: Option<String>,
    /// The target behind servers that speak TLS to what is behind them, or do not terminate it.
    pub(crate) tls_origin: Option<String>,
    /// When a node of a farm dies, as a share of the duration.
    pub(crate) lose_node: Option<f64>,
    /// How the capacity of a target is measured.
    pub(crate) capacity: Option<CapacityLoad>,
    pub(crate) of_capacity: Option<OfferedLoad>,
    #[serde(default)]
    pub(crate) expect: Expect,
    #[serde(default = "Vec::new")]
    pub(crate) factor: Vec<FactorForm<S>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CapacityLoad {
    #[serde(deserialize_with = "time")]
    pub(crate) duration: Duration,
    /// Settings laid over those of the load.
    #[serde(default)]
    pub(crate) load: ConfigurationSettings,
}

/// How often a configuration is measured, and how long.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RunPace {
    pub(crate) repeats: u32,
    #[serde(deserialize_with = "any_time")]
    pub(crate) warm_up: Duration,
    #[serde(deserialize_with = "time")]
    pub(crate) duration: Duration,
    pub(crate) targets: Option<Vec<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, bound = "S: Default + Deserialize<'de>")]
pub(crate) struct FactorForm<S = toml::Table> {
    pub(crate) name: String,
    /// At the head of tables.
    pub(crate) title: String,
    pub(crate) value: Vec<FactorValue<S>>,
}

/// A value of a factor. Its tables lie over those of the file, key by key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", bound = "S: Default + Deserialize<'de>")]
pub(crate) struct FactorValue<S = toml::Table> {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) number: Option<f64>,
    #[serde(default)]
    pub(crate) server: S,
    #[serde(default)]
    pub(crate) load: ConfigurationSettings,
    #[serde(default)]
    pub(crate) background: ConfigurationSettings,
    pub(crate) against: Option<String>,
    pub(crate) client: Option<String>,
    #[serde(default, deserialize_with = "optional_time")]
    pub(crate) duration: Option<Duration>,
    /// Full handshakes before the load, which fill the server's session cache.
    #[serde(default)]
    pub(crate) fill: u64,
    pub(crate) of_capacity: Option<OfferedLoad>,
    #[serde(default)]
    pub(crate) expect: Expect,
    /// An ability that the kernel must have, by its name in `lariat-lab host`.
    pub(crate) needs: Option<String>,
    /// Whether quick runs have it too.
    #[serde(default = "yes")]
    pub(crate) in_quick: bool,
    /// All of the file unless it is given.
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
    let time = quantity::duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| {
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

impl ScenarioForm {
    pub(crate) fn target_names(&self) -> impl Iterator<Item = &String> {
        let values = self.factor.iter().flat_map(|factor| &factor.value);
        let of_values = values.flat_map(|value| {
            value.targets.iter().flatten().chain(&value.against).chain(&value.client)
        });
        let of_paces = [&self.quick, &self.full].into_iter();
        let of_paces = of_paces.flat_map(|pace| pace.targets.iter().flatten());
        let roles = self.client.iter().chain(&self.against).chain(&self.tls_origin);
        self.targets.iter().chain(of_values).chain(of_paces).chain(roles)
    }
}

/// Reads a file.
///
/// # Errors
/// Complaints about its form; `expansion` finds settings that contradict each other.
pub(crate) fn parse(text: &str) -> Result<ScenarioForm, Vec<Complaint>> {
    let one = |error: toml::de::Error| vec![of_toml(&error)];
    toml::from_str::<ScenarioForm<ServerSpec>>(text).map_err(one)?;
    let mut form: ScenarioForm = toml::from_str(text).map_err(one)?;
    let table = DeTable::parse(text).map_err(one)?;
    read_loads(table.get_ref(), &mut form)?;
    check(&form)?;
    Ok(form)
}

/// Reads all tables of settings of a file of the right form.
fn read_loads(root: &DeTable<'_>, form: &mut ScenarioForm) -> Result<(), Vec<Complaint>> {
    let report = Report::new(None);
    let read = |table: &DeTable<'_>, key: &str| {
        let table = inner(table, key);
        table.map_or_else(ConfigurationSettings::default, |table| settings(table, &report))
    };
    form.load = read(root, "load");
    form.background = read(root, "background");
    if let (Some(capacity), Some(table)) = (&mut form.capacity, inner(root, "capacity")) {
        capacity.load = read(table, "load");
    }
    for (factor, table) in form.factor.iter_mut().zip(list(root, "factor")) {
        for (value, table) in factor.value.iter_mut().zip(list(table, "value")) {
            value.load = read(table, "load");
            value.background = read(table, "background");
        }
    }
    if report.errors() > 0 { Err(report.into_complaints()) } else { Ok(()) }
}

fn settings(table: &DeTable<'_>, report: &Report<'_>) -> ConfigurationSettings {
    let root = Node::new(document::entries(table), RawLocation::Nowhere);
    let root = flags::retyped(root, &TABLE);
    options::check_keys(&root, &TABLE, report);
    let entries = root.entries().iter();
    for entry in entries.filter(|entry| RESERVED.split(' ').any(|name| name == entry.key)) {
        let problem = Problem::new("is not a scenario's to set").hint(RESERVED_HINT);
        report.error(&entry.node.spot, &entry.key, problem);
    }
    ConfigurationSettings(root)
}

fn inner<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<&'t DeTable<'i>> {
    table.get(key)?.get_ref().as_table()
}

fn list<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> impl Iterator<Item = &'t DeTable<'i>> {
    let array = table.get(key).map(toml::Spanned::get_ref);
    let array = array.and_then(DeValue::as_array).into_iter().flatten();
    array.filter_map(|one| one.get_ref().as_table())
}

const RESERVED_HINT: &str =
    "[quick] and [full] give times; the server and the CPUs of the load follow from the run";

fn check(file: &ScenarioForm) -> Result<(), Vec<Complaint>> {
    let mut wrong = Vec::new();
    let mut note = |is_so: bool, message: String| {
        if is_so {
            wrong.push(Complaint::error(
                RawLocation::Nowhere,
                Problem::new(message).hint(REFERENCE),
            ));
        }
    };
    note(file.metrics.is_empty(), "`metrics` is empty".to_owned());
    note(file.targets.is_empty(), "`targets` is empty".to_owned());
    for (mode, pace) in [("quick", &file.quick), ("full", &file.full)] {
        note(pace.repeats == 0, format!("[{mode}] repeats nothing"));
    }
    let of_values = file.factor.iter().flat_map(|factor| &factor.value);
    let mut of_capacity = of_values.map(|value| value.of_capacity);
    note(
        file.capacity.is_none()
            && (file.of_capacity.is_some() || of_capacity.any(|offered| offered.is_some())),
        "`of-capacity` needs [capacity], which says how the capacity is measured".to_owned(),
    );
    note(
        file.lose_node.is_some_and(|share| !(0.0..1.0).contains(&share)),
        "`lose-node` is a share of the duration, from 0 to below 1".to_owned(),
    );
    note(
        twice(file.factor.iter().map(|factor| factor.name.as_str())),
        "two factors have the same name".to_owned(),
    );
    for factor in &file.factor {
        let values = || factor.value.iter().map(|value| value.name.as_str());
        let name = &factor.name;
        let is_plain = |name: &str| {
            let fits = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
            !name.is_empty() && name.chars().all(fits)
        };
        note(factor.value.is_empty(), format!("factor `{name}` has no value"));
        note(twice(values()), format!("two values of `{name}` have the same name"));
        note(
            name == "target" || !is_plain(name) || !values().all(is_plain),
            format!("factor `{name}` or a value of it has a name that is no plain word"),
        );
    }
    for published in &file.published {
        let columns = published.columns.len();
        note(
            published.rows.iter().any(|row| row.len() != columns),
            format!("a row of `{}` is not as long as its columns", published.title),
        );
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

fn twice<'n>(names: impl Iterator<Item = &'n str>) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    names.into_iter().any(|name| !seen.insert(name))
}

/// An error of serde in our words, with the nearest of the known names.
fn of_toml(error: &toml::de::Error) -> Complaint {
    let text = error.message().lines().collect::<Vec<_>>().join(", ");
    let quoted: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    let (message, hint) = match (text.split_once(" `"), quoted.split_first()) {
        (Some(("unknown field", _)), Some((typed, known))) => {
            (format!("there is no key `{}`", typed.escape_debug()), near(typed, known))
        }
        (Some(("unknown variant", _)), Some((typed, known))) => {
            (format!("there is no `{}` here", typed.escape_debug()), near(typed, known))
        }
        (Some(("missing field", _)), Some((field, _))) => {
            (format!("`{field}` is missing"), REFERENCE.to_owned())
        }
        _ => (text.clone(), REFERENCE.to_owned()),
    };
    let spot = error.span().map_or(RawLocation::Nowhere, RawLocation::File);
    Complaint::error(spot, Problem::new(message).hint(hint))
}

fn near(typed: &str, known: &[&str]) -> String {
    let otherwise = || match known {
        [] => REFERENCE.to_owned(),
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
metrics = [\"rate\"]
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
[[factor.value]]
name = \"1k\"
title = \"1 KiB\"
load = { size = \"1k\" }
";

    fn faults(text: &str) -> String {
        let wrong = parse(text).expect_err("it is wrong");
        let told = |Problem { message, hint }| format!("{message} ({})", hint.unwrap_or_default());
        let lines = wrong.into_iter().map(|one| told(one.problem));
        lines.collect::<Vec<_>>().join("; ")
    }

    fn spoilt(from: &str, to: &str) -> String {
        assert!(SMALL.contains(from), "{from}");
        faults(&SMALL.replacen(from, to, 1))
    }

    #[test]
    fn a_small_one_is_read() {
        let form = parse(SMALL).unwrap();
        assert_eq!(form.quick.duration, Duration::from_millis(300));
        assert_eq!(form.load.text("connections").as_deref(), Some("2"));
        assert_eq!(form.factor[0].value[0].load.text("size").as_deref(), Some("1k"));
    }

    #[test]
    fn a_load_in_the_background_has_values_too() {
        let text = SMALL.replace("[[factor]]", "[background]\nconnections = 3\n[[factor]]");
        let text = text.replace("load = {", "background = { size = \"1m\" }\nload = {");
        let form = parse(&text).unwrap();
        assert_eq!(form.background.text("connections").as_deref(), Some("3"));
        let value = &form.factor[0].value[0];
        assert_eq!(value.background.text("size").as_deref(), Some("1m"));
        let place = faults(&text.replace("connections = 3", "cpus = \"1\""));
        assert!(place.contains("not a scenario's"), "{place}");
    }

    #[test]
    fn slips_have_remedies() {
        let near = spoilt("question", "questoin");
        assert!(near.contains("no key `questoin` (did you mean `question`?)"));
        let old = spoilt("metrics", "figures");
        assert!(old.contains("no key `figures` (it is `metrics` now)"), "{old}");
        let old = spoilt("factor.value", "factor.level");
        assert!(old.contains("no key `level` (it is `value` now)"), "{old}");
        let near = spoilt("\"rate\"", "\"raet\"");
        assert!(near.contains("no `raet` here (did you mean `rate`?)"));
        let near = spoilt("connections = 2", "conections = 2");
        assert!(near.contains(
            "unknown key `conections` at the top of the file (did you mean `connections`?)"
        ));
        assert!(spoilt("size = \"1k\"", "duration = \"1s\"").contains("not a scenario's"));
        assert!(spoilt("targets = [\"lariat\"]\n", "").contains("`targets` is missing"));
        assert!(spoilt("300ms", "300").contains("`300` is not a time"));
        assert!(spoilt("[load]", "[server]\nworkres = 1\n[load]").contains("mean `workers`?"));
        assert!(spoilt("repeats = 1", "repeats = 0").contains("[quick] repeats nothing"));
        assert!(spoilt("targets", "of-capacity = 2\ntargets").contains("needs [capacity]"));
        let late = spoilt("targets", "lose-node = 1.0\ntargets");
        assert!(late.contains("a share of the duration"), "{late}");
        assert!(spoilt("name = \"1k\"", "name = \"1 k\"").contains("no plain word"));
    }

    #[test]
    fn what_is_offered_is_a_number_or_a_ramp() {
        let small = format!("{SMALL}[capacity]\nduration = \"1s\"\n");
        let with =
            |text: &str| small.replacen("targets", &format!("of-capacity = {text}\ntargets"), 1);
        let ramp = parse(&with("{ from = 0.2, to = 1.5 }")).unwrap();
        let Some(OfferedLoad::Ramp(ramp)) = ramp.of_capacity else {
            panic!("{:?}", ramp.of_capacity);
        };
        assert_eq!((ramp.from, ramp.to), (0.2, 1.5));
        assert!(faults(&with("\"much\"")).contains("a multiple, or { from = 0.2, to = 1.5 }"));
    }
}
