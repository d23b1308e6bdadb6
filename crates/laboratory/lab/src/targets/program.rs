//! Finds a target's program on this host: its file, its package, and its version; and manages
//! roots, folders with packages of another Debian suite, in which targets run.
//!
//! Makes roots by mmdebstrap and runs programs in them by chroot. Runs only programs that are
//! named.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, io};

use super::form::{TargetForm, TestTarget};
use crate::fault::{LabFault, LabResult};
use crate::process::GuardedChild;

#[derive(Clone, Debug)]
pub(crate) struct TargetProgram {
    /// Path of the program; inside the root if it runs in one.
    pub(crate) path: PathBuf,
    /// The root that it runs in, if not this host's own system.
    pub(crate) root: Option<PackageRoot>,
    /// Whether the user gave it, so that modules of the package are not loaded into it.
    pub(crate) is_given: bool,
    /// The package that contains it, for people; or `given`, `ours` (beside our own program, built
    /// together with it), `found` (on PATH, in no package).
    pub(crate) from: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Builds {
    pub(crate) programs: BTreeMap<String, PathBuf>,
    /// The root that packaged programs run in, if not this host's own system.
    pub(crate) root: Option<PackageRoot>,
    pub(crate) roots: PathBuf,
}

impl Builds {
    pub(crate) fn find(&self, target: &TestTarget) -> LabResult<TargetProgram> {
        let named = target.form.root.as_ref().map(|name| {
            let hint = format!("`lariat-lab targets --install --suite {name}` installs it");
            of_suite(name, &self.roots).map_err(|fault| LabFault { hint, ..fault })
        });
        let named = named.transpose()?;
        let given = self.programs.get(&target.name).map(PathBuf::as_path);
        find(target, given, named.as_ref().or(self.root.as_ref()))
    }

    /// Reports whether this is another build than the packaged one of this host.
    pub(crate) fn is_other(&self, target: &TestTarget) -> bool {
        let form = &target.form;
        let is_rooted = self.root.is_some() && !form.packages.is_empty();
        is_rooted || form.root.is_some() || self.programs.contains_key(&target.name)
    }
}

/// Time limit of a version probe; a program that takes longer hangs.
const PROBE_MAX: Duration = Duration::from_secs(10);
/// Limit of lines; a longer text is no version.
const LINES_MAX: usize = 4;

/// Folders of Debian's servers, which are on no user's PATH.
const SERVER_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// Finds the program of a target: the one that the user gave, or in the root, or on this host.
fn find(
    target: &TestTarget,
    given: Option<&Path>,
    root: Option<&PackageRoot>,
) -> LabResult<TargetProgram> {
    if let Some(path) = given {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        return if path.is_file() {
            Ok(TargetProgram { path, root: None, is_given: true, from: "given".to_owned() })
        } else {
            let message = format!("there is no program {}", path.display());
            Err(LabFault::new(message, "--program NAME=PATH names the file to run"))
        };
    }
    let form = &target.form;
    let root = root.filter(|_| !form.packages.is_empty());
    let outside = |path: &Path| root.map_or_else(|| path.to_owned(), |root| root.file(path));
    let mut places = folders(form, root).into_iter().map(|folder| folder.join(&form.program));
    let path = places.find(|path| outside(path).is_file());
    let path = path.ok_or_else(|| missing(form, root, "not installed"))?;
    let mut needs = form.needs.iter();
    if let Some(file) = needs.find(|file| !outside(Path::new(file)).exists()) {
        let what = format!("{file} is missing");
        return Err(match form.packages.as_slice() {
            // Our own program is installed, but not a file that it needs, of an unknown package.
            [] => LabFault::new(what, "`apt-file search` names the package that has it"),
            _ => missing(form, root, &what),
        });
    }
    let from = if form.packages.is_empty() { "ours".to_owned() } else { owner(&path, root) };
    Ok(TargetProgram { path, root: root.cloned(), is_given: false, from })
}

/// Makes the fault of a program, or of a file that it needs, that is not installed.
fn missing(form: &TargetForm, root: Option<&PackageRoot>, what: &str) -> LabFault {
    if form.packages.is_empty() {
        return LabFault::new(
            "it does not lie beside lariat-lab, nor on PATH",
            "build both programs (`cargo build --release`), or name it: --program NAME=PATH",
        );
    }
    let of_root =
        |before: &str| root.map_or_else(String::new, |root| format!("{before}{}", root.name));
    let packages = form.packages.join(", ");
    LabFault::new(
        format_args!("{what} (package {packages}{})", of_root(" of ")),
        format_args!("`lariat-lab targets --install{}` installs it", of_root(" --suite ")),
    )
}

/// Lists folders to search: our own program's for our programs, for others PATH and the folders of
/// Debian's servers.
fn folders(form: &TargetForm, root: Option<&PackageRoot>) -> Vec<PathBuf> {
    let beside = env::current_exe().ok().filter(|_| form.packages.is_empty());
    let beside = beside.and_then(|own| Some(own.parent()?.to_owned()));
    let on_path = match root {
        None => env::var_os("PATH").unwrap_or_default(),
        Some(_) => "/usr/bin:/usr/local/bin".into(),
    };
    let folders = beside.into_iter().chain(env::split_paths(&on_path));
    folders.chain(SERVER_FOLDERS.map(PathBuf::from)).collect()
}

/// Returns the package that contains a file, from dpkg.
fn owner(path: &Path, root: Option<&PackageRoot>) -> String {
    let package = dpkg(root, &["--search".as_ref(), path.as_os_str()])
        .and_then(|line| Some(line.split_once(':')?.0.to_owned()));
    let Some(package) = package else {
        return "found".to_owned();
    };
    let show = ["--show", "--showformat=${Version}", &package].map(OsStr::new);
    let version = dpkg(root, &show).unwrap_or_default();
    let suite = root.map_or_else(String::new, |root| format!(" of {}", root.name));
    format!("package {package} {version}{suite}")
}

fn dpkg(root: Option<&PackageRoot>, arguments: &[&OsStr]) -> Option<String> {
    let mut command = Command::new("dpkg-query");
    if let Some(root) = root {
        command.arg("--admindir").arg(root.path.join("var/lib/dpkg"));
    }
    let output = command.args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

/// Returns a program's few lines about its version and TLS library; or why a probe of it cannot be
/// started, or hangs. `folder` is a folder that it may write to.
pub(crate) fn version_lines(
    target: &TestTarget,
    program: &TargetProgram,
    folder: &Path,
) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for command in &target.form.version {
        let path = program.path.to_string_lossy();
        let words = command.iter().map(|word| OsString::from(word.replace("{{program}}", &path)));
        let words = program.command(folder, folder, words.collect());
        let said = GuardedChild::run(&words, &[], folder, &folder.join("said"), PROBE_MAX);
        let said = match said {
            Ok(said) => said,
            Err(fault) => return vec![fault.to_string()],
        };
        for line in chosen(&said, &target.form.version_lines) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines.truncate(LINES_MAX);
    lines
}

/// Returns the lines that begin with one of the prefixes; the first line if there are none.
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

impl TargetProgram {
    /// Builds a command of it, or of another program of its root, with `scratch` visible there.
    pub(crate) fn command(
        &self,
        scratch: &Path,
        folder: &Path,
        command: Vec<OsString>,
    ) -> Vec<OsString> {
        match &self.root {
            None => command,
            Some(root) => root.command(scratch, folder, command),
        }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PackageRoot {
    /// Name of the suite or of the folder.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

pub(crate) fn folder(chosen: Option<PathBuf>) -> LabResult<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let cache = || {
        let home = || Some(PathBuf::from(set("HOME")?).join(".cache"));
        set("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)
    };
    let usual = || Some(cache()?.join("lariat-lab/roots"));
    // Neither `XDG_CACHE_HOME` nor `HOME` need be set.
    let none = || LabFault::new("there is no folder for roots", "--root-folder names one");
    let folder = chosen.or_else(usual).ok_or_else(none)?;
    std::path::absolute(&folder).map_err(|error| no_root(&folder, &error))
}

/// Lists all roots in a folder, by name.
pub(crate) fn list(folder: &Path) -> Vec<PackageRoot> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names.iter().filter_map(|name| of_suite(name, folder).ok()).collect()
}

pub(crate) fn of_suite(suite: &str, folder: &Path) -> LabResult<PackageRoot> {
    let path = place(suite, folder)?;
    if !path.join("usr").is_dir() {
        return Err(LabFault::new(
            format_args!("there is no root `{suite}` in {}", folder.display()),
            format_args!("`lariat-lab targets --install --suite {suite}` makes it"),
        ));
    }
    let name = suite.to_owned();
    Ok(PackageRoot { name, path })
}

/// Returns the folder of a suite's root, whether it exists or not.
pub(crate) fn place(suite: &str, folder: &Path) -> LabResult<PathBuf> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if suite.is_empty() || suite.starts_with('-') || !suite.chars().all(is_plain) {
        let message = format!("`{}` is no name of a suite", suite.escape_debug());
        return Err(LabFault::new(message, "for example: --suite sid"));
    }
    Ok(folder.join(suite))
}

/// Opens the root in a folder that the user names.
pub(crate) fn at(named: &Path) -> LabResult<PackageRoot> {
    let path = fs::canonicalize(named).map_err(|error| no_root(named, &error))?;
    if !path.join("usr").is_dir() {
        return Err(no_root(named, &io::ErrorKind::NotFound.into()));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(PackageRoot { name, path })
}

fn no_root(path: &Path, error: &io::Error) -> LabFault {
    let message = format!("{}: {error}", path.display());
    LabFault::new(message, "--root names a folder with a Debian system in it")
}

/// Uses the mirror from the configuration of this host's apt.
const MAKE: &str = r#"set -e
suite=$1 folder=$2 packages=$3
shift 3
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
    grep '/debian/\?$' | head -n 1)
[ -n "$mirror" ] || { echo "apt of this host is set up with no mirror of Debian" >&2; exit 1; }
mkdir -p "$folder"
trap 'rm -rf --one-file-system "$folder/.$suite.new" "$folder/.$suite.old"' EXIT
trap 'exit 1' HUP INT TERM
mmdebstrap --mode=root --variant=apt --include="$packages" "$@" "$suite" "$folder/.$suite.new" "$mirror"
if [ -e "$folder/$suite" ]; then mv "$folder/$suite" "$folder/.$suite.old"; fi
mv "$folder/.$suite.new" "$folder/$suite"
"#;

/// Makes the root of a suite with these packages in it, replacing an existing one.
pub(crate) fn make(
    suite: &str,
    folder: &Path,
    packages: &[&str],
    apt_options: &[String],
) -> LabResult<()> {
    let unmade = |why: String| {
        LabFault::failed(
            format_args!("the root was not made: {why}"),
            "what it printed stands above; --apt-option is handed to its apt, as in \
             --apt-option 'Acquire::Check-Valid-Until \"false\"' for a mirror that is behind",
        )
    };
    let path = env::var_os("PATH").unwrap_or_default();
    if !env::split_paths(&path).any(|folder| folder.join("mmdebstrap").is_file()) {
        install(["mmdebstrap"]).map_err(unmade)?;
    }
    let mut words: Vec<OsString> = vec![suite.into(), folder.into(), packages.join(",").into()];
    words.extend(apt_options.iter().map(|option| format!("--aptopt={option}").into()));
    as_root(MAKE, &words).map_err(unmade)
}

/// Runs in a mount namespace of its own, so that nothing stays mounted: the scratch folder at its
/// own path, and the devices and processes of the host.
const RUN: &str = r#"set -e
root=$1 scratch=$2 folder=$3
shift 3
case $scratch in /tmp/*) mount -t tmpfs lariat-lab "$root/tmp" ;; esac
mkdir -p "$root$scratch"
mount --bind "$scratch" "$root$scratch"
mount --rbind /dev "$root/dev"
mount --rbind /proc "$root/proc"
exec chroot "$root" env --chdir="$folder" "$@"
"#;

impl PackageRoot {
    /// Returns the path of a file of the root, by its path inside.
    pub(crate) fn file(&self, inside: &Path) -> PathBuf {
        self.path.join(inside.strip_prefix("/").unwrap_or(inside))
    }

    /// Returns the command that runs another inside, with `scratch` at the same path as outside,
    /// and `folder`, which is in it, as the working directory.
    pub(crate) fn command(
        &self,
        scratch: &Path,
        folder: &Path,
        command: Vec<OsString>,
    ) -> Vec<OsString> {
        let head = ["unshare", "--mount", "--propagation", "private", "sh", "-c", RUN, "chroot"];
        let mut words: Vec<OsString> = head.into_iter().map(OsString::from).collect();
        words.extend([&self.path, scratch, folder].map(|path: &Path| path.as_os_str().to_owned()));
        words.extend(command);
        words
    }
}

/// While the script runs, a policy forbids the start of servers (101; invoke-rc.d(8)). A policy
/// that the administrator wrote stays as it is.
const SCRIPT: &str = r#"set -e
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -o Dpkg::Use-Pty=0 -qq update
apt-get -o Dpkg::Use-Pty=0 -qq install -y --no-install-recommends "$@"
"#;

/// Installs packages by apt-get, through sudo where we are not root; returns what failed.
pub(crate) fn install<'p>(packages: impl IntoIterator<Item = &'p str>) -> Result<(), String> {
    let packages: Vec<_> = packages.into_iter().map(OsString::from).collect();
    as_root(SCRIPT, &packages)
}

/// Runs a shell script with these arguments, through sudo where we are not root.
fn as_root(script: &str, arguments: &[OsString]) -> Result<(), String> {
    let shell = ["sudo", "sh", "-c", script, "lariat-lab"];
    let shell = &shell[usize::from(sys::process::is_root())..];
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).args(arguments).stdin(Stdio::null());
    // Our standard output is for data.
    command.stdout(io::stderr());
    let status =
        command.status().map_err(|error| format!("{} cannot be run: {error}", shell[0]))?;
    if status.success() { Ok(()) } else { Err(format!("the command failed ({status})")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::scratch::Scratch;

    #[test]
    fn versions_are_few_lines() {
        let said = "HAProxy version 2.6\nStatus: x\nRunning  on OpenSSL 3.0\n";
        assert_eq!(chosen(said, &[]), ["HAProxy version 2.6"]);
        let wanted = ["HAProxy version", "Running on OpenSSL"].map(str::to_owned);
        assert_eq!(chosen(said, &wanted), ["HAProxy version 2.6", "Running on OpenSSL 3.0"]);
        assert_eq!(chosen("", &[]), [""; 0]);
    }

    #[test]
    fn roots_are_named_by_their_suites() {
        let scratch = Scratch::new().unwrap();
        for name in ["sid", "trixie", ".sid.new"] {
            fs::create_dir_all(scratch.path().join(name).join("usr")).unwrap();
        }
        fs::create_dir(scratch.path().join("empty")).unwrap();
        let names: Vec<_> = list(scratch.path()).into_iter().map(|root| root.name).collect();
        assert_eq!(names, ["sid", "trixie"]);
        let absent = of_suite("forky", scratch.path()).unwrap_err();
        assert!(absent.hint.contains("--install --suite forky"));
        for name in ["", "../sid", "a b", ".sid.new", "-x"] {
            let fault = of_suite(name, scratch.path()).unwrap_err();
            assert!(fault.message.contains("is no name of a suite"), "{name}");
        }
        let root = at(&scratch.path().join("sid")).unwrap();
        let inside = root.file(Path::new("/usr/sbin/nginx"));
        assert_eq!(inside, root.path.join("usr/sbin/nginx"));
        assert!(at(Path::new("/no/such/root")).is_err());
    }
}
