//! Files and clients that change while a response is under way.

use std::fs::File;

use rustix::net::sockopt::set_socket_linger;
use suite::prelude::*;
use suite::process::open_files;

/// More than all buffers between a server and a client that does not read.
const LARGE_BYTES: u64 = 64 << 20;

struct Scene {
    site: Site,
    base: Directory,
    service: Service,
    lariat: Lariat,
}

impl Scene {
    fn new() -> Self {
        Self::of(Lariat::start)
    }

    fn of(start: impl FnOnce(&str) -> Lariat) -> Self {
        let (site, base) = (Site::new(), Directory::new());
        base.write("files/small", "small");
        let large = File::create(base.join("files/large")).unwrap();
        // Zeros that take no room.
        large.set_len(LARGE_BYTES).unwrap();
        let service = Service::files(&site, &base.join("files"));
        let lariat = start(&service.toml());
        Self { site, base, service, lariat }
    }

    /// Makes a connection that has the head of the large file.
    fn promised(&self) -> Connection {
        let mut connection = self.connect();
        connection.ask("large");
        let head = connection.head();
        assert_has(&head, &format!("Content-Length: {LARGE_BYTES}\r\n"));
        connection
    }

    fn connect(&self) -> Connection {
        Client::new(&self.site).connect(self.service.address)
    }

    fn small(&self) -> String {
        curl_tls_for(&self.site, self.service.address, &["small"]).run().success()
    }

    /// Returns the files that the worker process has open, without sockets.
    fn open_files(&self) -> Vec<PathBuf> {
        let links = self.links().into_iter();
        let folder = self.base.join("files");
        links.filter(|target| target.starts_with(&folder) && *target != folder).collect()
    }

    fn links(&self) -> Vec<PathBuf> {
        open_files(self.lariat.worker_process())
    }
}

#[test]
fn a_file_that_becomes_shorter_cuts_the_connection() {
    let scene = Scene::new();
    let mut connection = scene.promised();
    let large = File::options().write(true).open(scene.base.join("files/large"));
    large.unwrap().set_len(1 << 20).unwrap();
    let mut received = Vec::new();
    let error = connection.read_on(&mut received).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "no close_notify");
    assert!((received.len() as u64) < LARGE_BYTES && received.iter().all(|&byte| byte == 0));
    scene.lariat.wait_for_reason("file-failed", 1);
    assert_eq!(scene.small(), "small");
}

#[test]
fn a_file_that_is_replaced_is_sent_as_it_was() {
    let scene = Scene::new();
    let mut connection = scene.promised();
    scene.base.write("files/other", vec![1; 1000]);
    fs::rename(scene.base.join("files/other"), scene.base.join("files/large")).unwrap();
    let mut left = LARGE_BYTES;
    while left > 0 {
        let count = left.min(1 << 20) as usize;
        assert!(connection.receive(count).iter().all(|&byte| byte == 0));
        left -= count as u64;
    }
    assert_eq!(connection.fetch("large"), [1; 1000]);
}

#[test]
fn a_folder_that_vanishes_has_nothing() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.base.join("files")).unwrap();
    let arguments = ["--no-fail", "--include"];
    let curl = || curl_tls_for(&scene.site, scene.service.address, &["small"]).args(&arguments);
    assert!(curl().run().success().starts_with("HTTP/1.1 404 "));
    // A new folder of that name is not the served one.
    scene.base.write("files/small", "other");
    assert!(curl().run().success().starts_with("HTTP/1.1 404 "));
}

#[test]
fn nobody_waits_for_a_client_that_reads_nothing() {
    let scene = Scene::new();
    let stalled: Vec<_> = (0..20).map(|_| scene.promised()).collect();
    assert_eq!(scene.small(), "small");
    for connection in stalled {
        // The client resets in mid-file, with bytes unread.
        set_socket_linger(connection.socket(), Some(Duration::ZERO)).unwrap();
        let _whatever = connection.socket().read(&mut [0; 100]);
        drop(connection);
    }
    scene.lariat.wait_for_metric("lariat_connections_open", &[], 0.0);
    assert_eq!(scene.small(), "small");
}

#[test]
fn a_connection_at_rest_holds_no_file() {
    if !geteuid().is_root() {
        // Only root may look into the worker process.
        return;
    }
    let scene = Scene::new();
    let mut resting = Vec::new();
    for path in ["/small", "/missing", "/"] {
        let mut connection = scene.connect();
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        connection.response();
        resting.push(connection);
    }
    let mut connection = scene.connect();
    connection.send(b"HEAD /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    connection.head();
    resting.push(connection);
    until_true("all files to be closed", || scene.open_files().is_empty());
    let stalled = scene.promised();
    assert_eq!(scene.open_files(), [scene.base.join("files/large")]);
    drop(stalled);
    until_true("the file to be closed", || scene.open_files().is_empty());
}

#[test]
fn no_descriptor_is_lost_where_they_are_few() {
    if !geteuid().is_root() {
        return;
    }
    let scene = Scene::of(|configuration| Lariat::start_within(256, configuration));
    assert_eq!(scene.small(), "small");
    scene.lariat.wait_for_metric("lariat_connections_open", &[], 0.0);
    let before = scene.links().len();
    let mut refused = 0;
    for round in 0..3 {
        let mut open = Vec::new();
        for _ in 0..160 {
            // Each takes a socket and a file: there is no room for all.
            let Ok(mut connection) = Client::new(&scene.site).try_connect(scene.service.address)
            else {
                refused += 1;
                continue;
            };
            connection.ask("large");
            let status = connection.head();
            assert!(
                ["HTTP/1.1 200 ", "HTTP/1.1 503 "].iter().any(|one| status.starts_with(one)),
                "{status}"
            );
            refused += usize::from(status.starts_with("HTTP/1.1 503 "));
            open.push(connection);
        }
        assert!(refused > round, "the limit was never reached");
        // Half of them end by a reset.
        for connection in open.iter().step_by(2) {
            set_socket_linger(connection.socket(), Some(Duration::ZERO)).unwrap();
        }
        drop(open);
        until_true("descriptors to be given back", || scene.links().len() <= before);
        assert_eq!(scene.small(), "small");
    }
}

#[test]
fn a_client_that_dribbles_is_answered() {
    let scene = Scene::new();
    let mut connection = scene.connect();
    for byte in b"GET /small HTTP/1.1\r\nHost: localhost\r\n\r\n" {
        connection.send(&[*byte]);
    }
    assert_eq!(connection.response().1, b"small");
    let mut socket = connection.socket();
    // Invalid even as TLS: the connection ends, the next one does not suffer.
    socket.write_all(&[0; 100]).unwrap();
    scene.lariat.wait_for_metric("lariat_connections_open", &[], 0.0);
    assert_eq!(scene.small(), "small");
}
