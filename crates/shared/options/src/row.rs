//! Rows that know the type of their key's value; a field of [`section!`](crate::section) holds one.

use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use crate::diagnostic::{Problem, nearest};
use crate::document::Value;
use crate::key::{Default, Key, Kind, key};
use crate::quantity;
use crate::section::{Field, KeyPlace};

/// A key, and how its value is read. `M` is [`RequiredMode`], [`OptionalMode`], [`ListMode`] or
/// [`Switch`].
pub struct KeyRow<T: 'static, M> {
    key: Key,
    reader: ValueReader<T>,
    mode: PhantomData<M>,
}

/// Mode of a row: the key must be written, or has a default.
pub struct RequiredMode;

/// Mode of a row: the key may be left out.
pub struct OptionalMode;

/// Mode of a row: the key holds a list, which may be empty where it may be left out.
pub struct ListMode;

/// Mode of a row: the key is off unless somebody turns it on.
pub struct Switch;

enum ValueReader<T: 'static> {
    Function(fn(&Value, &Key) -> Result<T, Problem>),
    /// Parser of a text; a problem without a hint is shown with the key's example.
    Text(fn(&str) -> Result<T, Problem>),
    /// Words of a choice with their meanings, and the function that clones a meaning.
    Words(&'static [(&'static str, T)], fn(&T) -> T),
}

const fn with<T, M>(key: Key, reader: ValueReader<T>) -> KeyRow<T, M> {
    KeyRow { key, reader, mode: PhantomData }
}

/// A row whose values are read by a function.
pub const fn row<T>(
    kind: Kind,
    read: fn(&Value, &Key) -> Result<T, Problem>,
) -> KeyRow<T, RequiredMode> {
    with(key("", kind), ValueReader::Function(read))
}

/// Text that a function reads; where a problem has no hint, the example is the hint.
pub const fn parsed_by<T>(
    kind: Kind,
    read: fn(&str) -> Result<T, Problem>,
) -> KeyRow<T, RequiredMode> {
    with(key("", kind), ValueReader::Text(read))
}

/// Free text; the word says what of.
pub const fn text(what: &'static str) -> KeyRow<String, RequiredMode> {
    row(Kind::Text(what), owned)
}

pub const fn path() -> KeyRow<String, RequiredMode> {
    row(Kind::Path, owned)
}

/// Networks, or files that list them.
pub const fn networks() -> KeyRow<String, RequiredMode> {
    row(Kind::Networks, owned)
}

pub const fn boolean() -> KeyRow<bool, RequiredMode> {
    row(Kind::Boolean, read_boolean)
}

pub const fn switch() -> KeyRow<bool, Switch> {
    with(key("", Kind::Switch).absent(""), ValueReader::Function(read_boolean))
}

/// A whole number from `min` to `max`.
pub const fn count<T: TryFrom<u64>>(min: u64, max: u64) -> KeyRow<T, RequiredMode> {
    row(Kind::Count(min, max), read_count)
}

/// Bytes from `min` to `max`.
pub const fn size<T: TryFrom<u64>>(min: u64, max: u64) -> KeyRow<T, RequiredMode> {
    row(Kind::Size(min, max), read_size)
}

pub const fn duration(min: Duration, max: Duration) -> KeyRow<Duration, RequiredMode> {
    row(Kind::Duration(min, max), read_duration)
}

pub const fn parsed<T: FromStr<Err: Display>>(kind: Kind) -> KeyRow<T, RequiredMode> {
    row(kind, parse)
}

/// Makes a row of one of these words; the [`choice!`](crate::choice) macro writes them once.
pub const fn choice<T: Clone>(
    words: &'static [&'static str],
    meanings: &'static [(&'static str, T)],
) -> KeyRow<T, RequiredMode> {
    with(key("", Kind::Choice(words)), ValueReader::Words(meanings, T::clone))
}

pub const fn words<T, const COUNT: usize>(meanings: &[(&'static str, T)]) -> [&'static str; COUNT] {
    let (mut words, mut place) = ([""; COUNT], 0);
    while place < COUNT {
        words[place] = meanings[place].0;
        place += 1;
    }
    words
}

/// Makes a row of words with their meanings, listed here or in a constant table of a type.
#[macro_export]
macro_rules! choice {
    (of $type:ty: $meanings:expr) => {{
        const MEANINGS: &[(&str, $type)] = $meanings;
        const WORDS: [&str; MEANINGS.len()] = $crate::row::words(MEANINGS);
        $crate::row::choice(&WORDS, MEANINGS)
    }};
    ($($word:expr => $meaning:expr),+ $(,)?) => {
        $crate::row::choice(&[$($word),+], &[$(($word, $meaning)),+])
    };
}

impl<T> KeyRow<T, RequiredMode> {
    /// With no value if nobody writes one; the words say what that means.
    pub const fn absent(self, meaning: &'static str) -> KeyRow<T, OptionalMode> {
        with(self.key.absent(meaning), self.reader)
    }

    /// With a list, as [`Key::many`].
    pub const fn many(self) -> KeyRow<T, ListMode> {
        with(self.key.many(), self.reader)
    }

    /// With a list of its kind, an element a flag: they may hold commas.
    pub const fn repeated(self) -> KeyRow<T, ListMode> {
        with(Key { many: true, ..self.key }, self.reader)
    }

    pub fn read<'a>(&self, place: KeyPlace<'a>) -> Field<'a, T> {
        place.field(place.one(|value, key| self.reader.read(value, key)))
    }
}

impl<T> KeyRow<T, OptionalMode> {
    pub fn read<'a>(&self, place: KeyPlace<'a>) -> Field<'a, Option<T>> {
        let read = |value: &Value, key: &Key| self.reader.read(value, key);
        place.field(if place.is_written() { place.one(read).map(Some) } else { Some(None) })
    }
}

impl<T> KeyRow<T, ListMode> {
    /// With an empty list if nobody writes one; the words say what that means.
    pub const fn absent(mut self, meaning: &'static str) -> Self {
        self.key = self.key.absent(meaning);
        self
    }

    pub fn read<'a>(&self, place: KeyPlace<'a>) -> Field<'a, Vec<T>> {
        place.field(place.list(|value, key| self.reader.read(value, key)))
    }
}

impl KeyRow<bool, Switch> {
    pub fn read<'a>(&self, place: KeyPlace<'a>) -> Field<'a, bool> {
        let is_written = place.is_written();
        let read = |value: &Value, key: &Key| self.reader.read(value, key);
        place.field(if is_written { place.one(read) } else { Some(false) })
    }
}

impl<T, M> KeyRow<T, M> {
    /// Returns the row without the type, at its place in that table.
    pub const fn key(&self, table: &Key, path: &'static str, help: &'static str) -> Key {
        let flag = if table.flags { Some(path) } else { self.key.flag };
        Key { path, flag, ..self.key }.help(help.trim_ascii_start())
    }

    /// Sets the default value.
    pub const fn default(mut self, text: &'static str) -> Self {
        self.key.default = Default::Text(text);
        self
    }

    pub const fn flag(mut self, name: &'static str) -> Self {
        self.key.flag = Some(name);
        self
    }

    /// Sets the meaning of the flag without a value.
    pub const fn alone(mut self, text: &'static str) -> Self {
        self.key.alone = Some(text);
        self
    }

    /// Declares that the key has no effect without one of these.
    pub const fn requires(mut self, keys: &'static [&'static str]) -> Self {
        self.key.requires = keys;
        self
    }

    /// Declares that the key excludes these, and why.
    pub const fn excludes(mut self, keys: &'static [&'static str], why: &'static str) -> Self {
        self.key.excludes = (keys, why);
        self
    }

    pub const fn replaces(mut self, keys: &'static [&'static str]) -> Self {
        self.key.replaces = keys;
        self
    }

    pub const fn synonyms(mut self, words: &'static [(&'static str, &'static str)]) -> Self {
        self.key.synonyms = words;
        self
    }

    pub const fn example(mut self, example: &'static str) -> Self {
        self.key = self.key.example(example);
        self
    }
}

impl<T> ValueReader<T> {
    fn read(&self, value: &Value, key: &Key) -> Result<T, Problem> {
        match self {
            Self::Function(read) => read(value, key),
            Self::Text(read) => read(as_text(value)?).map_err(|problem| match problem.hint {
                None => problem.hint(key.for_example()),
                Some(_) => problem,
            }),
            Self::Words(meanings, copy) => chosen(value, key, meanings).map(copy),
        }
    }
}

pub fn wrong_kind(value: &Value, wanted: &str) -> Problem {
    Problem::new(format!("is {}, but {wanted} is wanted", value.kind()))
}

/// Returns a text that is not empty.
///
/// # Errors
/// Fails if the value is not a text, or empty.
pub fn as_text(value: &Value) -> Result<&str, Problem> {
    match value {
        Value::Text(text) if text.is_empty() => Err(Problem::new("is empty")),
        Value::Text(text) => Ok(text),
        other => Err(wrong_kind(other, "a string")),
    }
}

/// Parses a text.
///
/// # Errors
/// Fails if the value is not a text, or does not parse.
pub fn parse<T: FromStr<Err: Display>>(value: &Value, key: &Key) -> Result<T, Problem> {
    let text = as_text(value)?;
    text.parse().map_err(|error| {
        Problem::new(format!("\"{}\" {error}", text.escape_debug())).hint(key.for_example())
    })
}

fn owned(value: &Value, _: &Key) -> Result<String, Problem> {
    as_text(value).map(str::to_owned)
}

fn read_boolean(value: &Value, _: &Key) -> Result<bool, Problem> {
    match value {
        Value::Boolean(boolean) => Ok(*boolean),
        other => Err(wrong_kind(other, "`true` or `false`")),
    }
}

/// Returns the minimum and maximum of a number or a size.
fn bounds(key: &Key) -> (u64, u64) {
    match key.kind {
        Kind::Count(min, max) | Kind::Size(min, max) => (min, max),
        _ => (0, u64::MAX),
    }
}

fn read_count<T: TryFrom<u64>>(value: &Value, key: &Key) -> Result<T, Problem> {
    let (min, max) = bounds(key);
    let number = match value {
        Value::Integer(number) => number,
        Value::Text(text) if text.parse::<u64>().is_err() => {
            let problem = Problem::new(format!("\"{}\" is no whole number", text.escape_debug()));
            let written_out = quantity::count(text).map(|number| format!("write {number}"));
            return Err(problem.hint(written_out.unwrap_or_else(|| key.for_example())));
        }
        other => return Err(wrong_kind(other, "an integer")),
    };
    in_range(*number, min, max, |number| number.to_string())
}

fn read_size<T: TryFrom<u64>>(value: &Value, key: &Key) -> Result<T, Problem> {
    let (min, max) = bounds(key);
    let bytes = match value {
        Value::Integer(number) => *number,
        other => {
            let text = as_text(other)?;
            let hint = "write a number with B, KiB, MiB or GiB, such as \"64MiB\"";
            let bytes = quantity::size(text);
            Some(bytes.ok_or_else(|| Problem::new(format!("\"{text}\" is no size")).hint(hint))?)
        }
    };
    in_range(bytes, min, max, quantity::show_size)
}

fn in_range<T: TryFrom<u64>>(
    number: Option<u64>,
    min: u64,
    max: u64,
    show: fn(u64) -> String,
) -> Result<T, Problem> {
    let number = number.filter(|number| (min..=max).contains(number));
    let fits = number.and_then(|number| T::try_from(number).ok());
    let (min, max) = (show(min), show(max));
    fits.ok_or_else(|| Problem::new(format!("is out of range: {min} to {max}")))
}

fn read_duration(value: &Value, key: &Key) -> Result<Duration, Problem> {
    let (min, max) = match key.kind {
        Kind::Duration(min, max) => (min, max),
        _ => (Duration::ZERO, Duration::MAX),
    };
    let hint = "write a number with us, ms, s, m, h or d, such as \"250ms\" or \"10s\"";
    let is_number = |text: &str| text.parse::<f64>().is_ok();
    let text = match value {
        Value::Integer(_) => return Err(Problem::new("has no unit").hint(hint)),
        Value::Text(text) if is_number(text) => {
            return Err(Problem::new(format!("\"{text}\" has no unit")).hint(hint));
        }
        other => as_text(other)?,
    };
    let duration = quantity::duration(text)
        .ok_or_else(|| Problem::new(format!("\"{text}\" is no duration")).hint(hint))?;
    if (min..=max).contains(&duration) {
        return Ok(duration);
    }
    let (min, max) = (quantity::show_duration(min), quantity::show_duration(max));
    Err(Problem::new(format!("is out of range: {min} to {max}")))
}

/// Separators in other programs' lists of words.
const SEPARATORS: [char; 3] = [':', ',', ' '];

/// Returns our word for another program's, or the reason why we have no such word.
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

fn chosen<'m, T>(value: &Value, key: &Key, meanings: &'m [(&str, T)]) -> Result<&'m T, Problem> {
    let words = meanings.iter().map(|(word, _)| *word);
    let takes = || {
        let known: Vec<_> = words.clone().collect();
        format!("`{}` takes: {}", key.name(), known.join(", "))
    };
    let text = as_text(value).map_err(|problem| problem.hint(takes()))?;
    let mut all = meanings.iter();
    if let Some((_, meaning)) = all.find(|(word, _)| word.eq_ignore_ascii_case(text)) {
        return Ok(meaning);
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
