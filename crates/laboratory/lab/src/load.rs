//! The parts of `lariat-lab load`: what was typed, what is said while it runs, what is written.

pub(crate) mod complaint;
pub(crate) mod date;
pub(crate) mod destination;
pub(crate) mod flags;
pub(crate) mod given;
pub(crate) mod live;
pub(crate) mod meaning;
pub(crate) mod plan_file;
pub(crate) mod resolve;
