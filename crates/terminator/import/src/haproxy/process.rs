//! The section `global`.

use std::net::SocketAddr;

use crate::convert::{FACILITIES, is_among};
use crate::draft::DraftTable;
use crate::haproxy::arguments;
use crate::haproxy::reading::HaproxyReading;
use crate::import::Import;
use crate::meaning::Conversion;
use crate::source::{SourceLine, Statement};
use crate::tls_policy::ORDER;

/// Writes what the whole process does.
pub(super) fn write(reading: &HaproxyReading, import: &mut Import, place: &SourceLine) {
    let mut unused = DraftTable::default();
    arguments::write_keys(&reading.global, import, &mut unused);
    for (name, written) in reading.global.iter() {
        match name {
            "global ca-base" | "global crt-base" => {
                import.joined(written, "the paths of files below it", "");
            }
            "global ssl-server-verify" => {
                import.joined(written, "service.back.tls.verify", "");
            }
            "global setenv" => import.mapped(written, "in this file"),
            "global tune.ssl.lifetime" => {
                let (key, note) =
                    ("resumption.session-cache.lifetime", "tickets live on for 2 hours");
                import.apply_key(key, Conversion::Seconds, note, written, &mut unused);
            }
            "global log" => write_log(written, import),
            _ => {}
        }
    }
    import.note_default(place, "ciphers", ("", ORDER));
    let has_log = reading.sections.iter().any(|one| one.options.find("log").is_some());
    if !has_log && reading.global.find("global log").is_none() {
        let process = &mut import.draft.process;
        process.set_default("log.connections", "none", "without `log`, HAProxy writes no lines");
        import.note_default(place, "log", ("log.connections", ""));
    }
    for (name, written) in reading.sections.iter().flat_map(|one| one.options.iter()) {
        match (name, written.words.first().map(String::as_str)) {
            ("log", Some("global")) => import.joined(written, "log.output", ""),
            ("log", _) => write_log(written, import),
            _ => {}
        }
    }
}

/// A target of the log: one is written to.
fn write_log(written: &Statement, import: &mut Import) {
    let mut unused = DraftTable::default();
    if import.draft.process.has("log.output") {
        return import.lacks(written, "the log has one target", "syslog daemons pass it on");
    }
    let target = written.words.first().map_or("", String::as_str);
    let note = "a line for each connection, when it ends";
    let mut put = |key: &str, value: &str| import.put(&mut unused, key, value, written, note);
    match target {
        "stdout" | "stderr" => put("log.output", target),
        target if target.starts_with('/') => {
            put("log.output", "syslog");
            put("log.syslog.address", &format!("unix:{target}"));
        }
        target => {
            let target = target.trim_start_matches("udp@").trim_start_matches("ipv4@");
            let with_port = format!("{target}:514");
            let address = [target, &with_port].into_iter().find_map(|one| one.parse().ok());
            let Some(address): Option<SocketAddr> = address else {
                let remedy = "`log.output = \"syslog\"`";
                return import.lacks(written, "is no address that logs are sent to", remedy);
            };
            put("log.output", "syslog");
            put("log.syslog.address", &address.to_string());
        }
    }
    let is_facility = |word: &&String| is_among(FACILITIES, word);
    if let Some(facility) = written.words.iter().skip(1).find(is_facility) {
        import.put(&mut unused, "log.syslog.facility", facility.clone(), written, note);
    }
}
