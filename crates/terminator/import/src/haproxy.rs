//! Files of HAProxy.

use std::path::PathBuf;

use crate::import::Import;
use crate::source::{SourceFiles, SourceLine};

/// Reads files of HAProxy into a draft.
pub(crate) fn read(import: &mut Import, paths: &[PathBuf], files: &mut dyn SourceFiles) {
    for path in paths {
        if import.read(files, path, None).is_some() {
            let place = SourceLine::first_of(path);
            import.fault(&place, "haproxy", "is not imported yet", "see docs/guide/moving.md");
        }
    }
}
