//! A whole probe: all addresses, one connection at a time.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

use load::observe::chain::TrustedRoots;
use load::plan::{OwnCertificate, ProxyVersion};
use measure::probe::{FORMAT, NodeReport, ProbeReport, Resumes, TroubleKind};
use wire::starttls::Dialect;

use crate::certificate::CertificateExpectation;
use crate::judge::judge;
use crate::offers::{CommonOffer, Visit};
use crate::reach::{BeforeTls, ReachedAddress, trouble};
use crate::resumption::{SessionWay, found};

pub use crate::reach::WaitLimits;

#[derive(Clone, Debug)]
pub struct ProbeOptions {
    pub hosts: Vec<String>,
    pub addresses: Vec<SocketAddr>,
    /// Hosts that have no address, with the reason.
    pub unresolved: Vec<(String, String)>,
    /// The name in SNI; `None` = no SNI.
    pub server_name: Option<String>,
    /// The name or address that certificates should be for.
    pub expected_name: Option<String>,
    /// A PROXY header before anything else.
    pub proxy: Option<ProxyVersion>,
    /// The dialect in which TLS is asked for; `None` = TLS begins at once.
    pub starttls: Option<Dialect>,
    /// The name that servers of mail are told before they are asked.
    pub ehlo_name: String,
    /// Sent if the server asks for it.
    pub client_certificate: Option<OwnCertificate>,
    /// Trusted roots as PEM; `None` = chains are not checked.
    pub roots_pem: Option<Vec<u8>>,
    /// The request that gets a reply; empty = none.
    pub request: Vec<u8>,
    pub limits: WaitLimits,
    /// How often a session is offered at the same address.
    pub attempts: u32,
    /// Now, in seconds of Unix time.
    pub now_s: u64,
}

/// How often a session is offered at another address at the most: there are many pairs.
const ELSEWHERE_MAX: u32 = 4;

/// How long a server's end is waited for that has nothing more to do but to end; some never do.
const LINGER: Duration = Duration::from_secs(1);

/// Probes all of it. `tell` hears what is being done.
pub fn probe(options: &ProbeOptions, tell: &dyn Fn(&str)) -> ProbeReport {
    let before = BeforeTls {
        proxy: options.proxy,
        starttls: options.starttls,
        server_name: options.server_name.clone(),
        ehlo_name: options.ehlo_name.clone(),
    };
    let reaches: Vec<ReachedAddress> = options
        .addresses
        .iter()
        .map(|address| ReachedAddress::new(*address, before.clone(), options.limits))
        .collect();
    let visit = |reach, attempts| Visit {
        reach,
        common: CommonOffer {
            server_name: options.server_name.clone(),
            client_certificate: options.client_certificate.clone(),
            starttls: options.starttls,
        },
        expected: CertificateExpectation {
            roots: options.roots_pem.as_deref().and_then(TrustedRoots::read),
            name: options.expected_name.clone(),
            now_s: options.now_s,
        },
        attempts,
        request: options.request.clone(),
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
            // What was not tried is not what it lacks.
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

/// A node for each host that has no address.
fn unresolved(options: &ProbeOptions) -> Vec<NodeReport> {
    let node = |(host, text): &(String, String)| NodeReport {
        address: host.clone(),
        trouble: Some(trouble(TroubleKind::Unresolved, text)),
        ..NodeReport::default()
    };
    options.unresolved.iter().map(node).collect()
}
