//! Targets: the programs under test, as data, and the servers that they become.

pub(crate) mod catalogue;
pub(crate) mod certificates;
pub(crate) mod form;
pub(crate) mod install;
pub(crate) mod output;
pub(crate) mod program;
pub(crate) mod root;
pub(crate) mod server;
pub(crate) mod server_spec;
pub(crate) mod templates;
