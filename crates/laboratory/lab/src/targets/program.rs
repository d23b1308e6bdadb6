//! The program of a target on this host: its file, its origin, and its version.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, io};

use super::form::{TargetForm, TestTarget};
use super::root;
use super::root::PackageRoot;
use crate::fault::{LabFault, LabResult};
use crate::process::GuardedChild;

#[derive(Clone, Debug)]
pub(crate) struct TargetProgram {
    /// The program's file; if it runs in a root, as it is named inside.
    pub(crate) path: PathBuf,
    /// The root that it runs in, if that is not this host's own system.
    pub(crate) root: Option<PackageRoot>,
    /// Whether the user gave it, so that modules of the package are not loaded into it.
    pub(crate) is_given: bool,
    /// The package that it is of, for people; or `given`, `ours` (it lies beside us, built together
    /// with us), `found` (it lay on the way, and no package owns it).
    pub(crate) from: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Builds {
    pub(crate) programs: BTreeMap<String, PathBuf>,
    /// The root that packaged programs run in, if that is not this host's own system.
    pub(crate) root: Option<PackageRoot>,
    pub(crate) roots: PathBuf,
}

impl Builds {
    pub(crate) fn find(&self, target: &TestTarget) -> LabResult<TargetProgram> {
        let named = target.form.root.as_ref().map(|name| {
            let hint = format!("`lariat-lab targets --install --suite {name}` installs it");
            root::of_suite(name, &self.roots).map_err(|fault| LabFault { hint, ..fault })
        });
        let named = named.transpose()?;
        let given = self.programs.get(&target.name).map(PathBuf::as_path);
        find(target, given, named.as_ref().or(self.root.as_ref()))
    }

    /// Whether it is another build than the packaged one of this host.
    pub(crate) fn is_other(&self, target: &TestTarget) -> bool {
        let form = &target.form;
        let is_rooted = self.root.is_some() && !form.packages.is_empty();
        is_rooted || form.root.is_some() || self.programs.contains_key(&target.name)
    }
}

/// A version probe that takes longer hangs.
const PROBE_MAX: Duration = Duration::from_secs(10);
/// More lines than this are no version.
const LINES_MAX: usize = 4;

/// Folders of Debian's servers, which are on no user's PATH.
const SERVER_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// The program of a target: the one that the user gave, or the one in the root, or on this host.
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
            // Our own program is there; what it stands before is not.
            [] => LabFault::new(what, "`apt-file search` names the package that has it"),
            _ => missing(form, root, &what),
        });
    }
    let from = if form.packages.is_empty() { "ours".to_owned() } else { owner(&path, root) };
    Ok(TargetProgram { path, root: root.cloned(), is_given: false, from })
}

/// The fault of a program, or of a file that it needs, that is not installed.
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

/// Folders in which a program may be: beside us one of ours, others on PATH, and where Debian keeps
/// servers.
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

/// The package that a file is of, as dpkg knows.
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
    let mut command = std::process::Command::new("dpkg-query");
    if let Some(root) = root {
        command.arg("--admindir").arg(root.path.join("var/lib/dpkg"));
    }
    let output = command.args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

/// A program's lines about its version and its TLS library, a few lines.
///
/// # Errors
/// A probe cannot be started, or hangs.
pub(crate) fn version_lines(
    target: &TestTarget,
    program: &TargetProgram,
    folder: &Path,
) -> io::Result<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    for command in &target.form.version {
        let path = program.path.to_string_lossy();
        let words = command.iter().map(|word| OsString::from(word.replace("{{program}}", &path)));
        let words = program.command(folder, folder, words.collect());
        let said = GuardedChild::run(&words, &[], folder, &folder.join("said"), PROBE_MAX)?;
        for line in chosen(&said, &target.form.version_lines) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines.truncate(LINES_MAX);
    Ok(lines)
}

/// The lines that begin so; the first one without beginnings.
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
    /// A command of it, or of another program of its root, with `scratch` to be seen there.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_few_lines() {
        let said = "HAProxy version 2.6\nStatus: x\nRunning  on OpenSSL 3.0\n";
        assert_eq!(chosen(said, &[]), ["HAProxy version 2.6"]);
        let wanted = ["HAProxy version", "Running on OpenSSL"].map(str::to_owned);
        assert_eq!(chosen(said, &wanted), ["HAProxy version 2.6", "Running on OpenSSL 3.0"]);
        assert_eq!(chosen("", &[]), [""; 0]);
    }
}
