//! The counters of a connection whose handshake is over, or came to nothing.

use telemetry::catalogue::ServiceCounter;
use telemetry::counters::Handshake;

use crate::connection::Connection;
use crate::connection_log;
use crate::timers::TICK;

/// Counts a handshake, and what became of what the client offered with it.
pub(crate) fn count_handshake(connection: &Connection) {
    let facts = connection.flow.facts();
    let counters = &connection.service.counters;
    if facts.declined_tls {
        counters.count(ServiceCounter::StarttlsPlaintext);
    }
    if let Some(miss) = facts.resumption_miss {
        counters.missed(miss);
    }
    if let Some(early_data) = facts.early_data {
        counters.offered_early(early_data);
    }
    // With early data it is known what is agreed on before the handshake is over.
    let agreed = facts
        .agreed
        .as_ref()
        .filter(|_| facts.established.is_some());
    let (Some(agreed), Some(kind)) = (agreed, facts.handshake) else {
        return;
    };
    if agreed.retried {
        counters.count(ServiceCounter::HelloRetryRequests);
    }
    counters.handshake(Handshake {
        kind,
        version: connection_log::version_of(agreed.version),
        suite: agreed.suite.map_or(0, |suite| suite.code()),
        group: agreed.group.map_or(0, |group| group.code()),
        duration: facts.handshake_time().unwrap_or(TICK),
    });
}
