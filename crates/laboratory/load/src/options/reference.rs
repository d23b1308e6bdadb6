//! The reference of all settings, as Markdown.

use super::table::{self, Group, Otherwise, Setting, Shape};

const PREFACE: &str = "\
<!-- Made by `cargo xtask generate` from the table of settings. Do not edit. -->

# lariat-lab load

```
lariat-lab load URL [FLAGS]
lariat-lab load --plan FILE.toml [URL] [FLAGS]
```

A plan file says what flags say, a key for each flag with the same name. Flags replace what the
file says; one that says how load arrives (`--connections`, `--rate`, `--ramp`, `--steps`,
`--find-capacity`) replaces every other way in the file. Unknown keys and flags are errors, and so
is a plan that contradicts itself: it is refused with all its reasons before the first packet.

```toml
url = \"https://127.0.0.1:8443/1k\"
handshake = \"session-id\"
tls = \"1.2\"
requests-per-session = 4
rate = 500
duration = \"10s\"
record = \"out.json\"
```

Times are written `250us`, `80ms`, `1.5s`, `10m` or `1h`; sizes `512`, `64k`, `1m` or `1g`, which
are powers of 1024; rates are transactions a second. Lists are written with commas, in a file as
arrays. Relative paths in a file begin at its directory, those in flags at the working directory.

The summary goes to the standard output, all talk to the standard error. How it ends:
[exit codes](lab-exit-codes.md). Plans to begin with: [examples/load](../../examples/load).
";

/// The whole page.
#[must_use]
pub fn render() -> String {
    let mut page = PREFACE.to_owned();
    for group in Group::ALL {
        page.push_str(&format!("\n## {}\n", group.title()));
        for setting in table::of(group) {
            page.push_str(&entry(setting));
        }
    }
    page
}

fn entry(setting: &Setting) -> String {
    let mut text = format!("\n### `{}`\n\n{}\n\n", setting.name, setting.help);
    text.push_str(&format!("- Flag: `{}`{}\n", flag(setting), again(setting)));
    if let Some(default) = default(setting) {
        text.push_str(&format!("- Default: {default}\n"));
    }
    text.push_str(&format!("- In a file: `{}`\n", line_of_file(setting)));
    text
}

fn flag(setting: &Setting) -> String {
    match (setting.name, setting.shape) {
        ("url", _) => setting.value_name().to_owned(),
        (name, Shape::Switch) => format!("--{name}"),
        (name, Shape::Commas(word)) => format!("--{name} {word},…"),
        (name, Shape::One(word) | Shape::Repeated(word)) => format!("--{name} {word}"),
    }
}

fn again(setting: &Setting) -> &'static str {
    match setting.shape {
        Shape::Repeated(_) => " (may be given again)",
        _ => "",
    }
}

fn default(setting: &Setting) -> Option<String> {
    match (setting.otherwise, setting.shape) {
        (_, Shape::Switch) => Some("off".to_owned()),
        (Otherwise::Absent(""), _) => None,
        (Otherwise::Absent(words) | Otherwise::Derived(words, _), _) => Some(words.to_owned()),
        (Otherwise::Text(text), _) => Some(format!("`{text}`")),
    }
}

/// The example as a line of TOML.
#[must_use]
pub fn line_of_file(setting: &Setting) -> String {
    let name = setting.name;
    let text = setting.example;
    match setting.shape {
        Shape::Switch => format!("{name} = true"),
        Shape::One(_) => format!("{name} = {}", scalar(text)),
        Shape::Repeated(_) => format!("{name} = [{}]", scalar(text)),
        Shape::Commas(_) => {
            let parts: Vec<_> = text.split(',').map(scalar).collect();
            format!("{name} = [{}]", parts.join(", "))
        }
    }
}

/// Numbers stand without quotes.
fn scalar(text: &str) -> String {
    match text.parse::<u64>() {
        Ok(_) => text.to_owned(),
        Err(_) => format!("\"{text}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::settings::Options;

    #[test]
    fn every_setting_has_its_entry() {
        let page = render();
        for setting in table::SETTINGS {
            let heading = format!("\n### `{}`\n", setting.name);
            assert!(page.contains(&heading), "{}", setting.name);
        }
    }

    #[test]
    fn every_example_and_default_is_a_value() {
        for setting in table::SETTINGS {
            let mut texts = match setting.shape {
                Shape::Switch => vec!["true"],
                Shape::Commas(_) => setting.example.split(',').collect(),
                Shape::One(_) | Shape::Repeated(_) => vec![setting.example],
            };
            if let Otherwise::Text(text) = setting.otherwise {
                texts.push(text);
            }
            for text in texts {
                let mut options = Options::default();
                let read = table::apply(&mut options, setting, text);
                assert_eq!(read, Ok(()), "{}: {text}", setting.name);
                assert_ne!(options, Options::default());
            }
        }
    }
}
