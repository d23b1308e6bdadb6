//! Reasons why a configuration was not measured, and the trait that ends a measurement early.

use std::time::Duration;

use load::run::Stopper;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum MeasurementFailure {
    /// The server did not start, or ended; or nothing succeeded. The reason, with its own words.
    Failed(String),
    /// Something else than the configuration was measured: what was expected, what was found.
    Void(String),
    Cancelled,
}

/// The result of a measurement, or of a step of one.
pub(crate) type Measured<T> = Result<T, MeasurementFailure>;

impl<E: std::error::Error> From<E> for MeasurementFailure {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

impl MeasurementFailure {
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Failed(why) | Self::Void(why) => why,
            Self::Cancelled => "it was stopped",
        }
    }
}

/// A request to end a measurement early, from any thread.
pub(crate) trait Cancel: Sync {
    fn is_requested(&self) -> bool;

    /// A cancellation stops this load, at once if it was requested already.
    fn watch(&self, stopper: Stopper);

    /// How long this program was stopped until now, by Ctrl-Z or SIGSTOP.
    fn stood_still(&self) -> Duration {
        Duration::ZERO
    }
}
