//! Any text as a file of another program: no panic, TOML as the outcome, and the same each time.
//!
//! The first byte chooses the program. Files that the text includes have the same text.
#![no_main]

use std::path::{Path, PathBuf};

use import::{Predecessor, SourceFiles, import};
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Some((kind, text)) = bytes.split_first() else { return Corpus::Reject };
    let Ok(text) = str::from_utf8(text) else { return Corpus::Reject };
    let kind = Predecessor::ALL[usize::from(*kind) % Predecessor::ALL.len()];
    let outcome =
        || import(kind, &[PathBuf::from("/etc/old.conf")], &mut Echo(text), &config::TABLE);
    let first = outcome();
    let toml = first.toml();
    assert!(toml.parse::<toml::Table>().is_ok(), "{toml}");
    assert_eq!((first.report(), toml), (outcome().report(), outcome().toml()));
    import::recognise(text);
    Corpus::Keep
});

/// Files that all have this text; every directory has one file.
struct Echo<'t>(&'t str);

impl SourceFiles for Echo<'_> {
    fn read(&mut self, _: &Path) -> Result<String, String> {
        Ok(self.0.to_owned())
    }

    fn list(&mut self, directory: &Path) -> Result<Vec<PathBuf>, String> {
        Ok(vec![directory.join("a.conf")])
    }

    fn exists(&mut self, path: &Path) -> bool {
        path.is_absolute()
    }

    fn variable(&mut self, name: &str) -> Option<String> {
        Some(name.to_ascii_lowercase())
    }
}
