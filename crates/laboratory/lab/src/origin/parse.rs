//! Requests: what their heads ask of the test server.
//!
//! Framing is `wire::http`'s; what a path means is `query`'s, what is replied `answer`'s.

use wire::http::{ContentEnd, HeadFault, RequestHead};

use super::query::{Query, QueryFault};

/// The longest head; common servers allow 8 to 32 KiB.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A request without its content.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) query: Result<Query, QueryFault>,
    pub(super) content: ContentEnd,
    /// Whether the version is HTTP/1.0: no chunks, and no second request unless it asks.
    pub(super) is_http10: bool,
    /// Whether the client wants to go on with this connection.
    pub(super) keeps_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the content.
    pub(super) expects_continue: bool,
}

/// What is to be done with a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Method {
    /// GET, POST and PUT: the reply has a body.
    Whole,
    /// HEAD: the reply has none.
    Head,
    Other,
}

/// Reads the first head, with its length; nothing while it is incomplete.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(usize, Request)>, HeadFault> {
    let head = RequestHead::parse(bytes, HEAD_BYTES_MAX, |_, _| {})?;
    Ok(head.map(|head| {
        let request = Request {
            method: match head.method {
                "GET" | "POST" | "PUT" => Method::Whole,
                "HEAD" => Method::Head,
                _ => Method::Other,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_understood_when_it_is_complete() {
        for (name, method) in [
            ("GET", Method::Whole),
            ("PUT", Method::Whole),
            ("HEAD", Method::Head),
            ("DELETE", Method::Other),
        ] {
            let text = format!("{name} /1k HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n");
            let request = Request {
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
}
