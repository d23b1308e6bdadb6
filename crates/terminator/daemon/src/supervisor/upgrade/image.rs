//! One process, one program after the other: what a supervisor hands on when it becomes another
//! program (execve(2)), and the way back.
//!
//! All goes through a socket pair of which one end stays open: `[program, own, state, ...]`, where
//! `state` is a [`SupervisorState`] with its descriptors, which every program reads. With `own` and
//! the descriptors that come last the program before can go on as if nothing had been; no other
//! looks into it. A program that cannot serve sends the same back, with the reason why; for one
//! that crashes or hangs it lies ready ([`RollbackProgram`]).

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sys::channel::{self, Channel};
use sys::image::{Fallback, NextImage};
use sys::{inherited, memory};

use super::state::{InheritedState, STATE_BYTES_MAX, SupervisorState, decode, encode};
use crate::handover::{self, ConnectRights, Reloads, Secret};
use crate::held_keys::KeyGroup;
use crate::key_holder_status::LentKeyProcess;
use crate::messages;
use crate::reader::HostFindings;
use crate::supervisor::failure::Failure;
use crate::supervisor::prepared::FixedParts;
use crate::supervisor::service_manager::protocol::{HandedOverSockets, given};
use crate::supervisor::service_manager::{is_ours, restored};

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

/// From the start of a program to the moment at which it serves: its deadlines for files, names, a
/// plan and the switch, and some seconds. One that takes longer hangs.
const TAKE_OVER_TIME_MAX: Duration = Duration::from_secs(450);

/// The origin of a supervisor: what it inherits and is given.
#[derive(Default)]
pub(crate) struct SupervisorOrigin {
    pub(crate) handed_over: HandedOverSockets,
    pub(crate) inherited: InheritedState,
    pub(crate) way_back: Option<RollbackProgram>,
    pub(crate) returned: Option<UpgradeRollback>,
}

/// The state that a program needs to go on with what it served, if the next one comes back.
#[derive(Deserialize, Serialize)]
pub(crate) struct OwnState {
    pub(crate) generation: u64,
    pub(crate) reloads: Reloads,
    pub(crate) found: HostFindings,
    pub(crate) fixed: FixedParts,
    pub(crate) connect_rights: ConnectRights,
    pub(crate) bundle: Secret,
    pub(crate) keys: Vec<KeyGroup>,
    /// The processes that hold them, in the order of the groups.
    pub(crate) key_processes: Vec<LentKeyProcess>,
}

/// A program that could not serve has become this one again.
pub(crate) struct UpgradeRollback {
    pub(crate) why: String,
    pub(crate) own: OwnState,
    /// The folders, the log, and the ends of key processes' channels.
    pub(crate) fds: Vec<OwnedFd>,
}

/// The program before, and all that it handed on: until this one serves, it may have to go on. It
/// does so by itself if this one crashes or hangs.
pub(crate) struct RollbackProgram(Fallback);

/// The origin of this process: the program before hands it on, or else a service manager.
///
/// To be called once, before the process opens anything.
pub(crate) fn origin() -> Result<SupervisorOrigin, Failure> {
    let Some(number) = std::env::var_os(VARIABLE) else {
        let given = given()?.into_iter();
        let (kept, given) = given.partition(|one| is_ours(&one.name));
        return Ok(SupervisorOrigin {
            handed_over: HandedOverSockets::new(given)?,
            inherited: restored(kept),
            ..SupervisorOrigin::default()
        });
    };
    let number = number.to_str().and_then(|text| text.parse::<u16>().ok());
    let place = number.and_then(|number| number.checked_sub(3));
    let given = place.map(|place| inherited::take(place, 0)).transpose();
    let given = given.map_err(Failure::host("take a descriptor"))?.flatten();
    let Some(Ok((why, fds))) = given.map(received) else {
        return Err(Failure::HandedOver(format!(
            "{VARIABLE} names nothing that a lariat hands on to the next one: unset it"
        )));
    };
    if why.is_empty() {
        let way_back = RollbackProgram::new(&fds).map_err(|why| go_back(&fds, &why.to_string()))?;
        return match inherited(fds) {
            Ok((inherited, ..)) => Ok(SupervisorOrigin {
                inherited,
                way_back: Some(way_back),
                ..SupervisorOrigin::default()
            }),
            Err(why) => Err(way_back.go(&why)),
        };
    }
    let strange = |why| Failure::HandedOver(format!("what the program before hands on: {why}"));
    let (inherited, own, fds) = inherited(fds).map_err(strange)?;
    let own = memory::sealed_bytes(own, OWN_BYTES_MAX).map(Secret::new);
    let own = own.map_err(|error| strange(error.to_string()))?;
    let own = handover::decode(own.bytes()).map_err(|error| strange(error.to_string()))?;
    let returned = Some(UpgradeRollback { why, own, fds });
    Ok(SupervisorOrigin { inherited, returned, ..SupervisorOrigin::default() })
}

/// The one message of a channel: it has been sent in full, and nobody sends any more.
fn received(channel: OwnedFd) -> io::Result<(String, Vec<OwnedFd>)> {
    let channel = Channel::from(channel);
    let message = channel.receive_up_to(4 * REASON_CHARACTERS_MAX, channel::DESCRIPTORS_MAX)?;
    let (why, fds) = message.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((String::from_utf8_lossy(&why).into_owned(), fds))
}

/// The state, the memory with this program's own, and its descriptors. An error is a sentence.
fn inherited(fds: Vec<OwnedFd>) -> Result<(InheritedState, OwnedFd, Vec<OwnedFd>), String> {
    let mut fds = fds.into_iter();
    let first: Vec<_> = fds.by_ref().take(FIRST).collect();
    let [_program, own, state]: [OwnedFd; FIRST] =
        first.try_into().map_err(|_| "descriptors are missing")?;
    let bytes = memory::sealed_bytes(state, STATE_BYTES_MAX);
    let bytes = Secret::new(bytes.map_err(|error| format!("its state is not readable: {error}"))?);
    let state: SupervisorState = decode(bytes.bytes())?;
    let of_state: Vec<_> = fds.by_ref().take(state.descriptors()).collect();
    state.check_with(of_state.len())?;
    Ok((InheritedState::new(state, of_state), own, fds.collect()))
}

impl OwnState {
    /// As it is handed on.
    pub(crate) fn sealed(&self) -> io::Result<OwnedFd> {
        let bytes = handover::encode(self).map_err(io::Error::other)?;
        sealed_within(OWN_BYTES_MAX, "lariat own state", &bytes)
    }
}

impl RollbackProgram {
    /// Keeps what was handed on in a channel that nobody reads, ready for the program before: so
    /// the process has each descriptor open once.
    fn new(fds: &[OwnedFd]) -> io::Result<Self> {
        let why = format!("it crashed, or did not serve in {} s", TAKE_OVER_TIME_MAX.as_secs());
        Fallback::new(returning(fds, &why)?, TAKE_OVER_TIME_MAX).map(Self)
    }

    /// Becomes the program before again, which goes on and says why. Returns why that could not be.
    pub(crate) fn go(self, why: &str) -> Failure {
        match received(self.0.into_kept()) {
            Ok((_, fds)) => go_back(&fds, why),
            Err(error) => Failure::host(BECOME)(error),
        }
    }
}

const BECOME: &str = "become the program before again";

fn go_back(fds: &[OwnedFd], why: &str) -> Failure {
    let why: String = why.chars().take(REASON_CHARACTERS_MAX).collect();
    Failure::host(BECOME)(returning(fds, &why).map_or_else(|error| error, start))
}

/// The program before, which comes first among these.
fn returning(fds: &[OwnedFd], why: &str) -> io::Result<NextImage> {
    let program = fds.first().ok_or(io::ErrorKind::NotFound)?.try_clone()?;
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    next(program, why, &fds, None)
}

/// The file that this process was started from, to go back to it.
pub(crate) fn own_program() -> io::Result<OwnedFd> {
    Ok(std::fs::File::open("/proc/self/exe")?.into())
}

/// Becomes another program, which finds these descriptors. Returns why that could not be: then
/// nothing has changed. `name` is the one that it is started by.
pub(crate) fn hand_on(
    program: OwnedFd,
    fds: &[BorrowedFd<'_>],
    name: Option<PathBuf>,
) -> io::Error {
    next(program, "", fds, name).map_or_else(|error| error, start)
}

fn start(image: NextImage) -> io::Error {
    messages::flush();
    image.start()
}

fn next(
    program: OwnedFd,
    why: &str,
    fds: &[BorrowedFd<'_>],
    name: Option<PathBuf>,
) -> io::Result<NextImage> {
    let (channel, theirs) = channel::pair()?;
    // Nobody reads before this process is the other program: it has to find room.
    let channel = channel.with_send_timeout(Duration::ZERO);
    channel.send(why.as_bytes(), fds)?;
    let number = u16::try_from(theirs.as_raw_fd());
    let number = number.map_err(|_| {
        io::Error::other(format!(
            "more than {} files are open: listen at fewer addresses",
            u16::MAX
        ))
    })?;
    let mut arguments = std::env::args_os();
    let first = arguments.next().unwrap_or_default();
    let first = name.map_or(first, OsString::from);
    let environment = environment().chain([(VARIABLE.into(), number.to_string().into())]);
    NextImage::new(program, [first].into_iter().chain(arguments), environment, theirs)
}

/// The environment, but for what holds for one program only.
pub(crate) fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    let is_not_handed_on = |name: &OsString| NOT_HANDED_ON.iter().any(|one| name == one);
    std::env::vars_os().filter(move |(name, _)| !is_not_handed_on(name))
}

/// The state in memory, as it is handed on.
pub(crate) fn sealed(state: &SupervisorState) -> io::Result<OwnedFd> {
    sealed_within(STATE_BYTES_MAX, "lariat state", &encode(state))
}

/// Refuses what the one that it is handed on to would refuse.
fn sealed_within(bytes_max: usize, name: &str, bytes: &Secret) -> io::Result<OwnedFd> {
    let length = bytes.bytes().len();
    if length > bytes_max {
        let why = format!("the {name} has {length} bytes, and {bytes_max} can be handed on");
        return Err(io::Error::other(why));
    }
    memory::sealed(name, bytes.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_too_long_is_not_handed_on() {
        let error = sealed_within(3, "state", &Secret::new(vec![0; 4])).unwrap_err();
        assert_eq!(error.to_string(), "the state has 4 bytes, and 3 can be handed on");
        sealed_within(4, "state", &Secret::new(vec![0; 4])).unwrap();
    }
}
