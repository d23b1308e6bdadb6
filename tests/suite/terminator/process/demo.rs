//! `lariat demo`: no files, no arguments; the line that it prints proves that it works.

use suite::lariat::command;
use suite::prelude::*;

#[test]
fn the_printed_curl_line_works_and_ctrl_c_ends_it() {
    let (address, admin) = (free_address(), free_address());
    let mut demo = Running::start(command().args([
        "demo",
        "--listen",
        &address.to_string(),
        "--admin",
        &admin.to_string(),
    ]));
    demo.wait_for_listener(address);
    let line = until("the curl line", || {
        let said = format!("{}{}", demo.stdout(), demo.stderr());
        let found = said.lines().map(str::trim).find(|line| line.starts_with("curl "));
        found.map(str::to_owned)
    });
    assert_has(&line, "--cacert");
    let answer = run(Command::new("sh").args(["-c", &format!("{line} --fail --silent")]));
    let page = answer.success();
    assert!(page.contains("lariat") || page.contains("Lariat"), "{page}");
    demo.signal(Signal::INT);
    assert_eq!(demo.wait().code(), Some(0));
}

#[test]
fn a_place_where_no_directory_can_be_made_is_named_with_the_remedy() {
    for place in ["/nonexistent/place", "/proc"] {
        let answer = run(command().arg("demo").env("TMPDIR", place));
        assert_eq!(answer.code(), 1, "{answer:?}");
        answer.assert_stderr(&format!("cannot make a directory in {place}: "));
        answer.assert_stderr("hint: have TMPDIR name one that exists");
    }
}
