//! Parses requests of the test server: their heads, and the reply that a query asks for.

use std::time::Duration;

use wire::http::{ContentEnd, HeadFault, RequestHead};

/// Limit of a head; common servers allow 8 to 32 KiB.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct OriginRequest {
    pub(super) method: OriginMethod,
    pub(super) query: Result<Query, QueryFault>,
    pub(super) content: ContentEnd,
    /// Whether the version is HTTP/1.0: no chunks, and no second request unless it asks.
    pub(super) is_http10: bool,
    /// Whether the client wants to keep the connection open.
    pub(super) keeps_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the content.
    pub(super) expects_continue: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum OriginMethod {
    /// GET, POST and PUT: the reply has a body.
    Whole,
    /// HEAD: the reply has no body.
    Head,
    Other,
}

/// Parses the first head and returns it with its length; `None` while it is incomplete.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(usize, OriginRequest)>, HeadFault> {
    let head = RequestHead::parse(bytes, HEAD_BYTES_MAX, |_, _| {})?;
    Ok(head.map(|head| {
        let request = OriginRequest {
            method: match head.method {
                "GET" | "POST" | "PUT" => OriginMethod::Whole,
                "HEAD" => OriginMethod::Head,
                _ => OriginMethod::Other,
            },
            query: Query::parse(head.target),
            content: head.content,
            is_http10: head.is_http10,
            keeps_alive: head.keeps_alive,
            expects_continue: head.expects_continue,
        };
        (head.bytes, request)
    }))
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Query {
    pub(super) content: OriginContent,
    pub(super) delay: Duration,
    pub(super) close: bool,
    pub(super) chunked: bool,
    pub(super) code: u16,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum OriginContent {
    Pattern(u64),
    Text(&'static str),
}

/// Reasons why a path or query is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum QueryFault {
    Unknown,
    /// A field is malformed; contains the line that describes the valid values.
    Field(&'static str),
}

const SIZE: QueryFault = QueryFault::Field("size: digits, then k, m or g if you like.\n");
const TIME: QueryFault = QueryFault::Field("time: milliseconds, up to 600000.\n");
const CODE: QueryFault = QueryFault::Field("code: a status from 200 to 599.\n");
const SWITCH: QueryFault = QueryFault::Field("close and chunked: 0 or 1.\n");

/// Ten minutes: longer than any client waits.
const DELAY_MS_MAX: u64 = 600_000;

const HELP: &str = "Sizes: /0 /1k /64k /1m, or /?size=64k&time=20&close=1&chunked=1&code=503\n";

impl Query {
    /// Parses the query of an origin-form or absolute-form target (RFC 9112, section 3.2).
    pub(super) fn parse(target: &str) -> Result<Self, QueryFault> {
        let target = without_authority(target);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut parsed = Self::of_path(path)?;
        for field in query.split('&') {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            parsed.set(name, value)?;
        }
        Ok(parsed)
    }

    fn of_path(path: &str) -> Result<Self, QueryFault> {
        let content = match path {
            // In absolute-form the path may be empty (RFC 9110, section 4.2.3).
            "" | "/" => OriginContent::Text(HELP),
            _ => {
                let size = path.strip_prefix('/').and_then(parse_size);
                OriginContent::Pattern(size.ok_or(QueryFault::Unknown)?)
            }
        };
        Ok(Self { content, delay: Duration::ZERO, close: false, chunked: false, code: 200 })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), QueryFault> {
        match name {
            "size" => self.content = OriginContent::Pattern(parse_size(value).ok_or(SIZE)?),
            "time" => self.delay = parse_delay(value).ok_or(TIME)?,
            "code" => self.code = parse_code(value).ok_or(CODE)?,
            "close" => self.close = parse_switch(value).ok_or(SWITCH)?,
            "chunked" => self.chunked = parse_switch(value).ok_or(SWITCH)?,
            _ => {}
        }
        Ok(())
    }
}

/// Shortens `http://host/path` to `/path`: some clients talk to a server as to a proxy.
fn without_authority(target: &str) -> &str {
    let Some((_, rest)) = target.split_once("://").filter(|_| !target.starts_with('/')) else {
        return target;
    };
    rest.find(['/', '?']).map_or("", |at| &rest[at..])
}

/// Parses `512`, `64k`, `1m`, `10g`: the letters are powers of 1024.
fn parse_size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        b'g' | b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    parse_number(digits)?.checked_mul(unit).filter(|&bytes| bytes <= SIZE_BYTES_MAX)
}

/// 1 EiB: positions in a reply with its framing stay far from 64 bits.
const SIZE_BYTES_MAX: u64 = 1 << 60;

fn parse_delay(text: &str) -> Option<Duration> {
    Some(Duration::from_millis(parse_number(text).filter(|&ms| ms <= DELAY_MS_MAX)?))
}

/// Parses a status that ends an exchange; 1xx announces another.
fn parse_code(text: &str) -> Option<u16> {
    let code = u16::try_from(parse_number(text)?).ok()?;
    (200..600).contains(&code).then_some(code)
}

fn parse_switch(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

/// Parses digits alone, because `parse` would accept a sign.
fn parse_number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_understood_when_it_is_complete() {
        for (name, method) in [
            ("GET", OriginMethod::Whole),
            ("PUT", OriginMethod::Whole),
            ("HEAD", OriginMethod::Head),
            ("DELETE", OriginMethod::Other),
        ] {
            let text = format!("{name} /1k HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n");
            let request = OriginRequest {
                method,
                query: Query::parse("/1k"),
                content: ContentEnd::Length(7),
                is_http10: false,
                keeps_alive: true,
                expects_continue: false,
            };
            let end = text.len();
            assert_eq!(parse(text.repeat(2).as_bytes()), Ok(Some((end, request))));
            assert_eq!(parse(&text.as_bytes()[..end - 1]), Ok(None));
        }
    }

    fn size(target: &str) -> Result<u64, QueryFault> {
        match Query::parse(target)?.content {
            OriginContent::Pattern(bytes) => Ok(bytes),
            OriginContent::Text(text) => panic!("{text}"),
        }
    }

    #[test]
    fn the_root_alone_is_for_people() {
        for target in ["/", "http://origin", "/?time=5"] {
            let query = Query::parse(target).unwrap();
            assert_eq!(query.content, OriginContent::Text(HELP), "{target}");
        }
    }

    #[test]
    fn what_is_not_there_is_unknown_and_what_is_wrong_is_named() {
        for target in ["*", "1k", "/index.html", "/k", "/1kb", "/-1", "/+1", "/1k/"] {
            assert_eq!(size(target), Err(QueryFault::Unknown), "{target}");
        }
        assert_eq!(size("/99999999999999999999"), Err(QueryFault::Unknown));
        assert_eq!(size("/18446744073709551615g"), Err(QueryFault::Unknown));
        assert_eq!(size("/?size=x"), Err(SIZE));
        assert_eq!(size("/?size="), Err(SIZE));
        assert_eq!(size("/?time=600001"), Err(TIME));
        assert_eq!(size("/?code=199"), Err(CODE));
        assert_eq!(size("/?code=600"), Err(CODE));
        assert_eq!(size("/?close=yes"), Err(SWITCH));
        assert_eq!(size("/?chunked"), Err(SWITCH));
    }
}
