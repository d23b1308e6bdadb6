//! `cargo xtask generate`: the pages that are made from the product's own tables.
//!
//! Owns which page is made of what; the words are in the tables.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use import::Predecessor;

const LINE_CHARACTERS_MAX: usize = 110;

struct GeneratedPage {
    path: &'static str,
    text: String,
}

/// Every page, with the lines of Markdown wrapped.
fn pages() -> Vec<GeneratedPage> {
    let mut pages = unwrapped_pages();
    let markdown = pages.iter_mut().filter(|page| page.path.ends_with(".md"));
    for page in markdown {
        page.text = wrapped(&page.text);
    }
    pages
}

/// Wraps paragraphs and items of lists; code and headings stay as they are.
fn wrapped(text: &str) -> String {
    let mut is_code = false;
    let mut page = String::new();
    for line in text.lines() {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence || line.starts_with([' ', '#', '|', '<']) {
            page.push_str(line);
            page.push('\n');
            continue;
        }
        let indent = if line.starts_with("- ") { "  " } else { "" };
        let mut width = 0;
        for word in line.split(' ') {
            // A word that would begin a list there stays with the one before.
            let begins_list = word == "-" || word == "+" || word == "*";
            let word = linked(word);
            let characters = word.chars().count();
            if width > 0 && width + 1 + characters > LINE_CHARACTERS_MAX && !begins_list {
                page.push('\n');
                page.push_str(indent);
                width = indent.len();
            } else if width > 0 {
                page.push(' ');
                width += 1;
            }
            page.push_str(&word);
            width += characters;
        }
        page.push('\n');
    }
    page
}

/// A guide that is named by its path, as in the help of a key, is linked to.
fn linked(word: &str) -> String {
    let path = word.trim_matches(['(', ')', '.', ',', ':', ';']);
    match path.strip_prefix("docs/guide/") {
        Some(guide) => word.replace(path, &format!("[{path}](../guide/{guide})")),
        None => word.to_owned(),
    }
}

fn unwrapped_pages() -> Vec<GeneratedPage> {
    let mut metrics = head("Metrics", "the catalogue of metrics");
    metrics.push_str(
        "`/metrics` shows these, in the Prometheus text format 0.0.4. Counters survive a reload, \
         but not the worker process. With more than 256 services, or servers, counters and \
         histograms that have counted nothing are left out: `or vector(0)` stands for them in a \
         query. Of what expires, each service has the 256 that do so first.\n",
    );
    telemetry::reference::write_reference(&mut metrics);
    let mut outcomes = head("How connections end", "the table of reasons");
    outcomes.push_str(
        "Every connection ends with exactly one of these: the `reason` of its line in the log, \
         whose `detail` says more, and of `lariat_connections_ended_total`. If several servers \
         were tried, it is the last one's.\n",
    );
    telemetry::outcome::write_reference(&mut outcomes);
    let mut failures = head("Why transactions fail", "the table of reasons");
    failures.push_str(
        "Every transaction of `lariat-lab load` succeeds, or fails for exactly one of these \
         reasons: the `failures` of its record. The side is where to look first.\n",
    );
    load::failure::write_reference(&mut failures);
    let mut pages = vec![
        GeneratedPage { path: "docs/reference/configuration.md", text: config::keys::reference() },
        GeneratedPage {
            path: "docs/reference/lariat.schema.json",
            text: config::TABLE.schema("lariat.toml"),
        },
        GeneratedPage { path: "docs/reference/failures.md", text: failures },
        GeneratedPage { path: "docs/reference/load.md", text: load::options::reference::render() },
        GeneratedPage { path: "docs/reference/metrics.md", text: metrics },
        GeneratedPage { path: "docs/reference/outcomes.md", text: outcomes },
    ];
    pages.extend(PREDECESSORS.map(|(of, path)| {
        let title = format!("From {of}");
        GeneratedPage { path, text: head(&title, "the importer's table") + &import::page(of) }
    }));
    pages
}

/// The programs whose configurations are imported; the options of stud are among those of hitch.
const PREDECESSORS: [(Predecessor, &str); 4] = [
    (Predecessor::Hitch, "docs/reference/from-hitch.md"),
    (Predecessor::Stunnel, "docs/reference/from-stunnel.md"),
    (Predecessor::Haproxy, "docs/reference/from-haproxy.md"),
    (Predecessor::Nginx, "docs/reference/from-nginx.md"),
];

fn head(title: &str, source: &str) -> String {
    format!("<!-- Made by `cargo xtask generate` from {source}. Do not edit. -->\n\n# {title}\n\n")
}

/// Writes every page.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write(root: &Path) -> Result<()> {
    for page in pages() {
        let path = root.join(page.path);
        fs::create_dir_all(path.parent().context("pages are in folders")?)?;
        fs::write(&path, page.text).with_context(|| page.path)?;
    }
    Ok(())
}

/// Compares every page with what would be written.
///
/// # Errors
/// If one differs; the first line that does is named.
pub(crate) fn check(root: &Path) -> Result<()> {
    for page in pages() {
        let found = fs::read_to_string(root.join(page.path)).with_context(|| page.path)?;
        if let Some(line) = first_difference(&found, &page.text) {
            bail!("{}:{line} is not what its table makes; run `cargo xtask generate`", page.path);
        }
    }
    Ok(())
}

/// The first line, from 1, that differs.
fn first_difference(found: &str, wanted: &str) -> Option<usize> {
    if found == wanted {
        return None;
    }
    let same = found.lines().zip(wanted.lines()).take_while(|(one, other)| one == other);
    Some(same.count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_are_what_the_tables_say() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        check(root).unwrap();
    }

    #[test]
    fn guides_are_linked_to() {
        let linked = wrapped("(docs/guide/a.md). `docs/guide/b.md`");
        assert_eq!(linked, "([docs/guide/a.md](../guide/a.md)). `docs/guide/b.md`\n");
    }

    #[test]
    fn only_prose_is_wrapped() {
        let words = |count| vec!["word"; count].join(" ");
        let text = format!("# {0}\n\n- {0}\n\n    {0}\n", words(30));
        let item = format!("- {}\n  {}", words(21), words(9));
        let page = format!("# {0}\n\n{item}\n\n    {0}\n", words(30));
        assert_eq!(wrapped(&text), page);
    }
}
