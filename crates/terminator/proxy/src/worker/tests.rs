//! A worker's turns over real sockets; the tests control every event.

mod simulation;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::channel;

use sys::socket::{ListenOptions, PeerAddress, listen, local_address};

use super::control::COMMANDS_PER_TURN;
use super::*;
use crate::commands::{Assignment, BoundListener, Mailbox, ServerNews};
use crate::driver::CONNECTS_LATER;
use crate::tests::{Fixture, TIMEOUTS, file_context};

const LISTEN: ListenOptions =
    ListenOptions { backlog: 16, fast_open: 0, reuse_port: false, unix_mode: None };

/// Makes a service without a server, with at most this number of connections.
fn fixture(connections: u32) -> Fixture {
    let limits =
        ProcessLimits { connections, handshakes: connections, per_source: SourceLimits::OFF };
    Fixture::new("unix:@nobody", limits)
}

/// Makes workers with one listener each, and their addresses.
fn workers(fixture: &Fixture) -> Vec<(Worker, SocketAddr)> {
    let wakers: Arc<[_]> = (0..2).map(|_| Arc::new(Waker::new().unwrap())).collect();
    let allowances = Allowances::new(Arc::clone(&wakers));
    let worker = |index: usize| {
        let (sender, commands) = channel();
        let counters = fixture.registry.worker(index);
        let (waker, lines) = (Arc::clone(&wakers[index]), fixture.lines(index));
        let file_context = file_context(Mailbox::new(sender, Arc::clone(&waker)));
        let allowances = allowances.clone();
        let made = Worker::new(index, allowances, waker, commands, file_context, counters, lines);
        let mut worker = made.unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = listen(&any, &LISTEN).unwrap();
        let Ok(PeerAddress::Ip(address)) = local_address(&listener) else {
            panic!("a TCP listener has an IP address");
        };
        let services = fixture.plan.services.to_vec();
        let counters = services
            .iter()
            .map(|one| fixture.registry.service(index, &one.name, &one.server_names));
        worker.apply_plan(Assignment {
            counters: counters.collect(),
            services,
            shared: Vec::new(),
            listeners: vec![BoundListener {
                services: vec![0],
                address: any,
                fd: listener,
                is_shared: false,
            }],
            limits: fixture.plan.limits.clone(),
            log: fixture.plan.log,
            descriptors: fixture.plan.descriptors,
        });
        (worker, address)
    };
    (0..2).map(worker).collect()
}

/// Accepts a connection for each of these first flights.
fn accept(worker: &mut Worker, address: SocketAddr, words: &[&[u8]]) -> Vec<TcpStream> {
    let connect = |words: &&[u8]| {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(words).unwrap();
        client
    };
    let clients: Vec<_> = words.iter().map(connect).collect();
    let before = worker.next_connection;
    while (worker.next_connection - before) >> 8 < words.len() as u64 {
        worker.accept_some(0, words.len());
    }
    clients
}

#[test]
fn a_newcomer_that_was_not_served_in_time_costs_no_signature() {
    let fixture = fixture(10);
    let hello = fixture.choice.connect("localhost").take_wire();
    let (mut worker, address) = workers(&fixture).remove(0);
    let mut clients = accept(&mut worker, address, &[&hello, &hello]);
    assert_eq!(worker.connections.len(), 2);
    worker.now += TIMEOUTS.handshake + Duration::from_secs(1);
    worker.turn(&mut Vec::new()).unwrap();
    assert!(worker.connections.is_empty());
    for client in &mut clients {
        let mut answer = Vec::new();
        let _closed_or_reset = client.read_to_end(&mut answer);
        assert!(answer.is_empty(), "nobody was to answer it any more");
    }
}

#[test]
fn a_worker_that_was_stalled_blames_nobody_before_he_could_go_on() {
    let fixture = fixture(10);
    let (mut worker, address) = workers(&fixture).remove(0);
    let clients = accept(&mut worker, address, &[b""]);
    let mut now = worker.now;
    turn(&mut worker, now);
    let limit = worker.wait_limit(now).unwrap();
    now += limit + TIMEOUTS.handshake + STALL;
    turn(&mut worker, now);
    assert_eq!(worker.connections.len(), 1, "it has had no time to go on");
    assert_eq!(worker.wait_limit(now), Some(STALL));
    turn(&mut worker, now + STALL);
    assert!(worker.connections.is_empty());
    drop(clients);
}

#[test]
fn a_worker_without_anybody_to_displace_takes_the_place_of_anothers() {
    let fixture = fixture(3);
    let mut workers = workers(&fixture);
    let (mut second, second_address) = workers.remove(1);
    let (mut first, first_address) = workers.remove(0);
    let silent = accept(&mut first, first_address, &[b"", b"", b""]);
    let newcomers = accept(&mut second, second_address, &[b""]);
    assert_eq!((first.connections.len(), second.connections.len()), (3, 1));
    first.pay_back();
    assert_eq!((first.connections.len(), second.connections.len()), (2, 1));
    for (index, mut client) in silent.into_iter().enumerate() {
        client.set_nonblocking(true).unwrap();
        let error = client.read(&mut [0]).unwrap_err();
        let wanted = match index {
            0 => io::ErrorKind::ConnectionReset,
            _ => io::ErrorKind::WouldBlock,
        };
        assert_eq!(error.kind(), wanted, "the oldest gives way");
    }
    drop(newcomers);
}

#[test]
fn a_listener_that_is_left_alone_keeps_its_connections_for_who_accepts_next() {
    let fixture = fixture(3);
    let (mut worker, address) = workers(&fixture).remove(0);
    let before = TcpStream::connect(address).unwrap();
    worker.accept(false);
    assert_eq!(worker.connections.len(), 1, "what waited is taken first");
    let after = TcpStream::connect(address).unwrap();
    let mut ready = ReadyListeners::default();
    ready.add(0);
    worker.accept_from(&ready);
    worker.empty_queues();
    assert_eq!(worker.connections.len(), 1, "the next is another's");
    drop((before, after));
}

#[test]
fn commands_without_end_leave_the_others_their_turn() {
    let fixture = fixture(3);
    let (mut worker, _) = workers(&fixture).remove(0);
    let (sender, commands) = channel();
    worker.commands = commands;
    for _ in 0..COMMANDS_PER_TURN + 1 {
        let command = Command::Server {
            service: "none".into(),
            server: 0,
            news: ServerNews::Checked(Arc::new([])),
        };
        sender.send(command).unwrap();
    }
    let is_called = |worker: &mut Worker| {
        let mut events = Vec::new();
        worker.driver.wait(Some(Duration::ZERO), &mut events).unwrap();
        let is_called = !events.is_empty();
        worker.turn(&mut events).unwrap();
        is_called
    };
    worker.waker.wake();
    for goes_on in [true, true, false] {
        assert_eq!(is_called(&mut worker), goes_on);
    }
    assert!(worker.commands.try_recv().is_err());
}

/// Runs one turn at that time, with the events so far.
fn turn(worker: &mut Worker, now: Instant) {
    let mut events = Vec::new();
    let wait = worker.driver.wait(Some(Duration::ZERO), &mut events);
    wait.unwrap();
    worker.now = now;
    worker.turn(&mut events).unwrap();
}

/// Ends a server's sessions, those among them that have not begun.
#[test]
fn a_session_is_not_begun_at_a_server_that_was_closed_while_it_was_dialled() {
    CONNECTS_LATER.set(true);
    for closes in [false, true] {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let limits = fixture(10).plan.limits;
        let fixture = Fixture::new(&server.local_addr().unwrap().to_string(), limits);
        let (mut worker, address) = workers(&fixture).remove(0);
        let now = Instant::now();
        let mut client = fixture.choice.connect("localhost");
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        let is_dialling = |worker: &mut Worker| {
            let mut ids = worker.connections.ids().into_iter();
            let mut find = |id| Some(worker.connections.find(id)?.dial.is_under_way());
            ids.any(|id| find(id) == Some(true))
        };
        while !is_dialling(&mut worker) {
            stream.write_all(&client.take_wire()).unwrap();
            turn(&mut worker, now);
            let mut room = [0; 4096];
            if let Ok(count) = stream.read(&mut room) {
                client.receive(&room[..count], &mut Vec::new()).unwrap();
            }
        }
        let service = Rc::clone(&worker.services[0]);
        service.note(0, &ServerNews::Disabled(true));
        if closes {
            service.note(0, &ServerNews::Close);
            worker.close_sessions(&service);
        }
        while is_dialling(&mut worker) {
            turn(&mut worker, now);
        }
        let open = service.pool.borrow().state(0).unwrap().open;
        assert_eq!(open, u32::from(!closes));
    }
    CONNECTS_LATER.set(false);
}

#[test]
fn a_client_that_goes_on_after_the_servers_end_is_heard_a_little_later() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = server.local_addr().unwrap().to_string();
    let limits = fixture(10).plan.limits;
    let fixture = Fixture::with_places(&at, limits, None);
    let (mut worker, address) = workers(&fixture).remove(0);
    // No clock of this host comes so far: everything happens at one instant.
    let now = Instant::now() + Duration::from_secs(3600);
    let mut client = fixture.choice.connect("localhost");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream.set_nodelay(true).unwrap();
    server.set_nonblocking(true).unwrap();
    let mut behind = None;
    while !client.is_closed_by_server() {
        stream.write_all(&client.take_wire()).unwrap();
        turn(&mut worker, now);
        if let Ok((accepted, _)) = server.accept() {
            accepted.shutdown(Shutdown::Write).unwrap();
            accepted.set_nonblocking(true).unwrap();
            behind = Some(accepted);
        }
        let mut room = [0; 4096];
        if let Ok(count) = stream.read(&mut room) {
            client.receive(&room[..count], &mut Vec::new()).unwrap();
        }
    }
    let mut behind = behind.unwrap();
    let wakes_at = worker.lingering.wakes_at().unwrap();
    assert!(worker.wait_limit(now) <= Some(wakes_at - now));
    client.send(b"but wait");
    stream.write_all(&client.take_wire()).unwrap();
    turn(&mut worker, now);
    let nothing = behind.read(&mut [0]).unwrap_err();
    assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    turn(&mut worker, wakes_at);
    assert_eq!(worker.lingering.wakes_at(), None);
    behind.set_nonblocking(false).unwrap();
    let mut heard = [0; 8];
    behind.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"but wait");
    // The connection is watched again, and its end is an event.
    client.close();
    stream.write_all(&client.take_wire()).unwrap();
    turn(&mut worker, wakes_at);
    assert!(worker.connections.is_empty());
}
