//! Ctrl-C, SIGTERM and a lost terminal: the load in progress ends early, and what was measured is
//! written all the same.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

use load::run::Stopper;
use sys::epoll::{Epoll, Events, Interest};
use sys::signal::{Signal, Signals};

use crate::console::Console;
use crate::exit::Exit;
use crate::load::screen;
use crate::run::measurement::failure::Cancel;

/// Hears signals from its creation on. The thread that listens ends with the program.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    state: Arc<Mutex<InterruptState>>,
}

#[derive(Debug, Default)]
struct InterruptState {
    heard: bool,
    stopper: Option<Stopper>,
}

impl Interrupt {
    /// To be made before any other thread: one that does not block a signal would take it.
    /// `message` is printed at the first signal.
    pub(crate) fn new(console: Console, message: &'static str) -> io::Result<Self> {
        let signals = Signals::new(&[Signal::Hangup, Signal::Interrupt, Signal::Terminate])?;
        let epoll = Epoll::new()?;
        epoll.add(&signals, 0, Interest::READ)?;
        let state = Arc::default();
        let heard = Arc::clone(&state);
        let listener = thread::Builder::new().name("signals".to_owned());
        listener.spawn(move || listen(&signals, &epoll, &heard, &|| console.say(message)))?;
        Ok(Self { state })
    }
}

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
}

fn listen(signals: &Signals, epoll: &Epoll, state: &Mutex<InterruptState>, tell: &dyn Fn()) {
    let mut events = Events::with_capacity(1);
    while epoll.wait(&mut events, None).is_ok() {
        while signals.next().is_some() {
            hear(&mut locked(state), tell);
        }
    }
}

/// The first signal ends the load, the second the program; what it started ends either way.
fn hear(state: &mut InterruptState, tell: &dyn Fn()) {
    if std::mem::replace(&mut state.heard, true) {
        screen::give_back();
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
