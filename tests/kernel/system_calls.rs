//! Number of system calls for a long file, compared with nginx, which also lets the kernel encrypt.
//!
//! The number of `sendfile` calls depends on how fast this kernel encrypts, because others may wait
//! only for a moment during each. So the test counts the other calls per `sendfile`.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;

use rustix::process::Pid;
use suite::curl::curl_tls_for;
use suite::kernel::{Bench, KernelCounts};
use suite::nginx::Nginx;
use suite::program::process_id;
use suite::strace::Strace;

const LENGTH: u64 = 64 << 20;

/// Least mean number of bytes per `sendfile`, however slowly this kernel encrypts.
const PASSED_MIN: u64 = 64 << 10;

/// Calls that the C library makes only where the clock is emulated.
const CLOCKS: [&str; 3] = ["clock_gettime", "gettimeofday", "time"];

/// Counts the calls of a process while a client fetches the file.
fn calls(bench: &Bench, address: SocketAddr, process: Pid) -> BTreeMap<String, u64> {
    let strace = Strace::attach(process);
    let file = bench.site.path("got");
    let curl = curl_tls_for(&bench.site, address, &["longest"]);
    let output = ["--tlsv1.3", "--output", file.to_str().unwrap()];
    curl.args(&output).run().success();
    let calls = strace.end();
    assert_eq!(file.metadata().unwrap().len(), LENGTH);
    calls
}

/// Returns how many other calls each `sendfile` takes.
fn beside_each(calls: &BTreeMap<String, u64>) -> f64 {
    let others = calls.iter().filter(|(name, _)| {
        !CLOCKS.contains(&name.as_str()) && !["total", "sendfile"].contains(&name.as_str())
    });
    let others: u64 = others.map(|(_, count)| count).sum();
    others as f64 / calls["sendfile"] as f64
}

#[test]
fn a_long_file_takes_no_more_calls_beside_each_sendfile_than_nginx_makes() {
    let bench = Bench::files_in_memory();
    let longest = File::create(bench.folder.join("longest")).unwrap();
    longest.set_len(LENGTH).unwrap();
    let ours = calls(&bench, bench.service.address, bench.lariat.worker_process());
    let certificate = bench.site.path("site.pem");
    let directives = "ssl_protocols TLSv1.3; ssl_conf_command Options KTLS; sendfile on;";
    let nginx = Nginx::files(&certificate, bench.folder.path(), directives);
    let before = KernelCounts::read().taken;
    let theirs = calls(&bench, nginx.address, process_id(nginx.id()));
    assert_eq!(KernelCounts::read().taken, before + 1, "the kernel seals for both");
    println!("{ours:?}\nnginx: {theirs:?}");
    assert!(beside_each(&ours) <= beside_each(&theirs));
    let most = LENGTH / PASSED_MIN;
    assert!(ours["sendfile"] <= most, "at most {most} `sendfile`");
}
