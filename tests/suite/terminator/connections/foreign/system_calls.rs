//! Number of system calls for a new connection with one exchange.

use std::collections::BTreeMap;

use suite::prelude::*;
use suite::strace::Strace;
use suite::stunnel::Stunnel;

const CONNECTIONS: u64 = 20;

/// Largest numbers of calls of a connection, of those that do not depend on how its bytes come in.
/// A call of accept4 may find nothing more; a server may end before its client.
const MOST: [(&str, u64); 7] = [
    ("accept4", 2),
    ("socket", 1),
    ("connect", 1),
    ("getpeername", 1),
    ("epoll_ctl", 2),
    ("shutdown", 2),
    ("close", 2),
];

/// Counts the calls of the worker process for a number of visits, one after the other.
fn calls(lariat: &Lariat, visit: impl Fn()) -> BTreeMap<String, u64> {
    // Calls that are made once, and not for each.
    visit();
    lariat.wait_for_metric("lariat_connections_open", &[], 0.0);
    let strace = Strace::attach(lariat.worker_process());
    (0..CONNECTIONS).for_each(|_| visit());
    lariat.wait_for_metric("lariat_connections_open", &[], 0.0);
    strace.end()
}

fn echo(address: SocketAddr) {
    let mut client = tcp(address);
    client.write_all(b"x").unwrap();
    client.read_exact(&mut [0]).unwrap();
}

#[test]
fn a_connection_of_each_kind_takes_no_more_calls_than_it_must() {
    let site = Site::new();
    let plain = Server::start(Behaviour::Echo);
    let stunnel = Stunnel::terminate(&site.path("site.pem"), plain.address(), "");
    let to_stunnel = Service::new(&site, stunnel.address);
    let verifying = format!("tls = {{ ca = [{:?}] }}", site.ca());
    let client = Client::new(&site);
    // TCP_NODELAY; where we send first also TCP_QUICKACK. SO_LINGER is of a connection that one
    // side breaks off.
    for (service, is_tls, options) in [
        (to_stunnel.clone().mode("passthrough"), true, 2),
        (to_stunnel.mode("off").back(&verifying), false, 3),
        (Service::new(&site, &plain), true, 2),
    ] {
        let lariat = service.start();
        let calls = calls(&lariat, || {
            if is_tls {
                client.visit(service.address);
            } else {
                echo(service.address);
            }
        });
        for (name, most) in MOST.iter().chain(&[("setsockopt", options)]) {
            let count = calls.get(*name).copied().unwrap_or(0);
            // The metrics queried meanwhile cause a few calls.
            let others = CONNECTIONS / 2;
            assert!(count <= most * CONNECTIONS + others, "{name}: {calls:?}");
        }
    }
}
