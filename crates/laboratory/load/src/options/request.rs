//! The request that is made on a connection.

use super::files::{Files, content};
use super::url::Url;
use super::value::Times;
use super::written::WrittenLoad;
use crate::plan::PlannedRequest;

/// The request; `None` = no requests are made. Every contradiction is noted.
pub(crate) fn request(
    load: &WrittenLoad<'_>,
    url: &Url,
    files: Files<'_>,
) -> Option<PlannedRequest> {
    if load.request.no_request.is_on() {
        check_absence(load, url);
        return None;
    }
    let body = body(load, files);
    Some(PlannedRequest {
        method: method(load, !body.is_empty()),
        path: path(load, url),
        headers: load.request.header.elements().to_vec(),
        body,
    })
}

/// Refuses contradictions to `--no-request` that the table of options does not exclude.
fn check_absence(load: &WrittenLoad<'_>, url: &Url) {
    let per_connection = &load.clients.requests_per_connection;
    per_connection.refuse_if(
        per_connection.value != Some(Times::Count(1)),
        "--no-request has no requests to make on a connection",
        "leave out one of the two",
    );
    load.request.no_request.refuse_if(
        !url.tls,
        "http:// without a request does nothing at all",
        "write https://, or leave out --no-request",
    );
}

/// Servers accept 16 KiB of early data as a rule, and the head needs its room.
const EARLY_BODY_BYTES_MAX: usize = 15 << 10;

fn body(load: &WrittenLoad<'_>, files: Files<'_>) -> Vec<u8> {
    let body = match load.request.body.given() {
        Some(text) => text.clone().into_bytes(),
        None => content(&load.request.body_file, files).unwrap_or_default(),
    };
    load.tls.early_data.refuse_if(
        load.tls.early_data.is_on() && body.len() > EARLY_BODY_BYTES_MAX,
        format!("a body of {} bytes is more than servers take early", body.len()),
        format!("a body of at most {EARLY_BODY_BYTES_MAX} bytes"),
    );
    body
}

/// Methods that must not have a body (RFC 9110, section 9.3), though some clients send one.
const WITHOUT_BODY: [&str; 3] = ["GET", "HEAD", "TRACE"];

fn method(load: &WrittenLoad<'_>, has_body: bool) -> String {
    let default = if has_body { "POST" } else { "GET" };
    let method = load.request.method.given().map_or(default, String::as_str);
    load.request.method.refuse_if(
        has_body && WITHOUT_BODY.contains(&method),
        format!("{method} has no body"),
        "--method POST, or no body",
    );
    method.to_owned()
}

fn path(load: &WrittenLoad<'_>, url: &Url) -> String {
    let Some(size) = load.request.size.given() else {
        return url.path.clone();
    };
    load.request.size.refuse_if(
        url.path != "/",
        format!("stands beside a path in the URL, {}", url.path),
        "leave out one of the two",
    );
    format!("/?size={size}")
}
