//! Chores: `cargo xtask COMMAND`.
#![forbid(unsafe_code)]

mod generate;
mod supply;
mod tidy;

use std::path::Path;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
cargo xtask generate [--check]  write the generated pages, or compare them with the files
cargo xtask supply              licences, sources and bans of deny.toml, without network
cargo xtask tidy                the rules that no compiler checks";

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask is a folder of the workspace")?;
    let mut arguments = std::env::args_os().skip(1);
    let command = arguments.next().unwrap_or_default();
    let option = arguments.next();
    match (command.to_str(), option.as_ref().and_then(|o| o.to_str())) {
        (Some("generate"), None) => generate::write(root),
        (Some("generate"), Some("--check")) => generate::check(root),
        (Some("supply"), None) => supply::run(root),
        (Some("tidy"), None) => tidy::run(root),
        (Some("help" | "--help"), None) => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!("usage:\n{USAGE}"),
    }
}
