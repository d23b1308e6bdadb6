//! Configurations of hitch, stud, stunnel, HAProxy and nginx to one of Lariat.
//!
//! An importer reads an option, looks its meaning up in the table, and lets the table's conversion
//! or its own code write keys into a draft. Each option gets a finding: mapped, mapped with a
//! difference, or not mapped. Opens no file itself: `SourceFiles` reads for it.
#![forbid(unsafe_code)]

mod certificates;
mod convert;
mod draft;
mod finding;
mod haproxy;
mod hitch;
mod import;
mod meanings;
mod nginx;
mod page;
mod recognise;
mod source;
mod stunnel;
mod tls_policy;

use std::path::PathBuf;

use options::Table;

pub use crate::meanings::{Conversion, OldDefault, OptionMeaning, OptionSupport, Predecessor};
pub use finding::{ImportFinding, ImportOutcome};
pub use import::Import;
use import::Importer;
pub use page::page;
pub use recognise::recognise;
pub use source::{FILE_BYTES_MAX, SourceFiles, SourceLine};

/// Imports files of one program, or its command line, which begins with a dash. The table has the
/// ranges of our keys.
pub fn import(
    of: Predecessor,
    words: &[PathBuf],
    files: &mut dyn SourceFiles,
    table: &'static Table,
) -> Import {
    let mut importer = Importer::new(Import::new(of, words, table), files);
    let read = match of {
        Predecessor::Hitch | Predecessor::Stud => hitch::read,
        Predecessor::Stunnel => stunnel::read,
        Predecessor::Haproxy => haproxy::read,
        Predecessor::Nginx => nginx::read,
    };
    read(&mut importer, words);
    importer.settled()
}

/// The meanings of all options of a program.
pub fn meanings(of: Predecessor) -> impl Iterator<Item = &'static OptionMeaning> {
    let all = meanings::of(of).iter();
    all.filter(move |one| of != Predecessor::Stud || one.is_of_stud)
}
