//! Early data that is refused: which records are it, so that the library need not be shown them.
//!
//! A client sends early data before it knows whether it is taken. If not, the server has to skip
//! what it cannot open, up to the first record of the handshake (RFC 8446 section 4.2.10). The
//! library's unbuffered interface tries each such record again whenever it is asked, until it gives
//! up. So we try ourselves, with the key of the client's handshake messages, of which the library
//! tells through its log of keys; the first record that opens is the library's again.

use zeroize::Zeroizing;

use crate::context::Secrets;
use crate::options::Suite;
use crate::record::{ContentType, Opener, RecordFault};
use crate::secrets::{Secret, opener_of};

/// What is skipped at most, in bytes with the records' overhead: four times the most that any
/// service takes. A client may have been told of more by another configuration.
const SKIPPED_BYTES_MAX: usize = 1 << 20;

/// Tells refused early data from the handshake.
pub(crate) struct Skipper {
    /// Of the client's handshake messages, once it is known.
    handshake: Option<Opener>,
    /// Of its early data, if a session is resumed.
    early: Option<Opener>,
    /// Whether it is known that early data is refused.
    pub(crate) is_refused: bool,
    left: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RecordClass {
    Handshake,
    Early,
    /// Among it, EndOfEarlyData or a part of it, or an alert.
    EarlyMessage,
    /// More early data than anybody may send.
    TooMuch,
}

impl Skipper {
    pub(crate) fn new() -> Self {
        Self {
            handshake: None,
            early: None,
            is_refused: false,
            left: SKIPPED_BYTES_MAX,
        }
    }

    /// Takes up the secrets, if this step has logged them.
    pub(crate) fn learn(&mut self, suite: Option<Suite>, secrets: &Secrets) {
        let key = |secret: &Option<Secret>| opener_of(suite?, secret.as_ref()?);
        self.handshake = self.handshake.take().or_else(|| key(&secrets.handshake));
        self.early = self.early.take().or_else(|| key(&secrets.early));
    }

    /// Judges a record of hidden type. Before there are keys, after a HelloRetryRequest, all such
    /// are early data.
    pub(crate) fn judge(&mut self, record: &[u8]) -> RecordClass {
        if opened_first(self.handshake.as_ref(), record).is_some() {
            return RecordClass::Handshake;
        }
        match self.left.checked_sub(record.len()) {
            None => RecordClass::TooMuch,
            Some(left) => {
                self.left = left;
                self.class_of_early(record)
            }
        }
    }

    /// The first record of early data opens, and shows whether it is some.
    fn class_of_early(&self, record: &[u8]) -> RecordClass {
        match opened_first(self.early.as_ref(), record) {
            None | Some(Ok((ContentType::ApplicationData, _))) => RecordClass::Early,
            Some(_) => RecordClass::EarlyMessage,
        }
    }
}

/// What the first record under this key is; `None` = it is not that.
fn opened_first(
    key: Option<&Opener>,
    record: &[u8],
) -> Option<Result<(ContentType, usize), RecordFault>> {
    let mut plain = Zeroizing::new(vec![0; record.len()]);
    let opened = key?.open_at(0, record, &mut plain);
    (!matches!(opened, Err(RecordFault::BadMac | RecordFault::Underflow))).then_some(opened)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::secrets::first_record;

    #[test]
    fn what_opens_is_the_handshakes_and_the_rest_is_bounded() {
        let suite = Suite::Tls13Aes128GcmSha256;
        let record = first_record(suite, &[7; 32], b"x");

        let mut skipper = Skipper::new();
        assert_eq!(skipper.judge(&record), RecordClass::Early);
        let secrets = Secrets {
            handshake: Some(vec![7; 32].into()),
            ..Secrets::default()
        };
        skipper.learn(Some(suite), &secrets);
        assert_eq!(skipper.judge(&record), RecordClass::Handshake);
        let early = vec![23; 16_000];
        let skipped = (0..).take_while(|_| skipper.judge(&early) == RecordClass::Early);
        assert_eq!(skipped.count(), SKIPPED_BYTES_MAX / 16_000);
        assert_eq!(skipper.judge(&early), RecordClass::TooMuch);
        assert_eq!(skipper.judge(&record), RecordClass::Handshake);
    }
}
