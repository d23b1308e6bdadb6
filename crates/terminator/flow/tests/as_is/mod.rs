//! Tests of connections whose bytes are relayed as they come, and of those routed by their hello.

use std::rc::Rc;
use std::time::Duration;

use flow::events::{Action, Event, ReceiveResult};
use flow::facts::ConnectionEnd;
use flow::options::{Front, ProxyTlvs, SendProxy};
use static_files::challenge::HttpChallenges;
use telemetry::outcome::Reason;
use tls::options::{Group, UnknownName};
use tls::resumption::{Resumption, ResumptionOptions};

use crate::simulation::{Run, Stage};

const ALERT_UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Returns the stage with another treatment of the client's TLS.
fn with_front(stage: &Stage, front: Front) -> Stage {
    let mut other = stage.clone();
    let settings = Rc::make_mut(&mut other.settings);
    settings.front = front;
    settings.offload = None;
    other
}

fn plain() -> Stage {
    with_front(&Stage::new(SendProxy::Off), Front::Plain(HttpChallenges::default()))
}

/// Starts a connection whose client has sent nothing yet.
fn start(stage: &Stage, seed: u64, reply: Vec<u8>) -> Run {
    let mut run = Run::new(stage, &stage.choice(true, &[]), seed, reply);
    run.act();
    run
}

/// Lets one random event happen; the client sends bytes without TLS.
fn step(run: &mut Run) {
    run.now += Duration::from_micros(7);
    match run.chance.below(4) {
        0 => run.client_to_flow(),
        1 => run.flow_to_client(),
        2 => run.backend_to_flow(),
        _ => run.flow_to_backend(),
    }
    run.act();
}

fn steps_until(run: &mut Run, what: &str, done: impl Fn(&Run) -> bool) {
    for _ in 0..200_000 {
        if done(run) {
            return;
        }
        step(run);
    }
    panic!("never came to pass: {what}; ending {:?}", run.flow.ending());
}

/// Returns the hello of a client that asks for `localhost`.
fn hello(stage: &Stage) -> Vec<u8> {
    stage.choice(true, &[]).connect("localhost").take_wire()
}

fn reset_before_close(run: &Run) -> bool {
    let place = |wanted| run.actions.iter().position(|one| *one == wanted);
    let reset = place(Action::ResetFront);
    reset.is_some() && reset < place(Action::Close)
}

#[test]
fn plain_bytes_go_both_ways_at_any_split_and_each_end_is_passed_on() {
    let stage = plain();
    for seed in 0..24 {
        let sizes = [0, 1, 16_384, 300_000];
        let size = |index: u64| sizes[index as usize % sizes.len()];
        let mut run = start(&stage, seed, Vec::new());
        assert_eq!(run.actions[0], Action::Dial, "before the client has spoken");
        let request = run.chance.bytes(size(seed));
        let reply = run.chance.bytes(size(seed / 4));
        run.to_flow.extend(&request);
        run.client_fin = seed % 2 == 0;
        let backend = run.backend.as_mut().unwrap();
        backend.to_flow.extend(&reply);
        backend.is_ended = seed % 2 != 0;
        steps_until(&mut run, "all", |run| {
            run.backend_got().len() == request.len() && run.from_flow.len() == reply.len()
        });
        assert!(run.backend_got() == request, "seed {seed}");
        assert!(run.from_flow.iter().eq(&reply), "seed {seed}");
        if run.client_fin {
            steps_until(&mut run, "the client's end", |run| run.backend.as_ref().unwrap().got_end);
            run.backend.as_mut().unwrap().is_ended = true;
        } else {
            steps_until(&mut run, "the server's end", |run| run.front_shut);
            run.client_fin = true;
        }
        steps_until(&mut run, "the end", |run| run.flow.is_over());
        run.assert_over();
        let first = if seed % 2 == 0 { Reason::ClientClosed } else { Reason::BackendClosed };
        assert_eq!(run.reason(), Some(first), "seed {seed}");
        assert!(!run.actions.contains(&Action::ResetFront), "seed {seed}");
    }
}

#[test]
fn what_is_cut_ends_by_a_reset_and_by_nothing_else() {
    let broken = ConnectionEnd::new(Reason::BackendRefused);
    for (event, reason) in [
        (Event::DialFailed(broken), Reason::BackendRefused),
        (Event::BackReceived(ReceiveResult::Failed), Reason::BackendReset),
        (Event::Stopped(Reason::Drained), Reason::Drained),
        (Event::Timeout, Reason::IdleTimeout),
    ] {
        let mut run = start(&plain(), 1, Vec::new());
        run.now += Duration::from_secs(61);
        run.handle(event);
        run.act();
        assert_eq!(run.reason(), Some(reason));
        assert!(reset_before_close(&run), "{:?}", run.actions);
        assert!(!run.front_shut && run.from_flow.is_empty());
        run.assert_over();
    }
}

fn challenged() -> Stage {
    let challenges = HttpChallenges::default();
    challenges.set([("t0".to_owned(), "t0.thumb".to_owned())]);
    with_front(&Stage::new(SendProxy::Off), Front::Plain(challenges))
}

/// Starts a connection whose server cannot be reached, and which waits for the client's bytes.
fn refused(stage: &Stage) -> Run {
    let mut run = Run::new(stage, &stage.choice(true, &[]), 1, Vec::new());
    assert_eq!(run.flow.poll_action(), Some(Action::Dial), "no client waits for that");
    run.handle(Event::DialFailed(ConnectionEnd::new(Reason::BackendRefused)));
    run.act();
    assert!(!run.flow.is_over());
    run
}

const CHALLENGE: &[u8] = b"GET /.well-known/acme-challenge/t0 HTTP/1.1\r\nHost: a.example\r\n\r\n";

#[test]
fn an_authority_is_answered_whether_a_server_can_be_reached_or_not() {
    let stage = challenged();
    for seed in 0..24 {
        let mut run = if seed % 2 == 0 { refused(&stage) } else { start(&stage, seed, Vec::new()) };
        run.to_flow.extend(CHALLENGE);
        steps_until(&mut run, "the answer", |run| run.front_shut);
        let answer: Vec<_> = run.from_flow.iter().copied().collect();
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", answer.escape_ascii());
        assert!(answer.ends_with(b"\r\n\r\nt0.thumb"), "{}", answer.escape_ascii());
        run.client_fin = true;
        steps_until(&mut run, "the end", |run| run.flow.is_over());
        run.assert_over();
        assert_eq!(run.reason(), Some(Reason::AcmeValidation));
        assert!(!run.actions.contains(&Action::ResetFront), "seed {seed}");
        assert!(run.backend.as_ref().is_none_or(|server| server.got.is_empty()), "seed {seed}");
    }
}

#[test]
fn all_others_reach_the_server_while_an_authority_is_expected() {
    let stage = challenged();
    let split = CHALLENGE.len() - 30;
    let others = [b"GET / HTTP/1.1\r\n\r\n", &CHALLENGE[..split], b"GET /.w", b"\x16\x03\x01"];
    for (seed, other) in (0..).zip(others.into_iter().cycle().take(24)) {
        let mut run = start(&stage, seed, Vec::new());
        run.to_flow.extend(other);
        // Some clients end their stream, and some are slow.
        run.client_fin = seed % 8 < 4;
        steps_until(&mut run, "all is read", |run| {
            run.to_flow.is_empty() && run.flow.facts().connected.is_some()
        });
        if !run.client_fin {
            run.now += Duration::from_secs(2);
            run.handle(Event::Timeout);
            run.act();
        }
        steps_until(&mut run, "all", |run| run.backend_got().len() == other.len());
        assert!(run.backend_got() == other, "seed {seed}");
    }
    // A client without a request gets the same ending if the server cannot be reached.
    let mut run = refused(&stage);
    run.now += Duration::from_secs(2);
    run.handle(Event::Timeout);
    run.act();
    assert_eq!(run.reason(), Some(Reason::BackendRefused));
    assert!(reset_before_close(&run), "{:?}", run.actions);
}

#[test]
fn a_server_that_resets_is_heard_first() {
    let mut run = start(&plain(), 1, b"last words".to_vec());
    while run.flow.front_pending().is_empty() {
        run.backend_to_flow();
    }
    let heard = run.flow.front_pending().to_vec();
    run.handle(Event::BackReceived(ReceiveResult::Failed));
    run.act();
    assert!(!run.flow.is_over(), "there is something to be sent");
    steps_until(&mut run, "the end", |run| run.flow.is_over());
    assert!(run.from_flow.iter().eq(&heard));
    assert!(reset_before_close(&run));
}

#[test]
fn a_hello_that_stays_closed_is_passed_on_unchanged_however_it_is_cut() {
    let tlvs = ProxyTlvs {
        alpn: true,
        authority: true,
        ssl: true,
        crc32c: false,
        unique_id: false,
        ja4: false,
        client_certificate: None,
    };
    let stage = with_front(&Stage::new(SendProxy::V2(tlvs)), Front::Passthrough);
    let mut wire = hello(&stage);
    wire.extend(b"and more");
    for cut in 0..wire.len() - 8 {
        let mut run = start(&stage, 1, Vec::new());
        run.to_flow.extend(&wire[..cut]);
        while !run.to_flow.is_empty() {
            run.client_to_flow();
            run.act();
        }
        assert_eq!(run.actions, [], "nothing is dialled for a part of a hello");
        run.to_flow.extend(&wire[cut..]);
        steps_until(&mut run, "the hello", |run| run.backend_got().ends_with(b"and more"));
        let got = run.backend_got();
        assert!(got.ends_with(&wire), "cut at {cut}");
        // Only PP2_TYPE_AUTHORITY (2), no PP2_TYPE_SSL.
        let header = &got[..got.len() - wire.len()];
        assert!(header.windows(12).any(|at| at == b"\x02\0\x09localhost"));
        assert_eq!(header.len(), 16 + 12 + 12);
        assert_eq!(run.flow.facts().server_name.as_deref(), Some("localhost"));
        assert_eq!(run.flow.facts().bytes_up, wire.len() as u64);
        assert!(run.flow.is_unused() && run.flow.is_answered());
    }
}

#[test]
fn a_session_of_tls_1_2_that_passes_by_is_noted_once_it_can_be_resumed() {
    let mut stage = with_front(&Stage::new(SendProxy::Off), Front::Passthrough);
    let settings = Rc::make_mut(&mut stage.settings);
    let resumption = Resumption::new(&ResumptionOptions::new([7; 32]));
    settings.passing_sessions = Some(resumption.passing_sessions("web"));
    settings.back_tls = None;
    for is_tls13 in [false, true] {
        let choice = stage.choice(is_tls13, &[]).without_tickets();
        let mut before = None;
        for seed in (u64::from(!is_tls13)..24).step_by(2) {
            let mut run = Run::new(&stage, &choice, seed, vec![7; 50_000]);
            run.leaf = Some(Rc::clone(&stage.leaf));
            run.until("all of it", |run| run.client_got.len() == 50_000);
            let noted = run.actions.iter().filter(|one| **one == Action::NoteSession);
            assert_eq!(noted.count(), usize::from(!is_tls13), "seed {seed}");
            let session = run.flow.facts().passing_session.as_deref().cloned().unwrap();
            assert_eq!(session.may_be_random, is_tls13);
            assert_eq!(session.agreed.is_some(), !is_tls13);
            if !is_tls13 {
                assert_eq!(session.offered, before, "the client offers what was noted");
                assert_ne!(session.agreed, before, "each server is another one");
                before = session.agreed;
            }
        }
    }
}

#[test]
fn what_is_no_hello_reaches_no_server() {
    let shared = with_front(&Stage::new(SendProxy::Off), Front::Shared);
    let closed = with_front(&shared, Front::Passthrough);
    let sslv2 = [0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10];
    for stage in [shared, closed] {
        for (bytes, reason) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], Reason::PlainHttp),
            (&b"SSH-2.0-x\r\n"[..], Reason::NotTls),
            (&sslv2[..], Reason::VersionTooOld),
            (&[22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff], Reason::HelloTooLarge),
        ] {
            let mut run = start(&stage, 1, Vec::new());
            run.to_flow.extend(bytes);
            for _ in 0..1000 {
                step(&mut run);
            }
            assert_eq!(run.reason(), Some(reason));
            assert!(!run.actions.contains(&Action::Dial), "{reason:?}");
            assert!(!run.actions.contains(&Action::Route), "{reason:?}");
        }
    }
}

#[test]
fn a_hello_leads_to_a_service_of_either_kind_at_any_split() {
    let ours = Stage::new(SendProxy::Off);
    let shared = with_front(&ours, Front::Shared);
    for seed in 0..24 {
        let mut run = Run::new(&shared, &shared.choice(true, &[]), seed, b"reply".to_vec());
        run.routed_to = Some(Rc::clone(&ours.settings));
        run.until("the reply", |run| run.client_got == b"reply");
        let asked = run.actions.iter().filter(|one| **one == Action::Route);
        assert_eq!(asked.count(), 1);
        run.backend.as_mut().unwrap().is_ended = true;
        run.finish();

        let mut run = start(&shared, seed, Vec::new());
        let wire = hello(&shared);
        run.routed_to = Some(with_front(&ours, Front::Passthrough).settings);
        run.to_flow.extend(&wire);
        steps_until(&mut run, "the hello", |run| run.backend_got().len() == wire.len());
        assert!(run.backend_got() == wire);
    }
}

#[test]
fn a_name_of_no_service_is_refused_with_its_alert() {
    let shared = with_front(&Stage::new(SendProxy::Off), Front::Shared);
    let mut run = start(&shared, 1, Vec::new());
    run.to_flow.extend(hello(&shared));
    run.client_fin = true;
    steps_until(&mut run, "the end", |run| run.flow.is_over());
    assert!(run.from_flow.iter().eq(&ALERT_UNRECOGNIZED_NAME));
    assert_eq!(run.reason(), Some(Reason::NameUnknown));
    assert!(!run.actions.contains(&Action::ResetFront), "the alert must arrive");
}

/// RFC 8446 section 4.1.2: nothing but the key share may change after a HelloRetryRequest, and a
/// service that was chosen by one name must not serve another.
#[test]
fn a_name_that_changes_after_a_retry_is_no_way_in() {
    let retrying = Stage::new(SendProxy::Off).changed(|options| {
        options.groups = vec![Group::Secp384r1];
        options.unknown_name = UnknownName::Default;
    });
    let shared = with_front(&retrying, Front::Shared);
    let mut run = Run::new(&shared, &shared.choice(true, &[]), 1, Vec::new());
    run.routed_to = Some(Rc::clone(&retrying.settings));
    let mut first = run.client.take_wire();
    replace(&mut first, b"localhost", b"otherhost");
    run.to_flow.extend(first);
    run.until("the alert", |run| run.flow.ending().is_some());
    assert_eq!(run.reason(), Some(Reason::ProtocolViolation));
    assert_eq!(run.flow.facts().server_name.as_deref(), Some("otherhost"));
    assert!(run.flow.facts().established.is_none() && run.backend.is_none());
}

fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let place = bytes.windows(from.len()).position(|at| at == from);
    bytes[place.unwrap()..][..to.len()].copy_from_slice(to);
}
