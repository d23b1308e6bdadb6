//! What a load ran on, as far as figures depend on it.
//!
//! Reads the kernel's own texts; what cannot be read is told as unknown rather than failing a run.

use std::fs;

use measure::record::Host;

/// The facts of this host, now.
pub(crate) fn facts() -> Host {
    let cpu = read("/proc/cpuinfo");
    let kernel = [
        read("/proc/sys/kernel/ostype"),
        read("/proc/sys/kernel/osrelease"),
    ];
    Host {
        cpu: cpu_name(&cpu),
        cpus: sys::cpu::allowed_cpus().len() as u32,
        memory_bytes: memory_bytes(&read("/proc/meminfo")),
        kernel: kernel.map(|line| line.trim().to_owned()).join(" "),
        hypervisor: hypervisor(
            &cpu,
            &read("/sys/hypervisor/type"),
            &read("/sys/class/dmi/id/sys_vendor"),
        ),
        load_average: load_average(&read("/proc/loadavg")),
    }
}

/// A file's text; nothing if there is none for us.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
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

/// What the CPU, Xen's own file or the firmware admit to.
///
/// Firmware names its maker on bare metal too, so it is believed only beside the CPU's flag.
fn hypervisor(cpuinfo: &str, xen: &str, vendor: &str) -> Option<String> {
    let named = |text: &str| Some(text.trim().to_owned()).filter(|name| !name.is_empty());
    if let Some(name) = named(xen) {
        return Some(name);
    }
    let flags = value(cpuinfo, "flags").unwrap_or_default();
    let is_guest = flags.split_whitespace().any(|flag| flag == "hypervisor");
    is_guest.then(|| named(vendor).unwrap_or_else(|| "unnamed".to_owned()))
}

/// The first number of `/proc/loadavg`.
fn load_average(loadavg: &str) -> f64 {
    let minute = loadavg.split_whitespace().next();
    minute.and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

/// The value of the first line `name : value`.
fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
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
        let said = |cpu, xen, vendor| hypervisor(cpu, xen, vendor);
        assert_eq!(said(GUEST, "", "QEMU\n").as_deref(), Some("QEMU"));
        assert_eq!(said(GUEST, "", "").as_deref(), Some("unnamed"));
        assert_eq!(said(ARM, "xen\n", "").as_deref(), Some("xen"));
        let metal = "flags : fpu hypervisors\n";
        assert_eq!(said(metal, "", "Supermicro\n"), None);
    }

    #[test]
    fn the_load_is_the_last_minutes() {
        assert_eq!(load_average("0.42 0.37 0.84 2/85 15935\n"), 0.42);
        assert_eq!(load_average(""), 0.0);
    }

    #[test]
    fn this_host_has_facts() {
        let host = facts();
        assert!(!host.cpu.is_empty() && host.cpus > 0, "{host:?}");
        assert!(host.memory_bytes > 1 << 20, "{host:?}");
        assert!(host.kernel.starts_with("Linux "), "{host:?}");
    }
}
