//! Requests that try to leave the folder, to confuse, or to wear out.

use std::fs::Permissions;
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
        let lariat = service.start();
        Self { site, base, service, _lariat: lariat }
    }

    /// Returns the whole answer to these bytes and the client's end.
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
        let told = answer.get("HTTP/1.1 ".len()..).and_then(|rest| rest.get(..3));
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
    assert!(scene.answer_to_target(b"/folder/../file").contains("0123456789"));
    assert!(scene.answer_to_target(b"/%66ile?x=/../y").contains("0123456789"));
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
    for target in ["/out", "/absolute", "/folder/further/secret", "/magic/etc/passwd", "/around"] {
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
    // A process that may pass through a folder need not be able to list it.
    closed("folder", 0o711);
    scene.assert_target(b"/folder/inner", &["200"]);
}

/// One row of each kind; the tests of the parsers have more.
#[test]
fn what_is_no_good_request_gets_one_answer_and_no_file() {
    let scene = Scene::new();
    let get = |fields: &str| format!("GET /file HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    let long = get("").replace("file", &"a".repeat(6000));
    for (request, status) in [
        ("hello\r\n\r\n", "400"),
        ("GET /file HTTP/1.1\nHost: localhost\n\n", "400"),
        (&get("X: a\rb\r\n"), "400"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"),
        (&long, "414"),
        (&get(&"X: a\r\n".repeat(101)), "431"),
        (&get(&format!("X: {}\r\n", "a".repeat(100_000))), "431"),
        // Fields that could smuggle the request after it.
        (&get("Transfer-Encoding: chunked\r\n"), "400"),
        (&get("Content-Length: 0, 44\r\n"), "400"),
        (&get("Content-Length: 9999999\r\n"), "413"),
    ] {
        let requests = request.to_owned() + &get("");
        scene.assert_status(requests.as_bytes(), &[status]);
        let answer = scene.answer(requests.as_bytes());
        let has_file = answer.contains("0123456789");
        assert!(!has_file, "{request:.50}: {answer}");
        assert_has(&answer, "Connection: close\r\n");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    }
    let [many, above] = [["0-9"; 500].join(","), format!("8-{}9", u64::MAX)];
    for (range, status, content) in [
        ("10-", "416", "416 Range Not Satisfiable\n"),
        (&above, "206", "89"),
        (&many, "200", "0123456789"),
    ] {
        let request = get(&format!("Range: bytes={range}\r\n"));
        scene.assert_status(request.as_bytes(), &[status]);
        let answer = scene.answer(request.as_bytes());
        assert!(answer.ends_with(&format!("\r\n\r\n{content}")), "{answer}");
    }
}
