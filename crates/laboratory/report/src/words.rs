//! Words and names that reports have in common.

/// With a capital letter, as titles begin.
pub(crate) fn titled(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(char::to_uppercase);
    let first: String = first.into_iter().flatten().collect();
    first + characters.as_str()
}

/// Names in a row: `a, b and c`.
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The parts that are not empty, with a separator between them.
pub(crate) fn joined<S: AsRef<str>>(parts: &[S], separator: &str) -> String {
    let filled = parts
        .iter()
        .map(AsRef::as_ref)
        .filter(|part| !part.is_empty());
    filled.collect::<Vec<_>>().join(separator)
}

/// What may stand in an id, and in the name of a file on any system: letters, digits and hyphens.
pub(crate) fn id_part(text: &str) -> String {
    let letter = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let text: String = text.chars().map(letter).collect();
    joined(&text.split('-').collect::<Vec<_>>(), "-")
}
