//! `cargo xtask release-notes TAG`: the changelog's section of a release, as its notes.
//!
//! Owns what must hold before a release is made: tag, version, changelog, chart and tree agree.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

const CHART: &str = "pkg/helm/lariat/Chart.yaml";

/// Prints the section of a tag `vVERSION`.
///
/// # Errors
/// If the tag is of another version or commit, the tree has changes, the chart has another version,
/// or the section lacks or is not dated.
pub(crate) fn run(root: &Path, tag: &str) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    ensure!(
        tag == format!("v{version}"),
        "the tag is {tag}, and Cargo.toml says {version}: change workspace.package.version, or tag \
         v{version}"
    );
    fits_tree(root, tag)?;
    fits_chart(&fs::read_to_string(root.join(CHART))?, version)?;
    let changelog = fs::read_to_string(root.join("CHANGELOG.md"))?;
    println!("{}", section(&changelog, version)?.trim());
    Ok(())
}

/// The commit is what the tag names, if there is one, and nothing is changed since.
fn fits_tree(root: &Path, tag: &str) -> Result<()> {
    let said = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output();
        let output = output.context("git cannot be started")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "git {}: {}", arguments.join(" "), errors.trim());
        Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
    };
    let changed = said(&["status", "--porcelain"])?;
    ensure!(
        changed.is_empty(),
        "the tree has changes that no commit has; commit or stash them:\n{changed}"
    );
    let reference = format!("refs/tags/{tag}^{{commit}}");
    let tagged = said(&["for-each-ref", &format!("refs/tags/{tag}")])?;
    ensure!(
        tagged.is_empty() || said(&["rev-parse", &reference])? == said(&["rev-parse", "HEAD"])?,
        "{tag} is the tag of another commit: `git checkout {tag}` first"
    );
    Ok(())
}

/// The chart is of the version, and so is the image that it names.
fn fits_chart(chart: &str, version: &str) -> Result<()> {
    for key in ["version", "appVersion"] {
        let line = format!("{key}: {version}");
        ensure!(chart.lines().any(|one| one == line), "{CHART} does not say `{line}`");
    }
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

    #[test]
    fn the_tree_is_a_commit_and_the_one_of_the_tag() {
        let root = std::env::temp_dir().join(format!("lariat-tag-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let git = |arguments: &str| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "tag.gpgSign=false"]);
            git.args(["-c", "commit.gpgSign=false", "-C"]).arg(&root);
            assert!(git.args(arguments.split(' ')).output().unwrap().status.success());
        };
        let refusal = || fits_tree(&root, "v1").unwrap_err().to_string();
        assert!(refusal().contains("not a git repository"));
        git("init");
        git("commit --allow-empty --message first");
        fits_tree(&root, "v1").unwrap();
        git("tag --annotate --message first v1");
        fits_tree(&root, "v1").unwrap();
        git("commit --allow-empty --message second");
        assert!(refusal().contains("v1 is the tag of another commit"));
        fs::write(root.join("new"), "").unwrap();
        assert!(refusal().contains("commit or stash them:\n?? new"));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_chart_is_of_this_version() {
        let chart = fs::read_to_string(Path::new("..").join(CHART)).unwrap();
        fits_chart(&chart, env!("CARGO_PKG_VERSION")).unwrap();
        assert!(fits_chart("version: 2\nappVersion: 1\n", "2").is_err());
    }
}
