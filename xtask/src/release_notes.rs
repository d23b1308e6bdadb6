//! `cargo xtask release-notes TAG`: the changelog's section of a release, as its notes.
//!
//! Owns what must hold before a release is made: tag, version, changelog and tree agree.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Prints the section of a tag `vVERSION`.
///
/// # Errors
/// If the tag is of another version, the tree has changes, or the section lacks or is not dated.
pub(crate) fn run(root: &Path, tag: &str) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    ensure!(
        tag == format!("v{version}"),
        "the tag is {tag}, and Cargo.toml says {version}: change workspace.package.version, or tag \
         v{version}"
    );
    let mut git = Command::new("git");
    let status = git.arg("-C").arg(root).args(["status", "--porcelain"]).output()?;
    let changed = String::from_utf8_lossy(&status.stdout);
    ensure!(status.status.success() && changed.is_empty(), "the tree has changes:\n{changed}");
    let changelog = fs::read_to_string(root.join("CHANGELOG.md"))?;
    println!("{}", section(&changelog, version)?.trim());
    Ok(())
}

fn section<'t>(changelog: &'t str, version: &str) -> Result<&'t str> {
    let heading = format!("\n## {version}, ");
    let (_, rest) = changelog
        .split_once(&heading)
        .with_context(|| format!("CHANGELOG.md has no section `## {version}, DATE`"))?;
    let (date, body) = rest.split_once('\n').unwrap_or((rest, ""));
    let is_date = date.len() == 10 && date.bytes().all(|byte| b"0123456789-".contains(&byte));
    ensure!(is_date, "CHANGELOG.md: {version} has no date but `{date}`");
    Ok(body.split_once("\n## ").map_or(body, |(body, _)| body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_of_a_version_is_cut_out_and_must_be_dated() {
        let text = "# Changelog\n\n## 0.2.0, 2027-01-02\n\nnew\n\n## 0.1.0, unreleased\n\nold\n";
        assert_eq!(section(text, "0.2.0").unwrap().trim(), "new");
        assert!(section(text, "0.1.0").unwrap_err().to_string().contains("`unreleased`"));
        assert!(section(text, "0.3.0").unwrap_err().to_string().contains("no section"));
    }
}
