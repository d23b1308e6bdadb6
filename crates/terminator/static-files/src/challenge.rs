//! Answers to an authority that validates us by plain HTTP (RFC 8555 section 8.3). They come before
//! files, and before requests are redirected.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The answers that all services give now: a key authorization for each token. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub struct HttpChallenges(Arc<RwLock<BTreeMap<String, String>>>);

/// A handle is no option: two are always equal.
impl PartialEq for HttpChallenges {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for HttpChallenges {}

impl HttpChallenges {
    /// Answers these tokens, and no others.
    pub fn set(&self, answers: impl IntoIterator<Item = (String, String)>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = answers.into_iter().collect();
    }

    /// The answer at a decoded path beneath the root.
    pub(crate) fn answer(&self, path: &[u8]) -> Option<String> {
        let token = path.strip_prefix(FOLDER)?;
        let answers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        answers.get(str::from_utf8(token).ok()?).cloned()
    }
}

/// The folder of the answers. Decoded, beneath the root.
pub(crate) const FOLDER: &[u8] = b".well-known/acme-challenge/";
