//! If the worker process dies, another takes over the same sockets and sessions: nobody is refused,
//! and nobody makes a full handshake again.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use rustix::process::{Pid, test_kill_process};
use suite::prelude::*;
use suite::process::status_line;

#[test]
fn nobody_is_refused_while_the_worker_process_is_replaced() {
    let (site, _server, service, lariat) = serve(Behaviour::Echo);
    let (refused, done) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                if TcpStream::connect(service.address).is_err() {
                    refused.store(true, Ordering::Release);
                }
            }
        });
        lariat.replace_worker_process();
        lariat.wait_for_metric("lariat_worker_process_restarts_total", &[], 1.0);
        done.store(true, Ordering::Release);
    });
    assert!(!refused.load(Ordering::Acquire));
    let _connection = Client::new(&site).echo(service.address);
}

#[test]
fn how_the_worker_process_ended_is_known_wherever_it_was_started() {
    let (_site, _server, service) = set_up(Behaviour::Echo);
    let mut ignoring = Command::new("env");
    ignoring.arg("--ignore-signal=CHLD");
    ignoring.arg(lariat::command().get_program());
    let lariat = Lariat::start_by(ignoring, &service.toml());
    lariat.kill_worker_process();
    lariat.wait_for_metric("lariat_worker_process_restarts_total", &[], 1.0);
    lariat.wait_for_stderr("connections with it: signal: 9");
}

#[test]
fn a_worker_process_that_cannot_be_started_is_tried_again() {
    let (site, _server, service, lariat) = serve(Behaviour::Echo);
    let limit = |number: &str| {
        let pid = format!("--pid={}", lariat.supervisor().as_raw_nonzero());
        let limit = format!("--nofile={number}:");
        let set = Command::new("prlimit").args([pid, limit]).status();
        assert!(set.unwrap().success());
    };
    limit("3");
    lariat.kill_worker_process();
    lariat.wait_for_stderr("error: cannot start the worker process");
    limit("1024");
    Client::new(&site).visit(service.address);
}

#[test]
fn a_ticket_outlives_the_process_that_gave_it() {
    let (site, _server, service, lariat) = serve(Behaviour::Echo);
    let client = Client::new(&site);
    let visit = || {
        let connection = client.echo(service.address);
        connection.kind()
    };
    assert_eq!(visit(), HandshakeKind::Full);
    lariat.kill_worker_process();
    assert_eq!(visit(), HandshakeKind::Resumed);
}

/// Returns how many of the clients resumed.
fn resumed(clients: &[Client], address: SocketAddr) -> usize {
    let visit = |client: &&Client| {
        let connection = client.echo(address);
        connection.kind() == HandshakeKind::Resumed
    };
    clients.iter().filter(visit).count()
}

/// Makes clients without tickets, each with sessions of its own.
fn crowd(site: &Site) -> Vec<Client> {
    (0..CROWD).map(|_| Client::without_tickets(site)).collect()
}

/// Enough that each worker has many, whichever the kernel chooses.
const CROWD: usize = 100;

const TWO_WORKERS: &str = "[workers]\nthreads = 2\n";

#[test]
fn all_stored_sessions_outlive_reloads_and_the_processes_that_stored_them() {
    let (site, _server, service, lariat) = serve_with(TWO_WORKERS, Behaviour::Echo);
    let clients = crowd(&site);
    assert_eq!(resumed(&clients, service.address), 0);
    assert_eq!(resumed(&clients, service.address), CROWD);
    lariat.reload().success();
    assert_eq!(resumed(&clients, service.address), CROWD);
    for restarts in [1.0, 2.0] {
        lariat.kill_worker_process();
        assert_eq!(resumed(&clients, service.address), CROWD);
        lariat.wait_for_metric("lariat_worker_process_restarts_total", &[], restarts);
        let kind = [("kind", "full")];
        assert_eq!(lariat.metrics().sum("lariat_handshakes_total", &kind), 0.0);
    }
}

#[test]
fn no_stored_session_outlives_its_lifetime() {
    const LIFETIME: Duration = Duration::from_secs(1);
    let cache = "[resumption]\nsession-cache = { lifetime = \"1s\" }\n";
    let (site, _server, service, lariat) =
        serve_with(&format!("{TWO_WORKERS}{cache}"), Behaviour::Echo);
    let clients = crowd(&site);
    assert_eq!(resumed(&clients, service.address), 0);
    let stored = Instant::now();
    lariat.kill_worker_process();
    until_true("the sessions' end", || stored.elapsed() > LIFETIME);
    assert_eq!(resumed(&clients, service.address), 0);
}

#[test]
fn no_worker_process_may_leave_an_image_of_its_memory() {
    let (_site, _server, _service, lariat) = serve(Behaviour::Echo);
    let path = format!("/proc/{}/mem", lariat.worker_process().as_raw_nonzero());
    // proc(5): the files of a process that may not be dumped belong to root, and only a process
    // that may trace any other may look into its memory.
    assert_eq!(fs::metadata(path).unwrap().uid(), 0);
}

#[test]
fn without_its_supervisor_the_worker_process_ends() {
    let (_site, _server, _service, lariat) = serve(Behaviour::Echo);
    let data = lariat.worker_process();
    lariat.signal(Signal::KILL);
    until("the worker process to end", || test_kill_process(data).err());
}

/// The kernel ends a process with the thread that has started it.
#[test]
fn a_process_that_is_stopped_before_it_hears_a_word_does_not_outlast_who_started_it() {
    for argument in ["--worker-process", "--key-process", "--acme-process"] {
        let (_supervisor, theirs) = UnixStream::pair().unwrap();
        let ((started, pid), (end, ends)) = (mpsc::channel(), mpsc::channel::<()>());
        let parent = thread::spawn(move || {
            let mut command = lariat::command();
            let child = command.arg(argument).stdin(OwnedFd::from(theirs)).spawn().unwrap();
            started.send(Pid::from_child(&child)).unwrap();
            let _ = ends.recv();
            child
        });
        let pid = pid.recv().unwrap();
        until_true("its name", || status_line(pid, "Name").starts_with("lariat: "));
        kill_process(pid, Signal::STOP).unwrap();
        drop(end);
        let mut child = parent.join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}
