//! `cargo xtask dist`: what is installed. A Debian package, an RPM, an archive and a container
//! image, of the same files.
//!
//! Owns the arguments; `pkg/` holds what is put in, `stage` says where
//! to. The same sources, compiler and libraries make the same bytes: `--verify` shows it.

mod build;
mod image;
mod make;
mod parts;
mod stage;
mod verify;

use std::path::Path;

use anyhow::{Result, bail};

use build::Dist;

/// Makes all packages of this host's platform, or of another.
///
/// # Errors
/// If a tool is missing or fails; with `--verify` also if a second build has other bytes.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let (mut triple, mut does_verify, mut version, mut is_built) = (None, false, None, false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--verify" => does_verify = true,
            "--no-build" => is_built = true,
            "--target" => triple = words.next().cloned(),
            "--version" => version = words.next().cloned(),
            other => bail!("cargo xtask dist takes no `{other}`"),
        }
    }
    let dist = Dist::new(root, triple, version)?;
    if !is_built {
        dist.build()?;
    }
    make::run(&dist)?;
    if does_verify {
        verify::run(&dist)?;
    }
    Ok(())
}
