//! What stands behind a connection: a server's socket, or files.
//!
//! Owns the likeness of the two, so that the link moves bytes and asks not where they come from.

use std::io::{self, IoSliceMut};
use std::time::Instant;

use telemetry::outcome::Reason;

use crate::driver::{Driver, PIECES_MAX, Received, Socket};
use crate::files::FileBack;

/// A connection's back.
pub(crate) enum Back {
    /// A server that is connected, or being connected.
    Server(Socket),
    /// Files beneath a folder.
    Files(Box<FileBack>),
}

impl Back {
    /// Takes note of an event.
    pub(crate) fn note(&mut self, event: &sys::epoll::Event) {
        if let Self::Server(socket) = self {
            socket.note(event);
        }
    }

    pub(crate) fn is_readable(&self) -> bool {
        match self {
            Self::Server(socket) => socket.is_readable(),
            Self::Files(files) => files.is_readable(),
        }
    }

    /// Files take what they can at once, and no event tells when they take more: they do as soon as
    /// more of their responses has gone out.
    pub(crate) fn is_writable(&self) -> bool {
        match self {
            Self::Server(socket) => socket.is_writable(),
            Self::Files(_) => true,
        }
    }

    /// Fills as many pieces as there are, in order, but not with a stretch of a file of at least
    /// `passing_from` bytes.
    pub(crate) fn receive<'a>(
        &mut self,
        pieces: &mut impl Iterator<Item = &'a mut [u8]>,
        passing_from: Option<u64>,
    ) -> Received {
        match self {
            Self::Server(socket) => receive_pieces(socket, pieces),
            Self::Files(files) => files.receive(pieces, passing_from),
        }
    }

    /// Whether a stretch of a file goes out next, by the kernel and at once. If it is not in
    /// memory, a thread begins to read it.
    pub(crate) fn has_cached_stretch(&mut self) -> bool {
        match self {
            Self::Server(_) => false,
            Self::Files(files) => files.cached_bytes() > 0,
        }
    }

    /// Gives it two pieces, in order; says how much it took. `None` = it takes no more.
    pub(crate) fn send(&mut self, pieces: [&[u8]; 2]) -> Option<usize> {
        match self {
            Self::Server(socket) => match pieces {
                [piece, []] | [[], piece] => socket.send(piece),
                pieces => socket.send_pieces(pieces),
            },
            Self::Files(files) => Some(files.take(pieces)),
        }
    }

    /// Tells it that the client's stream has ended.
    pub(crate) fn end(&mut self) {
        match self {
            Self::Server(socket) => socket.end(),
            Self::Files(files) => files.end_requests(),
        }
    }

    /// After its own end it hears nothing, and the client has not ended either.
    pub(crate) fn is_deaf_at_end(&self) -> bool {
        matches!(self, Self::Files(files) if !files.is_asked())
    }

    /// When [`Self::time_out`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Server(_) => None,
            Self::Files(files) => files.deadline(),
        }
    }

    /// Takes note that the deadline has passed.
    pub(crate) fn time_out(&mut self, now: Instant) {
        if let Self::Files(files) = self {
            files.time_out(now);
        }
    }

    /// Why its stream ends, if that is the client's doing.
    pub(crate) fn fault(&self) -> Option<Reason> {
        match self {
            Self::Server(_) => None,
            Self::Files(files) => files.fault(),
        }
    }

    /// What it took beside the bytes that came, in bytes.
    pub(crate) fn take_cost(&mut self) -> usize {
        match self {
            Self::Server(_) => 0,
            Self::Files(files) => files.take_cost(),
        }
    }

    /// Makes the close a reset.
    pub(crate) fn reset_on_close(&self) {
        if let Self::Server(socket) = self {
            socket.reset_on_close();
        }
    }

    /// Whether the kernel has reported an error; `take_error` tells which.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self, Self::Server(socket) if socket.has_failed())
    }

    /// The error that the kernel has reported.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        match self {
            Self::Server(socket) => socket.take_error(),
            Self::Files(_) => None,
        }
    }

    /// Takes note that nothing can be sent any more.
    pub(crate) fn break_off(&mut self) {
        if let Self::Server(socket) = self {
            socket.break_off();
        }
    }

    /// Asks to be told when it takes bytes again, if it takes none now.
    pub(crate) fn watch_writes(&mut self, driver: &Driver) {
        if let Self::Server(socket) = self
            && !socket.is_writable()
        {
            driver.watch_writes(socket);
        }
    }
}

/// Fills as many pieces as there are with one call.
fn receive_pieces<'a>(
    socket: &mut Socket,
    pieces: &mut impl Iterator<Item = &'a mut [u8]>,
) -> Received {
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
