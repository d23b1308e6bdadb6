//! The state of a connection whose hello came encrypted (ECH, RFC 9849) and was opened: whether its
//! server asks for a second hello, and the opening of that.

use tls::ech::{EchContext, EchFault};
use wire::client_hello::{HelloFault, Peek, Reader};
use wire::ech::{RecordGate, RetryWatch};

/// A connection whose hello was opened, until its server has taken a hello.
pub(crate) struct HiddenHello {
    context: EchContext,
    pub(crate) watch: RetryWatch,
    pub(crate) gate: RecordGate,
    /// The server asks for a second hello, which is read by this.
    pub(crate) second: Option<Reader>,
}

/// The second hello, as far as it has come.
pub(crate) enum SecondHello {
    NotWhole,
    /// The inner hello, and how many bytes it takes the place of.
    Opened(Vec<u8>, usize),
    Refused(EchFault),
}

impl HiddenHello {
    pub(crate) fn new(context: EchContext) -> Self {
        Self { context, watch: RetryWatch::default(), gate: RecordGate::default(), second: None }
    }

    /// Reads the second hello at the front of these bytes, if one is due.
    pub(crate) fn read_second(&mut self, bytes: &[u8]) -> SecondHello {
        let Some(reader) = self.second.as_mut().filter(|_| !bytes.is_empty()) else {
            return SecondHello::NotWhole;
        };
        match reader.read(bytes) {
            Ok(Peek::Incomplete) => SecondHello::NotWhole,
            Ok(Peek::Hello(hello)) => match self.context.open_second(&hello) {
                Ok(inner) => SecondHello::Opened(inner, hello.wire_bytes()),
                Err(fault) => SecondHello::Refused(fault),
            },
            Err(fault) => SecondHello::Refused(unreadable(&fault)),
        }
    }
}

fn unreadable(fault: &HelloFault) -> EchFault {
    let alert = fault.alert().unwrap_or(wire::alert::DECODE_ERROR);
    EchFault { alert, detail: format!("second hello: {fault}") }
}
