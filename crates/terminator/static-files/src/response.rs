//! Writes responses: heads (RFC 9112 section 4, RFC 9110 section 6.6), and then piece by piece the
//! whole file or the parts that a `Range` field asks for (RFC 9110 section 14). Reads no file: the
//! output names a range of it, which the caller sends.

use std::fmt::Display;
use std::io::Write;
use std::time::SystemTime;

use wire::http::decimal;

use crate::questions::Output;
use crate::request::{Method, Refusal, Request, Status};
use crate::search::{ChosenFile, SearchOutcome};
use crate::validators::{ConditionResult, Validators, http_date};

/// A response on its way: bytes, then a range of the open file, and that again for each part.
#[derive(Debug)]
pub(crate) struct Response {
    status: Status,
    bytes: Vec<u8>,
    sent: usize,
    range: BodyRange,
    parts: Option<MultipartBody>,
}

#[derive(Clone, Copy, Debug, Default)]
struct BodyRange {
    offset: u64,
    bytes: u64,
}

/// Rest of a multipart body (RFC 9110 section 14.6).
#[derive(Debug)]
struct MultipartBody {
    left: std::vec::IntoIter<ByteRange>,
    form: PartForm,
    closed: bool,
}

/// Fields that the heads of all parts share.
#[derive(Debug)]
struct PartForm {
    boundary: String,
    media: String,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct RequestFacts {
    now: SystemTime,
    /// Whether only the head is wanted.
    head: bool,
    is_http10: bool,
    persistent: bool,
}

impl Response {
    /// Makes the answer to a request.
    pub(crate) fn to(request: &Request, outcome: SearchOutcome, now: SystemTime) -> Self {
        let facts = RequestFacts {
            now,
            head: request.method == Method::Head,
            is_http10: request.is_http10,
            persistent: request.persistent,
        };
        match (outcome, &request.target) {
            (SearchOutcome::File(chosen), _) => file(facts, request, &chosen),
            (SearchOutcome::Redirect, Some(target)) => {
                redirect(facts, Status::MovedPermanently, &target.location_of_folder())
            }
            (SearchOutcome::Elsewhere, _) => elsewhere(facts, request),
            (SearchOutcome::Refused(status), _) => refusal(facts, status, ""),
            (SearchOutcome::Challenge(answer), _) => {
                let mut head = HeadWriter::begin(facts, Status::Ok);
                head.field("Content-Type", "application/octet-stream");
                head.end_with(answer.as_bytes())
            }
            (SearchOutcome::Redirect, None) => refusal(facts, Status::InternalServerError, ""),
        }
    }

    /// Makes the answer to a malformed request, the last one of its connection. `head` = it names
    /// HEAD nevertheless, to which no content is sent (RFC 9110 section 9.3.2).
    pub(crate) fn to_fault((status, what): Refusal, head: bool, now: SystemTime) -> Self {
        let facts = RequestFacts { now, head, is_http10: false, persistent: false };
        refusal(facts, status, what)
    }

    pub(crate) fn status(&self) -> u16 {
        self.status.code()
    }

    /// Returns the next output; [`Output::Nothing`] when all of it was sent.
    pub(crate) fn output(&self) -> Output<'_> {
        if self.sent < self.bytes.len() {
            Output::Bytes(&self.bytes[self.sent..])
        } else if self.range.bytes > 0 {
            Output::File { offset: self.range.offset, bytes: self.range.bytes }
        } else {
            Output::Nothing
        }
    }

    /// Notes that this number of bytes of the output was sent.
    pub(crate) fn advance(&mut self, bytes: u64) {
        if self.sent < self.bytes.len() {
            let went = usize::try_from(bytes).unwrap_or(usize::MAX);
            self.sent = self.sent.saturating_add(went).min(self.bytes.len());
        } else {
            let went = bytes.min(self.range.bytes);
            self.range.offset += went;
            self.range.bytes -= went;
        }
        if self.output() == Output::Nothing {
            self.next_part();
        }
    }

    fn next_part(&mut self) {
        let Some(parts) = &mut self.parts else {
            return;
        };
        self.bytes.clear();
        self.sent = 0;
        if let Some(part) = parts.left.next() {
            parts.form.write_head(part, &mut self.bytes);
            self.range = BodyRange::of(part);
        } else if !parts.closed {
            parts.closed = true;
            parts.form.write_end(&mut self.bytes);
        }
    }
}

impl BodyRange {
    fn of(part: ByteRange) -> Self {
        Self { offset: part.first, bytes: part.bytes() }
    }
}

impl PartForm {
    fn write_head(&self, part: ByteRange, bytes: &mut Vec<u8>) {
        append(bytes, format_args!("\r\n--{}\r\n", self.boundary));
        append(bytes, format_args!("Content-Type: {}\r\n", self.media));
        let range = content_range(part, self.bytes);
        append(bytes, format_args!("Content-Range: {range}\r\n\r\n"));
    }

    fn write_end(&self, bytes: &mut Vec<u8>) {
        append(bytes, format_args!("\r\n--{}--\r\n", self.boundary));
    }

    /// Returns the length of the body with these parts: everything around them is written to
    /// measure it, which costs less than a wrong length would.
    fn body_bytes(&self, parts: &[ByteRange]) -> u64 {
        let mut around = Vec::new();
        for part in parts {
            self.write_head(*part, &mut around);
        }
        self.write_end(&mut around);
        parts.iter().map(|part| part.bytes()).sum::<u64>() + around.len() as u64
    }
}

/// A head that is being written.
struct HeadWriter {
    bytes: Vec<u8>,
    status: Status,
    facts: RequestFacts,
}

impl HeadWriter {
    fn begin(facts: RequestFacts, status: Status) -> Self {
        let mut head = Self { bytes: Vec::with_capacity(512), status, facts };
        let line = format_args!("HTTP/1.1 {} {}\r\n", status.code(), status.phrase());
        append(&mut head.bytes, line);
        head.field("Date", http_date(facts.now));
        head
    }

    fn field(&mut self, name: &str, value: impl Display) {
        append(&mut self.bytes, format_args!("{name}: {value}\r\n"));
    }

    /// Ends the head, followed by the range if content is wanted.
    fn end(mut self, range: BodyRange) -> Response {
        if !self.facts.persistent {
            self.field("Connection", "close");
        } else if self.facts.is_http10 {
            self.field("Connection", "keep-alive");
        }
        self.bytes.extend(b"\r\n");
        Response {
            status: self.status,
            bytes: self.bytes,
            sent: 0,
            range: if self.facts.head { BodyRange::default() } else { range },
            parts: None,
        }
    }

    /// Ends the head, followed by these bytes if content is wanted.
    fn end_with(mut self, content: &[u8]) -> Response {
        self.field("Content-Length", content.len());
        let head = self.facts.head;
        let mut response = self.end(BodyRange::default());
        if !head {
            response.bytes.extend(content);
        }
        response
    }
}

/// `what` may be empty; it is our text, never the client's.
fn refusal(facts: RequestFacts, status: Status, what: &str) -> Response {
    let mut head = HeadWriter::begin(facts, status);
    if status == Status::MethodNotAllowed {
        head.field("Allow", "GET, HEAD");
    }
    explain(head, what)
}

/// Ends a response whose content only names its status.
fn explain(mut head: HeadWriter, what: &str) -> Response {
    head.field("Content-Type", "text/plain; charset=utf-8");
    head.field("X-Content-Type-Options", "nosniff");
    let (code, phrase) = (head.status.code(), head.status.phrase());
    let colon = if what.is_empty() { "" } else { ": " };
    head.end_with(format!("{code} {phrase}{colon}{what}\n").as_bytes())
}

/// `location` is ASCII, without spaces.
fn redirect(facts: RequestFacts, status: Status, location: &[u8]) -> Response {
    let mut head = HeadWriter::begin(facts, status);
    head.field("Location", String::from_utf8_lossy(location));
    explain(head, "")
}

/// After 301 a client may turn any other method into GET, which 308 forbids; but the oldest clients
/// do not know 308 (RFC 9110 sections 15.4.2 and 15.4.9).
fn elsewhere(facts: RequestFacts, request: &Request) -> Response {
    let status = match request.method {
        Method::Get | Method::Head => Status::MovedPermanently,
        Method::NotAllowed | Method::Unknown => Status::PermanentRedirect,
    };
    redirect(facts, status, request.location.as_deref().unwrap_or_default())
}

fn file(facts: RequestFacts, request: &Request, chosen: &ChosenFile) -> Response {
    let validators = Validators::of(chosen.bytes, chosen.modified, chosen.identity, facts.now);
    match request.fields.conditions.judge(&validators) {
        ConditionResult::Failed => {
            return explain(begin(facts, Status::PreconditionFailed, chosen), "");
        }
        ConditionResult::NotModified => {
            let mut head = begin(facts, Status::NotModified, chosen);
            head.field("ETag", validators.entity_tag());
            return head.end(BodyRange::default());
        }
        ConditionResult::Met => {}
    }
    match selection(request, chosen, &validators) {
        Selection::Whole => whole(facts, chosen, &validators),
        Selection::One(part) => one(facts, chosen, &validators, part),
        Selection::Several(parts) => several(facts, chosen, &validators, parts),
        Selection::Unsatisfiable => {
            let mut head = begin(facts, Status::RangeNotSatisfiable, chosen);
            head.field("Content-Range", format_args!("bytes */{}", chosen.bytes));
            explain(head, "")
        }
    }
}

/// RFC 9110 section 14.2: ranges are for GET only, and come last in the order of conditions.
fn selection(request: &Request, chosen: &ChosenFile, validators: &Validators) -> Selection {
    let meant =
        request.fields.if_range.as_deref().is_none_or(|field| validators.is_meant_by(field));
    match &request.fields.range {
        Some(range) if request.method == Method::Get && meant => select(range, chosen.bytes),
        _ => Selection::Whole,
    }
}

/// Begins a head with the fields of all responses about a file (RFC 9110 section 15.4.5).
fn begin(facts: RequestFacts, status: Status, chosen: &ChosenFile) -> HeadWriter {
    let mut head = HeadWriter::begin(facts, status);
    head.field("Accept-Ranges", "bytes");
    if chosen.varies {
        head.field("Vary", "Accept-Encoding");
    }
    head
}

fn begin_content(
    facts: RequestFacts,
    status: Status,
    chosen: &ChosenFile,
    of: &Validators,
) -> HeadWriter {
    let mut head = begin(facts, status, chosen);
    head.field("ETag", of.entity_tag());
    head.field("Last-Modified", http_date(of.last_modified()));
    if let Some(coding) = chosen.coding {
        head.field("Content-Encoding", coding.name());
    }
    head.field("X-Content-Type-Options", "nosniff");
    head
}

fn whole(facts: RequestFacts, chosen: &ChosenFile, validators: &Validators) -> Response {
    let mut head = begin_content(facts, Status::Ok, chosen, validators);
    head.field("Content-Type", chosen.media);
    head.field("Content-Length", chosen.bytes);
    head.end(BodyRange { offset: 0, bytes: chosen.bytes })
}

fn one(
    facts: RequestFacts,
    chosen: &ChosenFile,
    validators: &Validators,
    part: ByteRange,
) -> Response {
    let mut head = begin_content(facts, Status::PartialContent, chosen, validators);
    head.field("Content-Type", chosen.media);
    head.field("Content-Range", content_range(part, chosen.bytes));
    head.field("Content-Length", part.bytes());
    head.end(BodyRange::of(part))
}

fn several(
    facts: RequestFacts,
    chosen: &ChosenFile,
    validators: &Validators,
    parts: Vec<ByteRange>,
) -> Response {
    let form = PartForm {
        boundary: boundary(facts.now, chosen),
        media: chosen.media.to_string(),
        bytes: chosen.bytes,
    };
    let mut head = begin_content(facts, Status::PartialContent, chosen, validators);
    let media = format_args!("multipart/byteranges; boundary={}", form.boundary);
    head.field("Content-Type", media);
    head.field("Content-Length", form.body_bytes(&parts));
    let mut response = head.end(BodyRange::default());
    response.parts = Some(MultipartBody { left: parts.into_iter(), form, closed: false });
    response
}

/// Changes with every nanosecond, so that nobody can prepare a file that contains the boundary; a
/// client that heeds the ranges of the parts is not confused by a file that does.
fn boundary(now: SystemTime, chosen: &ChosenFile) -> String {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let nanoseconds = since.as_nanos() as u64;
    let mixed = (nanoseconds ^ chosen.identity.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{mixed:016x}{nanoseconds:016x}")
}

fn content_range(part: ByteRange, bytes: u64) -> String {
    format!("bytes {}-{}/{bytes}", part.first, part.last)
}

fn append(bytes: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    bytes.write_fmt(text).expect("a vector takes any bytes");
}

/// Most ranges; more are answered with the whole file (RFC 9110 section 14.2).
pub(crate) const RANGES_MAX: usize = 64;

/// A part of a file: from one byte to another, both included, both in the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ByteRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl ByteRange {
    pub(crate) fn bytes(self) -> u64 {
        self.last - self.first + 1
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Selection {
    /// The whole file, also for a field that is malformed or in another unit, for too many ranges,
    /// and for ranges that overlap: no honest client asks for the same byte twice.
    Whole,
    One(ByteRange),
    /// At least two, in the order in which they were requested.
    Several(Vec<ByteRange>),
    Unsatisfiable,
}

/// Parses the field's value for a file of this length.
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

/// Returns the ranges that have bytes in the file; `None` if the field is ignored.
fn satisfiable(field: &[u8], bytes: u64) -> Option<Vec<ByteRange>> {
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
    // An empty file has no parts: even its last bytes are the whole.
    let empty = bytes == 0 && set.trim_ascii().starts_with(b"-");
    (count > 0 && !empty).then_some(parts)
}

/// Parses one range: `Some(None)` if it has no byte in the file, `None` if it is malformed.
#[expect(clippy::option_option, reason = "malformed and not satisfiable are two things")]
fn part(range: &[u8], bytes: u64) -> Option<Option<ByteRange>> {
    let dash = range.iter().position(|byte| *byte == b'-')?;
    let (first, last) = (&range[..dash], &range[dash + 1..]);
    let end = bytes.checked_sub(1);
    if first.is_empty() {
        let suffix = decimal(last)?;
        let part = |end| ByteRange { first: bytes.saturating_sub(suffix), last: end };
        return Some(end.filter(|_| suffix > 0).map(part));
    }
    let first = decimal(first)?;
    let last = if last.is_empty() { u64::MAX } else { decimal(last)? };
    if last < first {
        return None;
    }
    let part = |end: u64| ByteRange { first, last: last.min(end) };
    Some(end.filter(|end| first <= *end).map(part))
}

fn overlap(parts: &[ByteRange]) -> bool {
    let mut sorted = parts.to_vec();
    sorted.sort_unstable_by_key(|part| part.first);
    sorted.windows(2).any(|pair| pair[1].first <= pair[0].last)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(first: u64, last: u64) -> Selection {
        Selection::One(ByteRange { first, last })
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
        let part = |first, last| ByteRange { first, last };
        let several = |parts: &[ByteRange]| Selection::Several(parts.to_vec());
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
