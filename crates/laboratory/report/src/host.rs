//! What `lariat-lab host` found out, as text for a terminal.

use std::collections::BTreeSet;

use measure::host::{Ability, Core, Fact, HostReport, Speed};
use measure::quantity::{Bytes, Count};

use crate::hostile::harmless;
use crate::table::{Cell, Table};
use crate::tables::NONE;
use crate::terminal::{Ink, Look, length, wrap};

/// The report as text for a screen `width` characters wide.
#[must_use]
pub fn text(report: &HostReport, width: usize, colour: bool) -> String {
    let look = Look { width, colour };
    let parts = [
        headline(report, look),
        features(report, look),
        section("CPUs", &cores(&report.cores), look),
        section("Kernel", &abilities(&report.abilities), look),
        section("Surroundings", &facts(&report.surroundings), look),
        section("Limits", &facts(&report.limits), look),
        section("Network cards", &facts(&report.networks), look),
        section("Faults of the CPU", &mitigations(&report.mitigations), look),
        speeds(&report.speeds, look),
    ];
    let filled: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    filled.join("\n")
}

fn headline(report: &HostReport, look: Look) -> String {
    let host = &report.host;
    let mut words = format!(
        "{} for us, {}, {}",
        cpus(host.cpus),
        Bytes(host.memory_bytes),
        host.kernel
    );
    match host.hypervisor.as_deref() {
        Some("unnamed") => words += ", under a hypervisor that does not say its name",
        Some(name) => words = format!("{words}, under {name}"),
        None => {}
    }
    let lines = wrap(&harmless(&words), look.width).join("\n");
    format!(
        "{}\n{lines}\n",
        look.paint(Ink::Strong, &harmless(&host.cpu))
    )
}

fn cpus(count: u32) -> String {
    match count {
        1 => "1 CPU".to_owned(),
        count => format!("{count} CPUs"),
    }
}

/// A line of a section: a name, what is said of it, and the remedy.
struct Line {
    name: String,
    words: String,
    remedy: Option<String>,
}

fn section(title: &str, lines: &[Line], look: Look) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let names = lines.iter().map(|line| length(&line.name));
    // A name that is longer than this stands on a line of its own.
    let indent = 4 + names.max().unwrap_or(0).min(NAME_MAX);
    let body = lines.iter().map(|line| line.text(indent, look));
    look.paint(Ink::Strong, title) + "\n" + &body.collect::<String>()
}

/// Beyond it, names would leave too little room to their words.
const NAME_MAX: usize = 34;

impl Line {
    fn text(&self, indent: usize, look: Look) -> String {
        let mut lines = wrap(&self.words, look.width.saturating_sub(indent));
        if let Some(remedy) = &self.remedy {
            let room = look.width.saturating_sub(indent + HINT.len());
            let rest = " ".repeat(HINT.len());
            let hints = wrap(remedy, room).into_iter().enumerate();
            lines.extend(hints.map(|(index, words)| match index {
                0 => look.paint(Ink::Hint, HINT.trim_end()) + " " + &words,
                _ => format!("{rest}{words}"),
            }));
        }
        let gap = indent.saturating_sub(2 + length(&self.name)).max(2);
        let mut text = format!("  {}{}{}\n", self.name, " ".repeat(gap), lines[0]);
        for line in &lines[1..] {
            text += &format!("{}{line}\n", " ".repeat(indent));
        }
        text
    }
}

const HINT: &str = "hint: ";

fn line(name: &str, words: &str, remedy: Option<&String>) -> Line {
    Line {
        name: harmless(name),
        words: harmless(words),
        remedy: remedy.map(|remedy| harmless(remedy)),
    }
}

fn features(report: &HostReport, look: Look) -> String {
    if report.features.is_empty() {
        return String::new();
    }
    let mut table = Table::new("", &["<", "<there", "<makes cheap"]);
    for feature in &report.features {
        table.row(vec![
            Cell::of(harmless(&feature.name)),
            Cell::from(yes(feature.is_there)),
            Cell::of(harmless(&feature.use_for)),
        ]);
    }
    look.table("Features", &table)
}

fn yes(is_there: bool) -> &'static str {
    if is_there { "yes" } else { "no" }
}

/// A line a group of CPUs that share their last cache.
fn cores(cores: &[Core]) -> Vec<Line> {
    let place = |core: &Core| (core.package, core.node, core.cache);
    let places: BTreeSet<_> = cores.iter().map(place).collect();
    let described = places.into_iter().map(|here| {
        let members: Vec<&Core> = cores.iter().filter(|core| place(core) == here).collect();
        let numbers: Vec<u16> = members.iter().map(|core| core.cpu).collect();
        let (package, node, _) = here;
        let mut words = format!("share a cache in socket {package}, memory node {node}");
        words += &threads(&members);
        line(&ranges(&numbers), &words, None)
    });
    described.collect()
}

/// Which CPUs are threads of one core, if any are.
fn threads(members: &[&Core]) -> String {
    let cores: BTreeSet<u32> = members.iter().map(|core| core.core).collect();
    if cores.len() == members.len() {
        return String::new();
    }
    let core = |number: &u32| {
        let of = members.iter().filter(|core| core.core == *number);
        let cpus: Vec<_> = of.map(|core| core.cpu.to_string()).collect();
        cpus.join("+")
    };
    let cores: Vec<_> = cores.iter().map(core).collect();
    format!("; threads of one core: {}", cores.join(" "))
}

/// `0-3, 8`.
fn ranges(numbers: &[u16]) -> String {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let range = |(first, last): &(u16, u16)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(", ")
}

fn abilities(abilities: &[Ability]) -> Vec<Line> {
    let words = |ability: &Ability| format!("{}: {}", yes(ability.is_there), ability.why);
    abilities
        .iter()
        .map(|ability| line(&ability.name, &words(ability), ability.remedy.as_ref()))
        .collect()
}

fn facts(facts: &[Fact]) -> Vec<Line> {
    facts
        .iter()
        .map(|fact| line(&fact.name, &fact.value, fact.remedy.as_ref()))
        .collect()
}

/// Those that this CPU has; what it has not is a number.
fn mitigations(all: &[Fact]) -> Vec<Line> {
    let (absent, there): (Vec<_>, Vec<_>) =
        all.iter().partition(|fact| fact.value == "Not affected");
    let mut lines: Vec<_> = there
        .into_iter()
        .map(|fact| line(&fact.name, &fact.value, fact.remedy.as_ref()))
        .collect();
    if !absent.is_empty() {
        let words = format!("of the {} that the kernel knows", all.len());
        lines.push(line(
            &format!("{} others", absent.len()),
            &format!("not affected, {words}"),
            None,
        ));
    }
    lines
}

/// A row an operation, a column a library, and the second in terms of the first.
fn speeds(speeds: &[Speed], look: Look) -> String {
    if speeds.is_empty() {
        return String::new();
    }
    let mut libraries: Vec<&str> = Vec::new();
    for speed in speeds {
        if !libraries.contains(&speed.library.as_str()) {
            libraries.push(&speed.library);
        }
    }
    let names: Vec<String> = libraries.iter().map(|name| harmless(name)).collect();
    let mut heads = vec!["<", "<", ""];
    heads.extend(names.iter().map(String::as_str));
    let mut table = Table::new("", &heads);
    for speed in rows(speeds) {
        let size = speed.size_bytes.map_or_else(String::new, size);
        let mut cells = vec![
            Cell::of(harmless(&speed.operation)),
            Cell::of(harmless(&speed.algorithm)),
            Cell::of(size),
        ];
        cells.extend(libraries.iter().map(|library| cell(speeds, library, speed)));
        table.row(cells);
    }
    let title = look.paint(
        Ink::Strong,
        "Operations a second of one CPU, and bytes where they are",
    );
    format!("{title}\n{}", look.table("", &table))
}

/// As short as it can be said.
fn size(bytes: u32) -> String {
    match bytes % 1024 {
        0 => format!("{} KiB", bytes / 1024),
        _ => Bytes(bytes.into()).to_string(),
    }
}

/// The first of each row, in their order.
fn rows(speeds: &[Speed]) -> Vec<&Speed> {
    let mut rows: Vec<&Speed> = Vec::new();
    for speed in speeds {
        if !rows.iter().any(|known| is_same(known, speed)) {
            rows.push(speed);
        }
    }
    rows
}

fn is_same(one: &Speed, other: &Speed) -> bool {
    let row = |speed: &Speed| {
        (
            speed.operation.clone(),
            speed.algorithm.clone(),
            speed.size_bytes,
        )
    };
    row(one) == row(other)
}

fn cell(speeds: &[Speed], library: &str, row: &Speed) -> Cell {
    let of_library = |speed: &&Speed| speed.library == library && is_same(speed, row);
    let Some(speed) = speeds.iter().find(of_library) else {
        return Cell::from(NONE);
    };
    let count = Count(speed.per_s.round());
    match speed.size_bytes {
        Some(size) => {
            let bytes = Bytes((speed.per_s * f64::from(size)) as u64);
            Cell::of(format!("{count} {:>8}/s", bytes.to_string()))
        }
        // In line with the counts of rows that have bytes, too.
        None => Cell::of(format!("{count}{:11}", "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::host::Feature;
    use measure::record::Host;

    fn fact(name: &str, value: &str, remedy: Option<&str>) -> Fact {
        Fact {
            name: name.to_owned(),
            value: value.to_owned(),
            remedy: remedy.map(str::to_owned),
        }
    }

    fn speed(library: &str, operation: &str, size_bytes: Option<u32>, per_s: f64) -> Speed {
        Speed {
            library: library.to_owned(),
            operation: operation.to_owned(),
            algorithm: "AES-128-GCM".to_owned(),
            size_bytes,
            per_s,
        }
    }

    fn report() -> HostReport {
        HostReport {
            host: Host {
                cpu: "CPU of a maker".to_owned(),
                cpus: 4,
                memory_bytes: 1 << 33,
                kernel: "Linux 6.1".to_owned(),
                hypervisor: Some("unnamed".to_owned()),
                load_average: 0.0,
            },
            features: vec![Feature {
                name: "AES-NI".to_owned(),
                is_there: true,
                use_for: "AES-GCM: the cipher".to_owned(),
            }],
            cores: (0..4).map(core).collect(),
            mitigations: vec![
                fact("meltdown", "Not affected", None),
                fact("spectre_v1", "Mitigation: barriers", None),
            ],
            limits: vec![fact("open files", "1024 hard", Some("raise \u{1b}[2Jit"))],
            abilities: vec![Ability {
                name: "kTLS".to_owned(),
                is_there: false,
                why: "its module is not loaded".to_owned(),
                remedy: Some("modprobe tls".to_owned()),
            }],
            speeds: vec![
                speed("a 1", "sign", None, 1234.4),
                speed("a 1", "seal", Some(1024), 1e6),
                speed("b 2", "seal", Some(1024), 2e6),
            ],
            ..HostReport::default()
        }
    }

    /// Two cores of two threads each, a cache a core.
    fn core(cpu: u16) -> Core {
        Core {
            cpu,
            core: u32::from(cpu % 2),
            package: 0,
            node: 0,
            cache: u32::from(cpu % 2),
        }
    }

    #[test]
    fn all_that_was_found_is_told_and_nothing_breaks_out() {
        let text = text(&report(), 80, false);
        let told = [
            "CPU of a maker\n4 CPUs for us, 8.00 GiB, Linux 6.1, under a hypervisor that does not",
            "AES-NI  yes    AES-GCM: the cipher",
            "  0, 2  share a cache in socket 0, memory node 0; threads of one core: 0+2",
            "  kTLS  no: its module is not loaded\n        hint: modprobe tls",
            "  open files  1024 hard\n              hint: raise ",
            "  1 others    not affected, of the 2 that the kernel knows",
        ];
        for words in told {
            assert!(text.contains(words), "{words}\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.lines().all(|line| length(line) <= 80), "{text}");
    }

    #[test]
    fn libraries_stand_side_by_side() {
        let text = text(&report(), 80, false);
        let (_, table) = text.split_once("bytes where they are\n").unwrap();
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|cell| !cell.is_empty())
                    .collect()
            })
            .collect();
        assert_eq!(rows[0], ["a 1", "b 2"]);
        assert_eq!(rows[1], ["sign", "AES-128-GCM", "1234", NONE]);
        let seals = [
            "1\u{202f}000\u{202f}000",
            "977 MiB/s",
            "2\u{202f}000\u{202f}000 1.91 GiB/s",
        ];
        assert_eq!(
            rows[2],
            [&["seal", "AES-128-GCM", "1 KiB"][..], &seals].concat()
        );
    }

    #[test]
    fn numbers_in_a_row_are_a_range() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        assert_eq!(ranges(&[]), "");
    }
}
