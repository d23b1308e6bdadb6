//! `lariat-lab run` interrupted: by signals, by its end, by the end of processes that it started.

use suite::desk::{Desk, assert_said, measurements};
use suite::prelude::*;
use suite::process::{children, processes};
use suite::program::process_id;

/// Starts a run of many measurements and sends it a signal once the first is written.
fn stopped(desk: &Desk, signal: Signal) -> (i32, String) {
    let words = "./small.toml --speeds none --record r.jsonl --repeats 4 --seed 2";
    let mut running = Running::start(&mut desk.command(words));
    until_true("a reading", || {
        running.assert_running();
        !desk.of_kind("measured").is_empty()
    });
    running.signal(signal);
    let status = running.wait();
    (status.code().unwrap_or(-1), running.stderr())
}

#[test]
fn a_run_that_was_stopped_is_taken_up() {
    let desk = Desk::new();
    let (code, said) = stopped(&desk, Signal::INT);
    assert_eq!(code, 6, "{said}");
    assert_has(&said, "--resume r.jsonl takes it up");
    assert_eq!(desk.of_kind("ended")[0]["is_complete"], false);
    let before = desk.of_kind("measured").len();
    assert!((1..16).contains(&before), "{before}");
    // As if it had been killed while it wrote.
    fs::write(desk.path("r.jsonl"), format!("{}{{\"event\":\"re", desk.text())).unwrap();
    let finished = desk.run("--resume r.jsonl");
    assert_eq!(finished.code(), 0, "{finished:?}");
    let read = desk.of_kind("measured");
    assert_eq!((read.len(), measurements(&read).len()), (16, 16));
    assert_eq!(desk.of_kind("resumed")[0]["command"][2], "--resume");
    assert_eq!(desk.events().last().unwrap()["is_complete"], true);
    let again = desk.run("--resume r.jsonl");
    assert_eq!(again.code(), 0);
    assert_said(&again, &["has come to its end already"]);
    assert_eq!(desk.of_kind("measured").len(), 16);
}

#[test]
fn what_is_no_record_is_not_taken_up_and_stays_as_it_is() {
    let desk = Desk::new();
    for (text, length, said) in [
        ("{\"event\":\"began\",\"format\":3", None, "is no record"),
        ("GIF89a\n", None, "is no record"),
        ("{\"event\":\"began\",\"format\":0}\n", None, "with the build that began it"),
        // A hole, so that it takes no room.
        ("", Some(1 << 30), "r.jsonl is larger than 256 MiB"),
    ] {
        fs::write(desk.path("r.jsonl"), text).unwrap();
        let file = fs::OpenOptions::new().append(true).open(desk.path("r.jsonl")).unwrap();
        let length = length.unwrap_or(text.len() as u64);
        file.set_len(length).unwrap();
        let finished = desk.run("--resume r.jsonl");
        assert_eq!(finished.code(), 2, "{finished:?}");
        assert_said(&finished, &[said, "hint: "]);
        assert_eq!(file.metadata().unwrap().len(), length);
    }
}

#[test]
fn a_run_that_was_killed_is_taken_up_and_left_nothing_running() {
    let desk = Desk::new();
    stopped(&desk, Signal::KILL);
    let own = desk.directory.path().to_str().unwrap().to_owned();
    until_true("its servers to end", || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|one| fs::read(one.path().join("cmdline")).ok());
        let mut lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
        !lines.any(|line| line.contains(&own))
    });
    let finished = run(&mut desk.command("--resume r.jsonl"));
    assert_eq!(finished.code(), 0, "{finished:?}");
    assert_eq!(measurements(&desk.of_kind("measured")).len(), 16);
}

#[test]
fn a_server_does_not_outlive_its_guard() {
    let desk = Desk::new();
    let words = "./small.toml --speeds none --record r.jsonl --targets plain --duration 1h";
    let mut running = Running::start(&mut desk.command(words));
    // Processes of the origin behind servers, and of the server.
    let (guards, servers) = until("both servers with their guards", || {
        running.assert_running();
        let guards = children(&[running.id()].into());
        let servers = children(&guards);
        (guards.len() == 2 && servers.len() == 2).then_some((guards, servers))
    });
    for guard in guards {
        kill_process(process_id(guard), Signal::KILL).unwrap();
    }
    until_true("the servers to end", || {
        let left = processes();
        !left.iter().any(|(id, _)| servers.contains(id))
    });
    running.signal(Signal::TERM);
    assert_eq!(running.wait().code(), Some(6), "{}", running.stderr());
}

#[test]
fn a_signal_ends_the_measuring_of_keys() {
    let desk = Desk::new();
    let words = "./small.toml --speeds full --record r.jsonl --targets plain";
    let mut running = Running::start(&mut desk.command(words));
    until_true("keys to be measured", || {
        running.assert_running();
        running.stderr().contains("measuring keys")
    });
    running.signal(Signal::INT);
    assert_eq!(running.wait().code(), Some(6), "{}", running.stderr());
    let events = desk.events();
    assert_eq!(events.len(), 2, "{events:?}");
    // The run did not wait for the speeds.
    assert_eq!(events[0]["host"]["speeds"], Value::Array(Vec::new()));
    assert_eq!(events[1]["is_complete"], false);
    let finished = desk.run("--resume r.jsonl");
    assert_eq!(finished.code(), 0, "{finished:?}");
}
