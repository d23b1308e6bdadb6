//! A service manager is notified of each change at `$NOTIFY_SOCKET` (sd_notify(3)); nothing depends
//! on whether it listens.

use std::os::unix::net::UnixDatagram;

use suite::lariat::command;
use suite::prelude::*;

/// A stand-in for the manager.
struct Manager {
    socket: UnixDatagram,
    directory: Directory,
}

impl Manager {
    fn new() -> Self {
        let directory = Directory::new();
        let socket = UnixDatagram::bind(directory.join("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, directory }
    }

    /// Makes a command that runs the program with the arguments that it gets, as this manager's
    /// service, with these variables.
    fn command(&self, variables: &[(&str, &str)]) -> Command {
        let mut command = command();
        let socket = self.directory.join("notify");
        command.env("NOTIFY_SOCKET", socket);
        command.envs(variables.iter().copied());
        command
    }

    /// Returns the next message, except those about descriptors to keep.
    fn hear(&self) -> String {
        let mut room = [0; 4096];
        loop {
            let count = self.socket.recv(&mut room).expect("a message");
            let text = String::from_utf8(room[..count].to_vec()).unwrap();
            if !text.starts_with("FDSTORE") {
                return text;
            }
        }
    }

    /// Waits for a message with this line.
    fn hear_of(&self, line: &str) -> String {
        until(line, || Some(self.hear()).filter(|message| message.lines().any(|one| one == line)))
    }

    /// Waits for a message with these words.
    fn hear_words(&self, words: &str) -> String {
        until(words, || Some(self.hear()).filter(|message| message.contains(words)))
    }
}

#[test]
fn it_hears_of_start_reload_and_drain() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (manager, service) = (Manager::new(), Service::new(&site, &server));
    let mut lariat = Lariat::start_by(manager.command(&[]), &service.toml());
    assert_eq!(manager.hear(), "READY=1\nSTATUS=serving 1 service");
    manager.hear_of("STATUS=serving 1 service, 0 connections open");
    lariat.signal(Signal::HUP);
    let begun = manager.hear_words("RELOADING=1");
    let time = begun.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC="));
    assert!(time.is_some_and(|time| time.parse::<u64>().is_ok()), "{begun}");
    manager.hear_of("READY=1");
    let mut connection = Client::new(&site).echo(service.address);
    lariat.configure(&format!("[process]\ndrane = '1s'\n{}", service.toml()));
    lariat.reload();
    manager.hear_words("RELOADING=1");
    let refused = manager.hear_of("READY=1");
    assert_has(&refused, "; the last reload was refused: ");
    assert_has(&refused, "drane");
    let open = "1 connection open; the last reload was refused: ";
    if !refused.contains(open) {
        manager.hear_words(open);
    }
    lariat.signal(Signal::TERM);
    let stopping = manager.hear_words("STOPPING=1");
    assert_has(&stopping, "EXTEND_TIMEOUT_USEC=65000000");
    assert_has(&stopping, "STATUS=draining for up to ");
    connection.end();
    lariat.assert_ends();
}

#[test]
fn its_watchdog_is_fed_while_the_worker_process_runs() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (manager, service) = (Manager::new(), Service::new(&site, &server));
    let lariat = Lariat::start_by(manager.command(&[("WATCHDOG_USEC", "40000")]), &service.toml());
    for _ in 0..3 {
        manager.hear_of("WATCHDOG=1");
    }
    // All of its threads stand still, and earlier messages have been read.
    let worker_process = lariat.worker_process();
    kill_process(worker_process, Signal::STOP).unwrap();
    manager.socket.set_nonblocking(true).unwrap();
    let is_silent = || {
        let heard = manager.socket.recv(&mut [0; 4096]).is_ok();
        suite::patience::pause(Duration::from_millis(200));
        (!heard && manager.socket.recv(&mut [0; 4096]).is_err()).then_some(())
    };
    until("nothing to be heard in five intervals", is_silent);
    kill_process(worker_process, Signal::CONT).unwrap();
    manager.socket.set_nonblocking(false).unwrap();
    manager.hear_of("WATCHDOG=1");
    // While another worker process is started the supervisor answers for it.
    lariat.kill_worker_process();
    for _ in 0..3 {
        manager.hear_of("WATCHDOG=1");
    }
}

#[test]
fn a_watchdog_of_another_process_is_not_fed() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (manager, service) = (Manager::new(), Service::new(&site, &server));
    let variables = [("WATCHDOG_USEC", "40000"), ("WATCHDOG_PID", "1")];
    let lariat = Lariat::start_by(manager.command(&variables), &service.toml());
    manager.hear_of("READY=1");
    lariat.reload().success();
    let told = [(); 2].map(|()| manager.hear());
    assert!(!told.iter().any(|one| one.contains("WATCHDOG")), "{told:?}");
}

#[test]
fn one_that_is_gone_is_named_once_and_nothing_else_changes() {
    let (_site, _server, service) = set_up(Behaviour::Echo);
    let text = format!("[process]\ndrain = '1s'\n{}", service.toml());
    for name in ["/no/such/socket", "@no-such-socket", "vsock:2:1", "nonsense"] {
        let mut command = command();
        command.env("NOTIFY_SOCKET", name);
        command.env("WATCHDOG_USEC", "10000");
        let mut lariat = Lariat::start_by(command, &text);
        lariat.reload().success();
        lariat.ask("drain").success();
        assert_eq!(lariat.wait().code(), Some(0), "{name}");
        let said = lariat.stderr();
        assert_eq!(said.matches("NOTIFY_SOCKET").count(), 1, "{name}: {said}");
    }
}

#[test]
fn one_that_does_not_read_holds_nothing_up() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (manager, service) = (Manager::new(), Service::new(&site, &server));
    let mut lariat = Lariat::start_by(manager.command(&[]), &service.toml());
    // More than the queue of a Unix socket takes (net.unix.max_dgram_qlen).
    for _ in 0..10 {
        lariat.reload().success();
    }
    let client = Client::new(&site);
    client.connect(service.address).end();
    lariat.drain();
}

#[test]
fn what_it_says_to_the_supervisor_is_for_no_other_process() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (manager, service) = (Manager::new(), Service::new(&site, &server));
    let variables = [("WATCHDOG_USEC", "10000000"), ("LISTEN_FDNAMES", "none")];
    let lariat = Lariat::start_by(manager.command(&variables), &service.toml());
    let pid = lariat.worker_process().as_raw_nonzero();
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDNAMES"] {
        assert!(!environment.contains(name), "{environment}");
    }
}
