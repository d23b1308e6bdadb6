//! Makes records of runs readable: text for a terminal, one page, figures, and CSV.
//!
//! Pure: records in, text out. The crate reads no file, clock or environment, so that a page can be
//! made from records alone, years later. The format of records belongs to `measure`.
//!
//! A report is a [`ReportDocument`], made once from records by [`load::document`],
//! [`experiment::document`], [`experiment::compared`], [`host::document`], [`probe::document`],
//! [`probe::survey`], [`planned::document`] or [`planned::simulated`], and rendered by
//! [`ReportDocument::text`], [`ReportDocument::html`], [`ReportDocument::figures`] and
//! [`ReportDocument::sheets`].
#![forbid(unsafe_code)]

mod document;
pub mod experiment;
mod figure;
pub mod host;
mod html;
pub mod load;
mod markup;
pub mod planned;
pub mod probe;
mod terminal;
mod words;

pub use document::ReportDocument;
pub use words::command_line;
