//! How far the supervisor is, what it waits for, and what it hears.

use crate::handover::Answer;

/// How far the worker process is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    Starting,
    /// A successor has been started, or will be.
    Restarting,
    Serving,
    /// It was told to drain.
    Draining,
}

impl Phase {
    /// Whether this is an answer to something. One that is in an attacker's hands may say
    /// anything at any time, and some of it would end the supervisor.
    pub(super) fn expects(self, answer: &Answer) -> bool {
        match answer {
            Answer::Stuck(_) => matches!(self, Self::Starting | Self::Restarting),
            Answer::Drained { .. } => self == Self::Draining,
            Answer::Entered(_)
            | Answer::Paused(_)
            | Answer::Accepting
            | Answer::Ready { .. }
            | Answer::Refused { .. }
            | Answer::Note(_)
            | Answer::LogAway
            | Answer::Alive { .. }
            | Answer::Warned(_)
            | Answer::Said(_) => true,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Due {
    /// The next worker process is started.
    Restart,
    /// The worker process should have answered.
    Answer,
    /// The worker process before should have paused, and ours accept.
    Switch,
    /// Load balancers have had their time to notice: the drain begins.
    DrainDelay,
    /// The worker process should have drained.
    Drained,
}

/// Whether the supervisor goes on.
pub(super) enum Next {
    Continue,
    Stop,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unexpected_answer_does_not_end_the_supervisor() {
        let phases = [Phase::Starting, Phase::Restarting, Phase::Serving, Phase::Draining];
        for (answer, expected) in [
            (Answer::Stuck(String::new()), [true, true, false, false]),
            (Answer::Drained { cut: 0 }, [false, false, false, true]),
        ] {
            assert_eq!(phases.map(|phase| phase.expects(&answer)), expected);
        }
    }
}
