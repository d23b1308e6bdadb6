//! Bytes arrive complete and in order, whatever their number and pieces.

use std::io;
use suite::kernel::pattern;
use suite::prelude::*;

#[test]
fn many_bytes_come_down_intact() {
    let body = pattern(32 << 20);
    let (site, _server, service, lariat) = serve(Behaviour::Http(body.clone()));
    for version in ["--tlsv1.2", "--tlsv1.3"] {
        let got = curl_tls(&site, service.address).args(&[version]).bytes();
        assert!(got == body, "{version}");
    }
    let down = [("direction", "backend-to-client")];
    let counted = lariat.sum("lariat_relayed_bytes_total", &down);
    assert!(counted >= 2.0 * body.len() as f64, "{counted}");
}

#[test]
fn many_bytes_go_up_intact() {
    let body = pattern(16 << 20);
    let (site, server, service, _lariat) = serve(Behaviour::Swallow);
    for (count, client) in [(1, Client::tls12(&site)), (2, Client::new(&site))] {
        let mut connection = client.connect(service.address);
        connection.send(&body);
        connection.end();
        assert!(server.wait_for_end(count).bytes == body);
    }
}

#[test]
fn both_directions_flow_at_once_and_many_connections_do_not_mix() {
    let (site, _server, service, _lariat) = serve(Behaviour::Echo);
    let client = Client::new(&site);
    thread::scope(|scope| {
        for number in 0..16usize {
            let (client, address) = (&client, service.address);
            scope.spawn(move || {
                let sent = pattern(100_000 + number);
                let mut connection = client.connect(address);
                for piece in sent.chunks(997 + number) {
                    connection.send(piece);
                    assert!(connection.receive(piece.len()) == piece);
                }
                connection.finish();
            });
        }
    });
}

#[test]
fn a_hello_in_pieces_of_one_byte_is_a_hello() {
    let (site, _server, service, _lariat) = serve(http());
    let through = one_byte_relay(service.address);
    assert_eq!(curl_tls(&site, through).run().success(), "hello");
}

/// Starts a TCP relay that sends the client's bytes in segments of one byte.
fn one_byte_relay(target: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut client, mut server) = (listener.accept()?.0, TcpStream::connect(target)?);
        server.set_nodelay(true)?;
        let (mut down, mut back) = (server.try_clone()?, client.try_clone()?);
        thread::spawn(move || io::copy(&mut down, &mut back));
        let mut byte = [0];
        while client.read(&mut byte)? > 0 {
            server.write_all(&byte)?;
        }
        io::Result::Ok(())
    });
    address
}
