//! The program of a target on this host: where it is, whose it is, and what it says about itself.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fmt};

use super::form::Target;
use crate::process::child::{Child, ChildFault};

/// A program that was found.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Its file.
    pub(crate) path: PathBuf,
    /// Whose build it is.
    pub(crate) from: Source,
}

/// Whose build a program is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Source {
    /// Of a package, with its version.
    Package(String),
    /// The user named it.
    Given,
    /// It lies beside us, built together with us.
    Ours,
    /// It lay on the way, and no package owns it.
    Found,
}

/// Why a target takes no part.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Missing {
    /// It is not installed; its packages, if it has any.
    Program(Vec<String>),
    /// A file that it needs is not there.
    File(String, Vec<String>),
    /// Nothing that can be run is where the user says that it is.
    Given(PathBuf),
}

/// A version probe that takes longer hangs.
const PROBE_MAX: Duration = Duration::from_secs(10);
/// More lines than this are no version.
const LINES_MAX: usize = 4;

/// Where Debian keeps servers, which is on no user's PATH.
const SERVER_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// The program of a target: the one that the user gave, or the one on this host.
///
/// # Errors
/// [`Missing`].
pub(crate) fn find(target: &Target, given: Option<&Path>) -> Result<Program, Missing> {
    if let Some(path) = given {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        return match path.is_file() {
            true => Ok(Program {
                path,
                from: Source::Given,
            }),
            false => Err(Missing::Given(path)),
        };
    }
    let packages = || target.form.packages.clone();
    let path = located(&target.form).ok_or_else(|| Missing::Program(packages()))?;
    if let Some(file) = target
        .form
        .needs
        .iter()
        .find(|file| !Path::new(file).exists())
    {
        return Err(Missing::File(file.clone(), packages()));
    }
    let from = match target.form.packages.is_empty() {
        true => Source::Ours,
        false => owner(&path),
    };
    Ok(Program { path, from })
}

fn located(form: &super::form::Form) -> Option<PathBuf> {
    let beside = env::current_exe().ok().filter(|_| form.packages.is_empty());
    let beside = beside.and_then(|own| Some(own.parent()?.to_owned()));
    let on_path = env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(env::split_paths(&on_path));
    folders
        .chain(SERVER_FOLDERS.map(PathBuf::from))
        .map(|folder| folder.join(&form.program))
        .find(|path| path.is_file())
}

/// The package that a file is of, as dpkg knows.
fn owner(path: &Path) -> Source {
    let package = dpkg(&["--search".as_ref(), path.as_os_str()])
        .and_then(|line| Some(line.split_once(':')?.0.to_owned()));
    let Some(package) = package else {
        return Source::Found;
    };
    let version = dpkg(&[
        "--show".as_ref(),
        "--showformat=${Version}".as_ref(),
        package.as_ref(),
    ]);
    Source::Package(format!("{package} {}", version.unwrap_or_default()))
}

fn dpkg(arguments: &[&OsStr]) -> Option<String> {
    let mut command = std::process::Command::new("dpkg-query");
    let output = command.args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

/// What a program says about its version and its TLS library, a few lines.
///
/// # Errors
/// A probe cannot be started, or hangs.
pub(crate) fn version_lines(
    target: &Target,
    program: &Program,
    folder: &Path,
) -> Result<Vec<String>, ChildFault> {
    let mut lines: Vec<String> = Vec::new();
    for command in &target.form.version {
        let path = program.path.to_string_lossy();
        let mut words = command
            .iter()
            .map(|word| OsString::from(word.replace("{{program}}", &path)));
        let first = words.next().unwrap_or_default();
        let words: Vec<_> = words.collect();
        let said = Child::run(&first, &words, folder, PROBE_MAX)?;
        for line in chosen(&said, &target.form.version_lines) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines.truncate(LINES_MAX);
    Ok(lines)
}

/// The lines that begin as they should; the first one if nothing is said about that.
fn chosen(said: &str, beginnings: &[String]) -> Vec<String> {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let single_spaced = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    match beginnings {
        [] => lines.take(1).map(single_spaced).collect(),
        _ => lines
            .map(single_spaced)
            .filter(|line| beginnings.iter().any(|begin| line.starts_with(begin)))
            .collect(),
    }
}

impl Program {
    /// Whether the user gave it: then what is known of the packaged build need not hold.
    pub(crate) fn is_given(&self) -> bool {
        self.from == Source::Given
    }
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Package(package) => write!(out, "package {package}"),
            Self::Given => out.write_str("given"),
            Self::Ours => out.write_str("ours"),
            Self::Found => out.write_str("found"),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(packages) if packages.is_empty() => {
                out.write_str("it does not lie beside lariat-lab, nor on PATH")
            }
            Self::Program(packages) => {
                write!(out, "not installed (package {})", packages.join(", "))
            }
            Self::File(file, packages) => {
                write!(out, "{file} is missing (package {})", packages.join(", "))
            }
            Self::Given(path) => write!(out, "there is no program {}", path.display()),
        }
    }
}

impl Missing {
    /// The remedy.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Program(packages) if packages.is_empty() => {
                "build both programs (`cargo build --release`), or name it: --program NAME=PATH"
            }
            Self::Program(_) | Self::File(..) => "`lariat-lab targets --install` installs it",
            Self::Given(_) => "--program NAME=PATH names the file to run",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_few_lines() {
        let said = "HAProxy version 2.6\nStatus: x\nRunning  on OpenSSL 3.0\n";
        assert_eq!(chosen(said, &[]), ["HAProxy version 2.6"]);
        let wanted = ["HAProxy version", "Running on OpenSSL"].map(str::to_owned);
        assert_eq!(
            chosen(said, &wanted),
            ["HAProxy version 2.6", "Running on OpenSSL 3.0"]
        );
        assert_eq!(chosen("", &[]), [""; 0]);
    }
}
