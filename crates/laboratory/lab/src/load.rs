//! The parts of `lariat-lab load`: what was typed, what is said while it runs, what is written.

pub(crate) mod date;
pub(crate) mod destination;
pub(crate) mod files;
pub(crate) mod live;
pub(crate) mod resolve;
