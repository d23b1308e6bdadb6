//! What else figures depend on: clock, frequency, threads of a core, containers and quotas.

use std::env;
use std::path::{Path, PathBuf};

use measure::host::Fact;

use super::text::{fact, names, non_empty, number, read, with_remedy};

/// All that can be read.
pub(super) fn all() -> Vec<Fact> {
    let mut facts = vec![container(), quota()];
    facts.extend(non_empty(CLOCK).map(|name| clock(&name)));
    facts.push(governor(&governors()));
    facts.extend(turbo());
    facts.extend(threads());
    facts.extend(congestion());
    facts
}

/// The kernel's reports on the faults of this CPU.
pub(super) fn mitigations() -> Vec<Fact> {
    const FOLDER: &str = "/sys/devices/system/cpu/vulnerabilities";
    let faults = names(FOLDER).into_iter();
    faults
        .filter_map(|name| Some(fact(&name, non_empty(Path::new(FOLDER).join(&name))?)))
        .collect()
}

const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Clocks that programs cannot read without a call of the kernel.
const SLOW_CLOCKS: [&str; 5] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "xen"];

fn clock(name: &str) -> Fact {
    let is_slow = SLOW_CLOCKS.contains(&name);
    let remedy = is_slow.then(|| {
        format!(
            "each look at it is a call of the kernel: `echo tsc > {CLOCK}`, if \
             available_clocksource beside it names tsc"
        )
    });
    with_remedy("clock source", name, remedy)
}

/// The governor of each frequency domain, each once.
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

fn governor(governors: &[String]) -> Fact {
    if governors.is_empty() {
        return fact(
            "frequency governor",
            "not reported; a hypervisor may decide it",
        );
    }
    let is_steady = governors.iter().all(|name| name == "performance");
    let remedy = (!is_steady).then(|| {
        "the frequency follows the load, and figures with it: `cpupower frequency-set -g \
         performance`"
            .to_owned()
    });
    with_remedy("frequency governor", governors.join(", "), remedy)
}

fn turbo() -> Option<Fact> {
    let intel = "/sys/devices/system/cpu/intel_pstate/no_turbo";
    let other = "/sys/devices/system/cpu/cpufreq/boost";
    if let Some(off) = number(intel) {
        return Some(turbo_fact(off == 0, &format!("echo 1 > {intel}")));
    }
    number(other).map(|on| turbo_fact(on == 1, &format!("echo 0 > {other}")))
}

fn turbo_fact(is_on: bool, command: &str) -> Fact {
    let remedy = is_on.then(|| {
        format!("a cool CPU is faster than a warm one; for steadier figures: `{command}`")
    });
    with_remedy("turbo", if is_on { "on" } else { "off" }, remedy)
}

fn threads() -> Option<Fact> {
    let control = non_empty("/sys/devices/system/cpu/smt/control")?;
    let is_active = number("/sys/devices/system/cpu/smt/active") == Some(1);
    let value = match (is_active, control.as_str()) {
        (true, _) => "on: CPUs of one core share its units".to_owned(),
        (false, "notsupported" | "notimplemented") => "none".to_owned(),
        (false, control) => control.to_owned(),
    };
    Some(fact("threads of a core", value))
}

fn congestion() -> Option<Fact> {
    let name = "net.ipv4.tcp_congestion_control";
    non_empty("/proc/sys/net/ipv4/tcp_congestion_control").map(|value| fact(name, value))
}

fn container() -> Fact {
    let marks = [
        ("Docker", Path::new("/.dockerenv").exists()),
        ("Podman", Path::new("/run/.containerenv").exists()),
        (
            "Kubernetes",
            env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
        ),
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

/// The least CPU time that a group of ours, or one above it, may use; in thousandths of a CPU.
fn quota() -> Fact {
    let groups = read("/proc/self/cgroup");
    let unified = group(&groups, "").map(|path| ("/sys/fs/cgroup", path));
    let legacy = group(&groups, "cpu").map(|path| ("/sys/fs/cgroup/cpu", path));
    let quotas = [unified, legacy].into_iter().flatten();
    let least = quotas
        .flat_map(|(root, path)| quotas_above(root, path))
        .min();
    quota_fact(least)
}

/// The path of our group: `0::/x` of version 2, `4:cpu,cpuacct:/x` of version 1 (cgroups(7)).
fn group<'t>(groups: &'t str, controller: &str) -> Option<&'t str> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, names, path) = (fields.next()?, fields.next()?, fields.next()?);
        names
            .split(',')
            .any(|name| name == controller)
            .then_some(path)
    })
}

fn quotas_above(root: &str, path: &str) -> Vec<u64> {
    let path = PathBuf::from(root).join(path.trim_start_matches('/'));
    let folders = path
        .ancestors()
        .take_while(|folder| folder.starts_with(root));
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

/// `150000 100000` is a CPU and a half; `max 100000` and `-1 100000` are no quota.
fn quota_of(text: &str) -> Option<u64> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (quota, period) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    quota.saturating_mul(1000).checked_div(period)
}

fn quota_fact(thousandths: Option<u64>) -> Fact {
    let Some(thousandths) = thousandths else {
        return fact("CPU quota", "none");
    };
    let value = format!("{} CPUs", thousandths as f64 / 1000.0);
    let remedy = "a process that has used it up stops until the next period, which distorts all \
                  figures: run without (`docker run --cpus 0`, CPUQuota= of systemd)";
    with_remedy("CPU quota", value, Some(remedy.to_owned()))
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
        let named = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(clock("tsc").remedy, None);
        assert!(clock("hpet").remedy.is_some());
        assert_eq!(governor(&named(&["performance"])).remedy, None);
        assert!(
            governor(&named(&["performance", "schedutil"]))
                .remedy
                .is_some()
        );
        assert!(governor(&[]).value.starts_with("not reported"));
        assert!(turbo_fact(true, "x").remedy.is_some());
        assert_eq!(turbo_fact(false, "x").value, "off");
    }

    #[test]
    fn this_host_has_surroundings() {
        let names: Vec<_> = all().into_iter().map(|fact| fact.name).collect();
        for name in ["container", "CPU quota", "frequency governor"] {
            assert!(names.iter().any(|known| known == name), "{names:?}");
        }
    }
}
