//! The vocabulary of the black-box tests.
#![forbid(unsafe_code)]
