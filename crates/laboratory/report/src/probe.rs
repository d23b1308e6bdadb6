//! Makes the reports of `lariat-lab probe` and `lariat-lab survey`.

use std::collections::{BTreeMap, BTreeSet};

use measure::probe::{
    CertificateReport, ChainState, ClientReport, EchAnswer, EchReport, Level, NodeReport, Order,
    PointVerdict, ProbeReport, Resumes,
};
use measure::quantity::Nanoseconds;

use crate::document::{
    Cell, NONE, ReportBlock, ReportDocument, ReportFact, ReportSection, ReportTable, SectionKind,
    cells, counted, section,
};
use crate::words::joined;

pub fn document(report: &ProbeReport) -> ReportDocument {
    let hosts = report.hosts.join(", ");
    let mut blocks = vec![ReportBlock::Headline(headline(report))];
    blocks.extend(verdicts(&report.verdicts, report.nodes.len()));
    blocks.extend(grids(report));
    // An address that was left alone has findings as well.
    let nodes = report.nodes.iter().filter(|node| !spoken(node).is_empty());
    blocks.extend(nodes.map(|node| self::node(node, report.at_s)));
    ReportDocument { title: format!("TLS of {hosts}"), blocks, ..ReportDocument::default() }
}

/// Reports many sites, a row each, and the remarks about each.
pub fn survey(reports: &[ProbeReport]) -> ReportDocument {
    let heads = "<site <versions <suite <group <key <id <ticket <PSK <staple faults".split(' ');
    let mut table = ReportTable::new("What a browser gets, and what is resumed", heads);
    for report in reports {
        table.row(survey_row(report));
    }
    let mut blocks =
        vec![ReportBlock::Headline(format!("TLS of {}", counted(reports.len(), "site")))];
    blocks.extend(section(SectionKind::Card, "Sites", table.block()));
    for report in reports.iter().filter(|one| !one.verdicts.is_empty()) {
        let site = report.hosts.join(", ");
        let of_site = ReportBlock::Facts(points_seen(report));
        blocks.push(ReportSection::new(SectionKind::Card, site, vec![of_site]).into());
    }
    blocks.extend(meanings(reports));
    ReportDocument { title: "A survey of TLS".to_owned(), blocks, ..ReportDocument::default() }
}

fn survey_row(report: &ProbeReport) -> Vec<Cell> {
    let faults = points(report, Level::Fault);
    let site = report.hosts.join(", ");
    let node = report.nodes.iter().find(|node| node.trouble.is_none());
    let Some(node) = node else {
        // The finding stands below: here it would push all columns aside.
        let point = report.verdicts.first().map_or(NONE, |one| &one.point);
        let mut row = vec![site, point.to_owned()];
        row.resize(9, NONE.to_owned());
        row.push(faults.to_string());
        return row.into_iter().map(Cell::from).collect();
    };
    let client = node.clients.iter().find(|client| client.trouble.is_none());
    let of_client = |text: fn(&ClientReport) -> &str| client.map_or(NONE, text).to_owned();
    let certificate = client.and_then(|client| client.certificate.as_ref());
    let staple = certificate.and_then(|one| one.staple.as_ref());
    let mut row = vec![
        site,
        spoken(node).replace("TLSv", "").replace(',', ""),
        of_client(|client| client.suite.trim_start_matches("TLS_")),
        of_client(|client| &client.group),
        certificate.map_or(NONE, |one| &one.key).to_owned(),
    ];
    row.extend(Resumes::ALL.map(|kind| {
        let all = report.resumption.iter().filter(|one| one.kind == kind);
        let (resumed, offered) = all
            .fold((0, 0), |(resumed, offered), one| (resumed + one.resumed, offered + one.offered));
        ratio(resumed, offered)
    }));
    row.push(staple.map_or("no", |staple| &staple.status).to_owned());
    row.push(faults.to_string());
    row.into_iter().map(Cell::from).collect()
}

fn ratio(resumed: u32, offered: u32) -> String {
    if offered == 0 { "no".to_owned() } else { format!("{resumed}/{offered}") }
}

fn points(report: &ProbeReport, level: Level) -> usize {
    let of_level = report.verdicts.iter().filter(|one| one.level == level);
    let names: BTreeSet<&str> = of_level.map(|one| one.point.as_str()).collect();
    names.len()
}

fn headline(report: &ProbeReport) -> String {
    let count = |level: Level| points(report, level);
    let (faults, advice) = (count(Level::Fault), count(Level::Advice));
    let hosts = report.hosts.join(", ");
    let addresses = counted(report.nodes.len(), "address");
    let judgement = match (faults, advice) {
        (0, 0) => "nothing to complain of".to_owned(),
        (0, _) => format!("no fault, {advice} to improve"),
        _ => format!("{}, {advice} to improve", counted(faults, "fault")),
    };
    format!("{hosts}, {addresses}: {judgement}")
}

/// Makes a card per point: where it was found, why it matters, and what to change.
fn verdicts(verdicts: &[PointVerdict], addresses: usize) -> Vec<ReportBlock> {
    let same_point = |one: &PointVerdict, other: &PointVerdict| one.point == other.point;
    let of_point = |all: &[PointVerdict]| -> Option<ReportBlock> {
        let seen = all.iter().map(|one| ReportFact::new("seen", seen(one, addresses)));
        Some(card(all.first()?, seen.collect()))
    };
    verdicts.chunk_by(same_point).filter_map(of_point).collect()
}

fn card(verdict: &PointVerdict, mut facts: Vec<ReportFact>) -> ReportBlock {
    facts.push(ReportFact::new("why", &verdict.why));
    let advice = verdict.advice.iter();
    facts.extend(advice.map(|(program, setting)| ReportFact::new(program, setting)));
    ReportSection::new(SectionKind::Card, title(verdict), vec![ReportBlock::Facts(facts)]).into()
}

fn title(verdict: &PointVerdict) -> String {
    format!("{}: {}", verdict.level.name(), verdict.point)
}

fn points_seen(report: &ProbeReport) -> Vec<ReportFact> {
    let seen = |one: &PointVerdict| ReportFact::new(title(one), seen(one, report.nodes.len()));
    report.verdicts.iter().map(seen).collect()
}

/// Explains the points of all sites, each once, the faults first.
fn meanings(reports: &[ProbeReport]) -> Vec<ReportBlock> {
    let verdicts = reports.iter().flat_map(|report| &report.verdicts);
    let all: BTreeMap<_, _> = verdicts.map(|one| ((one.level, &one.point), one)).collect();
    all.into_values().map(|one| card(one, Vec::new())).collect()
}

/// Returns the finding, and its place if there are several addresses.
fn seen(verdict: &PointVerdict, addresses: usize) -> String {
    let nodes = &verdict.nodes;
    let place = match (nodes.len(), addresses) {
        (_, 1) => String::new(),
        (many, all) if many == all => "all addresses: ".to_owned(),
        _ => format!("{}: ", nodes.join(", ")),
    };
    format!("{place}{}", verdict.seen)
}

/// Makes a grid per kind of resumption: where sessions began, and where they were offered.
fn grids(report: &ProbeReport) -> Option<ReportBlock> {
    let places: Vec<usize> = (0..report.nodes.len())
        .filter(|place| report.resumption.iter().any(|one| one.from == *place))
        .collect();
    let address = |place: &usize| report.nodes.get(*place).map_or("", |node| &node.address);
    // The columns of many addresses are numbered, so that they fit the screen.
    let is_wide = places.len() > 2;
    let mut heads = vec!["<kind".to_owned(), "<session from".to_owned()];
    heads.extend(places.iter().map(|place| {
        if is_wide { format!("at {}", place + 1) } else { format!("<at {}", address(place)) }
    }));
    let mut table = ReportTable::new("Resumed of offered", heads);
    for kind in Resumes::ALL {
        for from in &places {
            let cell = |to: &usize| {
                let mut all = report.resumption.iter();
                let one = all.find(|one| (one.kind, one.from, one.to) == (kind, *from, *to));
                let Some(one) = one else { return NONE.to_owned() };
                let resumed = ratio(one.resumed, one.offered);
                match one.trouble.as_ref().filter(|_| !is_wide) {
                    None => resumed,
                    Some(trouble) if one.offered == 0 => trouble.text.clone(),
                    Some(trouble) => format!("{resumed}; {}", trouble.text),
                }
            };
            let number = if is_wide { format!("{} = ", from + 1) } else { String::new() };
            let mut row = vec![kind.name().to_owned(), format!("{number}{}", address(from))];
            row.extend(places.iter().map(cell));
            table.row(row.into_iter().map(Cell::from));
        }
    }
    section(SectionKind::Card, "Resumption", table.block())
}

fn node(node: &NodeReport, now_s: u64) -> ReportBlock {
    let of_node = facts(node).into_iter().chain(clients(node));
    let mut blocks = vec![ReportBlock::Facts(of_node.collect())];
    for certificate in node.certificates() {
        blocks.push(ReportBlock::Facts(of_certificate(certificate, now_s)));
    }
    blocks.extend(tickets(node).block());
    blocks.extend(times(node).block());
    ReportSection::new(SectionKind::Card, node.address.clone(), blocks).into()
}

fn spoken(node: &NodeReport) -> String {
    joined(node.spoken().map(|version| version.name.as_str()), ", ")
}

fn facts(node: &NodeReport) -> Vec<ReportFact> {
    let mut facts = vec![ReportFact::new("versions", spoken(node))];
    for version in node.spoken() {
        let order = match version.order {
            Some(Order::Server) => " (in the server's order)",
            Some(Order::Client) => " (in the client's order)",
            None => "",
        };
        let suites = format!("{}{order}", version.suites.join(", "));
        facts.push(ReportFact::new(format!("{} suites", version.name), suites));
        let groups = version.groups.join(", ");
        facts.push(ReportFact::new(format!("{} groups", version.name), groups));
        if version.dh_bits > 0 {
            let bits = counted(version.dh_bits, "bit");
            facts.push(ReportFact::new(format!("{} DHE", version.name), bits));
        }
    }
    for version in node.versions.iter().filter(|version| !version.spoken) {
        facts.push(ReportFact::new(&version.name, format!("no: {}", version.answer)));
    }
    // TLS 1.3 has these by itself, and older versions by extensions.
    facts.extend(known([
        ("renegotiation", node.secure_renegotiation(), ["secure", "not secure"]),
        (
            "client's renegotiation",
            node.client_renegotiation,
            ["a client may ask for it", "refused"],
        ),
        ("fallback", node.fallback_refused, ["refused", "served"]),
    ]));
    if let Some(name) = &node.unknown_name {
        facts.push(ReportFact::new("unknown name", &name.answer));
    }
    facts.extend(nameless(node));
    facts.extend(client_certificate(node));
    if let Some(algorithm) = &node.certificate_compression {
        facts.push(ReportFact::new("compressed certificate", algorithm));
    }
    facts.extend(node.ech.iter().flat_map(encrypted_hellos));
    facts.extend(known([("HTTP/2", node.h2_honoured, ["spoken", "agreed on, and not spoken"])]));
    if let Some(exchange) = &node.exchange {
        let records: Vec<String> = exchange.records.iter().take(8).map(u32::to_string).collect();
        let reply = if exchange.reply.is_empty() { "none" } else { &exchange.reply };
        let end = match exchange.end {
            measure::probe::End::CloseNotify => "close_notify",
            measure::probe::End::Truncated => "the end of TCP alone",
            measure::probe::End::Reset => "a reset",
            measure::probe::End::Open => "none while it was watched",
        };
        facts.push(ReportFact::new("reply", reply));
        if !records.is_empty() {
            facts.push(ReportFact::new("records", format!("{} bytes", records.join(", "))));
        }
        facts.push(ReportFact::new("end", end));
        if let Some(seconds) = exchange.hsts_s {
            facts.push(ReportFact::new("HSTS", counted(seconds / DAY_S, "day")));
        }
    }
    facts
}

/// Returns the certificate, or the other result, for a client without SNI.
fn nameless(node: &NodeReport) -> Option<ReportFact> {
    let client = node.nameless.as_ref()?;
    let text = match (&client.trouble, &client.certificate) {
        (Some(trouble), _) => format!("no: {}", trouble.text),
        (None, Some(shown)) => {
            let known = node.certificates();
            let is_same = known.iter().any(|one| one.fingerprint == shown.fingerprint);
            let which = if is_same { "the same certificate" } else { "another certificate" };
            format!("{which}, {}", shown.subject)
        }
        (None, None) => return None,
    };
    Some(ReportFact::new("without a name", text))
}

/// Tells whether the server requests a client certificate, at first and at resumption.
fn client_certificate(node: &NodeReport) -> Option<ReportFact> {
    let certificate = node.client_certificate?;
    let asked = match (certificate.asked, certificate.required) {
        (_, true) => "required",
        (true, false) => "asked for, not required",
        (false, false) => "not asked for",
    };
    let again = match certificate.asked_at_resumption {
        Some(false) if certificate.asked => "; resumption goes without it",
        Some(true) => "; asked for again at resumption",
        None if node.lacks_our_certificate() => {
            "; without --client-certificate, resumption is not known"
        }
        _ => "",
    };
    Some(ReportFact::new("client's certificate", format!("{asked}{again}")))
}

fn encrypted_hellos(ech: &EchReport) -> Vec<ReportFact> {
    let said = |answer: &EchAnswer| {
        let mut said = answer.fate.name().to_owned();
        if answer.retry_configurations > 0 {
            let newer = counted(answer.retry_configurations, "newer configuration");
            said.push_str(&format!(", {newer}"));
        }
        let certificate = answer.certificate.as_ref().filter(|one| one.name_matches.is_some());
        said.extend(certificate.map(|one| format!(", certificate of {}", one.subject)));
        said.extend(answer.trouble.as_ref().map(|trouble| format!(": {}", trouble.text)));
        said
    };
    let rows = [
        ("ECH", ech.given.as_ref()),
        ("ECH, outdated", ech.outdated.as_ref()),
        ("ECH, GREASE", Some(&ech.grease)),
    ];
    let rows = rows.into_iter().filter_map(|(name, answer)| Some((name, answer?)));
    rows.map(|(name, answer)| ReportFact::new(name, said(answer))).collect()
}

/// Returns facts that are known or not, with a text for either.
fn known<const N: usize>(rows: [(&str, Option<bool>, [&str; 2]); N]) -> Vec<ReportFact> {
    let fact = |(name, is, [yes, no]): (&str, Option<bool>, [&str; 2])| {
        Some(ReportFact::new(name, if is? { yes } else { no }))
    };
    rows.into_iter().filter_map(fact).collect()
}

/// Returns each kind of client's result, a line each: columns would not fit most terminals.
fn clients(node: &NodeReport) -> impl Iterator<Item = ReportFact> {
    let fact = |client: &ClientReport| {
        let text = match &client.trouble {
            Some(trouble) => format!("no: {}", trouble.text),
            None => negotiated(client),
        };
        ReportFact::new(format!("{} client", client.kind), text)
    };
    node.clients.iter().map(fact)
}

fn negotiated(client: &ClientReport) -> String {
    let mut parts = vec![&client.version, &client.suite, &client.group];
    parts.extend(client.certificate.as_ref().map(|one| &one.key));
    parts.extend([&client.signature, &client.alpn]);
    parts.retain(|part| !part.is_empty());
    let parts: Vec<&str> = parts.into_iter().map(String::as_str).collect();
    let retry = if client.hello_retry { " (after a HelloRetryRequest)" } else { "" };
    format!("{}{retry}", parts.join(", "))
}

const DAY_S: u64 = 86400;

fn of_certificate(one: &CertificateReport, now_s: u64) -> Vec<ReportFact> {
    let chain = match one.chain_state {
        ChainState::Trusted => "leads to a trusted root",
        ChainState::SelfSigned => "it is its own issuer",
        ChainState::UntrustedRoot => "ends at a root that is not trusted",
        ChainState::Incomplete => "ends at an issuer that is neither sent nor trusted",
        ChainState::TooLong => "has more certificates or paths than are looked at",
        ChainState::Broken => "cannot be verified",
        ChainState::Unchecked => "not compared with any roots",
    };
    let ordered = if one.chain_ordered { "" } else { ", not in order" };
    let expires = match one.not_after_s.checked_sub(now_s) {
        Some(left) => format!("in {}", counted(left / DAY_S, "day")),
        None => "it has expired".to_owned(),
    };
    let staple = one.staple.as_ref().map_or_else(
        || "none".to_owned(),
        |staple| {
            let hours = now_s.saturating_sub(staple.this_update_s) / 3600;
            format!("{}, {hours} hours old", staple.status)
        },
    );
    vec![
        ReportFact::new("certificate", &one.subject),
        ReportFact::new("key", &one.key),
        ReportFact::new("signed by", format!("{}, {}", one.issuer, one.signature)),
        ReportFact::new("names", one.names.join(", ")),
        ReportFact::new("chain", format!("{}: {chain}{ordered}", one.chain.join(" < "))),
        ReportFact::new("lifetime", counted(one.lifetime_days(), "day")),
        ReportFact::new("expires", expires),
        ReportFact::new("staple", staple),
        ReportFact::new("SHA-256", &one.fingerprint),
    ]
}

fn tickets(node: &NodeReport) -> ReportTable {
    let heads = ["<kind", "given", "lifetime", "bytes", "<single use", "<early data"];
    let mut table = ReportTable::new("What is given to resume with", heads);
    for ticket in &node.tickets {
        let early = match ticket.early_data_accepted {
            Some(true) => format!("{} bytes", ticket.early_data_max),
            Some(false) => "offered, refused".to_owned(),
            None => "no".to_owned(),
        };
        let lifetime = ticket.lifetime_s.map(|seconds| format!("{seconds} s"));
        let (kind, lifetime) = (ticket.kind.name(), Cell::maybe(lifetime));
        let single = ticket.single_use.map(|is| if is { "yes" } else { "no" });
        table.row(cells![kind, ticket.count, lifetime, ticket.bytes, Cell::maybe(single), early]);
    }
    table
}

fn times(node: &NodeReport) -> ReportTable {
    let heads = ["<handshake", "count", "median", "round trips"];
    let mut table = ReportTable::new("Handshakes, without TCP's round trip", heads);
    for time in &node.handshakes {
        let median = Nanoseconds(time.median_us as f64 * 1000.0);
        table.row(cells![&time.kind, time.count, median, time.round_trips]);
    }
    table
}
