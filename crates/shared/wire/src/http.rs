//! Heads of HTTP/1.1 messages (RFC 9112, by `httparse`), the host and port that a request is for,
//! and the content of a message, read to its end and not kept.
//!
//! Owns limits, framing and persistence, read in the strictest way: what two readers could
//! understand in two ways is a fault. Other fields are handed out as they were sent.

use std::borrow::Cow;
use std::mem::MaybeUninit;
use std::net::Ipv6Addr;

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

/// The host, an IPv6 address in its brackets, and the port of an authority; `None` = it is
/// malformed, or has a user, which no request may name (RFC 9110 section 4.2.4).
pub fn host_and_port(authority: &[u8]) -> Option<(&str, Option<u16>)> {
    let text = str::from_utf8(authority).ok()?;
    let end = match text.strip_prefix('[') {
        Some(literal) => literal.find(']')? + 2,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at(end);
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        // Other literals have no address that anybody knows.
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

/// A `reg-name` that is not empty, which an IPv4 address is too.
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

/// The largest extension of a chunk's line, and the longest trailer section. Few are sent, and
/// content that consists of them would never end.
const EXTRA_BYTES_MAX: u16 = 16 * 1024;

/// Sixteen hexadecimal digits fill 64 bits.
const DIGITS_MAX: u8 = 16;

/// The end of a message's content (RFC 9112 section 6.3).
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

/// Bytes that are no chunks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ContentFault;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ContentPlace {
    /// This number of bytes of content.
    Length(u64),
    /// Content until the connection is closed.
    UntilClose,
    /// Digits of a chunk's size: its value and their number so far.
    Size(u64, u8),
    /// An extension of the line of a chunk of this size, and its length so far.
    Extension(u64, u16),
    /// The line feed behind the size of a chunk.
    SizeEnd(u64),
    /// This number of bytes of a chunk.
    Data(u64),
    /// The carriage return behind a chunk.
    DataReturn,
    /// The line feed behind a chunk.
    DataEnd,
    /// Trailers: whether the line is empty so far, and the length of all lines so far.
    Trailer(bool, u16),
    Done,
}

impl Content {
    /// Content of which nothing was read.
    pub fn new(end: ContentEnd) -> Self {
        let place = match end {
            ContentEnd::Length(0) => ContentPlace::Done,
            ContentEnd::Length(bytes) => ContentPlace::Length(bytes),
            ContentEnd::Chunked => ContentPlace::Size(0, 0),
            ContentEnd::Close => ContentPlace::UntilClose,
        };
        Self { place, bytes: 0 }
    }

    /// The bytes of content so far, without what frames chunks.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether all of it was read.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.place == ContentPlace::Done
    }

    /// Whether the end of the connection completes it.
    pub fn may_end_by_close(&self) -> bool {
        matches!(self.place, ContentPlace::Done | ContentPlace::UntilClose)
    }

    /// The number of bytes that are still to come, if it is known.
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
    /// [`ContentFault`].
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

    /// The place behind one byte of framing.
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
