//! Judges findings, as a pure function.

use std::collections::BTreeSet;

use measure::probe::{
    CertificateReport, ChainState, EchFate, End, NodeReport, Order, PointVerdict, ProbeReport,
    ProbeTrouble, Resumes, TroubleKind, VersionReport,
};

use crate::reach::LONG_CHAIN;
use crate::{offers, points};

/// Days before a certificate's end at which its renewal is late: authorities advise renewal at a
/// third of 90 days.
const DAYS_LEFT_MIN: u64 = 14;
const DAY_S: u64 = 86400;
const HOUR_S: u64 = 3600;
/// Maximum hours of a ticket key's use, because it decrypts every session resumed by it. Daily
/// rotation is some minutes late. RFC 9325, section 3.4, allows a week at the most.
const TICKET_KEY_HOURS_MAX: u64 = 25;
/// Minimum of RFC 9325, section 4.1.
const DH_BITS_MIN: u32 = 2048;

/// Parts of the names of insecure suites.
const BROKEN: [&str; 6] = ["_RC4_", "_3DES_", "_DES_", "_EXPORT_", "_NULL_", "_anon_"];

/// Maximum of suites that a verdict names; the findings list all of them.
const SUITES_NAMED_MAX: usize = 4;

/// Returns the points of all addresses, the worst first, each once for several addresses.
pub(crate) fn judge(report: &ProbeReport) -> Vec<PointVerdict> {
    let mut found = PointFinding::default();
    for (index, node) in report.nodes.iter().enumerate() {
        found.node = node.address.clone();
        match &node.trouble {
            Some(trouble) => found.note(trouble_point(trouble), &trouble.text),
            None => {
                clients(node, &mut found);
                versions(node, &mut found);
                of_old_versions(node, &mut found);
                suites(node, &mut found);
                key_exchange(node, &mut found);
                for certificate in node.certificates() {
                    of_certificate(certificate, report.at_s, &mut found);
                }
                resumption(report, index, node, &mut found);
                connection(report, node, &mut found);
                encrypted_hellos(node, &mut found);
            }
        }
    }
    differences(report, &mut found);
    let order =
        |verdict: &PointVerdict| points::all().iter().position(|one| one.name == verdict.point);
    found.verdicts.sort_by_key(|verdict| (verdict.level, order(verdict)));
    found.verdicts
}

#[derive(Default)]
struct PointFinding {
    node: String,
    verdicts: Vec<PointVerdict>,
}

impl PointFinding {
    fn note(&mut self, name: &str, seen: impl Into<String>) {
        let (point, seen) = (points::find(name), seen.into());
        let same = |one: &&mut PointVerdict| one.point == name && one.seen == seen;
        if let Some(known) = self.verdicts.iter_mut().find(same) {
            if !known.nodes.contains(&self.node) {
                known.nodes.push(self.node.clone());
            }
            return;
        }
        self.verdicts.push(PointVerdict {
            point: point.name.clone(),
            level: point.level,
            nodes: vec![self.node.clone()],
            seen,
            why: point.why.clone(),
            advice: point.advice.clone(),
        });
    }

    fn note_if(&mut self, is_so: bool, name: &str, seen: impl Into<String>) {
        if is_so {
            self.note(name, seen);
        }
    }
}

fn trouble_point(trouble: &ProbeTrouble) -> &'static str {
    match trouble.kind {
        TroubleKind::Unresolved | TroubleKind::Connect | TroubleKind::ConnectTimeout => {
            "unreachable"
        }
        TroubleKind::NotTls => "not-tls",
        TroubleKind::NoStarttls => "no-starttls",
        TroubleKind::Timeout | TroubleKind::Closed => "no-answer",
        TroubleKind::Malformed if trouble.text.starts_with(LONG_CHAIN) => "chain-too-large",
        TroubleKind::Malformed => "broken-answer",
        TroubleKind::Refused => "refused",
    }
}

/// Judges a server that answers handwritten hellos but completes no handshake. A server that needs
/// features the clients here lack is not broken, because other clients succeed.
fn clients(node: &NodeReport, found: &mut PointFinding) {
    let (older, ours): (Vec<_>, Vec<_>) =
        node.clients.iter().partition(|client| client.kind == offers::OLDER);
    let mut troubles = ours.into_iter().map(|client| client.trouble.as_ref());
    let mut large = troubles.clone().flatten().filter(|one| one.text.starts_with(LONG_CHAIN));
    if let Some(large) = large.next() {
        found.note("chain-too-large", &large.text);
        return;
    }
    let Some(Some(first)) = troubles.next() else {
        return;
    };
    if troubles.any(|trouble| trouble.is_none()) || node.lacks_our_certificate() {
        return;
    }
    let older = older.first();
    let said = older.map_or_else(String::new, |older| match &older.trouble {
        Some(trouble) => format!("; {}", trouble.text),
        None => format!("; openssl gets one by {}", older.version),
    });
    let wanted = beyond_our_clients(node);
    // TLS 1.3 is judged separately.
    if older.is_some_and(|older| older.trouble.is_none()) && !node.speaks("TLSv1.3") {
        let (wanted, is_rare) =
            wanted.unwrap_or_else(|| (first.text.clone(), first.kind == TroubleKind::Refused));
        let seen = format!("most browsers get no handshake: {wanted}{said}");
        found.note_if(is_rare, "few-clients", seen);
    } else if let Some((wanted, _)) = wanted {
        let seen = format!("no client of this probe gets a handshake: {wanted}{said}");
        found.note("not-examined", seen);
    } else if first.kind == TroubleKind::Refused {
        let seen = format!(
            "no client of this probe gets a handshake ({}), though hellos with older suites, \
             groups and signature schemes are answered{said}",
            first.text
        );
        found.note("not-examined", seen);
    } else {
        let seen = format!("no kind of client gets a handshake: {}", first.text);
        found.note(trouble_point(first), seen);
    }
}

/// Returns the reason why this probe's clients cannot talk to a server, if it is a feature that
/// they lack, and whether browsers lack it too.
fn beyond_our_clients(node: &NodeReport) -> Option<(String, bool)> {
    let spoken = node.spoken();
    let suites: BTreeSet<&str> = named(node, |version| &version.suites);
    let all_have = |part: &str| suites.iter().all(|suite| suite.contains(part));
    let first = |names: &BTreeSet<&str>| {
        let names: Vec<&str> = names.iter().copied().take(SUITES_NAMED_MAX).collect();
        names.join(", ")
    };
    // Servers that refused by something other than an alert gave no choice.
    if spoken.clone().all(|version| !version.answer.is_empty()) {
        return Some(("it wants a pre-shared key or a password (SRP)".to_owned(), true));
    }
    if !suites.is_empty() && all_have("_PSK_") {
        return Some((format!("it needs a pre-shared key ({})", first(&suites)), true));
    }
    let ours = ["TLSv1.3", "TLSv1.2"];
    let is_old = spoken.clone().all(|version| !ours.contains(&version.name.as_str()));
    let old = is_old.then(|| {
        let names: Vec<&str> = spoken.map(|version| version.name.as_str()).collect();
        (format!("it speaks {} alone", names.join(" and ")), false)
    });
    let lacks = |names: BTreeSet<&str>, what: &str, ours: fn(&str) -> bool| {
        let is_beyond = !names.is_empty() && names.iter().all(|name| !ours(name));
        is_beyond.then(|| format!("they have none of its {what} ({})", first(&names)))
    };
    let key = || {
        let key = &node.certificates().first()?.key;
        let is_beyond = !key.is_empty() && !offers::has_key(key);
        is_beyond.then(|| format!("they cannot use its key ({key})"))
    };
    let beyond = |text: Option<String>| text.map(|text| (text, true));
    beyond(key())
        .or(old)
        .or_else(|| {
            let is_dhe = all_have("TLS_DHE_");
            Some((lacks(suites.clone(), "suites", offers::has_suite)?, is_dhe))
        })
        .or_else(|| beyond(lacks(named(node, |one| &one.groups), "groups", offers::has_group)))
}

/// Returns the names of this kind of all accepted versions.
fn named(node: &NodeReport, of: fn(&VersionReport) -> &Vec<String>) -> BTreeSet<&str> {
    node.spoken().flat_map(of).map(String::as_str).collect()
}

fn versions(node: &NodeReport, found: &mut PointFinding) {
    let old = ["TLSv1.1", "TLSv1.0", "SSLv3"].into_iter().filter(|name| node.speaks(name));
    let old: Vec<_> = old.collect();
    found.note_if(!old.is_empty(), "old-versions", format!("it speaks {}", old.join(" and ")));
    found.note_if(!node.speaks("TLSv1.3"), "no-tls13", "it does not speak TLS 1.3");
}

/// Judges features that older versions need and TLS 1.3 has by itself.
fn of_old_versions(node: &NodeReport, found: &mut PointFinding) {
    let which = |wrong: fn(&VersionReport) -> bool| {
        let all = node.versions.iter().filter(|version| wrong(version));
        let names: Vec<&str> = all.map(|version| version.name.as_str()).collect();
        names.join(" and ")
    };
    let open = which(|version| version.secure_renegotiation == Some(false));
    let seen = format!("in {open} its hello is without renegotiation_info");
    found.note_if(!open.is_empty(), "insecure-renegotiation", seen);
    let compressed = which(|version| version.compression);
    let seen = format!("in {compressed} it takes the client's offer to compress");
    found.note_if(!compressed.is_empty(), "compression", seen);
    // RFC 8996 holds this signal to be needless if the oldest version is TLS 1.2.
    let has_old = ["TLSv1.1", "TLSv1.0", "SSLv3"].iter().any(|name| node.speaks(name));
    found.note_if(
        has_old && node.fallback_refused == Some(false),
        "fallback-ignored",
        "it goes on with a client that says that a newer version failed",
    );
    let takes = |fact| fact == Some(true);
    for (is_so, point, seen) in [
        (takes(node.client_renegotiation), "client-renegotiation", "it answers a client that asks"),
        (takes(node.early_change), "early-change", "it takes one before any key is agreed on"),
        (takes(node.heartbeat), "heartbeat", "it takes a client's offer of heartbeats"),
    ] {
        found.note_if(is_so, point, seen);
    }
}

/// Returns the first suites of all versions whose names contain one of these, and how many more.
fn suites_with(node: &NodeReport, parts: &[&str]) -> Option<String> {
    let all = node.versions.iter().flat_map(|version| &version.suites);
    let found = all.filter(|suite| parts.iter().any(|part| suite.contains(part)));
    let found: BTreeSet<&str> = found.map(String::as_str).collect();
    let named: Vec<&str> = found.iter().copied().take(SUITES_NAMED_MAX).collect();
    let named = named.join(", ");
    match found.len() {
        0 => None,
        count if count > SUITES_NAMED_MAX => {
            Some(format!("{named} and {} more", count - SUITES_NAMED_MAX))
        }
        _ => Some(named),
    }
}

fn suites(node: &NodeReport, found: &mut PointFinding) {
    for (point, parts) in
        [("broken-suites", &BROKEN[..]), ("no-forward-secrecy", &["TLS_RSA_WITH"])]
    {
        if let Some(named) = suites_with(node, parts) {
            found.note(point, format!("it accepts {named}"));
        }
    }
    let aead = ["_GCM_", "_CCM", "CHACHA20"];
    let has_aead = |suite: &String| aead.iter().any(|part| suite.contains(part));
    let spoken = node.version("TLSv1.2").filter(|one| one.spoken && !node.speaks("TLSv1.3"));
    let spoken = spoken.filter(|one| !one.suites.is_empty());
    if let Some(version) = spoken.filter(|one| !one.suites.iter().any(has_aead)) {
        found.note("no-aead", format!("its suites of TLS 1.2 are {}", version.suites.join(", ")));
    }
    let of_client = |version: &&VersionReport| version.order == Some(Order::Client);
    // All three TLS 1.3 suites are good: the choice depends on the client's CPU.
    if let Some(version) = node.version("TLSv1.2").filter(of_client) {
        let seen = format!("of {} suites it takes the client's first", version.suites.len());
        found.note("client-order", seen);
    }
}

fn key_exchange(node: &NodeReport, found: &mut PointFinding) {
    let dh_bits = node.versions.iter().map(|version| version.dh_bits);
    let shortest = dh_bits.filter(|bits| *bits > 0).min().unwrap_or(u32::MAX);
    let seen = format!("its prime of DHE has {shortest} bits");
    found.note_if(shortest < DH_BITS_MIN, "weak-dh", seen);
    let retried = node.client("modern").filter(|client| client.hello_retry);
    if let Some(client) = retried {
        let seen = format!("it asks browsers for another hello, with a share of {}", client.group);
        found.note("hello-retry", seen);
    }
    let is_hybrid = |group: &String| group.contains("MLKEM");
    // A version with pre-shared keys alone gives no information.
    if let Some(version) = node.version("TLSv1.3").filter(|version| !version.groups.is_empty()) {
        let seen = format!("its groups are {}", version.groups.join(", "));
        found.note_if(!version.groups.iter().any(is_hybrid), "no-post-quantum", seen);
    }
}

fn of_certificate(one: &CertificateReport, now_s: u64, found: &mut PointFinding) {
    let subject = &one.subject;
    let days = one.not_after_s.saturating_sub(now_s) / DAY_S;
    let is_read = one.not_after_s > 0;
    if is_read && one.not_after_s < now_s {
        let ago = (now_s - one.not_after_s) / DAY_S;
        found.note("certificate-expired", format!("{subject} expired {ago} days ago"));
    } else if is_read && days < DAYS_LEFT_MIN {
        let seen = format!("{subject} expires in {days} days");
        found.note("certificate-expires-soon", seen);
    }
    let is_early = one.not_before_s > now_s;
    found.note_if(is_early, "certificate-not-yet-valid", format!("{subject} is not valid yet"));
    let lifetime = one.lifetime_days();
    let seen = format!(
        "{subject} is valid for {lifetime} days; when it was issued, {} were the most",
        one.lifetime_days_max
    );
    let is_long = (1..lifetime).contains(&one.lifetime_days_max);
    found.note_if(is_long, "certificate-lifetime", seen);
    let names = match one.names.as_slice() {
        [] => format!("{subject} names no host in its subjectAltName"),
        names => {
            format!("{subject} is for {}, which is not the name asked for", names.join(", "))
        }
    };
    found.note_if(one.name_matches == Some(false), "certificate-name", names);
    match one.chain_state {
        ChainState::Trusted | ChainState::Unchecked => {}
        ChainState::Incomplete => {
            // Only the subjects of the issuers above the leaf's are known.
            let issuer = match one.chain.as_slice() {
                [_, .., last] => format!("of {last}"),
                _ => one.issuer.clone(),
            };
            let seen =
                format!("{} of the chain sent, and not the issuer {issuer}", one.chain.len());
            found.note("chain-incomplete", seen);
        }
        ChainState::SelfSigned => {
            found.note("certificate-untrusted", format!("{subject} is its own issuer"));
        }
        ChainState::UntrustedRoot => {
            let root = one.chain.last().map_or("", String::as_str);
            found.note("certificate-untrusted", format!("the root {root} is not trusted"));
        }
        // The point about the signature gives the reason.
        ChainState::Broken if !one.weak_signatures.is_empty() => {}
        ChainState::Broken | ChainState::TooLong => found.note("chain-broken", broken(one)),
    }
    let chain = one.chain.join(" < ");
    let is_disordered = is_read && !one.chain_ordered;
    found.note_if(is_disordered, "chain-disordered", format!("it is {chain}"));
    found.note_if(
        // A root that nobody trusts is another point.
        one.chain_has_root && one.chain_state != ChainState::UntrustedRoot,
        "chain-with-root",
        format!("it is {chain}"),
    );
    let is_weak = (1..2048).contains(&one.rsa_bits);
    found.note_if(is_weak, "weak-key", format!("{subject} has a key of {} bits", one.rsa_bits));
    let weak = one.weak_signatures.join(", ");
    let seen = format!("signed with MD5 or SHA-1: {weak}");
    found.note_if(!weak.is_empty(), "weak-signature", seen);
    staple(one, found);
}

fn broken(one: &CertificateReport) -> String {
    if one.chain_state == ChainState::TooLong {
        let count = one.chain.len();
        return format!(
            "{count} certificates were sent, and more than six of them lead on from the first, or \
             by too many paths"
        );
    }
    one.chain.join(" < ")
}

fn staple(one: &CertificateReport, found: &mut PointFinding) {
    let Some(staple) = &one.staple else {
        let seen = format!("{} comes without an OCSP response", one.subject);
        found.note_if(one.must_staple, "staple-missing", seen);
        return;
    };
    let (point, seen) = match staple.status.as_str() {
        "good" | "unverified" => return,
        "revoked" => ("staple-revoked", "the staple says revoked".to_owned()),
        "expired" => ("staple-expired", "its nextUpdate has passed".to_owned()),
        "invalid" => {
            let seen = "neither the certificate's issuer nor a responder of it has signed it";
            ("staple-invalid", seen.to_owned())
        }
        "foreign" => ("staple-invalid", "it speaks of another certificate".to_owned()),
        "early" => ("staple-invalid", "its thisUpdate is still to come".to_owned()),
        other => ("staple-invalid", format!("its status is: {other}")),
    };
    found.note(point, seen);
}

fn resumption(report: &ProbeReport, index: usize, node: &NodeReport, found: &mut PointFinding) {
    let own = |kind| report.own_resumption(index, kind);
    let fails = |kind| own(kind).is_some_and(|own| own.resumed == 0);
    for kind in Resumes::ALL {
        let Some(own) = own(kind).filter(|own| own.resumed > 0) else {
            continue;
        };
        let (name, resumed, offered) = (kind.name(), own.resumed, own.offered);
        let is_single_use = node
            .tickets
            .iter()
            .any(|one| one.kind == kind && one.single_use == Some(true) && kind != Resumes::Psk);
        if resumed < offered && !is_single_use {
            let seen =
                format!("by {name}, {resumed} of {offered} were resumed at the same address");
            found.note("resumed-by-chance", seen);
        }
        let elsewhere = report.resumption.iter().filter(|one| {
            one.kind == kind && one.from == index && one.to != index && one.resumed < one.offered
        });
        let places: Vec<String> = elsewhere
            .filter_map(|one| {
                let to = report.nodes.get(one.to)?;
                Some(format!("{} ({} of {})", to.address, one.resumed, one.offered))
            })
            .collect();
        let seen = format!("its sessions by {name} are not resumed at {}", places.join(", "));
        found.note_if(!places.is_empty(), "not-shared", seen);
    }
    let (no_id, no_ticket) = (fails(Resumes::SessionId), fails(Resumes::Ticket));
    if no_id && no_ticket {
        let seen = "no session before TLS 1.3 is resumed, by session id or ticket";
        found.note("no-resumption", seen);
    } else if no_id {
        found.note("no-session-id", "sessions before TLS 1.3 are resumed by ticket alone");
    }
    let seen = "no session of TLS 1.3 is resumed";
    found.note_if(fails(Resumes::Psk), "no-resumption", seen);
}

fn encrypted_hellos(node: &NodeReport, found: &mut PointFinding) {
    let Some(ech) = &node.ech else {
        return;
    };
    if let Some(trouble) = &ech.grease.trouble {
        found.note("ech-grease-refused", &trouble.text);
    }
    if let Some(given) = ech.given.as_ref().filter(|one| one.fate != EchFate::Accepted) {
        let why = given.trouble.as_ref().map(|trouble| format!(": {}", trouble.text));
        let fate = given.fate.name();
        let seen = format!("a hello by --ech is {fate}{}", why.unwrap_or_default());
        found.note("ech-not-accepted", seen);
    }
    let Some(outdated) = &ech.outdated else {
        return;
    };
    let certificate = outdated.certificate.as_ref();
    let is_for_it = certificate.and_then(|one| one.name_matches).unwrap_or(false);
    let public_name = ech.public_name.as_deref().unwrap_or_default();
    let why = outdated.trouble.as_ref().map(|trouble| format!(": {}", trouble.text));
    let why = why.unwrap_or_default();
    let seen = format!("an outdated client gets no certificate for `{public_name}`{why}");
    found.note_if(!is_for_it, "ech-public-name", seen);
    let seen = "an outdated client gets no newer configurations";
    found.note_if(is_for_it && outdated.retry_configurations == 0, "ech-no-retry", seen);
}

fn connection(report: &ProbeReport, node: &NodeReport, found: &mut PointFinding) {
    let early = node.tickets.iter().find(|one| one.early_data_accepted == Some(true));
    if let Some(early) = early {
        let seen = format!("it accepts {} bytes of early data", early.early_data_max);
        found.note("early-data", seen);
    }
    let seen = "it agrees on h2, and what answers is no HTTP/2";
    found.note_if(node.h2_honoured == Some(false), "alpn-not-honoured", seen);
    for ticket in &node.tickets {
        let hours = report.at_s.saturating_sub(ticket.key_since_s.unwrap_or(report.at_s)) / HOUR_S;
        let kind = ticket.kind.name();
        let seen = format!("a key of its tickets ({kind}) is {hours} hours old at least");
        found.note_if(hours > TICKET_KEY_HOURS_MAX, "static-ticket-key", seen);
    }
    if let Some(exchange) = &node.exchange {
        // A server that did not answer has not truncated a reply.
        let is_cut = exchange.end == End::Truncated && exchange.bytes > 0;
        found.note_if(is_cut, "no-close-notify", "it ended the connection without close_notify");
        // Browsers apply HSTS to names alone (RFC 6797, section 8.1.1).
        let is_missing =
            exchange.is_page() && exchange.hsts_s.unwrap_or(0) == 0 && report.server_name.is_some();
        let seen = format!("{} comes without Strict-Transport-Security", exchange.reply);
        found.note_if(is_missing, "no-hsts", seen);
    }
}

/// Reports whether all addresses that speak TLS do so alike.
fn differences(report: &ProbeReport, found: &mut PointFinding) {
    let mut nodes = report.nodes.iter().filter(|node| node.trouble.is_none());
    let Some(first) = nodes.next() else { return };
    for other in nodes {
        let mut differing = Vec::new();
        let spoken = |node: &NodeReport| -> Vec<String> {
            node.spoken().map(|version| version.name.clone()).collect()
        };
        if spoken(first) != spoken(other) {
            differing.push("versions");
        }
        let suites = |node: &NodeReport| -> Vec<Vec<String>> {
            node.versions.iter().map(|version| version.suites.clone()).collect()
        };
        let sorted = |node: &NodeReport| {
            let mut suites = suites(node);
            suites.iter_mut().for_each(|version| version.sort_unstable());
            suites
        };
        if differing.is_empty() && sorted(first) != sorted(other) {
            differing.push("suites");
        } else if differing.is_empty() && suites(first) != suites(other) {
            // A session is resumed only with its own suite: this difference costs resumptions, too.
            differing.push("preferred suites");
        }
        let fingerprints = |node: &NodeReport| -> Vec<String> {
            let all = node.certificates().into_iter();
            all.map(|one| one.fingerprint.clone()).collect()
        };
        if fingerprints(first) != fingerprints(other) {
            differing.push("certificates");
        }
        if !differing.is_empty() {
            found.node = other.address.clone();
            let seen =
                format!("its {} are not those of {}", differing.join(" and "), first.address);
            found.note("nodes-differ", seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::probe::{EchAnswer, EchReport};
    use measure::probe::{Level, ResumptionReport};

    /// Checks the names in this file behind `note(` or `note_if(…, `, and those of troubles.
    #[test]
    fn every_point_is_known_and_used() {
        let source = include_str!("judge.rs");
        for point in points::all() {
            let name = format!("\"{}\"", point.name);
            assert!(source.contains(&name), "{name} is never found");
            assert!(!point.why.is_empty(), "{name}");
        }
        assert!(points::all().is_sorted_by_key(|point| point.level));
        for (_, text) in points::all().iter().flat_map(|point| &point.advice) {
            assert!(!text.ends_with('.'), "{text}");
        }
    }

    fn node() -> NodeReport {
        let version = |name: &str, suite: &str| VersionReport {
            name: name.to_owned(),
            spoken: true,
            suites: vec![suite.to_owned()],
            groups: vec!["X25519MLKEM768".to_owned()],
            ..VersionReport::default()
        };
        NodeReport {
            address: "127.0.0.1:443".to_owned(),
            versions: vec![
                version("TLSv1.3", "TLS_AES_128_GCM_SHA256"),
                version("TLSv1.2", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
            ],
            ..NodeReport::default()
        }
    }

    fn judged(node: NodeReport, offered: u32, resumed: [u32; 3]) -> Vec<(Level, String)> {
        let resumption = Resumes::ALL.into_iter().zip(resumed).map(|(kind, resumed)| {
            ResumptionReport { kind, from: 0, to: 0, offered, resumed, trouble: None }
        });
        let report = ProbeReport {
            nodes: vec![node],
            resumption: resumption.collect(),
            at_s: 1_700_000_000,
            ..ProbeReport::default()
        };
        let verdicts = judge(&report).into_iter();
        verdicts.map(|one| (one.level, one.point)).collect()
    }

    #[test]
    fn a_good_server_gets_no_word() {
        assert_eq!(judged(node(), 4, [4, 4, 4]), []);
    }

    #[test]
    fn encrypted_hellos_are_judged_by_what_they_get() {
        let points = |given: EchFate, retry_configurations: u64, name_matches: bool| {
            let certificate =
                CertificateReport { name_matches: Some(name_matches), ..Default::default() };
            let ech = EchReport {
                grease: EchAnswer { fate: EchFate::PassedOver, ..EchAnswer::default() },
                given: Some(EchAnswer { fate: given, ..EchAnswer::default() }),
                outdated: Some(EchAnswer {
                    retry_configurations,
                    certificate: Some(certificate),
                    ..EchAnswer::default()
                }),
                public_name: Some("front.example".to_owned()),
            };
            let all = judged(NodeReport { ech: Some(ech), ..node() }, 4, [4, 4, 4]);
            all.into_iter().map(|(_, point)| point).collect::<Vec<_>>()
        };
        assert_eq!(points(EchFate::Accepted, 1, true), [""; 0]);
        assert_eq!(points(EchFate::Accepted, 0, true), ["ech-no-retry"]);
        assert_eq!(points(EchFate::Outdated, 1, true), ["ech-not-accepted"]);
        assert_eq!(points(EchFate::Accepted, 1, false), ["ech-public-name"]);
    }

    #[test]
    fn resumption_is_judged_by_how_often() {
        let points = |resumed| -> Vec<String> {
            let all = judged(node(), 4, resumed).into_iter();
            all.map(|(_, point)| point).collect()
        };
        assert_eq!(points([0, 4, 4]), ["no-session-id"]);
        assert_eq!(points([4, 0, 4]), [""; 0]);
        assert_eq!(points([0, 0, 0]), ["no-resumption", "no-resumption"]);
        assert_eq!(points([2, 4, 4]), ["resumed-by-chance"]);
    }

    #[test]
    fn nothing_is_said_of_resumption_that_was_not_tried() {
        assert_eq!(judged(node(), 0, [0; 3]), []);
    }

    #[test]
    fn the_issuer_that_is_missing_is_that_of_the_last_certificate_sent() {
        let seen = |chain: &[&str]| {
            let certificate = CertificateReport {
                issuer: "CN=first".to_owned(),
                chain: chain.iter().map(|&one| one.to_owned()).collect(),
                chain_state: ChainState::Incomplete,
                ..CertificateReport::default()
            };
            let mut node = node();
            node.clients.push(measure::probe::ClientReport {
                certificate: Some(certificate),
                ..measure::probe::ClientReport::default()
            });
            let report = ProbeReport { nodes: vec![node], ..ProbeReport::default() };
            let verdicts = judge(&report);
            let one = verdicts.iter().find(|one| one.point == "chain-incomplete");
            format!("{:?}", one.expect("it is incomplete"))
        };
        assert!(seen(&["CN=a"]).contains("not the issuer CN=first"));
        let two = seen(&["CN=a", "CN=first"]);
        assert!(two.contains("not the issuer of CN=first"), "{two}");
    }

    fn points(report: &ProbeReport) -> Vec<String> {
        judge(report).into_iter().map(|one| one.point).collect()
    }

    #[test]
    fn a_lifetime_is_judged_where_the_forum_has_a_say() {
        let judged = |days: u64, lifetime_days_max| {
            let mut node = node();
            let certificate = CertificateReport {
                not_before_s: 1_690_000_000,
                not_after_s: 1_690_000_000 + days * DAY_S - 1,
                lifetime_days_max,
                chain_ordered: true,
                ..CertificateReport::default()
            };
            let client = measure::probe::ClientReport::default();
            node.clients
                .push(measure::probe::ClientReport { certificate: Some(certificate), ..client });
            points(&ProbeReport {
                nodes: vec![node],
                at_s: 1_700_000_000,
                ..ProbeReport::default()
            })
        };
        assert_eq!(judged(398, 398), [""; 0]);
        assert_eq!(judged(399, 398), ["certificate-lifetime"]);
        assert_eq!(judged(4000, 0), [""; 0]);
    }

    #[test]
    fn a_ticket_key_grows_old_in_a_day() {
        let judged = |hours: u64| {
            let mut node = node();
            node.tickets.push(measure::probe::TicketReport {
                kind: Resumes::Ticket,
                count: 1,
                lifetime_s: None,
                bytes: 1,
                key_names: vec!["00".to_owned()],
                key_since_s: Some(1_700_000_000 - hours * HOUR_S),
                single_use: None,
                early_data_max: 0,
                early_data_accepted: None,
            });
            points(&ProbeReport {
                nodes: vec![node],
                at_s: 1_700_000_000,
                ..ProbeReport::default()
            })
        };
        assert_eq!(judged(24), [""; 0]);
        assert_eq!(judged(26), ["static-ticket-key"]);
    }

    #[test]
    fn trouble_is_all_that_is_said() {
        let mut silent = node();
        silent.trouble =
            Some(ProbeTrouble { kind: TroubleKind::NotTls, text: "this speaks HTTP".to_owned() });
        assert_eq!(judged(silent, 4, [0; 3]), [(Level::Fault, "not-tls".to_owned())]);
    }
}
