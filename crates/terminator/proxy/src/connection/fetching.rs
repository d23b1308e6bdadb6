//! Looking for a client's session beyond this host; the control side answers by a message.

use flow::events::Event;
use flow::options::Front;
use telemetry::outcome::SessionTier;

use super::{Connection, Context};
use crate::commands::Command;

impl Connection {
    /// Asks for the session that the client offers.
    pub(super) fn fetch_session(&mut self, context: &mut Context<'_>) {
        let (Some(key), Front::Terminate(server)) =
            (self.flow.wanted_session(), &self.service.settings.front)
        else {
            return self.handle(Event::SessionFetched(SessionTier::Nowhere), context);
        };
        let (mailbox, token) = (context.file_context.mailbox().clone(), self.back_token);
        let answer = move |tier| mailbox.send(Command::SessionFetched { token, tier });
        server.fetch(key, Box::new(answer));
    }
}
