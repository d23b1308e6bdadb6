//! `lariat upgrade`: the process becomes another program, and nobody notices.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use suite::lariat::Draining;
use suite::prelude::*;

fn with_workers(service: &Service, count: usize) -> String {
    format!("[workers]\nthreads = {count}\n{}", service.toml())
}

/// Makes clients of each kind of session.
fn clients(site: &Site) -> Vec<Client> {
    let kinds = [Client::new, Client::tls12, Client::without_tickets];
    let each = kinds.iter().flat_map(|kind| (0..10).map(|_| kind(site)));
    each.collect()
}

#[test]
fn every_session_resumes_after_it_and_open_connections_go_on() {
    let (site, _server, service, lariat) = serve_with("[workers]\nthreads = 2", Behaviour::Echo);
    let clients = clients(&site);
    for client in &clients {
        assert_eq!(client.visit(service.address), HandshakeKind::Full);
    }
    let mut open: Vec<_> = clients.iter().map(|one| one.echo(service.address)).collect();
    let before = lariat.upgrade();
    for client in &clients {
        assert_eq!(client.visit(service.address), HandshakeKind::Resumed);
    }
    let full = [("kind", "full")];
    assert_eq!(lariat.sum("lariat_handshakes_total", &full), 0.0);
    before.assert_running();
    for connection in &mut open {
        connection.echo();
    }
    drop(open);
    before.wait();
    lariat.upgrade().wait();
    for client in &clients {
        assert_eq!(client.visit(service.address), HandshakeKind::Resumed);
    }
}

#[test]
fn a_long_download_comes_whole() {
    const BYTES: usize = 32 << 20;
    let (site, folder) = (Site::new(), Directory::new());
    folder.write("large", vec![7; BYTES]);
    let service = Service::files(&site, folder.path());
    let lariat = service.start();
    let mut connection = Client::new(&site).connect(service.address);
    connection.ask("large");
    connection.head();
    let before = lariat.upgrade();
    assert!(connection.read_to_end().unwrap() == vec![7; BYTES]);
    before.wait();
}

/// Runs `work` while clients come all the time: none is refused or reset, and returning ones
/// resume.
fn under_load<T>(site: &Site, service: &Service, work: impl FnOnce() -> T) -> T {
    let (done, visits) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for client in [Client::new, Client::tls12, Client::without_tickets] {
            let (done, visits) = (&done, &visits);
            scope.spawn(move || {
                let resuming = client(site);
                resuming.visit(service.address);
                while !done.load(Ordering::Acquire) {
                    client(site).visit(service.address);
                    assert_eq!(resuming.visit(service.address), HandshakeKind::Resumed);
                    visits.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        let worked = work();
        let then = visits.load(Ordering::Acquire) + 6;
        until_true("clients after it", || visits.load(Ordering::Acquire) >= then);
        done.store(true, Ordering::Release);
        worked
    })
}

#[test]
fn nobody_is_refused_in_many_upgrades_with_more_workers_and_fewer() {
    let (site, _server, service, lariat) = serve_with("[workers]\nthreads = 2", Behaviour::Echo);
    under_load(&site, &service, || {
        let mut all = Vec::new();
        for workers in [2, 3, 1, 2, 1, 4, 2, 2, 3, 1] {
            lariat.configure(&with_workers(&service, workers));
            all.push(lariat.upgrade());
            let threads = lariat.status()["workers"].as_array().map(Vec::len);
            assert_eq!(threads, Some(workers));
        }
        all.into_iter().for_each(Draining::wait);
    });
}

#[test]
fn the_process_stays_and_so_do_its_files() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let pid_file = site.path("lariat.pid");
    let text = format!("[process]\npid-file = {pid_file:?}\n{}", service.toml());
    let mut lariat = Lariat::start(&text);
    let number = lariat.supervisor().as_raw_nonzero().to_string();
    under_load(&site, &service, || {
        lariat.signal(Signal::USR2);
        lariat.wait_for_stderr("has taken over from");
        lariat.upgrade().wait();
        assert_eq!(fs::read_to_string(&pid_file).unwrap().trim(), number);
        assert_eq!(lariat.serving(), lariat.supervisor());
    });
    lariat.drain();
    assert!(!fs::exists(pid_file).unwrap());
    assert!(!fs::exists(lariat.status_socket()).unwrap());
}

/// Two programs run beside each other while one moves to the other, which may have kept its paths.
#[test]
fn the_pid_file_of_another_program_is_left_to_it() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let pid_file = site.path("nginx.pid");
    let other = format!("{}\n", std::process::id());
    fs::write(&pid_file, &other).unwrap();
    let text = format!("[process]\npid-file = {pid_file:?}\n{}", service.toml());
    let mut lariat = Lariat::start(&text);
    lariat.wait_for_stderr("is not written: it is that of process");
    assert_eq!(fs::read_to_string(&pid_file).unwrap(), other);
    lariat.drain();
    assert_eq!(fs::read_to_string(&pid_file).unwrap(), other);
}

#[test]
fn the_end_waits_for_worker_processes_of_programs_before() {
    let (site, _server, service, mut lariat) = serve(Behaviour::Echo);
    let mut open = Client::new(&site).echo(service.address);
    let before = [lariat.upgrade(), lariat.upgrade()];
    before[1].wait();
    lariat.signal(Signal::TERM);
    lariat.wait_for_stderr("draining for up to");
    open.echo();
    before[0].assert_running();
    drop(open);
    lariat.assert_ends();
    before[0].wait();
}

#[test]
fn a_drain_that_fails_is_said() {
    let (site, _server, service, lariat) = serve(Behaviour::Echo);
    let _open = Client::new(&site).echo(service.address);
    let before = lariat.upgrade();
    // The next upgrade does not lose sight of it either.
    lariat.upgrade().wait();
    kill_process(before.0, Signal::KILL).unwrap();
    lariat.wait_for_stderr("ended by itself, and its connections with it: signal: 9");
    Client::new(&site).visit(service.address);
    lariat.ask("drain").success();
}

#[test]
fn an_upgrade_brings_back_a_socket_whose_path_was_removed() {
    let (site, _server, service, lariat) = serve(Behaviour::Echo);
    let status = lariat.status_socket();
    fs::remove_file(&status).unwrap();
    lariat.signal(Signal::USR2);
    lariat.wait_for_stderr("has taken over from");
    assert!(status.exists());
    lariat.upgrade();
    Client::new(&site).visit(service.address);
}

#[test]
fn a_new_program_may_have_its_status_socket_elsewhere() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (service, socket) = (Service::new(&site, &server), site.path("s.sock"));
    let lariat = service.start();
    let text = fs::read_to_string(lariat.configuration()).unwrap();
    let before = format!("{:?}", lariat.status_socket());
    let text = text.replace(&before, &format!("{socket:?}"));
    fs::write(lariat.configuration(), text).unwrap();
    let said = lariat.ask("upgrade").success();
    assert_has(said, "with another status socket");
    assert!(!lariat.status_socket().exists());
    let status = lariat::try_status(&socket).unwrap();
    let number = lariat.supervisor().as_raw_nonzero().get();
    assert_eq!(status["process"]["supervisor_pid"], number);
}

#[test]
fn what_needs_a_restart_is_done_by_it() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (service, folder) = (Service::new(&site, &server), Directory::new());
    folder.write("a", "a");
    let lariat = service.start();
    let files = Service::files(&site, folder.path()).named("files");
    let text = format!(
        "[process]\nsandbox = \"off\"\ndrain = \"7s\"\n[workers]\nfile-threads = 3\n{}{}",
        service.toml(),
        files.toml()
    );
    lariat.configure(&text);
    lariat.upgrade().wait();
    Client::new(&site).visit(service.address);
    let mut connection = Client::new(&site).connect(files.address);
    connection.ask("a");
    assert_eq!(connection.response().1, b"a");
}

#[test]
fn a_disabled_server_stays_so_and_a_unix_socket_keeps_its_path() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let path = site.path("front.sock");
    let unix = format!("unix:{}", path.display());
    let service = Service::new(&site, &server);
    let listen = format!("[{:?}, {unix:?}]", service.address.to_string());
    let service = service.listen(&listen);
    let lariat = Lariat::start(&with_workers(&service, 2));
    let name = format!("web/{}", server.address());
    lariat.ask_with("server", &["disable", &name]).success();
    lariat.upgrade().wait();
    let disabled = [("service", "web")];
    assert_eq!(lariat.sum("lariat_server_disabled", &disabled), 1.0);
    lariat.ask_with("server", &["enable", &name]).success();
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap());
    let before = inode(&path);
    lariat.upgrade().wait();
    assert_eq!(inode(&path), before);
    let mut plain = std::os::unix::net::UnixStream::connect(&path).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    Write::write_all(&mut plain, b"no TLS").unwrap();
    let _ended = Read::read(&mut plain, &mut [0; 64]).unwrap();
    lariat.wait_for_metric_from("lariat_connections_ended_total", &disabled, 1.0);
}

/// Runs the program as the first process of a container.
fn container() -> Command {
    let mut container = Command::new("unshare");
    container
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(lariat::command().get_program());
    container
}

fn children(of: rustix::process::Pid) -> String {
    let of = of.as_raw_nonzero();
    fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap()
}

fn first_process(lariat: &Lariat) -> rustix::process::Pid {
    // The child of `unshare`.
    let child = children(lariat.supervisor());
    rustix::process::Pid::from_raw(child.trim().parse().unwrap()).unwrap()
}

#[test]
fn what_was_seen_of_servers_and_connections_outlasts_it() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let dead = free_address();
    let other = Server::start(Behaviour::Echo);
    let servers = [&dead.to_string(), server.address(), other.address()];
    let service = Service::new(&site, &server)
        .servers(&format!("{servers:?}"))
        .back("check = { kind = 'tcp', interval = '100ms', fall = 1, rise = 1 }");
    let lariat = Lariat::start(&with_workers(&service, 2));
    let name = format!("web/{}", other.address());
    lariat.ask_with("server", &["disable", &name]).success();
    Client::new(&site).visit(service.address);
    let states = |lariat: &Lariat| {
        let servers = lariat.status()["services"][0]["servers"].clone();
        let each = servers.as_array().unwrap().iter();
        let each = each.map(|one| ["state", "note", "since_ms"].map(|key| one[key].to_string()));
        each.collect::<Vec<_>>()
    };
    let count = |lariat: &Lariat, words: &str| {
        let url = format!("http://{}/history", lariat.admin());
        let history = curl().url(&url).run().success();
        history.matches(words).count()
    };
    let accepted = "\"connections_accepted\":1";
    lariat.wait_for_stderr("is down: could not");
    let intervals = count(&lariat, "end_ms");
    until_true("another look at them", || {
        let is_later = count(&lariat, "end_ms") > intervals + 1;
        is_later && count(&lariat, accepted) == 1
    });
    let seen = states(&lariat);
    lariat.upgrade().wait();
    assert_eq!(count(&lariat, accepted), 1);
    until_true("the same states, causes and times", || states(&lariat) == seen);
    let _back = TcpListener::bind(dead).unwrap();
    lariat.wait_for_stderr(&format!("server {dead} is up again after "));
    let said = lariat.stderr();
    assert_eq!(said.matches("is down").count(), 1, "{said}");
}

#[test]
fn the_first_process_of_a_container_stays_and_takes_note_of_orphans() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let (site, _server, service) = set_up(Behaviour::Echo);
    let mut lariat = Lariat::start_by(container(), &service.toml());
    let first_process = first_process(&lariat);
    let worker = || lariat.status()["process"]["pid"].as_u64();
    under_load(&site, &service, || {
        for _ in 0..2 {
            let before = worker();
            kill_process(first_process, Signal::USR2).unwrap();
            until_true("another worker process", || worker() != before);
        }
        until_true("the ones before to end", || {
            children(first_process).split_whitespace().count() == 1
        });
    });
    assert_eq!(lariat.status()["process"]["supervisor_pid"], 1);
    // The orphan's parent ends first, so that the first process inherits it.
    let number = first_process.as_raw_nonzero().to_string();
    let mut orphan = Command::new("nsenter");
    orphan.args(["--target", &number, "--pid", "sh", "-c", "sleep 0.1 & "]);
    run(&mut orphan).success();
    until_true("no orphan", || children(first_process).split_whitespace().count() == 1);
    let open = Client::new(&site).echo(service.address);
    kill_process(first_process, Signal::TERM).unwrap();
    lariat.wait_for_stderr("draining for up to");
    drop(open);
    lariat.assert_ends();
}
