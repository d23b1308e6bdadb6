//! Diagnostics for programs.

use config::{Diagnostic, Place};
use serde::Serialize;

use super::host::Limit;

/// The form of the document; a later one may have more fields.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    good: bool,
    diagnostics: Vec<Entry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<Vec<Limit>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    severity: &'static str,
    file: Option<&'a str>,
    line: Option<usize>,
    column: Option<usize>,
    key: Option<&'a str>,
    message: &'a str,
    hint: Option<&'a str>,
}

/// One document, in one line.
pub(super) fn document(diagnostics: &[Diagnostic], good: bool, host: Option<Vec<Limit>>) -> String {
    let document = Document {
        version: VERSION,
        good,
        diagnostics: diagnostics.iter().map(entry).collect(),
        host,
    };
    let text = serde_json::to_string(&document).expect("texts and numbers can be written");
    text + "\n"
}

fn entry(diagnostic: &Diagnostic) -> Entry<'_> {
    let (file, line, column) = match &diagnostic.place {
        Place::File { path, line: 0, .. } => (Some(&**path), None, None),
        Place::File { path, line, column } => (Some(&**path), Some(*line), Some(*column)),
        Place::Flag(_) | Place::Nowhere => (None, None, None),
    };
    Entry {
        severity: diagnostic.severity.word(),
        file,
        line,
        column,
        key: diagnostic.subject.as_deref(),
        message: &diagnostic.message,
        hint: diagnostic.hint.as_deref(),
    }
}
