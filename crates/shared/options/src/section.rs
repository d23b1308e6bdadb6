//! Reads the keys of one table: typed, in range, with the defaults of the table of options.
//!
//! Every reader gives `None` after it has reported why, so that all keys of a table are read, and
//! all faults told, before the first `?`.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use crate::diagnostic::{Problem, Report, Severity, Spot, nearest};
use crate::flags;
use crate::key::{Default, Key, Kind};
use crate::node::{Node, Value};
use crate::quantity;
use crate::table::Table;

/// One table of the configuration, or what stands for one.
#[derive(Clone, Copy)]
pub struct Section<'a> {
    table: &'static Table,
    report: &'a Report<'a>,
    /// Its path in the table of options; empty at the top.
    path: &'static str,
    /// What was written; `None` if the table was left out.
    node: Option<&'a Node>,
    /// That, or the nearest table around it that was written.
    around: &'a Node,
}

impl<'a> Section<'a> {
    pub fn top(table: &'static Table, root: &'a Node, report: &'a Report<'a>) -> Self {
        Self {
            table,
            report,
            path: "",
            node: Some(root),
            around: root,
        }
    }

    /// The table of that name; one that was left out holds defaults only.
    pub fn section(&self, name: &str) -> Self {
        let key = self.key(name);
        let node = self.written(key);
        Self {
            path: key.path,
            node,
            around: node.unwrap_or(self.around),
            ..*self
        }
    }

    /// In a list of tables, the one of that number; itself if there is none.
    pub fn nth(&self, number: usize) -> Self {
        let node = self.node.and_then(|node| node.elements().get(number));
        Self {
            node: node.or(self.node),
            around: node.unwrap_or(self.around),
            ..*self
        }
    }

    /// The table of that name, if it was written.
    pub fn section_if_written(&self, name: &str) -> Option<Self> {
        let section = self.section(name);
        section.node.is_some().then_some(section)
    }

    /// The tables of that list; reports an empty or missing one that is required.
    pub fn sections(&self, name: &str) -> Vec<Self> {
        let key = self.key(name);
        let written = self.written(key);
        let elements = written.map_or(&[][..], Node::elements);
        if elements.is_empty() && written.is_none_or(|node| matches!(node.value, Value::List(_))) {
            self.missing(key);
        }
        let section = |node| Self {
            path: key.path,
            node: Some(node),
            around: node,
            ..*self
        };
        elements.iter().map(section).collect()
    }

    /// Reports that neither of two keys was written, one of which is required.
    pub fn neither(&self, first: &str, second: &str) {
        self.lacks(&[self.key(first), self.key(second)]);
    }

    /// Where in a file it begins, as diagnostics name places; `None` = it was given by flags.
    pub fn place(&self) -> Option<String> {
        self.report.place_of(&self.around.spot)
    }

    /// Whether it was written in a file, not by flags.
    pub fn is_in_file(&self) -> bool {
        self.report.is_file()
    }

    /// The keys of this table that were written.
    pub fn written_keys(&self) -> impl Iterator<Item = &'static Key> {
        let keys = self.table.children(self.path);
        keys.filter(|key| self.written(key).is_some())
    }

    /// Whether somebody wrote that key.
    pub fn has(&self, name: &str) -> bool {
        self.written(self.key(name)).is_some()
    }

    /// Reports an error about a key of this table, where the key was written.
    pub fn error(&self, name: &str, problem: Problem) {
        self.say(Severity::Error, name, problem);
    }

    /// Reports an error about a key of this table, with its remedy.
    pub fn refuse(&self, name: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.error(name, Problem::new(message).hint(hint));
    }

    /// The same if it is so.
    pub fn refuse_if(
        &self,
        is_so: bool,
        name: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if is_so {
            self.refuse(name, message, hint);
        }
    }

    /// Reports a warning about a key of this table, where the key was written.
    pub fn warn(&self, name: &str, problem: Problem) {
        self.say(Severity::Warning, name, problem);
    }

    /// Says something about a key of this table, where the key was written.
    pub fn say(&self, severity: Severity, name: &str, problem: Problem) {
        let key = self.key(name);
        let spot = self.spot_of(key);
        self.report.say(severity, &spot, Some(key.path), problem);
    }

    /// One value that is text and parses.
    pub fn parsed<T: FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Option<T> {
        self.one(name, parse)
    }

    /// One text, read by a function whose problems get the key's example where they have no hint.
    pub fn read_as<T>(&self, name: &str, read: impl Fn(&str) -> Result<T, Problem>) -> Option<T> {
        self.one(name, |value, key| read_text(value, key, &read))
    }

    /// A list of such texts.
    pub fn read_all_as<T>(
        &self,
        name: &str,
        read: impl Fn(&str) -> Result<T, Problem>,
    ) -> Option<Vec<T>> {
        self.list(name, |value, key| read_text(value, key, &read))
    }

    /// A key that may be left out: what `read` makes of it, if it was written.
    #[allow(clippy::option_option, reason = "left out and reported are two things")]
    pub fn if_written<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Self, &str) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.has(name) {
            read(self, name).map(Some)
        } else {
            Some(None)
        }
    }

    /// A list of values that are text and parse.
    pub fn parsed_list<T: FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Option<Vec<T>> {
        self.list(name, parse)
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.one(name, |value, _| Ok(text(value)?.to_owned()))
    }

    /// Free text that may be left out.
    #[allow(clippy::option_option, reason = "left out and reported are two things")]
    pub fn text_if_written(&self, name: &str) -> Option<Option<String>> {
        self.if_written(name, Self::text)
    }

    /// Free text or its default, or `None` without a report.
    pub fn text_quietly(&self, name: &str) -> Option<String> {
        let key = self.key(name);
        let typed = self.written(key).map(|node| text(&node.value).ok());
        match (typed, key.default) {
            (Some(typed), _) => typed.map(str::to_owned),
            (None, Default::Text(text)) => Some(text.to_owned()),
            (None, _) => None,
        }
    }

    /// A list of free texts.
    pub fn texts(&self, name: &str) -> Option<Vec<String>> {
        self.list(name, |value, _| Ok(text(value)?.to_owned()))
    }

    pub fn boolean(&self, name: &str) -> Option<bool> {
        self.one(name, |value, _| match value {
            Value::Boolean(boolean) => Ok(*boolean),
            other => Err(wrong_kind(other, "`true` or `false`")),
        })
    }

    /// A number within the key's range.
    pub fn count<T: TryFrom<u64>>(&self, name: &str) -> Option<T> {
        let number = self.one(name, count)?;
        Some(T::try_from(number).unwrap_or_else(|_| unreachable!("the range of {name} fits")))
    }

    /// A duration within the key's range.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        self.one(name, duration)
    }

    /// A number of bytes within the key's range.
    pub fn size(&self, name: &str) -> Option<usize> {
        let bytes = self.one(name, size)?;
        Some(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// One of the key's words, as what it means.
    pub fn choice<T: Clone>(&self, name: &str, meanings: &[(&str, T)]) -> Option<T> {
        self.one(name, |value, key| chosen(value, key, meanings))
    }

    /// A list of the key's words, as what they mean.
    pub fn choices<T: Clone>(&self, name: &str, meanings: &[(&str, T)]) -> Option<Vec<T>> {
        self.list(name, |value, key| chosen(value, key, meanings))
    }

    /// One value, read by `read`; a missing one is the default.
    pub fn one<T>(
        &self,
        name: &str,
        read: impl Fn(&Value, &Key) -> Result<T, Problem>,
    ) -> Option<T> {
        let key = self.key(name);
        let node = self.node_or_default(key)?;
        if !node.value.is_scalar() {
            // Its shape has been reported.
            return None;
        }
        self.read(&node, key, read)
    }

    /// A list of values, each read by `read`; a missing one is the default, or empty.
    pub fn list<T>(
        &self,
        name: &str,
        read: impl Fn(&Value, &Key) -> Result<T, Problem>,
    ) -> Option<Vec<T>> {
        let key = self.key(name);
        if self.written(key).is_none() && matches!(key.default, Default::Absent(_)) {
            return Some(Vec::new());
        }
        let node = self.node_or_default(key)?;
        let elements = match &node.value {
            // Its shape has been reported.
            Value::Table(_) => return None,
            _ => node.elements(),
        };
        if elements.is_empty() && !matches!(key.default, Default::Absent(_)) {
            let problem = Problem::new("is empty").hint(example(key));
            self.report.error(&node.spot, key.path, problem);
            return None;
        }
        all(elements.iter().map(|element| {
            let scalar = element.value.is_scalar();
            scalar.then(|| self.read(element, key, &read)).flatten()
        }))
    }

    fn read<T>(
        &self,
        node: &Node,
        key: &Key,
        read: impl Fn(&Value, &Key) -> Result<T, Problem>,
    ) -> Option<T> {
        match read(&node.value, key) {
            Ok(value) => Some(value),
            Err(mut problem) => {
                // Who gave a flag has no document in which an example could stand.
                if let (Spot::Flag(_), Value::Text(text)) = (&node.spot, &node.value) {
                    if matches!(key.kind, Kind::Boolean | Kind::Switch) {
                        let text = text.escape_debug();
                        problem = Problem::new(format!("\"{text}\" is neither on nor off"));
                        problem.hint = self.table.flag_example(key);
                    } else if problem.hint == Some(example(key)) {
                        problem.hint = self.table.flag_example(key);
                    }
                }
                self.report.error(&node.spot, key.path, problem);
                None
            }
        }
    }

    fn key(&self, name: &str) -> &'static Key {
        self.table
            .children(self.path)
            .find(|key| key.name() == name)
            .unwrap_or_else(|| unreachable!("the table of options has {}.{name}", self.path))
    }

    fn written(&self, key: &Key) -> Option<&'a Node> {
        let node = self.node?;
        if let Value::Table(entries) = &node.value {
            let entry = entries.iter().find(|entry| entry.key == key.name());
            return entry.map(|entry| &entry.node);
        }
        // The value itself stands for one key of the table that it should be.
        let table = self.table.find(self.path)?;
        (table.shorthand == Some(key.name()) && node.value.is_scalar()).then_some(node)
    }

    fn node_or_default(&self, key: &Key) -> Option<Cow<'a, Node>> {
        if let Some(node) = self.written(key) {
            return Some(Cow::Borrowed(node));
        }
        match key.default {
            Default::Text(text) => {
                let value = flags::value(key, text, &Spot::Nowhere);
                Some(Cow::Owned(Node::new(value, Spot::Nowhere)))
            }
            Default::Required => {
                self.missing(key);
                None
            }
            Default::Absent(_) => None,
        }
    }

    fn missing(&self, key: &Key) {
        self.lacks(&[key]);
    }

    /// Reports that all of these keys are missing, one of which would do.
    fn lacks(&self, keys: &[&Key]) {
        if self
            .node
            .is_some_and(|node| matches!(node.value, Value::List(_)))
        {
            // A list where a table should be has been reported; what it lacks is not the point.
            return;
        }
        let told = |each: &dyn Fn(&Key) -> String| {
            let each: Vec<_> = keys.iter().map(|key| each(key)).collect();
            each.join(" or ")
        };
        let has_flags = keys.iter().all(|key| self.flag_of(key).is_some());
        let (problem, spot) = if has_flags && !self.report.is_file() {
            let flag = |key: &Key| format!("--{}", self.flag_of(key).unwrap_or_default());
            let problem = Problem::new(format!("{} is missing", told(&flag)));
            let given = told(&|key| format!("{} {}", flag(key), self.table.value_name(key)));
            (problem.hint(format!("give {given}")), &Spot::Nowhere)
        } else {
            let paths = told(&|key| format!("`{}`", key.path));
            let problem = Problem::new(format!("{paths} is missing"));
            let examples = told(&|key| key.example.to_owned());
            (
                problem.hint(format!("for example: {examples}")),
                &self.around.spot,
            )
        };
        self.report.error_here(spot, problem);
    }

    /// The flag that gives a key; of a table, the one that gives its shorthand.
    fn flag_of(&self, key: &Key) -> Option<&'static str> {
        let table = self.table;
        table
            .giving_flag(key)
            .or_else(|| table.shorthand_key(key)?.flag)
    }

    fn spot_of(&self, key: &Key) -> Spot {
        let spot = self.written(key).unwrap_or(self.around).spot.clone();
        match key.flag {
            Some(flag) if spot == Spot::Nowhere && !self.report.is_file() => Spot::Flag(flag),
            _ => spot,
        }
    }
}

/// All of what was read, or `None` if one was not. Reads every one, so that all faults are told.
pub fn all<T>(read: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    let (mut values, mut whole) = (Vec::new(), true);
    for one in read {
        match one {
            Some(value) => values.push(value),
            None => whole = false,
        }
    }
    whole.then_some(values)
}

/// That a value is of another kind.
pub fn wrong_kind(value: &Value, wanted: &str) -> Problem {
    Problem::new(format!("is {}, but {wanted} is wanted", value.kind()))
}

/// A text that is not empty.
///
/// # Errors
/// It is no text, or empty.
pub fn text(value: &Value) -> Result<&str, Problem> {
    match value {
        Value::Text(text) if text.is_empty() => Err(Problem::new("is empty")),
        Value::Text(text) => Ok(text),
        other => Err(wrong_kind(other, "a string")),
    }
}

/// The hint for who wrote a document.
fn example(key: &Key) -> String {
    format!("for example: {}", key.example)
}

/// What a text is read as.
///
/// # Errors
/// It is no text, or cannot be read.
pub fn parse<T: FromStr<Err: std::fmt::Display>>(value: &Value, key: &Key) -> Result<T, Problem> {
    let text = text(value)?;
    text.parse().map_err(|error| {
        Problem::new(format!("\"{}\" {error}", text.escape_debug())).hint(example(key))
    })
}

fn read_text<T>(
    value: &Value,
    key: &Key,
    read: impl Fn(&str) -> Result<T, Problem>,
) -> Result<T, Problem> {
    read(text(value)?).map_err(|problem| match problem.hint {
        None => problem.hint(example(key)),
        Some(_) => problem,
    })
}

fn count(value: &Value, key: &Key) -> Result<u64, Problem> {
    let Kind::Count(min, max) = key.kind else {
        unreachable!("{} is a count", key.path);
    };
    let number = match value {
        Value::Integer(number) => number,
        Value::Text(text) if text.parse::<u64>().is_err() => {
            let problem = Problem::new(format!("\"{}\" is no whole number", text.escape_debug()));
            return Err(problem.hint(example(key)));
        }
        other => return Err(wrong_kind(other, "an integer")),
    };
    number
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| Problem::new(format!("is out of range: {min} to {max}")))
}

fn duration(value: &Value, key: &Key) -> Result<Duration, Problem> {
    let Kind::Duration(min, max) = key.kind else {
        unreachable!("{} is a duration", key.path);
    };
    let hint = "write a number with us, ms, s, m, h or d, such as \"250ms\" or \"10s\"";
    let is_number = |text: &str| text.parse::<f64>().is_ok();
    let text = match value {
        Value::Integer(_) => return Err(Problem::new("has no unit").hint(hint)),
        Value::Text(text) if is_number(text) => {
            return Err(Problem::new(format!("\"{text}\" has no unit")).hint(hint));
        }
        other => text(other)?,
    };
    let duration = quantity::duration(text)
        .ok_or_else(|| Problem::new(format!("\"{text}\" is no duration")).hint(hint))?;
    if (min..=max).contains(&duration) {
        return Ok(duration);
    }
    let (min, max) = (quantity::show_duration(min), quantity::show_duration(max));
    Err(Problem::new(format!("is out of range: {min} to {max}")))
}

fn size(value: &Value, key: &Key) -> Result<u64, Problem> {
    let Kind::Size(min, max) = key.kind else {
        unreachable!("{} is a size", key.path);
    };
    let bytes = match value {
        Value::Integer(number) => *number,
        other => {
            let text = text(other)?;
            let hint = "write a number with B, KiB, MiB or GiB, such as \"64MiB\"";
            let bytes = quantity::size(text);
            Some(bytes.ok_or_else(|| Problem::new(format!("\"{text}\" is no size")).hint(hint))?)
        }
    };
    bytes
        .filter(|bytes| (min..=max).contains(bytes))
        .ok_or_else(|| {
            let (min, max) = (quantity::show_size(min), quantity::show_size(max));
            Problem::new(format!("is out of range: {min} to {max}"))
        })
}

/// Between the words of other programs' lists.
const SEPARATORS: [char; 3] = [':', ',', ' '];

/// What stands for the word of another program: ours, or why we have no such word.
fn synonym(key: &Key, text: &str) -> Option<&'static str> {
    let is_one = !text.contains(SEPARATORS);
    let is = |theirs: &str| match theirs.strip_suffix('*') {
        Some(start) => {
            let typed = text.get(..start.len()).filter(|_| is_one);
            typed.is_some_and(|typed| typed.eq_ignore_ascii_case(start))
        }
        None => theirs.eq_ignore_ascii_case(text),
    };
    let mut synonyms = key.synonyms.iter();
    let (_, ours) = synonyms.find(|(theirs, _)| is(theirs))?;
    Some(ours)
}

fn chosen<T: Clone>(value: &Value, key: &Key, meanings: &[(&str, T)]) -> Result<T, Problem> {
    let words = meanings.iter().map(|(word, _)| *word);
    let takes = || {
        let known: Vec<_> = words.clone().collect();
        format!("`{}` takes: {}", key.name(), known.join(", "))
    };
    let text = text(value).map_err(|problem| problem.hint(takes()))?;
    if let Some((_, meaning)) = meanings
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(text))
    {
        return Ok(meaning.clone());
    }
    let problem = Problem::new(format!("\"{}\" is not known", text.escape_debug()));
    if let Some(ours) = synonym(key, text) {
        return Err(problem.hint(match ours {
            "" => takes(),
            why if why.contains(' ') => why.to_owned(),
            ours => format!("write \"{ours}\""),
        }));
    }
    let parts: Vec<_> = text.split(SEPARATORS).collect();
    if parts.len() > 1 {
        let known = |part: &&str| {
            let mut words = words.clone();
            let ours = synonym(key, part).filter(|ours| !ours.contains(' '));
            words.find(|word| word.eq_ignore_ascii_case(ours.unwrap_or(part)))
        };
        let known: Vec<_> = parts.iter().filter_map(known).collect();
        if !known.is_empty() {
            let each = known.join("\", \"");
            return Err(problem.hint(format!("write each by itself: \"{each}\"")));
        }
        return Err(problem.hint(takes()));
    }
    let near = nearest(text, words.clone());
    Err(problem.hint(near.map_or_else(takes, |near| format!("did you mean \"{near}\"?"))))
}
