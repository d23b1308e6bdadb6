//! Reads the keys of one table: typed, in range, with the defaults of the table of options.
//!
//! Every reader returns `None` after it has reported why, so that all keys of a table are read, and
//! all errors reported, before the first `?`. [`section!`](crate::section) makes such a table of a
//! struct, whose fields declare the keys.

use std::borrow::Cow;
use std::ops::Deref;

use crate::diagnostic::{Problem, RawLocation, Report, Severity};
use crate::document::{Node, Value};
use crate::flags;
use crate::key::{Default, Key, Kind, Table};

/// One table of the configuration, or a value that stands for one.
#[derive(Clone, Copy)]
pub struct Section<'a> {
    table: &'static Table,
    report: &'a Report<'a>,
    /// Key of the table; `None` at the top.
    key: Option<&'static Key>,
    /// Table as it was written; `None` if it was left out.
    node: Option<&'a Node>,
    /// `node`, or the nearest enclosing table that was written.
    around: &'a Node,
}

/// A key of a table, and the place where it was written or is missing.
#[derive(Clone, Copy)]
pub struct KeyPlace<'a> {
    section: Section<'a>,
    pub key: &'static Key,
}

/// The value of a key, with its place for errors.
#[derive(Clone)]
pub struct Field<'a, T> {
    /// Valid value, or `None` if there is none, which has been reported.
    pub value: Option<T>,
    place: KeyPlace<'a>,
}

pub struct Tables<'a, T> {
    pub tables: Vec<T>,
    place: KeyPlace<'a>,
}

impl<'a, T> Deref for Field<'a, T> {
    type Target = KeyPlace<'a>;

    fn deref(&self) -> &KeyPlace<'a> {
        &self.place
    }
}

impl<T> Field<'_, Option<T>> {
    /// Returns the written value, if it could be read.
    pub fn given(&self) -> Option<&T> {
        self.value.as_ref()?.as_ref()
    }
}

impl<T> Field<'_, Vec<T>> {
    /// Returns the written elements, if they could be read.
    pub fn elements(&self) -> &[T] {
        self.value.as_deref().unwrap_or_default()
    }
}

impl Field<'_, bool> {
    /// Whether the value is true, by default or as written.
    pub fn is_on(&self) -> bool {
        self.value == Some(true)
    }
}

impl<'a, T> Deref for Tables<'a, T> {
    type Target = KeyPlace<'a>;

    fn deref(&self) -> &KeyPlace<'a> {
        &self.place
    }
}

impl<T> Tables<'_, T> {
    /// Returns the tables; reports an error if there are none.
    pub fn required(&self) -> &[T] {
        let written = self.section.written(self.key);
        let holds_tables = |node: &Node| !matches!(node.value, Value::List(_));
        if self.tables.is_empty() && !written.is_some_and(holds_tables) {
            self.section.lacks(&[self.key]);
        }
        &self.tables
    }
}

/// A struct of keys that [`section!`](crate::section) has made, or several of these: the value of a
/// key that holds a table.
pub trait Nested<'a>: Sized {
    const KEY: Key;

    /// Reads the keys of the table at a place.
    fn read(place: KeyPlace<'a>) -> Self {
        Self::of(place, place.table())
    }

    /// Reads the keys of a table that is the value of a key or an element of its list.
    fn of(place: KeyPlace<'a>, section: Section<'a>) -> Self;
}

impl<'a, T: Nested<'a>> Nested<'a> for Option<T> {
    const KEY: Key = T::KEY;

    fn of(place: KeyPlace<'a>, section: Section<'a>) -> Self {
        place.is_written().then(|| T::of(place, section))
    }
}

impl<'a, T: Nested<'a>> Nested<'a> for Tables<'a, T> {
    const KEY: Key = T::KEY;

    fn of(place: KeyPlace<'a>, _: Section<'a>) -> Self {
        let written = place.section.written(place.key);
        let section = |node| Section {
            key: Some(place.key),
            node: Some(node),
            around: node,
            ..place.section
        };
        let elements = written.map_or(&[][..], Node::elements).iter();
        let tables = elements.map(|node| T::of(place, section(node))).collect();
        Self { tables, place }
    }
}

/// Makes a struct whose fields are the keys of a table: type, row, and documentation (doc comment).
///
/// A field without a row holds a table: the struct of one, an `Option` of it, or [`Tables`] of it.
/// A struct whose table has no path is a heading: its keys belong to the enclosing table.
#[macro_export]
macro_rules! section {
    (
        $table:expr;
        $(#[doc = $help:literal])+
        $vis:vis struct $name:ident<$life:lifetime> {
            $($(#[doc = $doc:literal])* $field:ident: $type:ty $(= $row:expr)?,)*
        }
    ) => {
        $(#[doc = $help])+
        $vis struct $name<$life> {
            /// Key of the table itself.
            #[allow(dead_code, reason = "not every table has to be complained of")]
            $vis at: $crate::section::KeyPlace<$life>,
            $($(#[doc = $doc])* $vis $field: $crate::section!(@type $life $type $(, $row)?),)*
        }

        impl<$life> $name<$life> {
            const TABLE: $crate::key::Key = $table;
            const CHILDREN: &'static [$crate::key::Key] =
                &[$($crate::section!(@key $name $field $type, ($($doc),*) $(, $row)?)),*];
        }

        impl<$life> $crate::section::Nested<$life> for $name<$life> {
            const KEY: $crate::key::Key = $table
                .help(concat!($($help),+).trim_ascii_start())
                .children(Self::CHILDREN);

            fn of(
                at: $crate::section::KeyPlace<$life>,
                section: $crate::section::Section<$life>,
            ) -> Self {
                Self {
                    at,
                    $($field: $crate::section!(
                        @read section, $name $field $type, ($($doc),*) $(, $row)?
                    ),)*
                }
            }
        }
    };
    (@type $life:lifetime $type:ty, $row:expr) => { $crate::section::Field<$life, $type> };
    (@type $life:lifetime $type:ty) => { $type };
    (@key $name:ident $field:ident $type:ty, ($($doc:literal),*), $row:expr) => {{
        const TABLE: $crate::key::Key = <$name<'static>>::TABLE;
        const FIELD: &str = stringify!($field);
        const LENGTH: usize = $crate::key::path_length(TABLE.path, FIELD);
        const PATH: [u8; LENGTH] = $crate::key::path(TABLE.path, FIELD);
        let row = $row;
        // The closure checks that the row reads the field's type.
        let _ = |place| -> $crate::section::Field<'static, $type> { row.read(place) };
        row.key(&TABLE, $crate::key::utf8(&PATH), concat!($($doc),*))
    }};
    (@key $name:ident $field:ident $type:ty, ()) => {
        <$type as $crate::section::Nested>::KEY
    };
    (@read $section:ident, $name:ident $field:ident $type:ty, $docs:tt, $row:expr) => {{
        let key = const { &$crate::section!(@key $name $field $type, $docs, $row) };
        const { $row }.read($section.at(key))
    }};
    (@read $section:ident, $name:ident $field:ident $type:ty, ()) => {
        <$type as $crate::section::Nested>::read(
            $section.at(const { &<$type as $crate::section::Nested>::KEY })
        )
    };
}

impl<'a> Section<'a> {
    pub fn top(table: &'static Table, root: &'a Node, report: &'a Report<'a>) -> Self {
        Self { table, report, key: None, node: Some(root), around: root }
    }

    pub fn at(&self, key: &'static Key) -> KeyPlace<'a> {
        KeyPlace { section: *self, key }
    }

    /// Finds the key of a path from here, in which a number is the index in a list of tables;
    /// returns the list itself if the index is out of range. `None` if no such key exists.
    pub fn find(&self, path: &str) -> Option<KeyPlace<'a>> {
        let (name, rest) = path.split_once('.').unwrap_or((path, ""));
        if let Ok(number) = name.parse() {
            return self.nth(number).find(rest);
        }
        let place = self.at(self.child(name)?);
        if rest.is_empty() { Some(place) } else { place.table().find(rest) }
    }

    fn child(&self, name: &str) -> Option<&'static Key> {
        let parent = self.key.map_or("", |key| key.path);
        let mut keys = self.table.children(parent);
        keys.find(|key| key.name() == name)
    }

    fn nth(&self, number: usize) -> Self {
        let node = self.node.and_then(|node| node.elements().get(number));
        Self { node: node.or(self.node), around: node.unwrap_or(self.around), ..*self }
    }

    pub fn written_keys(self) -> impl Iterator<Item = KeyPlace<'a>> {
        let keys = self.table.children(self.key.map_or("", |key| key.path));
        let places = keys.map(move |key| self.at(key));
        places.filter(KeyPlace::is_written)
    }

    /// Whether the table was written in a file, not by flags.
    pub fn is_in_file(&self) -> bool {
        self.report.is_file()
    }

    fn written(&self, key: &Key) -> Option<&'a Node> {
        let node = self.node?;
        if let Value::Table(entries) = &node.value {
            let entry = entries.iter().find(|entry| entry.key == key.name());
            return entry.map(|entry| &entry.node);
        }
        // The value itself stands for one key of the table.
        let is_short = self.key?.shorthand == Some(key.name());
        (is_short && node.value.is_scalar()).then_some(node)
    }

    /// Reports that all of these keys are missing, one of which would do.
    pub fn lacks(&self, keys: &[&Key]) {
        if self.node.is_some_and(|node| matches!(node.value, Value::List(_))) {
            // A list where a table should be has been reported; its missing keys do not matter.
            return;
        }
        let each = |show: &dyn Fn(&Key) -> String| {
            let each: Vec<_> = keys.iter().map(|key| show(key)).collect();
            each.join(" or ")
        };
        let has_flags = keys.iter().all(|key| self.flag_of(key).is_some());
        let (problem, spot) = if has_flags && !self.report.is_file() {
            let flag = |key: &Key| format!("--{}", self.flag_of(key).unwrap_or_default());
            let problem = Problem::new(format!("{} is missing", each(&flag)));
            let given = each(&|key| format!("{} {}", flag(key), self.table.value_name(key)));
            // A flag that belongs to an element of a list starts a new element if it comes first.
            let first = self.node.filter(|_| self.key.is_some_and(|key| key.many));
            let before =
                match first.and_then(|node| node.entries().first()).map(|one| &one.key_spot) {
                    Some(RawLocation::Flag(flag)) => {
                        format!(" before --{flag}, which belongs to the one that stands before it")
                    }
                    _ => String::new(),
                };
            (problem.hint(format!("give {given}{before}")), &RawLocation::Nowhere)
        } else {
            let paths = each(&|key| format!("`{}`", key.path));
            let problem = Problem::new(format!("{paths} is missing"));
            let examples = each(&|key| key.example.to_owned());
            let hint = format!("for example: {examples}");
            (problem.hint(hint), &self.around.spot)
        };
        self.report.error_here(spot, problem);
    }

    /// Returns the flag that gives a key; for a table, the flag of its shorthand.
    fn flag_of(&self, key: &Key) -> Option<&'static str> {
        let table = self.table;
        table.giving_flag(key).or_else(|| table.shorthand_key(key)?.flag)
    }
}

impl<'a> KeyPlace<'a> {
    /// Returns the table that the key holds; defaults only if it was left out. Keys under a heading
    /// stand in the enclosing table.
    pub fn table(&self) -> Section<'a> {
        if self.key.path.is_empty() {
            return self.section;
        }
        let node = self.section.written(self.key);
        Section {
            key: Some(self.key),
            node,
            around: node.unwrap_or(self.section.around),
            ..self.section
        }
    }

    /// Whether the key was written.
    pub fn is_written(&self) -> bool {
        self.section.written(self.key).is_some()
    }

    /// Returns path and line in a file, as in diagnostics; `None` if flags gave the key.
    pub fn line(&self) -> Option<String> {
        self.section.report.place_of(&self.node().spot)
    }

    pub fn error(&self, problem: Problem) {
        self.say(Severity::Error, problem);
    }

    /// Reports an error with its remedy.
    pub fn refuse(&self, message: impl Into<String>, hint: impl Into<String>) {
        self.error(Problem::new(message).hint(hint));
    }

    /// Reports an error with its remedy if `is_so`.
    pub fn refuse_if(&self, is_so: bool, message: impl Into<String>, hint: impl Into<String>) {
        if is_so {
            self.refuse(message, hint);
        }
    }

    /// Reports an error with its remedy and returns `None`, because no value can be made.
    pub fn fail<T>(&self, message: impl Into<String>, hint: impl Into<String>) -> Option<T> {
        self.refuse(message, hint);
        None
    }

    /// Reports a warning with its remedy.
    pub fn warn(&self, message: impl Into<String>, hint: impl Into<String>) {
        self.say(Severity::Warning, Problem::new(message).hint(hint));
    }

    /// Warns of a key that is written where it has no effect.
    pub fn warn_unless(&self, has_effect: bool, message: &str, hint: &str) {
        if !has_effect && self.is_written() {
            self.warn(message, hint);
        }
    }

    pub fn say(&self, severity: Severity, problem: Problem) {
        let spot = match (&self.node().spot, self.key.flag) {
            (RawLocation::Nowhere, Some(flag)) if !self.section.report.is_file() => {
                RawLocation::Flag(flag)
            }
            (spot, _) => spot.clone(),
        };
        let report = self.section.report;
        report.say(severity, &spot, Some(self.key.path), problem);
    }

    /// Reads one value with `read`; a missing one is the default.
    pub fn one<T>(&self, read: impl Fn(&Value, &Key) -> Result<T, Problem>) -> Option<T> {
        let node = self.node_or_default()?;
        if !node.value.is_scalar() {
            // The wrong shape has been reported.
            return None;
        }
        self.read(&node, read)
    }

    /// Reads a list of values, each with `read`; a missing one is the default, or empty.
    pub fn list<T>(&self, read: impl Fn(&Value, &Key) -> Result<T, Problem>) -> Option<Vec<T>> {
        let may_be_absent = matches!(self.key.default, Default::Absent(_));
        if may_be_absent && !self.is_written() {
            return Some(Vec::new());
        }
        let node = self.node_or_default()?;
        let elements = match &node.value {
            // The wrong shape has been reported.
            Value::Table(_) => return None,
            _ => node.elements(),
        };
        if elements.is_empty() && !may_be_absent {
            let problem = Problem::new("is empty").hint(self.key.for_example());
            self.section.report.error(&node.spot, self.key.path, problem);
            return None;
        }
        all(elements.iter().map(|element| {
            let scalar = element.value.is_scalar();
            scalar.then(|| self.read(element, &read)).flatten()
        }))
    }

    pub(crate) fn field<T>(self, value: Option<T>) -> Field<'a, T> {
        Field { value, place: self }
    }

    fn node(&self) -> &'a Node {
        let written = self.section.written(self.key);
        written.unwrap_or(self.section.around)
    }

    fn node_or_default(&self) -> Option<Cow<'a, Node>> {
        if let Some(node) = self.section.written(self.key) {
            return Some(Cow::Borrowed(node));
        }
        match self.key.default {
            Default::Text(text) => {
                let value = flags::value(self.key, text, &RawLocation::Nowhere);
                Some(Cow::Owned(Node::new(value, RawLocation::Nowhere)))
            }
            Default::Required => {
                self.section.lacks(&[self.key]);
                None
            }
            Default::Absent(_) => None,
        }
    }

    fn read<T>(&self, node: &Node, read: impl Fn(&Value, &Key) -> Result<T, Problem>) -> Option<T> {
        let (table, key) = (self.section.table, self.key);
        match read(&node.value, key) {
            Ok(value) => Some(value),
            Err(mut problem) => {
                // Who gave a flag has no document in which an example could stand.
                if let (RawLocation::Flag(_), Value::Text(text)) = (&node.spot, &node.value) {
                    if matches!(key.kind, Kind::Boolean | Kind::Switch) {
                        let text = text.escape_debug();
                        problem = Problem::new(format!("\"{text}\" is neither on nor off"));
                        problem.hint = table.flag_example(key);
                    } else if problem.hint == Some(key.for_example()) {
                        problem.hint = table.flag_example(key);
                    }
                }
                let report = self.section.report;
                report.error(&node.spot, key.path, problem);
                None
            }
        }
    }
}

/// Collects all values; `None` if one is missing. Reads every one, so that all errors are reported.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{count, flattened, table};
    use crate::{check, choice, document, row};

    section! {
        table("").shorthand("");
        /// The top.
        struct Top<'a> {
            /// How many there are, in
            /// two lines.
            how_many: u8 = row::count(1, 9).default("3").flag("how-many").example("how-many = 4"),
            /// Words that are listed.
            words: Vec<bool> = choice!["yes" => true, "no" => false]
                .many()
                .absent("none")
                .example("words = [\"yes\"]"),
            side: Option<Side<'a>>,
            items: Tables<'a, TestItem<'a>>,
        }
    }

    section! {
        table("side").absent("none").shorthand("name").example("side = \"left\"");
        /// A side.
        struct Side<'a> {
            /// A name.
            name: String = row::text("NAME").flag("name").example("name = \"left\""),
            /// Another one.
            other_name: Option<String> = row::text("NAME").absent("none").example("other-name = 1"),
        }
    }

    section! {
        table("items").many().example("[[items]]");
        /// An item.
        struct TestItem<'a> {
            /// A size.
            size: u64 = row::size(1, 99).example("size = 7"),
        }
    }

    static TABLE: Table = Table {
        keys: &flattened::<{ count(Top::KEY.children) }>(Top::KEY.children, ""),
        foreign: || &[],
        later: &[],
        help: "",
    };

    fn read(text: &str) -> (String, Vec<String>) {
        let report = Report::new(Some(("a.toml", text)));
        let root = document::parse(text, &report).unwrap();
        check(&root, &TABLE, &report);
        let top = Section::top(&TABLE, &root, &report);
        let top = Top::of(top.at(&Top::KEY), top);
        let side = top.side.map(|side| (side.name.value, side.other_name.value));
        let items = top.items.required().iter().map(|item| item.size.value);
        let items: Vec<_> = items.collect();
        let read = format!("{:?} {:?} {side:?} {items:?}", top.how_many.value, top.words.value);
        let diagnostics = report.into_diagnostics().into_iter();
        (read, diagnostics.map(|one| format!("{:?} {}", one.subject, one.message)).collect())
    }

    #[test]
    fn keys_are_stated_at_their_fields() {
        let paths: Vec<_> = TABLE.keys.iter().map(|key| key.path).collect();
        assert_eq!(
            paths,
            ["how-many", "words", "side", "side.name", "side.other-name", "items", "items.size"]
        );
        assert_eq!(TABLE.keys[0].help, "How many there are, in two lines.");
        assert_eq!(TABLE.keys[2].help, "A side.");
    }

    #[test]
    fn fields_hold_what_was_written_and_all_faults_are_told() {
        let (side, one) = ("side = \"left\"\n", "[[items]]\nsize = 7\n");
        assert_eq!(
            read(&format!("words = [\"no\"]\n{side}{one}")),
            ("Some(3) Some([false]) Some((Some(\"left\"), Some(None))) [Some(7)]".into(), vec![])
        );
        let (read, told) = read("how-many = 10\nside = {}\nwords = \"maybe\"\n");
        assert_eq!(read, "None None Some((None, Some(None))) []");
        assert_eq!(
            told,
            [
                "None `items` is missing",
                "Some(\"how-many\") is out of range: 1 to 9",
                "None `side.name` is missing",
                "Some(\"words\") \"maybe\" is not known",
            ]
        );
    }
}
