//! Health checks of a backend, which Lariat runs alike for all of its servers.

use toml::Value;

use crate::convert::array;
use crate::haproxy::arguments::on;
use crate::import::Import;
use crate::meanings::Conversion;
use crate::source::{Statement, Statements};

const KIND: &str = "service.back.check.kind";

/// Arguments of `http-check send` that put content or a computed path into a request.
const SENT: [&str; 4] = ["body", "body-lf", "uri-lf", "hdr-lf"];

/// Options that choose the test; the last one counts.
const TESTS: &[&str] = &["option httpchk", "option ssl-hello-chk", "option tcp-check"];

/// Options of the tests, separated by bars.
const OF_TESTS: &str = "\
    http-check connect|http-check expect|http-check send|tcp-check connect|tcp-check expect|\
    tcp-check send|tcp-check send-binary|timeout check";

/// Options that set the destination of checks.
const CONNECTS: [&str; 2] = ["http-check connect", "tcp-check connect"];

/// Options for the bytes of a check that is not an HTTP request.
const DIALOG: [&str; 3] = ["tcp-check send", "tcp-check send-binary", "tcp-check expect"];

/// Times and numbers of a server's checks.
const NUMBERS: &[(&str, &str, Conversion)] = &[
    ("server inter", "service.back.check.interval", Conversion::Milliseconds),
    ("server fall", "service.back.check.fall", Conversion::Number),
    ("server rise", "service.back.check.rise", Conversion::Number),
];

/// Writes the checks that the arguments of the first checked server ask for.
pub(super) fn write(
    options: &Statements,
    checked: Option<&Statements>,
    is_tls: bool,
    import: &mut Import,
) {
    let Some(arguments) = checked else {
        let unused = TESTS.iter().copied().chain(OF_TESTS.split('|'));
        for written in unused.flat_map(|name| options.all(name)) {
            import.mapped(written, "no server has `check`: none is checked, as here");
        }
        return;
    };
    let Some(check) = on(arguments, "server check") else { return };
    let test = options.iter().filter(|(name, _)| TESTS.contains(name)).last();
    let transport = CheckTransport::of(options, arguments, is_tls, import);
    let has_dialog = DIALOG.iter().any(|name| options.find(name).is_some());
    let kind = match test {
        Some(("option httpchk", _)) => "http",
        Some(("option ssl-hello-chk", _)) => "tls",
        Some(("option tcp-check", _)) if has_dialog => "tcp",
        _ if transport.speaks_tls => "tls",
        _ => "tcp",
    };
    import.put(KIND, kind, check, "");
    if let Some((name, written)) = test {
        let is_of_protocol = name == "option tcp-check" && written.option != name;
        let note = "that a connection is accepted, and no protocol is spoken";
        import.joined(written, KIND, if is_of_protocol { note } else { "" });
    }
    if kind == "http" {
        write_request(options, import);
        options.all("http-check expect").for_each(|one| write_expected(one, import));
    }
    let of_http = ["http-check send", "http-check expect"].iter().filter(|_| kind != "http");
    for written in of_http.flat_map(|name| options.all(name)) {
        import.mapped(written, "without effect: checks are no requests");
    }
    write_dialog(options, kind, import);
    transport.write(arguments, check, kind == "http" || has_dialog && kind == "tcp", import);
    for (name, key, conversion) in NUMBERS {
        import.apply_key(key, *conversion, "", arguments.find(name));
    }
    match (options.find("timeout check"), import.service.text("back.check.interval")) {
        (Some(written), _) => {
            import.apply_key("service.back.check.timeout", Conversion::Milliseconds, "", written);
        }
        (None, interval) => {
            let interval = interval.unwrap_or("2s").to_owned();
            let remark = "without `timeout check`, HAProxy waits for as long as `inter`";
            import.service.set_default("back.check.timeout", interval, remark);
        }
    }
}

/// Returns the reason why a server's check cannot differ from the `first` one: the server would be
/// used where HAProxy does not use it.
pub(super) fn unsayable(
    arguments: &Statements,
    has_check: bool,
    first: Option<&Statements>,
) -> Option<&'static str> {
    let differs = |name: &str| first.is_some_and(|one| one.value(name) != arguments.value(name));
    if arguments.find("server track").is_some() {
        Some("its state is that of another server")
    } else if has_check && arguments.find("server addr").is_some() {
        Some("its check goes to another address")
    } else if has_check && differs("server port") {
        Some("its check goes to another port than that of the first server here")
    } else {
        None
    }
}

/// Reports the arguments of further servers, which are checked like the `first`.
pub(super) fn report(arguments: &Statements, first: Option<&Statements>, import: &mut Import) {
    let names = NUMBERS.iter().map(|(name, key, _)| (*name, *key));
    let others = ["server check", "server check-sni", "server check-ssl", "server port"];
    for (name, key) in names.chain(others.map(|name| (name, "service.back.check"))) {
        let Some(written) = arguments.find(name) else { continue };
        let is_same = first.is_none_or(|first| first.value(name) == arguments.value(name));
        let note = if is_same { "" } else { "as for the first server that has `check`" };
        import.joined(written, key, note);
    }
}

/// Port and TLS of a check's connection.
struct CheckTransport {
    port: Option<Statement>,
    speaks_tls: bool,
    /// Whether Lariat already uses TLS there by default.
    is_default: bool,
}

impl CheckTransport {
    fn of(options: &Statements, arguments: &Statements, is_tls: bool, import: &mut Import) -> Self {
        let (mut port, mut has_tls) = (arguments.find("server port").cloned(), false);
        for written in CONNECTS.iter().flat_map(|name| options.all(name)) {
            let mut words = written.words.iter();
            let mut other = None;
            while let Some(word) = words.next() {
                match word.as_str() {
                    "default" | "linger" => {}
                    "ssl" => has_tls = true,
                    "port" => {
                        port = Some(written.with(words.next().cloned()));
                    }
                    word => {
                        other = Some(word);
                        words.next();
                    }
                }
            }
            match other {
                Some(word) => {
                    import.lacks(written, &format!("`{word}` is not chosen"), "`back.check`");
                }
                None => import.joined(written, "service.back.check", ""),
            }
        }
        let is_default = is_tls && port.is_none();
        let argument = arguments.find("server check-ssl");
        let speaks_tls = argument.map_or(is_default, |one| one.option == "check-ssl");
        Self { port, speaks_tls: has_tls || speaks_tls, is_default }
    }

    fn write(
        &self,
        arguments: &Statements,
        check: &Statement,
        is_chosen: bool,
        import: &mut Import,
    ) {
        if let Some(port) = &self.port {
            import.apply_key("service.back.check.port", Conversion::Number, "", port);
        }
        let argument = arguments.find("server check-ssl");
        import.joined(argument, "service.back.check.tls", "");
        if is_chosen && self.speaks_tls != self.is_default {
            let origin = argument.unwrap_or(check).place.clone();
            import.service.set("back.check.tls", self.speaks_tls, origin);
        }
        match arguments.find("server check-sni") {
            Some(written) if self.speaks_tls && !import.service.has("back.check.host") => {
                import.put("service.back.check.host", written.value(), written, "");
            }
            Some(written) => import.mapped(written, "without effect: it is no name of TLS here"),
            None => {}
        }
    }
}

/// Writes `http-check expect`: statuses, or a text in the body.
fn write_expected(written: &Statement, import: &mut Import) {
    const REMEDY: &str = "`check.expect-status` or `check.expect-body`";
    let words: Vec<_> = written.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["status", list] => match statuses(list) {
            Some(all) => import.put(EXPECT_STATUS, array(all), written, ""),
            None => import.lacks(written, "only statuses and their classes are compared", REMEDY),
        },
        ["rstatus", pattern] => match classes(pattern) {
            Some(all) => import.put(EXPECT_STATUS, array(all), written, ""),
            None => import.lacks(written, "patterns are not compared", REMEDY),
        },
        ["string", text] => import.put("service.back.check.expect-body", *text, written, ""),
        _ => import.lacks(written, "patterns, headers and contraries are not compared", REMEDY),
    }
}

const EXPECT_STATUS: &str = "service.back.check.expect-status";

/// Parses the statuses in a list such as `200,204,300-399`.
fn statuses(list: &str) -> Option<Vec<Value>> {
    let status = |text: &str| text.parse::<u16>().ok().filter(|status| (101..600).contains(status));
    let one = |text: &str| match text.split_once('-') {
        None => status(text).map(|status| Value::from(i64::from(status))),
        Some((first, last)) => {
            (status(first)? <= status(last)?).then(|| Value::from(text.to_owned()))
        }
    };
    list.split(',').map(one).collect()
}

/// Parses the classes of a pattern such as `^2`, `(2|3)..` or `[23][0-9][0-9]`.
fn classes(pattern: &str) -> Option<Vec<Value>> {
    let plain = pattern.trim_start_matches('^').trim_end_matches('$');
    let digits = |text: &str| text.chars().all(|one| ('1'..='5').contains(&one));
    let (first, rest) = match plain.strip_prefix(['(', '[']) {
        Some(inside) => inside.split_once([')', ']'])?,
        None => plain.split_at_checked(1)?,
    };
    let first = first.replace('|', "");
    let is_any = ["", "..", "[0-9][0-9]", "\\d\\d", "[0-9]{2}", "\\d{2}", ".*"].contains(&rest);
    let is_whole = is_any && digits(&first) && !first.is_empty();
    is_whole.then(|| first.chars().map(|class| Value::from(format!("{class}xx"))).collect())
}

/// Writes `tcp-check send` and `tcp-check expect`: bytes to a server, and a text in its answer.
fn write_dialog(options: &Statements, kind: &str, import: &mut Import) {
    let (mut sent, mut expected) = (String::new(), 0);
    for (name, written) in options.iter() {
        let words: Vec<_> = written.words.iter().map(String::as_str).collect();
        match (name, words.as_slice()) {
            (name, _) if kind != "tcp" && DIALOG.contains(&name) => {
                import.mapped(written, "without effect: checks send no bytes of their own");
            }
            ("tcp-check send", [text] | [text, "comment", _]) => {
                let note = if expected > 0 { AT_ONCE } else { "" };
                sent.push_str(text);
                import.put("service.back.check.send", sent.clone(), written, note);
            }
            ("tcp-check expect", ["string", text] | ["string", text, "comment", _]) => {
                let note = if expected > 0 { AT_ONCE } else { "" };
                expected += 1;
                import.put("service.back.check.expect", *text, written, note);
            }
            (name, _) if DIALOG.contains(&name) => {
                let remedy = "`check.send` and `check.expect`";
                import.lacks(written, "bytes and patterns are not compared", remedy);
            }
            _ => {}
        }
    }
}

const AT_ONCE: &str = "all is sent at once, and the last text is expected";

/// Writes the path and the host of a request.
fn write_request(options: &Statements, import: &mut Import) {
    if let Some(written) = options.find("option httpchk") {
        let (method, path) = match written.words.as_slice() {
            [] => ("OPTIONS", "/"),
            [path] => ("OPTIONS", path.as_str()),
            [method, path, ..] => (method.as_str(), path.as_str()),
        };
        write_path(path, written, import);
        write_method(method, written, import);
        let version = written.words.iter().skip(2).cloned().collect::<Vec<_>>().join(" ");
        let host = version.split(['\n', '\r']).find_map(|line| line.trim().strip_prefix("Host:"));
        if let Some(host) = host {
            import.put("service.back.check.host", host.trim(), written, "");
        }
    }
    for written in options.all("http-check send") {
        let value = |name: &str| {
            let place = written.words.iter().position(|word| word == name)?;
            written.words.get(place + 1).cloned()
        };
        write_method(value("meth").as_deref().unwrap_or("GET"), written, import);
        if let Some(path) = value("uri") {
            write_path(&path, written, import);
        }
        let mut pairs = written.words.windows(3).filter(|three| three[0] == "hdr");
        let is_host = |three: &[String]| three[1].eq_ignore_ascii_case("host");
        let has_others = pairs.clone().any(|three| !is_host(three));
        if let Some(host) = pairs.find(|three| is_host(three)) {
            import.put("service.back.check.host", host[2].clone(), written, "");
        }
        if has_others || SENT.iter().any(|name| value(name).is_some()) {
            let why = "a check has no header but `Host`, and no content";
            import.lacks(written, why, "a page for checks that needs neither");
        } else {
            import.joined(written, "service.back.check", "");
        }
    }
}

fn write_method(method: &str, written: &Statement, import: &mut Import) {
    if ["GET", "HEAD", "OPTIONS", "POST"].contains(&method) {
        import.put("service.back.check.method", method, written, "");
    } else {
        import.lacks(written, "checks have no such method", "GET, HEAD, OPTIONS or POST");
    }
}

fn write_path(path: &str, written: &Statement, import: &mut Import) {
    if path.starts_with('/') && path.chars().all(|c| c.is_ascii_graphic()) {
        import.put("service.back.check.path", path, written, "");
    } else {
        import.lacks(written, "is no path", "`back.check.path`");
    }
}
