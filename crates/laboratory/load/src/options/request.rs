//! What is asked for on a connection.

use options::Section;

use super::asked::Options;
use super::files::{Files, content};
use super::url::Url;
use super::value::Times;
use crate::plan::PlannedRequest;

/// What is asked for; `None` = nothing. Every contradiction is noted.
pub(crate) fn request(
    options: &Options,
    url: &Url,
    files: Files<'_>,
    top: &Section<'_>,
) -> Option<PlannedRequest> {
    if options.no_request {
        check_absence(options, url, top);
        return None;
    }
    let body = body(options, files, top);
    Some(PlannedRequest {
        method: method(options, !body.is_empty(), top),
        path: path(options, url, top),
        headers: options.headers.clone(),
        body,
    })
}

/// What only requests need is excluded by the table.
fn check_absence(options: &Options, url: &Url, top: &Section<'_>) {
    top.refuse_if(
        options.requests_per_connection != Times::Count(1),
        "requests-per-connection",
        "--no-request has no requests to make on a connection",
        "leave out one of the two",
    );
    top.refuse_if(
        !url.tls,
        "no-request",
        "http:// without a request does nothing at all",
        "write https://, or leave out --no-request",
    );
}

/// Servers accept 16 KiB of early data as a rule, and the head needs its room.
const EARLY_BODY_BYTES_MAX: usize = 15 << 10;

fn body(options: &Options, files: Files<'_>, top: &Section<'_>) -> Vec<u8> {
    let of_file = |path| content("body-file", path, files, top);
    let body = match (&options.body, &options.body_file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(path)) => of_file(path).unwrap_or_default(),
        (None, None) => Vec::new(),
    };
    top.refuse_if(
        options.early_data && body.len() > EARLY_BODY_BYTES_MAX,
        "early-data",
        format!("a body of {} bytes is more than servers take early", body.len()),
        format!("a body of at most {EARLY_BODY_BYTES_MAX} bytes"),
    );
    body
}

/// What must not have a body (RFC 9110, section 9.3), though some send one.
const WITHOUT_BODY: [&str; 3] = ["GET", "HEAD", "TRACE"];

fn method(options: &Options, has_body: bool, top: &Section<'_>) -> String {
    let default = if has_body { "POST" } else { "GET" };
    let method = options.method.as_deref().unwrap_or(default);
    top.refuse_if(
        has_body && WITHOUT_BODY.contains(&method),
        "method",
        format!("{method} has no body"),
        "--method POST, or no body",
    );
    method.to_owned()
}

fn path(options: &Options, url: &Url, top: &Section<'_>) -> String {
    let Some(size) = options.size else {
        return url.path.clone();
    };
    top.refuse_if(
        url.path != "/",
        "size",
        format!("stands beside a path in the URL, {}", url.path),
        "leave out one of the two",
    );
    format!("/?size={size}")
}
