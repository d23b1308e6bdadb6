//! Presents findings as named facts, for expectations and for the columns of tables.

use std::collections::BTreeSet;

use measure::probe::{
    CertificateReport, ChainState, ClientReport, EchAnswer, EchReport, Level, NodeReport,
    ProbeReport, Resumes, ResumptionReport, TicketReport,
};

use crate::offers::{KINDS, OLDER};

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FactValue {
    /// A word or a name.
    Text(String),
    /// A number in the unit at the end of the fact's name.
    Number(u64),
    Boolean(bool),
    /// Names, whose order does not matter.
    List(Vec<String>),
}

/// A fact: its name, and how to read it from a report.
pub struct ProbeFact {
    pub name: String,
    /// A sentence without a full stop.
    pub help: &'static str,
    read: FactRead,
}

type FactRead = Box<dyn Fn(&ReportAddress<'_>) -> Option<FactValue>>;

/// An address in a report.
struct ReportAddress<'r> {
    report: &'r ProbeReport,
    index: usize,
    node: &'r NodeReport,
}

impl ProbeFact {
    /// Returns the fact at an address; `None` if it is unknown or does not exist there.
    pub fn value(&self, report: &ProbeReport, index: usize) -> Option<FactValue> {
        let node = report.nodes.get(index)?;
        (self.read)(&ReportAddress { report, index, node })
    }
}

impl ReportAddress<'_> {
    fn ticket(&self, kind: Resumes) -> Option<&TicketReport> {
        self.node.tickets.iter().find(|one| one.kind == kind)
    }
}

/// Seconds in a day and in an hour.
const DAY_S: u64 = 86400;
const HOUR_S: u64 = 3600;

fn text(text: impl Into<String>) -> FactValue {
    FactValue::Text(text.into())
}

fn number(number: impl Into<u64>) -> FactValue {
    FactValue::Number(number.into())
}

fn list(texts: impl IntoIterator<Item = impl Into<String>>) -> FactValue {
    FactValue::List(texts.into_iter().map(Into::into).collect())
}

/// Returns all facts in the order of the reference.
pub fn all() -> Vec<ProbeFact> {
    let mut all = ProbeFacts::default();
    all.add("speaks-tls", |at| Some(FactValue::Boolean(at.node.trouble.is_none())));
    all.add("faults", |at| points(at, Level::Fault));
    all.add("advice", |at| points(at, Level::Advice));
    all.add("versions", |at| Some(list(at.node.spoken().map(|version| &version.name))));
    all.of_old_versions();
    for (version, name) in [("TLSv1.3", "tls13"), ("TLSv1.2", "tls12")] {
        all.of_version(version, name);
    }
    for kind in KINDS.iter().map(|kind| kind.name).chain([OLDER]) {
        all.of_client(kind);
    }
    all.of_certificate();
    for kind in Resumes::ALL {
        all.of_resumption(kind);
    }
    all.of_connection();
    all.of_handshakes();
    all.0
}

/// Returns the text of `facts.txt` about a fact; `*` stands for a version, a kind of client, of
/// resumption or of handshake.
fn help(name: &str) -> Option<&'static str> {
    let mut lines = include_str!("facts.txt").lines().filter_map(|line| line.split_once(' '));
    let (_, help) = lines.find(|(pattern, _)| match pattern.split_once('*') {
        Some((before, behind)) => name.starts_with(before) && name.ends_with(behind),
        None => *pattern == name,
    })?;
    Some(help)
}

#[derive(Default)]
struct ProbeFacts(Vec<ProbeFact>);

impl ProbeFacts {
    fn add(
        &mut self,
        name: impl Into<String>,
        read: impl Fn(&ReportAddress<'_>) -> Option<FactValue> + 'static,
    ) {
        let name = name.into();
        let help = help(&name).expect("a test asks for all");
        self.0.push(ProbeFact { name, help, read: Box::new(read) });
    }

    fn of_old_versions(&mut self) {
        self.add("secure-renegotiation", |at| {
            at.node.secure_renegotiation().map(FactValue::Boolean)
        });
        self.add("compression", |at| {
            let mut spoken = at.node.spoken().peekable();
            spoken.peek()?;
            Some(FactValue::Boolean(spoken.any(|version| version.compression)))
        });
        self.add("client-renegotiation", |at| at.node.client_renegotiation.map(FactValue::Boolean));
        self.add("heartbeat", |at| at.node.heartbeat.map(FactValue::Boolean));
        self.add("early-change", |at| at.node.early_change.map(FactValue::Boolean));
        self.add("fallback", |at| {
            let refused = at.node.fallback_refused?;
            Some(text(if refused { "refused" } else { "served" }))
        });
    }

    fn of_version(&mut self, version: &'static str, name: &str) {
        self.add(format!("{name}.suites"), move |at| Some(list(&at.node.version(version)?.suites)));
        self.add(format!("{name}.groups"), move |at| Some(list(&at.node.version(version)?.groups)));
        self.add(format!("{name}.dh-bits"), move |at| {
            let bits = at.node.version(version)?.dh_bits;
            (bits > 0).then(|| number(bits))
        });
        self.add(format!("{name}.order"), move |at| {
            Some(text(at.node.version(version)?.order?.name()))
        });
    }

    fn of_client(&mut self, kind: &'static str) {
        type ClientField = fn(&ClientReport) -> Option<&str>;
        let fields: [(&str, ClientField); 7] = [
            ("version", |one| Some(&one.version)),
            ("suite", |one| Some(&one.suite)),
            ("group", |one| Some(&one.group)),
            ("signature", |one| Some(&one.signature)),
            ("alpn", |one| Some(&one.alpn)),
            ("key", |one| Some(&one.certificate.as_ref()?.key)),
            ("refused", |one| Some(&one.trouble.as_ref()?.text)),
        ];
        for (name, field) in fields {
            self.add(format!("{kind}.{name}"), move |at| {
                let found = field(at.node.client(kind)?)?;
                (!found.is_empty()).then(|| text(found))
            });
        }
        self.add(format!("{kind}.hello-retry"), move |at| {
            let client = at.node.client(kind)?;
            let is_met = client.trouble.is_none();
            is_met.then_some(FactValue::Boolean(client.hello_retry))
        });
    }

    /// Adds the worst facts of all certificates that this address shows.
    fn of_certificate(&mut self) {
        type CertificateField = fn(&ReportAddress<'_>, &CertificateReport) -> Option<FactValue>;
        let fields: [(&str, CertificateField); 10] = [
            ("lifetime-allowed", |_, one| {
                (one.lifetime_days_max > 0)
                    .then(|| FactValue::Boolean(one.lifetime_days() <= one.lifetime_days_max))
            }),
            ("signature", |_, one| (!one.signature.is_empty()).then(|| text(&one.signature))),
            ("name-matches", |_, one| one.name_matches.map(FactValue::Boolean)),
            ("trusted", |_, one| {
                (one.chain_state != ChainState::Unchecked)
                    .then_some(FactValue::Boolean(one.chain_state == ChainState::Trusted))
            }),
            ("chain-ordered", |_, one| Some(FactValue::Boolean(one.chain_ordered))),
            ("days-left", |at, one| {
                Some(number(one.not_after_s.saturating_sub(at.report.at_s) / DAY_S))
            }),
            ("key", |_, one| Some(text(&one.key))),
            ("names", |_, one| Some(list(&one.names))),
            ("staple", |_, one| {
                Some(text(one.staple.as_ref().map_or("none", |staple| &staple.status)))
            }),
            ("staple-age-hours", |at, one| {
                let made = one.staple.as_ref()?.this_update_s;
                Some(number(at.report.at_s.saturating_sub(made) / HOUR_S))
            }),
        ];
        self.add("certificate.lifetime-days", |at| {
            let days = at.node.certificates().into_iter().map(CertificateReport::lifetime_days);
            days.max().map(FactValue::Number)
        });
        for (name, field) in fields {
            self.add(format!("certificate.{name}"), move |at| {
                let certificates = at.node.certificates();
                let values = certificates.into_iter().filter_map(|one| field(at, one));
                values.reduce(worse)
            });
        }
    }

    fn of_resumption(&mut self, kind: Resumes) {
        let name = format!("resumption.{}", kind.name());
        self.add(&name, move |at| {
            let own = at.report.own_resumption(at.index, kind)?;
            Some(text(resumed(at, own)))
        });
        if kind != Resumes::SessionId {
            self.add(format!("{name}-key-hours"), move |at| {
                let since_s = at.ticket(kind)?.key_since_s?;
                Some(number(at.report.at_s.saturating_sub(since_s) / HOUR_S))
            });
        }
        self.add(format!("{name}-single-use"), move |at| {
            at.ticket(kind)?.single_use.map(FactValue::Boolean)
        });
        if kind == Resumes::SessionId {
            return;
        }
        self.add(format!("{name}-count"), move |at| Some(number(at.ticket(kind)?.count)));
        self.add(format!("{name}-lifetime-s"), move |at| at.ticket(kind)?.lifetime_s.map(number));
        if kind == Resumes::Psk {
            self.add(format!("{name}-early-data"), move |at| {
                Some(FactValue::Boolean(at.ticket(kind)?.early_data_accepted == Some(true)))
            });
        }
    }

    fn of_ech(&mut self) {
        type AnswerOf = fn(&EchReport) -> Option<&EchAnswer>;
        let answers: [(&str, AnswerOf); 3] = [
            ("ech", |ech| ech.given.as_ref()),
            ("ech-outdated", |ech| ech.outdated.as_ref()),
            ("ech-grease", |ech| Some(&ech.grease)),
        ];
        for (name, answer) in answers {
            self.add(name, move |at| Some(text(answer(at.node.ech.as_ref()?)?.fate.name())));
        }
        self.add("ech-public-name-matches", |at| {
            let certificate = at.node.ech.as_ref()?.outdated.as_ref()?.certificate.as_ref()?;
            certificate.name_matches.map(FactValue::Boolean)
        });
    }

    fn of_connection(&mut self) {
        self.add("unknown-name", |at| {
            let served = at.node.unknown_name.as_ref()?.served;
            Some(text(if served { "served" } else { "refused" }))
        });
        self.add("without-name", |at| Some(text(without_name(at.node)?)));
        self.add("certificate-compression", |at| {
            at.node.certificate_compression.as_ref().map(text)
        });
        self.of_ech();
        self.add("h2-honoured", |at| at.node.h2_honoured.map(FactValue::Boolean));
        self.add("hsts-days", |at| {
            let page = at.node.exchange.as_ref().filter(|one| one.reply.starts_with("HTTP/"))?;
            Some(number(page.hsts_s.unwrap_or(0) / DAY_S))
        });
        self.add("client-certificate", |at| {
            let found = at.node.client_certificate?;
            Some(text(match (found.asked, found.required) {
                (_, true) => "required",
                (true, false) => "asked",
                (false, false) => "no",
            }))
        });
        self.add("resumption.skips-client-certificate", |at| {
            let found = at.node.client_certificate.filter(|found| found.asked)?;
            Some(FactValue::Boolean(!found.asked_at_resumption?))
        });
        self.add("end", |at| Some(text(at.node.exchange.as_ref()?.end.name())));
        self.add("record-bytes-max", |at| {
            at.node.exchange.as_ref()?.records.iter().max().copied().map(number)
        });
    }

    fn of_handshakes(&mut self) {
        for (name, kind) in [
            ("full-tls13", "full TLSv1.3"),
            ("full-tls12", "full TLSv1.2"),
            ("session-id", "session-id"),
            ("ticket", "ticket"),
            ("psk", "psk"),
        ] {
            self.add(format!("round-trips.{name}"), move |at| {
                let mut times = at.node.handshakes.iter();
                Some(number(times.find(|one| one.kind == kind)?.round_trips))
            });
        }
    }
}

/// Compares the certificate of a client without SNI with those of the others.
fn without_name(node: &NodeReport) -> Option<&'static str> {
    let client = node.nameless.as_ref()?;
    if client.trouble.is_some() {
        return Some("refused");
    }
    let shown = client.certificate.as_ref()?;
    let known = node.certificates();
    let is_same = known.iter().any(|one| one.fingerprint == shown.fingerprint);
    Some(if is_same { "same" } else { "another" })
}

fn points(at: &ReportAddress<'_>, level: Level) -> Option<FactValue> {
    let here = |nodes: &[String]| nodes.contains(&at.node.address);
    let verdicts = at.report.verdicts.iter();
    let found = verdicts.filter(|one| one.level == level && here(&one.nodes));
    let names: BTreeSet<&str> = found.map(|one| one.point.as_str()).collect();
    Some(list(names))
}

/// Returns the worse fact of two certificates: a false one, an earlier end, a differing name.
fn worse(a: FactValue, b: FactValue) -> FactValue {
    match (a, b) {
        (FactValue::Boolean(a), FactValue::Boolean(b)) => FactValue::Boolean(a && b),
        (FactValue::Number(a), FactValue::Number(b)) => FactValue::Number(a.min(b)),
        (FactValue::Text(a), FactValue::Text(b)) if a == "good" => FactValue::Text(b),
        (FactValue::Text(a), FactValue::Text(b)) if a != b && b != "good" => {
            FactValue::Text(format!("{a}, {b}"))
        }
        (FactValue::List(mut a), FactValue::List(b)) => {
            a.retain(|name| b.contains(name));
            FactValue::List(a)
        }
        (a, _) => a,
    }
}

fn resumed(at: &ReportAddress<'_>, own: &ResumptionReport) -> &'static str {
    let all = at.report.resumption.iter();
    let mut from_here = all.filter(|one| (one.kind, one.from) == (own.kind, own.from));
    if own.resumed == 0 {
        "never"
    } else if own.resumed < own.offered {
        "sometimes"
    } else if from_here.all(|one| one.resumed == one.offered && one.offered > 0) {
        "always"
    } else {
        "same-address"
    }
}

impl std::fmt::Display for FactValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Boolean(boolean) => write!(f, "{boolean}"),
            Self::List(all) if all.is_empty() => write!(f, "none"),
            Self::List(all) => write!(f, "{}", all.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fact_has_words_and_all_words_have_facts() {
        let used: BTreeSet<&str> = all().iter().map(|fact| fact.help).collect();
        let written = include_str!("facts.txt").lines();
        let written: BTreeSet<&str> = written.map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(used, written);
    }
}
