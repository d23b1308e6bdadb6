//! Handles Ctrl-C, SIGTERM and a lost terminal: the load ends early and its record is still
//! written. On Ctrl-Z, the terminal is given back while the program is stopped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use load::run::Stopper;
use sys::epoll::{Epoll, Events, Interest};
use sys::signal::{Signal, Signals};

use crate::console::Console;
use crate::fault::Exit;
use crate::load::view;

/// A request to end a measurement early, from any thread.
pub(crate) trait Cancel: Sync {
    fn is_requested(&self) -> bool;

    /// Registers a load to be stopped by a cancellation, at once if already requested.
    fn watch(&self, stopper: Stopper);

    /// Returns how long this program was stopped until now, by Ctrl-Z or SIGSTOP.
    fn stood_still(&self) -> Duration {
        Duration::ZERO
    }
}

/// Listener for signals from its creation on. Its thread ends with the program.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    state: Arc<Mutex<InterruptState>>,
}

#[derive(Debug, Default)]
struct InterruptState {
    heard: bool,
    stopper: Option<Stopper>,
    stood_still: Duration,
}

/// Interval of clock checks, which bounds the error of detecting SIGSTOP, because nobody is
/// notified of it. Ten wakes per second cost some 0.01 % of a CPU.
const BEAT: Duration = Duration::from_millis(100);

impl Interrupt {
    /// Must be called before any other thread starts, because a thread that does not block a signal
    /// would take it. Prints `message` at the first signal.
    pub(crate) fn new(console: Console, message: &'static str) -> io::Result<Self> {
        let signals = Signals::new(&HEARD)?;
        let epoll = Epoll::new()?;
        epoll.add(&signals, 0, Interest::READ)?;
        let state = Arc::default();
        let heard = Arc::clone(&state);
        let listener = thread::Builder::new().name("signals".to_owned());
        listener.spawn(move || listen(&signals, &epoll, &heard, &|| console.say(message)))?;
        Ok(Self { state })
    }
}

const HEARD: [Signal; 5] =
    [Signal::Continue, Signal::Hangup, Signal::Interrupt, Signal::Suspend, Signal::Terminate];

impl Cancel for Interrupt {
    fn is_requested(&self) -> bool {
        locked(&self.state).heard
    }

    fn watch(&self, stopper: Stopper) {
        let mut state = locked(&self.state);
        if state.heard {
            stopper.stop();
        }
        state.stopper = Some(stopper);
    }

    /// Accurate to a [`BEAT`].
    fn stood_still(&self) -> Duration {
        locked(&self.state).stood_still
    }
}

fn listen(signals: &Signals, epoll: &Epoll, state: &Mutex<InterruptState>, tell: &dyn Fn()) {
    let mut events = Events::with_capacity(1);
    let mut beat = Instant::now();
    while epoll.wait(&mut events, Some(BEAT)).is_ok() {
        while let Some((signal, _)) = signals.next() {
            match signal {
                Signal::Suspend => view::give_back_during(|| drop(sys::signal::suspend())),
                // SIGCONT may be sent to a process that was not stopped.
                Signal::Continue if beat.elapsed() > 2 * BEAT => {
                    locked(state).stood_still += beat.elapsed();
                    beat = Instant::now();
                }
                Signal::Continue => {}
                _ => hear(&mut locked(state), tell),
            }
        }
        beat = Instant::now();
    }
}

/// Ends the load at the first signal, the program at the second; started programs end either way.
fn hear(state: &mut InterruptState, tell: &dyn Fn()) {
    if std::mem::replace(&mut state.heard, true) {
        view::give_back();
        std::process::exit(Exit::Failed as i32);
    }
    tell();
    if let Some(stopper) = &state.stopper {
        stopper.stop();
    }
}

fn locked(state: &Mutex<InterruptState>) -> MutexGuard<'_, InterruptState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
