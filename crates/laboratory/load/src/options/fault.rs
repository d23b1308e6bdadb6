//! What is wrong with a plan as a whole: settings that cannot hold together.

/// A contradiction, found before the first packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlanFault {
    /// The setting that is to be changed, by its name in the table.
    pub about: &'static str,
    /// Why it cannot be, in one sentence without a full stop.
    pub reason: String,
    /// What to do instead.
    pub remedy: String,
}

/// Collects them, so that all are told at once.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<PlanFault>);

impl Faults {
    /// Notes one.
    pub(crate) fn add(
        &mut self,
        about: &'static str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.0.push(PlanFault {
            about,
            reason: reason.into(),
            remedy: remedy.into(),
        });
    }

    /// Notes one if it is so.
    pub(crate) fn add_if(
        &mut self,
        is_so: bool,
        about: &'static str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        if is_so {
            self.add(about, reason, remedy);
        }
    }

    /// The value, if nothing was wrong.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Vec<PlanFault>> {
        match self.0.is_empty() {
            true => Ok(value),
            false => Err(self.0),
        }
    }

    /// All of them.
    pub(crate) fn into_list(self) -> Vec<PlanFault> {
        self.0
    }
}
