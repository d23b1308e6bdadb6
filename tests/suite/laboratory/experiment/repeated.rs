//! `lariat-lab self-test`: ends at its time, and is taken up where it was stopped.

use suite::lab::command;
use suite::prelude::*;

#[test]
fn a_self_test_that_was_stopped_is_taken_up() {
    let directory = Directory::new();
    let start = || {
        let mut command = command();
        command.arg("self-test").arg(directory.join("trials"));
        command.args(["--times", "1", "--time-max", "1s"]);
        command
    };
    let mut running = Running::start(&mut start());
    until_true("a measurement", || {
        running.assert_running();
        running.stderr().contains("self-test: steady planted=")
    });
    running.signal(Signal::INT);
    assert_eq!(running.wait().code(), Some(6), "{}", running.stderr());
    assert_has(running.stdout(), "planted  trials  worse  equal  not known");
    let record = directory.join("trials/trial-001.jsonl");
    let before = fs::read_to_string(&record).unwrap().matches("\"measured\"").count();
    let finished = run(&mut start());
    assert_eq!(finished.code(), 0, "{finished:?}");
    let after = fs::read_to_string(&record).unwrap();
    assert!(after.matches("\"measured\"").count() > before, "{finished:?}");
    assert_has(&after, "\"resumed\"");
    // A third run has nothing to do.
    assert_eq!(run(&mut start()).code(), 0);
    assert_eq!(fs::read_to_string(&record).unwrap(), after);
    fs::write(&record, "GIF89a\n").unwrap();
    run(&mut start()).assert_fails(2, &["is no record", "take that file away"]);
}
