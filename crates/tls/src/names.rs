//! Which certificate a client gets: by server name, then by what the client can verify.
//!
//! Pure: owns the index and the rules, neither certificates nor a hello's parsing. An index costs
//! about a hundred bytes a name, so that ten thousand names stay cheap.

use std::collections::HashMap;
use std::num::NonZeroU32;

use crate::certificate::KeyKind;
use crate::options::{Suite, UnknownName, Version};

/// The most bytes of a host name (RFC 1035 section 2.3.4, as text and without the last dot).
const NAME_BYTES_MAX: usize = 253;

/// What the index must know of one certificate.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its names: lower case, no trailing dot.
    pub names: &'a [Box<str>],
    /// The kind of its key.
    pub kind: KeyKind,
    /// Whether its validity has begun and not ended.
    pub valid: bool,
}

/// Why no certificate was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoCertificate {
    /// The client sent no name and clients without one are refused.
    NameMissing,
    /// No certificate has the name and unknown names are refused.
    NameUnknown,
    /// None that would do is of a kind that the client can verify.
    KindUnusable,
}

/// Server names -> numbers of certificates, in the order in which they were given.
#[derive(Debug)]
pub struct Index {
    exact: HashMap<Box<str>, Slots>,
    /// Keyed by what follows `*.`.
    wildcard: HashMap<Box<str>, Slots>,
    default: Slots,
    /// For each kind the first certificate of all, whatever its names.
    any: Slots,
    unknown: UnknownName,
}

/// One certificate, or none, for each kind of key.
#[derive(Clone, Copy, Debug)]
struct Slots([Option<NonZeroU32>; KeyKind::ALL.len()]);

impl Index {
    /// Builds the index. For one name and kind the first certificate counts, unless it is out of
    /// its validity and a later one is not: so a renewed certificate may lie beside the old one.
    pub fn build<'a>(entries: impl Iterator<Item = Entry<'a>>, unknown: UnknownName) -> Self {
        let mut index = Self {
            exact: HashMap::new(),
            wildcard: HashMap::new(),
            default: Slots::NONE,
            any: Slots::NONE,
            unknown,
        };
        let mut entries = entries.enumerate().peekable();
        let first = entries.peek().copied();
        let mut late = Vec::new();
        for (number, entry) in entries {
            if entry.valid {
                index.add(number, entry);
            } else {
                late.push((number, entry));
            }
        }
        late.into_iter()
            .for_each(|(number, entry)| index.add(number, entry));
        if let Some((_, first)) = first {
            index.default = index.siblings(first);
        }
        index
    }

    /// The number of the certificate for a client that asks for `name` and can use `usable`:
    /// that of the exact name, else of a wildcard, else (if unknown names are not refused) the
    /// default. A name whose certificates the client cannot use counts as not found, so that the
    /// next best is served rather than nothing.
    pub fn choose(&self, name: Option<&str>, usable: Usable) -> Result<usize, NoCertificate> {
        let mut buffer = [0; NAME_BYTES_MAX];
        let name = name.map(|name| lower_case(name, &mut buffer).unwrap_or_default());
        let found = name.map_or([None, None], |name| self.find(name));
        let mut usable_found = found
            .iter()
            .flatten()
            .filter_map(|slots| slots.first(usable));
        match (usable_found.next(), self.unknown) {
            (Some(number), _) => Ok(number),
            (None, UnknownName::Default) => self.default_for(usable),
            (None, UnknownName::Refuse) if found.iter().any(Option::is_some) => {
                Err(NoCertificate::KindUnusable)
            }
            (None, UnknownName::Refuse) if name.is_some() => Err(NoCertificate::NameUnknown),
            (None, UnknownName::Refuse) => Err(NoCertificate::NameMissing),
        }
    }

    /// The numbers below `count` of certificates that no client can get.
    pub fn unused(&self, count: usize) -> Vec<usize> {
        let mut used = vec![false; count];
        let defaults = match self.unknown {
            UnknownName::Default => [self.default, self.any],
            UnknownName::Refuse => [Slots::NONE; 2],
        };
        let named = self.exact.values().chain(self.wildcard.values());
        for number in named.chain(&defaults).flat_map(Slots::numbers) {
            if let Some(used) = used.get_mut(number) {
                *used = true;
            }
        }
        (0..count).filter(|number| !used[*number]).collect()
    }

    fn default_for(&self, usable: Usable) -> Result<usize, NoCertificate> {
        let default = self
            .default
            .first(usable)
            .or_else(|| self.any.first(usable));
        default.ok_or(NoCertificate::KindUnusable)
    }

    fn find(&self, name: &str) -> [Option<&Slots>; 2] {
        let parent = name.split_once('.').map(|(_, parent)| parent);
        [
            self.exact.get(name),
            parent.and_then(|parent| self.wildcard.get(parent)),
        ]
    }

    fn add(&mut self, number: usize, entry: Entry<'_>) {
        self.any.fill(entry.kind, number);
        for name in entry.names {
            let slots = match wildcard_parent(name) {
                Some(parent) => self.wildcard.entry(parent.into()).or_insert(Slots::NONE),
                None => self.exact.entry(name.clone()).or_insert(Slots::NONE),
            };
            slots.fill(entry.kind, number);
        }
    }

    /// The certificates that stand under the first name of this one.
    fn siblings(&self, entry: Entry<'_>) -> Slots {
        let found = entry
            .names
            .first()
            .and_then(|name| match wildcard_parent(name) {
                Some(parent) => self.wildcard.get(parent),
                None => self.exact.get(name),
            });
        found.copied().unwrap_or_else(|| {
            let mut only_itself = Slots::NONE;
            only_itself.fill(entry.kind, 0);
            only_itself
        })
    }
}

impl Slots {
    const NONE: Self = Self([None; KeyKind::ALL.len()]);

    /// Takes the number unless the kind has one already.
    fn fill(&mut self, kind: KeyKind, number: usize) {
        let one_based = u32::try_from(number + 1).ok().and_then(NonZeroU32::new);
        let slot = &mut self.0[kind as usize];
        *slot = slot.or(one_based);
    }

    /// The most preferred that is usable.
    fn first(&self, usable: Usable) -> Option<usize> {
        KeyKind::ALL
            .into_iter()
            .filter(|kind| usable.contains(*kind))
            .find_map(|kind| self.at(kind))
    }

    fn at(&self, kind: KeyKind) -> Option<usize> {
        self.0[kind as usize].map(|one_based| one_based.get() as usize - 1)
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        KeyKind::ALL.into_iter().filter_map(|kind| self.at(kind))
    }
}

/// The kinds of keys whose signatures a client can verify.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Usable(u8);

impl Usable {
    /// No kind.
    pub const NONE: Self = Self(0);

    /// What a client of `version` can use that offers these signature schemes, cipher suites and
    /// groups (IANA numbers), on a service with suites `ours`.
    ///
    /// In TLS 1.3 the schemes decide alone (RFC 8446 section 4.2.3). In TLS 1.2 the suite names
    /// the kind of key too, and the client's groups limit an ECDSA key's curve (RFC 8422
    /// section 5.1); a client that lists no groups does not limit it.
    pub fn of(
        version: Version,
        schemes: impl Iterator<Item = u16>,
        suites: impl Iterator<Item = u16>,
        groups: impl Iterator<Item = u16>,
        ours: &[Suite],
    ) -> Self {
        let verifiable = Self::by_schemes(version, schemes);
        match version {
            Version::Tls13 => verifiable,
            Version::Tls12 => verifiable
                .and(Self::by_suites(suites, ours))
                .and(Self::by_groups(groups)),
        }
    }

    /// With this kind too.
    #[must_use]
    pub fn with(self, kind: KeyKind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// Whether this kind is among them.
    pub fn contains(self, kind: KeyKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn by_schemes(version: Version, schemes: impl Iterator<Item = u16>) -> Self {
        schemes.fold(Self::NONE, |usable, scheme| match (scheme, version) {
            (0x0403, _) => usable.with(KeyKind::EcdsaP256),
            (0x0503, _) => usable.with(KeyKind::EcdsaP384),
            (0x0603, _) => usable.with(KeyKind::EcdsaP521),
            (0x0807, _) => usable.with(KeyKind::Ed25519),
            (0x0804..=0x0806, _) => usable.with(KeyKind::Rsa),
            // RSASSA-PKCS1-v1_5 is no handshake signature in TLS 1.3.
            (0x0401 | 0x0501 | 0x0601, Version::Tls12) => usable.with(KeyKind::Rsa),
            _ => usable,
        })
    }

    fn by_suites(suites: impl Iterator<Item = u16>, ours: &[Suite]) -> Self {
        let shared = suites
            .filter_map(Suite::from_code)
            .filter(|suite| ours.contains(suite));
        shared.fold(Self::NONE, |usable, suite| match suite {
            Suite::EcdheRsaAes128GcmSha256
            | Suite::EcdheRsaAes256GcmSha384
            | Suite::EcdheRsaChaCha20Poly1305Sha256 => usable.with(KeyKind::Rsa),
            Suite::EcdheEcdsaAes128GcmSha256
            | Suite::EcdheEcdsaAes256GcmSha384
            | Suite::EcdheEcdsaChaCha20Poly1305Sha256 => usable
                .with(KeyKind::EcdsaP256)
                .with(KeyKind::EcdsaP384)
                .with(KeyKind::EcdsaP521)
                .with(KeyKind::Ed25519),
            Suite::Tls13Aes128GcmSha256
            | Suite::Tls13Aes256GcmSha384
            | Suite::Tls13ChaCha20Poly1305Sha256 => usable,
        })
    }

    fn by_groups(groups: impl Iterator<Item = u16>) -> Self {
        let free = Self::NONE.with(KeyKind::Rsa).with(KeyKind::Ed25519);
        let mut listed = false;
        let curves = groups
            .inspect(|_| listed = true)
            .fold(free, |usable, group| match group {
                0x0017 => usable.with(KeyKind::EcdsaP256),
                0x0018 => usable.with(KeyKind::EcdsaP384),
                0x0019 => usable.with(KeyKind::EcdsaP521),
                _ => usable,
            });
        if listed {
            curves
        } else {
            KeyKind::ALL.into_iter().fold(curves, Self::with)
        }
    }
}

/// What follows `*.` in a wildcard of the only form that is honoured: a whole label, the leftmost
/// (RFC 9525 section 6.3).
fn wildcard_parent(name: &str) -> Option<&str> {
    name.strip_prefix("*.")
}

/// The name in lower case and without its trailing dot; `None` if it is too long to be one.
fn lower_case<'a>(name: &str, buffer: &'a mut [u8; NAME_BYTES_MAX]) -> Option<&'a str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let lower = buffer.get_mut(..name.len())?;
    lower.copy_from_slice(name.as_bytes());
    lower.make_ascii_lowercase();
    std::str::from_utf8(lower).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECDSA: Usable = Usable::NONE.bit(KeyKind::EcdsaP256);
    const RSA: Usable = Usable::NONE.bit(KeyKind::Rsa);
    const BOTH: Usable = ECDSA.bit(KeyKind::Rsa);

    impl Usable {
        const fn bit(self, kind: KeyKind) -> Self {
            Self(self.0 | 1 << kind as u8)
        }
    }

    fn index(certificates: &[(&[&str], KeyKind, bool)], unknown: UnknownName) -> Index {
        let names: Vec<Vec<Box<str>>> = certificates
            .iter()
            .map(|(names, ..)| names.iter().map(|name| Box::from(*name)).collect())
            .collect();
        let entries = names
            .iter()
            .zip(certificates)
            .map(|(names, (_, kind, valid))| Entry {
                names,
                kind: *kind,
                valid: *valid,
            });
        Index::build(entries, unknown)
    }

    fn site(unknown: UnknownName) -> Index {
        use KeyKind::{EcdsaP256, Rsa};
        index(
            &[
                (&["default.test"], EcdsaP256, true),
                (&["default.test"], Rsa, true),
                (&["a.test", "*.a.test"], EcdsaP256, true),
                (&["a.test"], Rsa, true),
                (&["only-ecdsa.test", "x.a.test"], EcdsaP256, true),
                (&["*.a.test"], Rsa, true),
            ],
            unknown,
        )
    }

    #[test]
    fn an_exact_name_comes_before_a_wildcard() {
        let site = site(UnknownName::Refuse);
        assert_eq!(site.choose(Some("a.test"), BOTH), Ok(2));
        assert_eq!(site.choose(Some("a.test"), RSA), Ok(3));
        assert_eq!(site.choose(Some("x.a.test"), BOTH), Ok(4));
        assert_eq!(site.choose(Some("y.a.test"), BOTH), Ok(2));
        assert_eq!(site.choose(Some("y.a.test"), RSA), Ok(5));
    }

    #[test]
    fn a_wildcard_stands_for_one_whole_label() {
        let site = site(UnknownName::Refuse);
        for name in ["z.y.a.test", ".test", "test", "", "*.b.test", "ya.test"] {
            assert_eq!(
                site.choose(Some(name), BOTH),
                Err(NoCertificate::NameUnknown),
                "{name}"
            );
        }
    }

    #[test]
    fn case_and_a_trailing_dot_do_not_matter() {
        let site = site(UnknownName::Refuse);
        for name in ["A.Test", "a.test.", "A.TEST."] {
            assert_eq!(site.choose(Some(name), BOTH), Ok(2), "{name}");
        }
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(
            site.choose(Some(&long), BOTH),
            Err(NoCertificate::NameUnknown)
        );
    }

    #[test]
    fn unknown_and_missing_names_get_the_default_or_are_refused() {
        let lenient = site(UnknownName::Default);
        for name in [None, Some("other.test")] {
            assert_eq!(lenient.choose(name, BOTH), Ok(0));
            assert_eq!(lenient.choose(name, RSA), Ok(1));
        }
        let strict = site(UnknownName::Refuse);
        assert_eq!(strict.choose(None, BOTH), Err(NoCertificate::NameMissing));
        assert_eq!(
            strict.choose(Some("other.test"), BOTH),
            Err(NoCertificate::NameUnknown)
        );
    }

    #[test]
    fn an_unusable_kind_falls_back_to_wildcard_then_default() {
        assert_eq!(
            site(UnknownName::Refuse).choose(Some("x.a.test"), RSA),
            Ok(5)
        );
        assert_eq!(
            site(UnknownName::Default).choose(Some("only-ecdsa.test"), RSA),
            Ok(1)
        );
        assert_eq!(
            site(UnknownName::Refuse).choose(Some("only-ecdsa.test"), RSA),
            Err(NoCertificate::KindUnusable)
        );
        assert_eq!(
            site(UnknownName::Default).choose(Some("a.test"), Usable::NONE),
            Err(NoCertificate::KindUnusable)
        );
    }

    #[test]
    fn the_default_is_of_any_kind_rather_than_none() {
        let site = index(
            &[
                (&["a.test"], KeyKind::EcdsaP256, true),
                (&["b.test"], KeyKind::Rsa, true),
            ],
            UnknownName::Default,
        );
        assert_eq!(site.choose(None, RSA), Ok(1));
        assert_eq!(site.choose(Some("a.test"), RSA), Ok(1));
    }

    #[test]
    fn a_nameless_default_is_found() {
        let site = index(&[(&[], KeyKind::Rsa, true)], UnknownName::Default);
        assert_eq!(site.choose(None, BOTH), Ok(0));
        assert_eq!(site.unused(1), [0; 0]);
    }

    #[test]
    fn a_valid_certificate_comes_before_an_expired_one() {
        let site = index(
            &[
                (&["a.test"], KeyKind::EcdsaP256, false),
                (&["a.test"], KeyKind::EcdsaP256, true),
            ],
            UnknownName::Default,
        );
        assert_eq!(site.choose(Some("a.test"), BOTH), Ok(1));
        assert_eq!(site.choose(None, BOTH), Ok(1));
        assert_eq!(site.unused(2), [0]);
    }

    #[test]
    fn the_first_of_two_alike_counts() {
        let site = index(
            &[
                (&["a.test"], KeyKind::Rsa, true),
                (&["a.test"], KeyKind::Rsa, true),
            ],
            UnknownName::Refuse,
        );
        assert_eq!(site.choose(Some("a.test"), BOTH), Ok(0));
        assert_eq!(site.unused(2), [1]);
    }

    fn codes(codes: &[u16]) -> impl Iterator<Item = u16> {
        codes.iter().copied()
    }

    fn usable(version: Version, schemes: &[u16], suites: &[u16], groups: &[u16]) -> Usable {
        Usable::of(
            version,
            codes(schemes),
            codes(suites),
            codes(groups),
            Suite::ALL,
        )
    }

    #[test]
    fn in_tls_1_3_the_schemes_decide() {
        assert_eq!(usable(Version::Tls13, &[0x0403, 0x0804], &[], &[]), BOTH);
        assert_eq!(usable(Version::Tls13, &[0x0806], &[], &[]), RSA);
        // PKCS #1 v1.5 is for certificates there, SHA-1 for nothing.
        assert_eq!(
            usable(Version::Tls13, &[0x0401, 0x0203], &[], &[]),
            Usable::NONE
        );
    }

    #[test]
    fn in_tls_1_2_the_suite_and_the_curve_decide_too() {
        let all = [0x0403, 0x0401];
        assert_eq!(usable(Version::Tls12, &all, &[0xc02b, 0xc02f], &[]), BOTH);
        assert_eq!(usable(Version::Tls12, &all, &[0xc02f], &[0x0017]), RSA);
        assert_eq!(usable(Version::Tls12, &all, &[0xc02b], &[0x0017]), ECDSA);
        assert_eq!(
            usable(Version::Tls12, &all, &[0xc02b], &[0x001d]),
            Usable::NONE
        );
        assert_eq!(
            usable(Version::Tls12, &[0x0401], &[0xc02b], &[0x0017]),
            Usable::NONE
        );
        assert_eq!(
            usable(Version::Tls12, &all, &[0x1301], &[0x0017]),
            Usable::NONE
        );
    }

    #[test]
    fn a_suite_that_we_do_not_speak_makes_no_key_usable() {
        let ours = [Suite::EcdheRsaAes128GcmSha256];
        let usable = Usable::of(
            Version::Tls12,
            codes(&[0x0403, 0x0401]),
            codes(&[0xc02b, 0xc02f]),
            codes(&[0x0017]),
            &ours,
        );
        assert_eq!(usable, RSA);
    }
}
