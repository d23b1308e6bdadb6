//! Length of records: short where a client would wait for long ones, else full.
//!
//! A client can use nothing of a record before it has all of it. At the start TCP sends few
//! segments and waits for their acknowledgement, so that the first byte of a record of full size
//! takes two round trips. Handles the layout of plaintext in records, but not the sealing.
//!
//! Short records cost 2 to 3 µs of CPU for each start and pause of a connection, and nothing for
//! replies of up to 4 KiB.

use std::time::Duration;

use tls::record::{PLAINTEXT_BYTES_MAX, RecordLayout};

/// Bytes of one TCP segment: an Ethernet frame's 1500 without the headers of IPv6 (40) and TCP (20)
/// and TCP's timestamps (12).
const SEGMENT_BYTES: usize = 1428;

/// Short records at the start: the segments that TCP sends before it waits (RFC 6928). Later ones
/// come later in any case, and twice as many segments at once.
const SHORT_RECORDS: usize = 10;

/// Segments that fit one record however fresh the connection is: they come at once, and a page of 4
/// KiB with its headers is sealed at the cost of one record.
const WHOLE_SEGMENTS: usize = 4;

/// Pause after which a connection counts as fresh again: TCP does the same after its retransmission
/// timeout (RFC 5681 section 4.1), which is at most this on good paths (RFC 6298).
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// Most bytes that short records add to one of full size, cut into the shortest that a service can
/// ask for.
pub(crate) const SHORT_OVERHEAD_BYTES_MAX: usize =
    PLAINTEXT_BYTES_MAX / tls::options::RECORD_BYTES_MIN * tls::record::OVERHEAD_BYTES_MAX;
const _: () = assert!(PLAINTEXT_BYTES_MAX / tls::options::RECORD_BYTES_MIN > SHORT_RECORDS);

/// Distance of a connection from its start or its last pause.
#[derive(Debug, Default)]
pub(crate) struct RecordSizing {
    sent_bytes: usize,
    /// Most bytes in any record, if the service limits it; then no more is laid out at once than
    /// one record of full size carries.
    pub(crate) limit: Option<usize>,
}

impl RecordSizing {
    pub(crate) fn restart(&mut self) {
        self.sent_bytes = 0;
    }

    /// Moves `count` bytes, which fill pieces for records of full size, to their places in the
    /// records to be sealed. Returns how many are in each record.
    pub(crate) fn lay_out(
        &mut self,
        space: &mut [u8],
        count: usize,
        layout: RecordLayout,
    ) -> Lengths {
        let lengths = self.lengths(count, layout);
        lengths.move_apart(space, layout);
        self.sent_bytes = self.sent_bytes.saturating_add(count);
        lengths
    }

    fn lengths(&self, count: usize, layout: RecordLayout) -> Lengths {
        let overhead = layout.head + layout.tail;
        let short = SEGMENT_BYTES - overhead;
        let first = count.min(PLAINTEXT_BYTES_MAX);
        if let Some(short) = self.limit {
            return Lengths { first, shorts: first.div_ceil(short), short, rest: count };
        }
        let window = (SHORT_RECORDS * short).saturating_sub(self.sent_bytes);
        // Without overhead somebody else makes the records.
        let is_whole = overhead == 0 || count <= WHOLE_SEGMENTS * short;
        let shorts = if is_whole { 0 } else { first.min(window).div_ceil(short) };
        Lengths { first, shorts, short, rest: count }
    }
}

/// Number of plaintext bytes in each record, in order.
#[derive(Clone, Debug)]
pub(crate) struct Lengths {
    first: usize,
    shorts: usize,
    /// Bytes in each short record.
    short: usize,
    /// Bytes that still follow.
    rest: usize,
}

impl Lengths {
    /// Makes room between records that were one piece, the last one first.
    fn move_apart(&self, space: &mut [u8], layout: RecordLayout) {
        if self.shorts == 0 {
            return;
        }
        let overhead = layout.head + layout.tail;
        let has_long = self.first > self.shorts * self.short;
        let records = self.shorts + usize::from(has_long);
        if self.rest > self.first {
            let last = self.rest - 1;
            let end = last / PLAINTEXT_BYTES_MAX * layout.stride()
                + layout.head
                + last % PLAINTEXT_BYTES_MAX
                + 1;
            let start = layout.stride();
            space.copy_within(start..end, start + (records - 1) * overhead);
        }
        for record in (1..records).rev() {
            let start = record * self.short;
            let is_short = record < self.shorts;
            let end = if is_short { start + self.short } else { self.first };
            let start = layout.head + start;
            let end = layout.head + end.min(self.first);
            space.copy_within(start..end, start + record * overhead);
        }
    }
}

impl Iterator for Lengths {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.rest == 0 {
            return None;
        }
        let most = match (self.shorts, self.first) {
            (0, 0) => PLAINTEXT_BYTES_MAX.min(self.rest),
            (0, first) => first,
            (_, first) => self.short.min(first),
        };
        self.shorts = self.shorts.saturating_sub(1);
        self.first = self.first.saturating_sub(most);
        self.rest -= most;
        Some(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUTS: [RecordLayout; 3] = [
        RecordLayout { head: 5, tail: 17 },
        RecordLayout { head: 13, tail: 16 },
        RecordLayout { head: 5, tail: 16 },
    ];

    /// Returns bytes that show if one of them was moved.
    fn pattern(count: usize) -> Vec<u8> {
        (0..count).map(|index| (index / 251 + index) as u8).collect()
    }

    /// Returns the content of the records, and their lengths.
    fn laid_out(
        sizing: &mut RecordSizing,
        count: usize,
        layout: RecordLayout,
    ) -> (Vec<u8>, Vec<usize>) {
        let records = count.div_ceil(PLAINTEXT_BYTES_MAX);
        let mut space = vec![0xaa; records * layout.stride() + SHORT_OVERHEAD_BYTES_MAX];
        let pieces = space.chunks_exact_mut(layout.stride());
        for (piece, bytes) in pieces.zip(pattern(count).chunks(PLAINTEXT_BYTES_MAX)) {
            piece[layout.head..][..bytes.len()].copy_from_slice(bytes);
        }
        let lengths: Vec<usize> = sizing.lay_out(&mut space, count, layout).collect();
        let mut plain = Vec::new();
        let mut start = 0;
        for length in &lengths {
            plain.extend_from_slice(&space[start + layout.head..][..*length]);
            start += layout.head + length + layout.tail;
        }
        (plain, lengths)
    }

    fn after(sent_bytes: usize) -> RecordSizing {
        RecordSizing { sent_bytes, limit: None }
    }

    #[test]
    fn no_record_is_longer_than_the_limit_of_the_service() {
        for layout in LAYOUTS {
            for (limit, count) in [(512, 16_384), (512, 16_383), (1000, 512), (4096, 4097)] {
                let mut sizing = after(0);
                sizing.limit = Some(limit);
                let (plain, lengths) = laid_out(&mut sizing, count, layout);
                assert!(plain == pattern(count), "{limit} {count}");
                assert!(lengths.iter().all(|length| *length <= limit));
                assert_eq!(lengths.len(), count.div_ceil(limit));
            }
        }
    }

    #[test]
    fn no_byte_is_lost_or_moved_whatever_the_length() {
        let edges = [1, 1400, 5624, 14_060, 16_384, 32_768, 100_000, 262_144];
        let near = |edge: usize| edge.saturating_sub(2).max(1)..edge + 3;
        for layout in LAYOUTS {
            for count in edges.into_iter().flat_map(near) {
                for sent_bytes in [0, 1406, 9000, 14_059, usize::MAX] {
                    let (plain, lengths) = laid_out(&mut after(sent_bytes), count, layout);
                    assert!(plain == pattern(count), "{count} after {sent_bytes}");
                    let is_good = |length: &usize| (1..=PLAINTEXT_BYTES_MAX).contains(length);
                    assert!(lengths.iter().all(is_good), "{count}: {lengths:?}");
                }
            }
        }
    }

    #[test]
    fn the_first_window_goes_in_records_of_one_segment_and_the_rest_in_full_ones() {
        for layout in LAYOUTS {
            let mut sizing = RecordSizing::default();
            let short = SEGMENT_BYTES - layout.head - layout.tail;
            let (_, lengths) = laid_out(&mut sizing, 60_000, layout);
            assert_eq!(lengths[..SHORT_RECORDS], [short; SHORT_RECORDS]);
            let rest_of_first = PLAINTEXT_BYTES_MAX - SHORT_RECORDS * short;
            let rest = 60_000 - 3 * PLAINTEXT_BYTES_MAX;
            assert_eq!(
                lengths[SHORT_RECORDS..],
                [rest_of_first, PLAINTEXT_BYTES_MAX, PLAINTEXT_BYTES_MAX, rest]
            );
            assert_eq!(laid_out(&mut sizing, 16_384, layout).1, [16_384]);
            sizing.restart();
            assert_eq!(laid_out(&mut sizing, 16_384, layout).1[0], short);
        }
    }

    #[test]
    fn a_page_is_one_record_and_counts() {
        for layout in LAYOUTS {
            let mut sizing = RecordSizing::default();
            for _ in 0..3 {
                assert_eq!(laid_out(&mut sizing, 4096 + 400, layout).1, [4496]);
            }
            let (_, lengths) = laid_out(&mut sizing, 16_000, layout);
            let short = SEGMENT_BYTES - layout.head - layout.tail;
            assert_eq!(lengths, [short, 16_000 - short], "the window was nearly used");
        }
    }

    #[test]
    fn what_somebody_else_seals_stays_where_it_is() {
        let plain = RecordLayout { head: 0, tail: 0 };
        let lengths = RecordSizing::default().lengths(40_000, plain);
        let lengths: Vec<usize> = lengths.collect();
        assert_eq!(lengths, [16_384, 16_384, 7_232]);
    }
}
