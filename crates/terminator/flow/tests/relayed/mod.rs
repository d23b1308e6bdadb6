//! The state machine against a real TLS client and a backend in memory, by seed.

mod dials;
mod lifetime;

use std::time::Duration;

use flow::events::{Action, Event, ReceiveResult};
use flow::facts::ConnectionEnd;
use flow::options::SendProxy;
use telemetry::outcome::{HandshakeKind, Reason};
use testkit::chance::Chance;
use testkit::client::ClientChoice;

use crate::simulation::{Run, Stage, TIMEOUTS};

const TLS13: [u16; 3] = [0x1301, 0x1302, 0x1303];
const TLS12: [u16; 3] = [0xc02b, 0xc02c, 0xcca9];

/// Returns sizes around the limits of a record and of the buffers, and 0.
fn size(chance: &mut Chance) -> usize {
    match chance.below(8) {
        0 => 0,
        1 => 1,
        2 => 16_383 + chance.below(3),
        3 => 262_143 + chance.below(3),
        4 => chance.below(600_000),
        _ => chance.below(40_000),
    }
}

#[test]
fn no_byte_is_lost_or_reordered_at_any_split() {
    let stage = Stage::new(SendProxy::Off);
    let suites = TLS13.iter().chain(&TLS12);
    for (index, suite) in suites.enumerate() {
        let is_tls13 = index < TLS13.len();
        let choice = stage.choice(is_tls13, &[*suite]);
        for seed in 0..12 {
            exchange(&stage, &choice, is_tls13, seed);
        }
    }
}

fn exchange(stage: &Stage, choice: &ClientChoice, is_tls13: bool, seed: u64) {
    let mut chance = Chance::new(seed + 1);
    let (request, reply) = (size(&mut chance), size(&mut chance));
    let (request, reply) = (chance.bytes(request), chance.bytes(reply));
    let mut run = Run::new(stage, choice, seed, reply.clone());
    run.until("handshake", |run| run.client.is_established());
    for chunk in request.chunks(request.len() / 3 + 1) {
        run.client.send(chunk);
        if is_tls13 && run.chance.one_in(2) {
            run.client.update_keys().unwrap();
        }
        for _ in 0..run.chance.below(50) {
            run.step();
        }
    }
    let client_first = run.chance.one_in(2);
    if client_first {
        run.client.close();
        run.until("request", |run| run.backend.as_ref().is_some_and(|b| b.got_end));
        assert!(run.backend_got() == request, "seed {seed}: the request arrived changed");
    }
    run.until("all of the request", |run| run.backend_got().len() == request.len());
    assert!(run.backend_got() == request, "seed {seed}: the request arrived changed");
    run.backend.as_mut().unwrap().is_ended = true;
    run.until("reply", |run| run.client.is_closed_by_server());
    assert_eq!(run.client_fault, None, "seed {seed}");
    assert!(run.client_got == reply, "seed {seed}: the reply arrived changed");
    run.finish();
    let wanted = if client_first { Reason::ClientClosed } else { Reason::BackendClosed };
    assert_eq!(run.reason(), Some(wanted), "seed {seed}");
    let facts = run.flow.facts();
    assert_eq!(facts.bytes_up, request.len() as u64);
    assert_eq!(facts.bytes_down, reply.len() as u64);
}

#[test]
fn a_handshake_cut_into_small_records_is_made_all_the_same() {
    let stage = Stage::new(SendProxy::Off);
    for is_tls13 in [true, false] {
        let choice = stage.choice(is_tls13, &[]).in_small_records();
        for seed in 0..12 {
            exchange(&stage, &choice, is_tls13, seed);
        }
    }
}

#[test]
fn a_message_that_is_never_finished_harms_nobody() {
    let stage = Stage::new(SendProxy::Off);
    let mut run = Run::new(&stage, &stage.choice(false, &[]), 2, Vec::new());
    run.to_flow.extend(run.client.take_wire());
    run.until("the server's flight", |run| {
        run.client_to_flow();
        run.flow_to_client();
        !run.from_flow.is_empty() && run.flow.front_pending().is_empty()
    });
    // Records of the shown bytes, some of them cut.
    for byte in [&[22, 3, 3, 0, 1, 16][..], &[22], &[3, 3, 0], &[1, 0], &[22, 3, 3, 0xff, 0xff]] {
        run.to_flow.extend(byte);
        while !run.to_flow.is_empty() && !run.flow.is_over() {
            run.client_to_flow();
        }
    }
    run.until("the end", |run| {
        run.client_fin = true;
        run.flow.is_over()
    });
    assert_eq!(run.reason(), Some(Reason::RecordInvalid));
    run.assert_over();
}

#[test]
fn junk_in_place_of_any_handshake_record_is_answered_with_one_alert() {
    let stage = Stage::new(SendProxy::Off);
    for is_tls13 in [true, false] {
        let choice = stage.choice(is_tls13, &[]);
        for junk in [&b"junk!"[..], &[21, 3, 3, 0, 2, 2, 40], &[22, 3, 3, 0, 4, 1, 2, 3, 4]] {
            let mut run = Run::new(&stage, &choice, 4, Vec::new());
            run.to_flow.extend(run.client.take_wire());
            while !run.to_flow.is_empty() {
                run.client_to_flow();
            }
            let flight = run.flow.front_pending().len();
            run.to_flow.extend(junk);
            run.to_flow.extend(junk);
            while !run.to_flow.is_empty() && run.flow.is_handshaking() {
                run.client_to_flow();
            }
            assert!(!run.flow.is_handshaking());
            assert!(run.reason().is_some_and(Reason::is_fault));
            let answer = run.flow.front_pending().len() - flight;
            assert!(answer <= 31, "at most one alert, not {answer} bytes");
        }
    }
}

/// Connections of [`flights_altered_anyhow_never_panic`]; more with `FLOW_SEEDS=100000`.
const ALTERED: u64 = 600;

#[test]
fn flights_altered_anyhow_never_panic() {
    let stage = Stage::new(SendProxy::Off);
    let choices = [true, false].map(|is_tls13| stage.choice(is_tls13, &[]));
    let small = choices.clone().map(|choice| choice.in_small_records());
    let seeds = std::env::var("FLOW_SEEDS").map_or(ALTERED, |text| text.parse().unwrap());
    for seed in 0..seeds {
        let choice = [&choices, &small][seed as usize / 2 % 2];
        let mut run = Run::new(&stage, &choice[seed as usize % 2], seed, Vec::new());
        run.client.send(b"request");
        for _ in 0..60 {
            let wire = run.client.take_wire();
            let altered = altered(wire, &mut run.chance);
            run.to_flow.extend(altered);
            run.step();
        }
        run.handle(Event::Stopped(Reason::Drained));
        run.act();
        run.assert_over();
    }
}

/// Alters bytes randomly: changes one, drops, repeats or reorders some, or none.
fn altered(mut wire: Vec<u8>, chance: &mut Chance) -> Vec<u8> {
    let (from, to) = (chance.below(wire.len()), chance.below(wire.len()));
    let (from, to) = (from.min(to), from.max(to));
    match chance.below(8) {
        _ if wire.is_empty() => {}
        0 => wire[from] ^= 1 << chance.below(8),
        1 => drop(wire.drain(from..to)),
        2 => wire.extend_from_within(from..to),
        3 => wire.rotate_left(from),
        4 => wire.truncate(to),
        _ => {}
    }
    wire
}

#[test]
fn a_server_that_refuses_an_upload_is_heard_to_its_last_byte() {
    let stage = Stage::new(SendProxy::Off);
    for (has_fin, wanted) in [(true, Reason::BackendClosed), (false, Reason::BackendReset)] {
        let mut run = Run::new(&stage, &stage.choice(true, &[]), 21, vec![7; 3000]);
        run.until("handshake", |run| run.client.is_established() && run.backend.is_some());
        run.client.send(&[1; 300_000]);
        run.client_turn();
        run.handle(Event::BackRefused);
        run.until("the answer", |run| run.client_got.len() == 3000);
        if has_fin {
            run.handle(Event::BackReceived(ReceiveResult::End));
        } else {
            run.handle(Event::BackReceived(ReceiveResult::Failed));
        }
        run.act();
        run.until("the end of TCP", |run| run.front_shut && run.from_flow.is_empty());
        // A server with TLS shows by close_notify that nothing is missing.
        let is_cut = crate::BACK_TLS && has_fin;
        assert_eq!(run.client.is_closed_by_server(), has_fin && !is_cut);
        run.finish();
        let wanted = if is_cut { Reason::ServerTruncated } else { wanted };
        assert_eq!(run.reason(), Some(wanted));
        run.assert_over();
    }
}

#[test]
fn whatever_breaks_whenever_there_is_one_end_and_no_buffer_is_kept() {
    let stage = Stage::new(SendProxy::Off);
    let choices = [stage.choice(true, &[]), stage.choice(false, &[])];
    let mut reasons = std::collections::HashSet::new();
    for seed in 0..400 {
        let mut chance = Chance::new(seed + 77);
        let reply = size(&mut chance);
        let reply = chance.bytes(reply);
        let mut run = Run::new(&stage, &choices[seed as usize % 2], seed, reply);
        let request = chance.bytes(1000);
        run.client.send(&request);
        for _ in 0..chance.below(120) {
            run.step();
        }
        let what = chance.below(6);
        break_something(&mut run, what);
        run.act();
        // Only the clock advances from here on.
        for _ in 0..4 {
            run.now += TIMEOUTS.idle;
            run.handle(Event::Timeout);
            run.act();
        }
        run.assert_over();
        // A client ends here only by the end of its TCP stream.
        if run.actions.contains(&Action::Dial) && what != 1 {
            run.assert_back_is_reset();
        }
        reasons.insert(run.reason().unwrap());
    }
    assert!(reasons.len() >= 7, "the seeds reach many ends: {reasons:?}");
}

fn break_something(run: &mut Run, what: usize) {
    let (now, pool) = (run.now, &mut run.pool);
    match what {
        0 => run.flow.handle(Event::FrontFailed, now, pool),
        1 => run.flow.handle(Event::FrontReceived(ReceiveResult::End), now, pool),
        2 => run.flow.handle(Event::BackReceived(ReceiveResult::Failed), now, pool),
        3 => run.flow.handle(Event::Stopped(Reason::Drained), now, pool),
        4 => {
            if let Some(room) = run.flow.front_room(pool).filter(|room| room.len() > 4) {
                room[..5].copy_from_slice(b"junk!");
                run.flow.handle(Event::FrontReceived(ReceiveResult::Bytes(5)), now, pool);
            }
        }
        _ => {}
    }
}

#[test]
fn an_altered_record_ends_the_connection_with_an_alert() {
    let stage = Stage::new(SendProxy::Off);
    for is_tls13 in [true, false] {
        let mut run = Run::relaying(&stage, &stage.choice(is_tls13, &[]), 5, Vec::new());
        run.until("quiet", |run| run.to_flow.is_empty() && run.from_flow.is_empty());
        run.client.send(b"hello");
        run.client_turn();
        *run.to_flow.back_mut().unwrap() ^= 1;
        run.until("the alert", |run| run.client_fault.is_some());
        assert_eq!(run.client_fault.as_deref(), Some("received fatal alert: BadRecordMac"));
        assert_eq!(run.reason(), Some(Reason::RecordInvalid));
        assert!(run.actions.contains(&Action::ResetBack), "the server learns of it by a reset");
        run.finish();
    }
}

#[test]
fn a_reset_by_the_server_is_no_clean_end() {
    let stage = Stage::new(SendProxy::Off);
    let mut run = Run::new(&stage, &stage.choice(true, &[]), 9, vec![1; 5000]);
    run.until("some reply", |run| !run.client_got.is_empty());
    run.handle(Event::BackReceived(ReceiveResult::Failed));
    run.until("the end of TCP", |run| run.front_shut);
    run.until("the last bytes", |run| run.from_flow.is_empty());
    run.finish();
    assert!(!run.client.is_closed_by_server(), "no close_notify after a broken stream");
    assert_eq!(run.reason(), Some(Reason::BackendReset));
}

#[test]
fn deadlines_are_those_of_the_stage() {
    let stage = Stage::new(SendProxy::Off);
    let mut run = Run::new(&stage, &stage.choice(true, &[]), 1, Vec::new());
    assert_eq!(run.flow.deadline(), Some(run.now + TIMEOUTS.handshake));
    run.flow.handle(Event::Timeout, run.now + TIMEOUTS.handshake / 2, &mut run.pool);
    assert!(!run.flow.is_over());
    run.flow.handle(Event::Timeout, run.now + TIMEOUTS.handshake, &mut run.pool);
    assert_eq!(run.reason(), Some(Reason::HandshakeTimeout));
    let mut run = Run::new(&stage, &stage.choice(true, &[]), 1, Vec::new());
    run.until("relay", |run| run.backend.is_some() && run.flow.front_pending().is_empty());
    run.now += TIMEOUTS.idle * 2;
    run.handle(Event::Timeout);
    assert_eq!(run.reason(), Some(Reason::IdleTimeout));
}

/// An idle timeout looks finished to neither side: a stalled server, a client that reads no more.
#[test]
fn a_connection_that_was_idle_too_long_looks_finished_to_nobody() {
    let stage = Stage::new(SendProxy::Off);
    for bytes in [0, 1000] {
        let mut run = Run::relaying(&stage, &stage.choice(true, &[]), 1, Vec::new());
        if bytes > 0 {
            run.backend.as_mut().unwrap().to_flow.extend(vec![7; bytes]);
            run.until("some answer", |run| !run.flow.front_pending().is_empty());
        }
        run.now += TIMEOUTS.idle * 2;
        run.handle(Event::Timeout);
        run.act();
        assert_eq!(run.reason(), Some(Reason::IdleTimeout));
        run.assert_back_is_reset();
        run.until("the end", |run| run.front_shut && run.from_flow.is_empty());
        run.client_turn();
        assert!(!run.client.is_closed_by_server(), "no close_notify");
    }
}

#[test]
fn a_request_whose_end_was_not_sent_on_is_reset_and_one_that_was_is_not() {
    let stage = Stage::new(SendProxy::Off);
    for is_sent in [false, true] {
        let mut run = Run::relaying(&stage, &stage.choice(true, &[]), 6, Vec::new());
        run.until("quiet", |run| run.to_flow.is_empty());
        run.client.send(&[1; 1000]);
        run.client.close();
        run.to_flow.extend(run.client.take_wire());
        let wire: Vec<u8> = run.to_flow.drain(..).collect();
        let room = run.flow.front_room(&mut run.pool).unwrap();
        room[..wire.len()].copy_from_slice(&wire);
        run.flow.handle(
            Event::FrontReceived(ReceiveResult::Bytes(wire.len())),
            run.now,
            &mut run.pool,
        );
        assert!(!run.flow.back_pending().concat().is_empty());
        if is_sent {
            run.until("the server's end", |run| {
                run.backend.as_ref().is_some_and(|backend| backend.got_end)
            });
        }
        run.handle(Event::Stopped(Reason::Drained));
        run.act();
        assert_eq!(!run.actions.contains(&Action::ResetBack), is_sent);
    }
}

#[test]
fn no_server_gets_a_byte_without_the_header_that_it_was_promised() {
    let stage = Stage::new(SendProxy::Pass);
    let mut run = Run::new(&stage, &stage.choice(true, &[]), 3, Vec::new());
    run.client.send(b"PROXY TCP4 203.0.113.9 203.0.113.9 1 1\r\n");
    run.until("the end", |run| {
        run.client_fin |= run.front_shut;
        run.flow.is_over()
    });
    assert_eq!(run.reason(), Some(Reason::ProxyHeaderMissing));
    assert!(!run.actions.contains(&Action::Dial));
    run.assert_over();
}

#[test]
fn a_part_of_a_record_before_the_clients_end_goes_nowhere() {
    let stage = Stage::new(SendProxy::Off);
    let mut run = Run::relaying(&stage, &stage.choice(true, &[]), 5, Vec::new());
    let bytes_up = run.flow.facts().bytes_up;
    run.client.send(&[b'x'; 1_000]);
    run.to_flow.extend(&run.client.take_wire()[..100]);
    while !run.to_flow.is_empty() {
        run.client_to_flow();
    }
    run.handle(Event::FrontReceived(ReceiveResult::End));
    assert_eq!(run.flow.facts().bytes_up, bytes_up);
    assert!(!run.backend_got().contains(&23), "the header of a record");
}

#[test]
fn sessions_are_resumed_and_their_kind_is_known() {
    let stage = Stage::new(SendProxy::Off);
    for (is_tls13, kind) in [(true, HandshakeKind::Psk), (false, HandshakeKind::Ticket)] {
        let choice = stage.choice(is_tls13, &[]);
        for expected in [HandshakeKind::Full, kind] {
            let mut run = Run::new(&stage, &choice, 11, b"reply".to_vec());
            run.until("reply", |run| run.client_got == b"reply");
            assert_eq!(run.flow.facts().handshake, Some(expected));
            assert_eq!(run.client.is_resumed(), expected == kind);
            // In all other kinds the handshake's last bytes are ours, and acknowledge the client's.
            let is_acknowledged = run.actions.contains(&Action::Acknowledge);
            assert_eq!(is_acknowledged, expected == HandshakeKind::Ticket);
        }
    }
}

#[test]
fn the_server_gets_the_proxy_header_before_the_first_byte() {
    let stage = Stage::new(SendProxy::V1);
    for seed in 0..20 {
        let mut run = Run::new(&stage, &stage.choice(true, &[]), seed, Vec::new());
        run.client.send(b"first bytes");
        let wanted = b"PROXY TCP4 192.0.2.1 192.0.2.2 1234 443\r\nfirst bytes";
        run.until("all of it", |run| run.backend_got().len() == wanted.len());
        assert_eq!(run.backend_got(), wanted);
    }
}

/// Lets the server send this much at once, and returns the lengths of the client's records.
fn records_of(run: &mut Run, count: usize) -> Vec<usize> {
    let reply = run.chance.bytes(count);
    let (mut rest, mut wire) = (&reply[..], Vec::new());
    while !rest.is_empty() {
        let before = rest.len();
        for piece in run.flow.back_room(&mut run.pool).unwrap() {
            let (here, after) = rest.split_at(rest.len().min(piece.len()));
            piece[..here.len()].copy_from_slice(here);
            rest = after;
        }
        let taken = before - rest.len();
        run.handle(Event::BackReceived(ReceiveResult::Bytes(taken)));
        wire.extend_from_slice(run.flow.front_pending());
        let sent = run.flow.front_pending().len();
        run.handle(Event::FrontSent(sent));
    }
    run.client_got.clear();
    run.client.receive(&wire, &mut run.client_got).unwrap();
    assert!(run.client_got == reply, "the reply arrived changed");
    let mut lengths = Vec::new();
    while let Some(header) = wire.first_chunk::<5>() {
        let length = 5 + usize::from(u16::from_be_bytes([header[3], header[4]]));
        wire.drain(..length);
        lengths.push(length);
    }
    lengths
}

#[test]
fn records_fit_a_segment_at_the_start_and_after_a_pause() {
    const SEGMENT_BYTES: usize = 1428;
    const FULL_BYTES: usize = 16_384;
    if crate::BACK_TLS {
        // The server's own records limit ours.
        return;
    }
    let stage = Stage::new(SendProxy::Off).on_kernel(None);
    for suite in TLS13.iter().chain(&TLS12) {
        let choice = stage.choice(TLS13.contains(suite), &[*suite]);
        let mut run = Run::new(&stage, &choice, 13, Vec::new());
        run.until("the relay", |run| {
            run.client.is_established() && run.backend.is_some() && run.from_flow.is_empty()
        });
        run.until("quiet", |run| run.from_flow.is_empty() && run.flow.front_pending().is_empty());
        assert_eq!(records_of(&mut run, 1000).len(), 1);
        assert_eq!(records_of(&mut run, 4096 + 300).len(), 1);
        run.now += Duration::from_secs(1);
        for is_fresh in [true, false] {
            let lengths = records_of(&mut run, 300_000);
            let shorts = lengths.iter().filter(|length| **length == SEGMENT_BYTES);
            assert_eq!(shorts.count(), if is_fresh { 10 } else { 0 }, "{lengths:?}");
            assert_eq!(lengths[0] == SEGMENT_BYTES, is_fresh);
            assert!(lengths[12] > FULL_BYTES);
        }
        // Bulk is read into another buffer, of many records at once.
        run.now += Duration::from_secs(1);
        assert_eq!(records_of(&mut run, 262_144)[..10], [SEGMENT_BYTES; 10]);
    }
}

#[test]
fn tickets_go_with_the_answer_to_a_request_that_came_with_finished_but_soon() {
    let stage = Stage::new(SendProxy::Off);
    let choice = stage.choice(true, &[]);
    for seed in 0..30 {
        let (is_answered, updates_keys) = (seed % 3 == 0, seed % 3 == 1);
        let mut run = Run::new(&stage, &choice, seed, b"reply".to_vec());
        run.until("the server's flight", |run| run.client.is_established());
        run.client.send(b"request");
        run.to_flow.extend(run.client.take_wire());
        let wire: Vec<u8> = run.to_flow.drain(..).collect();
        let room = run.flow.front_room(&mut run.pool).unwrap();
        room[..wire.len()].copy_from_slice(&wire);
        run.handle(Event::FrontReceived(ReceiveResult::Bytes(wire.len())));
        assert!(!run.flow.is_handshaking() && run.flow.front_pending().is_empty());
        if is_answered {
            run.until("the answer", |run| !run.flow.front_pending().is_empty());
            assert!(run.flow.facts().bytes_down > 0 && !run.flow.is_last());
            run.backend.as_mut().unwrap().is_ended = true;
            run.until("the server's end", |run| run.flow.is_last());
            run.until("reply", |run| run.client_got == b"reply");
            run.finish();
        } else if updates_keys {
            // The answer has to come before more data, so that nothing waits any longer.
            run.act();
            while run.backend_got() != b"request" {
                run.flow_to_backend();
            }
            run.client.update_keys().unwrap();
            let wire = run.client.take_wire();
            let room = run.flow.front_room(&mut run.pool).unwrap();
            room[..wire.len()].copy_from_slice(&wire);
            run.handle(Event::FrontReceived(ReceiveResult::Bytes(wire.len())));
            assert!(!run.flow.front_pending().is_empty());
            run.until("reply", |run| run.client_got == b"reply");
        } else {
            run.now = run.flow.deadline().unwrap();
            run.handle(Event::Timeout);
            assert!(!run.flow.is_over() && !run.flow.front_pending().is_empty());
        }
    }
}
