//! Drops access to what a process does not need: the file system and TCP ports (Landlock), and
//! system calls (seccomp).
//!
//! Both hold for the calling thread and threads that it starts later, so they must be called before
//! the first thread. Neither can be undone. Descriptors that are open already stay usable.

mod calls;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
    path_beneath_rules,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use calls::{ABSENT, ALIEN, ALLOWED, DEADLY, FCNTL, FOR_FILES, SOCKET_OPTIONS, USELESS};

/// Degree to which this kernel enforces a restriction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Enforcement {
    Enforced,
    /// The part that it knows: it is older than the newest part of the restriction.
    Partly,
    /// No part: it lacks the mechanism, or has it switched off.
    NotSupported,
}

/// Forbids to open, create, change and remove files, to bind TCP ports (kernel 6.7) unless `binds`
/// lets the kernel choose one, and to signal other processes (6.12). Connecting stays allowed, also
/// to Unix sockets in the file system, and to abstract ones of other programs if `abstract_sockets`
/// (else not; 6.12); so does reading beneath `roots`, which are open folders.
pub fn restrict_files(
    roots: &[BorrowedFd<'_>],
    abstract_sockets: bool,
    binds: bool,
) -> io::Result<Enforcement> {
    let rules = roots.iter().map(|root| PathBeneath::new(root, reading()));
    let scope = if abstract_sockets {
        Scope::Signal.into()
    } else {
        Scope::Signal | Scope::AbstractUnixSocket
    };
    restrict(rules.map(Ok), scope, binds)
}

/// Allows to read these files and beneath these folders, and forbids to open, create, change and
/// remove all others; missing ones are left out. Forbids to bind TCP ports (kernel 6.7) and to
/// signal other processes (6.12). The rule holds for the file that has the path now, not for one
/// that replaces it.
pub fn restrict_to_reading(paths: &[&Path]) -> io::Result<Enforcement> {
    restrict(path_beneath_rules(paths, reading()), Scope::Signal.into(), false)
}

/// Allows TCP connections to these ports only (kernel 6.7), whatever the address. Other protocols
/// and TCP Fast Open bypass this: [`restrict_system_calls`] forbids those.
pub fn restrict_connecting(tcp_ports: impl IntoIterator<Item = u16>) -> io::Result<Enforcement> {
    let rule = |port| Ok::<_, RulesetError>(NetPort::new(port, AccessNet::ConnectTcp));
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessNet::ConnectTcp)
        .and_then(Ruleset::create)
        .and_then(|created| created.add_rules(tcp_ports.into_iter().map(rule)))
        .and_then(|rules| rules.restrict_self())
        .map_err(io::Error::other)?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Enforcement::Enforced,
        // Only one right is restricted: there are no parts.
        RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => Enforcement::NotSupported,
    })
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

fn restrict<F: AsFd>(
    rules: impl Iterator<Item = Result<PathBeneath<F>, RulesetError>>,
    scope: BitFlags<Scope>,
    binds: bool,
) -> io::Result<Enforcement> {
    // 0 is the port that the kernel chooses.
    let any_port = binds.then(|| Ok::<_, RulesetError>(NetPort::new(0, AccessNet::BindTcp)));
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V6))
        .and_then(|rules| rules.handle_access(AccessNet::BindTcp))
        .and_then(|rules| rules.scope(scope))
        .and_then(Ruleset::create)
        .and_then(|created| created.add_rules(rules))
        .and_then(|created| created.add_rules(any_port))
        .and_then(|rules| rules.restrict_self())
        .map_err(io::Error::other)?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Enforcement::Enforced,
        RulesetStatus::PartiallyEnforced => Enforcement::Partly,
        RulesetStatus::NotEnforced => Enforcement::NotSupported,
    })
}

/// Rights that a process needs beyond threads, sockets and memory.
#[derive(Clone, Copy, Debug)]
pub struct SystemCalls {
    /// The calls of [`crate::beneath`]; Landlock decides which files are opened.
    pub open_files: bool,
    /// Connecting by TCP Fast Open (`MSG_FASTOPEN`), which Landlock's rules for ports do not see.
    /// No code here does it, but to forbid it the kernel must run the filters for each sendto(2)
    /// and sendmsg(2), because they have to look at the flags.
    pub fast_open: bool,
    /// Choosing the source address of a connection: bind(2).
    pub bind: bool,
    /// Opening sockets and connecting them; open ones stay usable.
    pub network: bool,
}

/// Allows only the system calls that a process of threads, sockets and memory needs, and those that
/// `calls` names. Stream sockets can be those of Unix and TCP only.
///
/// A call that no honest code here makes (starting programs, looking into other processes, loading
/// code into the kernel) kills the process; a call that libraries try but can do without fails;
/// executable memory cannot be mapped.
pub fn restrict_system_calls(calls: SystemCalls) -> io::Result<Enforcement> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(Enforcement::NotSupported);
    };
    // The kernel runs all filters and takes the strictest answer, and the newest filter's error
    // number. The last filter forbids the call that installs filters.
    let filters = [
        filter(deadly()?, SeccompAction::KillProcess, SeccompAction::Allow, arch),
        filter(
            absent(calls.open_files),
            SeccompAction::Errno(libc::ENOSYS as u32),
            SeccompAction::Allow,
            arch,
        ),
        filter(
            allowed(calls)?,
            SeccompAction::Allow,
            SeccompAction::Errno(libc::EPERM as u32),
            arch,
        ),
    ];
    apply(filters)
}

/// Forbids system calls that a process which only resolves names does not need. Libraries of the
/// system that it loads may make all others: dangerous calls kill the process, useless ones fail,
/// among them those that bypass Landlock's rules for TCP ports. Other processes of its user are out
/// of reach, and so is the terminal on its standard error.
pub fn restrict_resolver_calls() -> io::Result<Enforcement> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(Enforcement::NotSupported);
    };
    let forbidden = |rules, action| filter(rules, action, SeccompAction::Allow, arch);
    apply([
        Ok(other_abi()),
        forbidden(deadly()?, SeccompAction::KillProcess),
        // Makes the filter above see by its flags whether clone(2) starts a thread.
        forbidden(bare(&[libc::SYS_clone3]), SeccompAction::Errno(libc::ENOSYS as u32)),
        forbidden(useless()?, SeccompAction::Errno(libc::EPERM as u32)),
    ])
}

fn useless() -> io::Result<Rules> {
    const F_SETSIG: u64 = 10;
    const F_SETOWN_EX: u64 = 15;
    let own = std::process::id().into();
    let signalling = [libc::F_SETOWN as u64, F_SETOWN_EX, F_SETSIG];
    let not = |protocol: libc::c_int| argument(2, SeccompCmpOp::Ne, protocol as u64);
    let other_streams = vec![stream()?, not(0)?, not(libc::IPPROTO_TCP)?];
    let mut rules = bare(USELESS);
    rules.extend(sending(libc::MSG_FASTOPEN)?);
    rules.extend([
        (libc::SYS_socket, when([other_streams])?),
        (libc::SYS_fcntl, when_one_of(1, &signalling)?),
        (libc::SYS_ioctl, terminal_ioctls()?),
        // 0 is the calling process.
        (libc::SYS_prlimit64, when([vec![argument(0, SeccompCmpOp::Ne, 0)?]])?),
        // abort(3) ends with this call; no signal to others.
        (libc::SYS_tgkill, when([vec![argument(0, SeccompCmpOp::Ne, own)?]])?),
    ]);
    Ok(rules)
}

/// Matches all but harmless requests to a terminal: `TIOCSTI` types into it, for the shell that
/// started us to read. Also matches requests that make the kernel send signals.
fn terminal_ioctls() -> io::Result<Vec<SeccompRule>> {
    const FIOSETOWN: u64 = 0x8901;
    const SIOCSPGRP: u64 = 0x8902;
    // Requests to terminals have the type `T` (ioctl_list(2)).
    let mut of_terminals = vec![argument(1, SeccompCmpOp::MaskedEq(0xff00), 0x5400)?];
    for harmless in [libc::FIOCLEX, libc::FIONBIO, libc::FIONCLEX, libc::FIONREAD, libc::TCGETS] {
        of_terminals.push(argument(1, SeccompCmpOp::Ne, harmless as libc::c_ulong)?);
    }
    let mut rules = when([of_terminals])?;
    rules.extend(when_one_of(1, &[FIOSETOWN, SIOCSPGRP])?);
    Ok(rules)
}

fn apply<const N: usize>(filters: [io::Result<BpfProgram>; N]) -> io::Result<Enforcement> {
    for program in filters {
        let applied = enforced(seccompiler::apply_filter(&program?))?;
        if applied == Enforcement::NotSupported {
            return Ok(Enforcement::NotSupported);
        }
    }
    Ok(Enforcement::Enforced)
}

/// Forbids what no honest supervisor does: looking into other processes, changing the kernel or
/// mounts, using kernel keys. It can still start programs, open files and sockets. Holds for all
/// its threads and for what it starts. Must be called after [`crate::process::no_new_privileges`].
///
/// A program whose starter has forbidden these already adds no filters: filters add up over
/// execve(2), and the kernel has room for 32,768 instructions.
pub fn forbid_system_calls() -> io::Result<Enforcement> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(Enforcement::NotSupported);
    };
    let mark = mark_of(&[ALIEN, &[X32_CALLS.into()]].concat());
    if is_marked(mark) {
        return Ok(Enforcement::Enforced);
    }
    let marked = Rules::from([(libc::SYS_prctl, when_one_of(0, &[mark.into()])?)]);
    let forbidden = |rules, error: i32| {
        let forbidden = SeccompAction::Errno(error as u32);
        filter(rules, forbidden, SeccompAction::Allow, arch)
    };
    // The mark comes last: if it is present, all are forbidden.
    for program in
        [other_abi(), forbidden(bare(ALIEN), libc::EPERM)?, forbidden(marked, MARK_ERROR)?]
    {
        let applied = enforced(seccompiler::apply_filter_all_threads(&program))?;
        if applied != Enforcement::Enforced {
            return Ok(applied);
        }
    }
    Ok(Enforcement::Enforced)
}

/// Answer of prctl(2) to a mark; the kernel itself never gives it.
const MARK_ERROR: i32 = libc::EALREADY;

/// Returns the mark by which a program recognises that these calls are forbidden already: an
/// operation that prctl(2) does not have, different for each list of calls.
fn mark_of(calls: &[i64]) -> u32 {
    // FNV-1a.
    let numbers = calls.iter().flat_map(|call| call.to_le_bytes());
    let hash = numbers
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    u32::from_be_bytes(*b"L\0\0\0") | hash >> 8
}

fn is_marked(mark: u32) -> bool {
    // SAFETY: numbers only; the kernel has no such operation.
    let answer = unsafe { libc::prctl(mark as libc::c_int, 0, 0, 0, 0) };
    answer == -1 && io::Error::last_os_error().raw_os_error() == Some(MARK_ERROR)
}

/// First number of a call of the x32 ABI, which the kernel takes for a call of this architecture; a
/// list of forbidden calls does not contain it.
const X32_CALLS: u32 = 0x4000_0000;

/// Denies calls of other ABIs, which no list of forbidden calls matches, because seccompiler
/// compares for equality only.
fn other_abi() -> BpfProgram {
    let instruction = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    // The call number is the first word of `seccomp_data`.
    vec![
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32_CALLS),
        instruction(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

fn enforced(applied: Result<(), seccompiler::Error>) -> io::Result<Enforcement> {
    match applied {
        Err(seccompiler::Error::Seccomp(error)) if is_unsupported(&error) => {
            Ok(Enforcement::NotSupported)
        }
        applied => applied.map(|()| Enforcement::Enforced).map_err(io::Error::other),
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL))
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn filter(
    rules: Rules,
    matched: SeccompAction,
    otherwise: SeccompAction,
    arch: TargetArch,
) -> io::Result<BpfProgram> {
    let filter = SeccompFilter::new(rules, otherwise, matched, arch).map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}

/// Matches calls whatever their arguments. The kernel answers for those from a table (5.11) without
/// running a filter: no cost on the hot path.
fn bare(calls: &[i64]) -> Rules {
    calls.iter().map(|&call| (call, Vec::new())).collect()
}

/// Makes a condition on an argument of a call.
fn argument(index: u8, operator: SeccompCmpOp, value: u64) -> io::Result<SeccompCondition> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value).map_err(io::Error::other)
}

/// Matches if all conditions of one of the alternatives hold.
fn when<const N: usize>(alternatives: [Vec<SeccompCondition>; N]) -> io::Result<Vec<SeccompRule>> {
    let rules = alternatives.into_iter().map(SeccompRule::new);
    rules.collect::<Result<_, _>>().map_err(io::Error::other)
}

/// Matches if the argument is one of these.
fn when_one_of(index: u8, values: &[u64]) -> io::Result<Vec<SeccompRule>> {
    let rule = |value: &u64| {
        let condition = argument(index, SeccompCmpOp::Eq, *value)?;
        SeccompRule::new(vec![condition]).map_err(io::Error::other)
    };
    values.iter().map(rule).collect()
}

/// Matches if exactly the bits of `value` are set among those of `mask`.
fn when_bits(index: u8, mask: u64, value: u64) -> io::Result<Vec<SeccompRule>> {
    when([vec![argument(index, SeccompCmpOp::MaskedEq(mask), value)?]])
}

/// Returns the calls that kill the process. A new process is one: clone(2) without `CLONE_THREAD`.
fn deadly() -> io::Result<Rules> {
    let thread = libc::CLONE_THREAD as u64;
    let mut rules = bare(ALIEN);
    rules.extend(bare(DEADLY));
    rules.insert(libc::SYS_clone, when_bits(0, thread, 0)?);
    Ok(rules)
}

fn absent(opens_files: bool) -> Rules {
    let mut rules = bare(ABSENT);
    if opens_files {
        rules.retain(|call, _| !FOR_FILES.contains(call));
    }
    rules
}

/// Matches sending with this value of the flag `MSG_FASTOPEN`, which connects.
fn sending(fast_open: libc::c_int) -> io::Result<Rules> {
    let flags = [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)];
    let rule = |(call, index)| {
        let rules = when_bits(index, libc::MSG_FASTOPEN as u64, fast_open as u64);
        Ok((call, rules?))
    };
    flags.into_iter().map(rule).collect()
}

/// Matches stream sockets by the low bits; above them are `SOCK_NONBLOCK` and `SOCK_CLOEXEC`.
fn stream() -> io::Result<SeccompCondition> {
    argument(1, SeccompCmpOp::MaskedEq(0xf), libc::SOCK_STREAM as u64)
}

fn allowed(calls: SystemCalls) -> io::Result<Rules> {
    let mut rules = bare(ALLOWED);
    if calls.bind {
        rules.extend(bare(&[libc::SYS_bind]));
    }
    if !calls.fast_open {
        rules.extend(sending(0)?);
    }
    // Allowed here, so that the newest error number is that of the filter for absent calls.
    rules.extend(bare(ABSENT));
    rules.extend(conditional()?);
    if calls.open_files {
        rules.extend(bare(FOR_FILES));
    }
    if !calls.network {
        let network = [libc::SYS_socket, libc::SYS_connect, libc::SYS_accept4];
        network.iter().for_each(|call| drop(rules.remove(call)));
    }
    Ok(rules)
}

fn conditional() -> io::Result<Rules> {
    let thread = libc::CLONE_THREAD as u64;
    let executable = libc::PROT_EXEC as u64;
    // Protocols other than TCP (MPTCP, SCTP, SMC) bypass Landlock's rules for ports.
    let stream_of = |family: libc::c_int, protocol: libc::c_int| -> io::Result<_> {
        let family = argument(0, SeccompCmpOp::Eq, family as u64)?;
        let protocol = argument(2, SeccompCmpOp::Eq, protocol as u64)?;
        Ok(vec![family, stream()?, protocol])
    };
    // Their type depends on the C library.
    let ioctls = [
        libc::FIONBIO as libc::c_ulong,
        libc::FIOCLEX as libc::c_ulong,
        libc::FIONREAD as libc::c_ulong,
        libc::TIOCOUTQ as libc::c_ulong,
        libc::TCGETS as libc::c_ulong,
        // Reads the index of an interface, for the zone of an address.
        libc::SIOCGIFINDEX as libc::c_ulong,
    ];
    let prctls = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA];
    Ok(Rules::from([
        (libc::SYS_fcntl, when_one_of(1, FCNTL)?),
        (libc::SYS_setsockopt, socket_options()?),
        (libc::SYS_clone, when_bits(0, thread, thread)?),
        (libc::SYS_ioctl, when_one_of(1, &ioctls)?),
        (libc::SYS_mmap, when_bits(2, executable, 0)?),
        (libc::SYS_mprotect, when_bits(2, executable, 0)?),
        (libc::SYS_prctl, when_one_of(0, &prctls.map(|option| option as u64))?),
        // 0 is the calling thread; another may belong to another process.
        (libc::SYS_sched_setaffinity, when([vec![argument(0, SeccompCmpOp::Eq, 0)?]])?),
        // Limits can be read, not set.
        (libc::SYS_prlimit64, when([vec![null(2)?]])?),
        (
            libc::SYS_socket,
            when([
                stream_of(libc::AF_INET, 0)?,
                stream_of(libc::AF_INET, libc::IPPROTO_TCP)?,
                stream_of(libc::AF_INET6, 0)?,
                stream_of(libc::AF_INET6, libc::IPPROTO_TCP)?,
                stream_of(libc::AF_UNIX, 0)?,
            ])?,
        ),
        (libc::SYS_socketpair, when([stream_of(libc::AF_UNIX, 0)?])?),
        // abort(3) ends with this call; no signal to others.
        (libc::SYS_tgkill, when_one_of(0, &[std::process::id().into()])?),
    ]))
}

/// Matches socket options, each with its level.
fn socket_options() -> io::Result<Vec<SeccompRule>> {
    let rule = |&(level, option): &(libc::c_int, libc::c_int)| {
        let level = argument(1, SeccompCmpOp::Eq, level as u64)?;
        let option = argument(2, SeccompCmpOp::Eq, option as u64)?;
        SeccompRule::new(vec![level, option]).map_err(io::Error::other)
    };
    SOCKET_OPTIONS.iter().map(rule).collect()
}

fn null(index: u8) -> io::Result<SeccompCondition> {
    SeccompCondition::new(index, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)
        .map_err(io::Error::other)
}
