//! `lariat import`: the configuration of another program to one of Lariat.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use import::{FILE_BYTES_MAX, Predecessor, SourceFiles};
use sys::file::open_regular;

use super::console::{Console, print};
use super::exit::Exit;

pub(super) fn run(
    kind: Predecessor,
    files: &[PathBuf],
    output: Option<&Path>,
    console: Console,
) -> Exit {
    let import = import::import(kind, files, &mut HostFiles, &config::TABLE);
    console.say(import.report());
    if import.is_faulty() {
        match files.iter().find_map(|path| Some((of_another(kind, path)?, path.display()))) {
            Some((other, path)) => console.error(format_args!(
                "nothing was written: {path} is a configuration of {other}\n\
                 hint: lariat import {} {path}",
                other.word()
            )),
            None => console.error("nothing was written\nhint: mend what is marked `error`"),
        }
        return Exit::Usage;
    }
    if let Some(path) = import.log_file() {
        console.warn(format_args!(
            "{kind} and lariat would both write to {path}\n\
             hint: name another file in `log.output` for as long as both run, and have the one who \
             rotates it send SIGUSR1 to lariat"
        ));
    }
    let good = if import.is_partial() { Exit::Warned } else { Exit::Success };
    let Some(output) = output else {
        print(import.toml());
        return good;
    };
    let name = output.display();
    let written = File::create_new(output).and_then(|mut file| {
        file.write_all(import.toml().as_bytes())?;
        file.sync_all()
    });
    match written {
        Ok(()) => {
            console.hint(format_args!("{name} is written: lariat check {name}"));
            good
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            console.error(format_args!("{name} is there already\nhint: move it, or name another"));
            Exit::Usage
        }
        Err(error) => {
            console.error(format_args!("cannot write {name}: {error}"));
            // A part of a configuration would be in the way of the next attempt.
            let _ = fs::remove_file(output);
            Exit::Failed
        }
    }
}

/// The program whose file that is, if it is not this one's.
fn of_another(kind: Predecessor, path: &Path) -> Option<Predecessor> {
    let text = HostFiles.read(path).ok()?;
    import::recognise(&text).filter(|other| *other != kind)
}

/// The files of this host.
struct HostFiles;

impl SourceFiles for HostFiles {
    fn read(&mut self, path: &Path) -> Result<String, String> {
        // A pipe that is named has a writer; one that a pattern finds may have none.
        let is_of_shell = path.starts_with("/dev/fd") || path == Path::new("/dev/stdin");
        let file = if is_of_shell { File::open(path) } else { open_regular(path) };
        let file = file.map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        // One byte more shows that there is more.
        let most = FILE_BYTES_MAX as u64 + 1;
        file.take(most).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn list(&mut self, directory: &Path) -> Result<Vec<PathBuf>, String> {
        let entries = fs::read_dir(directory).map_err(|error| error.to_string())?;
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.is_file());
        paths.sort();
        Ok(paths)
    }

    fn exists(&mut self, path: &Path) -> bool {
        path.exists()
    }

    fn variable(&mut self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

#[cfg(test)]
mod tests {
    use import::{Sense, meanings};

    use super::*;

    #[test]
    fn the_table_of_meanings_names_keys_that_are() {
        for kind in Predecessor::ALL {
            for meaning in meanings(kind) {
                let keys = match meaning.sense {
                    Sense::Key { key, .. } => key,
                    Sense::Joined { keys, .. } => keys,
                    Sense::Always(_) | Sense::Lacks { .. } => continue,
                };
                let paths = keys.split([' ', ',']).filter(|word| word.contains('.'));
                for path in paths {
                    let is_key = config::TABLE.find(path).is_some();
                    assert!(is_key, "{kind}: {}: {path}", meaning.option);
                }
            }
        }
    }
}
