//! Runs `lariat-lab survey`: its arguments and messages.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use clap::{Args, ValueHint, value_parser};
use measure::probe::ProbeReport;
use probe::ProbeOptions;
use probe::run::probe;
use sys::process;
use wire::starttls::Dialect;

use super::probe::{
    ProbeConduct, addresses, endpoint, get, host_of, json_line, now_s, socket_address,
};
use super::values::{AnswerOutput, choice, give};
use crate::console::Console;
use crate::fault::{Exit, LabFault, LabResult};
use crate::load::PlanFile;
use crate::pages::check_page;

/// Probe a list of sites, and show what they negotiate and resume
///
/// The file has a HOST or HOST:PORT per line, and behind it addresses to connect to instead of its
/// own; # begins a comment. Each site is probed as by `lariat-lab probe`, at four of its addresses
/// at the most. There is one connection at a time to a
/// host, and few in all. docs/guide/probe.md explains how to read it.
#[derive(Args, Debug)]
pub(super) struct SurveyArguments {
    /// List of sites
    #[arg(value_hint = ValueHint::AnyPath)]
    file: PathBuf,
    // Few at once, because the hosts have other work to do.
    /// Hosts that are probed at the same time, 1 to 16
    #[arg(long, value_name = "N", default_value = "4")]
    #[arg(value_parser = value_parser!(u8).range(1..=16))]
    at_once: u8,
    /// Ask for TLS in the words of a protocol that begins in plaintext
    #[arg(long, value_name = "KIND", value_parser = choice(Dialect::ALL))]
    starttls: Option<Dialect>,
    #[command(flatten)]
    conduct: ProbeConduct,
    #[command(flatten)]
    output: AnswerOutput,
}

/// Limit of a site's addresses; more reveal nothing new about it.
const ADDRESSES_MAX: usize = 4;
/// Offers of a session: a survey checks whether sessions are resumed, not how often.
const ATTEMPTS: u32 = 4;
/// Limit of sites; a longer list would be impolite to probe.
const SITES_MAX: usize = 1000;

/// Probes all sites and prints the results.
pub(super) fn run(arguments: SurveyArguments, console: Console) -> LabResult<Exit> {
    check_page(arguments.output.output.as_deref(), &[])?;
    let conduct = &arguments.conduct;
    let expected = conduct.expectations(console)?;
    let sites = sites(&arguments)?;
    let count = sites.len();
    let reports = survey(sites, arguments.at_once.into());
    console.say(format_args!("{count} sites probed"));
    let lines = || reports.iter().map(json_line).collect();
    give(&arguments.output, &report::probe::survey(&reports), lines, console)?;
    Ok(conduct.conclude(expected.as_ref(), &reports, console))
}

/// Reads the sites of a file and resolves their names.
fn sites(arguments: &SurveyArguments) -> LabResult<Vec<ProbeOptions>> {
    let hint = "a list has a HOST or HOST:PORT per line, and after it addresses to connect to";
    let (path, conduct) = (&arguments.file, &arguments.conduct);
    let (limits, roots_pem) = (conduct.limits(), conduct.roots()?);
    let file = PlanFile::open(path).map_err(|text| LabFault::new(text, hint))?;
    let mut sites = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(host) = words.next() else {
            continue;
        };
        let place = |error: &dyn Display| {
            LabFault::new(format!("{}:{}: {error}", file.path, index + 1), hint)
        };
        let endpoint = endpoint(host).map_err(|error| place(&error))?;
        let hosts = vec![host.to_owned()];
        let named = words.map(socket_address).collect::<Result<Vec<_>, _>>();
        let (mut addresses, unresolved) = match named.map_err(|error| place(&error))? {
            none if none.is_empty() => addresses(&hosts, std::slice::from_ref(&endpoint)),
            named => (named, Vec::new()),
        };
        addresses.truncate(ADDRESSES_MAX);
        let name = host_of(&endpoint);
        sites.push(ProbeOptions {
            addresses,
            unresolved,
            server_name: name.parse::<IpAddr>().is_err().then(|| name.clone()),
            request: arguments.starttls.map_or_else(|| get("/", &name), |_| Vec::new()),
            expected_name: Some(name),
            starttls: arguments.starttls,
            ehlo_name: process::own_name(),
            roots_pem: roots_pem.clone(),
            roots_of_system: arguments.conduct.ca.is_none(),
            limits,
            attempts: ATTEMPTS,
            now_s: now_s(),
            hosts,
            ..ProbeOptions::default()
        });
    }
    match sites.len() {
        0 => Err(LabFault::new(format!("{} names no site", file.path), hint)),
        1..=SITES_MAX => Ok(sites),
        many => Err(LabFault::new(
            format!("{} names {many} sites, more than {SITES_MAX}", file.path),
            "divide the list",
        )),
    }
}

/// Groups sites that share an address, so that they are probed one after the other.
fn groups<'s>(sites: impl Iterator<Item = &'s Vec<SocketAddr>>) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Vec<IpAddr>, Vec<usize>)> = Vec::new();
    for (index, addresses) in sites.enumerate() {
        let mut hosts: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
        let mut members = Vec::new();
        groups.retain_mut(|(known, others)| {
            let shares = known.iter().any(|host| hosts.contains(host));
            if shares {
                hosts.append(known);
                members.append(others);
            }
            !shares
        });
        members.push(index);
        groups.push((hosts, members));
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

fn survey(sites: Vec<ProbeOptions>, at_once: usize) -> Vec<ProbeReport> {
    let waiting = Mutex::new(groups(sites.iter().map(|site| &site.addresses)));
    let done = Mutex::new(Vec::new());
    let lock = |reports: &Mutex<Vec<(usize, ProbeReport)>>, one| {
        let mut reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.push(one);
    };
    thread::scope(|scope| {
        for _ in 0..at_once.min(sites.len()) {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let Some(group) = next else { return };
                    for index in group {
                        if let Some(site) = sites.get(index) {
                            lock(&done, (index, probe(site, &|_| {})));
                        }
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, report)| report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_is_visited_by_one_at_a_time() {
        let sites = [
            vec!["127.0.0.1:1"],
            vec!["127.0.0.2:1"],
            vec!["127.0.0.3:1"],
            vec!["127.0.0.2:2", "127.0.0.1:2"],
        ];
        let sites = sites.map(|all| all.iter().map(|one| one.parse().unwrap()).collect());
        assert_eq!(groups(sites.iter()), [vec![2], vec![0, 1, 3]]);
    }
}
