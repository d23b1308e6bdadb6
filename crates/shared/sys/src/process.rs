//! A process's name, user and rights; and a program that is ended with all that descends from it,
//! also what has left its group and its session (setsid(2)), and what has lost its parent.
//!
//! Owns who descends from such a program: orphans fall to this process (`PR_SET_CHILD_SUBREAPER`),
//! which has one of them at a time. How long it may run is its starter's. Else, starting and
//! awaiting processes is std's.

use std::ffi::{CStr, CString};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, Signal as KernelSignal, WaitId, WaitIdOptions, WaitOptions, kill_process, waitid,
    waitpid,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities,
};

use crate::checked;

/// A user and a group, by number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Identity {
    pub user: u32,
    pub group: u32,
}

/// Returns the effective user and group of this process.
pub fn identity() -> Identity {
    Identity {
        user: rustix::process::geteuid().as_raw(),
        group: rustix::process::getegid().as_raw(),
    }
}

/// Returns the supplementary groups of this process.
pub fn own_groups() -> Vec<u32> {
    let groups = rustix::process::getgroups().unwrap_or_default();
    groups.into_iter().map(rustix::process::Gid::as_raw).collect()
}

/// Reports whether this process may become another user.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Checks that this process may create and remove files in a directory.
///
/// # Errors
/// Fails if it may not, or if the directory does not exist.
pub fn may_write(directory: &Path) -> io::Result<()> {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    // Judged by the effective user, not by the real one.
    let flags = AtFlags::EACCESS;
    Ok(rustix::fs::accessat(CWD, directory, access, flags)?)
}

/// Checks that this process may write to an existing file; opens nothing.
///
/// # Errors
/// Fails if it may not, or if the file does not exist.
pub fn may_write_file(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?)
}

/// Returns the pid of the parent; 1 or that of a subreaper if the parent is gone.
pub fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

/// Starts a new session without a terminal: setsid(2). Not for the leader of a process group.
pub fn new_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Reports whether this process may draw on the terminal: in the foreground or without a shell.
pub fn is_in_foreground(terminal: impl AsFd) -> bool {
    rustix::termios::tcgetpgrp(terminal).map_or(true, |group| group == rustix::process::getpgrp())
}

pub fn host_name() -> String {
    // Host names of the kernel are shorter (`__NEW_UTS_LEN`), and the last byte stays a NUL.
    let mut name = [0_u8; 256];
    // SAFETY: the call writes no more than it is told, which is less than there is.
    let answer = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let name = CStr::from_bytes_until_nul(&name).ok().filter(|_| answer == 0);
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// Sets the name that `ps -o comm` and `top` show for this process; its first 15 bytes. Must be
/// called by the first thread, because the name belongs to the thread.
pub fn set_name(name: &str) -> io::Result<()> {
    let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(rustix::thread::set_name(&name)?)
}

/// Makes the kernel kill this process (SIGKILL) when the thread that started it ends. A change of
/// user undoes this: call it afterwards, and then check that the parent still exists.
pub fn end_with_parent() -> io::Result<()> {
    let signal = Some(KernelSignal::KILL);
    Ok(rustix::process::set_parent_process_death_signal(signal)?)
}

/// Undoes [`end_with_parent`], for a process that has work to do after its parent's end.
pub fn outlive_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(None)?)
}

/// Makes the kernel kill a program when the thread that starts it ends. The program's own children
/// are not killed, nor is a program that changes its user.
pub fn end_child_with_us(command: &mut Command) -> &mut Command {
    let own = std::process::id();
    let prepare = move || {
        end_with_parent()?;
        // The parent may have ended before that.
        if parent() == own { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    };
    // SAFETY: between fork and exec it makes two calls to the kernel; it neither allocates nor
    // takes a lock.
    unsafe { command.pre_exec(prepare) }
}

/// Waits for a child and returns its exit status. Not to be mixed with std's `Child`.
pub fn wait(pid: u32) -> io::Result<ExitStatus> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    let waited = retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()))?;
    let (_, status) = waited.ok_or(io::ErrorKind::NotFound)?;
    Ok(ExitStatus::from_raw(status.as_raw()))
}

/// Reports whether a child has ended, without reaping it ([`wait`] does).
pub fn has_ended(child: u32) -> bool {
    let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    pid.is_some_and(|pid| waitid(WaitId::Pid(pid), options).is_ok_and(|ended| ended.is_some()))
}

/// Reaps ended children of the first thread that are not in `known`: processes that this one
/// adopted as the first of its container, or that the program before exec started. Without `/proc`
/// or the kernel's `CONFIG_PROC_CHILDREN` they stay until this process ends.
pub fn reap_strays(known: &[u32]) {
    let own = std::process::id();
    let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
    let children = children.unwrap_or_default();
    let pids = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    for pid in pids.filter(|pid: &i32| !known.iter().any(|one| i64::from(*one) == i64::from(*pid)))
    {
        let _ = Pid::from_raw(pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
    }
}

/// Makes this process adopt its orphaned descendants (`PR_SET_CHILD_SUBREAPER`), so that none can
/// escape it.
pub fn adopt_orphans() -> io::Result<()> {
    // Any number but 0 turns it on.
    Ok(rustix::process::set_child_subreaper(Some(Pid::INIT))?)
}

/// Forbids that anything this process starts gains more rights than it (`PR_SET_NO_NEW_PRIVS`).
pub fn no_new_privileges() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Changes the user, group and supplementary groups of all threads irrevocably; only root can.
///
/// An error may leave the process half changed: it must exit then.
pub fn drop_user(to: Identity, groups: &[u32]) -> io::Result<()> {
    // Only root can change the bounding set.
    drop_bounding_set()?;
    // libc's calls change all threads; the kernel's, which rustix makes, one.
    // SAFETY: as many groups are read as the slice has.
    checked(unsafe { libc::setgroups(groups.len() as _, groups.as_ptr()) })?;
    // SAFETY: numbers only.
    checked(unsafe { libc::setresgid(to.group, to.group, to.group) })?;
    // SAFETY: numbers only.
    checked(unsafe { libc::setresuid(to.user, to.user, to.user) })?;
    if identity() != to || can_become_root(to) {
        return Err(io::Error::other("the process is still root after leaving it"));
    }
    Ok(())
}

/// Drops every capability (capabilities(7)), also those that a service manager gave to an ordinary
/// user: ambient, effective, permitted, inheritable; and the bounding set as far as possible, which
/// takes `CAP_SETPCAP`. Must be called before the first thread is started.
pub fn drop_capabilities() -> io::Result<()> {
    drop_capabilities_but(CapabilitySet::empty())
}

/// Keeps the capabilities over a change of the user, until [`drop_capabilities`] or
/// [`keep_foreign_addresses`].
pub fn keep_over_change_of_user() -> io::Result<()> {
    Ok(set_keep_capabilities(true)?)
}

/// Drops every capability but the one to use addresses of other hosts (`CAP_NET_RAW`, for
/// `IP_TRANSPARENT`). Fails with `PermissionDenied` if the process does not have that one.
pub fn keep_foreign_addresses() -> io::Result<()> {
    let kept = CapabilitySet::NET_RAW;
    if !capabilities(None)?.permitted.contains(kept) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    drop_capabilities_but(kept)
}

fn drop_capabilities_but(kept: CapabilitySet) -> io::Result<()> {
    drop_bounding_set()?;
    match clear_ambient_capability_set() {
        // Before Linux 4.3 there is no ambient set.
        Err(Errno::INVAL) => {}
        cleared => cleared?,
    }
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// Empties the bounding set, which limits the rights of programs that this process starts. It
/// starts none, so a process that must not change the set may continue.
fn drop_bounding_set() -> io::Result<()> {
    for number in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            // The kernel has no more capabilities, or we may not change the set.
            Err(Errno::INVAL | Errno::PERM) => break,
            removed => removed?,
        }
    }
    Ok(())
}

fn can_become_root(from: Identity) -> bool {
    // SAFETY: a number only; it must fail.
    from.user != 0 && unsafe { libc::setuid(0) } == 0
}

/// Finds a user by name or number, and the user's primary group, in `/etc/passwd`; an unknown
/// number gets the group of the same number. `Ok(None)` if the name is unknown.
pub fn lookup_user(name: &str) -> io::Result<Option<Identity>> {
    let found = find_user(&fs::read_to_string("/etc/passwd")?, name);
    let numbered = || {
        let user = name.parse().ok()?;
        Some(Identity { user, group: user })
    };
    Ok(found.or_else(numbered))
}

/// Finds a group by name or number in `/etc/group`.
pub fn lookup_group(name: &str) -> io::Result<Option<u32>> {
    let found = find_group(&fs::read_to_string("/etc/group")?, name);
    Ok(found.or_else(|| name.parse().ok()))
}

/// Returns the supplementary groups of a user, given by name or number, from `/etc/group`.
pub fn further_groups(user: &str) -> io::Result<Vec<u32>> {
    let passwd = fs::read_to_string("/etc/passwd")?;
    let name = rows(&passwd).find_map(|row| match row[..] {
        [name, _, number, ..] if name == user || number == user => Some(name),
        _ => None,
    });
    let groups = fs::read_to_string("/etc/group")?;
    Ok(name.map_or_else(Vec::new, |name| groups_of(&groups, name)))
}

/// Splits each line of `/etc/passwd` or `/etc/group` into fields.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split(':').collect())
}

fn groups_of(groups: &str, user: &str) -> Vec<u32> {
    let member = |row: Vec<&str>| match row[..] {
        [_, _, number, members, ..] if members.split(',').any(|one| one == user) => {
            number.parse().ok()
        }
        _ => None,
    };
    rows(groups).filter_map(member).collect()
}

fn find_user(passwd: &str, name: &str) -> Option<Identity> {
    rows(passwd).find_map(|row| match row[..] {
        [own, _, user, group, ..] if own == name || user == name => {
            Some(Identity { user: user.parse().ok()?, group: group.parse().ok()? })
        }
        _ => None,
    })
}

fn find_group(groups: &str, name: &str) -> Option<u32> {
    rows(groups).find_map(|row| match row[..] {
        [own, _, number, ..] if own == name || number == name => number.parse().ok(),
        _ => None,
    })
}

const HOSTS: &str = "/etc/hosts";

/// Returns the host's name if it, or an alias in `/etc/hosts`, is fully qualified; else an address
/// literal of the source address towards the internet.
pub fn own_name() -> String {
    let hosts = fs::read(HOSTS).unwrap_or_default();
    qualified(&host_name(), &String::from_utf8_lossy(&hosts)).unwrap_or_else(|| {
        match own_address() {
            IpAddr::V4(address) => format!("[{address}]"),
            IpAddr::V6(address) => format!("[IPv6:{address}]"),
        }
    })
}

/// Returns the fully qualified form of a host's name.
fn qualified(name: &str, hosts: &str) -> Option<String> {
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or(line));
    let rows = lines.map(|line| line.split_whitespace().skip(1));
    let of_host = rows.filter(|row| row.clone().any(|one| one == name));
    let is_qualified = |one: &&str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        let mut labels = one.split('.');
        one.len() < 254
            && one.bytes().all(allowed)
            && labels.clone().count() > 1
            && labels.clone().all(|label| !label.is_empty())
            && labels.next() != Some("localhost")
    };
    let mut all = std::iter::once(name).chain(of_host.flatten());
    all.find(is_qualified).map(str::to_owned)
}

/// Returns the source address of packets to the internet; sends none.
fn own_address() -> IpAddr {
    // Documentation addresses (RFC 5737, RFC 3849) take the default route.
    let routes = [("0.0.0.0:0", "192.0.2.1:25"), ("[::]:0", "[2001:db8::1]:25")];
    let mut sources = routes.into_iter().filter_map(|(from, to)| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    });
    sources.next().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Longest wait for killed processes; they end within milliseconds unless a file system hangs.
const END_TIME_MAX: Duration = Duration::from_secs(2);

/// Pause between two scans for living descendants.
const LOOK_PAUSE: Duration = Duration::from_millis(2);

/// Held while a program runs: one at a time, because an orphan does not tell whose child it was.
static TURN: Mutex<()> = Mutex::new(());

/// The program that runs now.
static CURRENT: Mutex<Option<Descendants>> = Mutex::new(None);

/// A program and all its descendants.
pub struct ProgramTree {
    descendants: Descendants,
    _turn: MutexGuard<'static, ()>,
}

impl ProgramTree {
    /// Starts a program in its own process group, once this process runs no other such program.
    pub fn start(command: &mut Command) -> io::Result<(Self, Child)> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        adopt_orphans()?;
        let own = own_pid();
        let children = processes().into_iter().filter(|one| one.parent == own);
        let others = children.map(|one| one.pid).collect();
        let child = command.process_group(0).spawn()?;
        let founder = i32::try_from(child.id()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let descendants = Descendants { founder, others: Some(others) };
        *current() = Some(descendants.clone());
        Ok((Self { descendants, _turn: turn }, child))
    }

    /// Kills every descendant (SIGKILL) and waits until they are gone. The caller reaps the program
    /// itself.
    pub fn end(&self) {
        self.descendants.end();
    }
}

impl Drop for ProgramTree {
    fn drop(&mut self) {
        *current() = None;
    }
}

/// Ends the program that runs now, if any, with its brood, as [`ProgramTree::end`] does: for a
/// thread that hears that the process is to end.
pub fn end_current_program() {
    let descendants = current().clone();
    descendants.iter().for_each(Descendants::end);
}

/// Kills the process group of the program `founder` and every descendant, and waits until they are
/// gone. The caller reaps the program itself. For a process that adopts no orphans: a descendant
/// that has left the group and also lost its parent is not found.
pub fn end_group(founder: u32) {
    if let Ok(founder) = i32::try_from(founder) {
        Descendants { founder, others: None }.end();
    }
}

fn current() -> MutexGuard<'static, Option<Descendants>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Criteria by which a process is known to descend from a program.
#[derive(Clone)]
struct Descendants {
    founder: i32,
    /// Children this process had before; `None` if it adopts no orphans.
    others: Option<Vec<i32>>,
}

impl Descendants {
    fn end(&self) {
        let begun = Instant::now();
        // Killing a process that runs as another user may be forbidden.
        let ended = |pid: &i32| {
            Pid::from_raw(*pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
        };
        // A child forked meanwhile is found by the next scan.
        while self.living().iter().filter(|pid| ended(pid)).count() > 0
            && begun.elapsed() < END_TIME_MAX
        {
            thread::sleep(LOOK_PAUSE);
        }
    }

    /// Returns the running descendants; reaps ended ones that are children of this process.
    fn living(&self) -> Vec<i32> {
        let (own, all) = (own_pid(), processes());
        // 0 if our group is in another PID namespace, as for a container's first process.
        let group = all.iter().find(|one| one.pid == own).map_or(0, |one| one.group);
        // Other children of ours stay in our group; no child of this program does.
        let is_first = |one: &&ProcessEntry| match &self.others {
            None => one.group == self.founder,
            Some(others) => {
                one.parent == own
                    && (one.pid == self.founder || one.group != group && !others.contains(&one.pid))
            }
        };
        let mut found: Vec<&ProcessEntry> = all.iter().filter(is_first).collect();
        let mut looked = 0;
        while let Some(parent) = found.get(looked).map(|one| one.pid) {
            found.extend(all.iter().filter(|one| one.parent == parent));
            looked += 1;
        }
        for one in found.iter().filter(|one| one.has_ended && one.pid != self.founder) {
            // Fails for a process with another parent.
            let _ = Pid::from_raw(one.pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
        }
        found.into_iter().filter(|one| !one.has_ended).map(|one| one.pid).collect()
    }
}

/// A process of the host, from `/proc`.
struct ProcessEntry {
    pid: i32,
    parent: i32,
    group: i32,
    has_ended: bool,
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Returns every process that `/proc` shows.
fn processes() -> Vec<ProcessEntry> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(|pid| stat_of(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)).collect()
}

/// Parses a line of proc_pid_stat(5). The name, in parentheses, may contain any byte.
fn stat_of(pid: i32, line: &[u8]) -> Option<ProcessEntry> {
    let name_end = line.iter().rposition(|byte| *byte == b')')?;
    let mut fields = str::from_utf8(line.get(name_end + 1..)?).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    Some(ProcessEntry {
        pid,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        has_ended: matches!(state, "Z" | "X" | "x"),
    })
}

#[cfg(test)]
mod tests;
