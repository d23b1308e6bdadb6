//! The tree of files as every package installs it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::build::{Dist, emulator, said};
use super::parts;

const DOC: &str = "usr/share/doc/lariat";

/// The JSON Schema of the configuration, for editors.
const SCHEMA: &str = "usr/share/lariat/schema/lariat.schema.json";

/// A file of the sources, where it is installed, and its mode.
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

/// The prints of programs, and where each is installed; what is under `man` is compressed.
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
/// If a file cannot be read or written, or a program does not print what it should.
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
            // Their line for editors names the schema where it stands among the sources.
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
    let parts = parts::LinkedParts::read(dist)?;
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

/// A program of another processor is run as cargo runs it: by `CARGO_TARGET_…_RUNNER`, or QEMU.
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
