//! False stores: one sends without end, one names hosts that should get our password.

use std::sync::mpsc::{Receiver, channel};

use suite::footprint::Footprint;
use suite::prelude::*;
use suite::scripted;
use testkit::authority::Trait;

const FAILURES: &str = "lariat_cluster_store_failures_total";

/// More bytes than a poser can send before the host closes: sockets hold some MiB of them.
const SENT_BYTES_MAX: usize = 32 << 20;

/// More than a host with one idle service needs, and less than was sent.
const MEMORY_KIB_MAX: u64 = 24 << 10;

/// Starts a host with these keys of `cluster.store`.
fn start(keys: &str) -> (Lariat, Site, Server) {
    let (site, server, service) = set_up(Behaviour::Echo);
    let secret = site.write("cluster.key", SECRET);
    let toml = format!(
        "[cluster]\nsecret = {secret:?}\n[cluster.store]\nfetch-timeout = \"1s\"\n{keys}\n{}",
        service.toml()
    );
    (Lariat::start(&toml), site, server)
}

const SECRET: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/";

/// Answers a number of requests, each of which comes in one piece, and then repeats a text without
/// end or a number of times; counts the bytes until the host has closed.
fn flood(
    answers: usize,
    first: &'static [u8],
    then: &'static [u8],
) -> (SocketAddr, Receiver<usize>) {
    let (sender, sent) = channel();
    let address = scripted::serve(move |stream| {
        for _ in 0..answers {
            let _request = stream.read(&mut [0; 4096]);
            let _gone = stream.write_all(b"$-1\r\n");
        }
        let mut count = 0;
        let mut said = stream.write_all(first);
        while said.is_ok() && count < SENT_BYTES_MAX && !then.is_empty() {
            said = stream.write_all(then);
            count += then.len();
        }
        // A poser that sends no more waits for the host's end.
        let _ended = stream.read_to_end(&mut Vec::new());
        let _over = sender.send(count);
    });
    (address, sent)
}

#[test]
fn a_store_that_sends_without_end_is_dropped_before_it_costs_memory() {
    static BLOCK: [u8; 1 << 16] = [b'x'; 1 << 16];
    const NUMBERS: &[u8] = b":1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n";
    for (answers, first, then) in [
        (0, &b"$90000000000\r\n"[..], &BLOCK[..]),
        (1, b"$90000000000\r\n", &BLOCK),
        (0, b"*2147483647\r\n", NUMBERS),
        (1, b"*2147483647\r\n", NUMBERS),
        (0, b"-", &BLOCK),
        (1, b"", b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n"),
        (0, b"*1\r\n*1\r\n", b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"),
        (0, b"$9000\r\nxxxxxxxxxxxx", b""),
    ] {
        let (address, sent) = flood(answers, first, then);
        let (host, _site, _server) = start(&format!("url = \"redis://{address}\""));
        let sent = sent.recv_timeout(PATIENCE);
        let said = String::from_utf8_lossy(first);
        let sent = sent.unwrap_or_else(|_| panic!("the host closes: {said}"));
        assert!(sent < SENT_BYTES_MAX, "{said}: {sent} bytes");
        let memory = Footprint::of(host.worker_process()).expect("it runs");
        assert!(memory.anonymous_kib < MEMORY_KIB_MAX, "{said}: {memory:?}");
    }
}

/// Starts a cluster node or sentinel that takes any password and always answers this.
fn poser(answer: &str) -> SocketAddr {
    let answer = answer.to_owned();
    scripted::serve(move |stream| {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            let requests = String::from_utf8_lossy(&bytes[..count]).into_owned();
            for request in requests.split('*').skip(1) {
                let is_login = request.contains("AUTH");
                let answer = if is_login { "+OK\r\n" } else { &answer };
                let _gone = stream.write_all(answer.as_bytes());
            }
        }
    })
}

/// Nodes are asked in the order of their addresses as long as the owner of a slot is unknown.
#[test]
fn a_node_that_loads_or_was_cut_off_is_not_asked_for_ever() {
    let node = |host, answer: &'static [u8]| {
        scripted::serve_in_turn(host, move |mut stream| {
            thread::spawn(move || {
                while let Ok(1..) = stream.read(&mut [0; 4096]) {
                    let _gone = stream.write_all(answer);
                }
            });
        })
    };
    let good = node("127.0.0.2", b"$-1\r\n");
    for answer in [&b"-LOADING x\r\n"[..], b"-CLUSTERDOWN x\r\n"] {
        let first = node("127.0.0.1", answer);
        let keys = format!("url = \"redis://{first}\"\nnodes = [\"{first}\", \"{good}\"]");
        let (host, ..) = start(&keys);
        host.wait_for_metric("lariat_cluster_store_up", &[], 1.0);
    }
}

fn trap() -> TcpListener {
    let trap = TcpListener::bind("127.0.0.9:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    trap
}

fn heard(trap: &TcpListener) -> String {
    let (mut stream, _) = until("the host to come", || match trap.accept() {
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        accepted => Some(accepted.unwrap()),
    });
    stream.set_nonblocking(false).unwrap();
    first_words(&mut stream)
}

fn first_words(stream: &mut TcpStream) -> String {
    let mut bytes = [0; 4096];
    let count = stream.read(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn a_host_that_a_poser_names_is_not_sent_the_password_unless_its_network_is_listed() {
    let trap = trap();
    let place = trap.local_addr().unwrap();
    let (ip, port) = (place.ip().to_string(), place.port().to_string());
    let master = format!("*2\r\n${}\r\n{ip}\r\n${}\r\n{port}\r\n", ip.len(), port.len());
    for (answer, keys) in [
        (format!("-MOVED 1 {place}\r\n"), "nodes = [\"ADDRESS\"]"),
        (format!("-ASK 1 {place}\r\n"), "nodes = [\"ADDRESS\"]"),
        (master, "sentinel = \"sessions\""),
    ] {
        let poser = poser(&answer).to_string();
        let keys =
            format!("url = \"redis://:secret@{poser}\"\n{}", keys.replace("ADDRESS", &poser));
        let (host, ..) = start(&keys);
        host.wait_for_stderr(&format!("{place} is named as"));
        host.wait_for_stderr("`cluster.store` does not allow");
        host.wait_for_stderr("hint: if it is a node of yours, list it in `nodes`");
        host.wait_for_metric_from(FAILURES, &[("reason", "redirect")], 1.0);
        assert_has(host.ask("status").success(), "does not allow");
        let came = trap.accept().map(drop).map_err(|error| error.kind());
        assert_eq!(came, Err(ErrorKind::WouldBlock), "nobody has come");
        drop(host);
        let (_host, ..) = start(&format!("{keys}\nnetworks = [\"127.0.0.8/29\"]"));
        assert_has(heard(&trap), "AUTH");
    }
}

#[test]
fn a_store_with_a_chain_made_to_cost_seconds_is_refused_for_it() {
    let site = Site::new();
    let hostile = Authority::root("x").leaf(&["127.0.0.1"]).issue_costly();
    hostile.write(&site.directory, "hostile.pem");
    let poser = SServer::start(&site, "hostile.pem", &[]);
    let ca = site.ca();
    let (host, ..) = start(&format!("url = \"rediss://{}\"\nca = [{ca:?}]", poser.address));
    host.wait_for_stderr("of 141 certificates sent with its own, more than 6");
}

#[test]
fn an_expired_authority_of_the_store_is_said() {
    let site = Site::new();
    let past = Trait::Valid(1_577_836_800, 1_609_459_200);
    let old = Authority::root_with("old root", &[], &[past]);
    let old = old.write(&site.directory, "old.pem");
    let (host, ..) = start(&format!("url = \"rediss://127.0.0.1:1\"\nca = [{old:?}]"));
    host.wait_for_stderr("old.pem:1: the certificate of \"CN=old root\" expired");
}

#[test]
fn what_is_no_store_or_another_kind_of_it_is_told_with_the_remedy() {
    let site = Site::new();
    let tls = SServer::start(&site, "site.pem", &[]);
    let moved = poser("-MOVED 1 127.0.0.1:7000\r\n");
    for (keys, hint) in [
        (format!("url = \"redis://{}\"", tls.address), "hint: if it wants TLS, write rediss://"),
        (
            format!("url = \"rediss://{moved}\"\nca = [{:?}]", site.ca()),
            "hint: if it speaks no TLS, write redis://",
        ),
        (
            format!("url = \"redis://{moved}\""),
            "hint: it belongs to a Redis Cluster: list some of its nodes",
        ),
    ] {
        let (host, ..) = start(&keys);
        host.wait_for_stderr(hint);
    }
}
