//! Servers behind a proxy in memory, with all bytes cut randomly.

use std::rc::Rc;
use std::sync::Arc;

use flow::events::{Action, Event};
use flow::options::SendProxy;
use telemetry::outcome::Reason;
use wire::tunnel::{Tunnel, TunnelProtocol};

use crate::simulation::{Run, Stage, TIMEOUTS};

const REQUEST: &[u8] = b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n";

fn stage() -> Stage {
    let mut stage = Stage::new(SendProxy::V1);
    let protocol = TunnelProtocol::HttpConnect;
    let tunnel = Tunnel { protocol, host: "a.example".to_owned(), port: 443, login: None };
    Rc::make_mut(&mut stage.settings).tunnel = Some(Arc::new(tunnel));
    stage
}

/// Makes a connection whose proxy has been asked, and whose client has sent something.
fn asked(stage: &Stage, seed: u64) -> Run {
    let mut run = Run::new(stage, &stage.choice(true, &[]), seed, Vec::new());
    run.until("handshake", |run| run.client.is_established());
    run.client.send(b"ping");
    run.until("the proxy to be asked", |run| run.backend_got().ends_with(b"\r\n\r\n"));
    assert_eq!(run.backend_got(), REQUEST);
    run
}

fn proxy_says(run: &mut Run, bytes: &[u8]) {
    run.backend.as_mut().unwrap().to_flow.extend(bytes);
}

#[test]
fn what_follows_the_proxys_answer_is_the_servers() {
    for seed in 0..24 {
        let mut run = asked(&stage(), seed);
        for _ in 0..100 {
            run.step();
        }
        assert_eq!(run.backend_got(), REQUEST, "nothing goes to a proxy that has not answered");
        proxy_says(&mut run, b"HTTP/1.1 200 Connected\r\nVia: x\r\n\r\n220 early\r\n");
        run.until("the request", |run| run.backend_got().ends_with(b"\r\nping"));
        assert!(run.backend_got()[REQUEST.len()..].starts_with(b"PROXY "), "seed {seed}");
        run.until("the greeting", |run| run.client_got == b"220 early\r\n");
        run.backend.as_mut().unwrap().is_ended = true;
        run.until("the end", |run| run.client.is_closed_by_server());
        run.finish();
        assert_eq!(run.reason(), Some(Reason::BackendClosed));
        assert_eq!(run.flow.facts().bytes_down, 11);
    }
}

#[test]
fn a_proxy_that_refuses_ends_or_is_silent_is_given_up() {
    for (answer, ends) in
        [(&b"HTTP/1.1 502 x\r\n\r\n"[..], false), (b"HTTP/1.1 2", true), (b"", false)]
    {
        for seed in 0..8 {
            let mut run = asked(&stage(), seed);
            proxy_says(&mut run, answer);
            run.backend.as_mut().unwrap().is_ended = ends;
            for _ in 0..200 {
                run.backend_to_flow();
            }
            run.now += TIMEOUTS.dial;
            run.handle(Event::Timeout);
            assert_eq!(run.flow.poll_action(), Some(Action::Redial));
            let fault = run.flow.take_back_fault(&mut run.pool);
            let reason = fault.map(|fault| fault.reason);
            assert_eq!(reason, Some(Reason::ServerTunnelFailed), "{}", answer.escape_ascii());
            assert_eq!(run.backend_got(), REQUEST);
            // The next proxy is asked anew, and the client's bytes are still there.
            run.handle(Event::BackConnected);
            assert_eq!(run.flow.back_pending(), [REQUEST, &[]]);
        }
    }
}
