//! Parses pages as far as a test needs, and checks the rules for all pages.

#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

use std::collections::BTreeSet;

/// Returns start tags as `(name, attributes)`, after checking that each is closed in order.
pub(crate) fn tags(page: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut open: Vec<String> = Vec::new();
    let mut tags = Vec::new();
    let mut rest = page.strip_prefix("<!doctype html>").unwrap();
    while let Some((_, after)) = rest.split_once('<') {
        let (inside, behind) = after.split_once('>').unwrap();
        rest = behind;
        if let Some(name) = inside.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let is_closed = inside.ends_with('/');
        let (name, words) = inside.trim_end_matches('/').split_once(' ').unwrap_or((inside, ""));
        tags.push((name.to_owned(), attributes(words)));
        if name == "style" {
            rest = rest.split_once("</style>").unwrap().1;
        } else if !is_closed && !["meta", "br"].contains(&name) {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    tags
}

fn attributes(mut words: &str) -> Vec<(String, String)> {
    let mut attributes = Vec::new();
    while let Some((name, after)) = words.split_once("=\"") {
        let (value, behind) = after.split_once('"').unwrap();
        attributes.push((name.trim().to_owned(), value.to_owned()));
        words = behind;
    }
    assert_eq!(words, "");
    attributes
}

/// Asserts that a page is well-formed, loads nothing, and names each id once.
pub(crate) fn assert_whole(name: &str, page: &str) {
    let mut ids = BTreeSet::new();
    let mut ends = Vec::new();
    for (tag, attributes) in tags(page) {
        assert!(!["script", "link", "img", "iframe"].contains(&tag.as_str()), "{name}: {tag}");
        for (key, value) in attributes {
            assert!(!key.starts_with("on") && key != "src", "{name}: {key}");
            assert!(key != "href" || value.starts_with('#'), "{name}: {value}");
            assert!(key != "id" || ids.insert(value.clone()), "{name}: {value} twice");
            match key.as_str() {
                "aria-labelledby" => ends.extend(value.split(' ').map(str::to_owned)),
                "href" => ends.push(value[1..].to_owned()),
                _ => {}
            }
        }
    }
    for end in ends {
        assert!(ids.contains(&end), "{name}: {end} is nowhere");
    }
    assert!(!page.contains("@import") && !page.contains("url("), "{name}");
}

/// Asserts that all values that must be numbers are.
pub(crate) fn assert_numbers(name: &str, page: &str) {
    const NUMBERS: &str = "d x y x1 x2 y1 y2 cx cy width height data-value";
    for (tag, attributes) in tags(page) {
        let is_number = |key: &str| NUMBERS.split(' ').any(|number| number == key);
        for (key, value) in attributes.iter().filter(|(key, _)| is_number(key)) {
            let is_letter = |c: char| c.is_alphabetic() && !"MLHVCvzheac".contains(c);
            assert!(!value.contains(is_letter), "{name}: {tag} {key} {value}");
        }
    }
}
