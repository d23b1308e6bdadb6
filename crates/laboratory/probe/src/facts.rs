//! Findings as named facts: what expectations are written in, and columns of tables are made of.

use std::collections::BTreeSet;

use measure::probe::{
    Certificate, ChainState, Client, End, Level, Node, Order, ProbeReport, Resumes, Resumption,
};

use crate::offers::KINDS;

/// The value of a fact.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Value {
    /// A word or a name.
    Text(String),
    /// A number in the unit that the name ends with.
    Number(u64),
    /// `true` or `false`.
    Boolean(bool),
    /// Names, whose order does not matter.
    List(Vec<String>),
}

/// A fact: its name, and how it is read off a report.
pub struct Fact {
    /// `modern.suite`.
    pub name: String,
    /// A sentence without a full stop.
    pub help: &'static str,
    read: Read,
}

type Read = Box<dyn Fn(&At<'_>) -> Option<Value>>;

/// An address in a report.
struct At<'r> {
    report: &'r ProbeReport,
    index: usize,
    node: &'r Node,
}

impl Fact {
    /// What it is at an address; `None` = it is not known there, or does not exist.
    pub fn value(&self, report: &ProbeReport, index: usize) -> Option<Value> {
        let node = report.nodes.get(index)?;
        (self.read)(&At {
            report,
            index,
            node,
        })
    }
}

fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

fn list<'t>(texts: impl IntoIterator<Item = &'t str>) -> Value {
    Value::List(texts.into_iter().map(str::to_owned).collect())
}

/// All of them, in the order of the reference.
pub fn all() -> Vec<Fact> {
    let mut all = Vec::new();
    let mut add = |name: &str, help, read: Read| {
        all.push(Fact {
            name: name.to_owned(),
            help,
            read,
        });
    };
    add(
        "speaks-tls",
        "Whether it speaks TLS at all",
        Box::new(|at| Some(Value::Boolean(at.node.trouble.is_none()))),
    );
    add(
        "faults",
        "The points that are faults there",
        Box::new(|at| points(at, Level::Fault)),
    );
    add(
        "advice",
        "The points that could be better",
        Box::new(|at| points(at, Level::Advice)),
    );
    add(
        "versions",
        "The versions that it speaks",
        Box::new(|at| {
            let spoken = at.node.versions.iter().filter(|version| version.spoken);
            Some(list(spoken.map(|version| version.name.as_str())))
        }),
    );
    of_old_versions(&mut add);
    for (version, name) in [("TLSv1.3", "tls13"), ("TLSv1.2", "tls12")] {
        of_version(&mut add, version, name);
    }
    for kind in &KINDS {
        of_client(&mut add, kind.name);
    }
    of_certificate(&mut add);
    for kind in Resumes::ALL {
        of_resumption(&mut add, kind);
    }
    of_connection(&mut add);
    of_handshakes(&mut add);
    all
}

type Add<'a> = dyn FnMut(&str, &'static str, Read) + 'a;

fn points(at: &At<'_>, level: Level) -> Option<Value> {
    let here = |nodes: &[String]| nodes.contains(&at.node.address);
    let verdicts = at.report.verdicts.iter();
    let found = verdicts.filter(|one| one.level == level && here(&one.nodes));
    let names: BTreeSet<&str> = found.map(|one| one.point.as_str()).collect();
    Some(list(names))
}

fn of_old_versions(add: &mut Add<'_>) {
    add(
        "secure-renegotiation",
        "Whether all versions before TLS 1.3 bind a renegotiation to what was before (RFC 5746)",
        Box::new(|at| {
            let known = at.node.versions.iter();
            let known = known.filter_map(|version| version.secure_renegotiation);
            Some(Value::Boolean(known.reduce(|all, one| all && one)?))
        }),
    );
    add(
        "compression",
        "Whether some version takes a client's offer to compress",
        Box::new(|at| {
            let mut spoken = at.node.versions.iter().filter(|one| one.spoken).peekable();
            spoken.peek()?;
            Some(Value::Boolean(spoken.any(|version| version.compression)))
        }),
    );
    add(
        "fallback",
        "What a client gets that says that a newer version failed (RFC 7507): refused or served",
        Box::new(|at| {
            let refused = at.node.fallback_refused?;
            Some(text(if refused { "refused" } else { "served" }))
        }),
    );
}

fn of_version(add: &mut Add<'_>, version: &'static str, name: &str) {
    let suites = format!("{name}.suites");
    add(
        &suites,
        "The suites of that version that it accepts",
        Box::new(move |at| {
            let found = at.node.version(version)?;
            Some(list(found.suites.iter().map(String::as_str)))
        }),
    );
    let groups = format!("{name}.groups");
    add(
        &groups,
        "The groups of that version that it accepts",
        Box::new(move |at| {
            let found = at.node.version(version)?;
            Some(list(found.groups.iter().map(String::as_str)))
        }),
    );
    let dh_bits = format!("{name}.dh-bits");
    add(
        &dh_bits,
        "Bits of the shortest prime of DHE",
        Box::new(move |at| {
            let bits = at.node.version(version)?.dh_bits;
            (bits > 0).then_some(Value::Number(bits.into()))
        }),
    );
    let order = format!("{name}.order");
    add(
        &order,
        "Whose order of suites decides: server or client",
        Box::new(move |at| {
            Some(text(match at.node.version(version)?.order? {
                Order::Server => "server",
                Order::Client => "client",
            }))
        }),
    );
}

fn of_client(add: &mut Add<'_>, kind: &'static str) {
    type Field = fn(&Client) -> Option<&str>;
    let fields: [(&str, &'static str, Field); 7] = [
        (
            "version",
            "The version that this kind of client gets",
            |one| Some(&one.version),
        ),
        ("suite", "The suite that it gets", |one| Some(&one.suite)),
        ("group", "The group that it gets", |one| Some(&one.group)),
        ("signature", "The scheme of the server's signature", |one| {
            Some(&one.signature)
        }),
        ("alpn", "The application protocol that it gets", |one| {
            Some(&one.alpn)
        }),
        ("key", "The key of the certificate that it gets", |one| {
            Some(&one.certificate.as_ref()?.key)
        }),
        ("refused", "Why it gets no connection", |one| {
            Some(&one.trouble.as_ref()?.text)
        }),
    ];
    for (name, help, field) in fields {
        let read = move |at: &At<'_>| {
            let found = field(at.node.client(kind)?)?;
            (!found.is_empty()).then(|| text(found))
        };
        add(&format!("{kind}.{name}"), help, Box::new(read));
    }
    let retried = move |at: &At<'_>| {
        let client = at.node.client(kind)?;
        let is_met = client.trouble.is_none();
        is_met.then_some(Value::Boolean(client.hello_retry))
    };
    let help = "Whether it is asked for another hello first: one more round trip";
    add(&format!("{kind}.hello-retry"), help, Box::new(retried));
}

/// Seconds in a day and in an hour.
const DAY_S: u64 = 86400;
const HOUR_S: u64 = 3600;

/// The worst of all certificates that are shown there.
fn of_certificate(add: &mut Add<'_>) {
    type Field = fn(&At<'_>, &Certificate) -> Option<Value>;
    let fields: [(&str, &'static str, Field); 9] = [
        (
            "signature",
            "The algorithm of its issuer's signature",
            |_, one| (!one.signature.is_empty()).then(|| text(&one.signature)),
        ),
        (
            "name-matches",
            "Whether it is for the server name",
            |_, one| one.name_matches.map(Value::Boolean),
        ),
        (
            "trusted",
            "Whether its chain leads to a trusted root",
            |_, one| {
                (one.chain_state != ChainState::Unchecked)
                    .then_some(Value::Boolean(one.chain_state == ChainState::Trusted))
            },
        ),
        (
            "chain-ordered",
            "Whether each certificate is followed by its issuer",
            |_, one| Some(Value::Boolean(one.chain_ordered)),
        ),
        (
            "days-left",
            "Whole days until it expires; 0 if it has",
            |at, one| {
                let left = one.not_after_s.saturating_sub(at.report.at_s);
                Some(Value::Number(left / DAY_S))
            },
        ),
        ("key", "Its key", |_, one| Some(text(&one.key))),
        ("names", "The names that it is for", |_, one| {
            Some(list(one.names.iter().map(String::as_str)))
        }),
        (
            "staple",
            "The stapled OCSP response: good, revoked, unknown or none",
            |_, one| {
                Some(text(
                    one.staple.as_ref().map_or("none", |staple| &staple.status),
                ))
            },
        ),
        (
            "staple-age-hours",
            "Hours since the staple was made",
            |at, one| {
                let made = one.staple.as_ref()?.this_update_s;
                Some(Value::Number(at.report.at_s.saturating_sub(made) / HOUR_S))
            },
        ),
    ];
    for (name, help, field) in fields {
        let read = move |at: &At<'_>| {
            let certificates = at.node.certificates();
            let values = certificates.into_iter().filter_map(|one| field(at, one));
            values.reduce(worse)
        };
        add(&format!("certificate.{name}"), help, Box::new(read));
    }
}

/// Of two certificates: what is not so, what ends sooner, the name that differs.
fn worse(a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Boolean(a), Value::Boolean(b)) => Value::Boolean(a && b),
        (Value::Number(a), Value::Number(b)) => Value::Number(a.min(b)),
        (Value::Text(a), Value::Text(b)) if a == "good" => Value::Text(b),
        (Value::Text(a), Value::Text(b)) if a != b && b != "good" => {
            Value::Text(format!("{a}, {b}"))
        }
        (Value::List(mut a), Value::List(b)) => {
            a.retain(|name| b.contains(name));
            Value::List(a)
        }
        (a, _) => a,
    }
}

fn of_resumption(add: &mut Add<'_>, kind: Resumes) {
    let name = format!("resumption.{}", kind.name());
    let help = "Where its sessions of that kind are resumed: always, same-address (but not at each \
                other one), sometimes, never";
    add(
        &name,
        help,
        Box::new(move |at| {
            let own = at.report.own_resumption(at.index, kind)?;
            Some(text(resumed(at, own)))
        }),
    );
    let tickets = |read: fn(&measure::probe::Tickets) -> Option<Value>| {
        move |at: &At<'_>| {
            let mut tickets = at.node.tickets.iter();
            read(tickets.find(|one| one.kind == kind)?)
        }
    };
    let kind = kind.name();
    let mut add = |name: &str, help, read| {
        add(
            &format!("resumption.{kind}-{name}"),
            help,
            Box::new(tickets(read)),
        );
    };
    add(
        "single-use",
        "Whether one that was used is refused",
        |one| one.single_use.map(Value::Boolean),
    );
    if kind == Resumes::SessionId.name() {
        return;
    }
    add("count", "Tickets after a full handshake", |one| {
        Some(Value::Number(one.count.into()))
    });
    add("lifetime-s", "The lifetime hint, in seconds", |one| {
        one.lifetime_s.map(|seconds| Value::Number(seconds.into()))
    });
    if kind == Resumes::Psk.name() {
        add(
            "early-data",
            "Whether early data (0-RTT) is accepted",
            |one| Some(Value::Boolean(one.early_data_accepted == Some(true))),
        );
    }
}

fn resumed(at: &At<'_>, own: &Resumption) -> &'static str {
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

fn of_connection(add: &mut Add<'_>) {
    add(
        "unknown-name",
        "What a name gets that nobody has: served or refused",
        Box::new(|at| {
            let served = at.node.unknown_name.as_ref()?.served;
            Some(text(if served { "served" } else { "refused" }))
        }),
    );
    let help = "Whether clients are asked for a certificate: no, asked, required";
    add(
        "client-certificate",
        help,
        Box::new(|at| {
            let found = at.node.client_certificate?;
            Some(text(match (found.asked, found.required) {
                (_, true) => "required",
                (true, false) => "asked",
                (false, false) => "no",
            }))
        }),
    );
    let help =
        "Whether resumption goes without the client certificate that a full handshake asks for";
    add(
        "resumption.skips-client-certificate",
        help,
        Box::new(|at| {
            let found = at.node.client_certificate.filter(|found| found.asked)?;
            found
                .asked_at_resumption
                .map(|asked| Value::Boolean(!asked))
        }),
    );
    let help = "How the server ends its stream: close-notify, truncated, reset, open";
    add(
        "end",
        help,
        Box::new(|at| {
            Some(text(match at.node.exchange.as_ref()?.end {
                End::CloseNotify => "close-notify",
                End::Truncated => "truncated",
                End::Reset => "reset",
                End::Open => "open",
            }))
        }),
    );
    let help = "Bytes of the longest record of the reply";
    add(
        "record-bytes-max",
        help,
        Box::new(|at| {
            let longest = at.node.exchange.as_ref()?.records.iter().max()?;
            Some(Value::Number((*longest).into()))
        }),
    );
}

fn of_handshakes(add: &mut Add<'_>) {
    for (name, kind) in [
        ("full-tls13", "full TLSv1.3"),
        ("full-tls12", "full TLSv1.2"),
        ("session-id", "session-id"),
        ("ticket", "ticket"),
        ("psk", "psk"),
    ] {
        let help = "Times that such a handshake waits for the server, without TCP's";
        add(
            &format!("round-trips.{name}"),
            help,
            Box::new(move |at| {
                let mut times = at.node.handshakes.iter();
                let found = times.find(|one| one.kind == kind)?;
                Some(Value::Number(found.round_trips.into()))
            }),
        );
    }
}

impl std::fmt::Display for Value {
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
