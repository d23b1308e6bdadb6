//! Defines the questions of a conversation about the file system, the answers, and its output.
//! Holds no logic: this is the interface to the code that opens the files.

use std::time::SystemTime;

/// A question that must be answered before the conversation continues. Paths are bytes (no NUL
/// among them), relative to the root, decoded, without `.` and `..` (the root itself is `.`), and
/// at most [`crate::TARGET_BYTES_MAX`] bytes and a name of [`crate::options::Options::index`] long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Question<'a> {
    /// Open the file or folder at a path. A file stays open, in place of the one opened before.
    Open(&'a [u8]),
    /// Open the file at a path; it then stays open, in place of the one before. If it is no file or
    /// cannot be opened, the one before stays open.
    Replace(&'a [u8]),
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FileLookup {
    File {
        bytes: u64,
        /// Time of the last change, as exact as the file system keeps it.
        modified: SystemTime,
        /// Number that another file with the same path, length and time does not have, such as that
        /// of the inode.
        identity: u64,
    },
    Folder,
    /// No file, or one that is never served: a device, a link out of the root.
    Missing,
    /// The file system does not let us read the file.
    Forbidden,
    /// No descriptor or memory is left for the file.
    Busy,
    Failed,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Output<'a> {
    /// No output: the client has requested nothing, or a question must be answered first.
    Nothing,
    /// These bytes; never empty.
    Bytes(&'a [u8]),
    /// A range of the open file.
    File { offset: u64, bytes: u64 },
    /// All output was sent: the stream must be ended properly.
    End,
    /// A response cannot be finished: the stream must be cut, and must not look finished.
    Cut,
}
