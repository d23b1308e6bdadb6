//! How a connection ended: the nouns that the state machine, the log, the metrics and the tests
//! share.
//!
//! Owns names, not counting.

/// Whose doing an ending was.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Side {
    /// The one who connected to us.
    Client,
    /// The one we connected to, or could not.
    Backend,
    /// This program, its limits or its operator.
    Host,
}

macro_rules! reasons {
    ($($variant:ident, $side:ident, $fault:literal, $name:literal, $help:literal;)*) => {
        /// Why a connection ended. Every connection ends with exactly one of these.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum Reason {
            $(#[doc = $help] $variant,)*
        }

        impl Reason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in logs and labels.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// One sentence for the reference.
            pub fn help(self) -> &'static str {
                match self { $(Self::$variant => $help,)* }
            }

            /// Whose doing it was.
            pub fn side(self) -> Side {
                match self { $(Self::$variant => Side::$side,)* }
            }

            /// Whether somebody did wrong; an ordinary end is no fault.
            pub fn is_fault(self) -> bool {
                match self { $(Self::$variant => $fault,)* }
            }
        }
    };
}

reasons! {
    ClientClosed, Client, false, "client-closed", "The client ended its stream with close_notify, and the backend finished after it.";
    BackendClosed, Backend, false, "backend-closed", "The backend ended its stream, and the client finished after it.";
    FilesFinished, Backend, false, "files-finished", "The last response of a service of static files was sent, and the client finished after it.";
    Drained, Host, false, "drained", "The drain deadline passed while the connection was open.";
    ClientAlert, Client, true, "client-alert", "The client sent a fatal alert; the log names it.";
    ClientCertificateMissing, Client, true, "client-certificate-missing", "A client certificate is required and none was sent.";
    ClientCertificateRefused, Client, true, "client-certificate-refused", "The client's certificate did not verify (issuer, expiry, usage, unknown revocation status); the log says why and names it.";
    ClientCertificateRevoked, Client, true, "client-certificate-revoked", "The client's certificate, or one above it, is on a revocation list; the log names it.";
    ClientDisconnected, Client, true, "client-disconnected", "The client closed before the handshake had finished.";
    ClientReset, Client, true, "client-reset", "The client reset the connection.";
    ClientTruncated, Client, false, "client-truncated", "The client closed TCP without close_notify; many ordinary clients do.";
    HandshakeTimeout, Client, true, "handshake-timeout", "The handshake, with any PROXY header before it, took longer than its limit.";
    HelloMalformed, Client, true, "hello-malformed", "What began as a TLS handshake was no valid ClientHello.";
    HelloTooLarge, Client, true, "hello-too-large", "The ClientHello was larger than its limit.";
    InappropriateFallback, Client, true, "inappropriate-fallback", "The client tried again with an older version of TLS than both speak (TLS_FALLBACK_SCSV, RFC 7507): its first attempt may have been disturbed on the way.";
    IdleTimeout, Host, false, "idle-timeout", "No byte went either way for the idle limit.";
    NameMissing, Client, true, "name-missing", "The client sent no server name and the service refuses such clients.";
    NameUnknown, Client, true, "name-unknown", "No certificate matches the server name and the service refuses unknown names.";
    NoCommonParameters, Client, true, "no-common-parameters", "Client and service share no version, suite, group, signature scheme or protocol.";
    NotTls, Client, true, "not-tls", "The first bytes were not TLS.";
    PlainHttp, Client, true, "plain-http", "The client spoke plaintext HTTP to a TLS address.";
    ProtocolViolation, Client, true, "protocol-violation", "The client broke the TLS protocol after its hello.";
    ProxyHeaderMalformed, Client, true, "proxy-header-malformed", "A trusted address sent no valid PROXY header.";
    ProxyHeaderMissing, Client, true, "proxy-header-missing", "The service passes PROXY headers on, and the client's address is not trusted to send one.";
    ProxyHeaderUntrusted, Client, true, "proxy-header-untrusted", "A PROXY header came from an address that is not trusted to send one.";
    ProxyHeaderTooLong, Client, true, "proxy-header-too-long", "What the server is to be told about the client, such as its certificate, does not fit into a PROXY header.";
    RecordInvalid, Client, true, "record-invalid", "A record did not decrypt or was larger than TLS allows.";
    RequestTimeout, Client, true, "request-timeout", "A request did not come whole within its limit; it was answered with 408.";
    VersionTooOld, Client, true, "version-too-old", "The client offered only versions below the lowest that the service speaks.";
    BackendBusy, Backend, true, "backend-busy", "The queue of the last server tried was full until the dial took too long.";
    NoServerAvailable, Backend, true, "no-server-available", "No server was up, or all had been tried.";
    BackendRefused, Backend, true, "backend-refused", "The last server tried refused the connection.";
    BackendReset, Backend, true, "backend-reset", "The server reset the connection.";
    BackendTimeout, Backend, true, "backend-timeout", "The last server tried did not answer the dial in time.";
    BackendUnreachable, Backend, true, "backend-unreachable", "The last server tried could not be reached (no route, no such socket).";
    FileFailed, Backend, true, "file-failed", "A file became shorter while it was sent, or could not be read to its end.";
    FileTimeout, Backend, true, "file-timeout", "The file system did not give the rest of a file within its limit.";
    ConnectionLimit, Host, true, "connection-limit", "The limit of open connections was reached.";
    CrlExpired, Host, true, "crl-expired", "The revocation list of an issuer in the client's chain is past its nextUpdate, and `crl-expired` is `refuse`.";
    DescriptorLimit, Host, true, "descriptor-limit", "The process had no file descriptor left.";
    Displaced, Host, true, "displaced", "A limit was reached, and a newcomer took the place of this connection, which had relayed nothing.";
    HandshakeLimit, Host, true, "handshake-limit", "The limit of handshakes in progress was reached.";
    HostResources, Host, true, "host-resources", "The host had no local port or memory left to dial a server with; the log names which.";
    KernelRekey, Host, true, "kernel-rekey", "The connection needed new keys (RFC 8446, 4.6.3), and the kernel that encrypts for it cannot change them.";
    Internal, Host, true, "internal", "A fault of ours; please report it.";
}

/// The reasons as a table in Markdown, for the reference.
pub fn write_reference(out: &mut String) {
    out.push_str("| reason | fault | meaning |\n|---|---|---|\n");
    for reason in Reason::ALL {
        for part in ["| `", reason.name(), "` | ", reason.fault(), " | "] {
            out.push_str(part);
        }
        out.push_str(reason.help());
        out.push_str(" |\n");
    }
}

impl Reason {
    /// Whose fault it was, or `none`: the word in logs and in the reference.
    pub fn fault(self) -> &'static str {
        if self.is_fault() {
            self.side().name()
        } else {
            "none"
        }
    }
}

impl Side {
    /// The name in logs and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Backend => "backend",
            Self::Host => "host",
        }
    }
}

/// What kind of handshake a connection made.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum HandshakeKind {
    /// Certificates and signatures.
    Full,
    /// Resumed by TLS 1.2 session id.
    SessionId,
    /// Resumed by a TLS 1.2 ticket (RFC 5077).
    Ticket,
    /// Resumed by a TLS 1.3 PSK, which a ticket carried.
    Psk,
    /// Resumed by a TLS 1.3 PSK of the session cache, which resumes once.
    PskCache,
}

impl HandshakeKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: &'static [Self] = &[
        Self::Full,
        Self::SessionId,
        Self::Ticket,
        Self::Psk,
        Self::PskCache,
    ];

    /// The name in logs and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::SessionId => "session-id",
            Self::Ticket => "ticket",
            Self::Psk => "psk",
            Self::PskCache => "psk-cache",
        }
    }
}

/// Why a session that a client offered was not resumed; it got a full handshake.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum ResumptionMiss {
    /// A session that the cache does not hold.
    Unknown,
    /// A ticket outside of its lifetime.
    Expired,
    /// A ticket of a key that was never ours.
    Foreign,
    /// A ticket of a key that is no more.
    KeyTooOld,
    /// A session made with another service.
    WrongService,
    /// A ticket of ours that was cut or changed.
    Altered,
    /// A good session that does not fit the hello.
    Mismatch,
    /// A client certificate in the session that is not good any more.
    ClientCertificate,
    /// A session made under a certificate that is revoked or no longer the service's.
    ServerCertificate,
}

impl ResumptionMiss {
    /// All of them, in the order of their numbers.
    pub const ALL: &'static [Self] = &[
        Self::Unknown,
        Self::Expired,
        Self::Foreign,
        Self::KeyTooOld,
        Self::WrongService,
        Self::Altered,
        Self::Mismatch,
        Self::ClientCertificate,
        Self::ServerCertificate,
    ];

    /// The name in logs and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Expired => "expired",
            Self::Foreign => "foreign",
            Self::KeyTooOld => "key-too-old",
            Self::WrongService => "wrong-service",
            Self::Altered => "altered",
            Self::Mismatch => "mismatch",
            Self::ClientCertificate => "client-certificate",
            Self::ServerCertificate => "server-certificate",
        }
    }
}

/// What became of early data (RFC 8446 section 2.3) that a client offered.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum EarlyData {
    /// A server got it.
    Accepted,
    /// None of it was taken: the service takes none, or the session was good but not for that.
    Refused,
    /// None of it was taken, since the session is not in the cache: it has gone, or has been
    /// resumed before, as with each replay.
    UnknownSession,
}

impl EarlyData {
    /// All of them, in the order of their numbers.
    pub const ALL: &'static [Self] = &[Self::Accepted, Self::Refused, Self::UnknownSession];

    /// The name in logs and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::UnknownSession => "unknown-session",
        }
    }
}

/// Why a connection that was long enough for it was not handed to the kernel; it went on in user
/// space.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum OffloadRefusal {
    /// This host's kernel takes no connection of TLS.
    NoKernelTls,
    /// The kernel does not take the suite in the version agreed on.
    Suite,
    /// The kernel refused this connection, though it takes others.
    Failed,
}

impl OffloadRefusal {
    /// All of them, in the order of their numbers.
    pub const ALL: &'static [Self] = &[Self::NoKernelTls, Self::Suite, Self::Failed];

    /// The name in labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoKernelTls => "no-kernel-tls",
            Self::Suite => "suite",
            Self::Failed => "failed",
        }
    }
}

/// What encrypts the records that a client is sent.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum EncryptedBy {
    /// This program.
    UserSpace,
    /// The kernel, since a part of the connection was long.
    Kernel,
}

impl EncryptedBy {
    /// The name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::UserSpace => "user-space",
            Self::Kernel => "kernel",
        }
    }
}

/// The version of TLS that a handshake agreed on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Version {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl Version {
    /// All versions, in the order of their numbers.
    pub const ALL: &'static [Self] = &[Self::Tls12, Self::Tls13];

    /// The name in logs and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }
}
