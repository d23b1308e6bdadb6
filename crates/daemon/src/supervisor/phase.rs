//! How far the supervisor is, and what it waits for.

/// How far the data process is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// None has served yet.
    Beginning,
    /// A successor has been started, or will be.
    Restarting,
    /// It serves.
    Serving,
    /// It was told to drain.
    Draining,
}

/// What happens when the time is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Due {
    /// The next data process is started.
    Restart,
    /// The data process should have answered.
    Answer,
    /// The data process should have drained.
    Drained,
}

/// Whether the supervisor goes on.
pub(super) enum Next {
    GoOn,
    Stop,
}
