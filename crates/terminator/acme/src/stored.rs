//! An account as it is stored: whether it can be read, and is the directory's; and an order that is
//! under way, which another process goes on with (RFC 8555 section 7.1.6).

use std::sync::{Arc, Mutex, PoisonError};

use instant_acme::{AccountCredentials, Order};
use rcgen::KeyPair;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, Serialize)]
pub(crate) struct StoredAccount {
    pub(crate) credentials: AccountCredentials,
    pub(crate) contact: Vec<String>,
}

impl StoredAccount {
    fn read(directory: &str, text: &str) -> Result<Self, String> {
        // The library's error may show a part of the key.
        let stored: Self = serde_json::from_str(text).map_err(|_| "it is damaged")?;
        let at = serde_json::to_value(&stored.credentials).unwrap_or_default();
        match at.get("directory").and_then(serde_json::Value::as_str) {
            Some(at) if at == directory => Ok(stored),
            at => Err(format!("it is one at {}", at.unwrap_or("an unknown authority"))),
        }
    }

    /// Returns the account at that directory if the text is one.
    pub(crate) fn of(directory: &str, text: &str) -> Option<Self> {
        Self::read(directory, text).ok()
    }
}

/// An order that has been placed.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct OpenOrder {
    pub(crate) url: String,
    /// The kind of its key, and the key.
    pub(crate) kind: String,
    pub(crate) key_pem: String,
    /// How often another process has gone on with it.
    pub(crate) taken_up: u32,
}

impl OpenOrder {
    pub(crate) fn new(url: &str, kind: &str, key: &KeyPair) -> Self {
        let key_pem = key.serialize_pem();
        Self { url: url.to_owned(), kind: kind.to_owned(), key_pem, taken_up: 0 }
    }

    pub(crate) fn of_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("it has names as keys")
    }
}

/// An order with the key that it is for.
pub(crate) type PlacedOrder = (Order, KeyPair);

/// The order of an entry that is not over, for the entry and its dialog.
#[derive(Clone, Default)]
pub(crate) struct SharedOrder(Arc<Mutex<Option<OpenOrder>>>);

impl SharedOrder {
    pub(crate) fn get(&self) -> Option<OpenOrder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another in its place, and gives it back.
    pub(crate) fn set(&self, open: Option<OpenOrder>) -> Option<OpenOrder> {
        std::mem::replace(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), open)
    }
}

/// Returns the fault of the stored account at that directory; `None` = it is valid.
pub fn account_fault(directory: &str, text: &str) -> Option<String> {
    StoredAccount::read(directory, text).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_that_of_its_directory_or_none() {
        let (ours, other) = ("https://a.example/dir", "https://b.example/dir");
        let text = |directory: &str| {
            serde_json::json!({
                "credentials": { "id": "1", "key_pkcs8": "AAAA", "directory": directory },
                "contact": [],
            })
            .to_string()
        };
        assert_eq!(account_fault(ours, &text(ours)), None);
        assert_eq!(account_fault(ours, &text(other)).unwrap(), format!("it is one at {other}"));
        assert_eq!(account_fault(ours, &text(ours)[1..]).unwrap(), "it is damaged");
    }
}
