//! `cargo xtask site`: the pages as a site with search, by mdBook.
//!
//! Owns which files the site has; docs/SUMMARY.md owns the order of its pages, book.toml its looks.
//! Files keep their places to each other, because then a link that works on the forge works here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The version that is installed if there is no mdBook.
const MDBOOK: &str = "0.5.4";

/// Everything that a page may link to.
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

/// The order of the pages, with links from its folder on.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Builds the site in target/site/book.
///
/// # Errors
/// If mdBook cannot be had, or a file cannot be copied.
pub(crate) fn run(root: &Path) -> Result<()> {
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

/// A summary whose links begin at the root instead of `docs`, and that names itself as a page.
fn from_root(summary: &str) -> String {
    let pages = summary.replace("](", "](docs/");
    let pages = pages.replace("](docs/../", "](");
    format!("{pages}\n[All pages]({SUMMARY})\n")
}

/// A page that links to `index` where it named a README, as mdBook calls those.
fn with_index(page: &str) -> String {
    page.replace("/README.md)", "/index.md)").replace("/README.md#", "/index.md#")
}

/// An mdBook: the user's, or one that is installed below `site`.
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
    fn links_of_a_summary_begin_at_the_root() {
        let summary = "[A](../README.md)\n- [B](guide/b.md)\n";
        let moved = "[A](README.md)\n- [B](docs/guide/b.md)\n\n[All pages](docs/SUMMARY.md)\n";
        assert_eq!(from_root(summary), moved);
    }
}
