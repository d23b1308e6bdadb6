//! Connections to servers that speak TLS: their ends, keys and refusals.

use flow::events::{Action, Event, ReceiveResult};
use flow::options::SendProxy;
use telemetry::outcome::Reason;

use crate::simulation::{Run, Stage, TIMEOUTS};

/// Makes a stage that cuts and delays the handshake with the server like all other traffic.
fn stage() -> Stage {
    let mut stage = Stage::new(SendProxy::Off);
    stage.cuts_back_handshake = true;
    stage
}

fn relaying(seed: u64, reply: &[u8]) -> Run {
    let stage = stage();
    let mut run = Run::relaying(&stage, &stage.choice(true, &[]), seed, reply.to_vec());
    run.until("the server's TLS", |run| run.actions.contains(&Action::NoteBackReady));
    run
}

#[test]
fn each_close_notify_is_passed_on_and_a_missing_one_is_missed() {
    for seed in 0..8 {
        let mut run = relaying(seed, b"reply");
        run.client.send(b"request");
        run.until("the request", |run| run.backend_got() == b"request");
        if seed % 4 < 2 {
            run.client.close();
            run.until("close_notify at the server", |run| {
                let tls = run.backend.as_mut().and_then(|backend| backend.tls.as_mut());
                tls.is_some_and(|tls| tls.is_closed_by_client())
            });
            run.until("the reply", |run| run.client_got == b"reply");
        } else {
            run.until("the reply", |run| run.client_got == b"reply");
            run.handle(Event::BackReceived(ReceiveResult::End));
            run.act();
            assert_eq!(run.reason(), Some(Reason::ServerTruncated));
            run.until("the end of TCP", |run| run.front_shut);
            assert!(!run.client.is_closed_by_server());
        }
    }
}

#[test]
fn bytes_go_both_ways_however_everything_is_cut() {
    for seed in 0..16 {
        let reply: Vec<u8> = (0..200_000_u32 >> (seed % 3 * 5)).map(|n| n as u8).collect();
        let request = vec![5; 100_000 >> (seed % 4 * 4)];
        let mut run = relaying(seed, &reply);
        run.client.send(&request);
        run.until("all of it", |run| {
            run.client_got.len() == reply.len() && run.backend_got().len() == request.len()
        });
        assert!(run.client_got == reply && run.backend_got() == request, "seed {seed}");
        run.backend.as_mut().unwrap().is_ended = true;
        run.until("a clean end", |run| run.client.is_closed_by_server());
        run.client.close();
        run.client_fin = true;
        run.until("the end", |run| run.flow.is_over());
        run.assert_over();
    }
}

#[test]
fn keys_change_on_the_servers_side_in_the_midst_of_data() {
    for seed in [0, 2, 4] {
        let mut run = relaying(seed, &[7; 50_000]);
        run.until("the server's side", |run| {
            run.backend.as_ref().is_some_and(|backend| backend.is_shaken())
        });
        for round in 1..=3_usize {
            let backend = run.backend.as_mut().unwrap();
            backend.tls.as_mut().unwrap().change_keys();
            backend.to_flow.extend([8; 1000]);
            run.client.send(&[9; 20_000]);
            run.until("all of it", |run| {
                run.client_got.len() == 50_000 + 1000 * round
                    && run.backend_got().len() == 20_000 * round
            });
        }
        run.backend.as_mut().unwrap().is_ended = true;
        run.client_fin = true;
        run.until("the end", |run| run.flow.is_over());
        run.assert_over();
    }
}

#[test]
fn a_server_that_fails_in_the_handshake_is_given_up_for_the_next() {
    let stage = stage();
    for (received, reason) in [
        (Some(ReceiveResult::End), Reason::ServerTlsFailed),
        (Some(ReceiveResult::Failed), Reason::ServerTlsFailed),
        (None, Reason::ServerTlsTimeout),
    ] {
        let mut run = Run::new(&stage, &stage.choice(true, &[]), 1, Vec::new());
        run.client.send(b"request");
        run.until("a server", |run| run.backend.is_some());
        match received {
            Some(received) => run.handle(Event::BackReceived(received)),
            None => {
                run.now += TIMEOUTS.dial;
                run.handle(Event::Timeout);
            }
        }
        assert_eq!(run.flow.poll_action(), Some(Action::Redial));
        assert!(run.flow.back_room(&mut run.pool).is_none());
        let fault = run.flow.take_back_fault(&mut run.pool);
        assert_eq!(fault.map(|fault| fault.reason), Some(reason));
        assert_eq!(run.flow.back_pending(), [&[][..]; 2], "no plain byte");
        run.backend = None;
        run.handle(Event::ServerChosen { server: 0, is_local: false });
        run.handle(Event::BackConnected);
        assert!(!run.flow.back_pending()[0].is_empty(), "another hello");
        run.handle(Event::Stopped(Reason::Drained));
        run.act();
        run.assert_over();
    }
}

#[test]
fn records_that_were_altered_on_the_way_end_the_connection_and_look_cut() {
    for seed in 0..4 {
        let mut run = relaying(seed, b"");
        run.until("tickets, and room for more", |run| {
            let backend = run.backend.as_mut();
            let is_read = backend.is_some_and(|one| one.wire().is_empty());
            is_read && run.flow.back_room(&mut run.pool).is_some()
        });
        let room = run.flow.back_room(&mut run.pool).unwrap().next().unwrap();
        let record = [23, 3, 3, 0, 40].into_iter().chain([9; 40]);
        room.iter_mut().zip(record).for_each(|(to, from)| *to = from);
        run.handle(Event::BackReceived(ReceiveResult::Bytes(45)));
        assert_eq!(run.reason(), Some(Reason::ServerTlsFailed));
        run.act();
        run.assert_back_is_reset();
        run.client_fin = true;
        run.until("the end", |run| run.flow.is_over());
        assert!(!run.client.is_closed_by_server());
        run.assert_over();
    }
}
