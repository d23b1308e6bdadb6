//! Two experiments compared, cell by cell: two platforms, two versions, two settings.
//!
//! The second is told as a change against the first; for a rate that is the loss of the founding
//! comparison of hypervisors. Runs have no rounds in common, so samples are not paired.

mod drawn;
mod named;
mod paged;
mod pairs;
mod told;

use super::drawings::Drawing;
pub use named::Named;
use pairs::pairs;

/// How many cells were read in both: none is nothing to compare.
#[must_use]
pub fn cells_in_common(a: Named<'_>, b: Named<'_>) -> usize {
    pairs(a, b).iter().map(pairs::Pair::cells).sum()
}

/// As text for a screen `width` characters wide.
#[must_use]
pub fn text(a: Named<'_>, b: Named<'_>, width: usize, colour: bool) -> String {
    told::text(a, b, &pairs(a, b), width, colour)
}

/// As one page.
#[must_use]
pub fn html(a: Named<'_>, b: Named<'_>) -> String {
    paged::html(a, b, &pairs(a, b))
}

/// The figures, one a scenario in common.
#[must_use]
pub fn drawings(a: Named<'_>, b: Named<'_>) -> Vec<Drawing> {
    let pairs = pairs(a, b);
    let drawn = pairs.iter().filter_map(|pair| {
        let figure = drawn::losses(pair, &a.experiment.plan.targets)?;
        Some(Drawing {
            name: format!("compared-{}", pair.id()),
            svg: figure.document(crate::figure::WIDE),
        })
    });
    drawn.collect()
}
