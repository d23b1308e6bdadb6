//! Heads of HTTP/1.1 messages (RFC 9112, by `httparse`), the host and port that a request is for,
//! and the content of a message, which is read to its end and not kept.
//!
//! Handles limits, framing and persistence, in the strictest way: anything that two readers could
//! understand differently is a fault. Other fields are returned as they were sent.

use std::borrow::Cow;
use std::mem::MaybeUninit;
use std::net::Ipv6Addr;

use httparse::Header as Field;

/// Most fields of a head, as in Apache.
pub const FIELDS_MAX: usize = 100;

/// End of the status code in a status line.
const CODE_END: usize = "HTTP/1.1 200".len();

/// The head of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestHead<'a> {
    pub bytes: usize,
    /// Method, as it was sent.
    pub method: &'a str,
    /// Request target, as it was sent.
    pub target: &'a str,
    /// Whether the version is HTTP/1.0.
    pub is_http10: bool,
    /// Value of `Host`, which only HTTP/1.0 may lack.
    pub host: Option<&'a [u8]>,
    /// End of the content; never [`ContentEnd::Close`].
    pub content: ContentEnd,
    /// Whether the client accepts further responses on the connection.
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
    /// Whether the server accepts further requests on the connection.
    pub keeps_alive: bool,
}

/// Reason why bytes are no head of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HeadFault {
    /// Bytes that are not HTTP/1.1, or ambiguous, with a description.
    Malformed(&'static str),
    /// More bytes than allowed, or more than [`FIELDS_MAX`] fields.
    TooLarge,
    /// `Content-Length` of a response without a valid length, or with several.
    Length,
    Version,
    /// Transfer coding of a request other than `chunked`.
    TransferCoding,
    /// Expectation other than `100-continue`.
    Expectation,
}

impl<'a> RequestHead<'a> {
    /// Reads the head at the beginning of `bytes`; `None` while it is incomplete. `other` gets the
    /// name and the value of each field that is not in [`RequestHead`].
    ///
    /// # Errors
    /// Fails with [`HeadFault`]; a head of more than `bytes_max` bytes is too large.
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
        let mut framing = FramingFields::default();
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
    /// Reads the head at the beginning of `bytes`; `None` while it is incomplete. `to_head` = the
    /// response answers `HEAD`, and has no content whatever its fields say.
    ///
    /// # Errors
    /// Fails with [`HeadFault`]; a head of more than `bytes_max` bytes is too large.
    pub fn parse(bytes: &[u8], bytes_max: usize, to_head: bool) -> Result<Option<Self>, HeadFault> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut head = httparse::Response::new(&mut []);
        let mut parser = httparse::ParserConfig::default();
        // A client must treat a folded line as spaces (RFC 9112 section 5.2): they are trimmed off
        // the elements that matter here.
        parser.allow_obsolete_multiline_headers_in_responses(true);
        let bytes = &*with_known_minor(bytes);
        let parsed = parser.parse_response_with_uninit_headers(&mut head, bytes, &mut fields);
        let Some(length) = length(parsed, bytes, bytes_max)? else {
            return Ok(None);
        };
        let status = head.code.ok_or(HeadFault::Malformed("no status code"))?;
        let mut framing = FramingFields::default();
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

/// Returns the status code of a response that begins with these bytes, once its end is known.
///
/// # Errors
/// Fails with [`HeadFault`] if the status line is malformed.
pub fn status_code(beginning: &[u8]) -> Result<Option<u16>, HeadFault> {
    let mut head = httparse::Response::new(&mut []);
    match head.parse(&with_known_minor(beginning)) {
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            Ok(head.code.filter(|_| beginning.len() > CODE_END))
        }
        Err(error) => Err(fault(error, beginning)),
    }
}

/// Parses a decimal number without a sign. A number that is too large becomes the largest, because
/// no content has that length.
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

/// Returns the length of a head, if it is complete.
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

/// Returns the end of a request line, as far as received, if its minor version of HTTP/1 is later
/// than those known. Such a version counts as 1.1 (RFC 9110 section 2.5).
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

/// Replaces a later minor version in a response by HTTP/1.1.
fn with_known_minor(bytes: &[u8]) -> Cow<'_, [u8]> {
    match bytes.strip_prefix(b"HTTP/1.") {
        Some([b'2'..=b'9', rest @ ..]) => [b"HTTP/1.1", rest].concat().into(),
        _ => bytes.into(),
    }
}

/// Reads the fields behind a request line. Returns the head's length and the fields.
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

/// Reports whether the first line names an HTTP version, where a response or a request has it.
fn names_version(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let is_version = |word: &[u8]| match word.strip_prefix(b"HTTP/") {
        Some([major, b'.', minor]) => major.is_ascii_digit() && minor.is_ascii_digit(),
        _ => false,
    };
    let mut words = line.splitn(3, |byte| *byte == b' ');
    words.next().is_some_and(is_version) || words.nth(1).is_some_and(is_version)
}

/// Fields that decide where a message ends and whether more follow (RFC 9112 sections 3.2, 6, 9).
#[derive(Default)]
struct FramingFields<'a> {
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

impl<'a> FramingFields<'a> {
    /// Takes a field; `false` if it is another one, as most are: their length shows it at once.
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

    /// Takes a length. Equal values count as one, like repeated fields (RFC 9112 section 6.3).
    fn take_length(&mut self, value: &[u8]) {
        let fault = HeadFault::Malformed("the Content-Length field is malformed");
        let mut all = elements(value).filter(|one| !one.is_empty()).map(decimal);
        let first = all.next().flatten();
        let is_one = all.all(|other| other == first);
        let is_same = self.length.is_none_or(|before| before.ok() == first);
        self.has_lengths |= self.length.is_some() || value.contains(&b',');
        self.length = Some(first.filter(|_| is_one && is_same).ok_or(fault));
    }

    /// Reports whether the connection persists. Chunks in HTTP/1.0 are faulty framing, behind which
    /// nothing is trusted (RFC 9112 section 6.1).
    fn keeps_alive(&self, is_http10: bool) -> bool {
        !self.close && (!is_http10 || self.keep_alive && self.codings == 0)
    }

    /// Returns the framing of a request. Both framings at once, or chunks in HTTP/1.0, are refused
    /// because they are used to smuggle requests (RFC 9112 section 11.2).
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

/// Returns the elements of a list (RFC 9110 section 5.6.1).
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Returns the host, an IPv6 address in its brackets, and the port of an authority; `None` if it is
/// malformed, or has a user, which no request may name (RFC 9110 section 4.2.4).
pub fn host_and_port(authority: &[u8]) -> Option<(&str, Option<u16>)> {
    let text = str::from_utf8(authority).ok()?;
    let end = match text.strip_prefix('[') {
        Some(literal) => literal.find(']')? + 2,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at(end);
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        // Other literals have no known address format.
        Some(literal) => literal.parse::<Ipv6Addr>().is_ok(),
        None => is_name(host.as_bytes()),
    };
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        Some("") => None,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port.parse().ok()?),
        _ => return None,
    };
    is_host.then_some((host, port))
}

/// Accepts a `reg-name` that is not empty, which includes IPv4 addresses.
fn is_name(text: &[u8]) -> bool {
    let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte);
    let mut parts = text.split(|byte| *byte == b'%');
    let is_begin = parts.next().is_some_and(|part| part.iter().all(|byte| may_stand(*byte)));
    let is_encoded = |part: &[u8]| match part {
        [high, low, rest @ ..] => {
            high.is_ascii_hexdigit()
                && low.is_ascii_hexdigit()
                && rest.iter().all(|byte| may_stand(*byte))
        }
        _ => false,
    };
    !text.is_empty() && is_begin && parts.all(is_encoded)
}

/// Longest extension of a chunk's line, and longest trailer section. Few are sent, and content that
/// consists of them would never end.
const EXTRA_BYTES_MAX: u16 = 16 * 1024;

/// Hexadecimal digits that fill 64 bits.
const DIGITS_MAX: u8 = 16;

/// End of a message's content (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ContentEnd {
    /// After this number of bytes; 0 if there is no content.
    Length(u64),
    Chunked,
    Close,
}

/// Content that is being read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Content {
    place: ContentPlace,
    bytes: u64,
}

/// Error of bytes that are no chunks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ContentFault;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ContentPlace {
    /// Remaining bytes of content.
    Length(u64),
    /// Content until the connection is closed.
    UntilClose,
    /// Digits of a chunk's size: their value and number so far.
    Size(u64, u8),
    /// Extension in the line of a chunk of this size, and its length so far.
    Extension(u64, u16),
    /// Line feed behind the size of a chunk.
    SizeEnd(u64),
    /// Remaining bytes of a chunk.
    Data(u64),
    /// Carriage return behind a chunk.
    DataReturn,
    /// Line feed behind a chunk.
    DataEnd,
    /// Trailers: whether the line is empty so far, and the length of all lines so far.
    Trailer(bool, u16),
    Done,
}

impl Content {
    /// Creates a reader at the beginning of content.
    pub fn new(end: ContentEnd) -> Self {
        let place = match end {
            ContentEnd::Length(0) => ContentPlace::Done,
            ContentEnd::Length(bytes) => ContentPlace::Length(bytes),
            ContentEnd::Chunked => ContentPlace::Size(0, 0),
            ContentEnd::Close => ContentPlace::UntilClose,
        };
        Self { place, bytes: 0 }
    }

    /// Returns the bytes of content so far, without the framing of chunks.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reports whether all content was read.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.place == ContentPlace::Done
    }

    /// Reports whether the end of the connection completes the content.
    pub fn may_end_by_close(&self) -> bool {
        matches!(self.place, ContentPlace::Done | ContentPlace::UntilClose)
    }

    /// Returns the number of bytes that are still to come, if it is known.
    pub fn bytes_left(&self) -> Option<u64> {
        match self.place {
            ContentPlace::Length(left) => Some(left),
            ContentPlace::Done => Some(0),
            _ => None,
        }
    }

    /// Reads on, and returns how many of these bytes belong to the content and its framing.
    ///
    /// # Errors
    /// Fails with [`ContentFault`] if the bytes are no chunks.
    pub fn read(&mut self, bytes: &[u8]) -> Result<usize, ContentFault> {
        let mut used = 0;
        while used < bytes.len() && !self.is_done() {
            let there = bytes.len() - used;
            used += match self.place {
                ContentPlace::UntilClose => {
                    self.take(u64::MAX, there, |_| ContentPlace::UntilClose)
                }
                ContentPlace::Length(left) => self.take(left, there, ContentPlace::after_length),
                ContentPlace::Data(left) => self.take(left, there, ContentPlace::after_data),
                place => {
                    self.place = place.after(bytes[used])?;
                    1
                }
            };
        }
        Ok(used)
    }

    fn take(&mut self, left: u64, there: usize, next: fn(u64) -> ContentPlace) -> usize {
        let taken = usize::try_from(left).map_or(there, |left| left.min(there));
        self.bytes += taken as u64;
        self.place = next(left - taken as u64);
        taken
    }
}

impl ContentPlace {
    fn after_length(left: u64) -> Self {
        match left {
            0 => Self::Done,
            left => Self::Length(left),
        }
    }

    fn after_data(left: u64) -> Self {
        match left {
            0 => Self::DataReturn,
            left => Self::Data(left),
        }
    }

    /// Returns the place behind one byte of framing.
    fn after(self, byte: u8) -> Result<Self, ContentFault> {
        Ok(match (self, byte) {
            (Self::Size(size, 1..), b'\r') | (Self::Extension(size, _), b'\r') => {
                Self::SizeEnd(size)
            }
            (Self::Size(size, 1..), b';' | b' ' | b'\t') => Self::Extension(size, 1),
            (Self::Size(size, digits @ ..DIGITS_MAX), _) => {
                let digit = char::from(byte).to_digit(16).ok_or(ContentFault)?;
                Self::Size(size << 4 | u64::from(digit), digits + 1)
            }
            (Self::Extension(size, bytes @ ..EXTRA_BYTES_MAX), _) if byte != b'\n' => {
                Self::Extension(size, bytes + 1)
            }
            (Self::SizeEnd(0), b'\n') => Self::Trailer(true, 0),
            (Self::SizeEnd(size), b'\n') => Self::Data(size),
            (Self::DataReturn, b'\r') => Self::DataEnd,
            (Self::DataEnd, b'\n') => Self::Size(0, 0),
            (Self::Trailer(true, _), b'\n') => Self::Done,
            // A carriage return alone leaves the line empty.
            (Self::Trailer(empty, bytes @ ..EXTRA_BYTES_MAX), _) => {
                let empty = byte == b'\n' || empty && byte == b'\r';
                Self::Trailer(empty, bytes + 1)
            }
            _ => return Err(ContentFault),
        })
    }
}

#[cfg(test)]
mod tests;
