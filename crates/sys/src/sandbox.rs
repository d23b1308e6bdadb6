//! Giving up what a process does not need: the file system (Landlock) and system calls (seccomp).
//!
//! Both hold for the calling thread and the threads it starts from now on: to be called before
//! the first thread. Neither can be undone. Descriptors that are open already stay usable.

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
    SeccompRule, TargetArch,
};

/// How much of a restriction this kernel enforces.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Enforcement {
    /// All of it.
    Enforced,
    /// What it knows of it: it is older than the restriction's newest part.
    Partly,
    /// Nothing: it lacks the mechanism, or has it switched off.
    NotSupported,
}

/// Opens, makes, changes and removes no file any more; binds no TCP port (kernel 6.7) and signals
/// no other process (6.12). Dialling stays, Unix sockets in the file system included; so does
/// reading what is beneath `roots`, folders that are open.
pub fn restrict_files(roots: &[BorrowedFd<'_>]) -> io::Result<Enforcement> {
    let rules = roots.iter().map(|root| PathBeneath::new(root, reading()));
    restrict(rules.map(Ok), AccessNet::BindTcp.into(), &[])
}

/// Reads these files, and what is beneath these folders, and opens, makes, changes and removes no
/// other; those that are not there are left out. Connects by TCP to these ports only, binds none
/// (kernel 6.7), and signals no other process (6.12). What is read is the file that has the path
/// now: one that replaces it is another.
pub fn restrict_to_reading(paths: &[&Path], tcp_ports: &[u16]) -> io::Result<Enforcement> {
    let network = AccessNet::BindTcp | AccessNet::ConnectTcp;
    restrict(path_beneath_rules(paths, reading()), network, tcp_ports)
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

fn restrict<F: AsFd>(
    rules: impl Iterator<Item = Result<PathBeneath<F>, RulesetError>>,
    network: BitFlags<AccessNet>,
    tcp_ports: &[u16],
) -> io::Result<Enforcement> {
    let ports = tcp_ports.iter();
    let ports = ports.map(|&port| Ok::<_, RulesetError>(NetPort::new(port, AccessNet::ConnectTcp)));
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V6))
        .and_then(|rules| rules.handle_access(network))
        .and_then(|rules| rules.scope(Scope::Signal))
        .and_then(Ruleset::create)
        .and_then(|created| created.add_rules(rules))
        .and_then(|created| created.add_rules(ports))
        .and_then(|rules| rules.restrict_self())
        .map_err(io::Error::other)?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Enforcement::Enforced,
        RulesetStatus::PartiallyEnforced => Enforcement::Partly,
        RulesetStatus::NotEnforced => Enforcement::NotSupported,
    })
}

/// Makes only the system calls that a process of threads, sockets and memory needs; and, with
/// `opens_files`, those that [`crate::beneath`] needs: which files it opens is then Landlock's to
/// say.
///
/// What no honest code here does (starting programs, looking into other processes, loading code
/// into the kernel) ends the process; what libraries try and can do without fails; memory that
/// can be executed cannot be made.
pub fn restrict_system_calls(opens_files: bool) -> io::Result<Enforcement> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(Enforcement::NotSupported);
    };
    // The kernel asks all filters and takes the strictest answer, and the newest filter's error
    // number. The last one forbids the call that installs filters.
    let filters = [
        filter(
            deadly()?,
            SeccompAction::KillProcess,
            SeccompAction::Allow,
            arch,
        ),
        filter(
            absent(opens_files),
            SeccompAction::Errno(libc::ENOSYS as u32),
            SeccompAction::Allow,
            arch,
        ),
        filter(
            allowed(opens_files)?,
            SeccompAction::Allow,
            SeccompAction::Errno(libc::EPERM as u32),
            arch,
        ),
    ];
    apply(filters)
}

/// Makes no system call that a process which only resolves names has no use for. Libraries of the
/// system that it loads may make all others: what is dangerous ends the process, what is useless
/// fails. Other processes of its user are out of its reach, and so is the terminal that its
/// standard error may be.
pub fn restrict_resolver_calls() -> io::Result<Enforcement> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(Enforcement::NotSupported);
    };
    let forbidden = |rules, action| filter(rules, action, SeccompAction::Allow, arch);
    apply([
        forbidden(deadly()?, SeccompAction::KillProcess),
        // So that the filter above sees by its flags whether it is a thread that is started.
        forbidden(
            bare(&[libc::SYS_clone3]),
            SeccompAction::Errno(libc::ENOSYS as u32),
        ),
        forbidden(useless()?, SeccompAction::Errno(libc::EPERM as u32)),
    ])
}

/// What fails in the resolver.
fn useless() -> io::Result<Rules> {
    const F_SETSIG: u64 = 10;
    const F_SETOWN_EX: u64 = 15;
    let own = std::process::id().into();
    let signalling = [libc::F_SETOWN as u64, F_SETOWN_EX, F_SETSIG];
    let mut rules = bare(USELESS);
    rules.extend([
        (libc::SYS_fcntl, when_one_of(1, &signalling)?),
        (libc::SYS_ioctl, terminal_ioctls()?),
        // 0 is who calls.
        (
            libc::SYS_prlimit64,
            when([vec![argument(0, SeccompCmpOp::Ne, 0)?]])?,
        ),
        // How abort(3) ends; no signal to others.
        (
            libc::SYS_tgkill,
            when([vec![argument(0, SeccompCmpOp::Ne, own)?]])?,
        ),
    ]);
    Ok(rules)
}

/// All but harmless requests to a terminal: `TIOCSTI` types into it, for the shell that started us
/// to read. With them those that have signals sent.
fn terminal_ioctls() -> io::Result<Vec<SeccompRule>> {
    const FIOSETOWN: u64 = 0x8901;
    const SIOCSPGRP: u64 = 0x8902;
    // Requests to terminals are those of the type `T` (ioctl_list(2)).
    let mut of_terminals = vec![argument(1, SeccompCmpOp::MaskedEq(0xff00), 0x5400)?];
    for harmless in [
        libc::FIOCLEX,
        libc::FIONBIO,
        libc::FIONCLEX,
        libc::FIONREAD,
        libc::TCGETS,
    ] {
        of_terminals.push(argument(1, SeccompCmpOp::Ne, harmless)?);
    }
    let mut rules = when([of_terminals])?;
    rules.extend(when_one_of(1, &[FIOSETOWN, SIOCSPGRP])?);
    Ok(rules)
}

fn apply<const N: usize>(filters: [io::Result<BpfProgram>; N]) -> io::Result<Enforcement> {
    for program in filters {
        if install(program?)? == Enforcement::NotSupported {
            return Ok(Enforcement::NotSupported);
        }
    }
    Ok(Enforcement::Enforced)
}

/// Forbids what no honest supervisor does: looking into other processes, changing the kernel or
/// what is mounted, keys of the kernel. It goes on to start programs, to open files and sockets.
/// Holds for all of its threads, and for what it starts. To be called after
/// [`crate::process::no_new_privileges`].
pub fn forbid_system_calls() -> io::Result<Enforcement> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(Enforcement::NotSupported);
    };
    let forbidden = SeccompAction::Errno(libc::EPERM as u32);
    let program = filter(bare(ALIEN), forbidden, SeccompAction::Allow, arch)?;
    enforced(seccompiler::apply_filter_all_threads(&program))
}

fn install(program: BpfProgram) -> io::Result<Enforcement> {
    enforced(seccompiler::apply_filter(&program))
}

fn enforced(applied: Result<(), seccompiler::Error>) -> io::Result<Enforcement> {
    match applied {
        Err(seccompiler::Error::Seccomp(error)) if is_unsupported(&error) => {
            Ok(Enforcement::NotSupported)
        }
        applied => applied
            .map(|()| Enforcement::Enforced)
            .map_err(io::Error::other),
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

/// Calls whatever their arguments. The kernel answers for those from a table (5.11), without
/// running a filter: no cost where connections are carried.
fn bare(calls: &[i64]) -> Rules {
    calls.iter().map(|&call| (call, Vec::new())).collect()
}

/// What an argument must be for a call to match.
fn argument(index: u8, operator: SeccompCmpOp, value: u64) -> io::Result<SeccompCondition> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value).map_err(io::Error::other)
}

/// The call matches if all conditions of one of the alternatives hold.
fn when<const N: usize>(alternatives: [Vec<SeccompCondition>; N]) -> io::Result<Vec<SeccompRule>> {
    let rules = alternatives.into_iter().map(SeccompRule::new);
    rules.collect::<Result<_, _>>().map_err(io::Error::other)
}

/// The call matches if the argument is one of these.
fn when_one_of(index: u8, values: &[u64]) -> io::Result<Vec<SeccompRule>> {
    let rule = |value: &u64| {
        let condition = argument(index, SeccompCmpOp::Eq, *value)?;
        SeccompRule::new(vec![condition]).map_err(io::Error::other)
    };
    values.iter().map(rule).collect()
}

/// The call matches if of these bits of the argument exactly those in `value` are set.
fn when_bits(index: u8, mask: u64, value: u64) -> io::Result<Vec<SeccompRule>> {
    when([vec![argument(index, SeccompCmpOp::MaskedEq(mask), value)?]])
}

/// What ends the process. A new process is one: clone(2) without `CLONE_THREAD`.
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

fn allowed(opens_files: bool) -> io::Result<Rules> {
    let mut rules = bare(ALLOWED);
    // So that the other filter's answer is the newest one that is no error of permission.
    rules.extend(bare(ABSENT));
    rules.extend(conditional()?);
    if opens_files {
        rules.extend(bare(FOR_FILES));
    }
    Ok(rules)
}

/// What is allowed with some arguments only.
fn conditional() -> io::Result<Rules> {
    let thread = libc::CLONE_THREAD as u64;
    let executable = libc::PROT_EXEC as u64;
    let stream = |family: libc::c_int| -> io::Result<_> {
        // The type's low bits; above them are SOCK_NONBLOCK and SOCK_CLOEXEC.
        let kind = argument(1, SeccompCmpOp::MaskedEq(0xf), libc::SOCK_STREAM as u64)?;
        Ok(vec![argument(0, SeccompCmpOp::Eq, family as u64)?, kind])
    };
    let ioctls = [
        libc::FIONBIO,
        libc::FIOCLEX,
        libc::FIONREAD,
        libc::TIOCOUTQ,
        libc::TCGETS,
    ];
    let prctls = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA];
    Ok(Rules::from([
        (libc::SYS_fcntl, when_one_of(1, FCNTL)?),
        (libc::SYS_setsockopt, socket_options()?),
        (libc::SYS_clone, when_bits(0, thread, thread)?),
        (libc::SYS_ioctl, when_one_of(1, &ioctls)?),
        (libc::SYS_mmap, when_bits(2, executable, 0)?),
        (libc::SYS_mprotect, when_bits(2, executable, 0)?),
        (
            libc::SYS_prctl,
            when_one_of(0, &prctls.map(|option| option as u64))?,
        ),
        // Limits are read, not set.
        (libc::SYS_prlimit64, when([vec![null(2)?]])?),
        (
            libc::SYS_socket,
            when([
                stream(libc::AF_INET)?,
                stream(libc::AF_INET6)?,
                stream(libc::AF_UNIX)?,
            ])?,
        ),
        (libc::SYS_socketpair, when([stream(libc::AF_UNIX)?])?),
        // How abort(3) ends; no signal to others.
        (
            libc::SYS_tgkill,
            when_one_of(0, &[std::process::id().into()])?,
        ),
    ]))
}

/// Options of sockets, each with its level.
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

/// What no code of either process does.
const ALIEN: &[i64] = &[
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// What the data process does not do either.
const DEADLY: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// Commands of fcntl(2). Not among them: who gets a signal when something happens to a descriptor
/// (`F_SETOWN`, `F_SETSIG`), locks, leases, seals.
const FCNTL: &[u64] = &[
    libc::F_DUPFD as u64,
    libc::F_DUPFD_CLOEXEC as u64,
    libc::F_GETFD as u64,
    libc::F_SETFD as u64,
    libc::F_GETFL as u64,
    libc::F_SETFL as u64,
    libc::F_GET_SEALS as u64,
    libc::F_GETPIPE_SZ as u64,
    libc::F_SETPIPE_SZ as u64,
];

/// What is set of a connection: no more than a few calls in its life, none for a request.
const SOCKET_OPTIONS: &[(libc::c_int, libc::c_int)] = &[
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_LINGER),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_ULP),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    (libc::SOL_TLS, libc::TLS_RX),
    (libc::SOL_TLS, libc::TLS_TX),
];

/// What looking up names takes no part of: serving, other processes (those of its user are as open
/// to it as itself, the data process among them), rights, and what of files
/// Landlock does not see.
const USELESS: &[i64] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_capset,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fsetxattr,
    libc::SYS_io_uring_setup,
    libc::SYS_ioprio_set,
    libc::SYS_kill,
    libc::SYS_listen,
    libc::SYS_lsetxattr,
    libc::SYS_memfd_create,
    libc::SYS_migrate_pages,
    libc::SYS_mq_open,
    libc::SYS_msgget,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_process_madvise,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_seccomp,
    libc::SYS_semget,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_setpriority,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_setreuid,
    libc::SYS_setuid,
    libc::SYS_setxattr,
    libc::SYS_shmget,
    libc::SYS_tkill,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
];

/// What is answered as by a kernel without it, so that libraries take the older way, whose
/// arguments a filter can see.
const ABSENT: &[i64] = &[libc::SYS_clone3, libc::SYS_openat2, libc::SYS_statx];

/// What opening, describing and reading files beneath a folder takes.
const FOR_FILES: &[i64] = &[
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_newfstatat,
    libc::SYS_openat2,
    libc::SYS_preadv,
    libc::SYS_preadv2,
];

/// What is allowed whatever the arguments.
const ALLOWED: &[i64] = &[
    // Descriptors.
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_write,
    libc::SYS_writev,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    // Sockets; none is bound, none begins to listen.
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mremap,
    libc::SYS_munlock,
    libc::SYS_munmap,
    // Threads.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    // Signals.
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // Time and numbers about ourselves.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_nanosleep,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];
