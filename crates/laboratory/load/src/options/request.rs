//! What is asked for on a connection.

use super::fault::Faults;
use super::settings::{Files, Options};
use super::url::Url;
use super::value::Times;
use crate::plan::Request;

/// What is asked for; `None` = nothing. Every contradiction is noted.
pub(crate) fn request(
    options: &Options,
    url: &Url,
    files: &Files,
    faults: &mut Faults,
) -> Option<Request> {
    if options.no_request {
        refuse_all(options, url, faults);
        return None;
    }
    let body = body(options, files, faults);
    Some(Request {
        method: method(options, !body.is_empty(), faults),
        path: path(options, url, faults),
        headers: options.headers.clone(),
        body,
    })
}

/// Settings that say something about requests.
const OF_REQUESTS: [&str; 5] = ["method", "header", "body", "body-file", "size"];

fn refuse_all(options: &Options, url: &Url, faults: &mut Faults) {
    for name in OF_REQUESTS
        .into_iter()
        .filter(|name| options.is_given(name))
    {
        faults.add(
            name,
            "--no-request asks for nothing",
            "leave out one of the two",
        );
    }
    let once = [None, Some(Times::Count(1))].contains(&options.requests_per_connection);
    faults.add_if(
        !once,
        "requests-per-connection",
        "--no-request has no requests to make on a connection",
        "leave out one of the two",
    );
    faults.add_if(
        options.early_data,
        "early-data",
        "--no-request has no request to send early",
        "leave out one of the two",
    );
    faults.add_if(
        !url.tls,
        "no-request",
        "http:// without a request does nothing at all",
        "write https://, or leave out --no-request",
    );
}

/// Servers accept 16 KiB of early data as a rule, and the head needs its room.
const EARLY_BODY_BYTES_MAX: usize = 15 << 10;

fn body(options: &Options, files: &Files, faults: &mut Faults) -> Vec<u8> {
    faults.add_if(
        options.body.is_some() && options.body_file.is_some(),
        "body-file",
        "stands beside --body",
        "a request has one body",
    );
    let from_file = match files.get("body-file") {
        Some(Ok(bytes)) => bytes.clone(),
        Some(Err(why)) => {
            faults.add("body-file", why.clone(), "a file that we may read");
            Vec::new()
        }
        None => Vec::new(),
    };
    let body = match &options.body {
        Some(text) => text.clone().into_bytes(),
        None => from_file,
    };
    faults.add_if(
        options.early_data && body.len() > EARLY_BODY_BYTES_MAX,
        "early-data",
        format!(
            "a body of {} bytes is more than servers take early",
            body.len()
        ),
        format!("a body of at most {EARLY_BODY_BYTES_MAX} bytes"),
    );
    body
}

/// What must not have a body (RFC 9110, section 9.3), though some send one.
const WITHOUT_BODY: [&str; 3] = ["GET", "HEAD", "TRACE"];

fn method(options: &Options, has_body: bool, faults: &mut Faults) -> String {
    let default = if has_body { "POST" } else { "GET" };
    let method = options.method.as_deref().unwrap_or(default);
    faults.add_if(
        has_body && WITHOUT_BODY.contains(&method),
        "method",
        format!("{method} has no body"),
        "--method POST, or no body",
    );
    method.to_owned()
}

fn path(options: &Options, url: &Url, faults: &mut Faults) -> String {
    let Some(size) = options.size else {
        return url.path.clone();
    };
    faults.add_if(
        url.path != "/",
        "size",
        format!("stands beside a path in the URL, {}", url.path),
        "leave out one of the two",
    );
    format!("/?size={size}")
}
