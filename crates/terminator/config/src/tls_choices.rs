//! TLS settings that both sides of a service choose: versions, suites, groups and protocols, with
//! the names that other programs have for them.

use options::{Field, Key, KeyPlace, Problem, Value};
use tls::certificate::{Certificate, KeyKind};
use tls::options::{CertificateSource, Group, ServerOptions, Suite, Suites, Version};

/// A listed suite, or the word for all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WantedSuite {
    Auto,
    One(Suite),
}

/// Every suite by its standard name, and the word for all of them.
pub(crate) const SUITES: [(&str, WantedSuite); Suite::ALL.len() + 1] = {
    let mut words = [("auto", WantedSuite::Auto); Suite::ALL.len() + 1];
    let mut place = 0;
    while place < Suite::ALL.len() {
        let suite = Suite::ALL[place];
        place += 1;
        words[place] = (suite.name(), WantedSuite::One(suite));
    }
    words
};

/// Every group by its standard name.
pub(crate) const GROUPS: [(&str, Group); Group::ALL.len()] = {
    let mut words = [("", Group::X25519); Group::ALL.len()];
    let mut place = 0;
    while place < Group::ALL.len() {
        words[place] = (Group::ALL[place].name(), Group::ALL[place]);
        place += 1;
    }
    words
};

/// Reads the name of a protocol (RFC 7301).
pub(crate) fn protocol(value: &Value, _: &Key) -> Result<Vec<u8>, Problem> {
    match value {
        Value::Text(name) if (1..=255).contains(&name.len()) => Ok(name.clone().into_bytes()),
        Value::Text(_) => Err(Problem::new("holds a name that has not 1 to 255 bytes")),
        other => Err(options::wrong_kind(other, "a string")),
    }
}

pub(crate) fn suites(written: &Field<'_, Vec<WantedSuite>>) -> Option<Suites> {
    let wanted = written.value.as_ref()?;
    let listed = wanted.iter().filter_map(|one| match one {
        WantedSuite::Auto => None,
        WantedSuite::One(suite) => Some(*suite),
    });
    let listed: Vec<_> = listed.collect();
    match (listed.is_empty(), listed.len() == wanted.len()) {
        (true, _) => Some(Suites::Auto),
        (false, true) => Some(Suites::Listed(listed)),
        (false, false) => {
            let hint = "write \"auto\" alone, or names alone";
            written.fail("mixes \"auto\" with names", hint)
        }
    }
}

/// Checks that every enabled version has a suite.
pub(crate) fn suites_fit(key: &KeyPlace<'_>, versions: &[Version], suites: &Suites) -> Option<()> {
    let Suites::Listed(suites) = suites else { return Some(()) };
    let mut fit = Some(());
    for (version, name) in [(Version::Tls12, "1.2"), (Version::Tls13, "1.3")] {
        let fits = |suite: &Suite| suite.version() == version;
        if versions.contains(&version) && !suites.iter().any(fits) {
            let hint = format!("add one, or take \"{name}\" out of `versions`");
            key.refuse(format!("has no suite for TLS {name}"), hint);
            fit = None;
        }
    }
    fit
}

/// Names of versions in OpenSSL, nginx and HAProxy.
pub(crate) const VERSION_SYNONYMS: &[(&str, &str)] = &[
    ("TLSv1.2", "1.2"),
    ("TLSv1.3", "1.3"),
    ("TLS1.2", "1.2"),
    ("TLS1.3", "1.3"),
    ("TLS 1.2", "1.2"),
    ("TLS 1.3", "1.3"),
    ("TLSv12", "1.2"),
    ("TLSv13", "1.3"),
    ("SSLv*", OLD),
    ("TLSv1*", OLD),
    ("1.0", OLD),
    ("1.1", OLD),
];

const OLD: &str = "nothing older than TLS 1.2 is spoken (RFC 8996): take it out";
const NO_FORWARD_SECRECY: &str =
    "suites without forward secrecy (RSA key exchange) are not supported: take it out";
const CBC: &str = "suites of CBC are not supported: take it out";
const FINITE_FIELD: &str =
    "finite-field Diffie-Hellman is not supported: take it out, clients take elliptic curves";

pub(crate) const SUITE_SYNONYMS: &[(&str, &str)] = &[
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-*", CBC),
    ("DHE-*", FINITE_FIELD),
    ("TLS_DHE_*", FINITE_FIELD),
    ("AES128-*", NO_FORWARD_SECRECY),
    ("AES256-*", NO_FORWARD_SECRECY),
    ("DES-*", NO_FORWARD_SECRECY),
    ("TLS_RSA_*", NO_FORWARD_SECRECY),
];

/// Names of curves in OpenSSL and NIST.
pub(crate) const GROUP_SYNONYMS: &[(&str, &str)] = &[
    ("prime256v1", "secp256r1"),
    ("P-256", "secp256r1"),
    ("P256", "secp256r1"),
    ("P-384", "secp384r1"),
    ("P384", "secp384r1"),
    // Empty, because the name is similar to others.
    ("secp521r1", ""),
    ("ffdhe*", FINITE_FIELD),
    ("Curve25519", "x25519"),
    ("MLKEM768X25519", "X25519MLKEM768"),
    ("X25519Kyber768Draft00", "X25519MLKEM768"),
];

/// Versions, suites and groups that others recommend for servers.
///
/// Source: Mozilla, Server Side TLS, version 6.0 (April 2026),
/// <https://ssl-config.mozilla.org/guidelines/6.0.json>. Mozilla leaves the preference among suites
/// to the client; ours is by cost, as for `suites = "auto"`.
#[derive(Debug)]
pub(crate) struct Preset {
    pub(crate) name: &'static str,
    pub(crate) versions: &'static [Version],
    suites: &'static [Suite],
    groups: &'static [Group],
    has_rsa: bool,
}

pub(crate) const RECOMMENDED_GROUPS: &[Group] =
    &[Group::X25519MlKem768, Group::X25519, Group::Secp256r1, Group::Secp384r1];

static MODERN: Preset = Preset {
    name: "modern",
    versions: &[Version::Tls13],
    suites: &[
        Suite::Tls13Aes128GcmSha256,
        Suite::Tls13Aes256GcmSha384,
        Suite::Tls13ChaCha20Poly1305Sha256,
    ],
    groups: RECOMMENDED_GROUPS,
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
    groups: RECOMMENDED_GROUPS,
    has_rsa: true,
};

/// Presets by name.
pub(crate) const PRESETS: &[(&str, &Preset)] =
    &[(INTERMEDIATE.name, &INTERMEDIATE), (MODERN.name, &MODERN)];

impl Preset {
    /// Returns how a service's versions depart from the preset; `None` if they do not.
    pub(crate) fn other_versions(&self, options: &ServerOptions) -> Option<String> {
        let spoken = [Version::Tls12, Version::Tls13].into_iter();
        let is_spoken = |one: &Version| (options.version_min..=options.version_max).contains(one);
        let spoken: Vec<_> = spoken.filter(is_spoken).collect();
        difference(&spoken, self.versions, |one| match one {
            Version::Tls12 => "1.2",
            Version::Tls13 => "1.3",
        })
    }

    pub(crate) fn other_suites(&self, options: &ServerOptions) -> Option<String> {
        match &options.suites {
            Suites::Listed(suites) => difference(suites, self.suites, Suite::name),
            Suites::Auto => None,
        }
    }

    pub(crate) fn other_groups(&self, options: &ServerOptions) -> Option<String> {
        difference(&options.groups, self.groups, Group::name)
    }

    /// Returns the places of certificates with an RSA key, if the preset has none.
    pub(crate) fn certificates_of_rsa<'o>(
        &self,
        options: &'o ServerOptions,
    ) -> impl Iterator<Item = &'o str> {
        let has_rsa = self.has_rsa;
        let sources = options.certificates.iter().filter(move |_| !has_rsa);
        let is_rsa = |source: &&CertificateSource| {
            Certificate::load(source).map(|(one, _)| one.kind) == Ok(KeyKind::Rsa)
        };
        sources.filter(is_rsa).map(|source| source.place.as_str())
    }
}

/// Describes the superfluous and the missing elements; `None` if there are neither.
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

    /// A service without a preset gets the library's defaults.
    #[test]
    fn the_defaults_are_the_intermediate_ones() {
        assert_eq!(difference(Suite::ALL, INTERMEDIATE.suites, Suite::name), None);
        assert_eq!(Group::ALL, INTERMEDIATE.groups);
        let tls13 = |suite: &Suite| suite.version() == Version::Tls13;
        let tls13: Vec<_> = Suite::ALL.iter().copied().filter(tls13).collect();
        assert_eq!(difference(&tls13, MODERN.suites, Suite::name), None);
    }
}
