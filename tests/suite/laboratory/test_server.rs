//! `lariat-lab origin`: replies by size, delay and status, over plain HTTP/1.1.

use suite::lab::command;
use suite::prelude::*;
use suite::process::resident_kib;
use suite::program::process_id;
use testkit::chance::Chance;

/// Sends these bytes and our end, and reads the answer to its end.
fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = tcp(address);
    stream.write_all(bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: origin\r\n\r\n")
}

/// Returns the head and the body of a reply that is alone.
fn parts(answer: &[u8]) -> (String, Vec<u8>) {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head, answer[end..].to_vec())
}

/// Reads the head of the first reply, up to its end.
fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    String::from_utf8(head).unwrap()
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

#[test]
fn bodies_have_the_size_that_was_asked_for_and_each_byte_its_place() {
    let origin = Origin::start();
    for (path, bytes) in [
        ("/0", 0),
        ("/1", 1),
        ("/1k", 1 << 10),
        ("/4097", 4097),
        ("/64k", 64 << 10),
        ("/?size=100000", 100_000),
        ("/5m", 5 << 20),
    ] {
        let (head, body) = parts(&exchange(origin.address, get(path).as_bytes()));
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert_has(&head, &format!("Content-Length: {bytes}\r\n"));
        assert!(body == pattern(bytes), "{path}: {} bytes", body.len());
    }
    assert!(curl().url(&origin.url("/")).run().success().contains("/64k"));
}

#[test]
fn a_query_chooses_status_chunks_delay_and_end() {
    let origin = Origin::start();
    let wanted = "/?size=64k&time=20&close=1&chunked=1&code=503";
    let file = Directory::new();
    let path = file.join("body");
    let code = curl()
        .args(&["--no-fail", "--write-out", "%{http_code} %{num_connects}", "--output"])
        .args(&[path.to_str().unwrap()])
        .url(&origin.url(wanted))
        .run();
    assert_eq!(code.success(), "503 1");
    assert!(fs::read(path).unwrap() == pattern(64 << 10));
    let mut stream = tcp(origin.address);
    stream.write_all(get(wanted).as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let (head, _) = parts(&answer);
    assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
    assert_has(&head, "\r\nTransfer-Encoding: chunked\r\n");
    assert_has(&head, "\r\nConnection: close\r\n");
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let origin = Origin::start();
    let sizes: Vec<usize> = (0..200).map(|index| index * 97 % 6000).collect();
    let mut wanted = Vec::new();
    let mut requests = String::new();
    for (index, size) in sizes.iter().enumerate() {
        // Some are withheld, some have a body: the requests behind them wait.
        match index % 50 {
            13 => requests += &get(&format!("/{size}?time=1")),
            31 => {
                requests +=
                    &format!("POST /{size} HTTP/1.1\r\nHost: o\r\nContent-Length: 3\r\n\r\nabc");
            }
            _ => requests += &get(&format!("/{size}")),
        }
        wanted.extend(format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n").bytes());
        wanted.extend(pattern(*size));
    }
    assert!(exchange(origin.address, requests.as_bytes()) == wanted);
}

#[test]
fn the_cuts_of_the_network_change_nothing() {
    let origin = Origin::start();
    let requests = get("/3")
        + "PUT /2 HTTP/1.1\r\nHost: o\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nab\r\n0\r\n\r\n"
        + "HEAD /7 HTTP/1.1\r\nHost: o\r\n\r\n";
    let whole = exchange(origin.address, requests.as_bytes());
    let mut stream = tcp(origin.address);
    stream.set_nodelay(true).unwrap();
    for byte in requests.bytes() {
        stream.write_all(&[byte]).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, whole);
    assert_eq!(whole.windows(4).filter(|four| four == b"\r\n\r\n").count(), 3);
}

#[test]
fn connections_persist_as_the_client_wants() {
    let origin = Origin::start();
    let twice = curl()
        .args(&["--write-out", "%{num_connects} ", "--output", "/dev/null"])
        .args(&["--output", "/dev/null"])
        .args(&[&origin.url("/1k"), &origin.url("/1m")]);
    assert_eq!(twice.run().success(), "1 0 ", "the second takes the first's connection");
    for (request, closes) in [
        ("GET /3 HTTP/1.0\r\n\r\n", true),
        ("GET /3 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false),
        ("GET /3 HTTP/1.1\r\nHost: o\r\nConnection: close\r\n\r\n", true),
        ("GET /3?close=1 HTTP/1.1\r\nHost: o\r\n\r\n", true),
    ] {
        let mut stream = tcp(origin.address);
        stream.write_all(request.as_bytes()).unwrap();
        let head = read_head(&mut stream);
        stream.read_exact(&mut [0; 3]).unwrap();
        assert_eq!(head.contains("Connection: close"), closes, "{request}");
        if closes {
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "{request}");
        } else {
            assert_has(&head, "Connection: keep-alive");
            stream.write_all(request.as_bytes()).unwrap();
            read_head(&mut stream);
        }
    }
}

#[test]
fn uploads_are_read_to_their_end() {
    let origin = Origin::start();
    let place = Directory::new();
    let file = place.write("upload", vec![7; 3_000_000]);
    let file = format!("@{}", file.display());
    for more in ["Expect: 100-continue", "Transfer-Encoding: chunked"] {
        let answer = curl()
            .args(&["--data-binary", &file, "--header", more])
            .args(&["--write-out", " %{http_code} %{size_upload}"])
            .url(&origin.url("/?size=0"));
        let answer = answer.run().success();
        assert!(answer.starts_with(" 200 3000"), "{more}: {answer}");
    }
    let mut stream = tcp(origin.address);
    let head = "PUT /1 HTTP/1.1\r\nHost: o\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(read_head(&mut stream), "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"ab").unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 200"));
    let refused = head.replace("/1 ", "/1?code=413&close=1 ");
    let (head, _) = parts(&exchange(origin.address, refused.as_bytes()));
    assert!(head.starts_with("HTTP/1.1 413"), "before the body was sent: {head}");
}

#[test]
fn an_end_of_the_client_does_not_cut_its_reply() {
    let origin = Origin::start();
    let (head, body) = parts(&exchange(origin.address, get("/300k?time=30").as_bytes()));
    assert_has(&head, "Content-Length: 307200");
    assert!(body == pattern(300 << 10));
}

#[test]
fn what_is_no_request_is_refused_and_the_refusal_is_heard() {
    let origin = Origin::start();
    let long = format!("GET /1 HTTP/1.1\r\nHost: o\r\nA: {}\r\n\r\n", "x".repeat(20_000));
    let both =
        "POST /1 HTTP/1.1\r\nHost: o\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (code, request) in [
        (400, "GET /1 HTTP/1.1\r\n\r\n"),
        (400, "\x16\x03\x01\x02\0\x01\0\x01\u{fc}\x03\x03"),
        (400, "GET /?size=big HTTP/1.1\r\nHost: o\r\n\r\n"),
        (400, both),
        (400, "PUT /1 HTTP/1.1\r\nHost: o\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
        (405, "DELETE /1 HTTP/1.1\r\nHost: o\r\n\r\n"),
        (417, "PUT /1 HTTP/1.1\r\nHost: o\r\nExpect: wonders\r\n\r\n"),
        (431, &long),
        (501, "PUT /1 HTTP/1.1\r\nHost: o\r\nTransfer-Encoding: gzip\r\n\r\n"),
        (505, "GET /1 HTTP/2.0\r\nHost: o\r\n\r\n"),
    ] {
        // More bytes come than it reads before it refuses: its close must not be a reset.
        let mut bytes = request.as_bytes().to_vec();
        bytes.extend([b'x'; 50_000]);
        let (head, body) = parts(&exchange(origin.address, &bytes));
        assert!(head.starts_with(&format!("HTTP/1.1 {code} ")), "{request:?}: {head}");
        assert_has(&head, "Connection: close");
        assert!(!body.is_empty(), "{request:?}");
    }
    let unknown = exchange(origin.address, (get("/index.html") + &get("/3")).as_bytes());
    let unknown = String::from_utf8_lossy(&unknown);
    assert!(unknown.starts_with("HTTP/1.1 404 Not Found"), "{unknown}");
    assert_has(&unknown, "HTTP/1.1 200 OK");
}

#[test]
fn the_silent_and_the_slow_are_given_up_and_the_waiting_are_not() {
    let origin = Origin::start_with(&["--threads", "1", "--idle-timeout", "100ms"]);
    let mut waiting = tcp(origin.address);
    waiting.write_all(get("/3?time=600").as_bytes()).unwrap();
    let mut silent = tcp(origin.address);
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    let mut kept = tcp(origin.address);
    kept.write_all(get("/3").as_bytes()).unwrap();
    let mut answer = Vec::new();
    kept.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    // The client always sends a little more, and never all of it.
    let mut slow = tcp(origin.address);
    slow.write_all(b"GET /3 HTTP/1.1\r\nX: ").unwrap();
    let mut watcher = slow.try_clone().unwrap();
    watcher.set_nonblocking(true).unwrap();
    until_true("the slow one to be given up", || {
        let is_open = slow.write_all(b"x").is_ok();
        !is_open || matches!(watcher.read(&mut [0]), Ok(0))
    });
    // A client that asks for much and takes nothing is given up too.
    let mut lazy = tcp(origin.address);
    lazy.write_all(get("/10g").as_bytes()).unwrap();
    until_true("the lazy one to be given up", || lazy.write_all(b"x").is_err());
    assert!(read_head(&mut waiting).starts_with("HTTP/1.1 200"));
}

#[test]
fn one_that_does_not_read_holds_up_nobody() {
    let origin = Origin::start();
    let mut lazy = tcp(origin.address);
    lazy.write_all(get("/10g").as_bytes()).unwrap();
    assert!(read_head(&mut lazy).contains("Content-Length: 10737418240"));
    let mut greedy = tcp(origin.address);
    for _ in 0..2000 {
        greedy.write_all(get("/1k").as_bytes()).unwrap();
    }
    for _ in 0..10 {
        let answer = curl().url(&origin.url("/?size=0")).run();
        assert_eq!(answer.success(), "");
    }
    let mut some = vec![0; 1_000_000];
    lazy.read_exact(&mut some).unwrap();
    assert!(some == pattern(1_000_000), "it stands where it stood");
}

#[test]
fn without_descriptors_clients_wait_and_are_served_when_there_are_some() {
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 40 && exec \"$0\" \"$@\""]);
    limited.arg(command().get_program());
    let origin = Origin::start_by(&mut limited, &["--threads", "1"]);
    let mut streams: Vec<_> = (0..60).map(|_| tcp(origin.address)).collect();
    until_true("the origin to warn", || origin.stderr().contains("warning: "));
    assert!(origin.stderr().contains("hint: raise the limit of open files"));
    let mut last = streams.pop().unwrap();
    last.write_all(get("/3").as_bytes()).unwrap();
    drop(streams);
    assert!(read_head(&mut last).starts_with("HTTP/1.1 200"));
    assert_eq!(origin.stderr().matches("warning: ").count(), 1);
}

#[test]
fn rubbish_is_answered_or_not_but_never_hurts() {
    let origin = Origin::start();
    let whole = get("/1k?chunked=1&code=404")
        + "POST /7 HTTP/1.1\r\nHost: o\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\n\r\n"
        + "PUT /?size=3 HTTP/1.0\r\nContent-Length: 4\r\nConnection: keep-alive\r\n\r\nabcd";
    let mut chance = Chance::new(1);
    for _ in 0..1000 {
        let mut bytes = whole.clone().into_bytes();
        for _ in 0..=chance.below(4) {
            let (at, other) = (chance.below(bytes.len()), chance.below(bytes.len()));
            match chance.below(4) {
                0 => bytes[at] = chance.below(256) as u8,
                1 => bytes.truncate(at.max(1)),
                2 => bytes.extend_from_within(at.min(other)..at.max(other)),
                _ => bytes.swap(at, other),
            }
        }
        let mut stream = tcp(origin.address);
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let end = stream.read_to_end(&mut Vec::new());
        let is_stuck = end.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        assert!(!is_stuck, "{:?}", String::from_utf8_lossy(&bytes));
    }
    let (_, body) = parts(&exchange(origin.address, get("/1k").as_bytes()));
    assert!(body == pattern(1024));
}

#[test]
fn an_open_connection_costs_little_memory() {
    let origin = Origin::start();
    let serve = |stream: &mut TcpStream, path| {
        stream.write_all(get(path).as_bytes()).unwrap();
        read_head(stream);
    };
    // Effects of the first connection do not count.
    serve(&mut tcp(origin.address), "/64k");
    let before = resident_kib(process_id(origin.id()));
    let count = 400;
    let mut streams: Vec<_> = (0..count).map(|_| tcp(origin.address)).collect();
    for stream in &mut streams {
        serve(stream, "/0");
    }
    let after = resident_kib(process_id(origin.id()));
    assert!(after - before < count * 4, "{before} KiB, then {after} KiB");
}

#[test]
fn a_unix_socket_serves_too_and_goes_with_the_program() {
    let place = Directory::new();
    let path = place.join("origin.sock");
    let path = path.to_str().unwrap();
    let mut origin = Origin::start_with(&["--unix", path, "--threads", "2"]);
    for target in ["http://origin/1k", "http://origin/?size=1k&chunked=1"] {
        let answer = curl()
            .args(&["--unix-socket", path, "--write-out", "%{size_download}"])
            .args(&["--output", "/dev/null"])
            .url(target);
        assert_eq!(answer.run().success(), "1024");
    }
    assert!(origin.stderr().contains(&format!("listening on unix:{path}\n")));
    assert!(origin.end(Signal::TERM).success());
    assert!(!fs::exists(path).unwrap());
    assert!(origin.stderr().contains("2 replies on 2 connections"), "{}", origin.stderr());
}

#[test]
fn a_signal_ends_it_whatever_is_under_way() {
    let mut origin = Origin::start_with(&["--threads", "2"]);
    let mut waiting = tcp(origin.address);
    waiting.write_all(get("/3?time=600000").as_bytes()).unwrap();
    let mut loading = tcp(origin.address);
    loading.write_all(get("/1g").as_bytes()).unwrap();
    read_head(&mut loading);
    assert!(origin.end(Signal::INT).success());
    TcpListener::bind(origin.address).unwrap();
}

#[test]
fn an_address_in_use_has_its_own_code() {
    let origin = Origin::start_with(&["--threads", "2"]);
    let address = origin.address.to_string();
    for threads in ["1", "2"] {
        let mut command = command();
        let answer = run(command.args(["origin", "--listen", &address, "--threads", threads]));
        assert_eq!(answer.code(), 3, "{answer:?}");
        let said = &answer.stderr;
        assert!(said.contains(&address) && said.contains("in use"), "{said}");
        assert_has(said, "hint:");
    }
}

#[test]
fn quiet_is_quiet_and_slips_have_remedies() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let answer = run(command().args(["origin", "--quiet", "--listen", &address]));
    assert!(answer.stderr.starts_with("error: "), "{answer:?}");
    assert_eq!(answer.stdout, "");
    let answer = run(command().args(["origin", "--listne", "127.0.0.1:0"]));
    answer.assert_fails(2, &["hint: a similar argument exists: '--listen'"]);
    let answer = run(command().args(["origin", "--help"]));
    assert!(answer.success().contains("--idle-timeout"));
}
