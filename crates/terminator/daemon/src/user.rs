//! The user that the worker process becomes.

use std::io;

use config::ProcessOptions;
use sys::process::{self, Identity};

use crate::handover::{User, WorkerUser};

/// User that root's worker process becomes by default; every system has it.
const USER_DEFAULT: &str = "nobody";

/// Number of that user, should a system (a bare container) not know the name.
const NOBODY: Identity = Identity { user: 65534, group: 65534 };

/// Chooses the user that the worker process becomes; `None` = our own, since only root can choose.
///
/// An error is a sentence with its hint.
pub(crate) fn choose(options: &ProcessOptions) -> Result<Option<WorkerUser>, String> {
    let ours = process::identity();
    let chosen = match &options.user {
        None if !process::is_root() => ours,
        None => found(process::lookup_user(USER_DEFAULT)).unwrap_or(NOBODY),
        Some(name) => {
            let missing = || format!("process.user: there is no user `{name}`");
            found(process::lookup_user(name)).ok_or_else(missing)?
        }
    };
    let groups = options.groups.iter().map(|name| {
        let missing = || format!("process.group: there is no group `{name}`");
        found(process::lookup_group(name)).ok_or_else(missing)
    });
    let groups: Vec<u32> = groups.collect::<Result<_, String>>()?;
    let further_groups = match (groups.split_first(), &options.user) {
        (Some((_, further)), _) => further.to_vec(),
        (None, user) => {
            let user = user.as_deref().unwrap_or(USER_DEFAULT);
            process::further_groups(user).unwrap_or_default()
        }
    };
    let group = match groups.first() {
        Some(group) => *group,
        None if chosen.user == ours.user => ours.group,
        None => chosen.group,
    };
    let chosen = Identity { user: chosen.user, group };
    if chosen == ours {
        return Ok(None);
    }
    if !process::is_root() {
        let message = "process.user: only root can have its worker process become another user\n\
                       hint: start as root, or leave out `user` and `group`";
        return Err(message.to_owned());
    }
    Ok(Some(WorkerUser { user: User { user: chosen.user, group }, further_groups }))
}

/// Returns the future user of the worker process, as `WorkerUser` names it.
pub(crate) fn of_worker(chosen: Option<WorkerUser>) -> WorkerUser {
    chosen.unwrap_or_else(|| {
        let Identity { user, group } = process::identity();
        WorkerUser { user: User { user, group }, further_groups: process::own_groups() }
    })
}

/// Treats a system without the file as one that knows nobody.
fn found<T>(result: io::Result<Option<T>>) -> Option<T> {
    result.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::SandboxOptions;

    fn options(user: Option<&str>, group: Option<&str>) -> ProcessOptions {
        ProcessOptions {
            user: user.map(str::to_owned),
            groups: group.map(str::to_owned).into_iter().collect(),
            connect_ports: None,
            sandbox: SandboxOptions { files: true, system_calls: true },
            drain: std::time::Duration::ZERO,
            drain_delay: std::time::Duration::ZERO,
            pid_file: None,
            key_log: None,
            key_process: false,
        }
    }

    #[test]
    fn only_root_becomes_another() {
        let chosen = choose(&options(None, None)).unwrap();
        assert_eq!(chosen.is_some(), process::is_root());
        assert_ne!(chosen.map(|one| one.user.user), Some(0));
    }

    #[test]
    fn who_we_are_is_nobody_else() {
        let ours = process::identity();
        let (user, group) = (ours.user.to_string(), ours.group.to_string());
        assert_eq!(choose(&options(Some(&user), Some(&group))).unwrap(), None);
    }

    #[test]
    fn a_number_without_a_name_will_do() {
        let chosen = choose(&options(Some("4000000000"), None));
        if process::is_root() {
            assert_eq!(chosen.unwrap().unwrap().user.user, 4_000_000_000);
        } else {
            assert!(chosen.is_err());
        }
    }

    #[test]
    fn names_that_nobody_has_are_refused() {
        let failure = choose(&options(Some("no such user"), None)).unwrap_err();
        assert!(failure.contains("process.user"));
        let failure = choose(&options(None, Some("no such group"))).unwrap_err();
        assert!(failure.contains("process.group"));
    }
}
