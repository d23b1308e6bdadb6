//! One structured line a connection, that says what happened and whose fault it was.

use std::io::Write;
use std::net::TcpStream;

use rustix::process::Signal;
use suite::client::Client;
use suite::configuration::Service;
use suite::curl::curl_tls;
use suite::lariat::Lariat;
use suite::site::Site;
use testkit::server::{Behaviour, Server};

#[test]
fn a_line_tells_the_connections_story() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Http("hello".into())));
    let service = Service::new(&site, &server).tls("alpn = ['http/1.1']");
    let lariat = Lariat::start(&service.toml());
    curl_tls(&site, service.address)
        .args(&["--tls-max", "1.2"])
        .run()
        .success();

    let line = lariat.wait_for_line(&["\"web\""]);
    for (key, value) in [
        ("service", "web"),
        ("sni", "localhost"),
        ("handshake", "full"),
        ("alpn", "http/1.1"),
        ("server", server.address()),
        ("reason", "client-closed"),
        ("fault", "none"),
    ] {
        assert_eq!(line[key], value, "{key}: {line}");
    }
    assert!(
        line["client"]
            .as_str()
            .is_some_and(|one| one.starts_with("127.0.0.1:")),
        "{line}"
    );
    assert!(
        line["suite"]
            .as_str()
            .is_some_and(|one| one.starts_with("TLS_ECDHE_")),
        "{line}"
    );
    assert!(
        line["bytes_down"].as_u64().is_some_and(|bytes| bytes > 5),
        "{line}"
    );
}

#[test]
fn a_flood_of_failures_is_counted_not_printed() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let lariat = Lariat::start(&service.toml());
    let count = 500;
    for _ in 0..count {
        let mut stream = TcpStream::connect(service.address).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    }
    lariat.wait_for_reason("plain-http", count);
    let suppressed = lariat
        .metrics()
        .sum("lariat_log_lines_suppressed_total", &[]);
    assert!(suppressed > 0.0, "{suppressed}");
    let printed = lariat.log().matches("\"plain-http\"").count();
    assert!(printed > 0 && printed < 500, "{printed}");
}

/// Workers hand lines over in batches; those of the last moment are written before the end.
#[test]
fn no_line_is_lost_by_a_stop() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    let mut lariat = Lariat::start(&service.toml());
    let client = Client::new(&site);
    let count = 40;
    for _ in 0..count {
        let mut connection = client.connect(service.address);
        connection.send(b"a");
        assert_eq!(connection.receive(1), b"a");
        connection.end();
        assert_eq!(connection.read_to_end().unwrap(), b"");
    }
    lariat.signal(Signal::TERM);
    assert_eq!(lariat.wait().code(), Some(0));
    assert_eq!(lariat.log().matches("\"client-closed\"").count(), count);
}
