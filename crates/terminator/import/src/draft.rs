//! The configuration while it is written, with the source line of each value, and its TOML.

use std::collections::HashMap;
use std::fmt::Write as _;

use toml::Value;

use crate::source::SourceLine;

/// Value, with its source line and a remark.
#[derive(Clone, Debug)]
pub(crate) struct DraftValue {
    pub(crate) value: Value,
    /// `None` for a default of the imported program, which no line sets.
    pub(crate) origin: Option<SourceLine>,
}

/// Key with one value, or with a list of values that each have a source line.
#[derive(Clone, Debug)]
pub(crate) struct DraftKey {
    /// Path below the table: `tls.versions`.
    pub(crate) path: String,
    pub(crate) values: Vec<DraftValue>,
    pub(crate) is_list: bool,
    /// Sentence about the key, for the reader of the file.
    pub(crate) remark: Option<String>,
}

/// Table of Lariat's configuration: a service, or the whole file without its services.
#[derive(Clone, Debug, Default)]
pub(crate) struct DraftTable {
    pub(crate) keys: Vec<DraftKey>,
}

impl DraftTable {
    /// Sets a key to one value, which replaces earlier values.
    pub(crate) fn set(
        &mut self,
        path: &str,
        value: impl Into<Value>,
        origin: impl Into<Option<SourceLine>>,
    ) {
        let value = DraftValue { value: value.into(), origin: origin.into() };
        self.put(path, vec![value], false);
    }

    /// Adds a value to a list.
    pub(crate) fn push(
        &mut self,
        path: &str,
        value: impl Into<Value>,
        origin: impl Into<Option<SourceLine>>,
    ) {
        let value = DraftValue { value: value.into(), origin: origin.into() };
        match self.find_mut(path) {
            Some(key) if key.is_list => key.values.push(value),
            _ => self.put(path, vec![value], true),
        }
    }

    /// Puts a sentence above a key that is set.
    pub(crate) fn remark(&mut self, path: &str, remark: impl Into<String>) {
        if let Some(key) = self.find_mut(path) {
            key.remark = Some(remark.into());
        }
    }

    /// Sets a default of the imported program if the key is unset and Lariat's default differs.
    pub(crate) fn set_default(&mut self, path: &str, value: impl Into<Value>, remark: &str) {
        if !self.has(path) {
            self.set(path, value, None);
            self.remark(path, remark);
        }
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    pub(crate) fn find(&self, path: &str) -> Option<&DraftKey> {
        self.keys.iter().find(|key| key.path == path)
    }

    /// Returns the only value of a key as text.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.find(path)?.values.first()?.value.as_str()
    }

    /// Removes a key and returns it.
    pub(crate) fn take(&mut self, path: &str) -> Option<DraftKey> {
        let place = self.keys.iter().position(|key| key.path == path)?;
        Some(self.keys.remove(place))
    }

    /// Returns the number of values.
    pub(crate) fn count(&self) -> usize {
        self.keys.iter().map(|key| key.values.len()).sum()
    }

    /// Appends another table's lists to those of this table, and sets its other keys.
    pub(crate) fn append(&mut self, other: &Self) {
        for key in &other.keys {
            for one in &key.values {
                if key.is_list {
                    self.push(&key.path, one.value.clone(), one.origin.clone());
                } else {
                    self.set(&key.path, one.value.clone(), one.origin.clone());
                }
            }
        }
    }

    fn find_mut(&mut self, path: &str) -> Option<&mut DraftKey> {
        self.keys.iter_mut().find(|key| key.path == path)
    }

    fn put(&mut self, path: &str, values: Vec<DraftValue>, is_list: bool) {
        let key = DraftKey { path: path.to_owned(), values, is_list, remark: None };
        match self.find_mut(path) {
            Some(old) => *old = key,
            None => self.keys.push(key),
        }
    }
}

/// The whole configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) services: Vec<DraftTable>,
    /// Services that would serve or trust others than before: written as comments.
    pub(crate) refused: Vec<DraftTable>,
    /// Keys of all other tables, by their full paths.
    pub(crate) process: DraftTable,
    /// Last number given to a service, by the name that several services wanted.
    numbers: HashMap<String, usize>,
}

impl Draft {
    /// Returns a name that no other service has, of the characters that names allow.
    pub(crate) fn free_name(&mut self, wanted: &str) -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name: String = wanted.chars().map(|c| if fits(c) { c } else { '-' }).take(56).collect();
        let name = if name.is_empty() { "service".to_owned() } else { name };
        let taken = |name: &str| self.services.iter().any(|one| one.text("name") == Some(name));
        if !taken(&name) {
            return name;
        }
        // Lower numbers stay taken.
        let first = self.numbers.get(&name).copied().unwrap_or(2);
        let free = (first..).find(|number| !taken(&format!("{name}-{number}"))).unwrap_or(first);
        let numbered = format!("{name}-{free}");
        self.numbers.insert(name, free);
        numbered
    }
}

/// Maximum width of a comment line.
const COLUMNS: usize = 100;

/// Formats a whole draft as TOML.
pub(crate) fn toml(draft: &Draft) -> String {
    let mut text = String::new();
    for service in &draft.services {
        text.push_str("\n[[service]]\n");
        table(&mut text, "service", service);
    }
    table(&mut text, "", &draft.process);
    for service in &draft.refused {
        let mut lines = String::new();
        table(&mut lines, "service", service);
        text.push_str("\n# Left out: add it only once it refuses whom it must.\n# [[service]]\n");
        for line in lines.lines() {
            let _ = writeln!(text, "{}", format!("# {line}").trim_end());
        }
    }
    text
}

/// Writes the keys of a table; tables in it get their own headings.
fn table(text: &mut String, above: &str, table: &DraftTable) {
    let mut headings: Vec<&str> = table.keys.iter().map(|key| parts(key).0).collect();
    headings.sort_unstable_by_key(|heading| (rank(heading), *heading));
    headings.dedup();
    for heading in headings {
        match (above, heading) {
            (_, "") => {}
            ("", heading) => text.push_str(&format!("\n[{heading}]\n")),
            (above, heading) => text.push_str(&format!("\n[{above}.{heading}]\n")),
        }
        let within = table.keys.iter().filter(|key| parts(key).0 == heading);
        within.for_each(|key| self::key(text, key));
    }
}

/// Orders headings: clients first, then servers, then the rest.
fn rank(heading: &str) -> usize {
    let first = heading.split('.').next().unwrap_or_default();
    let order = ["", "front", "back"];
    order.iter().position(|one| *one == first).unwrap_or(order.len())
}

/// Splits a key into its table and its name.
fn parts(key: &DraftKey) -> (&str, &str) {
    key.path.rsplit_once('.').unwrap_or(("", &key.path))
}

fn key(text: &mut String, key: &DraftKey) {
    if let Some(remark) = &key.remark {
        comment(text, remark);
    }
    let name = parts(key).1;
    match (key.values.as_slice(), key.is_list) {
        ([one], false) => single(text, name, one),
        (values, _) if of_one_line(values) => {
            let listed: Vec<_> = values.iter().map(|one| one.value.to_string()).collect();
            let origin = values.first().and_then(|one| one.origin.as_ref());
            line(text, &format!("{name} = [{}]", listed.join(", ")), origin);
        }
        (values, _) => {
            let _ = writeln!(text, "{name} = [");
            for one in values {
                line(text, &format!("    {},", one.value), one.origin.as_ref());
            }
            text.push_str("]\n");
        }
    }
}

/// Writes a key with one value; a long list gets a line for each element.
fn single(text: &mut String, name: &str, one: &DraftValue) {
    let content = format!("{name} = {}", one.value);
    match &one.value {
        Value::Array(elements) if content.len() > COLUMNS => {
            line(text, &format!("{name} = ["), one.origin.as_ref());
            for element in elements {
                text.push_str(&format!("    {element},\n"));
            }
            text.push_str("]\n");
        }
        _ => line(text, &content, one.origin.as_ref()),
    }
}

/// Reports whether values come from one source line and fit on one line.
fn of_one_line(values: &[DraftValue]) -> bool {
    let length: usize = values.iter().map(|one| one.value.to_string().len() + 2).sum();
    length < 80 && values.windows(2).all(|pair| pair[0].origin == pair[1].origin)
}

fn line(text: &mut String, content: &str, origin: Option<&SourceLine>) {
    text.push_str(content);
    if let Some(origin) = origin {
        let _ = write!(text, "  # {}", printable(&origin.to_string()));
    }
    text.push('\n');
}

/// Writes a comment of whole lines.
pub(crate) fn comment(text: &mut String, remark: &str) {
    let mut width = COLUMNS;
    for word in printable(remark).split(' ') {
        if width + 1 + word.chars().count() > COLUMNS {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push('#');
            width = 1;
        }
        text.push(' ');
        text.push_str(word);
        width += 1 + word.chars().count();
    }
    text.push('\n');
}

/// Replaces control characters, which a comment must not contain.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_written_can_be_read_again() {
        let first = SourceLine::first_of(Path::new("a\nb.conf"));
        let mut draft = Draft::default();
        let mut service = DraftTable::default();
        service.set("name", "web", first.clone());
        service.push("front.listen", "[::]:443", first.clone());
        service.push("front.tls.certificates", "a \"quoted\".pem", first.at(2));
        service.push("front.tls.certificates", "b\u{7}.pem", first.at(3));
        service.set_default("timeouts.idle", "365d", "hitch ends no idle connection");
        draft.services.push(service);
        draft.process.set("workers.threads", 4, first.at(5));
        let text = toml(&draft);
        let read: toml::Table = text.parse().unwrap();
        let service = &read["service"][0];
        assert_eq!(service["front"]["tls"]["certificates"][0].as_str(), Some("a \"quoted\".pem"));
        assert_eq!(service["front"]["tls"]["certificates"][1].as_str(), Some("b\u{7}.pem"));
        assert_eq!(service["timeouts"]["idle"].as_str(), Some("365d"));
        assert_eq!(read["workers"]["threads"].as_integer(), Some(4));
        assert!(text.contains("listen = [\"[::]:443\"]  # a b.conf:1\n"), "{text}");
        assert!(text.contains("# hitch ends no idle connection\nidle = \"365d\"\n"), "{text}");
    }
}
