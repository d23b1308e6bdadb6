//! Who is ahead, in a few lines: what a report begins with.
//!
//! Every figure of every cell is judged, of every peer that does TLS, against the first peer's in
//! the same cell. One that is not told is not ahead.

use std::collections::BTreeMap;

use measure::ratio::Ratio;

use super::study::{Case, Entry, Group};
use super::versus::{Verdict, Versus, versus};
use super::words::{difference, digits};
use super::yardstick::Yardstick;

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    /// The one that others are compared with.
    pub(crate) first: String,
    /// Where a peer is ahead of it.
    pub(crate) ahead: Vec<Line>,
    /// Where no difference is established.
    pub(crate) level: Vec<Line>,
    /// Where it is ahead.
    pub(crate) behind: Vec<Line>,
    /// What it has no figure for and others have: scenario, and the cells with the reason.
    pub(crate) lacks: Vec<(String, String)>,
    /// How many comparisons are of one round alone, which proves nothing.
    pub(crate) unjudged: usize,
    /// Peers without TLS, which are no rivals.
    pub(crate) plain: Vec<String>,
}

/// A peer's figure in a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The scenario's name.
    pub(crate) scenario: String,
    /// Where it stands on a page.
    pub(crate) anchor: String,
    /// What is compared.
    pub(crate) figure: String,
    pub(crate) peer: String,
    /// In which combinations of levels, and how many times as much. Never empty.
    pub(crate) found: Vec<(String, Ratio)>,
}

impl Standing {
    /// Of scenarios, in their order.
    pub(crate) fn of(cases: &[Case<'_>]) -> Self {
        let mut standing = Self::default();
        for case in cases {
            standing.take(case);
        }
        standing
    }

    /// Adds what a scenario says.
    pub(crate) fn take(&mut self, case: &Case<'_>) {
        let Some(first) = case.peers.first() else {
            return;
        };
        if self.first.is_empty() {
            self.first.clone_from(&first.name);
        }
        self.take_lacks(case);
        for (index, peer) in case.peers.iter().enumerate().skip(1) {
            let mut entries = case.groups.iter().map(|group| &group.entries[index]);
            if !entries.any(Entry::is_plain) {
                self.take_peer(case, index);
            } else if !self.plain.contains(&peer.name) {
                self.plain.push(peer.name.clone());
            }
        }
    }

    fn take_peer(&mut self, case: &Case<'_>, index: usize) {
        for yardstick in &case.yardsticks {
            let mut found: BTreeMap<Verdict, Vec<(String, Ratio)>> = BTreeMap::new();
            for group in &case.groups {
                let Some(versus) = judged(group, index, *yardstick) else {
                    continue;
                };
                let cell = (group.title(), versus.ratio);
                found.entry(versus.verdict).or_default().push(cell);
            }
            for (verdict, found) in found {
                self.take_line(
                    verdict,
                    Line {
                        scenario: case.scenario.name.clone(),
                        anchor: case.anchor(),
                        figure: yardstick.title(&case.scenario.operation),
                        peer: case.peers[index].name.clone(),
                        found,
                    },
                );
            }
        }
    }

    fn take_line(&mut self, verdict: Verdict, line: Line) {
        match verdict {
            Verdict::Ahead => self.ahead.push(line),
            Verdict::Level => self.level.push(line),
            Verdict::Behind => self.behind.push(line),
            Verdict::Unjudged => self.unjudged += line.found.len(),
            Verdict::Apart => {}
        }
    }

    /// Cells that others did and the first did not.
    fn take_lacks(&mut self, case: &Case<'_>) {
        for group in &case.groups {
            let Some(gap) = group.first().and_then(|first| first.gap()) else {
                continue;
            };
            let others = group.entries.iter().skip(1);
            let did = others.filter(|entry| !entry.readings.is_empty() && !entry.is_plain());
            let did: Vec<&str> = did.map(|entry| entry.peer.name.as_str()).collect();
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

    /// How many comparisons there are of each verdict: ahead, level, behind.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let count = |lines: &[Line]| lines.iter().map(|line| line.found.len()).sum();
        [count(&self.ahead), count(&self.level), count(&self.behind)]
    }

    /// All of it in a sentence or two.
    pub(crate) fn headline(&self) -> String {
        let first = &self.first;
        let [ahead, level, behind] = self.counts();
        let all = ahead + level + behind;
        if all == 0 && self.unjudged > 0 {
            return format!(
                "Nobody is ahead: all {} comparisons are of one round, in which a difference \
                 cannot be told from noise. Repeat the run with `--repeats 3` or more.",
                self.unjudged
            );
        }
        if all == 0 {
            return "Nothing can be compared: no cell was read of two peers that do TLS."
                .to_owned();
        }
        let peers = match ahead {
            0 => format!("No peer is ahead of {first} in any of {all} comparisons"),
            1 => format!("A peer is ahead of {first} in 1 of {all} comparisons"),
            _ => format!("Peers are ahead of {first} in {ahead} of {all} comparisons"),
        };
        format!(
            "{peers}; in {level} no difference is established; in {behind} {first} is ahead. A \
             comparison is one figure of one cell, by the 95 % interval of its ratio."
        )
    }
}

fn judged(group: &Group<'_>, index: usize, yardstick: Yardstick) -> Option<Versus> {
    versus(group.entries.get(index)?, group.first()?, yardstick)
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
        let part = |(title, ratio): &(String, Ratio)| match title.as_str() {
            "" => difference(ratio),
            title => format!("{title}: {}", difference(ratio)),
        };
        self.found.iter().map(part).collect::<Vec<_>>().join("; ")
    }

    /// One cell in full, several by the range of their ratios.
    pub(crate) fn in_short(&self) -> String {
        let [_, _, ..] = self.found.as_slice() else {
            return self.in_full();
        };
        let ratios = self.found.iter().map(|(_, ratio)| ratio.ratio);
        let (least, greatest) = ratios.fold((f64::MAX, 0.0_f64), |(least, greatest), ratio| {
            (least.min(ratio), greatest.max(ratio))
        });
        format!(
            "{}× to {}× in {} cells",
            digits(least),
            digits(greatest),
            self.found.len()
        )
    }

    /// The names of its cells; empty where there is only one.
    pub(crate) fn cells(&self) -> String {
        let titles: Vec<&str> = self.found.iter().map(|(title, _)| title.as_str()).collect();
        titles.join("; ")
    }
}
