//! Scenarios: questions as data, and the cells that they come to.

pub(crate) mod cell;
pub(crate) mod expect;
pub(crate) mod settings;
