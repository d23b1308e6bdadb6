//! What must have been negotiated for a configuration to have measured what it says.
//!
//! Says what is expected; `measurement::verdict` checks it.

use measure::kind::Kind;
use serde::Deserialize;

/// A measurement of anything else is void. What is not named is not checked.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Expect {
    /// No handshake of another kind, and at least one of each of these.
    pub(crate) kinds: Option<Vec<Kind>>,
    /// `TLSv1.2` or `TLSv1.3`, of every handshake.
    pub(crate) version: Option<String>,
    /// The suite of every handshake, by its standard name.
    pub(crate) suite: Option<String>,
    /// The group of every handshake that exchanged keys.
    pub(crate) group: Option<String>,
    /// The scheme of the server's signature in every handshake that had one.
    pub(crate) signature: Option<String>,
    pub(crate) resumed: Option<Share>,
    /// Of the connections to an origin that speaks TLS.
    pub(crate) origin_resumed: Option<Share>,
    pub(crate) error_rate: Option<Share>,
}

/// Bounds of a share, 0 to 1.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Share {
    #[serde(default)]
    pub(crate) least: f64,
    #[serde(default = "whole")]
    pub(crate) most: f64,
}

fn whole() -> f64 {
    1.0
}

impl Share {
    /// Whether a share lies within.
    pub(crate) fn holds(self, share: f64) -> bool {
        (self.least..=self.most).contains(&share)
    }
}

impl Expect {
    /// This, and what `over` says in its place.
    pub(crate) fn overlaid(self, over: Self) -> Self {
        Self {
            kinds: over.kinds.or(self.kinds),
            version: over.version.or(self.version),
            suite: over.suite.or(self.suite),
            group: over.group.or(self.group),
            signature: over.signature.or(self.signature),
            resumed: over.resumed.or(self.resumed),
            origin_resumed: over.origin_resumed.or(self.origin_resumed),
            error_rate: over.error_rate.or(self.error_rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_later_replaces() {
        let parsed = |text| toml::from_str::<Expect>(text).unwrap();
        let base = parsed("kinds = [\"full\"]\nversion = \"TLSv1.3\"\nresumed = { most = 0.0 }");
        let over = parsed("kinds = [\"session-id\"]\nresumed = { least = 0.9 }");
        let both = base.overlaid(over);
        assert_eq!(both.kinds, Some(vec![Kind::SessionId]));
        assert_eq!(both.version.as_deref(), Some("TLSv1.3"));
        let share = both.resumed.unwrap();
        assert!(share.holds(0.9) && share.holds(1.0) && !share.holds(0.89));
    }
}
