//! Texts made from the table of options: the reference page and the help of `lariat serve`.

use crate::quantity;
use crate::table::{Default, KEYS, Key, Kind};

const PREFACE: &str = "\
<!-- Made by `cargo xtask generate` from the table of options. Do not edit. -->

# Configuration

A configuration is a TOML file (`lariat serve FILE`), or the flags of `lariat serve`, which
describe one service. Every flag means the key beside it. Unknown keys are errors.

Times are written `250ms`, `10s`, `5m`, `12h` or `7d`; sizes `512B`, `64KiB`, `32MiB` or `1GiB`.
Relative paths begin at the directory of the file, those in flags at the working directory.

```toml
[[service]]
name = \"web\"
front = { listen = [\"[::]:443\"], tls = { certificates = [\"certs/\"], alpn = [\"h2\", \"http/1.1\"] } }
back  = { servers = [\"10.0.0.3:80\", \"unix:/run/app.sock\"], balance = \"least-connections\" }
```
";

/// The reference of all keys, as Markdown.
pub fn render() -> String {
    let mut page = PREFACE.to_owned();
    for key in KEYS {
        page.push_str(&entry(key));
    }
    page
}

fn entry(key: &Key) -> String {
    let level = if key.parent().is_empty() { "##" } else { "###" };
    let mut text = format!("\n{level} `{}`\n\n{}\n\n", key.path, key.help);
    text.push_str(&format!("- Holds: {}\n", holds(key)));
    text.push_str(&format!("- Default: {}\n", default(key)));
    if let Some(flag) = key.flag {
        let again = if key.many {
            " (may be given again)"
        } else {
            ""
        };
        text.push_str(&format!("- Flag: `--{flag} {}`{again}\n", key.value_name()));
    }
    text.push_str(&format!("- Example: `{}`\n", key.example));
    text
}

fn holds(key: &Key) -> String {
    let one = match key.kind {
        Kind::Table => "table".to_owned(),
        Kind::Address => "address".to_owned(),
        Kind::Endpoint => "address or host name with port".to_owned(),
        Kind::Network => "network (CIDR), address or `unix`".to_owned(),
        Kind::Path => "path".to_owned(),
        Kind::Text(_) => "text".to_owned(),
        Kind::Boolean => "`true` or `false`".to_owned(),
        Kind::Count(min, max) => format!("number from {min} to {max}"),
        Kind::Duration(min, max) => {
            let (min, max) = (quantity::show_duration(min), quantity::show_duration(max));
            format!("time from {min} to {max}")
        }
        Kind::Size(min, max) => {
            let (min, max) = (quantity::show_size(min), quantity::show_size(max));
            format!("size from {min} to {max}")
        }
        Kind::Choice(words) => words
            .iter()
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(", "),
        Kind::Ports => "port, or range of ports".to_owned(),
        Kind::Threads => "`auto`, a number, or a list of CPUs".to_owned(),
    };
    let one = match key.shorthand {
        Some(short) => format!("{one}, or a value that means its `{short}`"),
        None => one,
    };
    if key.many {
        format!("list of: {one}")
    } else {
        one
    }
}

fn default(key: &Key) -> String {
    match key.default {
        Default::Required => "none, it must be written".to_owned(),
        Default::Absent(meaning) => meaning.to_owned(),
        Default::Text(text) => format!("`{text}`"),
    }
}

/// The flags of `lariat serve`, each with its help below it, in groups.
pub fn flags() -> String {
    let mut text = String::new();
    let mut group = "";
    for key in KEYS {
        let Some(flag) = key.flag else {
            continue;
        };
        let heading = heading(key);
        if heading != group {
            text.push_str(&format!("\n{heading}:\n"));
            group = heading;
        }
        text.push_str(&format!("  --{flag} {}\n", key.value_name()));
        text.push_str(&indented(&short_help(key)));
    }
    text
}

/// The widest line of the help, in characters.
const LINE_CHARACTERS_MAX: usize = 92;

fn indented(words: &str) -> String {
    let mut text = String::new();
    let mut line = "     ".to_owned();
    for word in words.split_whitespace() {
        if line.len() + 1 + word.len() > LINE_CHARACTERS_MAX {
            text.push_str(&line);
            text.push('\n');
            line = "     ".to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    text + &line + "\n"
}

fn heading(key: &Key) -> &'static str {
    let path = key.path;
    match path.strip_prefix("service.") {
        Some(path) if path.starts_with("front.tls.") => "TLS",
        Some(path) if path.starts_with("front.") => "Front",
        Some(path) if path.starts_with("back.") => "Back",
        Some(_) => "Service",
        None => "Process",
    }
}

/// Longer lists of words are left to the reference.
const WORDS_MAX: usize = 6;

/// The first sentence, and the default.
fn short_help(key: &Key) -> String {
    let first = key
        .help
        .split_once(". ")
        .map_or(key.help, |(first, _)| first);
    let first = first.trim_end_matches('.').replace('`', "");
    match (key.default, key.kind) {
        (Default::Text(text), Kind::Choice(words)) if words.len() <= WORDS_MAX => {
            format!("{first}: {} [default: {text}]", words.join(", "))
        }
        (_, Kind::Choice(words)) if words.len() <= WORDS_MAX => {
            format!("{first}: {}", words.join(", "))
        }
        (Default::Text(text), _) => format!("{first} [default: {text}]"),
        (Default::Required | Default::Absent(_), _) => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_entry() {
        let page = render();
        for key in KEYS {
            assert!(
                page.contains(&format!("# `{}`\n", key.path)),
                "{}",
                key.path
            );
        }
    }

    #[test]
    fn every_flag_is_in_the_help() {
        let help = flags();
        for flag in KEYS.iter().filter_map(|key| key.flag) {
            assert!(help.contains(&format!("  --{flag} ")), "{flag}");
        }
    }
}
