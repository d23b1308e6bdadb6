//! Options as tables of rows, from which come the parsers of flags and TOML, help, reference and
//! diagnostics with places.
//!
//! Knows no option of any program, and reads no file.
#![forbid(unsafe_code)]

pub mod command_line;
pub mod diagnostic;
pub mod document;
pub mod flags;
mod key;
pub mod node;
pub mod quantity;
pub mod reference;
mod section;
mod shape;
mod table;

pub use diagnostic::{Complaint, Diagnostic, Place, Problem, Report, Severity, Spot, nearest};
pub use key::{Default, Key, Kind, key};
pub use node::{Entry, Node, Value};
pub use section::{Section, all, parse, text, wrong_kind};
pub use shape::{check, check_keys};
pub use table::{Foreign, Renamed, Table};
