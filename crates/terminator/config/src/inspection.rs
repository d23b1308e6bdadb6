//! The faults that `lariat check` looks for beyond those that keep a configuration from being read:
//! those in the files that it names, reported where it names them.
//!
//! Owns the places; `tls` judges. Serving needs none of this: what it builds is judged again then.

use options::{KeyPlace, Problem, Severity};
use proxy::options::FrontOptions;
use proxy::routes::NamePattern;
use tls::certificate::Certificate;
use tls::certificate::chain::{self, KnownAuthorities};
use tls::options::{BadCertificate, CertificateSource, PemSource};
use tls::verify;

use crate::files::{self, Files};

/// Looks into files while they are read.
#[derive(Debug, Default)]
pub(crate) struct Inspector {
    known: KnownAuthorities,
}

/// Names without a certificate that a warning lists.
const NAMES_SHOWN_MAX: usize = 10;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Use {
    Shown,
    ToServers,
}

impl Inspector {
    /// One that knows the authorities of this host.
    pub(crate) fn new(files: &mut dyn Files) -> Self {
        let bundle = files::bundle_of_host(files);
        let known =
            bundle.map(|(place, pem)| KnownAuthorities::of(&PemSource { place, pem: pem.into() }));
        Self { known: known.unwrap_or_default() }
    }

    /// Reports what is wrong with a certificate and its key.
    pub(crate) fn certificate(
        &self,
        (key, private_key): (&KeyPlace<'_>, Option<&KeyPlace<'_>>),
        source: &CertificateSource,
        (usage, severity): (Use, Severity),
    ) {
        // One that is left out is a warning.
        let (certificate, first) = match Certificate::load(source) {
            Ok(loaded) => loaded,
            Err(error) => {
                let at = private_key.filter(|_| error.is_of_key()).unwrap_or(key);
                return at.say(severity, problem(&error.to_string()));
            }
        };
        if let Some(concern) = first {
            let text = format!("{}: {concern}", source.place);
            key.say(Severity::Warning, problem(&text));
        }
        if usage == Use::ToServers {
            return;
        }
        for (place, concern) in chain::examine(source, &certificate, &self.known) {
            let problem = problem(&format!("{place}: {concern}"));
            let severity = if concern.is_note() { Severity::Note } else { Severity::Warning };
            key.say(severity, problem);
        }
    }

    /// Warns of names that a service answers for and that none of its certificates has.
    pub(crate) fn names(
        &self,
        names_key: &KeyPlace<'_>,
        options: &FrontOptions,
        wanted: &[NamePattern],
    ) {
        let Some(tls) = options.terminated() else {
            return;
        };
        let loaded = tls.certificates.iter().map(Certificate::load);
        let certificates: Vec<_> = loaded.flatten().collect();
        let is_whole = certificates.len() == tls.certificates.len();
        let is_refused = !is_whole && tls.bad_certificate == BadCertificate::Refuse;
        if is_refused || tls.placeholder.is_some() {
            // Those that cannot be served, or are not there yet, are reported elsewhere.
            return;
        }
        let names: Vec<&str> =
            certificates.iter().flat_map(|(one, _)| one.names.iter().map(|name| &**name)).collect();
        let lacking = wanted.iter().filter(|one| !covers(&names, one));
        let lacking: Vec<_> = lacking.map(|pattern| format!("\"{pattern}\"")).collect();
        if lacking.is_empty() {
            return;
        }
        let shown = lacking.iter().take(NAMES_SHOWN_MAX).map(String::as_str).collect::<Vec<_>>();
        let more = match lacking.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!("no certificate of the service is for {}{more}", shown.join(", "));
        let hint = "clients will refuse what they are shown: add a certificate for each";
        names_key.warn(message, hint);
    }

    /// Reports what is wrong with files of authorities or revocation lists.
    pub(crate) fn pem_files(&self, key: &KeyPlace<'_>, sources: &[PemSource]) {
        let faults = match key.key.name() {
            "ca" | "roots" => verify::examine(sources, &[]),
            "crl" => verify::examine(&[], sources),
            _ => Vec::new(),
        };
        for fault in faults {
            key.error(problem(&fault.to_string()));
        }
    }
}

/// Whether one of a certificate's names is for all clients of a pattern: a wildcard is for one
/// label (RFC 9525 section 6.3).
fn covers(names: &[&str], pattern: &NamePattern) -> bool {
    let has = |wanted: &str| names.contains(&wanted);
    match pattern {
        NamePattern::Exact(name) => {
            let parent = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
            has(name) || parent.is_some_and(|wildcard| has(&wildcard))
        }
        NamePattern::Beneath(name) => has(&format!("*.{name}")),
    }
}

/// A problem from a sentence that names its remedy behind a semicolon, as those of [`tls`] do.
pub fn problem(text: &str) -> Problem {
    match text.split_once("; ") {
        Some((message, hint)) => Problem::new(message).hint(hint),
        None => Problem::new(text),
    }
}
