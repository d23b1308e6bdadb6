//! One process, one program after the other: what a supervisor hands on when it becomes another
//! program (execve(2)), and the way back.
//!
//! All goes through a socket pair of which one end stays open: `[program, own, state, ...]`, where
//! `state` is a [`SupervisorState`] with its descriptors, which every program reads. With `own` and
//! the descriptors that come last the program before can go on as if nothing had been; no other
//! looks into it. A program that cannot serve sends the same back, with the reason why.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sys::channel::{self, Channel};
use sys::{inherited, process, shared};
use wire::address::Address;

use super::failure::Failure;
use super::prepared::FixedPlaces;
use super::reading::{self, Read};
use super::state::{
    ImageState, ListenerState, STATE_BYTES_MAX, SessionsState, SupervisorState, decode, encode,
};
use crate::handover::{self, Reloads, Secret, SessionKey};
use crate::maintenance::ServerName;
use crate::messages;
use crate::messages::stderr;
use crate::reader::Found;

/// The number of the descriptor that the next program reads what is handed on from.
const VARIABLE: &str = "LARIAT_IMAGE";

/// Variables that hold for one program only: what a service manager has handed over to the first.
const NOT_HANDED_ON: [&str; 4] = [VARIABLE, "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"];

/// As long as the reason may be why a program could not serve.
const REASON_CHARACTERS_MAX: usize = 16 << 10;

/// A configuration with all its files, as long as a channel takes it.
const OWN_BYTES_MAX: usize = channel::MESSAGE_BYTES_MAX;

/// Descriptors that come before those of the state.
const FIRST: usize = 3;

/// State and descriptors that are handed on, by their use.
#[derive(Default)]
pub(super) struct Inherited {
    pub(super) secret: Option<SessionKey>,
    pub(super) last_number: u64,
    pub(super) sessions: Option<(SessionsState, OwnedFd)>,
    pub(super) disabled: BTreeSet<ServerName>,
    pub(super) listeners: Vec<(ListenerState, Vec<OwnedFd>)>,
    pub(super) admin: Option<(String, OwnedFd)>,
    pub(super) cluster: Option<(String, OwnedFd)>,
    pub(super) image: Option<InheritedImage>,
    /// Names of what the service manager keeps.
    pub(super) kept: BTreeSet<String>,
}

/// State and descriptors that stay with the process from program to program.
pub(super) struct InheritedImage {
    /// The version of the program before.
    pub(super) program: String,
    pub(super) state: ImageState,
    /// `None` once it is taken.
    pub(super) status: Option<OwnedFd>,
    /// The way to each worker process, in the state's order.
    pub(super) workers: Vec<OwnedFd>,
}

/// The state that a program needs to go on with what it served, if the next one comes back.
#[derive(Deserialize, Serialize)]
pub(super) struct OwnState {
    pub(super) generation: u64,
    pub(super) workers: usize,
    pub(super) reloads: Reloads,
    pub(super) found: Found,
    pub(super) fixed: FixedPlaces,
    bundle: Vec<u8>,
}

/// A program that could not serve has become this one again.
pub(super) struct Return {
    pub(super) why: String,
    pub(super) own: OwnState,
    pub(super) read: Read,
}

/// How a program came to be the process's.
pub(super) enum Come {
    /// In the place of another.
    After(WayBack),
    Back(Box<Return>),
}

/// The program before, and all that it handed on: until this one serves, it may have to go on.
pub(super) struct WayBack(Vec<OwnedFd>);

impl OwnState {
    pub(super) fn new(
        (generation, workers): (u64, usize),
        reloads: Reloads,
        (found, fixed): (Found, FixedPlaces),
        bundle: &Secret,
    ) -> Self {
        Self { generation, workers, reloads, found, fixed, bundle: bundle.bytes().to_vec() }
    }

    /// As it is handed on.
    pub(super) fn sealed(&self) -> io::Result<OwnedFd> {
        let bytes = handover::encode(self).map_err(io::Error::other)?;
        shared::sealed("lariat own state", bytes.bytes())
    }
}

impl Drop for OwnState {
    fn drop(&mut self) {
        // Keys are in it.
        drop(Secret::new(std::mem::take(&mut self.bundle)));
    }
}

/// The state and descriptors of the program before, if there was one; and the way back, unless this
/// is one.
///
/// To be called once, before the process opens anything.
pub(super) fn taken() -> Result<Option<(Inherited, Come)>, Failure> {
    let Some(number) = std::env::var_os(VARIABLE) else {
        return Ok(None);
    };
    let number = number.to_str().and_then(|text| text.parse::<u16>().ok());
    let place = number.and_then(|number| number.checked_sub(3));
    let given = place.map(|place| inherited::take(place, 0)).transpose();
    let given = given.map_err(Failure::host("take a descriptor"))?.flatten();
    let received = given.map(|fd| {
        // It has been sent in full, and nobody sends any more.
        Channel::from(fd).receive_up_to(4 * REASON_CHARACTERS_MAX, channel::DESCRIPTORS_MAX)
    });
    let Some(Ok(Some((why, fds)))) = received else {
        return Err(Failure::HandedOver(format!(
            "{VARIABLE} names nothing that a lariat hands on to the next one: unset it"
        )));
    };
    let strange = |why| Failure::HandedOver(format!("what the program before hands on: {why}"));
    if why.is_empty() {
        let way_back = WayBack::new(&fds).map_err(Failure::host("keep descriptors"))?;
        return match inherited(fds) {
            Ok((inherited, _, _)) => Ok(Some((inherited, Come::After(way_back)))),
            Err(why) => Err(way_back.go(&why)),
        };
    }
    let (inherited, own, rest) = inherited(fds).map_err(strange)?;
    let why = String::from_utf8_lossy(&why).into_owned();
    let returned = Return::new(why, own, rest).map_err(strange)?;
    Ok(Some((inherited, Come::Back(Box::new(returned)))))
}

/// The state, the memory with this program's own, and its descriptors. An error is a sentence.
fn inherited(fds: Vec<OwnedFd>) -> Result<(Inherited, OwnedFd, Vec<OwnedFd>), String> {
    let mut fds = fds.into_iter();
    let first: Vec<_> = fds.by_ref().take(FIRST).collect();
    let [_program, own, state]: [OwnedFd; FIRST] =
        first.try_into().map_err(|_| "descriptors are missing")?;
    let bytes = shared::sealed_bytes(state, STATE_BYTES_MAX);
    let bytes = Secret::new(bytes.map_err(|error| format!("its state is not readable: {error}"))?);
    let state: SupervisorState = decode(bytes.bytes())?;
    let of_state: Vec<_> = fds.by_ref().take(state.descriptors()).collect();
    state.check_with(of_state.len())?;
    Ok((Inherited::new(state, of_state), own, fds.collect()))
}

impl Return {
    /// An error is a sentence.
    fn new(why: String, own: OwnedFd, fds: Vec<OwnedFd>) -> Result<Self, String> {
        let bytes = shared::sealed_bytes(own, OWN_BYTES_MAX);
        let bytes = Secret::new(bytes.map_err(|error| error.to_string())?);
        let mut own: OwnState =
            handover::decode(bytes.bytes()).map_err(|error| error.to_string())?;
        let bundle = Secret::new(std::mem::take(&mut own.bundle));
        let read = reading::read(own.found.clone(), fds, bundle);
        let read = read.map_err(|failure| failure.to_string())?;
        Ok(Self { why, own, read })
    }
}

impl WayBack {
    fn new(fds: &[OwnedFd]) -> io::Result<Self> {
        fds.iter().map(OwnedFd::try_clone).collect::<Result<_, _>>().map(Self)
    }

    /// Becomes the program before again, which goes on and says why. Returns why that could not be.
    pub(super) fn go(self, why: &str) -> Failure {
        let Some(program) = self.0.first() else {
            return Failure::Host {
                what: "become the program before again",
                error: io::ErrorKind::NotFound.into(),
            };
        };
        let why: String = why.chars().take(REASON_CHARACTERS_MAX).collect();
        let fds: Vec<_> = self.0.iter().map(AsFd::as_fd).collect();
        let error = hand_on(program.as_fd(), &why, &fds, None);
        let what = "become the program before again";
        Failure::Host { what, error }
    }
}

/// The file that this process was started from, to go back to it.
pub(super) fn own_program() -> io::Result<OwnedFd> {
    Ok(std::fs::File::open("/proc/self/exe")?.into())
}

/// Becomes another program, which finds these descriptors. Returns why that could not be: then
/// nothing has changed. `name` is the one that it is started by, if that is another.
pub(super) fn hand_on(
    program: BorrowedFd<'_>,
    why: &str,
    fds: &[BorrowedFd<'_>],
    name: Option<PathBuf>,
) -> io::Error {
    let filled = || {
        let (channel, theirs) = channel::pair()?;
        // Nobody reads before this process is the other program: it has to find room.
        let channel = channel.with_send_timeout(std::time::Duration::ZERO);
        channel.send(why.as_bytes(), fds)?;
        io::Result::Ok((channel, theirs))
    };
    let (_channel, theirs) = match filled() {
        Ok(filled) => filled,
        Err(error) => return error,
    };
    messages::flush();
    stderr::flush();
    let mut arguments = std::env::args_os();
    let first = arguments.next().unwrap_or_default();
    let first = name.map_or(first, OsString::from);
    let number = (VARIABLE.into(), theirs.as_raw_fd().to_string().into());
    let environment = environment().chain([number]);
    let arguments = [first].into_iter().chain(arguments);
    process::become_program(program, arguments, environment, theirs.as_fd())
}

/// The environment, but for what holds for one program only.
pub(super) fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    let is_not_handed_on = |name: &OsString| NOT_HANDED_ON.iter().any(|one| name == one);
    std::env::vars_os().filter(move |(name, _)| !is_not_handed_on(name))
}

/// The state in memory, as it is handed on.
pub(super) fn sealed(state: &SupervisorState) -> io::Result<OwnedFd> {
    shared::sealed("lariat state", encode(state).bytes())
}

impl Inherited {
    /// The admin listener, if it listens there.
    pub(super) fn take_admin(&mut self, address: &Address) -> Option<OwnedFd> {
        let is_it = |(name, _): &mut (String, OwnedFd)| *name == address.to_string();
        self.admin.take_if(is_it).map(|(_, fd)| fd)
    }

    /// The state has been checked: there are as many descriptors as it names.
    pub(super) fn new(state: SupervisorState, fds: Vec<OwnedFd>) -> Self {
        let mut fds = fds.into_iter();
        let sessions = state.sessions.and_then(|one| Some((one, fds.next()?)));
        let listeners = state.listeners.into_iter().map(|one| {
            let sockets = one.sockets;
            (one, fds.by_ref().take(sockets).collect())
        });
        let listeners = listeners.collect();
        let program = state.program;
        Self {
            secret: Some(state.secret),
            last_number: state.last_number,
            sessions,
            disabled: state.disabled.into_iter().collect(),
            listeners,
            admin: state.admin.and_then(|name| Some((name, fds.next()?))),
            cluster: state.cluster.and_then(|name| Some((name, fds.next()?))),
            image: state.image.and_then(|state| {
                Some(InheritedImage {
                    program,
                    state,
                    status: Some(fds.next()?),
                    workers: fds.collect(),
                })
            }),
            kept: BTreeSet::new(),
        }
    }

    /// Takes what goes with the sockets, which have come by other ways.
    pub(super) fn take_state(&mut self, state: SupervisorState, sessions: Option<OwnedFd>) {
        let state = Self::new(state, sessions.into_iter().collect());
        self.secret = state.secret;
        self.last_number = state.last_number;
        self.sessions = state.sessions;
        self.disabled = state.disabled;
    }
}
