//! Options as tables of rows, from which come the parsers of flags and TOML, help, reference and
//! diagnostics with places.
//!
//! Knows no option of any program, and reads no file.
#![forbid(unsafe_code)]

pub mod command_line;
pub mod diagnostic;
pub mod document;
pub mod flags;
pub mod key;
pub mod node;
pub mod quantity;
pub mod reference;
pub mod row;
mod schema;
pub mod section;
mod shape;
mod table;

pub use diagnostic::{
    Complaint, Diagnostic, IncludedFile, Place, Problem, Report, Severity, Spot, nearest,
};
pub use key::{Default, Key, Kind, key, table};
pub use node::{Entry, Node, Value};
pub use row::{as_text, parse, wrong_kind};
pub use section::{Field, KeyPlace, Nested, Section, Tables, all};
pub use shape::{check, check_keys};
pub use table::{Foreign, Table};
