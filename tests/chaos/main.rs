//! Load of every kind while everything breaks, for any length of time: `./run-tests chaos`.
//!
//! The script and the promises are in `suite::chaos`.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;

use suite::chaos::journal::Journal;
use suite::chaos::run::{Plan, run};

fn main() -> ExitCode {
    let plan = Plan::of_environment("CHAOS", 600);
    let journal = Arc::new(Journal::default());
    run(&plan, &journal);
    journal.conclude("chaos", &plan.again("CHAOS"))
}
