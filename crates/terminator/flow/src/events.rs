//! The events of a connection, the answer of each stage to them, and the actions that are asked
//! of the owner of its sockets.
//!
//! | event | handshaking | dialling | relaying | closing |
//! |---|---|---|---|---|
//! | the client is admitted, its service chosen | handshake | | | |
//! | the client's session is found, or not | handshake | | | |
//! | bytes from the client | handshake; early data dials | decrypted | sent to the back | dropped |
//! | the client's end | over | passed on once connected | passed on | over once all was sent |
//! | the client failed | over | over | over | over |
//! | the back is connected | | relaying | | |
//! | the dial failed | | closing, with an alert | | |
//! | bytes from the back | | | encrypted, sent to the client | |
//! | the back's end | | | passed on with close_notify | |
//! | the back takes no more | | | the client's bytes are dropped | |
//! | the back failed | | | closing, without close_notify | |
//! | the deadline passed | over | dials again | closing, without close_notify | over |
//! | stopped by the host | over | over | over | over |
//!
//! An empty cell is without effect, and so is every event once the connection is over. The
//! handshake's end leads to dialling, a fault of the client's bytes to closing, and the end of both
//! directions to over. With early data, dialling and relaying begin before the handshake is over:
//! then the end or failure of the back is passed on after the handshake. Without TLS of ours on the
//! client's side there is no alert and no close_notify: what is not whole ends by a reset.

use std::rc::Rc;

use telemetry::outcome::{Reason, SessionTier};

use crate::facts::Ending;
use crate::options::Settings;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Received {
    /// This number of bytes.
    Bytes(usize),
    /// This number of bytes, and they are the last.
    Last(usize),
    End,
    /// No bytes have come since the last call; an event reports when there are some.
    Nothing,
    Failed,
}

impl Received {
    /// Whether nothing follows, and nothing is missing.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Last(_) | Self::End)
    }

    /// The number of bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::Bytes(count) | Self::Last(count) => count,
            Self::End | Self::Nothing | Self::Failed => 0,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Event {
    /// The client's bytes were received into
    /// [`Flow::front_room`](crate::connection::Flow::front_room), or its stream has ended.
    FrontReceived(Received),
    /// This number of [`Flow::front_pending`](crate::connection::Flow::front_pending) was sent.
    FrontSent(usize),
    /// This number of bytes went from the back to the client past our buffers.
    FrontPassed(usize),
    FrontRecordSent,
    /// The client's connection is broken.
    FrontFailed,
    /// Answers [`Action::Admit`]: the client may come in.
    /// [`Self::Stopped`] says that it may not.
    Admitted,
    /// Answers [`Action::Route`]: the settings of the service that
    /// the hello asks for; `None` = no service has the name. [`Self::Stopped`] says that the client
    /// may not use it.
    Routed(Option<Rc<Settings>>),
    /// Answers [`Action::FetchSession`]: where the session
    /// was found, which is in the cache now.
    SessionFetched(SessionTier),
    /// Answers [`Action::Offload`] and
    /// [`Action::Rekey`]: whether the kernel took the keys.
    KernelAnswered(bool),
    /// Another server is being dialled.
    DialStarted,
    /// The server that is being dialled.
    ServerChosen {
        server: usize,
        /// Whether it is on a Unix socket.
        is_local: bool,
    },
    /// A server is connected, or files are open.
    BackConnected,
    /// No server can serve the connection: none could be connected, for the reason that the last
    /// one gave, or it cannot be sent the PROXY header that it was promised.
    DialFailed(Ending),
    /// The back begins to send this number of bytes in one go, before the first of them is
    /// received; [`Action::Offload`] may follow.
    BackExpected(u64),
    /// The back's bytes were received into [`Flow::back_room`](crate::connection::Flow::back_room),
    /// or its stream has ended.
    BackReceived(Received),
    /// The reason why the back is about to end its stream, if not by its own decision.
    BackEndReason(Reason),
    /// This number of [`Flow::back_pending`](crate::connection::Flow::back_pending) was sent.
    BackSent(usize),
    /// The back takes no more bytes. What it has sent is still to be received: a server that
    /// refuses an upload answers first and resets then.
    BackRefused,
    Timeout,
    /// The connection ends for a reason of the host's: a drain deadline, a limit.
    Stopped(Reason),
}

/// One thing to be done, in the order in which they have to be done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Action {
    /// Decide whether the client that a PROXY header names may come in; at once.
    Admit,
    /// Choose the service that the client's hello asks for; at once.
    Route,
    /// Look for the client's session beyond this host
    /// ([`wanted_session`](crate::connection::Flow::wanted_session)).
    FetchSession,
    /// Choose a server and connect to it.
    Dial,
    /// The server being dialled took too long, or its TLS failed
    /// ([`take_back_fault`](crate::connection::Flow::take_back_fault)): give it up and choose
    /// another.
    Redial,
    /// Close the server's connection and dial the next of all servers.
    DialNext,
    /// Take note that the server's TLS handshake is over.
    NoteBackReady,
    /// Have the kernel acknowledge at once what has come from the client.
    Acknowledge,
    /// Remember which server the client's session is with
    /// ([`PassingSession::agreed`](crate::facts::PassingSession::agreed)), before the client gets
    /// what came with it, because it may come back at once.
    NoteSession,
    /// Hand the sealing of what is sent to the client to the kernel, or say that it does not take
    /// it; at once.
    Offload,
    /// Give the kernel the key that follows a KeyUpdate, or say that it does not take it; at once.
    Rekey,
    /// End our stream to the server (TCP FIN); go on reading.
    ShutdownBack,
    /// End our stream to the client (TCP FIN); go on reading.
    ShutdownFront,
    /// When the server's connection is closed, close it by a reset.
    ResetBack,
    CloseBack,
    /// When the client's connection is closed, close it by a reset.
    ResetFront,
    /// Close what is still open.
    Close,
}

const ORDER: [Action; 17] = [
    Action::Admit,
    Action::Route,
    Action::FetchSession,
    Action::Dial,
    Action::Redial,
    Action::NoteBackReady,
    Action::DialNext,
    Action::Acknowledge,
    Action::NoteSession,
    Action::Offload,
    Action::Rekey,
    Action::ShutdownBack,
    Action::ShutdownFront,
    Action::ResetBack,
    Action::CloseBack,
    Action::ResetFront,
    Action::Close,
];

/// The actions that are due, and those that were done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Actions {
    due: u32,
    done: u32,
}

impl Actions {
    pub(crate) fn add(&mut self, action: Action) {
        self.due |= 1 << action as u8;
    }

    /// Adds what is done at most once in a connection's life.
    pub(crate) fn add_once(&mut self, action: Action) {
        if self.done & (1 << action as u8) == 0 {
            self.add(action);
        }
    }

    /// Allows an action that was done once to be done again: if it is due, that is for the server
    /// before.
    pub(crate) fn allow_again(&mut self, action: Action) {
        self.done &= !(1 << action as u8);
        self.due &= !(1 << action as u8);
    }

    pub(crate) fn is_empty(self) -> bool {
        self.due == 0
    }

    pub(crate) fn take(&mut self) -> Option<Action> {
        let action = ORDER.into_iter().find(|action| self.due & (1 << *action as u8) != 0)?;
        self.due &= !(1 << action as u8);
        self.done |= 1 << action as u8;
        Some(action)
    }

    /// Takes this one, if it is due.
    pub(crate) fn take_one(&mut self, action: Action) -> bool {
        let is_due = self.due & (1 << action as u8) != 0;
        self.due &= !(1 << action as u8);
        is_due
    }

    /// A connection that has nothing more to send needs no server, and one whose server has
    /// answered in the moment when it was to be given up needs no other.
    pub(crate) fn cancel_dials(&mut self) {
        for dial in [Action::Dial, Action::Redial, Action::DialNext] {
            self.due &= !(1 << dial as u8);
        }
    }
}
