//! Reads stored accounts, and checks that they are the directory's.

use instant_acme::AccountCredentials;
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
