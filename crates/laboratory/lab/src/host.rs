//! The host of a load, as far as figures depend on it.
//!
//! `cpu` describes the cores and what they make cheap, `surroundings` other work and network
//! cards, `abilities` what the kernel can do and its limits; `openssl` measures the system's
//! library beside ours, and `text` reads files of the kernel.
//!
//! Reads the kernel's own texts and tries what it can do; what cannot be read is unknown and fails
//! no run.

mod abilities;
mod cpu;
mod openssl;
mod surroundings;
mod text;

use std::thread;
use std::time::Duration;

use load::speed::{self, SpeedRows};
use measure::host::{HostReport, Speed};
use measure::record::Host;
use sys::cpu::{allowed_cpus, pin_current_thread};

use text::{read, value};

/// How long keys and ciphers are measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SpeedTiming {
    pub(crate) rows: SpeedRows,
    /// CPU time of each row; of the system's OpenSSL the next whole seconds, which it wants.
    pub(crate) each: Duration,
}

impl SpeedTiming {
    pub(crate) fn of(rows: SpeedRows) -> Self {
        let each = match rows {
            SpeedRows::Quick => Duration::from_millis(200),
            SpeedRows::Full => Duration::from_secs(1),
        };
        Self { rows, each }
    }

    /// How long all rows of both libraries take, at least.
    pub(crate) fn total(self) -> Duration {
        let ours = match self.rows {
            SpeedRows::Quick => 11,
            SpeedRows::Full => 24,
        };
        let theirs = openssl::row_count(self.rows) * self.openssl_seconds();
        self.each * ours + Duration::from_secs(theirs.into())
    }

    fn openssl_seconds(self) -> u32 {
        self.each.as_secs_f64().ceil().max(1.0) as u32
    }
}

/// All that is found out about this host, now, and, if asked for, how fast keys and ciphers are on
/// the last CPU that we may use.
pub(crate) fn report(timing: Option<SpeedTiming>) -> HostReport {
    let cpus = allowed_cpus();
    let mut surroundings = surroundings::all();
    let mut speeds = Vec::new();
    if let Some(timing) = timing {
        let cpu = cpus.last().copied().unwrap_or(0);
        speeds = our_speeds(timing, cpu);
        match openssl::measure(timing.rows, timing.openssl_seconds(), cpu) {
            Ok(rows) => speeds.extend(rows),
            Err(unmeasured) => surroundings.push(unmeasured),
        }
    }
    HostReport {
        host: facts(),
        features: cpu::of(&read("/proc/cpuinfo")),
        cores: cpu::map(&cpus),
        mitigations: surroundings::mitigations(),
        surroundings,
        limits: abilities::limits(),
        networks: surroundings::networks(cpus.len()),
        abilities: abilities::all(),
        speeds,
    }
}

/// On a thread of its own, which alone is pinned.
fn our_speeds(timing: SpeedTiming, cpu: u16) -> Vec<Speed> {
    let measure = move || {
        // Where it may not be pinned, it is as fast, and only less steady.
        let _ = pin_current_thread(cpu);
        speed::measure(timing.rows, timing.each)
    };
    thread::spawn(measure).join().unwrap_or_default()
}

pub(crate) fn facts() -> Host {
    let cpu = read("/proc/cpuinfo");
    let kernel = [read("/proc/sys/kernel/ostype"), read("/proc/sys/kernel/osrelease")];
    Host {
        cpu: cpu_name(&cpu),
        cpus: allowed_cpus().len() as u32,
        memory_bytes: memory_bytes(&read("/proc/meminfo")),
        kernel: kernel.map(|line| line.trim().to_owned()).join(" "),
        hypervisor: hypervisor(
            &cpu,
            &read("/sys/hypervisor/type"),
            &read("/sys/class/dmi/id/sys_vendor"),
            &read("/sys/devices/system/clocksource/clocksource0/available_clocksource"),
        ),
        load_average: load_average(&read("/proc/loadavg")),
    }
}

/// The name of the first CPU in `/proc/cpuinfo`; on Arm, where it has none, its part number.
fn cpu_name(cpuinfo: &str) -> String {
    if let Some(name) = value(cpuinfo, "model name") {
        return name.to_owned();
    }
    let implementer = value(cpuinfo, "CPU implementer");
    match implementer.zip(value(cpuinfo, "CPU part")) {
        Some((implementer, part)) => format!("implementer {implementer}, part {part}"),
        None => "unknown".to_owned(),
    }
}

/// `MemTotal` of `/proc/meminfo`, which is in KiB whatever it says.
fn memory_bytes(meminfo: &str) -> u64 {
    let total = value(meminfo, "MemTotal").and_then(|text| text.split_whitespace().next());
    total.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The hypervisor by the CPU, Xen's own file or the firmware.
///
/// Firmware names its maker on bare metal too, so it is believed only beside the CPU's flag.
/// The clock that it offers names its make where no firmware does.
fn hypervisor(cpuinfo: &str, xen: &str, vendor: &str, clocks: &str) -> Option<String> {
    let named = |text: &str| Some(text.trim().to_owned()).filter(|name| !name.is_empty());
    if let Some(name) = named(xen) {
        return Some(name);
    }
    let flags = value(cpuinfo, "flags").unwrap_or_default();
    let is_guest = flags.split_whitespace().any(|flag| flag == "hypervisor");
    let by_clock = || {
        let offered = |clock: &str| clocks.split_whitespace().any(|name| name.starts_with(clock));
        let known = CLOCKS_OF_HYPERVISORS.iter().find(|(clock, _)| offered(clock));
        known.map_or("unnamed", |(_, name)| name).to_owned()
    };
    is_guest.then(|| named(vendor).unwrap_or_else(by_clock))
}

const CLOCKS_OF_HYPERVISORS: [(&str, &str); 3] =
    [("kvm-clock", "KVM"), ("hyperv", "Hyper-V"), ("xen", "Xen")];

/// The first number of `/proc/loadavg`.
fn load_average(loadavg: &str) -> f64 {
    loadavg.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUEST: &str = "processor\t: 0\nmodel name\t: AMD EPYC\n\
                         flags\t\t: fpu hypervisor aes\n\nprocessor\t: 1\nmodel name\t: other\n";
    const ARM: &str = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n";

    #[test]
    fn a_cpu_has_its_name_or_its_number() {
        assert_eq!(cpu_name(GUEST), "AMD EPYC");
        assert_eq!(cpu_name(ARM), "implementer 0x41, part 0xd40");
        assert_eq!(cpu_name(""), "unknown");
    }

    #[test]
    fn memory_is_told_in_bytes() {
        let text = "MemTotal:       8145572 kB\nMemFree:         1 kB\n";
        assert_eq!(memory_bytes(text), 8_145_572 * 1024);
        assert_eq!(memory_bytes("MemTotal: lots"), 0);
    }

    #[test]
    fn a_hypervisor_is_named_if_it_says_its_name() {
        let said = |cpu, xen, vendor| hypervisor(cpu, xen, vendor, "tsc ");
        assert_eq!(said(GUEST, "", "QEMU\n").as_deref(), Some("QEMU"));
        assert_eq!(said(GUEST, "", "").as_deref(), Some("unnamed"));
        assert_eq!(said(ARM, "xen\n", "").as_deref(), Some("xen"));
        let clocks = "tsc kvm-clock acpi_pm";
        assert_eq!(hypervisor(GUEST, "", "", clocks).as_deref(), Some("KVM"));
        let metal = "flags : fpu hypervisors\n";
        assert_eq!(said(metal, "", "Supermicro\n"), None);
    }

    #[test]
    fn openssl_takes_whole_seconds() {
        assert_eq!(SpeedTiming::of(SpeedRows::Quick).openssl_seconds(), 1);
        let each = Duration::from_millis(2500);
        let timing = SpeedTiming { each, ..SpeedTiming::of(SpeedRows::Full) };
        assert_eq!(timing.openssl_seconds(), 3);
        assert_eq!(timing.total(), each * 24 + Duration::from_secs(3 * 23));
    }
}
