//! Versions, suites and curves of a section of stunnel's file.

use crate::convert::{Unfit, array, is_among, version};
use crate::draft::DraftTable;
use crate::import::Import;
use crate::meaning::Conversion;
use crate::source::Statement;
use crate::stunnel::section::StunnelSection;
use crate::tls_policy::WrittenSuites;

/// Names of versions, from the oldest.
const VERSIONS: [&str; 6] = ["sslv2", "sslv3", "tlsv1", "tlsv1.1", "tlsv1.2", "tlsv1.3"];

/// OpenSSL's options that Lariat has in any case.
const AS_HERE: &str = "\
    ALL CIPHER_SERVER_PREFERENCE DONT_INSERT_EMPTY_FRAGMENTS NO_COMPRESSION \
    NO_RENEGOTIATION NO_SESSION_RESUMPTION_ON_RENEGOTIATION NO_SSLV2 NO_SSLV3 NO_TLSV1 \
    NO_TLSV1.1 NO_TLSV1_1 SINGLE_DH_USE SINGLE_ECDH_USE";

/// Writes what the section says of TLS.
pub(super) fn write(section: &StunnelSection, import: &mut Import, service: &mut DraftTable) {
    let (options, side) = (&section.options, section.tls());
    let mut spoken = vec!["1.2", "1.3"];
    let mut bounds: Vec<&Statement> = Vec::new();
    for option in ["sslVersion", "sslVersionMin", "sslVersionMax"] {
        bounds.extend(options.find(option));
    }
    for written in &bounds {
        bound(import, written, &mut spoken, side);
    }
    for written in options.all("options") {
        ssl_option(import, written, &mut spoken, side);
    }
    if spoken.len() == 1 {
        let first = bounds.first().copied().or_else(|| options.find("options"));
        let place = first.map(|one| one.place.clone());
        service.set(&format!("{side}.versions"), array(spoken), place);
    }
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

/// One of the three options that bound the versions.
fn bound(import: &mut Import, written: &Statement, spoken: &mut Vec<&str>, side: &str) {
    let value = written.value().to_ascii_lowercase();
    let key = format!("service.{side}.versions");
    let older = "nothing older than TLS 1.2 is spoken (RFC 8996)";
    if value == "all" {
        return import.joined(written, &key, older);
    }
    let Some(place) = VERSIONS.iter().position(|one| *one == value) else {
        let remedy = "write TLSv1.2 or TLSv1.3";
        let why = format!("`{value}` is no version of TLS");
        return import.fault(&written.place, &written.option, why, remedy);
    };
    let option = written.option.as_str();
    let fits = |ours: &&str| {
        let at = VERSIONS.iter().position(|one| version(one) == Some(Some(ours)));
        at.is_some_and(|at| match option {
            "sslVersionMin" => at >= place,
            "sslVersionMax" => at <= place,
            _ => at == place,
        })
    };
    let kept: Vec<_> = spoken.iter().copied().filter(fits).collect();
    if kept.is_empty() {
        let remedy = "renew the other side; TLS 1.2 and 1.3 are enabled now";
        return import.unmapped(written, Unfit::new(older, remedy));
    }
    *spoken = kept;
    let is_older = version(&value) == Some(None);
    import.joined(written, &key, if is_older { older } else { "" });
}

/// One of OpenSSL's options (SSL_CTX_set_options(3ssl)).
fn ssl_option(import: &mut Import, written: &Statement, spoken: &mut Vec<&str>, side: &str) {
    let value = written.value().to_ascii_uppercase();
    let name = value.trim_start_matches("SSL_OP_");
    let off = match name {
        "NO_TLSV1.2" | "NO_TLSV1_2" => Some("1.2"),
        "NO_TLSV1.3" | "NO_TLSV1_3" => Some("1.3"),
        _ => None,
    };
    match off {
        Some(version) if spoken.iter().any(|one| *one != version) => {
            spoken.retain(|one| *one != version);
            import.joined(written, &format!("service.{side}.versions"), "");
        }
        _ if name == "NO_TICKET" => {
            let remedy = "`resumption.tickets.count = 0`, for TLS 1.3";
            import.lacks(written, "tickets are given by all services", remedy);
        }
        _ if is_among(AS_HERE, name) => import.mapped(written, "in any case"),
        _ => {
            let remedy = "none is needed, or see the keys of `front.tls`";
            import.unmapped(written, Unfit::new("options of OpenSSL are not set", remedy));
        }
    }
}
