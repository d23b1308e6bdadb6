//! What of a `Cargo.toml` the rules ask for.

use anyhow::{Context, Result};
use toml::{Table, Value};

#[derive(Debug)]
pub(super) struct Manifest {
    pub(super) name: String,
    /// What the product is built from, build scripts included.
    pub(super) dependencies: Vec<String>,
    pub(super) for_tests: Vec<String>,
    /// Whether it takes the workspace's lints.
    pub(super) lints: bool,
}

impl Manifest {
    /// Reads the text of a package's manifest; `None` for one without a package.
    pub(super) fn parse(text: &str) -> Result<Option<Self>> {
        let table: Table = text.parse()?;
        let Some(package) = table.get("package") else {
            return Ok(None);
        };
        let name = package
            .get("name")
            .and_then(Value::as_str)
            .context("a package has a name")?;
        let inherited = table.get("lints").and_then(|lints| lints.get("workspace"));
        Ok(Some(Self {
            name: name.to_owned(),
            dependencies: keys(&table, &["dependencies", "build-dependencies"]),
            for_tests: keys(&table, &["dev-dependencies"]),
            lints: inherited.and_then(Value::as_bool).unwrap_or(false),
        }))
    }
}

fn keys(table: &Table, sections: &[&str]) -> Vec<String> {
    let sections = sections
        .iter()
        .filter_map(|name| table.get(*name)?.as_table());
    sections.flat_map(Table::keys).cloned().collect()
}
