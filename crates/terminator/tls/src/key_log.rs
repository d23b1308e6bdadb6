//! Queues the secrets of connections in the form of `SSLKEYLOGFILE`, for debugging with a capture.
//!
//! One queue for the process, because there is one file. A handshake adds its lines and never
//! waits: lines beyond the limit are dropped and counted. The caller writes them.

use std::fmt::Write;
use std::sync::{Condvar, Mutex, PoisonError};

/// Maximum size of the queue in bytes: the secrets of a thousand handshakes.
const LINES_BYTES_MAX: usize = 1 << 20;

/// Lines for the file, and how many were dropped since the last call.
#[derive(Debug, Default)]
pub struct KeyLines {
    /// Whole lines, each with its line feed.
    pub text: String,
    pub dropped: u64,
}

/// Numbers of lines since the process began.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct KeyLineCounts {
    pub logged: u64,
    pub dropped: u64,
}

#[derive(Debug)]
struct PendingKeyLines {
    lines: KeyLines,
    counts: KeyLineCounts,
}

static WAITING: Mutex<PendingKeyLines> = Mutex::new(PendingKeyLines {
    lines: KeyLines { text: String::new(), dropped: 0 },
    counts: KeyLineCounts { logged: 0, dropped: 0 },
});

static CHANGED: Condvar = Condvar::new();

/// Queues a line: a label, the client's random and the secret (RFC 9850 section 2).
pub(crate) fn add(label: &str, client_random: &[u8], secret: &[u8]) {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = label.len() + 2 * (client_random.len() + secret.len()) + 3;
    if waiting.lines.text.len() + bytes > LINES_BYTES_MAX {
        waiting.lines.dropped += 1;
        waiting.counts.dropped += 1;
    } else {
        waiting.counts.logged += 1;
        let text = &mut waiting.lines.text;
        text.push_str(label);
        for part in [client_random, secret] {
            text.push(' ');
            for byte in part {
                write!(text, "{byte:02x}").expect("a string takes everything");
            }
        }
        text.push('\n');
    }
    drop(waiting);
    CHANGED.notify_one();
}

/// Takes the queued lines; waits for some if there are none.
pub fn take() -> KeyLines {
    let waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    let is_empty =
        |waiting: &mut PendingKeyLines| waiting.lines.text.is_empty() && waiting.lines.dropped == 0;
    let waiting = CHANGED.wait_while(waiting, is_empty);
    std::mem::take(&mut waiting.unwrap_or_else(PoisonError::into_inner).lines)
}

/// Takes the queued lines, if there are any.
pub fn take_rest() -> KeyLines {
    std::mem::take(&mut WAITING.lock().unwrap_or_else(PoisonError::into_inner).lines)
}

pub fn counts() -> KeyLineCounts {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner).counts
}

/// Reports whether a line has the form: a label, 32 bytes and a secret. A line from another process
/// is written only if so.
pub fn is_key_line(line: &str) -> bool {
    let is_hex = |text: &str| {
        text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let is_label = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    match line.split(' ').collect::<Vec<_>>()[..] {
        [label, random, secret] => {
            !label.is_empty()
                && label.bytes().all(is_label)
                && random.len() == 64
                && !secret.is_empty()
                && is_hex(random)
                && is_hex(secret)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_dropped_and_counted() {
        add("CLIENT_RANDOM", &[0xab; 32], &[1, 2]);
        let first = take();
        let line = format!("CLIENT_RANDOM {} 0102\n", "ab".repeat(32));
        assert_eq!((&*first.text, first.dropped), (&*line, 0));
        assert!(is_key_line(line.trim_end()));
        let fits = LINES_BYTES_MAX / line.len();
        (0..fits + 3).for_each(|_| add("CLIENT_RANDOM", &[0xab; 32], &[1, 2]));
        let full = take();
        assert_eq!((full.text.len(), full.dropped), (fits * line.len(), 3));
        let counted = KeyLineCounts { logged: fits as u64 + 1, dropped: 3 };
        assert_eq!((take_rest().text.len(), counts()), (0, counted));
        for other in ["", "A", "A  ", "A B C", "a 00 00", "* * * * * root x"] {
            assert!(!is_key_line(other), "{other}");
        }
    }
}
