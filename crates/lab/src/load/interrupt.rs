//! Ctrl-C, SIGTERM and a lost terminal during a load: it ends early, and its record is written all
//! the same.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use load::run::Stopper;
use sys::epoll::{Epoll, Events, Interest};
use sys::signal::{Signal, Signals};

use crate::exit::Exit;
use crate::talk::Talk;

/// Hears signals from its making on. The thread that listens ends with the program.
#[derive(Debug)]
pub(crate) struct Interrupt {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    heard: bool,
    stopper: Option<Stopper>,
}

impl Interrupt {
    /// To be made before any other thread: one that does not block a signal would take it.
    pub(crate) fn new(talk: Talk) -> io::Result<Self> {
        let signals = Signals::new(&[Signal::Hangup, Signal::Interrupt, Signal::Terminate])?;
        let epoll = Epoll::new()?;
        epoll.add(&signals, 0, Interest::READ)?;
        let state = Arc::default();
        let heard = Arc::clone(&state);
        let listener = thread::Builder::new().name("signals".to_owned());
        listener.spawn(move || listen(&signals, &epoll, &heard, talk))?;
        Ok(Self { state })
    }

    /// The load that a signal stops from now on; at once if one has come already.
    pub(crate) fn watch(&self, stopper: Stopper) {
        let mut state = locked(&self.state);
        if state.heard {
            stopper.stop();
        }
        state.stopper = Some(stopper);
    }
}

fn listen(signals: &Signals, epoll: &Epoll, state: &Mutex<State>, talk: Talk) {
    let mut events = Events::with_capacity(1);
    while epoll.wait(&mut events, None).is_ok() {
        while signals.next().is_some() {
            hear(&mut locked(state), talk);
        }
    }
}

/// The first signal ends the load, the second the program.
fn hear(state: &mut State, talk: Talk) {
    if std::mem::replace(&mut state.heard, true) {
        std::process::exit(Exit::Failed as i32);
    }
    talk.say("Ending early; once more ends at once, without a record.");
    if let Some(stopper) = &state.stopper {
        stopper.stop();
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
