//! The data plane: workers, each one thread and one loop.
#![forbid(unsafe_code)]

pub mod options;
