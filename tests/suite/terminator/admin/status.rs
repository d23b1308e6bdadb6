//! The status document, from a socket that only writes.

use std::os::unix::net::UnixStream;

use suite::prelude::*;

#[test]
fn the_command_prints_a_table_or_the_document() {
    let (site, server, service, lariat) = serve(http());
    curl_tls(&site, service.address).run().success();
    let table = lariat.ask("status").success();
    assert!(table.contains("web") && table.contains(server.address()), "{table}");
    let json = lariat.ask_with("status", &["--json"]).success();
    let document: Value = serde_json::from_str(&json).unwrap();
    assert!(document.is_object() && json.contains("\"web\""), "{json}");
}

#[test]
fn the_socket_never_reads() {
    let (_site, _server, _service, lariat) = serve(http());
    let mut stream = UnixStream::connect(lariat.status_socket()).unwrap();
    let mut document = String::new();
    // Our words may or may not arrive before it closes; they change nothing either way.
    let _ignored = stream.write_all(b"reload\ndrain\nquit\n");
    let _reset_if_unread = stream.read_to_string(&mut document);
    assert!(lariat.status().is_object());
    assert_eq!(lariat.metrics().sum("lariat_config_generation", &[]), 1.0);
}

#[test]
fn a_command_whose_data_cannot_be_written_has_failed() {
    for words in [&["version"][..], &["manual"], &["help", "serve"], &["completion", "bash"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = lariat::command();
        let output = command.args(words).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("cannot write to the standard output"), "{words:?}: {said}");
    }
}

#[test]
fn without_a_running_lariat_the_command_fails_and_says_why() {
    let site = Site::new();
    let mut command = lariat::command();
    let nowhere = site.path("nowhere.sock");
    let answer = run(command.arg("status").arg("--status-socket").arg(&nowhere));
    assert_eq!(answer.code(), 4);
    assert!(answer.stderr.contains(nowhere.to_str().unwrap()), "{answer:?}");
    answer.assert_stderr("hint:");
    assert_eq!(answer.stdout, "");
}
