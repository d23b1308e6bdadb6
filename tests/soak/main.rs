//! Load of every kind for hours, in which nothing may grow: `./run-tests soak`.
//!
//! The script and the promises are in `suite::chaos::soak`; this program writes the table.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::{env, fs};

use suite::chaos::journal::Journal;
use suite::chaos::run::Plan;
use suite::chaos::soak::{soak, table};

fn main() -> ExitCode {
    let plan = Plan::of_environment("SOAK", 3600);
    let journal = Arc::new(Journal::default());
    let samples = soak(&plan, &journal);
    let path = folder().join("soak.csv");
    fs::write(&path, table(&samples)).expect("cargo's folder is writable");
    println!("{}", path.display());
    journal.conclude("soak", &plan.again("SOAK"))
}

/// Returns `soak` beside the profiles in cargo's target folder.
fn folder() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let target = test.ancestors().nth(3);
    let folder = target.expect("cargo puts tests into target/PROFILE/deps");
    let folder = folder.join("soak");
    fs::create_dir_all(&folder).expect("cargo's folder is writable");
    folder
}
