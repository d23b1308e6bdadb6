//! `lariat serve` beside a running one takes over from it, and nobody notices.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, kill_process, test_kill_process};
use rustls::HandshakeKind;
use suite::prelude::*;

fn with_workers(service: &Service, count: usize) -> String {
    format!("[workers]\nthreads = {count}\n{}", service.toml())
}

/// Clients of each kind of session.
fn clients(site: &Site) -> Vec<Client> {
    let kinds = [Client::new, Client::tls12, Client::without_tickets];
    let each = kinds.iter().flat_map(|kind| (0..10).map(|_| kind(site)));
    each.collect()
}

#[test]
fn every_session_resumes_after_it_and_open_connections_go_on() {
    let (site, _server, service, mut lariat) =
        serve_with("[workers]\nthreads = 2", Behaviour::Echo);
    let clients = clients(&site);
    for client in &clients {
        assert_eq!(client.visit(service.address), HandshakeKind::Full);
    }
    let mut open: Vec<_> = clients
        .iter()
        .map(|one| one.echo(service.address))
        .collect();
    let mut before = lariat.succeed();
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
    assert_eq!(before.wait().code(), Some(0), "{}", before.stderr());
    lariat.succeed().wait();
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
    let mut lariat = Lariat::start(&service.toml());
    let mut connection = Client::new(&site).connect(service.address);
    connection.ask("large");
    connection.head();
    let mut before = lariat.succeed();
    assert!(connection.read_to_end().unwrap() == vec![7; BYTES]);
    assert_eq!(before.wait().code(), Some(0));
}

/// Clients that come all the time while something is done: none is refused or reset, and those that
/// have been there resume.
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
        until_true("clients after it", || {
            visits.load(Ordering::Acquire) >= then
        });
        done.store(true, Ordering::Release);
        worked
    })
}

#[test]
fn nobody_is_refused_in_many_restarts_with_more_workers_and_fewer() {
    let (site, _server, service, mut lariat) =
        serve_with("[workers]\nthreads = 2", Behaviour::Echo);
    under_load(&site, &service, || {
        let mut all = Vec::new();
        for workers in [2, 3, 1, 2, 1, 4, 2, 2, 3, 1] {
            lariat.configure(&with_workers(&service, workers));
            all.push(lariat.succeed());
            let threads = lariat.status()["workers"].as_array().map(Vec::len);
            assert_eq!(threads, Some(workers));
        }
        for before in &mut all {
            assert_eq!(before.wait().code(), Some(0), "{}", before.stderr());
        }
    });
}

/// A supervisor that this test did not start; ended with it.
struct Successor(rustix::process::Pid);

impl Drop for Successor {
    fn drop(&mut self) {
        // It may have ended.
        let _ = kill_process(self.0, Signal::KILL);
    }
}

fn upgraded(lariat: &Lariat, before: rustix::process::Pid) -> Successor {
    until("another supervisor", || {
        let now = lariat.serving();
        (now != before).then(|| Successor(now))
    })
}

#[test]
fn the_running_one_starts_its_successor_itself() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let pid_file = site.path("lariat.pid");
    let text = format!("[process]\npid-file = {pid_file:?}\n{}", service.toml());
    let mut lariat = Lariat::start(&text);
    let last = under_load(&site, &service, || {
        let first = lariat.supervisor();
        lariat.signal(Signal::USR2);
        let second = upgraded(&lariat, first);
        assert_eq!(lariat.wait().code(), Some(0), "{}", lariat.stderr());
        let said = lariat.ask("upgrade").success();
        let third = upgraded(&lariat, second.0);
        let number = third.0.as_raw_nonzero().to_string();
        assert_has(&said, &number);
        assert_eq!(std::fs::read_to_string(&pid_file).unwrap().trim(), number);
        until("the second one to end", || {
            test_kill_process(second.0).err()
        });
        assert!(std::fs::exists(&pid_file).unwrap());
        third
    });
    lariat.ask("drain").success();
    until("the last one to end", || test_kill_process(last.0).err());
    assert!(!std::fs::exists(pid_file).unwrap());
    assert!(!std::fs::exists(lariat.status_socket()).unwrap());
}

#[test]
fn a_drain_that_fails_is_said_by_one_that_was_started_by_an_upgrade() {
    let (site, _server, service, lariat) = serve(Behaviour::Echo);
    lariat.ask("upgrade").success();
    let second = Successor(lariat.serving());
    let worker_process = lariat.status()["process"]["pid"].as_u64().unwrap();
    let worker_process = rustix::process::Pid::from_raw(worker_process.try_into().unwrap());
    let _open = Client::new(&site).echo(service.address);
    // After the next one has handed over, nobody watches any more.
    lariat.ask("upgrade").success();
    lariat.ask("upgrade").success();
    kill_process(worker_process.unwrap(), Signal::KILL).unwrap();
    until("the second one to end", || {
        test_kill_process(second.0).err()
    });
    let said = lariat.stderr();
    assert_has(&said, "the worker process ended by itself: signal: 9");
    assert!(!said.contains(" failed: "), "{said}");
    lariat.ask("drain").success();
}

#[test]
fn an_upgrade_brings_back_sockets_whose_paths_were_removed() {
    let (site, _server, service, mut lariat) = serve(Behaviour::Echo);
    let (first, status) = (lariat.supervisor(), lariat.status_socket());
    let mut takeover = status.clone().into_os_string();
    takeover.push(".takeover");
    std::fs::remove_file(&status).unwrap();
    std::fs::remove_file(takeover).unwrap();
    lariat.signal(Signal::USR2);
    until_true("a status socket", || status.exists());
    let second = upgraded(&lariat, first);
    assert_eq!(lariat.wait().code(), Some(0), "{}", lariat.stderr());
    let said = lariat.ask("upgrade").success();
    let third = upgraded(&lariat, second.0);
    let number = third.0.as_raw_nonzero().to_string();
    assert_has(&said, &number);
    Client::new(&site).visit(service.address);
}

#[test]
fn a_configuration_may_have_another_path() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let mut before = Lariat::start(&service.toml());
    let file = before.configuration();
    let (folder, link) = (file.parent().unwrap(), site.path("link"));
    std::os::unix::fs::symlink(folder, &link).unwrap();
    let path = link.join("..").join(folder.file_name().unwrap());
    let path = path.join("lariat.toml");
    let mut command = suite::lariat::command();
    let _after = Running::start(command.arg("serve").arg(path));
    assert_eq!(before.wait().code(), Some(0), "{}", before.stderr());
    Client::new(&site).visit(service.address);
}

#[test]
fn what_needs_a_restart_is_done_by_it() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (service, folder) = (Service::new(&site, &server), Directory::new());
    folder.write("a", "a");
    let mut lariat = Lariat::start(&service.toml());
    let files = Service::files(&site, folder.path()).named("files");
    let text = format!(
        "[process]\nsandbox = \"off\"\ndrain = \"7s\"\n[workers]\nfile-threads = 3\n{}{}",
        service.toml(),
        files.toml()
    );
    lariat.configure(&text);
    let mut before = lariat.succeed();
    assert_eq!(before.wait().code(), Some(0));
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
    let mut lariat = Lariat::start(&with_workers(&service, 2));
    let name = format!("web/{}", server.address());
    lariat.ask_with("server", &["disable", &name]).success();
    lariat.succeed().wait();
    let disabled = [("service", "web")];
    assert_eq!(lariat.sum("lariat_server_disabled", &disabled), 1.0);
    lariat.ask_with("server", &["enable", &name]).success();
    let inode =
        |path: &std::path::Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap());
    let before = inode(&path);
    lariat.succeed().wait();
    assert_eq!(inode(&path), before);
    let mut plain = std::os::unix::net::UnixStream::connect(&path).unwrap();
    plain
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    std::io::Write::write_all(&mut plain, b"no TLS").unwrap();
    let _ended = std::io::Read::read(&mut plain, &mut [0; 64]).unwrap();
    lariat.wait_for_metric_from("lariat_connections_ended_total", &disabled, 1.0);
}

/// Runs the program as the first process of a container.
fn container() -> std::process::Command {
    let mut container = std::process::Command::new("unshare");
    container
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(suite::lariat::command().get_program());
    container
}

fn children(of: rustix::process::Pid) -> String {
    let of = of.as_raw_nonzero();
    std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap()
}

fn first_process(lariat: &Lariat) -> rustix::process::Pid {
    // That of `unshare`.
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
    let mut lariat = Lariat::start(&with_workers(&service, 2));
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

    lariat.succeed().wait();
    assert_eq!(count(&lariat, accepted), 1);
    until_true("the same states, causes and times", || {
        states(&lariat) == seen
    });
    let _back = std::net::TcpListener::bind(dead).unwrap();
    lariat.wait_for_stderr(&format!("server {dead} is up again after "));
    assert!(!lariat.stderr().contains("is down"), "{}", lariat.stderr());
}

#[test]
fn the_first_process_of_a_container_stays_and_goes_on_with_the_successor() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let mut lariat = Lariat::start_by(container(), &service.toml());
    let number = || lariat.status()["process"]["supervisor_pid"].as_u64();
    let first_process = first_process(&lariat);
    let first = number();
    assert_ne!(first, Some(1));
    under_load(&site, &service, || {
        kill_process(first_process, Signal::USR2).unwrap();
        until_true("another supervisor", || number() != first);
        until_true("the first one to end", || {
            children(first_process).split_whitespace().count() == 1
        });
    });
    kill_process(first_process, Signal::TERM).unwrap();
    assert_eq!(lariat.wait().code(), Some(0));
}

#[test]
fn the_first_process_of_a_container_reaches_who_serves_while_another_drains() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (service, log) = (Service::new(&site, &server), site.path("log"));
    let text = format!("output = {log:?}\n{}", service.toml());
    let mut lariat = Lariat::start_by(container(), &text);
    let first_process = first_process(&lariat);
    let upgraded = || {
        let before = lariat.serving();
        kill_process(first_process, Signal::USR2).unwrap();
        until_true("another supervisor", || lariat.serving() != before);
    };
    let mut open = Client::new(&site).echo(service.address);
    upgraded();
    kill_process(first_process, Signal::HUP).unwrap();
    lariat.wait_for_metric("lariat_config_generation", &[], 2.0);
    std::fs::rename(&log, site.path("old")).unwrap();
    kill_process(first_process, Signal::USR1).unwrap();
    until_true("a new log", || log.exists());
    // Another process may have made it, and lines go there once who serves has it, too.
    until_true("a line in it", || {
        Client::new(&site).visit(service.address);
        !std::fs::read(&log).unwrap().is_empty()
    });
    upgraded();
    kill_process(first_process, Signal::TERM).unwrap();
    lariat.wait_for_stderr("draining for a successor; a second signal");
    open.echo();
    drop(open);
    assert_eq!(lariat.wait().code(), Some(0), "{}", lariat.stderr());
}
