//! Drives a handshake as bytes in and bytes out, and hides the TLS library from the callers.
//!
//! Handles the server's side: the records that a client may send at each point, its early data, and
//! an alert for each fault. The certificate and parameters are chosen before, in `server`.

mod fault;
pub(crate) mod library;

use std::mem;
use std::sync::Arc;

use rustls::server::UnbufferedServerConnection;
use rustls::{CommonState, Error, ServerConfig};
use telemetry::outcome::{Reason, ResumptionMiss};
use wire::alert;
use wire::client_hello::ClientHello;
use zeroize::Zeroizing;

use crate::context::{self, HandshakeContext, LookupResult, Secrets, WantedSecrets};
use crate::hidden_name::HiddenExtensions;
use crate::options::{Group, Suite, Version};
use crate::record::{
    ContentType, HEADER_BYTES, KeyExhausted, KeyOpener, PLAINTEXT_BYTES_MAX, RecordFault,
    RecordLayout, RecordSealer, expansion_bytes_max,
};
use crate::secrets::{LoggedSecret, SendingKeys, opener_of};
use crate::traffic::Traffic;
pub use fault::HandshakeFault;
use fault::LibraryAlert;
use library::{
    ALERT, CHANGE_CIPHER_SPEC, HANDSHAKE, HIDDEN, HandshakeDriver, HandshakeSide, agreed_by,
    suite_of, version_of,
};
pub use library::{HandshakeStep, NegotiatedParameters, WAITING_BYTES_MAX};

pub struct CompletedHandshake {
    pub traffic: Box<Traffic>,
    pub agreed: NegotiatedParameters,
}

/// Server's side of a handshake. Sans-IO: takes bytes and returns bytes, and never waits.
///
/// Once early data has arrived, it also encrypts the answers to it, before the handshake is done.
pub struct Handshake {
    driver: HandshakeDriver<UnbufferedServerConnection, ServerSide>,
    /// Facts that the library's callbacks need.
    context: HandshakeContext,
}

/// Rules for a client's records, and the keys of our records.
#[derive(Default)]
struct ServerSide {
    /// Early data that the caller has not taken yet.
    early: Vec<u8>,
    has_early: bool,
    /// `Some` while early data that was offered may have to be skipped.
    skipper: Option<Skipper>,
    /// Class of the last record shown to the library, if it is early data: the library produces no
    /// output for it if early data is refused.
    shown_early: Option<RecordClass>,
    /// Number of records sealed under our present key, once it is the last key of the handshake.
    sealed: u64,
    /// Secrets of our records and of the client's, once they are known.
    secret: Option<LoggedSecret>,
    client_secret: Option<LoggedSecret>,
    /// Secret of our handshake messages in TLS 1.3, until the first of them is sent.
    first_secret: Option<LoggedSecret>,
    server_random: [u8; RANDOM_BYTES],
    /// Whether our records are sealed.
    is_sealing: bool,
    /// Whether the client has sent a ChangeCipherSpec.
    has_client_changed: bool,
}

const RANDOM_BYTES: usize = 32;

impl Handshake {
    /// Starts a handshake; the first bytes passed to it must be those of this hello.
    pub fn new(config: Arc<ServerConfig>, hello: &ClientHello<'_>) -> Result<Self, HandshakeFault> {
        let skipper = hello.offers_early_data().then(Skipper::new);
        let side = ServerSide { skipper, ..ServerSide::default() };
        let mut context = HandshakeContext::of(hello);
        let groups = &config.crypto_provider().kx_groups;
        let is_hybrid = |code: u16| Group::from_code(code).is_some_and(Group::is_hybrid);
        context.is_hybrid = groups.iter().all(|one| is_hybrid(one.name().into()));
        let driver = HandshakeDriver::new(UnbufferedServerConnection::new(config), side)?;
        Ok(Self { driver, context })
    }

    /// Takes received bytes and appends the bytes to send, also when it fails (an alert).
    ///
    /// Only whole records are processed. The caller offers bytes that were not consumed again, with
    /// more behind them. After `done`, bytes that were not consumed belong to [`Traffic`].
    pub fn advance(
        &mut self,
        incoming: &mut [u8],
        outgoing: &mut Vec<u8>,
    ) -> Result<HandshakeStep, HandshakeFault> {
        let side = &self.driver.side;
        let mut entering = mem::take(&mut self.context);
        entering.wanted = match side.skipper {
            Some(_) => WantedSecrets::All,
            None => WantedSecrets::Traffic,
        };
        if entering.hidden.is_some() && !side.is_sealing {
            entering.hidden = HiddenExtensions::hide_in(incoming).or(entering.hidden);
        }
        let entered = context::enter(entering);
        let step = self.driver.drive(incoming, outgoing);
        let suite = suite_of(self.driver.common());
        self.driver.side.take_secrets(suite);
        self.context = entered.leave();
        if is_full(self.driver.common()) {
            // A session was found and did not fit.
            self.context.resumed = None;
        }
        if let Err(HandshakeFault { alert: Some(alert), .. }) = step {
            self.driver.side.append_alert(suite, alert, outgoing);
        }
        step
    }

    /// Returns the reason why a session that the client offered is not resumed; `None` = no session
    /// was offered, or it is resumed. Known from the hello on, also for handshakes that fail.
    pub fn miss(&self) -> Option<ResumptionMiss> {
        let kind = self.driver.common().handshake_kind();
        let is_resumed = kind == Some(rustls::HandshakeKind::Resumed);
        match self.context.lookup {
            _ if is_resumed => None,
            LookupResult::Nothing => None,
            LookupResult::Session => Some(ResumptionMiss::Mismatch),
            LookupResult::Miss(miss) => Some(miss),
        }
    }

    /// Appends the early data (RFC 8446 section 2.3) received since the last call. All of it
    /// arrives before the handshake is done. A session gives early data once, so it is no replay of
    /// earlier data; only when the handshake is done is it known that it will not be sent again.
    pub fn take_early_data(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.driver.side.early);
    }

    /// Returns the parameters agreed on so far: all of them, once early data has arrived.
    ///
    /// # Errors
    /// Fails if the version is not agreed on yet.
    pub fn agreed(&self) -> Result<NegotiatedParameters, HandshakeFault> {
        agreed_by(self.driver.common())
    }

    /// Reports whether application data can be encrypted now, before the handshake is done (RFC
    /// 8446 section 2.3 and appendix E.5: the session identifies the client).
    pub fn can_seal(&self) -> bool {
        self.driver.side.has_early && self.driver.is_free()
    }

    /// Completes a handshake that is done.
    pub fn finish(mut self) -> Result<CompletedHandshake, HandshakeFault> {
        let agreed = self.agreed()?;
        let side = &mut self.driver.side;
        let (sending, receiving) = (side.secret.take(), side.client_secret.take());
        let traffic = self.driver.into_traffic(&agreed, sending, receiving)?;
        Ok(CompletedHandshake { traffic, agreed })
    }
}

impl HandshakeSide for ServerSide {
    fn next_record(
        &mut self,
        library: &CommonState,
        bytes: &mut [u8],
    ) -> Result<Option<usize>, HandshakeFault> {
        let kind = match bytes.first() {
            None => return Ok(None),
            Some(kind @ CHANGE_CIPHER_SPEC..=HIDDEN) => *kind,
            Some(other) => return Err(unexpected(format!("a record of type {other}"))),
        };
        let version = version_of(library);
        // Once both sides have their keys all messages are encrypted (RFC 8446 section 2).
        let is_hidden = version == Some(Version::Tls13) && self.secret.is_some();
        if kind == HANDSHAKE && is_hidden {
            return Err(unexpected("a handshake message that is not encrypted".into()));
        }
        let Some(&[.., high, low]) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length == 0 && kind != HIDDEN {
            return Err(unexpected("a record without content".into()));
        }
        let is_encrypted = kind == HIDDEN || self.has_client_changed;
        let expansion = version.filter(|_| is_encrypted).map_or(0, expansion_bytes_max);
        if length > PLAINTEXT_BYTES_MAX + expansion {
            let detail = "a record is longer than TLS allows";
            let alert = Some(alert::RECORD_OVERFLOW);
            return Err(HandshakeFault::new(Reason::RecordInvalid, detail, alert));
        }
        let record_bytes = HEADER_BYTES + length;
        if record_bytes > bytes.len() {
            return Ok(None);
        }
        if kind == CHANGE_CIPHER_SPEC && version == Some(Version::Tls12) {
            if self.has_client_changed {
                return Err(unexpected("a second ChangeCipherSpec".into()));
            }
            self.has_client_changed = true;
        }
        // RFC 8446 section 5.1: ignore the version. The library checks it; no transcript has it.
        if let (false, Some(sent)) = (is_encrypted, bytes.get_mut(1..3)) {
            sent.copy_from_slice(&[3, 3]);
        }
        Ok(Some(record_bytes))
    }

    fn passes_over(
        &mut self,
        library: &CommonState,
        record: &[u8],
        is_first: bool,
    ) -> Result<bool, HandshakeFault> {
        match self.classify(library, record)? {
            RecordClass::Handshake => {}
            // Within a message that the library holds there can be no early data.
            _ if !is_first => {}
            _ if self.is_early_refused(library) => return Ok(true),
            class => self.shown_early = Some(class),
        }
        Ok(false)
    }

    fn note_taken(&mut self) {
        if self.shown_early.take().is_some() {
            // The record was accepted, and the library handles early data from here on.
            self.skipper = None;
        }
    }

    /// Handles a record of early data for which the library produced no output.
    fn drops_shown(&mut self) -> Result<bool, HandshakeFault> {
        let Some(class) = self.shown_early.take() else {
            return Ok(false);
        };
        if class == RecordClass::EarlyMessage {
            // The library may have kept a part of a message, and panics if that is gone. No client
            // sends such a part: EndOfEarlyData has four bytes.
            let detail = "a part of a message among early data";
            return Err(HandshakeFault::violation(alert::UNEXPECTED_MESSAGE, detail));
        }
        if let Some(skipper) = &mut self.skipper {
            skipper.is_refused = true;
        }
        Ok(true)
    }

    fn begin_early(&mut self) -> Option<&mut Vec<u8>> {
        self.has_early = true;
        self.skipper = None;
        self.shown_early = None;
        Some(&mut self.early)
    }

    fn note_sent(&mut self, library: &CommonState, record: &[u8]) {
        const SERVER_HELLO: u8 = 2;
        const RANDOM_AT: usize = HEADER_BYTES + 4 + 2;
        let is_tls12 = version_of(library) == Some(Version::Tls12);
        match record.first() {
            Some(&CHANGE_CIPHER_SPEC) => self.is_sealing |= is_tls12,
            Some(&HIDDEN) if library.is_handshaking() => {
                self.is_sealing = true;
                self.first_secret = None;
            }
            // Tickets.
            Some(&HIDDEN) => self.sealed += 1,
            Some(_) if self.is_sealing => self.sealed += 1,
            Some(&HANDSHAKE) if record.get(HEADER_BYTES) == Some(&SERVER_HELLO) => {
                let random = record.get(RANDOM_AT..).and_then(|rest| rest.first_chunk());
                self.server_random = *random.unwrap_or(&self.server_random);
            }
            Some(_) | None => {}
        }
    }

    fn closed() -> HandshakeFault {
        HandshakeFault::closed()
    }

    fn has_data() -> HandshakeFault {
        unexpected("data in a handshake".into())
    }

    fn fault_of(
        &mut self,
        library: &CommonState,
        error: &Error,
        alert: Option<usize>,
        outgoing: &mut Vec<u8>,
    ) -> HandshakeFault {
        let suite = suite_of(library);
        self.take_secrets(suite);
        let alert =
            alert.map_or(LibraryAlert::Missing, |start| self.hold_back(suite, start, outgoing));
        HandshakeFault::of(error, alert, version_of(library))
    }
}

impl ServerSide {
    /// Withholds an alert of the library if it can be read, because it may have to be replaced.
    fn hold_back(
        &self,
        suite: Option<Suite>,
        start: usize,
        outgoing: &mut Vec<u8>,
    ) -> LibraryAlert {
        let record = outgoing.get(start..).unwrap_or_default();
        let description = match record {
            &[ALERT, .., description] if !self.is_sealing => Some(description),
            _ => self.sending_keys(suite).and_then(|keys| {
                let mut plain = vec![0; record.len()];
                let opened = keys.opener(self.sealed)?.open(record, &mut plain);
                (opened == Ok((ContentType::Alert, 2))).then(|| plain[1])
            }),
        };
        match description {
            None => LibraryAlert::Sent,
            Some(description) => {
                outgoing.truncate(start);
                LibraryAlert::HeldBack(description)
            }
        }
    }

    /// Returns the keys of our records, if the handshake has reached its last key.
    fn sending_keys(&self, suite: Option<Suite>) -> Option<SendingKeys> {
        SendingKeys::new(suite?, self.secret.as_ref()?, &self.server_random)
    }

    /// Appends a fatal alert, sealed if necessary. In TLS 1.3 the key of our handshake messages
    /// seals an alert that replaces the first of them, because no signature came; while later ones
    /// are sent, no record of a client is read.
    fn append_alert(&self, suite: Option<Suite>, description: u8, outgoing: &mut Vec<u8>) {
        const FATAL: u8 = 2;
        let first = self.first_secret.as_ref().filter(|_| !self.is_sealing).zip(suite);
        let sealer = match first {
            Some((secret, suite)) => {
                SendingKeys::new(suite, secret, &self.server_random).and_then(|keys| keys.sealer(0))
            }
            None if !self.is_sealing => {
                return outgoing.extend_from_slice(&alert::alert_record(description));
            }
            None => self.sending_keys(suite).and_then(|keys| keys.sealer(self.sealed)),
        };
        if let Some(mut sealer) = sealer {
            let content = [FATAL, description];
            let start = outgoing.len();
            if sealer.append(ContentType::Alert, &content, outgoing).is_err() {
                outgoing.truncate(start);
            }
        }
    }

    /// Stores the secrets that the library has logged.
    fn take_secrets(&mut self, suite: Option<Suite>) {
        let secrets = context::with(|context| mem::take(&mut context.secrets));
        if let Some(skipper) = &mut self.skipper {
            skipper.learn(suite, &secrets);
        }
        self.secret = secrets.server.or_else(|| self.secret.take());
        self.client_secret = secrets.client.or_else(|| self.client_secret.take());
        if !self.is_sealing {
            self.first_secret = secrets.own_handshake.or_else(|| self.first_secret.take());
        }
    }

    fn classify(
        &mut self,
        library: &CommonState,
        record: &[u8],
    ) -> Result<RecordClass, HandshakeFault> {
        self.take_secrets(suite_of(library));
        let is_over = match record.first() {
            // A second hello follows all early data (RFC 8446 section 4.2.10).
            Some(&HANDSHAKE) => is_retried(library),
            // TLS 1.2 has no early data (appendix D.3).
            _ => version_of(library) == Some(Version::Tls12),
        };
        if is_over {
            self.skipper = None;
        }
        let Some(skipper) = self.skipper.as_mut() else {
            return Ok(RecordClass::Handshake);
        };
        if record.first() != Some(&HIDDEN) {
            return Ok(RecordClass::Handshake);
        }
        match skipper.judge(record) {
            RecordClass::Handshake => {
                self.skipper = None;
                Ok(RecordClass::Handshake)
            }
            class @ (RecordClass::Early | RecordClass::EarlyMessage) => Ok(class),
            RecordClass::TooMuch => Err(HandshakeFault::violation(
                alert::UNEXPECTED_MESSAGE,
                "more early data than anybody takes",
            )),
        }
    }

    /// Reports whether early data is known to be refused, as it is if no session is resumed.
    fn is_early_refused(&self, library: &CommonState) -> bool {
        is_full(library) || self.skipper.as_ref().is_some_and(|one| one.is_refused)
    }
}

fn is_retried(library: &CommonState) -> bool {
    use rustls::HandshakeKind::FullWithHelloRetryRequest;
    library.handshake_kind() == Some(FullWithHelloRetryRequest)
}

/// Reports whether it is known that no session is resumed.
fn is_full(library: &CommonState) -> bool {
    let kind = library.handshake_kind();
    kind.is_some_and(|kind| kind != rustls::HandshakeKind::Resumed)
}

/// Early data exists in TLS 1.3 alone. The library copies; the amount sent so early is small.
impl RecordSealer for Handshake {
    fn layout(&self) -> RecordLayout {
        RecordLayout::TLS13
    }

    fn seal(&mut self, record: &mut [u8]) -> Result<(), KeyExhausted> {
        let RecordLayout { head, tail } = self.layout();
        let plain = record[head..record.len() - tail].to_vec();
        self.driver.seal(&plain, record)?;
        self.driver.side.sealed += 1;
        Ok(())
    }
}

fn unexpected(detail: String) -> HandshakeFault {
    HandshakeFault::violation(alert::UNEXPECTED_MESSAGE, detail)
}

/// Maximum number of bytes that are skipped, with the records' overhead: four times the limit of
/// any service, because another configuration may have allowed a client more.
const SKIPPED_BYTES_MAX: usize = 1 << 20;

/// Separates refused early data from the handshake, so that the library need not see it.
///
/// A client sends early data before it knows whether it is accepted. If not, the server has to skip
/// records that it cannot open, up to the first record of the handshake (RFC 8446 section 4.2.10).
/// The library's unbuffered interface retries each such record on every call, until it gives up. So
/// we try to open it, with the key of the client's handshake messages, which the library reports
/// through its key log; the library gets the first record that opens.
pub(crate) struct Skipper {
    /// Key of the client's handshake messages, once it is known.
    handshake: Option<KeyOpener>,
    /// Key of the client's early data, if a session is resumed.
    early: Option<KeyOpener>,
    /// Whether early data is known to be refused.
    pub(crate) is_refused: bool,
    left: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RecordClass {
    Handshake,
    Early,
    /// EndOfEarlyData or a part of it, or an alert, among early data.
    EarlyMessage,
    /// More early data than anybody may send.
    TooMuch,
}

impl Skipper {
    pub(crate) fn new() -> Self {
        Self { handshake: None, early: None, is_refused: false, left: SKIPPED_BYTES_MAX }
    }

    /// Stores the keys, if this step has logged their secrets.
    pub(crate) fn learn(&mut self, suite: Option<Suite>, secrets: &Secrets) {
        let key = |secret: &Option<LoggedSecret>| opener_of(suite?, secret.as_ref()?);
        self.handshake = self.handshake.take().or_else(|| key(&secrets.handshake));
        self.early = self.early.take().or_else(|| key(&secrets.early));
    }

    /// Classifies a record of hidden type. While there are no keys, after a HelloRetryRequest, all
    /// such records are early data.
    pub(crate) fn judge(&mut self, record: &[u8]) -> RecordClass {
        if opened_first(self.handshake.as_ref(), record).is_some() {
            return RecordClass::Handshake;
        }
        match self.left.checked_sub(record.len()) {
            None => RecordClass::TooMuch,
            Some(left) => {
                self.left = left;
                self.class_of_early(record)
            }
        }
    }

    /// Classifies a record of early data, whose first record can be opened.
    fn class_of_early(&self, record: &[u8]) -> RecordClass {
        match opened_first(self.early.as_ref(), record) {
            None | Some(Ok((ContentType::ApplicationData, _))) => RecordClass::Early,
            Some(_) => RecordClass::EarlyMessage,
        }
    }
}

/// Returns the content of the first record under this key; `None` = this is not that record.
fn opened_first(
    key: Option<&KeyOpener>,
    record: &[u8],
) -> Option<Result<(ContentType, usize), RecordFault>> {
    let mut plain = Zeroizing::new(vec![0; record.len()]);
    let opened = key?.open_at(0, record, &mut plain);
    (!matches!(opened, Err(RecordFault::BadMac | RecordFault::Underflow))).then_some(opened)
}

#[cfg(test)]
mod early_tests {
    use super::*;

    use crate::secrets::first_record;

    #[test]
    fn what_opens_is_the_handshakes_and_the_rest_is_bounded() {
        let suite = Suite::Tls13Aes128GcmSha256;
        let record = first_record(suite, &[7; 32], b"x");

        let mut skipper = Skipper::new();
        assert_eq!(skipper.judge(&record), RecordClass::Early);
        let secrets = Secrets { handshake: Some(vec![7; 32].into()), ..Secrets::default() };
        skipper.learn(Some(suite), &secrets);
        assert_eq!(skipper.judge(&record), RecordClass::Handshake);
        let early = vec![23; 16_000];
        let skipped = (0..).take_while(|_| skipper.judge(&early) == RecordClass::Early);
        assert_eq!(skipped.count(), SKIPPED_BYTES_MAX / 16_000);
        assert_eq!(skipper.judge(&early), RecordClass::TooMuch);
        assert_eq!(skipper.judge(&record), RecordClass::Handshake);
    }
}
