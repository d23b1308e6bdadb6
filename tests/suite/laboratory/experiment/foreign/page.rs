//! Reports and comparisons of experiments, from a stored record: as text, as a page in a browser,
//! as files; and refusals.

use suite::chromium::{assert_drawn, draw, dump_page, value};
use suite::lab::Folder;
use suite::prelude::*;

/// A record that was made once and is kept.
const RECORD: &str =
    include_str!("../../../../../crates/laboratory/report/tests/records/experiment.jsonl");

const TEXT: &str =
    include_str!("../../../../../crates/laboratory/report/tests/text/experiment.txt");

fn desk() -> Folder {
    Folder::with(&[("run.jsonl", RECORD)])
}

/// Returns the page as a browser shows it.
fn shown(desk: &Folder, name: &str) -> String {
    dump_page(&format!("file://{}", desk.path(name).display()), 1000)
}

/// Returns the server's CPU time per operation of a target, by round, from the record.
fn cpu_ns(target: &str) -> Vec<f64> {
    let lines = RECORD.lines().map(|line| serde_json::from_str(line).unwrap());
    let is_it = |event: &Value| {
        event["event"] == "measured"
            && event["scenario"] == "implementations"
            && event["configuration"] == format!("target={target}")
    };
    let measurements = lines.filter(is_it);
    measurements
        .map(|it| it["server_cpu_ns"].as_f64().unwrap() / it["operations"].as_f64().unwrap())
        .collect()
}

#[test]
fn text_is_what_it_was() {
    let told = desk().run("report run.jsonl");
    assert_eq!(told.code(), 0, "{told:?}");
    assert_eq!(told.stdout, TEXT);
}

#[test]
fn chromium_shows_the_numbers_of_the_record() {
    let desk = desk();
    assert_eq!(desk.run("report run.jsonl -o page.html").code(), 0);
    let page = shown(&desk, "page.html");
    let (ours, theirs) = (cpu_ns("lariat"), cpu_ns("stunnel"));
    assert_eq!((ours.len(), theirs.len()), (3, 3));
    let mut sorted = ours.clone();
    sorted.sort_by(f64::total_cmp);
    let shown = value(&page, "e1-implementations-lariat-server-cpu");
    assert!((shown / sorted[1] - 1.0).abs() < 1e-9, "{shown} {sorted:?}");
    let product: f64 = theirs.iter().zip(&ours).map(|(above, below)| above / below).product();
    let ratio = value(&page, "e1-implementations-stunnel-server-cpu-ratio");
    assert!((ratio / product.cbrt() - 1.0).abs() < 1e-9, "{ratio}");
    // The docs show it: `PICTURES=docs/pictures` draws it anew.
    assert_drawn(&draw(&format!("file://{}", desk.path("page.html").display()), "report"));
    // The finding comes first, then the command, and the bars that the browser drew.
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    let finding = place("26 comparisons with lariat, the reference: 1 better");
    let lists = place("Main metrics, compared with those of lariat");
    let command = place("lariat-lab run <b>--quick </b><b>--seed </b>7");
    assert!(finding < lists && lists < command && command < place("class=\"bar blue\""));
}

#[test]
fn the_page_asks_nobody_for_anything() {
    let desk = desk();
    assert_eq!(desk.run("report run.jsonl -o page.html").code(), 0);
    assert_eq!(desk.run("compare run.jsonl run.jsonl -o both.html").code(), 0);
    for page in ["page.html", "both.html"] {
        let source = desk.read(page);
        for elsewhere in ["<script", "<link", "<iframe", "src=", "href=\"http", "url("] {
            assert!(!source.contains(elsewhere), "{page}: {elsewhere}");
        }
    }
}

#[test]
fn figures_and_sheets_keep_their_names() {
    let desk = desk();
    let told = desk.run("report run.jsonl --svg figures --csv data");
    assert_eq!(told.code(), 0, "{told:?}");
    let figure = desk.read("figures/implementations-server-cpu.svg");
    assert_has(&figure, "prefers-color-scheme: dark");
    let configurations = desk.read("data/run-configurations.csv");
    let of_ours = |line: &&str| line.starts_with("implementations,target=lariat,");
    assert_eq!(configurations.lines().filter(of_ours).count(), 3);
    assert!(desk.read("data/run-measurements.csv").lines().count() > 300);
}

#[test]
fn two_platforms_are_compared() {
    let desk = desk();
    let other = RECORD.replace("\"hypervisor\":\"KVM\"", "\"hypervisor\":\"Xen\"");
    desk.0.write("xen.jsonl", &other);
    let told = desk.run("compare run.jsonl xen.jsonl");
    assert_eq!(told.code(), 0, "{told:?}");
    told.assert_stdout("better in 0 and worse in 0");
    let has = |words: &[&str]| {
        let mut lines = told.stdout.lines();
        lines.any(|line| line.split_whitespace().eq(words.iter().copied()))
    };
    assert!(has(&["hypervisor", "KVM", "Xen"]), "{told:?}");
    let told = desk.run("compare run.jsonl xen.jsonl -o loss.html --svg figures");
    assert_eq!(told.code(), 0, "{told:?}");
    assert!(shown(&desk, "loss.html").contains("In what they differ"));
    let figure = desk.read("figures/compared-object-sizes.svg");
    assert_has(&figure, "loss of succeeded per second against the first, %");
}

#[test]
fn what_has_nothing_in_common_is_not_compared() {
    let desk = desk();
    let began = RECORD.lines().next().unwrap().to_owned() + "\n";
    desk.0.write("unread.jsonl", &began);
    let told = desk.run("compare run.jsonl unread.jsonl");
    told.assert_fails(2, &["no configuration in common"]);
    let page = include_str!("../../../../../docs/reference/record.md");
    let (_, rest) = page.split_once("```json\n").unwrap();
    desk.0.write("load.json", rest.split_once("```\n").unwrap().0);
    for words in ["compare run.jsonl load.json", "report load.json run.jsonl"] {
        let told = desk.run(words);
        assert_eq!(told.code(), 2, "{words}");
        told.assert_stderr("no metric in common");
    }
    let told = desk.run("compare load.json load.json");
    assert_eq!(told.code(), 0, "{told:?}");
    assert_eq!(desk.run("compare run.jsonl").code(), 2);
}

#[test]
fn damage_and_age_are_told() {
    let desk = desk();
    desk.0.write("new.jsonl", "{\"event\":\"began\",\"format\":900}\n");
    desk.0.write("bad.jsonl", RECORD.replacen("\"event\":\"measured\"", "\"event\":\"measur\"", 1));
    let told = desk.run("report new.jsonl run.jsonl bad.jsonl");
    assert_eq!(told.code(), 6, "the one that can be read is told");
    told.assert_stderr("a newer lariat-lab wrote it");
    told.assert_stderr("line 2 is damaged");
    assert_eq!(told.stdout, TEXT);
    // A torn last line of a killed run is no damage.
    desk.0.write("torn.jsonl", &RECORD[..RECORD.len() - 20]);
    let told = desk.run("report torn.jsonl");
    assert_eq!(told.code(), 0, "{told:?}");
    told.assert_stdout("not complete: it was stopped");
}
