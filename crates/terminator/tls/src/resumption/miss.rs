//! Why a session that a client offered was not resumed, and how that is heard of.
//!
//! The library asks for a session in the midst of a handshake and takes no reason for an answer.
//! It asks on the thread that drives the handshake, so the answer is noted for that thread and
//! read by the driver when the library comes back.

use std::cell::Cell;

/// Why an offered session was not resumed. The client got a full handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Miss {
    /// A session that the cache does not hold: it never did, or the session has left.
    Unknown,
    /// A ticket outside of its lifetime, or a session that was renewed too long.
    Expired,
    /// A ticket of a key that we never had, or of another program.
    Foreign,
    /// A ticket of a key that we had and have no more.
    KeyTooOld,
    /// A session made with another service.
    WrongService,
    /// A ticket of a key of ours that does not open: it was cut or changed.
    Altered,
    /// A good session that does not fit the hello: another server name, or no suite or mode of its
    /// kind.
    Mismatch,
    /// The client certificate in the session is not, or no longer, good for the service.
    ClientCertificate,
    /// The certificate that its client was shown is revoked, or no more the service's.
    ServerCertificate,
}

/// What the last look-up came to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Sight {
    /// There was none.
    #[default]
    Nothing,
    /// A session was handed to the library.
    Session,
    /// None was.
    Miss(Miss),
}

/// Sessions that are looked up for one hello. A client offers one or two; each costs an opening
/// and, with a client's chain, its verification.
const LOOK_UPS_MAX: u8 = 2;

thread_local! {
    static SIGHT: Cell<Sight> = const { Cell::new(Sight::Nothing) };
    static LOOK_UPS: Cell<u8> = const { Cell::new(0) };
}

/// Takes what this thread has noted since it was last asked.
pub(crate) fn take_sight() -> Sight {
    LOOK_UPS.set(0);
    SIGHT.take()
}

/// Whether another session may be looked up for this hello.
pub(super) fn may_look() -> bool {
    let count = LOOK_UPS.get();
    LOOK_UPS.set(count.saturating_add(1));
    count < LOOK_UPS_MAX
}

/// Notes what a look-up came to, and gives the library its answer.
pub(super) fn note(found: Result<Vec<u8>, Miss>) -> Option<Vec<u8>> {
    SIGHT.set(match found {
        Ok(_) => Sight::Session,
        Err(miss) => Sight::Miss(miss),
    });
    found.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_look_up_is_told_once() {
        assert_eq!(take_sight(), Sight::Nothing);
        assert_eq!(note(Err(Miss::Foreign)), None);
        assert_eq!(note(Ok(vec![1])), Some(vec![1]));
        assert_eq!(take_sight(), Sight::Session);
        assert_eq!(take_sight(), Sight::Nothing);
        note(Err(Miss::Altered));
        assert_eq!(take_sight(), Sight::Miss(Miss::Altered));
    }

    #[test]
    fn few_sessions_are_looked_up_for_a_hello() {
        take_sight();
        assert_eq!([may_look(), may_look(), may_look()], [true, true, false]);
        take_sight();
        assert!(may_look());
    }
}
