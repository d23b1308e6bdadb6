//! A configuration as it was typed: a file with those that it includes, or flags.
//!
//! Reads the texts, and the variables of the environment that they name, so that every process
//! that has the source understands the same.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use options::{Diagnostic, IncludedFile, Node, Place, Problem, Report, Severity, Spot, document};
use serde::{Deserialize, Serialize};

use crate::files::Files;
use crate::variables;

/// A configuration as it was typed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Source {
    /// A TOML file. Relative paths in it, and in those that it includes, begin at its directory.
    File {
        /// The path as it was given.
        place: String,
        text: String,
        included: Vec<IncludedFile>,
        /// Variables of the environment that the texts name and that are set.
        variables: BTreeMap<String, String>,
    },
    /// Flags of `lariat serve`, which describe one service: name without dashes, and value.
    /// Relative paths begin at the working directory.
    Flags(Vec<(String, String)>),
}

/// The path that means the standard input.
pub const STANDARD_INPUT: &str = "-";

/// The path of a text that was made from other files; comments behind its values name them.
pub const MADE_OF_OTHERS: &str = "lariat hitch";

/// Files that one configuration may include: each is read at every reload.
const INCLUDED_MAX: usize = 10_000;

/// Bytes of all texts of a configuration together.
const TEXT_BYTES_MAX: usize = 64 << 20;

impl Source {
    /// A file of this path and text that includes no other.
    pub fn of_text(place: impl Into<String>, text: impl Into<String>) -> Self {
        let (included, variables) = (Vec::new(), BTreeMap::new());
        Self::File { place: place.into(), text: text.into(), included, variables }
    }

    /// Reads a file and those that it includes. From the standard input, relative paths begin at
    /// the working directory.
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
        for name in texts.chain([text.as_str()]).flat_map(variables::named) {
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

/// A diagnostic of a file that could not be read, whose message names it.
fn alone(problem: Problem) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        subject: None,
        message: problem.message,
        place: Place::Nowhere,
        excerpt: None,
        hint: problem.hint,
    }
}

/// The text of one file, which messages name by `place`.
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

/// The files that a text includes, in the order of its list, those of a pattern by name. What is
/// wrong with the text itself is for its reader to say.
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

fn patterns(root: &Node) -> impl Iterator<Item = (&str, &Spot)> {
    let list = root.get("include").map_or(&[][..], Node::elements);
    list.iter().filter_map(|node| match &node.value {
        options::Value::Text(pattern) => Some((pattern.as_str(), &node.spot)),
        _ => None,
    })
}

/// The paths that a pattern names: itself, or the files of its directory whose names fit its one
/// `*`. Names that begin with a dot are editors' and package managers'.
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
    let Some((start, end)) = name.split_once('*') else {
        return Ok(vec![path]);
    };
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
