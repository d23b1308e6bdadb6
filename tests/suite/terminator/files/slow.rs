//! Slow clients of files.

use suite::prelude::*;

#[test]
fn a_request_that_does_not_end_is_answered_408() {
    let (site, folder) = (Site::new(), Directory::new());
    folder.write("words.txt", "0123456789");
    let service = Service::files(&site, folder.path()).more("timeouts = { request = '2s' }");
    let lariat = service.start();
    let mut connection = Client::new(&site).connect(service.address);
    assert_eq!(connection.fetch("words.txt"), b"0123456789");
    // A part of the next request, and nothing more. The idle limit is minutes away.
    for piece in ["GET /words", ".txt HTTP/1.1\r\n"] {
        connection.send(piece.as_bytes());
    }
    let (head, _) = connection.response();
    assert!(head.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{head}");
    assert_eq!(connection.read_to_end().expect("close_notify"), b"");
    drop(connection);
    lariat.wait_for_reason("request-timeout", 1);
}

#[test]
fn a_client_that_takes_a_response_too_slowly_is_reset_and_a_quick_one_is_not() {
    let (site, folder) = (Site::new(), Directory::new());
    let long = 64 << 20;
    folder.write("long.bin", vec![7; long]);
    let keys = "min-rate = '1MiB', min-rate-window = '1s'";
    for ktls in ["off", "auto"] {
        let service = Service::files(&site, folder.path()).serving(keys);
        let service = service.tls(&format!("ktls = '{ktls}'"));
        let lariat = service.start();
        let mut slow = Client::new(&site).connect(service.address);
        slow.ask("long.bin");
        let mut quick = Client::new(&site).connect(service.address);
        assert_eq!(quick.fetch("long.bin").len(), long);
        lariat.wait_for_reason("client-too-slow", 1);
        let mut cut = Vec::new();
        slow.read_to_cut(&mut cut);
        assert!(cut.len() < long);
        // The connection waits for nothing now, and may.
        assert_eq!(quick.fetch("long.bin").len(), long);
        lariat.wait_for_metric("lariat_connections_open", &[], 1.0);
    }
}
