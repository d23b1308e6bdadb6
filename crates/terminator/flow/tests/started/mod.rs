//! Clients that begin in plaintext and ask for TLS, with all bytes cut randomly.

use std::rc::Rc;

use flow::events::{Action, Event, ReceiveResult};
use flow::facts::ConnectionEnd;
use flow::options::{SendProxy, Starttls};
use telemetry::outcome::Reason;
use wire::starttls::{Dialect, Policy, StarttlsSides};

use crate::simulation::backend::SERVERS;
use crate::simulation::{Run, Stage, TIMEOUTS};

fn stage(policy: Policy) -> Stage {
    stage_of(Dialect::Smtp, policy)
}

fn stage_of(dialect: Dialect, policy: Policy) -> Stage {
    let mut stage = Stage::new(SendProxy::Off);
    Rc::make_mut(&mut stage.settings).starttls = Some(Starttls {
        dialect,
        sides: StarttlsSides { front: Some(policy), back: false },
        server_name: None,
        own_name: "own.example".to_owned(),
    });
    stage
}

/// Makes a connection whose client has been greeted.
fn greeted(stage: &Stage, seed: u64) -> Run {
    let mut run = Run::new(stage, &stage.choice(true, &[]), seed, b"220 mx\r\n".to_vec());
    speak(&mut run, b"", b"220 mx\r\n");
    run
}

/// Sends the client's bytes in plaintext, and checks the answer.
fn speak(run: &mut Run, bytes: &[u8], answer: &[u8]) {
    ask(run, bytes, b"", answer);
}

/// Sends the client's bytes, all of which the server gets and replies to, and checks the answer.
fn ask(run: &mut Run, bytes: &[u8], mut reply: &[u8], answer: &[u8]) {
    run.to_flow.extend(bytes);
    for _ in 0..10_000 {
        if !reply.is_empty() && run.backend_got().ends_with(bytes) {
            server_says(run, std::mem::take(&mut reply));
        }
        run.act();
        run.client_to_flow();
        run.flow_to_backend();
        run.backend_to_flow();
        run.flow_to_client();
        if run.from_flow.len() >= answer.len() && run.to_flow.is_empty() {
            break;
        }
    }
    let got: Vec<u8> = run.from_flow.drain(..).collect();
    assert_eq!(got.escape_ascii().to_string(), answer.escape_ascii().to_string());
}

fn until_server_got(run: &mut Run, bytes: &[u8]) {
    let what = bytes.escape_ascii().to_string();
    run.until(&what, |run| run.backend_got().ends_with(bytes));
}

fn server_says(run: &mut Run, bytes: &[u8]) {
    run.backend.as_mut().unwrap().to_flow.extend(bytes);
}

#[test]
fn tls_begins_when_the_client_asks_and_the_rest_is_relayed() {
    for seed in 0..24 {
        let mut run = greeted(&stage(Policy::Required), seed);
        ask(&mut run, b"EHLO x\r\n", b"250 mx\r\n", b"250-mx\r\n250 STARTTLS\r\n");
        speak(&mut run, b"STARTTLS\r\n", b"220 2.0.0 Ready to start TLS\r\n");
        run.client.send(b"EHLO y\r\nMAIL FROM:<>\r\n");
        until_server_got(&mut run, b"EHLO y\r\n");
        assert_eq!(run.backend_got(), b"EHLO x\r\nEHLO y\r\n");
        server_says(&mut run, b"250-mx\r\n250-STARTTLS\r\n250 SIZE\r\n");
        run.until("the list", |run| run.client_got == b"250-mx\r\n250 SIZE\r\n");
        until_server_got(&mut run, b"MAIL FROM:<>\r\n");
        // No more words are left to rewrite from here on.
        let (up, down) = (vec![3; 100_000], vec![4; 100_000]);
        run.client.send(&up);
        server_says(&mut run, &down);
        run.until("all of it", |run| {
            run.backend_got().ends_with(&up) && run.client_got.ends_with(&down)
        });
        assert_eq!(run.flow.facts().bytes_down, 8 + 8 + 32 + 100_000);
        run.backend.as_mut().unwrap().is_ended = true;
        run.until("a clean end", |run| run.client.is_closed_by_server());
        run.client.close();
        run.finish();
    }
}

#[test]
fn a_client_that_may_stay_in_plaintext_is_relayed_as_it_is() {
    for seed in 0..8 {
        let mut run = greeted(&stage(Policy::Optional), seed);
        ask(&mut run, b"MAIL FROM:<>\r\n", b"250 ok\r\n", b"250 ok\r\n");
        assert!(!run.flow.is_handshaking());
        run.client_fin = true;
        run.until("the client's end", |run| run.actions.contains(&Action::ShutdownBack));
        run.backend.as_mut().unwrap().is_ended = true;
        run.until("the end", |run| run.flow.is_over());
        assert_eq!(run.reason(), Some(Reason::ClientClosed));
        run.assert_over();
    }
}

/// Runs on with a client that sends only the bytes on their way.
fn until_without_tls(run: &mut Run, done: impl Fn(&mut Run) -> bool) {
    for _ in 0..10_000 {
        if done(run) {
            return;
        }
        run.act();
        run.client_to_flow();
        run.flow_to_backend();
        run.backend_to_flow();
        run.flow_to_client();
    }
    panic!("never came to pass; ending {:?}", run.flow.ending());
}

#[test]
fn a_request_to_cancel_goes_to_one_server_after_the_other_though_its_client_is_gone() {
    let request = b"\x00\x00\x00\x10\x04\xd2\x16\x2epid1key1";
    for seed in 0..24 {
        let stage = stage_of(Dialect::Postgres, Policy::Required);
        let mut run = Run::new(&stage, &stage.choice(true, &[]), seed, b"spoken".to_vec());
        // The client has no TLS.
        run.to_flow.extend(request);
        run.client_fin = true;
        until_without_tls(&mut run, |run| {
            if let Some(server) = run.backend.as_mut().filter(|one| one.got_end) {
                server.is_ended = true;
            }
            run.flow.is_over()
        });
        run.act();
        assert_eq!(run.earlier, vec![request.to_vec(); SERVERS]);
        assert_eq!(run.reason(), Some(Reason::ClientClosed));
        assert_eq!(run.from_flow, b"");
        run.assert_over();
    }
}

#[test]
fn a_server_that_does_not_answer_a_request_to_cancel_holds_up_no_other() {
    let stage = stage_of(Dialect::Postgres, Policy::Required);
    let mut run = Run::new(&stage, &stage.choice(true, &[]), 1, Vec::new());
    run.to_flow.extend(b"\x00\x00\x00\x10\x04\xd2\x16\x2epid1key1");
    for number in 0..SERVERS {
        until_without_tls(&mut run, |run| run.backend.as_ref().is_some_and(|one| one.got_end));
        assert_eq!(run.earlier.len(), number);
        run.now = run.flow.deadline().unwrap();
        run.handle(Event::Timeout);
        run.act();
    }
    run.client_fin = true;
    until_without_tls(&mut run, |run| run.flow.is_over());
    assert_eq!((run.earlier.len(), run.reason()), (SERVERS, Some(Reason::ClientClosed)));
}

#[test]
fn what_fails_before_tls_is_told_in_words_and_counted() {
    let until_over = |run: &mut Run, reason, words: &str| {
        run.until("the words", |run| run.flow.is_over() || run.front_shut);
        let bytes: Vec<u8> = run.from_flow.iter().copied().collect();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(words) || words.is_empty(), "{text}");
        assert_eq!(run.reason(), Some(reason), "{text}");
        run.client_fin = true;
        run.until("the end", |run| run.flow.is_over());
        run.assert_over();
    };
    let start = || greeted(&stage(Policy::Required), 3);
    let mut run = start();
    let room = run.flow.front_room(&mut run.pool).unwrap();
    room[..16].copy_from_slice(b"STARTTLS\r\nRSET\r\n");
    run.handle(Event::FrontReceived(ReceiveResult::Bytes(16)));
    assert_eq!(run.reason(), Some(Reason::StarttlsInjection));
    assert!(run.flow.front_pending().starts_with(b"554 5.5.0 "));
    run.handle(Event::Stopped(Reason::Drained));
    run.act();
    run.assert_over();

    let mut run = start();
    speak(&mut run, b"DATA\r\n", b"530 5.7.0 Must issue a STARTTLS command first\r\n");
    run.handle(Event::FrontReceived(ReceiveResult::End));
    run.act();
    assert_eq!(run.reason(), Some(Reason::StarttlsRequired));
    run.assert_over();

    let mut run = start();
    run.backend.as_mut().unwrap().is_ended = true;
    while run.reason().is_none() {
        run.backend_to_flow();
        run.act();
    }
    until_over(&mut run, Reason::BackendClosed, "");

    // The server does not answer the request.
    let mut run = start();
    speak(&mut run, b"NOOP\r\n", b"");
    run.now += TIMEOUTS.handshake;
    run.handle(Event::Timeout);
    assert_eq!(run.reason(), Some(Reason::ServerStarttlsFailed));
    assert!(run.flow.front_pending().starts_with(b"421 "));
    run.handle(Event::Stopped(Reason::Drained));
    run.act();
    run.assert_over();

    let stage = stage(Policy::Required);
    let mut run = Run::new(&stage, &stage.choice(true, &[]), 3, Vec::new());
    assert_eq!(run.flow.poll_action(), Some(Action::Dial));
    run.handle(Event::DialFailed(ConnectionEnd::new(Reason::BackendRefused)));
    assert_eq!(run.flow.front_pending(), b"421 4.3.2 No server is available\r\n");
    until_over(&mut run, Reason::BackendRefused, "");
}

#[test]
fn a_client_that_does_not_read_its_answers_is_asked_for_no_more() {
    let mut run = greeted(&stage(Policy::Required), 1);
    let begin = b"220 2.0.0 Ready to start TLS\r\n";
    speak(&mut run, b"STARTTLS\r\n", begin);
    run.until("TLS", |run| run.flow.facts().established.is_some());
    for _ in 0..200 {
        run.client.send(&b"STARTTLS\r\n".repeat(1000));
        run.to_flow.extend(run.client.take_wire());
        run.client_to_flow();
        run.act();
        let waiting = run.flow.front_pending().len();
        assert!(waiting < 200 << 10, "{waiting} bytes of answers");
    }
    assert!(run.flow.ending().is_none() && !run.to_flow.is_empty());
    run.until("an answer to each", |run| {
        run.client_got.ends_with(b"active\r\n") && run.to_flow.is_empty()
            || run.flow.ending().is_some()
    });
    run.handle(Event::Stopped(Reason::Drained));
    run.act();
    run.assert_over();
}

#[test]
fn of_a_reply_without_end_no_more_is_kept_than_the_client_reads() {
    let mut run = greeted(&stage(Policy::Required), 1);
    speak(&mut run, b"NOOP\r\n", b"");
    until_server_got(&mut run, b"NOOP\r\n");
    server_says(&mut run, &b"250-x\r\n".repeat(200_000));
    for _ in 0..1000 {
        run.backend_to_flow();
        run.act();
        let waiting = run.flow.front_pending().len();
        assert!(waiting < 64 << 10, "{waiting} bytes of a reply");
    }
    assert!(run.flow.ending().is_none() && run.flow.back_room(&mut run.pool).is_none());
    while run.reason().is_none() {
        run.backend_to_flow();
        run.act();
        run.flow_to_client();
    }
    assert_eq!(run.reason(), Some(Reason::ServerStarttlsFailed));
    let told = b"421 4.3.2 No server is available\r\n";
    assert!(run.flow.front_pending().ends_with(told));
    run.handle(Event::Stopped(Reason::Drained));
    run.act();
    run.assert_over();
}

#[test]
fn a_late_greeting_is_one_and_a_silent_client_has_its_time() {
    let stage = stage(Policy::Required);
    let mut run = Run::new(&stage, &stage.choice(true, &[]), 3, Vec::new());
    run.act();
    run.now += TIMEOUTS.greeting.mul_f32(0.9);
    run.handle(Event::Timeout);
    server_says(&mut run, b"220 late\r\n");
    speak(&mut run, b"", b"220 late\r\n");
    // The client has its whole time from there; half of its request does not extend it.
    run.now += TIMEOUTS.handshake.mul_f32(0.9);
    run.handle(Event::Timeout);
    speak(&mut run, b"START", b"");
    assert_eq!(run.reason(), None);
    run.now += TIMEOUTS.handshake.mul_f32(0.1);
    run.handle(Event::Timeout);
    assert_eq!(run.reason(), Some(Reason::HandshakeTimeout));
    run.act();
    run.assert_over();
}

/// Connects a server of the dialect that sends nothing.
fn silent_server(dialect: Dialect) -> Run {
    let mut stage = stage(Policy::Required);
    let starttls = &mut Rc::make_mut(&mut stage.settings).starttls;
    let starttls = starttls.as_mut().unwrap();
    (starttls.dialect, starttls.sides.back) = (dialect, true);
    let mut run = Run::new(&stage, &stage.choice(true, &[]), 3, Vec::new());
    assert_eq!(run.flow.poll_action(), Some(Action::Dial));
    run.handle(Event::ServerChosen { server: 0, is_local: false });
    run.now += TIMEOUTS.dial.mul_f32(0.9);
    run.handle(Event::BackConnected);
    run
}

#[test]
fn a_server_s_pause_before_its_greeting_is_not_a_dial_s() {
    if !crate::BACK_TLS {
        return;
    }
    for (dialect, limit) in [
        (Dialect::Smtp, TIMEOUTS.greeting),
        // A silent database is down.
        (Dialect::Mysql, TIMEOUTS.dial),
    ] {
        let mut run = silent_server(dialect);
        let connected = run.now;
        for (part, is_given_up) in [(0.99, false), (1.0, true)] {
            run.now = connected + limit.mul_f32(part);
            run.handle(Event::Timeout);
            let mut actions = std::iter::from_fn(|| run.flow.poll_action());
            let redials = actions.any(|action| action == Action::Redial);
            assert_eq!(redials, is_given_up, "{dialect:?} {part}");
        }
        run.handle(Event::Stopped(Reason::Drained));
        run.act();
    }
}

#[test]
fn a_mysql_client_has_to_log_in_within_the_time_of_a_handshake() {
    for logs_in in [true, false] {
        let mut stage = stage(Policy::Required);
        let starttls = &mut Rc::make_mut(&mut stage.settings).starttls;
        starttls.as_mut().unwrap().dialect = Dialect::Mysql;
        let choice = stage.choice(true, &[]);
        let mut run = Run::new(&stage, &choice, 3, mysql_greeting());
        speak(&mut run, b"", &mysql_greeting());
        // `PROTOCOL_41`, `SSL`, `SECURE_CONNECTION`.
        let mut request = vec![0, 0x8a, 0, 0, 0, 0, 0, 1, 45];
        request.resize(32, 0);
        speak(&mut run, &[&[32, 0, 0, 1], &request[..]].concat(), b"");
        run.until("TLS", |run| run.client.is_established());
        run.until("our half", |run| !run.flow.is_handshaking());
        let login = [&[37, 0, 0, 2], &request[..], b"tom\0\0"].concat();
        if logs_in {
            run.client.send(&login);
            until_server_got(&mut run, b"tom\0\0");
        } else {
            // Half of a login does not count.
            run.client.send(&login[..20]);
            run.until("half a login", |run| run.flow.facts().bytes_up == 56);
        }
        run.now = run.flow.facts().accepted + TIMEOUTS.handshake;
        run.handle(Event::Timeout);
        let wanted = (!logs_in).then_some(Reason::HandshakeTimeout);
        assert_eq!(run.reason(), wanted);
        run.handle(Event::Stopped(Reason::Drained));
        run.act();
        run.assert_over();
    }
}

#[test]
fn a_client_that_is_at_fault_is_not_held_against_the_server() {
    if !crate::BACK_TLS {
        return;
    }
    let mut stage = stage(Policy::Required);
    let starttls = &mut Rc::make_mut(&mut stage.settings).starttls;
    starttls.as_mut().unwrap().sides.back = true;
    let mut run = Run::new(&stage, &stage.choice(true, &[]), 3, Vec::new());
    assert_eq!(run.flow.poll_action(), Some(Action::Dial));
    run.handle(Event::ServerChosen { server: 0, is_local: false });
    run.handle(Event::BackConnected);
    run.to_flow.extend([b'x'; 100_000]);
    while run.reason().is_none() && !run.to_flow.is_empty() {
        run.client_to_flow();
    }
    let mut actions = std::iter::from_fn(|| run.flow.poll_action());
    assert!(actions.all(|action| action != Action::Redial));
    assert_eq!(run.reason(), Some(Reason::StarttlsMalformed));
    run.handle(Event::Stopped(Reason::Drained));
    run.act();
    run.assert_over();
}

#[test]
fn a_client_gets_the_last_words_of_a_server_that_are_no_whole_reply() {
    let head = b"<stream:stream xmlns='jabber:client'>";
    let last_words = b"<?xml version='1.0'?><stream:stream id='1'>";
    for seed in 0..8 {
        let stage = stage_of(Dialect::Xmpp, Policy::Required);
        let mut run = Run::new(&stage, &stage.choice(true, &[]), seed, Vec::new());
        run.to_flow.extend(head);
        until_without_tls(&mut run, |run| {
            run.from_flow.make_contiguous().ends_with(b"</stream:features>")
        });
        run.from_flow.clear();
        run.to_flow.extend(b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
        until_without_tls(&mut run, |run| run.from_flow.make_contiguous().ends_with(b"/>"));
        run.from_flow.clear();
        run.client.send(head);
        until_server_got(&mut run, head);
        server_says(&mut run, last_words);
        run.backend.as_mut().unwrap().is_ended = true;
        run.until("the last words", |run| run.client.is_closed_by_server());
        assert_eq!(run.client_got, last_words);
        assert_eq!(run.flow.facts().bytes_down, last_words.len() as u64);
        run.client.close();
        run.finish();
    }
}

fn mysql_greeting() -> Vec<u8> {
    let payload = b"\x0a8.0\0\x01\0\0\0abcdefgh\0\xff\xff\xff\x02\0\xff\xdf\x15\
        \0\0\0\0\0\0\0\0\0\0abcdefghijkl\0caching_sha2_password\0";
    [&[payload.len() as u8, 0, 0, 0], &payload[..]].concat()
}

#[test]
fn a_server_that_waits_for_the_client_is_not_at_fault() {
    if !crate::BACK_TLS {
        return;
    }
    let mut stage = stage(Policy::Required);
    let starttls = &mut Rc::make_mut(&mut stage.settings).starttls;
    let starttls = starttls.as_mut().unwrap();
    (starttls.dialect, starttls.sides.back) = (Dialect::Mysql, true);
    let greeting = mysql_greeting();
    let gave_up = b"\x1a\x00\x00\x01\xff\xd7\x0f#08S01you were too slow";
    for (received, reason) in [
        (None, Reason::HandshakeTimeout),
        (Some(ReceiveResult::Bytes(gave_up.len())), Reason::ServerStarttlsFailed),
        (Some(ReceiveResult::End), Reason::BackendClosed),
        (Some(ReceiveResult::Failed), Reason::BackendReset),
    ] {
        let mut run = Run::new(&stage, &stage.choice(true, &[]), 3, Vec::new());
        assert_eq!(run.flow.poll_action(), Some(Action::Dial));
        run.handle(Event::ServerChosen { server: 0, is_local: false });
        run.handle(Event::BackConnected);
        let room = run.flow.back_room(&mut run.pool).unwrap().next().unwrap();
        room[..greeting.len()].copy_from_slice(&greeting);
        run.handle(Event::BackReceived(ReceiveResult::Bytes(greeting.len())));
        assert!(!run.flow.front_pending().is_empty());
        match received {
            Some(received) => {
                let room = run.flow.back_room(&mut run.pool).unwrap().next();
                let room = room.unwrap();
                room[..received.bytes()].copy_from_slice(&gave_up[..received.bytes()]);
                run.handle(Event::BackReceived(received));
            }
            None => {
                run.now += TIMEOUTS.dial.max(TIMEOUTS.handshake);
                run.handle(Event::Timeout);
            }
        }
        let mut actions = std::iter::from_fn(|| run.flow.poll_action());
        assert!(actions.all(|action| action != Action::Redial), "{reason:?}");
        assert_eq!(run.reason(), Some(reason));
        run.handle(Event::Stopped(Reason::Drained));
        run.act();
    }
}
