//! The context of a handshake for the callbacks of the TLS library: the facts that they need, and
//! what they find out about it.
//!
//! One configuration of the library serves many connections, and its callbacks (tickets, stored
//! sessions, log of keys, certificates of either side) are not told which connection calls them.
//! They are called on the thread that drives the handshake. So its driver [`enter`]s the
//! connection's context for the time of a step, and the callbacks work [`with`] it.

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

/// Sessions that are looked up for one hello. A client offers one or two; each costs a decryption
/// and, with a client's chain, its verification.
const LOOKUPS_MAX: u8 = 2;

/// The course of one handshake, as far as the callbacks must know or say.
#[derive(Default)]
pub(crate) struct HandshakeContext {
    /// The sessions looked up in this step.
    lookups: u8,
    /// The result for the last session that was looked up.
    pub(crate) lookup: LookupResult,
    /// With what the session began that is resumed; `None` = none is.
    pub(crate) resumed: Option<Provenance>,
    /// The certificate shown by a full handshake.
    pub(crate) shown: Fingerprint,
    /// Whether ML-KEM takes part in the key exchange.
    pub(crate) is_hybrid: bool,
    /// The compressed forms of that certificate.
    pub(crate) forms: Option<Arc<CompressedForms>>,
    /// Whether a session of its own has taken the place of the one that is resumed.
    has_renewed: bool,
    pub(crate) wanted: WantedSecrets,
    pub(crate) secrets: Secrets,
    /// The extensions that are hidden from the library in this handshake's hello.
    pub(crate) hidden: Option<HiddenExtensions>,
    /// The reason why the client's certificate was refused, for the log: the library's errors have
    /// no room for it.
    pub(crate) refusal: Option<String>,
}

/// The result of looking up a session.
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
    /// None: no handshake is driven.
    #[default]
    Nothing,
    Traffic,
    /// The secrets of the client's early data and handshake messages as well.
    All,
}

/// Secrets from the library's log of keys.
#[derive(Default)]
pub(crate) struct Secrets {
    pub(crate) early: Option<LoggedSecret>,
    pub(crate) handshake: Option<LoggedSecret>,
    /// The secret of the server's handshake messages in TLS 1.3.
    pub(crate) own_handshake: Option<LoggedSecret>,
    /// The secret of the client's records after the handshake: the first application traffic secret
    /// of TLS 1.3.
    pub(crate) client: Option<LoggedSecret>,
    /// The same of the server's; of TLS 1.2 the master secret and the client's random behind it.
    pub(crate) server: Option<LoggedSecret>,
}

thread_local! {
    static CURRENT: RefCell<HandshakeContext> = RefCell::default();
}

/// Makes this the context of the thread until the guard is dropped, or gives it back.
pub(crate) fn enter(context: HandshakeContext) -> Entered {
    CURRENT.set(HandshakeContext { lookups: 0, ..context });
    Entered
}

/// Works with the thread's context.
pub(crate) fn with<T>(work: impl FnOnce(&mut HandshakeContext) -> T) -> T {
    CURRENT.with_borrow_mut(work)
}

/// Messages of the handshake as the client sent them.
pub(crate) fn as_sent(messages: &[u8]) -> Cow<'_, [u8]> {
    let restored = with(|context| context.hidden.as_ref()?.restored(messages));
    restored.map_or(Cow::Borrowed(messages), Cow::Owned)
}

/// A context that is the thread's.
#[must_use]
pub(crate) struct Entered;

impl Entered {
    /// The context as the step has left it.
    pub(crate) fn leave(self) -> HandshakeContext {
        CURRENT.take()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.take();
    }
}

impl HandshakeContext {
    pub(crate) fn of(hello: &ClientHello<'_>) -> Self {
        Self { hidden: HiddenExtensions::of(hello), ..Self::default() }
    }

    /// Whether another session may be looked up for this hello.
    pub(crate) fn may_look_up(&mut self) -> bool {
        self.lookups = self.lookups.saturating_add(1);
        self.lookups <= LOOKUPS_MAX
    }

    /// Notes what a look-up came to, and gives the library its answer.
    pub(crate) fn looked_up(&mut self, found: Result<Vec<u8>, ResumptionMiss>) -> Option<Vec<u8>> {
        self.lookup = match found {
            Ok(_) => LookupResult::Session,
            Err(miss) => LookupResult::Miss(miss),
        };
        found.ok()
    }

    /// With what the sessions of this handshake begin.
    pub(crate) fn provenance(&self, now: u64) -> Provenance {
        let certificate = self.shown;
        let began = Provenance { authenticated: now, certificate, is_hybrid: false };
        let provenance = self.resumed.unwrap_or(began);
        // The session's key comes from this exchange's secret too.
        Provenance { is_hybrid: provenance.is_hybrid || self.is_hybrid, ..provenance }
    }

    /// Whether the next session takes the place of the one that was resumed. Only one does: clients
    /// may ask for several (RFC 9149), and one that was used has not proved four.
    pub(crate) fn take_renewal(&mut self) -> bool {
        let had_renewed = std::mem::replace(&mut self.has_renewed, true);
        self.resumed.is_some() && !had_renewed
    }
}

/// Notes the secrets that are wanted.
#[derive(Debug)]
pub(crate) struct SecretListener {
    /// Whether all of them go to the key log as well.
    pub(crate) logs: bool,
}

const CLIENT_EARLY: &str = "CLIENT_EARLY_TRAFFIC_SECRET";
const CLIENT_HANDSHAKE: &str = "CLIENT_HANDSHAKE_TRAFFIC_SECRET";
const SERVER_HANDSHAKE: &str = "SERVER_HANDSHAKE_TRAFFIC_SECRET";
const CLIENT_TRAFFIC: &str = "CLIENT_TRAFFIC_SECRET_0";
const SERVER_TRAFFIC: &str = "SERVER_TRAFFIC_SECRET_0";
/// The label of TLS 1.2's master secret.
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

/// Whether the driver of this step wants the secret.
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

/// A session that is renewed at each resumption ends so long after the full handshake that began
/// it, in seconds: who copied a ticket once is not that client for ever, and no secret of TLS 1.2
/// lives longer. RFC 8446 section 4.6.1 wants such a bound; it is a single ticket's there, too.
pub(crate) const AUTHENTICATED_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;

/// The beginning of a session.
///
/// Sessions are renewed: each resumption makes new tickets. What holds of the full handshake that
/// began the first of them holds of all, and is carried on in each.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Provenance {
    /// When its client was authenticated by a full handshake, in seconds of Unix time.
    pub(crate) authenticated: u64,
    /// The certificate that the client was shown then.
    pub(crate) certificate: Fingerprint,
    /// Whether it is known that ML-KEM took part in a key exchange that its key comes from.
    pub(crate) is_hybrid: bool,
}

/// The mark of that in the first byte of the time, where all sessions made without it have a zero.
const HYBRID: u8 = 0x80;

impl Provenance {
    pub(crate) const BYTES: usize = TIME_BYTES + FINGERPRINT_BYTES;

    /// As it lies in tickets and stored sessions.
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

    /// Whether a session that began so is renewed no more.
    pub(crate) fn is_over(self, now: u64) -> bool {
        now.saturating_sub(self.authenticated) > AUTHENTICATED_SECONDS_MAX
    }
}

/// The library's suite of that number, for servers.
pub(crate) fn restoring_suite(code: u16) -> Option<SupportedCipherSuite> {
    static SUITES: OnceLock<Vec<SupportedCipherSuite>> = OnceLock::new();
    let suites = SUITES.get_or_init(|| {
        let all = aws_lc_rs::ALL_CIPHER_SUITES.iter();
        all.map(|suite| restoring(*suite)).collect()
    });
    let found = suites.iter().find(|one| u16::from(one.suite()) == code);
    found.copied()
}

/// The same with our hash. The library holds suites for ever.
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

/// The hash over a handshake's messages, in which a hidden name is as the client sent it.
struct TranscriptHash(&'static dyn Hash);

impl Hash for TranscriptHash {
    fn start(&self) -> Box<dyn Context> {
        let begun = self.0.start();
        // Other handshakes need none of this.
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
