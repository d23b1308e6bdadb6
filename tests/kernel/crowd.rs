//! Many connections at once: no descriptor and no buffer stays behind.

use suite::kernel::{Bench, pattern};
use suite::nginx::Nginx;
use suite::prelude::*;
use suite::process::resident_kib;

/// Above the size from which on the kernel encrypts.
const BODY: usize = 160 << 10;

/// Our buffers would hold 256 KiB for each connection; the kernel's are not counted here. A quarter
/// of that leaves ample room for a connection's state.
const GROWTH_KIB_MAX: u64 = 64;

/// Makes all clients connect, then ask, and only then read.
fn crowd(bench: &Bench, count: usize) -> Vec<Connection> {
    let clients = Client::of_each_version(&bench.site);
    let connect = |client: &Client| client.connect(bench.service.address);
    let mut all: Vec<_> = clients.iter().cycle().take(count).map(connect).collect();
    for connection in &mut all {
        connection.ask("body");
    }
    all
}

fn assert_all_are_served(
    bench: &Bench,
    clients: usize,
    descriptors_each: usize,
    descriptors_more: usize,
) {
    let before = bench.descriptors().len();
    let memory = resident_kib(bench.lariat.worker_process());
    let mut all = crowd(bench, clients);
    let most = before + descriptors_each * clients + descriptors_more;
    let body = pattern(BODY);
    for connection in &mut all {
        assert!(connection.response().1 == body);
    }
    let open = bench.descriptors().len();
    assert!(open <= most, "{open} descriptors, {before} before");
    let grown = resident_kib(bench.lariat.worker_process()) - memory;
    assert!(grown < GROWTH_KIB_MAX * clients as u64, "{grown} KiB more");
    assert_eq!(bench.counts().sealing, clients as u64);
    drop(all);
    bench.wait_for_end_of(clients as u32);
    let count = || bench.descriptors().len();
    until_true("as few descriptors as before", || count() <= before + descriptors_more);
}

#[test]
fn a_thousand_clients_get_a_file_at_once() {
    let bench = Bench::files(|service| service);
    bench.folder.write("body", pattern(BODY));
    assert_all_are_served(&bench, 1000, 1, 0);
}

/// Descriptors of the pipes in the worker's pool: two each.
const PIPES: usize = 2 * 64;

#[test]
fn many_relays_share_a_few_pipes() {
    let folder = Directory::new();
    folder.write("body", pattern(BODY));
    let server = Nginx::plain_files(folder.path());
    // Relays are handed over from eight times this on.
    let from = "ktls = { mode = \"auto\", min-size = \"4KiB\" }";
    let bench = Bench::relay(server.address, |service| service.tls(from));
    assert_all_are_served(&bench, 400, 2, PIPES);
}
