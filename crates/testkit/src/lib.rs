//! For tests only: test CA, virtual clock, fake backends.
#![forbid(unsafe_code)]
