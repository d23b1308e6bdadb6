//! Chooses a client's certificate: by server name, by current validity, then by the keys that the
//! client can verify.
//!
//! Pure: holds the index and the rules, neither certificates nor a hello's parsing. An index costs
//! about a hundred bytes a name, so that ten thousand names stay cheap.

use std::collections::HashMap;
use std::num::NonZeroU32;

use crate::certificate::KeyKind;
use crate::options::{Suite, UnknownName, Version};
use crate::validity::Validity;

/// Maximum length of a host name (RFC 1035 section 2.3.4, as text and without the last dot).
const NAME_BYTES_MAX: usize = 253;

/// Facts about one certificate that the index needs.
#[derive(Clone, Copy, Debug)]
pub struct NameEntry<'a> {
    /// Names of the certificate: lower case, no trailing dot.
    pub names: &'a [Box<str>],
    /// Kind of the certificate's key.
    pub kind: KeyKind,
    pub validity: Validity,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoCertificate {
    /// The client sent no name and clients without one are refused.
    NameMissing,
    /// No certificate has the name and unknown names are refused.
    NameUnknown,
    /// No suitable certificate is of a kind that the client can verify.
    KindUnusable,
}

/// Index of server names to numbers of certificates, in the order in which they were given.
#[derive(Debug)]
pub struct Index {
    exact: HashMap<Box<str>, Slots>,
    /// Certificates by the name behind `*.`.
    wildcard: HashMap<Box<str>, Slots>,
    default: Slots,
    /// First certificate of each kind that the default lacks, whatever its names.
    any: Slots,
    unknown: UnknownName,
    facts: Vec<IndexedFacts>,
}

#[derive(Clone, Copy, Debug)]
struct IndexedFacts {
    kind: KeyKind,
    validity: Validity,
}

/// Certificates of one name.
#[derive(Clone, Debug, Default)]
struct Slots {
    first: [Option<NonZeroU32>; KeyKind::ALL.len()],
    /// Further certificates that are valid when none before them of their kind is: a renewed
    /// certificate may be listed beside the old one.
    others: Box<[u32]>,
}

impl Index {
    pub fn build<'a>(entries: impl Iterator<Item = NameEntry<'a>>, unknown: UnknownName) -> Self {
        let mut index = Self {
            exact: HashMap::new(),
            wildcard: HashMap::new(),
            default: Slots::default(),
            any: Slots::default(),
            unknown,
            facts: Vec::new(),
        };
        let mut entries = entries.peekable();
        let first = entries.peek().copied();
        for (number, entry) in entries.enumerate() {
            index.add(number, entry);
        }
        if let Some(first) = first {
            index.default = index.siblings(first);
        }
        for kind in KeyKind::ALL {
            if index.default.at(kind).is_some() {
                index.any.first[kind as usize] = None;
            }
        }
        index
    }

    /// Returns the number of the certificate for a client that requests `name` and can use
    /// `usable`, at `now` (Unix seconds): that of the exact name, else of a wildcard, else (if
    /// unknown names are not refused) the default. A name whose certificates the client cannot use
    /// counts as unknown, so that the next best is served rather than none.
    ///
    /// Among the certificates of one name, validity decides first, then the kind, then the order.
    /// If the name has no valid certificate, neither exactly nor by a wildcard, the one that ends
    /// last is served, because this host's clock may be wrong and the client's right.
    pub fn choose(
        &self,
        name: Option<&str>,
        usable: VerifiableKeyKinds,
        now: i64,
    ) -> Result<usize, NoCertificate> {
        let mut buffer = [0; NAME_BYTES_MAX];
        let name = name.map(|name| lower_case(name, &mut buffer).unwrap_or_default());
        let found = name.map_or([None, None], |name| self.find(name));
        let found = || found.iter().flatten();
        let best = found()
            .find_map(|slots| self.valid(slots, usable, now))
            .or_else(|| found().find_map(|slots| self.last(slots, usable)));
        match (best, self.unknown, name) {
            (Some(number), ..) => Ok(number),
            (None, UnknownName::Default, _) | (None, UnknownName::RefuseNamed, None) => {
                self.default_for(usable, now)
            }
            _ if found().next().is_some() => Err(NoCertificate::KindUnusable),
            (None, _, Some(_)) => Err(NoCertificate::NameUnknown),
            (None, _, None) => Err(NoCertificate::NameMissing),
        }
    }

    /// Returns the numbers of certificates that no client gets, at `now` (Unix seconds) or later.
    pub fn unused(&self, now: i64) -> Vec<usize> {
        let mut used = vec![false; self.facts.len()];
        for (_, slots) in self.all_slots() {
            for number in slots.numbers() {
                used[number] |= !self.is_hidden(slots, number, now);
            }
        }
        for number in self.any.numbers() {
            used[number] |= self.unknown != UnknownName::Refuse;
        }
        (0..used.len()).filter(|number| !used[*number]).collect()
    }

    /// Returns for each certificate whether a client can get it at `now` (Unix seconds).
    pub fn served(&self, now: i64) -> Vec<bool> {
        let mut served = vec![false; self.facts.len()];
        for (usable, slots) in self.all_slots() {
            if let Some(number) = self.best(slots, usable, now) {
                served[number] = true;
            }
        }
        for kind in KeyKind::ALL {
            let any = self.any_for(VerifiableKeyKinds::NONE.with(kind), now);
            if let Some(number) = any.filter(|_| self.unknown != UnknownName::Refuse) {
                served[number] = true;
            }
        }
        served
    }

    /// Returns the certificates of all names and of the default, once for each kind of key.
    fn all_slots(&self) -> impl Iterator<Item = (VerifiableKeyKinds, &Slots)> {
        let default = (self.unknown == UnknownName::Default).then_some(&self.default);
        let named = self.exact.values().chain(self.wildcard.values());
        named.chain(default).flat_map(|slots| {
            let kinds = KeyKind::ALL.into_iter();
            kinds.map(move |kind| (VerifiableKeyKinds::NONE.with(kind), slots))
        })
    }

    fn default_for(&self, usable: VerifiableKeyKinds, now: i64) -> Result<usize, NoCertificate> {
        let default = self.best(&self.default, usable, now);
        default.or_else(|| self.any_for(usable, now)).ok_or(NoCertificate::KindUnusable)
    }

    /// Returns any certificate of a kind that the default lacks, preferably a valid one.
    fn any_for(&self, usable: VerifiableKeyKinds, now: i64) -> Option<usize> {
        let mut kinds = KeyKind::ALL.into_iter();
        let kind = kinds.find(|kind| usable.contains(*kind) && self.any.at(*kind).is_some())?;
        let is_valid = |one: &IndexedFacts| one.kind == kind && one.validity.contains(now);
        let valid = self.facts.iter().position(is_valid);
        valid.or_else(|| self.any.at(kind))
    }

    fn best(&self, slots: &Slots, usable: VerifiableKeyKinds, now: i64) -> Option<usize> {
        let valid = self.valid(slots, usable, now);
        valid.or_else(|| self.last(slots, usable))
    }

    /// Returns the first valid certificate of the most preferred kind that has one.
    fn valid(&self, slots: &Slots, usable: VerifiableKeyKinds, now: i64) -> Option<usize> {
        let mut candidates = self.candidates(slots, usable);
        candidates.find(|number| self.facts[*number].validity.contains(now))
    }

    /// Returns the certificate that ends last.
    fn last(&self, slots: &Slots, usable: VerifiableKeyKinds) -> Option<usize> {
        let end = |number: &usize| std::cmp::Reverse(self.facts[*number].validity.until);
        self.candidates(slots, usable).min_by_key(end)
    }

    /// Returns the certificates of usable kinds, most preferred kind first, then in their order.
    fn candidates<'s>(
        &'s self,
        slots: &'s Slots,
        usable: VerifiableKeyKinds,
    ) -> impl Iterator<Item = usize> + 's {
        let kinds = KeyKind::ALL.into_iter().filter(move |kind| usable.contains(*kind));
        kinds.flat_map(move |kind| {
            let is_of_kind = move |number: &usize| self.facts[*number].kind == kind;
            let others = slots.others.iter().map(|number| *number as usize);
            slots.at(kind).into_iter().chain(others.filter(is_of_kind))
        })
    }

    /// Reports whether others of the same kind replace this certificate from `now` on.
    fn is_hidden(&self, slots: &Slots, number: usize, now: i64) -> bool {
        let IndexedFacts { kind, validity } = self.facts[number];
        let mut rivals = self.candidates(slots, VerifiableKeyKinds::NONE.with(kind));
        if validity.until < now {
            return rivals.any(|other| self.facts[other].validity.until > validity.until);
        }
        let left = Validity { from: validity.from.max(now), ..validity };
        let mut before = rivals.take_while(|other| *other != number);
        before.any(|other| self.facts[other].validity.covers(left))
    }

    fn find(&self, name: &str) -> [Option<&Slots>; 2] {
        let parent = name.split_once('.').map(|(_, parent)| parent);
        [self.exact.get(name), parent.and_then(|parent| self.wildcard.get(parent))]
    }

    fn add(&mut self, number: usize, entry: NameEntry<'_>) {
        let facts = IndexedFacts { kind: entry.kind, validity: entry.validity };
        self.facts.push(facts);
        if self.any.at(entry.kind).is_none() {
            self.any.fill(&self.facts, number);
        }
        for name in entry.names {
            let slots = match wildcard_parent(name) {
                Some(parent) => self.wildcard.entry(parent.into()).or_default(),
                None => self.exact.entry(name.clone()).or_default(),
            };
            slots.fill(&self.facts, number);
        }
    }

    /// Returns the certificates under the first name of this one.
    fn siblings(&self, entry: NameEntry<'_>) -> Slots {
        let found = entry.names.first().and_then(|name| match wildcard_parent(name) {
            Some(parent) => self.wildcard.get(parent),
            None => self.exact.get(name),
        });
        found.cloned().unwrap_or_else(|| {
            let mut only_itself = Slots::default();
            only_itself.fill(&self.facts, 0);
            only_itself
        })
    }
}

impl Slots {
    /// Adds the number, unless one of its kind is present that is valid whenever this one is.
    fn fill(&mut self, facts: &[IndexedFacts], number: usize) {
        let IndexedFacts { kind, validity } = facts[number];
        let one_based = u32::try_from(number + 1).ok().and_then(NonZeroU32::new);
        let Some(first) = self.at(kind) else {
            self.first[kind as usize] = one_based;
            return;
        };
        let others = self.others.iter().map(|other| *other as usize);
        let mut before = std::iter::once(first).chain(others);
        let is_covered =
            before.any(|other| facts[other].kind == kind && facts[other].validity.covers(validity));
        if let (false, Some(one_based)) = (is_covered, one_based) {
            let mut others = std::mem::take(&mut self.others).into_vec();
            others.push(one_based.get() - 1);
            self.others = others.into();
        }
    }

    /// Returns the first certificate of a kind.
    fn at(&self, kind: KeyKind) -> Option<usize> {
        self.first[kind as usize].map(|one_based| one_based.get() as usize - 1)
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        let first = KeyKind::ALL.into_iter().filter_map(|kind| self.at(kind));
        first.chain(self.others.iter().map(|other| *other as usize))
    }
}

/// Kinds of keys whose signatures a client can verify.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VerifiableKeyKinds(u8);

impl VerifiableKeyKinds {
    pub const NONE: Self = Self(0);

    /// Returns the kinds that a client of `version` with these signature schemes, cipher suites and
    /// groups (IANA numbers) can use, on a service with suites `ours`.
    ///
    /// In TLS 1.3 the schemes alone decide (RFC 8446 section 4.2.3). In TLS 1.2 the suite also
    /// names the kind of key, and the client's groups limit an ECDSA key's curve (RFC 8422 section
    /// 5.1); a client that lists no groups does not limit it.
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
            Version::Tls12 => verifiable.and(Self::without_signature(suites, groups, ours)),
        }
    }

    /// Returns the kinds that such a client of TLS 1.2 can use if no signature is made.
    pub fn without_signature(
        suites: impl Iterator<Item = u16>,
        groups: impl Iterator<Item = u16>,
        ours: &[Suite],
    ) -> Self {
        Self::by_suites(suites, ours).and(Self::by_groups(groups))
    }

    #[must_use]
    pub fn with(self, kind: KeyKind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// Reports whether this kind is included.
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
        let shared = suites.filter_map(Suite::from_code).filter(|suite| ours.contains(suite));
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
        let curves = groups.inspect(|_| listed = true).fold(free, |usable, group| match group {
            0x0017 => usable.with(KeyKind::EcdsaP256),
            0x0018 => usable.with(KeyKind::EcdsaP384),
            0x0019 => usable.with(KeyKind::EcdsaP521),
            _ => usable,
        });
        if listed { curves } else { KeyKind::ALL.into_iter().fold(curves, Self::with) }
    }
}

/// Returns the name behind `*.` in the only supported form of wildcard: a whole label, the leftmost
/// (RFC 9525 section 6.3).
fn wildcard_parent(name: &str) -> Option<&str> {
    name.strip_prefix("*.")
}

/// Returns the name in lower case and without its trailing dot; `None` if it is too long.
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

    const ECDSA: VerifiableKeyKinds = VerifiableKeyKinds::NONE.bit(KeyKind::EcdsaP256);
    const RSA: VerifiableKeyKinds = VerifiableKeyKinds::NONE.bit(KeyKind::Rsa);
    const BOTH: VerifiableKeyKinds = ECDSA.bit(KeyKind::Rsa);

    impl VerifiableKeyKinds {
        const fn bit(self, kind: KeyKind) -> Self {
            Self(self.0 | 1 << kind as u8)
        }
    }

    const NOW: i64 = 1000;
    const VALID: Validity = Validity { from: 0, until: 2000 };
    const EXPIRED: Validity = Validity { from: 0, until: 999 };

    fn index(certificates: &[(&[&str], KeyKind, Validity)], unknown: UnknownName) -> Index {
        let names: Vec<Vec<Box<str>>> = certificates
            .iter()
            .map(|(names, ..)| names.iter().map(|name| Box::from(*name)).collect())
            .collect();
        let entries = names.iter().zip(certificates).map(|(names, (_, kind, validity))| {
            NameEntry { names, kind: *kind, validity: *validity }
        });
        Index::build(entries, unknown)
    }

    fn site(unknown: UnknownName) -> Index {
        use KeyKind::{EcdsaP256, Rsa};
        index(
            &[
                (&["default.test"], EcdsaP256, VALID),
                (&["default.test"], Rsa, VALID),
                (&["a.test", "*.a.test"], EcdsaP256, VALID),
                (&["a.test"], Rsa, VALID),
                (&["only-ecdsa.test", "x.a.test"], EcdsaP256, VALID),
                (&["*.a.test"], Rsa, VALID),
            ],
            unknown,
        )
    }

    const UNKNOWN: Result<usize, NoCertificate> = Err(NoCertificate::NameUnknown);
    const UNUSABLE: Result<usize, NoCertificate> = Err(NoCertificate::KindUnusable);

    #[test]
    fn an_exact_name_comes_before_a_wildcard_of_one_whole_label() {
        let site = site(UnknownName::Refuse);
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for (name, usable, expected) in [
            ("a.test", BOTH, Ok(2)),
            ("a.test", RSA, Ok(3)),
            ("x.a.test", BOTH, Ok(4)),
            ("y.a.test", BOTH, Ok(2)),
            ("y.a.test", RSA, Ok(5)),
            // A kind that is unusable falls back to the wildcard.
            ("x.a.test", RSA, Ok(5)),
            ("only-ecdsa.test", RSA, UNUSABLE),
            // Neither case nor a trailing dot matters.
            ("A.Test", BOTH, Ok(2)),
            ("a.test.", BOTH, Ok(2)),
            ("A.TEST.", BOTH, Ok(2)),
            ("z.y.a.test", BOTH, UNKNOWN),
            (".test", BOTH, UNKNOWN),
            ("test", BOTH, UNKNOWN),
            ("", BOTH, UNKNOWN),
            ("*.b.test", BOTH, UNKNOWN),
            ("ya.test", BOTH, UNKNOWN),
            ("other.test", BOTH, UNKNOWN),
            (&long, BOTH, UNKNOWN),
        ] {
            assert_eq!(site.choose(Some(name), usable, NOW), expected, "{name}");
        }
        let missing = Err(NoCertificate::NameMissing);
        assert_eq!(site.choose(None, BOTH, NOW), missing);
    }

    #[test]
    fn a_default_serves_what_has_no_certificate() {
        use KeyKind::{EcdsaP256, Rsa};
        let unknown = UnknownName::Default;
        let site = site(unknown);
        let mixed = index(&[(&["a.test"], EcdsaP256, VALID), (&["b.test"], Rsa, VALID)], unknown);
        let nameless = index(&[(&[], Rsa, VALID)], unknown);
        for (site, name, usable, expected) in [
            (&site, None, BOTH, Ok(0)),
            (&site, None, RSA, Ok(1)),
            (&site, Some("other.test"), BOTH, Ok(0)),
            (&site, Some("other.test"), RSA, Ok(1)),
            (&site, Some("only-ecdsa.test"), RSA, Ok(1)),
            (&site, Some("a.test"), VerifiableKeyKinds::NONE, UNUSABLE),
            // Any kind rather than no certificate.
            (&mixed, None, RSA, Ok(1)),
            (&mixed, Some("a.test"), RSA, Ok(1)),
            (&nameless, None, BOTH, Ok(0)),
        ] {
            assert_eq!(site.choose(name, usable, NOW), expected, "{name:?}");
        }
        assert_eq!(nameless.unused(NOW), [0; 0]);
    }

    #[test]
    fn a_renewed_certificate_takes_over_when_the_old_one_ends() {
        let renewed = Validity { from: 1500, until: 3000 };
        for (old, new) in [(0, 1), (1, 0)] {
            let mut pair = [
                (&["a.test", "*.a.test"][..], KeyKind::Rsa, VALID),
                (&["a.test", "*.a.test"], KeyKind::Rsa, renewed),
            ];
            if old == 1 {
                pair.reverse();
            }
            let site = index(&pair, UnknownName::Default);
            assert_eq!(site.unused(NOW), [0; 0]);
            // While both are valid their order decides.
            let both = if old == 0 { old } else { new };
            for (now, number) in [
                (-1, new),
                (0, old),
                (1499, old),
                (1500, both),
                (2000, both),
                (2001, new),
                (3000, new),
                (3001, new),
            ] {
                for name in [Some("a.test"), Some("x.a.test"), None] {
                    assert_eq!(site.choose(name, BOTH, now), Ok(number), "{now} {name:?}");
                }
                let served = site.served(now);
                assert_eq!((served[number], served[1 - number]), (true, false), "{now}");
            }
        }
    }

    #[test]
    fn a_valid_certificate_comes_before_an_expired_one() {
        use KeyKind::{EcdsaP256, Rsa};
        let site = index(
            &[
                (&["a.test"], EcdsaP256, EXPIRED),
                (&["a.test"], Rsa, VALID),
                (&["x.a.test"], Rsa, EXPIRED),
                (&["*.a.test"], Rsa, VALID),
                (&["b.test"], EcdsaP256, EXPIRED),
                (&["b.test"], EcdsaP256, VALID),
                (&["b.test"], EcdsaP256, VALID),
            ],
            UnknownName::Refuse,
        );
        for (name, usable, now, expected) in [
            ("a.test", BOTH, NOW, 1),
            ("x.a.test", BOTH, NOW, 3),
            // Clients that can verify only this kind have no other choice.
            ("a.test", ECDSA, NOW, 0),
            // All are over: the exact name counts.
            ("x.a.test", BOTH, 5000, 2),
            ("b.test", BOTH, NOW, 5),
        ] {
            assert_eq!(site.choose(Some(name), usable, now), Ok(expected), "{name}");
        }
        assert_eq!(site.unused(NOW), [4, 6]);
    }

    fn usable(
        version: Version,
        schemes: &[u16],
        suites: &[u16],
        groups: &[u16],
        ours: &[Suite],
    ) -> VerifiableKeyKinds {
        let [schemes, suites, groups] =
            [schemes, suites, groups].map(|codes| codes.iter().copied());
        VerifiableKeyKinds::of(version, schemes, suites, groups, ours)
    }

    #[test]
    fn schemes_decide_and_in_tls_1_2_suite_and_curve_too() {
        let (v12, v13) = (Version::Tls12, Version::Tls13);
        let all = &[0x0403, 0x0401][..];
        for (version, schemes, suites, groups, expected) in [
            (v13, &[0x0403, 0x0804][..], &[][..], &[][..], BOTH),
            (v13, &[0x0806], &[], &[], RSA),
            // In TLS 1.3, PKCS #1 v1.5 is for certificates only, and SHA-1 is not allowed at all.
            (v13, &[0x0401, 0x0203], &[], &[], VerifiableKeyKinds::NONE),
            (v12, all, &[0xc02b, 0xc02f], &[], BOTH),
            (v12, all, &[0xc02f], &[0x0017], RSA),
            (v12, all, &[0xc02b], &[0x0017], ECDSA),
            (v12, all, &[0xc02b], &[0x001d], VerifiableKeyKinds::NONE),
            (v12, &[0x0401], &[0xc02b], &[0x0017], VerifiableKeyKinds::NONE),
            (v12, all, &[0x1301], &[0x0017], VerifiableKeyKinds::NONE),
        ] {
            let found = usable(version, schemes, suites, groups, Suite::ALL);
            assert_eq!(found, expected, "{schemes:x?} {suites:x?} {groups:x?}");
        }
        // A suite that we do not support makes no key usable.
        let ours = [Suite::EcdheRsaAes128GcmSha256];
        let found = usable(v12, all, &[0xc02b, 0xc02f], &[0x0017], &ours);
        assert_eq!(found, RSA);
    }
}
