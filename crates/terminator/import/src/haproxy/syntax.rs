//! Lines of HAProxy's files, and the sections that they make: words, quotes, escapes, and
//! variables, as far as the section `global` sets them or takes them away.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::meanings::{self, OptionMeaning, Predecessor};
use crate::source::{FILE_BYTES_MAX, SourceFiles, SourceLine, Statement, Statements};

/// Looks a variable up, or says why no more are.
type HaproxyLookup<'l> = dyn FnMut(&str) -> Result<Option<String>, String> + 'l;

/// The most words of a line: `MAX_LINE_ARGS` of HAProxy, which refuses a file with more.
const WORDS_MAX: usize = 64;

/// The words of a line, or what is wrong with it.
pub(super) fn words(line: &str, variable: &mut HaproxyLookup<'_>) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.trim_start_matches('\u{feff}').trim_end();
    let mut is_quoted = false;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '#' if !is_quoted => break,
            ' ' | '\t' if !is_quoted => words.extend(word.take()),
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            '\'' if !is_quoted => {
                let Some((inside, behind)) = rest.split_once('\'') else {
                    return Err("a quote `'` is not closed".to_owned());
                };
                word.get_or_insert_default().push_str(inside);
                rest = behind;
            }
            '$' if is_quoted && !rest.is_empty() => {
                let (value, behind) = expand(rest, variable)?;
                word.get_or_insert_default().push_str(&value);
                rest = behind;
            }
            '\\' => {
                let Some(next) = rest.chars().next() else {
                    return Err("a `\\` stands at the end of the line".to_owned());
                };
                rest = &rest[next.len_utf8()..];
                let escaped = match next {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                };
                word.get_or_insert_default().push(escaped);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    if is_quoted {
        return Err("a quote `\"` is not closed".to_owned());
    }
    words.extend(word);
    if words.len() > WORDS_MAX {
        return Err(format!("a line has more than {WORDS_MAX} words"));
    }
    Ok(words)
}

/// The words of a line whose address HAProxy expands again, without quotes too.
pub(super) fn expand_address(
    mut words: Vec<String>,
    variable: &mut HaproxyLookup<'_>,
) -> Result<Vec<String>, String> {
    let place = match words.first().map(String::as_str) {
        Some("bind" | "log" | "source") => 1,
        Some("server") => 2,
        Some("server-template") => 3,
        _ => return Ok(words),
    };
    if let Some(address) = words.get_mut(place) {
        let mut expanded = String::new();
        let mut rest = address.as_str();
        while let Some((before, name)) = rest.split_once('$') {
            let (value, behind) = expand(name, variable)?;
            expanded.push_str(before);
            expanded.push_str(&value);
            rest = behind;
        }
        *address = expanded + rest;
    }
    Ok(words)
}

/// The value of a variable, whose name stands behind the `$`, and the text behind it.
fn expand<'t>(
    rest: &'t str,
    variable: &mut HaproxyLookup<'_>,
) -> Result<(String, &'t str), String> {
    let (name, behind) = match rest.strip_prefix('{') {
        Some(inside) => {
            let closed = inside.split_once('}');
            closed.ok_or_else(|| "a `${` is not closed".to_owned())?
        }
        None => {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            rest.split_at(rest.find(|c: char| !is_name(c)).unwrap_or(rest.len()))
        }
    };
    let (name, default) = match name.split_once('-') {
        Some((name, default)) => (name, Some(default.to_owned())),
        None => (name.trim_end_matches("[*]"), None),
    };
    match variable(name)?.or(default) {
        Some(value) => Ok((value, behind)),
        // HAProxy takes it as empty, which is hardly ever what was meant.
        None => Err(format!("the variable {name} is not set: set it for `lariat import`")),
    }
}

/// The variables that the file names; the environment has the others.
#[derive(Debug, Default)]
pub(super) struct HaproxyVariables {
    /// `None` = taken away.
    own: HashMap<String, Option<String>>,
    /// Whether the environment does not count any more.
    is_reset: bool,
    /// The bytes of all values that stand in lines, so that lines that double do not fill memory.
    replaced_bytes: usize,
}

impl HaproxyVariables {
    /// The value for a line; an error if lines have got too long by all of them.
    pub(super) fn replace(
        &mut self,
        name: &str,
        files: &mut dyn SourceFiles,
    ) -> Result<Option<String>, String> {
        let value = self.value(name, files);
        self.replaced_bytes += value.as_ref().map_or(0, String::len);
        if self.is_spent() {
            let most = FILE_BYTES_MAX >> 20;
            return Err(format!("variables make more than {most} MiB, as in no configuration"));
        }
        Ok(value)
    }

    /// Whether no more lines are looked at.
    pub(super) fn is_spent(&self) -> bool {
        self.replaced_bytes > FILE_BYTES_MAX
    }

    fn value(&self, name: &str, files: &mut dyn SourceFiles) -> Option<String> {
        match self.own.get(name) {
            Some(own) => own.clone(),
            None if self.is_reset => None,
            None => files.variable(name),
        }
    }

    /// Does what a line of the section says.
    pub(super) fn take(&mut self, words: &[String], files: &mut dyn SourceFiles) {
        let Some((keyword, names)) = words.split_first() else { return };
        match (keyword.as_str(), names) {
            ("setenv", [name, value, ..]) => self.own.extend([(name.clone(), Some(value.clone()))]),
            ("presetenv", [name, value, ..]) if self.value(name, files).is_none() => {
                self.own.extend([(name.clone(), Some(value.clone()))]);
            }
            ("unsetenv", names) => self.own.extend(names.iter().map(|name| (name.clone(), None))),
            ("resetenv", names) => {
                let kept = names.iter().map(|name| (name.clone(), self.value(name, files)));
                self.own = kept.collect();
                self.is_reset = true;
            }
            _ => {}
        }
    }
}

/// All that was read.
#[derive(Debug, Default)]
pub(super) struct HaproxyReading {
    pub(super) global: Statements,
    pub(super) sections: Vec<HaproxySection>,
    /// The place of the section whose lines are being read.
    pub(super) within: HaproxyPlace,
    pub(super) variables: HaproxyVariables,
    pub(super) is_full: bool,
    /// How many rules on clients there are, each of which may name others.
    pub(super) rules: usize,
}

/// Begins the name of an option that a line turns off.
pub(super) const OFF: &str = "no ";

/// The section whose lines are read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum HaproxyPlace {
    #[default]
    Nothing,
    Global,
    /// The last one of `sections`.
    Proxy,
    /// A section that is no service.
    Other(&'static OptionMeaning),
}

/// A section `defaults`, `frontend`, `backend` or `listen`.
#[derive(Clone, Debug)]
pub(super) struct HaproxySection {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) place: SourceLine,
    /// The place of its defaults among the sections.
    pub(super) defaults: Option<usize>,
    pub(super) options: Statements,
    /// These behind those of its defaults, once somebody asked for them.
    pub(super) whole: OnceCell<Statements>,
}

impl HaproxySection {
    pub(super) fn has_front(&self) -> bool {
        ["frontend", "listen"].contains(&self.kind.as_str())
    }

    pub(super) fn has_back(&self) -> bool {
        ["backend", "listen"].contains(&self.kind.as_str())
    }

    /// Stands for the section in a finding.
    pub(super) fn statement(&self) -> Statement {
        Statement::new(&self.place, &self.kind, vec![self.name.clone()])
    }
}

impl HaproxyReading {
    /// The options of a section behind those of its defaults, but for those that are turned off.
    pub(super) fn options<'s>(&self, section: &'s HaproxySection) -> &'s Statements {
        section.whole.get_or_init(|| {
            let blocks = self.blocks(section);
            let all = || blocks.iter().rev().flat_map(|block| block.shared());
            let off = all().map(|(name, written)| (name, written.option.starts_with(OFF)));
            let off: HashMap<_, _> = off.collect();
            Statements::of(all().filter(|(name, written)| {
                off.get(name) == Some(&false) && !written.option.starts_with(OFF)
            }))
        })
    }

    /// The number of those options, and of those that are turned off.
    pub(super) fn count(&self, section: &HaproxySection) -> usize {
        self.blocks(section).iter().map(|block| block.len()).sum()
    }

    /// The options of a section, of its defaults, of theirs, and so on.
    fn blocks<'s>(&'s self, section: &'s HaproxySection) -> Vec<&'s Statements> {
        let mut blocks = vec![&section.options];
        let mut next = section.defaults;
        while let Some(defaults) = next.and_then(|place| self.sections.get(place)) {
            blocks.push(&defaults.options);
            next = defaults.defaults;
        }
        blocks
    }

    pub(super) fn backend(&self, name: &str) -> Option<&HaproxySection> {
        self.sections.iter().find(|one| one.has_back() && one.name == name)
    }

    /// A path below the directory that `ca-base` or `crt-base` names.
    pub(super) fn path(&self, base: &str, path: &str) -> String {
        match self.global.value(base) {
            Some(base) if !path.starts_with(['/', '@']) => {
                format!("{}/{path}", base.trim_end_matches('/'))
            }
            _ => path.to_owned(),
        }
    }
}

/// The meaning of a keyword with its scope.
pub(super) fn find(name: &str) -> Option<&'static OptionMeaning> {
    meanings::find(Predecessor::Haproxy, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Vec<String>, String> {
        words(line, &mut |name| Ok((name == "HOME").then(|| "/root".to_owned())))
    }

    #[test]
    fn words_are_what_haproxy_reads() {
        for (line, expected) in [
            ("  bind :443 # x", vec!["bind", ":443"]),
            (r#"a "b c" 'd "$e' f\ g"#, vec!["a", "b c", "d \"$e", "f g"]),
            (
                r#"x "${HOME}/y" "$HOME" "${NONE-z}" $HOME"#,
                vec!["x", "/root/y", "/root", "z", "$HOME"],
            ),
            (r#"a "" b"#, vec!["a", "", "b"]),
            ("# only a comment", vec![]),
        ] {
            assert_eq!(read(line).unwrap(), expected, "{line}");
        }
        let set = |name: &str| Ok((name == "BE").then(|| "127.0.0.1".to_owned()));
        let expanded =
            |line: &str| expand_address(words(line, &mut { set }).unwrap(), &mut { set });
        for (line, expected) in [
            ("server a ${BE}:80 check", "server a 127.0.0.1:80 check"),
            ("server a $BE:80", "server a 127.0.0.1:80"),
            ("bind ${BE}:1,${BE}:2", "bind 127.0.0.1:1,127.0.0.1:2"),
            ("acl a path ${BE}", "acl a path ${BE}"),
        ] {
            assert_eq!(expanded(line).unwrap().join(" "), expected);
        }
        assert!(expanded("server a ${NONE}:80").is_err());
        for line in ["a \"b", "a 'b", "a\\", "\"$NONE\"", "\"${HOME\""] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
