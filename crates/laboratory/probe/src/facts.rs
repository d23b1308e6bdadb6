//! Findings as named facts: what expectations are written in, and columns of tables are made of.

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
    /// A number in the unit that the name ends with.
    Number(u64),
    Boolean(bool),
    /// Names, whose order does not matter.
    List(Vec<String>),
}

/// A fact: its name, and how it is read off a report.
pub struct ProbeFact {
    pub name: String,
    /// A sentence without a full stop.
    pub help: &'static str,
    read: FactRead,
}

const STAPLE_HELP: &str = "The stapled OCSP response, whose time, signature and responder are \
    checked: good, revoked, unknown, expired, early, invalid (nobody has signed it who may), \
    foreign (it is of another certificate), unverified (the issuer is not known) or none";

const LIFETIME_HELP: &str = "Whether its lifetime is within what the CA/Browser Forum allowed \
    when it was issued; known with roots of the system alone";

type FactRead = Box<dyn Fn(&At<'_>) -> Option<FactValue>>;

/// An address in a report.
struct At<'r> {
    report: &'r ProbeReport,
    index: usize,
    node: &'r NodeReport,
}

impl ProbeFact {
    /// The fact at an address; `None` = it is not known there, or does not exist.
    pub fn value(&self, report: &ProbeReport, index: usize) -> Option<FactValue> {
        let node = report.nodes.get(index)?;
        (self.read)(&At { report, index, node })
    }
}

/// Seconds in a day and in an hour.
const DAY_S: u64 = 86400;
const HOUR_S: u64 = 3600;

fn text(text: impl Into<String>) -> FactValue {
    FactValue::Text(text.into())
}

fn list(texts: impl IntoIterator<Item = impl Into<String>>) -> FactValue {
    FactValue::List(texts.into_iter().map(Into::into).collect())
}

/// All of them, in the order of the reference.
pub fn all() -> Vec<ProbeFact> {
    let mut all = ProbeFacts::default();
    all.add("speaks-tls", "Whether it speaks TLS at all", |at| {
        Some(FactValue::Boolean(at.node.trouble.is_none()))
    });
    all.add("faults", "The points that are faults there", |at| points(at, Level::Fault));
    all.add("advice", "The points that could be better", |at| points(at, Level::Advice));
    all.add("versions", "The versions that it speaks", |at| {
        Some(list(at.node.spoken().map(|version| &version.name)))
    });
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

#[derive(Default)]
struct ProbeFacts(Vec<ProbeFact>);

impl ProbeFacts {
    fn add(
        &mut self,
        name: impl Into<String>,
        help: &'static str,
        read: impl Fn(&At<'_>) -> Option<FactValue> + 'static,
    ) {
        self.0.push(ProbeFact { name: name.into(), help, read: Box::new(read) });
    }

    fn of_old_versions(&mut self) {
        let help = "Whether all versions before TLS 1.3 bind a renegotiation to what was before \
                    (RFC 5746)";
        self.add("secure-renegotiation", help, |at| {
            at.node.secure_renegotiation().map(FactValue::Boolean)
        });
        let help = "Whether some version takes a client's offer to compress";
        self.add("compression", help, |at| {
            let mut spoken = at.node.spoken().peekable();
            spoken.peek()?;
            Some(FactValue::Boolean(spoken.any(|version| version.compression)))
        });
        type OldWeakness = fn(&NodeReport) -> Option<bool>;
        let weaknesses: [(&str, &'static str, OldWeakness); 3] = [
            (
                "client-renegotiation",
                "Whether a client may renegotiate; asked once, by an installed openssl",
                |node| node.client_renegotiation,
            ),
            ("heartbeat", "Whether it takes an offer of heartbeats (RFC 6520)", |node| {
                node.heartbeat
            }),
            (
                "early-change",
                "Whether it takes a ChangeCipherSpec that comes too early (CVE-2014-0224)",
                |node| node.early_change,
            ),
        ];
        for (name, help, read) in weaknesses {
            self.add(name, help, move |at| read(at.node).map(FactValue::Boolean));
        }
        let help = "What a client gets that says that a newer version failed (RFC 7507): refused \
                    or served";
        self.add("fallback", help, |at| {
            let refused = at.node.fallback_refused?;
            Some(text(if refused { "refused" } else { "served" }))
        });
    }

    fn of_version(&mut self, version: &'static str, name: &str) {
        let help = "The suites of that version that it accepts";
        self.add(format!("{name}.suites"), help, move |at| {
            Some(list(&at.node.version(version)?.suites))
        });
        let help = "The groups of that version that it accepts";
        self.add(format!("{name}.groups"), help, move |at| {
            Some(list(&at.node.version(version)?.groups))
        });
        let help = "Bits of the shortest prime of DHE";
        self.add(format!("{name}.dh-bits"), help, move |at| {
            let bits = at.node.version(version)?.dh_bits;
            (bits > 0).then_some(FactValue::Number(bits.into()))
        });
        let help = "Whose order of suites decides: server or client";
        self.add(format!("{name}.order"), help, move |at| {
            Some(text(at.node.version(version)?.order?.name()))
        });
    }

    fn of_client(&mut self, kind: &'static str) {
        type ClientField = fn(&ClientReport) -> Option<&str>;
        let fields: [(&str, &'static str, ClientField); 7] = [
            ("version", "The version that this kind of client gets", |one| Some(&one.version)),
            ("suite", "The suite that it gets", |one| Some(&one.suite)),
            ("group", "The group that it gets", |one| Some(&one.group)),
            ("signature", "The scheme of the server's signature", |one| Some(&one.signature)),
            ("alpn", "The application protocol that it gets", |one| Some(&one.alpn)),
            ("key", "The key of the certificate that it gets", |one| {
                Some(&one.certificate.as_ref()?.key)
            }),
            ("refused", "Why it gets no connection", |one| Some(&one.trouble.as_ref()?.text)),
        ];
        for (name, help, field) in fields {
            self.add(format!("{kind}.{name}"), help, move |at| {
                let found = field(at.node.client(kind)?)?;
                (!found.is_empty()).then(|| text(found))
            });
        }
        let help = "Whether it is asked for another hello first: one more round trip";
        self.add(format!("{kind}.hello-retry"), help, move |at| {
            let client = at.node.client(kind)?;
            let is_met = client.trouble.is_none();
            is_met.then_some(FactValue::Boolean(client.hello_retry))
        });
    }

    /// The worst of all certificates that are shown there.
    fn of_certificate(&mut self) {
        type CertificateField = fn(&At<'_>, &CertificateReport) -> Option<FactValue>;
        let fields: [(&str, &'static str, CertificateField); 10] = [
            ("lifetime-allowed", LIFETIME_HELP, |_, one| {
                (one.lifetime_days_max > 0)
                    .then(|| FactValue::Boolean(one.lifetime_days() <= one.lifetime_days_max))
            }),
            ("signature", "The algorithm of its issuer's signature", |_, one| {
                (!one.signature.is_empty()).then(|| text(&one.signature))
            }),
            ("name-matches", "Whether it is for the server name", |_, one| {
                one.name_matches.map(FactValue::Boolean)
            }),
            ("trusted", "Whether its chain leads to a trusted root", |_, one| {
                (one.chain_state != ChainState::Unchecked)
                    .then_some(FactValue::Boolean(one.chain_state == ChainState::Trusted))
            }),
            ("chain-ordered", "Whether each certificate is followed by its issuer", |_, one| {
                Some(FactValue::Boolean(one.chain_ordered))
            }),
            ("days-left", "Whole days until it expires; 0 if it has", |at, one| {
                let left = one.not_after_s.saturating_sub(at.report.at_s);
                Some(FactValue::Number(left / DAY_S))
            }),
            ("key", "Its key", |_, one| Some(text(&one.key))),
            ("names", "The names that it is for", |_, one| Some(list(&one.names))),
            ("staple", STAPLE_HELP, |_, one| {
                Some(text(one.staple.as_ref().map_or("none", |staple| &staple.status)))
            }),
            ("staple-age-hours", "Hours since the staple was made", |at, one| {
                let made = one.staple.as_ref()?.this_update_s;
                Some(FactValue::Number(at.report.at_s.saturating_sub(made) / HOUR_S))
            }),
        ];
        let help = "Days from its first second to its last, of the one that is valid the longest";
        self.add("certificate.lifetime-days", help, |at| {
            let days = at.node.certificates().into_iter().map(CertificateReport::lifetime_days);
            days.max().map(FactValue::Number)
        });
        for (name, help, field) in fields {
            self.add(format!("certificate.{name}"), help, move |at| {
                let certificates = at.node.certificates();
                let values = certificates.into_iter().filter_map(|one| field(at, one));
                values.reduce(worse)
            });
        }
    }

    fn of_resumption(&mut self, kind: Resumes) {
        let name = format!("resumption.{}", kind.name());
        let help = "Where its sessions of that kind are resumed: always, same-address (but not at \
                    each other one), sometimes, never";
        self.add(&name, help, move |at| {
            let own = at.report.own_resumption(at.index, kind)?;
            Some(text(resumed(at, own)))
        });
        if kind != Resumes::SessionId {
            let help = "Hours for which the same ticket key is known to be in use, by --earlier";
            let hours_name = format!("{name}-key-hours");
            self.add(hours_name, help, move |at| {
                let mut tickets = at.node.tickets.iter();
                let since_s = tickets.find(|one| one.kind == kind)?.key_since_s?;
                Some(FactValue::Number(at.report.at_s.saturating_sub(since_s) / HOUR_S))
            });
        }
        type TicketField = fn(&TicketReport) -> Option<FactValue>;
        let mut add = |field: &str, help, read: TicketField| {
            self.add(format!("{name}-{field}"), help, move |at| {
                let mut tickets = at.node.tickets.iter();
                read(tickets.find(|one| one.kind == kind)?)
            });
        };
        add("single-use", "Whether one that was used is refused", |one| {
            one.single_use.map(FactValue::Boolean)
        });
        if kind == Resumes::SessionId {
            return;
        }
        add("count", "Tickets after a full handshake", |one| {
            Some(FactValue::Number(one.count.into()))
        });
        add("lifetime-s", "The lifetime hint, in seconds", |one| {
            one.lifetime_s.map(|seconds| FactValue::Number(seconds.into()))
        });
        if kind == Resumes::Psk {
            add("early-data", "Whether early data (0-RTT) is accepted", |one| {
                Some(FactValue::Boolean(one.early_data_accepted == Some(true)))
            });
        }
    }

    fn of_ech(&mut self) {
        type AnswerOf = fn(&EchReport) -> Option<&EchAnswer>;
        let answers: [(&str, &'static str, AnswerOf); 3] = [
            (
                "ech",
                "What a hello gets that is encrypted by --ech: accepted, outdated (newer \
                 configurations), rejected (none), or refused",
                |ech| ech.given.as_ref(),
            ),
            (
                "ech-outdated",
                "What a client gets whose configuration for that public name is outdated, in the \
                 same words",
                |ech| ech.outdated.as_ref(),
            ),
            (
                "ech-grease",
                "What an encrypted hello gets that nobody can open, as browsers send it: \
                 passed-over or refused",
                |ech| Some(&ech.grease),
            ),
        ];
        for (name, help, answer) in answers {
            self.add(name, help, move |at| Some(text(answer(at.node.ech.as_ref()?)?.fate.name())));
        }
        let help =
            "Whether the certificate that such an outdated client gets is for the public name";
        self.add("ech-public-name-matches", help, |at| {
            let certificate = at.node.ech.as_ref()?.outdated.as_ref()?.certificate.as_ref()?;
            certificate.name_matches.map(FactValue::Boolean)
        });
    }

    fn of_connection(&mut self) {
        let help = "What a name gets that nobody has: served or refused";
        self.add("unknown-name", help, |at| {
            let served = at.node.unknown_name.as_ref()?.served;
            Some(text(if served { "served" } else { "refused" }))
        });
        let help = "The certificate of a client that sends no name: same (as with the name), \
                    another, or refused";
        self.add("without-name", help, |at| Some(text(without_name(at.node)?)));
        let help = "How the certificates are compressed for clients that can read it (RFC 8879): \
                    brotli, zlib or none";
        self.add("certificate-compression", help, |at| {
            at.node.certificate_compression.as_ref().map(text)
        });
        self.of_ech();
        let help = "Whether a server speaks HTTP/2 that agrees on it";
        self.add("h2-honoured", help, |at| at.node.h2_honoured.map(FactValue::Boolean));
        let help = "Days for which browsers are told to come by TLS alone (RFC 6797); 0 = not told";
        self.add("hsts-days", help, |at| {
            let page = at.node.exchange.as_ref().filter(|one| one.reply.starts_with("HTTP/"))?;
            Some(FactValue::Number(page.hsts_s.unwrap_or(0) / DAY_S))
        });
        let help = "Whether clients are asked for a certificate: no, asked, required";
        self.add("client-certificate", help, |at| {
            let found = at.node.client_certificate?;
            Some(text(match (found.asked, found.required) {
                (_, true) => "required",
                (true, false) => "asked",
                (false, false) => "no",
            }))
        });
        let help =
            "Whether resumption goes without the client certificate that a full handshake asks for";
        self.add("resumption.skips-client-certificate", help, |at| {
            let found = at.node.client_certificate.filter(|found| found.asked)?;
            Some(FactValue::Boolean(!found.asked_at_resumption?))
        });
        let help = "How the server ends its stream: close-notify, truncated, reset, open";
        self.add("end", help, |at| Some(text(at.node.exchange.as_ref()?.end.name())));
        let help = "Bytes of the longest record of the reply";
        self.add("record-bytes-max", help, |at| {
            let longest = at.node.exchange.as_ref()?.records.iter().max()?;
            Some(FactValue::Number((*longest).into()))
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
            let help = "Times that such a handshake waits for the server, without TCP's";
            self.add(format!("round-trips.{name}"), help, move |at| {
                let mut times = at.node.handshakes.iter();
                let found = times.find(|one| one.kind == kind)?;
                Some(FactValue::Number(found.round_trips.into()))
            });
        }
    }
}

/// The certificate of a client without a name, beside those of the others.
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

fn points(at: &At<'_>, level: Level) -> Option<FactValue> {
    let here = |nodes: &[String]| nodes.contains(&at.node.address);
    let verdicts = at.report.verdicts.iter();
    let found = verdicts.filter(|one| one.level == level && here(&one.nodes));
    let names: BTreeSet<&str> = found.map(|one| one.point.as_str()).collect();
    Some(list(names))
}

/// The worse fact of two certificates: what is not so, what ends sooner, the name that differs.
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

fn resumed(at: &At<'_>, own: &ResumptionReport) -> &'static str {
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
