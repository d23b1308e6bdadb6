//! The kernel's own texts: files with a value, lines with a name, lists of numbers.

use std::fs;
use std::path::Path;

use measure::host::HostFact;

pub(crate) fn fact(name: &str, value: impl Into<String>) -> HostFact {
    with_remedy(name, value, None)
}

pub(crate) fn with_remedy(
    name: &str,
    value: impl Into<String>,
    remedy: Option<String>,
) -> HostFact {
    HostFact { name: name.to_owned(), value: value.into(), remedy }
}

/// A file's text without its last line end; nothing if there is none for us.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).map_or_else(|_| String::new(), |text| text.trim_end().to_owned())
}

/// A file's text; none if there is no such file for us, or nothing in it.
pub(crate) fn non_empty(path: impl AsRef<Path>) -> Option<String> {
    Some(read(path)).filter(|text| !text.is_empty())
}

pub(crate) fn number(path: impl AsRef<Path>) -> Option<u64> {
    read(path).trim().parse().ok()
}

/// The names in a folder, in order; none if it cannot be read.
pub(crate) fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The value of the first line `name : value`.
pub(crate) fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The first number of a list as `0-3,8`.
pub(crate) fn first_of(list: &str) -> Option<u32> {
    let digits = list.trim().split(['-', ',']).next();
    digits.and_then(|digits| digits.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_names() {
        let text = "processor\t: 0\nmodel name\t: A: B\n";
        assert_eq!(value(text, "model name"), Some("A: B"));
        assert_eq!(value(text, "model"), None);
    }

    #[test]
    fn lists_begin_with_a_number() {
        assert_eq!(first_of("4-7,12\n"), Some(4));
        assert_eq!(first_of("9"), Some(9));
        assert_eq!(first_of(""), None);
    }

    #[test]
    fn what_is_not_there_is_empty() {
        assert_eq!(read("/proc/no such file"), "");
        assert_eq!(non_empty("/proc/no such file"), None);
        assert_eq!(number("/proc/self/comm"), None);
        assert!(names("/proc/no such folder").is_empty());
        assert!(names("/proc/self").contains(&"status".to_owned()));
    }
}
