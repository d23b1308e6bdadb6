//! A worker process in an attacker's hands: its changes to its sockets, or its omissions, end with
//! it.

use std::os::fd::OwnedFd;

use rustix::io::ioctl_fionbio;
use rustix::net::{shutdown, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use suite::prelude::*;

/// Returns the sockets on which a process listens: any change to them it could have made itself.
fn listeners_of(process: Pid) -> Vec<OwnedFd> {
    let id = pidfd_open(process, PidfdFlags::empty()).unwrap();
    let folder = format!("/proc/{}/fd", process.as_raw_nonzero());
    let entries = fs::read_dir(folder).unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all = numbers.filter_map(|number| pidfd_getfd(&id, number, PidfdGetfdFlags::empty()).ok());
    all.filter(|fd| sockopt::socket_acceptconn(fd).unwrap_or(false)).collect()
}

#[test]
fn what_a_worker_process_does_to_its_sockets_ends_with_it() {
    let (site, _server, service, lariat) = serve(Behaviour::Echo);
    let wait = |listener: &OwnedFd| ioctl_fionbio(listener, false).unwrap();
    let close = |listener: &OwnedFd| shutdown(listener, rustix::net::Shutdown::Both).unwrap();
    for (restarts, spoil) in [(1.0, &wait as &dyn Fn(&OwnedFd)), (2.0, &close)] {
        let listeners = listeners_of(lariat.worker_process());
        assert!(listeners.len() > 1, "a service and the status");
        listeners.iter().for_each(spoil);
        drop(listeners);
        lariat.replace_worker_process();
        Client::new(&site).visit(service.address);
        lariat.wait_for_metric("lariat_worker_process_restarts_total", &[], restarts);
    }
    lariat.wait_for_stderr("the status socket was shut down, and is replaced");
    // Without another death.
    listeners_of(lariat.worker_process()).iter().for_each(close);
    lariat.signal(Signal::USR2);
    lariat.wait_for_stderr("has taken over from");
    Client::new(&site).visit(service.address);
    lariat.status();
}

#[test]
fn a_worker_process_that_does_not_pause_keeps_no_other_program_away() {
    let (site, _server, service, lariat) = serve(Behaviour::Echo);
    kill_process(lariat.worker_process(), Signal::STOP).unwrap();
    lariat.signal(Signal::USR2);
    lariat.wait_for_stderr("has not paused in 10 s, and is killed");
    lariat.wait_for_stderr("has taken over from");
    Client::new(&site).visit(service.address);
}
