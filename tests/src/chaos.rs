//! Load of every kind while everything around Lariat breaks, and what must hold nevertheless.
//!
//! A seed chooses all actions and their times: [`script`]. Broken promises are written into the
//! [`journal`]; `tests/chaos` and `tests/soak` are the programs, and the suite has a short run.

mod exchange;
mod faults;
mod honest;
mod hostile;
pub mod journal;
mod log_book;
mod phase;
mod rig;
pub mod run;
pub mod script;
mod server;
pub mod soak;
