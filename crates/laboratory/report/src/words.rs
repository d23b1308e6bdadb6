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

/// Without a line break between a number and its unit.
pub(crate) fn with_units_held(text: &str) -> String {
    const UNITS: [&str; 12] = [
        "%", "ns", "µs", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "TiB",
    ];
    let is_unit = |rest: &str| {
        let end = rest.find(|c: char| !c.is_alphabetic() && c != '%');
        UNITS.contains(&&rest[..end.unwrap_or(rest.len())])
    };
    let mut held = String::with_capacity(text.len());
    for (place, letter) in text.char_indices() {
        let is_between = letter == ' '
            && held.ends_with(|c: char| c.is_ascii_digit())
            && is_unit(&text[place + 1..]);
        held.push(if is_between { '\u{a0}' } else { letter });
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_their_units_stay_together() {
        let shown = |text: &str| with_units_held(text).replace('\u{a0}', "~");
        assert_eq!(shown("0 failed (0 %)"), "0 failed (0~%)");
        assert_eq!(shown("762 µs, 1.2 MiB/s; 3 s"), "762~µs, 1.2~MiB/s; 3~s");
        assert_eq!(shown("4 seconds, x s, 5 "), "4 seconds, x s, 5 ");
    }
}
