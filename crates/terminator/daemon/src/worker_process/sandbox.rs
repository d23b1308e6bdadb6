//! Giving up rights, in the order in which one needs the other.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use sys::process::{self, Identity};
use sys::sandbox::{
    Enforcement, SystemCalls, restrict_connecting, restrict_files, restrict_system_calls,
};
use sys::{signal, usage};

use crate::handover::{
    Confinement, ConfinementState, ConnectRights, Rights, SourceRights, User, WorkerUser,
};

/// Gives up what is to be given up, for good; afterwards `roots` can be read in, and what is in
/// `connect_rights` connected to. To be called before the first thread is started.
///
/// An error names the step; the process must end then.
pub(super) fn give_up(
    confinement: &Confinement,
    connect_rights: &ConnectRights,
    roots: &[OwnedFd],
) -> Result<Rights, String> {
    let folders: Vec<_> = roots.iter().map(AsFd::as_fd).collect();
    let mut tcp_ports = ConfinementState::Off;
    let enter_landlock = || {
        if let Some(ports) = &connect_rights.tcp_ports {
            tcp_ports = restrict_connecting(ports.iter().copied())?.into();
        }
        let binds = connect_rights.sources > SourceRights::Any;
        restrict_files(&folders, connect_rights.abstract_sockets, binds)
    };
    let calls = SystemCalls {
        open_files: !roots.is_empty(),
        fast_open: connect_rights.tcp_ports.is_none(),
        bind: connect_rights.sources > SourceRights::Any,
        network: true,
    };
    let (files, system_calls) =
        give_up_by(confinement, connect_rights.sources, enter_landlock, || {
            restrict_system_calls(calls)
        })?;
    let Identity { user, group } = process::identity();
    Ok(Rights {
        user: User { user, group },
        files,
        reads_folders: !roots.is_empty(),
        tcp_ports,
        system_calls,
    })
}

/// The same by other restrictions by Landlock and of system calls; how far each is given up.
pub(crate) fn give_up_by(
    confinement: &Confinement,
    sources: SourceRights,
    enter_landlock: impl FnOnce() -> io::Result<Enforcement>,
    restrict_system_calls: impl FnOnce() -> io::Result<Enforcement>,
) -> Result<(ConfinementState, ConfinementState), String> {
    let failed = |step: &'static str| move |error: io::Error| format!("{step}: {error}");
    let keeps_right = sources == SourceRights::Foreign;
    if keeps_right {
        process::keep_over_change_of_user().map_err(failed("keeping CAP_NET_RAW"))?;
    }
    if let Some(WorkerUser { user: User { user, group }, further_groups }) =
        &confinement.become_user
    {
        let (user, group) = (*user, *group);
        process::drop_user(Identity { user, group }, further_groups).map_err(|error| {
            format!(
                "becoming another user: {error}\n\
                 hint: give it CAP_SETUID and CAP_SETGID, or start it as an ordinary user, or with \
                 --user root, which leaves it who it is"
            )
        })?;
    }
    // An ordinary user may have been given some, and root that stays root has all.
    if keeps_right {
        process::keep_foreign_addresses().map_err(|error| {
            format!(
                "keeping CAP_NET_RAW, which `back.source = \"client\"` needs: {error}\n\
                 hint: start lariat as root, or with AmbientCapabilities=CAP_NET_RAW; \
                 CapabilityBoundingSet= must hold it too"
            )
        })?;
    } else {
        process::drop_capabilities().map_err(failed("giving up capabilities"))?;
    }
    // A change of user undoes these two.
    usage::forbid_core_dumps().map_err(failed("forbidding memory images"))?;
    process::end_with_parent().map_err(failed("binding its life to the supervisor's"))?;
    if process::parent() != confinement.supervisor_pid {
        return Err("the supervisor has died".to_owned());
    }
    process::no_new_privileges().map_err(failed("refusing new privileges"))?;
    let (mut files, mut system_calls) = (ConfinementState::Off, ConfinementState::Off);
    if confinement.files {
        let entered = enter_landlock().map_err(failed("closing the file system and ports"))?;
        files = entered.into();
    }
    if confinement.system_calls {
        let restricted = restrict_system_calls().map_err(failed("system calls"))?;
        system_calls = restricted.into();
    }
    Ok((files, system_calls))
}

/// Begins a process whose rights are to be given up: the first that it does. It ends with the
/// supervisor since its fork, also if it is stopped; a file with capabilities undoes that, and here
/// it is done again.
///
/// The terminal and service managers signal every process; the supervisor says what to do.
pub(crate) fn begin(name: &str) -> io::Result<()> {
    use signal::Signal::{Hangup, Interrupt, Pipe, Terminate, User1, User2};
    process::end_with_parent()?;
    process::set_name(name)?;
    signal::ignore(&[Hangup, Interrupt, Pipe, Terminate, User1, User2])?;
    signal::unblock_all()
}

impl From<Enforcement> for ConfinementState {
    fn from(enforcement: Enforcement) -> Self {
        match enforcement {
            Enforcement::Enforced => Self::Full,
            Enforcement::Partly => Self::Partly,
            Enforcement::NotSupported => Self::Absent,
        }
    }
}
