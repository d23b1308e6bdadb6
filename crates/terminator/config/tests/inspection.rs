//! What is said of a configuration only to those who ask: what is in its files, and where it
//! departs from a recommendation.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

use config::{Recording, Severity, Source};
use tls::options::{Suites, Version};

fn source(tls: &str) -> Source {
    let text = format!(
        "[[service]]\nfront.listen = ['[::]:443']\nfront.tls.certificates = ['site.pem']\n\
         {tls}\nback.servers = ['127.0.0.1:80']\n"
    );
    let place = "lariat.toml".to_owned();
    Source::File { place, text }
}

fn files() -> Recording {
    let mut files = Recording::default();
    files.insert("site.pem", b"no certificate".to_vec());
    files
}

/// The notes about a service's TLS with these keys.
fn notes(tls: &str) -> Vec<String> {
    let inspected = config::inspect(&source(tls), &mut files());
    let notes = inspected.diagnostics.into_iter();
    let notes = notes.filter(|one| one.severity == Severity::Note);
    notes.map(|one| one.message).collect()
}

#[test]
fn a_recommendation_sets_what_is_not_written() {
    let versions = |tls: &str| {
        let loaded = config::load(&source(tls), &mut files()).unwrap();
        let tls = loaded.settings.plane.services[0]
            .front
            .terminated()
            .unwrap();
        assert_eq!(tls.suites, Suites::Auto);
        assert_eq!(loaded.warnings, [], "notes are for who asks");
        (tls.version_min, tls.version_max)
    };
    let (old, new) = (Version::Tls12, Version::Tls13);
    for (tls, spoken) in [
        ("", (old, new)),
        ("front.tls.versions-and-suites = 'intermediate'", (old, new)),
        ("front.tls.versions-and-suites = 'modern'", (new, new)),
        (
            "front.tls.versions-and-suites = 'modern'\nfront.tls.versions = ['1.2', '1.3']",
            (old, new),
        ),
    ] {
        assert_eq!(versions(tls), spoken, "{tls}");
    }
}

#[test]
fn what_departs_from_a_recommendation_is_named() {
    for (name, keys, said) in [
        ("modern", "", None),
        ("intermediate", "", None),
        ("modern", "versions = ['1.2', '1.3']", Some("with 1.2")),
        ("intermediate", "versions = ['1.3']", Some("without 1.2")),
        (
            "intermediate",
            "groups = ['x25519']",
            Some("without X25519MLKEM768, secp256r1, secp384r1"),
        ),
        (
            "modern",
            "suites = ['TLS_AES_128_GCM_SHA256', 'TLS_CHACHA20_POLY1305_SHA256']",
            Some("without TLS_AES_256_GCM_SHA384"),
        ),
    ] {
        let keys = match keys {
            "" => String::new(),
            keys => format!("front.tls.{keys}"),
        };
        let notes = notes(&format!("front.tls.versions-and-suites = '{name}'\n{keys}"));
        let wanted = said.map(|said| format!("departs from \"{name}\": {said}"));
        assert_eq!(notes, Vec::from_iter(wanted), "{keys}");
    }
}

#[test]
fn files_are_looked_into_where_they_are_named() {
    let inspected = config::inspect(&source(""), &mut files());
    let [one] = &inspected.diagnostics[..] else {
        panic!("{:?}", inspected.diagnostics);
    };
    assert!(one.is_error() && one.message.starts_with("site.pem: holds no certificate"));
    assert_eq!(
        one.subject.as_deref(),
        Some("service.front.tls.certificates.chain")
    );
    assert!(
        config::load(&source(""), &mut files()).is_ok(),
        "only who asks pays for it"
    );
}

#[test]
fn one_fault_hides_no_other() {
    for fault in [
        "front.deny = ['gone.txt']",
        "front.tls.alpn = [7]",
        "timeouts.idle = 'sixty'",
        "front.tls.certificates = ['site.pem', 'gone.pem']",
        "[process]\ndrain = 'sixty'\nuser = 'somebody'",
        "[limits]\nconnections = 'many'",
        "[log]\nformat = 'prose'",
        "[resumption.tickets]\nkeep = 'four'",
    ] {
        let certificates = if fault.contains("certificates") {
            ""
        } else {
            "front.tls.certificates = ['site.pem']\n"
        };
        let text = format!(
            "[admin]\nlisten = '127.0.0.1:443'\n[[service]]\nfront.listen = ['127.0.0.1:443']\n\
             back.servers = ['127.0.0.1:80']\n{certificates}{fault}\n"
        );
        let place = "lariat.toml".to_owned();
        let source = Source::File { place, text };
        let inspected = config::inspect(&source, &mut files());
        let taken = |one: &config::Diagnostic| one.message.contains("already listened at by");
        let told = inspected
            .diagnostics
            .iter()
            .filter(|one| taken(one))
            .count();
        assert_eq!(told, 1, "{fault}: {:?}", inspected.diagnostics);
        let errors = inspected.diagnostics.iter().filter(|one| one.is_error());
        assert_eq!(errors.count(), 3, "{fault}: {:?}", inspected.diagnostics);
        let settings = inspected.settings.expect("what is left of it");
        let tls = settings.plane.services[0].front.terminated();
        assert_eq!(tls.unwrap().certificates.len(), 1, "{fault}");
        if fault.contains("somebody") {
            assert_eq!(settings.process.user.as_deref(), Some("somebody"));
        }
        assert!(config::load(&source, &mut files()).is_err(), "{fault}");
    }
}
