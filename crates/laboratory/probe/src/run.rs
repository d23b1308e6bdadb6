//! Runs a whole probe: all addresses, one connection at a time.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use load::observe::TrustedRoots;
use measure::probe::{FORMAT, NodeReport, ProbeReport, Resumes, TroubleKind};

use crate::ProbeOptions;
use crate::certificate::CertificateExpectation;
use crate::judge::judge;
use crate::offers::Visit;
use crate::reach::{ReachedAddress, trouble};
use crate::resumption::{SessionWay, found};

/// Maximum of offers of a session at another address, because there are many pairs.
const ELSEWHERE_MAX: u32 = 4;

/// How long to wait for the close of a server that has nothing more to do; some never close.
const LINGER: Duration = Duration::from_secs(1);

/// Probes all addresses. `tell` receives the progress.
pub fn probe(options: &ProbeOptions, tell: &dyn Fn(&str)) -> ProbeReport {
    let addresses = options.addresses.iter();
    let reaches: Vec<_> = addresses.map(|address| ReachedAddress::new(*address, options)).collect();
    let expected = CertificateExpectation {
        roots: options.roots_pem.as_deref().and_then(TrustedRoots::read),
        is_public: options.roots_of_system,
        name: options.expected_name.clone(),
        now_s: options.now_s,
    };
    let visit = |reach, attempts| Visit {
        reach,
        options,
        expected: &expected,
        attempts,
        is_rare: Cell::new(false),
        openssl_groups: RefCell::default(),
        linger: Cell::new(LINGER.min(options.limits.connection)),
    };
    let mut report = ProbeReport {
        format: FORMAT,
        hosts: options.hosts.clone(),
        server_name: options.server_name.clone(),
        at_s: options.now_s,
        ..ProbeReport::default()
    };
    for (index, reach) in reaches.iter().enumerate() {
        tell(&format!("probing {}", reach.address));
        let visit = visit(reach, options.attempts);
        let mut node = visit.node();
        if node.trouble.is_none() {
            report.resumption.extend(visit.resumption(&mut node, index));
            know_keys(&mut node, options);
            // An untried feature is not a missing one.
            node.trouble = reach.left_alone();
        }
        report.nodes.push(node);
    }
    for (from, reach) in reaches.iter().enumerate() {
        let visit = visit(reach, options.attempts.min(ELSEWHERE_MAX));
        for (to, other) in reaches.iter().enumerate().filter(|(to, _)| *to != from) {
            tell(&format!("sessions of {} at {}", reach.address, other.address));
            for kind in Resumes::ALL {
                let speaks = |index: usize| {
                    let node: Option<&NodeReport> = report.nodes.get(index);
                    node.is_some_and(|node| node.speaks(kind.version()))
                };
                if speaks(from) && speaks(to) {
                    let found = found(&visit, other, kind, SessionWay { from, to });
                    report.resumption.push(found.resumption);
                }
            }
        }
    }
    report.nodes.extend(unresolved(options));
    report.verdicts = judge(&report);
    report
}

/// Notes since when ticket keys are known to be in use: an earlier probe may have seen them.
fn know_keys(node: &mut NodeReport, options: &ProbeOptions) {
    let earlier = options.earlier.as_ref();
    for now in node.tickets.iter_mut().filter(|one| !one.key_names.is_empty()) {
        let since = earlier.and_then(|earlier| {
            let known = earlier.nodes.iter().flat_map(|node| &node.tickets);
            let same =
                known.filter(|one| one.key_names.iter().any(|it| now.key_names.contains(it)));
            same.map(|one| one.key_since_s.unwrap_or(earlier.at_s)).min()
        });
        now.key_since_s = Some(since.unwrap_or(options.now_s).min(options.now_s));
    }
}

/// Returns a node for each host without an address.
fn unresolved(options: &ProbeOptions) -> Vec<NodeReport> {
    let node = |(host, text): &(String, String)| NodeReport {
        address: host.clone(),
        trouble: Some(trouble(TroubleKind::Unresolved, text)),
        ..NodeReport::default()
    };
    options.unresolved.iter().map(node).collect()
}
