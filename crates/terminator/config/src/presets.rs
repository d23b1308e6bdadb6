//! Versions, suites and groups that others recommend for servers.
//!
//! Source: Mozilla, Server Side TLS, version 6.0 (April 2026),
//! <https://ssl-config.mozilla.org/guidelines/6.0.json>. Its preference among suites is the
//! client's; ours is by cost, as for `suites = "auto"`.

use options::{Problem, Section, Severity};
use tls::certificate::{Certificate, KeyKind};
use tls::options::{Group, ServerOptions, Suite, Suites, Version};

#[derive(Debug)]
pub(crate) struct Preset {
    name: &'static str,
    pub(crate) versions: &'static [Version],
    suites: &'static [Suite],
    groups: &'static [Group],
    has_rsa: bool,
}

pub(crate) const GROUPS: &[Group] = &[
    Group::X25519MlKem768,
    Group::X25519,
    Group::Secp256r1,
    Group::Secp384r1,
];

static MODERN: Preset = Preset {
    name: "modern",
    versions: &[Version::Tls13],
    suites: &[
        Suite::Tls13Aes128GcmSha256,
        Suite::Tls13Aes256GcmSha384,
        Suite::Tls13ChaCha20Poly1305Sha256,
    ],
    groups: GROUPS,
    has_rsa: false,
};

static INTERMEDIATE: Preset = Preset {
    name: "intermediate",
    versions: &[Version::Tls12, Version::Tls13],
    suites: &[
        Suite::Tls13Aes128GcmSha256,
        Suite::Tls13Aes256GcmSha384,
        Suite::Tls13ChaCha20Poly1305Sha256,
        Suite::EcdheEcdsaAes128GcmSha256,
        Suite::EcdheRsaAes128GcmSha256,
        Suite::EcdheEcdsaAes256GcmSha384,
        Suite::EcdheRsaAes256GcmSha384,
        Suite::EcdheEcdsaChaCha20Poly1305Sha256,
        Suite::EcdheRsaChaCha20Poly1305Sha256,
    ],
    groups: GROUPS,
    has_rsa: true,
};

/// The preset that is written; `Some(None)` = there is none.
#[allow(clippy::option_option, reason = "left out and reported are two things")]
pub(crate) fn read(tls: &Section<'_>) -> Option<Option<&'static Preset>> {
    tls.if_written("versions-and-suites", |tls, name| {
        let meanings = [&MODERN, &INTERMEDIATE].map(|one| (one.name, one));
        tls.choice(name, &meanings)
    })
}

impl Preset {
    /// Says where a service departs from it.
    pub(crate) fn departures(&self, tls: &Section<'_>, options: &ServerOptions) {
        let say = |key, message: String| {
            let problem = Problem::new(format!("departs from \"{}\": {message}", self.name));
            tls.say(
                Severity::Note,
                key,
                problem.hint("take one of both out unless it is meant"),
            );
        };
        let spoken = [Version::Tls12, Version::Tls13];
        let spoken = spoken
            .into_iter()
            .filter(|one| (options.version_min..=options.version_max).contains(one));
        let versions: Vec<_> = spoken.collect();
        if let Some(message) = difference(&versions, self.versions, |one| match one {
            Version::Tls12 => "1.2",
            Version::Tls13 => "1.3",
        }) {
            say("versions", message);
        }
        if let Suites::Listed(suites) = &options.suites
            && let Some(message) = difference(suites, self.suites, Suite::name)
        {
            say("suites", message);
        }
        if let Some(message) = difference(&options.groups, self.groups, Group::name) {
            say("groups", message);
        }
        for source in options.certificates.iter().filter(|_| !self.has_rsa) {
            let kind = Certificate::load(source).map(|(one, _)| one.kind);
            if kind == Ok(KeyKind::Rsa) {
                say("certificates", format!("{} has an RSA key", source.place));
            }
        }
    }
}

/// What is there and should not be, and what should be there; `None` = nothing.
fn difference<T: Copy + PartialEq>(
    own: &[T],
    recommended: &[T],
    name: fn(T) -> &'static str,
) -> Option<String> {
    let missing_in = |all: &[T], others: &[T]| {
        let others = others.iter().filter(|one| !all.contains(one));
        others.map(|one| name(*one)).collect::<Vec<_>>().join(", ")
    };
    let (more, fewer) = (missing_in(recommended, own), missing_in(own, recommended));
    match (more.is_empty(), fewer.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!("without {fewer}")),
        (false, true) => Some(format!("with {more}")),
        (false, false) => Some(format!("with {more}, without {fewer}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is not written is what the library has and the defaults are.
    #[test]
    fn the_defaults_are_the_intermediate_ones() {
        assert_eq!(
            difference(Suite::ALL, INTERMEDIATE.suites, Suite::name),
            None
        );
        assert_eq!(Group::ALL, INTERMEDIATE.groups);
        let tls13 = |suite: &Suite| suite.version() == Version::Tls13;
        let tls13: Vec<_> = Suite::ALL.iter().copied().filter(tls13).collect();
        assert_eq!(difference(&tls13, MODERN.suites, Suite::name), None);
    }
}
