//! The table of meanings: one part for each program.

mod haproxy;
mod hitch;
pub(crate) mod nginx;
mod stunnel;

use crate::meaning::{Meaning, OldDefault};
use crate::predecessor::Predecessor;

/// The meanings of all options of a program.
pub(crate) fn of(predecessor: Predecessor) -> &'static [Meaning] {
    match predecessor {
        Predecessor::Hitch | Predecessor::Stud => hitch::MEANINGS,
        Predecessor::Stunnel => stunnel::MEANINGS,
        Predecessor::Haproxy => haproxy::MEANINGS,
        Predecessor::Nginx => nginx::MEANINGS,
    }
}

/// The defaults of a program where ours differ.
pub(crate) fn defaults_of(predecessor: Predecessor) -> &'static [OldDefault] {
    match predecessor {
        Predecessor::Hitch | Predecessor::Stud => hitch::DEFAULTS,
        Predecessor::Stunnel => stunnel::DEFAULTS,
        Predecessor::Haproxy => haproxy::DEFAULTS,
        Predecessor::Nginx => nginx::DEFAULTS,
    }
}

/// The meaning of the option with that name.
pub(crate) fn find(predecessor: Predecessor, name: &str) -> Option<&'static Meaning> {
    of(predecessor).iter().find(|one| one.is(name))
}
