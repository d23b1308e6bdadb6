//! Versions, suites and groups of `bind` and `server` lines.

use crate::draft::DraftTable;
use crate::haproxy::arguments;
use crate::haproxy::reading::{HaproxyReading, find};
use crate::import::Import;
use crate::meaning::Conversion;
use crate::statements::Statements;
use crate::tls_policy::{SpokenVersions, VersionBound, WrittenSuites};

/// The arguments that `global` gives to all lines of a scope, `bind` or `server`.
pub(super) fn defaults(reading: &HaproxyReading, import: &mut Import, scope: &str) -> Statements {
    let mut all = Statements::default();
    let global =
        |word: &str| reading.global.all(&format!("global ssl-default-{scope}-{word}")).last();
    let named = |word: &str| find(&format!("{scope} {word}")).map(|one| one.option);
    let words = ["ciphers", "ciphersuites", "curves"];
    let words = words.into_iter().filter_map(|word| Some((named(word)?, word)));
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
    let mut spoken = SpokenVersions::all();
    let bounds = ["ssl-min-ver", "ssl-max-ver", "force-tlsv12", "no-tlsv12"].map(of);
    for (_, written) in arguments.iter().filter(|(name, _)| bounds.iter().any(|one| one == name)) {
        let option = written.option.as_str();
        let (kind, version) = match option.split_once("-tlsv1") {
            Some((kind, minor)) => (kind, format!("tlsv1.{minor}")),
            None if option == "force-sslv3" => ("force", "sslv3".to_owned()),
            None => (option, written.value()),
        };
        let bound = match kind {
            "ssl-min-ver" => VersionBound::Least,
            "ssl-max-ver" => VersionBound::Most,
            "no" => VersionBound::Not,
            _ => VersionBound::Only,
        };
        spoken.bound(import, written, (bound, &version), side);
    }
    spoken.write(service, side);
    if let Some(curves) = arguments.find(&of("curves")) {
        let key = format!("service.{side}.groups");
        import.apply_key(&key, Conversion::Groups, "", curves, service);
    }
    let [tls12, tls13] = ["ciphers", "ciphersuites"].map(|name| arguments.find(&of(name)).cloned());
    WrittenSuites { tls12, tls13 }.write(import, service, side);
}
