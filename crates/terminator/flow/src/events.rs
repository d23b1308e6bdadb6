//! Events of a connection, the reaction of each stage to them, and the actions that its owner
//! performs on the sockets.
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
//! An empty cell means no effect; every event is ignored once the connection is over. The
//! handshake's end leads to dialling, a fault of the client's bytes to closing, and the end of both
//! directions to over. With early data, dialling and relaying begin before the handshake is over:
//! then the end or failure of the back is passed on after the handshake. Without TLS of ours on the
//! client's side there is no alert and no close_notify: an incomplete stream ends by a reset.

use std::rc::Rc;

use telemetry::outcome::{Reason, SessionTier};

use crate::facts::ConnectionEnd;
use crate::options::Settings;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReceiveResult {
    /// Number of bytes received.
    Bytes(usize),
    /// Number of bytes received, which are the last.
    Last(usize),
    End,
    /// No bytes have come since the last call; an event reports the next ones.
    Nothing,
    Failed,
}

impl ReceiveResult {
    /// Reports whether the stream is complete.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Last(_) | Self::End)
    }

    /// Returns the number of bytes.
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
    FrontReceived(ReceiveResult),
    /// Bytes of [`Flow::front_pending`](crate::connection::Flow::front_pending) that were sent.
    FrontSent(usize),
    /// Number of bytes that went from the back to the client past our buffers.
    FrontPassed(usize),
    FrontRecordSent,
    /// The client's connection is broken.
    FrontFailed,
    /// Answers [`Action::Admit`]: the client is admitted. [`Self::Stopped`] means that it is not.
    Admitted,
    /// Answers [`Action::Route`]: the settings of the service that the hello asks for; `None` = no
    /// service has the name. [`Self::Stopped`] means that the client may not use it.
    Routed(Option<Rc<Settings>>),
    /// Answers [`Action::FetchSession`]: where the session was found, which is in the cache now.
    SessionFetched(SessionTier),
    /// Answers [`Action::Offload`] and [`Action::Rekey`]: whether the kernel took the keys.
    KernelAnswered(bool),
    /// The next server is being dialled.
    DialStarted,
    /// The server that is being dialled.
    ServerChosen {
        server: usize,
        /// Whether it is on a Unix socket.
        is_local: bool,
    },
    /// A server is connected, or files are open.
    BackConnected,
    /// No server can serve the connection: none could be connected, for the last one's reason, or
    /// the PROXY header that it expects cannot be made.
    DialFailed(ConnectionEnd),
    /// The back begins to send this number of bytes in one go, before the first of them is
    /// received; [`Action::Offload`] may follow.
    BackExpected(u64),
    /// The back's bytes were received into [`Flow::back_room`](crate::connection::Flow::back_room),
    /// or its stream has ended.
    BackReceived(ReceiveResult),
    /// Reason why the back is about to end its stream, if not by its own decision.
    BackEndReason(Reason),
    /// Bytes of [`Flow::back_pending`](crate::connection::Flow::back_pending) that were sent.
    BackSent(usize),
    /// The back takes no more bytes. Its own bytes are still received: a server that refuses an
    /// upload answers first and resets then.
    BackRefused,
    Timeout,
    /// The host ends the connection: a drain deadline, a limit.
    Stopped(Reason),
}

/// An action for the owner of the sockets. The actions must be performed in this order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Action {
    /// Decide at once whether the client that a PROXY header names is admitted.
    Admit,
    /// Choose at once the service that the client's hello asks for.
    Route,
    /// Look for the client's session beyond this host
    /// ([`wanted_session`](crate::connection::Flow::wanted_session)).
    FetchSession,
    /// Choose a server and connect to it.
    Dial,
    /// Give up the server being dialled, which took too long or whose TLS failed
    /// ([`take_back_fault`](crate::connection::Flow::take_back_fault)), and choose another.
    Redial,
    /// Close the server's connection and dial the next of all servers.
    DialNext,
    /// Note that the server's TLS handshake is over.
    NoteBackReady,
    /// Make the kernel acknowledge at once what has come from the client.
    Acknowledge,
    /// Remember which server has the client's session
    /// ([`PassingSession::agreed`](crate::facts::PassingSession::agreed)), before the client gets
    /// the bytes that came with it, because it may come back at once.
    NoteSession,
    /// Hand the encryption towards the client to the kernel, or report its refusal; at once.
    Offload,
    /// Give the kernel the key that follows a KeyUpdate, or report its refusal; at once.
    Rekey,
    /// End our stream to the server (TCP FIN); go on reading.
    ShutdownBack,
    /// End our stream to the client (TCP FIN); go on reading.
    ShutdownFront,
    /// Close the server's connection by a reset, when it is closed.
    ResetBack,
    CloseBack,
    /// Close the client's connection by a reset, when it is closed.
    ResetFront,
    /// Close the connections that are still open.
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

/// Bits of the actions that are due, and of those that were done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Actions {
    due: u32,
    done: u32,
}

impl Actions {
    pub(crate) fn add(&mut self, action: Action) {
        self.due |= 1 << action as u8;
    }

    /// Adds an action that is done at most once in a connection's life.
    pub(crate) fn add_once(&mut self, action: Action) {
        if self.done & (1 << action as u8) == 0 {
            self.add(action);
        }
    }

    /// Allows an action to be done once more; if it is due, that was for the previous server.
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

    /// Takes this action, if it is due.
    pub(crate) fn take_one(&mut self, action: Action) -> bool {
        let is_due = self.due & (1 << action as u8) != 0;
        self.due &= !(1 << action as u8);
        is_due
    }

    /// Cancels dials: a connection that has nothing more to send needs no server, and a server that
    /// has answered just before being given up needs no replacement.
    pub(crate) fn cancel_dials(&mut self) {
        for dial in [Action::Dial, Action::Redial, Action::DialNext] {
            self.due &= !(1 << dial as u8);
        }
    }
}
