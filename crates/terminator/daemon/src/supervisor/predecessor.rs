//! The running supervisor that another one takes over from, as that one sees it: the way there, and
//! what comes from there.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sys::channel::{Channel, DESCRIPTORS_MAX};
use sys::peer::credentials;
use sys::process;
use wire::address::Address;

use super::failure::{Failure, TakeoverFailure};
use super::successor::TRIAL_TIME;
use crate::handover::{Secret, SessionKey};
use crate::maintenance::ServerName;
use crate::takeover::{
    ListenerOffer, Offer, PREDECESSOR_BYTES_MAX, PREDECESSOR_VARIABLE, Predecessor, SessionsOffer,
    Successor, decode, encode, printable,
};

/// How long the predecessor may take for a message of ours.
const SEND_TIME_MAX: Duration = Duration::from_secs(10);

/// The running supervisor that we take over from.
pub(super) struct From {
    pub(super) pid: u32,
    /// Whether it has somebody else serve if this one fails in its first seconds.
    pub(super) watches: bool,
    channel: Arc<Channel>,
}

/// The predecessor that watches this one, until then.
pub(super) struct Watcher {
    pub(super) from: From,
    pub(super) until: Instant,
}

pub(super) enum Told {
    Message(Predecessor, Vec<OwnedFd>),
    /// It speaks no more: it has died, or talks nonsense.
    End,
}

/// What came from there, by what it is for.
#[derive(Default)]
pub(super) struct Inherited {
    pub(super) secret: Option<SessionKey>,
    pub(super) last_number: u64,
    pub(super) sessions: Option<(SessionsOffer, OwnedFd)>,
    pub(super) disabled: BTreeSet<ServerName>,
    pub(super) listeners: Vec<(ListenerOffer, Vec<OwnedFd>)>,
    pub(super) admin: Option<(String, OwnedFd)>,
    pub(super) cluster: Option<(String, OwnedFd)>,
    /// Names of what the service manager keeps.
    pub(super) kept: BTreeSet<String>,
}

/// The one that listens there; `None` = nobody does.
pub(super) fn connect(socket: &Path) -> Result<Option<From>, Failure> {
    let met = || -> io::Result<(u32, u32, Channel)> {
        let stream = UnixStream::connect(socket)?;
        let of = credentials(stream.as_fd())?;
        Ok((of.pid, of.user, Channel::from(OwnedFd::from(stream))))
    };
    let failed = |pid, why| TakeoverFailure {
        socket: socket.to_owned(),
        pid,
        why,
    };
    match met() {
        Ok((pid, user, channel)) => {
            let ours = process::identity().user;
            if ![0, ours].contains(&user) {
                let why = format!("it is user {user}'s, and this one is user {ours}'s");
                return Err(failed(pid, why).into());
            }
            let channel = Arc::new(channel.with_send_timeout(SEND_TIME_MAX));
            Ok(Some(From {
                pid,
                watches: false,
                channel,
            }))
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(failed(0, error.to_string()).into())
        }
        // Nobody is there, or one that hands nothing over: the sockets show it.
        Err(_) => Ok(None),
    }
}

/// Tells the supervisor that has started this one why this one does not take over; `true` = it
/// says so, on the standard error that both have.
pub(crate) fn report_failure(failure: &Failure) -> bool {
    let Some(socket) = std::env::var_os(PREDECESSOR_VARIABLE) else {
        return false;
    };
    if let Failure::Takeover(takeover) = failure {
        // If it was reached, it has refused.
        return takeover.pid != 0;
    }
    let Ok(Some(from)) = connect(Path::new(&socket)) else {
        return false;
    };
    let why = failure.to_string();
    let sent = from.send(&Successor::Failed { why });
    // Until it has heard that: else our end may be all that it hears.
    let _ = from.channel.set_receive_timeout(SEND_TIME_MAX);
    let _ = from.channel.receive_up_to(0, 0);
    sent.is_ok()
}

impl From {
    pub(super) fn send(&self, message: &Successor) -> Result<(), Failure> {
        let sent = self.channel.send(encode(message).bytes(), &[]);
        sent.map_err(|error| self.failed(error.to_string()))
    }

    pub(super) fn failed(&self, why: String) -> Failure {
        TakeoverFailure {
            socket: PathBuf::new(),
            pid: self.pid,
            why: printable(&why),
        }
        .into()
    }

    /// Has `hear` called with what it says, from a thread.
    pub(super) fn listen(&self, hear: impl Fn(Told) + Send + 'static) -> Result<(), Failure> {
        let channel = Arc::clone(&self.channel);
        let listen = move || {
            while let Ok(Some((bytes, fds))) =
                channel.receive_up_to(PREDECESSOR_BYTES_MAX, DESCRIPTORS_MAX)
            {
                let bytes = Secret::new(bytes);
                match decode(bytes.bytes()) {
                    Ok(message) => hear(Told::Message(message, fds)),
                    Err(_) => break,
                }
            }
            hear(Told::End);
        };
        let thread = thread::Builder::new().name("predecessor".to_owned());
        let started = thread.spawn(listen).map(drop);
        started.map_err(Failure::host("start a thread"))
    }
}

impl Watcher {
    /// `None` = it does not watch.
    pub(super) fn of(from: From) -> Option<Self> {
        let until = Instant::now() + TRIAL_TIME;
        from.watches.then_some(Self { from, until })
    }
}

impl Inherited {
    /// The admin listener, if it listens there.
    pub(super) fn take_admin(&mut self, address: &Address) -> Option<OwnedFd> {
        let is_it = |(name, _): &mut (String, OwnedFd)| *name == address.to_string();
        self.admin.take_if(is_it).map(|(_, fd)| fd)
    }

    /// The offer has been checked: there are as many descriptors as it names.
    pub(super) fn new(offer: Offer, fds: Vec<OwnedFd>) -> Self {
        let mut fds = fds.into_iter();
        let sessions = offer.sessions.and_then(|one| Some((one, fds.next()?)));
        let listeners = offer.listeners.into_iter().map(|one| {
            let sockets = one.sockets;
            (one, fds.by_ref().take(sockets).collect())
        });
        let listeners = listeners.collect();
        Self {
            secret: Some(offer.secret),
            last_number: offer.last_number,
            sessions,
            disabled: offer.disabled.into_iter().collect(),
            listeners,
            admin: offer.admin.and_then(|name| Some((name, fds.next()?))),
            cluster: offer.cluster.and_then(|name| Some((name, fds.next()?))),
            kept: BTreeSet::new(),
        }
    }

    /// Takes what goes with the sockets, which have come by other ways.
    pub(super) fn take_state(&mut self, offer: Offer, sessions: Option<OwnedFd>) {
        let state = Self::new(offer, sessions.into_iter().collect());
        self.secret = state.secret;
        self.last_number = state.last_number;
        self.sessions = state.sessions;
        self.disabled = state.disabled;
    }

    /// Adds sockets that another one had the service manager keep: all that listen at an address
    /// get connections.
    pub(super) fn add_kept(&mut self, kept: Self) {
        self.listeners.extend(kept.listeners);
        self.kept.extend(kept.kept);
        self.admin = self.admin.take().or(kept.admin);
    }
}
