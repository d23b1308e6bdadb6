//! A record's single facts, each with its name: what was done, what it took, and where.

use measure::kind::Kind;
use measure::quantity::{Bytes, Count, Nanoseconds};
use measure::record::{Ending, Host, Record};

use crate::hostile::harmless;
use crate::reading::{
    client_load, cpu_per_transaction_ns, handshakes, lag, loss, per_second, resumed, setting,
};

/// A fact.
#[derive(Clone, Debug)]
pub(crate) struct Fact {
    /// In a word or two.
    pub(crate) name: &'static str,
    /// In a line.
    pub(crate) text: String,
}

impl Fact {
    fn new(name: &'static str, text: String) -> Self {
        Self { name, text }
    }
}

/// What came of it, beside the times.
pub(crate) fn results(record: &Record) -> Vec<Fact> {
    let mut facts = vec![
        Fact::new("users", users(record)),
        Fact::new("resumed", resumption(record)),
    ];
    if record.warm_up.attempted > 0 {
        facts.push(Fact::new("warm-up", warm_up(record)));
    }
    facts.push(Fact::new("traffic", traffic(record)));
    facts.push(Fact::new("client", client(record)));
    facts.push(Fact::new("lag", lateness(record)));
    facts.retain(|fact| !fact.text.is_empty());
    facts
}

/// Where and with what it was measured.
pub(crate) fn surroundings(record: &Record) -> Vec<Fact> {
    let tool = &record.tool;
    let target = &record.target;
    let to = format!("{} at {}", harmless(&target.url), harmless(&target.address));
    let with = format!("{} {} with {}", tool.name, tool.version, tool.tls);
    vec![
        Fact::new("target", to),
        Fact::new("started", harmless(&record.started)),
        Fact::new("host", host(&record.host)),
        Fact::new("tool", harmless(&with)),
    ]
}

/// How long it was and how it ended.
pub(crate) fn course(record: &Record) -> String {
    let length = length(record.elapsed_ns);
    match record.ending {
        Ending::Completed => format!("{length}, completed"),
        Ending::Interrupted => format!("{length}, interrupted"),
    }
}

/// In minutes and hours where seconds would be many.
pub(crate) fn length(ns: u64) -> String {
    let seconds = ns.saturating_add(500_000_000) / 1_000_000_000;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0 | 1) => Nanoseconds(ns as f64).to_string(),
        (0, _) => format!("{minutes} min {rest} s"),
        _ => format!("{hours} h {minutes} min {rest} s"),
    }
}

/// What a load of users means: what one who gave up had yet to ask is in no count.
fn users(record: &Record) -> String {
    // Records of former versions have the second.
    let is = |name, value| setting(record, name) == Some(value);
    if !is("session-arrivals", "true") && !is("arrival", "users") {
        return String::new();
    }
    let each = ["requests-per-session", "requests-per-connection"];
    let mut each = each.iter().filter_map(|name| setting(record, name));
    let each: f64 = each.find_map(|text| text.parse().ok()).unwrap_or(1.0);
    let plural = if each == 1.0 { "" } else { "s" };
    format!(
        "each new, without a session, to bring {} request{plural}; one whose request fails gives \
         up, and what is not asked then is not attempted",
        Count(each)
    )
}

fn resumption(record: &Record) -> String {
    let share = resumed(record);
    if share.whole == 0 {
        return String::new();
    }
    let (part, whole) = (Count(share.part as f64), Count(share.whole as f64));
    let mut text = format!("{share} of handshakes, {part} of {whole}");
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_resumption()) {
        let count = handshakes(record, |other| other == kind);
        if count > 0 {
            text += &format!(", {} by {}", Count(count as f64), kind.name());
        }
    }
    text
}

fn warm_up(record: &Record) -> String {
    let (all, share) = (record.warm_up.attempted, loss(record.warm_up));
    format!(
        "{} transactions before the figures, {share} failed",
        Count(all as f64)
    )
}

fn traffic(record: &Record) -> String {
    let traffic = &record.traffic;
    let bodies = match per_second(record, traffic.body_bytes) {
        Some(rate) => format!(", {}/s", Bytes(rate as u64)),
        None => String::new(),
    };
    format!(
        "{} connections; {} received, {} sent; {} of bodies{bodies}",
        Count(traffic.connections as f64),
        Bytes(traffic.received_bytes),
        Bytes(traffic.sent_bytes),
        Bytes(traffic.body_bytes),
    )
}

fn client(record: &Record) -> String {
    let client = &record.client;
    let mut parts = Vec::new();
    if let Some(ns) = cpu_per_transaction_ns(record) {
        parts.push(format!("{} of CPU a transaction", Nanoseconds(ns)));
    }
    let threads = client.threads.len();
    if let Some(load) = client_load(record) {
        let plural = if threads == 1 { "thread" } else { "threads" };
        parts.push(format!("{:.0} % busy in {threads} {plural}", load * 100.0));
    }
    parts.push(format!(
        "{} of memory at most",
        Bytes(client.resident_bytes_max)
    ));
    parts.join(", ")
}

fn lateness(record: &Record) -> String {
    let lag = lag(record);
    if lag.is_empty() {
        return String::new();
    }
    format!(
        "transactions began {} late in the mean, p99 {}, at most {}",
        Nanoseconds(lag.mean_ns()),
        Nanoseconds(lag.quantile_ns(0.99) as f64),
        Nanoseconds(lag.max_ns() as f64),
    )
}

fn host(host: &Host) -> String {
    let under = match &host.hypervisor {
        Some(name) if name == "unnamed" => " under a hypervisor without a name".to_owned(),
        Some(name) => format!(" under {}", harmless(name)),
        None => String::new(),
    };
    format!(
        "{}, {} CPUs, {}, {}{under}; load average {:.2}",
        harmless(&host.cpu),
        host.cpus,
        Bytes(host.memory_bytes),
        harmless(&host.kernel),
        host.load_average,
    )
}
