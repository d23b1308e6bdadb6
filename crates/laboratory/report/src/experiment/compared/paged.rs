//! Two experiments compared, as a page.

use crate::figure::{NARROW, WIDE};
use crate::hostile::harmless;
use crate::markup::{Element, element};
use crate::page::parts::{document, figure, logo, table};

use super::super::host;
use super::super::page::SHEET;
use super::drawn::losses;
use super::named::Named;
use super::pairs::Pair;
use super::told::{changes, differing, doubts, headline};

pub(super) fn html(a: Named<'_>, b: Named<'_>, pairs: &[Pair<'_>]) -> String {
    let title = harmless(&format!("{} compared with {}", b.name, a.name));
    let links = pairs.iter().map(|pair| {
        let href = format!("#c-{}", pair.id());
        element("a").with("href", href).text(pair.id())
    });
    let header = element("header")
        .child(element("h1").child(logo()).text(&title))
        .child(
            element("nav")
                .with("aria-label", "Scenarios")
                .children(links),
        );
    let sections = pairs.iter().map(|pair| section(a, pair));
    let main = element("main").child(first(a, b, pairs)).children(sections);
    let footer = element("footer").text(
        "A change is the ratio of geometric means, B to A; its interval is Student's t of the \
         logarithms with pooled deviations, at 95 %: of twenty such intervals, one misses.",
    );
    document(&title, SHEET, vec![header, main, footer])
}

fn first(a: Named<'_>, b: Named<'_>, pairs: &[Pair<'_>]) -> Element {
    let told = |letter: &'static str, named: Named<'_>| {
        let host = host::line(&named.experiment.plan.host);
        [
            element("dt").text(letter),
            element("dd").text(format!("{}, {host}", harmless(named.name))),
        ]
    };
    let doubts = doubts(a, b, pairs).into_iter();
    let doubts = doubts.map(|doubt| element("li").text(doubt));
    let differ = differing(a, b);
    element("section")
        .with("class", "card standing")
        .child(element("p").with("class", "verdict").text(headline(pairs)))
        .child(element("dl").children(told("A", a).into_iter().chain(told("B", b))))
        .children((!differ.is_empty()).then(|| table(&differ, "d")))
        .child(element("ul").children(doubts))
}

fn section(a: Named<'_>, pair: &Pair<'_>) -> Element {
    let mut card = element("section").with("class", "card");
    if let Some(drawn) = losses(pair, &a.experiment.plan.targets) {
        let id = format!("c-{}-loss", pair.id());
        card = card
            .child(figure(&drawn, &id, &[("wide", WIDE)]))
            .child(figure(
                &drawn,
                &format!("{id}-small"),
                &[("narrow", NARROW)],
            ));
    }
    let tables = pair.yardsticks.iter().map(|yardstick| {
        let prefix = format!("c-{}", pair.id());
        table(&changes(pair, *yardstick), &prefix)
    });
    element("article")
        .with("id", format!("c-{}", pair.id()))
        .child(element("h2").text(&pair.a.scenario.question))
        .child(card.children(tables))
}
