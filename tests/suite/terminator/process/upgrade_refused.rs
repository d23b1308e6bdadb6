//! Upgrades that fail: the running program goes on and reports why.

use std::os::unix::fs::PermissionsExt;

use suite::lariat::command;
use suite::prelude::*;

/// A running Lariat, and its surroundings.
pub(super) struct Stage {
    pub(super) site: Site,
    pub(super) server: Server,
    pub(super) service: Service,
    pub(super) lariat: Lariat,
}

pub(super) fn running() -> Stage {
    let (site, server, service, lariat) = serve(Behaviour::Echo);
    Stage { site, server, service, lariat }
}

impl Stage {
    /// Checks that Lariat serves as before, and has printed these words.
    pub(super) fn assert_goes_on(&mut self, words: &str) {
        self.lariat.wait_for_stderr("the new program has not taken over, and this one goes on");
        self.lariat.wait_for_stderr(words);
        assert_eq!(self.lariat.serving(), self.lariat.supervisor());
        Client::new(&self.site).visit(self.service.address);
        assert!(self.lariat.ended().is_none());
    }

    /// Checks that an upgrade is refused with these words, and changes nothing.
    fn assert_refuses(&mut self, words: &str) {
        let worker_process = self.lariat.worker_process();
        let mut open = Client::new(&self.site).echo(self.service.address);
        let client = Client::without_tickets(&self.site);
        client.visit(self.service.address);
        let asked = self.lariat.ask("upgrade");
        asked.assert_fails(5, &[words]);
        self.assert_goes_on(words);
        assert_eq!(self.lariat.worker_process(), worker_process);
        open.echo();
        assert_eq!(client.visit(self.service.address), HandshakeKind::Resumed);
    }
}

#[test]
fn a_bad_configuration_is_refused_before_anything_else_is_done() {
    let mut running = running();
    running.lariat.configure("[workers]\nthreds = 2\n");
    running.lariat.signal(Signal::USR2);
    running.assert_goes_on("threads");
    running.assert_refuses("threads");
    // The message comes once for each of the two.
    let said = running.lariat.wait_for_stderr_times("did you mean", 2);
    assert!(!said.contains("/lariat: error: "), "{said}");
    assert!(!said.contains("this process becomes"), "{said}");
}

#[test]
fn an_upgrade_of_none_says_how_to_start_one() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let socket = site.path("status.sock");
    let text =
        format!("[admin]\nstatus-socket = {socket:?}\n{}", Service::new(&site, &server).toml());
    let file = site.write("lariat.toml", text);
    let asked = run(command().arg("upgrade").arg(file));
    asked.assert_stderr("no lariat runs with that configuration: its status socket would be ");
    asked.assert_stderr("hint: start one: `lariat serve FILE`");
}

#[test]
fn a_certificate_that_cannot_be_used_is_noticed_in_time() {
    let mut running = running();
    let file = running.site.path("other.pem");
    let (other, own) = (Site::new(), running.site.path("site.pem"));
    let key = |path| fs::read_to_string(path).unwrap().replace("CERTIFICATE", "IGNORED");
    let certificate = fs::read_to_string(other.path("site.pem")).unwrap();
    let certificate = certificate.split("-----BEGIN PRIVATE").next().unwrap().to_owned();
    fs::write(&file, certificate + &key(own)).unwrap();
    let service = running.service.clone().certificates(&format!("[{file:?}]"));
    running.lariat.configure(&service.toml());
    running.assert_refuses("other.pem");
}

#[test]
fn a_program_that_cannot_listen_becomes_the_one_before_again() {
    let mut running = running();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let more = Service::new(&running.site, &running.server).named("more");
    let more = more.at(taken.local_addr().unwrap());
    let both = format!("{}{}", running.service.toml(), more.toml());
    running.lariat.configure(&both);
    let name = format!("web/{}", running.server.address());
    running.lariat.ask_with("server", &["disable", &name]).success();
    running.lariat.ask_with("server", &["enable", &name]).success();
    for _ in 0..2 {
        running.assert_refuses("cannot listen at");
    }
    // Lariat goes on in every way.
    running.lariat.configure(&running.service.toml());
    running.lariat.reload().success();
    running.lariat.kill_worker_process();
    running.lariat.wait_for_stderr("the worker process serves again");
    drop(taken);
    running.lariat.configure(&both);
    running.lariat.upgrade().wait();
    Client::new(&running.site).visit(more.address);
    running.lariat.drain();
    assert!(!running.lariat.status_socket().exists());
}

/// A reload leaves such a place as it is, and hints at an upgrade, which then fails.
#[test]
fn the_program_before_keeps_its_places_whatever_the_file_says_by_now() {
    let mut running = running();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let file = running.lariat.configuration();
    let text = fs::read_to_string(&file).unwrap();
    let (own, other) = (running.lariat.admin().to_string(), taken.local_addr().unwrap());
    fs::write(&file, text.replace(&own, &other.to_string())).unwrap();
    running.lariat.signal(Signal::HUP);
    running.lariat.wait_for_metric("lariat_config_generation", &[], 2.0);
    running.assert_refuses("cannot listen at");
    fs::write(&file, text).unwrap();
    running.lariat.reload().success();
    running.lariat.upgrade().wait();
}

#[test]
fn a_new_worker_process_that_dies_leaves_the_one_before() {
    let mut running = running();
    let before = running.lariat.worker_process();
    // The former process does not answer for a moment, and so the new one waits.
    kill_process(before, Signal::STOP).unwrap();
    running.lariat.signal(Signal::USR2);
    let new = until("another worker process", || {
        let newest = running.lariat.worker_process();
        (newest != before).then_some(newest)
    });
    running.lariat.signal(Signal::HUP);
    kill_process(new, Signal::KILL).unwrap();
    kill_process(before, Signal::CONT).unwrap();
    running.assert_goes_on("the worker process ended by itself: signal: 9");
    // The program that goes on gets the requests made to the new one.
    let generation = "lariat_config_generation";
    running.lariat.wait_for_metric(generation, &[], 2.0);
    assert_eq!(running.lariat.worker_process(), before);
    running.lariat.upgrade().wait();
}

/// A reload cannot widen the rights before a failed upgrade, nor after the program has come back.
#[test]
fn the_program_before_has_the_rights_that_it_had() {
    let mut running = running();
    let with = |ports: &str, more: &str| {
        let service = running.service.toml();
        format!("[process]\nconnect-ports = [{ports}]\n{service}{more}")
    };
    let port = running.server.address().rsplit(':').next().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let more = Service::new(&running.site, &running.server).named("more");
    let more = more.at(taken.local_addr().unwrap()).toml();
    let two = format!("{port}, 1");
    let (first, second, failing) = (with(port, ""), with(&two, ""), with(&two, &more));
    running.lariat.configure(&first);
    running.lariat.upgrade().wait();
    running.lariat.configure(&second);
    running.lariat.reload().success();
    running.lariat.configure(&failing);
    running.assert_refuses("cannot listen at");
    running.lariat.configure(&second);
    running.lariat.reload().success();
    let stays = "`process.connect-ports` stays as it is until a restart";
    running.lariat.wait_for_stderr_times(stays, 2);
}

#[test]
fn a_program_that_crashes_or_hangs_before_it_serves_becomes_the_one_before_again() {
    let mut running = running();
    let before = running.lariat.worker_process();
    for crash in [Signal::SEGV, Signal::ABORT, Signal::ALARM] {
        // The former process does not answer, and so the new one waits.
        kill_process(before, Signal::STOP).unwrap();
        running.lariat.signal(Signal::USR2);
        until_true("another worker process", || running.lariat.worker_process() != before);
        running.lariat.signal(crash);
        kill_process(before, Signal::CONT).unwrap();
        running.lariat.wait_for_stderr("goes on: it crashed, or did not serve in 450 s");
        running.assert_goes_on("it crashed");
        until_true("the one before alone", || running.lariat.worker_process() == before);
        running.lariat.reload().success();
    }
    // Once another one serves, a crash is a crash.
    running.lariat.upgrade().wait();
    running.lariat.signal(Signal::ABORT);
    running.lariat.wait();
}

#[test]
fn an_upgrade_needs_few_more_descriptors_than_there_are() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let listen: Vec<_> = (0..70).map(|_| "'127.0.0.1:0'".to_owned()).collect();
    let listen = format!("['{}', {}]", service.address, listen.join(", "));
    let text = format!("[workers]\nthreads = 1\n{}", service.clone().listen(&listen).toml());
    let mut limited = Command::new("prlimit");
    limited.arg("--nofile=120:120").arg(command().get_program());
    let lariat = Lariat::start_by(limited, &text);
    lariat.upgrade().wait();
    Client::new(&site).visit(service.address);
}

#[test]
fn a_new_worker_process_whose_forerunner_died_serves() {
    let running = running();
    let before = running.lariat.worker_process();
    kill_process(before, Signal::STOP).unwrap();
    running.lariat.signal(Signal::USR2);
    until_true("another worker process", || running.lariat.worker_process() != before);
    kill_process(before, Signal::KILL).unwrap();
    running.lariat.wait_for_stderr("has taken over from");
    Client::new(&running.site).visit(running.service.address);
    running.lariat.ask("upgrade").success();
}

#[test]
fn a_program_that_crashes_or_is_none_changes_nothing() {
    let (site, server, service) = set_up(Behaviour::Echo);
    let program = site.path("lariat");
    std::os::unix::fs::symlink(command().get_program(), &program).unwrap();
    let lariat = Lariat::start_by(Command::new(&program), &service.toml());
    let mut running = Stage { site, server, service, lariat };
    for (text, words) in [
        ("#!/bin/sh\nkill -SEGV $$\n", "signal: 11"),
        ("#!/bin/sh\nexit 0\n", "/lariat: ended: exit status: 0"),
        ("#!/bin/sh\nexec \"$0.none\" \"$@\"\n", "ended: exit status: 127"),
        ("no program", "Exec format error"),
    ] {
        let new = running.site.path("new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&new, &program).unwrap();
        // A process of a concurrent test may hold the file open for a moment, as it was written.
        until_true(words, || {
            let asked = running.lariat.ask("upgrade");
            assert_eq!(asked.code(), 5, "{asked:?}");
            assert!(!asked.stderr.contains("error: it "), "{asked:?}");
            asked.stderr.contains(words)
        });
        running.assert_goes_on(words);
    }
}
