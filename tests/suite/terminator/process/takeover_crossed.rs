//! A takeover that something else crosses: a stop, a reload, another upgrade, a crash.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use suite::configuration::Service;
use suite::fuse::{Fuse, Temper};
use suite::lariat::{Lariat, command};
use suite::patience::until;
use suite::process::has_ended;
use suite::program::{Running, run};
use suite::site::Site;
use testkit::server::{Behaviour, Server};

use super::takeover_refused::{Stage, answer, message, running, running_with};
use super::takeover_trial::Started;

/// `lariat upgrade` and the like, not to its end.
fn asking(lariat: &Lariat, what: &str) -> Running {
    let mut command = command();
    command.arg(what).arg("--status-socket");
    Running::start(command.arg(lariat.status_socket()))
}

/// The process that the running one has started last to take over.
fn started(lariat: &Lariat) -> Option<Started> {
    let said = lariat.stderr();
    let (_, after) = said.rsplit_once("started process ")?;
    let (pid, _) = after.split_once(" to take over")?;
    Some(Started(Pid::from_raw(pid.parse().ok()?)?))
}

/// Puts a script in the place of its first argument that waits at a gate before it is the program.
const GATED: &str = r#"
mkfifo "$GATE"
printf '%s\n' '#!/bin/sh' 'read -r _ < "$GATE"' 'exec "$REAL" "$@"' > "$0.new"
chmod +x "$0.new"
mv "$0.new" "$0"
"#;

#[test]
fn a_stop_also_ends_a_successor_that_has_only_been_started() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let (program, gate) = (site.path("lariat"), site.path("gate"));
    symlink(command().get_program(), &program).unwrap();
    let mut first = Command::new(&program);
    first
        .env("GATE", &gate)
        .env("REAL", command().get_program());
    let mut lariat = Lariat::start_by(first, &service.toml());
    // By a process of its own: no other that is started meanwhile has the script open.
    let mut replace = Command::new("sh");
    replace.args(["-ec", GATED]).arg(&program);
    run(replace.env("GATE", &gate)).success();
    let mut upgrade = asking(&lariat, "upgrade");
    let successor = until("a successor", || started(&lariat));
    lariat.signal(Signal::TERM);
    assert_eq!(lariat.wait().code(), Some(0), "{}", lariat.stderr());
    // Both ways, so that nobody waits for the other end.
    let opened = OpenOptions::new().read(true).write(true).open(&gate);
    opened.unwrap().write_all(b"\n").unwrap();
    until("the successor's end", || {
        has_ended(successor.0).then_some(())
    });
    TcpStream::connect(service.address).unwrap_err();
    assert_eq!(upgrade.wait().code(), Some(5), "{}", upgrade.stderr());
    let said = upgrade.stderr();
    assert!(said.contains("was told to stop"), "{said}");
}

/// A script for [`Stage::speaking`] comes to its end.
fn has_died(mut script: Command) {
    let mut child = script.spawn().unwrap();
    // The running one sees to it, if it is not quick enough.
    assert!(matches!(child.wait().unwrap().code(), Some(0) | None));
}

/// Sends a process SIGHUP, and waits until it has taken the signal.
const HANGS_UP: &str = r#"
def hang_up(pid):
    os.kill(pid, signal.SIGHUP)
    def pending():
        with open(f"/proc/{pid}/status") as file:
            return [line.split()[1] for line in file if line.startswith("ShdPnd")][0]
    while int(pending(), 16) & 1: pass
"#;

/// Asks for a reload before it takes over, is told of it, and ends.
const DIES_WITH_A_RELOAD: &str = r#"
send(sys.argv[2])
assert "Offer" in receive()
hang_up(int(sys.argv[3]))
send('"Ready"')
assert receive()["Yours"]["reload"]
"#;

#[test]
fn a_reload_that_a_successor_dies_with_is_made_by_the_one_that_goes_on() {
    let mut running = running();
    let script = format!("{HANGS_UP}{DIES_WITH_A_RELOAD}");
    has_died(running.speaking(&script));
    let generation = "lariat_config_generation";
    running.lariat.wait_for_metric(generation, &[], 2.0);
    running.assert_goes_on("has not taken over, and this one goes on");
}

/// Asks for a reload when it may serve already, and ends with success when it is asked for one.
const HEARS_OF_A_RELOAD: &str = r#"
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
send(sys.argv[2])
assert "Offer" in receive()
send('"Ready"')
assert not receive()["Yours"]["reload"]
hang_up(int(sys.argv[3]))
send('{"Serving":{"kept":[],"addresses":[]}}')
assert signal.sigtimedwait([signal.SIGHUP], 30)
"#;

#[test]
fn a_reload_asked_for_at_the_last_moment_is_the_successors() {
    let mut running = running();
    let script = format!("{HANGS_UP}{HEARS_OF_A_RELOAD}");
    let mut child = running.speaking(&script).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(running.lariat.wait().code(), Some(0));
}

/// Stops the worker process and has it asked for another plan, which waits for its answer: the
/// address that the plan adds.
fn reloading(running: &Stage) -> SocketAddr {
    let worker_process = running.lariat.worker_process();
    kill_process(worker_process, Signal::STOP).unwrap();
    let more = Service::new(&running.site, &running.server).named("more");
    let both = format!("{}{}", running.service.toml(), more.toml());
    running.lariat.configure(&both);
    running.lariat.signal(Signal::HUP);
    until("the plan to be asked for", || {
        TcpStream::connect(more.address).ok()
    });
    more.address
}

/// A successor that has to wait.
fn waiting(running: &Stage) -> UnixStream {
    let mut stream = running.connected();
    let hello = message(&running.hello("[1,1]"));
    stream.write_all(&hello).unwrap();
    // That it waits shows the answer to the second one.
    stream.write_all(&hello).unwrap();
    let said = answer(&mut stream);
    assert!(said.contains("is taking over already"), "{said}");
    stream
}

#[test]
fn an_upgrade_while_a_successor_waits_for_a_reload_is_that_one() {
    let mut running = running();
    let worker_process = running.lariat.worker_process();
    reloading(&running);
    let first = waiting(&running);
    let mut asking = running.connected();
    asking.write_all(&message("\"Upgrade\"")).unwrap();
    // Its answer shows that the one before has been heard.
    let hello = running.hello("[1,1]");
    asking.write_all(&message(&hello)).unwrap();
    let said = answer(&mut asking);
    assert!(said.contains("is taking over already"), "{said}");
    drop(first);
    let said = answer(&mut asking);
    assert!(said.contains("it ended while it waited"), "{said}");
    assert!(started(&running.lariat).is_none());
    kill_process(worker_process, Signal::CONT).unwrap();
    let generation = "lariat_config_generation";
    running.lariat.wait_for_metric(generation, &[], 2.0);
    running.assert_goes_on("this one goes on: it ended while it waited");
    assert_eq!(running.lariat.succeed().wait().code(), Some(0));
}

#[test]
fn a_successor_that_waits_for_a_reload_outlasts_the_worker_process() {
    let mut running = running();
    let more = reloading(&running);
    let mut stream = waiting(&running);
    running.lariat.kill_worker_process();
    let said = answer(&mut stream);
    assert!(said.contains("Offer"), "{said}");
    drop(stream);
    running.assert_goes_on("has not taken over, and this one goes on");
    TcpStream::connect(more).unwrap_err();
    assert_eq!(running.lariat.succeed().wait().code(), Some(0));
}

/// Puts sockets of its own, and a number, in the places of those of the one that it takes over
/// from, and ends before it says that it serves.
const DIES_IN_ITS_PLACE: &str = r#"
send(sys.argv[2])
assert "Offer" in receive()
send('"Ready"')
assert "Yours" in receive()
status, pid_file = sys.argv[4:]
for path in [status, sys.argv[1]]:
    other = socket.socket(socket.AF_UNIX)
    other.bind(path + ".new")
    os.rename(path + ".new", path)
with open(pid_file, "w") as file: file.write("1\n")
"#;

#[test]
fn what_a_successor_took_before_it_died_is_taken_back() {
    let pid_file = |site: &Site| site.path("lariat.pid");
    let mut running = running_with(|site| format!("[process]\npid-file = {:?}\n", pid_file(site)));
    let pid_file = pid_file(&running.site);
    let mut successor = running.speaking(DIES_IN_ITS_PLACE);
    successor.arg(running.lariat.status_socket()).arg(&pid_file);
    has_died(successor);
    running.assert_goes_on("has not taken over, and this one goes on");
    let number = running.lariat.supervisor().as_raw_nonzero().to_string();
    until("its number in the file", || {
        let said = fs::read_to_string(&pid_file).unwrap();
        (said.trim() == number).then_some(())
    });
    running.lariat.reload().success();
    running.lariat.ask("upgrade").success();
    running.lariat.ask("drain").success();
}

#[test]
fn a_program_on_a_disk_that_does_not_answer_holds_nobody() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let script: &[u8] = b"#!/bin/sh\nexit 0\n";
    let files = [("lariat", Temper::HoldsOpening, script)];
    let Some(fuse) = Fuse::mount(&site.path("far"), &files) else {
        return;
    };
    let program = site.path("lariat");
    symlink(command().get_program(), &program).unwrap();
    let lariat = Lariat::start_by(Command::new(&program), &service.toml());
    fs::remove_file(&program).unwrap();
    symlink(site.path("far").join("lariat"), &program).unwrap();
    let mut upgrade = asking(&lariat, "upgrade");
    until("the disk to be asked", || (fuse.held() > 0).then_some(()));
    lariat.signal(Signal::HUP);
    lariat.wait_for_metric("lariat_config_generation", &[], 2.0);
    assert_eq!(upgrade.wait().code(), Some(5), "{}", upgrade.stderr());
    let said = upgrade.stderr();
    assert!(said.contains("s to open the file"), "{said}");
    fuse.release();
    fs::remove_file(&program).unwrap();
    symlink(command().get_program(), &program).unwrap();
    lariat.ask("upgrade").success();
    lariat.ask("drain").success();
}
