//! An account as it is stored: whether it can be read, and is the directory's; and an order that is
//! under way, which another process goes on with (RFC 8555 section 7.1.6).

use instant_acme::AccountCredentials;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, Serialize)]
pub(crate) struct StoredAccount {
    pub(crate) credentials: AccountCredentials,
    pub(crate) contact: Vec<String>,
}

impl StoredAccount {
    fn read(directory: &str, text: &str) -> Result<Self, String> {
        // The library's words may show a part of the key.
        let stored: Self = serde_json::from_str(text).map_err(|_| "it is damaged")?;
        let at = serde_json::to_value(&stored.credentials).unwrap_or_default();
        match at.get("directory").and_then(serde_json::Value::as_str) {
            Some(at) if at == directory => Ok(stored),
            at => Err(format!("it is one at {}", at.unwrap_or("an unknown authority"))),
        }
    }

    /// The account at that directory, if it is one.
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
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("it has names as keys")
    }
}

/// The fault of what is stored as the account at that directory; `None` = it is one.
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
