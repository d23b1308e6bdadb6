//! Tables of option rows, which generate the parsers of flags and TOML, help, reference and
//! diagnostics with places.
//!
//! Knows no option of any program, and reads no file.
#![forbid(unsafe_code)]

pub mod command_line;
pub mod diagnostic;
pub mod document;
pub mod flags;
pub mod key;
pub mod quantity;
pub mod reference;
pub mod row;
pub mod section;

pub use diagnostic::{
    Complaint, Diagnostic, FaultLocation, IncludedFile, Problem, RawLocation, Report, Severity,
    nearest,
};
pub use document::{Entry, Node, Value, check, check_keys};
pub use key::{Default, ForeignKeyName, Key, Kind, Table, key, table};
pub use row::{as_text, parse, wrong_kind};
pub use section::{Field, KeyPlace, Nested, Section, Tables, all};
