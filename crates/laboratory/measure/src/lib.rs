//! Defines the parts of a measurement: kinds, histograms, statistics, the records of a load and of
//! an experiment.
//!
//! Owns the format of records, so that a figure can be made from one years later. Pure: it reads no
//! clock, file or host; its users provide the values.
#![forbid(unsafe_code)]

pub mod bounds;
pub mod capacity;
pub mod choice;
pub mod effect;
pub mod experiment;
pub mod histogram;
pub mod measurement;
pub mod merge;
pub mod metric;
pub mod planned;
pub mod probe;
pub mod quantity;
pub mod random;
pub mod record;
pub mod statistics;
pub mod until;
