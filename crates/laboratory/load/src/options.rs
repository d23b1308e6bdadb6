//! What a load may be asked for, and what that means: one table of settings, which makes the
//! command line, the plan file, the help and the reference.
//!
//! [`asked::Options`] is what was typed, [`draft::Draft`] what it means without contradictions,
//! and a [`crate::plan::Plan`] is that with an address. Reads no file and resolves no name.

mod arriving;
pub mod asked;
pub mod draft;
mod fault;
pub mod limit;
pub mod reference;
mod request;
mod rows;
mod setting;
mod show;
pub mod table;
mod tls;
pub mod url;
pub mod value;

pub use asked::{Files, Options};
pub use draft::Draft;
pub use fault::PlanFault;
pub use limit::{Limit, Search};
pub use value::ValueFault;
