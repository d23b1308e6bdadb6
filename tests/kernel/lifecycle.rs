//! Reloads and deaths while the kernel encrypts.

use suite::kernel::{Bench, KernelCounts, LARGE, pattern};
use suite::prelude::*;

const HUGE: usize = 32 << 20;

fn assert_served(bench: &Bench) {
    let mut connection = Client::new(&bench.site).connect(bench.service.address);
    assert!(connection.fetch("large") == pattern(LARGE));
}

#[test]
fn a_reload_touches_no_connection() {
    let bench = Bench::files(|service| service);
    bench.folder.write("huge", pattern(HUGE));
    let mut connection = Client::new(&bench.site).connect(bench.service.address);
    connection.ask("huge");
    bench.wait_for_taken(1);
    let off = bench.service.clone().tls("ktls = \"off\"");
    let one_worker = "[workers]\nthreads = 1\n";
    bench.lariat.configure(&format!("{one_worker}{}", off.toml()));
    bench.lariat.reload().success();
    // The new plan is for new connections.
    assert_served(&bench);
    assert_eq!(bench.counts().taken, 1);
    connection.head();
    assert!(connection.receive(HUGE) == pattern(HUGE));
    connection.ask("large");
    assert!(connection.response().1 == pattern(LARGE), "still by the old plan");
    drop(connection);
    bench.wait_for_end_of(1);
}

#[test]
fn a_worker_process_that_dies_makes_no_clean_end_and_the_next_one_serves() {
    let bench = Bench::files(|service| service);
    bench.folder.write("huge", pattern(HUGE));
    let mut connection = Client::new(&bench.site).connect(bench.service.address);
    connection.ask("huge");
    connection.head();
    bench.wait_for_taken(1);
    let first = bench.lariat.worker_process();
    kill_process(first, Signal::KILL).unwrap();
    let mut got = Vec::new();
    connection.read_to_cut(&mut got);
    assert!(got == pattern(got.len()) && got.len() < HUGE);
    assert_served(&bench);
    assert_ne!(bench.lariat.worker_process(), first);
    assert_eq!(bench.counts().taken, 2);
    until_true("the kernel to seal for nobody", || KernelCounts::read().sealing == 0);
}

#[test]
fn a_drain_waits_for_what_the_kernel_sends() {
    let mut bench = Bench::files(|service| service);
    bench.folder.write("huge", pattern(HUGE));
    let mut connection = Client::new(&bench.site).connect(bench.service.address);
    connection.ask("huge");
    bench.wait_for_taken(1);
    bench.lariat.signal(Signal::TERM);
    until("the listener to close", || TcpStream::connect(bench.service.address).err());
    connection.head();
    assert!(connection.receive(HUGE) == pattern(HUGE));
    connection.end();
    assert_eq!(connection.read_to_end().unwrap(), b"", "close_notify");
    bench.lariat.assert_ends();
    assert_eq!((bench.counts().taken, bench.counts().sealing), (1, 0));
}
