//! A peer that never answers (a full pipe, a file that blocks, a full disk) holds up neither
//! the supervisor nor a drain.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use suite::prelude::*;

fn make_pipe(path: &Path) {
    let everybody = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
    mknodat(CWD, path, FileType::Fifo, everybody, 0).unwrap();
}

/// A named pipe that is full, with a reader that reads nothing.
struct FullPipe {
    path: PathBuf,
    _end: File,
}

impl FullPipe {
    fn new(path: PathBuf) -> Self {
        make_pipe(&path);
        let mut options = OpenOptions::new();
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
        let options = options.read(true).write(true).custom_flags(flags);
        let mut end = options.open(&path).unwrap();
        for bytes in [4096, 1] {
            while end.write_all(&vec![b'\n'; bytes]).is_ok() {}
        }
        let full = end.write(b"\n").unwrap_err();
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        Self { path, _end: end }
    }
}

fn is_served(site: &Site, service: &Service) {
    let mut connection = Client::new(site).echo(service.address);
    connection.end();
}

#[test]
fn a_full_pipe_on_the_standard_error_holds_nobody() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let full = FullPipe::new(site.path("stderr"));
    let mut lariat = Lariat::start_with_stderr(&full.path, &service.toml());
    is_served(&site, &service);
    lariat.kill_worker_process();
    lariat.wait_for_metric("lariat_worker_process_restarts_total", &[], 1.0);
    is_served(&site, &service);
    site.write("site.pem", "no certificate");
    assert_eq!(lariat.reload().code(), 5, "it is refused, and that is heard");
    is_served(&site, &service);
    lariat.stop();
}

#[test]
fn a_certificate_that_is_a_pipe_is_refused_and_holds_nobody() {
    let (site, _server, service, mut lariat) = serve(Behaviour::Echo);
    fs::rename(site.path("site.pem"), site.path("kept.pem")).unwrap();
    make_pipe(&site.path("site.pem"));
    let refused = lariat.reload();
    assert_eq!(refused.code(), 5, "{refused:?}");
    for part in ["it is a named pipe", "site.pem", "hint: "] {
        assert!(refused.stderr.contains(part), "no {part} in {refused:?}");
    }
    is_served(&site, &service);
    fs::rename(site.path("kept.pem"), site.path("site.pem")).unwrap();
    lariat.reload().success();
    is_served(&site, &service);
    lariat.stop();
}

#[test]
fn lines_that_a_full_disk_does_not_take_are_counted_and_said() {
    let (site, _server, service, lariat) = serve_with("output = \"/dev/full\"", Behaviour::Echo);
    is_served(&site, &service);
    until_true("the loss to be counted", || {
        let metrics = lariat.metrics();
        metrics.sum("lariat_log_lost_bytes_total", &[]) > 0.0
    });
    let metrics = lariat.metrics();
    assert_eq!(metrics.sum("lariat_log_write_failing", &[]), 1.0);
    let failure = lariat.status()["log_failure"].clone();
    let failure = failure.as_str().unwrap();
    assert_has(failure, "No space left on device");
    lariat.wait_for_stderr("warning: the log cannot be written: No space left on device");
    lariat.reload_with(&service.toml());
    is_served(&site, &service);
    lariat.wait_for_metric("lariat_log_write_failing", &[], 0.0);
}

#[test]
fn a_log_that_blocks_does_not_hold_a_drain() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let full = FullPipe::new(site.path("log"));
    let text = format!("output = {:?}\n[process]\ndrain = \"1h\"\n{}", full.path, service.toml());
    let mut lariat = Lariat::start(&text);
    is_served(&site, &service);
    lariat.wait_for_reason("client-closed", 1);
    lariat.signal(Signal::TERM);
    // The drain's time is longer than any test's timeout.
    lariat.assert_ends();
}
