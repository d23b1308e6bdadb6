//! Two experiments compared, as text and as the tables that the page shows too.

use crate::hostile::harmless;
use crate::table::{Cell, Table};
use crate::tables::NONE;
use crate::terminal::{Ink, Look, wrap};

use super::super::words::{by_chance, listed, titled};
use super::super::yardstick::Yardstick;
use super::named::Named;
use super::pairs::{Pair, differences, left_aside};

pub(super) fn text(
    a: Named<'_>,
    b: Named<'_>,
    pairs: &[Pair<'_>],
    width: usize,
    colour: bool,
) -> String {
    let look = Look { width, colour };
    let mut text = String::new();
    for line in wrap(&headline(pairs), width) {
        text += &(look.paint(Ink::Strong, &line) + "\n");
    }
    text += &look.field("A", &harmless(a.name));
    text += &look.field("B", &harmless(b.name));
    let differ = differing(a, b);
    if !differ.is_empty() {
        text += &format!("\n{}", look.table("In what they differ", &differ));
    }
    for pair in pairs {
        let Some(main) = pair.yardsticks.first() else {
            continue;
        };
        let title = format!("{}: {}", pair.id(), caption(pair, *main));
        text.push('\n');
        for line in wrap(&harmless(&title), width) {
            text += &(look.paint(Ink::Strong, &line) + "\n");
        }
        text += &look.table("", &changes(pair, *main));
    }
    for doubt in doubts(a, b, pairs) {
        text += &format!("\n{}", look.labelled(Ink::Warning, "doubt", &doubt));
    }
    text
}

/// How many main figures of cells changed, and how.
pub(super) fn headline(pairs: &[Pair<'_>]) -> String {
    use super::super::versus::Verdict;
    let (mut counts, mut others) = ([0_usize; 3], 0_usize);
    for pair in pairs {
        let Some(main) = pair.yardsticks.first() else {
            continue;
        };
        for (group, entry) in pair.a.entries() {
            let change = pair.change(group, entry, *main);
            match change.filter(|it| it.found.is_some()).map(|it| it.verdict) {
                Some(Verdict::Ahead) => counts[0] += 1,
                Some(Verdict::Level) => counts[1] += 1,
                Some(Verdict::Behind) => counts[2] += 1,
                Some(Verdict::OfLoad | Verdict::Unjudged | Verdict::Apart) => others += 1,
                None => {}
            }
        }
    }
    let [better, level, worse] = counts;
    let all = better + level + worse;
    let others = match others {
        0 => String::new(),
        others => {
            format!(" Not judged: {others}, of fewer than 3 readings, or that tell of the load.")
        }
    };
    format!(
        "Of {all} comparisons of main figures B is better in {better} and worse in {worse}; in \
         {level} no difference is established. {}{others} Intervals tell what differs from \
         reading to reading, and leave out what differs from run to run.",
        by_chance(all)
    )
}

/// In what they differ beside their figures.
pub(super) fn differing(a: Named<'_>, b: Named<'_>) -> Table {
    let mut table = Table::new("In what they differ", &["<", "<A", "<B"]);
    for (name, a, b) in differences(a.experiment, b.experiment) {
        table.row([name, a, b].map(|text| Cell::of(harmless(&text))).to_vec());
    }
    table
}

/// What a table of changes is of.
pub(super) fn caption(pair: &Pair<'_>, yardstick: Yardstick) -> String {
    let better = if yardstick.is_cost() { "less" } else { "more" };
    format!(
        "{}, {} ({better} is better), and the change from A to B at 95 %",
        titled(&yardstick.title(&pair.a.scenario.operation)),
        yardstick.unit()
    )
}

/// A row a cell that either has.
pub(super) fn changes(pair: &Pair<'_>, yardstick: Yardstick) -> Table {
    let mut table = Table::new(&caption(pair, yardstick), &["<", "A", "B", "<change"]);
    for group in &pair.a.groups {
        if !group.levels.is_empty() {
            table.head(&harmless(&group.title()));
        }
        for entry in &group.entries {
            let name = Cell::of(harmless(&entry.target.name));
            let Some(found) = pair.change(group, entry, yardstick) else {
                let cells = [
                    name,
                    Cell::from(NONE),
                    Cell::from(NONE),
                    Cell::from("not read in both"),
                ];
                table.row(cells.to_vec());
                continue;
            };
            let sign = found.verdict.sign();
            let words = found
                .found
                .map_or_else(String::new, |it| format!("{sign} {}", it.as_change()));
            table.row(vec![
                name,
                Cell::of(yardstick.shown(found.a)),
                Cell::of(yardstick.shown(found.b)),
                Cell::of(words),
            ]);
        }
    }
    table
}

/// What makes a comparison doubtful, or was left aside.
pub(super) fn doubts(a: Named<'_>, b: Named<'_>, pairs: &[Pair<'_>]) -> Vec<String> {
    let mut doubts = Vec::new();
    let changed = pairs.iter().filter(|pair| pair.is_changed());
    let changed: Vec<String> = changed.map(|pair| pair.id().to_owned()).collect();
    if !changed.is_empty() {
        doubts.push(format!(
            "asked otherwise in B than in A: {}",
            listed(&changed)
        ));
    }
    let aside = left_aside(a.experiment, b.experiment, pairs);
    if !aside.is_empty() {
        doubts.push(format!(
            "left aside, since not read in both: {}",
            listed(&aside)
        ));
    }
    doubts
}
