//! Any text as a configuration: no panic, the same result each time, every refusal has a reason.
//!
//! Text that begins with `--` stands for flags, one on each line.
#![no_main]

use config::{Diagnostic, Recording, Severity, TypedConfiguration, load};
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(bytes) else { return Corpus::Reject };
    let source = source(text);
    let loaded = load(&source, &mut files());
    assert_eq!(loaded, load(&source, &mut files()));
    match loaded {
        Ok(loaded) => {
            assert!(loaded.warnings.iter().all(|warning| !is_error(warning)));
            check_rendered(&loaded.warnings);
        }
        Err(diagnostics) => {
            assert!(diagnostics.iter().any(is_error));
            check_rendered(&diagnostics);
        }
    }
    Corpus::Keep
});

fn source(text: &str) -> TypedConfiguration {
    if !text.starts_with("--") {
        return TypedConfiguration::of_text("fuzz.toml", text);
    }
    let flag = |line: &str| {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        (name.trim_start_matches('-').to_owned(), value.to_owned())
    };
    TypedConfiguration::Flags(text.lines().map(flag).collect())
}

/// Returns the files that a configuration may name; all others are missing.
fn files() -> Recording {
    let mut files = Recording::default();
    for name in ["site.pem", "site.crt", "site.key", "site.ocsp", "clients.pem", "clients.crl"] {
        files.insert(name, b"PEM".to_vec());
    }
    files.insert("certs/a.pem", b"PEM".to_vec());
    files.insert_list("certs/", vec!["certs/a.pem".into()]);
    files
}

fn is_error(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity == Severity::Error
}

fn check_rendered(diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics {
        assert!(!diagnostic.message.is_empty());
        let message = wire::text::line(&diagnostic.message).to_string();
        assert!(diagnostic.render(false).contains(&message));
        assert!(!diagnostic.render(true).is_empty());
    }
}
