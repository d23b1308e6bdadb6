//! The head of a request: bytes to what we need of it (RFC 9112 sections 2 to 6, by `httparse`).
//! Owns what is refused before anybody asks what it is about: whatever two readers could
//! understand in two ways. What fields mean for a file is the business of others.

use crate::status::Status;
use crate::target::{self, Target, TargetFault};
use crate::validators::Conditions;

/// The longest head, from the first byte of the request line to the empty line.
pub const HEAD_BYTES_MAX: usize = 8192;

/// The longest request target, as it is written.
pub const TARGET_BYTES_MAX: usize = 4096;

/// The largest content of a request, which is read and dropped: nothing we serve takes any.
pub(crate) const CONTENT_BYTES_MAX: u64 = 65_536;

const FIELDS_MAX: usize = 64;

/// How much of a head is there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Extent {
    /// No end yet among the first so many bytes, which need not be looked at again.
    Open(usize),
    /// An empty line and nothing before it, so many bytes.
    Blank(usize),
    /// The head has so many bytes.
    Whole(usize),
    /// A line ends with LF alone. Other readers take that for a line's end, or for none
    /// (RFC 9112 section 2.2).
    BareLineFeed,
}

/// Looks for the end of a head, when `known` bytes of it have been looked at before.
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

/// What to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Method {
    Get,
    Head,
    /// One of RFC 9110 or RFC 5789 that files do not have.
    NotAllowed,
    /// None that we have heard of.
    Unknown,
}

/// A request that was understood.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Nothing if no file can have that name, or if the method is not for files.
    pub(crate) target: Option<Target>,
    /// Whether the client speaks HTTP/1.0.
    pub(crate) old: bool,
    /// Whether another request may follow on the connection.
    pub(crate) persistent: bool,
    /// How much content follows the head.
    pub(crate) content_bytes: u64,
    /// Whether the client waits for a 100 before it sends the content.
    pub(crate) expects_continue: bool,
    pub(crate) accept_encoding: Field,
    pub(crate) range: Field,
    pub(crate) if_range: Field,
    pub(crate) conditions: Conditions,
}

/// The values of a field, joined by commas (RFC 9110 section 5.3); nothing if it was not sent.
pub(crate) type Field = Option<Box<[u8]>>;

/// Why a request is refused as a whole. What follows it cannot be trusted to be a request, so the
/// connection ends with the answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RequestFault {
    /// It is not HTTP, or could be read in two ways; what is wrong with it.
    Malformed(&'static str),
    TargetTooLong,
    HeadTooLarge,
    ContentTooLarge,
    Expectation,
    Version,
}

impl RequestFault {
    /// What to say of it.
    pub(crate) fn answer(self) -> (Status, &'static str) {
        match self {
            Self::Malformed(what) => (Status::BadRequest, what),
            Self::TargetTooLong => (Status::UriTooLong, "the target is longer than 4096 bytes"),
            Self::HeadTooLarge => (
                Status::HeaderFieldsTooLarge,
                "the head has more than 8192 bytes or 64 fields",
            ),
            Self::ContentTooLarge => (
                Status::ContentTooLarge,
                "the content has more than 65536 bytes",
            ),
            Self::Expectation => (Status::ExpectationFailed, "the expectation is unknown"),
            Self::Version => (Status::VersionNotSupported, "HTTP/1.0 and 1.1 are spoken"),
        }
    }
}

/// What a head that has no end within [`HEAD_BYTES_MAX`] is refused for.
pub(crate) fn fault_of_endless(bytes: &[u8]) -> RequestFault {
    if bytes.contains(&b'\n') {
        RequestFault::HeadTooLarge
    } else {
        RequestFault::TargetTooLong
    }
}

impl Request {
    /// Reads a whole head.
    ///
    /// # Errors
    /// [`RequestFault`].
    pub(crate) fn read(head: &[u8]) -> Result<Self, RequestFault> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut parsed = httparse::Request::new(&mut fields);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(bytes)) if bytes == head.len() => {}
            Ok(_) => return Err(RequestFault::Malformed("the head is malformed")),
            Err(error) => return Err(fault(error, head)),
        }
        let (method, target, version) = (parsed.method, parsed.path, parsed.version);
        let (Some(name), Some(target), Some(version)) = (method, target, version) else {
            return Err(RequestFault::Malformed("the request line is malformed"));
        };
        if target.len() > TARGET_BYTES_MAX {
            return Err(RequestFault::TargetTooLong);
        }
        let method = Method::named(name);
        let mut request = Self {
            method,
            target: method.target(target.as_bytes())?,
            old: version == 0,
            persistent: version != 0,
            content_bytes: 0,
            expects_continue: false,
            accept_encoding: None,
            range: None,
            if_range: None,
            conditions: Conditions::default(),
        };
        request.take_fields(parsed.headers)?;
        // What comes after CONNECT, if it is not what the client hopes for, is anybody's guess.
        request.persistent &= name != "CONNECT";
        Ok(request)
    }

    fn take_fields(&mut self, fields: &[httparse::Header<'_>]) -> Result<(), RequestFault> {
        let mut framing = Framing::default();
        for field in fields {
            let value = field.value.trim_ascii();
            if !framing.take(field.name, value)? {
                self.take_field(field.name, value);
            }
        }
        if framing.hosts == 0 && !self.old {
            return Err(RequestFault::Malformed("no Host field"));
        }
        self.content_bytes = framing.content_bytes.unwrap_or(0);
        if self.content_bytes > CONTENT_BYTES_MAX {
            return Err(RequestFault::ContentTooLarge);
        }
        self.persistent = !framing.close && (!self.old || framing.keep_alive);
        // RFC 9110 section 10.1.1: of HTTP/1.0 it is ignored.
        if !self.old && framing.expects_other {
            return Err(RequestFault::Expectation);
        }
        self.expects_continue = !self.old && framing.expects_continue && self.content_bytes > 0;
        Ok(())
    }

    fn take_field(&mut self, name: &str, value: &[u8]) {
        let kept = [
            ("accept-encoding", &mut self.accept_encoding),
            ("range", &mut self.range),
            ("if-range", &mut self.if_range),
            ("if-match", &mut self.conditions.if_match),
            ("if-none-match", &mut self.conditions.if_none_match),
            ("if-modified-since", &mut self.conditions.if_modified_since),
            (
                "if-unmodified-since",
                &mut self.conditions.if_unmodified_since,
            ),
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

    /// Reads the target, if the method is for files: those of others have other forms.
    fn target(self, text: &[u8]) -> Result<Option<Target>, RequestFault> {
        if !matches!(self, Self::Get | Self::Head) {
            return Ok(None);
        }
        match Target::read(text) {
            Ok(target) => Ok(Some(target)),
            Err(TargetFault::Impossible) => Ok(None),
            Err(TargetFault::Malformed(what)) => Err(RequestFault::Malformed(what)),
            Err(TargetFault::Outside) => {
                Err(RequestFault::Malformed("the target climbs above the root"))
            }
        }
    }
}

/// The fields that say where a request ends and what comes after it, read in the strictest way
/// (RFC 9112 sections 3.2, 6 and 9).
#[derive(Debug, Default)]
struct Framing {
    hosts: usize,
    content_bytes: Option<u64>,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
    expects_other: bool,
}

impl Framing {
    /// Whether the field was one of them.
    fn take(&mut self, name: &str, value: &[u8]) -> Result<bool, RequestFault> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("host") {
            self.take_host(value)?;
        } else if is("content-length") {
            self.take_length(value)?;
        } else if is("transfer-encoding") {
            return Err(RequestFault::Malformed("a request with Transfer-Encoding"));
        } else if is("connection") {
            for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                self.close |= option.eq_ignore_ascii_case(b"close");
                self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if is("expect") {
            let known = value.eq_ignore_ascii_case(b"100-continue");
            self.expects_continue |= known;
            self.expects_other |= !known;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn take_host(&mut self, value: &[u8]) -> Result<(), RequestFault> {
        self.hosts += 1;
        if self.hosts > 1 {
            return Err(RequestFault::Malformed("more than one Host field"));
        }
        if !target::is_authority(value) {
            return Err(RequestFault::Malformed("the Host field is malformed"));
        }
        Ok(())
    }

    fn take_length(&mut self, value: &[u8]) -> Result<(), RequestFault> {
        if self.content_bytes.is_some() {
            return Err(RequestFault::Malformed(
                "more than one Content-Length field",
            ));
        }
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(RequestFault::Malformed(
                "the Content-Length field is malformed",
            ));
        }
        let digits = value.iter().map(|digit| u64::from(digit - b'0'));
        let length = digits.fold(0_u64, |sum, digit| {
            sum.saturating_mul(10).saturating_add(digit)
        });
        self.content_bytes = Some(length);
        Ok(())
    }
}

fn fault(error: httparse::Error, head: &[u8]) -> RequestFault {
    use httparse::Error;
    match error {
        Error::TooManyHeaders => RequestFault::HeadTooLarge,
        Error::Version if names_version(head) => RequestFault::Version,
        Error::Version => RequestFault::Malformed("no HTTP version"),
        Error::HeaderName => RequestFault::Malformed("the name of a field is malformed"),
        Error::HeaderValue => RequestFault::Malformed("the value of a field is malformed"),
        _ => RequestFault::Malformed("the request line is malformed"),
    }
}

/// Whether a version, whichever, is the third and last word of the request line.
fn names_version(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.splitn(3, |byte| *byte == b' ').skip(2);
    match words.next().and_then(|word| word.strip_prefix(b"HTTP/")) {
        Some([major, b'.', minor]) => major.is_ascii_digit() && minor.is_ascii_digit(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "Host: a\r\n";

    fn read(line: &str, fields: &str) -> Result<Request, RequestFault> {
        Request::read(format!("{line}\r\n{fields}\r\n").as_bytes())
    }

    fn get(fields: &str) -> Result<Request, RequestFault> {
        read("GET / HTTP/1.1", &format!("{HOST}{fields}"))
    }

    fn status_of(line: &str, fields: &str) -> Option<u16> {
        let fault = read(line, fields).err()?;
        Some(fault.answer().0.code())
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
            assert_eq!(
                piecewise.unwrap_or(Extent::Open(known)),
                expected,
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn methods_are_told_apart() {
        let method = |line| read(line, HOST).map(|request| request.method);
        assert_eq!(method("GET / HTTP/1.1"), Ok(Method::Get));
        assert_eq!(method("HEAD / HTTP/1.1"), Ok(Method::Head));
        assert_eq!(method("OPTIONS * HTTP/1.1"), Ok(Method::NotAllowed));
        assert_eq!(method("CONNECT a:443 HTTP/1.1"), Ok(Method::NotAllowed));
        assert_eq!(method("get / HTTP/1.1"), Ok(Method::Unknown));
        assert_eq!(method("BREW / HTTP/1.1"), Ok(Method::Unknown));
    }

    #[test]
    fn connections_persist_as_the_version_has_it() {
        let cases = [
            ("GET / HTTP/1.1", "", true),
            ("GET / HTTP/1.1", "Connection: close\r\n", false),
            ("GET / HTTP/1.1", "Connection: x, CLOSE\r\n", false),
            (
                "GET / HTTP/1.1",
                "Connection: keep-alive\r\nConnection: close\r\n",
                false,
            ),
            ("GET / HTTP/1.0", "", false),
            ("GET / HTTP/1.0", "Connection: Keep-Alive\r\n", true),
            ("GET / HTTP/1.0", "Connection: keep-alive, close\r\n", false),
            ("CONNECT a:443 HTTP/1.1", "", false),
        ];
        for (line, fields, persistent) in cases {
            let request = read(line, &format!("{HOST}{fields}")).expect("a request");
            assert_eq!(request.persistent, persistent, "{line} {fields}");
        }
    }

    #[test]
    fn one_host_is_named() {
        assert_eq!(status_of("GET / HTTP/1.1", ""), Some(400));
        assert_eq!(status_of("GET / HTTP/1.0", ""), None);
        for host in ["a.example:8443", "[::1]", "", "a%20b"] {
            assert_eq!(
                status_of("GET / HTTP/1.1", &format!("Host: {host}\r\n")),
                None
            );
        }
        for bad in [
            "Host: a\r\nhost: a\r\n",
            "Host: a/b\r\n",
            "Host: a b\r\n",
            "Host: a@b\r\n",
        ] {
            assert_eq!(status_of("GET / HTTP/1.1", bad), Some(400), "{bad}");
            assert_eq!(status_of("GET / HTTP/1.0", bad), Some(400), "{bad}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for fields in [
            "Transfer-Encoding: chunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "transfer-encoding:\tx\r\nContent-Length: 3\r\n",
            "Content-Length: 3\r\nContent-Length: 3\r\n",
            "Content-Length: 3, 3\r\n",
            "Content-Length: +3\r\n",
            "Content-Length: -3\r\n",
            "Content-Length: 0x3\r\n",
            "Content-Length:\r\n",
            "Content-Length : 3\r\n",
            " Content-Length: 3\r\n",
            "A: b\r\n c\r\n",
            "A: b\rc\r\n",
            "A: b\0c\r\n",
            "A\r\n",
            ": b\r\n",
            "A b: c\r\n",
        ] {
            let fault = get(fields).map(|_| ());
            assert!(
                matches!(fault, Err(RequestFault::Malformed(_))),
                "{fields:?}: {fault:?}"
            );
        }
        for line in [
            "GET  / HTTP/1.1",
            "GET /a b HTTP/1.1",
            "GET\t/ HTTP/1.1",
            "GET /",
            "GET / ",
            "GET / HTTP/x.1",
            "GET / http/1.1",
            " GET / HTTP/1.1",
            "G(T / HTTP/1.1",
            "GET /\0 HTTP/1.1",
            "GET /\r HTTP/1.1",
            "GET /../a HTTP/1.1",
            "GET a HTTP/1.1",
        ] {
            assert_eq!(status_of(line, HOST), Some(400), "{line:?}");
        }
    }

    #[test]
    fn limits_have_statuses_of_their_own() {
        let target = |bytes: usize| format!("GET /{} HTTP/1.1", "a".repeat(bytes - 1));
        assert_eq!(status_of(&target(TARGET_BYTES_MAX), HOST), None);
        assert_eq!(status_of(&target(TARGET_BYTES_MAX + 1), HOST), Some(414));
        let fields = |count: usize| HOST.to_owned() + &"A: b\r\n".repeat(count - 1);
        assert_eq!(status_of("GET / HTTP/1.1", &fields(FIELDS_MAX)), None);
        assert_eq!(
            status_of("GET / HTTP/1.1", &fields(FIELDS_MAX + 1)),
            Some(431)
        );
        assert_eq!(fault_of_endless(b"GET /aaa"), RequestFault::TargetTooLong);
        assert_eq!(
            fault_of_endless(b"GET / HTTP/1.1\r\nA"),
            RequestFault::HeadTooLarge
        );
        let huge = "99999999999999999999999999";
        for (length, status) in [("65536", None), ("65537", Some(413)), (huge, Some(413))] {
            let fields = format!("{HOST}Content-Length: {length}\r\n");
            assert_eq!(status_of("POST / HTTP/1.1", &fields), status, "{length}");
        }
    }

    #[test]
    fn other_versions_are_named() {
        assert_eq!(status_of("PRI * HTTP/2.0", ""), Some(505));
        assert_eq!(status_of("GET / HTTP/1.2", HOST), Some(505));
        assert_eq!(status_of("GET / HTTP/0.9", HOST), Some(505));
    }

    #[test]
    fn expectations_are_for_content() {
        let expects = |fields: &str| get(fields).map(|request| request.expects_continue);
        assert_eq!(
            expects("Expect: 100-Continue\r\nContent-Length: 1\r\n"),
            Ok(true)
        );
        assert_eq!(expects("Expect: 100-continue\r\n"), Ok(false));
        assert_eq!(
            expects("Expect: a-pony\r\n"),
            Err(RequestFault::Expectation)
        );
        let old = read("GET / HTTP/1.0", "Expect: a-pony\r\n").expect("a request");
        assert!(!old.expects_continue);
    }

    #[test]
    fn lists_on_several_lines_are_one() {
        let request = get("If-None-Match: \"a\"\r\nIF-NONE-MATCH:  \"b\" \r\n").expect("a request");
        assert_eq!(
            request.conditions.if_none_match.as_deref(),
            Some(&b"\"a\", \"b\""[..])
        );
        assert_eq!(request.range, None);
    }
}
