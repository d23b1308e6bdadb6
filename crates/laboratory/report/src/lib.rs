//! Records of runs made readable: text for a terminal, figures, one page, and CSV.
//!
//! Pure: records in, text out. It reads no file, clock or environment, so that a page can be made
//! from records alone, years later. What a record is belongs to `measure`.
//!
//! - [`summary::text`]: one record for a terminal; [`comparison::text`]: several.
//! - [`page::html`]: one page of one or several.
//! - [`drawings::of_record`], [`drawings::of_records`]: figures as files of their own.
//! - [`csv::of_record`]: the figures' data.
//! - [`experiment`]: the same of experiments, and two of them compared.
#![forbid(unsafe_code)]

mod apart;
pub mod comparison;
pub mod csv;
pub mod drawings;
pub mod experiment;
mod facts;
mod figure;
mod headline;
pub mod host;
mod hostile;
mod limit;
mod markup;
pub mod page;
mod points;
mod read_offs;
mod reading;
mod shell;
pub mod summary;
mod table;
mod tables;
mod terminal;
mod track;
mod typed;
