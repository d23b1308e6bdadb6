//! Sockets and files as the kernel serves them, and tokens.

use sys::socket::ListenOptions;

use super::*;

const PLAIN: ListenOptions =
    ListenOptions { backlog: 1, fast_open: 0, reuse_port: false, unix_mode: None };

/// Returns a connected socket with its other end.
fn connected(driver: &mut Driver) -> (Socket, OwnedFd) {
    let listener = socket::listen(&"127.0.0.1:0".parse().unwrap(), &PLAIN).unwrap();
    let Ok(PeerAddress::Ip(address)) = socket::local_address(&listener) else {
        panic!("a TCP listener has an IP address");
    };
    driver.listen(&listener, 9, false).unwrap();
    let (socket, _) = driver
        .connect(&Connect {
            address: &Address::Ip(address),
            source: BindSource::Any,
            speaks_first: false,
            unacknowledged: None,
            token: 1,
        })
        .unwrap();
    let (other, _) = loop {
        driver.wait(None, &mut Vec::new()).unwrap();
        if let Ok(accepted) = driver.accept(&listener) {
            break accepted;
        }
    };
    driver.ignore(&listener);
    (socket, other)
}

fn wait_for_error(driver: &mut Driver, socket: &mut Socket) {
    let mut batch = Vec::new();
    while !socket.has_failed() {
        driver.wait(None, &mut batch).unwrap();
        batch.iter().for_each(|event| socket.note(event));
    }
}

#[test]
fn what_came_before_a_reset_is_received_and_then_the_failure() {
    let mut driver = Driver::new().unwrap();
    let (mut socket, other) = connected(&mut driver);
    assert_eq!(socket::write(&other, b"sorry").unwrap(), 5);
    socket::reset_on_close(&other).unwrap();
    drop(other);
    wait_for_error(&mut driver, &mut socket);
    socket.break_off();
    let mut room = [0; 64];
    assert_eq!(socket.receive(&mut room), ReceiveResult::Bytes(5));
    assert!(socket.is_readable(), "no event will say so any more");
    assert_eq!(socket.receive(&mut room), ReceiveResult::Failed);
}

fn content(bytes: usize) -> (std::fs::File, Vec<u8>) {
    let content: Vec<u8> = (0..bytes).map(|index| (index / 7) as u8).collect();
    let directory = testkit::directory::Directory::new();
    let file = std::fs::File::open(directory.write("content", &content)).unwrap();
    (file, content)
}

fn read_all(from: OwnedFd) -> Vec<u8> {
    let mut stream = std::net::TcpStream::from(from);
    stream.set_nonblocking(false).unwrap();
    let mut got = Vec::new();
    io::Read::read_to_end(&mut stream, &mut got).unwrap();
    got
}

#[test]
fn a_file_is_sent_until_it_ends_and_its_fault_is_not_the_connections() {
    let mut driver = Driver::new().unwrap();
    let (mut socket, other) = connected(&mut driver);
    let (file, content) = content(10_000);
    assert_eq!(socket.send_more(&content[..10]), Some(10));
    assert_eq!(socket.send_file(&file, 10, 9_000), FileSent::Bytes(9_000));
    assert!(socket.is_writable());
    assert_eq!(socket.send_file(&file, 10_000, 5), FileSent::NoFile);
    // The rest; more of it was promised.
    assert_eq!(socket.send_file(&file, 9_010, 5_000), FileSent::Bytes(990));
    assert!(socket.is_writable(), "no event would come");
    assert_eq!(socket.send_file(&file, 10_000, 4_010), FileSent::NoFile);
    socket.end();
    assert_eq!(read_all(other), content);
    let broken = loop {
        match socket.send_file(&file, 0, 100) {
            FileSent::Bytes(_) => continue,
            other => break other,
        }
    };
    assert_eq!(broken, FileSent::Failed);
}

#[test]
fn what_a_client_does_not_take_stays_in_the_pipe() {
    let mut driver = Driver::new().unwrap();
    let (mut front, client) = connected(&mut driver);
    let (mut back, server) = connected(&mut driver);
    let pipe = Pipe::new(1 << 16).unwrap();
    let (mut sent, mut passed) = (0, 0);
    // Until no queue on the way takes any more.
    let held = loop {
        sent += socket::write(&server, &[7; 1 << 16]).unwrap_or(0);
        back.readable = true;
        let held = match back.fill(&pipe) {
            ReceiveResult::Bytes(count) => count,
            other => panic!("there is always something to take: {other:?}"),
        };
        let mut left = held;
        while left > 0 && front.is_writable() {
            let drained = front.drain(&pipe, left).unwrap();
            passed += drained;
            left -= drained;
        }
        if left > 0 {
            break left;
        }
    };
    assert!(!front.is_writable());
    drop(server);
    let rest = std::thread::spawn(|| read_all(client));
    let mut left = held;
    let mut batch = Vec::new();
    driver.watch_writes(&mut front);
    loop {
        while left > 0 && front.is_writable() {
            left -= front.drain(&pipe, left).unwrap();
        }
        if left == 0 {
            match back.fill(&pipe) {
                ReceiveResult::Bytes(count) => left = count,
                ReceiveResult::End => break,
                _ => {}
            }
        }
        if left > 0 && !front.is_writable() {
            driver.wait(None, &mut batch).unwrap();
            batch.iter().for_each(|event| front.note(event));
        }
    }
    front.end();
    let got = rest.join().unwrap();
    assert_eq!(got.len(), sent);
    assert!(passed > 0 && got.iter().all(|byte| *byte == 7));
}

#[test]
fn tokens_name_what_they_were_made_of() {
    let id = ConnectionId { place: 7, generation: GENERATION_MASK };
    let all = [
        EventSource::Front(id),
        EventSource::Back(id),
        EventSource::Rival(id),
        EventSource::Listener(3),
        EventSource::Waker,
    ];
    for named in all {
        assert_eq!(EventSource::of(named.token()), named);
    }
}
