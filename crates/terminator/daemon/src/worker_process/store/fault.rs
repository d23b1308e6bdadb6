//! Faults of requests to the store: the reason, whose fault it is, and the remedy.

use std::time::Duration;

use telemetry::outcome::StoreFailure;
use telemetry::printable;
use tokio::time::error::Elapsed;

/// The longest text of the store: its errors are a line.
const TEXT_CHARACTERS_MAX: usize = 200;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Fault {
    pub(super) why: StoreFailure,
    pub(super) text: String,
    /// The operator's remedy; empty = nothing that would be known here.
    hint: &'static str,
}

impl Fault {
    pub(super) fn of(why: StoreFailure, text: impl Into<String>) -> Self {
        // What a server says may be of many lines, and of any length.
        let text = printable::line(&text.into()).to_string();
        let text: String = text.chars().take(TEXT_CHARACTERS_MAX).collect();
        let hint = match why {
            StoreFailure::Authentication => {
                "its user needs the password of `cluster.store`, the commands GET, GETDEL, SET \
                 and DEL, and names that begin with `prefix`"
            }
            StoreFailure::Full => {
                "give it more memory, or have it evict: maxmemory-policy volatile-ttl"
            }
            StoreFailure::Redirect => {
                "if it is a node of yours, list it in `nodes`, or its network in `networks` of \
                 `cluster.store`"
            }
            StoreFailure::Refused if text.starts_with("MOVED") => {
                "it belongs to a Redis Cluster: list some of its nodes in `nodes`"
            }
            StoreFailure::Refused if text.contains("unknown command") => {
                "GETDEL needs Redis 6.2 or newer, or Valkey"
            }
            _ => "",
        };
        Self { why, text, hint }
    }

    /// An error that the store answered with; what it says is short, and what operators look for.
    pub(super) fn answered(error: &str) -> Self {
        let why = match error.split(' ').next().unwrap_or_default() {
            "OOM" => StoreFailure::Full,
            "READONLY" | "MISCONF" | "NOREPLICAS" => StoreFailure::ReadOnly,
            "NOAUTH" | "WRONGPASS" | "NOPERM" => StoreFailure::Authentication,
            // A server without a password.
            "ERR" if error.contains("AUTH") => StoreFailure::Authentication,
            "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" => StoreFailure::Unready,
            _ => StoreFailure::Refused,
        };
        Self::of(why, error)
    }

    /// There is no connection, or it has ended.
    pub(super) fn connection(text: impl Into<String>) -> Self {
        Self::of(StoreFailure::Connection, text)
    }

    /// The same with where it happened.
    pub(super) fn at(self, place: impl std::fmt::Display) -> Self {
        let text = format!("{place}: {}", self.text);
        Self { text, ..self }
    }

    /// The same with that remedy.
    pub(super) fn hinting(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    pub(super) fn unless<T>(
        came: Result<Result<T, Self>, Elapsed>,
        time: Duration,
    ) -> Result<T, Self> {
        came.unwrap_or_else(|_| Err(Self::late(time)))
    }

    pub(super) fn late(time: Duration) -> Self {
        let text = format!("no answer within {} ms", time.as_millis());
        Self::of(StoreFailure::Timeout, text)
    }

    /// The operator's remedy, as a line of its own.
    pub(super) fn remedy(&self) -> String {
        match self.hint {
            "" => String::new(),
            hint => format!("\nhint: {hint}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_says_is_one_short_line() {
        let fault = Fault::of(StoreFailure::Refused, "ERR a\nhint: b\u{1b}");
        assert_eq!(fault.text, r"ERR a\u000ahint: b\u001b");
        let fault = Fault::of(StoreFailure::Refused, "\n".repeat(1 << 20));
        assert_eq!(fault.text.len(), TEXT_CHARACTERS_MAX);
    }
}
