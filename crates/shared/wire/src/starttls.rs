//! The conversation before TLS in protocols that begin in plaintext, on either side of a proxy.
//!
//! A [`Dialog`] stands between a client and a server until nothing is left to rewrite. As the front
//! of a server it answers the client's request for TLS, adds TLS to the capabilities that the
//! server lists, and removes it under TLS. As the client of a server it asks for TLS before its
//! first byte is sent. It has no socket, clock or TLS: bytes in, bytes and the next step out.
//!
//! No byte that came before TLS is ever treated as if it had come under it: a client that sends
//! more behind its request, or a server behind its answer, is refused (CVE-2011-0411).

mod capabilities;
mod held;
mod ldap;
mod lines;
mod mysql;
mod postgres;
mod step;
mod words;
mod xmpp;

pub use mysql::{Check as MysqlCheck, CheckStep as MysqlCheckStep};
pub use step::{DialogAction, Fault, HostNames, Output, PasswordTask, Policy, StarttlsSides};

use ldap::Ldap;
use lines::Lines;
use mysql::Mysql;
use postgres::Postgres;
use step::{BEGINNING_BYTES, HANDSHAKE, Steps};
use xmpp::Xmpp;

/// A protocol with a request for TLS.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Dialect {
    /// RFC 3207.
    Smtp,
    /// RFC 2033.
    Lmtp,
    /// RFC 9051.
    Imap,
    /// RFC 2595 section 4.
    Pop3,
    /// RFC 4217, the control connection.
    Ftp,
    /// ManageSieve, RFC 5804.
    Sieve,
    /// RFC 4642.
    Nntp,
    Mysql,
    Postgres,
    /// RFC 4511.
    Ldap,
    /// RFC 6120, for clients; only [`Policy::Required`] makes sense.
    Xmpp,
}

impl Dialect {
    /// All dialects with their names, which are those of `openssl s_client -starttls`.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("smtp", Self::Smtp),
        ("lmtp", Self::Lmtp),
        ("imap", Self::Imap),
        ("pop3", Self::Pop3),
        ("ftp", Self::Ftp),
        ("sieve", Self::Sieve),
        ("nntp", Self::Nntp),
        ("mysql", Self::Mysql),
        ("postgres", Self::Postgres),
        ("ldap", Self::Ldap),
        ("xmpp", Self::Xmpp),
    ];

    pub fn name(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }

    /// Reports whether the server greets the client, so that it must be connected before the
    /// client's TLS.
    pub fn is_greeted(self) -> bool {
        !matches!(self, Self::Postgres | Self::Ldap | Self::Xmpp)
    }

    /// Reports whether the greeting may come after a pause, which is deliberate (against spam), or
    /// caused by a look-up of the client's name. A silent database is down.
    pub fn greets_late(self) -> bool {
        self.is_greeted() && self != Self::Mysql
    }
}

pub struct Dialog {
    steps: Box<dyn Steps + Send>,
    is_greeted: bool,
    /// First bytes of the client, as many as show that they begin TLS.
    beginning: Vec<u8>,
}

impl Dialog {
    /// Creates the state before the first byte.
    pub fn new(dialect: Dialect, sides: StarttlsSides, names: HostNames<'_>) -> Self {
        let words = match dialect {
            Dialect::Smtp => &words::SMTP,
            Dialect::Lmtp => &words::LMTP,
            Dialect::Imap => &words::IMAP,
            Dialect::Pop3 => &words::POP3,
            Dialect::Ftp => &words::FTP,
            Dialect::Sieve => &words::SIEVE,
            Dialect::Nntp => &words::NNTP,
            Dialect::Postgres => return Self::of(dialect, Postgres::new(sides)),
            Dialect::Ldap => return Self::of(dialect, Ldap::new(sides)),
            Dialect::Xmpp => return Self::of(dialect, Xmpp::new(sides, names.server)),
            Dialect::Mysql => return Self::of(dialect, Mysql::new(sides)),
        };
        Self::of(dialect, Lines::new(words, sides, names))
    }

    /// Creates a dialog without a client, which only asks for TLS: it begins with
    /// [`Self::server_connected`], and [`Self::server_sent`] leads it to TLS or a fault.
    pub fn asking(dialect: Dialect, names: HostNames<'_>) -> Self {
        let sides = StarttlsSides { front: None, back: true };
        match dialect {
            Dialect::Mysql => Self::of(dialect, Mysql::asking(sides)),
            _ => Self::new(dialect, sides, names),
        }
    }

    fn of(dialect: Dialect, steps: impl Steps + Send + 'static) -> Self {
        Self { steps: Box::new(steps), is_greeted: dialect.is_greeted(), beginning: Vec::new() }
    }

    /// Reports whether the server greets the client ([`Dialect::is_greeted`]).
    pub fn is_greeted(&self) -> bool {
        self.is_greeted
    }

    /// Takes bytes of the client: in plaintext, or out of its TLS once that is up.
    pub fn client_sent(&mut self, bytes: &[u8]) -> Output {
        let missing = BEGINNING_BYTES - self.beginning.len();
        let first = bytes.get(..missing).unwrap_or(bytes);
        self.beginning.extend_from_slice(first);
        self.step(|steps, out| steps.client_sent(bytes, out))
    }

    /// Takes bytes of the server: in plaintext, or out of its TLS once that is up.
    pub fn server_sent(&mut self, bytes: &[u8]) -> Output {
        self.step(|steps, out| steps.server_sent(bytes, out))
    }

    /// Notes the application protocol of the client's TLS, before [`Self::client_tls_up`].
    pub fn client_agreed(&mut self, protocol: Option<&[u8]>) {
        self.steps.client_agreed(protocol);
    }

    /// Continues once the TLS of [`DialogAction::StartClientTls`] or [`DialogAction::ClientTlsBegun`] is up.
    pub fn client_tls_up(&mut self) -> Output {
        self.step(|steps, out| steps.client_tls_up(out))
    }

    /// Continues when the TLS that [`DialogAction::StartServerTls`] asked for is up.
    pub fn server_tls_up(&mut self) -> Output {
        self.step(|steps, out| steps.server_tls_up(out))
    }

    /// Notes that servers get TLS, whatever [`StarttlsSides::back`] says; to be called before any byte.
    pub fn server_is_secured(&mut self) {
        self.steps.server_is_secured();
    }

    /// Notes that the client was shown another certificate than the server's: a client's channel
    /// binding to one does not fit the other. To be called before [`Self::server_tls_up`].
    pub fn server_has_other_certificate(&mut self) {
        self.steps.server_has_other_certificate();
    }

    /// Begins with a connected server, which has no TLS yet where [`StarttlsSides::back`] asks for it.
    /// Words of an earlier server that was given up do not count.
    pub fn server_connected(&mut self) -> Output {
        self.step(|steps, out| steps.server_connected(out))
    }

    /// Ends the server's side. Returns the bytes for the client that were held for more.
    pub fn server_ended(&mut self) -> Vec<u8> {
        self.steps.server_ended()
    }

    /// Takes the result of [`DialogAction::Password`]; `None` if it failed.
    pub fn password_done(&mut self, result: Option<Vec<u8>>) -> Output {
        self.step(|steps, out| steps.password_done(result, out))
    }

    /// Notes whether the dialled server is on a Unix socket, on which passwords may be sent
    /// unencrypted.
    pub fn server_is_local(&mut self, is_local: bool) {
        self.steps.server_is_local(is_local);
    }

    /// Returns the last bytes for the client if no server can be connected.
    pub fn unavailable(&self) -> Vec<u8> {
        self.steps.unavailable()
    }

    /// Reports whether the client was refused because it has to use TLS first.
    pub fn has_refused(&self) -> bool {
        self.steps.has_refused()
    }

    /// Reports whether the server has to send next.
    pub fn expects_server(&self) -> bool {
        self.steps.expects_server()
    }

    /// Reports whether a complete message of the client waits for an answer of the server.
    pub fn is_holding(&self) -> bool {
        self.steps.is_holding()
    }

    /// Reports whether the client has TLS and only its login is awaited.
    pub fn is_login_due(&self) -> bool {
        self.steps.is_login_due()
    }

    fn step(&mut self, take: impl FnOnce(&mut dyn Steps, &mut Output)) -> Output {
        let mut out = Output::default();
        take(&mut *self.steps, &mut out);
        if let DialogAction::Fail(fault @ Fault::ClientMalformed(_)) = &mut out.next
            && matches!(self.beginning[..], [HANDSHAKE, 3, 1..=4])
        {
            *fault = Fault::TlsUnasked;
        }
        out
    }
}

impl std::fmt::Debug for Dialog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialog").finish_non_exhaustive()
    }
}
