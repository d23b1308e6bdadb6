//! Either side may end its direction; the other goes on.

use suite::prelude::*;

#[test]
fn an_answer_comes_after_the_clients_end() {
    let (site, server, service, lariat) = serve(Behaviour::ReplyAfterEnd(b"late".to_vec()));
    for (count, client) in [1, 2].into_iter().zip(Client::of_each_version(&site)) {
        let mut connection = client.connect(service.address);
        connection.send(b"question");
        connection.end();
        assert_eq!(connection.read_to_end().unwrap(), b"late");
        let seen = server.wait_for_end(count);
        assert_eq!((seen.bytes.as_slice(), seen.failed), (&b"question"[..], false));
    }
    lariat.wait_for_reason("client-closed", 2);
}

#[test]
fn a_client_still_speaks_after_the_servers_end() {
    let (site, server, service, lariat) = serve(Behaviour::Speak(b"bye".to_vec()));
    for (count, client) in [1, 2].into_iter().zip(Client::of_each_version(&site)) {
        let mut connection = client.connect(service.address);
        assert_eq!(connection.read_to_end().unwrap(), b"bye", "close_notify follows the end");
        connection.send(b"but ");
        server.wait_until(|seen| seen.iter().filter(|one| one.bytes == b"but ").count() == 1);
        connection.send(b"wait");
        connection.end();
        let seen = server.wait_for_end(count);
        assert_eq!((seen.bytes.as_slice(), seen.failed), (&b"but wait"[..], false));
    }
    lariat.wait_for_reason("backend-closed", 2);
}

/// The server answers before it has read all, and closes: the kernel then sends a reset.
#[test]
fn a_server_that_refuses_an_upload_is_heard_and_its_reset_is_no_clean_end() {
    static ANSWER: [u8; 20_000] = [b'E'; 20_000];
    let (site, server) = (Site::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let service = Service::new(&site, server.local_addr().unwrap());
    let lariat = service.start();
    let rounds = 8;
    let refusing = thread::spawn(move || {
        for _ in 0..rounds {
            let (mut stream, _) = server.accept().unwrap();
            stream.read_exact(&mut [0; 1000]).unwrap();
            assert_eq!(stream.peek(&mut [0]).unwrap(), 1, "more is unread");
            stream.write_all(&ANSWER).unwrap();
        }
    });
    for client in Client::of_each_version(&site).into_iter().cycle().take(rounds) {
        let mut connection = client.connect(service.address);
        connection.send(&[1; 100_000]);
        assert_eq!(connection.receive(ANSWER.len()), ANSWER);
        let end = connection.read_to_end().unwrap_err();
        assert_eq!(end.kind(), ErrorKind::UnexpectedEof, "no close_notify: {end}");
    }
    refusing.join().unwrap();
    lariat.wait_for_reason("backend-reset", 8);
}
