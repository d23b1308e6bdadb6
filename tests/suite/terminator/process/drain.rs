//! A drain: no new clients, and the present ones may finish, within a deadline.

use suite::lariat::command;
use suite::prelude::*;

#[test]
fn an_open_connection_finishes_and_a_new_one_is_refused() {
    let (site, _server, service, mut lariat) = serve(Behaviour::Echo);
    let mut connection = Client::new(&site).echo(service.address);
    lariat.signal(Signal::TERM);
    until("the listener to close", || TcpStream::connect(service.address).err());
    connection.echo();
    connection.finish();
    lariat.assert_ends();
    let last = "notice: ended; every connection had ended before";
    assert!(lariat.stderr().contains(last), "{}", lariat.stderr());
}

#[test]
fn a_client_of_files_whose_handshake_ends_in_a_drain_gets_one_answer() {
    let (site, folder) = (Site::new(), Directory::new());
    folder.write("small", "small");
    let service = Service::files(&site, folder.path());
    let mut lariat = service.start();
    let early = TcpStream::connect(service.address).unwrap();
    lariat.wait_for_metric("lariat_connections_open", &[], 1.0);
    lariat.signal(Signal::TERM);
    until("the listener to close", || TcpStream::connect(service.address).err());
    let mut connection = Client::new(&site).over(early).unwrap();
    assert_eq!(connection.fetch("/small"), b"small");
    assert_eq!(connection.read_to_end().unwrap(), b"", "a proper end");
    lariat.assert_ends();
}

#[test]
fn files_are_sent_to_their_end_and_nobody_waits_for_clients_at_rest() {
    const BYTES: usize = 32 << 20;
    let (site, folder) = (Site::new(), Directory::new());
    folder.write("small", "small");
    folder.write("large", vec![7; BYTES]);
    let service = Service::files(&site, folder.path());
    let mut lariat = service.start();
    let ask = |path: &str| {
        let mut connection = Client::new(&site).connect(service.address);
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        connection.send(head.as_bytes());
        connection
    };
    let (mut resting, mut busy) = (ask("/small"), ask("/large"));
    assert_eq!(resting.response().1, b"small");
    busy.head();
    lariat.signal(Signal::TERM);
    assert_eq!(resting.read_to_end().unwrap(), b"", "a proper end");
    assert!(busy.read_to_end().unwrap() == vec![7; BYTES]);
    lariat.assert_ends();
}

#[test]
fn the_deadline_ends_what_does_not_end() {
    let (site, _server, service, mut lariat) =
        serve_with("[process]\ndrain = '100ms'", Behaviour::Echo);
    let mut connection = Client::new(&site).echo(service.address);
    lariat.signal(Signal::TERM);
    let _cut = connection.read_to_end();
    lariat.assert_ends();
    let line = lariat.wait_for_line(&["drained"]);
    assert_eq!(line["reason"], "drained");
    let last = "warning: ended; 1 connection was cut at the deadline";
    assert!(lariat.stderr().contains(last), "{}", lariat.stderr());
}

#[test]
fn a_second_signal_ends_at_once_and_is_said_to_be_why() {
    let (site, _server, service, mut lariat) = serve(Behaviour::Echo);
    let _open = Client::new(&site).echo(service.address);
    lariat.signal(Signal::TERM);
    lariat.wait_for_stderr("draining for up to");
    lariat.signal(Signal::TERM);
    lariat.assert_ends();
    let last = "warning: ended; connections that are still open are cut: it was told a second time";
    assert!(lariat.stderr().contains(last), "{}", lariat.stderr());
}

#[test]
fn the_running_one_is_found_by_its_configuration() {
    let (_site, server, _service, mut lariat) = serve(Behaviour::Echo);
    let file = lariat.configuration();
    let ask = |words: &[&str]| run(command().args(words));
    let path = file.to_str().unwrap();
    ask(&["status", path]).assert_stdout("lariat ");
    ask(&["reload", "--config", path]).success();
    ask(&["certificate", "list", path]).assert_stderr("hint: none comes by ACME");
    let name = format!("web/{}", server.address());
    ask(&["server", "disable", &name, path]).success();
    ask(&["server", "enable", "--config", path, &name]).success();
    // A half-edited file still names the socket.
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}\n[process]\ndrane = 1\n")).unwrap();
    assert_eq!(ask(&["reload", path]).code(), 5);
    assert_eq!(ask(&["status", "/no/such/file.toml"]).code(), 2);
    let twice = ask(&["drain", path, "--status-socket", "/x"]);
    twice.assert_fails(2, &["cannot be used with"]);
    ask(&["drain", path]).success();
    lariat.assert_ends();
    assert_eq!(ask(&["status", path]).code(), 4);
}
