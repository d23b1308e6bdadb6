//! Network cards: how many queues, and which CPUs their interrupts go to.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use measure::host::Fact;

use super::text::{names, non_empty, number, read};

const CARDS: &str = "/sys/class/net";

/// Cards with a driver of their own; loopback, bridges and tunnels have none.
pub(super) fn all(cpus: usize) -> Vec<Fact> {
    let cards = names(CARDS).into_iter();
    cards
        .filter_map(|name| card(&name))
        .map(|card| card.fact(cpus))
        .collect()
}

struct Card {
    name: String,
    driver: String,
    state: String,
    megabits_per_s: Option<u64>,
    receive_queues: usize,
    send_queues: usize,
    /// CPUs that its interrupts go to; none if that is unknown.
    interrupted: BTreeSet<u32>,
    /// Whether the kernel spreads what one queue receives over other CPUs (RPS).
    is_spread: bool,
}

fn card(name: &str) -> Option<Card> {
    let folder = Path::new(CARDS).join(name);
    let driver = fs::read_link(folder.join("device/driver")).ok()?;
    let queues = names(folder.join("queues"));
    let of = |kind: &str| {
        queues
            .iter()
            .filter(|queue| queue.starts_with(kind))
            .count()
    };
    let spread = |queue: &&String| {
        let cpus = read(folder.join("queues").join(queue.as_str()).join("rps_cpus"));
        cpus.chars()
            .any(|digit| digit.is_ascii_hexdigit() && digit != '0')
    };
    Some(Card {
        name: name.to_owned(),
        driver: driver.file_name()?.to_string_lossy().into_owned(),
        state: non_empty(folder.join("operstate")).unwrap_or_else(|| "unknown".to_owned()),
        megabits_per_s: number(folder.join("speed")),
        receive_queues: of("rx-"),
        send_queues: of("tx-"),
        interrupted: interrupted(&folder.join("device")),
        is_spread: queues.iter().any(|queue| spread(&queue)),
    })
}

/// The interrupts of a device on PCI, or, for virtio, of the one that carries it.
fn interrupted(device: &Path) -> BTreeSet<u32> {
    let own = device.join("msi_irqs");
    let carrier = fs::canonicalize(device).ok();
    let carrier = carrier.and_then(|path| Some(path.parent()?.join("msi_irqs")));
    let folder = Some(own).filter(|path| path.is_dir()).or(carrier);
    let numbers = folder.map(names).unwrap_or_default();
    let cpus = numbers.iter().flat_map(|number| cpus_of(number));
    cpus.collect()
}

fn cpus_of(interrupt: &str) -> Vec<u32> {
    let folder = PathBuf::from("/proc/irq").join(interrupt);
    let effective = non_empty(folder.join("effective_affinity_list"));
    let list = effective.or_else(|| non_empty(folder.join("smp_affinity_list")));
    list.map_or_else(Vec::new, |list| members(&list))
}

/// `0-2,5`, as many as a host can have.
fn members(list: &str) -> Vec<u32> {
    const CPUS_MAX: u32 = 8192;
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some((first.parse().ok()?, last.parse::<u32>().ok()?.min(CPUS_MAX)))
    });
    ranges
        .flat_map(|(first, last): (u32, u32)| first..=last)
        .collect()
}

impl Card {
    fn fact(self, cpus: usize) -> Fact {
        Fact {
            value: self.value(),
            remedy: self.remedy(cpus),
            name: self.name,
        }
    }

    fn value(&self) -> String {
        let mut value = format!("{}, {}", self.driver, self.state);
        if let Some(speed) = self.megabits_per_s {
            value += &format!(", {speed} Mbit/s");
        }
        value += &format!(
            ", queues: {} to receive, {} to send",
            self.receive_queues, self.send_queues
        );
        if !self.interrupted.is_empty() {
            let cpus: Vec<_> = self.interrupted.iter().map(u32::to_string).collect();
            value += &format!(", interrupts at CPU {}", cpus.join(", "));
        }
        if self.is_spread {
            value += ", spread by RPS";
        }
        value
    }

    /// A single queue makes one CPU the limit of all.
    fn remedy(&self, cpus: usize) -> Option<String> {
        let is_narrow = self.receive_queues < cpus && !self.is_spread;
        (is_narrow && self.state == "up").then(|| {
            format!(
                "load over it is bound by fewer CPUs than there are: `ethtool -L {} combined \
                 {cpus}`, or RPS (queues/rx-*/rps_cpus)",
                self.name
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(receive_queues: usize) -> Card {
        Card {
            name: "eth0".to_owned(),
            driver: "virtio_net".to_owned(),
            state: "up".to_owned(),
            megabits_per_s: Some(10_000),
            receive_queues,
            send_queues: 2,
            interrupted: BTreeSet::from([0, 3]),
            is_spread: false,
        }
    }

    #[test]
    fn a_card_tells_its_queues_and_interrupts() {
        let fact = card(2).fact(2);
        assert_eq!(
            fact.value,
            "virtio_net, up, 10000 Mbit/s, queues: 2 to receive, 2 to send, \
             interrupts at CPU 0, 3"
        );
        assert_eq!(fact.remedy, None);
    }

    #[test]
    fn a_narrow_card_has_a_remedy_unless_it_is_down_or_spread() {
        assert!(
            card(1)
                .remedy(4)
                .unwrap()
                .contains("ethtool -L eth0 combined 4")
        );
        let mut spread = card(1);
        spread.is_spread = true;
        assert_eq!(spread.remedy(4), None);
        let mut down = card(1);
        down.state = "down".to_owned();
        assert_eq!(down.remedy(4), None);
    }

    #[test]
    fn lists_have_members() {
        assert_eq!(members("0-2,5\n"), [0, 1, 2, 5]);
        assert!(members("").is_empty());
        assert!(members("1-x").is_empty());
    }
}
