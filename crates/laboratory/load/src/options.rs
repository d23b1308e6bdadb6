//! The settings of a load, and what they mean: one table of settings, which makes the
//! command line, the plan file, the help and the reference.
//!
//! [`settings::Options`] is what was typed, [`unresolved_plan::UnresolvedPlan`] what it means
//! without contradictions, and a [`crate::plan::Plan`] is that with an address. Reads no file and
//! resolves no name.

mod arriving;
mod display;
mod fault;
pub mod limit;
pub mod reference;
mod request;
mod rows;
mod setting;
pub mod settings;
pub mod table;
mod tls;
pub mod unresolved_plan;
pub mod url;
pub mod value;

pub use fault::PlanFault;
pub use limit::{Limit, Search};
pub use settings::{Files, Options};
pub use unresolved_plan::UnresolvedPlan;
pub use value::ValueFault;
