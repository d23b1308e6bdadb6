//! A connection's conversation before TLS, as [`wire::starttls`] leads it.
//!
//! Owns the dialog and the room for what a server sends to it; what follows from it is
//! `connection`'s. A connection without STARTTLS has none, and one with it no longer has one once
//! nothing is left to rewrite.

use telemetry::outcome::Reason;
use wire::starttls::{Dialog, Fault};

use crate::buffer::{Buffer, Pool};
use crate::facts::Ending;
use crate::options::Starttls;

pub(crate) struct Conversation {
    pub(crate) dialog: Dialog,
    /// A request that goes to every server, and not to one.
    pub(crate) broadcast: Option<Broadcast>,
}

pub(crate) struct Broadcast {
    pub(crate) bytes: Vec<u8>,
    pub(crate) has_reached_one: bool,
}

impl Conversation {
    pub(crate) fn new(settings: &Starttls, has_back_tls: bool) -> Self {
        let mut dialog = Dialog::new(settings.dialect, settings.sides, settings.names());
        if has_back_tls {
            dialog.server_is_secured();
        }
        Self {
            dialog,
            broadcast: None,
        }
    }
}

/// What is in a buffer, which goes back.
pub(crate) fn take_all(slot: &mut Option<Buffer>, pool: &mut Pool) -> Vec<u8> {
    let bytes = slot.as_ref().map_or(Vec::new(), |one| one.data().to_vec());
    pool.give_all(slot);
    bytes
}

/// How a connection ends whose dialog failed.
pub(crate) fn ending_of(fault: &Fault) -> Ending {
    let reason = match fault {
        Fault::TlsRequired => Reason::StarttlsRequired,
        Fault::Injection(_) => Reason::StarttlsInjection,
        Fault::TlsUnasked | Fault::ProtocolNotAgreed(_) | Fault::ClientMalformed(_) => {
            Reason::StarttlsMalformed
        }
        Fault::BoundElsewhere => Reason::ChannelBinding,
        Fault::ServerRefused(_) | Fault::ServerWithoutTls(_) | Fault::ServerMalformed(_) => {
            Reason::ServerStarttlsFailed
        }
    };
    Ending::with(reason, fault.to_string())
}
