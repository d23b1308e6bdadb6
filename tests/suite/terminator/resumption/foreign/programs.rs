//! Common programs resume with each kind of session, whichever of two workers they reach: after a
//! reload, after the death of the worker process, across a change of the keys; and not after a
//! session's end.

use suite::chromium::Browser;
use suite::clock::Clock;
use suite::openssl::key_hash;
use suite::prelude::*;

const TWO_WORKERS: &str = "[workers]\nthreads = 2\n";

/// Visits at a time: practically always both workers are reached, whichever the kernel chooses.
const VISITS: usize = 6;

/// An event in the life of a host.
#[derive(Clone, Copy, Debug)]
enum Event {
    Nothing,
    Reload,
    Death,
    /// A new key encrypts, and the old one still decrypts.
    NewKey,
}

/// Two workers, and a session as `openssl` keeps it.
struct Host {
    site: Site,
    service: Service,
    lariat: Lariat,
    resumption: String,
    _server: Option<Server>,
}

impl Host {
    /// Makes a host before a server that sends and ends, so `openssl` reads the tickets too.
    fn with(resumption: &str) -> Self {
        let (site, server, service, lariat) =
            serve_with(&format!("{TWO_WORKERS}{resumption}"), Behaviour::Speak("x".into()));
        Self { site, service, lariat, resumption: resumption.to_owned(), _server: Some(server) }
    }

    /// Makes a host before an origin, with a ticket key from a file and more of `resumption`.
    fn of_origin(origin: &Origin, resumption: &str) -> Self {
        let site = Site::new();
        let service = Service::new(&site, origin.address);
        fs::write(site.path("1.key"), [1; 80]).unwrap();
        let keys = keys_of(&site, &["1.key"], resumption);
        let lariat = Lariat::start(&(keys + &service.toml()));
        Self { site, service, lariat, resumption: resumption.to_owned(), _server: None }
    }

    fn suffer(&self, event: Event) {
        match event {
            Event::Nothing => {}
            Event::Reload => {
                self.lariat.reload().success();
            }
            Event::Death => {
                self.lariat.kill_worker_process();
                self.lariat.wait_for_metric("lariat_worker_process_restarts_total", &[], 1.0);
            }
            Event::NewKey => {
                fs::write(self.site.path("2.key"), [2; 80]).unwrap();
                let both = keys_of(&self.site, &["2.key", "1.key"], &self.resumption);
                self.lariat.reload_with(&(both + &self.service.toml()));
            }
        }
    }

    /// Returns how many handshakes of this kind the living worker process made.
    fn count(&self, kind: &str) -> f64 {
        let kind = [("kind", kind)];
        self.lariat.sum("lariat_handshakes_total", &kind)
    }

    /// Makes a visit by `openssl s_client` to the server's end.
    fn visit(&self, options: &[&str], more: &[&str]) -> String {
        let options = [&["-ign_eof"], options, more].concat();
        s_client(&self.site, self.service.address, &options).success()
    }

    /// Returns how many visits of some resume the session that is kept.
    fn resumed(&self, options: &[&str]) -> usize {
        let session = self.site.path("session");
        let kept = ["-sess_in", session.to_str().unwrap()];
        let visits = (0..VISITS).map(|_| self.visit(options, &kept));
        visits.filter(|said| is_resumed(said)).count()
    }

    /// Makes a full handshake and keeps its session.
    fn keep(&self, options: &[&str]) {
        let session = self.site.path("session");
        let first = self.visit(options, &["-sess_out", session.to_str().unwrap()]);
        assert!(!is_resumed(&first), "{first}");
    }
}

/// Configures two workers, and ticket keys from these files, the first of which encrypts.
fn keys_of(site: &Site, files: &[&str], resumption: &str) -> String {
    let paths: Vec<_> = files.iter().map(|file| site.path(file)).collect();
    format!("{TWO_WORKERS}[resumption]\ntickets = {{ keys = {paths:?} }}\n{resumption}\n")
}

fn is_resumed(said: &str) -> bool {
    let (new, reused) = (said.contains("\nNew, TLSv"), said.contains("\nReused, TLSv"));
    assert!(new != reused, "{said}");
    reused
}

/// Each kind with the options that make `s_client` use it.
const KINDS: [(&str, &[&str]); 3] =
    [("session-id", &["-tls1_2", "-no_ticket"]), ("ticket", &["-tls1_2"]), ("psk", &["-tls1_3"])];

#[test]
fn openssl_reconnects_with_its_session_id() {
    let host = Host::with("");
    for event in [Event::Nothing, Event::Reload, Event::Death] {
        host.suffer(event);
        let (full, by_id) = (host.count("full"), host.count("session-id"));
        let said =
            s_client(&host.site, host.service.address, &["-reconnect", "-no_ticket", "-tls1_2"]);
        let said = said.success();
        let lines = |begin: &str| said.lines().filter(|line| line.starts_with(begin)).count();
        // One connection, and five more.
        assert_eq!(lines("New, TLSv1.2"), 1, "{said}");
        assert_eq!(lines("Reused, TLSv1.2"), 5, "{said}");
        let now = (host.count("full"), host.count("session-id"));
        assert_eq!(now, (full + 1.0, by_id + 5.0), "{event:?}");
    }
}

#[test]
fn openssl_resumes_what_it_keeps_in_a_file() {
    for (kind, options) in KINDS {
        let host = Host::with("");
        host.keep(options);
        for event in [Event::Nothing, Event::Reload, Event::Death, Event::Reload] {
            host.suffer(event);
            let before = host.count(kind);
            assert_eq!(host.resumed(options), VISITS, "{kind} after {event:?}");
            assert_eq!(host.count(kind), before + VISITS as f64, "{kind}");
        }
    }
}

#[test]
fn openssl_resumes_when_the_clock_has_changed_the_key() {
    let clock = match Clock::prepare() {
        Ok(clock) => clock,
        Err(why) => return eprintln!("skipped: the clock cannot jump here: {why}"),
    };
    let (site, server, service) = set_up(Behaviour::Speak("x".into()));
    let rotation = "[resumption]\ntickets = { rotate = '1m', keep = 10 }\n";
    let toml = format!("{TWO_WORKERS}{rotation}{}", service.toml());
    let lariat = Lariat::start_by(clock.command(&lariat::command()), &toml);
    let host = Host { site, service, lariat, resumption: String::new(), _server: Some(server) };
    let (_, psk) = KINDS[2];
    host.keep(psk);
    let before = host.lariat.ticket_key();
    clock.set(60);
    until_true("another key", || host.lariat.ticket_key() != before);
    assert_eq!(host.resumed(psk), VISITS);
}

#[test]
fn openssl_resumes_nothing_after_the_end() {
    for (kind, options) in KINDS {
        let short = "session-cache = { lifetime = '1s' }\ntickets = { lifetime = '1s' }\n";
        let host = Host::with(&format!("[resumption]\n{short}"));
        host.keep(options);
        until_true("the session to end", || host.resumed(options) == 0);
        let before = host.count(kind);
        assert_eq!(host.resumed(options), 0, "{kind}");
        assert_eq!(host.count(kind), before, "{kind}");
    }
}

/// A plain server where a program waits until an event has happened.
struct Turnstile {
    listener: TcpListener,
    /// Body of the answer to `/`.
    page: String,
}

impl Turnstile {
    fn new(page: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { listener, page: page.to_owned() }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listener.local_addr().unwrap())
    }

    /// Waits for a program at `/turn` and lets it go on after `act`; other paths are answered.
    fn pass(&self, program: &mut Running, act: impl FnOnce()) {
        let mut waiting = until("the program to wait", || {
            program.assert_running();
            let (mut stream, _) = self.listener.accept().ok()?;
            let path = path_asked(&mut stream)?;
            if path == "/turn" {
                return Some(stream);
            }
            let body = if path == "/" { &*self.page } else { "" };
            answer(&mut stream, body);
            None
        });
        act();
        answer(&mut waiting, "");
    }
}

/// Returns a request's path; `None` without a request: browsers connect in advance.
fn path_asked(stream: &mut TcpStream) -> Option<String> {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.extend(byte);
    }
    let line = String::from_utf8_lossy(&head);
    Some(line.split(' ').nth(1)?.to_owned())
}

fn answer(stream: &mut TcpStream, body: &str) {
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close";
    let text = format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}");
    // A client that has gone misses nothing.
    let _gone = stream.write_all(text.as_bytes());
}

/// The events that a host goes through while a program runs.
const EVENTS: [Event; 4] = [Event::Nothing, Event::Reload, Event::Death, Event::NewKey];

/// Checks a program that visits, waits at the turnstile, and visits again: after its actions before
/// the first event, it makes no full handshake.
fn assert_resumes(host: &Host, program: &mut Running, turnstile: &Turnstile, kind: &str) {
    let mut before: Option<(f64, f64)> = None;
    let mut meet = |event| {
        if let Some((full, resumed)) = before {
            until_true(&format!("a resumption before {event:?}"), || host.count(kind) > resumed);
            assert_eq!(host.count("full"), full, "before {event:?}");
        }
        host.suffer(event);
        before = Some((host.count("full"), host.count(kind)));
    };
    for event in EVENTS {
        turnstile.pass(program, || meet(event));
    }
    turnstile.pass(program, || meet(Event::Nothing));
}

#[test]
fn curl_resumes() {
    // In TLS 1.2 it wants no tickets.
    for (versions, kind, resumption) in [
        ("--tlsv1.3", "psk", ""),
        ("--tlsv1.3", "psk-cache", "tls13 = 'cache'"),
        ("--tls-max=1.2", "session-id", ""),
    ] {
        let origin = Origin::start();
        let host = Host::of_origin(&origin, resumption);
        let turnstile = Turnstile::new("");
        let turn = turnstile.url("/turn");
        let port = host.service.address.port();
        let page = format!("https://localhost:{port}/1k?close=1");
        let mut curl = curl_tls(&host.site, host.service.address);
        curl = match versions.split_once('=') {
            Some((flag, version)) => curl.args(&[flag, version]),
            None => curl.args(&[versions]),
        };
        // The first page is kept alive, and closed by the next.
        for _ in 0..=EVENTS.len() {
            curl = curl.args(&[&page, &turn]);
        }
        let mut curl = curl.start();
        assert_resumes(&host, &mut curl, &turnstile, kind);
        assert!(curl.wait().success());
    }
}

#[test]
fn chromium_resumes() {
    let origin = Origin::start();
    let host = Host::of_origin(&origin, "");
    let page = format!(
        "<script>(async () => {{ for (let i = 0; i <= {}; i++) {{\
         await fetch('https://{}/1k?close=1', {{mode: 'no-cors', cache: 'no-store'}});\
         await fetch('/turn', {{cache: 'no-store'}}); }} document.title = 'done'; }})()</script>",
        EVENTS.len(),
        host.service.address
    );
    let turnstile = Turnstile::new(&page);
    // A browser remembers no session of a certificate whose faults it only overlooks.
    let trusted = key_hash(&host.site, "site.pem");
    let mut browser = Browser::start(&turnstile.url("/"), 100_000, &trusted);
    assert_resumes(&host, browser.running(), &turnstile, "psk");
    assert!(browser.document().contains("<title>done</title>"));
}
