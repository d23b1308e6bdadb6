//! Heads of requests (RFC 9112): bytes in, what they ask out.
//!
//! Pure. Owns the rules of framing; what a path means is `wish`'s, what is replied `answer`'s.

use std::mem::MaybeUninit;

use super::wish::{Wish, WishFault};

/// A head may be so long; common servers allow 8 to 32 KiB.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A head may have so many fields.
const FIELDS_MAX: usize = 100;

/// A request without its body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Request {
    /// What is to be done with the path.
    pub(super) method: Method,
    /// What is asked for.
    pub(super) wish: Result<Wish, WishFault>,
    /// How its body is framed.
    pub(super) body: Framing,
    /// Whether the client keeps to HTTP/1.0: no chunks, and no second request unless it asks.
    pub(super) is_http10: bool,
    /// Whether the client wants to go on with this connection.
    pub(super) keeps_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub(super) expects_continue: bool,
}

/// What is to be done with a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Method {
    /// GET, POST and PUT: the reply has a body.
    Whole,
    /// HEAD: the reply has none.
    Head,
    /// Nothing that we do.
    Other,
}

/// Where a request's body ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Framing {
    /// After so many bytes; 0 where there is none.
    Length(u64),
    /// After the last chunk.
    Chunked,
}

/// Why bytes are no request. The connection cannot go on after any of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum HeadFault {
    /// They are not HTTP/1.1, or its framing is contradictory.
    Malformed,
    /// More fields than [`FIELDS_MAX`], or longer than [`HEAD_BYTES_MAX`].
    TooLarge,
    /// Another version of HTTP.
    Version,
    /// HTTP/1.1 without one `Host`.
    Host,
    /// A transfer coding other than `chunked`.
    Coding,
    /// An expectation other than `100-continue`.
    Expectation,
}

/// What was found at the beginning of some bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Found {
    /// A head of so many bytes.
    Request(usize, Request),
    /// The beginning of one.
    Part,
}

/// Reads the first head.
pub(super) fn parse(bytes: &[u8]) -> Result<Found, HeadFault> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut []);
    match head.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_BYTES_MAX => {
            Ok(Found::Request(length, understand(&head)?))
        }
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => Ok(Found::Part),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => Err(HeadFault::TooLarge),
        Err(httparse::Error::Version) => Err(HeadFault::Version),
        Err(_) => Err(HeadFault::Malformed),
    }
}

fn understand(head: &httparse::Request<'_, '_>) -> Result<Request, HeadFault> {
    let is_http10 = head.version == Some(0);
    let mut fields = Fields::default();
    for field in head.headers.iter() {
        fields.note(field.name, field.value)?;
    }
    if fields.hosts > 1 || (fields.hosts == 0 && !is_http10) {
        return Err(HeadFault::Host);
    }
    Ok(Request {
        method: method(head.method.unwrap_or_default()),
        wish: Wish::parse(head.path.unwrap_or_default()),
        body: fields.framing(is_http10)?,
        is_http10,
        keeps_alive: !fields.close && (fields.keep_alive || !is_http10),
        // RFC 9110, section 10.1.1: to be ignored from HTTP/1.0.
        expects_continue: fields.expects_continue && !is_http10,
    })
}

fn method(name: &str) -> Method {
    match name {
        "GET" | "POST" | "PUT" => Method::Whole,
        "HEAD" => Method::Head,
        _ => Method::Other,
    }
}

/// What the fields said.
#[derive(Default)]
struct Fields {
    hosts: usize,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

impl Fields {
    fn note(&mut self, name: &str, value: &[u8]) -> Result<(), HeadFault> {
        // By length first: most fields are none of ours.
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match name.len() {
            4 if is("host") => self.hosts += 1,
            10 if is("connection") => self.note_connection(value),
            14 if is("content-length") => self.note_length(value)?,
            17 if is("transfer-encoding") => self.note_coding(value)?,
            6 if is("expect") => self.note_expectation(value)?,
            _ => {}
        }
        Ok(())
    }

    fn note_connection(&mut self, value: &[u8]) {
        for option in elements(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// RFC 9112, section 6.3: repeated lengths must agree.
    fn note_length(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        for element in elements(value) {
            let length = number(element).ok_or(HeadFault::Malformed)?;
            if self
                .length
                .replace(length)
                .is_some_and(|before| before != length)
            {
                return Err(HeadFault::Malformed);
            }
        }
        Ok(())
    }

    fn note_coding(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        let again = std::mem::replace(&mut self.chunked, true);
        if again || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
            return Err(HeadFault::Coding);
        }
        Ok(())
    }

    fn note_expectation(&mut self, value: &[u8]) -> Result<(), HeadFault> {
        if !value.trim_ascii().eq_ignore_ascii_case(b"100-continue") {
            return Err(HeadFault::Expectation);
        }
        self.expects_continue = true;
        Ok(())
    }

    /// Both framings at once, or chunks in HTTP/1.0, are how requests are smuggled (RFC 9112,
    /// section 11.2).
    fn framing(&self, is_http10: bool) -> Result<Framing, HeadFault> {
        match (self.chunked, self.length) {
            (false, length) => Ok(Framing::Length(length.unwrap_or(0))),
            (true, None) if !is_http10 => Ok(Framing::Chunked),
            (true, _) => Err(HeadFault::Malformed),
        }
    }
}

/// The elements of a list (RFC 9110, section 5.6.1).
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

fn number(digits: &[u8]) -> Option<u64> {
    let text = str::from_utf8(digits).ok()?;
    let is_number = digits.iter().all(u8::is_ascii_digit);
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(lines: &str) -> String {
        format!("{}\r\n\r\n", lines.replace('\n', "\r\n"))
    }

    fn request(lines: &str) -> Result<Request, HeadFault> {
        let bytes = head(lines);
        match parse(bytes.as_bytes())? {
            Found::Request(length, request) => {
                assert_eq!(length, bytes.len());
                Ok(request)
            }
            Found::Part => panic!("{lines:?} is whole"),
        }
    }

    #[test]
    fn a_plain_request_is_understood() {
        let wanted = Request {
            method: Method::Whole,
            wish: Wish::parse("/1k"),
            body: Framing::Length(0),
            is_http10: false,
            keeps_alive: true,
            expects_continue: false,
        };
        assert_eq!(request("GET /1k HTTP/1.1\nHost: a"), Ok(wanted));
        let method = |name| {
            request(&format!("{name} /1k HTTP/1.1\nHost: a"))
                .unwrap()
                .method
        };
        assert_eq!(method("HEAD"), Method::Head);
        assert_eq!(method("PUT"), Method::Whole);
        assert_eq!(method("DELETE"), Method::Other);
    }

    #[test]
    fn each_beginning_of_a_head_is_a_part() {
        let bytes = head("GET /1k HTTP/1.1\nHost: a\nAccept: */*");
        for length in 0..bytes.len() {
            let part = parse(&bytes.as_bytes()[..length]);
            assert_eq!(part, Ok(Found::Part), "{length}");
        }
        let two = bytes.repeat(2);
        let Ok(Found::Request(length, _)) = parse(two.as_bytes()) else {
            panic!("the first of two");
        };
        assert_eq!(length, bytes.len());
    }

    #[test]
    fn connections_persist_by_version_and_by_wish() {
        let keeps = |lines: &str| request(lines).unwrap().keeps_alive;
        assert!(keeps("GET / HTTP/1.1\nHost: a\nConnection: keep-alive"));
        assert!(!keeps("GET / HTTP/1.1\nHost: a\nConnection: TE, Close"));
        assert!(!keeps("GET / HTTP/1.0"));
        assert!(keeps("GET / HTTP/1.0\nconnection: Keep-Alive"));
        assert!(!keeps("GET / HTTP/1.0\nConnection: keep-alive, close"));
    }

    #[test]
    fn bodies_are_framed_one_way_only() {
        let body = |lines: &str| request(&format!("POST / HTTP/1.1\nHost: a\n{lines}"));
        let framing = |lines: &str| body(lines).map(|request| request.body);
        assert_eq!(framing("Content-Length: 7"), Ok(Framing::Length(7)));
        assert_eq!(framing("Content-Length: 7, 7"), Ok(Framing::Length(7)));
        assert_eq!(framing("Transfer-Encoding: Chunked"), Ok(Framing::Chunked));
        let malformed = Err(HeadFault::Malformed);
        assert_eq!(framing("Content-Length: 7\nContent-Length: 8"), malformed);
        assert_eq!(framing("Content-Length: +7"), malformed);
        assert_eq!(framing("Content-Length: "), malformed);
        assert_eq!(framing("Content-Length: 18446744073709551616"), malformed);
        let both = "Content-Length: 7\nTransfer-Encoding: chunked";
        assert_eq!(framing(both), malformed);
        let coding = Err(HeadFault::Coding);
        assert_eq!(framing("Transfer-Encoding: gzip, chunked"), coding);
        let twice = "Transfer-Encoding: chunked\nTransfer-Encoding: chunked";
        assert_eq!(framing(twice), coding);
        let http10 = "POST / HTTP/1.0\nTransfer-Encoding: chunked";
        assert_eq!(request(http10), Err(HeadFault::Malformed));
    }

    #[test]
    fn expectations_are_met_or_refused() {
        let expect = |version, what| {
            request(&format!("PUT / HTTP/{version}\nHost: a\nExpect: {what}"))
                .map(|request| request.expects_continue)
        };
        assert_eq!(expect("1.1", "100-Continue"), Ok(true));
        assert_eq!(expect("1.0", "100-continue"), Ok(false));
        assert_eq!(expect("1.1", "miracles"), Err(HeadFault::Expectation));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert_eq!(request("GET / HTTP/1.1"), Err(HeadFault::Host));
        let hosts = "GET / HTTP/1.1\nHost: a\nHost: b";
        assert_eq!(request(hosts), Err(HeadFault::Host));
        assert_eq!(request("GET / HTTP/3.0\nHost: a"), Err(HeadFault::Version));
        let hello = b"\x16\x03\x01\x02\x00\x01";
        assert_eq!(parse(hello), Err(HeadFault::Malformed));
        assert_eq!(request("GET /"), Err(HeadFault::Malformed));
    }

    #[test]
    fn heads_have_limits() {
        let fields = |count| "\nA: b".repeat(count);
        let with = |count| request(&format!("GET / HTTP/1.1\nHost: a{}", fields(count)));
        assert!(with(FIELDS_MAX - 1).is_ok());
        assert_eq!(with(FIELDS_MAX), Err(HeadFault::TooLarge));

        let mut long = b"GET / HTTP/1.1\r\nHost: a\r\nA: ".to_vec();
        long.resize(HEAD_BYTES_MAX - 1, b'x');
        assert_eq!(parse(&long), Ok(Found::Part));
        long.push(b'x');
        assert_eq!(parse(&long), Err(HeadFault::TooLarge));
        long.extend(b"\r\n\r\n");
        assert_eq!(parse(&long), Err(HeadFault::TooLarge));
    }
}
