//! What two experiments have in common.

use std::collections::BTreeSet;

use measure::experiment::{Experiment, Target};

use super::super::found::Found;
use super::super::limits::{is_quiet, tells_of_load};
use super::super::study::{Case, Entry, Group, cases};
use super::super::versus::{Verdict, verdict};
use super::super::yardstick::Yardstick;
use super::named::Named;

/// A scenario that both have.
#[derive(Debug)]
pub(super) struct Pair<'e> {
    pub(super) a: Case<'e>,
    pub(super) b: Case<'e>,
    /// What both tell, the main one first.
    pub(super) yardsticks: Vec<Yardstick>,
}

/// A figure of a cell in both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// Medians, in the unit of the record.
    pub(super) a: f64,
    pub(super) b: f64,
    /// The second to the first.
    pub(super) found: Option<Found>,
    /// What it means for the second.
    pub(super) verdict: Verdict,
}

/// Scenarios in common in which something in common was read.
pub(super) fn pairs<'e>(a: Named<'e>, b: Named<'e>) -> Vec<Pair<'e>> {
    let mut others = cases(b.experiment, 2);
    let pair = |a: Case<'e>| {
        let index = others
            .iter()
            .position(|b| b.scenario.name == a.scenario.name)?;
        let b = others.swap_remove(index);
        let told = a.yardsticks.iter().copied();
        let yardsticks = told.filter(|it| b.yardsticks.contains(it)).collect();
        Some(Pair { a, b, yardsticks })
    };
    let pairs = cases(a.experiment, 1).into_iter().filter_map(pair);
    pairs.filter(|pair| pair.cells() > 0).collect()
}

impl<'e> Pair<'e> {
    /// In names of files and ids.
    pub(super) fn id(&self) -> &'e str {
        &self.a.scenario.name
    }

    /// How many cells were read in both.
    pub(super) fn cells(&self) -> usize {
        let Some(main) = self.yardsticks.first() else {
            return 0;
        };
        let entries = self.a.entries();
        entries
            .filter(|(group, entry)| self.change(group, entry, *main).is_some())
            .count()
    }

    /// Whether the second was asked otherwise under the same name.
    pub(super) fn is_changed(&self) -> bool {
        let (a, b) = (self.a.scenario, self.b.scenario);
        (&a.question, &a.method, &a.operation) != (&b.question, &b.method, &b.operation)
    }

    /// A cell of the first with what the second says of it; `None` where one of them says nothing.
    pub(super) fn change(
        &self,
        group: &Group<'_>,
        entry: &Entry<'_>,
        yardstick: Yardstick,
    ) -> Option<Change> {
        let other = self.other(group, entry)?;
        let found = |samples: fn(&Entry<'_>, Yardstick) -> Vec<f64>| {
            Found::of_samples(
                &samples(other, yardstick),
                &samples(entry, yardstick),
                yardstick,
            )
        };
        let judged = found(|entry, yardstick| entry.judged_samples(yardstick, is_quiet));
        let is_of_load = [entry, other].iter().any(|it| tells_of_load(it, yardstick));
        Some(Change {
            a: entry.spread(yardstick)?.median,
            b: other.spread(yardstick)?.median,
            found: judged.or_else(|| found(|entry, yardstick| entry.samples(yardstick))),
            verdict: match judged {
                Some(_) if is_of_load => Verdict::OfLoad,
                Some(found) => verdict(&found, yardstick),
                None => Verdict::Unjudged,
            },
        })
    }

    fn other(&self, group: &Group<'_>, entry: &Entry<'_>) -> Option<&Entry<'e>> {
        let names = |group: &Group<'_>| -> Vec<String> {
            group
                .levels
                .iter()
                .map(|level| level.name.clone())
                .collect()
        };
        let wanted = names(group);
        let other = self.b.groups.iter().find(|other| names(other) == wanted)?;
        let mut entries = other.entries.iter();
        entries.find(|other| other.target.name == entry.target.name)
    }
}

impl Change {
    /// How much worse the second is, in percent: less of a rate, or more of a cost. Of shares in
    /// points; `None` where there is no ratio.
    pub(super) fn loss_percent(&self, yardstick: Yardstick) -> Option<f64> {
        let change = match self.found? {
            Found::Ratio(ratio) => (ratio.ratio - 1.0) * 100.0,
            Found::Margin(margin, _) if yardstick.is_share() => margin.difference() * 100.0,
            Found::Margin(..) => return None,
        };
        Some(if yardstick.is_cost() { change } else { -change })
    }
}

/// In what the two differ beside their figures, a line each: name, first, second.
pub(super) fn differences(a: &Experiment, b: &Experiment) -> Vec<(String, String, String)> {
    let (host_a, host_b) = (&a.plan.host.host, &b.plan.host.host);
    let under = |name: &Option<String>| name.clone().unwrap_or_else(|| "none seen".to_owned());
    let mut all = vec![
        ("started", a.plan.started.clone(), b.plan.started.clone()),
        ("mode", a.plan.mode.clone(), b.plan.mode.clone()),
        ("CPU", host_a.cpu.clone(), host_b.cpu.clone()),
        ("CPUs", host_a.cpus.to_string(), host_b.cpus.to_string()),
        ("kernel", host_a.kernel.clone(), host_b.kernel.clone()),
        (
            "hypervisor",
            under(&host_a.hypervisor),
            under(&host_b.hypervisor),
        ),
        ("tool", tool(a), tool(b)),
    ];
    all.retain(|(_, a, b)| a != b);
    let hosts = all.into_iter().map(|(name, a, b)| (name.to_owned(), a, b));
    let targets = a.plan.targets.iter().filter_map(|target| {
        let other = b
            .plan
            .targets
            .iter()
            .find(|other| other.name == target.name)?;
        let says = |target: &Target| match &target.missing {
            Some(_) => "missing".to_owned(),
            None => target.version.join(", "),
        };
        (says(target) != says(other)).then(|| (target.name.clone(), says(target), says(other)))
    });
    hosts.chain(targets).collect()
}

fn tool(experiment: &Experiment) -> String {
    let tool = &experiment.plan.tool;
    format!("{} {}, {}", tool.name, tool.version, tool.tls)
}

/// Scenarios that only one of the two has, or of which nothing in common was read.
pub(super) fn left_aside(a: &Experiment, b: &Experiment, pairs: &[Pair<'_>]) -> Vec<String> {
    let names = |experiment: &Experiment| -> BTreeSet<String> {
        let scenarios = experiment.plan.scenarios.iter();
        scenarios.map(|scenario| scenario.name.clone()).collect()
    };
    let paired: BTreeSet<String> = pairs.iter().map(|pair| pair.id().to_owned()).collect();
    let all: BTreeSet<String> = names(a).union(&names(b)).cloned().collect();
    all.difference(&paired).cloned().collect()
}
