//! The bytes that a connection has relayed, as the counters know them.

use telemetry::catalogue::ServiceCounter;

use super::Connection;

impl Connection {
    /// Counts bytes that went past our buffers.
    pub(super) fn count_passed(&mut self, count: usize, way: ServiceCounter) {
        self.passed += count as u64;
        self.service.counters.add(way, count as u64);
    }

    /// Adds to the counters what has been relayed since the last call.
    pub(super) fn count_bytes(&mut self) {
        let facts = self.flow.facts();
        let up = facts.bytes_up - self.counted_up;
        let down = facts.bytes_down - self.counted_down;
        if up == 0 && down == 0 {
            return;
        }
        self.counted_up = facts.bytes_up;
        self.counted_down = facts.bytes_down;
        self.service.counters.add(ServiceCounter::BytesUp, up);
        self.service.counters.add(ServiceCounter::BytesDown, down);
        let through_us = down - std::mem::take(&mut self.passed);
        let path = if facts.offloaded {
            ServiceCounter::SentToKernel
        } else {
            ServiceCounter::SentByUserSpace
        };
        self.service.counters.add(path, through_us);
        self.dial.count_bytes(&self.service, up, down);
    }
}
