//! Plays whole conversations of each dialect, with every way to cut their bytes.

mod endless;
mod lines;
mod mysql;
mod others;
mod script;
mod under_tls;

use script::NAMES;
