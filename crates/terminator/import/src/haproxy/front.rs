//! The front of services: the `bind` lines of a section.

use std::path::Path;

use toml::Value;

use crate::convert::Unfit;
use crate::draft::DraftTable;
use crate::haproxy::reading::HaproxyReading;
use crate::haproxy::{address, arguments, tls};
use crate::import::{Import, inline_table};
use crate::meaning::Conversion;
use crate::source::{BLOCKS_MAX, SourceFiles, SourceLine, Statement};
use crate::statements::Statements;

const CERTIFICATES: &str = "service.front.tls.certificates";
const CLIENTS: &str = "service.front.tls.client-certificates";

/// The most addresses of a section; none has more.
const LISTEN_MAX: usize = 1024;

/// Lines that listen alike.
#[derive(Clone, Debug)]
pub(super) struct HaproxyFront {
    pub(super) table: DraftTable,
    pub(super) listen: Vec<(String, SourceLine)>,
    pub(super) is_tls: bool,
    /// Names that a line of a `crt-list` is for.
    pub(super) names: Vec<String>,
    /// The protocols that clients may choose from.
    pub(super) alpn: Option<Statement>,
}

/// The listeners of a section.
pub(super) fn read(
    reading: &HaproxyReading,
    options: &Statements,
    import: &mut Import,
    files: &mut dyn SourceFiles,
) -> Vec<HaproxyFront> {
    let defaults = tls::defaults(reading, import, "bind");
    let mut fronts: Vec<HaproxyFront> = Vec::new();
    for written in options.all("bind") {
        let listened: usize = fronts.iter().map(|front| front.listen.len()).sum();
        if listened > LISTEN_MAX {
            import.has_room(BLOCKS_MAX, &written.place);
            break;
        }
        let Some((addresses, words)) = written.words.split_first() else {
            import.fault(
                &written.place,
                "bind",
                "has no address",
                "write `bind :443 ssl crt FILE`",
            );
            continue;
        };
        let own = arguments::read(import, "bind", written, words);
        let listen = match address::of_bind(addresses) {
            Ok(listen) => listen,
            Err(unfit) => {
                import.unmapped(written, unfit);
                continue;
            }
        };
        import.joined(written, "service.front.listen", "");
        let listen: Vec<_> = listen.into_iter().map(|one| (one, written.place.clone())).collect();
        for mut front in of_bind(reading, &defaults.and(&own), (import, &mut *files), written) {
            let said = said(&front.table);
            let alike = |one: &&mut HaproxyFront| {
                self::said(&one.table) == said && one.names == front.names
            };
            match fronts.iter_mut().find(alike) {
                Some(one) => one.listen.extend(listen.clone()),
                None => {
                    front.listen.clone_from(&listen);
                    fronts.push(front);
                }
            }
        }
    }
    fronts
}

/// The keys and values of a table, wherever they come from.
pub(super) fn said(table: &DraftTable) -> Vec<(&str, Vec<&Value>)> {
    let keys = table.keys.iter();
    keys.map(|key| (key.path.as_str(), key.values.iter().map(|one| &one.value).collect())).collect()
}

/// The listener of a line, and those of the lines of its `crt-list` that have arguments.
fn of_bind(
    reading: &HaproxyReading,
    arguments: &Statements,
    (import, files): (&mut Import, &mut dyn SourceFiles),
    written: &Statement,
) -> Vec<HaproxyFront> {
    let mut table = DraftTable::default();
    let mut others = Vec::new();
    let Some(ssl) = arguments.find("bind ssl") else {
        write_tcp(arguments, import, &mut table);
        return vec![HaproxyFront::new(table, false, Vec::new(), None)];
    };
    import.joined(ssl, "service.front.tls", "");
    for crt in arguments.all("bind crt") {
        let value = certificate(reading, &crt.value(), import, files, crt);
        import.add(&mut table, CERTIFICATES, value, crt, "");
    }
    for list in arguments.all("bind crt-list") {
        for (certificate, own, names) in crt_list(reading, list, import, files) {
            if own.iter().next().is_none() {
                table.push("front.tls.certificates", certificate, list.place.clone());
                continue;
            }
            let mut other = DraftTable::default();
            other.push("front.tls.certificates", certificate, list.place.clone());
            let arguments = arguments.and(&own);
            if write(reading, &arguments, import, files, &mut other) {
                others.push(HaproxyFront::new(
                    other,
                    true,
                    names,
                    arguments.find("bind alpn").cloned(),
                ));
            }
        }
    }
    if !table.has("front.tls.certificates") && others.is_empty() {
        let why = "a `bind` with `ssl` has no certificate";
        import.fault(&written.place, "bind", why, "name it by `crt`");
    }
    let mut fronts = Vec::new();
    if table.has("front.tls.certificates") && write(reading, arguments, import, files, &mut table) {
        fronts.push(HaproxyFront::new(
            table,
            true,
            Vec::new(),
            arguments.find("bind alpn").cloned(),
        ));
    }
    fronts.extend(others);
    fronts
}

impl HaproxyFront {
    fn new(table: DraftTable, is_tls: bool, names: Vec<String>, alpn: Option<Statement>) -> Self {
        Self { table, listen: Vec::new(), is_tls, names, alpn }
    }
}

/// Writes all but the certificates; `false` = clients could not be verified as before.
fn write(
    reading: &HaproxyReading,
    arguments: &Statements,
    import: &mut Import,
    files: &mut dyn SourceFiles,
    table: &mut DraftTable,
) -> bool {
    tls::write(arguments, import, "bind", table);
    if let Some(alpn) = arguments.find("bind alpn") {
        let note = "a client that offers only others is refused";
        import.apply_key("service.front.tls.alpn", Conversion::Words, note, alpn, table);
    }
    if let Some(size) = reading.global.find("global tune.ssl.maxrecord") {
        write_record(size, import, table);
    }
    write_tcp(arguments, import, table);
    write_clients(reading, arguments, import, files, table)
}

fn write_record(written: &Statement, import: &mut Import, table: &mut DraftTable) {
    match written.value().parse::<u32>() {
        Ok(0) => import.mapped(written, "no limit, as here"),
        Ok(bytes) => {
            let fitting = bytes.clamp(512, 16_384);
            let note = if fitting == bytes { "" } else { "512 bytes to 16 KiB" };
            let value = format!("{fitting}B");
            import.put(table, "service.front.tls.max-record-size", value, written, note);
        }
        Err(_) => import.lacks(written, "is no number", "write bytes"),
    }
}

fn write_tcp(arguments: &Statements, import: &mut Import, table: &mut DraftTable) {
    arguments::write_keys(arguments, import, table);
    if let Some(written) = arguments.find("bind accept-proxy") {
        let note = "from anywhere, as it was: name the networks of the load balancers";
        for network in ["0.0.0.0/0", "::/0", "unix"] {
            import.add(table, "service.front.accept-proxy", network, written, note);
        }
    }
}

fn write_clients(
    reading: &HaproxyReading,
    arguments: &Statements,
    import: &mut Import,
    files: &mut dyn SourceFiles,
    table: &mut DraftTable,
) -> bool {
    let verify = arguments.find("bind verify");
    let mode = verify.map_or_else(|| "none".to_owned(), Statement::value);
    let names = ["bind ca-file", "bind crl-file", "bind no-ca-names", "bind ca-verify-file"];
    let [ca, crl, no_names, others] = names.map(|name| arguments.find(name));
    if mode == "none" {
        for written in [verify, ca, crl, no_names, others].into_iter().flatten() {
            import.mapped(written, "no certificates of clients are asked for, as here");
        }
        return true;
    }
    let Some((verify, ca)) = verify.zip(ca) else {
        if let Some(verify) = verify {
            let remedy = "name the authorities of clients";
            import.fault(&verify.place, "verify", "has no `ca-file`", remedy);
        }
        return false;
    };
    if !["optional", "required"].contains(&mode.as_str()) {
        let why = format!("`{mode}` is neither none, optional nor required");
        import.fault(&verify.place, "verify", why, "write one of them");
        return false;
    }
    let path = reading.path("global ca-base", &ca.value());
    if path.starts_with('@') || files.list(Path::new(&path)).is_ok() && !path.ends_with(".pem") {
        let why = "authorities of clients come from a file of their own";
        import.lacks(ca, why, "join them into one file; the service is left out until then");
        return false;
    }
    import.look_for(files, &path, ca);
    import.put(table, &format!("{CLIENTS}.mode"), mode, verify, "");
    import.add(table, &format!("{CLIENTS}.ca"), path, ca, "");
    if let Some(others) = others {
        let path = reading.path("global ca-base", &others.value());
        import.look_for(files, &path, others);
        let note = "clients are sent the names of these authorities too";
        import.add(table, &format!("{CLIENTS}.ca"), path, others, note);
    }
    if let Some(crl) = crl {
        let path = reading.path("global ca-base", &crl.value());
        import.look_for(files, &path, crl);
        import.add(table, &format!("{CLIENTS}.crl"), path, crl, "");
    }
    if let Some(no_names) = no_names {
        import.put(table, &format!("{CLIENTS}.ca-names"), "omit", no_names, "");
    }
    true
}

/// A certificate, with the files beside it that HAProxy calls otherwise than Lariat.
fn certificate(
    reading: &HaproxyReading,
    path: &str,
    import: &mut Import,
    files: &mut dyn SourceFiles,
    of: &Statement,
) -> Value {
    let path = reading.path("global crt-base", path);
    import.look_for(files, &path, of);
    let beside = ["key", "ocsp"].map(|ending| format!("{path}.{ending}"));
    let is_there = beside.clone().map(|one| files.read(Path::new(&one)).is_ok());
    if is_there == [false; 2] {
        return Value::from(path);
    }
    let [key, ocsp] = beside;
    let keys = [("chain", path), ("key", key), ("ocsp", ocsp)];
    let kept = keys.into_iter().zip([true, is_there[0], is_there[1]]).filter(|(_, kept)| *kept);
    inline_table(kept.map(|((name, path), _)| (name, Value::from(path))))
}

/// The lines of a `crt-list`: a certificate, arguments in brackets, and names.
fn crt_list(
    reading: &HaproxyReading,
    list: &Statement,
    import: &mut Import,
    files: &mut dyn SourceFiles,
) -> Vec<(Value, Statements, Vec<String>)> {
    let path = list.value();
    let Some(text) = import.read(files, Path::new(&path), Some(&list.place)) else {
        return Vec::new();
    };
    import.joined(list, CERTIFICATES, "the certificate is chosen by the names that are in it");
    let mut all = Vec::new();
    let first = SourceLine::first_of(Path::new(&path));
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (within, filters) = match rest.trim_start().strip_prefix('[') {
            Some(inside) => inside.split_once(']').unwrap_or((inside, "")),
            None => ("", rest),
        };
        let (place, option) = (first.at(number), name.to_owned());
        let words: Vec<_> = within.split_whitespace().map(str::to_owned).collect();
        let written = Statement { place, option, words: Vec::new() };
        let own = arguments::read(import, "bind", &written, &words);
        let names: Vec<_> = filters.split_whitespace().map(str::to_owned).collect();
        let has_own = own.iter().next().is_some();
        if has_own && (names.is_empty() || names.iter().any(|name| name.starts_with('!'))) {
            let why = "its arguments are for names that are not listed";
            import.unmapped(&written, Unfit::new(why, "a service with `front.names`"));
            continue;
        }
        let key = if has_own { "a service with `front.names`" } else { CERTIFICATES };
        import.joined(&written, key, "");
        let value = certificate(reading, name, import, files, &written);
        all.push((value, own, names));
    }
    all
}
