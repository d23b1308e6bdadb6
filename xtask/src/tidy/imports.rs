//! Rule: packages import only lower layers, and keep the restrictions on dependencies.

use anyhow::{Context, Result};

use super::layers::{self, Crate, RESTRICTIONS};
use super::manifest::Manifest;
use super::tree::Tree;
use super::violation::Violation;

/// Checks every manifest of the workspace.
pub(super) fn check(tree: &Tree) -> Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for file in &tree.manifests {
        let manifest = Manifest::parse(&file.text).with_context(|| file.path.clone())?;
        // The fuzz targets are a workspace of their own and may import any crate.
        let Some(manifest) = manifest.filter(|_| !file.path.starts_with("fuzz/")) else {
            continue;
        };
        let found = match layers::find(&manifest.name) {
            Some(package) => rules(package, &manifest),
            None => vec!["is not in xtask/src/tidy/layers.rs".to_owned()],
        };
        violations.extend(
            found
                .into_iter()
                .map(|rule| Violation::new(&file.path, rule)),
        );
    }
    Ok(violations)
}

fn rules(package: &Crate, manifest: &Manifest) -> Vec<String> {
    let mut broken = Vec::new();
    if !manifest.lints {
        broken.push("takes no lints from the workspace".to_owned());
    }
    for name in &manifest.dependencies {
        broken.extend(direction(package, name, false));
        broken.extend(restriction(package, name));
    }
    for name in &manifest.for_tests {
        broken.extend(direction(package, name, true));
    }
    broken
}

fn direction(package: &Crate, target: &str, for_tests: bool) -> Option<String> {
    let target = layers::find(target)?;
    let (from, to) = (package.name, target.name);
    let tester = matches!(from, "suite" | "testkit");
    if tester && target.product {
        return Some(format!(
            "the tester may not import the tested: {from} -> {to}"
        ));
    }
    if package.product && !target.product && !for_tests {
        return Some(format!("the product may not import a tool: {from} -> {to}"));
    }
    let upward = target.layer >= package.layer;
    let kit = to == "testkit";
    (upward && !kit).then(|| format!("an import that does not run down: {from} -> {to}"))
}

fn restriction(package: &Crate, target: &str) -> Option<String> {
    let names = |list: &str, name: &str| list.split(' ').any(|one| one == name);
    let restriction = RESTRICTIONS
        .iter()
        .find(|(crates, _)| names(crates, target));
    let (_, only_for) = restriction?;
    (!names(only_for, package.name)).then(|| format!("{target} is only for {only_for}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(name: &str, dependencies: &[&str], for_tests: &[&str]) -> usize {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let manifest = Manifest {
            name: name.to_owned(),
            dependencies: owned(dependencies),
            for_tests: owned(for_tests),
            lints: true,
        };
        rules(layers::find(name).unwrap(), &manifest).len()
    }

    #[test]
    fn each_rule_is_found_broken() {
        assert_eq!(broken("flow", &["tls", "wire"], &["testkit", "rustls"]), 0);
        assert_eq!(broken("wire", &["flow"], &[]), 2, "upwards, and restricted");
        assert_eq!(broken("load", &["session"], &[]), 1, "the tested");
        assert_eq!(broken("flow", &["measure"], &[]), 1, "the laboratory");
        assert_eq!(broken("report", &["rustls"], &[]), 1, "the TLS library");
        assert_eq!(broken("telemetry", &["options"], &[]), 1, "sideways");
        assert_eq!(broken("flow", &["rustls"], &[]), 1, "the TLS library");
        assert_eq!(broken("proxy", &["config"], &[]), 2, "text, and upwards");
        assert_eq!(broken("backend", &["tokio"], &[]), 1, "async");
        assert_eq!(broken("suite", &["wire"], &[]), 1, "the tested");
        assert_eq!(broken("tls", &["testkit"], &[]), 1, "a tool in the product");
    }
}
