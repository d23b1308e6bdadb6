//! The parts of a file that a `Range` field asks for (RFC 9110 section 14). Owns what is given
//! whole instead; heads and boundaries are `response`'s.

use wire::http::decimal;

/// More ranges than these are answered with the whole file (RFC 9110 section 14.2).
pub(crate) const RANGES_MAX: usize = 64;

/// A part of a file: from one byte to another, both included, both in the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Part {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Part {
    pub(crate) fn bytes(self) -> u64 {
        self.last - self.first + 1
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Selection {
    /// The whole file. That is the answer as well to what is malformed or in another unit, to too
    /// many ranges, and to ranges that overlap: no honest client asks for the same byte twice.
    Whole,
    One(Part),
    /// Two at least, in the order in which they were asked for.
    Several(Vec<Part>),
    Unsatisfiable,
}

/// Reads the field's value for a file of this length.
pub(crate) fn select(field: &[u8], bytes: u64) -> Selection {
    match satisfiable(field, bytes) {
        None => Selection::Whole,
        Some(parts) if overlap(&parts) => Selection::Whole,
        Some(parts) => match *parts {
            [] => Selection::Unsatisfiable,
            [part] => Selection::One(part),
            _ => Selection::Several(parts),
        },
    }
}

/// The ranges that have bytes in the file; nothing if the field is passed over.
fn satisfiable(field: &[u8], bytes: u64) -> Option<Vec<Part>> {
    let (unit, set) = field.split_at_checked(6)?;
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return None;
    }
    let mut parts = Vec::new();
    let mut count = 0;
    for range in set.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
        // RFC 9110 section 5.6.1.2: lists may have empty elements.
        if !range.is_empty() {
            count += 1;
            parts.extend(part(range, bytes)?);
        }
        if count > RANGES_MAX {
            return None;
        }
    }
    // No file is empty in part: of an empty one even its last bytes are the whole.
    let empty = bytes == 0 && set.trim_ascii().starts_with(b"-");
    (count > 0 && !empty).then_some(parts)
}

/// One range: `Some(None)` if it has no byte in the file, nothing if it is malformed.
#[expect(clippy::option_option, reason = "malformed and not satisfiable are two things")]
fn part(range: &[u8], bytes: u64) -> Option<Option<Part>> {
    let dash = range.iter().position(|byte| *byte == b'-')?;
    let (first, last) = (&range[..dash], &range[dash + 1..]);
    let end = bytes.checked_sub(1);
    if first.is_empty() {
        let suffix = decimal(last)?;
        let part = |end| Part { first: bytes.saturating_sub(suffix), last: end };
        return Some(end.filter(|_| suffix > 0).map(part));
    }
    let first = decimal(first)?;
    let last = if last.is_empty() { u64::MAX } else { decimal(last)? };
    if last < first {
        return None;
    }
    let part = |end: u64| Part { first, last: last.min(end) };
    Some(end.filter(|end| first <= *end).map(part))
}

fn overlap(parts: &[Part]) -> bool {
    let mut sorted = parts.to_vec();
    sorted.sort_unstable_by_key(|part| part.first);
    sorted.windows(2).any(|pair| pair[1].first <= pair[0].last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(first: u64, last: u64) -> Selection {
        Selection::One(Part { first, last })
    }

    #[test]
    fn single_ranges() {
        let huge = "99999999999999999999999999";
        let cases = [
            ("bytes=0-99", one(0, 99)),
            ("bytes=0-0", one(0, 0)),
            ("bytes=10-", one(10, 999)),
            ("bytes=0-", one(0, 999)),
            ("bytes=-10", one(990, 999)),
            ("bytes=-1000", one(0, 999)),
            ("bytes=-5000", one(0, 999)),
            ("bytes=999-5000", one(999, 999)),
            ("BYTES=5-6", one(5, 6)),
            ("bytes= 5-6 , ", one(5, 6)),
            ("bytes=,,5-6", one(5, 6)),
            ("bytes=5-6,2000-", one(5, 6)),
            (&format!("bytes=5-{huge}"), one(5, 999)),
            (&format!("bytes=-{huge}"), one(0, 999)),
            (&format!("bytes={huge}-"), Selection::Unsatisfiable),
            ("bytes=1000-", Selection::Unsatisfiable),
            ("bytes=1000-2000", Selection::Unsatisfiable),
            ("bytes=-0", Selection::Unsatisfiable),
            ("bytes=-0,1000-", Selection::Unsatisfiable),
        ];
        for (field, expected) in cases {
            assert_eq!(select(field.as_bytes(), 1000), expected, "{field}");
        }
    }

    #[test]
    fn what_is_no_range_is_passed_over() {
        for field in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=2-1",
            "bytes=1--2",
            "bytes=+1-2",
            "bytes=1-2-3",
            "bytes=1 - 2",
            "bytes = 1-2",
            "items=0-1",
            "bytes=0-1;2-3",
            "bytes=0-1, bytes=2-3",
            "bytes:0-1",
            "bytes=0x1-0x2",
            "bytes=\u{ff}",
        ] {
            assert_eq!(select(field.as_bytes(), 1000), Selection::Whole, "{field}");
        }
    }

    #[test]
    fn several_ranges_keep_their_order() {
        let part = |first, last| Part { first, last };
        let several = |parts: &[Part]| Selection::Several(parts.to_vec());
        let cases = [
            ("bytes=0-1,4-5", several(&[part(0, 1), part(4, 5)])),
            ("bytes=4-5, 0-1", several(&[part(4, 5), part(0, 1)])),
            ("bytes=0-1,2-3", several(&[part(0, 1), part(2, 3)])),
            ("bytes=0-1,-1,5000-", several(&[part(0, 1), part(999, 999)])),
            ("bytes=0-5,5-9", Selection::Whole),
            ("bytes=0-,0-", Selection::Whole),
            ("bytes=500-600,-500", Selection::Whole),
        ];
        for (field, expected) in cases {
            assert_eq!(select(field.as_bytes(), 1000), expected, "{field}");
        }
    }

    #[test]
    fn the_number_of_ranges_is_limited() {
        let field = |count: usize| {
            let ranges: Vec<_> = (0..count).map(|i| format!("{}-{}", 3 * i, 3 * i)).collect();
            format!("bytes={}", ranges.join(","))
        };
        let several = select(field(RANGES_MAX).as_bytes(), 1000);
        assert!(matches!(several, Selection::Several(parts) if parts.len() == RANGES_MAX));
        assert_eq!(select(field(RANGES_MAX + 1).as_bytes(), 1000), Selection::Whole);
        assert_eq!(select(field(RANGES_MAX + 1).as_bytes(), 1), Selection::Whole);
    }

    #[test]
    fn of_an_empty_file() {
        assert_eq!(select(b"bytes=0-", 0), Selection::Unsatisfiable);
        assert_eq!(select(b"bytes=0-0", 0), Selection::Unsatisfiable);
        assert_eq!(select(b"bytes=-5", 0), Selection::Whole);
    }

    proptest! {
        #[test]
        fn parts_lie_in_the_file(
            field in "bytes=([0-9]{0,21}-[0-9]{0,3},? ?){0,70}",
            bytes in prop_oneof![0..2000_u64, any::<u64>()],
        ) {
            check(field.as_bytes(), bytes)?;
        }

        #[test]
        fn any_bytes_are_read(field: Vec<u8>, bytes: u64) {
            check(&field, bytes)?;
            check(&[b"bytes=", &field[..]].concat(), bytes)?;
        }
    }

    fn check(field: &[u8], bytes: u64) -> Result<(), TestCaseError> {
        let parts = match select(field, bytes) {
            Selection::One(part) => vec![part],
            Selection::Several(parts) => parts,
            Selection::Whole | Selection::Unsatisfiable => return Ok(()),
        };
        let mut sum = 0_u64;
        for part in parts {
            prop_assert!(part.first <= part.last && part.last < bytes);
            sum = sum.checked_add(part.bytes()).expect("parts do not overlap");
        }
        prop_assert!(sum <= bytes);
        Ok(())
    }
}
