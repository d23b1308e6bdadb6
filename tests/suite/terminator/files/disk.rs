//! Files on disks that are slow, or do not answer at all.

use std::fs::File;

use rustix::fs::{Advice, fadvise, statfs};
use suite::fuse::{Fuse, Temper};
use suite::prelude::*;

const FILES: &[(&str, Temper, &[u8])] = &[
    ("prompt", Temper::Prompt, b"prompt"),
    ("slow", Temper::HoldsBytes, &[7; 1_000_000]),
    ("stuck", Temper::HoldsOpening, b"stuck"),
];

/// A folder with a file system in it that hangs; one worker, and a relay beside it.
struct Scene {
    site: Site,
    service: Service,
    relay: Service,
    fuse: Fuse,
    lariat: Lariat,
    _folder: Directory,
    _server: Server,
}

impl Scene {
    /// Makes the scene; `None` = this machine cannot have it.
    fn new(process: &str, timeouts: &str) -> Option<Self> {
        let (site, folder) = (Site::new(), Directory::new());
        folder.write("words.txt", "0123456789");
        let fuse = Fuse::mount(&folder.join("far"), FILES)?;
        let server = Server::start(Behaviour::Echo);
        let service = Service::files(&site, folder.path()).more(timeouts);
        let relay = Service::new(&site, &server).named("relay");
        let lariat = Lariat::start(&format!(
            "[workers]\nthreads = 1\n{process}\n{}{}",
            service.toml(),
            relay.toml()
        ));
        Some(Self { site, service, relay, fuse, lariat, _folder: folder, _server: server })
    }

    fn ask(&self, path: &str) -> Connection {
        let mut connection = Client::new(&self.site).connect(self.service.address);
        connection.send(get(path).as_bytes());
        connection
    }

    /// Checks that everything goes on that does not wait for that disk.
    fn assert_others_go_on(&self) {
        assert_eq!(self.ask("words.txt").response().1, b"0123456789");
        let mut relayed = Client::new(&self.site).connect(self.relay.address);
        relayed.send(b"relayed");
        assert_eq!(relayed.receive(7), b"relayed");
    }

    fn wait_for_tasks(&self, count: u32) {
        let name = "lariat_file_tasks_waiting";
        self.lariat.wait_for_metric(name, &[], f64::from(count));
    }
}

fn get(path: &str) -> String {
    format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

#[test]
fn a_disk_that_does_not_answer_holds_nobody_else_up() {
    let Some(scene) = Scene::new("", "") else {
        return;
    };
    assert_eq!(scene.ask("far/prompt").response().1, b"prompt");
    let (mut slow, mut stuck) = (scene.ask("far/slow"), scene.ask("far/stuck"));
    assert!(slow.head().contains("Content-Length: 1000000\r\n"));
    until_true("both to be asked for", || scene.fuse.held() >= 2);
    scene.wait_for_tasks(2);
    scene.assert_others_go_on();
    // A client that leaves meanwhile is forgotten.
    drop(scene.ask("far/stuck"));
    scene.fuse.release();
    assert!(slow.receive(1_000_000) == [7; 1_000_000]);
    assert_eq!(stuck.response().1, b"stuck");
    scene.wait_for_tasks(0);
    assert_eq!(scene.ask("far/slow").response().1.len(), 1_000_000);
}

#[test]
fn what_the_disk_does_not_give_in_time_is_not_waited_for() {
    let Some(scene) = Scene::new("", "timeouts = { file = '300ms' }") else {
        return;
    };
    let mut stuck = scene.ask("far/stuck");
    let (head, _) = stuck.response();
    assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
    stuck.send(get("words.txt").as_bytes());
    assert_eq!(stuck.response().1, b"0123456789", "the connection goes on");
    let mut slow = scene.ask("far/slow");
    slow.head();
    slow.read_to_cut(&mut Vec::new());
    scene.lariat.wait_for_reason("file-timeout", 1);
    // Half of the threads are stuck by now: new requests are refused, and the others go on.
    let (head, _) = scene.ask("far/prompt").response();
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    scene.assert_others_go_on();
    let refused = [("kind", "refused")];
    scene.lariat.wait_for_metric("lariat_file_task_failures_total", &refused, 1.0);
    scene.fuse.release();
    until_true("the disk to be used again", || {
        let (head, body) = scene.ask("far/prompt").response();
        head.starts_with("HTTP/1.1 200 ") && body == b"prompt"
    });
}

#[test]
fn a_drain_does_not_wait_for_a_disk() {
    let Some(mut scene) = Scene::new("[process]\ndrain = '100ms'", "") else {
        return;
    };
    let mut stuck = scene.ask("far/stuck");
    let mut slow = scene.ask("far/slow");
    slow.head();
    scene.wait_for_tasks(2);
    until_true("both to be asked for", || scene.fuse.held() >= 2);
    scene.lariat.signal(Signal::TERM);
    let _cut = (stuck.read_to_end(), slow.read_to_end());
    scene.lariat.assert_ends();
}

#[test]
fn what_is_not_in_memory_comes_whole() {
    let (site, folder) = (Site::new(), Directory::new());
    let content: Vec<u8> = (0..8_000_001_u32).map(|n| (n % 251) as u8).collect();
    let path = folder.write("cold.bin", &content);
    let service = Service::files(&site, folder.path());
    let lariat = service.start_with("[workers]\nthreads = 1");
    forget(&path);
    assert!(curl_tls_for(&site, service.address, &["cold.bin"]).bytes() == content);
    if !is_in_memory(folder.path()) {
        let read = [("task", "read")];
        assert!(lariat.sum("lariat_file_tasks_total", &read) > 0.0);
    }
}

/// Makes the kernel drop a file's cached pages.
fn forget(path: &Path) {
    let file = File::open(path).expect("the file is there");
    file.sync_all().expect("it is written");
    fadvise(&file, 0, None, Advice::DontNeed).expect("the kernel takes advice");
}

/// Reports whether files there are on no disk (tmpfs).
fn is_in_memory(folder: &Path) -> bool {
    statfs(folder).expect("it is there").f_type as u64 == 0x0102_1994
}
