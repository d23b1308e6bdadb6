//! What a connection asks of the owner of its sockets.

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
    /// ([`PassingSession::agreed`](crate::facts::PassingSession::agreed)).
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

/// What is to be done, and what was.
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

    /// What was done once may be done once more, later: what is due is for the server before.
    pub(crate) fn allow_again(&mut self, action: Action) {
        self.done &= !(1 << action as u8);
        self.due &= !(1 << action as u8);
    }

    pub(crate) fn is_empty(self) -> bool {
        self.due == 0
    }

    pub(crate) fn take(&mut self) -> Option<Action> {
        let action = ORDER
            .into_iter()
            .find(|action| self.due & (1 << *action as u8) != 0)?;
        self.due &= !(1 << action as u8);
        self.done |= 1 << action as u8;
        Some(action)
    }

    /// A connection that has nothing more to send needs no server, and one whose server has
    /// answered in the moment when it was to be given up needs no other.
    pub(crate) fn cancel_dials(&mut self) {
        for dial in [Action::Dial, Action::Redial, Action::DialNext] {
            self.due &= !(1 << dial as u8);
        }
    }
}
