//! `cargo xtask dist`: makes a Debian package, an RPM, an archive and a container image of the same
//! files.
//!
//! Handles the arguments; `pkg/` holds the contents, `stage` decides their paths. The same sources,
//! compiler and libraries make the same bytes: `--verify` shows it.

mod build;
mod image;
pub(crate) mod repository;
mod stage;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use build::{Dist, git, need, path, run_all, said};

/// Without dpkg-shlibdeps, cargo-deb would warn, and leave out the programs' dependencies.
const TOOLS: &str = "\
    cargo-deb cargo-generate-rpm dpkg-shlibdeps git gzip readelf sha256sum tar";

/// Step that makes one kind of package, or the common contents of all.
type Step = fn(&Dist) -> Result<()>;

/// Makes all packages of this host's platform, or of others.
///
/// # Errors
/// Fails if a tool is missing or fails; with `--verify` also if a second build has other bytes.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let (mut triples, mut does_verify, mut version, mut is_built) =
        (Vec::new(), false, None, false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value =
            || words.next().cloned().with_context(|| format!("`{word}` stands without its value"));
        match word.as_str() {
            "--verify" => does_verify = true,
            "--no-build" => is_built = true,
            "--target" => triples.push(Some(value()?)),
            "--version" => version = Some(value()?),
            other => bail!("cargo xtask dist takes no `{other}`"),
        }
    }
    need(&TOOLS.split(' ').collect::<Vec<_>>())?;
    if triples.is_empty() {
        triples.push(None);
    }
    let dist = |triple| Dist::new(root, triple, version.clone());
    let dists = triples.into_iter().map(dist).collect::<Result<Vec<_>>>()?;
    // All checks run before the first build.
    dists.iter().try_for_each(Dist::check)?;
    for dist in &dists {
        if !is_built {
            let begin = Instant::now();
            dist.build()?;
            println!("programs of {}: {:.0} s", dist.triple, begin.elapsed().as_secs_f64());
        }
        pack(dist)?;
        if does_verify {
            verify(dist)?;
        }
    }
    Ok(())
}

/// Packs the programs, which are already built.
///
/// # Errors
/// Fails if a tool is missing or fails.
fn pack(dist: &Dist) -> Result<()> {
    if dist.output.exists() {
        fs::remove_dir_all(&dist.output)?;
    }
    fs::create_dir_all(&dist.output)?;
    let parts: [(&str, Step); 5] = [
        ("files", stage::run),
        ("archive", archive),
        ("Debian package", debian),
        ("RPM", rpm),
        ("image", image::run),
    ];
    for (name, make) in parts {
        let begin = Instant::now();
        make(dist).with_context(|| format!("{name} of {}", dist.triple))?;
        println!("{name}: {:.1} s", begin.elapsed().as_secs_f64());
    }
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
    deb.args(["--no-build", "--no-strip", "--package=daemon", "--profile=dist"])
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

/// Links the tree at `target/packages/root`, because both tools read the list of files from the
/// manifest, which cannot name the platform.
fn with_assets(dist: &Dist, act: impl FnOnce() -> Result<()>) -> Result<()> {
    let link = dist.root.join("target/packages/root");
    fs::create_dir_all(dist.root.join("target/packages"))?;
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
    println!("{}:", dist.output.display());
    for line in sums.lines() {
        let size = line.split_whitespace().nth(1).map(|name| fs::metadata(dist.output.join(name)));
        println!("{line}  {} bytes", size.transpose()?.map_or(0, |found| found.len()));
    }
    Ok(())
}

/// Builds again and compares. The copy stays if a file differs, so that the next run reuses its
/// build.
///
/// # Errors
/// Fails if a file differs, with the place of its first different byte; or if the build fails.
fn verify(dist: &Dist) -> Result<()> {
    let copy = dist.root.join("target/packages/again");
    clear(&copy)?;
    let (from, to) = (path(&dist.root)?, path(&copy)?);
    let list = "git -C \"$1\" ls-files -z --cached --others --exclude-standard";
    let script = format!("{list} | tar -C \"$1\" --null -T - -c | tar -C \"$2\" -x");
    run_all(Command::new("sh").args(["-c", &script, "sh", from, to]))?;
    let again = Dist {
        root: copy.clone(),
        target: copy.join("target"),
        output: copy.join("target/packages").join(&dist.triple),
        triple: dist.triple.clone(),
        version: dist.version.clone(),
        epoch: dist.epoch.clone(),
    };
    again.build()?;
    pack(&again)?;
    let mut differ = Vec::new();
    let sums = fs::read_to_string(dist.output.join("SHA256SUMS"))?;
    for name in sums.lines().filter_map(|line| line.split_whitespace().nth(1)) {
        let pair = [dist.output.join(name), again.output.join(name)];
        let compared = Command::new("cmp").args(&pair).output()?;
        if !compared.status.success() {
            differ.push(String::from_utf8_lossy(&compared.stdout).trim().to_owned());
        }
    }
    ensure!(differ.is_empty(), "two builds differ:\n{}", differ.join("\n"));
    fs::remove_dir_all(copy)?;
    let commit = said(git(&dist.root).args(["describe", "--always", "--dirty"]))?;
    println!("two builds of {commit} in different folders have the same bytes");
    Ok(())
}

/// Makes the folder and empties it except for its `target`.
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
