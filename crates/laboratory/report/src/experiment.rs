//! Records of experiments made readable: who is ahead, tables in the form of their sources, plots.
//!
//! Files only list here; what a record is belongs to `measure`, what a load's own record looks
//! like to the files beside this one.

pub mod compared;
pub mod csv;
pub mod drawings;
mod found;
mod gains;
mod host;
mod limits;
mod noise;
pub mod page;
mod plots;
mod standing;
mod study;
pub mod summary;
mod tables;
mod versus;
mod words;
mod yardstick;
