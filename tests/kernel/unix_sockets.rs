//! Unix sockets beside the kernel's TLS: a server's can be spliced from, a client's we encrypt.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use suite::kernel::{Bench, LARGE, pattern};
use suite::prelude::*;

#[test]
fn a_server_on_a_unix_socket_is_spliced_from() {
    let body = pattern(8 << 20);
    let place = Directory::new();
    let path = place.join("server");
    let server = Server::start_unix(&path, Behaviour::Speak(body.clone()));
    // The worker process is another user.
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let bench = Bench::relay(&server, |service| service);
    for client in Client::of_each_version(&bench.site) {
        let mut connection = client.connect(bench.service.address);
        assert!(connection.read_to_end().unwrap() == body);
    }
    bench.wait_for_end_of(2);
    assert!(bench.sent("splice") > body.len() as f64);
}

#[test]
fn a_client_on_a_unix_socket_is_served_from_user_space() {
    let place = Directory::new();
    let front = place.join("front");
    let listen = format!("[{:?}]", format!("unix:{}", front.display()));
    let bench = Bench::files(|service| service.listen(&listen));
    let [front, ca] = &[front, bench.site.ca()].map(|path| path.display().to_string());
    let client = curl().args(&["--unix-socket", front, "--cacert", ca]);
    assert!(client.url("https://localhost/large").bytes() == pattern(LARGE));
    bench.wait_for_end_of(0);
    assert!(bench.sent("user-space") >= LARGE as f64);
    let failed = [("reason", "failed")];
    let metrics = bench.lariat.metrics();
    assert_eq!(metrics.sum("lariat_ktls_refusals_total", &failed), 1.0);
}
