//! Files that options name; the caller of the reader opens them.

use std::path::Path;

use options::Field;

/// Reads a file that an option names, or says why it cannot.
pub type Files<'f> = &'f dyn Fn(&Path) -> Result<Vec<u8>, String>;

/// The content of the file that an option names; a file that cannot be read is reported.
pub(crate) fn content(path: &Field<'_, Option<String>>, files: Files<'_>) -> Option<Vec<u8>> {
    files(Path::new(path.given()?)).map_err(|why| path.refuse(why, "a file that we may read")).ok()
}
