//! The end of a connection's lifetime.

use super::*;

#[test]
fn a_connection_ends_with_its_lifetime_and_looks_whole_only_between_answers() {
    let lifetime = TIMEOUTS.idle / 2;
    let stage = Stage::new(SendProxy::Off).lasting(lifetime);
    for bytes in [0, 1000] {
        let mut run = Run::new(&stage, &stage.choice(true, &[]), 1, Vec::new());
        let end = run.now + lifetime;
        assert_eq!(run.flow.deadline(), Some(run.now + TIMEOUTS.handshake));
        run.until("relay", |run| run.backend.is_some() && run.flow.front_pending().is_empty());
        // Bytes do not postpone it.
        run.now = end - Duration::from_secs(1);
        run.client.send(b"x");
        run.until("the request", |run| !run.backend_got().is_empty());
        run.backend.as_mut().unwrap().to_flow.extend(vec![7; 1 + bytes]);
        run.until("an answer", |run| {
            let is_sent = run.flow.front_pending().is_empty();
            run.client_got.len() > usize::from(bytes > 0) || bytes > 0 && !is_sent
        });
        let is_whole = run.flow.front_pending().is_empty();
        assert_eq!(run.flow.deadline(), Some(end));
        run.handle(Event::Timeout);
        assert_eq!(run.reason(), None, "not yet");
        run.now = end;
        run.handle(Event::Timeout);
        run.act();
        assert_eq!(run.reason(), Some(Reason::LifetimeReached));
        run.assert_back_is_reset();
        run.until("the end", |run| run.front_shut && run.from_flow.is_empty());
        run.client_turn();
        assert_eq!(run.client.is_closed_by_server(), is_whole);
        assert_eq!(is_whole, bytes == 0);
    }
}
