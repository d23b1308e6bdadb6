//! Lariat decrypts servers' records itself, because that takes fewer calls than if the kernel
//! decrypted them.

use std::fs::File;

use suite::kernel::Bench;
use suite::nginx::Nginx;
use suite::prelude::*;
use suite::strace::Strace;

const MEBIBYTES: u64 = 32;

/// A record holds 16 KiB.
const RECORDS: u64 = MEBIBYTES << 6;

/// Counts the calls of a program that receives this much from the kernel, decrypted.
fn by_kernel(way: &str) -> u64 {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/kernel/receiving.py");
    let mut command = Command::new("python3");
    command.args([script, way, &MEBIBYTES.to_string()]);
    run(&mut command).success().trim().parse().unwrap()
}

/// Counts the calls of Lariat that receive this much from a server with TLS, and all of its calls.
fn by_us(front: &str) -> (u64, u64) {
    let (site, folder) = (Site::new(), Directory::in_memory());
    let long = File::create(folder.join("long")).unwrap();
    long.set_len(MEBIBYTES << 20).unwrap();
    let nginx = Nginx::files(&site.path("site.pem"), folder.path(), "");
    let tls = format!("tls = {{ ca = [{:?}], name = 'localhost' }}", site.ca());
    let bench = Bench::relay(nginx.address, |service| {
        let service = service.back(&tls);
        if front == "off" { service.mode("off") } else { service.tls("ktls = 'off'") }
    });
    let get = |file: &str| match front {
        "off" => curl().url(&format!("http://{}/{file}", bench.service.address)),
        _ => curl_tls_for(&bench.site, bench.service.address, &[file]),
    };
    let strace = Strace::attach(bench.lariat.worker_process());
    get("long").args(&["--output", "/dev/null"]).run().success();
    let calls = strace.end();
    let receiving = ["recvfrom", "read", "recvmsg"];
    let receiving = receiving.iter().filter_map(|name| calls.get(*name)).sum();
    (receiving, calls["total"])
}

#[test]
fn records_of_servers_take_fewer_calls_than_if_the_kernel_decrypted_them() {
    let (spliced, received) = (by_kernel("splice"), by_kernel("recv"));
    let per_mebibyte = |calls: u64| calls as f64 / MEBIBYTES as f64;
    println!("calls per MiB of {MEBIBYTES} MiB of a server with TLS:");
    println!("  kernel, splice: {:.1} to receive", per_mebibyte(spliced));
    println!("  kernel, recv: {:.1} to receive", per_mebibyte(received));
    // Bytes that are not spliced have to be sent as well, however they were decrypted.
    assert!(spliced >= RECORDS, "it now gives more than a record at a time");
    for front in ["off", "terminate"] {
        let (receiving, all) = by_us(front);
        println!(
            "  Lariat, front.tls = {front}: {:.1} to receive, {:.1} in all",
            per_mebibyte(receiving),
            per_mebibyte(all)
        );
        assert!(all < spliced, "{all}");
    }
}
