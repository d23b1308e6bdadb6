//! The place of a file in its crate's tree of modules, and which paths a file names.

/// The module of a file, given its path within `src`: `["a", "b"]` for `a/b.rs`.
pub(super) fn of_file(within_src: &str) -> Vec<String> {
    let bare = within_src.strip_suffix(".rs").unwrap_or(within_src);
    let bare = bare.strip_suffix("/mod").unwrap_or(bare);
    if matches!(bare, "lib" | "main") {
        return Vec::new();
    }
    bare.split('/').map(str::to_owned).collect()
}

/// Every path in masked code that begins at the crate, at this module, or at one of its children,
/// as absolute segments. Groups in braces are taken apart.
pub(super) fn named(code: &str, module: &[String], children: &[String]) -> Vec<Vec<String>> {
    let tokens = tokens(code);
    let mut paths = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let begins = at == 0 || tokens[at - 1] != "::";
        if !begins || pair[1] != "::" {
            continue;
        }
        let base = match pair[0] {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => module[..module.len().saturating_sub(1)].to_vec(),
            child if children.iter().any(|one| one == child) => {
                [module, &[child.to_owned()]].concat()
            }
            _ => continue,
        };
        branch(&tokens, at + 2, base, &mut paths);
    }
    paths
}

/// Follows a path from token `at` on; returns the token after it.
fn branch(tokens: &[&str], at: usize, base: Vec<String>, paths: &mut Vec<Vec<String>>) -> usize {
    match tokens.get(at) {
        Some(&"{") => {
            let mut at = at + 1;
            while tokens.get(at).is_some_and(|token| *token != "}") {
                at = if tokens[at] == "," {
                    at + 1
                } else {
                    branch(tokens, at, base.clone(), paths)
                };
            }
            at + 1
        }
        Some(&"super") if tokens.get(at + 1) == Some(&"::") => {
            let above = base[..base.len().saturating_sub(1)].to_vec();
            branch(tokens, at + 2, above, paths)
        }
        Some(word) => {
            let path = [base, vec![(*word).to_owned()]].concat();
            if tokens.get(at + 1) == Some(&"::") {
                return branch(tokens, at + 2, path, paths);
            }
            paths.push(path);
            let renamed = tokens.get(at + 1) == Some(&"as");
            at + if renamed { 3 } else { 1 }
        }
        None => at,
    }
}

fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_alphanumeric() || first == '_' {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            tokens.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named_by(code: &str) -> Vec<String> {
        let (module, children) = (vec!["m".to_owned()], vec!["kid".to_owned()]);
        named(code, &module, &children)
            .iter()
            .map(|path| path.join("/"))
            .collect()
    }

    #[test]
    fn paths_are_taken_apart() {
        assert_eq!(named_by("use crate::a::B;"), ["a/B"]);
        assert_eq!(
            named_by("use crate::{a, b::{C, d::E as F}};"),
            ["a", "b/C", "b/d/E"]
        );
        assert_eq!(named_by("super::x::y(self::z)"), ["x/y", "m/z"]);
        assert_eq!(named_by("kid::f(std::kid::g)"), ["m/kid/f"]);
    }

    #[test]
    fn files_are_modules() {
        assert_eq!(of_file("lib.rs"), Vec::<String>::new());
        assert_eq!(of_file("a/b.rs"), ["a", "b"]);
        assert_eq!(of_file("a/mod.rs"), ["a"]);
    }
}
