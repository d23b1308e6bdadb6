//! A successor that fails in its first seconds: the one before has its own program serve again.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use rustls::HandshakeKind;
use suite::lariat::try_status;
use suite::prelude::*;

/// A supervisor that this test did not start; ended with it.
pub(super) struct Started(pub(super) Pid);

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended.
        let _ = kill_process(self.0, Signal::KILL);
    }
}

fn number(process: Pid) -> u32 {
    process.as_raw_nonzero().get().unsigned_abs()
}

/// Kills a process of the successor that has just taken over from `before`: who serves then.
fn replaced(lariat: &Lariat, before: &Running, victim: Pid) -> Started {
    let first = u64::from(before.id());
    let second = u64::from(number(lariat.supervisor()));
    kill_process(victim, Signal::KILL).unwrap();
    until("another one to serve", || {
        let status = try_status(&lariat.status_socket())?;
        let pid = status["process"]["supervisor_pid"].as_u64()?;
        let is_new = pid != first && pid != second;
        is_new.then(|| Started(Pid::from_raw(pid.try_into().unwrap()).unwrap()))
    })
}

/// Nobody is refused while a process of the successor is killed, and all goes on as before.
fn goes_on_without(find: impl FnOnce(&Lariat) -> Pid, words: &str) {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let path = site.path("front.sock");
    let service = Service::new(&site, &server);
    let address = service.address;
    let unix = format!("unix:{}", path.display());
    let service = service.listen(&format!("[\"{address}\", {unix:?}]"));
    let mut lariat = Lariat::start(&service.toml());
    let client = Client::without_tickets(&site);
    client.visit(address);
    let mut open = client.echo(address);
    let mut before = lariat.succeed();
    let victim = find(&lariat);
    let is_done = AtomicBool::new(false);
    let (now, is_open) = thread::scope(|scope| {
        let visitor = scope.spawn(|| {
            // No more than leaves ports for other tests within the minute of TIME-WAIT.
            let mut visits = (0..10_000).take_while(|_| !is_done.load(Ordering::Acquire));
            visits.all(|_| TcpStream::connect(address).map(drop).is_ok())
        });
        let now = replaced(&lariat, &before, victim);
        is_done.store(true, Ordering::Release);
        (now, visitor.join().unwrap())
    });
    assert!(is_open, "nobody listened for a while");
    assert_eq!(client.visit(address), HandshakeKind::Resumed);
    UnixStream::connect(&path).unwrap();
    open.echo();
    drop(open);
    assert_eq!(before.wait().code(), Some(0), "{}", before.stderr());
    let said = before.stderr();
    let failed = format!(
        "process {}, lariat {}, failed within 5 s of taking over",
        number(lariat.supervisor()),
        env!("CARGO_PKG_VERSION")
    );
    assert!(said.contains(&failed) && said.contains(words), "{said}");
    // It has no one behind it, and goes on by itself.
    assert_eq!(client.visit(address), HandshakeKind::Resumed);
    assert_eq!(lariat.serving(), now.0);
}

#[test]
fn a_supervisor_that_is_killed_is_replaced() {
    goes_on_without(Lariat::supervisor, "its supervisor was killed, or crashed");
}

#[test]
fn a_successor_whose_worker_process_dies_is_replaced() {
    let worker_process = |lariat: &Lariat| {
        let pid = lariat.status()["process"]["pid"].as_u64();
        let pid = pid.and_then(|pid| pid.try_into().ok());
        Pid::from_raw(pid.expect("a number")).expect("a process")
    };
    goes_on_without(worker_process, "its worker process has ended: ");
}

#[test]
fn one_whose_own_worker_process_has_died_still_replaces_its_successor() {
    let (site, _server, service, mut lariat) = serve(Behaviour::Echo);
    let worker_process = lariat.worker_process();
    let _open = Client::new(&site).echo(service.address);
    let mut before = lariat.succeed();
    kill_process(worker_process, Signal::KILL).unwrap();
    before.wait_for_stderr("has ended, and its connections with it: signal: 9");
    let now = replaced(&lariat, &before, lariat.supervisor());
    assert_eq!(before.wait().code(), Some(0), "{}", before.stderr());
    Client::new(&site).visit(service.address);
    assert_eq!(lariat.serving(), now.0);
}

#[test]
fn a_successor_that_is_told_to_stop_is_not_replaced() {
    let (_site, _server, service, mut lariat) = serve(Behaviour::Echo);
    let mut before = lariat.succeed();
    lariat.signal(Signal::TERM);
    assert_eq!(lariat.wait().code(), Some(0), "{}", lariat.stderr());
    assert_eq!(before.wait().code(), Some(0), "{}", before.stderr());
    let said = before.stderr();
    assert!(!said.contains("started"), "{said}");
    TcpStream::connect(service.address).unwrap_err();
    assert!(!lariat.status_socket().exists());
}
