//! `lariat-lab report` and its input files: it reads what it can, names what it cannot, and writes
//! to the named place.

use suite::lab::{Folder, command};
use suite::prelude::*;

/// Returns the example of the reference, which is a record.
fn example() -> &'static str {
    let page = include_str!("../../../docs/reference/record.md");
    let (_, rest) = page.split_once("```json\n").unwrap();
    rest.split_once("```\n").unwrap().0
}

#[test]
fn one_record_is_told_and_several_are_compared() {
    let desk = Folder::with(&[("a.json", example()), ("b.json", example())]);
    let one = desk.run("report a.json");
    assert_eq!((one.code(), one.stderr.as_str()), (0, ""));
    assert!(one.stdout.starts_with("2/s succeeded of 3/s, 1 failed (33.3 %)"), "{one:?}");
    assert!(one.stdout.contains("\nwarning: one of 3 transactions failed"));
    let two = desk.run("report a.json b.json");
    assert_eq!(two.code(), 0);
    two.assert_stdout("\nRuns\n");
    two.assert_stdout("1, 2  Succeeded per second");
    assert!(!two.stdout.contains('\u{1b}'));
}

#[test]
fn compressed_records_are_read_as_they_are() {
    let desk = Folder::with(&[("a.json", example())]);
    let plain = desk.run("report a.json");
    let mut gzip = Command::new("gzip");
    gzip.current_dir(desk.0.path());
    assert_eq!(run(gzip.arg("a.json")).code(), 0);
    let compressed = desk.run("report a.json.gz --csv sheets");
    assert_eq!(compressed.code(), 0, "{compressed:?}");
    assert_eq!(desk.run("report a.json.gz").stdout, plain.stdout);
    assert_eq!(desk.names("sheets"), ["a-latencies.csv", "a-seconds.csv"]);
}

#[test]
fn what_cannot_be_read_is_named_and_the_others_go_on() {
    let cut = &example()[..example().len() / 2];
    let newer = example().replacen("\"format\":3", "\"format\":900", 1);
    let files = [
        ("good.json", example()),
        ("cut.json", cut),
        ("newer.json", &newer),
        ("page.json", "<html>\u{1b}[31m"),
        ("odd.json", "{\"format\":3,\"\\u001b[31m\":1}"),
    ];
    let desk = Folder::with(&files);
    let told = desk.run("report missing.json cut.json newer.json page.json odd.json . good.json");
    assert_eq!(told.code(), 6, "{told:?}");
    assert!(told.stdout.starts_with("2/s succeeded"));
    let said = &told.stderr;
    for wanted in [
        "error: cannot read `missing.json`: No such file",
        "error: cannot read `cut.json`: ",
        "error: cannot read `newer.json`: a record of format 900; this build reads format 3",
        "hint: a newer lariat-lab wrote it",
        "error: cannot read `page.json`: this is no record",
        "error: cannot read `odd.json`: a damaged record",
        "hint: name the records in it: lariat-lab report DIR/*.json",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert!(!said.contains('\u{1b}'), "{said:?}");
    let none = desk.run("report missing.json -o page.html");
    assert_eq!(none.code(), 2);
    assert!(!desk.path("page.html").exists());
}

#[test]
fn pages_figures_and_sheets_are_written_where_they_were_wanted() {
    let desk = Folder::with(&[("a.json", example()), ("b.json", example())]);
    fs::create_dir(desk.path("old")).unwrap();
    fs::write(desk.path("old/a.json"), example()).unwrap();
    let told = desk.run("report a.json old/a.json b.json -o p.html --svg figures --csv new/sheets");
    assert_eq!((told.code(), told.stdout.as_str()), (0, ""), "{told:?}");
    let page = desk.read("p.html");
    assert!(page.starts_with("<!doctype html>") && page.contains("3 loads compared"));
    let sheets = desk.names("new/sheets");
    let wanted =
        ["a", "a-2", "b"].map(|it| [format!("{it}-latencies.csv"), format!("{it}-seconds.csv")]);
    let mut wanted = wanted.concat();
    wanted.sort();
    assert_eq!(sheets, wanted);
    let seconds = desk.read("new/sheets/b-seconds.csv");
    assert!(seconds.ends_with("\n0,3,2,1,2,0,1320000,1230000,1410000,1410000,0\n"), "{seconds}");
    let figures = desk.names("figures");
    assert!(figures.contains(&"a-2-time.svg".to_owned()), "{figures:?}");
    assert!(figures.contains(&"comparison.svg".to_owned()), "{figures:?}");
}

#[test]
fn a_record_is_never_written_over() {
    let desk = Folder::with(&[("a.json", example()), ("record.html", example())]);
    let told = desk.run("report a.json -o a.json");
    told.assert_fails(2, &["ends in .html"]);
    let told = desk.run("report record.html -o ./record.html");
    told.assert_fails(2, &["is one of the records"]);
    for name in ["a.json", "record.html"] {
        assert_eq!(desk.read(name), example());
    }
}

#[test]
fn what_cannot_be_written_is_named() {
    let desk = Folder::with(&[("a.json", example())]);
    let told = desk.run("report a.json -o nowhere/p.html");
    assert_eq!(told.code(), 1);
    assert!(told.stderr.contains("error: cannot write `nowhere/p.html`: "), "{told:?}");
    let told = desk.run("report a.json --csv a.json");
    told.assert_fails(1, &["error: cannot write `a.json`: "]);
    assert_eq!(desk.read("a.json"), example());
}

#[test]
fn a_record_comes_from_a_pipe_too() {
    let desk = Folder::with(&[("a.json", example())]);
    let mut shell = Command::new("sh");
    shell.current_dir(desk.0.path());
    shell.args(["-c", "cat a.json | \"$0\" report -"]);
    let told = run(shell.arg(command().get_program()));
    assert_eq!(told.code(), 0, "{told:?}");
    assert!(told.stdout.starts_with("2/s succeeded"));
}

/// The record is that of a run beside this project's figures.
#[test]
fn a_card_is_a_picture_of_one_claim() {
    let desk = Folder::with(&[]);
    let records = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reports/2026-11-25-sid");
    let card = |name: &str, (scenario, context): (&str, &str)| {
        let record = format!("{records}/{scenario}.jsonl.gz");
        let mut command = desk.command("report");
        run(command.args([&*record, "--card", name, "--context", context]))
    };
    let borne = ("implementations", "TLS 1.3, P-256, PSK");
    let at_capacity = "1 request, full handshake, offered, to capacity 1 ×";
    let doubtful = ("overload", at_capacity);
    assert_eq!(card("card.svg", borne).code(), 0);
    let svg = desk.read("card.svg");
    assert_has(&svg, ">lariat: 50 % less<");
    assert_eq!(card("card.png", borne).code(), 2);
    let refused = card("no.svg", doubtful);
    refused.assert_fails(2, &["does not bear that lariat is better than haproxy-tcp"]);
    assert!(!desk.path("no.svg").exists());
    let alone = desk.run("report a.json --context x");
    alone.assert_stderr("not provided:\n  --card <CARD.svg>");
}
