//! Other programs that Lariat replaces: `lariat import` of their configurations, and hints for
//! users who type their options.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use import::{FILE_BYTES_MAX, Predecessor, SourceFiles};
use sys::file::open_regular;

use super::console::{Console, Exit, print};

pub(super) fn import(
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
            // A partial configuration would hinder the next attempt.
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

/// Files of this host.
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

use wire::address::{AddressError, Endpoint};

/// Commands that take the path of a configuration.
const OF_A_FILE: [&str; 6] = ["serve", "check", "status", "reload", "upgrade", "drain"];

/// Returns the hint about a word that is no argument, as users of nginx, HAProxy, hitch and service
/// scripts type it. `line` is the command line behind the program's name.
pub(super) fn hint(word: &str, line: &[String]) -> Option<String> {
    let word = word.split('=').next().unwrap_or(word);
    let place = line.iter().position(|one| one.starts_with(word))?;
    let whole = line.get(place)?.split('=').next()?;
    let next = line.get(place + 1).map(String::as_str);
    let command = line.first().filter(|first| place > 0 && !first.starts_with('-'));
    if command.is_some_and(|command| !OF_A_FILE.contains(&&**command)) {
        return None;
    }
    let file = file_of(line).unwrap_or("FILE");
    let is_test = |one: &String| ["-t", "-T", "--test", "test", "configtest"].contains(&&**one);
    let serve = if line.iter().any(is_test) { "check" } else { "serve" };
    // The option of `haproxy -c -f FILE`, or of `nginx -c FILE`.
    let is_check = next.is_none_or(|next| next.starts_with('-'));
    let hint = match (whole, next) {
        ("start" | "run", _) => {
            format!("`lariat serve {file}`, or `systemctl start lariat` where a package has it")
        }
        ("stop" | "quit" | "kill" | "shutdown", _) | ("-s", Some("stop" | "quit")) => {
            "`lariat drain` lets connections finish; SIGTERM twice ends it at once".to_owned()
        }
        ("restart", _) | ("-sf" | "-st" | "-x", _) => {
            "`lariat upgrade` has it become the program as installed now, without a pause; \
             `lariat reload` reads the configuration again"
                .to_owned()
        }
        ("-s", Some("reload")) => "`lariat reload`".to_owned(),
        ("reopen", _) | ("-s", Some("reopen")) => {
            "SIGUSR1 opens the log again: `kill -USR1 PID` with the supervisor's number, which \
             `lariat status` shows"
                .to_owned()
        }
        ("-s", _) => "`lariat reload`, or `lariat drain`".to_owned(),
        ("-c", _) if is_check => format!("`lariat check {file}`"),
        ("test" | "configtest" | "validate" | "-t" | "-T" | "--test", _) => {
            format!("`lariat check {file}`")
        }
        ("-f", Some(address)) if address.parse::<Endpoint>() != Err(AddressError::PortMissing) => {
            "an address follows --listen here; `lariat hitch` takes hitch's options".to_owned()
        }
        ("--config", _) if place == 0 && line[0].contains('=') => {
            format!(
                "`lariat {serve} {file}`, or `lariat hitch {}` for one of hitch",
                line.join(" ")
            )
        }
        ("-c" | "-f" | "--config", _) => match command {
            Some(command) => format!("the file stands alone: `lariat {command} {file}`"),
            None => format!("`lariat {serve} {file}`"),
        },
        ("-D" | "-d" | "-W" | "-Ws" | "-db" | "--daemon" | "--foreground", _) => format!(
            "it stays in the foreground: `lariat serve {file}`, which `systemctl start lariat` or \
             another service manager runs"
        ),
        ("-v" | "-vv", _) => "`lariat version`".to_owned(),
        (flag, _) if flag.starts_with("--") && place == 0 => {
            let name = flag.trim_start_matches('-');
            match (config::TABLE.find_flag(name), config::TABLE.foreign(name)) {
                (Some(_), _) => format!("a command comes first: `lariat serve {}`", line.join(" ")),
                (None, Some(_)) => {
                    format!("`lariat hitch {}` takes hitch's options", line.join(" "))
                }
                (None, None) => return None,
            }
        }
        (path, _) if place == 0 && is_file(path) => format!("`lariat serve {path}`"),
        _ => return None,
    };
    Some(hint)
}

/// Returns the configuration among these words, if one is named.
fn file_of(line: &[String]) -> Option<&str> {
    let named = line.iter().filter_map(|word| word.strip_prefix("--config="));
    let files = line.iter().map(String::as_str).filter(|word| is_file(word));
    named.chain(files).next()
}

fn is_file(word: &str) -> bool {
    let is_named =
        ["toml", "conf", "cfg"].map(|ending| Path::new(word).extension() == Some(ending.as_ref()));
    !word.starts_with('-') && (is_named.contains(&true) || word.contains('/'))
}

#[cfg(test)]
mod tests {
    use import::{OptionSupport, meanings};

    use super::*;

    #[test]
    fn the_table_of_meanings_names_keys_that_are() {
        for kind in Predecessor::ALL {
            for meaning in meanings(kind) {
                let keys = match meaning.support {
                    OptionSupport::Key { key, .. } => key,
                    OptionSupport::Joined { keys, .. } => keys,
                    OptionSupport::Always(_) | OptionSupport::Lacks { .. } => continue,
                };
                let paths = keys.split([' ', ',']).filter(|word| word.contains('.'));
                for path in paths {
                    let is_key = config::TABLE.find(path).is_some();
                    assert!(is_key, "{kind}: {}: {path}", meaning.option);
                }
            }
        }
    }

    #[test]
    fn words_of_other_programs_have_remedies() {
        for (typed, remedy) in [
            ("-f haproxy.cfg", "`lariat serve haproxy.cfg`"),
            ("serve -f lariat.toml", "the file stands alone: `lariat serve lariat.toml`"),
            ("-f [*]:443 -b [::1]:80", "`lariat hitch` takes hitch's options"),
            ("serve -f 0.0.0.0:443", "an address follows --listen here"),
            ("--config=a.conf", "`lariat serve a.conf`, or `lariat hitch --config=a.conf`"),
            ("-c -f haproxy.cfg", "`lariat check haproxy.cfg`"),
        ] {
            let line: Vec<_> = typed.split(' ').map(str::to_owned).collect();
            let word = line.iter().find(|one| one.starts_with('-')).unwrap();
            let hint = hint(word, &line).unwrap();
            assert!(hint.contains(remedy), "{typed}: {hint}");
        }
    }
}
