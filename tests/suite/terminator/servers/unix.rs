//! Servers on Unix sockets, by path and in the abstract name space.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use suite::prelude::*;

#[test]
fn a_server_on_a_path() {
    let site = Site::new();
    let path = site.path("app.sock");
    let server = Server::start_unix(&path, http());
    fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    let service = Service::new(&site, &server);
    let _lariat = service.start();
    assert_eq!(curl_tls(&site, service.address).run().success(), "hello");
}

#[test]
fn a_server_on_an_abstract_name() {
    let site = Site::new();
    let server = Server::start_abstract(&format!("lariat-test-{}", std::process::id()), http());
    let service = Service::new(&site, &server);
    let _lariat = service.start();
    assert_eq!(curl_tls(&site, service.address).run().success(), "hello");
}

/// The queue of a server is full: connections wait for it, or go to another one, and it is not
/// ejected.
#[test]
fn a_server_that_is_busy_is_not_taken_for_dead() {
    let site = Site::new();
    let (first, second) = (site.path("busy.sock"), site.path("backup.sock"));
    let busy = UnixListener::bind(&first).unwrap();
    rustix::net::listen(&busy, 0).unwrap();
    let in_queue = UnixStream::connect(&first).unwrap();
    let backup = Server::start_unix(&second, http());
    for path in [&first, &second] {
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    }
    let (first, second) = (format!("unix:{}", first.display()), backup.address());
    let service = Service::new(&site, &backup);
    let both = format!("['{first}', {{ address = '{second}', backup = true }}]");
    let lariat = Lariat::start(&service.clone().servers(&both).toml());
    let server = [("server", &*first)];
    for _ in 0..4 {
        assert_eq!(curl_tls(&site, service.address).run().success(), "hello");
    }
    let metrics = lariat.metrics();
    let kind = [("server", &*first), ("kind", "busy")];
    assert_eq!(metrics.sum("lariat_dial_failures_total", &kind), 4.0);
    assert_eq!(metrics.sum("lariat_server_up", &server), 1.0);
    // Without another server a connection waits until there is room.
    lariat.reload_with(&service.clone().servers(&format!("['{first}']")).toml());
    let (address, lariat) = (service.address, &lariat);
    let answer = thread::scope(|scope| {
        let curl = scope.spawn(|| curl_tls(&site, address).run().success());
        lariat.wait_for_metric_from("lariat_dial_failures_total", &kind, 5.0);
        drop(in_queue);
        drop(busy.accept().unwrap());
        let mut stream = busy.accept().unwrap().0;
        stream.read_exact(&mut [0; 4]).unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate";
        stream.write_all(answer).unwrap();
        curl.join().unwrap()
    });
    assert_eq!(answer, "late");
}
