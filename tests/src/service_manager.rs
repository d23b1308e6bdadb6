//! A service manager that keeps descriptors for the next start, as systemd does, and starts
//! programs with descriptors.

use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt,
};
use testkit::directory::Directory;

use crate::lariat::command;
use crate::patience::until_true;

/// Starts a program with the descriptors that it is sent, from 3 on.
const START: &str = r#"
import fcntl, os, socket, sys
path, count, variable, program = sys.argv[1:5]
given, fds = socket.socket(socket.AF_UNIX), []
given.connect(path)
while len(fds) < int(count):
    fds += socket.recv_fds(given, 1, 250)[1]
given.close()
copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3 + int(count)) for fd in fds]
for fd in fds:
    os.close(fd)
for number, fd in enumerate(copies, 3):
    os.dup2(fd, number)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=count)
os.environ.update([variable.split("=", 1)])
os.execv(program, sys.argv[4:])
"#;

/// A guard that a command with handed-over descriptors needs until it has run.
#[derive(Debug)]
pub struct HandedOver {
    _directory: Directory,
}

/// Makes a command that runs the program with the arguments that it gets, with these descriptors
/// from 3 on and this variable (`NAME=VALUE`). A socket carries the descriptors: one that stayed
/// open on exec would be open in whatever another test starts at the same time.
pub fn handing_over(fds: &[&dyn AsFd], variable: &str) -> (Command, HandedOver) {
    let directory = Directory::new();
    let path = directory.join("descriptors");
    let listener = UnixListener::bind(&path).expect("our own directory");
    let copies = fds.iter().map(|fd| fd.as_fd().try_clone_to_owned());
    let copies: Vec<_> = copies.collect::<Result<_, _>>().expect("room for them");
    let mut command = Command::new("python3");
    command.args(["-c", START]).arg(path);
    command.args([&copies.len().to_string(), variable]);
    command.arg(self::command().get_program());
    thread::spawn(move || {
        let (stream, _) = listener.accept()?;
        for batch in copies.chunks(DESCRIPTORS_MAX) {
            let batch: Vec<_> = batch.iter().map(AsFd::as_fd).collect();
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&batch));
            let byte = [IoSlice::new(&[0])];
            sendmsg(&stream, &byte, &mut control, SendFlags::empty())?;
        }
        std::io::Result::Ok(())
    });
    let kept = HandedOver { _directory: directory };
    (command, kept)
}

/// The manager of one service. Only messages of the main process count (`NotifyAccess=main`).
#[derive(Debug)]
pub struct Keeper {
    directory: Directory,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The main process; `None` = the next one that sends a message.
    main: Option<i32>,
    store: BTreeMap<String, Vec<OwnedFd>>,
    is_ended: bool,
}

/// The kernel takes 253 descriptors in a message.
const DESCRIPTORS_MAX: usize = 250;

impl Keeper {
    pub fn new() -> Self {
        let directory = Directory::new();
        let socket = UnixDatagram::bind(directory.join("notify")).expect("the host can");
        sockopt::set_socket_passcred(&socket, true).expect("the host can");
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || while hear(&socket, &shared) {});
        Self { directory, state }
    }

    /// Runs the program with the arguments that it gets and all kept descriptors. The program
    /// becomes the main process.
    pub fn command(&self) -> (Command, HandedOver) {
        self.command_with(&[])
    }

    /// Runs the program with more descriptors, of a socket's unit, by name.
    pub fn command_with(&self, more: &[(&str, &dyn AsFd)]) -> (Command, HandedOver) {
        let mut state = self.state();
        state.main = None;
        let (mut names, mut fds): (Vec<&str>, Vec<&dyn AsFd>) = more.iter().copied().unzip();
        for (name, kept) in &state.store {
            names.extend(kept.iter().map(|_| name.as_str()));
            fds.extend(kept.iter().map(|fd| fd as &dyn AsFd));
        }
        let variables = format!("LISTEN_FDNAMES={}", names.join(":"));
        let (mut command, kept) = handing_over(&fds, &variables);
        command.env("NOTIFY_SOCKET", self.directory.join("notify"));
        (command, kept)
    }

    pub fn names(&self) -> Vec<String> {
        self.state().store.keys().cloned().collect()
    }

    pub fn count(&self, name: &str) -> usize {
        self.state().store.get(name).map_or(0, Vec::len)
    }

    /// Waits until the manager keeps `count` descriptors of this name.
    pub fn wait_for(&self, name: &str, count: usize) {
        until_true(&format!("{count} of {name}: {:?}", self.names()), || self.count(name) == count);
    }

    /// Returns a copy of the descriptor kept by that name.
    pub fn copy(&self, name: &str) -> OwnedFd {
        let state = self.state();
        state.store[name][0].try_clone().expect("room for one")
    }

    /// Keeps another descriptor by that name, alone.
    pub fn replace(&self, name: &str, fd: OwnedFd) {
        self.state().store.insert(name.to_owned(), vec![fd]);
    }

    /// Closes all kept descriptors, as at the stop of a service.
    pub fn release(&self) {
        self.state().store.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Keeper {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.state().is_ended = true;
        if let Ok(socket) = UnixDatagram::unbound() {
            let _ = socket.send_to(b"", self.directory.join("notify"));
        }
    }
}

/// Handles a message; `false` = the manager has ended.
fn hear(socket: &UnixDatagram, state: &Mutex<State>) -> bool {
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut room = [0; 4096];
    let mut slices = [IoSliceMut::new(&mut room)];
    let received = recvmsg(socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC);
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let (Ok(received), false) = (received, state.is_ended) else {
        return false;
    };
    let (mut fds, mut sender) = (Vec::new(), None);
    for message in control.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(batch) => fds.extend(batch),
            RecvAncillaryMessage::ScmCredentials(of) => {
                sender = Some(of.pid.as_raw_nonzero().get())
            }
            _ => {}
        }
    }
    if sender.is_some() && (state.main.is_none() || state.main == sender) {
        state.main = sender;
        let text = String::from_utf8_lossy(&room[..received.bytes]).into_owned();
        state.obey(&text, fds);
    }
    true
}

impl State {
    fn obey(&mut self, text: &str, fds: Vec<OwnedFd>) {
        let value = |key: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        };
        if let Some(pid) = value("MAINPID") {
            self.main = Some(pid.parse().expect("a number"));
        }
        let name = value("FDNAME").unwrap_or("stored").to_owned();
        let is_valid = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b':';
        assert!(name.len() <= 255 && name.bytes().all(is_valid), "{name}");
        if value("FDSTOREREMOVE") == Some("1") {
            self.store.remove(&name);
        } else if value("FDSTORE") == Some("1") {
            assert!(!fds.is_empty(), "{text}");
            for fd in fds {
                let is_known = |one: &OwnedFd| inode(one.as_fd()) == inode(fd.as_fd());
                // As systemd does, the manager keeps each descriptor once, by whatever name.
                if !self.store.values().flatten().any(is_known) {
                    self.store.entry(name.clone()).or_default().push(fd);
                }
            }
        }
    }
}

fn inode(fd: BorrowedFd<'_>) -> (u64, u64) {
    let of = rustix::fs::fstat(fd).expect("the host can");
    (of.st_dev, of.st_ino)
}
