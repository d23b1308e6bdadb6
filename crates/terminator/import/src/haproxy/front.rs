//! The front of services: the `bind` lines of a section.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use toml::Value;

use crate::certificates::host_names;
use crate::convert::UnusableValue;
use crate::draft::DraftTable;
use crate::haproxy::arguments;
use crate::haproxy::syntax::HaproxyReading;
use crate::import::{Import, Importer, inline_table};
use crate::meanings::Conversion;
use crate::source::{BLOCKS_MAX, SourceFiles, SourceLine, Statement, Statements};

const CERTIFICATES: &str = "service.front.tls.certificates";
const CLIENTS: &str = "service.front.tls.client-certificates";

const IPV6_ONLY: &str = "front.ipv6-only";

const NO_NAMES: &str = "its line is for names that are not known here";
const NAMED: &str = "write the names behind the brackets, none with `!`";

/// The most addresses of a section; none has more.
const LISTEN_MAX: usize = 1024;

/// The most words and bytes of a line in a `crt-list`, as HAProxy has them: `MAX_CRT_ARGS` and
/// `CRT_LINESIZE`.
const WORDS_MAX: usize = 2048;
const LINE_BYTES_MAX: usize = 65_536;

/// Lines that listen alike.
#[derive(Clone, Debug)]
pub(super) struct HaproxyFront {
    pub(super) table: DraftTable,
    pub(super) listen: Vec<(String, SourceLine)>,
    /// Whether all addresses of IPv6 are without those of IPv4, if they are among these.
    ipv6_only: Option<bool>,
    pub(super) is_tls: bool,
    /// Names that a line of a `crt-list` is for.
    pub(super) names: Vec<String>,
    /// The protocols that clients may choose from.
    pub(super) alpn: Option<Statement>,
}

/// The listeners of a section, and what refuses clients there in a way that cannot be said.
pub(super) fn read(
    reading: &HaproxyReading,
    options: &Statements,
    import: &mut Importer<'_>,
) -> (Vec<HaproxyFront>, Option<Statement>) {
    let defaults = arguments::defaults(reading, import, "bind");
    let mut fronts: Vec<HaproxyFront> = Vec::new();
    // The places of those that say the same.
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    let (mut refusal, mut listened) = (None, 0);
    for written in options.all("bind") {
        if listened > LISTEN_MAX {
            import.has_room(BLOCKS_MAX, &written.place);
            break;
        }
        let Some((addresses, words)) = written.words.split_first() else {
            let remedy = "write `bind :443 ssl crt FILE`";
            import.fault(&written.place, "bind", "has no address", remedy);
            continue;
        };
        let own = arguments::read(import, "bind", written, words);
        let listen = match arguments::of_bind(addresses) {
            Ok(listen) => listen,
            Err(unfit) => {
                import.unmapped(written, unfit);
                continue;
            }
        };
        import.joined(written, "service.front.listen", "");
        let listen: Vec<_> = listen.into_iter().map(|one| (one, written.place.clone())).collect();
        let arguments = defaults.and(&own);
        let (own, lost) = of_bind(reading, &arguments, import, written);
        refusal = refusal.or(lost);
        for mut front in own {
            if !import.has_room(fronts.len(), &written.place)
                || !import.take_options(listen.len(), &written.place)
            {
                break;
            }
            listened += listen.len();
            let is_alone = front.table.take(IPV6_ONLY).is_some();
            let has_all = listen.iter().any(|(one, _)| one.starts_with("[::]:"));
            front.ipv6_only = has_all.then_some(is_alone);
            let said = format!("{:?} {:?}", said(&front.table), front.names);
            let alike = places.entry(said).or_default();
            match alike.iter().find(|place| fronts[**place].agrees(&front)) {
                Some(place) => {
                    let one = &mut fronts[*place];
                    one.listen.extend(listen.clone());
                    one.ipv6_only = one.ipv6_only.or(front.ipv6_only);
                }
                None => {
                    alike.push(fronts.len());
                    front.listen.clone_from(&listen);
                    fronts.push(front);
                }
            }
        }
    }
    for front in fronts.iter_mut().filter(|front| front.ipv6_only == Some(true)) {
        let place = front.listen.first().map(|(_, place)| place.clone());
        front.table.set(IPV6_ONLY, true, place);
    }
    (fronts, refusal)
}

/// The keys and values of a table, wherever they come from.
pub(super) fn said(table: &DraftTable) -> Vec<(&str, Vec<&Value>)> {
    let keys = table.keys.iter();
    keys.map(|key| (key.path.as_str(), key.values.iter().map(|one| &one.value).collect())).collect()
}

/// The listener of a line, and those of the lines of its `crt-list` that have arguments; and one
/// of those lines that refuses clients who would come to another listener.
fn of_bind(
    reading: &HaproxyReading,
    arguments: &Statements,
    import: &mut Importer<'_>,
    written: &Statement,
) -> (Vec<HaproxyFront>, Option<Statement>) {
    let Some(ssl) = arguments.find("bind ssl") else {
        write_tcp(arguments, import);
        return (vec![HaproxyFront::new(import.take_service(), false, Vec::new(), None)], None);
    };
    let mut table = DraftTable::default();
    import.joined(ssl, "service.front.tls", "");
    for crt in arguments.all("bind crt") {
        let value = certificate(reading, &crt.value(), import, crt);
        table.push("front.tls.certificates", value, crt.place.clone());
        import.joined(crt, CERTIFICATES, "");
    }
    let (mut others, mut refusal) = (Vec::new(), None);
    // Clients with a name that no certificate has get the first one, and are verified as by it.
    let mut first_refuses = None;
    let is_strict = arguments.find("bind strict-sni").is_some();
    for list in arguments.all("bind crt-list") {
        for line in crt_list(reading, list, import) {
            if line.own.iter().next().is_none() {
                table.push("front.tls.certificates", line.certificate, list.place.clone());
                refusal = refusal.or_else(|| first_refuses.clone());
                continue;
            }
            let arguments = arguments.and(&line.own);
            let refuses = line.refusal(&arguments);
            if others.is_empty() && !table.has("front.tls.certificates") && !is_strict {
                first_refuses = first_refuses.or_else(|| refuses.clone());
            }
            let mut other = DraftTable::default();
            other.push("front.tls.certificates", line.certificate, list.place.clone());
            if line.names.is_empty() {
                line.own.iter().for_each(|(_, own)| import.lacks(own, NO_NAMES, NAMED));
                refusal = refusal.or(refuses);
            } else if let Some(other) = write(reading, &arguments, import, other) {
                let alpn = arguments.find("bind alpn").cloned();
                others.push(HaproxyFront::new(other, true, line.names, alpn));
            } else {
                refusal = refusal.or(refuses);
            }
        }
    }
    if !table.has("front.tls.certificates") && others.is_empty() && refusal.is_none() {
        let why = "a `bind` with `ssl` has no certificate";
        import.fault(&written.place, "bind", why, "name it by `crt`");
    }
    let mut fronts = Vec::new();
    // A service that is left out is shown all the same, by what there is of it.
    if (table.has("front.tls.certificates") || others.is_empty() && refusal.is_some())
        && let Some(table) = write(reading, arguments, import, table)
    {
        let alpn = arguments.find("bind alpn").cloned();
        fronts.push(HaproxyFront::new(table, true, Vec::new(), alpn));
    }
    fronts.extend(others);
    (fronts, refusal)
}

impl HaproxyFront {
    fn new(table: DraftTable, is_tls: bool, names: Vec<String>, alpn: Option<Statement>) -> Self {
        Self { table, listen: Vec::new(), ipv6_only: None, is_tls, names, alpn }
    }

    /// Whether one socket for all addresses of IPv6 does for both.
    fn agrees(&self, other: &Self) -> bool {
        self.ipv6_only.zip(other.ipv6_only).is_none_or(|(one, other)| one == other)
    }

    /// Whether both listen at an address.
    pub(super) fn shares(&self, other: &Self) -> bool {
        self.listen.iter().any(|(one, _)| other.listen.iter().any(|(other, _)| one == other))
    }

    /// The names of a route that are served here; empty = all, or none.
    pub(super) fn names_of(&self, route: &[String]) -> Vec<String> {
        match (route, self.names.as_slice()) {
            (names, []) | ([], names) => names.to_vec(),
            (names, these) => {
                let both = names
                    .iter()
                    .flat_map(|name| these.iter().filter_map(|one| common_name(name, one)));
                both.map(str::to_owned).collect()
            }
        }
    }
}

/// A table of certificates with all else; `None` = clients could not be verified as before.
fn write(
    reading: &HaproxyReading,
    arguments: &Statements,
    import: &mut Importer<'_>,
    certificates: DraftTable,
) -> Option<DraftTable> {
    import.service = certificates;
    arguments::write_tls(arguments, import, "bind");
    let note = "a client that offers only others is refused";
    let alpn = arguments.find("bind alpn");
    import.apply_key("service.front.tls.alpn", Conversion::Words, note, alpn);
    if let Some(size) = reading.global.find("global tune.ssl.maxrecord") {
        write_record(size, import);
    }
    write_tcp(arguments, import);
    let is_whole = write_clients(reading, arguments, import);
    Some(import.take_service()).filter(|_| is_whole)
}

fn write_record(written: &Statement, import: &mut Import) {
    match written.value().parse::<u32>() {
        Ok(0) => import.mapped(written, "no limit, as here"),
        Ok(bytes) => {
            let fitting = bytes.clamp(512, 16_384);
            let note = if fitting == bytes { "" } else { "512 bytes to 16 KiB" };
            let value = format!("{fitting}B");
            import.put("service.front.tls.max-record-size", value, written, note);
        }
        Err(_) => import.lacks(written, "is no number", "write bytes"),
    }
}

fn write_tcp(arguments: &Statements, import: &mut Import) {
    arguments::write_keys(arguments, import);
    if let Some(written) = arguments.find("bind accept-proxy") {
        let note = "from anywhere, as it was: name the networks of the load balancers";
        for network in ["0.0.0.0/0", "::/0", "unix"] {
            import.add("service.front.accept-proxy", network, written, note);
        }
    }
}

fn write_clients(
    reading: &HaproxyReading,
    arguments: &Statements,
    import: &mut Importer<'_>,
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
    if path.starts_with('@')
        || import.files.list(Path::new(&path)).is_ok() && !path.ends_with(".pem")
    {
        let why = "authorities of clients come from a file of their own";
        import.lacks(ca, why, "join them into one file; the service is left out until then");
        return false;
    }
    import.look_for_path(&path, ca);
    import.put(&format!("{CLIENTS}.mode"), mode, verify, "");
    import.add(&format!("{CLIENTS}.ca"), path, ca, "");
    if let Some(others) = others {
        let path = reading.path("global ca-base", &others.value());
        import.look_for_path(&path, others);
        let note = "clients are sent the names of these authorities too";
        import.add(&format!("{CLIENTS}.ca"), path, others, note);
    }
    if let Some(crl) = crl {
        let path = reading.path("global ca-base", &crl.value());
        import.look_for_path(&path, crl);
        import.add(&format!("{CLIENTS}.crl"), path, crl, "");
    }
    import.put(&format!("{CLIENTS}.ca-names"), "omit", no_names, "");
    true
}

/// A certificate, with the files beside it that HAProxy calls otherwise than Lariat.
fn certificate(
    reading: &HaproxyReading,
    path: &str,
    import: &mut Importer<'_>,
    of: &Statement,
) -> Value {
    let path = reading.path("global crt-base", path);
    import.look_for_path(&path, of);
    let beside = ["key", "ocsp"].map(|ending| format!("{path}.{ending}"));
    let is_there = beside.clone().map(|one| import.files.read(Path::new(&one)).is_ok());
    if is_there == [false; 2] {
        return Value::from(path);
    }
    let [key, ocsp] = beside;
    let keys = [("chain", path), ("key", key), ("ocsp", ocsp)];
    let kept = keys.into_iter().zip([true, is_there[0], is_there[1]]).filter(|(_, kept)| *kept);
    inline_table(kept.map(|((name, path), _)| (name, Value::from(path))))
}

/// A line of a `crt-list`.
struct CertificateLine {
    certificate: Value,
    own: Statements,
    /// Empty = they cannot be told.
    names: Vec<String>,
}

impl CertificateLine {
    /// The argument of the line by which clients without a certificate of theirs are refused.
    fn refusal(&self, arguments: &Statements) -> Option<Statement> {
        let verifies = arguments.value("bind verify").is_some_and(|mode| mode != "none");
        let names = ["bind verify", "bind ca-file", "bind crl-file", "bind ca-verify-file"];
        let own = names.iter().find_map(|name| self.own.find(name));
        own.filter(|_| verifies).cloned()
    }
}

/// The lines of a `crt-list`: a certificate, arguments in brackets, and names.
fn crt_list(
    reading: &HaproxyReading,
    list: &Statement,
    import: &mut Importer<'_>,
) -> Vec<CertificateLine> {
    let path = list.value();
    let Some(text) = import.read(Path::new(&path), Some(&list.place)) else { return Vec::new() };
    import.joined(list, CERTIFICATES, "the certificate is chosen by the names that are in it");
    let mut all = Vec::new();
    let first = SourceLine::first_of(Path::new(&path));
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.len() > LINE_BYTES_MAX || line.split_whitespace().nth(WORDS_MAX).is_some() {
            let why = format!("has more than {WORDS_MAX} words, or {LINE_BYTES_MAX} bytes");
            import.fault(&first.at(number), "crt-list", why, "write several lines");
            continue;
        }
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (within, filters) = match rest.trim_start().strip_prefix('[') {
            Some(inside) => inside.split_once(']').unwrap_or((inside, "")),
            None => ("", rest),
        };
        let words: Vec<_> = within.split_whitespace().map(str::to_owned).collect();
        let written = Statement::new(&first.at(number), name, Vec::new());
        let own = arguments::read(import, "bind", &written, &words);
        let names = names(reading, name, filters, import.files);
        if own.iter().next().is_none() {
            import.joined(&written, CERTIFICATES, "");
        } else if names.is_empty() {
            import.unmapped(&written, UnusableValue::new(NO_NAMES, NAMED));
        } else {
            import.joined(&written, "a service with `front.names`", "");
        }
        let certificate = certificate(reading, name, import, &written);
        all.push(CertificateLine { certificate, own, names });
    }
    all
}

/// The names that a line of a `crt-list` is for: those that it lists, or those of its certificate.
fn names(
    reading: &HaproxyReading,
    certificate: &str,
    filters: &str,
    files: &mut dyn SourceFiles,
) -> Vec<String> {
    let (but, names): (Vec<_>, Vec<_>) =
        filters.split_whitespace().partition(|name| name.starts_with('!'));
    let mut names: Vec<_> = names.into_iter().map(str::to_ascii_lowercase).collect();
    if names.is_empty() {
        let path = reading.path("global crt-base", certificate);
        names = files.read(Path::new(&path)).map_or_else(|_| Vec::new(), |pem| host_names(&pem));
    }
    let but: HashSet<_> = but.iter().map(|name| name[1..].to_ascii_lowercase()).collect();
    names.retain(|name| !but.contains(name));
    // A name beneath one with a star cannot be taken out of it.
    let is_divided = |name: &String| but.iter().any(|but| common_name(name, but).is_some());
    if names.iter().any(is_divided) || names.iter().any(|name| name == "*") {
        names.clear();
    }
    names
}

/// The name that is meant by both of two, each of which may begin with a star.
pub(super) fn common_name<'n>(one: &'n str, other: &'n str) -> Option<&'n str> {
    let covers = |wide: &str, name: &str| {
        wide.strip_prefix('*').is_some_and(|end| name.len() > end.len() && name.ends_with(end))
    };
    if one == other || covers(other, one) { Some(one) } else { covers(one, other).then_some(other) }
}
