//! Defines the options of a load: one table, which makes the command line, the plan file, the help
//! and the reference.
//!
//! [`WrittenLoad`] is a load as written, [`UnresolvedPlan`] its meaning without contradictions, and
//! a [`crate::plan::LoadPlan`] is that with an address. Resolves no name.

mod arriving;
mod requests;
mod tls;
mod unresolved_plan;
pub mod url;
pub mod value;
pub mod written;

use options::{Node, Report};

pub use unresolved_plan::UnresolvedPlan;
pub use value::{CapacityLimit, Files, Search};
pub use written::{TABLE, WrittenLoad};

/// Reads a load as written, and makes its plan. `allowed_cpus` are those that this program may run
/// on. `None` if there are errors, all of which have been reported.
pub fn read<'a>(
    root: &'a Node,
    files: Files<'_>,
    allowed_cpus: &[u16],
    report: &'a Report<'a>,
) -> Option<(WrittenLoad<'a>, UnresolvedPlan)> {
    options::check(root, &TABLE, report);
    let misshapen = report.errors();
    let load = WrittenLoad::of_root(root, report);
    // Values that were not read cannot contradict each other.
    if report.errors() > misshapen {
        return None;
    }
    let plan = UnresolvedPlan::of(&load, files, allowed_cpus)?;
    (report.errors() == 0).then_some((load, plan))
}

/// Returns the arguments of `lariat-lab` for the same load, without a plan file.
pub fn command(root: &Node) -> Vec<String> {
    let mut words = options::flags::words(root, &TABLE);
    if let Some(place) = words.iter().position(|word| word == "--start-at") {
        // The start time has passed when the command is repeated.
        words.drain(place..place + 2);
    }
    if let Some(first) = words.first_mut() {
        // The URL stands without its flag.
        debug_assert_eq!(first, "--url");
        "load".clone_into(first);
    }
    words
}
