//! Variables of the environment in the values of a file: `${NAME}`, and `${NAME:-default}` where
//! it may be unset or empty, as shells have them (POSIX.1, Shell Command Language, 2.6.2).

use std::collections::BTreeMap;

use options::{Key, Node, Problem, Report, Table, Value, flags};

/// The characters that begin a variable.
const OPEN: &str = "${";

/// The characters that stand for those, and begin none.
const ESCAPED: &str = "$${";

/// The names of the variables in a text.
pub(crate) fn named(text: &str) -> impl Iterator<Item = &str> {
    text.split(OPEN).skip(1).map(|rest| rest.split_at(name_length(rest)).0)
}

fn name_length(text: &str) -> usize {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.find(|c| !is_of_name(c)).unwrap_or(text.len())
}

/// Replaces the variables in all values of a table, each value as its key takes it.
pub(crate) fn expand(
    node: &mut Node,
    path: &str,
    table: &Table,
    variables: &BTreeMap<String, String>,
    report: &Report<'_>,
) {
    let Value::Table(entries) = &mut node.value else {
        return;
    };
    for entry in entries {
        let path = match path {
            "" => entry.key.clone(),
            parent => format!("{parent}.{}", entry.key),
        };
        let Some(key) = table.find(&path) else {
            continue;
        };
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

/// A value that a variable gave, as its key takes it: a number is one without quotes, and a list
/// may stand in one variable, with commas.
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
        assert!(named("${A} ${B:-x} $C ${").eq(["A", "B", ""]));
    }
}
