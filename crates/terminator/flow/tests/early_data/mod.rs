//! Early data: a server gets it as it comes, once, and the rest after the handshake.

use flow::options::{ProxyTlvs, SendProxy};
use telemetry::outcome::{EarlyData, HandshakeKind, Reason};
use testkit::chance::Chance;
use testkit::client::ClientChoice;
use tls::options::Tls13Sessions;
use wire::proxy_header;

use crate::simulation::{Run, Stage, TIMEOUTS};
use flow::events::{Action, Event, ReceiveResult};
use flow::facts::ConnectionEnd;

const BYTES_MAX: u32 = 40_000;

const TLVS: ProxyTlvs = ProxyTlvs {
    alpn: true,
    authority: true,
    ssl: true,
    crc32c: false,
    unique_id: false,
    ja4: false,
    client_certificate: None,
};

fn stage() -> Stage {
    let cache = Tls13Sessions::Cache { early_data_bytes_max: BYTES_MAX };
    Stage::with_sessions(SendProxy::V2(TLVS), cache)
}

/// Makes a client with a session that allows early data.
fn returning(stage: &Stage) -> ClientChoice {
    let choice = stage.choice(true, &[]).with_early_data();
    let mut run = Run::new(stage, &choice, 1, b"reply".to_vec());
    run.until("reply", |run| run.client_got == b"reply");
    assert_eq!(run.flow.facts().handshake, Some(HandshakeKind::Full));
    choice
}

/// Starts a connection with early data.
fn begin(stage: &Stage, choice: &ClientChoice, seed: u64, early: &[u8], reply: &[u8]) -> Run {
    let mut run = Run::new(stage, choice, seed, reply.to_vec());
    assert_eq!(run.client.send_early(early), early.len());
    run
}

/// Starts such a connection, up to the server's first byte; the client has received nothing yet.
fn begun(stage: &Stage, seed: u64, reply: &[u8]) -> Run {
    let mut run = begin(stage, &returning(stage), seed, b"early", reply);
    run.to_flow.extend(run.client.take_wire());
    while run.backend_got().is_empty() {
        run.client_to_flow();
        run.flow_to_backend();
        run.act();
    }
    assert!(run.flow.is_handshaking());
    run
}

/// Returns the PROXY header's field about early data, and all bytes after the header.
fn received(run: &Run) -> (Option<u32>, &[u8]) {
    let got = run.backend_got();
    let header = proxy_header::read(got).unwrap().unwrap();
    let tlvs = header.header.tlvs;
    let ssl = tlvs.ssl().unwrap();
    assert_eq!(ssl.text(proxy_header::kind::SSL_VERSION), Some("TLSv1.3"));
    assert_eq!(tlvs.authority(), Some("localhost"));
    let early = tlvs.find(proxy_header::kind::EARLY_DATA);
    let early = early.map(|value| u32::from_be_bytes(value.try_into().unwrap()));
    (early, &got[header.wire_bytes..])
}

#[test]
fn no_byte_is_lost_or_late_at_any_split() {
    let stage = stage();
    let choice = returning(&stage);
    for seed in 0..40 {
        let mut chance = Chance::new(seed + 100);
        let most = [300, 38_000][chance.below(2)];
        let early = 1 + chance.below(most);
        let (later, reply) = (chance.below(40_000), chance.below(40_000));
        let (early, later, reply) = (chance.bytes(early), chance.bytes(later), chance.bytes(reply));
        let mut run = begin(&stage, &choice, seed, &early, &reply);
        run.client.send(&later);
        let request = [early.clone(), later].concat();
        run.until("the request", |run| {
            proxy_header::read(run.backend_got())
                .ok()
                .flatten()
                .is_some_and(|header| run.backend_got().len() == header.wire_bytes + request.len())
        });
        let (early_max, got) = received(&run);
        assert!(got == request, "seed {seed}: the request arrived changed");
        let early_max = early_max.expect("the server is told");
        assert!(early_max as usize >= early.len() && early_max <= BYTES_MAX);
        if run.chance.one_in(2) {
            run.client.close();
        }
        run.backend.as_mut().unwrap().is_ended = true;
        run.until("reply", |run| run.client.is_closed_by_server());
        assert!(run.client_got == reply, "seed {seed}: the reply arrived changed");
        run.finish();
        assert!(run.client.is_early_taken() && run.client.is_resumed());
        let facts = run.flow.facts();
        assert_eq!(facts.handshake, Some(HandshakeKind::PskCache));
        assert_eq!(facts.early_data, Some(EarlyData::Accepted));
        assert_eq!(facts.bytes_up, request.len() as u64);
        assert_eq!(facts.bytes_down, reply.len() as u64);
    }
}

#[test]
fn the_answer_does_not_wait_for_the_handshakes_end() {
    let stage = stage();
    let mut run = begun(&stage, 3, b"answer");
    while run.client_got != b"answer" {
        run.backend_to_flow();
        run.flow_to_client();
        let bytes: Vec<u8> = run.from_flow.drain(..).collect();
        run.client.receive(&bytes, &mut run.client_got).unwrap();
    }
    assert!(run.flow.is_handshaking(), "the client has not said a word more");
    run.backend.as_mut().unwrap().is_ended = true;
    run.until("a clean end", |run| run.client.is_closed_by_server());
    assert!(!run.flow.is_handshaking());
}

#[test]
fn a_replay_gets_a_full_handshake_and_no_server() {
    let stage = stage();
    let choice = returning(&stage);
    let mut first = begin(&stage, &choice, 5, b"pay", b"paid");
    let flight = first.client.take_wire();
    first.to_flow.extend(&flight);
    first.until("the answer", |run| run.client_got == b"paid");
    let mut replay = Run::new(&stage, &choice, 6, Vec::new());
    replay.to_flow.extend(&flight);
    replay.until("the flight to be read", |run| {
        run.client_to_flow();
        run.flow_to_client();
        run.to_flow.is_empty() && !run.from_flow.is_empty()
    });
    assert!(replay.backend.is_none());
    assert_eq!(replay.flow.facts().early_data, Some(EarlyData::UnknownSession));
    replay.client_fin = true;
    while !replay.flow.is_over() {
        replay.client_to_flow();
    }
    assert!(replay.backend.is_none());
    assert_eq!(replay.reason(), Some(Reason::ClientDisconnected));
}

#[test]
fn early_data_that_is_refused_is_skipped_and_sent_again() {
    type Offer = fn(ClientChoice) -> ClientChoice;
    let stage = stage();
    let cases: [(Stage, Offer, HandshakeKind); 3] = [
        (stage.reloaded(Tls13Sessions::Tickets), |choice| choice, HandshakeKind::Full),
        // A server with another protocol, though the session resumes.
        (stage.speaking(b"new"), |choice| choice.offering(b"new"), HandshakeKind::PskCache),
        // A HelloRetryRequest, though the session itself is valid.
        (stage.retrying(), |choice| choice, HandshakeKind::PskCache),
    ];
    for (server, offer, kind) in &cases {
        for seed in 0..10 {
            // The number of records does not matter: every other client sends thousands.
            let choice = offer(returning(&stage));
            let (choice, length) = match seed % 2 {
                0 => (choice, 38_000),
                _ => (choice.in_small_records(), 30_000),
            };
            let early = vec![7; length];
            let mut run = begin(server, &choice, seed, &early, b"reply");
            run.until("the handshake", |run| run.client.is_established());
            assert!(!run.client.is_early_taken());
            assert_eq!(run.client.is_resumed(), *kind != HandshakeKind::Full);
            run.client.send(&early);
            run.until("reply", |run| run.client_got == b"reply");
            run.until("all of it", |run| run.backend_got().ends_with(&early));
            assert_eq!(received(&run), (None, &early[..]));
            let facts = run.flow.facts();
            assert_eq!(facts.early_data, Some(EarlyData::Refused));
            assert_eq!(facts.handshake, Some(*kind));
            assert_eq!(facts.bytes_up, length as u64);
        }
    }
}

/// RFC 8446 section 4.2.10: the number of records does not matter.
#[test]
fn early_data_under_a_foreign_servers_ticket_is_skipped() {
    let ours = stage();
    let foreign = ours.stranger(Tls13Sessions::Cache { early_data_bytes_max: 256 << 10 });
    let off = ours.reloaded(Tls13Sessions::Tickets);
    let retrying = ours.retrying();
    let lengths = [1, 5, 6, 10, 16, 60];
    for (seed, length) in (0..).zip(lengths.map(|kilobytes| kilobytes << 10)) {
        for server in [&ours, &off, &retrying] {
            for is_small in [false, true] {
                let choice = returning(&foreign);
                let choice = if is_small { choice.in_small_records() } else { choice };
                let mut run = begin(server, &choice, seed, &vec![7; length], b"reply");
                run.until("the handshake", |run| run.client.is_established());
                assert!(!run.client.is_early_taken() && !run.client.is_resumed());
                run.client.send(b"later");
                run.until("reply", |run| run.client_got == b"reply");
                run.until("the request", |run| run.backend_got().ends_with(b"later"));
                assert_eq!(received(&run), (None, &b"later"[..]), "{length} bytes");
            }
        }
    }
}

#[test]
fn messages_in_small_records_are_distinguished_from_early_data() {
    let stage = stage();
    let early = vec![7; 1000];
    let cache = stage.options.tls13_sessions;
    for (sessions, is_taken) in [(cache, true), (Tls13Sessions::Tickets, false)] {
        let choice = returning(&stage).in_small_records();
        let mut run = begin(&stage.reloaded(sessions), &choice, 7, &early, b"reply");
        run.until("the handshake", |run| run.client.is_established());
        assert_eq!(run.client.is_early_taken(), is_taken);
        run.client.send(b"later");
        run.until("reply", |run| run.client_got == b"reply");
        run.until("the request", |run| run.backend_got().ends_with(b"later"));
    }
}

#[test]
fn a_client_that_leaves_before_the_handshakes_end_is_no_clean_end_to_the_server() {
    let stage = stage();
    type Leave = fn(&mut Run);
    let ends: [(Leave, Reason); 3] = [
        (|run| run.handle(Event::FrontReceived(ReceiveResult::End)), Reason::ClientDisconnected),
        (|run| run.handle(Event::FrontFailed), Reason::ClientReset),
        (
            |run| {
                run.now += TIMEOUTS.handshake * 2;
                run.handle(Event::Timeout);
            },
            Reason::HandshakeTimeout,
        ),
    ];
    for (end, reason) in ends {
        let mut run = begun(&stage, 8, b"");
        end(&mut run);
        run.act();
        assert!(run.actions.contains(&Action::ResetBack), "{reason:?}");
        assert_eq!(run.reason(), Some(reason));
        run.assert_over();
    }
}

#[test]
fn a_record_that_was_altered_after_early_data_resets_the_server() {
    let stage = stage();
    let mut run = begun(&stage, 9, b"");
    run.to_flow.extend([23, 3, 3, 0, 30].iter().chain(&[0; 30]));
    while !run.to_flow.is_empty() {
        run.client_to_flow();
    }
    run.act();
    assert!(run.actions.contains(&Action::ResetBack));
    assert_eq!(run.reason(), Some(Reason::RecordInvalid));
}

/// A broken handshake would make the client repeat what the server may have done.
#[test]
fn a_reset_by_the_server_is_passed_on_after_the_handshake() {
    let stage = stage();
    let mut run = begun(&stage, 12, b"");
    run.handle(Event::BackReceived(ReceiveResult::Failed));
    assert!(run.flow.is_handshaking() && !run.flow.is_over());
    run.until_alert();
    assert!(run.client.is_early_taken() && run.client.is_resumed());
    assert_eq!(run.reason(), Some(Reason::BackendReset));
    run.finish();
}

#[test]
fn a_failed_dial_is_passed_on_after_the_handshake() {
    let stage = stage();
    let mut run = begin(&stage, &returning(&stage), 4, b"early", b"");
    run.to_flow.extend(run.client.take_wire());
    while run.flow.poll_action() != Some(Action::Dial) {
        run.client_to_flow();
    }
    run.handle(Event::DialFailed(ConnectionEnd::new(Reason::BackendRefused)));
    assert!(!run.flow.is_over());
    run.until_alert();
    assert_eq!(run.reason(), Some(Reason::BackendRefused));
    run.finish();
}

#[test]
fn more_early_data_than_is_allowed_ends_the_connection() {
    let small = stage().reloaded(Tls13Sessions::Cache { early_data_bytes_max: 100 });
    let wide = small.reloaded(Tls13Sessions::Cache { early_data_bytes_max: BYTES_MAX });
    let mut run = begin(&small, &returning(&wide), 2, &[1; 101], b"");
    run.until("the end", |run| {
        run.client_fin |= run.client_fault.is_some();
        run.flow.is_over()
    });
    assert_eq!(run.reason(), Some(Reason::ProtocolViolation));
}

#[test]
fn flights_with_early_data_altered_anyhow_never_panic() {
    let stage = stage();
    for seed in 0..150 {
        let mut chance = Chance::new(seed);
        let here = match chance.below(3) {
            0 => stage.reloaded(Tls13Sessions::Tickets),
            1 => stage.retrying(),
            _ => stage.reloaded(stage.options.tls13_sessions),
        };
        let choice = returning(&stage);
        let is_small = chance.one_in(2);
        let choice = if is_small { choice.in_small_records() } else { choice };
        let early = vec![7; 1 + chance.below(2000)];
        let mut run = begin(&here, &choice, seed, &early, b"reply");
        for _ in 0..600 {
            run.step();
            let length = run.to_flow.len();
            if length > 0 && chance.one_in(40) {
                run.to_flow[chance.below(length)] ^= 1 << chance.below(8);
            }
        }
        if !run.flow.is_over() {
            run.handle(Event::FrontFailed);
            run.act();
        }
        run.assert_over();
    }
}
