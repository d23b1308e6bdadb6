//! Recognises files of other programs, for users who pass them to other commands than `import`.

use crate::meanings::{self, Predecessor};

/// Returns the program whose file a text is, if most of its lines fit one program.
pub fn recognise(text: &str) -> Option<Predecessor> {
    let lines = text.lines().map(|line| line.trim_start_matches('\u{feff}').trim());
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    let lines: Vec<_> = lines.take(LINES_MAX).collect();
    if lines.iter().any(|line| line.starts_with("[[")) {
        return None;
    }
    let count = |of: Predecessor| lines.iter().filter(|line| is_of(of, line)).count();
    let has_core = |of: Predecessor| {
        let core: &[&str] = match of {
            Predecessor::Hitch => &["frontend", "backend", "pem-file", "pem-dir"],
            Predecessor::Stunnel => &["accept", "connect"],
            _ => return true,
        };
        let names = lines.iter().filter_map(|line| line.split_once('='));
        names.into_iter().any(|(name, _)| core.contains(&name.trim()))
    };
    let kinds =
        [Predecessor::Haproxy, Predecessor::Nginx, Predecessor::Stunnel, Predecessor::Hitch];
    let kinds = kinds.into_iter().filter(|kind| has_core(*kind));
    let most = kinds.map(|kind| (count(kind), kind)).max_by_key(|(count, _)| *count);
    most.filter(|(count, _)| *count > 0 && count * 2 >= lines.len()).map(|(_, kind)| kind)
}

/// Maximum number of lines examined.
const LINES_MAX: usize = 500;

fn is_of(kind: Predecessor, line: &str) -> bool {
    let assigned = line.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
    let is_option = |name: &str| meanings::find(kind, name).is_some();
    match kind {
        Predecessor::Haproxy => {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or_default();
            let first = if first == "no" { words.next().unwrap_or_default() } else { first };
            begins_line_of_haproxy(first)
                && words.next() != Some("=")
                && !line.ends_with([';', '{'])
        }
        Predecessor::Nginx => {
            let has_equals = line.split_whitespace().nth(1) == Some("=");
            line.ends_with([';', '{', '}']) && !has_equals
        }
        // Values in the other program's file are quoted, or are words of its own.
        Predecessor::Stunnel => {
            let is_section = line.starts_with('[') && line.ends_with(']') && assigned.is_none();
            is_section || assigned.is_some_and(|(name, _)| is_option(name))
        }
        Predecessor::Hitch | Predecessor::Stud => {
            line == "}" || assigned.is_some_and(|(name, _)| is_option(name))
        }
    }
}

fn begins_line_of_haproxy(first: &str) -> bool {
    let is_first = |name: &str| {
        let name = name.strip_prefix("global ").unwrap_or(name);
        !name.starts_with("bind ") && name.split(' ').next() == Some(first)
    };
    let sections = ["global", "defaults", "frontend", "backend", "listen"];
    let mut all = meanings::of(Predecessor::Haproxy).iter().flat_map(|one| &one.names);
    sections.contains(&first) || all.any(|name| is_first(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_is_known_by_its_file() {
        for (text, kind) in [
            ("frontend = \"[*]:443\"\npem-file = \"/a\"\n", Some(Predecessor::Hitch)),
            ("frontend = {\n host = \"*\"\n}\n", Some(Predecessor::Hitch)),
            ("; x\n[imaps]\naccept = 993\ncert = /a\n", Some(Predecessor::Stunnel)),
            ("global\n  maxconn 3\nfrontend a\n  bind :443 ssl\n", Some(Predecessor::Haproxy)),
            ("stream {\n  server {\n  listen 1 ssl;\n}\n}\n", Some(Predecessor::Nginx)),
            ("events {} http { server { listen 1 ssl; } }\n", Some(Predecessor::Nginx)),
            ("[[service]]\nname = \"a\"\n", None),
            ("[workers]\nthreads = 3\nthreds = 4\n", None),
            ("log = \"x\"\nadmin = 3\n", None),
            ("", None),
        ] {
            assert_eq!(recognise(text), kind, "{text}");
        }
    }
}
