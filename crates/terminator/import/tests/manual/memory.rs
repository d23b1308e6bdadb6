//! Imports of texts, with files in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use import::{Import, Predecessor, SourceFiles, import};
use options::Table;

/// Files in memory. Files of certificates exist unless their name says otherwise.
#[derive(Debug, Default)]
pub(crate) struct Memory(pub(crate) BTreeMap<PathBuf, String>);

impl SourceFiles for Memory {
    fn read(&mut self, path: &Path) -> Result<String, String> {
        self.0.get(path).cloned().ok_or_else(|| "no such file".to_owned())
    }

    fn list(&mut self, directory: &Path) -> Result<Vec<PathBuf>, String> {
        let within = self.0.keys().filter(|path| path.parent() == Some(directory));
        Ok(within.cloned().collect())
    }

    fn exists(&mut self, path: &Path) -> bool {
        !path.ends_with("missing.pem")
    }

    fn variable(&mut self, _: &str) -> Option<String> {
        None
    }
}

pub(crate) const FILE: &str = "/etc/old.conf";

/// Table without ranges, which the program's own table has.
pub(crate) static NO_KEYS: Table = Table { keys: &[], foreign: || &[], later: &[], help: "" };

pub(crate) fn imported(of: Predecessor, text: &str) -> Import {
    imported_with(of, text, &[])
}

pub(crate) fn imported_with(of: Predecessor, text: &str, more: &[(&str, &str)]) -> Import {
    let files = more.iter().copied().chain([(FILE, text)]);
    let mut memory = Memory(files.map(|(path, text)| (path.into(), text.to_owned())).collect());
    import(of, &[FILE.into()], &mut memory, &NO_KEYS)
}
