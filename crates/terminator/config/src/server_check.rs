//! Keys of a service's active checks.

use std::ops::RangeInclusive;
use std::time::Duration;

use backend::options::{CheckKind, CheckOptions, HttpCheck, HttpMethod, ServerOptions};
use options::quantity::HOUR;
use options::row::{boolean, count, duration, row, text};
use options::{Field, Key, KeyPlace, Kind, Problem, Value, choice, section, table};
use wire::address::{Address, Endpoint};
use wire::http::host_and_port;

/// Longest text that a check sends or expects: a request of a few lines.
const TEXT_BYTES_MAX: usize = 4096;

section! {
    table("service.back.check")
        .absent("servers are judged by their dials alone").shorthand("kind")
        .example(r#"check = { kind = "http", path = "/health" }"#);
    /// Active health checks of every server, at each of its addresses.
    pub(crate) struct WrittenCheck<'a> {
        /// The test: a connection (`tcp`; with `starttls` or `expect`, a good answer too), a TLS
        /// handshake (`tls`), or an answer with `expect-status` and `expect-body` (`http`).
        kind: CheckWord = choice![
            "tcp" => CheckWord::Tcp,
            "tls" => CheckWord::Tls,
            "http" => CheckWord::Http,
        ].flag("check").example(r#"kind = "tcp""#),
        /// Another TCP port to check, without STARTTLS or PROXY header, and without TLS unless
        /// `tls` or `kind` says so.
        port: Option<u16> = count(1, 65_535)
            .absent("the server's own").flag("check-port").example("port = 8008"),
        /// Whether an `http` check, or one with `send` or `expect`, uses TLS. At `port`, and
        /// without `back.tls`, any certificate passes.
        tls: Option<bool> = boolean()
            .absent("as the service's connections, or `false` at another `port`")
            .flag("check-tls").example("tls = true"),
        /// The path of an `http` check.
        path: String = text("PATH").default("/").flag("check-path").example(r#"path = "/health""#),
        /// The method of an `http` check.
        method: HttpMethod = choice![
            "GET" => HttpMethod::Get,
            "HEAD" => HttpMethod::Head,
            "OPTIONS" => HttpMethod::Options,
            "POST" => HttpMethod::Post,
        ].default("GET").flag("check-method").example(r#"method = "OPTIONS""#),
        /// The `Host` of an `http` check, and the server name of one with TLS.
        host: Option<String> = text("HOST")
            .absent("the server's own address; for TLS no name").flag("check-host")
            .example(r#"host = "www.example.com""#),
        /// The statuses that pass: numbers, classes (`2xx`) or ranges (`200-399`).
        expect_status: Vec<RangeInclusive<u16>> = row(Kind::Status, statuses)
            .many().absent("200 to 399").flag("check-expect-status")
            .example(r#"expect-status = [200, "3xx"]"#),
        /// A text that the answer's content has in its first mebibyte.
        expect_body: Option<String> = text("TEXT")
            .absent("the content does not matter").flag("check-expect-body")
            .example(r#"expect-body = "\"role\": \"primary\"""#),
        /// The text that a `tcp` check sends, in place of the greeting of `starttls`. At most 4096
        /// bytes.
        send: Option<String> = text("TEXT")
            .absent("nothing").flag("check-send").example(r#"send = "PING\r\n""#),
        /// A text, of at most 4096 bytes, in the first 64 KiB of the answer to `send`, or else of
        /// the server's greeting.
        expect: Option<String> = text("TEXT")
            .absent("no answer is awaited").flag("check-expect").example(r#"expect = "+PONG""#),
        /// Time from one check's start to the next.
        interval: Duration = duration(Duration::from_millis(100), HOUR)
            .default("2s").flag("check-interval").example(r#"interval = "5s""#),
        /// How long a check may take.
        timeout: Duration = duration(Duration::from_millis(10), HOUR)
            .default("1s").flag("check-timeout").example(r#"timeout = "500ms""#),
        /// Failed checks in a row that take a server down.
        fall: u32 = count(1, 100).default("3").flag("check-fall").example("fall = 2"),
        /// Passed checks in a row that bring one up again.
        rise: u32 = count(1, 100).default("2").flag("check-rise").example("rise = 3"),
    }
}

/// Kind of a check, as written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CheckWord {
    Http,
    Tcp,
    Tls,
}

fn statuses(value: &Value, _: &Key) -> Result<RangeInclusive<u16>, Problem> {
    let (range, message) = match value {
        Value::Integer(number) => {
            let status = number.and_then(|number| u16::try_from(number).ok());
            let message = match number {
                Some(number) => format!("{number} is no status"),
                None => "is no status".to_owned(),
            };
            (status.map(|status| status..=status), message)
        }
        Value::Text(text) => {
            let class = text.strip_suffix("xx").and_then(|digit| digit.parse::<u16>().ok());
            let class = class.filter(|class| *class < 10).map(|one| one * 100..=one * 100 + 99);
            let message = format!("\"{}\" is no status", text.escape_debug());
            (class.or_else(|| options::quantity::range(text)), message)
        }
        other => (None, format!("is {}", other.kind())),
    };
    let is_final = |range: &RangeInclusive<u16>| *range.start() >= 101 && *range.end() <= 599;
    let hint = "write statuses from 101 to 599, such as 200, \"2xx\" or \"200-399\"";
    range.filter(is_final).ok_or_else(|| Problem::new(message).hint(hint))
}

/// Reads `service.back.check` for these servers.
pub(crate) fn check_options(
    check: &WrittenCheck<'_>,
    servers: &[ServerOptions],
) -> Option<CheckOptions> {
    let (kind, host) = (check.kind.value?, check.host.value.clone()?);
    let is_sound = [
        keys_fit(check, kind),
        text_is_short(&check.send),
        text_is_short(&check.expect),
        text_is_short(&check.expect_body),
        request_fits(check, kind),
        port_fits(check, servers),
    ];
    let tls = check.tls.value?;
    Some(CheckOptions {
        kind: match kind {
            CheckWord::Http => CheckKind::Http(HttpCheck {
                path: check.path.value.clone()?,
                method: check.method.value?,
                host,
                statuses: match check.expect_status.value.clone()? {
                    none if none.is_empty() => vec![200..=399],
                    statuses => statuses,
                },
                content: check.expect_body.value.clone()?,
            }),
            CheckWord::Tcp => match (check.send.value.clone()?, check.expect.value.clone()?) {
                (None, None) => CheckKind::Tcp,
                (send, expect) => {
                    CheckKind::Dialog { send: send.unwrap_or_default(), expect, host }
                }
            },
            CheckWord::Tls => CheckKind::Tls { name: host },
        },
        port: check.port.value?,
        tls: tls.or_else(|| (check.port.is_written() && kind != CheckWord::Tls).then_some(false)),
        interval: check.interval.value?,
        timeout: check.timeout.value?,
        fall: check.fall.value?,
        rise: check.rise.value?,
    })
    .filter(|_| is_sound.iter().all(Option::is_some))
}

/// Checks that no key belongs to another kind of check.
fn keys_fit(check: &WrittenCheck<'_>, kind: CheckWord) -> Option<()> {
    let message = "has no effect on a check that is not `http`";
    check.path.warn_unless(kind == CheckWord::Http, message, "take it out");
    let of_http: [&KeyPlace<'_>; 3] = [&check.method, &check.expect_status, &check.expect_body];
    let of_tcp: [&KeyPlace<'_>; 2] = [&check.send, &check.expect];
    let http = of_http.map(|place| (place, CheckWord::Http, "http"));
    let tcp = of_tcp.map(|place| (place, CheckWord::Tcp, "tcp"));
    let mut strangers = http.into_iter().chain(tcp).filter(|(_, its, _)| *its != kind);
    let wrong = strangers.find(|(place, ..)| place.is_written());
    if let Some((place, _, word)) = wrong {
        let message = format!("stands in a check that is not `{word}`");
        return place.fail(message, format!("write kind = \"{word}\", or take it out"));
    }
    let is_bare = kind == CheckWord::Tcp && !check.send.is_written() && !check.expect.is_written();
    let has_tls = check.tls.value.flatten() == Some(true);
    if is_bare && check.tls.is_written() {
        let message = "stands in a `tcp` check, which sends nothing";
        return check.tls.fail(message, "write kind = \"tls\", or add `send` or `expect`");
    }
    if kind == CheckWord::Tls && check.tls.value.flatten() == Some(false) {
        return check.tls.fail("contradicts kind = \"tls\"", "take one of them out");
    }
    if kind == CheckWord::Tcp && !has_tls {
        check.host.warn_unless(false, "has no effect on a `tcp` check", "take it out");
    }
    Some(())
}

fn request_fits(check: &WrittenCheck<'_>, kind: CheckWord) -> Option<()> {
    let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    let path = check.path.value.as_ref()?;
    if !path.starts_with('/') || !printable(path) {
        let message = format!("\"{}\" is no path", path.escape_debug());
        return check.path.fail(message, "it begins with / and has no space");
    }
    let is_host = |text: &str| host_and_port(text.as_bytes()).is_some();
    if !check.host.value.as_ref()?.as_deref().is_none_or(is_host) {
        let hint = "write HOST or HOST:PORT, an IPv6 address in brackets";
        check.host.error(Problem::new("is no host").hint(hint));
        return None;
    }
    let is_head = kind == CheckWord::Http && check.method.value? == HttpMethod::Head;
    if is_head && check.expect_body.is_written() {
        let message = "has nothing to look at: an answer to HEAD has no content";
        return check.expect_body.fail(message, "take it out, or write method = \"GET\"");
    }
    Some(())
}

fn text_is_short(text: &Field<'_, Option<String>>) -> Option<()> {
    let bytes = text.value.as_ref()?.as_ref().map_or(0, String::len);
    if bytes > TEXT_BYTES_MAX {
        let message = format!("has {bytes} bytes, of at most {TEXT_BYTES_MAX}");
        return text.fail(message, "a shorter part of it will do");
    }
    Some(())
}

fn port_fits(check: &WrittenCheck<'_>, servers: &[ServerOptions]) -> Option<()> {
    let is_local = |one: &&ServerOptions| {
        matches!(one.endpoint, Endpoint::Address(Address::Unix(_) | Address::Inherited(_)))
    };
    let local = servers.iter().find(is_local).filter(|_| check.port.is_written());
    if let Some(server) = local {
        let message = format!("is no use: {} has no TCP port", server.endpoint);
        return check.port.fail(message, "take it out, or make two services");
    }
    Some(())
}
