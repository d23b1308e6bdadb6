//! Law: packages import only lower floors, and the walls hold.

use anyhow::{Context, Result};

use super::breach::Breach;
use super::manifest::Manifest;
use super::rooms::{self, Room, WALLS};
use super::tree::Tree;

/// Checks every manifest of the workspace.
pub(super) fn check(tree: &Tree) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for file in &tree.manifests {
        let manifest = Manifest::parse(&file.text).with_context(|| file.path.clone())?;
        // The fuzz targets are a workspace of their own and may aim at any room.
        let Some(manifest) = manifest.filter(|_| !file.path.starts_with("fuzz/")) else {
            continue;
        };
        let found = match rooms::find(&manifest.name) {
            Some(room) => laws(room, &manifest),
            None => vec!["is no room of the plan in xtask/src/tidy/rooms.rs".to_owned()],
        };
        breaches.extend(found.into_iter().map(|law| Breach::new(&file.path, law)));
    }
    Ok(breaches)
}

fn laws(room: &Room, manifest: &Manifest) -> Vec<String> {
    let mut broken = Vec::new();
    if !manifest.lints {
        broken.push("takes no lints from the workspace".to_owned());
    }
    for name in &manifest.dependencies {
        broken.extend(arrow(room, name, false));
        broken.extend(wall(room, name));
    }
    for name in &manifest.for_tests {
        broken.extend(arrow(room, name, true));
    }
    broken
}

fn arrow(room: &Room, target: &str, for_tests: bool) -> Option<String> {
    let target = rooms::find(target)?;
    let (from, to) = (room.name, target.name);
    let tester = matches!(from, "suite" | "testkit");
    if tester && target.product {
        return Some(format!(
            "the tester may not import the tested: {from} -> {to}"
        ));
    }
    if room.product && !target.product && !for_tests {
        return Some(format!("the product may not import a tool: {from} -> {to}"));
    }
    let upward = target.floor >= room.floor;
    let kit = to == "testkit";
    (upward && !kit).then(|| format!("an arrow that does not run down: {from} -> {to}"))
}

fn wall(room: &Room, target: &str) -> Option<String> {
    let wall = WALLS.iter().find(|wall| wall.crates.contains(&target))?;
    let open = wall.open_to.contains(&room.name);
    (!open).then(|| format!("{target} is only for {}", wall.open_to.join(", ")))
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
        laws(rooms::find(name).unwrap(), &manifest).len()
    }

    #[test]
    fn each_law_is_seen_broken() {
        assert_eq!(broken("flow", &["tls", "wire"], &["testkit", "rustls"]), 0);
        assert_eq!(broken("wire", &["flow"], &[]), 2, "upwards, over a wall");
        assert_eq!(broken("load", &["session"], &[]), 1, "the tested");
        assert_eq!(broken("flow", &["measure"], &[]), 1, "the laboratory");
        assert_eq!(broken("report", &["rustls"], &[]), 1, "the TLS library");
        assert_eq!(broken("telemetry", &["wire"], &[]), 1, "sideways");
        assert_eq!(broken("flow", &["rustls"], &[]), 1, "the TLS library");
        assert_eq!(broken("proxy", &["config"], &[]), 2, "text, and upwards");
        assert_eq!(broken("backend", &["tokio"], &[]), 1, "async");
        assert_eq!(broken("suite", &["wire"], &[]), 1, "the tested");
        assert_eq!(broken("tls", &["testkit"], &[]), 1, "a tool in the product");
    }
}
