//! Defines the offers of each kind of client, and visits an address with one. Encrypted Client
//! Hello (RFC 9849) is offered with the given configurations, with outdated ones, and with none
//! (GREASE).

use std::cell::{Cell, RefCell};
use std::time::Duration;

use load::ech::EchOption;
use load::observe::{
    ObserveFault, Observed, ObservedConversation, ObservingClient, ObservingClient as Observer,
};
use load::plan::{Group, Handshake, PlannedTls, Signature, Suite, Verification, Versions};
use measure::probe::{EchAnswer, EchFate, EchReport, End, ProbeTrouble};
use wire::ech::{EchConfig, config_list};
use wire::starttls::Dialect;

use crate::ProbeOptions;
use crate::certificate::{CertificateExpectation, facts};
use crate::reach::{ReachedAddress, malformed};

/// A kind of client: its name in documents, and its offer.
pub(crate) struct OfferKind {
    pub(crate) name: &'static str,
    versions: Versions,
    groups: &'static [Group],
    /// Suites whose names contain this are not offered; empty offers all.
    suites_without: &'static str,
    /// First part of the names of the signature schemes to offer.
    signatures: &'static str,
}

/// The groups of browsers, in their order.
const BROWSER: &[Group] =
    &[Group::X25519MlKem768, Group::X25519, Group::Secp256r1, Group::Secp384r1];
const CLASSICAL: &[Group] = &[Group::X25519, Group::Secp256r1, Group::Secp384r1];

const fn offer_kind(
    name: &'static str,
    versions: Versions,
    groups: &'static [Group],
    (suites_without, signatures): (&'static str, &'static str),
) -> OfferKind {
    OfferKind { name, versions, groups, suites_without, signatures }
}

/// All kinds in the order of tables. A TLS 1.3 suite does not determine the kind of key.
pub(crate) const KINDS: [OfferKind; 5] = [
    offer_kind("modern", Versions::Both, BROWSER, ("", "")),
    offer_kind("tls12", Versions::Tls12, CLASSICAL, ("", "")),
    offer_kind("rsa-only", Versions::Both, BROWSER, ("ECDSA", "rsa")),
    offer_kind("ecdsa-only", Versions::Both, BROWSER, ("_RSA_", "ecdsa")),
    offer_kind("post-quantum", Versions::Tls13, &[Group::X25519MlKem768], ("", "")),
];

/// The kind to use if all of these fail; `load` has no such client.
pub(crate) const OLDER: &str = "older";

/// Reports whether any kind of client offers the suite of this name.
pub(crate) fn has_suite(name: &str) -> bool {
    Suite::ALL.iter().any(|suite| suite.name() == name)
}

/// Reports whether any kind of client offers the group of this name.
pub(crate) fn has_group(name: &str) -> bool {
    BROWSER.iter().any(|group| group.name().eq_ignore_ascii_case(name))
}

pub(crate) fn has_signature(name: &str) -> bool {
    Signature::ALL.iter().any(|scheme| scheme.name() == name)
}

/// Reports whether any kind of client can use a certificate with this kind of key.
pub(crate) fn has_key(name: &str) -> bool {
    let known = ["RSA ", "ECDSA P-256", "ECDSA P-384", "ECDSA P-521", "Ed25519"];
    known.iter().any(|kind| name.starts_with(kind))
}

/// Returns the application protocols to offer, given those for HTTP. PostgreSQL servers refuse
/// foreign ones since version 17; in the other dialects no client offers any.
fn alpn(starttls: Option<Dialect>, of_http: &[&[u8]]) -> Vec<Vec<u8>> {
    let offered: &[&[u8]] = match starttls {
        None => of_http,
        Some(Dialect::Postgres) => &[b"postgresql"],
        Some(_) => &[],
    };
    offered.iter().map(|name| name.to_vec()).collect()
}

impl OfferKind {
    pub(crate) fn offer(&self, options: &ProbeOptions) -> PlannedTls {
        let without = self.suites_without;
        PlannedTls {
            versions: self.versions,
            suites: chosen(&Suite::ALL, |suite| {
                let is_left_out = !without.is_empty() && suite.name().contains(without);
                self.versions.have(suite) && !is_left_out
            }),
            groups: self.groups.to_vec(),
            signatures: chosen(&Signature::ALL, |it| it.name().starts_with(self.signatures)),
            alpn: alpn(options.starttls, &[b"h2", b"http/1.1"]),
            ..offer(Handshake::Full, options)
        }
    }
}

fn chosen<T: Copy>(all: &[T], fits: impl Fn(T) -> bool) -> Vec<T> {
    all.iter().copied().filter(|one| fits(*one)).collect()
}

/// Returns the offer of a client for this kind of handshake. The client speaks HTTP/1.1, as it may
/// send a request.
pub(crate) fn offer(kind: Handshake, options: &ProbeOptions) -> PlannedTls {
    let versions = match kind {
        Handshake::SessionId | Handshake::Ticket => Versions::Tls12,
        Handshake::Psk => Versions::Tls13,
        Handshake::Full | Handshake::Any => Versions::Both,
    };
    PlannedTls {
        versions,
        handshakes: vec![kind],
        suites: chosen(&Suite::ALL, |suite| versions.have(suite)),
        groups: CLASSICAL.to_vec(),
        signatures: Signature::ALL.to_vec(),
        alpn: alpn(options.starttls, &[b"http/1.1"]),
        server_name: options.server_name.clone(),
        client_certificate: options.client_certificate.clone(),
        verification: Verification::Off,
        tickets: kind != Handshake::SessionId,
        session_ids: true,
        early_data: false,
        certificate_compression: false,
        ech: None,
        starttls: None,
        ehlo_name: String::new(),
    }
}

pub(crate) struct Visit<'v> {
    pub(crate) reach: &'v ReachedAddress<'v>,
    pub(crate) options: &'v ProbeOptions,
    pub(crate) expected: &'v CertificateExpectation,
    /// Whether to offer suites that hardly any server has.
    pub(crate) is_rare: Cell<bool>,
    /// Groups that an installed OpenSSL offers instead of its own.
    pub(crate) openssl_groups: RefCell<Option<String>>,
    /// Number of times to offer a session.
    pub(crate) attempts: u32,
    /// How long to wait for the server's close; shorter for a server that did not close before.
    pub(crate) linger: Cell<Duration>,
}

/// Multiple of a handshake's time, and minimum, to wait for the server's close if it has not come
/// before: tickets take one round trip.
const LINGER_HANDSHAKES: u32 = 3;
const LINGER_MIN: Duration = Duration::from_millis(50);

impl Visit<'_> {
    /// Makes a connection without a request, and waits for its end.
    pub(crate) fn converse(
        &self,
        reach: &ReachedAddress<'_>,
        client: &ObservingClient,
    ) -> Result<Observed, ProbeTrouble> {
        let conversation =
            ObservedConversation { linger: self.linger.get(), ..ObservedConversation::default() };
        let seen = self.converse_so(reach, client, conversation)?;
        if seen.end == End::Open {
            let enough = (seen.handshake * LINGER_HANDSHAKES).max(LINGER_MIN);
            self.linger.set(enough.min(self.linger.get()));
        }
        Ok(seen)
    }

    /// Makes a connection with this conversation, to its end.
    pub(crate) fn converse_so(
        &self,
        reach: &ReachedAddress<'_>,
        client: &ObservingClient,
        conversation: ObservedConversation<'_>,
    ) -> Result<Observed, ProbeTrouble> {
        let mut wire = reach.open()?;
        let seen = client.converse(&mut wire, conversation);
        seen.map_err(|fault| reach.failed(&fault))
    }
}

impl Visit<'_> {
    /// Tests ECH. `None` if the client for it has nothing in common with the server in any case.
    pub(crate) fn ech(&self) -> Option<EchReport> {
        let grease = self.answer(Some(EchOption::Grease), None);
        if grease.trouble.is_some() && self.answer(None, None).trouble.is_some() {
            return None;
        }
        let given = self.options.ech.as_ref();
        let first = given.and_then(|list| EchConfig::read_list(list)?.into_iter().next());
        Some(EchReport {
            grease,
            given: given.map(|list| self.answer_to_list(list, first.as_ref())),
            outdated: first
                .as_ref()
                .map(|first| self.answer_to_list(&outdated(first), Some(first))),
            public_name: first.map(|first| first.public_name),
        })
    }

    fn answer_to_list(&self, list: &[u8], first: Option<&EchConfig>) -> EchAnswer {
        let public_name = first.map(|first| first.public_name.as_str());
        self.answer(Some(EchOption::Configurations(list.to_vec())), public_name)
    }

    /// Returns the answer to a hello with or without ECH; a server that rejects ECH should have a
    /// certificate for the public name.
    fn answer(&self, ech: Option<EchOption>, public_name: Option<&str>) -> EchAnswer {
        let full = offer(Handshake::Full, self.options);
        let suites = Suite::ALL.into_iter().filter(|suite| Versions::Tls13.have(*suite)).collect();
        let offered = PlannedTls { versions: Versions::Tls13, suites, ech, ..full };
        let conversation =
            ObservedConversation { linger: self.linger.get(), ..ObservedConversation::default() };
        let opened = Observer::new(&offered).map_err(malformed);
        let opened = opened.and_then(|client| Ok((client, self.reach.open()?)));
        let (client, mut stream) = match opened {
            Ok(both) => both,
            Err(trouble) => return EchAnswer::failed(trouble),
        };
        match client.converse(&mut stream, conversation) {
            Ok(seen) => EchAnswer {
                fate: match seen.ech {
                    Some(load::observe::EchOutcome::Accepted) => EchFate::Accepted,
                    _ => EchFate::PassedOver,
                },
                certificate: facts(&seen.chain, &seen.staple, self.expected),
                ..EchAnswer::default()
            },
            Err(ObserveFault::EchRejected { retry_configurations, chain }) => {
                let name = public_name.map(str::to_owned);
                let expected = CertificateExpectation { roots: None, name, ..*self.expected };
                let is_outdated = retry_configurations > 0;
                EchAnswer {
                    fate: if is_outdated { EchFate::Outdated } else { EchFate::Rejected },
                    retry_configurations: retry_configurations as u64,
                    certificate: facts(&chain, &[], &expected),
                    ..EchAnswer::default()
                }
            }
            Err(fault) => EchAnswer::failed(self.reach.failed(&fault)),
        }
    }
}

/// Returns the list of a client that missed a rotation: the same public name, and a key that nobody
/// has. Any 32 bytes are an X25519 key (RFC 7748 section 5).
fn outdated(first: &EchConfig) -> Vec<u8> {
    let key = first.public_key.map(|byte| !byte);
    config_list(&[EchConfig::new(first.id.wrapping_add(128), &first.public_name, key)])
}
