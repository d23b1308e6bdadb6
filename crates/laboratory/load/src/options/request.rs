//! The requests that are made on connections.

use options::KeyPlace;

use super::files::Files;
use super::requests::{body, method_with, requests as of_file};
use super::url::Url;
use super::value::Times;
use super::written::WrittenLoad;
use crate::plan::PlannedRequest;

/// The requests; empty = none are made. Every contradiction is noted.
pub(crate) fn requests(load: &WrittenLoad<'_>, url: &Url, files: Files<'_>) -> Vec<PlannedRequest> {
    if load.request.no_request.is_on() {
        check_absence(load, url);
        return Vec::new();
    }
    let headers = load.request.header.elements();
    if load.request.requests.is_written() {
        return mixture(load, url, files);
    }
    let body = body(&load.request.body, &load.request.body_file, files);
    check_early(load, &body);
    vec![PlannedRequest {
        method: method_with(&load.request.method, !body.is_empty()),
        path: path(load, url),
        headers: headers.to_vec(),
        body,
        weight: 1,
    }]
}

/// The requests of a file, each with the headers of all.
fn mixture(load: &WrittenLoad<'_>, url: &Url, files: Files<'_>) -> Vec<PlannedRequest> {
    let option = &load.request.requests;
    refuse_beside_path(option, url);
    let mut requests = of_file(option, url, files);
    for request in &mut requests {
        request.headers.splice(0..0, load.request.header.elements().iter().cloned());
        check_early(load, &request.body);
    }
    requests
}

fn refuse_beside_path(key: &KeyPlace<'_>, url: &Url) {
    key.refuse_if(
        url.path != "/",
        format!("stands beside a path in the URL, {}", url.path),
        "leave out one of the two",
    );
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

fn check_early(load: &WrittenLoad<'_>, body: &[u8]) {
    load.tls.early_data.refuse_if(
        load.tls.early_data.is_on() && body.len() > EARLY_BODY_BYTES_MAX,
        format!("a body of {} bytes is more than servers take early", body.len()),
        format!("a body of at most {EARLY_BODY_BYTES_MAX} bytes"),
    );
}

fn path(load: &WrittenLoad<'_>, url: &Url) -> String {
    let Some(size) = load.request.size.given() else {
        return url.path.clone();
    };
    refuse_beside_path(&load.request.size, url);
    format!("/?size={size}")
}
