//! Tries out the rights of a process that has dropped some, and tests whatever else needs its own
//! process.
//!
//! Rights cannot be regained, so each case runs in its own process: this program, started again
//! with the case's name.
#![allow(clippy::unwrap_used, reason = "a test; there is no #[test] for clippy to see")]

#[path = "rights/attempts.rs"]
mod attempts;
#[path = "rights/sights.rs"]
mod sights;

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, IoSliceMut, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use rustix::fs::{AtFlags, CWD, OFlags};
use rustix::net::ipproto;
use sys::beneath::{OpenResult, Root};
use sys::sandbox::{
    Enforcement, SystemCalls, forbid_system_calls, restrict_connecting, restrict_files,
    restrict_resolver_calls, restrict_system_calls, restrict_to_reading,
};
use sys::socket::{BindSource, connect_as};
use sys::{cpu, process, usage};
use wire::address::Address;

use attempts::{
    call_of_x32, executable_memory, let_run_only_when_idle, limit_files, limit_files_of,
    open_by_openat2, overwrite, owned_by_a_signal, pin, send_message_to, send_to, set_flags,
    signal_a_thread_of, stream, type_into_a_terminal,
};
use sights::{capabilities, memory_comes_and_goes, seccomp_filters, work_on};

const NO_MORE: SystemCalls =
    SystemCalls { bind: false, open_files: false, fast_open: false, network: true };

const WITH_FILES: SystemCalls =
    SystemCalls { bind: false, open_files: true, fast_open: true, network: true };

/// How the process of a case must end.
enum End {
    Well,
    By(i32),
}

macro_rules! cases {
    ($($case:ident => $end:expr,)*) => {
        const CASES: &[(&str, fn(), End)] = &[$((stringify!($case), $case, $end)),*];
    };
}

cases! {
    files_are_out_of_reach => End::Well,
    files_beneath_a_root_are_read => End::Well,
    sockets_work_without_files => End::Well,
    only_listed_ports_are_connected_to => End::Well,
    a_resolver_connects_to_its_port_only => End::Well,
    threads_and_sockets_work => End::Well,
    an_async_runtime_works => End::Well,
    other_calls_fail => End::Well,
    a_log_is_written_at_its_end_alone => End::Well,
    calls_of_another_abi_are_denied => End::Well,
    a_source_is_chosen_and_nothing_listens => End::Well,
    exec_is_deadly => End::By(libc::SIGSYS),
    starting_is_deadly => End::By(libc::SIGSYS),
    a_panic_can_abort => End::By(libc::SIGABRT),
    a_user_left_stays_left => End::Well,
    no_capability_is_left => End::Well,
    the_supervisor_is_no_debugger => End::Well,
    an_orphan_ends => End::Well,
    named_files_are_read_and_others_not => End::Well,
    names_are_resolved => End::Well,
    a_resolver_starts_no_program => End::By(libc::SIGSYS),
    memory_comes_and_goes => End::Well,
}

/// Programs started by a case, not run as cases.
const HELPERS: &[(&str, fn())] = &[("parent", parent), ("orphan", orphan)];

fn main() -> ExitCode {
    if let Ok(name) = std::env::var("RIGHTS_CASE") {
        let case = CASES.iter().map(|(name, run, _)| (*name, *run));
        let all = case.chain(HELPERS.iter().copied());
        for (_, run) in all.filter(|(case, _)| *case == name) {
            run();
        }
        return ExitCode::SUCCESS;
    }
    std::fs::create_dir(directory(std::process::id())).unwrap();
    let failed = CASES.iter().filter(|(name, _, end)| !passes(name, end)).count();
    std::fs::remove_dir_all(directory(std::process::id())).unwrap();
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Returns the folder of a case; the parent of the case's process removes the files.
fn directory(of: u32) -> PathBuf {
    std::env::temp_dir().join(format!("lariat-rights-{of}"))
}

fn passes(name: &str, end: &End) -> bool {
    let output = again(name).output().expect("this program starts");
    let passed = match end {
        End::Well => output.status.success(),
        End::By(signal) => output.status.signal() == Some(*signal),
    };
    println!("case {name} ... {}", if passed { "ok" } else { "FAILED" });
    if !passed {
        println!("{:?}", output.status);
        println!("{}", String::from_utf8_lossy(&output.stderr));
    }
    passed
}

fn again(case: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.env("RIGHTS_CASE", case);
    command
}

fn assert_denied<T>(result: io::Result<T>) {
    let error = result.err().expect("this is forbidden");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

fn files_are_out_of_reach() {
    let usage = usage::Usage::of_this_process();
    let open = File::open("/etc/passwd").unwrap();
    if restrict_files(&[], false, false).unwrap() == Enforcement::NotSupported {
        return;
    }
    assert_denied(File::open("/etc/passwd"));
    assert_denied(std::fs::read_dir("/"));
    assert_denied(File::create(directory(process::parent()).join("file")));
    std::thread::spawn(|| assert_denied(File::open("/etc/passwd"))).join().unwrap();
    assert_denied(Command::new("/bin/true").status());
    // Files that were open before stay usable.
    assert!(usage.memory().unwrap().resident_bytes > 0);
    assert!(io::read_to_string(&open).unwrap().contains("root"));
}

fn files_beneath_a_root_are_read() {
    let base = directory(process::parent()).join("beneath");
    std::fs::create_dir_all(base.join("root/folder")).unwrap();
    std::fs::write(base.join("root/folder/file"), "within").unwrap();
    std::fs::write(base.join("outside"), "outside").unwrap();
    let root = Root::open(&base.join("root")).unwrap();
    let files = restrict_files(&[root.as_fd()], true, false).unwrap();
    let direct = File::open(base.join("root/folder/file"));
    process::no_new_privileges().unwrap();
    assert_eq!(restrict_system_calls(WITH_FILES).unwrap(), Enforcement::Enforced);
    let unconfined = at_once(&root);
    let read = move || {
        read_beneath(&root);
        // Repeated by the process that receives the descriptor.
        let root = Root::from(root.as_fd().try_clone_to_owned().unwrap());
        assert_eq!(at_once(&root), unconfined);
    };
    std::thread::spawn(read).join().unwrap();
    // Other calls are denied even within the root.
    assert_denied(File::open(base.join("root/folder/file")));
    assert_denied(File::create(base.join("root/new")));
    if files == Enforcement::NotSupported {
        return;
    }
    direct.unwrap();
    for outside in ["/etc/passwd", "/", "/proc/self/maps"] {
        assert_denied(open_by_openat2(outside.as_ref(), libc::O_RDONLY));
    }
    assert_denied(open_by_openat2(&base.join("outside"), libc::O_RDONLY));
    assert_denied(open_by_openat2(&base.join("root/folder/file"), libc::O_RDWR));
    open_by_openat2(&base.join("root/folder/file"), libc::O_RDONLY).unwrap();
}

/// Reports whether a file is found and read without waiting, which some file systems cannot do.
fn at_once(root: &Root) -> (bool, Result<usize, ErrorKind>) {
    let OpenResult::File(file) = root.find(b"folder/file") else {
        panic!("it is there");
    };
    let read = file.read_cached(&mut [IoSliceMut::new(&mut [0; 6])], 0);
    let is_found = root.find_cached(b"folder/file").is_some();
    (is_found, read.map_err(|error| error.kind()))
}

fn named_files_are_read_and_others_not() {
    let base = directory(process::parent()).join("named");
    std::fs::create_dir_all(base.join("folder")).unwrap();
    for name in ["one", "other", "folder/file"] {
        std::fs::write(base.join(name), name).unwrap();
    }
    let [one, folder, missing] = ["one", "folder", "missing"].map(|name| base.join(name));
    let files = restrict_to_reading(&[&one, &folder, &missing]).unwrap();
    if files == Enforcement::NotSupported {
        return;
    }
    assert_eq!(std::fs::read_to_string(&one).unwrap(), "one");
    assert_eq!(std::fs::read_to_string(folder.join("file")).unwrap(), "folder/file");
    assert_denied(File::open(base.join("other")));
    assert_denied(File::open("/etc/passwd"));
    assert_denied(File::options().append(true).open(&one));
}

fn names_are_resolved() {
    assert_eq!(restrict_resolver_calls().unwrap(), Enforcement::Enforced);
    let look_up = || ("localhost", 80).to_socket_addrs().unwrap().count();
    assert!(std::thread::spawn(look_up).join().unwrap() > 0);
    let listener = TcpListener::bind("127.0.0.1:0");
    assert_denied(listener);
    // Landlock, which forbids some of this on new kernels, is not used here.
    assert_denied(sys::signal::kill(process::parent()));
    assert_denied(signal_a_thread_of(process::parent()));
    assert_denied(owned_by_a_signal());
    assert_denied(limit_files_of(process::parent()));
    assert_denied(let_run_only_when_idle(process::parent()));
    assert_denied(type_into_a_terminal());
    limit_files().unwrap();
    let mode = unix::fs::PermissionsExt::from_mode(0o777);
    assert_denied(std::fs::set_permissions(std::env::temp_dir(), mode));
}

fn a_resolver_starts_no_program() {
    restrict_resolver_calls().unwrap();
    let _ = Command::new("/bin/true").status();
}

fn read_beneath(root: &Root) {
    let OpenResult::File(file) = root.find(b"folder/file") else {
        panic!("it is there");
    };
    let mut content = [0; 6];
    let count = file.read(&mut [IoSliceMut::new(&mut content)], 0).unwrap();
    assert_eq!((count, &content), (6, b"within"));
    assert!(matches!(root.find(b"folder"), OpenResult::Folder));
    assert!(matches!(root.find(b"../outside"), OpenResult::Missing));
}

fn sockets_work_without_files() {
    let path = directory(process::parent()).join("socket");
    let unix = UnixListener::bind(&path).unwrap();
    let abstract_name = format!("lariat-rights-{}", std::process::id());
    let abstract_name = unix::net::SocketAddr::from_abstract_name(abstract_name).unwrap();
    let _abstract = UnixListener::bind_addr(&abstract_name).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    restrict_files(&[], true, false).unwrap();
    UnixStream::connect_addr(&abstract_name).unwrap();
    let enforced = restrict_files(&[], false, false).unwrap();
    exchange(&tcp);
    let mut dialled = UnixStream::connect(&path).unwrap();
    dialled.write_all(b"x").unwrap();
    unix.accept().unwrap().0.read_exact(&mut [0]).unwrap();
    if enforced == Enforcement::Enforced {
        assert_denied(TcpListener::bind("127.0.0.1:0"));
        assert_denied(std::fs::remove_file(&path));
        assert_denied(UnixStream::connect_addr(&abstract_name));
    }
}

fn only_listed_ports_are_connected_to() {
    let [listed, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listed.local_addr().unwrap().port();
    let connecting = restrict_connecting([port]).unwrap();
    process::no_new_privileges().unwrap();
    let calls = restrict_system_calls(NO_MORE).unwrap();
    assert_eq!(calls, Enforcement::Enforced);
    exchange(&listed);
    assert_out_of_reach(&other, connecting);
}

fn a_resolver_connects_to_its_port_only() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let connecting = restrict_connecting([53]).unwrap();
    assert_eq!(restrict_resolver_calls().unwrap(), Enforcement::Enforced);
    assert_out_of_reach(&other, connecting);
}

/// Asserts that neither connect(2) nor calls that Landlock does not see reach the listener.
fn assert_out_of_reach(other: &TcpListener, connecting: Enforcement) {
    let address = other.local_addr().unwrap();
    if connecting == Enforcement::Enforced {
        assert_denied(TcpStream::connect(address));
    }
    for protocol in [ipproto::MPTCP, ipproto::SCTP] {
        assert_denied(stream(protocol));
    }
    let socket = stream(ipproto::TCP).unwrap();
    assert_denied(send_to(&socket, &address));
    assert_denied(send_message_to(&socket, &address));
}

/// Sends one byte over a connection to that listener.
fn exchange(listener: &TcpListener) {
    let mut dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    dialled.set_nodelay(true).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    dialled.write_all(b"x").unwrap();
    accepted.read_exact(&mut [0]).unwrap();
}

/// Does all that the worker process does before it is ready, in the same order.
fn enter() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    restrict_files(&[], false, false).unwrap();
    process::no_new_privileges().unwrap();
    assert_eq!(restrict_system_calls(NO_MORE).unwrap(), Enforcement::Enforced);
    listener
}

fn threads_and_sockets_work() {
    let listener = enter();
    let mut threads = Vec::new();
    for cpu in cpu::allowed_cpus() {
        let worker = std::thread::Builder::new().name("worker".to_owned());
        threads.push(worker.spawn(move || work_on(cpu)).unwrap());
    }
    for thread in threads {
        assert_eq!(thread.join().unwrap(), (64 << 20) + 1000);
    }
    exchange(&listener);
    let waker = sys::epoll::Waker::new().unwrap();
    let epoll = sys::epoll::Epoll::new().unwrap();
    epoll.add(&waker, 1, sys::epoll::Interest::READ).unwrap();
    waker.wake();
    let mut events = sys::epoll::Events::with_capacity(1);
    assert_eq!(epoll.wait(&mut events, None).unwrap(), 1);
    assert!(usage::open_files() > 0);
    println!("a line");
}

fn an_async_runtime_works() {
    let listener = enter();
    listener.set_nonblocking(true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let address = listener.local_addr().unwrap();
        let (dialled, accepted) =
            tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
        let (mut dialled, mut accepted) = (dialled.unwrap(), accepted.unwrap().0);
        tokio::time::timeout(std::time::Duration::from_secs(60), async {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            dialled.write_all(b"x").await.unwrap();
            accepted.read_exact(&mut [0]).await.unwrap();
        })
        .await
        .unwrap();
    });
}

fn a_source_is_chosen_and_nothing_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Address::Ip(listener.local_addr().unwrap());
    process::drop_capabilities().unwrap();
    let is_enforced = restrict_files(&[], false, true).unwrap() == Enforcement::Enforced;
    let calls = SystemCalls { bind: true, ..NO_MORE };
    restrict_system_calls(calls).unwrap();
    let source = IpAddr::from([127, 0, 0, 9]);
    let (_client, _) = connect_as(BindSource::Own(source), &server, false).unwrap();
    assert_eq!(listener.accept().unwrap().1.ip(), source);
    let socket = stream(ipproto::TCP).unwrap();
    let bind = |port| rustix::net::bind(&socket, &SocketAddr::new(source, port));
    if is_enforced {
        assert_denied(bind(61_234).map_err(io::Error::from));
    }
    bind(0).unwrap();
    assert_denied(rustix::net::listen(&socket, 1).map_err(io::Error::from));
    let foreign = BindSource::Foreign(IpAddr::from([192, 0, 2, 1]));
    assert_denied(connect_as(foreign, &server, false));
}

fn other_calls_fail() {
    // Without Landlock.
    assert_eq!(restrict_system_calls(NO_MORE).unwrap(), Enforcement::Enforced);
    assert_denied(File::open("/etc/passwd"));
    assert_denied(std::fs::metadata("/etc/passwd"));
    assert_denied(UdpSocket::bind("127.0.0.1:0"));
    assert_denied(TcpListener::bind("127.0.0.1:0"));
    assert_denied(sys::signal::send(std::process::id(), sys::signal::Signal::Pipe));
    assert_denied(signal_a_thread_of(process::parent()));
    assert_denied(limit_files());
    assert_denied(pin(process::parent()));
    // Tried with a descriptor, and with a path that such a call also takes.
    let by_path = rustix::fs::statat(CWD, "/etc/passwd", AtFlags::EMPTY_PATH);
    assert_denied(by_path.map_err(io::Error::from));
    assert_denied(owned_by_a_signal());
    let pair = UnixStream::pair().unwrap();
    let size = rustix::net::sockopt::set_socket_send_buffer_size(&pair.0, 1 << 20);
    assert_denied(size.map_err(io::Error::from));
    assert_denied(executable_memory());
    assert_denied(restrict_system_calls(NO_MORE).map_err(|error| {
        // seccompiler wraps the kernel's error.
        assert!(error.to_string().contains("not permitted"), "{error}");
        ErrorKind::PermissionDenied.into()
    }));
}

fn a_log_is_written_at_its_end_alone() {
    let path = directory(process::parent()).join("log");
    let mut log = sys::file::open_append(&path, 0o600).unwrap();
    let written = File::open(&path).unwrap();
    enter();
    log.write_all(b"one\n").unwrap();
    assert_denied(set_flags(&log, OFlags::empty()));
    assert_denied(set_flags(&log, OFlags::NONBLOCK | OFlags::APPEND));
    // pwrite(2) with O_APPEND writes at the end whatever the offset.
    rustix::io::pwrite(&log, b"two\n", 0).unwrap();
    assert_denied(rustix::fs::ftruncate(&log, 0).map_err(io::Error::from));
    let mode = rustix::fs::FallocateFlags::ZERO_RANGE;
    assert_denied(rustix::fs::fallocate(&log, mode, 0, 4).map_err(io::Error::from));
    assert_denied(overwrite(&log));
    assert_eq!(io::read_to_string(&written).unwrap(), "one\ntwo\n");
}

/// A kernel without x32 would answer `ENOSYS` by itself.
fn calls_of_another_abi_are_denied() {
    let pid = || call_of_x32(libc::SYS_getpid);
    process::no_new_privileges().unwrap();
    assert_eq!(forbid_system_calls().unwrap(), Enforcement::Enforced);
    assert_denied(pid());
    let resolver = std::thread::spawn(move || {
        assert_eq!(restrict_resolver_calls().unwrap(), Enforcement::Enforced);
        assert_denied(pid());
    });
    resolver.join().unwrap();
    enter();
    assert_denied(pid());
}

fn exec_is_deadly() {
    enter();
    let error = Command::new("/bin/true").exec();
    panic!("still here: {error}");
}

fn starting_is_deadly() {
    enter();
    let status = Command::new("/bin/true").status();
    panic!("still here: {status:?}");
}

fn a_panic_can_abort() {
    enter();
    std::process::abort();
}

fn a_user_left_stays_left() {
    let nobody = process::Identity { user: 65534, group: 65534 };
    if !process::is_root() {
        return assert_denied(process::drop_user(nobody, &[]));
    }
    process::drop_user(nobody, &[]).unwrap();
    assert_eq!(process::identity(), nobody);
    assert!(rustix::process::getgroups().unwrap().is_empty());
    let root = process::Identity { user: 0, group: 0 };
    assert_denied(process::drop_user(root, &[]));
    // Only root may read this file.
    assert_denied(File::open("/etc/shadow"));
    std::thread::spawn(move || assert_eq!(process::identity(), nobody)).join().unwrap();
}

/// Runs as an ordinary user that a service manager gave a capability.
fn no_capability_is_left() {
    use rustix::thread::{
        CapabilitySet, CapabilitySets, configure_capability_in_ambient_set, set_capabilities,
        set_keep_capabilities,
    };
    if !process::is_root() {
        process::drop_capabilities().unwrap();
        let left = capabilities();
        let none = |set: &&String| set.starts_with("CapBnd") || set.ends_with("\t0000000000000000");
        return assert!(left.iter().all(|set| none(&set)), "{left:?}");
    }
    let given = CapabilitySet::NET_BIND_SERVICE | CapabilitySet::SETPCAP;
    set_keep_capabilities(true).unwrap();
    // SAFETY: numbers only; there is one thread.
    assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
    let sets = CapabilitySets { effective: given, permitted: given, inheritable: given };
    set_capabilities(None, sets).unwrap();
    configure_capability_in_ambient_set(CapabilitySet::NET_BIND_SERVICE, true).unwrap();
    assert!(TcpListener::bind("127.0.0.1:0").is_ok());
    process::drop_capabilities().unwrap();
    let left = capabilities();
    assert_eq!(left.len(), 5, "{left:?}");
    let is_empty = |set: &String| set.ends_with("\t0000000000000000");
    assert!(left.iter().all(is_empty), "{left:?}");
}

fn the_supervisor_is_no_debugger() {
    process::no_new_privileges().unwrap();
    assert_eq!(forbid_system_calls().unwrap(), Enforcement::Enforced);
    for call in [libc::SYS_ptrace, libc::SYS_bpf, libc::SYS_unshare] {
        // SAFETY: numbers only; none of them does anything with these.
        let answer = unsafe { libc::syscall(call, -1, 0, 0, 0) };
        let error = io::Error::last_os_error();
        assert_eq!((answer, error.raw_os_error()), (-1, Some(libc::EPERM)));
    }
    // A program executed in its place inherits the filters.
    let filters = seccomp_filters();
    assert_eq!(forbid_system_calls().unwrap(), Enforcement::Enforced);
    assert_eq!(seccomp_filters(), filters);
    // The supervisor starts the worker process, which forbids itself more.
    assert!(Command::new("/bin/true").status().unwrap().success());
    enter();
}

/// Checks that the orphan dies: once its parent has ended, only the orphan holds the other end of
/// the pipe, so end of stream is its death. (If it lived on, this would wait without end.)
fn an_orphan_ends() {
    let mut parent = again("parent").stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = parent.stdout.take().unwrap();
    assert!(parent.wait().unwrap().success());
    let mut said = String::new();
    pipe.read_to_string(&mut said).unwrap();
    assert_eq!(said, "the orphan is ready\n");
}

#[expect(clippy::zombie_processes, reason = "an orphan is what this makes")]
fn parent() {
    let (read, write) = io::pipe().unwrap();
    let mut orphan = again("orphan");
    orphan.stdin(write);
    orphan.spawn().unwrap();
    drop(orphan);
    let mut line = String::new();
    BufReader::new(read).read_line(&mut line).unwrap();
    print!("{line}");
}

fn orphan() {
    process::end_with_parent().unwrap();
    let pipe = io::stdin().as_fd().try_clone_to_owned().unwrap();
    File::from(pipe).write_all(b"the orphan is ready\n").unwrap();
    loop {
        std::thread::park();
    }
}
