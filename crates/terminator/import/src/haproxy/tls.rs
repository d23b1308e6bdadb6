//! Versions, suites and groups of `bind` and `server` lines.

use crate::convert::array;
use crate::draft::DraftTable;
use crate::haproxy::arguments;
use crate::haproxy::reading::HaproxyReading;
use crate::import::Import;
use crate::meaning::Conversion;
use crate::source::Statement;
use crate::statements::Statements;
use crate::tls_policy::WrittenSuites;

/// Names of versions, from the oldest, and ours.
const VERSIONS: [(&str, &str); 5] =
    [("sslv3", ""), ("tlsv1.0", ""), ("tlsv1.1", ""), ("tlsv1.2", "1.2"), ("tlsv1.3", "1.3")];

const OLDER: &str = "nothing older than TLS 1.2 is spoken (RFC 8996)";

/// The arguments that `global` gives to all lines of a scope, `bind` or `server`.
pub(super) fn defaults(reading: &HaproxyReading, import: &mut Import, scope: &str) -> Statements {
    let mut all = Statements::default();
    let global =
        |word: &str| reading.global.all(&format!("global ssl-default-{scope}-{word}")).last();
    let words = match scope {
        "bind" => [
            ("bind ciphers", "ciphers"),
            ("bind ciphersuites", "ciphersuites"),
            ("bind curves", "curves"),
        ],
        _ => [
            ("server ciphers", "ciphers"),
            ("server ciphersuites", "ciphersuites"),
            ("server curves", "curves"),
        ],
    };
    for (name, word) in words {
        if let Some(written) = global(word) {
            all.push(name, written.clone());
        }
    }
    match global("options") {
        Some(written) => {
            import.joined(written, &format!("arguments of each `{scope}`"), "");
            all.and(&arguments::read(import, scope, written, &written.words))
        }
        None => all,
    }
}

/// Writes them into `front.tls` or `back.tls`.
pub(super) fn write(
    arguments: &Statements,
    import: &mut Import,
    scope: &str,
    service: &mut DraftTable,
) {
    let side = if scope == "bind" { "front.tls" } else { "back.tls" };
    let of = |name: &str| format!("{scope} {name}");
    let mut spoken: Vec<usize> = (0..VERSIONS.len()).collect();
    let mut last: Option<&Statement> = None;
    let bounds = ["ssl-min-ver", "ssl-max-ver", "force-tlsv12", "no-tlsv12"].map(of);
    for (name, written) in arguments.iter() {
        if bounds.iter().any(|bound| bound == name) {
            last = bound(import, written, &mut spoken, side).then_some(written).or(last);
        }
    }
    let kept: Vec<_> = spoken.iter().filter_map(|place| VERSIONS.get(*place)).collect();
    let ours: Vec<_> = kept.iter().map(|(_, ours)| *ours).filter(|ours| !ours.is_empty()).collect();
    if let Some(last) = last.filter(|_| ours.len() == 1) {
        service.set(&format!("{side}.versions"), array(ours), last.place.clone());
    }
    if let Some(curves) = arguments.find(&of("curves")) {
        let key = format!("service.{side}.groups");
        import.apply_key(&key, Conversion::Groups, "", curves, service);
    }
    let [tls12, tls13] = ["ciphers", "ciphersuites"].map(|name| arguments.find(&of(name)).cloned());
    WrittenSuites { tls12, tls13 }.write(import, service, side);
}

/// Bounds the versions by one argument; whether that was possible.
fn bound(import: &mut Import, written: &Statement, spoken: &mut Vec<usize>, side: &str) -> bool {
    let (option, value) = match written.option.split_once("-tlsv1") {
        Some((option, minor)) => (option, format!("tlsv1.{minor}")),
        None if written.option == "force-sslv3" => ("force", "sslv3".to_owned()),
        None => (written.option.as_str(), written.value().to_ascii_lowercase()),
    };
    let Some(at) = VERSIONS.iter().position(|(theirs, _)| *theirs == value) else {
        let why = format!("`{value}` is no version of TLS");
        import.fault(&written.place, &written.option, why, "write TLSv1.2 or TLSv1.3");
        return false;
    };
    let fits = |place: &usize| match option {
        "ssl-min-ver" => *place >= at,
        "ssl-max-ver" => *place <= at,
        "no" => *place != at,
        _ => *place == at,
    };
    let kept: Vec<_> = spoken.iter().copied().filter(fits).collect();
    let is_ours = |place: &usize| VERSIONS.get(*place).is_some_and(|(_, ours)| !ours.is_empty());
    if !kept.iter().any(is_ours) {
        import.lacks(written, OLDER, "renew the other side; TLS 1.2 and 1.3 are enabled now");
        return false;
    }
    *spoken = kept;
    let is_older = !is_ours(&at) && option != "no";
    let key = format!("service.{side}.versions");
    import.joined(written, &key, if is_older { OLDER } else { "" });
    true
}
