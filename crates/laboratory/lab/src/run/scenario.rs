//! Loads scenarios: questions as data, and the configurations that they expand to.
//!
//! `form` reads a scenario's file, `expansion` combines it with its targets to configurations, and
//! `settings` describes a configuration for its measurement.

pub(crate) mod expansion;
pub(crate) mod form;
pub(crate) mod settings;

use std::fs;
use std::path::Path;

use options::Complaint;
use options::diagnostic::nearest;

use crate::fault::{LabFault, LabResult};
use crate::load::PlanFile;

use form::ScenarioForm;

macro_rules! embedded {
    ($($name:literal)+) => {
        [$(($name, include_str!(concat!("../../../../../scenarios/", $name, ".toml"))),)+]
    };
}

/// The scenarios of this build, in the order of reports.
const SCENARIOS: [(&str, &str); 30] = embedded! {
    "implementations" "terminate" "part-load" "both-ends" "passthrough" "cores" "ciphers" "keys"
    "key-places" "groups" "reuse" "resumption-kinds" "object-sizes" "connections" "ramp" "contexts"
    "overload" "mixed" "big-file" "dual-certificate" "idle" "certificates" "limits" "session-cache"
    "scale-out" "mysql-connections" "mysql-pool" "load-generators" "load-memory" "origin"
};

/// The scenario of `lariat-lab self-test`, which compares no servers and is not listed.
pub(crate) const SELF_TEST: &str = "self-test";

/// Name of all scenarios on the command line.
pub(crate) const ALL: &str = "all";

#[derive(Clone, Debug)]
pub(crate) struct ListedScenario {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) text: String,
}

impl ListedScenario {
    /// Parses the scenario's file.
    ///
    /// # Errors
    /// Fails with complaints about its form.
    pub(crate) fn form(&self) -> Result<ScenarioForm, Vec<Complaint>> {
        form::parse(&self.text)
    }
}

/// Lists all scenarios: those of the folder, or the built-in ones.
///
/// # Errors
/// Fails if the folder cannot be read.
pub(crate) fn list(folder: Option<&Path>) -> LabResult<Vec<ListedScenario>> {
    let Some(folder) = folder else {
        return Ok(SCENARIOS.iter().map(ours).collect());
    };
    let refused = |error| {
        LabFault::new(
            format_args!("the scenarios in {} cannot be listed: {error}", folder.display()),
            "--scenario-folder names a folder that we may read",
        )
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(refused)? {
        let path = entry.map_err(refused)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    paths.sort();
    paths.iter().map(|path| of_file(path)).collect()
}

fn ours((name, text): &(&str, &str)) -> ListedScenario {
    ListedScenario {
        name: (*name).to_owned(),
        path: format!("scenarios/{name}.toml"),
        text: (*text).to_owned(),
    }
}

fn of_file(path: &Path) -> LabResult<ListedScenario> {
    let hint = "name a TOML file that we may read; docs/guide/lab.md tells what it holds";
    let PlanFile { path: shown, text } =
        PlanFile::open(path).map_err(|why| LabFault::new(why, hint))?;
    let name = path.file_stem().unwrap_or_default();
    Ok(ListedScenario { name: name.to_string_lossy().into_owned(), path: shown, text })
}

/// Returns the requested scenarios: by name, by the first word of several names, by path (if it
/// contains `/` or ends in `.toml`), or `all`.
pub(crate) fn choose(asked: &[String], folder: Option<&Path>) -> LabResult<Vec<ListedScenario>> {
    let known = list(folder)?;
    let mut chosen: Vec<ListedScenario> = Vec::new();
    for name in asked {
        let more = match name.as_str() {
            ALL => known.clone(),
            path if path.contains('/') || path.ends_with(".toml") => {
                vec![of_file(Path::new(path))?]
            }
            SELF_TEST => vec![ours(&(SELF_TEST, include_str!("scenario/self-test.toml")))],
            name => match of_group(name, &known) {
                group if group.is_empty() => vec![named(name, &known)?],
                group => group,
            },
        };
        for one in more {
            if chosen.iter().any(|other| other.name == one.name) {
                return Err(LabFault::new(
                    format_args!("two scenarios are named `{}`", one.name),
                    "name each once, or give your own file another name",
                ));
            }
            chosen.push(one);
        }
    }
    Ok(chosen)
}

/// Returns the scenarios whose name starts with this word, unless one has exactly this name.
fn of_group(name: &str, known: &[ListedScenario]) -> Vec<ListedScenario> {
    let is_it = |one: &&ListedScenario| {
        one.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
    };
    let is_exact = known.iter().any(|one| one.name == name);
    known.iter().filter(|one| !is_exact && is_it(one)).cloned().collect()
}

fn named(name: &str, known: &[ListedScenario]) -> LabResult<ListedScenario> {
    let found = known.iter().find(|one| one.name == name);
    found.cloned().ok_or_else(|| {
        let names = known.iter().map(|one| one.name.as_str());
        let near = nearest(name, names).map(|near| format!("did you mean `{near}`?"));
        let otherwise = "`lariat-lab run --list` lists them; a file of your own is named by its \
                         path, as in ./mine.toml";
        LabFault::new(
            format_args!("there is no scenario `{}`", name.escape_debug()),
            near.as_deref().unwrap_or(otherwise),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_word_chooses_all_that_begin_with_it() {
        let names = |asked: &str| {
            let chosen = choose(&[asked.to_owned()], None);
            chosen.map(|all| all.into_iter().map(|one| one.name).collect::<Vec<_>>())
        };
        assert_eq!(names("mysql").unwrap(), ["mysql-connections", "mysql-pool"]);
        assert_eq!(names("mysql-pool").unwrap(), ["mysql-pool"]);
        assert_eq!(names("origin").unwrap(), ["origin"]);
        assert!(names("mysq").unwrap_err().to_string().contains("there is no scenario `mysq`"));
    }

    #[test]
    fn every_file_of_the_repository_is_carried() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
        let mut found: Vec<_> = list(Some(&folder)).unwrap();
        let mut carried = list(None).unwrap();
        let by_name = |a: &ListedScenario, b: &ListedScenario| a.name.cmp(&b.name);
        found.sort_by(by_name);
        carried.sort_by(by_name);
        let names =
            |list: &[ListedScenario]| list.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&found), names(&carried));
    }
}
