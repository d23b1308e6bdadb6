//! Chores: `cargo xtask COMMAND`.
#![forbid(unsafe_code)]

mod dist;
mod generate;
mod release;
mod tidy;

use std::path::Path;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
cargo xtask dist [--target TRIPLE]... [--version VERSION] [--no-build] [--verify]
                                packages, archive and image in target/packages; --no-build takes the
                                programs of the last time, --verify builds again and compares
cargo xtask generate [--check]  write the generated pages, or compare them with the files
cargo xtask release-notes TAG   the changelog's section of it, if tag, version, chart and
                                tree fit
cargo xtask repository FOLDER --key KEY [--packages FOLDER]
                                an apt and a dnf repository of the packages, signed by that key
cargo xtask site [FOLDER]       the pages of docs as a site in target/site/book, by mdBook; and in
                                FOLDER beside those of other versions
cargo xtask supply              licences and sources of deny.toml, without network
cargo xtask tidy                the rules that no compiler checks";

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask is a folder of the workspace")?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, options) = arguments.split_first().map_or(("", &[][..]), |(c, o)| (c, o));
    if command == "help" || arguments.iter().any(|argument| argument == "--help") {
        println!("{USAGE}");
        return Ok(());
    }
    match (command, options.first().map(String::as_str)) {
        ("dist", _) => dist::run(root, options),
        ("generate", None) => generate::write(root),
        ("generate", Some("--check")) => generate::check(root),
        ("release-notes", Some(tag)) => release::print_notes(root, tag),
        ("repository", _) => dist::repository::run(root, options),
        ("site", folder) => generate::make_site(root, folder),
        ("supply", None) => release::check_supply(root),
        ("tidy", None) => tidy::run(root),
        _ => bail!("usage:\n{USAGE}"),
    }
}
