//! Ctrl-C, SIGTERM and a lost terminal during a run: the reading under way is given up, and the
//! record says that the run can be taken up again.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use load::run::Stopper;
use sys::epoll::{Epoll, Events, Interest};
use sys::signal::{Signal, Signals};

use crate::exit::Exit;
use crate::measurement::missed::Halt;
use crate::talk::Talk;

/// Hears signals from its making on. The thread that listens ends with the program.
#[derive(Debug)]
pub(crate) struct Stop {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    is_asked: bool,
    stopper: Option<Stopper>,
}

impl Stop {
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
}

impl Halt for Stop {
    fn is_asked(&self) -> bool {
        locked(&self.state).is_asked
    }

    fn watch(&self, stopper: Stopper) {
        let mut state = locked(&self.state);
        if state.is_asked {
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

/// The first signal ends the run, the second the program; what it started ends either way.
fn hear(state: &mut State, talk: Talk) {
    if std::mem::replace(&mut state.is_asked, true) {
        std::process::exit(Exit::Failed as i32);
    }
    talk.say("Ending; what was read is in the record.");
    if let Some(stopper) = &state.stopper {
        stopper.stop();
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
