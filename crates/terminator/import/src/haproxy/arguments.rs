//! Arguments of `bind` and `server` lines, and of lines in a `crt-list`: those by themselves, and
//! versions, suites and groups of TLS.

use crate::convert::is_among;
use crate::draft::DraftTable;
use crate::haproxy::reading::{HaproxyReading, find};
use crate::import::Import;
use crate::meaning::{Conversion, Sense};
use crate::source::Statement;
use crate::statements::Statements;
use crate::tls_policy::{SpokenVersions, VersionBound, WrittenSuites};

/// Arguments without a value; all others have one.
const BARE: &str = "\
    accept-proxy agent-check allow-0rtt backup check check-send-proxy check-ssl \
    check-via-socks4 defer-accept disabled enabled force-sslv3 force-tlsv10 force-tlsv11 \
    force-tlsv12 force-tlsv13 generate-certificates no-agent-check no-backup no-ca-names \
    no-check no-check-send-proxy no-check-ssl no-send-proxy no-send-proxy-v2 \
    no-send-proxy-v2-ssl no-send-proxy-v2-ssl-cn no-ssl no-ssl-reuse no-sslv3 no-tfo \
    no-tls-tickets no-tlsv10 no-tlsv11 no-tlsv12 no-tlsv13 no-verifyhost non-stick \
    prefer-client-ciphers quic-force-retry send-proxy send-proxy-v2 send-proxy-v2-ssl \
    send-proxy-v2-ssl-cn ssl ssl-reuse stick strict-sni tfo tls-tickets transparent v4v6 v6only";

/// Reads arguments; those that need no other are reported.
pub(super) fn read(
    import: &mut Import,
    scope: &str,
    written: &Statement,
    words: &[String],
) -> Statements {
    let mut arguments = Statements::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let of = |option: String, words| Statement { place: written.place.clone(), option, words };
        let Some(meaning) = find(&format!("{scope} {word}")) else {
            let option = format!("{scope} {word}");
            import.note_unknown(&of(option, Vec::new()));
            continue;
        };
        let values = if is_among(BARE, word) {
            Vec::new()
        } else {
            words.next().into_iter().cloned().collect()
        };
        let argument = of(word.clone(), values);
        if argument.words.is_empty() && !is_among(BARE, word) {
            let why = "has no value";
            import.fault(&written.place, word, why, "see section 5 of HAProxy's manual");
            continue;
        }
        if meaning.is_written() {
            import.expect(&argument);
            let is_contrary = word.starts_with("no-") && !word.starts_with("no-tlsv");
            if !meaning.option.ends_with(&argument.option) && is_contrary {
                import.mapped(&argument, "turned off");
            }
            arguments.push(meaning.option, argument);
        } else {
            import.apply(meaning, &argument, &mut DraftTable::default());
        }
    }
    arguments
}

/// An argument, unless its contrary follows it.
pub(super) fn on<'a>(arguments: &'a Statements, name: &str) -> Option<&'a Statement> {
    arguments.find(name).filter(|one| !one.option.starts_with("no-"))
}

/// Writes the arguments that a key says by itself.
pub(super) fn write_keys(arguments: &Statements, import: &mut Import, service: &mut DraftTable) {
    for (name, written) in arguments.iter() {
        if let Some(meaning) = find(name)
            && matches!(meaning.sense, Sense::Key { .. })
        {
            import.apply(meaning, written, service);
        }
    }
}

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
            all.and(&read(import, scope, written, &written.words))
        }
        None => all,
    }
}

/// Writes them into `front.tls` or `back.tls`.
pub(super) fn write_tls(
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
