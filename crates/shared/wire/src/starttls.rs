//! The conversation before TLS in protocols that begin in plaintext, on either side of a proxy.
//!
//! A [`Dialog`] stands between a client and a server until nothing is left to rewrite. As the front
//! of a server it answers the client's request for TLS, adds TLS to the capabilities that the
//! server lists, and takes it out under TLS. As the client of a server it asks for TLS before its
//! first byte is sent. It owns no socket, clock or TLS: bytes in, bytes and the next step out.
//!
//! No byte that came before TLS is ever taken as if it had come under it: a client that sends more
//! behind its request, or a server behind its answer, is refused (CVE-2011-0411).

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
pub use step::{Fault, HostNames, Next, Output, PasswordTask, Policy, Sides};

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
    /// RFC 6120, of clients; [`Policy::Required`] alone makes sense.
    Xmpp,
}

impl Dialect {
    /// All of them, with their names, which are those of `openssl s_client -starttls`.
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

    /// Whether the server greets the client, so that it has to be connected before the client's
    /// TLS.
    pub fn is_greeted(self) -> bool {
        !matches!(self, Self::Postgres | Self::Ldap | Self::Xmpp)
    }

    /// Whether the greeting may come after a pause that is meant (against spam), or that it takes
    /// to look the client's name up. A silent database is down.
    pub fn greets_late(self) -> bool {
        self.is_greeted() && self != Self::Mysql
    }
}

pub struct Dialog {
    steps: Box<dyn Steps + Send>,
    is_greeted: bool,
    /// The first bytes that the client sent, as many as tell that they begin TLS.
    beginning: Vec<u8>,
}

impl Dialog {
    /// Before the first byte.
    pub fn new(dialect: Dialect, sides: Sides, names: HostNames<'_>) -> Self {
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

    /// A dialog of a client that has nothing to say but its request for TLS: it begins with
    /// [`Self::server_connected`], and [`Self::server_sent`] leads it to TLS or a fault.
    pub fn asking(dialect: Dialect, names: HostNames<'_>) -> Self {
        let sides = Sides { front: None, back: true };
        match dialect {
            Dialect::Mysql => Self::of(dialect, Mysql::asking(sides)),
            _ => Self::new(dialect, sides, names),
        }
    }

    fn of(dialect: Dialect, steps: impl Steps + Send + 'static) -> Self {
        Self { steps: Box::new(steps), is_greeted: dialect.is_greeted(), beginning: Vec::new() }
    }

    /// Whether the server greets the client ([`Dialect::is_greeted`]).
    pub fn is_greeted(&self) -> bool {
        self.is_greeted
    }

    /// Takes what the client sent: in plaintext, or out of its TLS once that is up.
    pub fn client_sent(&mut self, bytes: &[u8]) -> Output {
        let missing = BEGINNING_BYTES - self.beginning.len();
        let first = bytes.get(..missing).unwrap_or(bytes);
        self.beginning.extend_from_slice(first);
        self.step(|steps, out| steps.client_sent(bytes, out))
    }

    /// Takes what the server sent: in plaintext, or out of its TLS once that is up.
    pub fn server_sent(&mut self, bytes: &[u8]) -> Output {
        self.step(|steps, out| steps.server_sent(bytes, out))
    }

    /// The application protocol that the client's TLS has agreed on; [`Self::client_tls_up`] then.
    pub fn client_agreed(&mut self, protocol: Option<&[u8]>) {
        self.steps.client_agreed(protocol);
    }

    /// The TLS that [`Next::StartClientTls`] or [`Next::ClientTlsBegun`] asked for is up.
    pub fn client_tls_up(&mut self) -> Output {
        self.step(|steps, out| steps.client_tls_up(out))
    }

    /// The TLS that [`Next::StartServerTls`] asked for is up.
    pub fn server_tls_up(&mut self) -> Output {
        self.step(|steps, out| steps.server_tls_up(out))
    }

    /// Servers get TLS, whether or not [`Sides::back`] asks for it; to be told before any byte.
    pub fn server_is_secured(&mut self) {
        self.steps.server_is_secured();
    }

    /// The client was shown another certificate than the server has shown: what a client binds to
    /// the one is not bound to the other. To be told before [`Self::server_tls_up`].
    pub fn server_has_other_certificate(&mut self) {
        self.steps.server_has_other_certificate();
    }

    /// A server is connected, without TLS yet where [`Sides::back`] asks for it. What another one
    /// said before it was given up does not count.
    pub fn server_connected(&mut self) -> Output {
        self.step(|steps, out| steps.server_connected(out))
    }

    /// The server says no more. The bytes that the client still gets, which waited here for more.
    pub fn server_ended(&mut self) -> Vec<u8> {
        self.steps.server_ended()
    }

    /// Takes the result of [`Next::Password`]; `None` = it failed.
    pub fn password_done(&mut self, result: Option<Vec<u8>>) -> Output {
        self.step(|steps, out| steps.password_done(result, out))
    }

    /// Whether the server that is dialled is on a Unix socket, on which passwords may be sent as
    /// they are.
    pub fn server_is_local(&mut self, is_local: bool) {
        self.steps.server_is_local(is_local);
    }

    /// The bytes for the client, before the connection ends, if no server can be connected.
    pub fn unavailable(&self) -> Vec<u8> {
        self.steps.unavailable()
    }

    /// Whether the client was told that it has to use TLS first.
    pub fn has_refused(&self) -> bool {
        self.steps.has_refused()
    }

    /// Whether the server is to speak next.
    pub fn expects_server(&self) -> bool {
        self.steps.expects_server()
    }

    /// Whether something whole of the client's waits here for an answer of the server.
    pub fn is_holding(&self) -> bool {
        self.steps.is_holding()
    }

    /// Whether the client has TLS and a server that waits for its login, and for nothing else.
    pub fn is_login_due(&self) -> bool {
        self.steps.is_login_due()
    }

    fn step(&mut self, take: impl FnOnce(&mut dyn Steps, &mut Output)) -> Output {
        let mut out = Output::default();
        take(&mut *self.steps, &mut out);
        if let Next::Fail(fault @ Fault::ClientMalformed(_)) = &mut out.next
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
