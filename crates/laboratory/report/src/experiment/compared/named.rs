//! What is compared: an experiment under a name.

use measure::experiment::Experiment;

/// An experiment with the name by which it is told.
#[derive(Clone, Copy, Debug)]
pub struct Named<'e> {
    /// Its file, or what it stands for.
    pub name: &'e str,
    /// What was read.
    pub experiment: &'e Experiment,
}
