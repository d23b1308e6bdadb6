//! Chooses the versions, cipher suites and groups of a service, and their order.
//!
//! Handles the order and its reasons, the part that suits one client, and what a build with
//! AWS-LC's FIPS module (the feature `fips`) leaves out. [`crate::server`] makes the library's
//! configurations; this module only looks up their parts by name.

use std::ops::RangeInclusive;

use rustls::SupportedCipherSuite;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};

use crate::context::restoring_suite;
use crate::kept::{KeptName, name_of};
use crate::options::{Cipher, Group, ServerOptions, Suite, Suites, Version};

#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PolicyFault {
    /// The lowest version is above the highest.
    #[error("the lowest version is above the highest; swap them or set only one")]
    VersionsReversed,
    /// No suite is left for any version.
    #[error(
        "no listed suite can be used with these versions and groups; list one of each version, or \
         use \"auto\""
    )]
    NoSuite,
    /// This build may not use a suite or a group that is listed.
    #[error("`{0}` is not approved by FIPS, and this build uses nothing else; take it out")]
    NotApproved(&'static str),
    /// No group is left for any version.
    #[error("no group is listed; list at least x25519, or remove the key")]
    NoGroup,
}

/// A concern about a policy that works nevertheless.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PolicyConcern {
    /// The version is on but no listed suite belongs to it.
    #[error(
        "{0} is on but no listed suite is of it, so it is not spoken; add one or narrow the versions"
    )]
    NoSuiteOf(Version),
    /// The version is on but no listed group can be used in it.
    #[error(
        "{0} is on but no listed group can be used in it, so it is not spoken; add x25519 or narrow \
         the versions"
    )]
    NoGroupOf(Version),
}

/// Order of all suites if an operator lists none, most preferred first.
///
/// The order depends on the kind of CPU alone and is not measured, because all starts and all hosts
/// of that kind must agree: a session is resumed only with its own suite. Between kinds of CPU, the
/// client's session decides.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SuiteOrder(Vec<Suite>);

/// Returns the order for CPUs with AES instructions.
impl Default for SuiteOrder {
    fn default() -> Self {
        Self::for_cpu(true)
    }
}

impl SuiteOrder {
    /// Returns the order for the CPU that this process runs on.
    pub fn of_this_cpu() -> Self {
        Self::for_cpu(has_aes_instructions())
    }

    /// Returns all suites, most preferred first.
    pub fn suites(&self) -> &[Suite] {
        &self.0
    }

    /// Puts AES-128 before AES-256, because CPUs with instructions for SHA-256 have none for
    /// SHA-384. ChaCha20 is several times faster than AES in software (RFC 8439, section 1).
    pub(crate) fn for_cpu(has_aes: bool) -> Self {
        let mut ciphers = Cipher::ALL;
        ciphers.sort_by_key(|cipher| (*cipher == Cipher::ChaCha20Poly1305) == has_aes);
        let suites_of = |cipher| {
            let suites = Suite::ALL.iter().copied();
            suites.filter(move |suite| suite.cipher() == cipher)
        };
        Self(ciphers.into_iter().flat_map(suites_of).collect())
    }
}

#[cfg(target_arch = "x86_64")]
fn has_aes_instructions() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
}

#[cfg(target_arch = "aarch64")]
fn has_aes_instructions() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_aes_instructions() -> bool {
    false
}

#[derive(Clone, Debug)]
pub struct Policy {
    versions: Vec<Version>,
    suites: Vec<Suite>,
    groups: Vec<Group>,
    /// Whether a client, or its session, decides if ChaCha20 comes first.
    follows_chacha: bool,
    /// Whether ChaCha20 comes first if they do not decide.
    leads_with_chacha: bool,
}

impl Policy {
    /// Builds the policy for these options. `order` is used if the operator listed no suites.
    pub fn new(
        options: &ServerOptions,
        order: &SuiteOrder,
    ) -> Result<(Self, Vec<PolicyConcern>), PolicyFault> {
        let range = options.version_min..=options.version_max;
        Self::of(range, &options.suites, &options.groups, order)
    }

    /// Builds the policy from its parts.
    pub(crate) fn of(
        range: RangeInclusive<Version>,
        suites: &Suites,
        groups: &[Group],
        order: &SuiteOrder,
    ) -> Result<(Self, Vec<PolicyConcern>), PolicyFault> {
        let mut versions = vec![Version::Tls13, Version::Tls12];
        versions.retain(|version| range.contains(version));
        if versions.is_empty() {
            return Err(PolicyFault::VersionsReversed);
        }
        let listed: Vec<Suite> = match suites {
            Suites::Auto => order.suites().iter().copied().filter(|one| may_use(*one)).collect(),
            Suites::Listed(listed) => listed.clone(),
        };
        if let Some(suite) = listed.iter().find(|one| !may_use(**one)) {
            return Err(PolicyFault::NotApproved(suite.name()));
        }
        // The default lists all groups, so unapproved ones are dropped without a fault.
        let mut groups = groups.to_vec();
        if groups == Group::ALL {
            groups.retain(|one| may_agree(*one));
        }
        if let Some(group) = groups.iter().find(|one| !may_agree(**one)) {
            return Err(PolicyFault::NotApproved(group.name()));
        }
        let mut policy = Self {
            versions,
            suites: without_repeats(&listed),
            groups: without_repeats(&groups),
            follows_chacha: *suites == Suites::Auto,
            leads_with_chacha: listed.first().copied().is_some_and(is_chacha),
        };
        let concerns = policy.drop_what_cannot_be();
        policy.suites.retain(|suite| policy.versions.contains(&suite.version()));
        policy.check().map(|()| (policy, concerns))
    }

    /// Returns the supported versions, highest first.
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// Returns the supported suites, most preferred first, TLS 1.2's and TLS 1.3's mixed.
    pub fn suites(&self) -> &[Suite] {
        &self.suites
    }

    /// Returns the groups that can be used in this version, most preferred first.
    pub fn groups(&self, version: Version) -> impl Iterator<Item = Group> + Clone {
        self.groups.iter().copied().filter(move |group| is_usable_in(*group, version))
    }

    /// Reports whether ChaCha20 comes first for this client: it lists ChaCha20 before all other
    /// suites of `version` that we have, as devices without AES instructions do, or this host has
    /// no such instructions. An operator's own list is not reordered.
    pub fn prefers_chacha(&self, version: Version, offered: impl Iterator<Item = u16>) -> bool {
        let first = self.known(version, offered).next();
        self.follows_chacha && (self.leads_with_chacha || first.is_some_and(is_chacha))
    }

    /// Reports whether the client supports ChaCha20 and another cipher: its session decides.
    pub(crate) fn leaves_a_choice(
        &self,
        version: Version,
        offered: impl Iterator<Item = u16> + Clone,
    ) -> bool {
        let has = |chacha| self.known(version, offered.clone()).any(|one| is_chacha(one) == chacha);
        self.follows_chacha && has(true) && has(false)
    }

    fn known(
        &self,
        version: Version,
        offered: impl Iterator<Item = u16>,
    ) -> impl Iterator<Item = Suite> {
        let known = offered.filter_map(Suite::from_code);
        known.filter(move |suite| suite.version() == version && self.suites.contains(suite))
    }

    /// Returns the library's parts for connections that use this group.
    pub(crate) fn provider(&self, group: Group, chacha_first: bool) -> CryptoProvider {
        self.provider_of(&[group], chacha_first, |suite| restoring_suite(suite.code()))
    }

    /// Returns the name of those parts and of the versions.
    pub(crate) fn name_of_provider(&self, group: Group, chacha_first: bool) -> KeptName {
        let versions = self.versions.iter().map(|version| version.code());
        let suites = self.suites.iter().map(|suite| suite.code());
        let bytes = |codes: Vec<u16>| codes.into_iter().flat_map(u16::to_be_bytes).collect();
        let [versions, suites]: [Vec<u8>; 2] = [versions.collect(), suites.collect()].map(bytes);
        let order = [self.follows_chacha, chacha_first].map(u8::from);
        name_of([&*versions, &*suites, &order, &group.code().to_be_bytes()])
    }

    /// Returns the library's parts for connections that we open: all groups.
    pub(crate) fn client_provider(&self) -> CryptoProvider {
        self.provider_of(&self.groups, self.leads_with_chacha, library_suite)
    }

    fn provider_of(
        &self,
        groups: &[Group],
        chacha_first: bool,
        library_suite: fn(Suite) -> Option<SupportedCipherSuite>,
    ) -> CryptoProvider {
        let mut suites = self.suites.clone();
        if self.follows_chacha {
            // A stable sort keeps the order otherwise.
            suites.sort_by_key(|suite| is_chacha(*suite) != chacha_first);
        }
        CryptoProvider {
            cipher_suites: suites.into_iter().filter_map(library_suite).collect(),
            kx_groups: groups.iter().copied().filter_map(library_group).collect(),
            ..aws_lc_rs::default_provider()
        }
    }

    /// Turns off the versions that have no suite or no group, and returns the concerns.
    fn drop_what_cannot_be(&mut self) -> Vec<PolicyConcern> {
        let Self { suites, groups, .. } = self;
        let mut concerns = Vec::new();
        self.versions.retain(|version| {
            let has_suite = suites.iter().any(|suite| suite.version() == *version);
            let has_group = groups.iter().any(|group| is_usable_in(*group, *version));
            if !has_suite {
                concerns.push(PolicyConcern::NoSuiteOf(*version));
            } else if !has_group {
                concerns.push(PolicyConcern::NoGroupOf(*version));
            }
            has_suite && has_group
        });
        concerns
    }

    fn check(&self) -> Result<(), PolicyFault> {
        if self.groups.is_empty() {
            Err(PolicyFault::NoGroup)
        } else if self.suites.is_empty() {
            Err(PolicyFault::NoSuite)
        } else {
            Ok(())
        }
    }
}

fn without_repeats<T: Copy + PartialEq>(listed: &[T]) -> Vec<T> {
    let mut kept = Vec::with_capacity(listed.len());
    for one in listed {
        if !kept.contains(one) {
            kept.push(*one);
        }
    }
    kept
}

pub(crate) fn is_chacha(suite: Suite) -> bool {
    suite.cipher() == Cipher::ChaCha20Poly1305
}

/// Reports whether a version has a group: the hybrid group exists in TLS 1.3 only.
fn is_usable_in(group: Group, version: Version) -> bool {
    version == Version::Tls13 || !group.is_hybrid()
}

fn library_suite(suite: Suite) -> Option<SupportedCipherSuite> {
    let is_it = |one: &&SupportedCipherSuite| u16::from(one.suite()) == suite.code();
    aws_lc_rs::ALL_CIPHER_SUITES.iter().find(is_it).copied()
}

fn library_group(group: Group) -> Option<&'static dyn SupportedKxGroup> {
    let is_it = |one: &&&'static dyn SupportedKxGroup| u16::from(one.name()) == group.code();
    aws_lc_rs::ALL_KX_GROUPS.iter().find(is_it).copied()
}

fn may_use(suite: Suite) -> bool {
    library_suite(suite).is_some_and(allows_suite)
}

fn may_agree(group: Group) -> bool {
    library_group(group).is_some_and(allows_group)
}

/// Reports whether this is a FIPS build whose module has passed its own tests.
pub fn is_fips() -> bool {
    cfg!(feature = "fips") && aws_lc_rs::default_provider().fips()
}

/// Reports whether this build may use a suite.
pub(crate) fn allows_suite(suite: SupportedCipherSuite) -> bool {
    !cfg!(feature = "fips") || suite.fips()
}

/// Reports whether this build may use a group.
pub(crate) fn allows_group(group: &dyn SupportedKxGroup) -> bool {
    !cfg!(feature = "fips") || group.fips()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(suites: Suites, groups: &[Group]) -> ServerOptions {
        ServerOptions { suites, groups: groups.to_vec(), ..ServerOptions::new(Vec::new()) }
    }

    fn policy(options: &ServerOptions) -> Result<(Policy, Vec<PolicyConcern>), PolicyFault> {
        Policy::new(options, &SuiteOrder::default())
    }

    #[test]
    fn the_order_is_that_of_the_kind_of_cpu_at_every_start() {
        let tls13 = |order: SuiteOrder| -> Vec<u16> {
            let codes = order.suites().iter().map(|suite| suite.code());
            codes.filter(|code| code >> 8 == 0x13).collect()
        };
        assert_eq!(tls13(SuiteOrder::for_cpu(true)), [0x1301, 0x1302, 0x1303]);
        assert_eq!(tls13(SuiteOrder::for_cpu(false)), [0x1303, 0x1301, 0x1302]);
        let first = SuiteOrder::of_this_cpu();
        assert!((0..100).all(|_| SuiteOrder::of_this_cpu() == first));
        assert_eq!(first.suites().len(), Suite::ALL.len());
    }

    #[test]
    fn every_name_is_known_to_the_library() {
        for suite in Suite::ALL {
            assert!(library_suite(*suite).is_some(), "{}", suite.name());
        }
        for group in Group::ALL {
            assert!(library_group(*group).is_some(), "{}", group.name());
        }
    }

    #[test]
    fn a_listed_order_is_kept_and_repeats_are_not() {
        let listed = vec![
            Suite::Tls13ChaCha20Poly1305Sha256,
            Suite::EcdheRsaAes128GcmSha256,
            Suite::Tls13ChaCha20Poly1305Sha256,
            Suite::Tls13Aes128GcmSha256,
        ];
        let options = options(Suites::Listed(listed.clone()), Group::ALL);
        let (policy, concerns) = policy(&options).expect("a policy");
        assert_eq!(policy.suites(), [listed[0], listed[1], listed[3]]);
        assert_eq!(concerns, []);
    }

    #[test]
    fn only_suites_of_spoken_versions_stay() {
        let mut options = options(Suites::Auto, Group::ALL);
        options.version_max = Version::Tls12;
        let (policy, _) = policy(&options).expect("a policy");
        assert_eq!(policy.versions(), [Version::Tls12]);
        assert!(policy.suites().iter().all(|suite| suite.version() == Version::Tls12));
        assert_eq!(policy.suites().len(), 6);
    }

    #[test]
    fn a_version_without_suite_or_group_is_reported_and_off() {
        let suites = Suites::Listed(vec![Suite::Tls13Aes128GcmSha256]);
        let (only_13, concerns) = policy(&options(suites, Group::ALL)).expect("a policy");
        assert_eq!(only_13.versions(), [Version::Tls13]);
        assert_eq!(concerns, [PolicyConcern::NoSuiteOf(Version::Tls12)]);

        let hybrid = options(Suites::Auto, &[Group::X25519MlKem768]);
        let (only_13, concerns) = policy(&hybrid).expect("a policy");
        assert_eq!(only_13.versions(), [Version::Tls13]);
        assert_eq!(concerns, [PolicyConcern::NoGroupOf(Version::Tls12)]);
    }

    #[test]
    fn a_policy_that_leaves_nothing_is_refused() {
        let fault = |options: &ServerOptions| policy(options).expect_err("no policy");
        assert_eq!(fault(&options(Suites::Auto, &[])), PolicyFault::NoGroup);
        assert_eq!(fault(&options(Suites::Listed(Vec::new()), Group::ALL)), PolicyFault::NoSuite);
        let mut reversed = options(Suites::Auto, Group::ALL);
        (reversed.version_min, reversed.version_max) = (Version::Tls13, Version::Tls12);
        assert_eq!(fault(&reversed), PolicyFault::VersionsReversed);
        let mut of_another =
            options(Suites::Listed(vec![Suite::EcdheRsaAes128GcmSha256]), Group::ALL);
        of_another.version_min = Version::Tls13;
        assert_eq!(fault(&of_another), PolicyFault::NoSuite);
    }

    #[test]
    fn chacha_is_for_clients_that_put_it_first() {
        let (auto, _) = policy(&options(Suites::Auto, Group::ALL)).expect("a policy");
        let prefers =
            |offered: &[u16]| auto.prefers_chacha(Version::Tls13, offered.iter().copied());
        // GREASE (RFC 8701) and suites of the other version are ignored before it.
        assert!(prefers(&[0x3a3a, 0xc02b, 0x1303, 0x1301]));
        assert!(!prefers(&[0x1301, 0x1303]));
        assert!(!prefers(&[]));
        let first =
            |chacha_first| auto.provider(Group::X25519, chacha_first).cipher_suites[0].suite();
        assert_eq!(u16::from(first(true)), 0x1303);
        assert_ne!(u16::from(first(false)), 0x1303);
    }

    #[test]
    fn an_operators_list_is_not_reordered_for_chacha() {
        let listed = Suites::Listed(Suite::ALL.to_vec());
        let (listed, _) = policy(&options(listed, Group::ALL)).expect("a policy");
        assert!(!listed.prefers_chacha(Version::Tls13, [0x1303, 0x1301].into_iter()));
    }
}
