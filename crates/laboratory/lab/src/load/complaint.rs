//! What is said about a plan: what is wrong, where it was typed, and what to do about it.
//!
//! How it looks (place, line, caret, hint) is the crate `options`'s.

use options::diagnostic::{self, Problem, Severity};

use super::given::Spot;
use crate::console::Console;

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Complaint {
    /// The flag or key that it is about, if it is about one.
    pub(crate) subject: Option<String>,
    /// One sentence without a full stop.
    pub(crate) message: String,
    /// Where it was typed, if it was typed at all.
    pub(crate) spot: Option<Spot>,
    /// The remedy.
    pub(crate) hint: String,
}

/// The plan file that spots are in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    /// As it was given.
    pub(crate) path: &'a str,
    /// Its text.
    pub(crate) text: &'a str,
}

/// Prints them all, each with its place and remedy, and an empty line between two.
pub(crate) fn tell(complaints: &[Complaint], source: Option<Source<'_>>, console: Console) {
    let file = source.map(|source| (source.path, source.text));
    let rendered = complaints.iter().map(|one| {
        let diagnostic = diagnostic::Complaint {
            severity: Severity::Error,
            subject: one.subject.clone(),
            problem: Problem::new(&one.message).hint(&one.hint),
            spot: match &one.spot {
                Some(Spot::File(range)) => diagnostic::Spot::File(range.clone()),
                _ => diagnostic::Spot::Nowhere,
            },
        };
        diagnostic.at(file).render(console.colour())
    });
    console.say(rendered.collect::<Vec<_>>().join("\n\n"));
}
