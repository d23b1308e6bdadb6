//! Whether connections end because no file descriptor is left: one message for many of them.

use std::time::{Duration, Instant};

use sys::limit;

/// From one message to the next: the limit is raised by a restart, and each of a thousand clients a
/// second would be a line.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Counts connections that ended for it, and when that was said.
#[derive(Debug, Default)]
pub(super) struct DescriptorWatch {
    counted: u64,
    said: Option<Instant>,
}

impl DescriptorWatch {
    /// A message, if more connections than at the last one have ended for it and the last one was
    /// long ago. `ended` is the number of all that did.
    pub(super) fn look(&mut self, ended: u64, now: Instant) -> Option<String> {
        let more = ended.saturating_sub(self.counted);
        let since = |said| now.saturating_duration_since(said);
        if more == 0 || self.said.is_some_and(|said| since(said) < MESSAGE_INTERVAL) {
            return None;
        }
        *self = Self { counted: ended, said: Some(now) };
        Some(format!(
            "no file descriptor is left: {more} connections were refused or lost for it \
             (descriptor-limit), and the process may have {}\nhint: raise that (`LimitNOFILE=` of \
             systemd, `ulimit -Hn`; fs.file-max of the host), or lower `limits.connections`",
            limit::open_files()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_refusals_are_one_message_until_a_while_later() {
        let (mut watch, now) = (DescriptorWatch::default(), Instant::now());
        assert_eq!(watch.look(0, now), None);
        let first = watch.look(3, now).unwrap();
        assert!(first.contains(": 3 connections") && first.contains("\nhint: raise"), "{first}");
        assert_eq!(watch.look(9, now + MESSAGE_INTERVAL / 2), None);
        let later = watch.look(9, now + MESSAGE_INTERVAL).unwrap();
        assert!(later.contains(": 6 connections"), "{later}");
        assert_eq!(watch.look(9, now + MESSAGE_INTERVAL * 3), None);
    }
}
