//! Encrypted Client Hello (RFC 9849), by clients with the given configurations, with outdated ones,
//! and with none (GREASE).

use load::ech::EchOption;
use load::observe::{ObserveFault, ObservedConversation, ObservingClient as Observer};
use load::plan::{Handshake, PlannedTls, Suite, Versions};
use measure::probe::{EchAnswer, EchFate, EchReport};
use wire::ech::{EchConfig, config_list};

use crate::certificate::{CertificateExpectation, facts};
use crate::offers::{Visit, offer};
use crate::reach::malformed;

impl Visit<'_> {
    /// `None` = the client that asks has nothing in common with the server, whatever it asks for.
    pub(crate) fn ech(&self) -> Option<EchReport> {
        let grease = self.answer(Some(EchOption::Grease), None);
        if grease.trouble.is_some() && self.answer(None, None).trouble.is_some() {
            return None;
        }
        let given = self.options.ech.as_ref();
        let first = given.and_then(|list| EchConfig::read_list(list)?.into_iter().next());
        Some(EchReport {
            grease,
            given: given.map(|list| self.answer_to_list(list, first.as_ref())),
            outdated: first
                .as_ref()
                .map(|first| self.answer_to_list(&outdated(first), Some(first))),
            public_name: first.map(|first| first.public_name),
        })
    }

    fn answer_to_list(&self, list: &[u8], first: Option<&EchConfig>) -> EchAnswer {
        let public_name = first.map(|first| first.public_name.as_str());
        self.answer(Some(EchOption::Configurations(list.to_vec())), public_name)
    }

    /// The answer to a hello with that or without ECH; who rejects it should have a certificate for
    /// the public name.
    fn answer(&self, ech: Option<EchOption>, public_name: Option<&str>) -> EchAnswer {
        let full = offer(Handshake::Full, self.options);
        let suites = Suite::ALL.into_iter().filter(|suite| Versions::Tls13.have(*suite)).collect();
        let offered = PlannedTls { versions: Versions::Tls13, suites, ech, ..full };
        let conversation =
            ObservedConversation { linger: self.linger.get(), ..ObservedConversation::default() };
        let opened = Observer::new(&offered).map_err(malformed);
        let opened = opened.and_then(|client| Ok((client, self.reach.open()?)));
        let (client, mut stream) = match opened {
            Ok(both) => both,
            Err(trouble) => return EchAnswer::failed(trouble),
        };
        match client.converse(&mut stream, conversation) {
            Ok(seen) => EchAnswer {
                fate: match seen.ech {
                    Some(load::observe::EchOutcome::Accepted) => EchFate::Accepted,
                    _ => EchFate::PassedOver,
                },
                certificate: facts(&seen.chain, &seen.staple, self.expected),
                ..EchAnswer::default()
            },
            Err(ObserveFault::EchRejected { retry_configurations, chain }) => {
                let name = public_name.map(str::to_owned);
                let expected = CertificateExpectation { roots: None, name, ..*self.expected };
                let is_outdated = retry_configurations > 0;
                EchAnswer {
                    fate: if is_outdated { EchFate::Outdated } else { EchFate::Rejected },
                    retry_configurations: retry_configurations as u64,
                    certificate: facts(&chain, &[], &expected),
                    ..EchAnswer::default()
                }
            }
            Err(fault) => EchAnswer::failed(self.reach.failed(&fault)),
        }
    }
}

/// The list of a client that has missed a rotation: the same public name, and a key that nobody
/// has. Any 32 bytes are one of X25519 (RFC 7748 section 5).
fn outdated(first: &EchConfig) -> Vec<u8> {
    let key = first.public_key.map(|byte| !byte);
    config_list(&[EchConfig::new(first.id.wrapping_add(128), &first.public_name, key)])
}
