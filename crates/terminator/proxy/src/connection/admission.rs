//! Whether the client that a PROXY header names may come in; others are admitted as they are
//! accepted, by `worker`.

use flow::events::Event;

use super::{Connection, Context};

impl Connection {
    /// Lets the client in, or resets the connection.
    pub(super) fn admit(&mut self, context: &mut Context<'_>) {
        let client = self.flow.facts().route.source.map(|source| source.ip());
        let rules = &self.service.plan.sources;
        match context.sources.admit(rules, client, context.now) {
            Ok(source) => {
                self.source = source;
                self.handle(Event::Admitted, context);
            }
            Err(reason) => {
                self.front.reset_on_close();
                self.handle(Event::Stopped(reason), context);
            }
        }
    }
}
