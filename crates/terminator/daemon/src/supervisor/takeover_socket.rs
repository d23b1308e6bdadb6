//! The socket at which another `lariat serve` asks to take over, and `lariat upgrade` for that.
//!
//! Owns who may: root, and the user that this process acts as. It is the one socket that the
//! supervisor reads from; what comes is bounded in length, time and number, and goes as messages to
//! the supervisor's loop, which decides.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sys::channel::Channel;
use sys::peer::{Process, credentials};
use sys::process;
use sys::socket::ListenOptions;

use super::admin_sockets::listen_in_place;
use crate::takeover::{Hello, Predecessor, SUCCESSOR_BYTES_MAX, Successor, decode, encode};

/// Of the socket: nobody else is to connect in the first place.
const MODE: u32 = 0o600;

const LISTEN: ListenOptions = ListenOptions {
    backlog: 16,
    fast_open: 0,
    reuse_port: false,
    unix_mode: Some(MODE),
};

/// How long the first message, and our taking of one, may take.
const MESSAGE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a successor may say nothing: more than it has to build its plan.
const SILENCE_MAX: Duration = Duration::from_secs(180);

/// Those who are heard at a time; one takes over, the others are told so.
const LINKS_MAX: usize = 8;

/// From one message that too many ask to the next.
const TOO_MANY_INTERVAL: Duration = Duration::from_secs(1);

/// Accepting fails for want of descriptors, and does so at once until there are some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(super) enum Asked {
    TakeOver(Link, Hello),
    /// A successor is to be started.
    Upgrade(Link),
    /// What was said over the link of that number.
    Said(u64, Successor),
    /// That one says why it cannot take over, or go on.
    Failed(Link, String),
    Gone(u64),
    /// The successor of this number that was started has ended: how.
    Ended(u32, String),
    /// Somebody was turned away: why.
    TurnedAway(String),
}

/// The way to who asked.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) number: u64,
    /// The process that asked; 0 if it is of another PID namespace.
    pub(super) pid: u32,
    /// The same, even if another has its number later; `None` = it has ended, or cannot be seen.
    pub(super) process: Option<Arc<Process>>,
    channel: Arc<Channel>,
}

impl Link {
    pub(super) fn send(&self, message: &Predecessor, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.channel.send(encode(message).bytes(), fds)
    }

    /// Whether it is certain that this one has not started it. Of a process that has ended nobody
    /// knows: a worker process may have left its end of the connection to another.
    pub(super) fn is_foreign(&self) -> bool {
        let parent = self.process.as_ref().map(|process| process.parent());
        parent.is_some_and(|parent| parent.is_ok_and(|pid| pid != std::process::id()))
    }
}

/// Listens there from now on, in the place of who did before.
/// `hear` is called from threads.
pub(super) fn open(path: &Path, hear: impl Fn(Asked) + Clone + Send + 'static) -> io::Result<()> {
    let listener = UnixListener::from(listen_in_place(path, &LISTEN)?);
    listener.set_nonblocking(false)?;
    let accept = move || accept(&listener, &hear);
    let thread = thread::Builder::new().name("takeover".to_owned());
    thread.spawn(accept).map(drop)
}

fn accept(listener: &UnixListener, hear: &(impl Fn(Asked) + Clone + Send + 'static)) {
    static LINKS: AtomicU64 = AtomicU64::new(0);
    let places = Arc::new(());
    let (mut too_many, mut said) = (0, None::<Instant>);
    loop {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        let place = Arc::clone(&places);
        let number = LINKS.fetch_add(1, Ordering::Relaxed);
        let turned_away = match stranger(&stream) {
            Some(why) => Some(why),
            None if Arc::strong_count(&places) > LINKS_MAX + 1 => {
                too_many += 1;
                if said.is_some_and(|at| at.elapsed() < TOO_MANY_INTERVAL) {
                    continue;
                }
                said = Some(Instant::now());
                let count = std::mem::take(&mut too_many);
                Some(format!("too many ask to take over: {count} turned away"))
            }
            None => {
                let hear = hear.clone();
                let listen = move || {
                    listen(stream, number, &hear);
                    drop(place);
                };
                let started = thread::Builder::new().spawn(listen);
                started.err().map(|error| error.to_string())
            }
        };
        if let Some(why) = turned_away {
            hear(Asked::TurnedAway(why));
        }
    }
}

/// Why that one may not take over, if it may not.
fn stranger(stream: &UnixStream) -> Option<String> {
    let ours = process::identity().user;
    match credentials(stream.as_fd()) {
        Ok(of) if [0, ours].contains(&of.user) => None,
        Ok(of) => Some(format!(
            "process {} of user {} may not take over: this is user {ours}'s",
            of.pid, of.user
        )),
        Err(error) => Some(format!("who asks to take over is unknown: {error}")),
    }
}

fn listen(stream: UnixStream, number: u64, hear: &impl Fn(Asked)) {
    let pid = credentials(stream.as_fd()).map_or(0, |of| of.pid);
    let process = Process::behind(stream.as_fd()).ok().map(Arc::new);
    let channel = Channel::from(OwnedFd::from(stream)).with_send_timeout(MESSAGE_TIME_MAX);
    let channel = Arc::new(channel);
    let link = || Link {
        number,
        pid,
        process: process.clone(),
        channel: Arc::clone(&channel),
    };
    let mut time_max = MESSAGE_TIME_MAX;
    loop {
        let _ = channel.set_receive_timeout(time_max);
        let message = match channel.receive_up_to(SUCCESSOR_BYTES_MAX, 0) {
            Ok(Some((bytes, _))) => decode(&bytes),
            Ok(None) | Err(_) => return hear(Asked::Gone(number)),
        };
        match message {
            Ok(Successor::Hello(hello)) => hear(Asked::TakeOver(link(), hello)),
            Ok(Successor::Upgrade) => hear(Asked::Upgrade(link())),
            Ok(Successor::Failed { why }) => {
                // The end of the connection says that it was heard.
                hear(Asked::Failed(link(), why));
                return hear(Asked::Gone(number));
            }
            Ok(other) => hear(Asked::Said(number, other)),
            Err(why) => {
                hear(Asked::TurnedAway(format!(
                    "process {pid} cannot take over: {why}"
                )));
                return hear(Asked::Gone(number));
            }
        }
        time_max = SILENCE_MAX;
    }
}
