//! A worker's pipes: the kernel's buffers for bytes that go from a server to a client unseen.
//!
//! A connection holds one only while bytes are in it or more are coming, as with other buffers.

use sys::transfer::Pipe;

use crate::descriptors::Descriptors;

/// What a pipe holds: as much as the large buffer (`flow::buffer`), for the same reason. What is
/// spliced is sealed by this CPU at once, and more would not fit its second-level cache.
const PIPE_BYTES: usize = 256 << 10;

/// Pipes that one worker has at once: 128 descriptors. Beyond that bytes go through buffers, which
/// costs a copy and no more.
const PIPES_MAX: usize = 64;

/// Pipes kept for the next one who asks.
const PIPES_KEPT_MAX: usize = 16;

/// The pipes.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    spare: Vec<Pipe>,
    in_use: usize,
    descriptors: Descriptors,
}

impl Pipes {
    /// An empty pipe; `None` = there are too many, or few descriptors are left.
    pub(crate) fn take(&mut self) -> Option<Pipe> {
        let pipe = match self.spare.pop() {
            Some(pipe) => pipe,
            None if self.in_use < PIPES_MAX => {
                let made = Pipe::new(PIPE_BYTES).ok();
                made.filter(|pipe| self.descriptors.suffice_for_pipe(pipe))?
            }
            None => return None,
        };
        self.in_use += 1;
        Some(pipe)
    }

    /// Takes a pipe back; one that is not empty is closed.
    pub(crate) fn give(&mut self, pipe: Pipe, is_empty: bool) {
        self.in_use -= 1;
        if is_empty && self.spare.len() < PIPES_KEPT_MAX {
            self.spare.push(pipe);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_than_may_be_and_some_are_kept() {
        let mut pipes = Pipes::default();
        let taken: Vec<_> = (0..PIPES_MAX).map(|_| pipes.take().unwrap()).collect();
        assert!(pipes.take().is_none());
        for (index, pipe) in taken.into_iter().enumerate() {
            // What is left in a pipe is one connection's, and no other's.
            pipes.give(pipe, index % 2 == 0);
        }
        assert_eq!((pipes.in_use, pipes.spare.len()), (0, PIPES_KEPT_MAX));
        assert!(pipes.take().is_some());
        assert_eq!((pipes.in_use, pipes.spare.len()), (1, PIPES_KEPT_MAX - 1));
    }
}
