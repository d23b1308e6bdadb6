//! Builds the TLS of one service's front from options, as a whole or not at all.
//!
//! Chooses the configuration of the library that a client gets. The library follows the client's
//! order of groups and ignores which key shares are present, keeps one order of suites for all
//! clients, and offers each both kinds of TLS 1.2 resumption. So there is one configuration for
//! each combination that matters (a [`Variant`]), and the parsed ClientHello selects one of them
//! before the library sees a byte.

mod fault;
mod site;
mod template;

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::compress::CompressionCache;
use wire::client_hello::ClientHello;

pub use fault::{BuildError, BuildFault, Refusal, Warning, WarningSubject};

use crate::certificate::{Certificate, CertificateError, read_chain};
use crate::challenge::TlsChallenges;
use crate::compression::COMPRESSORS;
use crate::context::SecretListener;
use crate::identity::{Fingerprint, fingerprint_of};
use crate::names::{NoCertificate, VerifiableKeyKinds};
use crate::options::{Group, ResumptionGroup, ServerOptions, Suite, Tls13Sessions, Version};
use crate::policy::{Policy, SuiteOrder, is_chacha};
use crate::record::HEADER_BYTES;
use crate::resumption::{
    FetchAnswer, OfferedSession, Resumption, ResumptionPolicy, ServiceSessions, SessionKey,
    StoredTickets,
};
use crate::validity::{Clock, ExpirySummary, Moment, seconds};
use crate::verify::{self, Verifier};
use site::{Resolver, Site};
use template::{Variant, template};

/// Maximum number of tickets for a client that requests a number (RFC 9149).
const TICKETS_MAX: usize = 4;

/// Maximum early data of a client, in bytes: it is held until a server is connected.
pub const EARLY_DATA_BYTES_MAX: u32 = 256 << 10;

/// Minimum that can be configured: one full record on the wire. The library compares the length of
/// a record with this, and could not skip a longer one.
pub const EARLY_DATA_BYTES_MIN: u32 = (16 << 10) + 256;

/// Signalling suite: this hello is a second attempt, with an older version (RFC 7507).
const FALLBACK_SCSV: u16 = 0x5600;

/// Length of session ids: of the library's, and of ours in TLS 1.3.
const SESSION_ID_BYTES: usize = 32;

/// The TLS of one service's front.
#[derive(Debug)]
pub struct Server {
    site: Arc<Site>,
    verifier: Verifier,
    clock: Clock,
    policy: Policy,
    /// `None` = no session resumes.
    sessions: Option<Arc<ServiceSessions>>,
    tls13_sessions: Tls13Sessions,
    resumption_group: ResumptionGroup,
    record_bytes_max: Option<usize>,
    resumption: Arc<Resumption>,
    variants: Vec<(Variant, Arc<ServerConfig>)>,
    /// Templates of the variants, held so that other services can share them.
    _templates: Vec<Arc<ServerConfig>>,
    challenges: TlsChallenges,
}

/// Ends of everything in a service that expires.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Expiries {
    pub certificates: ExpirySummary,
    /// OCSP responses that the service staples, by nextUpdate.
    pub staples: ExpirySummary,
    /// Certificates in `ca`, by notAfter.
    pub authorities: ExpirySummary,
    /// Revocation lists for the peers' certificates, by nextUpdate.
    pub lists: ExpirySummary,
    /// Faults of certificates that are skipped (`bad-certificate = "skip"`).
    pub skipped: Vec<String>,
}

impl Expiries {
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            certificates: self.certificates.and(other.certificates),
            staples: self.staples.and(other.staples),
            authorities: self.authorities.and(other.authorities),
            lists: self.lists.and(other.lists),
            skipped: [self.skipped, other.skipped].concat(),
        }
    }
}

/// Parts shared by the configurations of all variants.
struct ServerParts<'a> {
    options: &'a ServerOptions,
    site: &'a Arc<Site>,
    clock: Clock,
    /// `None` = no session resumes.
    sessions: Option<Arc<ServiceSessions>>,
    /// Number of tickets after a TLS 1.3 handshake.
    tickets_count: usize,
}

impl Server {
    /// Builds the server from `options`, or fails with the fault. Takes about 60 µs for each ECDSA
    /// and 250 µs for each RSA certificate, because the library proves that an RSA key is one.
    pub fn build(
        options: &ServerOptions,
        service: &str,
        resumption: &Arc<Resumption>,
        order: &SuiteOrder,
    ) -> Result<(Self, Vec<Warning>), BuildError> {
        Self::build_by(Clock::default(), options, service, resumption, order)
    }

    fn build_by(
        clock: Clock,
        options: &ServerOptions,
        service: &str,
        resumption: &Arc<Resumption>,
        order: &SuiteOrder,
    ) -> Result<(Self, Vec<Warning>), BuildError> {
        let mut concerns = Vec::new();
        Self::assemble(clock, options, service, resumption, order, &mut concerns)
            .map(|server| (server, Warning::of_all(service, concerns)))
            .map_err(|fault| BuildError { service: service.into(), is_front: true, fault })
    }

    /// Returns the configuration for this client, or the refusal.
    pub fn select(&self, hello: &ClientHello<'_>) -> Result<Arc<ServerConfig>, Refusal> {
        if let Some(config) = self.challenges.answer(hello) {
            return Ok(config);
        }
        let version = self.version_for(hello)?;
        check_extensions(version, hello)?;
        let by_ticket =
            self.resumes() && version == Version::Tls12 && hello.session_ticket().is_some();
        let session = self.session_of(version, by_ticket, hello);
        let expected = session.map(|id| self.resumption.expect_session(id));
        self.check_certificate(version, hello)?;
        self.check_suites(version, hello)?;
        let variant = Variant {
            version,
            group: self.group_for(version, hello)?,
            chacha_first: self.chacha_first(version, session, hello),
            by_ticket,
            only_resumes: false,
        };
        let classical = self.classical_for(variant, session, hello);
        if let Some(expected) = expected {
            self.resumption.prefetch(expected);
        }
        let selected = classical.or_else(|| self.config_of(variant));
        let config = selected.expect("a configuration was built for every variant");
        Ok(Arc::clone(config))
    }

    fn config_of(&self, variant: Variant) -> Option<&Arc<ServerConfig>> {
        let found = self.variants.iter().find(|(one, _)| *one == variant);
        found.map(|(_, config)| config)
    }

    /// Returns the configuration by which a session that began with ML-KEM is resumed with a
    /// classical group. Checks every condition of the library for resuming it; if the library still
    /// does not, the handshake fails, because a full one must not go without ML-KEM.
    fn classical_for(
        &self,
        variant: Variant,
        stored: Option<&[u8]>,
        hello: &ClientHello<'_>,
    ) -> Option<&Arc<ServerConfig>> {
        let is_asked_for = self.resumption_group == ResumptionGroup::Classical;
        if !is_asked_for || !variant.group.is_hybrid() || !hello.offers_psk_with_exchange() {
            return None;
        }
        let identity = hello.psk_identities().next()?;
        let group = self.policy.groups(variant.version).find(|group| {
            !group.is_hybrid() && hello.key_share_groups().any(|code| code == group.code())
        })?;
        let config = self.config_of(Variant { group, only_resumes: true, ..variant })?;
        let sessions = self.sessions.as_ref()?;
        let name = hello.server_name();
        let suite = sessions.suite_of_hybrid(identity, stored.is_some(), name)?;
        let suites = config.crypto_provider().cipher_suites.iter();
        let mut suites = suites.filter(|one| one.tls13().is_some());
        let chosen =
            suites.find(|one| hello.cipher_suites().any(|code| code == u16::from(one.suite())))?;
        (u16::from(chosen.suite()) == suite).then_some(config)
    }

    /// Returns the certificate that a full handshake shows this client, if any.
    pub fn certificate_for(&self, hello: &ClientHello<'_>) -> Option<&Certificate> {
        let version = self.version_for(hello).ok()?;
        let number = self.certificate_number(version, hello).ok()?;
        self.site.certificates.get(number).map(|one| &**one)
    }

    /// Returns all certificates, in the order of the configuration.
    pub fn certificates(&self) -> &[Arc<Certificate>] {
        &self.site.certificates
    }

    /// Returns the warnings that arise over time, for the operator of the service of this name.
    pub fn warnings(&self, service: &str, moment: Moment) -> Vec<Warning> {
        let trust = self.verifier.iter();
        let trust = trust.flat_map(|one| one.chains().concerns(moment));
        let concerns = trust.map(WarningSubject::Verify).chain(self.site.concerns(moment));
        Warning::of_all(service, concerns.collect())
    }

    /// Returns the next second after `now` (Unix seconds) at which the warnings may change.
    pub fn next_change(&self, now: i64) -> Option<i64> {
        let trust = self.verifier.iter();
        let trust = trust.filter_map(|one| one.chains().next_change(now));
        trust.chain(self.site.next_change(now)).min()
    }

    /// Returns when the certificates, authorities and lists in use end, at `now` (Unix seconds).
    pub fn expiries(&self, now: i64) -> Expiries {
        let trust = self.verifier.as_ref().map(|one| one.chains().ends(now));
        let (authorities, lists) = trust.unwrap_or_default();
        Expiries {
            certificates: self.site.certificate_ends(now),
            staples: self.site.staple_ends(now),
            authorities,
            lists,
            skipped: self.site.skipped.clone(),
        }
    }

    /// Returns where sessions of TLS 1.3 are stored.
    pub fn tls13_sessions(&self) -> Tls13Sessions {
        self.tls13_sessions
    }

    /// Returns the maximum plaintext of a record to a client; `None` = as much as TLS allows.
    pub fn record_bytes_max(&self) -> Option<usize> {
        self.record_bytes_max
    }

    /// Returns the supported suites, most preferred first.
    pub fn suites(&self) -> &[Suite] {
        self.policy.suites()
    }

    fn assemble(
        clock: Clock,
        options: &ServerOptions,
        service: &str,
        resumption: &Arc<Resumption>,
        order: &SuiteOrder,
        concerns: &mut Vec<WarningSubject>,
    ) -> Result<Self, BuildFault> {
        let now = seconds(clock.now());
        let (policy, policy_concerns) = Policy::new(options, order)?;
        concerns.extend(policy_concerns.into_iter().map(WarningSubject::Policy));
        let verifier = verify::verifier(&options.client)?;
        let unsent = verifier.as_ref().and_then(|one| one.unsent_names_bytes());
        concerns.extend(unsent.map(WarningSubject::AuthorityNames));
        let first = Moment { since: None, now };
        let trust = verifier.iter().flat_map(|one| one.chains().concerns(first));
        concerns.extend(trust.map(WarningSubject::Verify));
        let site = Arc::new(Site::load(options, &policy, now, concerns)?);
        let policy_of_sessions = ResumptionPolicy {
            verifier: verifier.clone(),
            clock: clock.clone(),
            barred: revoked_fingerprints(options)?,
            only: (!options.replaced.resume).then(|| site.fingerprints().collect()),
            stays: takes_early_data(options.tls13_sessions),
            notes_hybrid: options.resumption_group == ResumptionGroup::Classical,
        };
        concerns.extend(site.revoked(&policy_of_sessions.barred));
        let sessions =
            options.resumption.then(|| resumption.of_service(service, policy_of_sessions));
        let parts = ServerParts {
            options,
            site: &site,
            sessions: sessions.clone(),
            tickets_count: resumption.tickets_count(),
            clock: clock.clone(),
        };
        let versions = policy.versions().iter().map(|version| library_version(*version));
        let versions: Vec<_> = versions.collect();
        let is_classical = options.resumption_group == ResumptionGroup::Classical;
        let mut templates = Vec::new();
        let variants = Variant::all(&policy, sessions.is_some())
            .flat_map(|variant| variant.with_resuming(is_classical && sessions.is_some()))
            .map(|variant| {
                let template = template(&versions, &policy, &verifier, variant)?;
                let config = parts.config(&template, variant);
                templates.push(template);
                Ok((variant, Arc::new(config)))
            })
            .collect::<Result<_, rustls::Error>>()?;
        Ok(Self {
            policy,
            sessions,
            tls13_sessions: options.tls13_sessions,
            resumption_group: options.resumption_group,
            record_bytes_max: options.record_bytes_max,
            resumption: Arc::clone(resumption),
            variants,
            _templates: templates,
            site,
            verifier,
            clock,
            challenges: options.challenges.clone(),
        })
    }

    fn resumes(&self) -> bool {
        self.sessions.is_some()
    }

    /// Reports whether ChaCha20 leads. A session from another kind of CPU resumes with its suite.
    fn chacha_first(
        &self,
        version: Version,
        stored: Option<&[u8]>,
        hello: &ClientHello<'_>,
    ) -> bool {
        let offered = hello.cipher_suites();
        let sessions = self.sessions.as_ref();
        let of_session = sessions.filter(|_| self.policy.leaves_a_choice(version, offered.clone()));
        let ticket = || match version {
            Version::Tls12 => hello.session_ticket(),
            Version::Tls13 => hello.psk_identities().next(),
        };
        let suite = of_session.and_then(|sessions| match stored {
            Some(id) => sessions.suite_of_stored(id),
            None => sessions.suite_in_ticket(ticket()?),
        });
        // A session whose suite the client does not offer does not resume anyhow.
        let suite = suite.filter(|code| offered.clone().any(|one| one == *code));
        match suite.and_then(Suite::from_code) {
            Some(suite) => is_chacha(suite),
            None => self.policy.prefers_chacha(version, offered),
        }
    }

    /// Returns the id of the stored session that the library will be asked for.
    fn session_of<'h>(
        &self,
        version: Version,
        by_ticket: bool,
        hello: &'h ClientHello<'_>,
    ) -> Option<&'h [u8]> {
        let id = match (version, self.tls13_sessions) {
            (Version::Tls12, _) if !by_ticket => Some(hello.session_id()),
            (Version::Tls13, Tls13Sessions::Cache { .. }) => hello.psk_identities().next(),
            _ => None,
        };
        id.filter(|id| self.resumes() && !id.is_empty())
    }

    /// Returns the stored session that a client offers and that is not here, if other hosts may
    /// have it: [`Self::fetch`] looks for it there.
    ///
    /// A client that also speaks TLS 1.3 may have invented its session id of TLS 1.2 (RFC 8446
    /// appendix D.4): this id is not looked up, because every such client would wait in vain.
    pub fn session_elsewhere(&self, hello: &ClientHello<'_>) -> Option<OfferedSession> {
        let version = self.version_for(hello).ok()?;
        let by_ticket = version == Version::Tls12 && hello.session_ticket().is_some();
        let id = self.session_of(version, self.resumes() && by_ticket, hello)?;
        let is_ours = id.len() == SESSION_ID_BYTES && !takes_early_data(self.tls13_sessions);
        let may_be_random = version.code() < hello.highest_version();
        let key = SessionKey::new(id).filter(|_| is_ours && !may_be_random)?;
        let once = version == Version::Tls13;
        let is_elsewhere = self.resumption.is_elsewhere(&key);
        is_elsewhere.then_some(OfferedSession { key, once })
    }

    /// Looks for a session on other hosts; a session found is in the cache when `answer` is called.
    pub fn fetch(&self, session: OfferedSession, answer: FetchAnswer) {
        self.resumption.fetch(session, answer);
    }

    /// Returns the highest version that both sides support.
    fn version_for(&self, hello: &ClientHello<'_>) -> Result<Version, Refusal> {
        let shared = |version: &Version| speaks(hello, *version);
        let ours = self.policy.versions();
        let version = ours.iter().copied().find(shared);
        let version = version.ok_or_else(|| Refusal::of_version(hello.highest_version(), ours))?;
        // The client offered a newer version before, and an attacker may have cut that (RFC 7507).
        let highest = hello.highest_version();
        let is_older = ours.iter().any(|version| version.code() > highest);
        if is_older && hello.cipher_suites().any(|code| code == FALLBACK_SCSV) {
            return Err(Refusal::fallback());
        }
        Ok(version)
    }

    /// Checks that there is a certificate for this client, or that it may do without.
    fn check_certificate(&self, version: Version, hello: &ClientHello<'_>) -> Result<(), Refusal> {
        let Err(refusal) = self.certificate_number(version, hello) else {
            return Ok(());
        };
        // The schemes are irrelevant if a session is resumed (RFC 5246 section 7.4.1.4.1).
        let usable = VerifiableKeyKinds::without_signature(
            hello.cipher_suites(),
            hello.supported_groups(),
            &self.site.suites,
        );
        let now = seconds(self.clock.now());
        let found = self.site.index.choose(hello.server_name(), usable, now);
        let may_resume = version == Version::Tls12 && self.offers_session(hello);
        if may_resume && found.is_ok() { Ok(()) } else { Err(refusal) }
    }

    /// Reports whether the client offers a session of TLS 1.2, which may be one of ours.
    fn offers_session(&self, hello: &ClientHello<'_>) -> bool {
        let has_ticket = hello.session_ticket().is_some_and(|one| !one.is_empty());
        self.resumes() && (has_ticket || !hello.session_id().is_empty())
    }

    fn certificate_number(
        &self,
        version: Version,
        hello: &ClientHello<'_>,
    ) -> Result<usize, Refusal> {
        let usable = VerifiableKeyKinds::of(
            version,
            hello.signature_algorithms(),
            hello.cipher_suites(),
            hello.supported_groups(),
            &self.site.suites,
        );
        let now = seconds(self.clock.now());
        let choice = self.site.index.choose(hello.server_name(), usable, now);
        choice.map_err(|missing| match missing {
            // A missing signature scheme of TLS 1.2 may really be a missing suite.
            NoCertificate::KindUnusable => self
                .check_suites(version, hello)
                .err()
                .unwrap_or_else(|| Refusal::no_common("signature scheme")),
            NoCertificate::NameMissing => Refusal::name_missing(version),
            NoCertificate::NameUnknown => Refusal::name_unknown(),
        })
    }

    fn check_suites(&self, version: Version, hello: &ClientHello<'_>) -> Result<(), Refusal> {
        let ours = &self.site.suites;
        let mut offered = hello.cipher_suites().filter_map(Suite::from_code);
        let is_shared = offered.any(|suite| suite.version() == version && ours.contains(&suite));
        if is_shared { Ok(()) } else { Err(Refusal::no_common("cipher suite")) }
    }

    /// Returns our most preferred group for which the client sent a key share, so that no round
    /// trip is spent on a HelloRetryRequest; else our first group that the client supports.
    fn group_for(&self, version: Version, hello: &ClientHello<'_>) -> Result<Group, Refusal> {
        let mut ours = self.policy.groups(version);
        let with_share = ours.clone().find(|group| {
            version == Version::Tls13 && hello.key_share_groups().any(|code| code == group.code())
        });
        with_share
            .or_else(|| {
                ours.find(|group| hello.supported_groups().any(|code| code == group.code()))
            })
            .ok_or_else(|| Refusal::no_common("group"))
    }
}

/// Returns the fingerprints of the certificates that are listed as revoked.
fn revoked_fingerprints(options: &ServerOptions) -> Result<Vec<Fingerprint>, BuildFault> {
    let mut fingerprints = Vec::new();
    for source in &options.replaced.revoked {
        let fault = |fault| BuildFault::Revoked(CertificateError::of_file(source, fault));
        let certificates = read_chain(&source.pem).map_err(fault)?;
        fingerprints.extend(certificates.iter().map(|certificate| fingerprint_of(certificate)));
    }
    Ok(fingerprints)
}

fn takes_early_data(sessions: Tls13Sessions) -> bool {
    matches!(sessions, Tls13Sessions::Cache { early_data_bytes_max } if early_data_bytes_max > 0)
}

impl ServerParts<'_> {
    fn config(&self, template: &ServerConfig, variant: Variant) -> ServerConfig {
        let mut config = template.clone();
        config.cert_resolver = Arc::new(Resolver {
            site: Arc::clone(self.site),
            clock: self.clock.clone(),
            version: variant.version,
            only_resumes: variant.only_resumes,
        });
        config.time_provider = Arc::clone(&self.clock.0);
        config.ignore_client_order = true;
        config.enable_secret_extraction = true;
        config.key_log = Arc::new(SecretListener { logs: self.options.key_log });
        config.max_fragment_size = self.options.record_bytes_max.map(|bytes| bytes + HEADER_BYTES);
        config.alpn_protocols.clone_from(&self.options.alpn);
        // Clients must not make us decompress unauthenticated data: no compressed certificates.
        config.cert_decompressors = Vec::new();
        let compresses = self.options.certificate_compression;
        config.cert_compressors = if compresses { COMPRESSORS.to_vec() } else { Vec::new() };
        config.cert_compression_cache = Arc::new(CompressionCache::Disabled);
        self.set_resumption(&mut config, variant);
        config
    }

    fn set_resumption(&self, config: &mut ServerConfig, variant: Variant) {
        config.send_tls13_tickets = 0;
        // Without stored sessions no early data is accepted, and this is how much is skipped.
        config.max_early_data_size = EARLY_DATA_BYTES_MAX;
        let Some(sessions) = &self.sessions else {
            return;
        };
        config.send_tls13_tickets = self.tickets_count;
        if self.tickets_count > 0 {
            config.max_tls13_tickets = TICKETS_MAX;
        }
        match (variant.version, self.options.tls13_sessions) {
            // The library takes no early data with tickets.
            (Version::Tls13, Tls13Sessions::Tickets) => config.ticketer = Arc::clone(sessions) as _,
            (Version::Tls13, Tls13Sessions::Cache { early_data_bytes_max: 0 }) => {
                config.ticketer = Arc::new(StoredTickets(Arc::clone(sessions)));
            }
            (Version::Tls13, Tls13Sessions::Cache { early_data_bytes_max }) => {
                config.session_storage = Arc::clone(sessions) as _;
                config.max_early_data_size = early_data_bytes_max;
                // The answer to early data need not wait for the client's Finished.
                config.send_half_rtt_data = true;
            }
            (Version::Tls12, _) => {
                config.ticketer = Arc::clone(sessions) as _;
                if !variant.by_ticket {
                    config.session_storage = Arc::clone(sessions) as _;
                }
            }
        }
    }
}

/// Checks the extensions that TLS 1.3 requires of every client (RFC 8446 section 9.2).
fn check_extensions(version: Version, hello: &ClientHello<'_>) -> Result<(), Refusal> {
    if version != Version::Tls13 {
        return Ok(());
    }
    if hello.signature_algorithms().next().is_none() {
        return Err(Refusal::missing_extension("signature_algorithms"));
    }
    if hello.supported_groups().next().is_none() {
        return Err(Refusal::missing_extension("supported_groups"));
    }
    if !hello.has_key_share() {
        return Err(Refusal::missing_extension("key_share"));
    }
    Ok(())
}

fn speaks(hello: &ClientHello<'_>, version: Version) -> bool {
    let mut listed = hello.supported_versions().peekable();
    // RFC 8446 section 4.2.1: the older field counts only if the extension is missing.
    if listed.peek().is_none() {
        return version == Version::Tls12 && hello.legacy_version() >= version.code();
    }
    listed.any(|code| code == version.code())
}

pub(crate) fn library_version(version: Version) -> &'static rustls::SupportedProtocolVersion {
    match version {
        Version::Tls12 => &rustls::version::TLS12,
        Version::Tls13 => &rustls::version::TLS13,
    }
}

#[cfg(test)]
mod tests;
