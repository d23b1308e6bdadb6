//! Choices of TLS and of a load, each with its word in flags, plan files and records.

use serde::{Deserialize, Serialize};

/// Defines an enum whose values have words, with conversions from and to them.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
        )]
        pub enum $name { $($(#[$value_doc])* #[serde(rename = $text)] $value,)+ }

        /// The first value.
        impl Default for $name {
            fn default() -> Self {
                Self::ALL[0]
            }
        }

        impl $name {
            /// All values, in the order of preference.
            pub const ALL: [Self; Self::NAMES.len()] = [$(Self::$value,)+];

            pub const NAMES: &[&str] = &[$($text,)+];

            pub const NAMED: &[(&str, Self)] = &[$(($text, Self::$value),)+];

            /// Returns the word in flags and files; for TLS, the standard name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $text,)+ }
            }
        }
    };
}

pub(crate) use named;

named! {
    ProxyVersion {
        V1 = "v1",
        V2 = "v2",
    }
}

named! {
    Versions {
        Tls12 = "1.2",
        Tls13 = "1.3",
        /// Both: the server chooses.
        Both = "both",
    }
}

impl Versions {
    /// Reports whether one of the versions has that suite.
    pub fn have(self, suite: Suite) -> bool {
        match self {
            Self::Both => true,
            Self::Tls12 => !suite.is_tls13(),
            Self::Tls13 => suite.is_tls13(),
        }
    }
}

named! {
    /// Kind of handshake for every connection but the first of a session.
    Handshake {
        Full = "full",
        /// Resumed by session id; only TLS 1.2 is offered, and no ticket.
        SessionId = "session-id",
        /// Resumed by ticket; only TLS 1.2 is offered.
        Ticket = "ticket",
        /// Resumed by PSK; only TLS 1.3 is offered.
        Psk = "psk",
        /// Resumed by whatever the server gave, as browsers do.
        Any = "any",
    }
}

named! {
    /// A cipher suite, those of TLS 1.3 first. In today's browsers' order: AES-128 first.
    Suite {
        Aes128Gcm13 = "TLS_AES_128_GCM_SHA256",
        Aes256Gcm13 = "TLS_AES_256_GCM_SHA384",
        ChaCha20Poly130513 = "TLS_CHACHA20_POLY1305_SHA256",
        EcdsaAes128Gcm = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        RsaAes128Gcm = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        EcdsaAes256Gcm = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        RsaAes256Gcm = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        EcdsaChaCha20Poly1305 = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        RsaChaCha20Poly1305 = "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    }
}

impl Suite {
    /// Reports whether this is a suite of TLS 1.3; all others are of TLS 1.2.
    pub fn is_tls13(self) -> bool {
        matches!(self, Self::Aes128Gcm13 | Self::Aes256Gcm13 | Self::ChaCha20Poly130513)
    }
}

named! {
    /// A group for the key exchange. X25519 is the default because the hybrid costs more.
    Group {
        /// RFC 7748.
        X25519 = "x25519",
        Secp256r1 = "secp256r1",
        Secp384r1 = "secp384r1",
        /// The post-quantum hybrid of X25519 and ML-KEM-768; TLS 1.3 only.
        X25519MlKem768 = "X25519MLKEM768",
    }
}

named! {
    /// A signature scheme (RFC 8446, section 4.2.3).
    Signature {
        EcdsaP256 = "ecdsa_secp256r1_sha256",
        EcdsaP384 = "ecdsa_secp384r1_sha384",
        EcdsaP521 = "ecdsa_secp521r1_sha512",
        Ed25519 = "ed25519",
        RsaPss256 = "rsa_pss_rsae_sha256",
        RsaPss384 = "rsa_pss_rsae_sha384",
        RsaPss512 = "rsa_pss_rsae_sha512",
        /// RSA PKCS#1 v1.5 with SHA-256; in TLS 1.3 for certificates only.
        RsaPkcs256 = "rsa_pkcs1_sha256",
        RsaPkcs384 = "rsa_pkcs1_sha384",
        RsaPkcs512 = "rsa_pkcs1_sha512",
    }
}

named! {
    /// How a client ends a connection after its last transaction.
    ConnectionEnding {
        /// Sends close_notify and FIN, then reads until the server's FIN.
        Close = "notify",
        /// Sends RST at once. A connection that is to bring a session still ends properly.
        Reset = "reset",
    }
}

named! {
    /// The order in which free clients are taken.
    ClientSelection {
        /// The client that has been free the longest: all take part.
        RoundRobin = "round-robin",
        /// A client that has made a request before, and so has a session or a connection, if one is
        /// free: as few take part as the load needs, and the share of resumed handshakes, or of
        /// kept connections, does not depend on the number of clients. Addresses have turns.
        Fewest = "fewest",
    }
}

named! {
    /// How planned instants are distributed at a given rate.
    Spacing {
        /// Evenly, at equal distances.
        Constant = "constant",
        /// At random, as independent users come (a Poisson process).
        Poisson = "poisson",
    }
}

named! {
    /// How the server's certificate is verified.
    Verify {
        /// Not verified.
        Off = "off",
        /// The server must have its key.
        Signature = "signature",
        /// A known authority issued it for the server's name, and it has not expired.
        Full = "full",
    }
}

named! {
    /// How a transaction got its keys, as the client saw it.
    Kind {
        Full = "full",
        /// Resumed by session id (TLS 1.2, RFC 5246 section 7.3).
        SessionId = "session-id",
        /// Resumed by ticket (TLS 1.2, RFC 5077).
        Ticket = "ticket",
        /// Resumed by PSK (TLS 1.3, RFC 8446 section 2.2), stateless or stateful.
        Psk = "psk",
        /// No handshake: the connection was open already.
        Kept = "kept",
        /// No handshake: there is no TLS.
        Plain = "plain",
    }
}

named! {
    /// How a hello is encrypted (ECH, RFC 9849).
    RecordedEch {
        Configuration = "configuration",
        /// A random one that nobody can decrypt.
        Grease = "GREASE",
    }
}

named! {
    /// Outcome of an encrypted hello.
    EchOutcome {
        Accepted = "accepted",
        /// The handshake used the public name, and ended without data.
        Rejected = "rejected",
        /// The hello was not really encrypted, and was ignored.
        Grease = "GREASE",
    }
}

impl Kind {
    pub fn is_resumption(self) -> bool {
        matches!(self, Self::SessionId | Self::Ticket | Self::Psk)
    }

    pub fn is_handshake(self) -> bool {
        !matches!(self, Self::Kept | Self::Plain)
    }
}
