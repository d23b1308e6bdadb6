//! Answers to authorities that validate a name of ours by tls-alpn-01 (RFC 8737).
//!
//! Owns which hello is an authority's question, and which answer it gets. Makes no certificate.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use wire::client_hello::ClientHello;

/// The application protocol by which an authority asks (RFC 8737 section 6.2).
pub const PROTOCOL: &[u8] = b"acme-tls/1";

/// The answers that all services give now. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub struct TlsChallenges(Arc<RwLock<TlsAnswers>>);

/// The answers, by the server names that authorities ask with.
pub(crate) type TlsAnswers = BTreeMap<String, Arc<ServerConfig>>;

impl PartialEq for TlsChallenges {
    /// A handle is no option: two are always equal.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl TlsChallenges {
    /// Answers so, and no others.
    pub(crate) fn replace(&self, answers: TlsAnswers) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = answers;
    }

    /// The answer to a hello; `None` = it is no question of an authority, or not a pending one.
    pub(crate) fn answer(&self, hello: &ClientHello<'_>) -> Option<Arc<ServerConfig>> {
        let mut protocols = hello.alpn_protocols();
        // Section 3: the question offers this protocol and no other.
        if protocols.next() != Some(PROTOCOL) || protocols.next().is_some() {
            return None;
        }
        let name = hello.server_name()?.to_ascii_lowercase();
        let answers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        answers.get(&name).map(Arc::clone)
    }
}
