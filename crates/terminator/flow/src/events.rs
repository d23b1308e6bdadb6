//! What happens to a connection, and what each stage makes of it.
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
    /// Answers [`Action::Admit`](crate::actions::Action::Admit): the client may come in.
    /// [`Self::Stopped`] says that it may not.
    Admitted,
    /// Answers [`Action::Route`](crate::actions::Action::Route): the settings of the service that
    /// the hello asks for; `None` = no service has the name. [`Self::Stopped`] says that the client
    /// may not use it.
    Routed(Option<Rc<Settings>>),
    /// Answers [`Action::FetchSession`](crate::actions::Action::FetchSession): where the session
    /// was found, which is in the cache now.
    SessionFetched(SessionTier),
    /// Answers [`Action::Offload`](crate::actions::Action::Offload) and
    /// [`Action::Rekey`](crate::actions::Action::Rekey): whether the kernel took the keys.
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
    /// received; [`Action::Offload`](crate::actions::Action::Offload) may follow.
    BackExpected(u64),
    /// The back's bytes were received into [`Flow::back_room`](crate::connection::Flow::back_room),
    /// or its stream has ended.
    BackReceived(Received),
    /// Why the back is about to end its stream, if not by its own decision.
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
