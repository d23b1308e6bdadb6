//! Processes that are stopped before they run an instruction of their own.

use std::collections::BTreeSet;

use rustix::process::Pid;
use suite::prelude::*;
use suite::process::{children, has_ended};
use suite::program::process_id;
use suite::strace::Strace;

/// The processes that a supervisor has started, and that stand still.
fn stopped(supervisor: Pid) -> Vec<Pid> {
    let own = supervisor.as_raw_nonzero().get().unsigned_abs();
    let all = children(&BTreeSet::from([own])).into_iter().map(process_id);
    let stands = |one: &Pid| {
        let status = fs::read_to_string(format!("/proc/{}/status", one.as_raw_nonzero()));
        status.is_ok_and(|text| text.contains("State:\tT") || text.contains("State:\tt"))
    };
    all.filter(stands).collect()
}

/// A process of keys, one that reads files, and one that would be the next program.
#[test]
fn a_process_that_is_stopped_at_its_start_does_not_outlast_its_supervisor() {
    let (_site, _server, service) = set_up(Behaviour::Echo);
    let lariat = service.start_with("[process]\nkey-process = true");
    let supervisor = lariat.supervisor();
    let _strace = Strace::stopping_those_it_starts(supervisor);
    kill_process(lariat.process("lariat: keys"), Signal::KILL).unwrap();
    lariat.signal(Signal::HUP);
    lariat.signal(Signal::USR2);
    let all =
        until("three that stand still", || Some(stopped(supervisor)).filter(|all| all.len() == 3));
    kill_process(supervisor, Signal::KILL).unwrap();
    until_true("their end", || all.iter().all(|one| has_ended(*one)));
}
