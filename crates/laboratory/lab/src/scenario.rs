//! Scenarios: questions as data, and the configurations that they come to.

pub(crate) mod catalogue;
pub(crate) mod expansion;
pub(crate) mod expect;
pub(crate) mod form;
pub(crate) mod planned;
pub(crate) mod settings;
