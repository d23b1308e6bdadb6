//! Asks one address everything.

use std::cell::Cell;
use std::time::Duration;

use load::observe::{ObservedConversation, ObservingClient as Observer};
use load::plan::{Handshake, PlannedTls};
use measure::probe::{
    CertificateReport, ClientCertificateRequest, ClientReport, End, Exchange, NodeReport, Order,
    ProbeTrouble, Resumes, ResumptionReport, TroubleKind, UnknownNameAnswer, VersionReport,
};
use wire::alert;
use wire::text::is_control;

use crate::certificate::facts;
use crate::hello::{HelloAnswer, HelloChoice, RawHello, TLS_1_2, TLS_1_3};
use crate::offers::{KINDS, OLDER, OfferKind, Visit, has_signature, offer};
use crate::openssl::{Purpose, unusual_groups};
use crate::reach::{malformed, trouble};
use crate::registry::{
    GROUPS, RegisteredNumber, SIGNATURES, SSL_3, SUITES_12, SUITES_13, SUITES_RARE, VERSIONS, name,
    numbers, suite_name,
};
use crate::resumption::{SessionWay, found};

/// A name that never exists (RFC 6761, section 6.4).
const UNKNOWN_NAME: &str = "unknown-name.invalid";

/// Maximum of suites or groups that a server is asked to choose.
const CHOICES_MAX: usize = 64;

/// First bytes of every HTTP/2 client, with empty SETTINGS (RFC 9113, section 3.4).
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const H2_SETTINGS: u8 = 4;
/// Short, because the rest of the reply does not matter and the server would keep the connection.
const H2_LINGER: Duration = Duration::from_millis(1);

/// Alerts of servers that need a shared secret: in older versions a password (RFC 5054, section
/// 2.5.1.3), in TLS 1.3 a key. The others report an invalid proof.
const WANTS_SECRET: [&str; 3] = ["unknown_psk_identity", "illegal_parameter", "decrypt_error"];

/// Suite by which a client signals that it retries with an older version (RFC 7507).
const FALLBACK_SCSV: u16 = 0x5600;
/// The alert in answer to `FALLBACK_SCSV`.
const INAPPROPRIATE_FALLBACK: u8 = 86;

impl Visit<'_> {
    /// Asks everything that concerns this address alone.
    pub(crate) fn node(&self) -> NodeReport {
        let mut node =
            NodeReport { address: self.reach.address.to_string(), ..NodeReport::default() };
        if let Err(trouble) = self.contact() {
            node.trouble = Some(self.explained(trouble));
            return node;
        }
        let versions = || -> Vec<_> { VERSIONS.iter().map(|one| self.version(*one)).collect() };
        node.versions = versions();
        if node.spoken().next().is_none() {
            self.is_rare.set(true);
            let rare = versions();
            if rare.iter().any(|version| version.spoken) {
                node.versions = rare;
            }
        }
        if node.spoken().next().is_none() {
            let said: Vec<_> = node.versions.iter().map(|one| one.answer.as_str()).collect();
            let text = format!("it refuses every version: {}", said.join(", "));
            let refused = || trouble(TroubleKind::Refused, text);
            // An untried version was not refused.
            node.trouble = Some(self.reach.left_alone().unwrap_or_else(refused));
            return node;
        }
        node.fallback_refused = self.fallback_refused(&node.versions);
        node.clients = KINDS.iter().map(|kind| self.client(kind)).collect();
        if node.clients.iter().all(|client| client.trouble.is_some()) {
            node.plaintext_certificate = self.plaintext_certificate(&node.versions);
            self.openssl_groups.replace(unusual_groups(&node));
            node.clients.extend(self.older(&node.versions));
        }
        node.unknown_name = self.unknown_name();
        node.nameless = self.nameless();
        node.exchange = self.exchange();
        node.client_certificate = self.client_certificate();
        if node.clients.iter().any(|client| client.alpn == "h2") {
            node.h2_honoured = self.h2_honoured();
        }
        self.old_weaknesses(&mut node);
        node.certificate_compression = self.certificate_compression();
        node.ech = node.speaks("TLSv1.3").then(|| self.ech()).flatten();
        node
    }

    /// Tests resumption at this address alone.
    pub(crate) fn resumption(&self, node: &mut NodeReport, index: usize) -> Vec<ResumptionReport> {
        let mut all = Vec::new();
        let older = node.client(OLDER).filter(|client| client.trouble.is_none());
        let everything = match older.map(|client| client.version.clone()) {
            Some(version) => self.older_resumption(&version, index),
            None => {
                let way = SessionWay { from: index, to: index };
                let kinds = Resumes::ALL.into_iter().filter(|kind| node.speaks(kind.version()));
                kinds.map(|kind| found(self, self.reach, kind, way)).collect()
            }
        };
        for found in everything {
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

    /// Explains a silent server: it may wait for a request for TLS in another protocol.
    fn explained(&self, found: ProbeTrouble) -> ProbeTrouble {
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

    /// Reports whether the address speaks TLS. A refusal is an answer.
    fn contact(&self) -> Result<(), ProbeTrouble> {
        self.hello(&numbers(&VERSIONS)).ask(self.reach).map(drop)
    }

    /// Returns a hello that offers everything known of these versions.
    fn hello(&self, versions: &[u16]) -> RawHello {
        let of = |is_newer: bool| {
            let is_offered = versions.iter().any(|version| (*version > TLS_1_2) == is_newer);
            if is_offered { numbers(self.suites(is_newer)) } else { Vec::new() }
        };
        RawHello {
            versions: versions.to_vec(),
            suites: [of(true), of(false)].concat(),
            groups: numbers(&GROUPS),
            signatures: numbers(&SIGNATURES),
            server_name: self.options.server_name.clone(),
            heartbeat: false,
            psk: versions == [TLS_1_3] && self.is_rare.get(),
            share: false,
        }
    }

    /// Returns the suites to offer in TLS 1.3, or in older versions.
    fn suites(&self, is_newer: bool) -> &'static [RegisteredNumber] {
        if is_newer {
            &SUITES_13
        } else if self.is_rare.get() {
            &SUITES_RARE
        } else {
            &SUITES_12
        }
    }

    fn version(&self, (number, title): RegisteredNumber) -> VersionReport {
        let mut version = VersionReport { name: title.to_owned(), ..VersionReport::default() };
        let hello = self.hello(&[number]);
        let RawHello { suites, groups, .. } = hello.clone();
        let chosen = |suites: &[u16], groups: &[u16]| -> Result<HelloChoice, String> {
            let (suites, groups) = (suites.to_vec(), groups.to_vec());
            match (RawHello { suites, groups, ..hello.clone() }).ask(self.reach) {
                Ok(HelloAnswer::Choice(choice)) if choice.version == number => Ok(choice),
                Ok(HelloAnswer::Choice(choice)) => {
                    Err(format!("it answers with {}", name(&VERSIONS, choice.version)))
                }
                Ok(HelloAnswer::Alert(description)) => Err(alert::label(description)),
                Err(trouble) => Err(trouble.text),
            }
        };
        let first = match chosen(&suites, &groups) {
            Err(answer) => {
                let wanting = if number > TLS_1_2 { &WANTS_SECRET[..] } else { &WANTS_SECRET[..1] };
                version.spoken = self.is_rare.get() && wanting.contains(&answer.as_str());
                version.answer = answer;
                return version;
            }
            Ok(first) => first,
        };
        version.spoken = true;
        version.compression = first.compression;
        let has_extensions = (SSL_3 + 1..=TLS_1_2).contains(&number);
        version.secure_renegotiation = has_extensions.then_some(first.secure_renegotiation);
        let dh_bits = Cell::new(None::<u32>);
        let choose = |offered: &[u16]| {
            let choice = chosen(offered, &groups).ok()?;
            dh_bits.set(dh_bits.get().into_iter().chain(choice.dh_bits).min());
            Some(choice.suite)
        };
        let accepted = in_turn(&suites, choose);
        // Many servers that prefer their own order take ChaCha20 from clients that name it first,
        // since those have no AES in hardware.
        let mut compared = accepted.clone();
        compared.retain(|suite| !suite_name(*suite).contains("CHACHA20"));
        version.order = order(&compared, choose);
        version.dh_bits = dh_bits.get().unwrap_or(0);
        version.suites = accepted.iter().map(|suite| suite_name(*suite)).collect();
        let taken = in_turn(&groups, |offered| chosen(&suites, offered).ok()?.group);
        version.groups = taken.iter().map(|group| name(&GROUPS, *group)).collect();
        version
    }

    /// Returns the certificate that a server shows in plaintext, up to TLS 1.2, if any.
    fn plaintext_certificate(&self, versions: &[VersionReport]) -> Option<CertificateReport> {
        match self.hello(&[newest_older(versions)?.0]).ask(self.reach) {
            Ok(HelloAnswer::Choice(choice)) => facts(&choice.chain, &choice.staple, self.expected),
            _ => None,
        }
    }

    /// Reports whether the server refuses a client that offers only the second newest version, as
    /// after an attack on the newest.
    fn fallback_refused(&self, versions: &[VersionReport]) -> Option<bool> {
        let mut hello = self.hello(&[spoken(versions).nth(1)?.0]);
        hello.suites.push(FALLBACK_SCSV);
        match hello.ask(self.reach).ok()? {
            HelloAnswer::Choice(_) => Some(false),
            HelloAnswer::Alert(description) => {
                (description == INAPPROPRIATE_FALLBACK).then_some(true)
            }
        }
    }

    /// Runs an installed OpenSSL as a client of the newest version that has only CBC or RSA key
    /// exchange. For TLS 1.3 alone, reports the missing features. `None` if they are unknown.
    fn older(&self, versions: &[VersionReport]) -> Option<ClientReport> {
        let mut client = ClientReport { kind: OLDER.to_owned(), ..ClientReport::default() };
        let Some((_, version)) = newest_older(versions) else {
            client.signature = self.rare_signatures()?;
            let text = format!("in TLS 1.3 it signs by {} alone", client.signature);
            client.trouble = Some(trouble(TroubleKind::Refused, text));
            return Some(client);
        };
        match self.carried_handshakes(version, Purpose::Once).as_deref() {
            Err(trouble) => client.trouble = Some(trouble.clone()),
            Ok(all) => {
                let choice = all.first().map(|one| one.choice.clone()).unwrap_or_default();
                client.version = name(&VERSIONS, choice.version);
                client.suite = suite_name(choice.suite);
                client.group = choice.group.map(|it| name(&GROUPS, it)).unwrap_or_default();
                client.certificate = facts(&choice.chain, &choice.staple, self.expected);
            }
        }
        Some(client)
    }

    /// Returns the TLS 1.3 signature schemes that the server accepts one by one, if it refuses
    /// those of our clients.
    fn rare_signatures(&self) -> Option<String> {
        let hello = RawHello { share: true, ..self.hello(&[TLS_1_3]) };
        let goes_on = |signatures: Vec<u16>| {
            let answer = RawHello { signatures, ..hello.clone() }.ask(self.reach);
            matches!(answer, Ok(HelloAnswer::Choice(_)))
        };
        let (ours, rare): (Vec<_>, Vec<_>) =
            SIGNATURES.iter().partition(|(_, name)| has_signature(name));
        if goes_on(numbers(&ours)) || !goes_on(numbers(&rare)) {
            return None;
        }
        let taken = rare.into_iter().filter(|(number, _)| goes_on(vec![*number]));
        Some(taken.map(|(_, name)| name).collect::<Vec<_>>().join(", "))
    }

    /// Tests weaknesses that only versions before TLS 1.3 can have. One connection each.
    fn old_weaknesses(&self, node: &mut NodeReport) {
        let Some((number, version)) = newest_older(&node.versions) else { return };
        node.client_renegotiation = self.client_renegotiation(version);
        if let Some(errors) = self.hello(&[number]).old_errors(self.reach) {
            node.heartbeat = Some(errors.heartbeat);
            node.early_change = Some(errors.early_change);
        }
    }

    /// Connects without SNI, and returns the certificate that the server shows.
    fn nameless(&self) -> Option<ClientReport> {
        self.options.server_name.as_ref()?;
        let offered = PlannedTls { server_name: None, ..offer(Handshake::Full, self.options) };
        Some(self.asked("nameless", &offered))
    }

    fn certificate_compression(&self) -> Option<String> {
        let full = offer(Handshake::Full, self.options);
        let client = Observer::new(&PlannedTls { certificate_compression: true, ..full }).ok()?;
        let seen = self.converse(self.reach, &client).ok()?;
        (seen.version == "TLSv1.3").then(|| match seen.certificate_compression {
            None => "none".to_owned(),
            Some(1) => "zlib".to_owned(),
            Some(2) => "brotli".to_owned(),
            Some(other) => other.to_string(),
        })
    }

    /// Reports whether the server speaks HTTP/2 after ALPN selects it. An HTTP/2 server begins with
    /// its SETTINGS (RFC 9113, section 3.4).
    fn h2_honoured(&self) -> Option<bool> {
        let full = offer(Handshake::Full, self.options);
        let alpn = vec![b"h2".to_vec()];
        let client = Observer::new(&PlannedTls { alpn, ..full }).ok()?;
        let is_asked = self.options.starttls.is_none() && !self.options.request.is_empty();
        let request = is_asked.then_some(H2_PREFACE)?;
        let conversation =
            ObservedConversation { request: Some(request), early: None, linger: H2_LINGER };
        let seen = self.converse_so(self.reach, &client, conversation).ok()?;
        let is_silent = seen.reply.is_empty() && seen.end == End::Open;
        let is_known = seen.alpn == "h2" && !is_silent && seen.alert.is_none();
        is_known.then(|| seen.reply.get(3) == Some(&H2_SETTINGS))
    }

    fn client(&self, kind: &OfferKind) -> ClientReport {
        self.asked(kind.name, &kind.offer(self.options))
    }

    fn asked(&self, kind: &str, offered: &PlannedTls) -> ClientReport {
        let mut client = ClientReport { kind: kind.to_owned(), ..ClientReport::default() };
        let seen = Observer::new(offered)
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
        let hello = self.hello(&[TLS_1_3, TLS_1_2]);
        let hello = RawHello { server_name: Some(UNKNOWN_NAME.to_owned()), ..hello };
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
            hsts_s: hsts_s(&seen.reply),
            records: seen.records,
            end: seen.end,
        })
    }

    /// Reports whether the server requires a client certificate: it refuses a client without one,
    /// in TLS 1.3 after the client's end of the handshake.
    fn client_certificate(&self) -> Option<ClientCertificateRequest> {
        let full = offer(Handshake::Full, self.options);
        let client = Observer::new(&PlannedTls { client_certificate: None, ..full }).ok()?;
        let is_refused = match self.converse(self.reach, &client) {
            Ok(seen) => seen.alert.is_some(),
            // The handshake may have failed before the server could request a certificate.
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

/// Returns the accepted versions among those tried in the order of the registry.
fn spoken(versions: &[VersionReport]) -> impl Iterator<Item = RegisteredNumber> {
    let both = VERSIONS.iter().zip(versions);
    both.filter(|(_, version)| version.spoken).map(|(version, _)| *version)
}

/// Returns the newest accepted version before TLS 1.3.
fn newest_older(versions: &[VersionReport]) -> Option<RegisteredNumber> {
    spoken(versions).find(|(number, _)| *number <= TLS_1_2)
}

/// Returns the max-age of an HTTP reply's Strict-Transport-Security (RFC 6797, section 6.1).
fn hsts_s(reply: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(reply);
    let headers = text.strip_prefix("HTTP/1.")?.lines().skip(1).take_while(|line| !line.is_empty());
    let fields = headers.filter_map(|line| line.split_once(':'));
    let mut found =
        fields.filter(|(name, _)| name.eq_ignore_ascii_case("strict-transport-security"));
    let (_, value) = found.next()?;
    let mut directives = value.split(';').filter_map(|one| one.split_once('='));
    let (_, age) = directives.find(|(name, _)| name.trim().eq_ignore_ascii_case("max-age"))?;
    age.trim().trim_matches('"').parse().ok()
}

/// Returns the choices in turn: among the whole offer, then among the rest, until there is none.
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

/// Reports whose order decides, by offering the same in the opposite order.
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
    fn hsts_is_read_off_the_headers() {
        let reply = |headers: &str| hsts_s(format!("HTTP/1.1 200 OK\r\n{headers}\r\n").as_bytes());
        let told = "strict-transport-security: includeSubDomains; Max-Age=\"63072000\"\r\n";
        assert_eq!(reply(told), Some(63_072_000));
        assert_eq!(reply("\r\nStrict-Transport-Security: max-age=1\r\n"), None);
        assert_eq!(reply("Strict-Transport-Security: max-age=x\r\n"), None);
        assert_eq!(hsts_s(b"220 mail\r\nStrict-Transport-Security: max-age=1\r\n"), None);
    }

    #[test]
    fn whose_order_decides_is_told_by_the_opposite() {
        let of_client = |offered: &[u16]| offered.first().copied();
        let of_server = |offered: &[u16]| [3, 1, 2].into_iter().find(|one| offered.contains(one));
        let taken = in_turn(&[1, 2, 3, 4], of_server);
        assert_eq!(taken, [3, 1, 2]);
        assert_eq!(order(&taken, of_server), Some(Order::Server));
        assert_eq!(order(&in_turn(&[1, 2], of_client), of_client), Some(Order::Client));
        assert_eq!(order(&[7], of_server), None);
        // The loop ends if a server chooses something that was not offered.
        assert!(in_turn(&[1], |_| Some(9)).is_empty());
    }
}
