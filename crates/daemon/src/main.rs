//! The program `lariat`.
#![forbid(unsafe_code)]

fn main() {}
