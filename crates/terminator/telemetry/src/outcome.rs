//! Names how a connection ended, for the state machine, the log, the metrics and the tests.
//!
//! Handles names, not counting.

/// Defines an enum whose variants have names, in the order of their numbers. `ROWS` has the label
/// values under which a family of metrics counts them.
macro_rules! named {
    ($(
        $(#[$doc:meta])*
        $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum $type {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $type {
            /// All variants, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            pub(crate) const ROWS: &'static [&'static [&'static str]] = &[$(&[$name],)*];

            /// Returns the name in logs and labels.
            pub fn name(self) -> &'static str {
                Self::ROWS[self as usize][0]
            }
        }
    )*};
}

macro_rules! reasons {
    ($($variant:ident, $fault:literal, $name:literal, $help:literal;)*) => {
        /// Reason why a connection ended. Every connection ends with exactly one of these.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum Reason {
            $(#[doc = $help] $variant,)*
        }

        impl Reason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            pub(crate) const ROWS: &'static [&'static [&'static str]] = &[$(&[$name, $fault],)*];

            const HELP: &'static [&'static str] = &[$($help,)*];
        }
    };
}

reasons! {
    ClientClosed, "none", "client-closed", "The client ended its stream, and the backend finished after it.";
    BackendClosed, "none", "backend-closed", "The backend ended its stream, and the client finished after it.";
    ServerTruncated, "none", "server-truncated", "The server closed TCP without close_notify; some do.";
    FilesFinished, "none", "files-finished", "The last response with static files was sent, and the client finished after it.";
    AcmeValidation, "none", "acme-validation", "An authority validated a name of ours (tls-alpn-01 or http-01).";
    Drained, "none", "drained", "The drain deadline passed while the connection was open.";
    ChannelBinding, "client", "channel-binding", "The client binds its login to a certificate, and the server has another one (PostgreSQL).";
    ClientAlert, "client", "client-alert", "The client sent a fatal alert; the log names it.";
    ClientCertificateMissing, "client", "client-certificate-missing", "A required client certificate was not sent.";
    ClientCertificateNotAllowed, "client", "client-certificate-not-allowed", "The client's certificate has no identity that `client-certificates.allow` lists.";
    ClientCertificateRefused, "client", "client-certificate-refused", "The client's certificate did not verify (issuer, expiry, usage, unknown revocation status).";
    ClientCertificateRevoked, "client", "client-certificate-revoked", "The client's certificate, or one above it, is on a revocation list.";
    ClientCertificateVersion, "client", "client-certificate-version", "The client's certificate is of X.509 version 1 or 2, not 3.";
    ClientChainLimit, "client", "client-chain-limit", "The client sent too many certificates to look for a path.";
    ClientDisconnected, "client", "client-disconnected", "The client closed before the handshake had finished.";
    ClientReset, "client", "client-reset", "The client reset the connection.";
    ClientTooSlow, "client", "client-too-slow", "The client took a response of static files more slowly than `back.files.min-rate`.";
    ClientUnreachable, "client", "client-unreachable", "The client stopped answering (`front.keepalive`, `timeouts.unacknowledged`), or the way to it is gone.";
    ClientTruncated, "none", "client-truncated", "The client closed TCP without close_notify; many ordinary clients do.";
    HandshakeTimeout, "client", "handshake-timeout", "The handshake took longer than `timeouts.handshake`.";
    HelloMalformed, "client", "hello-malformed", "What began as a TLS handshake was no valid ClientHello.";
    HelloTooLarge, "client", "hello-too-large", "The ClientHello was larger than its limit.";
    InappropriateFallback, "client", "inappropriate-fallback", "The client fell back to an older version of TLS than both speak (TLS_FALLBACK_SCSV, RFC 7507).";
    IdleTimeout, "none", "idle-timeout", "No byte went either way for the idle limit.";
    LifetimeReached, "none", "lifetime-reached", "The connection had lasted `timeouts.lifetime`.";
    NameMissing, "client", "name-missing", "The client sent no server name, which the service, or all at the address, refuse.";
    NameUnknown, "client", "name-unknown", "No certificate, or no service at the address, has the client's server name.";
    NoCommonParameters, "client", "no-common-parameters", "Client and service share no version, suite, group, signature scheme or protocol.";
    NotTls, "client", "not-tls", "The first bytes were not TLS.";
    PlainHttp, "client", "plain-http", "The client spoke plaintext HTTP to a TLS address.";
    ProtocolViolation, "client", "protocol-violation", "The client broke the TLS protocol after its hello.";
    ProxyHeaderMalformed, "client", "proxy-header-malformed", "A trusted address sent no valid PROXY header.";
    ProxyHeaderMissing, "client", "proxy-header-missing", "The service passes PROXY headers on, and the client's address is not trusted to send one.";
    ProxyHeaderUntrusted, "client", "proxy-header-untrusted", "A PROXY header came from an address that is not trusted to send one.";
    ProxyHeaderTooLong, "client", "proxy-header-too-long", "The client's certificate or other facts do not fit into a PROXY header.";
    RecordInvalid, "client", "record-invalid", "A record did not decrypt or was larger than TLS allows.";
    RequestTimeout, "client", "request-timeout", "A request did not come whole within `timeouts.request`.";
    SourceConnectionLimit, "client", "source-connection-limit", "The client's address had reached `limits.per-source.connections`.";
    SourceDenied, "client", "source-denied", "The client's address is in `front.deny`, or not in `front.allow`.";
    SourceHandshakeLimit, "client", "source-handshake-limit", "The client's address had reached `limits.per-source.handshakes`.";
    SourceRateLimit, "client", "source-rate-limit", "The client's address opened connections faster than `limits.per-source.rate`.";
    StarttlsInjection, "client", "starttls-injection", "The client sent plaintext behind its request for TLS (CVE-2011-0411).";
    StarttlsMalformed, "client", "starttls-malformed", "What the client sent before TLS was not of the protocol, or too long.";
    StarttlsRequired, "client", "starttls-required", "The client did not ask for TLS (`front.starttls.policy`).";
    VersionTooOld, "client", "version-too-old", "The client offered only versions below the lowest of the service.";
    BackendBusy, "backend", "backend-busy", "The server's queue was full until the dial took too long.";
    NoServerAvailable, "backend", "no-server-available", "No server was up, or all had been tried.";
    BackendRefused, "backend", "backend-refused", "The server refused the connection.";
    BackendReset, "backend", "backend-reset", "The server reset the connection, or TCP gave it up (`back.keepalive`, `timeouts.unacknowledged`).";
    BackendTimeout, "backend", "backend-timeout", "The server did not answer the dial in time.";
    BackendUnreachable, "backend", "backend-unreachable", "The server could not be reached (no route, no such socket).";
    ServerCertificateExpired, "backend", "server-certificate-expired", "The server's certificate is out of its validity.";
    ServerCertificateName, "backend", "server-certificate-name", "The server's certificate is for other names than `back.tls.name`.";
    ServerCertificateRevoked, "backend", "server-certificate-revoked", "The server's certificate, or one above it, is on a revocation list.";
    ServerCertificateUntrusted, "backend", "server-certificate-untrusted", "The server's certificate did not verify (issuer, usage, pin, unknown revocation status).";
    ServerChainLimit, "backend", "server-chain-limit", "The server sent too many certificates to look for a path.";
    ServerStarttlsFailed, "backend", "server-starttls-failed", "The server greeted with an error, offered no TLS, or broke the protocol.";
    ServerTlsFailed, "backend", "server-tls-failed", "The server's TLS failed: no TLS, an alert, nothing in common, a broken record.";
    ServerTlsTimeout, "backend", "server-tls-timeout", "The server accepted the connection and did not finish the TLS handshake in time.";
    ServerTunnelFailed, "backend", "server-tunnel-failed", "The proxy (`back.tunnel`) refused, wanted another login, did not speak the protocol, or was silent.";
    FileFailed, "backend", "file-failed", "A file became shorter while it was sent, or could not be read to its end.";
    FileTimeout, "backend", "file-timeout", "The file system did not give the rest of a file within its limit.";
    ServerDisabled, "backend", "server-disabled", "An operator disabled the server (`back.on-down`, or `lariat server disable --close`).";
    ServerDown, "backend", "server-down", "The server went down, and `back.on-down` is `close`.";
    ServerQueueFull, "backend", "server-queue-full", "All servers had `max-connections`, and `back.queue.length` waited.";
    ServerQueueTimeout, "backend", "server-queue-timeout", "All servers had `max-connections` for as long as `back.queue.timeout`.";
    ConnectionLimit, "host", "connection-limit", "The limit of open connections was reached.";
    CrlExpired, "host", "crl-expired", "A revocation list for the client's or server's chain is past its nextUpdate (`crl-expired`).";
    DescriptorLimit, "host", "descriptor-limit", "The process had no file descriptor left.";
    Displaced, "host", "displaced", "At a limit, a newcomer took the place of this connection, which had relayed nothing.";
    HandshakeLimit, "host", "handshake-limit", "The limit of handshakes in progress was reached.";
    HostResources, "host", "host-resources", "The host had no local port or memory left to dial a server with.";
    KeyUnavailable, "host", "key-unavailable", "The process or token that holds the certificate's key gave no signature in time.";
    KernelRekey, "host", "kernel-rekey", "The connection needed new keys (RFC 8446, 4.6.3), and its kernel cannot change them.";
    Internal, "host", "internal", "A fault of ours; please report it.";
}

impl Reason {
    /// Returns the name in logs and labels.
    pub fn name(self) -> &'static str {
        Self::ROWS[self as usize][0]
    }

    /// Returns whose fault it was: `client`, `backend`, `host`, or `none` for an ordinary end.
    pub fn fault(self) -> &'static str {
        Self::ROWS[self as usize][1]
    }

    /// Reports whether it was anybody's fault.
    pub fn is_fault(self) -> bool {
        self.fault() != "none"
    }
}

/// Writes the reasons as Markdown lists, by whose fault they are, for the reference.
pub fn write_reference(out: &mut String) {
    for fault in ["none", "client", "backend", "host"] {
        out.push_str(&format!("\n## Fault `{fault}`\n\n"));
        let reasons = Reason::ALL.iter().filter(|reason| reason.fault() == fault);
        for reason in reasons {
            let help = Reason::HELP[*reason as usize];
            out.push_str(&format!("- `{}`: {help}\n", reason.name()));
        }
    }
}

named! {
    /// Kind of handshake that a connection made.
    HandshakeKind {
        /// Full, with certificates and signatures.
        Full = "full",
        /// Resumed by TLS 1.2 session id.
        SessionId = "session-id",
        /// Resumed by a TLS 1.2 ticket (RFC 5077).
        Ticket = "ticket",
        /// Resumed by a TLS 1.3 PSK that a ticket carried.
        Psk = "psk",
        /// Resumed by a TLS 1.3 PSK of the session cache, which resumes once.
        PskCache = "psk-cache",
    }

    /// Reason why a session that a client offered was not resumed; it got a full handshake.
    ResumptionMiss {
        /// A session that the cache does not hold.
        Unknown = "unknown",
        /// A ticket outside its lifetime.
        Expired = "expired",
        /// A ticket of a key that was never ours.
        Foreign = "foreign",
        /// A ticket of a key that no longer exists.
        KeyTooOld = "key-too-old",
        /// A session made with another service.
        WrongService = "wrong-service",
        /// A ticket of ours that was cut or changed.
        Altered = "altered",
        /// A valid session that does not fit the hello.
        Mismatch = "mismatch",
        /// A client certificate in the session that is no longer valid.
        ClientCertificate = "client-certificate",
        /// A session made under a certificate that is revoked or no longer the service's.
        ServerCertificate = "server-certificate",
    }

    /// Tier that was searched for a session which this host's cache does not hold.
    SessionTier {
        /// A peer of the cluster answered in time.
        Peers = "peers",
        /// The session store answered in time.
        Store = "store",
        /// Nobody had the session or answered in time.
        Nowhere = "nowhere",
    }

    /// Reason why a datagram from the cluster's network was dropped.
    ClusterRejection {
        /// The datagram is not a cluster's, or has a form that nobody sends.
        Malformed = "malformed",
        /// The version is not supported here.
        Version = "version",
        /// The secret that it names is not configured here.
        UnknownSecret = "unknown-secret",
        /// Decryption failed: somebody forged or changed the datagram.
        Forged = "forged",
        /// The sender's number is this host's: somebody sent it back, or multicast did.
        Reflected = "reflected",
        /// The time of sending is before `cluster.peers.time-window`, or after it.
        OutOfTime = "out-of-time",
        /// Sent before this process started to receive, by its sender's clock. A few of these
        /// arrive at each start.
        BeforeStart = "before-start",
        /// Received before, or older than the last `cluster.peers.replay-window` of its sender.
        Replayed = "replayed",
        /// The sender is new, and as many as `cluster.peers.senders` are known.
        TooManySenders = "too-many-senders",
        /// More arrived than `cluster.peers.receive-rate`; the datagram was not read.
        RateLimited = "rate-limited",
    }

    /// Outcome of sessions that were to be shared with the cluster.
    ClusterUpdate {
        /// A session was sent to the peers.
        Published = "published",
        /// A peer's session was stored.
        Stored = "stored",
        /// A peer asked for a session, and got it.
        Answered = "answered",
        /// A session that had been used up was deleted at the peers.
        Deleted = "deleted",
        /// A session was deleted because a peer asked for it.
        Removed = "removed",
        /// A session needed more datagrams than one session may take, and stays on this host.
        TooLarge = "too-large",
        /// A peer's session came in several datagrams, of which one was lost.
        Incomplete = "incomplete",
        /// More was to be sent than `cluster.peers.send-rate`, or than could be queued.
        Dropped = "dropped",
    }

    /// Reason why a value from the session store was rejected.
    StoreRejection {
        /// The value is not a cluster's.
        Malformed = "malformed",
        /// The version is not supported here.
        Version = "version",
        /// The secret that it names is not configured here.
        UnknownSecret = "unknown-secret",
        /// Decryption failed: somebody forged or changed the value, or put it under another name.
        Forged = "forged",
        /// The session has expired, but the store kept it.
        Expired = "expired",
        /// The session resumes once and was used up here: somebody put it back.
        Replayed = "replayed",
    }

    /// Outcome of sessions that were to go to the session store.
    StoreUpdate {
        /// A session was stored.
        Published = "published",
        /// A session that had been used up was deleted.
        Deleted = "deleted",
        /// The store was asked, but failed, or did not answer in time.
        Failed = "failed",
        /// The store was not asked: its circuit breaker was open, or too much was queued.
        Dropped = "dropped",
    }

    /// Reason why a request to the session store failed.
    StoreFailure {
        /// There was no answer in time.
        Timeout = "timeout",
        /// There is no connection, or it broke.
        Connection = "connection",
        /// The store refuses our user or password, or the user lacks the right.
        Authentication = "authentication",
        /// The store's memory is full, and it evicts nothing.
        Full = "full",
        /// The store is a replica, or writes nothing for another reason.
        ReadOnly = "read-only",
        /// The store reports that it cannot answer: it is loading, or its cluster is down.
        Unready = "unready",
        /// The store names a node that the configuration does not allow.
        Redirect = "redirect",
        /// Any other error that the store answers with.
        Refused = "refused",
    }

    /// Outcome of early data (RFC 8446 section 2.3) that a client offered.
    EarlyData {
        /// A server received it.
        Accepted = "accepted",
        /// Rejected: the service accepts none, or the session was valid but not for early data.
        Refused = "refused",
        /// Rejected because the session is not in the cache: it was evicted, or was resumed before,
        /// as with each replay.
        UnknownSession = "unknown-session",
    }

    /// Outcome of an encrypted hello (ECH, RFC 9849) at an address that decrypts them.
    EchResult {
        /// Decrypted by the key whose configuration is published now, or will be next.
        Accepted = "accepted",
        /// Decrypted by the key that was published before.
        AcceptedOneOlder = "accepted-one-older",
        /// Decrypted by the key before that.
        AcceptedTwoOlder = "accepted-two-older",
        /// Decrypted by the oldest key that still decrypts.
        AcceptedThreeOlder = "accepted-three-older",
        /// No key has the configuration's number: it is stale, or noise that clients send (GREASE).
        UnknownConfiguration = "unknown-configuration",
        /// A key has the number, but decryption fails: noise with that number, or a forgery.
        Undecryptable = "undecryptable",
        /// The extension does not have the form of the RFC.
        Malformed = "malformed",
        /// The hello was decrypted, but breaks rules: its client is refused.
        Illegal = "illegal",
    }

    /// Reason why a connection that was long enough for it was not handed to the kernel; it
    /// continued in user space.
    OffloadRefusal {
        /// This host's kernel takes no connection of TLS.
        NoKernelTls = "no-kernel-tls",
        /// The kernel does not take the suite in the version agreed on.
        Suite = "suite",
        /// The kernel refused this connection, though it takes others.
        Failed = "failed",
    }

    /// Encryptor of the records that a client is sent.
    EncryptedBy {
        /// This program.
        UserSpace = "user-space",
        /// The kernel, because a part of the connection was long.
        Kernel = "kernel",
    }

    /// Version of TLS that a handshake agreed on.
    Version {
        /// RFC 5246.
        Tls12 = "TLSv1.2",
        /// RFC 8446.
        Tls13 = "TLSv1.3",
    }
}

/// Severity of a message, by the names and numbers of syslog (RFC 5424, 6.2.1).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum LogLevel {
    /// Something is broken, and clients notice.
    Error = 3,
    Warning = 4,
    /// An action of an operator, or a change for the better.
    Notice = 5,
    Info = 6,
}

impl LogLevel {
    const ALL: [Self; 4] = [Self::Error, Self::Warning, Self::Notice, Self::Info];

    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
            Self::Info => "info",
        }
    }

    pub fn severity(self) -> u8 {
        self as u8
    }

    /// Returns the level of this number; a warning for an unknown one.
    pub fn of_severity(severity: u8) -> Self {
        let found = Self::ALL.into_iter().find(|one| one.severity() == severity);
        found.unwrap_or(Self::Warning)
    }

    /// Splits off the level that a text names in its first words, `error: ` or `warning: `.
    pub fn split(text: &str) -> Option<(Self, &str)> {
        [Self::Error, Self::Warning].into_iter().find_map(|level| {
            let rest = text.strip_prefix(level.name())?.strip_prefix(": ")?;
            Some((level, rest))
        })
    }
}

#[cfg(test)]
mod level_tests {
    use super::*;

    #[test]
    fn levels_are_syslogs() {
        for (level, severity, name) in [
            (LogLevel::Error, 3, "error"),
            (LogLevel::Warning, 4, "warning"),
            (LogLevel::Notice, 5, "notice"),
            (LogLevel::Info, 6, "info"),
        ] {
            assert_eq!((level.severity(), level.name()), (severity, name));
            assert_eq!(LogLevel::of_severity(severity), level);
        }
        assert_eq!(LogLevel::of_severity(0), LogLevel::Warning);
        assert_eq!(LogLevel::split("error: a: b"), Some((LogLevel::Error, "a: b")));
        assert_eq!(LogLevel::split("notice: a"), None);
    }
}
