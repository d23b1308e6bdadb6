//! Loads targets: the programs under test, as data, and the servers that they become.
//!
//! A target is a folder of `targets/`: its form (`target.toml`, read by `form`) and templates of
//! its configuration. `program` finds the program and its version, on this system or in a root of
//! Debian packages beside it, `certificates` makes the served certificates, `templates` fills in
//! the configuration, and `server` starts the program and reads its output.
//!
//! Measures nothing: `run` decides when a server starts and what loads it.

pub(crate) mod certificates;
pub(crate) mod form;
pub(crate) mod program;
pub(crate) mod server;
pub(crate) mod templates;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::fault::{LabFault, LabResult};

use form::TestTarget;

/// The files of `targets/NAME`, `target.toml` first, embedded when this program was built.
macro_rules! embedded {
    ($($name:literal: $($file:literal),*;)*) => {
        [$(Embedded {
            name: $name,
            form: include_str!(concat!("../../../../targets/", $name, "/target.toml")),
            templates: &[$((
                $file,
                include_str!(concat!("../../../../targets/", $name, "/", $file)),
            )),*],
        }),*]
    };
}

struct Embedded {
    name: &'static str,
    form: &'static str,
    templates: &'static [(&'static str, &'static str)],
}

/// The targets of this build: ours first, because others are compared with it.
const TARGETS: [Embedded; 32] = embedded! {
    "lariat": "denied.txt", "lariat.toml";
    "hitch": "hitch.conf";
    "stunnel": "stunnel.conf";
    "haproxy-tcp": "haproxy.cfg";
    "haproxy-http": "haproxy.cfg";
    "nginx-stream": "nginx.conf";
    "nginx-http": "nginx.conf";
    "lariat-files": "lariat.toml";
    "lariat-farm": "farm.sh", "lose-node.sh", "node.toml", "balancer.toml";
    "lariat-key-process": "lariat.toml";
    "lariat-softhsm": "lariat.toml", "server.sh";
    "nginx-files": "nginx.conf";
    "nginx-lua": "nginx.conf";
    "plain": ;
    "nginx-plain": "nginx.conf";
    "steady": ;
    "burning": ;
    "lariat-load": ;
    "openssl-s-time": "openssl.cnf";
    "wrk": "openssl.cnf";
    "h2load": "openssl.cnf";
    "ab": "openssl.cnf";
    "curl": ;
    "mysql-plain": "front.sh", "server.sh";
    "mysql-tls-2048": "../mysql-plain/server.sh", "front.sh";
    "mysql-tls-4096": "../mysql-plain/server.sh", "front.sh";
    "mysql-lariat": "../mysql-plain/server.sh", "front.sh", "lariat.toml";
    "mysql-pair": "../mysql-lariat/front.sh", "../mysql-plain/server.sh", "lariat.toml", "near.sh",
        "near.toml";
    "mysql-stunnel": "../mysql-plain/server.sh", "front.sh", "near.conf", "near.sh", "stunnel.conf";
    "mysql-ssh": "../mysql-plain/server.sh", "front.sh", "near.sh", "sshd.conf";
    "sysbench": "connect.lua", "run.sh";
    "go-mysql": "main.go", "run.sh";
};

/// Loads all targets, each once, ours first. Those of the folder come last, except that they
/// replace embedded ones of the same name.
pub(crate) fn load_all(folder: Option<&Path>) -> LabResult<Vec<TestTarget>> {
    let mut targets = embedded_targets();
    for own in folder.map(read_folder).transpose()?.unwrap_or_default() {
        match targets.iter_mut().find(|target| target.name == own.name) {
            Some(place) => *place = own,
            None => targets.push(own),
        }
    }
    Ok(targets)
}

fn embedded_targets() -> Vec<TestTarget> {
    let owned = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
    TARGETS
        .iter()
        .map(|target| {
            let templates = target.templates.iter().map(owned).collect();
            TestTarget::parse(target.name, target.form, templates)
                .expect("a test reads every one of them")
        })
        .collect()
}

fn read_folder(folder: &Path) -> LabResult<Vec<TestTarget>> {
    let mut folders = entries(folder)?;
    folders.retain(|path| path.join(FORM).is_file());
    folders.iter().map(|path| read_target(path)).collect()
}

const FORM: &str = "target.toml";

fn read_target(folder: &Path) -> LabResult<TestTarget> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let mut templates = BTreeMap::new();
    for path in entries(folder)? {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if file != FORM && path.is_file() {
            templates.insert(file.into_owned(), read(&path)?);
        }
    }
    let path = folder.join(FORM);
    let text = read(&path)?;
    // Templates that it shares with another target: `../NAME/FILE`.
    let form: toml::Table = toml::from_str(&text).unwrap_or_default();
    let files = form.get("files").and_then(toml::Value::as_array);
    let names = files.into_iter().flatten().filter_map(toml::Value::as_str);
    for file in names.filter(|file| file.starts_with("../")) {
        templates.insert(file.to_owned(), read(&folder.join(file))?);
    }
    let target = TestTarget::parse(&name, &text, templates);
    target.map_err(|why| wrong(format_args!("{}: {why}", path.display())))
}

fn entries(folder: &Path) -> LabResult<Vec<PathBuf>> {
    let list =
        || -> io::Result<Vec<_>> { fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect() };
    let mut paths = list().map_err(unreadable(folder))?;
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> LabResult<String> {
    fs::read_to_string(path).map_err(unreadable(path))
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> LabFault {
    move |error| wrong(format_args!("{} cannot be read: {error}", path.display()))
}

fn wrong(message: impl Display) -> LabFault {
    let hint = "--target-folder names a folder with a folder for each target, as targets/ is one";
    LabFault::new(message, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::scratch::Scratch;

    fn names(targets: &[TestTarget]) -> Vec<&str> {
        targets.iter().map(|target| target.name.as_str()).collect()
    }

    #[test]
    fn every_folder_is_embedded_with_every_file() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../targets");
        let mut embedded = embedded_targets();
        assert_eq!(embedded[0].name, "lariat", "others are compared with it");
        embedded.sort_by(|one, other| one.name.cmp(&other.name));
        let read = read_folder(&source).unwrap();
        assert_eq!(names(&embedded), names(&read));
        for (embedded, read) in embedded.iter().zip(&read) {
            assert_eq!(embedded.templates, read.templates, "{}", read.name);
            assert_eq!(embedded.form.title, read.form.title);
            assert!(read.form.files.iter().eq(read.templates.keys()));
        }
    }

    #[test]
    fn our_own_stand_last_or_in_place_of_embedded_ones() {
        let scratch = Scratch::new().unwrap();
        let form = "title = \"mine\"\nprogram = \"x\"\nserves = \"itself\"\nscheme = \"http\"\n\
                    version = []\nstart = [\"x\"]\n";
        for name in ["hitch", "mine"] {
            let folder = scratch.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join(FORM), form).unwrap();
        }
        let all = load_all(Some(scratch.path())).unwrap();
        let embedded = embedded_targets();
        let wanted = [names(&embedded), vec!["mine"]].concat();
        assert_eq!(names(&all), wanted);
        assert_eq!(all[1].form.title, "mine");
        let fault = load_all(Some(Path::new("/no/such/folder"))).unwrap_err();
        assert!(fault.to_string().contains("/no/such/folder"), "{fault}");
    }
}
