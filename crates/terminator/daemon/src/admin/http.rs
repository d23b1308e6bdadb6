//! The admin address: the page, the metrics, the status document and the history over HTTP/1.1.
//!
//! Owns the paths and the limits on those who ask. It takes no order: only `GET` and `HEAD`
//! are answered, request bodies are not read. The page is one document that asks `/status` each
//! second and draws what it says: only the style and the script within it are obeyed, and it may
//! ask nobody but us.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64ct::{Base64, Encoding};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::access::AccessDenial;
use super::document::{JSON_BYTES_MAX, json_within};
use super::history::Question;
use super::readiness::Verdict;
use super::state::AdminState;

/// Connections at the same time. A browser opens up to six, a scraper one. When all places are
/// taken, the oldest connection that has had no answer for which one needs the right gives up its
/// place, because a stranger who says nothing must not keep a scraper away.
const CONNECTIONS_MAX: usize = 64;

/// Connections beyond these, for health checks alone: those who read the metrics slowly, or hold on
/// to connections, must not have a balancer take a healthy server for dead. A request says too late
/// which it is, so a client that gets one of these places has it for a short time and one answer.
const HEALTH_CONNECTIONS_MAX: usize = 16;

/// How long such a connection may last. A worker thread that stands still is known within two
/// seconds, a check that is not answered in three has usually failed.
const HEALTH_TIME_MAX: Duration = Duration::from_secs(4);

/// How long its request may take to come: a health check sends it at once.
const HEALTH_HEADER_TIME_MAX: Duration = Duration::from_millis(200);

/// The time from a connection's start, or the last answer, to the end of a request's header.
const HEADER_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes of a request's header; the least that hyper takes.
const HEADER_BYTES_MAX: usize = 8192;

/// Fields of a request's header.
const HEADER_FIELDS_MAX: usize = 64;

/// A connection gets no further request after this long, so that none keeps a place for ever.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(120);

/// How long the last answer may take after that.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(10);

/// Accepting fails for want of descriptors or memory, and does so at once until there are some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until its task is dropped.
pub(super) async fn serve_http(listener: TcpListener, state: Arc<AdminState>) {
    let (mut places, mut health_places) = (Vec::new(), Vec::new());
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (taken, paths) = if has_room(&mut places, CONNECTIONS_MAX) {
            (&mut places, Paths::All)
        } else {
            // None of these has the right, so that the oldest goes.
            has_room(&mut health_places, HEALTH_CONNECTIONS_MAX);
            (&mut health_places, Paths::Health)
        };
        let (state, has_right) = (Arc::clone(&state), Arc::<AtomicBool>::default());
        let task = tokio::spawn(serve_connection(stream, state, paths, Arc::clone(&has_right)));
        taken.push(AdminConnection { task, has_right });
    }
}

/// A connection that is served until this is dropped.
struct AdminConnection {
    task: JoinHandle<()>,
    /// Whether it was answered what not everyone may ask.
    has_right: Arc<AtomicBool>,
}

impl Drop for AdminConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether one more has a place, for which one without the right may have to go; the oldest first.
fn has_room(taken: &mut Vec<AdminConnection>, max: usize) -> bool {
    taken.retain(|one| !one.task.is_finished());
    if taken.len() < max {
        return true;
    }
    let stranger = taken.iter().position(|one| !one.has_right.load(Ordering::Relaxed));
    stranger.map(|place| taken.remove(place)).is_some()
}

/// Errors are the asker's: it left, was too slow or spoke no HTTP; hyper has answered what can be
/// answered.
async fn serve_connection(
    stream: TcpStream,
    state: Arc<AdminState>,
    paths: Paths,
    has_right: Arc<AtomicBool>,
) {
    let service = service_fn(move |request| {
        let (state, has_right) = (Arc::clone(&state), Arc::clone(&has_right));
        async move { Ok::<_, Infallible>(answer(&request, &state, paths, &has_right).await) }
    });
    let (header_time_max, time_max) = match paths {
        Paths::All => (HEADER_TIME_MAX, CONNECTION_TIME_MAX),
        Paths::Health => (HEALTH_HEADER_TIME_MAX, HEALTH_TIME_MAX),
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(paths == Paths::All)
        .header_read_timeout(header_time_max)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADER_FIELDS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let served = tokio::time::timeout(time_max, connection.as_mut()).await;
    if served.is_err() && paths == Paths::All {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(CLOSE_TIME_MAX, connection).await;
    }
}

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

type Answer = Response<Full<Bytes>>;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Paths {
    All,
    Health,
}

async fn answer(
    request: &Request<Incoming>,
    state: &AdminState,
    paths: Paths,
    has_right: &AtomicBool,
) -> Answer {
    let verdict = match request.uri().path() {
        "/healthz" => Some(state.workers.health().await),
        "/ready" => Some({
            let is_dying = state.dying().is_some();
            let keys = state.keys_readiness();
            state.workers.readiness(state.is_draining(), is_dying, keys).await
        }),
        _ => None,
    };
    if let Some(verdict) = verdict {
        return if is_read(request) { of_verdict(verdict) } else { not_read() };
    }
    if paths == Paths::Health {
        return refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "503: too many connections are open here; /healthz and /ready are answered\n",
        );
    }
    if let Err(denied) = state.check_access(request) {
        return denial(denied);
    }
    has_right.store(true, Ordering::Relaxed);
    let (kind, body) = match request.uri().path() {
        "/" => ("text/html; charset=utf-8", Bytes::from_static(HTML.as_bytes())),
        "/metrics" => (telemetry::exposition::CONTENT_TYPE, state.prometheus().into()),
        "/history" => match Question::read(request.uri().query().unwrap_or_default()) {
            Some(question) => ("application/json", state.history_document(&question).into()),
            None => {
                return refusal(
                    StatusCode::BAD_REQUEST,
                    "400: after is a time in milliseconds since the epoch\n",
                );
            }
        },
        "/reasons" => {
            let mut reasons = String::new();
            telemetry::outcome::write_reference(&mut reasons);
            (PLAIN_TEXT, reasons.into())
        }
        "/status" => ("application/json", json_within(JSON_BYTES_MAX, state.document()).into()),
        _ => {
            return refusal(
                StatusCode::NOT_FOUND,
                "404: there are /, /history, /metrics, /reasons, /status, /healthz and /ready\n",
            );
        }
    };
    if is_read(request) { response(StatusCode::OK, kind, body) } else { not_read() }
}

/// For load balancers, which look at the status code, and those who ask them why.
fn of_verdict(verdict: Verdict) -> Answer {
    let (status, line) = match verdict {
        Ok(line) => (StatusCode::OK, line.to_owned()),
        Err(line) => (StatusCode::SERVICE_UNAVAILABLE, line),
    };
    last(response(status, PLAIN_TEXT, format!("{line}\n").into()))
}

/// Ends its connection: one on which nothing was asked that needs the right keeps no place.
fn last(mut response: Answer) -> Answer {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn is_read(request: &Request<Incoming>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

fn not_read() -> Answer {
    let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "405: only GET and HEAD\n");
    let allowed = HeaderValue::from_static("GET, HEAD");
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

/// RFC 9110, sections 15.5.20 and 11.6.1. `Basic` makes a browser ask for the token.
fn denial(denied: AccessDenial) -> Answer {
    match denied {
        AccessDenial::Malformed => refusal(
            StatusCode::BAD_REQUEST,
            "400: the request has to name one host, and its port if you like\n",
        ),
        AccessDenial::Host => refusal(
            StatusCode::MISDIRECTED_REQUEST,
            "421: no such host here; `admin.hosts` names those that there are\n",
        ),
        AccessDenial::Token => {
            let mut response = refusal(
                StatusCode::UNAUTHORIZED,
                "401: give the token of `admin.token`, as a bearer token or as user lariat's password\n",
            );
            for challenge in ["Basic realm=\"lariat\"", "Bearer realm=\"lariat\""] {
                let challenge = HeaderValue::from_static(challenge);
                response.headers_mut().append(header::WWW_AUTHENTICATE, challenge);
            }
            response
        }
    }
}

fn refusal(status: StatusCode, text: &'static str) -> Answer {
    last(response(status, PLAIN_TEXT, Bytes::from_static(text.as_bytes())))
}

fn response(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let fields = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, content_security_policy()),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in fields {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The page, complete: it needs no other file.
pub(crate) const HTML: &str = include_str!("page.html");

/// The value of `Content-Security-Policy` (W3C, CSP Level 3): style and script by their hashes.
pub(crate) fn content_security_policy() -> &'static str {
    static POLICY: OnceLock<String> = OnceLock::new();
    POLICY.get_or_init(|| {
        let (style, script) = (hash_of("style"), hash_of("script"));
        format!(
            "default-src 'none'; style-src '{style}'; script-src '{script}'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
    })
}

/// The hash source of the first element of this name.
fn hash_of(element: &str) -> String {
    let text = content_of(element).expect("the page has one style and one script");
    let hash = digest(&SHA256, text.as_bytes());
    format!("sha256-{}", Base64::encode_string(hash.as_ref()))
}

fn content_of(element: &str) -> Option<&'static str> {
    let (_, rest) = HTML.split_once(&format!("<{element}>"))?;
    let (content, _) = rest.split_once(&format!("</{element}>"))?;
    Some(content)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use sys::usage::Usage;
    use telemetry::Registry;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::access::Access;
    use super::super::document::{RightsStatus, StatusDocument};
    use super::super::state::{ServedPlan, StartFacts};
    use super::*;

    /// Sends this and gives back all that comes until the end of the stream.
    fn exchange(request: &[u8]) -> String {
        exchange_beside(0, false, request)
    }

    /// The same beside `others` connections that came before and never end, and have asked for the
    /// status, or nothing.
    fn exchange_beside(others: usize, have_asked: bool, request: &[u8]) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let start = StartFacts {
                program: "1.2.3",
                supervisor_pid: 1,
                supervisor_start: SystemTime::now(),
                restarts: 0,
                dying: None,
                worker_cpus: Vec::new(),
                rights: RightsStatus::default(),
            };
            let state = AdminState::new(Arc::new(Registry::new(1)), start, Usage::default());
            state.plan_served(ServedPlan {
                access: Some(Access::default()),
                ..ServedPlan::default()
            });
            tokio::spawn(serve_http(listener, Arc::new(state)));
            let mut kept = Vec::new();
            for _ in 0..others {
                let mut other = TcpStream::connect(address).await.unwrap();
                if have_asked {
                    let request = b"GET /reasons HTTP/1.1\r\nHost: localhost\r\n\r\n";
                    other.write_all(request).await.unwrap();
                    // It has a place when it is answered.
                    other.read_exact(&mut [0; 12]).await.unwrap();
                }
                kept.push(other);
            }
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(request).await.unwrap();
            let mut answer = Vec::new();
            // What is refused is not read to its end, so the answer may be followed by a reset.
            let _ = stream.read_to_end(&mut answer).await;
            String::from_utf8(answer).unwrap()
        })
    }

    fn get(path: &str) -> String {
        exchange(
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )
    }

    #[test]
    fn the_paths_are_answered() {
        let page = get("/");
        assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
        assert!(page.contains("\r\ncontent-security-policy: default-src 'none'; "), "{page}");
        assert!(page.ends_with(HTML));
        let metrics = get("/metrics");
        assert!(metrics.contains("\r\ncontent-type: text/plain; version=0.0.4; "), "{metrics}");
        assert!(metrics.contains("\nlariat_build_info{version=\"1.2.3\"} 1\n"), "{metrics}");
        let status = get("/status");
        let (_, body) = status.split_once("\r\n\r\n").unwrap();
        let document = StatusDocument::from_json(body.as_bytes()).unwrap();
        assert_eq!(document.process.program, "1.2.3");
        assert!(get("/reasons").contains("\n- `client-alert`: The client sent a fatal alert;"));
        let history = get("/history?after=5&service=web");
        assert!(history.contains("\"intervals\":[]"), "{history}");
        assert!(get("/history?after=x").starts_with("HTTP/1.1 400 "));
    }

    #[test]
    fn health_checks_are_answered_when_all_other_places_are_taken() {
        let get = |others, path: &str| {
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            exchange_beside(others, true, request.as_bytes())
        };
        let health = get(CONNECTIONS_MAX, "/healthz");
        assert!(health.contains("\r\nconnection: close\r\n"), "{health}");
        assert!(!health.contains("too many"), "{health}");
        let metrics = get(CONNECTIONS_MAX, "/metrics");
        assert!(metrics.starts_with("HTTP/1.1 503 "), "{metrics}");
        assert!(metrics.contains("too many connections"), "{metrics}");
    }

    #[test]
    fn those_who_say_nothing_or_have_no_right_keep_nobody_away() {
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let others = CONNECTIONS_MAX + HEALTH_CONNECTIONS_MAX + 1;
        let metrics = exchange_beside(others, false, request);
        assert!(metrics.starts_with("HTTP/1.1 200 "), "{metrics}");
        // The end of the stream comes by itself.
        for refused in ["/healthz", "/nowhere"] {
            let request = format!("GET {refused} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let answer = exchange(request.as_bytes());
            assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        assert!(get("/status/").starts_with("HTTP/1.1 404 "));
        let posted = exchange(
            b"POST /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
        );
        assert!(posted.starts_with("HTTP/1.1 405 "), "{posted}");
        assert!(posted.contains("\r\nallow: GET, HEAD\r\n"), "{posted}");
        assert!(exchange(b"\x16\x03\x01 no HTTP\r\n\r\n").starts_with("HTTP/1.1 400 "));
    }

    #[test]
    fn a_header_has_its_limits() {
        let long = format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
            "x".repeat(HEADER_BYTES_MAX)
        );
        assert!(exchange(long.as_bytes()).starts_with("HTTP/1.1 431 "));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(HEADER_FIELDS_MAX + 1));
        assert!(exchange(many.as_bytes()).starts_with("HTTP/1.1 431 "));
    }

    #[test]
    fn head_has_no_body() {
        let answer = exchange(b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n"), "{answer}");
    }

    #[test]
    fn the_policy_covers_all_style_and_script_of_the_page() {
        for element in ["style", "script"] {
            assert_eq!(HTML.matches(&format!("<{element}")).count(), 1);
            assert!(content_security_policy().contains(&hash_of(element)));
        }
        for forbidden in
            [" style=", " onclick=", " onload=", "rel=\"stylesheet", "src=", "innerHTML", "@import"]
        {
            assert!(!HTML.contains(forbidden), "the policy forbids {forbidden}");
        }
    }

    /// Relative luminance of the colour that the style gives this name (WCAG 2.2).
    fn luminance(palette: &str, name: &str) -> f64 {
        let (_, rest) = palette.split_once(&format!("--{name}: #")).expect("a colour");
        let digits = rest.split(';').next().expect("its digits");
        let step = digits.len() / 3;
        let channel = |i: usize| {
            let digits = &digits[i * step..(i + 1) * step].repeat(3 - step);
            let value = f64::from(u8::from_str_radix(digits, 16).expect("hexadecimal")) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(0) + 0.7152 * channel(1) + 0.0722 * channel(2)
    }

    #[test]
    fn words_and_lines_stand_out_in_both_schemes() {
        let palettes: Vec<_> = HTML.split(":root {").skip(1).collect();
        assert_eq!(palettes.len(), 2, "light and dark");
        let words = ["ink", "soft", "faint"];
        let plain = words.iter().flat_map(|&word| [(word, "page"), (word, "card")]);
        let washed = [("good", "good-wash"), ("warn", "warn-wash"), ("bad", "bad-wash")];
        let lines = ["blue", "teal", "amber", "plum", "rose", "grey"];
        let lines = lines.map(|line| (line, "card", 3.0));
        let words = plain.chain(washed).map(|(front, back)| (front, back, 4.5));
        for (front, back, ratio_min) in words.chain(lines) {
            for palette in &palettes {
                let (one, other) = (luminance(palette, front), luminance(palette, back));
                let ratio = (one.max(other) + 0.05) / (one.min(other) + 0.05);
                assert!(ratio >= ratio_min, "--{front} on --{back} has a contrast of {ratio:.2}");
            }
        }
    }

    #[test]
    fn the_page_names_no_other_host() {
        let namespace = "http://www.w3.org/2000/svg";
        assert!(!HTML.replace(namespace, "").contains("://"));
    }
}
