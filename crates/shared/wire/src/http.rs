//! Heads of HTTP/1.1 messages (RFC 9112, by `httparse`), and where their content ends.
//!
//! Owns limits, framing and persistence, read in the strictest way: what two readers could
//! understand in two ways is a fault. Other fields are handed out as they were sent.

mod authority;
mod content;

pub use authority::host_and_port;
pub use content::{Content, ContentEnd, ContentFault};

use std::borrow::Cow;
use std::mem::MaybeUninit;

use httparse::Header as Field;

/// The largest number of fields of a head, as in Apache.
pub const FIELDS_MAX: usize = 100;

/// The end of the status code in a status line.
const CODE_END: usize = "HTTP/1.1 200".len();

/// The head of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestHead<'a> {
    pub bytes: usize,
    /// The method, as it was sent.
    pub method: &'a str,
    /// The request target, as it was sent.
    pub target: &'a str,
    /// Whether the version is HTTP/1.0.
    pub is_http10: bool,
    /// The value of `Host`, which only HTTP/1.0 may lack.
    pub host: Option<&'a [u8]>,
    /// The end of its content; never [`ContentEnd::Close`].
    pub content: ContentEnd,
    /// Whether the client takes further responses on the connection.
    pub keeps_alive: bool,
    /// Whether the client waits for a 100 before it sends the content (RFC 9110 section 10.1.1).
    pub expects_continue: bool,
}

/// The head of a response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ResponseHead {
    pub bytes: usize,
    pub status: u16,
    pub content: ContentEnd,
    /// Whether the server takes further requests on the connection.
    pub keeps_alive: bool,
}

/// Bytes are no head of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HeadFault {
    /// They are not HTTP/1.1, or could be read in two ways; what is wrong with them.
    Malformed(&'static str),
    /// More bytes than are allowed, or more than [`FIELDS_MAX`] fields.
    TooLarge,
    /// The `Content-Length` of a response says no length, or several.
    Length,
    Version,
    /// A request with a transfer coding other than `chunked`.
    TransferCoding,
    /// An expectation other than `100-continue`.
    Expectation,
}

impl<'a> RequestHead<'a> {
    /// Reads the head at the beginning of `bytes`, and nothing while it is incomplete. `other` gets
    /// the name and the value of each field that is not in [`RequestHead`].
    ///
    /// # Errors
    /// [`HeadFault`]; too large is a head of more than `bytes_max` bytes.
    pub fn parse(
        bytes: &'a [u8],
        bytes_max: usize,
        mut other: impl FnMut(&'a str, &'a [u8]),
    ) -> Result<Option<Self>, HeadFault> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut room;
        let mut head = httparse::Request::new(&mut []);
        let mut parsed = head.parse_with_uninit_headers(bytes, &mut fields);
        let mut fields: &[Field<'_>] = head.headers;
        if parsed == Err(httparse::Error::Version)
            && let Some(line) = line_of_later_minor(bytes)
        {
            room = [httparse::EMPTY_HEADER; FIELDS_MAX];
            (parsed, fields) = fields_behind(line, bytes, &mut room);
        }
        let Some(length) = length(parsed, bytes, bytes_max)? else {
            return Ok(None);
        };
        let (Some(method), Some(target)) = (head.method, head.path) else {
            return Err(HeadFault::Malformed("the request line is malformed"));
        };
        let is_http10 = head.version == Some(0);
        let mut framing = Framing::default();
        for field in fields {
            if !framing.take(field.name, field.value)? {
                other(field.name, field.value.trim_ascii());
            }
        }
        if framing.host.is_none() && !is_http10 {
            return Err(HeadFault::Malformed("no Host field"));
        }
        // An expectation of HTTP/1.0 is ignored (RFC 9110 section 10.1.1).
        if framing.expects_other && !is_http10 {
            return Err(HeadFault::Expectation);
        }
        Ok(Some(Self {
            bytes: length,
            method,
            target,
            is_http10,
            host: framing.host,
            content: framing.content_of_request(is_http10)?,
            keeps_alive: framing.keeps_alive(is_http10),
            expects_continue: framing.expects_continue && !is_http10,
        }))
    }
}

impl ResponseHead {
    /// Reads the head at the beginning of `bytes`, and nothing while it is incomplete. `to_head` =
    /// it answers `HEAD`, and so has no content whatever it says.
    ///
    /// # Errors
    /// [`HeadFault`]; too large is a head of more than `bytes_max` bytes.
    pub fn parse(bytes: &[u8], bytes_max: usize, to_head: bool) -> Result<Option<Self>, HeadFault> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut head = httparse::Response::new(&mut []);
        let mut parser = httparse::ParserConfig::default();
        // A client must take a folded line for spaces (RFC 9112 section 5.2): they
        // are trimmed off the elements of what counts here.
        parser.allow_obsolete_multiline_headers_in_responses(true);
        let bytes = &*with_known_minor(bytes);
        let parsed = parser.parse_response_with_uninit_headers(&mut head, bytes, &mut fields);
        let Some(length) = length(parsed, bytes, bytes_max)? else {
            return Ok(None);
        };
        let status = head.code.ok_or(HeadFault::Malformed("no status code"))?;
        let mut framing = Framing::default();
        for field in head.headers.iter() {
            framing.take(field.name, field.value)?;
        }
        let content = match status {
            100..200 | 204 | 304 => ContentEnd::Length(0),
            _ if to_head => ContentEnd::Length(0),
            _ => framing.content_of_response()?,
        };
        let keeps_alive = framing.keeps_alive(head.version == Some(0));
        Ok(Some(Self {
            bytes: length,
            status,
            content,
            keeps_alive: keeps_alive && content != ContentEnd::Close,
        }))
    }
}

/// The status code of a response that begins with these bytes, once they show where it ends.
///
/// # Errors
/// [`HeadFault`].
pub fn status_code(beginning: &[u8]) -> Result<Option<u16>, HeadFault> {
    let mut head = httparse::Response::new(&mut []);
    match head.parse(&with_known_minor(beginning)) {
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            Ok(head.code.filter(|_| beginning.len() > CODE_END))
        }
        Err(error) => Err(fault(error, beginning)),
    }
}

/// A decimal number without a sign. One that is too large becomes the largest, since nothing has
/// that length.
pub fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| {
        let digit = u64::from(digit - b'0');
        sum.saturating_mul(10).saturating_add(digit)
    };
    Some(digits.iter().fold(0, add))
}

/// The length of a head, if it is complete.
fn length(
    parsed: httparse::Result<usize>,
    bytes: &[u8],
    bytes_max: usize,
) -> Result<Option<usize>, HeadFault> {
    match parsed {
        Ok(httparse::Status::Complete(length)) if length <= bytes_max => Ok(Some(length)),
        Ok(httparse::Status::Partial) if bytes.len() < bytes_max => Ok(None),
        Ok(_) => Err(HeadFault::TooLarge),
        Err(error) => Err(fault(error, bytes)),
    }
}

/// The end of a request line, as far as it is here, of a minor version of HTTP/1 that is later than
/// those known. It counts as 1.1 (RFC 9110 section 2.5).
fn line_of_later_minor(bytes: &[u8]) -> Option<httparse::Status<usize>> {
    let begin = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let line = bytes[begin..].split_inclusive(|byte| *byte == b'\n').next()?;
    let whole = line.strip_suffix(b"\n");
    let text = whole.unwrap_or(line);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let (last, text) = text.split_last()?;
    let is_later = text.ends_with(b" HTTP/1.") && (b'2'..=b'9').contains(last);
    let end = match whole {
        Some(_) => httparse::Status::Complete(begin + line.len()),
        None => httparse::Status::Partial,
    };
    is_later.then_some(end)
}

/// A response of which the same is true, as one of HTTP/1.1.
fn with_known_minor(bytes: &[u8]) -> Cow<'_, [u8]> {
    match bytes.strip_prefix(b"HTTP/1.") {
        Some([b'2'..=b'9', rest @ ..]) => [b"HTTP/1.1", rest].concat().into(),
        _ => bytes.into(),
    }
}

/// Reads the fields behind a request line, and how long the head is with them.
fn fields_behind<'a, 'h>(
    line: httparse::Status<usize>,
    bytes: &'a [u8],
    room: &'h mut [Field<'a>],
) -> (httparse::Result<usize>, &'h [Field<'a>]) {
    let httparse::Status::Complete(begin) = line else {
        return (Ok(httparse::Status::Partial), &[]);
    };
    match httparse::parse_headers(&bytes[begin..], room) {
        Ok(httparse::Status::Complete((length, fields))) => {
            (Ok(httparse::Status::Complete(begin + length)), fields)
        }
        Ok(httparse::Status::Partial) => (Ok(httparse::Status::Partial), &[]),
        Err(error) => (Err(error), &[]),
    }
}

fn fault(error: httparse::Error, head: &[u8]) -> HeadFault {
    use httparse::Error;
    HeadFault::Malformed(match error {
        Error::TooManyHeaders => return HeadFault::TooLarge,
        Error::Version if names_version(head) => return HeadFault::Version,
        Error::Version => "no HTTP version",
        Error::HeaderName => "the name of a field is malformed",
        Error::HeaderValue => "the value of a field is malformed",
        Error::Status => "the status line is malformed",
        _ => "the request line is malformed",
    })
}

/// Whether the first line names a version of HTTP, where a response or a request has it.
fn names_version(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let is_version = |word: &[u8]| match word.strip_prefix(b"HTTP/") {
        Some([major, b'.', minor]) => major.is_ascii_digit() && minor.is_ascii_digit(),
        _ => false,
    };
    let mut words = line.splitn(3, |byte| *byte == b' ');
    words.next().is_some_and(is_version) || words.nth(1).is_some_and(is_version)
}

/// The fields that say where a message ends and what comes after it (RFC 9112 sections 3.2, 6, 9).
#[derive(Default)]
struct Framing<'a> {
    host: Option<&'a [u8]>,
    length: Option<Result<u64, HeadFault>>,
    has_lengths: bool,
    codings: usize,
    ends_chunked: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
    expects_other: bool,
}

impl<'a> Framing<'a> {
    /// Whether the field was one of them. Most are not, which their length shows at once.
    fn take(&mut self, name: &str, value: &'a [u8]) -> Result<bool, HeadFault> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match name.len() {
            4 if is("host") => self.take_host(value.trim_ascii())?,
            6 if is("expect") => {
                let known = value.trim_ascii().eq_ignore_ascii_case(b"100-continue");
                self.expects_continue |= known;
                self.expects_other |= !known;
            }
            10 if is("connection") => {
                for option in elements(value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if is("content-length") => self.take_length(value),
            17 if is("transfer-encoding") => {
                for coding in elements(value) {
                    self.codings += 1;
                    self.ends_chunked = coding.eq_ignore_ascii_case(b"chunked");
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take_host(&mut self, value: &'a [u8]) -> Result<(), HeadFault> {
        if !value.is_empty() && host_and_port(value).is_none() {
            return Err(HeadFault::Malformed("the Host field is malformed"));
        }
        match self.host.replace(value) {
            Some(_) => Err(HeadFault::Malformed("more than one Host field")),
            None => Ok(()),
        }
    }

    /// A list of one value is that value, as fields in a row are (RFC 9112 section 6.3).
    fn take_length(&mut self, value: &[u8]) {
        let fault = HeadFault::Malformed("the Content-Length field is malformed");
        let mut all = elements(value).filter(|one| !one.is_empty()).map(decimal);
        let first = all.next().flatten();
        let is_one = all.all(|other| other == first);
        let is_same = self.length.is_none_or(|before| before.ok() == first);
        self.has_lengths |= self.length.is_some() || value.contains(&b',');
        self.length = Some(first.filter(|_| is_one && is_same).ok_or(fault));
    }

    /// Chunks in HTTP/1.0 are faulty framing, behind which nothing is trusted (RFC 9112 section
    /// 6.1).
    fn keeps_alive(&self, is_http10: bool) -> bool {
        !self.close && (!is_http10 || self.keep_alive && self.codings == 0)
    }

    /// Both framings at once, or chunks in HTTP/1.0, are used to smuggle requests (RFC 9112
    /// section 11.2).
    fn content_of_request(&self, is_http10: bool) -> Result<ContentEnd, HeadFault> {
        if self.has_lengths {
            return Err(HeadFault::Malformed("more than one Content-Length"));
        }
        match (self.codings, self.length.transpose()?) {
            (0, length) => Ok(ContentEnd::Length(length.unwrap_or(0))),
            (1, None) if self.ends_chunked && !is_http10 => Ok(ContentEnd::Chunked),
            (1, _) if self.ends_chunked => {
                Err(HeadFault::Malformed("Transfer-Encoding beside Content-Length, or in HTTP/1.0"))
            }
            _ => Err(HeadFault::TransferCoding),
        }
    }

    fn content_of_response(&self) -> Result<ContentEnd, HeadFault> {
        match self.length {
            _ if self.ends_chunked => Ok(ContentEnd::Chunked),
            Some(length) if self.codings == 0 => {
                length.map(ContentEnd::Length).map_err(|_| HeadFault::Length)
            }
            _ => Ok(ContentEnd::Close),
        }
    }
}

/// The elements of a list (RFC 9110 section 5.6.1).
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 16 * 1024;

    fn with_head<T>(text: &str, read: impl FnOnce(&RequestHead<'_>) -> T) -> Result<T, HeadFault> {
        let head = RequestHead::parse(text.as_bytes(), BYTES_MAX, |_, _| {})?;
        let head = head.expect("a complete head");
        assert_eq!(head.bytes, text.len());
        Ok(read(&head))
    }

    fn request<T>(
        line: &str,
        fields: &str,
        read: impl FnOnce(&RequestHead<'_>) -> T,
    ) -> Result<T, HeadFault> {
        let fields = fields.split('\n').filter(|field| !field.is_empty());
        let lines: String = fields.map(|field| format!("{field}\r\n")).collect();
        with_head(&format!("{line}\r\n{lines}\r\n"), read)
    }

    fn response(text: &str, to_head: bool) -> Result<(ContentEnd, bool), HeadFault> {
        let text = text.replace('\n', "\r\n") + "\r\n\r\n";
        let head = ResponseHead::parse(text.as_bytes(), BYTES_MAX, to_head)?;
        let head = head.expect("a complete head");
        Ok((head.content, head.keeps_alive))
    }

    #[test]
    fn a_request_is_read_when_it_is_complete() {
        let text = b"PUT /a?b HTTP/1.1\r\nHost: a:80\r\nA:  b \r\nContent-Length: 7\r\n\r\nGET";
        let end = text.len() - 3;
        for length in 0..end {
            let part = RequestHead::parse(&text[..length], BYTES_MAX, |_, _| {});
            assert_eq!(part, Ok(None), "{length}");
        }
        let mut other = Vec::new();
        let head = RequestHead::parse(text, BYTES_MAX, |name, value| other.push((name, value)));
        let expected = RequestHead {
            bytes: end,
            method: "PUT",
            target: "/a?b",
            is_http10: false,
            host: Some(b"a:80"),
            content: ContentEnd::Length(7),
            keeps_alive: true,
            expects_continue: false,
        };
        assert_eq!(head, Ok(Some(expected)));
        assert_eq!(other, [("A", &b"b"[..])]);
    }

    #[test]
    fn connections_persist_as_the_version_has_it() {
        let cases = [
            ("HTTP/1.1", "", true),
            ("HTTP/1.1", "Connection: close", false),
            ("HTTP/1.1", "Connection: x, CLOSE", false),
            ("HTTP/1.1", "Connection: keep-alive\nConnection: close", false),
            ("HTTP/1.0", "", false),
            ("HTTP/1.0", "connection: Keep-Alive", true),
            ("HTTP/1.0", "Connection: keep-alive, close", false),
        ];
        for (version, fields, expected) in cases {
            let all = format!("Host: a\nContent-Length: 0\n{fields}");
            let line = format!("GET / {version}");
            assert_eq!(request(&line, &all, |head| head.keeps_alive), Ok(expected));
            let text = format!("{version} 200 OK\n{}", all.trim_end());
            assert_eq!(response(&text, false), Ok((ContentEnd::Length(0), expected)));
        }
    }

    #[test]
    fn a_response_of_a_later_minor_version_counts_as_one_that_is_known() {
        let text = "HTTP/1.2 200 OK\nContent-Length: 7";
        assert_eq!(response(text, false), Ok((ContentEnd::Length(7), true)));
        for major in ["2.1", "0.9", "1.x"] {
            let text = format!("HTTP/{major} 200 OK\nContent-Length: 7");
            assert!(response(&text, false).is_err(), "{major}");
        }
    }

    #[test]
    fn a_folded_line_of_a_response_counts_as_spaces() {
        let folded = "HTTP/1.1 200 OK\nContent-Length:\n 7\nA: b\n\tc\nConnection: x,\n close";
        assert_eq!(response(folded, false), Ok((ContentEnd::Length(7), false)));
        let faulty = response("HTTP/1.1 200 OK\n A: b", false);
        assert!(matches!(faulty, Err(HeadFault::Malformed(_))), "{faulty:?}");
        let length = "HTTP/1.1 200 OK\nContent-Length: 1\n 2";
        assert_eq!(response(length, false), Err(HeadFault::Length));
    }

    #[test]
    fn requests_are_framed_in_one_way() {
        let malformed = [
            "Content-Length: 3\nContent-Length: 3",
            "Content-Length: 0\nContent-Length: 44",
            "Content-Length: 3, 3",
            "Content-Length: 0, 44",
            "Content-Length: -1",
            "Content-Length: +3",
            "Content-Length: 3,",
            "Content-Length: 0x3",
            "Content-Length:",
            "Content-Length : 3",
            " Content-Length: 3",
            "Transfer-Encoding : chunked",
            "Content-Length: 7\nTransfer-Encoding: chunked",
            "Host: b",
            "A: b\n c",
            "A: b\rc",
            "A: b\0c",
            "A",
            ": b",
            "A b: c",
        ];
        for fields in malformed {
            let fault = request("POST / HTTP/1.1", &format!("Host: a\n{fields}"), |_| ());
            assert!(matches!(fault, Err(HeadFault::Malformed(_))), "{fields:?}: {fault:?}");
        }
        let huge = "Content-Length: 99999999999999999999";
        let cases = [
            ("", Ok(ContentEnd::Length(0))),
            ("Content-Length: 7", Ok(ContentEnd::Length(7))),
            (huge, Ok(ContentEnd::Length(u64::MAX))),
            ("Transfer-Encoding: Chunked", Ok(ContentEnd::Chunked)),
            ("Transfer-Encoding: identity", Err(HeadFault::TransferCoding)),
            ("Transfer-Encoding: gzip, chunked", Err(HeadFault::TransferCoding)),
            (
                "Transfer-Encoding: chunked\nTransfer-Encoding: chunked",
                Err(HeadFault::TransferCoding),
            ),
        ];
        for (fields, expected) in cases {
            let fields = format!("Host: a\n{fields}");
            let found = request("POST / HTTP/1.1", &fields, |head| head.content);
            assert_eq!(found, expected, "{fields}");
        }
        let old = request("POST / HTTP/1.0", "Transfer-Encoding: chunked", |_| ());
        assert!(matches!(old, Err(HeadFault::Malformed(_))));
    }

    #[test]
    fn responses_end_as_they_say() {
        let chunked = "\nContent-Length: 5\nTransfer-Encoding: gzip, chunked";
        let cases = [
            ("200 OK", "\nContent-Length: 5", ContentEnd::Length(5), true),
            ("200 OK", chunked, ContentEnd::Chunked, true),
            ("200 OK", "\nTransfer-Encoding: gzip", ContentEnd::Close, false),
            ("200 OK", "", ContentEnd::Close, false),
            ("200", "\nContent-Length: 6, 6", ContentEnd::Length(6), true),
            ("200 ", "\nContent-Length: 6\nContent-Length: 6", ContentEnd::Length(6), true),
            (
                "200 OK",
                "\nContent-Length: x\nTransfer-Encoding: chunked",
                ContentEnd::Chunked,
                true,
            ),
            ("204 No Content", "\nContent-Length: x", ContentEnd::Length(0), true),
            ("304 Not Modified", "\nContent-Length: 9", ContentEnd::Length(0), true),
            ("100 Continue", "", ContentEnd::Length(0), true),
        ];
        for (status, fields, content, keeps_alive) in cases {
            let text = format!("HTTP/1.1 {status}{fields}");
            assert_eq!(response(&text, false), Ok((content, keeps_alive)), "{text}");
            assert_eq!(response(&text, true), Ok((ContentEnd::Length(0), true)), "{text}");
        }
        for length in
            ["1\nContent-Length: 2", "1, 2", "6, x", "", ",", "+1", "-1", "0x1", "1 1", "x"]
        {
            let text = format!("HTTP/1.1 200 OK\nContent-Length: {length}");
            assert_eq!(response(&text, false), Err(HeadFault::Length), "{length}");
            assert!(response(&text, true).is_ok(), "{length}");
        }
        let old = "HTTP/1.0 200 OK\nConnection: keep-alive\nTransfer-Encoding: chunked";
        assert_eq!(response(old, false), Ok((ContentEnd::Chunked, false)));
        let ssh = ResponseHead::parse(b"SSH-2.0-OpenSSH_9.2\r\n", BYTES_MAX, false);
        assert!(matches!(ssh, Err(HeadFault::Malformed(_))));
    }

    #[test]
    fn expectations_are_met_or_refused() {
        let cases = [
            ("HTTP/1.1", "100-Continue", Ok(true)),
            ("HTTP/1.0", "100-continue", Ok(false)),
            ("HTTP/1.1", "a-pony", Err(HeadFault::Expectation)),
            ("HTTP/1.0", "a-pony", Ok(false)),
        ];
        for (version, expectation, expected) in cases {
            let fields = format!("Host: a\nExpect: {expectation}");
            let found = request(&format!("PUT / {version}"), &fields, |head| head.expects_continue);
            assert_eq!(found, expected, "{version} {expectation}");
        }
    }

    #[test]
    fn bytes_that_are_no_request_are_refused() {
        let version = Err(HeadFault::Version);
        assert_eq!(request("PRI * HTTP/2.0", "", |_| ()), version);
        assert_eq!(request("GET / HTTP/0.9", "Host: a", |_| ()), version);
        let lines = [
            "hello",
            "GET / HTTP/1.1",
            "GET  / HTTP/1.1",
            "GET /a b HTTP/1.1",
            "GET\t/ HTTP/1.1",
            "GET /",
            "GET / HTTP/x.1",
            "GET / http/1.1",
            "G(T / HTTP/1.1",
            "\x16\x03\x01\x02\0\x01",
        ];
        for line in lines {
            let fault = request(line, "", |_| ());
            assert!(matches!(fault, Err(HeadFault::Malformed(_))), "{line:?}: {fault:?}");
        }
        assert_eq!(request("GET / HTTP/1.0", "", |_| ()), Ok(()));
    }

    #[test]
    fn a_later_minor_version_counts_as_the_one_that_is_known() {
        let text = "\r\nPOST /x HTTP/1.2\r\nHost: a\r\nA: b\r\nContent-Length: 7\r\n\r\n";
        let mut others = Vec::new();
        let mut parse = |bytes: &'static str| {
            let keep = |name, value: &[u8]| others.push((name, value.to_vec()));
            RequestHead::parse(bytes.as_bytes(), BYTES_MAX, keep)
        };
        let cut = (10..text.len()).find(|end| parse(&text[..*end]) != Ok(None));
        assert_eq!(cut, None);
        let head = parse(text).unwrap().unwrap();
        assert_eq!((head.bytes, head.method, head.target), (text.len(), "POST", "/x"));
        assert_eq!((head.is_http10, head.keeps_alive), (false, true));
        assert_eq!(head.content, ContentEnd::Length(7));
        assert_eq!(others, [("A", b"b".to_vec())]);
        let fields = |count: usize| format!("Host: a{}", "\nA: b".repeat(count - 1));
        let with = |count| request("GET / HTTP/1.9", &fields(count), |_| ());
        assert_eq!(with(FIELDS_MAX), Ok(()));
        assert_eq!(with(FIELDS_MAX + 1), Err(HeadFault::TooLarge));
        for line in ["GET / HTTP/1.2x", "GET / HTTP/1.x", "GET / HTTP/1.22"] {
            let fault = request(line, "Host: a", |_| ());
            assert!(matches!(fault, Err(HeadFault::Malformed(_))), "{line}: {fault:?}");
        }
    }

    #[test]
    fn heads_have_limits() {
        let fields = |count: usize| format!("Host: a{}", "\nA: b".repeat(count - 1));
        let with = |count| request("GET / HTTP/1.1", &fields(count), |_| ());
        assert_eq!(with(FIELDS_MAX), Ok(()));
        assert_eq!(with(FIELDS_MAX + 1), Err(HeadFault::TooLarge));
        let mut long = b"GET / HTTP/1.1\r\nHost: a\r\nA: ".to_vec();
        long.resize(BYTES_MAX - 1, b'x');
        let parse = |bytes: &[u8]| RequestHead::parse(bytes, BYTES_MAX, |_, _| {}).map(|_| ());
        assert_eq!(parse(&long), Ok(()));
        for more in ["x", "\r\n\r\n"] {
            long.extend(more.as_bytes());
            assert_eq!(parse(&long), Err(HeadFault::TooLarge));
        }
    }

    #[test]
    fn a_status_code_is_read_as_soon_as_it_is_there() {
        let whole = b"HTTP/1.1 204 No Content\r\n";
        for length in 0..whole.len() {
            let expected = (length > CODE_END).then_some(204);
            assert_eq!(status_code(&whole[..length]), Ok(expected), "{length}");
        }
        assert_eq!(status_code(b"HTTP/1.0 503\r\nA: b\r\n"), Ok(Some(503)));
        assert_eq!(status_code(b"HTTP/1.2 503\r\nA: b\r\n"), Ok(Some(503)));
        for other in ["S", "SSH-2.0", "HTTP/2", "HTTP/1.1 2x0 OK", "HTTP/1.1 2000 "] {
            assert!(status_code(other.as_bytes()).is_err(), "{other}");
        }
    }
}
