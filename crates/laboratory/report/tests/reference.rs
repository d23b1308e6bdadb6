//! Tests that `docs/reference/record.md` describes every field, and that its example is a record.
//! `BLESS=1` rewrites the example.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

mod made;

use measure::record::{LoadRecord, to_json};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/record.md");

/// Returns the document, a line for each field of the record.
fn lines_of(json: &str) -> String {
    let mut text = String::new();
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    for character in json.chars() {
        if !in_string && depth == 1 && character == '}' {
            text.push('\n');
        }
        text.push(character);
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => in_string = !in_string,
            '{' | '[' if !in_string => depth += 1,
            '}' | ']' if !in_string => depth -= 1,
            _ => {}
        }
        if !in_string && depth == 1 && matches!(character, ',' | '{') {
            text.push_str("\n  ");
        }
    }
    text
}

/// Returns the names of all fields.
fn names(json: &str) -> Vec<&str> {
    let ends = json.match_indices("\":").map(|(end, _)| &json[..end]);
    ends.map(|before| &before[before.rfind('"').unwrap() + 1..]).collect()
}

#[test]
fn the_example_is_a_record() {
    let page = std::fs::read_to_string(PATH).unwrap();
    let (before, rest) = page.split_once("```json\n").unwrap();
    let (example, after) = rest.split_once("```\n").unwrap();
    let wanted = lines_of(&to_json(&made::tiny())) + "\n";
    if std::env::var_os("BLESS").is_some() {
        let page = format!("{before}```json\n{wanted}```\n{after}");
        std::fs::write(PATH, page).unwrap();
    } else {
        assert_eq!(example, wanted);
    }
    assert_eq!(LoadRecord::parse(&wanted).unwrap(), made::tiny());
}

#[test]
fn every_field_is_described() {
    let page = std::fs::read_to_string(PATH).unwrap();
    let (before, _) = page.split_once("## Example").unwrap();
    let json = to_json(&made::ramp());
    let fields = names(&json);
    assert!(fields.len() > 80);
    let reasons: Vec<String> = made::ramp().failures.into_keys().collect();
    for field in fields {
        let is_described = before.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-');
        let mut is_described = is_described.filter(|word| *word == field);
        assert!(is_described.next().is_some() || reasons.iter().any(|it| it == field), "{field}");
    }
}

#[test]
fn every_number_of_a_page_is_described() {
    let page = std::fs::read_to_string(PATH).unwrap();
    let (_, described) = page.split_once("## Numbers of a page").unwrap();
    let html = made::report(&[made::ramp()]).html();
    for id in described.split('`').filter(|word| word.starts_with("r1-") && *word != "r1-") {
        let id = id.replace("KIND", "full").replace("PART", "total").replace("REASON", "timeout");
        let is_elsewhere = id == "r1-bandwidth";
        let is_there = html.contains(&format!("id=\"{id}\" data-value="));
        assert!(is_there || is_elsewhere, "{id}");
    }
}
