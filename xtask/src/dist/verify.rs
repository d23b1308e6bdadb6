//! Whether a second build, of a copy of the sources in another folder, has the same bytes.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::build::{Dist, git, path, run_all, said};
use super::make;

/// Builds again and compares. The copy stays if a file differs; what was built in it is not built
/// once more the next time.
///
/// # Errors
/// If a file differs, with the place of its first other byte; or if the build fails.
pub(super) fn run(dist: &Dist) -> Result<()> {
    let copy = dist.root.join("target/packages/again");
    clear(&copy)?;
    let (from, to) = (path(&dist.root)?, path(&copy)?);
    let list = "git -C \"$1\" ls-files -z --cached --others --exclude-standard";
    let script = format!("{list} | tar -C \"$1\" --null -T - -c | tar -C \"$2\" -x");
    run_all(Command::new("sh").args(["-c", &script, "sh", from, to]))?;
    let again = Dist {
        root: copy.clone(),
        output: copy.join("target/packages").join(&dist.triple),
        triple: dist.triple.clone(),
        version: dist.version.clone(),
        epoch: dist.epoch.clone(),
    };
    again.build()?;
    make::run(&again)?;
    let mut differ = Vec::new();
    let sums = fs::read_to_string(dist.output.join("SHA256SUMS"))?;
    for name in sums
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
    {
        let pair = [dist.output.join(name), again.output.join(name)];
        let compared = Command::new("cmp").args(&pair).output()?;
        if !compared.status.success() {
            differ.push(String::from_utf8_lossy(&compared.stdout).trim().to_owned());
        }
    }
    ensure!(
        differ.is_empty(),
        "two builds differ:\n{}",
        differ.join("\n")
    );
    fs::remove_dir_all(copy)?;
    let commit = said(git(&dist.root).args(["describe", "--always", "--dirty"]))?;
    println!("two builds of {commit} in different folders have the same bytes");
    Ok(())
}

/// Leaves nothing in the folder but its `target`, and makes the folder.
fn clear(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == "target" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
