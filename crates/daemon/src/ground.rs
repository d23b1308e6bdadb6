//! What a configuration takes for granted of its host: users, groups and directories.
//!
//! Owns the looking, which changes nothing; sockets and rights are tried only when serving.

use std::path::Path;

use config::{Diagnostic, LogOutput, Settings, Source};

/// Something that is not there: the key that asks for it, what is wrong, and the remedy.
type Lack = (&'static str, String, &'static str);

/// Whether the users, groups and directories that a configuration names are there.
///
/// # Errors
/// Those that are not, each where it was written.
pub(crate) fn check(source: &Source, settings: &Settings) -> Result<(), Vec<Diagnostic>> {
    let lacks = lacks(settings);
    let faults = lacks
        .iter()
        .flat_map(|(key, message, hint)| config::fault(source, key, message, hint));
    let mut faults: Vec<_> = faults.collect();
    faults.sort_by(|a, b| a.place.cmp(&b.place));
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults),
    }
}

fn lacks(settings: &Settings) -> Vec<Lack> {
    let process = &settings.process;
    let log = match &settings.control.log {
        LogOutput::File(path) => Some(path),
        LogOutput::Stderr | LogOutput::Stdout => None,
    };
    let checks = [
        process.user.as_deref().and_then(lack_of_user),
        process.group.as_deref().and_then(lack_of_group),
        log.and_then(|path| lack_of_directory("log.output", path)),
        process
            .pid_file
            .as_ref()
            .and_then(|path| lack_of_directory("process.pid-file", path)),
    ];
    checks.into_iter().flatten().collect()
}

fn lack_of_user(name: &str) -> Option<Lack> {
    let found = sys::process::lookup_user(name).ok().flatten();
    let message = format!("there is no user `{name}`");
    let hint = "name one of /etc/passwd, or give a number";
    found.is_none().then_some(("process.user", message, hint))
}

fn lack_of_group(name: &str) -> Option<Lack> {
    let found = sys::process::lookup_group(name).ok().flatten();
    let message = format!("there is no group `{name}`");
    let hint = "name one of /etc/group, or give a number";
    found.is_none().then_some(("process.group", message, hint))
}

/// Nothing is made: only a look tells whether a file could be.
fn lack_of_directory(key: &'static str, path: &Path) -> Option<Lack> {
    let directory = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    };
    let shown = directory.display();
    let message = match std::fs::metadata(directory) {
        Ok(meta) if !meta.is_dir() => format!("{shown} is no directory"),
        Ok(_) if path.is_dir() => format!("{} is a directory", path.display()),
        Ok(_) => return None,
        Err(error) => format!("the directory {shown} cannot be used: {error}"),
    };
    let hint = "name a file in a directory that exists and is writable";
    Some((key, message, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(path: &str) -> Option<String> {
        lack_of_directory("log.output", Path::new(path)).map(|(_, message, _)| message)
    }

    #[test]
    fn a_file_needs_a_directory() {
        assert_eq!(message("lariat.log"), None);
        assert_eq!(message("/dev/null"), None);
        let told = message("/nonexistent/x.log").unwrap();
        assert!(
            told.starts_with("the directory /nonexistent cannot be used: "),
            "{told}"
        );
        assert_eq!(
            message("/dev/null/x.log").unwrap(),
            "/dev/null is no directory"
        );
        assert_eq!(message("/").unwrap(), "/ is a directory");
        assert_eq!(message("/dev").unwrap(), "/dev is a directory");
    }

    #[test]
    fn users_and_groups_are_looked_up() {
        assert!(lack_of_user("root").is_none());
        assert!(lack_of_group("0").is_none());
        assert_eq!(lack_of_user("no such user").unwrap().0, "process.user");
        assert_eq!(lack_of_group("no such group").unwrap().0, "process.group");
    }
}
