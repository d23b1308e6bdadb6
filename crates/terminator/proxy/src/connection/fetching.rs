//! Looking for a client's session beyond this host; the control side answers by a message.

use flow::events::Event;
use flow::options::Front;
use telemetry::outcome::SessionTier;

use super::{Connection, Context};
use crate::commands::Command;

impl Connection {
    /// Asks for the session that the client offers.
    pub(super) fn fetch_session(&mut self, context: &mut Context<'_>) {
        let (mailbox, token) = (context.file_context.mailbox().clone(), self.back_token);
        let answer = move |tier| mailbox.send(Command::SessionFetched { token, tier });
        let settings = &self.service.settings;
        let (wanted, passing) = (self.flow.wanted_session(), &settings.passing_sessions);
        match (wanted, &settings.front, passing) {
            (Some(key), Front::Terminate(server), _) => server.fetch(key, Box::new(answer)),
            (Some(key), _, Some(sessions)) => sessions.fetch(key, Box::new(answer)),
            _ => self.handle(Event::SessionFetched(SessionTier::Nowhere), context),
        }
    }
}
