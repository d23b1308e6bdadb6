//! Reads a configuration as it was typed (a file with its included files, or flags) and makes the
//! tree of its keys: files joined, variables replaced, defaults filled in.
//!
//! Reads the texts, and the environment variables that they name, so that every process that has
//! the source gets the same tree.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use options::{
    Diagnostic, Entry, FaultLocation, IncludedFile, Key, Node, Problem, RawLocation, Report,
    Severity, Table, Value, document, flags,
};
use serde::{Deserialize, Serialize};

use crate::files::Files;
use crate::keys::TABLE;

/// A configuration as it was typed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum TypedConfiguration {
    /// A TOML file. Relative paths in it, and in those that it includes, begin at its directory.
    File {
        /// Path as it was given.
        place: String,
        text: String,
        included: Vec<IncludedFile>,
        /// Environment variables that the texts name and that are set.
        variables: BTreeMap<String, String>,
    },
    /// Flags of `lariat serve`, which describe one service: name without dashes, and value.
    /// Relative paths begin at the working directory.
    Flags(Vec<(String, String)>),
}

/// Path that means the standard input.
pub const STANDARD_INPUT: &str = "-";

/// Path of a text that was made from other files; comments behind its values name them.
pub const MADE_OF_OTHERS: &str = "lariat hitch";

/// Most files one configuration may include, because each is read at every reload.
const INCLUDED_MAX: usize = 10_000;

/// Maximum size of all texts of a configuration together.
const TEXT_BYTES_MAX: usize = 64 << 20;

impl TypedConfiguration {
    /// A file of this path and text that includes no other.
    pub fn of_text(place: impl Into<String>, text: impl Into<String>) -> Self {
        let (included, variables) = (Vec::new(), BTreeMap::new());
        Self::File { place: place.into(), text: text.into(), included, variables }
    }

    /// Reads a file and its included files. Relative paths on the standard input begin at the
    /// working directory.
    pub fn read(path: &Path, files: &mut dyn Files) -> Result<Self, Vec<Diagnostic>> {
        let place = if path == Path::new(STANDARD_INPUT) {
            "<stdin>".to_owned()
        } else {
            path.display().to_string()
        };
        let text = text_of(path, &place, files).map_err(|problem| vec![alone(problem)])?;
        let included = included(&place, &text, files)?;
        let mut variables = BTreeMap::new();
        let texts = included.iter().map(|one| one.text.as_str());
        for name in texts.chain([text.as_str()]).flat_map(variables_in) {
            if let Some(value) = files.variable(name) {
                variables.insert(name.to_owned(), value);
            }
        }
        Ok(Self::File { place, text, included, variables })
    }

    pub(crate) fn base(&self) -> PathBuf {
        match self {
            Self::File { place, .. } => base_of(place),
            Self::Flags(_) => PathBuf::new(),
        }
    }
}

fn base_of(place: &str) -> PathBuf {
    Path::new(place).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Makes a diagnostic about an unreadable file, whose message names the file.
fn alone(problem: Problem) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        subject: None,
        message: problem.message,
        place: FaultLocation::Nowhere,
        excerpt: None,
        hint: problem.hint,
    }
}

/// Reads the text of one file, which messages call `place`.
fn text_of(path: &Path, place: &str, files: &mut dyn Files) -> Result<String, Problem> {
    let is_standard_input = path == Path::new(STANDARD_INPUT);
    let read = if is_standard_input { files.read_standard_input() } else { files.read(path) };
    let bytes = read.map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::FileTooLarge => "a configuration is a TOML file of at most 64 MiB",
            ErrorKind::PermissionDenied => "lariat's user must be able to read it",
            ErrorKind::NotFound if error.get_ref().is_some() => {
                "put the file there, or have the link lead to one"
            }
            _ => "name the configuration file by its path",
        };
        Problem::new(format!("cannot read {place}: {error}")).hint(hint)
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..at).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let problem = Problem::new(format!("{place}:{line}: is no UTF-8 text"));
        problem.hint("a configuration is a TOML file")
    })
}

/// Reads the files that a text includes, in the order of its list, those of a pattern by name.
/// Leaves errors in the text to its parser.
fn included(
    place: &str,
    text: &str,
    files: &mut dyn Files,
) -> Result<Vec<IncludedFile>, Vec<Diagnostic>> {
    let (root, _) = document::recovered(text, &Report::new(None));
    let report = Report::new(Some((place, text)));
    let mut included: Vec<IncludedFile> = Vec::new();
    let mut bytes = text.len();
    for (pattern, spot) in patterns(&root) {
        let complain = |problem| report.error(spot, "include", problem);
        let paths = match matching(&base_of(place), pattern, files) {
            Ok(paths) => paths,
            Err(problem) => {
                complain(problem);
                continue;
            }
        };
        for path in paths {
            let path_text = path.display().to_string();
            if included.iter().any(|one| one.path == path_text) || path_text == place {
                let problem = Problem::new(format!("{path_text} is read already"));
                complain(problem.hint("name each file once, and not the file that includes"));
                continue;
            }
            match text_of(&path, &path_text, files) {
                Ok(text) => {
                    bytes += text.len();
                    included.push(IncludedFile { path: path_text, text });
                }
                Err(problem) => complain(problem),
            }
            if included.len() > INCLUDED_MAX || bytes > TEXT_BYTES_MAX {
                let problem = Problem::new("includes too much");
                let hint = format!("at most {INCLUDED_MAX} files, and 64 MiB of text");
                complain(problem.hint(hint));
                return Err(report.into_diagnostics());
            }
        }
    }
    if report.errors() > 0 { Err(report.into_diagnostics()) } else { Ok(included) }
}

fn patterns(root: &Node) -> impl Iterator<Item = (&str, &RawLocation)> {
    let list = root.get("include").map_or(&[][..], Node::elements);
    list.iter().filter_map(|node| match &node.value {
        Value::Text(pattern) => Some((pattern.as_str(), &node.spot)),
        _ => None,
    })
}

/// Returns the paths that a pattern names: itself, or the files of its directory whose names match
/// its one `*`. Names that begin with a dot belong to editors and package managers.
fn matching(base: &Path, pattern: &str, files: &mut dyn Files) -> Result<Vec<PathBuf>, Problem> {
    let path = base.join(pattern);
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return Err(Problem::new("names no file").hint("write a path such as \"conf.d/*.toml\""));
    };
    let directory = path.parent().unwrap_or_else(|| Path::new(""));
    let is_pattern = |part: &str| part.contains('*');
    if is_pattern(&directory.to_string_lossy()) || name.matches('*').count() > 1 {
        let problem = Problem::new(format!("`{pattern}` has a `*` too many"));
        return Err(problem.hint("one `*` may stand in the name of the file"));
    }
    let Some((start, end)) = name.split_once('*') else { return Ok(vec![path]) };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let listed = files.list(directory).map_err(|error| {
        let problem = Problem::new(format!("cannot list {}: {error}", directory.display()));
        problem.hint("make the directory, or take the pattern out")
    })?;
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_long = name.len() >= start.len() + end.len();
        is_long && !name.starts_with('.') && name.starts_with(start) && name.ends_with(end)
    };
    Ok(listed.into_iter().filter(fits).collect())
}

/// Beginning of a variable.
const OPEN: &str = "${";

/// Escaped form of [`OPEN`], which begins no variable.
const ESCAPED: &str = "$${";

/// Returns the names of the variables in a text.
fn variables_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(OPEN).skip(1).map(|rest| rest.split_at(name_length(rest)).0)
}

fn name_length(text: &str) -> usize {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.find(|c| !is_of_name(c)).unwrap_or(text.len())
}

/// Replaces the variables in all values of a table; each value gets the kind of its key.
fn expand(
    node: &mut Node,
    path: &str,
    table: &Table,
    variables: &BTreeMap<String, String>,
    report: &Report<'_>,
) {
    let Value::Table(entries) = &mut node.value else { return };
    for entry in entries {
        let path = match path {
            "" => entry.key.clone(),
            parent => format!("{parent}.{}", entry.key),
        };
        let Some(key) = table.find(&path) else { continue };
        let within = key.like.unwrap_or(key.path);
        let expand_one = |node: &mut Node, is_list: bool| match &node.value {
            Value::Text(text) if text.contains(OPEN) => match expanded(text, variables) {
                Ok(text) => node.value = typed(key, table, &text, node, is_list),
                Err(problem) => report.error(&node.spot, key.path, problem),
            },
            Value::Table(_) => expand(node, within, table, variables, report),
            _ => {}
        };
        match &mut entry.node.value {
            Value::List(elements) => elements.iter_mut().for_each(|one| expand_one(one, true)),
            _ => expand_one(&mut entry.node, false),
        }
    }
}

/// Converts a variable's value to the kind of its key: a number needs no quotes, and one variable
/// may hold a list, with commas.
fn typed(key: &Key, table: &Table, text: &str, node: &Node, is_element: bool) -> Value {
    match table.shorthand_key(key) {
        Some(short) => flags::scalar(short, text),
        None if key.commas && !is_element => flags::value(key, text, &node.spot),
        None => flags::scalar(key, text),
    }
}

fn expanded(text: &str, variables: &BTreeMap<String, String>) -> Result<String, Problem> {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(OPEN) {
        let (before, variable) = rest.split_at(at);
        if rest.get(at.wrapping_sub(1)..).is_some_and(|text| text.starts_with(ESCAPED)) {
            done.push_str(before);
            done.push('{');
            rest = &variable[OPEN.len()..];
            continue;
        }
        let variable = &variable[OPEN.len()..];
        let Some((inner, after)) = variable.split_once('}') else {
            let problem = Problem::new("a variable begins with `${` and does not end");
            return Err(problem.hint("write ${NAME}, or $${ for the characters themselves"));
        };
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        if name.is_empty() || name_length(name) < name.len() {
            let problem = Problem::new(format!("`{}` names no variable", name.escape_debug()));
            return Err(problem.hint("a name has letters, digits and _: ${NAME}"));
        }
        done.push_str(before);
        match (variables.get(name), default) {
            (Some(value), None) => done.push_str(value),
            (Some(value), Some(_)) if !value.is_empty() => done.push_str(value),
            (_, Some(default)) => done.push_str(default),
            (None, None) => {
                let message = format!("the variable `{name}` is not set in the environment");
                let hint = format!("set it for lariat, or give a default: ${{{name}:-value}}");
                return Err(Problem::new(message).hint(hint));
            }
        }
        rest = after;
    }
    done.push_str(rest);
    Ok(done)
}

/// A report about a source.
pub(crate) fn report_about(source: &TypedConfiguration) -> Report<'_> {
    match source {
        TypedConfiguration::File { place, text, included, variables } => {
            let report = Report::new(Some((place, text))).with_included(included).hiding(variables);
            if place == MADE_OF_OTHERS { report.by_origins() } else { report }
        }
        TypedConfiguration::Flags(_) => Report::new(None),
    }
}

/// The tree of a source; `None` if one of its files is no TOML, which has then been reported.
pub(crate) fn root_of(source: &TypedConfiguration, report: &Report<'_>) -> Option<Node> {
    let (root, is_whole) = recovered(source, report);
    is_whole.then_some(root)
}

/// The tree of what can be read of a source, and whether that is all; the rest has been reported.
pub(crate) fn recovered(source: &TypedConfiguration, report: &Report<'_>) -> (Node, bool) {
    let (included, variables) = match source {
        TypedConfiguration::File { included, variables, .. } => (included, variables),
        TypedConfiguration::Flags(flags) => {
            let flags = flags.iter().map(|(name, text)| (name.as_str(), text.as_str()));
            return (flags::parse(flags, &TABLE, report), true);
        }
    };
    let mut root = Node::empty(RawLocation::Nowhere);
    let mut is_whole = true;
    for (number, (start, (_, text))) in report.files().enumerate() {
        let (part, is_part_whole) = document::recovered_from(start, text, report);
        is_whole &= is_part_whole;
        if number > 0 {
            refuse_nested(&part, included, report);
        }
        join(&mut root, part, report);
    }
    let before = report.errors();
    expand(&mut root, "", &TABLE, variables, report);
    // The reader does not report a value again that has an error already.
    is_whole &= report.errors() == before;
    fill_in_defaults(&mut root, report);
    (root, is_whole)
}

/// Refuses an included file that includes others, because it could include itself.
fn refuse_nested(part: &Node, included: &[IncludedFile], report: &Report<'_>) {
    let key = part.entries().iter().find(|entry| entry.key == "include");
    if let Some(entry) = key.filter(|_| !included.is_empty()) {
        let problem = Problem::new("stands in a file that is itself included");
        let hint = "list all files in the configuration that `lariat serve` is given";
        report.error(&entry.key_spot, "include", problem.hint(hint));
    }
}

/// Adds the keys of a file to those of the files before: tables of a list are appended, and any
/// other key may stand in one file only.
fn join(root: &mut Node, part: Node, report: &Report<'_>) {
    let (Value::Table(entries), Value::Table(more)) = (&mut root.value, part.value) else { return };
    for entry in more {
        let Some(old) = entries.iter_mut().find(|old| old.key == entry.key) else {
            entries.push(entry);
            continue;
        };
        match (&mut old.node.value, &entry.node.value) {
            (Value::List(tables), Value::List(more)) if are_tables(tables) && are_tables(more) => {
                tables.extend(more.iter().cloned());
            }
            (Value::Table(_), Value::Table(_)) => join(&mut old.node, entry.node, report),
            // The nested `include` has been refused.
            _ if entry.key == "include" => {}
            _ => {
                let place = report.place_of(&old.key_spot).unwrap_or_default();
                let problem = Problem::new(format!("`{}` is also in {place}", entry.key));
                report.error_here(&entry.key_spot, problem.hint("leave out one of the two"));
            }
        }
    }
}

fn are_tables(nodes: &[Node]) -> bool {
    nodes.iter().all(|node| matches!(node.value, Value::Table(_)))
}

/// Keys that decide which others are allowed beside them.
const DECIDING: [&str; 2] = ["mode", "files"];

/// Most values that all services together get from `[defaults]`: about 600 MB of memory.
const FILLED_IN_MAX: usize = 1 << 22;

/// Counts the values in a node, including those of nested tables and lists.
fn count(node: &Node) -> usize {
    let within: usize = match &node.value {
        Value::Table(entries) => entries.iter().map(|entry| count(&entry.node)).sum(),
        Value::List(elements) => elements.iter().map(count).sum(),
        _ => 0,
    };
    within + 1
}

/// Adds the keys of `[defaults]` to every service that lacks them.
fn fill_in_defaults(root: &mut Node, report: &Report<'_>) {
    let Some(node) = root.get("defaults") else { return };
    let services = root.get("service").map_or(0, |services| services.elements().len());
    let values = count(node);
    if values.saturating_mul(services) > FILLED_IN_MAX {
        let problem = Problem::new(format!("has {values} values for each of {services} services"));
        let hint =
            format!("at most {FILLED_IN_MAX} together: put long lists where they are needed");
        return report.error(&node.spot, "defaults", problem.hint(hint));
    }
    let defaults = node.entries().to_vec();
    if let Some(name) = defaults.iter().find(|entry| entry.key == "name") {
        let problem = Problem::new("`name` is a service's own");
        report.error_here(&name.key_spot, problem.hint("leave it out of [defaults]"));
    }
    let Value::Table(entries) = &mut root.value else { return };
    let service = entries.iter_mut().find(|entry| entry.key == "service");
    if let Some(Entry { node: Node { value: Value::List(services), .. }, .. }) = service {
        services.iter_mut().for_each(|service| fill_in(service, &defaults));
    }
}

/// Completes nested tables, except one with a deciding key of its own, because the defaults may not
/// fit it. A value, or a list, is not merged.
fn fill_in(node: &mut Node, defaults: &[Entry]) {
    let Value::Table(entries) = &mut node.value else { return };
    for default in defaults.iter().filter(|default| default.key != "name") {
        match entries.iter_mut().find(|entry| entry.key == default.key) {
            Some(entry) if DECIDING.iter().any(|key| entry.node.get(key).is_some()) => {}
            Some(entry) => fill_in(&mut entry.node, default.node.entries()),
            None => entries.push(default.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_as_shells_do_it() {
        let variables = [("A", "1"), ("EMPTY", "")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let variables = BTreeMap::from(variables);
        for (text, value) in [
            ("x${A}y${A}", "x1y1"),
            ("${EMPTY}", ""),
            ("${EMPTY:-x}${B:-}${A:-y}", "x1"),
            ("$A $${A} $ {", "$A ${A} $ {"),
        ] {
            assert_eq!(expanded(text, &variables).as_deref(), Ok(value), "{text}");
        }
        for (text, fault) in [
            ("${B}", "the variable `B` is not set in the environment"),
            ("${A", "a variable begins with `${` and does not end"),
            ("${}", "`` names no variable"),
            ("${A B}", "`A B` names no variable"),
        ] {
            let problem = expanded(text, &variables).unwrap_err();
            assert_eq!(problem.message, fault, "{text}");
        }
        assert!(variables_in("${A} ${B:-x} $C ${").eq(["A", "B", ""]));
    }
}
