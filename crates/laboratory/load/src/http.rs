//! Speaks HTTP/1.1 as a client: writes a plan's request; reads a reply's head, the length of its
//! content, and whether it is complete.
//!
//! `wire::http` handles heads and framing. Content is counted, not kept. Pure.

use std::fmt::Write;

use wire::http::{Content, ResponseHead};

use measure::random::SplitMix;

use crate::plan::{LoadPlan, PlannedRequest};

/// Requests; each transaction draws one at random by weight.
#[derive(Debug)]
pub(crate) struct RequestMixture {
    requests: Vec<RequestBytes>,
    /// Sum, for each request, of its weight and of those before it.
    ends: Vec<u64>,
    chance: SplitMix,
}

impl RequestMixture {
    /// Makes the requests of a plan, for one of its threads.
    pub(crate) fn new(plan: &LoadPlan, thread: u16) -> Self {
        let mut end = 0;
        let ends = plan.requests.iter().map(|request| {
            end += u64::from(request.weight);
            end
        });
        Self {
            ends: ends.collect(),
            requests: plan.requests.iter().map(|one| RequestBytes::new(plan, one)).collect(),
            // Random instants use the seed itself.
            chance: SplitMix::of_thread(!plan.seed, thread),
        }
    }

    /// Reports whether there are no requests.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Draws the index of the next request.
    #[inline]
    pub(crate) fn draw(&mut self) -> usize {
        let [_, .., all] = self.ends[..] else {
            return 0;
        };
        let drawn = self.chance.below(all as usize) as u64;
        self.ends.partition_point(|end| *end <= drawn)
    }

    /// Returns the request at an index; `None` if there are no requests.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> Option<&RequestBytes> {
        self.requests.get(place)
    }
}

/// Bytes of a request, in both forms.
#[derive(Debug)]
pub(crate) struct RequestBytes {
    stays: Vec<u8>,
    closes: Vec<u8>,
    pub(crate) to_head: bool,
}

impl RequestBytes {
    /// Writes the request as HTTP/1.1 (RFC 9112).
    pub(crate) fn new(plan: &LoadPlan, request: &PlannedRequest) -> Self {
        let one_each = plan.clients.requests_per_connection == Some(1);
        let closes = bytes(plan, request, true);
        Self {
            stays: if one_each { Vec::new() } else { bytes(plan, request, false) },
            closes,
            to_head: request.method == "HEAD",
        }
    }

    /// Returns the form for the last request of a connection, or for an earlier one.
    #[inline]
    pub(crate) fn bytes(&self, is_last: bool) -> &[u8] {
        if is_last { &self.closes } else { &self.stays }
    }
}

fn bytes(plan: &LoadPlan, request: &PlannedRequest, closes: bool) -> Vec<u8> {
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
    let has = |wanted: &str| {
        let mut names = request.headers.iter().map(|(name, _)| name);
        names.any(|name| name.eq_ignore_ascii_case(wanted))
    };
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a string does not fail.
        let _ = write!(head, "{name}: {value}\r\n");
    };
    if !has("Host") {
        line("Host", &plan.target.authority);
    }
    for (name, value) in &request.headers {
        line(name, value);
    }
    if !request.body.is_empty() || matches!(request.method.as_str(), "POST" | "PUT" | "PATCH") {
        line("Content-Length", &request.body.len());
    }
    if closes {
        line("Connection", &"close");
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&request.body);
    bytes
}

/// Maximum of a head's length: browsers accept up to four times as much, servers limit their own to
/// a quarter, and an endless one must not fill our memory.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Maximum of interim replies before the final one.
const INTERIM_MAX: u32 = 16;

/// A reply that is being read.
#[derive(Debug)]
pub(crate) struct ReplyReader {
    /// Part of the head that has arrived, if it came in pieces.
    head: Vec<u8>,
    /// Content; `None` while the head is incomplete.
    content: Option<Content>,
    /// Whether the reply is to `HEAD`, and so has no content whatever its head says.
    to_head: bool,
    /// Status; 0 before the head is complete.
    pub(crate) status: u16,
    /// Whether the server accepts another request on this connection.
    pub(crate) keeps: bool,
    interim: u32,
}

/// Bytes that are not a reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MalformedReply;

/// Progress of a reply with the received bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ReplyProgress {
    Partial,
    Whole,
}

impl ReplyProgress {
    fn of(is_whole: bool) -> Self {
        if is_whole { Self::Whole } else { Self::Partial }
    }
}

impl ReplyReader {
    /// Makes the reader of a reply; `to_head` if the request's method is `HEAD`.
    pub(crate) fn new(to_head: bool) -> Self {
        Self { head: Vec::new(), content: None, to_head, status: 0, keeps: false, interim: 0 }
    }

    /// Returns the bytes of the content so far.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.content.map_or(0, |content| content.bytes())
    }

    /// Reports whether the reply is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.content.is_some_and(|content| content.is_done())
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// Fails with [`MalformedReply`], also if there are more bytes than the reply has.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<ReplyProgress, MalformedReply> {
        while !bytes.is_empty() {
            bytes = match &mut self.content {
                None => self.take_head(bytes)?,
                Some(content) if content.is_done() => return Err(MalformedReply),
                Some(content) => {
                    let used = content.read(bytes).map_err(|_| MalformedReply)?;
                    &bytes[used..]
                }
            };
        }
        Ok(ReplyProgress::of(self.is_whole()))
    }

    /// Reports, after the server closed, whether that completed the reply.
    pub(crate) fn close(&self) -> ReplyProgress {
        ReplyProgress::of(self.content.is_some_and(|content| content.may_end_by_close()))
    }

    /// Takes bytes of the head, and returns those behind it.
    fn take_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], MalformedReply> {
        if self.head.is_empty() {
            // The head nearly always comes in one piece, and need not be copied.
            return match self.read_head(bytes)? {
                Some(length) => Ok(&bytes[length..]),
                None => {
                    self.head.extend_from_slice(bytes);
                    Ok(&[])
                }
            };
        }
        let before = self.head.len();
        let mut head = std::mem::take(&mut self.head);
        head.extend_from_slice(bytes);
        match self.read_head(&head)? {
            // The head was incomplete before, so it ends within the new bytes.
            Some(length) => Ok(&bytes[length.saturating_sub(before)..]),
            None => {
                self.head = head;
                Ok(&[])
            }
        }
    }

    /// Returns the length of the head, if it is complete.
    fn read_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, MalformedReply> {
        let head = ResponseHead::parse(bytes, HEAD_BYTES_MAX, self.to_head);
        let Some(head) = head.map_err(|_| MalformedReply)? else {
            return Ok(None);
        };
        if (100..200).contains(&head.status) && head.status != 101 {
            // An interim reply (RFC 9110, section 15.2): the final one follows.
            self.interim += 1;
            let is_allowed = self.interim <= INTERIM_MAX;
            return is_allowed.then_some(Some(head.bytes)).ok_or(MalformedReply);
        }
        self.status = head.status;
        self.keeps = head.keeps_alive;
        self.content = Some(Content::new(head.content));
        Ok(Some(head.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the reply's progress, whole in one piece and byte by byte: they must not differ.
    fn read(text: &str, to_head: bool) -> (Result<ReplyProgress, MalformedReply>, ReplyReader) {
        let mut whole = ReplyReader::new(to_head);
        let progress = whole.take(text.as_bytes());
        let mut pieces = ReplyReader::new(to_head);
        let by_bytes = text
            .bytes()
            .map(|byte| pieces.take(&[byte]))
            .find(|progress| progress.is_err())
            .unwrap_or_else(|| pieces.take(&[]));
        assert_eq!(progress, by_bytes, "{text:?}");
        if progress.is_ok() {
            assert_eq!(whole.body_bytes(), pieces.body_bytes(), "{text:?}");
        }
        (progress, whole)
    }

    #[test]
    fn a_body_of_known_length() {
        let (progress, reply) = read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false);
        assert_eq!(progress, Ok(ReplyProgress::Whole));
        assert_eq!((reply.status, reply.body_bytes()), (200, 5));
        assert!(reply.keeps);
        let (progress, _) = read("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", false);
        assert_eq!(progress, Ok(ReplyProgress::Partial));
        let (progress, _) = read("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhello", false);
        assert_eq!(progress, Err(MalformedReply), "more than it said");
    }

    #[test]
    fn a_chunked_body() {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                    5\r\nhello\r\nA;name=value\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
        let (progress, reply) = read(text, false);
        assert_eq!(progress, Ok(ReplyProgress::Whole));
        assert_eq!(reply.body_bytes(), 15);
        for bad in ["\r\n", "x\r\n", "5\r\nhelloX", "11111111111111111\r\n"] {
            let text = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{bad}");
            assert_eq!(read(&text, false).0, Err(MalformedReply), "{bad:?}");
        }
    }

    #[test]
    fn a_body_until_the_end() {
        let (progress, reply) = read("HTTP/1.0 200 OK\r\n\r\nhello", false);
        assert_eq!(progress, Ok(ReplyProgress::Partial));
        assert!(!reply.keeps);
        assert_eq!(reply.close(), ReplyProgress::Whole);
        let (_, cut) = read("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", false);
        assert_eq!(cut.close(), ReplyProgress::Partial);
    }

    #[test]
    fn replies_without_a_body() {
        for text in [
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        ] {
            assert_eq!(read(text, false).0, Ok(ReplyProgress::Whole), "{text:?}");
        }
        let (progress, _) = read("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true);
        assert_eq!(progress, Ok(ReplyProgress::Whole), "to HEAD");
    }

    #[test]
    fn who_closes_says_so() {
        let keeps = |head: &str| {
            let text = format!("{head}\r\nContent-Length: 0\r\n\r\n");
            read(&text, false).1.keeps
        };
        assert!(keeps("HTTP/1.1 200 OK"));
        assert!(!keeps("HTTP/1.1 200 OK\r\nConnection: Close"));
        assert!(!keeps("HTTP/1.0 200 OK"));
        assert!(keeps("HTTP/1.0 200 OK\r\nConnection: keep-alive"));
    }

    #[test]
    fn what_is_no_reply() {
        assert_eq!(read("SSH-2.0-OpenSSH_9.2\r\n", false).0, Err(MalformedReply));
        let twice = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n";
        assert_eq!(read(twice, false).0, Err(MalformedReply));
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(HEAD_BYTES_MAX - 22));
        let mut reply = ReplyReader::new(false);
        assert_eq!(reply.take(endless.as_bytes()), Ok(ReplyProgress::Partial));
        assert_eq!(reply.take(b"aaa"), Err(MalformedReply), "an endless head");
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let trailers = format!("{chunked}0\r\n{}", "a: b\r\n".repeat(20_000));
        assert_eq!(read(&trailers, false).0, Err(MalformedReply));
        let cookies = "Set-Cookie: a\r\n b\r\n".repeat(90) + &format!("A: {}", "a".repeat(40_000));
        let long = format!("HTTP/1.1 200 OK\r\n{cookies}\r\nContent-Length: 0\r\n\r\n");
        let mut reply = ReplyReader::new(false);
        assert_eq!(reply.take(long.as_bytes()), Ok(ReplyProgress::Whole));
        let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(17);
        assert_eq!(read(&interim, false).0, Err(MalformedReply));
    }
}
