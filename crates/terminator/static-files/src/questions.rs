//! The questions of a conversation about the file system, the answers, and its output. Owns no
//! logic: it is the seam to the code that opens the files.

use std::time::SystemTime;

/// A question that must be answered before the conversation goes on. Paths are bytes (no NUL among
/// them), relative to the root, decoded, without `.` and `..` (the root itself is `.`), and at most
/// [`crate::TARGET_BYTES_MAX`] bytes and a name of [`crate::options::Options::index`] long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Question<'a> {
    /// Asks for the thing at a path. A file stays open, in place of what was open before.
    Open(&'a [u8]),
    /// Is this a file? Then it stays open, in place of the one before. If it is not, whatever the
    /// reason, the one before stays open.
    Replace(&'a [u8]),
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Found {
    File {
        bytes: u64,
        /// When it was last modified, as exact as the file system tells.
        modified: SystemTime,
        /// A number that another file with the same path, length and time does not have, such as
        /// that of the inode.
        identity: u64,
    },
    Folder,
    /// No file, or one that is never served: a device, a link out of the root.
    Missing,
    /// The file system does not let us read it.
    Forbidden,
    /// There is no descriptor or memory left for it.
    Busy,
    /// The file system has failed.
    Failed,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Output<'a> {
    /// No output: the client has asked nothing, or a question waits.
    Nothing,
    /// These bytes; never empty.
    Bytes(&'a [u8]),
    /// A range of the file that is open.
    File { offset: u64, bytes: u64 },
    /// All has been said: the stream ends properly.
    End,
    /// A response cannot be finished: the stream is cut, and must not look finished.
    Cut,
}
