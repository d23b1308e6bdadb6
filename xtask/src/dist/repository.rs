//! `cargo xtask repository`: makes an apt and a dnf repository, as files, of existing packages.
//!
//! Handles the layout. Both are signed by a key of the caller's keyring. They are made beside the
//! folder and replace it as a whole, because hosts that install refuse half a repository.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::build::{need, path, run_all, said};

const USAGE: &str = "cargo xtask repository FOLDER --key KEY [--packages FOLDER]";

/// Entries of the folder.
const PARTS: [&str; 3] = ["apt", "rpm", "lariat.asc"];

/// Makes the repositories in a folder.
///
/// # Errors
/// Fails if a tool or the key is missing, or if there are no packages.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let (mut folder, mut key, mut places) = (None, None, Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value =
            || words.next().cloned().with_context(|| format!("`{word}` stands without its value"));
        match word.as_str() {
            "--key" => key = Some(value()?),
            "--packages" => places.push(PathBuf::from(value()?)),
            other if other.starts_with('-') => bail!("cargo xtask repository takes no `{other}`"),
            other => ensure!(folder.replace(PathBuf::from(other)).is_none(), "{USAGE}"),
        }
    }
    let (Some(folder), Some(key)) = (folder, key) else {
        bail!(USAGE);
    };
    let folder = replaceable(&folder)?;
    need(&["apt-ftparchive", "createrepo_c", "gpg", "gzip"])?;
    if places.is_empty() {
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let all = root.join(target).join("packages");
        let made = fs::read_dir(&all)
            .with_context(|| format!("{}: run `cargo xtask dist` first", all.display()))?;
        places = made.map(|one| Ok(one?.path())).collect::<Result<_>>()?;
        places.retain(|place| place.is_dir());
    }
    said(Command::new("gpg").args(["--list-secret-keys", &key]))
        .with_context(|| format!("the keyring has no secret key {key}"))?;
    let (new, old) = (beside(&folder, "new"), beside(&folder, "old"));
    clear(&new)?;
    let (debian, rpm) = (new.join("apt"), new.join("rpm"));
    let debs = copy(&places, "deb", &debian.join("pool"))?;
    let rpms = copy(&places, "rpm", &rpm)?;
    ensure!(debs + rpms > 0, "no packages: run `cargo xtask dist` first");
    apt(&debian, &key)?;
    dnf(&rpm, &key)?;
    let public = said(Command::new("gpg").args(["--armor", "--export", &key]))?;
    fs::write(new.join("lariat.asc"), public + "\n")?;
    clear(&old)?;
    if folder.exists() {
        fs::rename(&folder, &old)?;
    }
    fs::rename(&new, &folder)?;
    clear(&old)?;
    println!("{}: {debs} packages for apt, {rpms} for dnf", folder.display());
    Ok(())
}

/// Returns the folder's canonical path if it holds only repositories, because it is replaced.
fn replaceable(folder: &Path) -> Result<PathBuf> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let shown = folder.display();
    ensure!(folder.file_name().is_some(), "{shown}: the folder of the repositories needs a name");
    if folder.exists() {
        for entry in fs::read_dir(&folder).with_context(|| format!("{shown}"))? {
            let name = entry?.file_name();
            ensure!(
                PARTS.iter().any(|part| name == *part),
                "{shown} holds {}, and would be replaced: name a folder of its own",
                name.display()
            );
        }
    }
    Ok(folder)
}

/// Returns an unused path beside the folder, on the same file system.
fn beside(folder: &Path, role: &str) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!(".{name}.lariat-{role}"))
}

/// Removes the leftovers of a killed run.
fn clear(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(())
}

/// Copies the packages of a kind; returns their number.
fn copy(places: &[PathBuf], kind: &str, to: &Path) -> Result<usize> {
    fs::create_dir_all(to)?;
    let mut count = 0;
    for place in places {
        for entry in fs::read_dir(place).with_context(|| format!("{}", place.display()))? {
            let from = entry?.path();
            if from.extension().is_some_and(|extension| extension == kind) {
                let name = from.file_name().context("a file has a name")?;
                fs::copy(&from, to.join(name))?;
                count += 1;
            }
        }
    }
    Ok(count)
}

/// Makes the apt repository: one suite, `stable`, with one component, `main`.
fn apt(folder: &Path, key: &str) -> Result<()> {
    for architecture in ["amd64", "arm64"] {
        let place = folder.join("dists/stable/main").join(format!("binary-{architecture}"));
        fs::create_dir_all(&place)?;
        let list = place.join("Packages");
        let mut packages = Command::new("apt-ftparchive");
        packages.args(["--arch", architecture, "packages", "pool"]).current_dir(folder);
        run_all(packages.stdout(File::create(&list)?))?;
        run_all(Command::new("gzip").args(["-9", "--no-name", "--keep"]).arg(list))?;
    }
    let suite = folder.join("dists/stable");
    let release = folder.join("Release");
    let mut command = Command::new("apt-ftparchive");
    for field in ["Origin=Lariat", "Suite=stable", "Codename=stable", "Components=main"] {
        command.arg("-o").arg(format!("APT::FTPArchive::Release::{field}"));
    }
    command.args(["-o", "APT::FTPArchive::Release::Architectures=amd64 arm64", "release", "."]);
    run_all(command.current_dir(&suite).stdout(File::create(&release)?))?;
    let signed = suite.join("InRelease");
    let mut sign = Command::new("gpg");
    sign.args(["--batch", "--yes", "--local-user", key, "--output", path(&signed)?]);
    run_all(sign.arg("--clearsign").arg(&release))?;
    Ok(fs::remove_file(release)?)
}

/// Makes the dnf repository. It signs only the list of packages, which has the digest of each.
fn dnf(folder: &Path, key: &str) -> Result<()> {
    run_all(Command::new("createrepo_c").arg("--quiet").arg(folder))?;
    let mut sign = Command::new("gpg");
    sign.args(["--batch", "--yes", "--local-user", key, "--armor", "--detach-sign"]);
    run_all(sign.arg(folder.join("repodata/repomd.xml")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_files_of_others_is_not_replaced() {
        let work = std::env::temp_dir().join(format!("lariat-repository-{}", std::process::id()));
        let site = work.join("packages.example");
        fs::create_dir_all(site.join("apt")).unwrap();
        let refusal = |folder: &Path| replaceable(folder).unwrap_err().to_string();
        assert_eq!(replaceable(&site).unwrap(), site);
        assert_eq!(replaceable(&work.join("site")).unwrap(), work.join("site"));
        assert_eq!(beside(&site, "new"), work.join(".packages.example.lariat-new"));
        assert!(refusal(&work).contains("holds packages.example"));
        assert!(refusal(Path::new(".")).contains("would be replaced"));
        assert!(refusal(&work.join("site/..")).contains("needs a name"));
        fs::remove_dir_all(work).unwrap();
    }
}
