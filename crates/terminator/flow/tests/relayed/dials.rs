//! Servers that are slow to answer.

use super::*;

#[test]
fn a_dial_that_takes_too_long_is_made_again_and_a_failed_one_gets_an_alert() {
    let stage = Stage::new(SendProxy::Off);
    let mut run = Run::new(&stage, &stage.choice(true, &[]), 3, Vec::new());
    run.until_dialled();
    run.now += TIMEOUTS.dial * 2;
    run.handle(Event::Timeout);
    assert_eq!(run.flow.poll_action(), Some(Action::Redial));
    run.now += TIMEOUTS.dial * 2;
    run.handle(Event::Timeout);
    run.handle(Event::DialStarted);
    assert_eq!(run.flow.poll_action(), None, "another is dialled by now");
    run.handle(Event::DialFailed(ConnectionEnd::new(Reason::BackendRefused)));
    run.until_alert();
    assert_eq!(run.reason(), Some(Reason::BackendRefused));
}

#[test]
fn a_server_that_answers_in_the_moment_of_its_timeout_is_kept() {
    let stage = Stage::new(SendProxy::Off);
    let mut run = Run::new(&stage, &stage.choice(true, &[]), 3, Vec::new());
    run.until_dialled();
    let (server, is_local) = (0, false);
    run.handle(Event::ServerChosen { server, is_local });
    run.now += TIMEOUTS.dial * 2;
    run.handle(Event::Timeout);
    run.handle(Event::BackConnected);
    assert_eq!(run.flow.poll_action(), None);
}
