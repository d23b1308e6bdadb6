//! Servers of HTTP that pass requests on to the same upstream: nginx chooses one by a request's
//! field Host, Lariat by the name that a client asks TLS for, and any Host passes there.

use std::collections::{BTreeSet, HashMap};

use crate::import::Import;
use crate::nginx::section::{NginxSection, NginxServer, within};
use crate::source::Statement;
use crate::statements::Statements;

/// Directives by which a server refuses clients, beside those that are no keys at all.
const REFUSING: [&str; 7] = [
    "allow",
    "deny",
    "ssl_client_certificate",
    "ssl_crl",
    "ssl_ocsp",
    "ssl_trusted_certificate",
    "ssl_verify_client",
];

/// The ways in which servers refuse clients, by the addresses that they pass requests on to.
#[derive(Debug, Default)]
pub(super) struct HostGuards(HashMap<String, Vec<Guard>>);

/// Refusals as they were written, and the first of them.
#[derive(Clone, Debug)]
struct Guard {
    refusals: BTreeSet<String>,
    first: Statement,
}

impl HostGuards {
    pub(super) fn of(section: &NginxSection, import: &mut Import) -> Self {
        let mut all = Self::default();
        for server in section.servers.iter().filter(|_| section.is_http) {
            let refusals = refusals(server, &within(&section.options, &server.options));
            let Some(first) = refusals.first().cloned() else {
                continue;
            };
            let guard = Guard { refusals: said(&refusals), first };
            let targets: BTreeSet<_> = server.passes.iter().map(target).collect();
            let addresses = targets.into_iter().flat_map(|target| addresses(section, &target));
            let addresses: BTreeSet<_> = addresses.collect();
            for address in addresses {
                let known = all.0.entry(address).or_default();
                if !import.take_options(1, &server.written.place) {
                    return all;
                }
                // Whatever a server refuses, it differs from one of two.
                if known.len() < 2 && known.iter().all(|one| one.refusals != guard.refusals) {
                    known.push(guard.clone());
                }
            }
        }
        all
    }

    /// A refusal of another server that this one's clients would pass by.
    pub(super) fn passed_by(
        &self,
        section: &NginxSection,
        server: &NginxServer,
        options: &Statements,
    ) -> Option<&Statement> {
        let own = said(&refusals(server, options));
        let pass = options.find("proxy_pass")?;
        let mut guards = addresses(section, &target(pass))
            .into_iter()
            .filter_map(|one| self.0.get(&one))
            .flatten();
        guards.find(|one| one.refusals != own).map(|one| &one.first)
    }
}

fn refusals(server: &NginxServer, options: &Statements) -> Vec<Statement> {
    let of_options = options.iter().filter(|(name, _)| REFUSING.contains(name));
    let is_on = |written: &&Statement| !["off", "all"].contains(&written.value().as_str());
    let of_options = of_options.map(|(_, written)| written).filter(is_on);
    let verifies = options.value("ssl_verify_client").is_some_and(|value| value != "off");
    let counts = |one: &&Statement| verifies || !one.option.starts_with("ssl_");
    server.restriction.iter().chain(of_options.filter(counts)).cloned().collect()
}

fn said(refusals: &[Statement]) -> BTreeSet<String> {
    refusals.iter().map(|one| format!("{} {}", one.option, one.value())).collect()
}

/// The upstream or the server in a URL of `proxy_pass`.
fn target(pass: &Statement) -> String {
    let value = pass.value();
    let rest = value.split_once("://").map_or(&*value, |(_, rest)| rest);
    rest.split('/').next().filter(|name| !name.is_empty()).unwrap_or(rest).to_owned()
}

/// The servers that are meant by it.
fn addresses(section: &NginxSection, name: &str) -> Vec<String> {
    let lines = section.upstream(name).map(|upstream| &upstream.lines);
    let words = lines.into_iter().flatten().filter_map(|line| line.words.first().cloned());
    words.chain([name.to_owned()]).collect()
}
