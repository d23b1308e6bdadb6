//! Input and output of every dialog: the sides that use STARTTLS, and the next step.

use std::fmt;

use crate::text::is_control;

/// Whether clients of a front must ask for TLS.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Policy {
    /// Clients that do not are refused in the words of their protocol.
    Required,
    /// Clients that do not are relayed in plaintext.
    Optional,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StarttlsSides {
    /// Requirement for clients; `None` = they use plaintext or TLS from the first byte.
    pub front: Option<Policy>,
    pub back: bool,
}

/// Host names that a dialog sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HostNames<'a> {
    /// Name of this host, for mail servers: a name of the DNS, or an address literal (RFC 5321
    /// section 4.1.1.1).
    pub own: &'a str,
    /// Name of the server, where a client or the server itself is sent it; `None` = not known.
    pub server: Option<&'a str>,
}

/// Outcome of a call: bytes to send now, in plaintext or in the TLS that is up on that side, and
/// the step behind them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    pub to_client: Vec<u8>,
    /// Bytes for the server. If none is connected yet, one has to be; bytes that result from the
    /// client's wait for TLS to the server, if that is asked for.
    pub to_server: Vec<u8>,
    /// Step behind these bytes.
    pub next: DialogAction,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum DialogAction {
    /// More bytes are needed.
    #[default]
    More,
    /// Start of the client's TLS, once it has read the bytes for it; [`Dialog::client_tls_up`]
    /// then. It has sent nothing behind its request.
    ///
    /// [`Dialog::client_tls_up`]: super::Dialog::client_tls_up
    StartClientTls,
    /// Start of the client's TLS, which did not wait for an answer: these are its first bytes.
    ClientTlsBegun(Vec<u8>),
    /// Start of TLS towards the server, once it has been sent the bytes for it;
    /// [`Dialog::server_tls_up`] then. It has sent nothing behind its answer.
    ///
    /// [`Dialog::server_tls_up`]: super::Dialog::server_tls_up
    StartServerTls,
    /// Cryptography is needed; [`Dialog::password_done`] then.
    ///
    /// [`Dialog::password_done`]: super::Dialog::password_done
    Password(PasswordTask),
    /// The dialog is over: all further bytes pass unchanged.
    Relay,
    /// The client may send nothing more. These bytes go to each server of the back, one after the
    /// other, each asked for TLS first if required; the servers' answers are dropped.
    Broadcast(Vec<u8>),
    /// The connection ends once the client has been sent the bytes for it.
    Fail(Fault),
}

/// Work on a password that the server or the client wants encrypted, always by RSA-OAEP with SHA-1.
#[derive(Clone, PartialEq)]
pub enum PasswordTask {
    Encrypt {
        /// Public key of the server, as it sent it: `SubjectPublicKeyInfo` in PEM.
        key: Vec<u8>,
        /// Password of at most 64 KiB.
        password: Vec<u8>,
    },
    /// Returns a public key of our own, `SubjectPublicKeyInfo` in PEM.
    OwnKey,
    /// Decrypts bytes that the client encrypted for that key.
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
    /// The client must use TLS, but went on without it.
    #[error("the client went on without TLS, which is required")]
    TlsRequired,
    /// The client sent bytes behind its request for TLS (CVE-2011-0411).
    #[error("the client sent {0} bytes behind its request for TLS, before TLS")]
    Injection(usize),
    /// The client's first bytes are a ClientHello, in a protocol whose clients ask for TLS first.
    #[error("the client began TLS without asking for it")]
    TlsUnasked,
    /// The client began TLS at once, as it may, but has not agreed on this application protocol.
    #[error("the client began TLS without agreeing on the application protocol {0}")]
    ProtocolNotAgreed(&'static str),
    /// The client sent bytes that violate the protocol, or are longer than allowed.
    #[error("the client sent {0}")]
    ClientMalformed(&'static str),
    /// The client binds its login to the certificate that it was shown, but the server has another
    /// one.
    #[error("the client wants channel binding, and the server has another certificate")]
    BoundElsewhere,
    /// The server refused the connection or TLS, with this text.
    #[error("the server answered \"{0}\"")]
    ServerRefused(String),
    /// The server offers no TLS.
    #[error("the server offers no {0}")]
    ServerWithoutTls(&'static str),
    /// The server sent bytes that violate the protocol, or are longer than allowed.
    #[error("the server sent {0}")]
    ServerMalformed(&'static str),
}

impl Fault {
    /// Reports whether the server is at fault, and not the client.
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
        self.next = DialogAction::Fail(fault);
    }

    /// Reports whether the dialog continues with the bytes received so far.
    pub(super) fn goes_on(&self) -> bool {
        self.next == DialogAction::More
    }
}

impl DialogAction {
    /// Returns the step behind a server's consent to TLS, given the bytes that followed it.
    pub(super) fn after_consent(rest: &[u8]) -> Self {
        if rest.is_empty() {
            return Self::StartServerTls;
        }
        let what = "bytes behind its answer to the request for TLS";
        Self::Fail(Fault::ServerMalformed(what))
    }
}

/// First byte of a TLS handshake (RFC 8446 section 5.1). A version of two bytes follows: no client
/// of a dialect begins like that and asks for TLS, or continues without it.
pub(super) const HANDSHAKE: u8 = 22;
/// Number of bytes that identify it.
pub(super) const BEGINNING_BYTES: usize = 3;

/// Longest text of a server that a log repeats, in bytes.
const WORDS_BYTES_MAX: usize = 200;

/// Makes a refusal in the server's own words, without characters that would disturb a log.
pub(super) fn refusal(words: &[u8]) -> Fault {
    let words = words.get(..WORDS_BYTES_MAX).unwrap_or(words);
    let text = String::from_utf8_lossy(words);
    let clean = text.trim_end().chars();
    let clean = clean.map(|c| if is_control(c) { ' ' } else { c });
    Fault::ServerRefused(clean.collect())
}

/// One dialect's dialog; [`super::Dialog`] documents each call.
pub(super) trait Steps {
    fn client_sent(&mut self, bytes: &[u8], out: &mut Output);
    fn server_sent(&mut self, bytes: &[u8], out: &mut Output);
    /// Notes the application protocol of the client's TLS.
    fn client_agreed(&mut self, _protocol: Option<&[u8]>) {}
    fn client_tls_up(&mut self, out: &mut Output);
    fn server_tls_up(&mut self, out: &mut Output);
    fn server_connected(&mut self, out: &mut Output);
    /// Returns the held bytes of a server that has ended: the client's part of them. Bytes that
    /// came before requested TLS are dropped.
    fn server_ended(&mut self) -> Vec<u8>;
    /// Notes that servers get TLS, whether or not they are asked for it.
    fn server_is_secured(&mut self) {}
    /// Notes, before the server's TLS is up, that its certificate is not the one the client got.
    fn server_has_other_certificate(&mut self) {}
    /// Takes the result of [`DialogAction::Password`], which only a dialog that requested it must expect.
    fn password_done(&mut self, _result: Option<Vec<u8>>, _out: &mut Output) {}
    /// Notes whether the server is on a Unix socket.
    fn server_is_local(&mut self, _is_local: bool) {}
    /// Returns the bytes for the client if no server can be reached.
    fn unavailable(&self) -> Vec<u8>;
    /// Reports whether the client was refused because it must use TLS first, and still may.
    fn has_refused(&self) -> bool {
        false
    }
    /// Reports whether the server has to send next.
    fn expects_server(&self) -> bool;
    /// Reports whether a complete message of the client waits for an earlier answer of the server.
    fn is_holding(&self) -> bool {
        false
    }
    /// Reports whether the client has TLS and has to log in before anything else.
    fn is_login_due(&self) -> bool {
        false
    }
}
