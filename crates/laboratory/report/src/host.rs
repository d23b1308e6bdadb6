//! Makes the report of `lariat-lab host`.

use std::collections::BTreeSet;

use measure::quantity::{ByteCount, RoundedCount};
use measure::record::{Core, Host, HostFact as Found, HostReport, OperationSpeed};

use crate::document::{
    Cell, NONE, ReportBlock, ReportDocument, ReportFact, ReportTable, SectionKind, counted, section,
};
use crate::words::joined;

pub fn document(report: &HostReport) -> ReportDocument {
    ReportDocument {
        title: report.host.cpu.clone(),
        blocks: [ReportBlock::Headline(line(&report.host))]
            .into_iter()
            .chain(blocks(report))
            .collect(),
        ..ReportDocument::default()
    }
}

pub(crate) fn line(host: &Host) -> String {
    let under = match host.hypervisor.as_deref() {
        Some("unnamed") => " under a hypervisor without a name".to_owned(),
        Some(name) => format!(" under {name}"),
        None => String::new(),
    };
    let memory = ByteCount(host.memory_bytes);
    let cpus = counted(host.cpus, "CPU");
    format!("{}, {cpus}, {memory}, {}{under}", host.cpu, host.kernel)
}

/// Returns the parts that are not empty, each with its title.
pub(crate) fn blocks(report: &HostReport) -> Vec<ReportBlock> {
    let facts = |facts: Vec<ReportFact>| (!facts.is_empty()).then_some(ReportBlock::Facts(facts));
    let parts = [
        ("Features", features(report).block()),
        ("CPUs", facts(cores(&report.cores))),
        ("Kernel", facts(abilities(report))),
        ("Surroundings", facts(all(&report.surroundings))),
        ("Limits", facts(all(&report.limits))),
        ("Network cards", facts(all(&report.networks))),
        ("Faults of the CPU", facts(mitigations(&report.mitigations))),
        ("Speed", speeds(&report.speeds).block()),
    ];
    let parts = parts.into_iter();
    parts.filter_map(|(title, block)| section(SectionKind::Card, title, vec![block?])).collect()
}

fn yes(is_there: bool) -> &'static str {
    if is_there { "yes" } else { "no" }
}

fn features(report: &HostReport) -> ReportTable {
    let heads = ["<", "<present", "<makes cheap"];
    let mut table = ReportTable::new("Features of the CPU that matter to TLS", heads);
    for feature in &report.features {
        table.row([feature.name.as_str(), yes(feature.is_there), &feature.use_for].map(Into::into));
    }
    table
}

fn abilities(report: &HostReport) -> Vec<ReportFact> {
    let fact = |ability: &measure::record::HostAbility| ReportFact {
        hint: ability.remedy.clone(),
        ..ReportFact::new(&ability.name, format!("{}: {}", yes(ability.is_there), ability.why))
    };
    report.abilities.iter().map(fact).collect()
}

fn all<'f>(facts: impl IntoIterator<Item = &'f Found>) -> Vec<ReportFact> {
    let fact = |fact: &Found| ReportFact {
        hint: fact.remedy.clone(),
        ..ReportFact::new(&fact.name, &fact.value)
    };
    facts.into_iter().map(fact).collect()
}

/// Returns the mitigations that this CPU has, and the number of those that it lacks.
fn mitigations(found: &[Found]) -> Vec<ReportFact> {
    let (absent, present): (Vec<_>, Vec<_>) =
        found.iter().partition(|fact| fact.value == "Not affected");
    let mut facts = all(present);
    if !absent.is_empty() {
        let text = format!("not affected, of the {} that the kernel knows", found.len());
        facts.push(ReportFact::new(format!("{} others", absent.len()), text));
    }
    facts
}

/// Returns a fact per group of CPUs that share their last cache.
fn cores(cores: &[Core]) -> Vec<ReportFact> {
    let place = |core: &Core| (core.package, core.node, core.cache);
    let places: BTreeSet<_> = cores.iter().map(place).collect();
    let described = places.into_iter().map(|here| {
        let members: Vec<&Core> = cores.iter().filter(|core| place(core) == here).collect();
        let numbers: Vec<u16> = members.iter().map(|core| core.cpu).collect();
        let (package, node, _) = here;
        let threads = threads(&members);
        let text = format!("share a cache in socket {package}, memory node {node}{threads}");
        ReportFact::new(ranges(&numbers), text)
    });
    described.collect()
}

fn threads(members: &[&Core]) -> String {
    let cores: BTreeSet<u32> = members.iter().map(|core| core.core).collect();
    if cores.len() == members.len() {
        return String::new();
    }
    let core = |number: &u32| {
        let of = members.iter().filter(|core| core.core == *number);
        joined(of.map(|core| core.cpu.to_string()), "+")
    };
    let cores: Vec<_> = cores.iter().map(core).collect();
    format!("; threads of one core: {}", cores.join(" "))
}

fn ranges(numbers: &[u16]) -> String {
    let ranges = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let range = |range: &[u16]| match range {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    };
    joined(ranges.map(range), ", ")
}

/// An operation with its algorithm, and its number of bytes.
type Operation<'s> = (&'s str, &'s str, Option<u32>);

fn operation(speed: &OperationSpeed) -> Operation<'_> {
    (&speed.operation, &speed.algorithm, speed.size_bytes)
}

/// A row per operation, a column per library.
fn speeds(speeds: &[OperationSpeed]) -> ReportTable {
    let mut libraries: Vec<&str> = Vec::new();
    let mut rows: Vec<Operation<'_>> = Vec::new();
    for speed in speeds {
        if !libraries.contains(&speed.library.as_str()) {
            libraries.push(&speed.library);
        }
        if !rows.contains(&operation(speed)) {
            rows.push(operation(speed));
        }
    }
    let heads = ["<", "<", ""].into_iter().chain(libraries.iter().copied());
    let caption = "Operations per second on one CPU; for encryption also bytes per second";
    let mut table = ReportTable::new(caption, heads);
    for row in rows {
        let cells = libraries.iter().map(|library| {
            let is_it =
                |speed: &&OperationSpeed| speed.library == *library && operation(speed) == row;
            Cell::from(speeds.iter().find(is_it).map_or_else(|| NONE.to_owned(), rate))
        });
        let size = row.2.map_or_else(String::new, size);
        table.row([row.0.into(), row.1.into(), size.into()].into_iter().chain(cells));
    }
    table
}

fn size(bytes: u32) -> String {
    match bytes % 1024 {
        0 => format!("{} KiB", bytes / 1024),
        _ => ByteCount(bytes.into()).to_string(),
    }
}

fn rate(speed: &OperationSpeed) -> String {
    let count = RoundedCount(speed.per_s.round());
    match speed.size_bytes {
        Some(size) => {
            let bytes = ByteCount((speed.per_s * f64::from(size)) as u64);
            format!("{count} {:>8}/s", bytes.to_string())
        }
        // The padding aligns counts with those of rows that have bytes.
        None => format!("{count}{:11}", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_a_range() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8]), "0-3, 8");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn cores_that_share_a_cache_stand_together() {
        let core = |cpu: u16| Core {
            cpu,
            core: u32::from(cpu / 2),
            package: 0,
            node: 0,
            cache: u32::from(cpu / 4),
        };
        let found = cores(&(0..6).map(core).collect::<Vec<_>>());
        let shown: Vec<_> = found.iter().map(|fact| (&*fact.name, &*fact.text)).collect();
        let first = "share a cache in socket 0, memory node 0; threads of one core: 0+1 2+3";
        assert_eq!(shown[0], ("0-3", first));
        assert_eq!(shown[1].0, "4-5");
    }
}
