//! Any bytes as a status document, whose sender may be an attacker: the printed text holds no
//! control character but line feeds, is bounded, and nothing panics.
#![no_main]
#![allow(dead_code, reason = "a target reads; the program also writes")]

use libfuzzer_sys::fuzz_target;
use telemetry::printable::{is_control, lines};

// `lariat` is a program: its reader is part of no library.
#[path = "../../crates/terminator/daemon/src/admin/document.rs"]
mod document;
#[path = "../../crates/terminator/daemon/src/key_holder_status.rs"]
mod key_holder_status;
#[path = "../../crates/terminator/daemon/src/admin/paragraphs.rs"]
mod paragraphs;
#[path = "../../crates/terminator/daemon/src/status_parts.rs"]
mod status_parts;
#[path = "../../crates/terminator/daemon/src/admin/text.rs"]
mod text;
#[path = "../../crates/terminator/daemon/src/admin/units.rs"]
mod units;

use document::StatusDocument;
use text::render_status_text;

/// Bytes of text for each byte of the document: a row of a table has wide columns.
const GROWTH_MAX: usize = 100;

fn assert_printable(text: &str) {
    let hostile = text.chars().find(|c| is_control(*c) && !matches!(c, '\n' | '\t'));
    assert_eq!(hostile, None);
}

fuzz_target!(|bytes: &[u8]| {
    // As `status --json` prints it: a JSON document stays the same document.
    let text = String::from_utf8_lossy(bytes);
    let shown = lines(&text).to_string();
    assert_printable(&shown);
    let is_spaced = |c: char| c == '\r';
    if let Ok(value) = serde_json::from_str::<serde_json::Value>(&text)
        && !text.contains(is_spaced)
    {
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).ok(), Some(value));
    }
    match StatusDocument::from_json(bytes) {
        Ok(document) => {
            let text = render_status_text(&document, Some(&document));
            assert!(!text.contains('\t') || document.last_reload.is_some());
            assert_printable(&text);
            assert!(text.len() <= 4096 + GROWTH_MAX * bytes.len(), "{}", text.len());
            let mut earlier = document.clone();
            earlier.time_ms = 0;
            render_status_text(&document, Some(&earlier));
        }
        Err(error) => assert_printable(&error.to_string()),
    }
});
