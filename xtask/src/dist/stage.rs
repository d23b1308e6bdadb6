//! Makes the tree of files that every package installs, and describes the programs' components: a
//! bill of materials (SPDX 2.3), and their licences.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value as Json, json};

use super::build::{Dist, emulator, said};
use crate::release;

const DOC: &str = "usr/share/doc/lariat";

/// JSON Schema of the configuration, for editors.
const SCHEMA: &str = "usr/share/lariat/schema/lariat.schema.json";

/// Files of the sources, with their installed path and mode.
const FILES: [(&str, &str, u32); 16] = [
    ("pkg/lariat.toml", "etc/lariat/lariat.toml", 0o644),
    ("pkg/logrotate/lariat", "etc/logrotate.d/lariat", 0o644),
    ("pkg/systemd/lariat.service", "usr/lib/systemd/system/lariat.service", 0o644),
    ("pkg/systemd/client-source.conf", "usr/share/lariat/systemd/client-source.conf", 0o644),
    ("docs/reference/lariat.schema.json", SCHEMA, 0o644),
    ("pkg/sysusers/lariat.conf", "usr/lib/sysusers.d/lariat.conf", 0o644),
    ("pkg/certbot/deploy-hook", "usr/share/lariat/certbot-deploy-hook", 0o755),
    ("pkg/acme/nsupdate", "usr/share/lariat/acme-nsupdate", 0o755),
    ("pkg/upgrade", "usr/share/lariat/upgrade", 0o755),
    ("pkg/debian/copyright", "usr/share/doc/lariat/copyright", 0o644),
    ("LICENSE-APACHE", "usr/share/doc/lariat/LICENSE-APACHE", 0o644),
    ("LICENSE-MIT", "usr/share/doc/lariat/LICENSE-MIT", 0o644),
    ("pkg/prometheus/lariat.rules.yml", "usr/share/doc/lariat/examples/lariat.rules.yml", 0o644),
    (
        "pkg/prometheus/lariat.rules.test.yml",
        "usr/share/doc/lariat/examples/lariat.rules.test.yml",
        0o644,
    ),
    ("examples/kubernetes/lariat.yaml", "usr/share/doc/lariat/examples/lariat.yaml", 0o644),
    ("pkg/grafana/lariat.json", "usr/share/doc/lariat/examples/grafana.json", 0o644),
];

/// Programs that print a file, and its installed path; files under `man` are compressed.
const PRINTED: [(&str, &[&str], &str); 9] = [
    ("lariat", &["manual"], "usr/share/man/man1/lariat.1"),
    ("lariat", &["manual", "lariat.toml"], "usr/share/man/man5/lariat.toml.5"),
    ("lariat-lab", &["manual"], "usr/share/man/man1/lariat-lab.1"),
    ("lariat", &["completion", "bash"], "usr/share/bash-completion/completions/lariat"),
    ("lariat-lab", &["completion", "bash"], "usr/share/bash-completion/completions/lariat-lab"),
    ("lariat", &["completion", "zsh"], "usr/share/zsh/vendor-completions/_lariat"),
    ("lariat-lab", &["completion", "zsh"], "usr/share/zsh/vendor-completions/_lariat-lab"),
    ("lariat", &["completion", "fish"], "usr/share/fish/vendor_completions.d/lariat.fish"),
    ("lariat-lab", &["completion", "fish"], "usr/share/fish/vendor_completions.d/lariat-lab.fish"),
];

/// Makes the tree.
///
/// # Errors
/// Fails if a file cannot be read or written, or a program does not print what it should.
pub(super) fn run(dist: &Dist) -> Result<()> {
    let programs = dist.programs();
    for name in ["lariat", "lariat-lab"] {
        let text = fs::read(programs.join(name))?;
        put(dist, &format!("usr/bin/{name}"), 0o755, &text)?;
    }
    for (from, to, mode) in FILES {
        put(dist, to, mode, &fs::read(dist.root.join(from)).context(from)?)?;
    }
    for (program, arguments, to) in PRINTED {
        print(dist, &programs.join(program), arguments, to)?;
    }
    for entry in fs::read_dir(dist.root.join("examples"))? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if path.extension().is_some_and(|extension| extension == "toml") {
            let to = format!("{DOC}/examples/{}", name.to_string_lossy());
            // The configuration's line for editors names the schema's path among the sources.
            let text = fs::read_to_string(path)?;
            let text = text.replace("../docs/reference/lariat.schema.json", &format!("/{SCHEMA}"));
            put(dist, &to, 0o644, text.as_bytes())?;
        }
    }
    let changes = fs::read(dist.root.join("CHANGELOG.md"))?;
    put_compressed(dist, &format!("{DOC}/changelog"), &changes)?;
    let packaged = format!(
        "lariat ({}) unstable; urgency=medium\n\n  * changelog.gz says what is new.\n\n \
         -- The Lariat authors <packages@lariat.invalid>  {}\n",
        dist.debian_version(),
        dist.date("%a, %d %b %Y %H:%M:%S +0000")?
    );
    put_compressed(dist, &format!("{DOC}/changelog.Debian"), packaged.as_bytes())?;
    let parts = LinkedParts::read(dist)?;
    put(dist, &format!("{DOC}/lariat.spdx.json"), 0o644, parts.spdx(dist)?.as_bytes())?;
    put_compressed(dist, &format!("{DOC}/third-party-licenses"), &parts.licenses()?)
}

fn put(dist: &Dist, to: &str, mode: u32, bytes: &[u8]) -> Result<()> {
    let path = dist.stage().join(to);
    fs::create_dir_all(path.parent().context("files are in folders")?)?;
    fs::write(&path, bytes).context(path.display().to_string())?;
    Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
}

fn put_compressed(dist: &Dist, to: &str, bytes: &[u8]) -> Result<()> {
    put(dist, to, 0o644, bytes)?;
    let path = dist.stage().join(to);
    let compressed = format!("{}.gz", path.display());
    dist.gzip(&path, compressed.as_ref())
}

/// Writes a program's output; another processor's runs by `CARGO_TARGET_…_RUNNER`, or QEMU.
fn print(dist: &Dist, program: &Path, arguments: &[&str], to: &str) -> Result<()> {
    let runner = dist.setting("RUNNER", emulator).map_or_else(String::new, |(_, value)| value);
    let mut words = runner.split_whitespace().map(str::to_owned);
    let mut command = match words.next() {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.args(words).arg(program);
            command
        }
        None => Command::new(program),
    };
    let text = said(command.args(arguments))? + "\n";
    if !to.contains("/man/") {
        return put(dist, to, 0o644, text.as_bytes());
    }
    let date = dist.date("%Y-%m-%d")?;
    let dated = text.replacen(" \"\" ", &format!(" \"{date}\" "), 1);
    put_compressed(dist, to, dated.as_bytes())
}

/// Packages that are linked into the programs.
struct LinkedParts {
    /// Descriptions by `cargo metadata`, by package id.
    packages: BTreeMap<String, Json>,
    needs: BTreeSet<(String, String)>,
    /// Digest of each source, by name and version.
    digests: BTreeMap<(String, String), String>,
}

impl LinkedParts {
    /// Reads the lock file for this platform.
    pub(super) fn read(dist: &Dist) -> Result<Self> {
        let metadata = release::metadata(&dist.root, &["--filter-platform", &dist.triple])?;
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

    fn spdx(&self, dist: &Dist) -> Result<String> {
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

    /// Returns the licences of all foreign works, each text once.
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
