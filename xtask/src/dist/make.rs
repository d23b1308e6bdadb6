//! The steps from the programs to the packages, and the tools that make them.

use std::fs;
use std::process::Command;

use anyhow::Result;

use super::build::{Dist, run_all, said};
use super::{image, stage};

/// Packs the programs, which are built.
///
/// # Errors
/// If a tool is missing or fails.
pub(super) fn run(dist: &Dist) -> Result<()> {
    if dist.output.exists() {
        fs::remove_dir_all(&dist.output)?;
    }
    fs::create_dir_all(&dist.output)?;
    stage::run(dist)?;
    archive(dist)?;
    debian(dist)?;
    rpm(dist)?;
    image::run(dist)?;
    sums(dist)
}

fn archive(dist: &Dist) -> Result<()> {
    let name = format!("lariat-{}-{}", dist.version, dist.triple);
    let file = format!("{name}.tar.gz");
    let mut tar = dist.tar(&dist.stage(), &dist.output.join("archive.tar"));
    run_all(tar.arg(format!("--transform=s,^\\.,{name},")).arg("."))?;
    dist.gzip(&dist.output.join("archive.tar"), &dist.output.join(file))
}

fn debian(dist: &Dist) -> Result<()> {
    let (architecture, _) = dist.architectures()?;
    let version = dist.debian_version();
    let file = format!("lariat_{version}_{architecture}.deb");
    let mut deb = dist.command("cargo-deb");
    deb.args([
        "--no-build",
        "--no-strip",
        "--package=daemon",
        "--profile=dist",
    ])
    .args(["--deb-version", &version, "--target", &dist.triple])
    .arg("--output")
    .arg(dist.output.join(file));
    with_assets(dist, || run_all(&mut deb))
}

fn rpm(dist: &Dist) -> Result<()> {
    let (_, architecture) = dist.architectures()?;
    let file = format!("lariat-{}-1.{architecture}.rpm", dist.version);
    let mut rpm = dist.command("cargo-generate-rpm");
    rpm.args(["--package=crates/terminator/daemon", "--profile=dist"])
        .args(["--payload-compress=gzip", "--source-date", &dist.epoch])
        .args(["--arch", architecture, "--target", &dist.triple])
        .args(["--set-metadata", &format!("version = {:?}", dist.version)])
        .arg("--output")
        .arg(dist.output.join(file));
    with_assets(dist, || run_all(&mut rpm))
}

/// Both tools read the list of files from the manifest, which cannot name the platform: for
/// them, the tree stands at `target/packages/root`.
fn with_assets(dist: &Dist, act: impl FnOnce() -> Result<()>) -> Result<()> {
    let link = dist.root.join("target/packages/root");
    _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(dist.stage(), &link)?;
    let outcome = act();
    fs::remove_file(&link)?;
    outcome
}

fn sums(dist: &Dist) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(&dist.output)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name());
        }
    }
    names.sort();
    let mut sums = Command::new("sha256sum");
    let sums = said(sums.args(names).current_dir(&dist.output))?;
    fs::write(dist.output.join("SHA256SUMS"), format!("{sums}\n"))?;
    println!("{}:\n{sums}", dist.output.display());
    Ok(())
}
