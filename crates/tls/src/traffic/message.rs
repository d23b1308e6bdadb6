//! What records come to, in the words of every record layer.

use rustls::AlertDescription;

use crate::record::RecordFault;

pub(crate) const ALERT_CLOSE_NOTIFY: u8 = 0;
pub(crate) const ALERT_UNEXPECTED_MESSAGE: u8 = 10;
pub(crate) const ALERT_DECODE_ERROR: u8 = 50;
pub(crate) const ALERT_USER_CANCELED: u8 = 90;
pub(crate) const ALERT_NO_RENEGOTIATION: u8 = 100;

/// What a record meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Incoming {
    /// So many bytes of application data stand at the start of the plaintext.
    Data(usize),
    /// Nothing for the application; a reply may be due.
    Control,
    /// The peer ended its stream.
    CloseNotify,
    /// The peer gave up, with this alert.
    FatalAlert(u8),
}

/// Why an established connection cannot go on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TrafficFault {
    /// The peer sent a record that cannot be opened.
    Record(RecordFault),
    /// The peer sent a message that has no place here; the alert to answer with.
    Message(u8),
}

impl TrafficFault {
    /// The alert to answer with.
    pub fn alert(self) -> u8 {
        match self {
            Self::Record(fault) => fault.alert(),
            Self::Message(alert) => alert,
        }
    }
}

/// An alert's name, as the library spells it: `HandshakeFailure`.
pub fn alert_name(description: u8) -> String {
    format!("{:?}", AlertDescription::from(description))
}
