//! Files that options name; the caller of the reader opens them.

use std::path::Path;

use options::Section;

/// Reads a file that an option names, or says why it cannot.
pub type Files<'f> = &'f dyn Fn(&Path) -> Result<Vec<u8>, String>;

/// What a named file holds; that it cannot be read is reported.
pub(crate) fn content(
    name: &str,
    path: &Path,
    files: Files<'_>,
    top: &Section<'_>,
) -> Option<Vec<u8>> {
    let read = files(path);
    let told = read.map_err(|why| top.refuse(name, why, "a file that we may read"));
    told.ok()
}
