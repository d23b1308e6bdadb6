//! Answers authorities that validate a name of ours by tls-alpn-01 (RFC 8737).
//!
//! Recognises an authority's hello and chooses the answer. Makes no certificate.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use wire::client_hello::ClientHello;

/// Application protocol of an authority's validation (RFC 8737 section 6.2).
pub const PROTOCOL: &[u8] = b"acme-tls/1";

/// Answers that all services give now. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct TlsChallenges(Arc<RwLock<TlsAnswers>>);

/// Answers, by the server name that an authority sends.
pub(crate) type TlsAnswers = BTreeMap<String, Arc<ServerConfig>>;

impl PartialEq for TlsChallenges {
    /// Returns `true`: a handle is no option, so any two are equal.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl TlsChallenges {
    /// Replaces all answers by these.
    pub(crate) fn replace(&self, answers: TlsAnswers) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = answers;
    }

    /// Returns the answer to a hello; `None` = it is no validation, or no pending one.
    pub(crate) fn answer(&self, hello: &ClientHello<'_>) -> Option<Arc<ServerConfig>> {
        let mut protocols = hello.alpn_protocols();
        // Section 3: the hello offers this protocol and no other.
        if protocols.next() != Some(PROTOCOL) || protocols.next().is_some() {
            return None;
        }
        let name = hello.server_name()?.to_ascii_lowercase();
        let answers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        answers.get(&name).map(Arc::clone)
    }
}
