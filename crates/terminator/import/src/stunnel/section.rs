//! A section of stunnel's file.

use crate::source::SourceLine;
use crate::statements::Statements;

/// A section, with the defaults before its own options.
#[derive(Clone, Debug)]
pub(super) struct StunnelSection {
    pub(super) name: String,
    pub(super) place: SourceLine,
    pub(super) options: Statements,
}

impl StunnelSection {
    pub(super) fn new(name: &str, place: SourceLine) -> Self {
        Self { name: name.to_owned(), place, options: Statements::default() }
    }

    /// The same with defaults, over which its own options go.
    pub(super) fn with(&self, defaults: &Statements) -> Self {
        Self { options: defaults.and(&self.options), ..self.clone() }
    }

    /// Whether its clients speak plaintext, and its servers TLS.
    pub(super) fn is_client(&self) -> bool {
        self.options.is_on("client")
    }

    /// The table of the side that speaks TLS.
    pub(super) fn tls(&self) -> &'static str {
        if self.is_client() { "back.tls" } else { "front.tls" }
    }

    /// The section whose address it shares, as `sni = PRIMARY:NAME` says.
    pub(super) fn primary<'s>(&self, sections: &'s [Self]) -> Option<&'s Self> {
        let sni = self.options.value("sni").filter(|_| !self.is_client())?;
        let (name, _) = sni.split_once(':')?;
        sections.iter().find(|one| one.name == name)
    }
}
