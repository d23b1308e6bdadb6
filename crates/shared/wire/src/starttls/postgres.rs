//! PostgreSQL: the request for TLS before the startup packet (PostgreSQL's documentation, "Message
//! Flow", SSL Session Encryption), and TLS from the first byte, which clients since PostgreSQL 17
//! may use.

mod binding;

use super::step::{DialogAction, Fault, HANDSHAKE, Output, Policy, StarttlsSides, Steps, refusal};
use binding::{Login, OfferWatch};

const SSL_REQUEST: u32 = 1234 << 16 | 5679;
const GSSENC_REQUEST: u32 = 1234 << 16 | 5680;
const CANCEL_REQUEST: u32 = 1234 << 16 | 5678;

/// Longest startup packet that servers accept, in bytes (MAX_STARTUP_PACKET_LENGTH).
const STARTUP_BYTES_MAX: usize = 10_000;

/// A request to cancel: its head, a process and its key, which protocol 3.2 has longer.
const CANCEL_BYTES_MIN: usize = 12 + 4;
const CANCEL_BYTES_MAX: usize = 12 + 256;

/// Longest error that is awaited, in bytes.
const ERROR_BYTES_MAX: usize = 8 << 10;

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Server {
    /// The client's bytes go to the server.
    #[default]
    Open,
    /// The server must be asked for TLS, or was.
    Asked,
}

#[derive(Debug, Default)]
pub(super) struct Postgres {
    sides: StarttlsSides,
    has_client_tls: bool,
    /// Whether the client began TLS without a request for it.
    is_direct: bool,
    /// Whether such a client has not agreed on the application protocol.
    lacks_protocol: bool,
    /// Whether the client asked for GSSAPI encryption before, and the answer was no.
    has_asked_gss: bool,
    /// Whether the client asked for TLS before, and the answer was no.
    has_asked_tls: bool,
    has_refused: bool,
    server: Server,
    client: Vec<u8>,
    answer: Vec<u8>,
    /// Whether the client's bytes are for the server.
    has_begun: bool,
    /// Whether the bytes were a request to cancel a query, and nothing else passes.
    has_cancelled: bool,
    /// Whether the server's TLS is ours, and carries the client's login.
    is_server_secured: bool,
    has_other_certificate: bool,
    login: Login,
}

impl Postgres {
    pub(super) fn new(sides: StarttlsSides) -> Self {
        Self {
            sides,
            server: if sides.back { Server::Asked } else { Server::Open },
            is_server_secured: sides.back,
            ..Self::default()
        }
    }

    fn take_packets(&mut self, out: &mut Output) {
        while out.goes_on() && !self.has_begun {
            let is_first = !self.has_client_tls && !self.has_asked_gss;
            if self.client.first() == Some(&HANDSHAKE) && is_first && self.sides.front.is_some() {
                self.is_direct = true;
                out.next = DialogAction::ClientTlsBegun(std::mem::take(&mut self.client));
                return;
            }
            let Some((length, code)) = head(&self.client) else {
                return;
            };
            let is_request = matches!(code, SSL_REQUEST | GSSENC_REQUEST);
            if !(8..=STARTUP_BYTES_MAX).contains(&length) || is_request && length != 8 {
                let fault = Fault::ClientMalformed("a startup packet of an impossible length");
                return out.fail(fault, &error("08P01", "invalid length of startup packet"));
            }
            match code {
                GSSENC_REQUEST if is_first => {
                    self.client.drain(..8);
                    self.has_asked_gss = true;
                    out.to_client.push(b'N');
                }
                SSL_REQUEST if !self.has_client_tls && !self.has_asked_tls => {
                    self.ssl_requested(out);
                }
                SSL_REQUEST | GSSENC_REQUEST => {
                    let fault = Fault::ClientMalformed("a second request for encryption");
                    out.fail(
                        fault,
                        &error("08P01", "unsupported frontend protocol: encryption is active"),
                    );
                }
                // A server accepts them without TLS too, whatever it demands of other connections,
                // and older clients send them so.
                CANCEL_REQUEST => return self.cancel(length, out),
                _ if self.must_use_tls() => {
                    self.has_refused = true;
                    let words =
                        "this server requires TLS: connect with sslmode=require or stronger";
                    out.fail(Fault::TlsRequired, &error("28000", words));
                }
                _ => self.begin(length, out),
            }
        }
    }

    fn ssl_requested(&mut self, out: &mut Output) {
        self.client.drain(..8);
        if self.sides.front.is_none() {
            // The connection to the server is ours to protect.
            self.has_asked_tls = true;
            out.to_client.push(b'N');
        } else if self.client.is_empty() {
            out.to_client.push(b'S');
            out.next = DialogAction::StartClientTls;
        } else {
            let words = "received unencrypted data after SSL request";
            out.fail(Fault::Injection(self.client.len()), &error("08P01", words));
        }
    }

    fn must_use_tls(&self) -> bool {
        self.sides.front == Some(Policy::Required) && !self.has_client_tls
    }

    /// Passes one complete request on, and nothing else: to every server, because the server of its
    /// key is not known here. A server ignores a key that is not its own.
    fn cancel(&mut self, length: usize, out: &mut Output) {
        if self.client.len() > length || !(CANCEL_BYTES_MIN..=CANCEL_BYTES_MAX).contains(&length) {
            let fault = Fault::ClientMalformed("more or less than a request to cancel");
            out.fail(fault, &error("08P01", "invalid length of cancel request"));
        } else if self.client.len() == length {
            self.has_begun = true;
            self.has_cancelled = true;
            out.next = DialogAction::Broadcast(std::mem::take(&mut self.client));
        }
    }

    /// Passes the client's bytes unchanged from here on.
    fn begin(&mut self, length: usize, out: &mut Output) {
        self.has_begun = true;
        self.login = match (self.is_server_secured, self.has_client_tls) {
            (true, true) => Login::Choice(length, Vec::new()),
            (true, false) => Login::Offer(OfferWatch::default()),
            (false, _) => Login::Passing,
        };
        let bytes = std::mem::take(&mut self.client);
        self.pass(&bytes, out);
    }

    fn pass(&mut self, bytes: &[u8], out: &mut Output) {
        if self.login.client_sent(bytes) == Some(true) && self.has_other_certificate {
            return out.fail(Fault::BoundElsewhere, &error("28000", BOUND_ELSEWHERE));
        }
        out.to_server.extend_from_slice(bytes);
        self.relay_if_done(out);
    }

    fn relay_if_done(&self, out: &mut Output) {
        if self.has_begun && self.server == Server::Open && self.login.is_passing() {
            out.next = DialogAction::Relay;
        }
    }
}

impl Steps for Postgres {
    fn client_sent(&mut self, bytes: &[u8], out: &mut Output) {
        if self.has_begun {
            return self.pass(bytes, out);
        }
        self.client.extend_from_slice(bytes);
        self.take_packets(out);
    }

    fn server_sent(&mut self, bytes: &[u8], out: &mut Output) {
        if self.server == Server::Open {
            // Servers do not answer a request to cancel.
            if !self.has_cancelled {
                self.login.server_sent(bytes, &mut out.to_client);
                self.relay_if_done(out);
            }
            return;
        }
        self.answer.extend_from_slice(bytes);
        match self.answer.first() {
            None => {}
            Some(b'S') => out.next = DialogAction::after_consent(&self.answer[1..]),
            Some(b'N') => out.next = DialogAction::Fail(Fault::ServerWithoutTls("TLS")),
            Some(b'E') => {
                let length = self.answer.get(1..5).map(number);
                let end = length.map_or(usize::MAX, |length| length.saturating_add(1) as usize);
                if self.answer.len() >= end.min(ERROR_BYTES_MAX) {
                    let words = self.answer.get(5..).unwrap_or_default();
                    out.next = DialogAction::Fail(refusal(message(words)));
                }
            }
            Some(_) => {
                let what = "something that is no answer to a request for TLS";
                out.next = DialogAction::Fail(Fault::ServerMalformed(what));
            }
        }
    }

    /// Notes the application protocol. A client that begins TLS at once must name it, as servers
    /// since version 17 demand, lest a client of another protocol is redirected to them (ALPACA).
    fn client_agreed(&mut self, protocol: Option<&[u8]>) {
        self.lacks_protocol = self.is_direct && protocol != Some(b"postgresql");
    }

    fn client_tls_up(&mut self, out: &mut Output) {
        self.has_client_tls = true;
        self.client.clear();
        if self.lacks_protocol {
            let words = "TLS without a request for it needs the application protocol postgresql";
            let fault = Fault::ProtocolNotAgreed("postgresql");
            out.fail(fault, &error("08P01", words));
        }
    }

    fn server_tls_up(&mut self, out: &mut Output) {
        self.server = Server::Open;
        if !self.has_cancelled {
            self.relay_if_done(out);
        }
    }

    fn server_is_secured(&mut self) {
        self.is_server_secured = true;
    }

    fn server_has_other_certificate(&mut self) {
        self.has_other_certificate = true;
    }

    fn server_connected(&mut self, out: &mut Output) {
        if self.sides.back {
            self.server = Server::Asked;
            self.answer.clear();
            out.to_server.extend_from_slice(&8_u32.to_be_bytes());
            out.to_server.extend_from_slice(&SSL_REQUEST.to_be_bytes());
        }
    }

    fn server_ended(&mut self) -> Vec<u8> {
        if self.server == Server::Open { self.login.server_ended() } else { Vec::new() }
    }

    fn unavailable(&self) -> Vec<u8> {
        error("57P03", "no server is available")
    }

    fn has_refused(&self) -> bool {
        self.has_refused
    }

    fn expects_server(&self) -> bool {
        self.server == Server::Asked
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

/// Returns a packet's length and code, if both have come.
fn head(bytes: &[u8]) -> Option<(usize, u32)> {
    let length = number(bytes.get(..4)?);
    // A wrong length is known before the code.
    if !(8..=STARTUP_BYTES_MAX as u32).contains(&length) {
        return Some((0, 0));
    }
    Some((length as usize, number(bytes.get(4..8)?)))
}

fn error(code: &str, message: &str) -> Vec<u8> {
    let fields = format!("SFATAL\0VFATAL\0C{code}\0M{message}\0\0");
    let length = 4 + fields.len() as u32;
    [b"E", &length.to_be_bytes()[..], fields.as_bytes()].concat()
}

/// Message for a client that could not log in, with its remedies as a hint.
const BOUND_ELSEWHERE: &str = "channel binding is impossible: this proxy shows another certificate \
    than the server\0HConnect with channel_binding=disable, or have the proxy (Lariat) show the \
    server's own certificate, or reach the server without TLS.";

/// Returns the message of an ErrorResponse; errors from before version 3 are text alone.
fn message(fields: &[u8]) -> &[u8] {
    let mut fields = fields.split(|byte| *byte == 0);
    let message = fields.find_map(|field| field.strip_prefix(b"M"));
    message.unwrap_or(b"an error")
}
