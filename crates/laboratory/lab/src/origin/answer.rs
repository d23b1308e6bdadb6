//! Makes the test server's replies: heads and bodies, and downloads until a client ends them.

use std::io::{IoSlice, Write};
use std::time::Duration;

use wire::http::HeadFault;

use super::request::{OriginContent, OriginMethod, OriginRequest, QueryFault};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct OriginReply {
    pub(super) code: u16,
    pub(super) framing: BodyFraming,
    /// The body; with [`BodyFraming::Absent`], the body of the reply to a GET.
    pub(super) content: OriginContent,
    pub(super) delay: Duration,
    pub(super) persistence: Persistence,
}

/// How the body of a reply is delimited.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BodyFraming {
    Length,
    Chunked,
    /// Delimited by the end of the connection: HTTP/1.0 has no chunks.
    Connection,
    /// The body is not sent: HEAD.
    Absent,
    /// No body is allowed: 204, 304.
    Forbidden,
}

/// Whether the connection stays open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Persistence {
    /// Stays open, the default.
    Keep,
    /// Stays open, which HTTP/1.0 announces in a field.
    KeepSaid,
    Close,
}

impl OriginReply {
    pub(super) fn to(request: &OriginRequest) -> Self {
        let query = match (request.method, request.query) {
            (OriginMethod::Other, _) => {
                return Self::refusal(405, "Only GET, HEAD, POST and PUT.\n");
            }
            (_, Err(fault)) => return Self::to_query_fault(fault, request),
            (_, Ok(query)) => query,
        };
        let framing = match query.code {
            204 | 304 => BodyFraming::Forbidden,
            _ if request.method == OriginMethod::Head => BodyFraming::Absent,
            // A short text is not worth chunks.
            _ if matches!(query.content, OriginContent::Text(_)) => BodyFraming::Length,
            _ if query.chunked && request.is_http10 => BodyFraming::Connection,
            _ if query.chunked => BodyFraming::Chunked,
            _ => BodyFraming::Length,
        };
        let goes_on = request.keeps_alive && !query.close && framing != BodyFraming::Connection;
        Self {
            code: query.code,
            framing,
            content: query.content,
            delay: query.delay,
            persistence: Persistence::of(goes_on, request.is_http10),
        }
    }

    fn to_query_fault(fault: QueryFault, request: &OriginRequest) -> Self {
        match fault {
            QueryFault::Unknown => Self {
                persistence: Persistence::of(request.keeps_alive, request.is_http10),
                framing: match request.method {
                    OriginMethod::Head => BodyFraming::Absent,
                    _ => BodyFraming::Length,
                },
                ..Self::refusal(404, "No such size. / shows what there is.\n")
            },
            QueryFault::Field(text) => Self::refusal(400, text),
        }
    }

    /// Returns the reply to a malformed request.
    pub(super) fn to_fault(fault: HeadFault) -> Self {
        match fault {
            HeadFault::Malformed(_) | HeadFault::Length => {
                Self::refusal(400, "No well-formed HTTP/1.1 request.\n")
            }
            HeadFault::TooLarge => Self::refusal(431, "At most 16 KiB and 100 fields.\n"),
            HeadFault::Version => Self::refusal(505, "HTTP/1.1 or HTTP/1.0.\n"),
            HeadFault::TransferCoding => Self::refusal(501, "No transfer coding but chunked.\n"),
            HeadFault::Expectation => Self::refusal(417, "No expectation but 100-continue.\n"),
        }
    }

    /// Returns a reply that ends the connection.
    pub(super) fn refusal(code: u16, text: &'static str) -> Self {
        Self {
            code,
            framing: BodyFraming::Length,
            content: OriginContent::Text(text),
            delay: Duration::ZERO,
            persistence: Persistence::Close,
        }
    }

    pub(super) fn write_head(&self, out: &mut Vec<u8>) {
        let mut say = |text: std::fmt::Arguments<'_>| {
            out.write_fmt(text).expect("memory takes what it is given");
        };
        say(format_args!("HTTP/1.1 {} {}\r\n", self.code, reason(self.code)));
        match self.framing {
            BodyFraming::Length | BodyFraming::Absent => {
                say(format_args!("Content-Length: {}\r\n", self.content.bytes()));
            }
            BodyFraming::Chunked => say(format_args!("Transfer-Encoding: chunked\r\n")),
            BodyFraming::Connection | BodyFraming::Forbidden => {}
        }
        if let OriginContent::Text(_) = self.content {
            say(format_args!("Content-Type: text/plain\r\n"));
        }
        if self.code == 405 {
            say(format_args!("Allow: GET, HEAD, POST, PUT\r\n"));
        }
        match self.persistence {
            Persistence::Keep => {}
            Persistence::KeepSaid => say(format_args!("Connection: keep-alive\r\n")),
            Persistence::Close => say(format_args!("Connection: close\r\n")),
        }
        say(format_args!("\r\n"));
    }
}

impl Persistence {
    fn of(goes_on: bool, is_http10: bool) -> Self {
        match (goes_on, is_http10) {
            (false, _) => Self::Close,
            (true, true) => Self::KeepSaid,
            (true, false) => Self::Keep,
        }
    }
}

impl OriginContent {
    fn bytes(self) -> u64 {
        match self {
            Self::Pattern(bytes) => bytes,
            Self::Text(text) => text.len() as u64,
        }
    }
}

/// Returns the reason phrase of a common status (RFC 9110, section 15); others have none.
fn reason(code: u16) -> &'static str {
    match code {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        410 => "Gone",
        413 => "Content Too Large",
        417 => "Expectation Failed",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}

/// A prime, so that no power of two, the usual size of buffers, is a multiple of it.
const PERIOD: usize = 251;

const CHUNK_BYTES: u64 = 1 << 16;

/// The line before the data of a full chunk.
const CHUNK_LINE: &[u8] = b"10000\r\n";

const FRAME_BYTES: u64 = CHUNK_LINE.len() as u64 + CHUNK_BYTES + 2;

/// Contains a whole chunk from any offset in its first period.
static PATTERN: [u8; CHUNK_BYTES as usize + PERIOD] = pattern();

const fn pattern() -> [u8; CHUNK_BYTES as usize + PERIOD] {
    let mut bytes = [0; CHUNK_BYTES as usize + PERIOD];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = (at % PERIOD) as u8;
        at += 1;
    }
    bytes
}

/// Returns up to `wanted` bytes of a body from an offset on; at least one unless `wanted` is 0.
#[inline]
pub(super) fn bytes_at(offset: u64, wanted: u64) -> &'static [u8] {
    let rest = &PATTERN[(offset % PERIOD as u64) as usize..];
    &rest[..wanted.min(rest.len() as u64) as usize]
}

/// A body that is partly still to be sent, with its framing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Download {
    sent_bytes: u64,
    form: DownloadForm,
}

#[derive(Clone, Copy, Debug)]
enum DownloadForm {
    Plain { bytes: u64 },
    Chunked { bytes: u64, last: ChunkEnd },
}

/// The line before the last, partial chunk; empty if there is none.
#[derive(Clone, Copy, Debug)]
struct ChunkEnd {
    text: [u8; 6],
    length: u8,
}

/// Slices of one write. With the pattern's length that is a mebibyte, more than sockets take.
pub(super) const SLICES_MAX: usize = 16;

impl Download {
    pub(super) fn plain(bytes: u64) -> Self {
        Self { sent_bytes: 0, form: DownloadForm::Plain { bytes } }
    }

    pub(super) fn chunked(bytes: u64) -> Self {
        let last = ChunkEnd::new(bytes % CHUNK_BYTES);
        Self { sent_bytes: 0, form: DownloadForm::Chunked { bytes, last } }
    }

    /// Counts bytes as sent.
    pub(super) fn advance(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
    }

    pub(super) fn is_done(&self) -> bool {
        self.piece_at(self.sent_bytes).is_empty()
    }

    /// Points `slices` at the next bytes, and returns how many slices it uses.
    pub(super) fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut at = self.sent_bytes;
        for (count, slice) in slices.iter_mut().enumerate() {
            let piece = self.piece_at(at);
            if piece.is_empty() {
                return count;
            }
            at += piece.len() as u64;
            *slice = IoSlice::new(piece);
        }
        slices.len()
    }

    /// Returns the rest of the piece at a position of the framed body; empty at its end.
    fn piece_at(&self, at: u64) -> &[u8] {
        match &self.form {
            DownloadForm::Plain { bytes } => bytes_at(at, bytes - at),
            DownloadForm::Chunked { bytes, last } => {
                let (index, within) = (at / FRAME_BYTES, at % FRAME_BYTES);
                let full = bytes / CHUNK_BYTES;
                if index < full {
                    return framed(CHUNK_LINE, index * CHUNK_BYTES, CHUNK_BYTES, b"\r\n", within);
                }
                let ending: &[u8] = match last.line() {
                    [] => b"0\r\n\r\n",
                    _ => b"\r\n0\r\n\r\n",
                };
                let within = at - full * FRAME_BYTES;
                framed(last.line(), full * CHUNK_BYTES, bytes % CHUNK_BYTES, ending, within)
            }
        }
    }
}

/// Returns the bytes from `at` on of a line, `bytes` of the pattern from `offset`, and an ending.
fn framed<'a>(line: &'a [u8], offset: u64, bytes: u64, ending: &'a [u8], at: u64) -> &'a [u8] {
    let Some(in_data) = at.checked_sub(line.len() as u64) else {
        return &line[at as usize..];
    };
    match in_data.checked_sub(bytes) {
        None => bytes_at(offset + in_data, bytes - in_data),
        Some(in_ending) => ending.get(in_ending as usize..).unwrap_or_default(),
    }
}

impl ChunkEnd {
    /// Makes the line of a chunk of that many bytes, fewer than [`CHUNK_BYTES`].
    fn new(bytes: u64) -> Self {
        let mut end = Self { text: [0; 6], length: 0 };
        if bytes > 0 {
            let mut rest = &mut end.text[..];
            write!(rest, "{bytes:x}\r\n").expect("four digits at most");
            end.length = 6 - rest.len() as u8;
        }
        end
    }

    fn line(&self) -> &[u8] {
        &self.text[..usize::from(self.length)]
    }
}

#[cfg(test)]
mod tests {
    use crate::origin::request::parse;

    use super::*;

    fn answer(lines: &str) -> OriginReply {
        let bytes = format!("{}\r\n\r\n", lines.replace('\n', "\r\n"));
        match parse(bytes.as_bytes()) {
            Ok(Some((_, request))) => OriginReply::to(&request),
            other => panic!("{lines:?}: {other:?}"),
        }
    }

    fn head(lines: &str) -> (String, u64) {
        let answer = answer(lines);
        let mut out = Vec::new();
        answer.write_head(&mut out);
        (String::from_utf8(out).unwrap(), body_bytes(&answer))
    }

    fn body_bytes(answer: &OriginReply) -> u64 {
        match answer.framing {
            BodyFraming::Absent | BodyFraming::Forbidden => 0,
            _ => answer.content.bytes(),
        }
    }

    #[test]
    fn the_usual_reply_is_short() {
        let (text, body) = head("GET /1k HTTP/1.1\nHost: a");
        assert_eq!(text, "HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n");
        assert_eq!(body, 1024);
    }

    #[test]
    fn heads_of_get_and_head_are_alike() {
        for path in ["/1k", "/", "/nothing"] {
            let (get, get_body) = head(&format!("GET {path} HTTP/1.1\nHost: a"));
            let (alike, body) = head(&format!("HEAD {path} HTTP/1.1\nHost: a"));
            assert_eq!(get, alike, "{path}");
            assert!(get_body > 0);
            assert_eq!(body, 0);
        }
    }

    #[test]
    fn refusals_say_why_and_end_the_connection() {
        for (lines, code) in [
            ("GET /?size=x HTTP/1.1\nHost: a", 400),
            ("GET /?time=x HTTP/1.1\nHost: a", 400),
            ("GET /?code=1 HTTP/1.1\nHost: a", 400),
            ("GET /?close=x HTTP/1.1\nHost: a", 400),
            ("DELETE /1k HTTP/1.1\nHost: a", 405),
        ] {
            let answer = answer(lines);
            assert_eq!(answer.code, code, "{lines}");
            assert_eq!(answer.persistence, Persistence::Close);
            assert!(body_bytes(&answer) > 0);
        }
        assert!(head("DELETE /1k HTTP/1.1\nHost: a").0.contains("\r\nAllow: GET"));
        let unknown = answer("GET /index.html HTTP/1.1\nHost: a");
        assert_eq!((unknown.code, unknown.persistence), (404, Persistence::Keep));
        for (fault, code) in [
            (HeadFault::Malformed("no Host field"), 400),
            (HeadFault::TooLarge, 431),
            (HeadFault::Version, 505),
            (HeadFault::TransferCoding, 501),
            (HeadFault::Expectation, 417),
        ] {
            assert_eq!(OriginReply::to_fault(fault).code, code);
        }
    }

    fn body(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at % 251) as u8).collect()
    }

    fn chunks(bytes: usize) -> Vec<u8> {
        let mut framed = Vec::new();
        for chunk in body(bytes).chunks(CHUNK_BYTES as usize) {
            framed.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            framed.extend(chunk);
            framed.extend(b"\r\n");
        }
        framed.extend(b"0\r\n\r\n");
        framed
    }

    /// Sends a download in pieces of `taken` bytes and returns all bytes.
    fn sent(mut download: Download, taken: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while !download.is_done() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = download.fill(&mut slices);
            let offered: Vec<u8> =
                slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            let taken = &offered[..taken.min(offered.len())];
            assert!(!taken.is_empty());
            all.extend(taken);
            download.advance(taken.len() as u64);
        }
        all
    }

    const SIZES: [usize; 10] =
        [0, 1, 15, 16, 250, 4096, 65_535, 65_536, 65_537, 3 * 65_536 + 0xabc];

    #[test]
    fn chunks_are_framed_wherever_a_write_ends() {
        for bytes in SIZES {
            for taken in [1001, 65_540, usize::MAX] {
                let all = sent(Download::chunked(bytes as u64), taken);
                assert!(all == chunks(bytes), "{bytes} bytes, {taken} at a time");
            }
        }
        assert_eq!(sent(Download::chunked(20), 1), chunks(20));
    }

    #[test]
    fn a_write_offers_a_mebibyte() {
        let download = Download::plain(1 << 40);
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        assert_eq!(download.fill(&mut slices), SLICES_MAX);
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        assert!(offered >= 1 << 20);
    }

    #[test]
    fn the_largest_body_has_room_for_its_framing() {
        let mut download = Download::chunked(1 << 60);
        let frames = (1u64 << 60) / CHUNK_BYTES;
        download.advance(frames * FRAME_BYTES);
        assert!(!download.is_done());
        download.advance(5);
        assert!(download.is_done());
    }
}
