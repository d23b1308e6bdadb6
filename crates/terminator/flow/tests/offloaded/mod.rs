//! Connections whose TLS the kernel takes over: the time of the request, and changes of its keys.

use flow::events::{Action, Event};
use flow::options::{Offload, SendProxy};
use telemetry::outcome::Reason;
use tls::options::{Cipher, Version};

use crate::simulation::{Run, Stage};

const REPLY_BYTES: usize = 300_000;

fn aes(rekeys: bool) -> Offload {
    Offload { from: 1000, taken: vec![(Version::Tls13, Cipher::Aes128Gcm)], rekeys }
}

/// Starts a run with a connected server, with a seed by which the kernel takes the connection.
fn offloaded(stage: &Stage) -> Run {
    let choice = stage.choice(true, &[0x1301]);
    for seed in 0..100 {
        let mut run = Run::new(stage, &choice, seed, vec![b'r'; REPLY_BYTES]);
        run.until("a server", |run| run.client.is_established() && run.backend.is_some());
        run.handle(Event::BackExpected(1000));
        run.until("an answer", |run| run.actions.contains(&Action::Offload));
        if run.kernel.is_some() {
            return run;
        }
    }
    panic!("the kernel never took it");
}

#[test]
fn it_is_asked_for_what_is_long_and_what_it_seals_arrives() {
    let stage = Stage::new(SendProxy::Off).on_kernel(Some(aes(true)));
    let mut run = offloaded(&stage);
    run.until("the reply", |run| run.client_got.len() == REPLY_BYTES);
    assert!(run.client_got.iter().all(|byte| *byte == b'r'));
    assert_eq!(run.flow.facts().bytes_down, REPLY_BYTES as u64);
}

#[test]
fn what_is_short_is_none_of_its_business() {
    let stage = Stage::new(SendProxy::Off).on_kernel(Some(aes(true)));
    let reply = vec![b'r'; 999];
    let mut run = Run::new(&stage, &stage.choice(true, &[0x1301]), 1, reply);
    run.until("a server", |run| run.backend.is_some());
    run.handle(Event::BackExpected(999));
    run.until("the reply", |run| run.client_got.len() == 999);
    assert!(!run.actions.contains(&Action::Offload));
}

#[test]
fn whether_files_are_left_to_it_depends_on_the_suite() {
    let stage = Stage::new(SendProxy::Off).on_kernel(Some(aes(true)));
    for (suite, passes_from) in [(0x1301, Some(1000)), (0x1302, None)] {
        let choice = stage.choice(true, &[suite]);
        let mut run = Run::new(&stage, &choice, 1, Vec::new());
        assert_eq!(run.flow.passes_from(), None, "before the handshake");
        run.until("a server", |run| run.backend.is_some());
        assert_eq!(run.flow.passes_from(), passes_from);
        let keeps_keys = passes_from.is_some();
        assert_eq!(run.flow.kernel_keys().is_some(), keeps_keys);
        // The kernel is asked in vain, so that the request is counted.
        run.handle(Event::BackExpected(1000));
        run.until("the question", |run| run.actions.contains(&Action::Offload));
        assert!(keeps_keys || run.kernel.is_none());
    }
    assert_eq!(offloaded(&stage).flow.passes_from(), Some(0));
}

#[test]
fn each_key_update_gives_it_a_new_key() {
    let stage = Stage::new(SendProxy::Off).on_kernel(Some(aes(true)));
    let mut run = offloaded(&stage);
    for updates in 1..4 {
        run.client.update_keys().unwrap();
        run.until("the next key", |run| {
            let rekeys = run.actions.iter().filter(|one| **one == Action::Rekey);
            rekeys.count() == updates
        });
    }
    run.until("the reply", |run| run.client_got.len() == REPLY_BYTES);
    assert_eq!(run.client_fault, None);
    assert_eq!(run.flow.facts().key_updates, 3);
}

#[test]
fn a_key_update_that_overtakes_the_answer_to_another_waits_for_its_key() {
    let stage = Stage::new(SendProxy::Off).on_kernel(Some(aes(true)));
    let mut run = offloaded(&stage);
    for _ in 0..2 {
        run.client.update_keys().unwrap();
        run.to_flow.extend(run.client.take_wire());
        // The answer is due, but not yet sent.
        while run.flow.front_record().is_none() || !run.to_flow.is_empty() {
            run.client_to_flow();
            if run.flow.front_record().is_none() {
                run.flow_to_client();
            }
        }
    }
    run.until("the reply", |run| run.client_got.len() == REPLY_BYTES);
    assert_eq!(run.client_fault, None);
    let rekeys = run.actions.iter().filter(|one| **one == Action::Rekey);
    assert_eq!(rekeys.count(), 2);
}

#[test]
fn without_new_keys_a_key_update_ends_the_connection_with_an_alert() {
    let stage = Stage::new(SendProxy::Off).on_kernel(Some(aes(false)));
    let mut run = offloaded(&stage);
    run.client.update_keys().unwrap();
    run.until("the alert", |run| run.client_fault.is_some());
    let alert = "received fatal alert: InternalError";
    assert_eq!(run.client_fault.as_deref(), Some(alert));
    assert!(run.actions.contains(&Action::ResetBack));
    run.finish();
    assert_eq!(run.reason(), Some(Reason::KernelRekey));
    run.assert_over();
}

#[test]
fn a_key_that_it_does_not_take_ends_the_connection_unfinished() {
    let stage = Stage::new(SendProxy::Off).on_kernel(Some(aes(true)));
    let mut run = offloaded(&stage);
    run.client.update_keys().unwrap();
    run.to_flow.extend(run.client.take_wire());
    while !run.to_flow.is_empty() {
        run.client_to_flow();
    }
    while run.flow.front_record().is_none() {
        run.flow_to_client();
    }
    run.flow_to_client();
    assert_eq!(run.flow.poll_action(), Some(Action::Rekey));
    assert!(!run.flow.can_pass(), "it waits for its key");
    run.handle(Event::KernelAnswered(false));
    run.act();
    assert_eq!(run.reason(), Some(Reason::KernelRekey));
    run.assert_over();
    assert!(!run.client.is_closed_by_server());
}

#[test]
fn a_connection_that_is_cut_keeps_nothing() {
    let stage = Stage::new(SendProxy::Off).on_kernel(Some(aes(true)));
    let mut run = offloaded(&stage);
    run.client.close();
    run.handle(Event::Stopped(Reason::Drained));
    assert!(!run.flow.can_pass());
    assert_eq!(run.flow.front_record(), None);
    run.act();
    run.assert_over();
}
