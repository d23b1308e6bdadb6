//! Requests that try to leave the folder, to confuse, or to wear out.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use suite::prelude::*;

const SECRET: &str = "not for you";

/// The folder `public` is served; beside it lies a secret.
struct Scene {
    site: Site,
    base: Directory,
    service: Service,
    _lariat: Lariat,
}

impl Scene {
    fn new() -> Self {
        let (site, base) = (Site::new(), Directory::new());
        base.write("secret", SECRET);
        base.write("public/file", "0123456789");
        base.write("public/folder/inner", "inner");
        base.write("public/.hidden", SECRET);
        base.write("public/.git/config", SECRET);
        let service = Service::files(&site, &base.join("public"));
        let lariat = Lariat::start(&service.toml());
        Self {
            site,
            base,
            service,
            _lariat: lariat,
        }
    }

    /// All that comes as answer to these bytes, which are all that is sent.
    fn answer(&self, bytes: &[u8]) -> String {
        let mut connection = Client::new(&self.site).connect(self.service.address);
        connection.send(bytes);
        connection.end();
        let answer = connection.read_to_end();
        let answer = answer.unwrap_or_else(|error| panic!("{error}: {}", bytes.escape_ascii()));
        String::from_utf8(answer).unwrap()
    }

    fn answer_to_target(&self, target: &[u8]) -> String {
        let head = b" HTTP/1.1\r\nHost: localhost\r\n\r\n";
        self.answer(&[b"GET ", target, head].concat())
    }

    fn assert_status(&self, request: &[u8], status: &[&str]) {
        let answer = self.answer(request);
        let told = answer
            .get("HTTP/1.1 ".len()..)
            .and_then(|rest| rest.get(..3));
        assert!(
            told.is_some_and(|told| status.contains(&told)),
            "{}: {answer}",
            request.escape_ascii()
        );
        assert!(!answer.contains(SECRET), "{}", request.escape_ascii());
    }

    fn assert_target(&self, target: &[u8], status: &[&str]) {
        let head = b" HTTP/1.1\r\nHost: localhost\r\n\r\n";
        self.assert_status(&[b"GET ", target, head].concat(), status);
    }
}

#[test]
fn no_path_leaves_the_folder() {
    let scene = Scene::new();
    let targets: &[&[u8]] = &[
        b"/../secret",
        b"/folder/../../secret",
        b"/%2e%2e/secret",
        b"/%2E%2e%2fsecret",
        b"/..%2fsecret",
        b"/..%5csecret",
        b"/..\\secret",
        b"/%252e%252e/secret",
        b"/%c0%ae%c0%ae/secret",
        b"/%c0%ae%c0%ae%c0%afsecret",
        b"/.%00./secret",
        b"/file%00",
        b"/file%00.html",
        b"//../secret",
        b"/./../secret",
        b"/folder/..;/secret",
        b"/%2fetc/passwd",
        b"//etc/passwd",
        b"/\xff\xfe/../../secret",
        b"/%u002e%u002e/secret",
        b"/%",
        b"/%4",
        b"/%zz",
        b"/.hidden",
        b"/.git/config",
        b"/%2egit/config",
        b"http://localhost/../secret",
    ];
    for target in targets {
        scene.assert_target(target, &["400", "404"]);
    }
    assert!(
        scene
            .answer_to_target(b"/folder/../file")
            .contains("0123456789")
    );
    assert!(
        scene
            .answer_to_target(b"/%66ile?x=/../y")
            .contains("0123456789")
    );
}

#[test]
fn no_link_leaves_the_folder() {
    let scene = Scene::new();
    let public = |name: &str| scene.base.join("public").join(name);
    symlink("../secret", public("out")).unwrap();
    symlink(scene.base.join("secret"), public("absolute")).unwrap();
    symlink("..", public("folder/up")).unwrap();
    symlink("../..", public("folder/further")).unwrap();
    symlink("/proc/self/root", public("magic")).unwrap();
    symlink("around", public("around")).unwrap();
    for target in [
        "/out",
        "/absolute",
        "/folder/further/secret",
        "/magic/etc/passwd",
        "/around",
    ] {
        scene.assert_target(target.as_bytes(), &["404"]);
    }
    let within = scene.answer_to_target(b"/folder/up/file");
    assert!(within.ends_with("0123456789"), "{within}");
}

#[test]
fn what_is_no_file_is_not_served_and_stops_nobody() {
    let scene = Scene::new();
    let pipe = scene.base.join("public/pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::ROTH, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scene.base.join("public/socket")).unwrap();
    for _ in 0..3 {
        scene.assert_target(b"/pipe", &["404"]);
        scene.assert_target(b"/socket", &["404"]);
    }
    scene.assert_target(b"/file", &["200"]);
}

#[test]
fn what_the_worker_process_may_not_read_is_forbidden() {
    let scene = Scene::new();
    let closed = |name: &str, mode| {
        let path = scene.base.join("public").join(name);
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    closed("file", 0o000);
    scene.assert_target(b"/file", &["403"]);
    closed("folder", 0o000);
    scene.assert_target(b"/folder/inner", &["403"]);
    scene.assert_target(b"/folder/", &["403"]);
    // Who may pass through a folder need not be able to list it.
    closed("folder", 0o711);
    scene.assert_target(b"/folder/inner", &["200"]);
}

#[test]
fn heads_that_are_malformed_are_refused() {
    let scene = Scene::new();
    let bad: &[&[u8]] = &[
        b"hello\r\n\r\n",
        b"GET /file\r\n\r\n",
        b"GET /file HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET file HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /fi le HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /file HTTP/1.1\r\n\r\n",
        b"GET /file HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /file HTTP/1.1\r\nHost: local\0host\r\n\r\n",
        b"GET /file HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET /file HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n",
        b"GET /file HTTP/1.1\nHost: localhost\n\n",
        b"GET /file HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n\r\n\r\nGET /file HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ];
    for request in bad {
        scene.assert_status(request, &["400", "505"]);
        assert!(!scene.answer(request).contains("0123456789"));
    }
}

#[test]
fn what_could_smuggle_a_request_ends_the_connection() {
    let scene = Scene::new();
    let inner = "GET /file HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for field in [
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding : chunked",
        "Content-Length: 3\r\nTransfer-Encoding: chunked",
        "Content-Length: 0\r\nContent-Length: 44",
        "Content-Length: 0, 44",
        "Content-Length: +3",
        "Content-Length: -1",
        "Content-Length: 0x3",
        "Content-Length: 99999999999999999999999",
    ] {
        let outer = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{field}\r\n\r\n{inner}");
        let answer = scene.answer(outer.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 4"), "{field}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{field}: {answer}");
        assert!(
            answer.contains("Connection: close\r\n"),
            "{field}: {answer}"
        );
    }
    let too_long =
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n{inner}");
    scene.assert_status(too_long.as_bytes(), &["413"]);
}

#[test]
fn heads_that_are_too_long_are_refused() {
    let scene = Scene::new();
    let target = format!("/{}", "a".repeat(6000));
    scene.assert_target(target.as_bytes(), &["414"]);
    let field = format!("X: {}\r\n", "a".repeat(100));
    for count in [101, 1000] {
        let fields = field.repeat(count);
        let head = format!("GET /file HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
        scene.assert_status(head.as_bytes(), &["431"]);
    }
}

#[test]
fn ranges_that_overflow_harm_nothing() {
    let scene = Scene::new();
    let answer = |range: &str| {
        let head = format!("GET /file HTTP/1.1\r\nHost: localhost\r\nRange: {range}\r\n\r\n");
        scene.answer(head.as_bytes())
    };
    let huge = u64::MAX;
    for range in [
        "bytes=10-",
        "bytes=99-100",
        &format!("bytes={huge}-"),
        "bytes=-0",
    ] {
        let answer = answer(range);
        assert!(answer.starts_with("HTTP/1.1 416 "), "{range}: {answer}");
    }
    for (range, part) in [
        (format!("bytes=8-{huge}"), "89"),
        (format!("bytes=-{huge}"), "0123456789"),
        (format!("bytes=0-{huge}999"), "0123456789"),
    ] {
        let answer = answer(&range);
        assert!(
            answer.ends_with(&format!("\r\n\r\n{part}")),
            "{range}: {answer}"
        );
    }
    // Not understood, or more than is sensible: the whole file, which is always right.
    let many = format!("bytes={}", ["0-9"; 500].join(","));
    for range in ["bytes=5-2", "lines=1-2", "bytes=a-b", &many] {
        let answer = answer(range);
        let is_whole = answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("0123456789");
        assert!(
            is_whole || answer.starts_with("HTTP/1.1 416 "),
            "{range}: {answer}"
        );
        assert!(answer.len() < 4000, "{range}");
    }
}
