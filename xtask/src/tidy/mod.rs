//! `cargo xtask tidy`: checks the rules that no compiler checks, from manifests and sources.
//!
//! Handles the order of the checks and their report; each file below handles one rule. Reads the
//! work tree and changes nothing.

mod imports;
mod names;
mod pages;
mod sources;
mod tree;

use std::path::Path;

use anyhow::{Result, ensure};

use tree::{Violation, WorkTree};

/// Checks every rule.
///
/// # Errors
/// Fails if a rule is broken, or the tree cannot be read; violations are printed to standard error.
pub(crate) fn run(root: &Path) -> Result<()> {
    let violations = violations(root)?;
    for Violation { place, rule } in &violations {
        eprintln!("{place}: {rule}");
    }
    ensure!(violations.is_empty(), "{} violations", violations.len());
    Ok(())
}

fn violations(root: &Path) -> Result<Vec<Violation>> {
    let tree = WorkTree::read(root)?;
    let mut violations = Vec::new();
    violations.extend(imports::check_files(&tree));
    violations.extend(names::check_words(&tree));
    violations.extend(imports::check(&tree)?);
    violations.extend(names::check(&tree));
    violations.extend(pages::check(&tree));
    violations.extend(sources::check(&tree));
    violations.extend(sources::check_shape(&tree));
    violations.sort();
    Ok(violations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert_eq!(violations(root).unwrap(), []);
    }
}
