//! Describes other work on this host, and its network interfaces: both change measurements.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use measure::record::HostFact;
use options::quantity::cpu_list;

use super::kernel::{fact, names, non_empty, number, read, with_remedy};

/// Reads all facts that can be read.
pub(super) fn all() -> Vec<HostFact> {
    let mut facts = vec![container(), quota()];
    facts.extend(non_empty(CLOCK).map(|name| clock(&name)));
    facts.push(governor(&governors()));
    facts.extend(turbo());
    facts.extend(threads());
    facts.extend(congestion());
    facts
}

/// Reads the kernel's reports on vulnerabilities of this CPU.
pub(super) fn mitigations() -> Vec<HostFact> {
    const FOLDER: &str = "/sys/devices/system/cpu/vulnerabilities";
    let faults = names(FOLDER).into_iter();
    faults.filter_map(|name| Some(fact(&name, non_empty(Path::new(FOLDER).join(&name))?))).collect()
}

const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Clocks that programs cannot read without a system call.
const SLOW_CLOCKS: [&str; 5] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "xen"];

fn clock(name: &str) -> HostFact {
    let is_slow = SLOW_CLOCKS.contains(&name);
    let remedy = is_slow.then(|| {
        format!(
            "each look at it is a call of the kernel: `echo tsc > {CLOCK}`, if \
             available_clocksource beside it names tsc"
        )
    });
    with_remedy("clock source", name, remedy)
}

/// Lists the governors of the frequency domains, each once.
fn governors() -> Vec<String> {
    let folder = Path::new("/sys/devices/system/cpu/cpufreq");
    let domains = names(folder).into_iter();
    let mut governors: Vec<_> = domains
        .filter_map(|domain| non_empty(folder.join(domain).join("scaling_governor")))
        .collect();
    governors.sort();
    governors.dedup();
    governors
}

fn governor(governors: &[String]) -> HostFact {
    if governors.is_empty() {
        return fact("frequency governor", "not reported; a hypervisor may decide it");
    }
    let is_steady = governors.iter().all(|name| name == "performance");
    let remedy = (!is_steady).then(|| {
        "the frequency follows the load, and figures with it: `cpupower frequency-set -g \
         performance`"
            .to_owned()
    });
    with_remedy("frequency governor", governors.join(", "), remedy)
}

fn turbo() -> Option<HostFact> {
    let intel = "/sys/devices/system/cpu/intel_pstate/no_turbo";
    let other = "/sys/devices/system/cpu/cpufreq/boost";
    if let Some(off) = number(intel) {
        return Some(turbo_fact(off == 0, &format!("echo 1 > {intel}")));
    }
    number(other).map(|on| turbo_fact(on == 1, &format!("echo 0 > {other}")))
}

fn turbo_fact(is_on: bool, command: &str) -> HostFact {
    let remedy = is_on.then(|| {
        format!("a cool CPU is faster than a warm one; for steadier figures: `{command}`")
    });
    with_remedy("turbo", if is_on { "on" } else { "off" }, remedy)
}

fn threads() -> Option<HostFact> {
    let control = non_empty("/sys/devices/system/cpu/smt/control")?;
    let is_active = number("/sys/devices/system/cpu/smt/active") == Some(1);
    let value = match (is_active, control.as_str()) {
        (true, _) => "on: CPUs of one core share its units".to_owned(),
        (false, "notsupported" | "notimplemented") => "none".to_owned(),
        (false, control) => control.to_owned(),
    };
    Some(fact("threads of a core", value))
}

fn congestion() -> Option<HostFact> {
    let name = "net.ipv4.tcp_congestion_control";
    non_empty("/proc/sys/net/ipv4/tcp_congestion_control").map(|value| fact(name, value))
}

fn container() -> HostFact {
    let marks = [
        ("Docker", Path::new("/.dockerenv").exists()),
        ("Podman", Path::new("/run/.containerenv").exists()),
        ("Kubernetes", env::var_os("KUBERNETES_SERVICE_HOST").is_some()),
    ];
    let seen = marks.iter().filter(|(_, is_there)| *is_there);
    let seen: Vec<_> = seen.map(|(name, _)| *name).collect();
    let value = if seen.is_empty() {
        "none seen".to_owned()
    } else {
        format!("marks of {}", seen.join(", "))
    };
    fact("container", value)
}

/// Reports the lowest CPU quota of our cgroup and its ancestors, in thousandths of a CPU.
fn quota() -> HostFact {
    let groups = read("/proc/self/cgroup");
    let unified = group(&groups, "").map(|path| ("/sys/fs/cgroup", path));
    let legacy = group(&groups, "cpu").map(|path| ("/sys/fs/cgroup/cpu", path));
    let quotas = [unified, legacy].into_iter().flatten();
    quota_fact(quotas.flat_map(|(root, path)| quotas_above(root, path)).min())
}

/// Returns our cgroup: `0::/x` of version 2, `4:cpu,cpuacct:/x` of version 1 (cgroups(7)).
fn group<'t>(groups: &'t str, controller: &str) -> Option<&'t str> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, names, path) = (fields.next()?, fields.next()?, fields.next()?);
        names.split(',').any(|name| name == controller).then_some(path)
    })
}

fn quotas_above(root: &str, path: &str) -> Vec<u64> {
    let path = PathBuf::from(root).join(path.trim_start_matches('/'));
    let folders = path.ancestors().take_while(|folder| folder.starts_with(root));
    let quotas = folders.filter_map(|folder| {
        let unified = non_empty(folder.join("cpu.max"));
        unified.as_deref().and_then(quota_of).or_else(|| {
            let (quota, period) = ("cpu.cfs_quota_us", "cpu.cfs_period_us");
            let (quota, period) = (read(folder.join(quota)), read(folder.join(period)));
            quota_of(&format!("{quota} {period}"))
        })
    });
    quotas.collect()
}

/// Parses a quota: `150000 100000` is a CPU and a half; `max 100000` and `-1 100000` are none.
fn quota_of(text: &str) -> Option<u64> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (quota, period) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    quota.saturating_mul(1000).checked_div(period)
}

fn quota_fact(thousandths: Option<u64>) -> HostFact {
    let Some(thousandths) = thousandths else {
        return fact("CPU quota", "none");
    };
    let value = format!("{} CPUs", thousandths as f64 / 1000.0);
    let remedy = "a process that has used it up stops until the next period, which distorts all \
                  figures: run without (`docker run --cpus 0`, CPUQuota= of systemd)";
    with_remedy("CPU quota", value, Some(remedy.to_owned()))
}

const CARDS: &str = "/sys/class/net";

/// Describes cards with a driver; loopback, bridges and tunnels have none.
pub(super) fn networks(cpus: usize) -> Vec<HostFact> {
    names(CARDS).into_iter().filter_map(|name| card(&name)).map(|card| card.fact(cpus)).collect()
}

struct NetworkCard {
    name: String,
    driver: String,
    state: String,
    megabits_per_s: Option<u64>,
    receive_queues: usize,
    send_queues: usize,
    /// CPUs that the card's interrupts go to; empty if unknown.
    interrupted: BTreeSet<u16>,
    /// Whether the kernel spreads the packets of one queue over other CPUs (RPS).
    is_spread: bool,
}

fn card(name: &str) -> Option<NetworkCard> {
    let folder = Path::new(CARDS).join(name);
    let driver = fs::read_link(folder.join("device/driver")).ok()?;
    let queues = names(folder.join("queues"));
    let of = |kind: &str| queues.iter().filter(|queue| queue.starts_with(kind)).count();
    let spread = |queue: &&String| {
        let cpus = read(folder.join("queues").join(queue.as_str()).join("rps_cpus"));
        cpus.chars().any(|digit| digit.is_ascii_hexdigit() && digit != '0')
    };
    Some(NetworkCard {
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

/// Finds the interrupts of a PCI device, or, for virtio, of its parent device.
fn interrupted(device: &Path) -> BTreeSet<u16> {
    let own = device.join("msi_irqs");
    let carrier = fs::canonicalize(device).ok();
    let carrier = carrier.and_then(|path| Some(path.parent()?.join("msi_irqs")));
    let numbers = Some(own).filter(|path| path.is_dir()).or(carrier).map(names).unwrap_or_default();
    numbers.iter().flat_map(|number| cpus_of(number)).collect()
}

fn cpus_of(interrupt: &str) -> Vec<u16> {
    let folder = PathBuf::from("/proc/irq").join(interrupt);
    let effective = non_empty(folder.join("effective_affinity_list"));
    let list = effective.or_else(|| non_empty(folder.join("smp_affinity_list")));
    list.and_then(|list| cpu_list(&list)).unwrap_or_default()
}

impl NetworkCard {
    fn fact(self, cpus: usize) -> HostFact {
        HostFact { value: self.value(), remedy: self.remedy(cpus), name: self.name }
    }

    fn value(&self) -> String {
        let mut value = format!("{}, {}", self.driver, self.state);
        if let Some(speed) = self.megabits_per_s {
            value += &format!(", {speed} Mbit/s");
        }
        value +=
            &format!(", queues: {} to receive, {} to send", self.receive_queues, self.send_queues);
        if !self.interrupted.is_empty() {
            let cpus: Vec<_> = self.interrupted.iter().map(u16::to_string).collect();
            value += &format!(", interrupts at CPU {}", cpus.join(", "));
        }
        if self.is_spread {
            value += ", spread by RPS";
        }
        value
    }

    /// Suggests a remedy, because a single queue makes one CPU the limit of all.
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

    #[test]
    fn quotas_of_either_form_are_read() {
        assert_eq!(quota_of("150000 100000\n"), Some(1500));
        assert_eq!(quota_of("max 100000"), None);
        assert_eq!(quota_of("-1 100000"), None);
        assert_eq!(quota_of("1 0"), None);
        assert_eq!(quota_of(" "), None);
        assert_eq!(quota_fact(Some(1500)).value, "1.5 CPUs");
        assert!(quota_fact(Some(1500)).remedy.is_some());
        assert!(quota_fact(None).remedy.is_none());
    }

    #[test]
    fn groups_are_found_in_either_form() {
        let both = "4:cpu,cpuacct:/a:b\n1:name=systemd:/\n0::/user.slice\n";
        assert_eq!(group(both, ""), Some("/user.slice"));
        assert_eq!(group(both, "cpu"), Some("/a:b"));
        assert_eq!(group(both, "memory"), None);
    }

    #[test]
    fn what_makes_figures_unsteady_has_a_remedy() {
        let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(clock("tsc").remedy, None);
        assert!(clock("hpet").remedy.is_some());
        assert_eq!(governor(&named(&["performance"])).remedy, None);
        assert!(governor(&named(&["performance", "schedutil"])).remedy.is_some());
        assert!(governor(&[]).value.starts_with("not reported"));
        assert!(turbo_fact(true, "x").remedy.is_some());
        assert_eq!(turbo_fact(false, "x").value, "off");
    }

    fn card(receive_queues: usize) -> NetworkCard {
        NetworkCard {
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
        assert!(card(1).remedy(4).unwrap().contains("ethtool -L eth0 combined 4"));
        let mut spread = card(1);
        spread.is_spread = true;
        assert_eq!(spread.remedy(4), None);
        let mut down = card(1);
        down.state = "down".to_owned();
        assert_eq!(down.remedy(4), None);
    }
}
