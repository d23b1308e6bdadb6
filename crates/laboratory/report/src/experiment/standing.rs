//! Who is ahead, in a few lines: what a report begins with.
//!
//! Figures of cells are judged against the first target's in the same cell. The main figure of each
//! scenario is counted, the others are listed: several figures of a reading go together, and
//! counted one by one would tell the same thing several times. What is counted holds for all that
//! is counted ([`holm`]); what is listed, and what tables show, each by its own interval.

use std::collections::BTreeMap;

use measure::experiment::Target;
use measure::holm;

use super::found::Found;
use super::limits::BUSY_MIN;
use super::study::{Case, Group, base, is_rival};
use super::versus::{ROUNDS_MIN, Verdict, Versus, versus};
use super::words::{digits, listed};
use super::yardstick::Yardstick;

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    /// The one that others are compared with.
    pub(crate) first: String,
    /// The first figure of each scenario: what is counted.
    pub(crate) main: Lists,
    /// All other figures.
    pub(crate) further: Lists,
    /// What it has no figure for and others have: scenario, and the cells with the reason.
    pub(crate) lacks: Vec<(String, String)>,
    /// Main figures that differ by their own interval, but not among all of them.
    pub(crate) alone: Lists,
    /// Targets that do other work and are no rivals, with what they do.
    pub(crate) apart: Vec<(String, &'static str)>,
}

/// Comparisons by what they say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    /// Where a target is ahead of the first.
    pub(crate) ahead: Vec<Line>,
    /// Where no difference is established.
    pub(crate) level: Vec<Line>,
    /// Where the first is ahead.
    pub(crate) behind: Vec<Line>,
    /// Where the figure tells of what loaded the server.
    pub(crate) of_load: Vec<Line>,
    /// How many comparisons have too few rounds.
    pub(crate) unjudged: usize,
}

/// A target's figure in a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The scenario's name.
    pub(crate) scenario: String,
    /// Where it stands on a page.
    pub(crate) anchor: String,
    /// What is compared.
    pub(crate) figure: String,
    pub(crate) target: String,
    /// In which combinations of levels, and by how much it differs. Never empty.
    pub(crate) found: Vec<(String, Found)>,
}

impl Standing {
    /// Of scenarios, in their order.
    pub(crate) fn of<'c, 'e: 'c>(cases: impl Iterator<Item = &'c Case<'e>> + Clone) -> Self {
        let chances: Vec<f64> = cases.clone().flat_map(chances).collect();
        let mut established = holm::established(&chances).into_iter();
        let mut standing = Self::default();
        for case in cases {
            standing.take(case, &mut established);
        }
        standing
    }

    /// Adds what a scenario says, and what is established of its main figures, in the order of
    /// [`chances`].
    fn take(&mut self, case: &Case<'_>, established: &mut impl Iterator<Item = bool>) {
        let Some(first) = case.targets.first() else {
            return;
        };
        if self.first.is_empty() {
            self.first.clone_from(&first.name);
        }
        self.take_lacks(case);
        for (index, target) in case.targets.iter().enumerate() {
            let Some(base) = base(&case.targets, index) else {
                continue;
            };
            if is_rival(target, case.targets[base]) {
                self.take_target(case, index, established);
                continue;
            }
            let other = (target.name.clone(), other_work(target));
            if !self.apart.contains(&other) {
                self.apart.push(other);
            }
        }
    }

    fn take_target(
        &mut self,
        case: &Case<'_>,
        index: usize,
        established: &mut impl Iterator<Item = bool>,
    ) {
        for (place, yardstick) in case.yardsticks.iter().enumerate() {
            let (lists, is_main) = match place {
                0 => (&mut self.main, true),
                _ => (&mut self.further, false),
            };
            let mut found: BTreeMap<(Verdict, bool), Vec<(String, Found)>> = BTreeMap::new();
            for group in &case.groups {
                let Some(versus) = judged(group, index, *yardstick) else {
                    continue;
                };
                let verdict = versus.verdict;
                let is_one = is_main && is_counted(verdict) && established.next() != Some(true);
                let is_alone = is_one && verdict != Verdict::Level;
                let cell = (group.title(), versus.found);
                found.entry((verdict, is_alone)).or_default().push(cell);
            }
            for ((verdict, is_alone), found) in found {
                let line = Line {
                    scenario: case.scenario.name.clone(),
                    anchor: case.anchor(),
                    figure: yardstick.title(&case.scenario.operation),
                    target: case.targets[index].name.clone(),
                    found,
                };
                match is_alone {
                    true => self.alone.take(verdict, line),
                    false => lists.take(verdict, line),
                }
            }
        }
    }

    /// Cells that others did and the first did not.
    fn take_lacks(&mut self, case: &Case<'_>) {
        for group in &case.groups {
            let Some(first) = group.first() else {
                continue;
            };
            let Some(gap) = first.gap() else {
                continue;
            };
            let others = group.entries.iter().skip(1);
            let did = others.filter(|entry| !entry.readings.is_empty() && first.is_rival_of(entry));
            let did: Vec<&str> = did.map(|entry| entry.target.name.as_str()).collect();
            if did.is_empty() {
                continue;
            }
            let cell = [
                group.title(),
                format!("{}, {} did it", gap.way, did.join(", ")),
            ];
            let parts: Vec<&str> = cell
                .iter()
                .map(String::as_str)
                .filter(|it| !it.is_empty())
                .collect();
            let why = if gap.why.is_empty() {
                String::new()
            } else {
                format!(" ({})", gap.why)
            };
            self.lacks
                .push((case.scenario.name.clone(), parts.join(": ") + &why));
        }
    }

    /// How many comparisons are counted of each verdict: ahead, level, behind. What differs by its
    /// own interval alone is level.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let (main, alone) = (&self.main, &self.alone);
        let level = count(&main.level) + count(&alone.ahead) + count(&alone.behind);
        [count(&main.ahead), level, count(&main.behind)]
    }

    /// All of it in a few sentences.
    pub(crate) fn headline(&self) -> String {
        let first = &self.first;
        let [ahead, level, behind] = self.counts();
        let all = ahead + level + behind;
        let unjudged = self.main.unjudged;
        if all == 0 {
            return self.nothing();
        }
        let targets = match ahead {
            0 => format!("No target is ahead of {first} in any of {all} comparisons"),
            1 => format!("A target is ahead of {first} in 1 of {all} comparisons"),
            _ => format!("Targets are ahead of {first} in {ahead} of {all} comparisons"),
        };
        let unjudged = match unjudged {
            0 => String::new(),
            _ => format!(" Not judged, with fewer than {ROUNDS_MIN} rounds: {unjudged}."),
        };
        format!(
            "{targets}; in {level} no difference is established; in {behind} {first} is ahead. A \
             comparison is a scenario's main figure in one cell; that holds of all of them \
             together at 95 %, by Holm's method (1979).{}{unjudged}",
            self.alone()
        )
    }

    /// What is not established since there are so many others.
    fn alone(&self) -> String {
        let (first, alone) = (&self.first, &self.alone);
        let (theirs, ours) = (count(&alone.ahead), count(&alone.behind));
        match (theirs, ours) {
            (0, 0) => String::new(),
            (theirs, 0) => {
                format!(" By its own 95 % interval alone a target is ahead in {theirs} more.")
            }
            (0, ours) => {
                format!(" By its own 95 % interval alone {first} is ahead in {ours} more.")
            }
            (theirs, ours) => format!(
                " By its own 95 % interval alone a target is ahead in {theirs} more, and {first} in \
                 {ours} more."
            ),
        }
    }

    /// Why nothing is judged.
    fn nothing(&self) -> String {
        let of_load = count(&self.main.of_load);
        match self.main.unjudged {
            0 if of_load > 0 => format!(
                "Nobody is ahead: every comparison ({of_load}) is of a figure that tells of what \
                 loaded the server."
            ),
            0 => "Nothing can be compared: no cell was read of two targets that do the same work."
                .to_owned(),
            unjudged => format!(
                "Nobody is ahead: every comparison ({unjudged}) has fewer than {ROUNDS_MIN} rounds \
                 that can be judged, in which a difference cannot be told from noise. Repeat the \
                 run with `--repeats {ROUNDS_MIN}` or more, on a machine that does nothing else."
            ),
        }
    }

    /// What is not counted since it tells of the load, in a sentence; `None` if all is.
    pub(crate) fn of_load(&self) -> Option<String> {
        let lines = || self.main.of_load.iter().chain(&self.further.of_load);
        let mut names: Vec<String> = Vec::new();
        for line in lines() {
            let name = format!("{} ({})", line.scenario, line.figure);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let all: usize = lines().map(|line| line.found.len()).sum();
        (all > 0).then(|| {
            format!(
                "○ closed loads in which a server shared its CPUs, or had them idle for more than \
                 {:.0} % of the time, and which so tell of what loaded it ({all}): {}",
                (1.0 - BUSY_MIN) * 100.0,
                listed(&names)
            )
        })
    }

    /// Who is no rival, in a sentence; `None` if all are.
    pub(crate) fn apart(&self) -> Option<String> {
        let names = self.apart.iter().map(|(name, why)| format!("{name} {why}"));
        let names: Vec<String> = names.collect();
        (!names.is_empty()).then(|| format!("who does other work: {}", names.join("; ")))
    }
}

impl Lists {
    fn take(&mut self, verdict: Verdict, line: Line) {
        match verdict {
            Verdict::Ahead => self.ahead.push(line),
            Verdict::Level => self.level.push(line),
            Verdict::Behind => self.behind.push(line),
            Verdict::OfLoad => self.of_load.push(line),
            Verdict::Unjudged => self.unjudged += line.found.len(),
            Verdict::Apart => {}
        }
    }
}

fn count(lines: &[Line]) -> usize {
    lines.iter().map(|line| line.found.len()).sum()
}

/// What a target does that is no rival.
fn other_work(target: &Target) -> &'static str {
    match (target.scheme.as_str(), target.serves.as_str()) {
        ("http", _) => "does no TLS, and shows what TLS costs",
        (_, "itself") => "answers itself, and relays nothing",
        _ => "relays",
    }
}

fn judged(group: &Group<'_>, index: usize, yardstick: Yardstick) -> Option<Versus> {
    let entry = group.entries.get(index)?;
    versus(entry, group.base_of(entry)?, yardstick)
}

/// Whether a comparison is one of those that are counted.
fn is_counted(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Ahead | Verdict::Level | Verdict::Behind)
}

/// How likely equals differ so much by chance, of each main figure that is counted.
fn chances<'c>(case: &'c Case<'_>) -> impl Iterator<Item = f64> + 'c {
    let is_judged = |index: &usize| {
        let base = base(&case.targets, *index);
        base.is_some_and(|base| is_rival(case.targets[*index], case.targets[base]))
    };
    let rivals = (0..case.targets.len()).filter(is_judged);
    let versus = rivals.flat_map(|index| {
        let main = case.yardsticks.first();
        let groups = case.groups.iter();
        groups.filter_map(move |group| judged(group, index, *main?))
    });
    let counted = versus.filter(|versus| is_counted(versus.verdict));
    counted.map(|versus| versus.found.chance().unwrap_or(1.0))
}

/// Lines about the same figure of the same scenario, together.
pub(crate) fn topics(lines: &[Line]) -> Vec<Vec<&Line>> {
    let mut topics: Vec<Vec<&Line>> = Vec::new();
    for line in lines {
        let is_it = |topic: &&mut Vec<&Line>| {
            let mut lines = topic.iter();
            lines.any(|it| it.anchor == line.anchor && it.figure == line.figure)
        };
        match topics.iter_mut().find(is_it) {
            Some(topic) => topic.push(line),
            None => topics.push(vec![line]),
        }
    }
    topics
}

impl Line {
    /// Each cell with its interval: `AES-128 12 % less (9.0 to 15 %), …`.
    pub(crate) fn in_full(&self) -> String {
        let part = |(title, found): &(String, Found)| match title.as_str() {
            "" => found.in_full(),
            title => format!("{title}: {}", found.in_full()),
        };
        self.found.iter().map(part).collect::<Vec<_>>().join("; ")
    }

    /// One cell in full, several by the range of their ratios where all have one.
    pub(crate) fn in_short(&self) -> String {
        let ratio = |(_, found): &(String, Found)| match found {
            Found::Ratio(ratio) => Some(ratio.ratio),
            Found::Margin(..) => None,
        };
        let ratios: Option<Vec<f64>> = self.found.iter().map(ratio).collect();
        let Some(mut ratios) = ratios.filter(|ratios| ratios.len() > 1) else {
            return self.in_full();
        };
        ratios.sort_by(f64::total_cmp);
        format!(
            "{}× to {}× in {} cells",
            digits(ratios[0]),
            digits(ratios[ratios.len() - 1]),
            ratios.len()
        )
    }

    /// The names of its cells; empty where there is only one.
    pub(crate) fn cells(&self) -> String {
        let titles: Vec<&str> = self.found.iter().map(|(title, _)| title.as_str()).collect();
        titles.join("; ")
    }
}
