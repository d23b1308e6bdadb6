//! Any bytes as a ticket: no panic, and only an unchanged ticket of this host yields a session.
//!
//! The first byte of the input chooses the use of the rest: a stranger's ticket; a session to seal,
//! of any form; or changes to a ticket of this host.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use tls::resumption::{BareSessions, Resumption, ResumptionMiss, ResumptionOptions};

/// Session, roughly as the TLS library writes it for a client without a certificate.
const SESSION: &[u8] = &[0, 3, 4, 0x13, 1, 1, 7, 0, 0, 0];

/// Length of the header of every ticket of this host: its format and its key's name.
const HEADER_BYTES: usize = 1 + 8;

struct Hosts {
    ours: BareSessions,
    other_service: BareSessions,
    stranger: BareSessions,
}

static HOSTS: LazyLock<Hosts> = LazyLock::new(|| {
    let ours = host(7);
    Hosts {
        ours: ours.bare_sessions_of("web"),
        other_service: ours.bare_sessions_of("mail"),
        stranger: host(8).bare_sessions_of("web"),
    }
});

fn host(secret: u8) -> Arc<Resumption> {
    Arc::new(Resumption::new(&ResumptionOptions::new([secret; 32])))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, rest)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => check_foreign(rest),
        1 => check_ours_begun(rest),
        2 => check_sealed(rest),
        _ => check_changed(rest),
    }
});

fn check_foreign(ticket: &[u8]) {
    assert!(HOSTS.ours.open_ticket(ticket).is_err());
}

/// Checks that a ticket with this host's header and other contents yields no session.
fn check_ours_begun(rest: &[u8]) {
    let mut ticket = HOSTS.ours.seal_ticket(SESSION).expect("it is short");
    ticket.truncate(HEADER_BYTES);
    ticket.extend_from_slice(rest);
    assert_eq!(HOSTS.ours.open_ticket(&ticket), Err(ResumptionMiss::Altered));
}

/// Checks that the library gets a sealed session if it is valid, and that no other service or host
/// does.
fn check_sealed(session: &[u8]) {
    let Some(ticket) = HOSTS.ours.seal_ticket(session) else { return };
    match HOSTS.ours.open_ticket(&ticket) {
        Ok(opened) => assert_eq!(opened, session),
        // No session, or one of a client with a certificate, which the service does not want.
        Err(miss) => {
            assert!(matches!(miss, ResumptionMiss::Foreign | ResumptionMiss::ClientCertificate))
        }
    }
    let elsewhere = HOSTS.other_service.open_ticket(&ticket);
    assert_eq!(elsewhere, Err(ResumptionMiss::WrongService));
    assert_eq!(HOSTS.stranger.open_ticket(&ticket), Err(ResumptionMiss::Foreign));
}

/// Applies changes: each three bytes change one of the ticket's; the rest lengthens or cuts it.
fn check_changed(changes: &[u8]) {
    let ours = HOSTS.ours.seal_ticket(SESSION).expect("it is short");
    let mut ticket = ours.clone();
    let changes = changes.chunks_exact(3);
    let left_over = changes.remainder();
    for change in changes {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % ticket.len();
        ticket[place] ^= change[2];
    }
    match left_over {
        [] => {}
        [cut] => ticket.truncate(usize::from(*cut) % (ticket.len() + 1)),
        more => ticket.extend_from_slice(more),
    }
    let opened = HOSTS.ours.open_ticket(&ticket);
    if ticket == ours {
        assert_eq!(opened.as_deref(), Ok(SESSION));
    } else {
        assert!(matches!(opened, Err(ResumptionMiss::Altered | ResumptionMiss::Foreign)));
    }
}
