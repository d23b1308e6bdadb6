//! The host of a load, as far as figures depend on it; and the speeds of the same keys and ciphers
//! by our library and by the system's own `openssl speed`.
//!
//! `kernel` reads the kernel's files and says what it and the cores can do, `surroundings`
//! describes other work and network cards.
//!
//! Reads the kernel's own texts and tries what it can do; what cannot be read is unknown and fails
//! no run. Of `openssl speed` it knows the command lines and the form for machines (`-mr`), which
//! has been the same since 1.1.1. That counts user time of its CPU; each row takes whole seconds.

mod kernel;
mod surroundings;

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, io, process, thread};

use load::speed::{self, SEAL_BYTES, SpeedRows};
use measure::record::{Host, HostFact, HostReport, OperationSpeed};
use sys::cpu::{allowed_cpus, pin_current_thread};

use crate::process::{GuardedChild, first_lines};
use kernel::{read, value, with_remedy};

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
        let theirs = row_count(self.rows) * self.openssl_seconds();
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
        match measure(timing.rows, timing.openssl_seconds(), cpu) {
            Ok(rows) => speeds.extend(rows),
            Err(unmeasured) => surroundings.push(unmeasured),
        }
    }
    HostReport {
        host: facts(),
        features: kernel::features(&read("/proc/cpuinfo")),
        cores: kernel::cores(&cpus),
        mitigations: surroundings::mitigations(),
        surroundings,
        limits: kernel::limits(),
        networks: surroundings::networks(cpus.len()),
        abilities: kernel::abilities(),
        speeds,
    }
}

/// On a thread of its own, which alone is pinned.
fn our_speeds(timing: SpeedTiming, cpu: u16) -> Vec<OperationSpeed> {
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

const PROGRAM: &str = "openssl";

/// Beyond the seconds of its rows: making keys, and a CPU that others want, too.
const PATIENCE: u32 = 4;

/// The reason why there are no rows, with the remedy where there is one.
fn unmeasured(why: impl Display, remedy: Option<&str>) -> HostFact {
    with_remedy("system's OpenSSL", format!("not measured: {why}"), remedy.map(str::to_owned))
}

/// Rows of `openssl speed`, each for `seconds`, on that CPU.
fn measure(rows: SpeedRows, seconds: u32, cpu: u16) -> Result<Vec<OperationSpeed>, HostFact> {
    let program = located().ok_or_else(|| {
        let remedy = "`apt-get install openssl`, to compare with it";
        unmeasured("there is no program `openssl`", Some(remedy))
    })?;
    let run = |words: &[&str], rows: u32| {
        run(&program, words, cpu, Duration::from_secs(u64::from(seconds * rows)))
    };
    let library = library(&run(&["version"], 1)?);
    let each = seconds.to_string();
    let keys = keys(rows);
    let asked = ["speed", "-mr", "-seconds", &each];
    let mut words = asked.to_vec();
    words.extend(&keys);
    let said = run(&words, 2 * keys.len() as u32)?;
    let mut speeds = of_keys(&said, &library);
    if speeds.is_empty() {
        let said = first_lines(&said);
        let why = format_args!("`openssl speed` said nothing that we know: {said}");
        return Err(unmeasured(why, None));
    }
    for (name, cipher) in CIPHERS {
        for size in sizes(rows) {
            let (bytes, mut words) = (size.to_string(), asked.to_vec());
            words.extend(["-aead", "-bytes", &bytes, "-evp", cipher]);
            let sealed = of_cipher(&run(&words, 1)?, *size);
            speeds.extend(sealed.map(|per_s| speed(&library, "seal", name, Some(*size), per_s)));
        }
    }
    Ok(speeds)
}

/// By the names of `openssl speed`; with keys that are kept, as ours.
fn keys(rows: SpeedRows) -> Vec<&'static str> {
    let names = match rows {
        SpeedRows::Quick => "rsa2048 ecdsap256 ed25519 ecdhx25519",
        SpeedRows::Full => {
            "rsa2048 rsa3072 rsa4096 ecdsap256 ecdsap384 ed25519 ecdhx25519 ecdhp256"
        }
    };
    names.split(' ').collect()
}

const CIPHERS: [(&str, &str); 3] = [
    ("AES-128-GCM", "aes-128-gcm"),
    ("AES-256-GCM", "aes-256-gcm"),
    ("ChaCha20-Poly1305", "chacha20-poly1305"),
];

fn sizes(rows: SpeedRows) -> &'static [u32] {
    match rows {
        SpeedRows::Quick => &SEAL_BYTES[2..],
        SpeedRows::Full => &SEAL_BYTES,
    }
}

/// How many seconds its rows take, at one each.
fn row_count(rows: SpeedRows) -> u32 {
    let keys = keys(rows);
    let exchanges = keys.iter().filter(|name| name.starts_with("ecdh")).count();
    (2 * keys.len() - exchanges + CIPHERS.len() * sizes(rows).len()) as u32
}

fn located() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(PROGRAM)).find(|file| file.is_file())
}

fn run(program: &Path, words: &[&str], cpu: u16, seconds: Duration) -> Result<String, HostFact> {
    let unusable = |error: &dyn Display| {
        let remedy = "`openssl version` must run, and TMPDIR name a folder with room";
        unmeasured(format_args!("`openssl` cannot be run: {error}"), Some(remedy))
    };
    let file = nameless().map_err(|error| unusable(&error))?;
    let output = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let words = words.iter().map(OsString::from);
    let words: Vec<OsString> = [program.into()].into_iter().chain(words).collect();
    let longest = seconds * PATIENCE + Duration::from_secs(30);
    let said = GuardedChild::run(&words, &[cpu], Path::new("/"), &output, longest);
    said.map_err(|error| unusable(&error))
}

/// A file without a name, which goes however we end.
fn nameless() -> io::Result<File> {
    let path = env::temp_dir().join(format!("lariat-lab-{}-openssl", process::id()));
    let file = File::create_new(&path)?;
    fs::remove_file(path)?;
    Ok(file)
}

/// `OpenSSL 3.0.19 27 Jan 2026 (Library: …)`: name and version.
fn library(said: &str) -> String {
    let words: Vec<_> = said.split_whitespace().take(2).collect();
    words.join(" ")
}

fn speed(
    library: &str,
    operation: &str,
    name: &str,
    size: Option<u32>,
    per_s: f64,
) -> OperationSpeed {
    OperationSpeed {
        library: library.to_owned(),
        operation: operation.to_owned(),
        algorithm: name.to_owned(),
        size_bytes: size,
        per_s,
    }
}

/// `+F2:2:2048:3904.1:61745.5` is RSA, `+F4:3:256:…` ECDSA, `+F5:22:253:32117.2:0.00003` ECDH,
/// `+F6:0:253:Ed25519:…` EdDSA; each with operations a second.
fn of_keys(said: &str, library: &str) -> Vec<OperationSpeed> {
    let rows = said.lines().flat_map(|line| {
        let fields: Vec<&str> = line.trim().split(':').collect();
        let number = |index: usize| fields.get(index).and_then(|field| field.parse().ok());
        let (signs, verifies, agrees) = match (fields[0], fields.get(2)) {
            ("+F2" | "+F4", _) => (number(3), number(4), None),
            ("+F6", _) => (number(4), number(5), None),
            ("+F5", _) => (None, None, number(3)),
            _ => (None, None, None),
        };
        let name = name(fields[0], fields.get(2).copied().unwrap_or_default());
        let operations = [("sign", signs), ("verify", verifies), ("agree", agrees)];
        operations.into_iter().filter_map(move |(operation, per_s)| {
            let per_s: f64 = per_s?;
            Some((operation, name.clone()?, per_s))
        })
    });
    rows.filter(|(_, _, per_s)| per_s.is_finite() && *per_s > 0.0)
        .map(|(operation, name, per_s)| speed(library, operation, &name, None, per_s))
        .collect()
}

fn name(kind: &str, bits: &str) -> Option<String> {
    match (kind, bits) {
        ("+F2", bits) => Some(format!("RSA {bits}")),
        ("+F4" | "+F5", "256" | "384") => Some(format!("P-{bits}")),
        ("+F5", "253") => Some("X25519".to_owned()),
        ("+F6", "253") => Some("Ed25519".to_owned()),
        _ => None,
    }
}

/// `+F:25:AES-128-GCM:4467900250.51`, bytes a second.
fn of_cipher(said: &str, size_bytes: u32) -> Option<f64> {
    let line = said.lines().find(|line| line.starts_with("+F:"))?;
    let bytes_per_s: f64 = line.trim().rsplit(':').next()?.parse().ok()?;
    let is_number = bytes_per_s.is_finite() && bytes_per_s > 0.0;
    is_number.then(|| bytes_per_s / f64::from(size_bytes))
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

    const SAID: &str = "+DTP:2048:private:rsa:1\n\
        +R1:3904:2048:1.00\n\
        +F2:2:2048:3904.081633:61745.454545\n\
        +F4:3:256:51033.333333:17032.323232\n\
        +F5:22:253:32117.171717:0.000031\n\
        +F6:0:253:Ed25519:27633.333333:9827.272727\n";

    #[test]
    fn keys_are_read() {
        let rows: Vec<_> = of_keys(SAID, "OpenSSL 3")
            .into_iter()
            .map(|row| (row.operation, row.algorithm, row.per_s.round()))
            .collect();
        let row =
            |operation: &str, name: &str, per_s| (operation.to_owned(), name.to_owned(), per_s);
        assert_eq!(
            rows,
            [
                row("sign", "RSA 2048", 3904.0),
                row("verify", "RSA 2048", 61745.0),
                row("sign", "P-256", 51033.0),
                row("verify", "P-256", 17032.0),
                row("agree", "X25519", 32117.0),
                row("sign", "Ed25519", 27633.0),
                row("verify", "Ed25519", 9827.0),
            ]
        );
    }

    #[test]
    fn what_is_no_row_is_none() {
        assert!(
            of_keys("speed: Unknown algorithm rsa2048\n\n+F2\n+F2:2:x:inf:-1\n", "x").is_empty()
        );
        assert_eq!(of_cipher("+H:64\n", 64), None);
        assert_eq!(of_cipher("+F:25:AES-128-GCM:nan\n", 64), None);
    }

    #[test]
    fn bytes_become_operations() {
        let said = "+DT:AES-128-GCM:1:64\n+H:64\n+F:25:AES-128-GCM:640000.00\n";
        assert_eq!(of_cipher(said, 64), Some(10_000.0));
    }

    #[test]
    fn rows_are_counted() {
        assert_eq!(row_count(SpeedRows::Quick), 3 * 2 + 1 + 3);
        assert_eq!(row_count(SpeedRows::Full), 6 * 2 + 2 + 9);
    }
}
