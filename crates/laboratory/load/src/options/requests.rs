//! Reads the requests to make on connections: those of options, and files of requests, each with
//! its weight: a list of paths and URLs, or TOML.
//!
//! A fault of a file names it and the line. Opens nothing by itself.

use std::path::Path;
use std::str::FromStr;

use options::row::{count, parsed_by, path, text};
use options::{
    Field, Key, KeyPlace, Kind, Nested, Problem, Report, Section, Table, Tables, section, table,
};

use super::url::Url;
use super::value::{self, Files, Read, Times, content};
use super::written::WrittenLoad;
use crate::plan::PlannedRequest;

/// Maximum requests of a load: the histogram of one takes some 70 KiB in each thread.
const REQUESTS_MAX: usize = 1000;

/// Maximum lines of a list. Repeated ones are one request with the weight of all.
const LINES_MAX: usize = 1_000_000;

/// Maximum faults of a file to report: a file with more of them is of another kind.
const FAULTS_MAX: usize = 10;

section! {
    table("");
    /// A file of requests as it was written.
    struct WrittenRequests<'a> {
        request: Tables<'a, WrittenMixedRequest<'a>>,
    }
}

section! {
    table("request").many().absent("none").example(r#"request = [{ path = "/1k", weight = 3 }]"#);
    /// A request, and how often it is made.
    struct WrittenMixedRequest<'a> {
        /// The path, or a URL of the server under load.
        path: String = parsed_by(Kind::Text("PATH"), |text| Ok(text.to_owned()))
            .example(r#"path = "/1k""#),
        /// The method.
        method: Option<String> = parsed_by(Kind::Text("METHOD"), value::method)
            .absent("GET; POST with a body").example(r#"method = "HEAD""#),
        /// Further headers, beside those of all requests.
        header: Vec<(String, String)> = parsed_by(Kind::Text("'NAME: VALUE'"), value::header)
            .many().absent("").example(r#"header = ["Accept: text/html"]"#),
        /// The body.
        body: Option<String> = text("TEXT").absent("").example(r#"body = "a=1""#),
        /// A file that holds the body, beside this one.
        body_file: Option<String> = path().absent("").excludes(&["body"], "a request has one body")
            .example(r#"body-file = "order.json""#),
        /// The share of all requests, relative to the others'.
        weight: u32 = count(1, 1_000_000).default("1").example("weight = 3"),
    }
}

const KEYS: &[Key] = WrittenRequests::KEY.children;

static TABLE: Table = Table {
    keys: &options::key::flattened::<{ options::key::count(KEYS) }>(KEYS, ""),
    foreign: || &[],
    later: &[],
    help: "docs/guide/load.md",
};

/// Reads the requests of a file; none if there are faults, all of which are noted at the option.
fn of_file(option: &Field<'_, Option<String>>, url: &Url, files: Files<'_>) -> Vec<PlannedRequest> {
    let Some((name, bytes)) = option.given().zip(content(option, files)) else {
        return Vec::new();
    };
    let read = match String::from_utf8(bytes) {
        Err(_) => Err(vec![Problem::new(format!("{name} is no text"))]),
        Ok(text) if name.ends_with(".toml") => of_document(name, &text, url, files),
        Ok(text) => of_list(name, &text, url),
    };
    let refuse = |problem: Problem| match problem.hint {
        Some(_) => option.error(problem),
        None => option.error(problem.hint("a path or URL per line, or TOML with [[request]]")),
    };
    match read {
        Err(problems) => problems.into_iter().take(FAULTS_MAX).for_each(refuse),
        Ok(requests) if requests.is_empty() => {
            refuse(Problem::new(format!("there is no request in {name}")));
        }
        Ok(requests) if requests.len() > REQUESTS_MAX => {
            let many = format!("{name} has {} requests", requests.len());
            refuse(Problem::new(many).hint(format!("{REQUESTS_MAX} at most")));
        }
        Ok(requests) => return requests,
    }
    Vec::new()
}

/// Reads `[METHOD] PATH-OR-URL` in each line; `#` begins a comment line.
fn of_list(name: &str, text: &str, url: &Url) -> Result<Vec<PlannedRequest>, Vec<Problem>> {
    let (mut requests, mut problems) = (Vec::<PlannedRequest>::new(), Vec::new());
    let mut places = std::collections::HashMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |problem| placed(&format!("{name}:{}", index + 1), problem);
        if index >= LINES_MAX {
            problems.push(at(Problem::new("a list has at most 1,000,000 lines")));
            break;
        }
        if let Some(place) = places.get(line) {
            let known: &mut PlannedRequest = &mut requests[*place];
            known.weight += 1;
            continue;
        }
        match listed(line, url) {
            Ok(request) => {
                places.insert(line, requests.len());
                requests.push(request);
            }
            Err(problem) => problems.push(at(problem)),
        }
    }
    if problems.is_empty() { Ok(requests) } else { Err(problems) }
}

fn listed(line: &str, url: &Url) -> Read<PlannedRequest> {
    let (method, place) = match line.split_once(char::is_whitespace) {
        Some((method, place)) => (value::method(method)?, place.trim_start()),
        None => ("GET".to_owned(), line),
    };
    let path = path_of(place, url)?;
    Ok(PlannedRequest { method, path, headers: Vec::new(), body: Vec::new(), weight: 1 })
}

/// Returns the path of a request to the server of `url`.
fn path_of(text: &str, url: &Url) -> Read<String> {
    if text.starts_with('/') {
        let scheme = if url.tls { "https" } else { "http" };
        return Ok(Url::from_str(&format!("{scheme}://{}{text}", url.authority))?.path);
    }
    let own = Url::from_str(text).map_err(|problem| match problem.hint {
        Some(_) => problem,
        None => problem.hint("for example: /1k, or POST /1k"),
    })?;
    if (own.tls, &own.endpoint) == (url.tls, &url.endpoint) {
        return Ok(own.path);
    }
    let why = format!("{text} is not of the server under load, {}", url.text);
    Err(Problem::new(why).hint("one load is of one server; --connect names its addresses"))
}

fn of_document(
    name: &str,
    text: &str,
    url: &Url,
    files: Files<'_>,
) -> Result<Vec<PlannedRequest>, Vec<Problem>> {
    let report = Report::new(Some((name, text)));
    let mut requests = Vec::new();
    if let Some(root) = options::document::parse(text, &report) {
        options::check(&root, &TABLE, &report);
        if report.errors() == 0 {
            let top = Section::top(&TABLE, &root, &report);
            let written = WrittenRequests::of(top.at(const { &WrittenRequests::KEY }), top);
            let beside = |path: &Path| files(&Path::new(name).with_file_name("").join(path));
            let read = written.request.tables.iter();
            requests.extend(read.filter_map(|one| planned(one, url, &beside)));
        }
    }
    if report.errors() == 0 {
        return Ok(requests);
    }
    let told = report.into_diagnostics().into_iter().map(|one| {
        let about = one.subject.map_or_else(String::new, |subject| format!("{subject}: "));
        let problem = Problem { message: about + &one.message, hint: one.hint };
        match one.place {
            options::FaultLocation::File { path, line, .. } if line > 0 => {
                placed(&format!("{path}:{line}"), problem)
            }
            _ => placed(name, problem),
        }
    });
    Err(told.collect())
}

fn planned(
    written: &WrittenMixedRequest<'_>,
    url: &Url,
    files: Files<'_>,
) -> Option<PlannedRequest> {
    let body = body(&written.body, &written.body_file, files);
    let path = path_of(written.path.value.as_ref()?, url);
    let path = path.map_err(|problem| written.path.error(problem)).ok()?;
    Some(PlannedRequest {
        method: method_with(&written.method, !body.is_empty()),
        path,
        headers: written.header.elements().to_vec(),
        body,
        weight: written.weight.value?,
    })
}

/// Returns the body as written, or that of a file.
pub(super) fn body(
    written: &Field<'_, Option<String>>,
    file: &Field<'_, Option<String>>,
    files: Files<'_>,
) -> Vec<u8> {
    match written.given() {
        Some(text) => text.clone().into_bytes(),
        None => content(file, files).unwrap_or_default(),
    }
}

/// Methods that must not have a body (RFC 9110, section 9.3), though some clients send one.
const WITHOUT_BODY: [&str; 3] = ["GET", "HEAD", "TRACE"];

/// Returns the method as written, or by the body.
fn method_with(written: &Field<'_, Option<String>>, has_body: bool) -> String {
    let default = if has_body { "POST" } else { "GET" };
    let method = written.given().map_or(default, String::as_str);
    written.refuse_if(
        has_body && WITHOUT_BODY.contains(&method),
        format!("{method} has no body"),
        "--method POST, or no body",
    );
    method.to_owned()
}

fn placed(place: &str, problem: Problem) -> Problem {
    Problem { message: format!("{place}: {}", problem.message), ..problem }
}

/// Reads the requests; empty if none are made. Notes every contradiction.
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
        path: request_path(load, url),
        headers: headers.to_vec(),
        body,
        weight: 1,
    }]
}

/// Returns the requests of a file, each with the common headers.
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

/// Limit for early data: servers usually accept 16 KiB, and the head needs a part of it.
const EARLY_BODY_BYTES_MAX: usize = 15 << 10;

fn check_early(load: &WrittenLoad<'_>, body: &[u8]) {
    load.tls.early_data.refuse_if(
        load.tls.early_data.is_on() && body.len() > EARLY_BODY_BYTES_MAX,
        format!("a body of {} bytes is more than servers take early", body.len()),
        format!("a body of at most {EARLY_BODY_BYTES_MAX} bytes"),
    );
}

fn request_path(load: &WrittenLoad<'_>, url: &Url) -> String {
    let Some(size) = load.request.size.given() else {
        return url.path.clone();
    };
    refuse_beside_path(&load.request.size, url);
    format!("/?size={size}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url() -> Url {
        "https://shop.example/".parse().unwrap()
    }

    fn messages(read: Result<Vec<PlannedRequest>, Vec<Problem>>) -> Vec<String> {
        read.unwrap_err().into_iter().map(|one| one.message).collect()
    }

    #[test]
    fn a_list_has_weights_by_its_repetitions() {
        let text = "# a log\n/a\n\nHEAD /b?c=d\n/a\nhttps://shop.example:443/a/b\n";
        let requests = of_list("l", text, &url()).unwrap();
        let rows = requests.iter().map(|it| (it.method.as_str(), it.path.as_str(), it.weight));
        let rows: Vec<_> = rows.collect();
        assert_eq!(rows, [("GET", "/a", 2), ("HEAD", "/b?c=d", 1), ("GET", "/a/b", 1)]);
    }

    #[test]
    fn bad_lines_are_told_by_their_numbers() {
        let text = "/a\nshop\n/\u{e4}\nhttps://other.example/\nGE(T /a\n/a b\n";
        let told = messages(of_list("urls.txt", text, &url()));
        for (line, told) in [2, 3, 4, 5, 6].into_iter().zip(&told) {
            assert!(told.starts_with(&format!("urls.txt:{line}: ")), "{told}");
        }
        assert_eq!(told.len(), 5, "{told:?}");
    }

    #[test]
    fn a_document_has_everything_of_a_request() {
        let files = |path: &Path| match path.to_str() {
            Some("mix/order.json") => Ok(b"{}".to_vec()),
            other => Err(format!("no {other:?}")),
        };
        let text = "[[request]]\npath = \"/a\"\nweight = 3\nheader = [\"A: b\"]\n\
                    [[request]]\npath = \"/b\"\nbody-file = \"order.json\"\n";
        let requests = of_document("mix/a.toml", text, &url(), &files).unwrap();
        assert_eq!((requests[0].weight, requests[1].weight), (3, 1));
        assert_eq!((&*requests[1].method, &*requests[1].body), ("POST", &b"{}"[..]));
        assert_eq!(requests[0].headers, [("A".to_owned(), "b".to_owned())]);
        let bad = "[[request]]\npath = \"/a\"\nweigth = 3\n";
        let told = messages(of_document("a.toml", bad, &url(), &files));
        assert!(told[0].starts_with("a.toml:3: unknown key `weigth`"), "{told:?}");
        let get = "[[request]]\nmethod = \"GET\"\nbody = \"a\"\npath = \"/\"\n[[request]]\n";
        let told = messages(of_document("a.toml", get, &url(), &files));
        assert!(told[0].starts_with("a.toml:2: ") && told.len() == 2, "{told:?}");
        // These keys are not on any command line.
        let faults = TABLE.faults().into_iter();
        let faults: Vec<_> = faults.filter(|fault| !fault.ends_with(" has no flag")).collect();
        assert_eq!(faults, Vec::<String>::new());
    }
}
