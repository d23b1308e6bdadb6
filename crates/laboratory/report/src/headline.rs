//! The figures that a run is told by first, each with its spread over the seconds.

use measure::record::{Record, Second};
use measure::statistics::Spread;

use crate::reading::{Amount, Unit, duration, per_second, spread};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headline {
    /// Its stable name on the page.
    pub(crate) id: &'static str,
    /// For people.
    pub(crate) name: &'static str,
    /// Of the whole run; `None` if it has none.
    pub(crate) whole: Option<f64>,
    /// Over its whole seconds.
    pub(crate) spread: Option<Spread>,
    pub(crate) unit: Unit,
}

impl Headline {
    /// A value of it.
    pub(crate) fn amount(&self, value: f64) -> Amount {
        Amount {
            value,
            unit: self.unit,
        }
    }
}

/// So many of them have cards of their own on a page, and their names there.
pub(crate) const CARDS: usize = 3;

/// All of them, the most telling first.
pub(crate) fn headlines(record: &Record) -> [Headline; 5] {
    let totals = record.totals;
    let rate = |id, name, events, of: fn(&Second) -> u64| Headline {
        id,
        name,
        whole: per_second(record, events),
        spread: spread(record, |second| Some(of(second) as f64)),
        unit: Unit::Count,
    };
    let total = record.total_latency();
    let time = |id, name, whole: f64, of: fn(&Second) -> u64| Headline {
        id,
        name,
        whole: (!total.is_empty()).then_some(whole),
        spread: spread(record, |second| duration(second, of(second))),
        unit: Unit::Nanoseconds,
    };
    let p99 = total.quantile_ns(0.99) as f64;
    [
        rate(
            "succeeded-per-s",
            "Succeeded a second",
            totals.succeeded,
            |s| s.succeeded,
        ),
        time("mean-ns", "Response, mean", total.mean_ns(), |s| s.mean_ns),
        time("p99-ns", "Response, p99", p99, |s| s.p99_ns),
        rate(
            "attempted-per-s",
            "Attempted a second",
            totals.attempted,
            |s| s.attempted,
        ),
        rate("failed-per-s", "Failed a second", totals.failed, |s| {
            s.failed
        }),
    ]
}
