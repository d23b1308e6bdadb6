//! The reply to a request: status, head and body.
//!
//! Pure. A reply says no more than it must; above all no `Date`, which would make no two alike
//! (RFC 9110, section 6.6.1 wants one of servers whose replies are kept).

use std::io::Write;
use std::time::Duration;

use wire::http::HeadFault;

use super::parse::{Method, Request};
use super::query::{Content, QueryFault};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) framing: Framing,
    /// Its body; with [`Framing::Absent`], the one that it would have.
    pub(super) content: Content,
    pub(super) delay: Duration,
    pub(super) persistence: Persistence,
}

/// How the body of a reply ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Framing {
    Length,
    Chunked,
    /// With the connection: HTTP/1.0 has no chunks.
    Connection,
    /// It is not sent: HEAD.
    Absent,
    /// There cannot be one: 204, 304.
    Forbidden,
}

/// Whether the connection goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Persistence {
    /// It goes on, as is usual.
    Keep,
    /// It goes on, which HTTP/1.0 says in a field.
    KeepSaid,
    Close,
}

impl Answer {
    /// The reply to a request.
    pub(super) fn to(request: &Request) -> Self {
        let query = match (request.method, request.query) {
            (Method::Other, _) => return Self::refusal(405, "Only GET, HEAD, POST and PUT.\n"),
            (_, Err(fault)) => return Self::to_query_fault(fault, request),
            (_, Ok(query)) => query,
        };
        let framing = match query.code {
            204 | 304 => Framing::Forbidden,
            _ if request.method == Method::Head => Framing::Absent,
            // A line is not worth it.
            _ if matches!(query.content, Content::Text(_)) => Framing::Length,
            _ if query.chunked && request.is_http10 => Framing::Connection,
            _ if query.chunked => Framing::Chunked,
            _ => Framing::Length,
        };
        let goes_on = request.keeps_alive && !query.close && framing != Framing::Connection;
        Self {
            code: query.code,
            framing,
            content: query.content,
            delay: query.delay,
            persistence: Persistence::of(goes_on, request.is_http10),
        }
    }

    fn to_query_fault(fault: QueryFault, request: &Request) -> Self {
        match fault {
            QueryFault::Unknown => Self {
                persistence: Persistence::of(request.keeps_alive, request.is_http10),
                framing: match request.method {
                    Method::Head => Framing::Absent,
                    _ => Framing::Length,
                },
                ..Self::refusal(404, "No such size. / shows what there is.\n")
            },
            QueryFault::Size => Self::refusal(400, "size: digits, then k, m or g if you like.\n"),
            QueryFault::Time => Self::refusal(400, "time: milliseconds, up to 600000.\n"),
            QueryFault::Code => Self::refusal(400, "code: a status from 200 to 599.\n"),
            QueryFault::Switch => Self::refusal(400, "close and chunked: 0 or 1.\n"),
        }
    }

    /// The reply to what is no request.
    pub(super) fn to_fault(fault: HeadFault) -> Self {
        match fault {
            HeadFault::Malformed(_) => Self::refusal(400, "No well-formed HTTP/1.1 request.\n"),
            HeadFault::TooLarge => Self::refusal(431, "At most 16 KiB and 100 fields.\n"),
            HeadFault::Version => Self::refusal(505, "HTTP/1.1 or HTTP/1.0.\n"),
            HeadFault::TransferCoding => Self::refusal(501, "No transfer coding but chunked.\n"),
            HeadFault::Expectation => Self::refusal(417, "No expectation but 100-continue.\n"),
        }
    }

    /// A reply that ends the connection.
    pub(super) fn refusal(code: u16, text: &'static str) -> Self {
        Self {
            code,
            framing: Framing::Length,
            content: Content::Text(text),
            delay: Duration::ZERO,
            persistence: Persistence::Close,
        }
    }

    pub(super) fn write_head(&self, out: &mut Vec<u8>) {
        let mut say = |text: std::fmt::Arguments<'_>| {
            out.write_fmt(text).expect("memory takes what it is given");
        };
        say(format_args!(
            "HTTP/1.1 {} {}\r\n",
            self.code,
            reason(self.code)
        ));
        match self.framing {
            Framing::Length | Framing::Absent => {
                say(format_args!("Content-Length: {}\r\n", self.content.bytes()));
            }
            Framing::Chunked => say(format_args!("Transfer-Encoding: chunked\r\n")),
            Framing::Connection | Framing::Forbidden => {}
        }
        if let Content::Text(_) = self.content {
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

impl Content {
    fn bytes(self) -> u64 {
        match self {
            Self::Pattern(bytes) => bytes,
            Self::Text(text) => text.len() as u64,
        }
    }
}

/// The reason phrase of the usual ones (RFC 9110, section 15); it may be empty.
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

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    fn answer(lines: &str) -> Answer {
        let bytes = format!("{}\r\n\r\n", lines.replace('\n', "\r\n"));
        match parse(bytes.as_bytes()) {
            Ok(Some((_, request))) => Answer::to(&request),
            other => panic!("{lines:?}: {other:?}"),
        }
    }

    fn head(lines: &str) -> (String, u64) {
        let answer = answer(lines);
        let mut out = Vec::new();
        answer.write_head(&mut out);
        (String::from_utf8(out).unwrap(), body_bytes(&answer))
    }

    fn body_bytes(answer: &Answer) -> u64 {
        match answer.framing {
            Framing::Absent | Framing::Forbidden => 0,
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
    fn bodies_end_as_the_client_can_see() {
        let (text, body) = head("GET /1k?chunked=1 HTTP/1.1\nHost: a");
        assert!(text.contains("Transfer-Encoding: chunked\r\n"), "{text}");
        assert!(!text.contains("Content-Length"), "{text}");
        assert_eq!(body, 1024);
        let (text, _) = head("GET /1k?chunked=1 HTTP/1.0\nConnection: keep-alive");
        assert_eq!(text, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        let (text, body) = head("GET /1k?code=204 HTTP/1.1\nHost: a");
        assert_eq!(text, "HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(body, 0);
        let (text, _) = head("GET /1?code=299 HTTP/1.1\nHost: a");
        assert!(text.starts_with("HTTP/1.1 299 \r\n"), "{text}");
    }

    #[test]
    fn connections_go_on_or_end_and_it_is_said() {
        let persistence = |lines: &str| answer(lines).persistence;
        assert_eq!(persistence("GET /1 HTTP/1.1\nHost: a"), Persistence::Keep);
        let close = "GET /1?close=1 HTTP/1.1\nHost: a";
        assert_eq!(persistence(close), Persistence::Close);
        assert!(head(close).0.contains("Connection: close\r\n"));
        assert_eq!(persistence("GET /1 HTTP/1.0"), Persistence::Close);
        let kept = "GET /1 HTTP/1.0\nConnection: keep-alive";
        assert_eq!(persistence(kept), Persistence::KeepSaid);
        assert!(head(kept).0.contains("Connection: keep-alive\r\n"));
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
        assert!(
            head("DELETE /1k HTTP/1.1\nHost: a")
                .0
                .contains("\r\nAllow: GET")
        );
        let unknown = answer("GET /index.html HTTP/1.1\nHost: a");
        assert_eq!(
            (unknown.code, unknown.persistence),
            (404, Persistence::Keep)
        );
        for (fault, code) in [
            (HeadFault::Malformed("no Host field"), 400),
            (HeadFault::TooLarge, 431),
            (HeadFault::Version, 505),
            (HeadFault::TransferCoding, 501),
            (HeadFault::Expectation, 417),
        ] {
            assert_eq!(Answer::to_fault(fault).code, code);
        }
    }
}
