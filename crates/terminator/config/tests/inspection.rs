//! Warnings and notes of an inspection: on the contents of files, and on departures from a
//! recommendation.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

use config::{Recording, Severity, TypedConfiguration};
use tls::options::{Suites, Version};

fn source(tls: &str) -> TypedConfiguration {
    let text = format!(
        "[[service]]\nfront.listen = ['[::]:443']\nfront.tls.certificates = ['site.pem']\n\
         {tls}\nback.servers = ['127.0.0.1:80']\n"
    );
    let place = "lariat.toml".to_owned();
    TypedConfiguration::of_text(place, text)
}

fn files() -> Recording {
    let mut files = Recording::default();
    files.insert("site.pem", b"no certificate".to_vec());
    files.insert("x.pem", b"no certificate".to_vec());
    files
}

/// Returns the notes about a service's TLS with these keys.
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
        let tls = loaded.settings.data_plane.services[0].front.terminated().unwrap();
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
    assert_eq!(one.subject.as_deref(), Some("service.front.tls.certificates.chain"));
    assert!(config::load(&source(""), &mut files()).is_ok(), "only who asks pays for it");
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
        let source = TypedConfiguration::of_text(place, text);
        let inspected = config::inspect(&source, &mut files());
        let taken = |one: &config::Diagnostic| one.message.contains("already listened at by");
        let told = inspected.diagnostics.iter().filter(|one| taken(one)).count();
        assert_eq!(told, 1, "{fault}: {:?}", inspected.diagnostics);
        let errors = inspected.diagnostics.iter().filter(|one| one.is_error());
        assert_eq!(errors.count(), 3, "{fault}: {:?}", inspected.diagnostics);
        let settings = inspected.settings.expect("what is left of it");
        let tls = settings.data_plane.services[0].front.terminated();
        assert_eq!(tls.unwrap().certificates.len(), 1, "{fault}");
        if fault.contains("somebody") {
            assert_eq!(settings.process.user.as_deref(), Some("somebody"));
        }
        assert!(config::load(&source, &mut files()).is_err(), "{fault}");
    }
}

/// Returns the errors about two services of TLS at one port, the first with these certificates and
/// servers, both with this address, and whether settings are left to be checked.
fn errors_of_two(certificates: &str, servers: &str, listen: [&str; 2]) -> (Vec<String>, bool) {
    let [one, two] = listen;
    let text = format!(
        "[admin]\nlisten = '127.0.0.1:443'\n[[service]]\nname = 'a'\nfront.listen = {one}\n\
         front.names = ['a.example']\nfront.tls.certificates = {certificates}\n\
         back.servers = {servers}\n[[service]]\nname = 'b'\nfront.listen = {two}\n\
         front.tls.certificates = ['x.pem']\nback.servers = ['127.0.0.1:444']\n"
    );
    let place = "lariat.toml".to_owned();
    let inspected = config::inspect(&TypedConfiguration::of_text(place, text), &mut files());
    let errors = inspected.diagnostics.into_iter();
    let errors = errors.filter(|one| one.is_error() && !one.message.contains(".pem"));
    let errors: Vec<_> = errors.map(|one| one.message).collect();
    let services = inspected.settings.map(|settings| settings.data_plane.services);
    (errors, services.is_some_and(|services| services.len() == 2))
}

#[test]
fn a_service_without_its_only_server_is_still_seen_by_others() {
    let both = ["['0.0.0.0:443']", "['[::]:443']"];
    let taken = "127.0.0.1:443 is already listened at by `a`";
    for (servers, wrong) in
        [("['10.0.0.1']", "\"10.0.0.1\" has no port"), ("[]", "`service.back.servers` is missing")]
    {
        let (errors, is_left) = errors_of_two("['x.pem']", servers, both);
        let told = |words: &str| errors.iter().any(|one| one.starts_with(words));
        let is_all = errors.len() == 2 && [wrong, taken].into_iter().all(told);
        assert!(is_all && is_left, "{errors:?}");
    }
    // The ring of `b` is no reason to remove its only server.
    let (errors, is_left) =
        errors_of_two("['gone.pem']", "['10.0.0.1:1']", ["['[::]:443']", "['[::]:444']"]);
    assert!(is_left && errors.iter().any(|one| one.contains("in a ring")), "{errors:?}");
}

#[test]
fn what_is_missing_with_a_fault_is_no_fault_of_its_own() {
    // Services of TLS share an address, though the certificate of one cannot be read.
    let shared = ["['[::]:445']", "['[::]:445']"];
    let (errors, is_left) = errors_of_two("['gone.pem']", "['10.0.0.1:1']", shared);
    assert_eq!((errors, is_left), (vec![], true));
}

#[test]
fn what_follows_from_a_protocol_is_said() {
    let both = "front.starttls = 'xmpp'\nback.tls.ca = ['x.pem']";
    for (keys, severity, said) in [
        (
            "front.starttls = 'imap'",
            Severity::Note,
            "front.starttls is `imap`, so that timeouts.idle is 30m: servers wait at least",
        ),
        (
            "front.starttls = 'imap'\ntimeouts.idle = '5m'",
            Severity::Warning,
            "is less than the 30m that `imap` needs",
        ),
        (both, Severity::Warning, "keeps out clients of `xmpp` that prefer channel binding"),
        (
            "front.starttls = 'smtp'\nback.tls.ca = ['x.pem']",
            Severity::Note,
            "both sides have TLS, of which a client of `smtp` sees one",
        ),
    ] {
        let inspected = config::inspect(&source(keys), &mut files());
        let mut all = inspected.diagnostics.iter().filter(|one| one.severity == severity);
        assert!(all.any(|one| one.message.starts_with(said)), "{keys}: {inspected:?}");
    }
    for keys in ["front.starttls = 'xmpp'", "front.starttls = 'mysql'\nback.tls.ca = ['x.pem']"] {
        let inspected = config::inspect(&source(keys), &mut files());
        let all: Vec<_> = inspected.diagnostics.iter().map(|one| &one.message).collect();
        assert!(
            !all.iter().any(|one| one.contains("both sides") || one.contains("binding")),
            "{keys}: {all:?}"
        );
    }
    let asked = "front.starttls = 'imap'\nback.tls.ca = ['x.pem']";
    let loaded = config::load(&source(asked), &mut files()).unwrap();
    assert_eq!(loaded.warnings, [], "notes are for who asks");
}
