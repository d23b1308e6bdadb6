//! A load that goes on while another is measured: what it does to the other is the question.

use std::time::Duration;

use load::plan::Plan;
use load::run::{self, Run, Stopper};

use super::failure::{Cancel, Failure};

/// A load in the background; it ends with this value.
pub(crate) struct Background(Option<Run>);

impl Background {
    /// Starts it. Its threads let those of the measured load have the CPU.
    pub(crate) fn start(mut plan: Plan, cancel: &dyn Cancel) -> Result<Self, Failure> {
        plan.warm_up = Duration::ZERO;
        plan.rests = false;
        plan.is_background = true;
        let run = run::start(plan)?;
        cancel.watch(run.stopper());
        Ok(Self(Some(run)))
    }

    pub(crate) fn stopper(&self) -> Stopper {
        self.0
            .as_ref()
            .expect("it runs until it is dropped")
            .stopper()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run.stopper().stop();
            // What it counted is of no use, and what failed in it failed the other as well.
            let _ = run.finish();
        }
    }
}
