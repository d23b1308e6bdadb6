//! Checks the needs of a run on this host: programs, kernel abilities, and CPUs.

use std::collections::BTreeSet;
use std::path::Path;

use measure::experiment::{self, Placement};
use measure::record::Core;

use super::scenario::settings::{ConfigurationSettings, PlannedConfiguration};
use crate::fault::{LabFault, LabResult};
use crate::process::cpu_list;
use crate::targets::form::{Serves, TestTarget};
use crate::targets::program::{self, TargetProgram};

#[derive(Clone, Copy, Debug)]
pub(crate) struct RunResources {
    pub(crate) cpus: usize,
    /// Open files of a process.
    pub(crate) files: u64,
}

/// Descriptors besides connections, of the program that needs most.
const FILES_SPARE: u64 = 100;

/// A relayed connection has two ends at the server. In open load, most concurrent connections wait
/// for their handshake, and have one.
const FILES_A_CONNECTION: u64 = 2;

/// Connections of a load that does not set their number; the same default as in `load`.
const CONNECTIONS_DEFAULT: u64 = 50;

impl RunResources {
    pub(crate) fn new(placement: &Placement, files: u64) -> Self {
        let both = placement.server.iter().chain(&placement.client);
        Self { cpus: both.collect::<BTreeSet<_>>().len(), files }
    }

    /// Returns the missing resource that prevents the configuration, and the remedy.
    pub(crate) fn lack(self, planned: &PlannedConfiguration) -> Option<(String, String)> {
        let workers = usize::from(planned.spec.workers);
        if workers > self.cpus {
            return Some((
                format!("{workers} workers want a CPU each, and there are {}", self.cpus),
                "a host with more CPUs, or --server-cpus and --client-cpus with more of them"
                    .to_owned(),
            ));
        }
        if planned.load.program.is_some() {
            return None;
        }
        let files = files(&planned.load.settings) + FILES_SPARE;
        (files > self.files).then(|| {
            (
                format!("it wants {files} open files, and the limit is {}", self.files),
                format!("raise the limit of open files (`ulimit -n {files}`, perhaps as root)"),
            )
        })
    }

    /// Reports whether server and client must share CPUs.
    pub(crate) fn must_share(self, planned: &PlannedConfiguration) -> bool {
        usize::from(planned.spec.workers) + 1 > self.cpus
    }
}

/// Returns the descriptors of the program that has most of them open at once.
fn files(settings: &ConfigurationSettings) -> u64 {
    let number = |name| settings.text(name).and_then(|text| text.parse().ok());
    match (number("connections"), number("clients")) {
        (None, Some(clients)) => clients,
        (connections, _) => connections.unwrap_or(CONNECTIONS_DEFAULT) * FILES_A_CONNECTION,
    }
}

/// A target, and its program on this host.
#[derive(Debug)]
pub(crate) struct ResolvedTarget {
    pub(crate) target: TestTarget,
    pub(crate) program: LabResult<TargetProgram>,
}

impl ResolvedTarget {
    /// Returns the description for records; asks the program for its version. `folder` is a folder
    /// that it may write to.
    pub(crate) fn recorded(&self, folder: &Path) -> experiment::TargetDescription {
        let program = self.program.as_ref().ok();
        let version = program.map(|program| program::version_lines(&self.target, program, folder));
        experiment::TargetDescription {
            name: self.target.name.clone(),
            title: self.target.form.title.clone(),
            program: program.map_or_else(String::new, last_name),
            version: version.unwrap_or_default(),
            from: program.map_or_else(String::new, |program| program.from.clone()),
            missing: self.program.as_ref().err().map(|missing| missing.message.clone()),
            serves: match self.target.form.serves {
                Serves::Origin => "origin".to_owned(),
                Serves::Itself | Serves::Files => "itself".to_owned(),
            },
            scheme: self.target.form.scheme.name().to_owned(),
        }
    }
}

fn last_name(program: &TargetProgram) -> String {
    program.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Places server and client on the CPUs that the user asked for; `None` is the rest, or half.
/// `cores` are the CPUs that we may use; if there is only one, both share it.
pub(crate) fn place(asked: [Option<&[u16]>; 2], cores: &[Core]) -> LabResult<Placement> {
    let [server_asked, client_asked] = asked;
    let mut asked = asked.into_iter().flatten().flatten();
    let is_ours = |cpu: &&u16| cores.iter().any(|core| core.cpu == **cpu);
    if let Some(denied) = asked.find(|cpu| !is_ours(cpu)) {
        let allowed: Vec<_> = cores.iter().map(|core| core.cpu).collect();
        return Err(LabFault::new(
            format_args!("this process may not use CPU {denied}"),
            format_args!("it may use {}", cpu_list(&allowed)),
        ));
    }
    let (server, client) = halves(cores);
    let rest = |taken: &[u16]| -> Vec<u16> {
        let left = cores.iter().map(|core| core.cpu);
        let left: Vec<_> = left.filter(|cpu| !taken.contains(cpu)).collect();
        if left.is_empty() { taken.to_vec() } else { left }
    };
    let chosen = |own: Option<&[u16]>, other: Option<&[u16]>, half: Vec<u16>| match own {
        Some(own) => own.to_vec(),
        None => other.map_or(half, rest),
    };
    Ok(Placement {
        server: chosen(server_asked, client_asked, server),
        client: chosen(client_asked, server_asked, client),
    })
}

/// Returns the first and second half of the physical cores. On each side, one CPU of every core
/// comes before the second CPU of any.
fn halves(cores: &[Core]) -> (Vec<u16>, Vec<u16>) {
    let mut physical: Vec<Vec<Core>> = Vec::new();
    for core in cores {
        let is_same = |other: &Core| (other.package, other.core) == (core.package, core.core);
        match physical.iter_mut().find(|cpus| is_same(&cpus[0])) {
            Some(cpus) => cpus.push(*core),
            None => physical.push(vec![*core]),
        }
    }
    if physical.len() < 2 {
        let all: Vec<_> = cores.iter().map(|core| core.cpu).collect();
        return (all.clone(), all);
    }
    let (first, second) = physical.split_at(physical.len() / 2);
    (in_turn(first), in_turn(second))
}

fn in_turn(physical: &[Vec<Core>]) -> Vec<u16> {
    let most = physical.iter().map(Vec::len).max().unwrap_or(0);
    let sibling = |nth: usize| physical.iter().filter_map(move |cpus| cpus.get(nth));
    (0..most).flat_map(sibling).map(|core| core.cpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes cores with `threads` CPUs each, numbered as Linux does on most machines.
    fn cores(count: u16, threads: u16) -> Vec<Core> {
        let all = (0..count * threads).map(|cpu| Core {
            cpu,
            core: (cpu % count).into(),
            package: 0,
            node: 0,
            cache: 0,
        });
        all.collect()
    }

    fn placed(server: &[u16], client: &[u16], cores: &[Core]) -> LabResult<[Vec<u16>; 2]> {
        let asked = [server, client].map(|cpus| Some(cpus).filter(|cpus| !cpus.is_empty()));
        place(asked, cores).map(|placement| [placement.server, placement.client])
    }

    #[test]
    fn cores_are_halved() {
        assert_eq!(placed(&[], &[], &cores(2, 1)).unwrap(), [[0], [1]]);
        assert_eq!(placed(&[], &[], &cores(1, 1)).unwrap(), [[0], [0]]);
        let [server, client] = placed(&[], &[], &cores(4, 2)).unwrap();
        assert_eq!(server, [0, 1, 4, 5], "one CPU of each core first");
        assert_eq!(client, [2, 3, 6, 7]);
    }

    #[test]
    fn what_is_asked_for_holds_and_the_rest_is_for_the_other() {
        let four = cores(4, 1);
        assert_eq!(placed(&[3], &[], &four).unwrap(), [vec![3], vec![0, 1, 2]]);
        assert_eq!(placed(&[], &[0], &four).unwrap(), [vec![1, 2, 3], vec![0]]);
        assert_eq!(placed(&[1], &[1], &four).unwrap(), [vec![1], vec![1]]);
        assert!(placed(&[0], &[7], &four).unwrap_err().message.ends_with("CPU 7"));
    }
}
