//! The inputs of a set of packages, and the commands that make it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Authorities of servers, at the path of Debian's package ca-certificates.
pub(super) const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

pub(super) struct Dist {
    pub(super) root: PathBuf,
    /// Cargo's folder of build output.
    pub(super) target: PathBuf,
    pub(super) output: PathBuf,
    /// Platform, by rustc's name.
    pub(super) triple: String,
    pub(super) version: String,
    /// Modification time of every file, in seconds since 1970: the date of the commit.
    pub(super) epoch: String,
}

impl Dist {
    pub(super) fn new(
        root: &Path,
        triple: Option<String>,
        version: Option<String>,
    ) -> Result<Self> {
        let triple = match triple {
            Some(triple) => triple,
            None => said(Command::new("rustc").args(["--print", "host-tuple"]))?,
        };
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(epoch) => epoch,
            Err(_) => said(git(root).args(["log", "-1", "--format=%ct"]))?,
        };
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let target = root.join(target);
        Ok(Self {
            root: root.to_owned(),
            output: target.join("packages").join(&triple),
            target,
            triple,
            version: version.unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned()),
            epoch,
        })
    }

    /// Checks for faults that would show only after the build, which takes minutes.
    ///
    /// # Errors
    /// Fails if the platform or the version cannot be packaged, or if Rust's library, the
    /// authorities or tools for another processor than this host's are missing.
    pub(super) fn check(&self) -> Result<()> {
        self.architectures()?;
        let begins = self.version.starts_with(|one: char| one.is_ascii_digit());
        // A hyphen would begin the package's own revision.
        let is_fit = |one: char| one.is_ascii_alphanumeric() || ".+~".contains(one);
        ensure!(
            begins && self.version.chars().all(is_fit),
            "--version {}: packages have a version as 1.2.3 or 1.2.3~rc1",
            self.version
        );
        let settings = [self.setting("LINKER", linker), self.setting("RUNNER", emulator)];
        let words = settings.iter().flatten().filter_map(|(_, value)| value.split(' ').next());
        need(&words.collect::<Vec<_>>())?;
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "target-libdir", "--target", &self.triple]);
        ensure!(
            Path::new(&said(&mut rustc)?).is_dir(),
            "Rust's library for {0} is missing: rustup target add {0}",
            self.triple
        );
        ensure!(
            Path::new("/").join(AUTHORITIES).is_file(),
            "/{AUTHORITIES} is missing: apt install ca-certificates"
        );
        Ok(())
    }

    /// Returns the processor's name for Debian and Docker, and for RPM.
    pub(super) fn architectures(&self) -> Result<(&'static str, &'static str)> {
        match self.triple.split_once('-') {
            Some(("x86_64", _)) => Ok(("amd64", "x86_64")),
            Some(("aarch64", _)) => Ok(("arm64", "aarch64")),
            _ => bail!("{}: packages are of x86_64 and aarch64", self.triple),
        }
    }

    pub(super) fn debian_version(&self) -> String {
        format!("{}-1", self.version)
    }

    pub(super) fn build(&self) -> Result<()> {
        let home = std::env::var("CARGO_HOME")
            .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))?;
        // Messages of panics and of the C library's assertions name files.
        let places = [(home.as_str(), "/cargo"), (path(&self.root)?, "/lariat")];
        let maps = |flag: &str| places.map(|(from, to)| format!("{flag}={from}={to}")).join(" ");
        let mut cargo = self.command("cargo");
        cargo
            .args(["build", "--locked", "--profile=dist", "--bins"])
            .args(["--package=daemon", "--package=lab", "--target", &self.triple])
            .envs(self.setting("LINKER", linker))
            .env("RUSTFLAGS", maps("--remap-path-prefix"))
            .env("CFLAGS", maps("-ffile-prefix-map"));
        run_all(&mut cargo)
    }

    /// Returns cargo's setting of that name for the platform, as a variable: the environment's
    /// value, or, for another processor than this host's, the `debian` one for that machine.
    pub(super) fn setting(
        &self,
        name: &str,
        debian: impl FnOnce(&str) -> String,
    ) -> Option<(String, String)> {
        let triple = self.triple.to_uppercase().replace('-', "_");
        let variable = format!("CARGO_TARGET_{triple}_{name}");
        let machine = self.triple.split('-').next().unwrap_or_default();
        let value = match std::env::var(&variable) {
            Ok(value) => value,
            Err(_) if machine == std::env::consts::ARCH => return None,
            Err(_) => debian(machine),
        };
        Some((variable, value))
    }

    pub(super) fn programs(&self) -> PathBuf {
        self.target.join(&self.triple).join("dist")
    }

    /// Returns the tree of files as they are installed.
    pub(super) fn stage(&self) -> PathBuf {
        self.output.join("root")
    }

    /// Makes a command that sets the common time of all files.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).env("SOURCE_DATE_EPOCH", &self.epoch);
        command.env("CARGO_TARGET_DIR", &self.target);
        command
    }

    /// Makes a tar command for a new archive; the caller adds the names within the folder.
    pub(super) fn tar(&self, folder: &Path, archive: &Path) -> Command {
        let mut tar = self.command("tar");
        tar.args(["--create", "--format=gnu", "--sort=name", "--numeric-owner"])
            .args(["--owner=0", "--group=0"])
            .arg(format!("--mtime=@{}", self.epoch))
            .arg("--directory")
            .arg(folder)
            .arg("--file")
            .arg(archive);
        tar
    }

    /// Compresses a file, and removes it.
    pub(super) fn gzip(&self, from: &Path, to: &Path) -> Result<()> {
        let mut gzip = self.command("gzip");
        gzip.args(["-9", "--no-name", "--stdout"]).arg(from);
        gzip.stdout(fs::File::create(to)?);
        run_all(&mut gzip)?;
        Ok(fs::remove_file(from)?)
    }

    /// Formats the common time of all files, in a form of date(1).
    pub(super) fn date(&self, form: &str) -> Result<String> {
        let when = format!("@{}", self.epoch);
        said(Command::new("date").args(["--utc", "--date", &when, &format!("+{form}")]))
    }
}

/// Returns Debian's linker for another processor.
fn linker(machine: &str) -> String {
    format!("{machine}-linux-gnu-gcc")
}

/// Returns Debian's command to run a program of another processor.
pub(super) fn emulator(machine: &str) -> String {
    format!("qemu-{machine}-static -L /usr/{machine}-linux-gnu")
}

pub(super) fn git(root: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(root);
    git
}

pub(super) fn path(path: &Path) -> Result<&str> {
    path.to_str().context("paths are UTF-8")
}

pub(super) fn run_all(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| missing(&name))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// Returns the output of a command, without the last line break.
pub(super) fn said(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| missing(&name))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {errors}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

fn missing(program: &str) -> String {
    match program {
        "cargo-deb" | "cargo-generate-rpm" => format!("cargo install --locked {program}"),
        "createrepo_c" => "apt install createrepo-c".to_owned(),
        "apt-ftparchive" => "apt install apt-utils".to_owned(),
        "dpkg-shlibdeps" => "apt install dpkg-dev".to_owned(),
        "gpg" => "apt install gnupg".to_owned(),
        "readelf" => "apt install binutils".to_owned(),
        "aarch64-linux-gnu-gcc" => {
            "apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross".to_owned()
        }
        _ if program.starts_with("qemu-") => "apt install qemu-user-static".to_owned(),
        _ => format!("{program} cannot be started"),
    }
}

/// Checks for programs, because a missing one must not show after a build of minutes.
///
/// # Errors
/// Lists every missing program with how to install it.
pub(super) fn need(programs: &[&str]) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |program: &&&str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let lacking = programs.iter().filter(|program| !is_there(program));
    let lacking: Vec<_> =
        lacking.map(|program| format!("{program} is missing: {}", missing(program))).collect();
    ensure!(lacking.is_empty(), "{}", lacking.join("\n"));
    Ok(())
}
