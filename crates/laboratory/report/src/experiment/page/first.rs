//! What the page begins with: who is ahead.

use crate::markup::{Element, element};

use super::super::standing::{Line, Standing, topics};

/// The sentence, and the three lists.
pub(super) fn section(standing: &Standing) -> Element {
    let section = element("section")
        .with("class", "card standing")
        .child(
            element("p")
                .with("class", "verdict")
                .prose(&standing.headline()),
        )
        .child(counts(standing));
    let first = &standing.first;
    let parts = [
        list(
            "ahead",
            "Where a target is ahead",
            &standing.main.ahead,
            Line::in_full,
        ),
        list(
            "ahead",
            "Where a target is ahead by its own interval alone",
            &standing.alone.ahead,
            Line::in_full,
        ),
        lacks(standing),
        list(
            "level",
            "Level: no difference is established",
            &standing.main.level,
            Line::cells,
        ),
        list(
            "behind",
            &format!("Where {first} is ahead: their figure to its own"),
            &standing.main.behind,
            Line::in_short,
        ),
        list(
            "behind",
            &format!("Where {first} is ahead by its own interval alone"),
            &standing.alone.behind,
            Line::in_short,
        ),
    ];
    let section = section.children(parts.into_iter().flatten());
    let section = section.children(not_counted(standing));
    section.children(further(standing))
}

/// The figures that are not counted.
fn further(standing: &Standing) -> impl Iterator<Item = Element> {
    let lists = &standing.further;
    let ahead = "Further figures: where a target is ahead";
    let behind = format!("Further figures: where {} is ahead", standing.first);
    let parts = [
        list("ahead", ahead, &lists.ahead, Line::in_full),
        list("level", "Further figures: level", &lists.level, Line::cells),
        list("behind", &behind, &lists.behind, Line::in_short),
    ];
    parts.into_iter().flatten()
}

/// A bar of three parts, as long as there are comparisons of each.
fn counts(standing: &Standing) -> Element {
    let counts = standing.counts();
    let all = counts.iter().sum::<usize>().max(1);
    let names = ["ahead", "level", "behind"];
    let parts = counts
        .into_iter()
        .zip(names)
        .filter(|(count, _)| *count > 0);
    let parts = parts.map(|(count, name)| {
        element("span")
            .with("class", name)
            .with("style", format!("flex-grow:{}", count as f64 / all as f64))
            .with("id", format!("standing-{name}"))
            .with("data-value", count)
            .text(count)
    });
    element("div")
        .with("class", "counts")
        .with("aria-hidden", "true")
        .children(parts)
}

/// More lines than this are folded away, but never those in which a target is ahead.
const LINES_MAX: usize = 6;

fn list(class: &str, title: &str, lines: &[Line], words: fn(&Line) -> String) -> Option<Element> {
    let topics = topics(lines);
    if topics.is_empty() {
        return None;
    }
    let items = topics.iter().map(|lines| topic(lines, words));
    let items = element("ul").children(items);
    let heading = |name| element(name).with("class", class).text(title);
    if class == "ahead" || topics.len() <= LINES_MAX {
        let part = element("div").child(heading("h3")).child(items);
        return Some(part.with("class", "part"));
    }
    let folded = element("details").child(heading("summary")).child(items);
    Some(folded.with("class", "part"))
}

fn topic(lines: &[&Line], words: fn(&Line) -> String) -> Element {
    let mut item = element("li");
    for (index, line) in lines.iter().enumerate() {
        if index == 0 {
            let link = element("a").with("href", format!("#{}", line.anchor));
            item = item
                .child(link.text(&line.scenario))
                .text(format!(", {}: ", line.figure));
        } else {
            item = item.text(" · ");
        }
        let words = words(line);
        item = item.child(element("b").text(&line.target));
        item = item.text(if words.is_empty() {
            words
        } else {
            format!(" {words}")
        });
    }
    item
}

fn lacks(standing: &Standing) -> Option<Element> {
    let items = standing.lacks.iter();
    let items = items.map(|(scenario, cell)| element("li").text(format!("{scenario}: {cell}")));
    let title = format!("What {} has no figure for, and others have", standing.first);
    (!standing.lacks.is_empty()).then(|| {
        element("div")
            .with("class", "part")
            .child(element("h3").with("class", "ahead").text(title))
            .child(element("ul").children(items))
    })
}

fn not_counted(standing: &Standing) -> impl Iterator<Item = Element> {
    let told = [standing.of_load(), standing.apart()];
    told.into_iter().flatten().map(|words| {
        let text = format!("Not counted: {words}.");
        element("p").with("class", "lead").text(text)
    })
}
