//! Everything that is asked of one address.

use std::cell::Cell;

use load::observe::{ObservedConversation, ObservingClient as Observer};
use load::plan::{Handshake, PlannedTls};
use measure::probe::{
    CertificateReport, ClientCertificateRequest, ClientReport, Exchange, NodeReport, Order,
    Resumes, ResumptionReport, Trouble, TroubleKind, UnknownNameAnswer, VersionReport,
};
use wire::alert;
use wire::text::is_control;

use crate::certificate::facts;
use crate::hello::{HelloAnswer, HelloChoice, RawHello};
use crate::offers::{KINDS, OfferKind, Visit, offer};
use crate::reach::{malformed, trouble};
use crate::registry::{GROUPS, RegisteredNumber, SUITES_12, SUITES_13, VERSIONS, name, numbers};
use crate::resumption::{SessionWay, found};

/// A name that nobody has (RFC 6761, section 6.4).
const UNKNOWN_NAME: &str = "unknown-name.invalid";

/// Whatever else a server says, it does not accept more suites or groups than this.
const CHOICES_MAX: usize = 64;

const TLS_1_2: u16 = 0x0303;

/// Among its suites, a client that comes again with an older version says so (RFC 7507).
const FALLBACK_SCSV: u16 = 0x5600;
/// The alert that answers it.
const INAPPROPRIATE_FALLBACK: u8 = 86;

impl Visit<'_> {
    /// Asks everything but what concerns other addresses too.
    pub(crate) fn node(&self) -> NodeReport {
        let mut node =
            NodeReport { address: self.reach.address.to_string(), ..NodeReport::default() };
        if let Err(trouble) = self.contact() {
            node.trouble = Some(self.explained(trouble));
            return node;
        }
        node.versions = VERSIONS.iter().map(|version| self.version(*version)).collect();
        if node.versions.iter().all(|version| !version.spoken) {
            let said: Vec<_> = node.versions.iter().map(|one| one.answer.as_str()).collect();
            let text = format!("it refuses every version: {}", said.join(", "));
            node.trouble = Some(trouble(TroubleKind::Refused, text));
            return node;
        }
        node.fallback_refused = self.fallback_refused(&node.versions);
        node.clients = KINDS.iter().map(|kind| self.client(kind)).collect();
        if node.clients.iter().all(|client| client.trouble.is_some()) {
            node.plaintext_certificate = self.plaintext_certificate(&node.versions);
        }
        node.unknown_name = self.unknown_name();
        node.exchange = self.exchange();
        node.client_certificate = self.client_certificate();
        node
    }

    /// Resumption at this address alone.
    pub(crate) fn resumption(&self, node: &mut NodeReport, index: usize) -> Vec<ResumptionReport> {
        let mut all = Vec::new();
        for kind in Resumes::ALL {
            if !node.speaks(kind.version()) {
                continue;
            }
            let way = SessionWay { from: index, to: index };
            let found = found(self, self.reach, kind, way);
            node.tickets.extend(found.tickets);
            for time in found.times {
                if node.handshakes.iter().all(|known| known.kind != time.kind) {
                    node.handshakes.push(time);
                }
            }
            if let (Some(certificate), Some(asked)) =
                (&mut node.client_certificate, found.certificate_asked)
            {
                let before = certificate.asked_at_resumption.unwrap_or(false);
                certificate.asked_at_resumption = Some(before || asked);
            }
            all.push(found.resumption);
        }
        all
    }

    /// A server that is silent may wait to be asked for TLS in another protocol.
    fn explained(&self, found: Trouble) -> Trouble {
        let is_silent = matches!(found.kind, TroubleKind::Closed | TroubleKind::Timeout);
        let named = is_silent.then(|| self.reach.named_by_asking()).flatten();
        let Some((dialect, protocol)) = named else {
            return found;
        };
        let dialect = dialect.name();
        let text =
            format!("this speaks {protocol} without TLS, did you mean --starttls {dialect}?");
        trouble(TroubleKind::NotTls, text)
    }

    /// Whether there is TLS at all. That it refuses is an answer.
    fn contact(&self) -> Result<(), Trouble> {
        let suites = [numbers(&SUITES_13), numbers(&SUITES_12)].concat();
        self.hello(&numbers(&VERSIONS), &suites, &numbers(&GROUPS)).map(drop)
    }

    fn hello(
        &self,
        versions: &[u16],
        suites: &[u16],
        groups: &[u16],
    ) -> Result<HelloAnswer, Trouble> {
        let hello =
            RawHello { versions, suites, groups, server_name: self.options.server_name.as_deref() };
        hello.ask(self.reach)
    }

    fn version(&self, (number, title): RegisteredNumber) -> VersionReport {
        let mut version = VersionReport { name: title.to_owned(), ..VersionReport::default() };
        let known: &[RegisteredNumber] = if number > TLS_1_2 { &SUITES_13 } else { &SUITES_12 };
        let suites = numbers(known);
        let chosen = |suites: &[u16], groups: &[u16]| -> Result<HelloChoice, String> {
            match self.hello(&[number], suites, groups) {
                Ok(HelloAnswer::Choice(choice)) if choice.version == number => Ok(choice),
                Ok(HelloAnswer::Choice(choice)) => {
                    Err(format!("it answers with {}", name(&VERSIONS, choice.version)))
                }
                Ok(HelloAnswer::Alert(description)) => Err(alert::label(description)),
                Err(trouble) => Err(trouble.text),
            }
        };
        let groups = numbers(&GROUPS);
        let first = match chosen(&suites, &groups) {
            Err(answer) => {
                version.answer = answer;
                return version;
            }
            Ok(first) => first,
        };
        version.spoken = true;
        version.compression = first.compression;
        version.secure_renegotiation = (number <= TLS_1_2).then_some(first.secure_renegotiation);
        let dh_bits = Cell::new(None::<u32>);
        let choose = |offered: &[u16]| {
            let choice = chosen(offered, &groups).ok()?;
            dh_bits.set(dh_bits.get().into_iter().chain(choice.dh_bits).min());
            Some(choice.suite)
        };
        let accepted = in_turn(&suites, choose);
        // Many servers with an order of their own take ChaCha20 from clients that name it first,
        // since those have no AES in hardware.
        let mut compared = accepted.clone();
        compared.retain(|suite| !name(known, *suite).contains("CHACHA20"));
        version.order = order(&compared, choose);
        version.dh_bits = dh_bits.get().unwrap_or(0);
        version.suites = accepted.iter().map(|suite| name(known, *suite)).collect();
        let taken = in_turn(&groups, |offered| chosen(&suites, offered).ok()?.group);
        version.groups = taken.iter().map(|group| name(&GROUPS, *group)).collect();
        version
    }

    /// The certificate that a server shows in clear text, up to TLS 1.2, if it shows one.
    fn plaintext_certificate(&self, versions: &[VersionReport]) -> Option<CertificateReport> {
        let both = VERSIONS.iter().zip(versions);
        let mut spoken = both.filter(|((number, _), version)| version.spoken && *number <= TLS_1_2);
        let ((number, _), _) = spoken.next()?;
        match self.hello(&[*number], &numbers(&SUITES_12), &numbers(&GROUPS)) {
            Ok(HelloAnswer::Choice(choice)) => facts(&choice.chain, &[], self.expected),
            _ => None,
        }
    }

    /// Whether a client that comes with the second newest version, as after an attack on the
    /// newest, is turned away.
    fn fallback_refused(&self, versions: &[VersionReport]) -> Option<bool> {
        let both = VERSIONS.iter().zip(versions);
        let mut spoken = both.filter(|(_, version)| version.spoken);
        let ((older, _), _) = spoken.nth(1)?;
        let suites = [numbers(&SUITES_12), vec![FALLBACK_SCSV]].concat();
        match self.hello(&[*older], &suites, &numbers(&GROUPS)).ok()? {
            HelloAnswer::Choice(_) => Some(false),
            HelloAnswer::Alert(description) => {
                (description == INAPPROPRIATE_FALLBACK).then_some(true)
            }
        }
    }

    fn client(&self, kind: &OfferKind) -> ClientReport {
        let mut client = ClientReport { kind: kind.name.to_owned(), ..ClientReport::default() };
        let seen = Observer::new(&kind.offer(self.options))
            .map_err(malformed)
            .and_then(|observer| self.reach.again(|| self.converse(self.reach, &observer)));
        match seen {
            Err(trouble) => client.trouble = Some(trouble),
            Ok(seen) => {
                client.certificate = facts(&seen.chain, &seen.staple, self.expected);
                client.version = seen.version;
                client.suite = seen.suite;
                client.group = seen.group;
                client.hello_retry = seen.hello_retry;
                client.signature = seen.signature;
                client.alpn = seen.alpn;
            }
        }
        client
    }

    fn unknown_name(&self) -> Option<UnknownNameAnswer> {
        let suites = [numbers(&SUITES_13), numbers(&SUITES_12)].concat();
        let hello = RawHello {
            versions: &[0x0304, TLS_1_2],
            suites: &suites,
            groups: &numbers(&GROUPS),
            server_name: Some(UNKNOWN_NAME),
        };
        let (served, answer) = match hello.ask(self.reach) {
            Ok(HelloAnswer::Choice(_)) => (true, "it goes on".to_owned()),
            Ok(HelloAnswer::Alert(description)) => (false, alert::label(description)),
            Err(trouble) if trouble.kind == TroubleKind::Closed => (false, trouble.text),
            Err(_) => return None,
        };
        Some(UnknownNameAnswer { served, answer })
    }

    fn exchange(&self) -> Option<Exchange> {
        let client = Observer::new(&offer(Handshake::Full, self.options)).ok()?;
        let request = Some(self.options.request.as_slice()).filter(|it| !it.is_empty())?;
        let conversation =
            ObservedConversation { request: Some(request), early: None, linger: self.linger.get() };
        let seen = self.converse_so(self.reach, &client, conversation).ok()?;
        let line = seen.reply.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        Some(Exchange {
            reply: line.chars().filter(|one| !is_control(*one)).take(100).collect(),
            bytes: seen.bytes,
            records: seen.records,
            end: seen.end,
        })
    }

    /// A client without a certificate tells whether one is required, since it is refused: in
    /// TLS 1.3 after its own end of the handshake.
    fn client_certificate(&self) -> Option<ClientCertificateRequest> {
        let full = offer(Handshake::Full, self.options);
        let client = Observer::new(&PlannedTls { client_certificate: None, ..full }).ok()?;
        let is_refused = match self.converse(self.reach, &client) {
            Ok(seen) => seen.alert.is_some(),
            // It may have come to nothing before one could be asked for.
            Err(_) if !client.certificate_asked() => return None,
            Err(trouble) => matches!(trouble.kind, TroubleKind::Refused | TroubleKind::Closed),
        };
        let asked = client.certificate_asked();
        Some(ClientCertificateRequest {
            asked,
            required: asked && is_refused,
            shown: self.options.client_certificate.is_some(),
            asked_at_resumption: None,
        })
    }
}

/// The choices in turn: of everything that is offered, then of the rest, until there is none.
fn in_turn(all: &[u16], choose: impl Fn(&[u16]) -> Option<u16>) -> Vec<u16> {
    let (mut rest, mut taken) = (all.to_vec(), Vec::new());
    while !rest.is_empty() && taken.len() < CHOICES_MAX {
        let Some(chosen) = choose(&rest).filter(|chosen| rest.contains(chosen)) else {
            break;
        };
        rest.retain(|one| *one != chosen);
        taken.push(chosen);
    }
    taken
}

/// Whose order decides, by what is chosen of the same in the opposite order.
fn order(accepted: &[u16], choose: impl Fn(&[u16]) -> Option<u16>) -> Option<Order> {
    let (first, last) = (accepted.first()?, accepted.last()?);
    if first == last {
        return None;
    }
    let mut reversed = accepted.to_vec();
    reversed.reverse();
    let chosen = choose(&reversed)?;
    Some(if chosen == *last { Order::Client } else { Order::Server })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_order_decides_is_told_by_the_opposite() {
        let of_client = |offered: &[u16]| offered.first().copied();
        let of_server = |offered: &[u16]| [3, 1, 2].into_iter().find(|one| offered.contains(one));
        let taken = in_turn(&[1, 2, 3, 4], of_server);
        assert_eq!(taken, [3, 1, 2]);
        assert_eq!(order(&taken, of_server), Some(Order::Server));
        assert_eq!(order(&in_turn(&[1, 2], of_client), of_client), Some(Order::Client));
        assert_eq!(order(&[7], of_server), None);
        // A server that chooses what was not offered is not asked for ever.
        assert!(in_turn(&[1], |_| Some(9)).is_empty());
    }
}
