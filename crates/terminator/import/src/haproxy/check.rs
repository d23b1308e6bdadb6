//! Health checks of a backend, which Lariat does alike for all of its servers.

use crate::draft::DraftTable;
use crate::haproxy::arguments::on;
use crate::import::Import;
use crate::meaning::Conversion;
use crate::source::Statement;
use crate::statements::Statements;

const KIND: &str = "service.back.check.kind";

/// Options that choose the test; the last one counts.
const TESTS: &[&str] = &["option httpchk", "option ssl-hello-chk", "option tcp-check"];

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
    table: &mut DraftTable,
) {
    let Some(arguments) = checked else {
        let unused = TESTS.iter().chain(&["http-check send", "timeout check"]);
        for written in unused.flat_map(|name| options.all(name)) {
            import.mapped(written, "no server has `check`: none is checked, as here");
        }
        return;
    };
    let Some(check) = on(arguments, "server check") else {
        return;
    };
    let test = options.iter().filter(|(name, _)| TESTS.contains(name)).last();
    let kind = match test {
        Some(("option httpchk", _)) => "http",
        Some(("option ssl-hello-chk", _)) => "tls",
        _ if is_tls => "tls",
        _ => "tcp",
    };
    import.put(table, KIND, kind, check, "");
    if let Some((name, written)) = test {
        let difference = match name {
            "option tcp-check" if written.option != "option tcp-check" => {
                "that a connection is accepted, and no protocol is spoken"
            }
            "option tcp-check" => "that a connection is accepted",
            _ => "",
        };
        import.joined(written, KIND, difference);
    }
    if kind == "http" {
        write_request(options, import, table);
    } else {
        for written in options.all("http-check send") {
            import.mapped(written, "without effect: checks are no requests");
        }
    }
    if let Some(written) = arguments.find("server check-sni") {
        if kind == "tls" {
            import.put(table, "service.back.check.host", written.value(), written, "");
        } else {
            import.lacks(written, "checks send the name that connections do", "`back.tls.name`");
        }
    }
    for (name, key, conversion) in NUMBERS {
        if let Some(written) = arguments.find(name) {
            import.apply_key(key, *conversion, "", written, table);
        }
    }
    match (options.find("timeout check"), table.text("back.check.interval")) {
        (Some(written), _) => {
            let key = "service.back.check.timeout";
            import.apply_key(key, Conversion::Milliseconds, "", written, table);
        }
        (None, interval) => {
            let interval = interval.unwrap_or("2s").to_owned();
            let remark = "without `timeout check`, HAProxy waits for as long as `inter`";
            table.set_default("back.check.timeout", interval, remark);
        }
    }
}

/// Reports the arguments of further servers.
pub(super) fn report(arguments: &Statements, import: &mut Import) {
    let names = NUMBERS.iter().map(|(name, key, _)| (*name, *key));
    for (name, key) in names.chain([("server check", KIND), ("server check-sni", KIND)]) {
        if let Some(written) = arguments.find(name) {
            let note = "checks are alike for all servers: as for the first that has `check`";
            import.joined(written, key, note);
        }
    }
}

/// The path and the host of a request.
fn write_request(options: &Statements, import: &mut Import, table: &mut DraftTable) {
    let note = |method: &str| match method {
        "GET" => "",
        _ => "the method is GET",
    };
    if let Some(written) = options.find("option httpchk") {
        let (method, path) = match written.words.as_slice() {
            [] => ("OPTIONS", "/"),
            [path] => ("OPTIONS", path.as_str()),
            [method, path, ..] => (method.as_str(), path.as_str()),
        };
        write_path(path, written, note(method), import, table);
        let version = written.words.iter().skip(2).cloned().collect::<Vec<_>>().join(" ");
        let host = version.split(['\n', '\r']).find_map(|line| line.trim().strip_prefix("Host:"));
        if let Some(host) = host {
            import.put(table, "service.back.check.host", host.trim(), written, note(method));
        }
    }
    for written in options.all("http-check send") {
        let value = |name: &str| {
            let place = written.words.iter().position(|word| word == name)?;
            written.words.get(place + 1).cloned()
        };
        let method = value("meth").unwrap_or_else(|| "GET".to_owned());
        if let Some(path) = value("uri") {
            write_path(&path, written, note(&method), import, table);
        }
        let mut pairs = written.words.windows(3).filter(|three| three[0] == "hdr");
        let host = pairs.find(|three| three[1].eq_ignore_ascii_case("host"));
        match host {
            Some(host) => {
                let key = "service.back.check.host";
                import.put(table, key, host[2].clone(), written, note(&method));
            }
            None => import.joined(written, "service.back.check", note(&method)),
        }
    }
}

fn write_path(
    path: &str,
    written: &Statement,
    note: &str,
    import: &mut Import,
    table: &mut DraftTable,
) {
    if path.starts_with('/') && path.chars().all(|c| c.is_ascii_graphic()) {
        import.put(table, "service.back.check.path", path, written, note);
    } else {
        import.lacks(written, "is no path", "`back.check.path`");
    }
}
