//! `cargo xtask generate`: writes the pages that are made from the product's own tables.
//!
//! Handles the choice of page and source; the words are in the tables.
//!
//! `cargo xtask site` makes a searchable site of all pages, by mdBook; in a folder, beside the
//! sites of other versions. docs/SUMMARY.md sets the order of its pages, book.toml its looks. Files
//! keep their relative paths, because then a link that works on the forge works here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use import::Predecessor;

const LINE_CHARACTERS_MAX: usize = 110;

struct GeneratedPage {
    path: &'static str,
    text: String,
}

/// Returns every page, with the lines of Markdown wrapped.
fn pages() -> Vec<GeneratedPage> {
    let mut pages = unwrapped_pages();
    let markdown = pages.iter_mut().filter(|page| page.path.ends_with(".md"));
    for page in markdown {
        page.text = wrapped(&page.text);
    }
    pages
}

/// Wraps paragraphs and items of lists; code and headings stay unchanged.
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
            // A word that would begin a list there stays with the previous word.
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

/// Links to a guide that is named by its path, as in the help of a key.
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
    telemetry::exposition::write_reference(&mut metrics);
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
        GeneratedPage { path: "docs/reference/load.md", text: load::options::written::reference() },
        GeneratedPage { path: "docs/reference/metrics.md", text: metrics },
        GeneratedPage { path: "docs/reference/outcomes.md", text: outcomes },
    ];
    pages.extend(PREDECESSORS.map(|(of, path)| {
        let title = format!("From {of}");
        GeneratedPage { path, text: head(&title, "the importer's table") + &import::page(of) }
    }));
    pages
}

/// Programs whose configurations are imported; hitch's options include those of stud.
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
/// Fails if a file cannot be written.
pub(crate) fn write(root: &Path) -> Result<()> {
    for page in pages() {
        let path = root.join(page.path);
        fs::create_dir_all(path.parent().context("pages are in folders")?)?;
        fs::write(&path, page.text).with_context(|| page.path)?;
    }
    Ok(())
}

/// Compares every page with its generated text.
///
/// # Errors
/// Fails if a page differs; the message names the first line that does.
pub(crate) fn check(root: &Path) -> Result<()> {
    for page in pages() {
        let found = fs::read_to_string(root.join(page.path)).with_context(|| page.path)?;
        if let Some(line) = first_difference(&found, &page.text) {
            bail!("{}:{line} is not what its table makes; run `cargo xtask generate`", page.path);
        }
    }
    Ok(())
}

/// Returns the first line, from 1, that differs.
fn first_difference(found: &str, wanted: &str) -> Option<usize> {
    if found == wanted {
        return None;
    }
    let same = found.lines().zip(wanted.lines()).take_while(|(one, other)| one == other);
    Some(same.count() + 1)
}

/// Version to install if there is no mdBook.
const MDBOOK: &str = "0.5.4";

/// Every target that a page may link to.
const SHOWN: &[&str] = &[
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "docs",
    "examples",
    "pkg",
    "scenarios",
    "targets",
];

/// Order of the pages, with links relative to its folder.
const SUMMARY: &str = "docs/SUMMARY.md";

/// List of all versions' folders in a site, which docs/versions.js reads.
const VERSIONS: &str = "versions.json";

/// Builds the site in target/site/book; with a folder, also as the folder of this version in it,
/// which replaces an earlier one of the same name.
///
/// # Errors
/// Fails if mdBook cannot be installed, or a file cannot be copied.
pub(crate) fn make_site(root: &Path, folder: Option<&str>) -> Result<()> {
    let site = root.join("target/site");
    let source = site.join("src");
    if source.exists() {
        fs::remove_dir_all(&source)?;
    }
    fs::create_dir_all(&source)?;
    for name in SHOWN {
        copy(&root.join(name), &source.join(name)).with_context(|| (*name).to_owned())?;
    }
    let summary = fs::read_to_string(root.join(SUMMARY)).context(SUMMARY)?;
    fs::write(source.join("SUMMARY.md"), from_root(&summary))?;
    let status = Command::new(mdbook(&site)?).arg("build").arg(root).status()?;
    ensure!(status.success(), "mdbook ends with {status}");
    println!("site: {}", site.join("book/index.html").display());
    if let Some(folder) = folder {
        publish(&site.join("book"), Path::new(folder))?;
    }
    Ok(())
}

fn publish(book: &Path, folder: &Path) -> Result<()> {
    let place = folder.join(env!("CARGO_PKG_VERSION"));
    fs::create_dir_all(folder)?;
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    copy_as_is(book, &place)?;
    let mut versions = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        versions.extend(order(&name).map(|order| (order, name)));
    }
    versions.sort();
    let names: Vec<_> = versions.into_iter().rev().map(|(_, name)| name).collect();
    let newest = names.first().context("there is the version that was made")?;
    let page = format!("<!doctype html><meta http-equiv=refresh content='0; url={newest}/'>\n");
    fs::write(folder.join("index.html"), page)?;
    fs::write(folder.join(VERSIONS), serde_json::to_string(&names)?)?;
    println!("site: {}, with {}", folder.join("index.html").display(), names.join(", "));
    Ok(())
}

/// Parses the numbers of a version; `None` if it is no version.
fn order(version: &str) -> Option<Vec<u64>> {
    version.split('.').map(|number| number.parse().ok()).collect()
}

fn copy_as_is(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").arg("-r").args([from, to]).status()?;
    ensure!(status.success(), "{} cannot be copied to {}", from.display(), to.display());
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.extension().is_some_and(|extension| extension == "md") {
        fs::write(to, with_index(&fs::read_to_string(from)?))?;
        return Ok(());
    }
    if !from.is_dir() {
        fs::copy(from, to)?;
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Returns a summary whose links begin at the root, not `docs`, and that lists itself as a page.
fn from_root(summary: &str) -> String {
    let pages = summary.replace("](", "](docs/");
    let pages = pages.replace("](docs/../", "](");
    format!("{pages}\n[All pages]({SUMMARY})\n")
}

/// Replaces links to a README by links to `index`, mdBook's name for it.
fn with_index(page: &str) -> String {
    page.replace("/README.md)", "/index.md)").replace("/README.md#", "/index.md#")
}

/// Returns the path of mdBook: the user's, or one installed below `site`.
fn mdbook(site: &Path) -> Result<PathBuf> {
    let tools = site.join("tools");
    let ours = tools.join("bin/mdbook");
    let mut found = [PathBuf::from("mdbook"), ours.clone()].into_iter();
    if let Some(program) = found.find(|program| answers(program)) {
        return Ok(program);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["install", "mdbook", "--locked", "--version", MDBOOK])
        .arg("--root")
        .arg(&tools)
        .status()?;
    ensure!(status.success(), "mdbook {MDBOOK} cannot be installed");
    Ok(ours)
}

fn answers(program: &Path) -> bool {
    let mut version = Command::new(program);
    version.arg("--version").stdout(Stdio::null());
    version.status().is_ok_and(|status| status.success())
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

    #[test]
    fn a_version_stands_beside_older_ones_and_the_newest_is_led_to() {
        let folder = std::env::temp_dir().join(format!("lariat-site-{}", std::process::id()));
        let (book, site) = (folder.join("book"), folder.join("site"));
        for path in [&book, &site.join("0.0.9"), &site.join("0.0.10"), &site.join("pictures")] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(book.join("index.html"), "first").unwrap();
        publish(&book, &site).unwrap();
        fs::write(book.join("index.html"), "second").unwrap();
        publish(&book, &site).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let read = |name: &str| fs::read_to_string(site.join(name)).unwrap();
        assert_eq!(read(&format!("{version}/index.html")), "second");
        assert_eq!(read(VERSIONS), format!(r#"["{version}","0.0.10","0.0.9"]"#));
        assert!(read("index.html").contains(&format!("url={version}/")));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn links_of_a_summary_begin_at_the_root() {
        let summary = "[A](../README.md)\n- [B](guide/b.md)\n";
        let moved = "[A](README.md)\n- [B](docs/guide/b.md)\n\n[All pages](docs/SUMMARY.md)\n";
        assert_eq!(from_root(summary), moved);
    }
}
