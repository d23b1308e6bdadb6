//! Checks before a release. `cargo xtask release-notes TAG` prints the changelog's section of it,
//! if tag, version, changelog, chart and tree agree.
//!
//! `cargo xtask supply` checks the rules of deny.toml about licences and sources. The same file is
//! read by `cargo deny`, which also knows advisories and banned crates; this needs no network and
//! no tool to install. `cargo xtask tidy` restricts which crates may import which others.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value as Json;
use toml::{Table, Value};

const CHART: &str = "pkg/helm/lariat/Chart.yaml";

/// Prints the section of a tag `vVERSION`.
///
/// # Errors
/// Fails if the tag is of another version or commit, the tree has changes, the chart has another
/// version, or the section is missing or undated.
pub(crate) fn print_notes(root: &Path, tag: &str) -> Result<()> {
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

/// Checks that the tag, if it exists, names the current commit, and that nothing has changed since.
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

/// Checks that the chart and its image have the version.
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

/// Checks every package that the lock file names.
///
/// # Errors
/// Fails if a rule is broken, or deny.toml or the packages cannot be read.
pub(crate) fn check_supply(root: &Path) -> Result<()> {
    let rules: Table = fs::read_to_string(root.join("deny.toml"))?.parse().context("deny.toml")?;
    let metadata = metadata(root, &["--all-features"])?;
    let packages = metadata["packages"].as_array().context("cargo metadata has packages")?;
    let mut violations = Vec::new();
    for package in packages {
        violations.extend(licence(package, &strings(&rules, "licenses", "allow")));
        violations.extend(source(package, &strings(&rules, "sources", "allow-registry")));
    }
    for breach in &violations {
        eprintln!("{breach}");
    }
    ensure!(violations.is_empty(), "{} violations of deny.toml", violations.len());
    println!("supply: {} packages keep the rules of deny.toml", packages.len());
    Ok(())
}

/// Asks cargo for the packages.
///
/// # Errors
/// Fails if cargo fails.
pub(crate) fn metadata(root: &Path, which: &[&str]) -> Result<Json> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let arguments = ["metadata", "--locked", "--format-version=1"];
    let output = cargo.args(arguments).args(which).current_dir(root).output()?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn strings(rules: &Table, section: &str, key: &str) -> Vec<String> {
    let array = rules.get(section).and_then(|section| section.get(key)?.as_array());
    array.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn name(package: &Json) -> &str {
    package["name"].as_str().unwrap_or("a package without a name")
}

fn licence(package: &Json, allowed: &[String]) -> Option<String> {
    let licence = package["license"].as_str().unwrap_or("none");
    (!is_allowed(licence, allowed)).then(|| format!("{}: the licence {licence}", name(package)))
}

/// Reports whether the allowed licences satisfy an SPDX expression.
///
/// Brackets are read as spaces: exact for every expression that has none within an `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    plain
        .split(" AND ")
        .all(|all| all.split(" OR ").any(|one| allowed.iter().any(|allowed| allowed == one.trim())))
}

/// Reports a package from a registry that is not allowed. Packages of the workspace have no source.
fn source(package: &Json, allowed: &[String]) -> Option<String> {
    let source = package["source"].as_str()?;
    let registry = source.strip_prefix("registry+").or_else(|| source.strip_prefix("sparse+"));
    let known = registry.is_some_and(|registry| allowed.iter().any(|one| one == registry));
    (!known).then(|| format!("{}: from {source}", name(package)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    #[test]
    fn what_we_build_on_keeps_the_rules() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        check_supply(root).unwrap();
    }

    #[test]
    fn expressions_of_licences_are_read() {
        let allowed = ["MIT", "ISC"].map(str::to_owned);
        for (expression, is) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("MIT/Apache-2.0", true),
            ("ISC AND (GPL-3.0 OR MIT)", true),
            ("ISC AND GPL-3.0", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), is, "{expression}");
        }
    }

    #[test]
    fn only_known_registries_are_sources() {
        let allowed = ["https://known".to_owned()];
        let from = |source: Json| source_of(&json!({ "name": "a", "source": source }), &allowed);
        assert!(!from(Json::Null) && !from(json!("registry+https://known")));
        assert!(from(json!("git+https://known")) && from(json!("registry+https://other")));
    }

    fn source_of(package: &Json, allowed: &[String]) -> bool {
        source(package, allowed).is_some()
    }
}
