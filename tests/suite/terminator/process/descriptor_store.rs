//! A service manager keeps listening sockets, sessions and their state from one start to the next
//! (systemd's `FileDescriptorStoreMax=`), so that nobody notices a restart.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::process::{Signal, kill_process, test_kill_process};
use suite::prelude::*;
use suite::process::open_files;
use suite::service_manager::Keeper;

const STATE: &str = "lariat/state";

fn with_workers(service: &Service, count: usize) -> String {
    format!("[workers]\nthreads = {count}\n{}", service.toml())
}

fn listener(address: SocketAddr) -> String {
    format!("lariat/listen/{}%3A{}", address.ip(), address.port())
}

fn started(keeper: &Keeper, configuration: &str) -> Lariat {
    let (command, _kept) = keeper.command();
    Lariat::start_by(command, configuration)
}

/// Ends Lariat as `systemctl restart` does.
fn stop(mut lariat: Lariat) {
    lariat.stop();
}

/// Checks that a client that connected while nobody served is served by the next process.
fn serves(site: &Site, stream: TcpStream) {
    let mut connection = Client::new(site).over(stream).unwrap();
    connection.echo();
}

#[test]
fn clients_wait_and_resume_from_one_start_to_the_next_whatever_the_number_of_workers() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (keeper, service) = (Keeper::new(), Service::new(&site, &server));
    let clients = [Client::new, Client::tls12, Client::without_tickets].map(|kind| kind(&site));
    let mut expected = HandshakeKind::Full;
    let mut waiting = Vec::new();
    let mut sockets = 0;
    for workers in [2, 3, 1, 2] {
        let lariat = started(&keeper, &with_workers(&service, workers));
        waiting.drain(..).for_each(|stream| serves(&site, stream));
        for client in &clients {
            assert_eq!(client.visit(service.address), expected);
        }
        sockets = workers.max(sockets);
        keeper.wait_for(&listener(service.address), sockets);
        stop(lariat);
        let connect = |_| TcpStream::connect(service.address).unwrap();
        waiting.extend((0..10).map(connect));
        expected = HandshakeKind::Resumed;
    }
    keeper.release();
    TcpStream::connect(service.address).unwrap_err();
}

#[test]
fn a_crash_closes_nothing_either() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (keeper, service) = (Keeper::new(), Service::new(&site, &server));
    let client = Client::without_tickets(&site);
    let mut lariat = started(&keeper, &service.toml());
    client.visit(service.address);
    for _ in 0..2 {
        let worker_process = lariat.worker_process();
        lariat.signal(Signal::KILL);
        lariat.wait();
        until("the worker process to end", || test_kill_process(worker_process).err());
        let waiting = TcpStream::connect(service.address).unwrap();
        lariat = started(&keeper, &service.toml());
        serves(&site, waiting);
        assert_eq!(client.visit(service.address), HandshakeKind::Resumed);
    }
}

#[test]
fn a_socket_that_nobody_serves_is_not_kept() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (keeper, first) = (Keeper::new(), Service::new(&site, &server));
    let second = Service::new(&site, &server);
    let lariat = started(&keeper, &with_workers(&first, 1));
    keeper.wait_for(&listener(first.address), 1);
    lariat.reload_with(&with_workers(&second, 1));
    keeper.wait_for(&listener(first.address), 0);
    TcpStream::connect(first.address).unwrap_err();
    keeper.wait_for(&listener(second.address), 1);
    stop(lariat);
    // The next start has a different configuration.
    let lariat = started(&keeper, &first.toml());
    keeper.wait_for(&listener(second.address), 0);
    TcpStream::connect(second.address).unwrap_err();
    Client::new(&site).visit(first.address);
    stop(lariat);
}

#[test]
fn a_drain_by_its_operator_is_for_good() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (keeper, service) = (Keeper::new(), Service::new(&site, &server));
    let path = site.path("front.sock");
    let listen = format!("['{}', 'unix:{}']", service.address, path.display());
    let service = service.listen(&listen);
    let lariat = started(&keeper, &service.toml());
    stop(lariat);
    // The path exists as long as clients may wait.
    let waiting = UnixStream::connect(&path).unwrap();
    let mut lariat = started(&keeper, &service.toml());
    drop(waiting);
    lariat.wait_for_metric_from("lariat_connections_ended_total", &[("service", "web")], 1.0);
    lariat.drain();
    until_true("nothing to be kept", || keeper.names().is_empty());
    TcpStream::connect(service.address).unwrap_err();
    assert!(!path.exists());
}

#[test]
fn a_server_stays_disabled() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (keeper, service) = (Keeper::new(), Service::new(&site, &server));
    let lariat = started(&keeper, &service.toml());
    let name = format!("web/{}", server.address());
    let before = inode(&keeper.copy(STATE));
    lariat.ask_with("server", &["disable", &name]).success();
    until_true("another state", || {
        keeper.count(STATE) == 1 && inode(&keeper.copy(STATE)) != before
    });
    stop(lariat);
    let lariat = started(&keeper, &service.toml());
    assert_eq!(lariat.sum("lariat_server_disabled", &[("service", "web")]), 1.0);
}

fn inode(fd: &OwnedFd) -> u64 {
    rustix::fs::fstat(fd).unwrap().st_ino
}

#[test]
fn a_new_program_has_its_sockets_kept_too() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (keeper, first) = (Keeper::new(), Service::new(&site, &server));
    let second = Service::new(&site, &server).named("second");
    let mut lariat = started(&keeper, &with_workers(&first, 1));
    let client = Client::without_tickets(&site);
    client.visit(first.address);
    lariat.configure(&format!("{}{}", with_workers(&first, 2), second.toml()));
    lariat.upgrade().wait();
    keeper.wait_for(&listener(first.address), 2);
    keeper.wait_for(&listener(second.address), 2);
    // A configuration with fewer addresses closes the other listeners.
    lariat.configure(&with_workers(&first, 2));
    lariat.upgrade().wait();
    keeper.wait_for(&listener(second.address), 0);
    until("the end of the one before", || TcpStream::connect(second.address).err());
    keeper.wait_for(STATE, 1);
    let worker_process = lariat.worker_process();
    lariat.signal(Signal::KILL);
    lariat.wait();
    until("the worker process to end", || test_kill_process(worker_process).err());
    let waiting = TcpStream::connect(first.address).unwrap();
    let after = started(&keeper, &with_workers(&first, 2));
    serves(&site, waiting);
    assert_eq!(client.visit(first.address), HandshakeKind::Resumed);
    stop(after);
}

#[test]
fn a_new_program_that_cannot_serve_leaves_nothing_to_be_kept() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (keeper, first) = (Keeper::new(), Service::new(&site, &server));
    let second = Service::new(&site, &server).named("second");
    let lariat = started(&keeper, &first.toml());
    let before = lariat.worker_process();
    keeper.wait_for(STATE, 1);
    let names = keeper.names();
    // Stopped amid a message to the supervisor, it would be killed: the one of its start has gone.
    lariat.status();
    kill_process(before, Signal::STOP).unwrap();
    lariat.configure(&format!("{}{}", first.toml(), second.toml()));
    lariat.signal(Signal::USR2);
    let new = until("another worker process", || {
        let newest = lariat.worker_process();
        (newest != before).then_some(newest)
    });
    kill_process(new, Signal::KILL).unwrap();
    kill_process(before, Signal::CONT).unwrap();
    lariat.wait_for_stderr("this one goes on");
    Client::new(&site).visit(first.address);
    TcpStream::connect(second.address).unwrap_err();
    until_true("what was kept before", || keeper.names() == names);
    stop(lariat);
}

/// Makes a state with this text, sealed as one should be or not.
fn state(text: &str, is_sealed: bool) -> OwnedFd {
    let fd = memfd_create("state", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    rustix::io::write(&fd, text.as_bytes()).unwrap();
    if is_sealed {
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE).unwrap();
    }
    fd
}

fn text_of(state: &OwnedFd) -> String {
    let mut room = vec![0; 1 << 20];
    let length = rustix::io::pread(state, &mut room, 0).unwrap();
    String::from_utf8(room[..length].to_vec()).unwrap()
}

#[test]
fn a_state_that_is_strange_is_named_and_the_start_goes_on() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (keeper, service) = (Keeper::new(), Service::new(&site, &server));
    stop(started(&keeper, &service.toml()));
    let good = text_of(&keeper.copy(STATE));
    let newer = good.replace("\"format\":1", "\"format\":9");
    let unknown = good.replace("\"must_understand\":[]", "\"must_understand\":[\"colours\"]");
    let other_size = good.replace("\"bytes_max\":", "\"bytes_max\":1");
    for (text, is_sealed, words) in [
        (newer.as_str(), true, "in the format 9"),
        (&unknown, true, "`colours`"),
        (&other_size, true, "of another size"),
        ("nonsense", true, "no message of a lariat"),
        ("", true, "no message of a lariat"),
        (&good, false, "its state is not readable"),
    ] {
        assert!(text != good || !is_sealed, "the state has another form");
        keeper.replace(STATE, state(text, is_sealed));
        let waiting = TcpStream::connect(service.address).unwrap();
        let lariat = started(&keeper, &service.toml());
        serves(&site, waiting);
        lariat.wait_for_stderr("left to the service manager cannot be used");
        lariat.wait_for_stderr(words);
        stop(lariat);
        assert_ne!(text_of(&keeper.copy(STATE)), text);
    }
    // A descriptor that is no socket, and a name of a later version.
    let null = || fs::File::open("/dev/null").unwrap().into();
    keeper.replace("lariat/listen/127.0.0.9%3A1", null());
    keeper.replace("lariat/colours", null());
    keeper.replace("lariat/sessions", null());
    let lariat = started(&keeper, &service.toml());
    Client::new(&site).visit(service.address);
    lariat.wait_for_stderr("lariat/colours, which an earlier lariat left");
    until_true("the names to go", || {
        let names = keeper.names();
        let is_strange = |name: &String| name.contains("colours") || name.contains("127.0.0.9");
        !names.iter().any(is_strange)
    });
    stop(lariat);
}

#[test]
fn what_is_kept_is_closed_to_other_programs() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (keeper, service) = (Keeper::new(), Service::new(&site, &server));
    stop(started(&keeper, &service.toml()));
    let (command, _kept) = keeper.command();
    let lariat = Lariat::start_by(command, &service.toml());
    // The worker process has the listeners, and not the state with the secrets.
    let names = format!("{:?}", open_files(lariat.worker_process()));
    assert_has(&names, "socket:");
    assert!(!names.contains("lariat state"), "{names}");
    // Sealed: no process that has it can change it.
    let state = keeper.copy(STATE);
    rustix::io::write(state.as_fd(), b"x").unwrap_err();
    stop(lariat);
}
