//! A status socket that somebody else made, or whose worker process is an attacker's: its document
//! decides over no process and does nothing to the terminal.

use std::os::unix::net::UnixListener;
use std::process::{Child, Stdio};
use std::thread::JoinHandle;

use suite::prelude::*;

/// Controls of C0 and C1, DEL, and one that reverses text: no text of ours contains them.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{9b}2J\u{7f}\u{202e}";

/// A process that answers as long as it lives.
struct Bystander(Child);

impl Bystander {
    fn start() -> Self {
        let mut cat = Command::new("cat");
        Self(cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn assert_alive(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        let mut echoed = [0];
        self.0.stdout.as_mut().unwrap().read_exact(&mut echoed).unwrap();
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

/// Returns the document of a real Lariat, with these numbers and texts in it.
fn forged(site: &Site, pid: u32) -> String {
    let server = Server::start(Behaviour::Echo);
    let real = Lariat::start(&Service::new(site, &server).toml());
    let mut document = real.status();
    document["process"]["supervisor_pid"] = pid.into();
    document["services"][0]["name"] = format!("web\nservice {HOSTILE}").into();
    document["services"][0]["servers"][0]["note"] = HOSTILE.into();
    document["last_reload"] = serde_json::json!({
        "time_ms": 0, "refused": format!("error: no\nreloads: {HOSTILE}"),
    });
    document.to_string()
}

/// Answers the first `count` clients with that document.
fn serve(site: &Site, document: String, count: usize) -> (PathBuf, JoinHandle<()>) {
    let path = site.path("forged.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let answer = move || {
        for _ in 0..count {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(document.as_bytes()).unwrap();
        }
    };
    (path, thread::spawn(answer))
}

fn ask(arguments: &[&str], path: &Path) -> Finished {
    let mut command = lariat::command();
    run(command.args(arguments).arg("--status-socket").arg(path))
}

fn assert_harmless(answer: &Finished) {
    for text in [&answer.stdout, &answer.stderr] {
        let is_bad = |c: &char| c.is_control() && *c != '\n' || *c == '\u{202e}';
        assert_eq!(text.chars().find(is_bad), None, "{answer:?}");
    }
}

#[test]
fn a_forged_document_gets_no_process_signalled() {
    let (site, mut bystander) = (Site::new(), Bystander::start());
    let document = forged(&site, bystander.0.id());
    let (path, socket) = serve(&site, document, 3);
    for command in ["drain", "reload", "server disable web/a:1"] {
        let words: Vec<_> = command.split(' ').collect();
        let answer = ask(&words, &path);
        assert_eq!(answer.code(), 1, "{answer:?}");
        let owner = format!("belongs to process {}", std::process::id());
        answer.assert_stderr(&owner);
        answer.assert_stderr("it was sent no signal");
        bystander.assert_alive();
    }
    socket.join().unwrap();
}

#[test]
fn a_forged_document_does_nothing_to_the_terminal() {
    let site = Site::new();
    let (path, socket) = serve(&site, forged(&site, 1), 3);
    let table = ask(&["status"], &path);
    assert_harmless(&table);
    let table = table.success();
    assert!(table.contains(r"\u001b]0;owned\u0007\u009b2J\u007f\u202e"), "{table}");
    // No forged line passes for ours.
    let lines_of = |start: &str| table.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!((lines_of("service "), lines_of("reloads: ")), (1, 1), "{table}");
    // The number is that of the process that made the socket.
    assert_has(&table, &format!("of supervisor {}\n", std::process::id()));
    let json = ask(&["status", "--json"], &path);
    assert_harmless(&json);
    let document: Value = serde_json::from_str(&json.success()).unwrap();
    assert_eq!(document["services"][0]["servers"][0]["note"], HOSTILE);
    socket.join().unwrap();
}
