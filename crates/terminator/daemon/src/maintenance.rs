//! Servers that an operator disables and enables: their names, and an order about one as a number.
//!
//! An order reaches the supervisor with a signal, which has room for a number and no more. So it
//! holds a digest of the server's name, for which the supervisor looks among its own.

use std::fmt;

use backend::affinity;
use serde::{Deserialize, Serialize};

/// A server of a service, as operators name it. Servers of a service that have one address have one
/// name.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct ServerName {
    /// The service's name, in which there is no `/`.
    pub(crate) service: String,
    /// The server's address, as configured.
    pub(crate) server: String,
}

impl ServerName {
    /// Reads `SERVICE/ADDRESS`; `None` if it has no such form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (service, server) = text.split_once('/')?;
        (!service.is_empty() && !server.is_empty())
            .then(|| Self { service: service.to_owned(), server: server.to_owned() })
    }

    /// The number of the order to disable or enable it.
    pub(crate) fn order(&self, change: Change) -> u64 {
        let digest = affinity::hash(self.to_string().as_bytes());
        digest << 1 | u64::from(change == Change::Disable)
    }

    /// The change by an order of that number; `None` if it is about another.
    pub(crate) fn ordered(&self, number: u64) -> Option<Change> {
        let mut changes = [Change::Disable, Change::Enable].into_iter();
        changes.find(|change| self.order(*change) == number)
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service, self.server)
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// It gets no new connection.
    Disable,
    Enable,
}

impl Change {
    /// The word of the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Enable => "enable",
        }
    }

    /// The one of that word.
    pub(crate) fn named(word: &str) -> Option<Self> {
        let mut all = [Self::Disable, Self::Enable].into_iter();
        all.find(|change| change.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_one_server_and_one_change() {
        let names = ["web/10.0.0.3:80", "web/10.0.0.4:80", "app/10.0.0.3:80"];
        let names = names.map(|text| ServerName::parse(text).unwrap());
        for (index, name) in names.iter().enumerate() {
            for change in [Change::Disable, Change::Enable] {
                let number = name.order(change);
                for (other, one) in names.iter().enumerate() {
                    assert_eq!(one.ordered(number), (index == other).then_some(change));
                }
            }
            assert_eq!(name.ordered(0), None, "a signal sent without a number");
        }
    }

    #[test]
    fn a_name_has_a_service_and_an_address() {
        let name = ServerName::parse("web/unix:/run/app.sock").unwrap();
        assert_eq!((&*name.service, &*name.server), ("web", "unix:/run/app.sock"));
        assert_eq!(name.to_string(), "web/unix:/run/app.sock");
        for text in ["web", "web/", "/10.0.0.3:80", ""] {
            assert_eq!(ServerName::parse(text), None, "{text}");
        }
    }
}
