//! `cargo xtask tidy`: the house's laws that no compiler checks, read off manifests and sources.
//!
//! Owns the order of the checks and how they are told; the rooms below own one law each. Reads the
//! work tree, changes nothing.

mod arrows;
mod breach;
mod cycles;
mod links;
mod manifest;
mod masked;
mod module_path;
mod named_tests;
mod purity;
mod rooms;
mod shape;
mod tree;

use std::path::Path;

use anyhow::{Result, bail};

use breach::Breach;
use tree::Tree;

/// Checks every law.
///
/// # Errors
/// If one is broken, or the tree cannot be read; the breaches are on the standard error.
pub(crate) fn run(root: &Path) -> Result<()> {
    let breaches = breaches(root)?;
    for Breach { place, law } in &breaches {
        eprintln!("{place}: {law}");
    }
    match breaches.len() {
        0 => Ok(()),
        count => bail!("{count} breaches of the house's laws"),
    }
}

fn breaches(root: &Path) -> Result<Vec<Breach>> {
    let tree = Tree::read(root)?;
    let mut breaches = Vec::new();
    breaches.extend(arrows::check(&tree)?);
    breaches.extend(cycles::check(&tree));
    breaches.extend(links::check(&tree));
    breaches.extend(named_tests::check(&tree));
    breaches.extend(purity::check(&tree));
    breaches.extend(shape::check(&tree));
    breaches.sort();
    Ok(breaches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert_eq!(breaches(root).unwrap(), []);
    }
}
