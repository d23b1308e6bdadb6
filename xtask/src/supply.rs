//! `cargo xtask supply`: the rules of deny.toml about licences and sources.
//!
//! The same file is read by `cargo deny`, which also knows advisories and banned crates; this needs
//! no network and no tool to install. Crates that only some of ours may name are restricted by
//! `cargo xtask tidy`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value as Json;
use toml::{Table, Value};

/// Checks every package that the lock file names.
///
/// # Errors
/// If a rule is broken, or deny.toml or the packages cannot be read.
pub(crate) fn run(root: &Path) -> Result<()> {
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
/// If cargo fails.
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

/// Whether an SPDX expression can be met by what is allowed.
///
/// Brackets are read as spaces: exact for every expression that has none within an `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    plain
        .split(" AND ")
        .all(|all| all.split(" OR ").any(|one| allowed.iter().any(|allowed| allowed == one.trim())))
}

/// Packages of ours have no source; others come from a registry that is allowed.
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
    fn what_we_build_on_keeps_the_rules() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        run(root).unwrap();
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
