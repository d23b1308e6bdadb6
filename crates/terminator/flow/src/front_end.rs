//! The client's end, from its first byte to the end of its handshake, and the sealing of its bytes.
//!
//! Handles the order of its parts: PROXY header and STARTTLS dialog where they come, ClientHello,
//! handshake. `connection` decides what follows, also after a failure.

use std::time::Instant;

use telemetry::outcome::{EarlyData, HandshakeKind, Reason, ResumptionMiss};
use tls::challenge;
use tls::handshake::{CompletedHandshake, Handshake, HandshakeFault, NegotiatedParameters};
use tls::options::{Tls13Sessions, Version};
use tls::record::{KeyExhausted, RecordLayout, RecordSealer};
use tls::resumption::OfferedSession;
use tls::server::Server;
use tls::traffic::Traffic;
use wire::client_hello::{self, ClientHello, HelloFault, HelloProgress, Reader};
use wire::proxy_header::{self, HeaderGuess, ProxyFault};
use wire::server_session::SessionId;

use crate::buffer::Buffer;
use crate::facts;
use crate::facts::{CertificateAlgorithms, ConnectionEnd, ConnectionFacts, PassingSession};
use crate::options::{Front, SendProxy, Settings};
use crate::relay::AS_IS;
use crate::state::{EndState, KtlsState};

#[derive(Default)]
pub(crate) struct FrontEnd {
    pub(crate) state: EndState<Handshaking>,
    /// State of the kernel's encryption, once TLS is up.
    pub(crate) ktls: KtlsState,
    /// Whether the client's TCP stream has ended.
    pub(crate) is_ended: bool,
    /// Whether first bytes in plaintext must not be a PROXY header.
    pub(crate) may_be_header: bool,
    /// Time until which first bytes in plaintext may be an authority's request.
    pub(crate) challenge_until: Option<Instant>,
    /// Whether bytes for the client wait outside of our buffers: in a pipe, or in a file.
    pub(crate) is_answering: bool,
    /// Time at which the client was greeted, if it had to wait for that.
    pub(crate) greeted: Option<Instant>,
    /// Deadline of the search for a session beyond this host.
    pub(crate) fetch_until: Option<Instant>,
}

impl FrontEnd {
    /// Creates the end before its first byte.
    pub(crate) fn new(expects_proxy_header: bool, settings: &Settings) -> Self {
        Self {
            state: if expects_proxy_header {
                EndState::Handshaking(Handshaking::ProxyHeader)
            } else {
                after_header(settings)
            },
            may_be_header: settings.accepts_proxy && !expects_proxy_header,
            ..Self::default()
        }
    }

    /// Reports whether the client has to be admitted first.
    pub(crate) fn needs_admission(&self) -> bool {
        matches!(self.state.handshake(), Some(Handshaking::Admission))
    }

    /// Continues with an admitted client.
    pub(crate) fn admit(&mut self, settings: &Settings) {
        if self.needs_admission() {
            self.state = after_header(settings);
        }
    }

    /// Reports whether the service has to be chosen first.
    pub(crate) fn needs_route(&self) -> bool {
        matches!(self.state.handshake(), Some(Handshaking::Routing))
    }

    /// Returns the session that has to be looked for first.
    pub(crate) fn wanted_session(&self) -> Option<OfferedSession> {
        match self.state.handshake() {
            Some(Handshaking::Fetching(key)) => Some(*key),
            _ => None,
        }
    }

    /// Reads the hello, again if it had to wait for an answer.
    pub(crate) fn read_hello(&mut self) {
        self.state = EndState::Handshaking(Handshaking::hello());
    }

    /// Returns the sealer of the bytes for the client; `None` = it cannot be sent any now.
    pub(crate) fn sealer(&mut self) -> Option<FrontSealer<'_>> {
        match &mut self.state {
            EndState::Plain => Some(FrontSealer::Plain),
            EndState::Tls(traffic) => Some(FrontSealer::Tls(traffic)),
            EndState::Handshaking(Handshaking::Handshake(handshake)) => {
                handshake.can_seal().then_some(FrontSealer::Early(handshake))
            }
            EndState::Handshaking(_)
            | EndState::Dialog(_)
            | EndState::Tunnel(_)
            | EndState::Closed => None,
        }
    }
}

/// Sealer of the bytes for a client. Early data is answered before the handshake is over.
pub(crate) enum FrontSealer<'f> {
    Plain,
    Early(&'f mut Handshake),
    Tls(&'f mut Traffic),
}

impl RecordSealer for FrontSealer<'_> {
    fn layout(&self) -> RecordLayout {
        match self {
            Self::Plain => AS_IS,
            Self::Early(handshake) => handshake.layout(),
            Self::Tls(traffic) => traffic.layout(),
        }
    }

    fn seal(&mut self, record: &mut [u8]) -> Result<(), KeyExhausted> {
        match self {
            Self::Plain => Ok(()),
            Self::Early(handshake) => handshake.seal(record),
            Self::Tls(traffic) => traffic.seal(record),
        }
    }
}

fn after_header(settings: &Settings) -> EndState<Handshaking> {
    match &settings.starttls {
        Some(starttls) if starttls.sides.front.is_some() => EndState::Dialog(Handshaking::hello()),
        _ => EndState::Handshaking(Handshaking::hello()),
    }
}

/// Progress of the handshake.
pub(crate) enum Handshaking {
    /// A PROXY header has to come first.
    ProxyHeader,
    /// The client that the header names has to be admitted.
    Admission,
    /// The ClientHello is not yet whole.
    Hello(Reader),
    /// The service that the hello asks for has to be chosen.
    Routing,
    /// The session that the hello offers is looked for beyond this host.
    Fetching(OfferedSession),
    /// The handshake is under way.
    Handshake(Box<Handshake>),
}

pub(crate) enum HandshakeProgress {
    Waiting,
    /// The hello is whole, and the client's TLS is passed through.
    Passthrough,
    Established(CompletedHandshake),
}

impl Handshaking {
    pub(crate) fn hello() -> Self {
        Self::Hello(Reader::default())
    }

    /// Processes received bytes. Bytes to send, alerts included, are appended to `out`, and early
    /// data to `early`.
    pub(crate) fn advance(
        &mut self,
        incoming: &mut Buffer,
        settings: &Settings,
        facts: &mut ConnectionFacts,
        out: &mut Vec<u8>,
        early: &mut Vec<u8>,
    ) -> Result<HandshakeProgress, ConnectionEnd> {
        if matches!(self, Self::ProxyHeader) {
            if !take_proxy_header(incoming, settings, facts)? {
                return Ok(HandshakeProgress::Waiting);
            }
            *self = Self::Admission;
        }
        if let Self::Hello(reader) = self {
            match take_hello(reader, incoming, settings, facts, out)? {
                HelloOutcome::Incomplete => return Ok(HandshakeProgress::Waiting),
                HelloOutcome::ToBeRouted => *self = Self::Routing,
                HelloOutcome::ToBeFetched(key) => *self = Self::Fetching(key),
                HelloOutcome::Passthrough => return Ok(HandshakeProgress::Passthrough),
                HelloOutcome::Begun(handshake) => *self = Self::Handshake(handshake),
            }
        }
        let Self::Handshake(handshake) = self else {
            return Ok(HandshakeProgress::Waiting);
        };
        let step = handshake.advance(incoming.data_mut(), out);
        facts.resumption_miss = handshake.miss();
        if facts.early_data.is_some() && facts.resumption_miss == Some(ResumptionMiss::Unknown) {
            facts.early_data = Some(EarlyData::UnknownSession);
        }
        let step = step.map_err(ending_of_handshake)?;
        handshake.take_early_data(early);
        incoming.consume(step.consumed);
        if !step.done {
            return Ok(HandshakeProgress::Waiting);
        }
        let Self::Handshake(handshake) = std::mem::replace(self, Self::ProxyHeader) else {
            return Ok(HandshakeProgress::Waiting);
        };
        let established = handshake.finish().map_err(ending_of_handshake)?;
        if established.agreed.alpn.as_deref() == Some(challenge::PROTOCOL) {
            // RFC 8737 section 3: the authority wanted only the handshake.
            return Err(ConnectionEnd::new(Reason::AcmeValidation));
        }
        Ok(HandshakeProgress::Established(established))
    }

    /// Returns the parameters of early data, all agreed on before the handshake's end.
    pub(crate) fn agreed(&self) -> Option<NegotiatedParameters> {
        match self {
            Self::Handshake(handshake) => handshake.agreed().ok(),
            _ => None,
        }
    }
}

/// Consumes the PROXY header. Returns whether it was complete.
fn take_proxy_header(
    incoming: &mut Buffer,
    settings: &Settings,
    facts: &mut ConnectionFacts,
) -> Result<bool, ConnectionEnd> {
    let malformed =
        |fault: ProxyFault| ConnectionEnd::with(Reason::ProxyHeaderMalformed, fault.to_string());
    let Some(parsed) = proxy_header::read(incoming.data()).map_err(malformed)? else {
        return Ok(false);
    };
    // The connection's own addresses count with LOCAL or unknown addresses.
    if let Some(source) = parsed.header.addresses.source() {
        facts.route.source = Some(source);
        facts.route.destination = parsed.header.addresses.destination();
    }
    facts.has_proxy_header = true;
    let wire_bytes = parsed.wire_bytes;
    if settings.send_proxy == SendProxy::Pass {
        facts.proxy_header = incoming.data().get(..wire_bytes).map(Into::into);
    }
    incoming.consume(wire_bytes);
    Ok(true)
}

enum HelloOutcome {
    Incomplete,
    ToBeRouted,
    ToBeFetched(OfferedSession),
    Passthrough,
    Begun(Box<Handshake>),
}

/// Begins the handshake if the hello is whole and we terminate the client's TLS.
fn take_hello(
    reader: &mut Reader,
    incoming: &Buffer,
    settings: &Settings,
    facts: &mut ConnectionFacts,
    out: &mut Vec<u8>,
) -> Result<HelloOutcome, ConnectionEnd> {
    let is_shared = matches!(settings.front, Front::Shared);
    if !is_shared && settings.send_proxy == SendProxy::Pass && facts.proxy_header.is_none() {
        return Err(facts::missing_header());
    }
    let hello = match reader.read(incoming.data()) {
        Ok(HelloProgress::Incomplete) => return Ok(HelloOutcome::Incomplete),
        Ok(HelloProgress::Hello(hello)) => hello,
        Err(fault) => return Err(ending_of_hello(&fault, incoming.data(), facts, out)),
    };
    facts.server_name = hello.server_name().map(|name| name.to_ascii_lowercase().into());
    facts.other_name = hello.other_name().map(printable_name);
    facts.ja4 = settings.ja4.then(|| hello.ja4(tls::identity::sha256).into());
    let server = match &settings.front {
        Front::Terminate(server) => server,
        Front::Shared => return Ok(HelloOutcome::ToBeRouted),
        Front::Passthrough | Front::Plain(_) => {
            let mut protocols = hello.alpn_protocols();
            facts.only_protocol = protocols.next().map(Into::into);
            facts.only_protocol.take_if(|_| protocols.next().is_some());
            return Ok(pass_by(&hello, settings, facts));
        }
    };
    if facts.session_tier.is_none()
        && let Some(key) = server.session_elsewhere(&hello)
    {
        return Ok(HelloOutcome::ToBeFetched(key));
    }
    let config = server.select(&hello).map_err(|refusal| {
        out.extend_from_slice(&client_hello::alert_record(refusal.alert));
        let (reason, detail) = (refusal.reason, refusal.detail);
        detail.map_or_else(
            || ConnectionEnd::new(reason),
            |detail| ConnectionEnd::with(reason, detail),
        )
    })?;
    if matches!(&settings.send_proxy, SendProxy::V2(tlvs) if tlvs.ssl) {
        facts.certificate = server.certificate_for(&hello).map(|one| {
            Box::new(CertificateAlgorithms {
                signature: one.signature_algorithm.clone(),
                key: one.key_algorithm.clone(),
            })
        });
    }
    note_shown_certificate(server, &hello, settings, facts);
    facts.handshake = Some(kind_if_resumed(&hello));
    facts.early_data = hello.offers_early_data().then_some(EarlyData::Refused);
    let handshake = Handshake::new(config, &hello).map_err(ending_of_handshake)?;
    Ok(HelloOutcome::Begun(Box::new(handshake)))
}

/// Returns the bytes in the place of a name, for the log.
fn printable_name(bytes: &[u8]) -> Box<str> {
    let text = String::from_utf8_lossy(bytes);
    let shown = text.chars().take(OTHER_NAME_CHARS_MAX);
    shown.collect::<String>().into()
}

/// Most characters that are logged of an invalid name: as many as of a name.
const OTHER_NAME_CHARS_MAX: usize = 253;

/// Passes a client's TLS through, once the place of its session is known, if that matters.
fn pass_by(
    hello: &ClientHello<'_>,
    settings: &Settings,
    facts: &mut ConnectionFacts,
) -> HelloOutcome {
    let Some(sessions) = &settings.passing_sessions else {
        return HelloOutcome::Passthrough;
    };
    let session = facts.passing_session.insert(offered_session(hello));
    let known = session.offered.filter(|_| !session.may_be_random);
    let elsewhere = known.and_then(|known| sessions.elsewhere(known.as_bytes()));
    match elsewhere {
        Some(key) if facts.session_tier.is_none() => HelloOutcome::ToBeFetched(key),
        _ => HelloOutcome::Passthrough,
    }
}

/// Notes the certificate that a login may be bound to: it is compared with the server's later.
fn note_shown_certificate(
    server: &Server,
    hello: &ClientHello<'_>,
    settings: &Settings,
    facts: &mut ConnectionFacts,
) {
    if settings.starttls.is_some() && settings.back_tls.is_some() {
        let shown = server.certificate_for(hello);
        facts.shown_certificate = shown.map(|one| one.fingerprint);
    }
}

fn offered_session(hello: &ClientHello<'_>) -> Box<PassingSession> {
    let ticket = hello.session_ticket().and_then(SessionId::of_ticket);
    let id = SessionId::new(hello.session_id());
    Box::new(PassingSession {
        offered: ticket.or(id),
        may_be_random: ticket.is_none() && hello.highest_version() > 0x0303,
        id,
        agreed: None,
    })
}

/// Returns the means by which a session of TLS 1.2 would be resumed.
fn kind_if_resumed(hello: &ClientHello<'_>) -> HandshakeKind {
    if hello.session_ticket().is_some_and(|ticket| !ticket.is_empty()) {
        HandshakeKind::Ticket
    } else {
        HandshakeKind::SessionId
    }
}

/// Returns the kind of a handshake with these parameters.
pub(crate) fn kind_of(
    agreed: &NegotiatedParameters,
    offered: Option<HandshakeKind>,
    settings: &Settings,
) -> HandshakeKind {
    match (agreed.resumed, agreed.version) {
        (false, _) => HandshakeKind::Full,
        (true, Version::Tls13) => match settings.tls13_sessions() {
            Tls13Sessions::Tickets => HandshakeKind::Psk,
            Tls13Sessions::Cache { .. } => HandshakeKind::PskCache,
        },
        (true, Version::Tls12) if offered == Some(HandshakeKind::Ticket) => HandshakeKind::Ticket,
        (true, Version::Tls12) => HandshakeKind::SessionId,
    }
}

/// Returns the most early data that a client of the service may send, in bytes.
pub(crate) fn early_bytes_max(settings: &Settings) -> u32 {
    match settings.tls13_sessions() {
        Tls13Sessions::Tickets => 0,
        Tls13Sessions::Cache { early_data_bytes_max } => early_data_bytes_max,
    }
}

fn ending_of_hello(
    fault: &HelloFault,
    bytes: &[u8],
    facts: &ConnectionFacts,
    out: &mut Vec<u8>,
) -> ConnectionEnd {
    if let Some(alert) = fault.alert() {
        out.extend_from_slice(&client_hello::alert_record(alert));
    }
    let reason = match fault {
        HelloFault::NotTls if proxy_header::likeness(bytes) == HeaderGuess::Yes => {
            if facts.has_proxy_header {
                let detail = "a second one follows the first; of two balancers let one add it";
                return ConnectionEnd::with(Reason::ProxyHeaderMalformed, detail);
            }
            Reason::ProxyHeaderUntrusted
        }
        HelloFault::NotTls => Reason::NotTls,
        HelloFault::PlainHttp => Reason::PlainHttp,
        HelloFault::Sslv2 | HelloFault::VersionTooOld { .. } => Reason::VersionTooOld,
        HelloFault::Unexpected(_)
        | HelloFault::Malformed(_)
        | HelloFault::Illegal(_)
        | HelloFault::Renegotiation => Reason::HelloMalformed,
        HelloFault::RecordTooLarge(_) | HelloFault::TooLarge(_) => Reason::HelloTooLarge,
    };
    if reason == Reason::PlainHttp {
        out.extend_from_slice(PLAIN_HTTP_ANSWER);
    }
    ConnectionEnd::with(reason, fault.to_string())
}

/// Answer that a browser without the `s` can show.
const PLAIN_HTTP_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain\r\n\
    Content-Length: 52\r\n\
    Connection: close\r\n\
    \r\n\
    This port speaks HTTPS; use https:// in the address\n";

fn ending_of_handshake(fault: HandshakeFault) -> ConnectionEnd {
    ConnectionEnd::with(fault.reason, fault.to_string())
}
