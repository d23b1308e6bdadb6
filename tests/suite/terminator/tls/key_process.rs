//! Keys in a process of their own (`process.key-process`): who holds them, signatures, and the
//! absence of that process.

use std::io::copy;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SocketType;
use rustix::net::sockopt::socket_type;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use suite::prelude::*;
use suite::process::{has_ended, memory_holds, open_files, status_line};

const TABLES: &str = "[process]\nkey-process = true\ndrain = \"1s\"\n[workers]\nthreads = 2";

/// Makes a site with an ECDSA and an RSA certificate, and a service of both.
fn both_kinds(site: &Site, server: &Server) -> Service {
    let rsa = site.authority.leaf(&["localhost"]).key(Key::Rsa2048).issue();
    site.write("rsa.crt", rsa.chain_pem());
    let key = site.write("rsa.key", rsa.key_pem());
    Service::new(site, server).certificates(&format!(
        "[{:?}, {{ chain = {:?}, key = {key:?} }}]",
        site.path("site.pem"),
        site.path("rsa.crt"),
    ))
}

fn signatures(lariat: &Lariat, result: &str) -> f64 {
    lariat.sum("lariat_key_signatures_total", &[("result", result)])
}

#[test]
fn every_kind_of_key_and_version_is_signed_for_and_the_worker_process_has_no_key() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = both_kinds(&site, &server);
    let lariat = service.start_with(TABLES);
    for arguments in [
        &["-tls1_3", "-sigalgs", "ecdsa_secp256r1_sha256"][..],
        &["-tls1_3", "-sigalgs", "rsa_pss_rsae_sha256"],
        &["-tls1_2", "-sigalgs", "ECDSA+SHA256"],
        &["-tls1_2", "-sigalgs", "RSA+SHA256"],
        &["-tls1_2", "-sigalgs", "rsa_pss_rsae_sha384"],
    ] {
        let arguments = [&["-verify_return_error"], arguments].concat();
        s_client(&site, service.address, &arguments).success();
    }
    assert_eq!(signatures(&lariat, "signed"), 5.0);
    assert!(lariat.sum("lariat_key_signature_waiting_seconds_total", &[]) > 0.0);
    let status = lariat.ask("status").success();
    assert_has(&status, "key process: 5 signatures");
    let pid = lariat.process("lariat: keys").as_raw_nonzero().get();
    assert_has(&status, &format!("  files: pid {pid}, 2 keys\n"));
    assert_eq!(lariat.status()["key_process"]["processes"][0]["pid"], pid);
    lariat.wait_for_stderr(&format!("holds the keys is there (files, pid {pid})"));
    assert_eq!(lariat.status()["key_process"]["signed"], 5);
    if geteuid().is_root() {
        let mut openssl = Command::new("openssl");
        openssl.args(["pkey", "-outform", "DER", "-in"]).arg(site.path("rsa.key"));
        let der = openssl.output().unwrap().stdout;
        // A part of the primes, which the library keeps as they are or reversed.
        let part = &der[der.len() - 200..der.len() - 180];
        let turned: Vec<_> = part.iter().rev().copied().collect();
        let has_key = |process| memory_holds(process, part) || memory_holds(process, &turned);
        assert!(has_key(lariat.process("lariat: keys")));
        assert!(!has_key(lariat.worker_process()));
    }
}

#[test]
fn the_process_has_no_network_and_no_file() {
    let (site, server) = (Site::new(), Server::start(http()));
    let service = Service::new(&site, &server);
    let lariat = service.start_with(TABLES);
    let keys = lariat.process("lariat: keys");
    // A filter, and no way to new privileges.
    assert_eq!(status_line(keys, "Seccomp"), "2");
    assert_eq!(status_line(keys, "NoNewPrivs"), "1");
    assert_eq!(status_line(keys, "CapEff"), "0000000000000000");
    if geteuid().is_root() {
        assert!(status_line(keys, "Uid").starts_with("65534"));
        let files = open_files(keys);
        // The standard error is a file here.
        let is_file = |path: &&PathBuf| {
            path.is_absolute() && !path.starts_with("/dev") && !path.ends_with("stderr")
        };
        assert_eq!(files.iter().find(is_file), None, "{files:?}");
    }
}

#[test]
fn a_client_certificate_is_signed_for_too() {
    let (site, directory) = (Site::new(), Directory::new());
    let root = Authority::root("root of clients");
    root.write(&directory, "clients.pem");
    let pem = site.write("client.pem", root.leaf(&["lariat.example"]).issue().pem());
    for version in ["-tls1_2", "-tls1_3"] {
        let clients = directory.join("clients.pem");
        let clients = clients.to_str().unwrap();
        let arguments = ["-Verify", "1", "-verify_return_error", "-CAfile", clients, version];
        let server = SServer::start(&site, "site.pem", &arguments);
        let service = Service::new(&site, server.address).back(&format!(
            "tls = {{ ca = {:?}, name = \"localhost\", certificate = {pem:?} }}",
            site.ca()
        ));
        let lariat = service.start_with(TABLES);
        let mut client = Client::new(&site).connect(service.address);
        client.send(b"GET / HTTP/1.0\r\n\r\n");
        until_true("both signatures", || signatures(&lariat, "signed") >= 2.0);
        assert_eq!(signatures(&lariat, "failed"), 0.0);
    }
}

/// Makes full handshakes without end during `act`; returns how many were made and how many failed.
fn under_load(site: &Site, address: SocketAddr, act: impl FnOnce()) -> (usize, usize) {
    let is_over = AtomicBool::new(false);
    let (done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let made = Client::new(site).try_connect(address);
                    let count = if made.is_ok() { &done } else { &failed };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        until_true("load", || done.load(Ordering::Relaxed) > 20);
        act();
        let before = done.load(Ordering::Relaxed);
        until_true("more load", || done.load(Ordering::Relaxed) > before + 20);
        is_over.store(true, Ordering::Relaxed);
    });
    (done.into_inner(), failed.into_inner())
}

#[test]
fn when_it_is_killed_another_takes_its_place_and_no_handshake_fails() {
    let (site, server) = (Site::new(), Server::start(http()));
    let service = Service::new(&site, &server);
    let lariat = service.start_with(TABLES);
    let worker = lariat.worker_process();
    let (_, failed) = under_load(&site, service.address, || {
        let keys = lariat.process("lariat: keys");
        kill_process(keys, Signal::KILL).unwrap();
        until_true("another", || has_ended(keys) && lariat.process("lariat: keys") != keys);
    });
    assert_eq!((failed, signatures(&lariat, "late")), (0, 0.0), "{}", lariat.stderr());
    lariat.wait_for_stderr("the process that holds the keys has ended");
    lariat.wait_for_stderr("the process that holds the keys is there again");
    assert_eq!(lariat.worker_process(), worker);
}

#[test]
fn one_that_is_stopped_costs_a_second_and_then_nothing_and_is_replaced() {
    let (site, server) = (Site::new(), Server::start(http()));
    let service = Service::new(&site, &server);
    let lariat = service.start_with("[process]\nkey-process = true\n[workers]\nthreads = 1");
    let client = Client::tls12(&site);
    client.connect(service.address).finish();
    let keys = lariat.process("lariat: keys");
    kill_process(keys, Signal::STOP).unwrap();
    // The client expects encrypted records by then.
    let told = s_client(&site, service.address, &["-tls1_3"]);
    assert_has(&told.stderr, "tlsv1 alert internal error");
    // On a busy host another process may be there before all of them have come.
    let fails = |_: &u32| Client::new(&site).try_connect(service.address).is_err();
    let failed = 1 + u32::try_from((0..5).take_while(fails).count()).unwrap();
    lariat.wait_for_reason("key-unavailable", failed);
    assert_eq!(signatures(&lariat, "late"), f64::from(failed));
    let waited = lariat.sum("lariat_key_signature_waiting_seconds_total", &[]);
    assert!(waited >= 1.0, "{waited}");
    let line = lariat.wait_for_line(&["key-unavailable"]);
    assert_has(line.to_string(), "\"fault\":\"host\"");
    assert_has(line.to_string(), "answered with alert internal_error");
    lariat.wait_for_stderr("has not answered in 3 s, and is ended (files)");
    until_true("signatures again", || Client::new(&site).try_connect(service.address).is_ok());
    assert!(has_ended(keys));
    let of_files = [("keys", "files")];
    lariat.wait_for_metric("lariat_key_process_up", &of_files, 1.0);
    assert_eq!(lariat.sum("lariat_key_process_restarts_total", &of_files), 1.0);
    lariat.wait_for_stderr_times("and is ended", 1);
}

#[test]
fn while_it_does_not_answer_no_client_should_come() {
    let (site, server) = (Site::new(), Server::start(http()));
    let lariat = Service::new(&site, &server).start_with(TABLES);
    until_true("to be ready", || lariat.readiness() == "ready\n200");
    // Each process in turn, so that there is none during the test.
    let stopping = AtomicBool::new(true);
    thread::scope(|scope| {
        scope.spawn(|| {
            while stopping.load(Ordering::Relaxed) {
                let _ = kill_process(lariat.process("lariat: keys"), Signal::STOP);
                thread::yield_now();
            }
        });
        until_true("to be away", || lariat.readiness().ends_with("503"));
        assert_has(lariat.readiness(), "no process signs with the keys");
        until_true("its state", || {
            let text = lariat.ask("status").success();
            text.contains("files: AWAY since") && text.contains("answer")
        });
        stopping.store(false, Ordering::Relaxed);
    });
    until_true("to be ready again", || lariat.readiness() == "ready\n200");
}

#[test]
fn a_worker_process_that_dies_finds_the_same_process() {
    let (site, server) = (Site::new(), Server::start(http()));
    let service = Service::new(&site, &server);
    let lariat = service.start_with(TABLES);
    let keys = lariat.process("lariat: keys");
    for _ in 0..2 {
        lariat.replace_worker_process();
        until_true("a handshake", || Client::new(&site).try_connect(service.address).is_ok());
    }
    assert_eq!(lariat.process("lariat: keys"), keys);
}

#[test]
fn a_reload_changes_keys_at_once_or_not_at_all() {
    let (site, server) = (Site::new(), Server::start(http()));
    let service = Service::new(&site, &server);
    let lariat = service.start_with(TABLES);
    let first = lariat.process("lariat: keys");
    let other = site.leaf(&["localhost"]);
    let (_, failed) = under_load(&site, service.address, || {
        site.write("site.pem", other.chain_pem());
        lariat.reload_refused(&format!("{TABLES}\n{}", service.toml()));
        assert_eq!(lariat.process("lariat: keys"), first);
        site.write("site.pem", other.pem());
        for _ in 0..3 {
            lariat.reload().success();
        }
    });
    assert_eq!(failed, 0, "{}", lariat.stderr());
    assert_ne!(lariat.process("lariat: keys"), first);
    // Without the key, the worker process has them again.
    lariat.reload_with(&service.toml());
    let (_, failed) = under_load(&site, service.address, || {});
    assert_eq!((failed, lariat.status()["key_process"].is_null()), (0, true));
}

#[test]
fn an_upgrade_keeps_it_for_the_worker_process_before() {
    let (site, server) = (Site::new(), Server::start(http()));
    let service = Service::new(&site, &server);
    let lariat = service.start_with(TABLES);
    let first = lariat.process("lariat: keys");
    let mut before = None;
    let (_, failed) = under_load(&site, service.address, || before = Some(lariat.upgrade()));
    assert_eq!(failed, 0, "{}", lariat.stderr());
    assert_ne!(lariat.process("lariat: keys"), first);
    before.unwrap().wait();
    until_true("its key process to end", || has_ended(first));
}

#[test]
fn keys_behind_a_passphrase_and_in_folders_are_held_as_well() {
    let (site, server) = (Site::new(), Server::start(http()));
    let folder = site.path("folder");
    let leaf = site.leaf(&["localhost"]);
    site.write("folder/a.crt", leaf.chain_pem());
    site.write("folder/a.key", leaf.key_pem());
    let plain = site.write("plain.key", leaf.key_pem());
    let secret = site.write("secret", "open\n");
    let locked = site.path("locked.key");
    let mut openssl = Command::new("openssl");
    openssl.args(["pkcs8", "-topk8", "-passout", "pass:open", "-in"]).arg(&plain);
    run(openssl.arg("-out").arg(&locked)).success();
    let chain = site.path("folder/a.crt");
    for certificates in [
        format!("[{folder:?}]"),
        format!("[{{ chain = {chain:?}, key = {locked:?}, key-passphrase-file = {secret:?} }}]"),
    ] {
        let service = Service::new(&site, &server).certificates(&certificates);
        let lariat = service.start_with(TABLES);
        Client::new(&site).connect(service.address).finish();
        assert_eq!(signatures(&lariat, "signed"), 1.0);
    }
}

#[test]
fn no_stopped_process_outlasts_an_upgrade_with_keys_of_a_plan_that_was_replaced() {
    let (site, server) = (Site::new(), Server::start(http()));
    let service = Service::new(&site, &server);
    let lariat = service.start_with(TABLES);
    let stopped = lariat.process("lariat: keys");
    kill_process(stopped, Signal::STOP).unwrap();
    lariat.reload().success();
    lariat.ask("upgrade").success();
    until_true("the process before to end", || has_ended(stopped));
    let connects = || Client::new(&site).try_connect(service.address).is_ok();
    until_true("signatures", connects);
}

/// A relay to an address for one client: its bytes are passed on in part, and on a signal
/// completely.
struct HeldHandshake {
    address: SocketAddr,
    go_on: mpsc::Sender<()>,
}

impl HeldHandshake {
    fn to(address: SocketAddr, begun: mpsc::Sender<()>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap();
        let (go_on, may_go_on) = mpsc::channel();
        thread::spawn(move || {
            let (mut client, mut server) = (listener.accept().unwrap().0, tcp(address));
            let mut hello = [0; 20];
            client.read_exact(&mut hello).unwrap();
            server.write_all(&hello).unwrap();
            begun.send(()).unwrap();
            may_go_on.recv().unwrap();
            let (mut from_server, mut to_client) =
                (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || copy(&mut from_server, &mut to_client));
            let _ = copy(&mut client, &mut server);
        });
        Self { address: own, go_on }
    }
}

#[test]
fn a_handshake_goes_on_over_a_reload_and_an_upgrade_and_no_process_outlasts_its_plan() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server).more("timeouts = { handshake = '10m' }");
    let lariat = service.start_with(&TABLES.replace("1s", "10m"));
    let first = lariat.process("lariat: keys");
    let (begun, has_begun) = mpsc::channel();
    let held = HeldHandshake::to(service.address, begun);
    let client = Client::new(&site);
    thread::scope(|scope| {
        let made = scope.spawn(|| client.try_connect(held.address).unwrap());
        has_begun.recv().unwrap();
        lariat.wait_for_metric("lariat_connections_open", &[], 1.0);
        // A new key, so that only the first process can sign for that client.
        site.write("site.pem", site.leaf(&["localhost"]).pem());
        lariat.reload().success();
        let second = lariat.process("lariat: keys");
        // Only the next program can notice it.
        kill_process(second, Signal::STOP).unwrap();
        let before = lariat.upgrade();
        until_true("the one that is stopped to end", || has_ended(second));
        assert!(!has_ended(first));
        held.go_on.send(()).unwrap();
        let mut open = made.join().unwrap();
        open.echo();
        before.assert_running();
        kill_process(before.0, Signal::KILL).unwrap();
        until_true("its key process to end", || has_ended(first));
        Client::new(&site).echo(service.address);
    });
}

/// Copies a process's Unix sockets, as it could send them to other processes of ours
/// (`SCM_RIGHTS`): its standard input, and those of whole messages.
fn copies_of_channels(process: Pid) -> Vec<OwnedFd> {
    let held = pidfd_open(process, PidfdFlags::empty()).unwrap();
    let numbers = fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero())).unwrap();
    let numbers = numbers.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse());
    let copies = numbers.filter_map(|number: Result<i32, _>| {
        let number = number.unwrap();
        let copy = pidfd_getfd(&held, number, PidfdGetfdFlags::empty()).ok()?;
        let is_channel = number == 0 || socket_type(&copy) == Ok(SocketType::SEQPACKET);
        is_channel.then_some(copy)
    });
    copies.collect()
}

#[test]
fn copies_of_a_dead_worker_process_s_channels_are_of_no_use() {
    if !geteuid().is_root() {
        return;
    }
    let (site, server) = (Site::new(), Server::start(http()));
    let service = Service::new(&site, &server);
    let lariat = service.start_with(TABLES);
    let copies = copies_of_channels(lariat.worker_process());
    assert!(copies.len() > 3, "the supervisor's, and one of each thread: {copies:?}");
    let is_ended = |copy: &OwnedFd| {
        let mut waits = [PollFd::new(copy, PollFlags::empty())];
        poll(&mut waits, Some(&Timespec::default())).unwrap();
        waits[0].revents().contains(PollFlags::HUP)
    };
    assert_eq!(copies.iter().filter(|copy| is_ended(copy)).count(), 0);
    // The process's death is noticed, though its end of the channel is open here.
    lariat.replace_worker_process();
    until_true("the end of all copies", || copies.iter().all(is_ended));
    curl_tls(&site, service.address).run().success();
}
