//! Reads the head of a request, as far as files need it. `wire::http` handles framing; other
//! modules interpret the fields.

use wire::http::{ContentEnd, HeadFault, RequestHead};

use crate::options::Redirect;
use crate::redirect;
use crate::target::{RequestTarget, TargetFault};
use crate::validators::Conditions;

/// Longest head, from the first byte of the request line to the empty line.
pub const HEAD_BYTES_MAX: usize = 8192;

/// Longest request target, as written.
pub const TARGET_BYTES_MAX: usize = 4096;

/// Largest content of a request, with the framing of its chunks. It is read and dropped, because
/// nothing that we serve takes content.
pub(crate) const CONTENT_BYTES_MAX: u64 = 65_536;

/// Part of a head that was received.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Extent {
    /// No end within this number of bytes, which need not be searched again.
    Open(usize),
    /// An empty line of this number of bytes before a head.
    Blank(usize),
    /// A head of this number of bytes.
    Whole(usize),
    /// A line that ends with LF alone. Parsers differ on whether that ends a line (RFC 9112 section
    /// 2.2).
    BareLineFeed,
}

/// Finds the end of a head, of which `known` bytes were searched before.
pub(crate) fn extent(bytes: &[u8], known: usize) -> Extent {
    let mut from = known;
    while let Some(place) = bytes[from..].iter().position(|byte| *byte == b'\n') {
        let end = from + place + 1;
        match &bytes[..end] {
            b"\r\n" => return Extent::Blank(end),
            [.., b'\n', b'\r', b'\n'] => return Extent::Whole(end),
            [.., b'\r', b'\n'] => from = end,
            _ => return Extent::BareLineFeed,
        }
    }
    Extent::Open(bytes.len())
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Method {
    Get,
    Head,
    /// A method of RFC 9110 or RFC 5789 that files do not support.
    NotAllowed,
    Unknown,
}

/// A request that was understood.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// `None` if no file can have that name, or if the method is not for files.
    pub(crate) target: Option<RequestTarget>,
    /// Location by https, if requests are redirected.
    pub(crate) location: Option<Box<[u8]>>,
    /// Whether the version is HTTP/1.0.
    pub(crate) is_http10: bool,
    /// Whether another request may follow on the connection.
    pub(crate) persistent: bool,
    /// Content that follows the head; none if the content is not read.
    pub(crate) content: ContentEnd,
    /// Whether the client waits for a 100 before it sends the content.
    pub(crate) expects_continue: bool,
    pub(crate) fields: Fields,
}

/// Fields that matter for files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    pub(crate) accept_encoding: Field,
    pub(crate) range: Field,
    pub(crate) if_range: Field,
    pub(crate) conditions: Conditions,
}

/// Values of a field, joined by commas (RFC 9110 section 5.3); `None` if it was not sent.
pub(crate) type Field = Option<Box<[u8]>>;

/// Status and reason for refusing a whole request. The bytes after it may not be a request, so the
/// connection ends with the answer.
pub(crate) type Refusal = (Status, &'static str);

/// Refuses bytes that are not HTTP, or are ambiguous.
pub(crate) const fn malformed(what: &'static str) -> Refusal {
    (Status::BadRequest, what)
}

const TARGET_TOO_LONG: Refusal = (Status::UriTooLong, "the target is longer than 4096 bytes");
const HEAD_TOO_LARGE: Refusal =
    (Status::HeaderFieldsTooLarge, "the head has more than 8192 bytes or 100 fields");
const TRANSFER_ENCODING: Refusal = malformed("a Transfer-Encoding other than chunked");
pub(crate) const CONTENT_TOO_LARGE: Refusal =
    (Status::ContentTooLarge, "the content has more than 65536 bytes");
pub(crate) const NO_CHUNKS: Refusal = malformed("the content is not in chunks, as it should be");

/// Refuses a head that has no end within [`HEAD_BYTES_MAX`].
pub(crate) fn refuse_endless(bytes: &[u8]) -> Refusal {
    if bytes.contains(&b'\n') { HEAD_TOO_LARGE } else { TARGET_TOO_LONG }
}

fn refuse(fault: HeadFault) -> Refusal {
    match fault {
        HeadFault::Malformed(what) => malformed(what),
        HeadFault::Length => malformed("the Content-Length field is malformed"),
        HeadFault::TooLarge => HEAD_TOO_LARGE,
        HeadFault::Version => (Status::VersionNotSupported, "HTTP/1.0 and 1.1 are spoken"),
        HeadFault::TransferCoding => TRANSFER_ENCODING,
        HeadFault::Expectation => (Status::ExpectationFailed, "the expectation is unknown"),
    }
}

impl Request {
    /// Parses a complete head.
    ///
    /// # Errors
    /// Fails with a [`Refusal`].
    pub(crate) fn read(bytes: &[u8], redirect: Option<Redirect>) -> Result<Self, Refusal> {
        let mut fields = Fields::default();
        let head = RequestHead::parse(bytes, HEAD_BYTES_MAX, |name, value| {
            fields.take(name, value);
        })
        .map_err(refuse)?
        .filter(|head| head.bytes == bytes.len())
        .ok_or(malformed("the head is malformed"))?;
        if head.target.len() > TARGET_BYTES_MAX {
            return Err(TARGET_TOO_LONG);
        }
        let target = head.target.as_bytes();
        let location = match redirect {
            Some(redirect) => {
                Some(redirect::location(redirect, head.host, target).map_err(malformed)?)
            }
            None => None,
        };
        const NONE: ContentEnd = ContentEnd::Length(0);
        let content = match head.content {
            NONE => Some(NONE),
            ContentEnd::Close => return Err(TRANSFER_ENCODING),
            // The client need not send the content here, because it must send it elsewhere.
            _ if location.is_some() && head.expects_continue => None,
            ContentEnd::Length(bytes) if bytes > CONTENT_BYTES_MAX && location.is_some() => None,
            ContentEnd::Length(bytes) if bytes > CONTENT_BYTES_MAX => {
                return Err(CONTENT_TOO_LARGE);
            }
            content => Some(content),
        };
        let method = Method::named(head.method);
        Ok(Self {
            method,
            target: method.target(target)?,
            location,
            is_http10: head.is_http10,
            // The bytes after CONNECT may be of any protocol.
            persistent: head.keeps_alive && head.method != "CONNECT" && content.is_some(),
            content: content.unwrap_or(NONE),
            expects_continue: head.expects_continue && content.is_some_and(|one| one != NONE),
            fields,
        })
    }
}

impl Fields {
    fn take(&mut self, name: &str, value: &[u8]) {
        let kept = [
            ("accept-encoding", &mut self.accept_encoding),
            ("range", &mut self.range),
            ("if-range", &mut self.if_range),
            ("if-match", &mut self.conditions.if_match),
            ("if-none-match", &mut self.conditions.if_none_match),
            ("if-modified-since", &mut self.conditions.if_modified_since),
            ("if-unmodified-since", &mut self.conditions.if_unmodified_since),
        ];
        for (known, field) in kept {
            if name.eq_ignore_ascii_case(known) {
                *field = Some(match field.take() {
                    Some(before) => [&before, &b", "[..], value].concat().into(),
                    None => value.into(),
                });
                return;
            }
        }
    }
}

impl Method {
    fn named(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "CONNECT" | "DELETE" | "OPTIONS" | "PATCH" | "POST" | "PUT" | "TRACE" => {
                Self::NotAllowed
            }
            _ => Self::Unknown,
        }
    }

    /// Reads the target if the method is for files; targets of other methods have other forms.
    fn target(self, text: &[u8]) -> Result<Option<RequestTarget>, Refusal> {
        if !matches!(self, Self::Get | Self::Head) {
            return Ok(None);
        }
        match RequestTarget::read(text) {
            Ok(target) => Ok(Some(target)),
            Err(TargetFault::Impossible) => Ok(None),
            Err(TargetFault::Malformed(what)) => Err(malformed(what)),
            Err(TargetFault::Outside) => Err(malformed("the target climbs above the root")),
        }
    }
}

/// A status; its number is its code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u16)]
pub(crate) enum Status {
    Ok = 200,
    PartialContent = 206,
    MovedPermanently = 301,
    NotModified = 304,
    PermanentRedirect = 308,
    BadRequest = 400,
    Forbidden = 403,
    NotFound = 404,
    MethodNotAllowed = 405,
    RequestTimeout = 408,
    PreconditionFailed = 412,
    ContentTooLarge = 413,
    UriTooLong = 414,
    RangeNotSatisfiable = 416,
    ExpectationFailed = 417,
    HeaderFieldsTooLarge = 431,
    InternalServerError = 500,
    NotImplemented = 501,
    ServiceUnavailable = 503,
    VersionNotSupported = 505,
}

impl Status {
    pub(crate) const fn code(self) -> u16 {
        self as u16
    }

    pub(crate) const fn phrase(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::PartialContent => "Partial Content",
            Self::MovedPermanently => "Moved Permanently",
            Self::NotModified => "Not Modified",
            Self::PermanentRedirect => "Permanent Redirect",
            Self::BadRequest => "Bad Request",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not Found",
            Self::MethodNotAllowed => "Method Not Allowed",
            Self::RequestTimeout => "Request Timeout",
            Self::PreconditionFailed => "Precondition Failed",
            Self::ContentTooLarge => "Content Too Large",
            Self::UriTooLong => "URI Too Long",
            Self::RangeNotSatisfiable => "Range Not Satisfiable",
            Self::ExpectationFailed => "Expectation Failed",
            Self::HeaderFieldsTooLarge => "Request Header Fields Too Large",
            Self::InternalServerError => "Internal Server Error",
            Self::NotImplemented => "Not Implemented",
            Self::ServiceUnavailable => "Service Unavailable",
            Self::VersionNotSupported => "HTTP Version Not Supported",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "Host: a\r\n";

    fn read(line: &str, fields: &str) -> Result<Request, Refusal> {
        Request::read(format!("{line}\r\n{fields}\r\n").as_bytes(), None)
    }

    #[test]
    fn heads_end_with_an_empty_line() {
        let cases: [(&[u8], Extent); 7] = [
            (b"", Extent::Open(0)),
            (b"GET / HTTP/1.1\r", Extent::Open(15)),
            (b"GET / HTTP/1.1\r\nA: b\r\n", Extent::Open(22)),
            (b"GET / HTTP/1.1\r\n\r\nGET", Extent::Whole(18)),
            (b"\r\nGET", Extent::Blank(2)),
            (b"\nGET", Extent::BareLineFeed),
            (b"GET / HTTP/1.1\n\r\n", Extent::BareLineFeed),
        ];
        for (bytes, expected) in cases {
            assert_eq!(extent(bytes, 0), expected, "{bytes:?}");
            let mut known = 0;
            let piecewise = (0..=bytes.len()).find_map(|end| match extent(&bytes[..end], known) {
                Extent::Open(looked_at) => {
                    known = looked_at;
                    None
                }
                found => Some(found),
            });
            assert_eq!(piecewise.unwrap_or(Extent::Open(known)), expected, "{bytes:?}");
        }
    }

    #[test]
    fn methods_are_distinguished() {
        let cases = [
            ("GET / HTTP/1.1", Method::Get),
            ("HEAD / HTTP/1.1", Method::Head),
            ("OPTIONS * HTTP/1.1", Method::NotAllowed),
            ("CONNECT a:443 HTTP/1.1", Method::NotAllowed),
            ("get / HTTP/1.1", Method::Unknown),
            ("BREW / HTTP/1.1", Method::Unknown),
        ];
        for (line, method) in cases {
            let request = read(line, HOST).expect("a request");
            assert_eq!(request.method, method, "{line}");
            assert_eq!(request.persistent, !line.starts_with("CONNECT"), "{line}");
        }
    }

    #[test]
    fn refusals_have_their_status() {
        let target = |bytes: usize| format!("GET /{} HTTP/1.1", "a".repeat(bytes - 1));
        let get = "GET / HTTP/1.1";
        let many = HOST.to_owned() + &"A: b\r\n".repeat(wire::http::FIELDS_MAX);
        let cases = [
            (get, "", Some(400)),
            (get, "Host: a.example:8443\r\n", None),
            (get, "Host: [::1]\r\n", None),
            (get, "Host:\r\n", None),
            (get, "Host: a%20b\r\n", None),
            (get, "Host: a/b\r\n", Some(400)),
            (get, "Host: 1.2.3.4:99999\r\n", Some(400)),
            (get, "Host: a@b\r\n", Some(400)),
            (get, "Host: a:b\r\n", Some(400)),
            (get, "Host: a\r\nHost: a\r\n", Some(400)),
            (get, "Host: ::1\r\n", Some(400)),
            (get, "Host: a b\r\n", Some(400)),
            (get, "Host: a\0b\r\n", Some(400)),
            (get, "Host : a\r\n", Some(400)),
            ("GET / HTTP/1.0", "Host: a@b\r\n", Some(400)),
            ("GET /../a HTTP/1.1", HOST, Some(400)),
            ("GET a HTTP/1.1", HOST, Some(400)),
            ("GET /\0 HTTP/1.1", HOST, Some(400)),
            ("GET /\r HTTP/1.1", HOST, Some(400)),
            (" GET / HTTP/1.1", HOST, Some(400)),
            ("GET / ", HOST, Some(400)),
            ("GET / HTTP/0.9", HOST, Some(505)),
            (&target(TARGET_BYTES_MAX), HOST, None),
            (&target(TARGET_BYTES_MAX + 1), HOST, Some(414)),
            (get, &many, Some(431)),
            (get, "Host: a\r\nTransfer-Encoding: chunked\r\n", None),
            (get, "Host: a\r\nTransfer-Encoding: x\r\n", Some(400)),
            (get, "Host: a\r\nContent-Length: 65536\r\n", None),
            (get, "Host: a\r\nContent-Length: 65537\r\n", Some(413)),
        ];
        for (line, fields, expected) in cases {
            let status = read(line, fields).err().map(|(status, _)| status.code());
            assert_eq!(status, expected, "{line} {fields}");
        }
        assert_eq!(refuse_endless(b"GET /aaa"), TARGET_TOO_LONG);
        assert_eq!(refuse_endless(b"GET / HTTP/1.1\r\nA"), HEAD_TOO_LARGE);
    }

    #[test]
    fn only_content_is_invited() {
        let expects = |length: usize| {
            let fields = format!("{HOST}Expect: 100-continue\r\nContent-Length: {length}\r\n");
            read("GET / HTTP/1.1", &fields).expect("a request").expects_continue
        };
        assert!(expects(1) && !expects(0));
    }

    #[test]
    fn lists_on_several_lines_are_one() {
        let fields = format!("{HOST}If-None-Match: \"a\"\r\nIF-NONE-MATCH:  \"b\" \r\n");
        let fields = read("GET / HTTP/1.1", &fields).expect("a request").fields;
        let joined = fields.conditions.if_none_match;
        assert_eq!(joined.as_deref(), Some(&b"\"a\", \"b\""[..]));
        assert_eq!(fields.range, None);
    }
}
