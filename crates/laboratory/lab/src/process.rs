//! Programs beside us: started on CPUs of their own, measured, and ended with us however we end.

pub(crate) mod child;
pub(crate) mod guard;
pub(crate) mod scratch;
pub(crate) mod tree;
