//! Scenarios: questions as data, and the cells that they come to.

pub(crate) mod catalogue;
pub(crate) mod cell;
pub(crate) mod cells;
pub(crate) mod expect;
pub(crate) mod form;
pub(crate) mod settings;
