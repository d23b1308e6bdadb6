//! Versions, suites and curves of a section of stunnel's file.

use crate::convert::is_among;
use crate::draft::DraftTable;
use crate::import::Import;
use crate::meaning::Conversion;
use crate::meanings;
use crate::predecessor::Predecessor;
use crate::source::Statement;
use crate::stunnel::section::StunnelSection;
use crate::tls_policy::{OLDER, SpokenVersions, VersionBound, WrittenSuites};

/// OpenSSL's options that Lariat has in any case.
const AS_HERE: &str = "\
    ALL CIPHER_SERVER_PREFERENCE DONT_INSERT_EMPTY_FRAGMENTS NO_COMPRESSION \
    NO_RENEGOTIATION NO_SESSION_RESUMPTION_ON_RENEGOTIATION NO_SSLV2 NO_SSLV3 NO_TLSV1 \
    NO_TLSV1.1 NO_TLSV1_1 SINGLE_DH_USE SINGLE_ECDH_USE";

/// Writes what the section says of TLS.
pub(super) fn write(section: &StunnelSection, import: &mut Import, service: &mut DraftTable) {
    let (options, side) = (&section.options, section.tls());
    let mut spoken = SpokenVersions::all();
    for (option, bound) in [
        ("sslVersion", VersionBound::Only),
        ("sslVersionMin", VersionBound::Least),
        ("sslVersionMax", VersionBound::Most),
    ] {
        match options.find(option) {
            Some(written) if written.value().eq_ignore_ascii_case("all") => {
                import.joined(written, &format!("service.{side}.versions"), OLDER);
            }
            Some(written) => spoken.bound(import, written, (bound, &written.value()), side),
            None => {}
        }
    }
    for written in options.all("options") {
        ssl_option(import, written, &mut spoken, side);
    }
    for written in options.all("config") {
        let value = written.value();
        let (command, value) = value.split_once(':').unwrap_or((&value, ""));
        let one = Statement { words: vec![value.trim().to_owned()], ..written.clone() };
        if !spoken.bound_by_command(import, &one, command.trim(), side)
            && let Some(meaning) = meanings::find(Predecessor::Stunnel, "config")
        {
            import.apply(meaning, written, service);
        }
    }
    spoken.write(service, side);
    if let Some(curves) = options.find("curves") {
        import.apply_key(
            &format!("service.{side}.groups"),
            Conversion::Groups,
            "",
            curves,
            service,
        );
    }
    let [tls12, tls13] = ["ciphers", "ciphersuites"].map(|name| options.find(name).cloned());
    WrittenSuites { tls12, tls13 }.write(import, service, side);
}

/// One of OpenSSL's options (SSL_CTX_set_options(3ssl)).
fn ssl_option(import: &mut Import, written: &Statement, spoken: &mut SpokenVersions, side: &str) {
    let value = written.value().to_ascii_uppercase();
    let name = value.trim_start_matches("SSL_OP_");
    let off = match name {
        "NO_TLSV1.2" | "NO_TLSV1_2" => Some("tlsv1.2"),
        "NO_TLSV1.3" | "NO_TLSV1_3" => Some("tlsv1.3"),
        _ => None,
    };
    match off {
        Some(version) => spoken.bound(import, written, (VersionBound::Not, version), side),
        _ if name == "NO_TICKET" => {
            let remedy = "`resumption.tickets.count = 0`, for TLS 1.3";
            import.lacks(written, "tickets are given by all services", remedy);
        }
        _ if is_among(AS_HERE, name) => import.mapped(written, "in any case"),
        _ => {
            let remedy = "none is needed, or see the keys of `front.tls`";
            import.lacks(written, "options of OpenSSL are not set", remedy);
        }
    }
}
