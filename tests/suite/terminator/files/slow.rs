//! Clients of files that take their time.

use suite::prelude::*;

#[test]
fn a_request_that_does_not_end_is_answered_408() {
    let (site, folder) = (Site::new(), Directory::new());
    folder.write("words.txt", "0123456789");
    let service = Service::files(&site, folder.path()).more("timeouts = { request = '300ms' }");
    let lariat = Lariat::start(&service.toml());
    let mut connection = Client::new(&site).connect(service.address);
    assert_eq!(connection.fetch("words.txt"), b"0123456789");
    // A part of the next one, and nothing more. The idle limit is minutes away.
    for piece in ["GET /words", ".txt HTTP/1.1\r\n"] {
        connection.send(piece.as_bytes());
    }
    let (head, _) = connection.response();
    assert!(
        head.starts_with("HTTP/1.1 408 Request Timeout\r\n"),
        "{head}"
    );
    assert_eq!(connection.read_to_end().expect("close_notify"), b"");
    drop(connection);
    lariat.wait_for_reason("request-timeout", 1);
}
