//! Holds the context of a handshake for the callbacks of the TLS library: the facts that they need,
//! and their results.
//!
//! One configuration of the library serves many connections, and its callbacks (tickets, stored
//! sessions, key log, certificates of either side) do not learn which connection calls them. They
//! run on the thread that drives the handshake. So the driver [`enter`]s the connection's context
//! for the time of a step, and the callbacks access it through [`with`].

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs;
use rustls::crypto::hash::{Context, Hash, HashAlgorithm, Output};
use rustls::{CipherSuiteCommon, KeyLog, SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};
use telemetry::outcome::ResumptionMiss;
use wire::client_hello::ClientHello;
use zeroize::Zeroizing;

use crate::certificate::CompressedForms;
use crate::hidden_name::HiddenExtensions;
use crate::identity::{FINGERPRINT_BYTES, Fingerprint};
use crate::key_log;
use crate::secrets::LoggedSecret;

/// Maximum number of session look-ups for one hello. A client offers one or two; each costs a
/// decryption and, with a client's chain, its verification.
const LOOKUPS_MAX: u8 = 2;

/// State of one handshake, as far as the callbacks need or report it.
#[derive(Default)]
pub(crate) struct HandshakeContext {
    /// Number of sessions looked up in this step.
    lookups: u8,
    /// Result of the last look-up of a session.
    pub(crate) lookup: LookupResult,
    /// Provenance of the resumed session; `None` = no session is resumed.
    pub(crate) resumed: Option<Provenance>,
    /// Certificate shown by a full handshake.
    pub(crate) shown: Fingerprint,
    /// Whether ML-KEM takes part in the key exchange.
    pub(crate) is_hybrid: bool,
    /// Compressed forms of that certificate.
    pub(crate) forms: Option<Arc<CompressedForms>>,
    /// Whether a new session has already replaced the resumed one.
    has_renewed: bool,
    pub(crate) wanted: WantedSecrets,
    pub(crate) secrets: Secrets,
    /// Extensions that are hidden from the library in this handshake's hello.
    pub(crate) hidden: Option<HiddenExtensions>,
    /// Reason why the client's certificate was refused, for the log: the library's errors cannot
    /// carry it.
    pub(crate) refusal: Option<String>,
}

/// Result of looking up a session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum LookupResult {
    #[default]
    Nothing,
    /// A session was handed to the library.
    Session,
    Miss(ResumptionMiss),
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub(crate) enum WantedSecrets {
    /// No secrets: no handshake is driven.
    #[default]
    Nothing,
    Traffic,
    /// Also the secrets of the client's early data and handshake messages.
    All,
}

/// Secrets from the library's key log.
#[derive(Default)]
pub(crate) struct Secrets {
    pub(crate) early: Option<LoggedSecret>,
    pub(crate) handshake: Option<LoggedSecret>,
    /// Secret of the server's handshake messages in TLS 1.3.
    pub(crate) own_handshake: Option<LoggedSecret>,
    /// Secret of the client's records after the handshake: the first application traffic secret of
    /// TLS 1.3.
    pub(crate) client: Option<LoggedSecret>,
    /// Secret of the server's records; in TLS 1.2 the master secret and then the client random.
    pub(crate) server: Option<LoggedSecret>,
}

thread_local! {
    static CURRENT: RefCell<HandshakeContext> = RefCell::default();
}

/// Makes this the context of the thread until the guard is dropped, or returns it.
pub(crate) fn enter(context: HandshakeContext) -> EnteredContext {
    CURRENT.set(HandshakeContext { lookups: 0, ..context });
    EnteredContext
}

/// Works with the thread's context.
pub(crate) fn with<T>(work: impl FnOnce(&mut HandshakeContext) -> T) -> T {
    CURRENT.with_borrow_mut(work)
}

/// Returns messages of the handshake as the client sent them.
pub(crate) fn as_sent(messages: &[u8]) -> Cow<'_, [u8]> {
    let restored = with(|context| context.hidden.as_ref()?.restored(messages));
    restored.map_or(Cow::Borrowed(messages), Cow::Owned)
}

/// Guard of the context that the thread has entered.
#[must_use]
pub(crate) struct EnteredContext;

impl EnteredContext {
    /// Returns the context as the step has left it.
    pub(crate) fn leave(self) -> HandshakeContext {
        CURRENT.take()
    }
}

impl Drop for EnteredContext {
    fn drop(&mut self) {
        CURRENT.take();
    }
}

impl HandshakeContext {
    pub(crate) fn of(hello: &ClientHello<'_>) -> Self {
        Self { hidden: HiddenExtensions::of(hello), ..Self::default() }
    }

    /// Reports whether another session may be looked up for this hello.
    pub(crate) fn may_look_up(&mut self) -> bool {
        self.lookups = self.lookups.saturating_add(1);
        self.lookups <= LOOKUPS_MAX
    }

    /// Records the result of a look-up, and returns the answer for the library.
    pub(crate) fn looked_up(&mut self, found: Result<Vec<u8>, ResumptionMiss>) -> Option<Vec<u8>> {
        self.lookup = match found {
            Ok(_) => LookupResult::Session,
            Err(miss) => LookupResult::Miss(miss),
        };
        found.ok()
    }

    /// Returns the provenance of new sessions of this handshake.
    pub(crate) fn provenance(&self, now: u64) -> Provenance {
        let certificate = self.shown;
        let began = Provenance { authenticated: now, certificate, is_hybrid: false };
        let provenance = self.resumed.unwrap_or(began);
        // The session's key also depends on the secret of this key exchange.
        Provenance { is_hybrid: provenance.is_hybrid || self.is_hybrid, ..provenance }
    }

    /// Reports whether the next session replaces the resumed one. Only one does: clients may
    /// request several (RFC 9149), and one used session does not prove four.
    pub(crate) fn take_renewal(&mut self) -> bool {
        let had_renewed = std::mem::replace(&mut self.has_renewed, true);
        self.resumed.is_some() && !had_renewed
    }
}

/// Key log that stores the secrets wanted by the driver.
#[derive(Debug)]
pub(crate) struct SecretListener {
    /// Whether all secrets are also written to the key log.
    pub(crate) logs: bool,
}

const CLIENT_EARLY: &str = "CLIENT_EARLY_TRAFFIC_SECRET";
const CLIENT_HANDSHAKE: &str = "CLIENT_HANDSHAKE_TRAFFIC_SECRET";
const SERVER_HANDSHAKE: &str = "SERVER_HANDSHAKE_TRAFFIC_SECRET";
const CLIENT_TRAFFIC: &str = "CLIENT_TRAFFIC_SECRET_0";
const SERVER_TRAFFIC: &str = "SERVER_TRAFFIC_SECRET_0";
/// Label of TLS 1.2's master secret.
const CLIENT_RANDOM: &str = "CLIENT_RANDOM";

impl KeyLog for SecretListener {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        if self.logs {
            key_log::add(label, client_random, secret);
        }
        if !wants(label) {
            return;
        }
        let logged = match label {
            CLIENT_RANDOM => [secret, client_random].concat(),
            _ => secret.to_vec(),
        };
        with(|context| {
            let place = match label {
                CLIENT_EARLY => &mut context.secrets.early,
                CLIENT_HANDSHAKE => &mut context.secrets.handshake,
                SERVER_HANDSHAKE => &mut context.secrets.own_handshake,
                CLIENT_TRAFFIC => &mut context.secrets.client,
                _ => &mut context.secrets.server,
            };
            *place = Some(Zeroizing::new(logged));
        });
    }

    fn will_log(&self, label: &str) -> bool {
        self.logs || wants(label)
    }
}

/// Reports whether the driver of this step wants the secret.
fn wants(label: &str) -> bool {
    let wanted = with(|context| context.wanted);
    match label {
        CLIENT_EARLY | CLIENT_HANDSHAKE => wanted == WantedSecrets::All,
        SERVER_HANDSHAKE | CLIENT_TRAFFIC | SERVER_TRAFFIC | CLIENT_RANDOM => {
            wanted != WantedSecrets::Nothing
        }
        _ => false,
    }
}

const TIME_BYTES: usize = 8;

/// Maximum age in seconds of a session that is renewed at each resumption, counted from its full
/// handshake: a stolen ticket must not work without end, and no secret of TLS 1.2 may live longer.
/// RFC 8446 section 4.6.1 wants such a limit for a single ticket, too.
pub(crate) const AUTHENTICATED_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;

/// Origin of a session.
///
/// Sessions are renewed: each resumption makes new tickets. The facts of the full handshake that
/// began the first session hold for all, and each session carries them on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Provenance {
    /// When a full handshake authenticated the client, in seconds of Unix time.
    pub(crate) authenticated: u64,
    /// The certificate that the client was shown then.
    pub(crate) certificate: Fingerprint,
    /// Whether ML-KEM is known to have taken part in a key exchange behind the session's key.
    pub(crate) is_hybrid: bool,
}

/// Mark of `is_hybrid` in the first byte of the time, which is zero in sessions without it.
const HYBRID: u8 = 0x80;

impl Provenance {
    pub(crate) const BYTES: usize = TIME_BYTES + FINGERPRINT_BYTES;

    /// Encodes the provenance for tickets and stored sessions.
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..TIME_BYTES].copy_from_slice(&self.authenticated.to_be_bytes());
        bytes[TIME_BYTES..].copy_from_slice(&self.certificate);
        bytes[0] |= if self.is_hybrid { HYBRID } else { 0 };
        bytes
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let (mut time, mut certificate) = ([0; TIME_BYTES], [0; FINGERPRINT_BYTES]);
        time.copy_from_slice(&bytes[..TIME_BYTES]);
        certificate.copy_from_slice(&bytes[TIME_BYTES..]);
        let is_hybrid = time[0] & HYBRID != 0;
        time[0] &= !HYBRID;
        Self { authenticated: u64::from_be_bytes(time), certificate, is_hybrid }
    }

    /// Reports whether a session with this provenance is no longer renewed.
    pub(crate) fn is_over(self, now: u64) -> bool {
        now.saturating_sub(self.authenticated) > AUTHENTICATED_SECONDS_MAX
    }
}

/// Returns the library's suite of that number, for servers.
pub(crate) fn restoring_suite(code: u16) -> Option<SupportedCipherSuite> {
    static SUITES: OnceLock<Vec<SupportedCipherSuite>> = OnceLock::new();
    let suites = SUITES.get_or_init(|| {
        let all = aws_lc_rs::ALL_CIPHER_SUITES.iter();
        all.map(|suite| restoring(*suite)).collect()
    });
    let found = suites.iter().find(|one| u16::from(one.suite()) == code);
    found.copied()
}

/// Returns the suite with our hash. The library keeps suites until the process ends.
fn restoring(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let common = |common: &CipherSuiteCommon| CipherSuiteCommon {
        suite: common.suite,
        hash_provider: Box::leak(Box::new(TranscriptHash(common.hash_provider))),
        confidentiality_limit: common.confidentiality_limit,
    };
    match suite {
        SupportedCipherSuite::Tls12(suite) => {
            SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite {
                common: common(&suite.common),
                prf_provider: suite.prf_provider,
                kx: suite.kx,
                sign: suite.sign,
                aead_alg: suite.aead_alg,
            })))
        }
        SupportedCipherSuite::Tls13(suite) => {
            SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
                common: common(&suite.common),
                hkdf_provider: suite.hkdf_provider,
                aead_alg: suite.aead_alg,
                quic: None,
            })))
        }
    }
}

/// Hash over a handshake's messages, with hidden extensions as the client sent them.
struct TranscriptHash(&'static dyn Hash);

impl Hash for TranscriptHash {
    fn start(&self) -> Box<dyn Context> {
        let begun = self.0.start();
        // Handshakes without hidden extensions need no restoring.
        if with(|context| context.hidden.is_some()) {
            Box::new(RestoringContext(begun))
        } else {
            begun
        }
    }

    fn hash(&self, data: &[u8]) -> Output {
        self.0.hash(data)
    }

    fn output_len(&self) -> usize {
        self.0.output_len()
    }

    fn algorithm(&self) -> HashAlgorithm {
        self.0.algorithm()
    }
}

struct RestoringContext(Box<dyn Context>);

impl Context for RestoringContext {
    fn fork_finish(&self) -> Output {
        self.0.fork_finish()
    }

    fn fork(&self) -> Box<dyn Context> {
        Box::new(Self(self.0.fork()))
    }

    fn finish(self: Box<Self>) -> Output {
        self.0.finish()
    }

    fn update(&mut self, data: &[u8]) {
        self.0.update(&as_sent(data));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_the_threads_for_one_step() {
        let entered = enter(HandshakeContext::default());
        with(|context| {
            assert_eq!(context.looked_up(Err(ResumptionMiss::Foreign)), None);
            assert_eq!(context.looked_up(Ok(vec![1])), Some(vec![1]));
        });
        let left = entered.leave();
        assert_eq!(left.lookup, LookupResult::Session);
        with(|context| assert_eq!(context.lookup, LookupResult::Nothing));
        drop(enter(left));
        with(|context| assert_eq!(context.lookup, LookupResult::Nothing));
    }

    #[test]
    fn few_sessions_are_looked_up_for_a_hello() {
        let mut context = HandshakeContext::default();
        let may_look_up = [(); 3].map(|()| context.may_look_up());
        assert_eq!(may_look_up, [true, true, false]);
        let _entered = enter(context);
        assert!(with(HandshakeContext::may_look_up), "another hello");
    }

    #[test]
    fn a_renewal_keeps_its_provenance_and_a_full_handshake_has_its_own() {
        let shown = [1; 8];
        let of = |authenticated, certificate| Provenance {
            authenticated,
            certificate,
            is_hybrid: false,
        };
        let mut context = HandshakeContext { shown, ..HandshakeContext::default() };
        assert_eq!(context.provenance(7), of(7, shown));
        assert!(!context.take_renewal());
        let first = of(5, [9; 8]);
        (context.resumed, context.has_renewed) = (Some(first), false);
        assert_eq!(context.provenance(7), first);
        assert!(context.take_renewal() && !context.take_renewal(), "one");
    }

    #[test]
    fn no_secret_is_noted_unless_it_is_wanted() {
        for (wanted, noted) in [
            (WantedSecrets::Nothing, [false; 5]),
            (WantedSecrets::Traffic, [false, false, true, true, true]),
            (WantedSecrets::All, [true; 5]),
        ] {
            let entered = enter(HandshakeContext { wanted, ..HandshakeContext::default() });
            let traffic = [CLIENT_TRAFFIC, SERVER_TRAFFIC, CLIENT_RANDOM];
            for label in
                [&[CLIENT_HANDSHAKE, SERVER_HANDSHAKE, CLIENT_EARLY][..], &traffic].concat()
            {
                SecretListener { logs: false }.log(label, &[], &[7; 32]);
            }
            let secrets = entered.leave().secrets;
            let first = [secrets.early, secrets.handshake, secrets.own_handshake];
            let all = [&first[..], &[secrets.client, secrets.server]].concat();
            let all: Vec<_> = all.iter().map(Option::is_some).collect();
            assert_eq!(all, noted);
        }
    }
}

#[cfg(test)]
mod provenance_tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written_and_ends_after_a_week() {
        let certificate = [9; FINGERPRINT_BYTES];
        let began = Provenance { authenticated: 0x0102_0304, certificate, is_hybrid: false };
        for began in [began, Provenance { is_hybrid: true, ..began }] {
            assert_eq!(Provenance::from_bytes(began.to_bytes()), began);
        }
        let end = began.authenticated + AUTHENTICATED_SECONDS_MAX;
        assert!(!began.is_over(end) && began.is_over(end + 1) && !began.is_over(0));
    }
}
