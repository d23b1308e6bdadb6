//! A takeover that comes to nothing: the running one goes on and says why, and the other one ends.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::thread;

use rustix::process::{Signal, getuid};
use suite::lariat::command;
use suite::prelude::*;

/// A running one, and what is asked of it.
pub(super) struct Stage {
    pub(super) site: Site,
    pub(super) server: Server,
    pub(super) service: Service,
    pub(super) lariat: Lariat,
}

pub(super) fn running() -> Stage {
    running_with(|_| String::new())
}

/// With more in its configuration.
pub(super) fn running_with(more: impl FnOnce(&Site) -> String) -> Stage {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let lariat = Lariat::start(&format!("{}{}", more(&site), service.toml()));
    Stage {
        site,
        server,
        service,
        lariat,
    }
}

impl Stage {
    /// It serves, as it did, and has said this.
    pub(super) fn assert_goes_on(&mut self, words: &str) {
        self.lariat.wait_for_stderr(words);
        assert_eq!(self.lariat.serving(), self.lariat.supervisor());
        Client::new(&self.site).visit(self.service.address);
        assert!(self.lariat.ended().is_none());
        let folder = self.lariat.status_socket();
        let names = fs::read_dir(folder.parent().unwrap()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let left: Vec<_> = names.filter(|name| name.starts_with('.')).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    pub(super) fn socket(&self) -> std::path::PathBuf {
        let mut path = self.lariat.status_socket().into_os_string();
        path.push(".takeover");
        path.into()
    }

    pub(super) fn connected(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A successor that says what this script of Python has it say. Its third argument is the
    /// process that it says it to.
    pub(super) fn speaking(&self, script: &str) -> Command {
        let mut python = Command::new("python3");
        python.arg("-c").arg(format!("{SPEAKS}{script}"));
        python.arg(self.socket()).arg(self.hello("[1,1]"));
        let number = self.lariat.supervisor().as_raw_nonzero();
        python.arg(number.to_string());
        python
    }

    pub(super) fn hello(&self, formats: &str) -> String {
        let file = self.lariat.configuration();
        format!(
            r#"{{"Hello":{{"formats":{formats},"program":"7.7","configuration":{file:?},"later":1}}}}"#
        )
    }
}

/// A message of the channel: lengths of bytes and descriptors, little endian, and the bytes.
pub(super) fn message(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap();
    [&length.to_le_bytes()[..], &[0; 4], text.as_bytes()].concat()
}

/// The next message, without its descriptors.
pub(super) fn answer(stream: &mut UnixStream) -> String {
    let mut header = [0; 8];
    stream.read_exact(&mut header).unwrap();
    let [length, descriptors] = [&header[..4], &header[4..]]
        .map(|number| u32::from_le_bytes(number.try_into().unwrap()) as usize);
    // They come with bytes of their own, 250 with each.
    let mut text = vec![0; descriptors.div_ceil(250) + length];
    stream.read_exact(&mut text).unwrap();
    String::from_utf8(text.split_off(text.len() - length)).unwrap()
}

fn assert_refused(mut successor: Running, code: i32, words: &str) {
    assert_eq!(
        successor.wait().code(),
        Some(code),
        "{}",
        successor.stderr()
    );
    let said = successor.stderr();
    assert!(said.contains(words), "no {words:?}: {said}");
}

#[test]
fn a_bad_configuration_is_the_successors_alone() {
    let mut running = running();
    running.lariat.configure("[workers]\nthreds = 2\n");
    let successor = running.lariat.beside(&mut command());
    assert_refused(successor, 2, "threads");
    running.lariat.signal(Signal::USR2);
    running.assert_goes_on("has not taken over, and this one goes on");
    let asked = running.lariat.ask("upgrade");
    assert_eq!(asked.code(), 5, "{asked:?}");
    asked.assert_stderr("threads");
    // It is said once for each of the two, though both processes have this standard error.
    let said = running.lariat.stderr();
    assert_eq!(said.matches("did you mean").count(), 2, "{said}");
}

#[test]
fn an_upgrade_of_none_says_how_to_start_one() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let socket = site.path("status.sock");
    let text = format!(
        "[admin]\nstatus-socket = {socket:?}\n{}",
        Service::new(&site, &server).toml()
    );
    let file = site.write("lariat.toml", text);
    let asked = run(command().arg("upgrade").arg(file));
    asked.assert_stderr("no lariat runs with that configuration: its status socket would be ");
    asked.assert_stderr("hint: start one: `lariat serve FILE`");
    assert!(!asked.stderr.contains(".takeover"), "{asked:?}");
}

#[test]
fn a_certificate_that_cannot_be_used_is_noticed_in_time() {
    let mut running = running();
    let file = running.site.path("other.pem");
    let (other, own) = (Site::new(), running.site.path("site.pem"));
    let key = |path| {
        fs::read_to_string(path)
            .unwrap()
            .replace("CERTIFICATE", "IGNORED")
    };
    let certificate = fs::read_to_string(other.path("site.pem")).unwrap();
    let certificate = certificate
        .split("-----BEGIN PRIVATE")
        .next()
        .unwrap()
        .to_owned();
    fs::write(&file, certificate + &key(own)).unwrap();
    let service = running.service.clone().certificates(&format!("[{file:?}]"));
    running.lariat.configure(&service.toml());
    let successor = running.lariat.beside(&mut command());
    assert_refused(successor, 2, "error: ");
    running.assert_goes_on("has not taken over, and this one goes on");
    let asked = running.lariat.ask("upgrade");
    assert_eq!(asked.code(), 5, "{asked:?}");
    asked.assert_stderr("other.pem");
}

#[test]
fn one_that_dies_half_way_leaves_everything_as_it_was() {
    let mut running = running();
    let mut stream = running.connected();
    stream.write_all(&message(&running.hello("[1,1]"))).unwrap();
    let mut first = [0; 1];
    stream.read_exact(&mut first).unwrap();
    drop(stream);
    running.assert_goes_on("has not taken over, and this one goes on: ");
    // It says that it is ready, hears that it may serve, and dies.
    for round in 1..=2 {
        let mut child = running.speaking(DIES_WHEN_IT_MAY_SERVE).spawn().unwrap();
        // The running one sees to its end, if it is not quick enough.
        assert!(matches!(child.wait().unwrap().code(), Some(0) | None));
        let words = "goes on: ";
        until_true("the end to be noticed", || {
            let said = running.lariat.stderr();
            said.matches(words).count() > round
        });
        running.assert_goes_on(words);
    }
}

/// Speaks to the socket of its first argument, and has the second to say.
const SPEAKS: &str = r#"
import json, os, signal, socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.settimeout(30)
def send(text):
    s.sendall(struct.pack("<II", len(text), 0) + text.encode())
def receive():
    head = b""
    while len(head) < 8: head += s.recv(8 - len(head))
    length, count = struct.unpack("<II", head)
    while count > 0:
        carrier, fds, flags, address = socket.recv_fds(s, 1, 250)
        count -= len(fds)
    text = b""
    while len(text) < length: text += s.recv(length - len(text))
    return json.loads(text)
"#;

/// Ends as soon as it has been told that it may serve.
const DIES_WHEN_IT_MAY_SERVE: &str = r#"
send(sys.argv[2])
assert receive()["Offer"]["format"] == 1
send('"Ready"')
assert "Yours" in receive()
"#;

#[test]
fn what_is_no_message_of_ours_is_turned_away() {
    let mut running = running();
    for (bytes, words) in [
        (message("nonsense"), "is no message of a lariat"),
        (message(r#"{"Hello":{}}"#), "is no message of a lariat"),
        (vec![0xff; 8], "end"),
        (vec![1, 0], "end"),
    ] {
        let mut stream = running.connected();
        stream.write_all(&bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        let _ended = stream.read_to_end(&mut rest);
        assert!(rest.is_empty());
        if words != "end" {
            running.assert_goes_on(words);
        }
    }
    let mut early = running.connected();
    early.write_all(&message("\"Ready\"")).unwrap();
    early.shutdown(std::net::Shutdown::Write).unwrap();
    let _ended = early.read_to_end(&mut Vec::new());
    running.assert_goes_on("");
}

/// A process connects, leaves its end of the connection to another one, and ends.
const SPEAKS_FOR_A_DEAD_ONE: &str = r#"
import os, socket, struct, sys
near, far = socket.socketpair()
child = os.fork()
if child == 0:
    asks = socket.socket(socket.AF_UNIX)
    asks.connect(sys.argv[1])
    socket.send_fds(far, [b"x"], [asks.fileno()])
    os._exit(0)
_, fds, _, _ = socket.recv_fds(near, 1, 1)
os.waitpid(child, 0)
asks = socket.socket(fileno=fds[0])
hello = sys.argv[2].encode()
asks.sendall(struct.pack("<II", len(hello), 0) + hello)
print(asks.recv(4096))
"#;

#[test]
fn who_speaks_for_a_process_that_has_ended_is_offered_nothing() {
    let mut running = running();
    let mut python = Command::new("python3");
    python
        .args(["-c", SPEAKS_FOR_A_DEAD_ONE])
        .arg(running.socket());
    let said = run(python.arg(running.hello("[1,1]"))).success();
    assert_has(said, "Refused");
    running.assert_goes_on("it has ended, or is a part of the running one");
}

#[test]
fn older_and_newer_formats_are_told_apart_in_words() {
    let mut running = running();
    for formats in ["[0,0]", "[2,9]"] {
        let mut stream = running.connected();
        stream.write_all(&message(&running.hello(formats))).unwrap();
        let said = answer(&mut stream);
        assert!(
            said.contains("Refused") && said.contains("in the formats"),
            "{said}"
        );
    }
    running.assert_goes_on("lariat 7.7 takes over in the formats 2 to 9");
    // The other way round: an old one runs.
    let listener = {
        let path = running.socket();
        fs::remove_file(&path).unwrap();
        UnixListener::bind(path).unwrap()
    };
    let offer = format!(
        r#"{{"Offer":{{"format":9,"program":"8.8","last_number":1,"secret":{:?}}}}}"#,
        [7u8; 32]
    );
    let other = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        answer(&mut stream);
        stream.write_all(&message(&offer)).unwrap();
        let _ended = stream.read(&mut [0]);
    });
    let successor = running.lariat.beside(&mut command());
    assert_refused(successor, 5, "lariat 8.8 hands over in the format 9");
    other.join().unwrap();
}

#[test]
fn of_two_successors_one_takes_over() {
    let mut running = running();
    let mut first = running.connected();
    first.write_all(&message(&running.hello("[1,1]"))).unwrap();
    let mut byte = [0; 1];
    first.read_exact(&mut byte).unwrap();
    let second = running.lariat.beside(&mut command());
    assert_refused(second, 5, "is taking over already");
    drop(first);
    running.assert_goes_on("this one goes on: ");
    assert_eq!(running.lariat.succeed().wait().code(), Some(0));
}

#[test]
fn who_waits_for_a_silent_successor_hears_so() {
    let mut running = running();
    let mut silent = running.connected();
    silent.write_all(&message(&running.hello("[1,1]"))).unwrap();
    silent.read_exact(&mut [0; 1]).unwrap();
    let ask = |what| {
        let mut asking = command();
        asking.arg(what).arg("--status-socket");
        Running::start(asking.arg(running.lariat.status_socket()))
    };
    let (mut reload, mut upgrade) = (ask("reload"), ask("upgrade"));
    for (asking, words) in [
        (&mut reload, "waiting: another reload is under way, a new"),
        (&mut upgrade, "waiting for a new process to take over"),
    ] {
        asking.wait_for_stderr(words);
        asking.assert_running();
    }
    drop(silent);
    assert_eq!(reload.wait().code(), Some(0), "{}", reload.stderr());
    assert_eq!(upgrade.wait().code(), Some(5), "{}", upgrade.stderr());
    running.assert_goes_on("this one goes on: ");
}

#[test]
fn many_who_ask_are_few_messages_of_one_line() {
    let mut running = running();
    let idle: Vec<_> = (0..100).map(|_| running.connected()).collect();
    let mut last = running.connected();
    assert_eq!(last.read(&mut [0; 1]).unwrap(), 0);
    drop(idle);
    let forging = running
        .hello("[1,1]")
        .replace("7.7", "7.7\\nlariat: error: forged");
    until("a place", || {
        let mut stream = running.connected();
        stream.write_all(&message(&forging)).unwrap();
        stream.read_exact(&mut [0; 1]).ok()
    });
    running.assert_goes_on("forged");
    let said = running.lariat.stderr();
    assert!(!said.contains("\nlariat: error: forged"), "{said}");
    let count = said.matches("too many ask to take over: ").count();
    assert!((1..50).contains(&count), "{said}");
}

#[test]
fn another_configuration_does_not_take_its_place() {
    let mut running = running();
    let other = fs::read_to_string(running.lariat.configuration()).unwrap();
    let file = running.site.write("other.toml", other);
    let successor = Running::start(command().arg("serve").arg(&file));
    assert_refused(successor, 5, "admin.status-socket");
    running.assert_goes_on("may not take over");
    let said = running.lariat.stderr();
    let refusal = said.lines().find(|line| line.contains("may not take over"));
    assert!(refusal.unwrap().contains(" warning: process "), "{said}");
}

#[test]
fn a_program_that_crashes_or_is_none_changes_nothing() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let program = site.path("lariat");
    std::os::unix::fs::symlink(command().get_program(), &program).unwrap();
    let lariat = Lariat::start_by(Command::new(&program), &service.toml());
    let mut running = Stage {
        site,
        server,
        service,
        lariat,
    };
    for (text, words) in [
        ("#!/bin/sh\nkill -SEGV $$\n", "signal: 11"),
        ("#!/bin/sh\nexit 0\n", "/lariat) ended: exit status: 0"),
        ("no program", "cannot start a successor"),
    ] {
        let new = running.site.path("new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&new, &program).unwrap();
        // Another test's process may hold the file open for a moment, as it was written.
        until_true(words, || {
            let asked = running.lariat.ask("upgrade");
            assert_eq!(asked.code(), 5, "{asked:?}");
            assert!(!asked.stderr.contains("error: it "), "{asked:?}");
            asked.stderr.contains(words)
        });
        running.assert_goes_on(words);
    }
}

#[test]
fn another_user_gets_nothing() {
    if !getuid().is_root() {
        return;
    }
    let mut running = running();
    let path = running.socket();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    // As if the mode were no hindrance.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let folder = path.parent().unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.join("lariat");
    fs::copy(command().get_program(), &program).unwrap();
    // Another test's process may hold the file open for a moment, as it was written.
    until_true("the stranger to be noticed", || {
        let mut stranger = Command::new("setpriv");
        stranger
            .args(["--reuid=65534", "--clear-groups"])
            .arg(&program);
        stranger.args(["upgrade", "--status-socket"]);
        let said = run(stranger.arg(running.lariat.status_socket()));
        assert!(!said.status.success(), "{said:?}");
        running.lariat.stderr().contains("of user 65534")
    });
    running.assert_goes_on("of user 65534 may not take over");
}
