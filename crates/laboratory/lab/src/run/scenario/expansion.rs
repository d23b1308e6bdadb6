//! From a scenario and its targets to configurations.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use measure::experiment::{self, Configuration, Factor, RecordedValue};
use measure::metric::Metric;
use measure::until::{ROUNDS_MIN, StoppingRule};
use options::{Complaint, Problem, RawLocation, quantity};

use super::form::{FactorForm, FactorValue, RunPace, ScenarioForm};
use super::settings::{
    Call, CapacityPlan, ConfigurationSettings, Expect, LaunchSettings, OfferedLoad,
    PlannedConfiguration, PlannedLoad,
};
use crate::fault::did_you_mean;
use crate::targets::form::{Scheme, ServerSpec, Serves, TargetFront, TargetRole, TestTarget};
use crate::targets::templates;

/// A target that may take part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CandidateTarget<'p> {
    pub(crate) target: &'p TestTarget,
    /// Whether the user gave another build than the packaged one.
    pub(crate) is_given: bool,
}

/// Options of a run that replace values of a scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScenarioOverrides {
    pub(crate) is_quick: bool,
    /// In place of those that the scenario names.
    pub(crate) targets: Option<Vec<String>>,
    pub(crate) repeats: Option<u32>,
    /// Decides how often configurations are measured.
    pub(crate) until: Option<StoppingRule>,
    pub(crate) duration: Option<Duration>,
    /// Configurations at these values alone, by factor; `target` is a factor too.
    pub(crate) only: BTreeMap<String, Vec<String>>,
    /// Abilities that this host's kernel lacks, and why.
    pub(crate) lacks: BTreeMap<String, String>,
}

/// A scenario and its configurations, in the order of its tables.
#[derive(Clone, Debug)]
pub(crate) struct ExpandedScenario {
    pub(crate) scenario: experiment::Scenario,
    /// Configurations to measure, and those that cannot be.
    pub(crate) configurations: Vec<PlannedConfiguration>,
}

impl ExpandedScenario {
    pub(crate) fn supported(&self) -> impl Iterator<Item = &PlannedConfiguration> {
        self.configurations.iter().filter(|planned| planned.configuration.unsupported.is_none())
    }
}

/// The configurations of a scenario with these targets.
///
/// # Errors
/// Names of targets that are unknown, and settings of a configuration that contradict each other.
pub(crate) fn expand(
    name: &str,
    form: &ScenarioForm,
    candidates: &[CandidateTarget<'_>],
    asked: &ScenarioOverrides,
) -> Result<ExpandedScenario, Vec<Complaint>> {
    let expansion = ScenarioExpansion {
        name,
        form,
        asked,
        candidates,
        pace: if asked.is_quick { &form.quick } else { &form.full },
    };
    check_targets(form, candidates)?;
    let choices = expansion.choices();
    let mut configurations = Vec::new();
    for target in expansion.targets() {
        for choice in &choices {
            if expansion.has(target, choice) {
                configurations.push(expansion.planned(expansion.contender(target)?, choice)?);
            }
        }
    }
    Ok(ExpandedScenario { scenario: expansion.scenario(&configurations), configurations })
}

/// Every target that the file names must be one.
fn check_targets(
    form: &ScenarioForm,
    candidates: &[CandidateTarget<'_>],
) -> Result<(), Vec<Complaint>> {
    let known = || candidates.iter().map(|one| one.target.name.as_str());
    let unknown = form.target_names().filter(|name| known().all(|target| target != *name));
    let complaints: Vec<_> = unknown.map(|name| no_target(name, known())).collect();
    if complaints.is_empty() { Ok(()) } else { Err(complaints) }
}

fn no_target<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone) -> Complaint {
    let listed = || "`lariat-lab targets` lists them".to_owned();
    let problem = Problem::new(format!("there is no target `{}`", name.escape_debug()));
    let hint = did_you_mean(name, known, "").unwrap_or_else(listed);
    Complaint::error(RawLocation::Nowhere, problem.hint(hint))
}

/// A value of each factor.
type FactorChoice<'f> = Vec<(&'f FactorForm, &'f FactorValue)>;

/// The last value that says it decides.
fn last<'f, T>(choice: &FactorChoice<'f>, of: impl Fn(&'f FactorValue) -> Option<T>) -> Option<T> {
    choice.iter().filter_map(|(_, value)| of(value)).next_back()
}

struct ScenarioExpansion<'f> {
    name: &'f str,
    form: &'f ScenarioForm,
    asked: &'f ScenarioOverrides,
    candidates: &'f [CandidateTarget<'f>],
    pace: &'f RunPace,
}

impl<'f> ScenarioExpansion<'f> {
    fn targets(&self) -> &'f [String] {
        self.asked.targets.as_ref().or(self.pace.targets.as_ref()).unwrap_or(&self.form.targets)
    }

    /// All of them, the last factor varied first.
    fn choices(&self) -> Vec<FactorChoice<'f>> {
        let mut choices = vec![FactorChoice::new()];
        for factor in &self.form.factor {
            let is_wanted = |value: &&FactorValue| self.is_wanted(&factor.name, value);
            let kept: Vec<_> = factor.value.iter().filter(is_wanted).collect();
            let longer = choices.iter().flat_map(|choice| {
                kept.iter().map(|value| [choice.as_slice(), &[(factor, *value)]].concat())
            });
            choices = longer.collect();
        }
        choices
    }

    fn is_wanted(&self, factor: &str, value: &FactorValue) -> bool {
        match self.asked.only.get(factor) {
            Some(only) => only.contains(&value.name),
            None => value.in_quick || !self.asked.is_quick,
        }
    }

    /// Whether the target takes part there.
    fn has(&self, target: &str, choice: &FactorChoice<'f>) -> bool {
        let only = self.asked.only.get("target");
        let is_asked = only.is_none_or(|only| only.iter().any(|name| name == target));
        is_asked
            && choice.iter().all(|(_, value)| {
                let targets = value.targets.as_ref();
                targets.is_none_or(|targets| targets.iter().any(|name| name == target))
            })
    }

    fn contender(&self, name: &str) -> Result<&'f CandidateTarget<'f>, Vec<Complaint>> {
        let mut candidates = self.candidates.iter();
        let known = || self.candidates.iter().map(|one| one.target.name.as_str());
        candidates.find(|one| one.target.name == name).ok_or_else(|| vec![no_target(name, known())])
    }

    /// The server, and the program that makes the load in place of ours: one of them is the target.
    fn sides(
        &self,
        target: &'f CandidateTarget<'f>,
        choice: &FactorChoice<'f>,
    ) -> Result<(&'f CandidateTarget<'f>, Option<&'f CandidateTarget<'f>>), Vec<Complaint>> {
        let file = self.form;
        let against = last(choice, |value| value.against.as_ref()).or(file.against.as_ref());
        let client = last(choice, |value| value.client.as_ref()).or(file.client.as_ref());
        let sides = match (target.target.form.role, against) {
            (TargetRole::Client, Some(server)) => (self.contender(server)?, Some(target)),
            (TargetRole::Client, None) => return Err(vec![wrong_role(target.target, "against")]),
            (TargetRole::Server, _) => {
                let client = client.map(|name| self.contender(name));
                (target, client.transpose()?)
            }
        };
        let is = |one: &CandidateTarget<'_>, role| one.target.form.role == role;
        if !is(sides.0, TargetRole::Server) {
            return Err(vec![wrong_role(sides.0.target, "client")]);
        }
        match sides.1 {
            Some(client) if !is(client, TargetRole::Client) => {
                Err(vec![wrong_role(client.target, "against")])
            }
            _ => Ok(sides),
        }
    }

    fn planned(
        &self,
        contender: &'f CandidateTarget<'f>,
        choice: &FactorChoice<'f>,
    ) -> Result<PlannedConfiguration, Vec<Complaint>> {
        let target = contender.target;
        let (server, program) = self.sides(contender, choice)?;
        let load = self.load(choice, program);
        let mut spec = self.spec(choice, &load);
        spec.request_log |= target.form.role == TargetRole::Client;
        let is_tls = server.target.form.scheme == Scheme::Https && spec.front != TargetFront::Plain;
        let origin = self.origin(&spec)?;
        let launch = self.launch(is_tls, server.target.form.serves == Serves::Files, choice);
        if program.is_none() {
            check_load(&load, &launch)?;
        }
        let cannot = self.cannot(server, choice, &spec);
        let cannot =
            cannot.or_else(|| program.and_then(|one| one.target.unsupported(&spec, one.is_given)));
        let mut values = BTreeMap::new();
        let mut key = format!("target={}", target.name);
        for (factor, value) in choice {
            values.insert(factor.name.clone(), value.name.clone());
            key += &format!(" {}={}", factor.name, value.name);
        }
        Ok(PlannedConfiguration {
            scenario: self.name.to_owned(),
            configuration: Configuration {
                key,
                target: target.name.clone(),
                values,
                command: match program {
                    Some(program) => program_command(program.target, &load, &spec, &launch)?,
                    None => command(&load, &launch),
                },
                unsupported: cannot,
            },
            server: server.target.name.clone(),
            origin,
            spec,
            load,
            expect: self.expect(choice),
            repeats: self.repeats(),
            fill: choice.iter().map(|(_, value)| value.fill).sum(),
            lose_node: self.form.lose_node.map(|share| launch.duration.mul_f64(share)),
            reloads: self.form.metrics.iter().any(is_of_reload),
            launch,
        })
    }

    fn repeats(&self) -> u32 {
        self.asked.until.map(|_| ROUNDS_MIN).or(self.asked.repeats).unwrap_or(self.pace.repeats)
    }

    /// The target that answers behind a server in place of the test server, which has no TLS.
    fn origin(&self, spec: &ServerSpec) -> Result<Option<String>, Vec<Complaint>> {
        if !spec.needs_tls_origin() {
            return Ok(None);
        }
        let name = self.form.tls_origin.as_ref();
        let origin = name.map(|name| self.contender(name)).transpose()?;
        match origin.map(|one| (&one.target.form, &one.target.name)) {
            Some((form, name)) if form.serves == Serves::Files && form.scheme == Scheme::Https => {
                Ok(Some(name.clone()))
            }
            _ => {
                let problem = Problem::new("`tls-origin` names no server that answers by TLS");
                let hint = "add tls-origin = \"nginx-files\"";
                Err(vec![Complaint::error(RawLocation::Nowhere, problem.hint(hint))])
            }
        }
    }

    /// With an address in place of the server's, which decides nothing about a plan.
    fn launch(&self, is_tls: bool, is_of_files: bool, choice: &FactorChoice<'f>) -> LaunchSettings {
        let of_values = last(choice, |value| value.duration);
        LaunchSettings {
            is_tls,
            is_of_files,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 443)),
            cpus: vec![0],
            warm_up: self.pace.warm_up,
            duration: self.asked.duration.or(of_values).unwrap_or(self.pace.duration),
        }
    }

    fn load(
        &self,
        choice: &FactorChoice<'f>,
        program: Option<&CandidateTarget<'_>>,
    ) -> PlannedLoad {
        let over = |base: &ConfigurationSettings,
                    of: fn(&FactorValue) -> &ConfigurationSettings| {
            choice.iter().fold(base.clone(), |base, (_, value)| base.overlaid(of(value)))
        };
        let load = PlannedLoad {
            settings: over(&self.form.load, |value| &value.load),
            program: program.map(|program| program.target.name.clone()),
            capacity: None,
            background: None,
        };
        if program.is_some() {
            return load;
        }
        let background = over(&self.form.background, |value| &value.background);
        let offered = last(choice, |value| value.of_capacity).or(self.form.of_capacity);
        let capacity = offered.zip(self.form.capacity.as_ref());
        PlannedLoad {
            background: (!background.is_empty()).then_some(background),
            capacity: capacity.map(|(offered, capacity)| CapacityPlan {
                settings: load.settings.overlaid(&capacity.load),
                duration: capacity.duration,
                offered,
            }),
            ..load
        }
    }

    /// Tables over tables, key by key. A server that answers from files needs those that are
    /// asked for.
    fn spec(&self, choice: &FactorChoice<'f>, load: &PlannedLoad) -> ServerSpec {
        let mut table = self.form.server.clone();
        for (_, value) in choice {
            table.extend(value.server.clone());
        }
        let mut spec: ServerSpec = table.try_into().expect("each part was read as a spec");
        spec.versions.sort_unstable();
        if spec.objects.is_empty() {
            let loads = [Some(&load.settings), load.background.as_ref()].into_iter().flatten();
            spec.objects.extend(loads.filter_map(|load| quantity::size(&load.text("size")?)));
        }
        spec
    }

    fn cannot(
        &self,
        contender: &CandidateTarget<'_>,
        choice: &FactorChoice<'f>,
        spec: &ServerSpec,
    ) -> Option<String> {
        let lacks = &self.asked.lacks;
        let mut needs = choice.iter().filter_map(|(_, value)| value.needs.as_ref());
        let host = needs.find_map(|need| Some(format!("no {need} here: {}", lacks.get(need)?)));
        host.or_else(|| contender.target.unsupported(spec, contender.is_given))
    }

    fn expect(&self, choice: &FactorChoice<'f>) -> Expect {
        let base = self.form.expect.clone();
        choice.iter().fold(base, |base, (_, value)| base.overlaid(value.expect.clone()))
    }

    fn scenario(&self, configurations: &[PlannedConfiguration]) -> experiment::Scenario {
        let file = self.form;
        let is_there = |factor: &str, value: &str| {
            let mut values = configurations
                .iter()
                .filter_map(|planned| planned.configuration.values.get(factor));
            values.any(|name| name == value)
        };
        let values = |factor: &FactorForm| {
            let there = factor.value.iter().filter(|value| is_there(&factor.name, &value.name));
            there.map(value).collect()
        };
        let factors = file.factor.iter().map(|factor| Factor {
            name: factor.name.clone(),
            title: factor.title.clone(),
            values: values(factor),
        });
        experiment::Scenario {
            name: self.name.to_owned(),
            question: file.question.trim().to_owned(),
            method: file.method.trim().to_owned(),
            sources: file.source.clone(),
            omitted: file.omitted.clone(),
            factors: factors.collect(),
            metrics: file.metrics.clone(),
            operation: file.operation.clone(),
            end_to_end: file.end_to_end,
            published: file.published.clone(),
            repeats: self.repeats(),
            until: self.asked.until,
            configurations: configurations
                .iter()
                .map(|planned| planned.configuration.clone())
                .collect(),
        }
    }
}

fn value(value: &FactorValue) -> RecordedValue {
    RecordedValue { name: value.name.clone(), title: value.title.clone(), number: value.number }
}

/// The settings of a configuration's load must make a plan.
fn check_load(load: &PlannedLoad, launch: &LaunchSettings) -> Result<(), Vec<Complaint>> {
    let settings = load.settings.clone();
    if let Some(background) = &load.background {
        background.plan(launch)?;
    }
    let Some(capacity) = &load.capacity else {
        return settings.plan(launch).map(|_| ());
    };
    capacity.settings.plan(launch)?;
    settings.offering(capacity.offered, 1000.0, launch.duration).plan(launch).map(|_| ())
}

fn wrong_role(target: &TestTarget, key: &str) -> Complaint {
    let name = &target.name;
    let (role, hint) = match target.form.role {
        TargetRole::Client => ("client", "names the server that it loads"),
        TargetRole::Server => ("server", "names the program that loads it"),
    };
    let problem = Problem::new(format!("`{name}` is a {role} and cannot stand here"));
    Complaint::error(RawLocation::Nowhere, problem.hint(format!("`{key}` {hint}")))
}

fn is_of_reload(metric: &Metric) -> bool {
    matches!(metric, Metric::ReloadTime | Metric::ReloadMemory)
}

fn command(load: &PlannedLoad, launch: &LaunchSettings) -> Vec<String> {
    let mut words = load.settings.command(launch);
    let of_capacity = load.capacity.as_ref();
    words.extend(of_capacity.into_iter().flat_map(|plan| offer(plan.offered)));
    words
}

/// For people, with FOLDER and ADDRESS in place of what the run decides.
fn program_command(
    target: &TestTarget,
    load: &PlannedLoad,
    spec: &ServerSpec,
    launch: &LaunchSettings,
) -> Result<Vec<String>, Vec<Complaint>> {
    let call = Call {
        program: Path::new(&target.form.program),
        folder: Path::new("FOLDER"),
        address: "ADDRESS",
        authorities: Path::new("AUTHORITIES"),
        spec,
    };
    let words = templates::command(target, &target.form.start, &load.values(call, launch));
    words.map_err(|fault| {
        let hint = "targets/README.md lists what a template may use";
        vec![Complaint::error(RawLocation::Nowhere, Problem::new(fault.to_string()).hint(hint))]
    })
}

/// For people: the capacity is known only in the run.
fn offer(offered: OfferedLoad) -> [String; 2] {
    match offered {
        OfferedLoad::Even(multiple) => ["--rate".to_owned(), format!("{multiple}*CAPACITY")],
        OfferedLoad::Ramp(ramp) => {
            ["--ramp".to_owned(), format!("{}*CAPACITY:{}*CAPACITY", ramp.from, ramp.to)]
        }
    }
}
