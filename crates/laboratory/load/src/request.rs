//! A plan's request as bytes.

use std::fmt::Write;

use crate::plan::{Plan, Request};

/// The request, in both forms that it is sent in.
#[derive(Debug)]
pub(crate) struct Requests {
    stays: Vec<u8>,
    closes: Vec<u8>,
    pub(crate) to_head: bool,
}

impl Requests {
    /// As HTTP/1.1 (RFC 9112).
    pub(crate) fn new(plan: &Plan, request: &Request) -> Self {
        let one_each = plan.clients.requests_per_connection == Some(1);
        let closes = bytes(plan, request, true);
        Self {
            stays: if one_each {
                Vec::new()
            } else {
                bytes(plan, request, false)
            },
            closes,
            to_head: request.method == "HEAD",
        }
    }

    /// For the last request of a connection, or for one that others follow.
    #[inline]
    pub(crate) fn bytes(&self, is_last: bool) -> &[u8] {
        if is_last { &self.closes } else { &self.stays }
    }
}

fn bytes(plan: &Plan, request: &Request, closes: bool) -> Vec<u8> {
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
    let has = |wanted: &str| {
        let mut names = request.headers.iter().map(|(name, _)| name);
        names.any(|name| name.eq_ignore_ascii_case(wanted))
    };
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a string does not fail.
        let _ = write!(head, "{name}: {value}\r\n");
    };
    if !has("Host") {
        line("Host", &plan.target.authority);
    }
    for (name, value) in &request.headers {
        line(name, value);
    }
    if !request.body.is_empty() || matches!(request.method.as_str(), "POST" | "PUT" | "PATCH") {
        line("Content-Length", &request.body.len());
    }
    if closes {
        line("Connection", &"close");
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&request.body);
    bytes
}
