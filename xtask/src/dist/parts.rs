//! The works that the programs consist of: a bill of materials (SPDX 2.3), and their licences.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value as Json, json};

use super::build::{Dist, said};
use crate::supply;

/// The packages that are linked into the programs.
pub(super) struct LinkedParts {
    /// As `cargo metadata` describes them, by their ids.
    packages: BTreeMap<String, Json>,
    needs: BTreeSet<(String, String)>,
    /// The digest of each source, by name and version.
    digests: BTreeMap<(String, String), String>,
}

impl LinkedParts {
    /// Reads the lock file for this platform.
    pub(super) fn read(dist: &Dist) -> Result<Self> {
        let metadata = supply::metadata(&dist.root, &["--filter-platform", &dist.triple])?;
        let listed = |list: &Json| list.as_array().cloned().unwrap_or_default();
        let id = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let mut all: BTreeMap<String, Json> = BTreeMap::new();
        let mut open = Vec::new();
        for package in listed(&metadata["packages"]) {
            if matches!(package["name"].as_str(), Some("daemon" | "lab")) {
                open.push(id(&package["id"]));
            }
            all.insert(id(&package["id"]), package);
        }
        let mut linked: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for node in listed(&metadata["resolve"]["nodes"]) {
            let is_linked = |one: &&Json| {
                let kinds = listed(&one["dep_kinds"]);
                kinds.iter().any(|kind| kind["kind"].is_null())
            };
            let needs = listed(&node["deps"]);
            let needs = needs.iter().filter(is_linked).map(|one| id(&one["pkg"]));
            linked.insert(id(&node["id"]), needs.collect());
        }
        let (mut packages, mut needs) = (BTreeMap::new(), BTreeSet::new());
        while let Some(id) = open.pop() {
            let package = all.get(&id).context("each node is a package")?.clone();
            for needed in linked.get(&id).into_iter().flatten() {
                needs.insert((id.clone(), needed.clone()));
                if !packages.contains_key(needed) {
                    open.push(needed.clone());
                }
            }
            packages.insert(id, package);
        }
        Ok(Self { packages, needs, digests: digests(&dist.root)? })
    }

    pub(super) fn spdx(&self, dist: &Dist) -> Result<String> {
        let name = format!("lariat-{}-{}", dist.version, dist.triple);
        let lock = said(Command::new("sha256sum").arg(dist.root.join("Cargo.lock")))?;
        let lock = lock.split_whitespace().next().unwrap_or_default();
        let packages: Vec<_> = self.packages.values().map(|one| self.entry(one)).collect();
        let ids = |id: &String| self.packages.get(id).map(spdx_id);
        let needs = self.needs.iter().map(|(from, to)| {
            json!({
                "spdxElementId": ids(from),
                "relationshipType": "DEPENDS_ON",
                "relatedSpdxElement": ids(to),
            })
        });
        let programs = self.packages.values().filter(|one| is_program(one)).map(|one| {
            json!({
                "spdxElementId": "SPDXRef-DOCUMENT",
                "relationshipType": "DESCRIBES",
                "relatedSpdxElement": spdx_id(one),
            })
        });
        let relationships: Vec<_> = programs.chain(needs).collect();
        let document = json!({
            "spdxVersion": "SPDX-2.3",
            "dataLicense": "CC0-1.0",
            "SPDXID": "SPDXRef-DOCUMENT",
            "name": name,
            "documentNamespace": format!("https://spdx.org/spdxdocs/{name}-{lock}"),
            "creationInfo": {
                "created": dist.date("%Y-%m-%dT%H:%M:%SZ")?,
                "creators": ["Tool: cargo xtask dist"],
            },
            "packages": packages,
            "relationships": relationships,
        });
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }

    fn entry(&self, package: &Json) -> Json {
        let (name, version) = name_and_version(package);
        let license = package["license"].as_str().unwrap_or("NOASSERTION");
        let mut entry = json!({
            "SPDXID": spdx_id(package),
            "name": name,
            "versionInfo": version,
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": false,
            "licenseConcluded": "NOASSERTION",
            "licenseDeclared": license.replace('/', " OR "),
            "copyrightText": "NOASSERTION",
        });
        if let Some(digest) = self.digests.get(&(name.clone(), version.clone())) {
            entry["downloadLocation"] =
                format!("https://crates.io/api/v1/crates/{name}/{version}/download").into();
            entry["checksums"] = json!([{ "algorithm": "SHA256", "checksumValue": digest }]);
            entry["externalRefs"] = json!([{
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": format!("pkg:cargo/{name}@{version}"),
            }]);
        }
        entry
    }

    /// The licences of all works that are not ours, each text once.
    pub(super) fn licenses(&self) -> Result<Vec<u8>> {
        let mut texts: BTreeMap<Vec<u8>, Vec<String>> = BTreeMap::new();
        for package in self.packages.values().filter(|one| !one["source"].is_null()) {
            let (name, version) = name_and_version(package);
            let manifest = package["manifest_path"].as_str().unwrap_or_default();
            let folder = Path::new(manifest).parent().context("a manifest is in a folder")?;
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                let file = entry.file_name().to_string_lossy().to_uppercase();
                let begins = ["LICEN", "COPY", "NOTICE", "UNLICENSE"];
                if entry.file_type()?.is_file() && begins.iter().any(|one| file.starts_with(one)) {
                    let users = texts.entry(fs::read(entry.path())?).or_default();
                    users.push(format!("{name} {version}"));
                }
            }
        }
        let mut all = b"Lariat holds code of these works, under their licences.\n".to_vec();
        let mut sorted: Vec<_> = texts.into_iter().collect();
        sorted.sort_by(|(_, one), (_, other)| one.cmp(other));
        for (text, mut users) in sorted {
            users.sort();
            users.dedup();
            let rule = "=".repeat(72);
            all.extend(format!("\n{rule}\n{}\n{rule}\n\n", users.join(", ")).into_bytes());
            all.extend(text);
        }
        Ok(all)
    }
}

fn is_program(package: &Json) -> bool {
    matches!(package["name"].as_str(), Some("daemon" | "lab"))
}

fn name_and_version(package: &Json) -> (String, String) {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    (text("name"), text("version"))
}

fn spdx_id(package: &Json) -> String {
    let (name, version) = name_and_version(package);
    let id = format!("SPDXRef-{name}-{version}");
    id.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-")
}

fn digests(root: &Path) -> Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = fs::read_to_string(root.join("Cargo.lock"))?.parse()?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let digest = |package: &toml::Value| {
        let text = |key: &str| Some(package.get(key)?.as_str()?.to_owned());
        Some(((text("name")?, text("version")?), text("checksum")?))
    };
    Ok(packages.into_iter().flatten().filter_map(digest).collect())
}
