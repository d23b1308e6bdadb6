//! What a measurement is made of: kinds, histograms, statistics, and the record of a run.
//!
//! Owns the form of records, so that a figure can be made from one years later. Pure: it reads no
//! clock, file or host; who measures fills it in.
#![forbid(unsafe_code)]

pub mod capacity;
pub mod histogram;
pub mod kind;
pub mod quantity;
pub mod record;
pub mod statistics;
