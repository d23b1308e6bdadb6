//! How an address is visited: what is offered, what is sent, and how long is waited.

use std::cell::Cell;
use std::fmt::Display;
use std::time::Duration;

use load::observe::{Client, Conversation, Observed};
use measure::probe::{End, Trouble, TroubleKind};

use crate::certificate::Expected;
use crate::offers::Common;
use crate::reach::{Reach, trouble};

/// How an address is visited.
pub(crate) struct Visit<'v> {
    pub(crate) reach: &'v Reach,
    pub(crate) common: Common,
    pub(crate) expected: Expected,
    /// How often a session is offered.
    pub(crate) attempts: u32,
    /// Sent where a reply is wanted; empty = none is.
    pub(crate) request: Vec<u8>,
    /// How long the server's end is waited for. Of a server that did not end, shorter.
    pub(crate) linger: Cell<Duration>,
}

/// The server's end is waited for this often the time of a handshake, and this long at least, where
/// it has not come before: tickets take one round trip.
const LINGER_HANDSHAKES: u32 = 3;
const LINGER_MIN: Duration = Duration::from_millis(50);

pub(crate) fn malformed(text: &impl Display) -> Trouble {
    trouble(TroubleKind::Malformed, text.to_string())
}

impl Visit<'_> {
    /// A connection without a request, to its end.
    pub(crate) fn converse(&self, reach: &Reach, client: &Client) -> Result<Observed, Trouble> {
        let conversation = Conversation {
            linger: self.linger.get(),
            ..Conversation::default()
        };
        let seen = self.converse_so(reach, client, conversation)?;
        if seen.end == End::Open {
            let enough = (seen.handshake * LINGER_HANDSHAKES).max(LINGER_MIN);
            self.linger.set(enough.min(self.linger.get()));
        }
        Ok(seen)
    }

    /// One in which this is said.
    pub(crate) fn converse_so(
        &self,
        reach: &Reach,
        client: &Client,
        conversation: Conversation<'_>,
    ) -> Result<Observed, Trouble> {
        let mut wire = reach.open()?;
        let seen = client.converse(&mut wire, conversation);
        seen.map_err(|fault| reach.failed(&fault))
    }
}
