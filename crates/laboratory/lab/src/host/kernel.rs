//! The kernel of this host: its own texts (files with a value, lines with a name, lists of
//! numbers); the CPU cores by them, and what they can do for cryptography; abilities of the kernel
//! and of programs, and limits of the kernel and of this process.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use measure::quantity::{ByteCount, RoundedCount};
use measure::record::{Core, HostAbility, HostFact, HostFeature};
use sys::epoll;
use sys::ktls::probe::{CIPHER_REMEDY, KtlsTrial, probe};
use sys::ktls::{Cipher, KtlsDirection};
use sys::limit::{ResourceLimit, descriptors, locked_memory};

pub(crate) fn fact(name: &str, value: impl Into<String>) -> HostFact {
    with_remedy(name, value, None)
}

pub(crate) fn with_remedy(
    name: &str,
    value: impl Into<String>,
    remedy: Option<String>,
) -> HostFact {
    HostFact { name: name.to_owned(), value: value.into(), remedy }
}

/// A file's text without its last line end; nothing if there is none for us.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).map_or_else(|_| String::new(), |text| text.trim_end().to_owned())
}

/// A file's text; none if there is no such file for us, or nothing in it.
pub(crate) fn non_empty(path: impl AsRef<Path>) -> Option<String> {
    Some(read(path)).filter(|text| !text.is_empty())
}

pub(crate) fn number(path: impl AsRef<Path>) -> Option<u64> {
    read(path).trim().parse().ok()
}

/// The names in a folder, in order; none if it cannot be read.
pub(crate) fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The value of the first line `name : value`.
pub(crate) fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The first number of a list as `0-3,8`.
fn first_of(list: &str) -> Option<u32> {
    let digits = list.trim().split(['-', ',']).next();
    digits.and_then(|digits| digits.parse().ok())
}

const CPUS: &str = "/sys/devices/system/cpu";

/// A map of these CPUs, in their order.
pub(super) fn cores(cpus: &[u16]) -> Vec<Core> {
    cpus.iter().map(|cpu| core(*cpu)).collect()
}

/// An unknown place is taken to be the CPU's own, or the first.
fn core(cpu: u16) -> Core {
    let folder = Path::new(CPUS).join(format!("cpu{cpu}"));
    let topology = folder.join("topology");
    let siblings = read(topology.join("core_cpus_list"));
    let package = number(topology.join("physical_package_id"));
    Core {
        cpu,
        core: first_of(&siblings).unwrap_or_else(|| cpu.into()),
        package: package.and_then(|id| id.try_into().ok()).unwrap_or(0),
        node: node(&names(&folder)),
        cache: last_cache(&folder.join("cache")).unwrap_or_else(|| cpu.into()),
    }
}

/// The folder of a CPU has a link to its node: `node0`.
fn node(names: &[String]) -> u32 {
    let ids = names.iter().filter_map(|name| name.strip_prefix("node"));
    ids.filter_map(|id| id.parse().ok()).next().unwrap_or(0)
}

/// The first CPU of those that share the cache of the highest level.
fn last_cache(folder: &Path) -> Option<u32> {
    let indices = names(folder).into_iter();
    let caches = indices.filter_map(|index| {
        let cache = folder.join(index);
        Some((number(cache.join("level"))?, cache))
    });
    let (_, last) = caches.max_by_key(|(level, _)| *level)?;
    first_of(&read(last.join("shared_cpu_list")))
}

/// By the name that people know: the kernel's flags, all of which must be there, and the use.
const X86: &str = "\
AES-NI | aes | AES-GCM: the cipher
PCLMUL | pclmulqdq | AES-GCM: the tag
VAES | vaes | AES-GCM, several blocks at once
VPCLMULQDQ | vpclmulqdq | AES-GCM, several blocks of the tag at once
AVX2 | avx2 | ChaCha20-Poly1305; where there is VAES, AES-GCM
AVX-512 | avx512f avx512bw avx512vl | AES-GCM and ChaCha20-Poly1305 in the widest registers
AVX-512 IFMA | avx512ifma | RSA signatures (2048 to 4096 bits), Poly1305
BMI2 and ADX | bmi2 adx | long products: X25519, P-256, P-384, RSA
SHA-NI | sha_ni | SHA-256: key schedule and transcript of *_SHA256 suites, signatures
SHA-512 | sha512 | SHA-384: key schedule and transcript of *_SHA384 suites";

const ARM: &str = "\
NEON | asimd | ChaCha20-Poly1305, P-256
AES | aes | AES-GCM: the cipher
PMULL | pmull | AES-GCM: the tag
SHA2 | sha2 | SHA-256: key schedule and transcript of *_SHA256 suites, signatures
SHA512 | sha512 | SHA-384: key schedule and transcript of *_SHA384 suites
SHA3 | sha3 | AES-GCM: three-way exclusive or";

/// Features of the first CPU in `/proc/cpuinfo`; none of CPUs of other makes.
pub(super) fn features(cpuinfo: &str) -> Vec<HostFeature> {
    let x86 = value(cpuinfo, "flags").map(|flags| (flags, X86));
    let arm = || value(cpuinfo, "Features").map(|flags| (flags, ARM));
    let Some((flags, table)) = x86.or_else(arm) else {
        return Vec::new();
    };
    let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
    let feature = |row: &str| {
        let mut fields = row.splitn(3, " | ").map(str::to_owned);
        let mut next = || fields.next().unwrap_or_default();
        HostFeature { name: next(), is_there: next().split(' ').all(has), use_for: next() }
    };
    table.lines().map(feature).collect()
}

const KTLS: &str = "kTLS";

pub(super) fn abilities() -> Vec<HostAbility> {
    let found = probe();
    let mut abilities = match found.lack {
        None => vec![able(KTLS, found.sentence())],
        Some(lack) => vec![unable(KTLS, found.sentence(), lack.remedy())],
    };
    if found.lack.is_none() {
        abilities.extend(Cipher::ALL.map(|cipher| cipher_ability(cipher, &found.tried)));
    }
    abilities.push(match epoll::probe_io_uring() {
        Ok(()) => able(URING, "the kernel made a ring"),
        Err(error) => without_rings(&error, &read(URING_SETTING), &read("/proc/self/status")),
    });
    abilities
}

fn able(name: &str, why: impl Into<String>) -> HostAbility {
    HostAbility { name: name.to_owned(), is_there: true, why: why.into(), remedy: None }
}

fn unable(name: &str, why: impl Into<String>, remedy: Option<&str>) -> HostAbility {
    HostAbility { is_there: false, remedy: remedy.map(str::to_owned), ..able(name, why) }
}

/// There if anything of it is.
fn cipher_ability(cipher: Cipher, tried: &[KtlsTrial]) -> HostAbility {
    let tried = || tried.iter().filter(|one| one.cipher == cipher);
    let mut why: Vec<String> = tried().filter(|one| one.error.is_none()).map(half_of).collect();
    let is_there = !why.is_empty();
    let refused: Vec<String> = tried()
        .filter_map(|one| {
            let error = io::Error::from_raw_os_error(one.error?);
            Some(format!("{} ({error})", half_of(one)))
        })
        .collect();
    if refused.is_empty() {
        why = vec!["TLS 1.2 and 1.3, to send and to receive".to_owned()];
    } else {
        why.push(format!("not {}", refused.join(", ")));
    }
    let lacks_cipher = tried().any(|one| {
        let error = one.error.map(io::Error::from_raw_os_error);
        error.is_some_and(|error| error.kind() == ErrorKind::NotFound)
    });
    HostAbility {
        name: format!("{KTLS} {cipher}"),
        is_there,
        why: why.join("; "),
        remedy: lacks_cipher.then(|| CIPHER_REMEDY.to_owned()),
    }
}

fn half_of(tried: &KtlsTrial) -> String {
    let half = match tried.half {
        KtlsDirection::Send => "to send",
        KtlsDirection::Receive => "to receive",
    };
    format!("{} {half}", tried.version)
}

const URING: &str = "io_uring";
const URING_SETTING: &str = "/proc/sys/kernel/io_uring_disabled";

fn without_rings(error: &io::Error, setting: &str, status: &str) -> HostAbility {
    let is_filtered = value(status, "Seccomp") == Some("2");
    match (error.kind(), setting) {
        (ErrorKind::PermissionDenied, "1" | "2") => unable(
            URING,
            format!("forbidden by kernel.io_uring_disabled = {setting}"),
            Some("`sysctl -w kernel.io_uring_disabled=0`"),
        ),
        (ErrorKind::PermissionDenied, _) if is_filtered => unable(
            URING,
            "forbidden by a seccomp filter, as container runtimes have it",
            Some("try outside of the container, or with a filter that allows io_uring_setup"),
        ),
        (ErrorKind::PermissionDenied, _) => unable(URING, "forbidden, by a security module", None),
        (ErrorKind::Unsupported, _) => unable(
            URING,
            "the kernel has none: older than 5.1, built without it (CONFIG_IO_URING), or no Linux \
             beneath",
            None,
        ),
        _ => unable(URING, format!("the kernel refuses it: {error}"), None),
    }
}

/// Descriptors for some ten thousand connections, which are two at a terminator and one at us.
const OPEN_FILES_MIN: u64 = 65_536;
/// Connections that wait to be accepted; the kernel's own default since 5.4.
const SOMAXCONN_MIN: u64 = 4096;
/// Connections that are half open; beyond it, SYN cookies take over.
const SYN_BACKLOG_MIN: u64 = 1024;
/// Ports to connect from; the kernel's own default has 28 232.
const PORTS_MIN: u64 = 28_000;
/// Connections that a firewall keeps in mind, two minutes after their end, too.
const CONNTRACK_MIN: u64 = 131_072;

/// All that can be read.
pub(super) fn limits() -> Vec<HostFact> {
    let kernel = [
        at_least("net.core.somaxconn", SOMAXCONN_MIN),
        at_least("net.ipv4.tcp_max_syn_backlog", SYN_BACKLOG_MIN),
        non_empty(path(PORTS)).map(|range| ports(&range)),
        non_empty(path(REUSE)).map(|value| reuse(&value)),
        number(path(CONNTRACK)).map(|max| {
            let count = number(path("net.netfilter.nf_conntrack_count"));
            conntrack(max, count.unwrap_or(0))
        }),
    ];
    let own = [open_files(descriptors(), number(path("fs.nr_open"))), locked(locked_memory())];
    own.into_iter().chain(kernel.into_iter().flatten()).collect()
}

const PORTS: &str = "net.ipv4.ip_local_port_range";
const REUSE: &str = "net.ipv4.tcp_tw_reuse";
const CONNTRACK: &str = "net.netfilter.nf_conntrack_max";

/// The file of a setting of sysctl(8).
fn path(setting: &str) -> String {
    format!("/proc/sys/{}", setting.replace('.', "/"))
}

fn count(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), |limit| RoundedCount(limit as f64).to_string())
}

/// The soft limit is no matter: we raise it ourselves.
fn open_files(limit: ResourceLimit, ceiling: Option<u64>) -> HostFact {
    let value = format!(
        "{} soft, {} hard, {} at most (fs.nr_open)",
        count(limit.soft),
        count(limit.hard),
        ceiling.map_or_else(|| "?".to_owned(), |ceiling| count(Some(ceiling)))
    );
    let is_low = limit.hard.is_some_and(|hard| hard < OPEN_FILES_MIN);
    let remedy = is_low.then(|| {
        format!(
            "raise the hard limit for many connections: `ulimit -Hn {OPEN_FILES_MIN}` as root, \
             LimitNOFILE= of systemd, or /etc/security/limits.conf"
        )
    });
    with_remedy("open files", value, remedy)
}

fn locked(limit: ResourceLimit) -> HostFact {
    let bytes = |limit: Option<u64>| {
        limit.map_or_else(|| "unlimited".to_owned(), |limit| ByteCount(limit).to_string())
    };
    fact("locked memory", format!("{} soft, {} hard", bytes(limit.soft), bytes(limit.hard)))
}

fn at_least(setting: &str, least: u64) -> Option<HostFact> {
    let value = number(path(setting))?;
    let remedy = (value < least).then(|| format!("`sysctl -w {setting}={least}`"));
    Some(with_remedy(setting, count(Some(value)), remedy))
}

/// First and last, with white space between: `32768 60999`.
fn ports(range: &str) -> HostFact {
    let mut ends = range.split_whitespace().filter_map(|end| end.parse::<u64>().ok());
    let (Some(first), Some(last)) = (ends.next(), ends.next()) else {
        return fact(PORTS, range.to_owned());
    };
    let ports = (last + 1).saturating_sub(first);
    let value = format!("{first} to {last}: {}", count(Some(ports)));
    let remedy = (ports < PORTS_MIN).then(|| {
        format!("few ports to connect from to one address: `sysctl -w {PORTS}=\"32768 60999\"`")
    });
    with_remedy(PORTS, value, remedy)
}

fn reuse(value: &str) -> HostFact {
    let meaning = match value {
        "0" => "0: ports rest for a minute after each connection",
        "1" => "1: ports are taken again",
        "2" => "2: ports are taken again on loopback",
        other => other,
    };
    let remedy = (value == "0").then(|| {
        format!("many short connections to one address run out of ports: `sysctl -w {REUSE}=1`")
    });
    with_remedy(REUSE, meaning.to_owned(), remedy)
}

fn conntrack(max: u64, used: u64) -> HostFact {
    let value = format!("{}, of which {} used", count(Some(max)), count(Some(used)));
    let remedy = (max < CONNTRACK_MIN).then(|| {
        format!(
            "connections beyond it are dropped without a word: \
             `sysctl -w {CONNTRACK}={CONNTRACK_MIN}`, or take the firewall off their way"
        )
    });
    with_remedy(CONNTRACK, value, remedy)
}

#[cfg(test)]
mod tests {
    use sys::ktls::Version;

    use super::*;

    #[test]
    fn lines_have_names() {
        let text = "processor\t: 0\nmodel name\t: A: B\n";
        assert_eq!(value(text, "model name"), Some("A: B"));
        assert_eq!(value(text, "model"), None);
    }

    #[test]
    fn lists_begin_with_a_number() {
        assert_eq!(first_of("4-7,12\n"), Some(4));
        assert_eq!(first_of("9"), Some(9));
        assert_eq!(first_of(""), None);
    }

    #[test]
    fn what_is_not_there_is_empty() {
        assert_eq!(read("/proc/no such file"), "");
        assert_eq!(non_empty("/proc/no such file"), None);
        assert_eq!(number("/proc/self/comm"), None);
        assert!(names("/proc/no such folder").is_empty());
        assert!(names("/proc/self").contains(&"status".to_owned()));
    }

    #[test]
    fn every_cpu_has_its_place() {
        let cpus = sys::cpu::allowed_cpus();
        let map = cores(&cpus);
        let mapped: Vec<u16> = map.iter().map(|core| core.cpu).collect();
        assert_eq!(mapped, cpus);
        // A core and a cache are named after the first of the CPUs that share them.
        for core in map {
            assert!(core.core <= core.cpu.into(), "{core:?}");
            assert!(core.cache <= core.cpu.into(), "{core:?}");
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_alone() {
        let core = core(9999);
        assert_eq!((core.core, core.cache), (9999, 9999));
        assert_eq!((core.package, core.node), (0, 0));
    }

    #[test]
    fn nodes_are_links() {
        let names = ["cache", "node12", "nodes"].map(str::to_owned);
        assert_eq!(node(&names), 12);
        assert_eq!(node(&[]), 0);
    }

    fn there(cpuinfo: &str) -> Vec<String> {
        let features = features(cpuinfo).into_iter();
        features.filter(|feature| feature.is_there).map(|feature| feature.name).collect()
    }

    #[test]
    fn flags_are_whole_words_and_all_of_them() {
        let zen = "flags\t: fpu aes pclmulqdq avx2 avx512f avx512bw bmi2 sha_ni vaes\n";
        assert_eq!(there(zen), ["AES-NI", "PCLMUL", "VAES", "AVX2", "SHA-NI"]);
        assert_eq!(there("flags : vaes\n"), ["VAES"]);
    }

    #[test]
    fn each_make_has_its_own() {
        assert_eq!(there("Features\t: fp asimd aes pmull\n").len(), 3);
        assert_eq!(features("Features : fp\n").len(), ARM.lines().count());
        assert!(features("isa : rv64imafdc\n").is_empty());
    }

    fn fault(code: i32) -> io::Error {
        io::Error::from_raw_os_error(code)
    }

    const EPERM: i32 = 1;
    const ENOENT: i32 = 2;
    const EINVAL: i32 = 22;
    const ENOSYS: i32 = 38;

    #[test]
    fn rings_are_forbidden_in_three_ways() {
        let filtered = "Name:\tx\nSeccomp:\t2\n";
        let why = |code, setting, status| without_rings(&fault(code), setting, status).why;
        assert!(why(EPERM, "2", filtered).contains("io_uring_disabled = 2"));
        assert!(why(EPERM, "0", filtered).contains("seccomp"));
        assert!(why(EPERM, "", "").contains("security module"));
        assert!(why(ENOSYS, "", "").contains("CONFIG_IO_URING"));
    }

    #[test]
    fn a_cipher_is_there_if_any_of_it_is() {
        let tried = |half, error| KtlsTrial {
            version: Version::Tls13,
            cipher: Cipher::Aes128Gcm,
            half,
            error,
        };
        let ability = |send, receive| {
            let tried = [tried(KtlsDirection::Send, send), tried(KtlsDirection::Receive, receive)];
            cipher_ability(Cipher::Aes128Gcm, &tried)
        };
        let all = ability(None, None);
        assert!(all.is_there && all.why.contains("to send and to receive"));
        assert_eq!(all.name, "kTLS AES-128-GCM");
        let half = ability(None, Some(EINVAL));
        assert!(half.is_there && half.remedy.is_none(), "{half:?}");
        let why = "TLS 1.3 to send; not TLS 1.3 to receive (Invalid argument (os error 22))";
        assert_eq!(half.why, why);
        let none = ability(Some(ENOENT), Some(ENOENT));
        assert!(!none.is_there && none.remedy.is_some());
    }

    const fn limit(soft: u64, hard: u64) -> ResourceLimit {
        ResourceLimit { soft: Some(soft), hard: Some(hard) }
    }

    #[test]
    fn only_a_low_hard_limit_wants_a_remedy() {
        let low = open_files(limit(1024, 4096), Some(1_048_576));
        assert_eq!(low.value, "1024 soft, 4096 hard, 1\u{202f}048\u{202f}576 at most (fs.nr_open)");
        assert!(low.remedy.unwrap().contains("ulimit -Hn 65536"));
        assert_eq!(open_files(limit(1024, 524_288), None).remedy, None);
        let unlimited = ResourceLimit { soft: None, hard: None };
        let unlimited = open_files(unlimited, None);
        assert!(unlimited.value.starts_with("unlimited soft"));
        assert_eq!(unlimited.remedy, None);
    }

    #[test]
    fn ports_are_counted() {
        assert_eq!(ports("32768\t60999").value, "32768 to 60999: 28\u{202f}232");
        assert_eq!(ports("32768\t60999").remedy, None);
        assert!(ports("50000 50099").remedy.is_some());
        assert_eq!(ports("?").value, "?");
    }

    #[test]
    fn what_runs_out_has_a_remedy() {
        assert!(reuse("0").remedy.is_some());
        assert!(reuse("2").remedy.is_none());
        assert!(conntrack(65_536, 12).remedy.unwrap().contains("=131072"));
        assert!(conntrack(262_144, 12).remedy.is_none());
    }
}
