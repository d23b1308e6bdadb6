//! Text and files to the Options of the parts.
#![forbid(unsafe_code)]
