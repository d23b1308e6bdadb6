//! The back of a connection: a server's socket, or files.
//!
//! Unites what both have in common: requests go to both in the same way.

use std::io::{self, IoSliceMut};
use std::time::Instant;

use flow::events::ReceiveResult;

use crate::driver::{Driver, PIECES_MAX, Socket};
use crate::files::FileBack;

pub(crate) enum Back {
    /// A server that is connected, or being connected.
    Server(Socket),
    Files(Box<FileBack>),
}

impl Back {
    pub(crate) fn note(&mut self, event: &sys::epoll::Event) {
        if let Self::Server(socket) = self {
            socket.note(event);
        }
    }

    /// Reports whether the back may take bytes. Files take what they can at once, and no event
    /// announces that they take more: they do as soon as more of their responses has gone out.
    pub(crate) fn is_writable(&self) -> bool {
        match self {
            Self::Server(socket) => socket.is_writable(),
            Self::Files(_) => true,
        }
    }

    /// Reports whether a range of a file goes out next, by the kernel and at once. If the range is
    /// not in memory, a thread begins to read it.
    pub(crate) fn has_cached_range(&mut self) -> bool {
        match self {
            Self::Server(_) => false,
            Self::Files(files) => files.cached_bytes() > 0,
        }
    }

    /// Sends two pieces, in order; returns how much was taken. `None` = no more is taken.
    pub(crate) fn send(&mut self, pieces: [&[u8]; 2]) -> Option<usize> {
        match self {
            Self::Server(socket) => match pieces {
                [piece, []] | [[], piece] => socket.send(piece),
                pieces => socket.send_pieces(pieces),
            },
            Self::Files(files) => Some(files.take(pieces)),
        }
    }

    /// Passes on the end of the client's stream.
    pub(crate) fn end(&mut self) {
        match self {
            Self::Server(socket) => socket.end(),
            Self::Files(files) => files.end_requests(),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Server(_) => None,
            Self::Files(files) => files.deadline(),
        }
    }

    /// Handles that the deadline may have passed.
    pub(crate) fn time_out(&mut self, now: Instant) {
        if let Self::Files(files) = self {
            files.time_out(now);
        }
    }

    /// Makes the close send a reset.
    pub(crate) fn reset_on_close(&self) {
        if let Self::Server(socket) = self {
            socket.reset_on_close();
        }
    }

    /// Reports whether the kernel has reported an error; `take_error` returns it.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self, Self::Server(socket) if socket.has_failed())
    }

    /// Returns the error that the kernel has reported.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        match self {
            Self::Server(socket) => socket.take_error(),
            Self::Files(_) => None,
        }
    }

    /// Notes that nothing can be sent any more.
    pub(crate) fn break_off(&mut self) {
        if let Self::Server(socket) = self {
            socket.break_off();
        }
    }

    /// Asks for an event when the server takes bytes again, if it takes none now.
    pub(crate) fn watch_writes(&mut self, driver: &Driver) {
        if let Self::Server(socket) = self
            && !socket.is_writable()
        {
            driver.watch_writes(socket);
        }
    }
}

/// Fills as many pieces as possible with one call.
pub(crate) fn receive_pieces<'a>(
    socket: &mut Socket,
    pieces: &mut impl Iterator<Item = &'a mut [u8]>,
) -> ReceiveResult {
    let first = pieces.next().unwrap_or_default();
    let Some(second) = pieces.next() else {
        return socket.receive(first);
    };
    let mut count = 0;
    let mut all = [first, second].into_iter().chain(pieces);
    let mut slices: [IoSliceMut<'a>; PIECES_MAX] = std::array::from_fn(|_| {
        let piece = all.next();
        count += usize::from(piece.is_some());
        IoSliceMut::new(piece.unwrap_or_default())
    });
    socket.receive_pieces(&mut slices[..count])
}
