//! The input and output of every dialog: the sides that speak STARTTLS, and what is to be done
//! next.

use std::fmt;

use crate::text::is_control;

/// Whether clients of a front have to ask for TLS.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Policy {
    /// One that does not is refused in the words of its protocol.
    Required,
    /// One that does not is relayed as it is.
    Optional,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sides {
    /// Clients, and what they have to do; `None` = they speak plaintext or TLS from the first byte.
    pub front: Option<Policy>,
    pub back: bool,
}

/// The names of hosts that a dialog says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HostNames<'a> {
    /// This host's, which mail servers are told: a name of the DNS, or an address literal (RFC 5321
    /// section 4.1.1.1).
    pub own: &'a str,
    /// The server's, where a client or the server itself is told it; `None` = it is not known.
    pub server: Option<&'a str>,
}

/// The outcome of a call: bytes that go out now, in plaintext or in the TLS that is up on that
/// side, and what is to be done behind them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    pub to_client: Vec<u8>,
    /// To the server. If none is connected yet, one has to be; what the client's bytes led to waits
    /// for TLS to the server, if that is asked for.
    pub to_server: Vec<u8>,
    /// The step behind these bytes.
    pub next: Next,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Next {
    /// More bytes are needed.
    #[default]
    More,
    /// The client begins TLS once it has read what goes to it; [`Dialog::client_tls_up`] then. It
    /// has sent nothing behind its request.
    ///
    /// [`Dialog::client_tls_up`]: super::Dialog::client_tls_up
    StartClientTls,
    /// The client begins TLS without waiting for an answer: these are the first bytes of it.
    ClientTlsBegun(Vec<u8>),
    /// TLS is to be begun towards the server once it has been sent what goes to it;
    /// [`Dialog::server_tls_up`] then. It has sent nothing behind its answer.
    ///
    /// [`Dialog::server_tls_up`]: super::Dialog::server_tls_up
    StartServerTls,
    /// Cryptography is needed; [`Dialog::password_done`] then.
    ///
    /// [`Dialog::password_done`]: super::Dialog::password_done
    Password(PasswordTask),
    /// The dialog is over: all further bytes pass as they are.
    Relay,
    /// The client has said all that it may. These bytes go to each server of the back, one after
    /// the other, each asked for TLS first where that is to be; what servers answer stays here.
    Broadcast(Vec<u8>),
    /// The connection ends once the client has been sent what goes to it.
    Fail(Fault),
}

/// The work on a password that the server or the client wants encrypted, always by RSA-OAEP with
/// SHA-1.
#[derive(Clone, PartialEq)]
pub enum PasswordTask {
    Encrypt {
        /// The server's public key, as it sent it: `SubjectPublicKeyInfo` in PEM.
        key: Vec<u8>,
        /// At most 64 KiB.
        password: Vec<u8>,
    },
    /// Give a public key of our own, `SubjectPublicKeyInfo` in PEM.
    OwnKey,
    /// Decrypt what the client encrypted for that key.
    Decrypt(Vec<u8>),
}

impl fmt::Debug for PasswordTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Encrypt { .. } => "Encrypt",
            Self::OwnKey => "OwnKey",
            Self::Decrypt(_) => "Decrypt",
        })
    }
}

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// The client may not speak without TLS, and went on to.
    #[error("the client went on without TLS, which is required")]
    TlsRequired,
    /// The client sent bytes behind its request for TLS (CVE-2011-0411).
    #[error("the client sent {0} bytes behind its request for TLS, before TLS")]
    Injection(usize),
    /// The client's first bytes are a ClientHello, in a protocol that has it ask for TLS first.
    #[error("the client began TLS without asking for it")]
    TlsUnasked,
    /// The client began TLS at once, as it may, but has not agreed on this application protocol.
    #[error("the client began TLS without agreeing on the application protocol {0}")]
    ProtocolNotAgreed(&'static str),
    /// The client's: what it sent is not of the protocol, or longer than is allowed.
    #[error("the client sent {0}")]
    ClientMalformed(&'static str),
    /// The client's: it binds its login to the certificate that it was shown, and the server has
    /// another one.
    #[error("the client wants channel binding, and the server has another certificate")]
    BoundElsewhere,
    /// The server's: it refused the connection or TLS; its words.
    #[error("the server answered \"{0}\"")]
    ServerRefused(String),
    /// The server's: it offers no TLS.
    #[error("the server offers no {0}")]
    ServerWithoutTls(&'static str),
    /// The server's: what it sent is not of the protocol, or longer than is allowed.
    #[error("the server sent {0}")]
    ServerMalformed(&'static str),
}

impl Fault {
    /// Whether the server is to blame, and not the client.
    pub fn is_of_server(&self) -> bool {
        match self {
            Self::TlsRequired
            | Self::Injection(_)
            | Self::TlsUnasked
            | Self::ProtocolNotAgreed(_)
            | Self::ClientMalformed(_)
            | Self::BoundElsewhere => false,
            Self::ServerRefused(_) | Self::ServerWithoutTls(_) | Self::ServerMalformed(_) => true,
        }
    }
}

impl Output {
    /// Fails, with these last words to the client.
    pub(super) fn fail(&mut self, fault: Fault, words: &[u8]) {
        self.to_client.extend_from_slice(words);
        self.next = Next::Fail(fault);
    }

    /// Whether the dialog goes on with what is there.
    pub(super) fn goes_on(&self) -> bool {
        self.next == Next::More
    }
}

impl Next {
    /// The step behind a server's consent to TLS, by what it sent beyond that.
    pub(super) fn after_consent(rest: &[u8]) -> Self {
        if rest.is_empty() {
            return Self::StartServerTls;
        }
        let what = "bytes behind its answer to the request for TLS";
        Self::Fail(Fault::ServerMalformed(what))
    }
}

/// The first byte of a TLS handshake (RFC 8446 section 5.1). A version follows, of two bytes: no
/// dialect's client begins so and asks for TLS, or goes on without it.
pub(super) const HANDSHAKE: u8 = 22;
/// How many bytes tell that.
pub(super) const BEGINNING_BYTES: usize = 3;

/// The longest words of a server that a log repeats, in bytes.
const WORDS_BYTES_MAX: usize = 200;

/// A refusal in the server's own words, without what would disturb a log.
pub(super) fn refusal(words: &[u8]) -> Fault {
    let words = words.get(..WORDS_BYTES_MAX).unwrap_or(words);
    let text = String::from_utf8_lossy(words);
    let clean = text.trim_end().chars();
    let clean = clean.map(|c| if is_control(c) { ' ' } else { c });
    Fault::ServerRefused(clean.collect())
}

/// One dialect's dialog; [`super::Dialog`] says what each call is for.
pub(super) trait Steps {
    fn client_sent(&mut self, bytes: &[u8], out: &mut Output);
    fn server_sent(&mut self, bytes: &[u8], out: &mut Output);
    /// The application protocol of the client's TLS.
    fn client_agreed(&mut self, _protocol: Option<&[u8]>) {}
    fn client_tls_up(&mut self, out: &mut Output);
    fn server_tls_up(&mut self, out: &mut Output);
    fn server_connected(&mut self, out: &mut Output);
    /// Gives up what is held of a server that says no more: the client's part of it. What came
    /// before TLS that was asked for is nobody's.
    fn server_ended(&mut self) -> Vec<u8>;
    /// Servers get TLS, whether or not they are asked for it.
    fn server_is_secured(&mut self) {}
    /// The server's TLS is about to be up, and its certificate is not the one that the client got.
    fn server_has_other_certificate(&mut self) {}
    /// Takes the result of [`Next::Password`], which only a dialog that gave it must expect.
    fn password_done(&mut self, _result: Option<Vec<u8>>, _out: &mut Output) {}
    /// Whether the server is on a Unix socket.
    fn server_is_local(&mut self, _is_local: bool) {}
    /// The bytes for the client if no server can be reached.
    fn unavailable(&self) -> Vec<u8>;
    /// Whether the client was told that it must use TLS first, and may still do so.
    fn has_refused(&self) -> bool {
        false
    }
    /// Whether the server is to speak next.
    fn expects_server(&self) -> bool;
    /// Whether something whole of the client's waits for the server's answer to what came before.
    fn is_holding(&self) -> bool {
        false
    }
    /// Whether the client has TLS and has to log in before anything else.
    fn is_login_due(&self) -> bool {
        false
    }
}
