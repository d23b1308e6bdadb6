//! The kernel's own texts, files with a value, lines with a name, lists of numbers; and the CPU
//! cores of this host by them, and what they can do for cryptography.

use std::fs;
use std::path::Path;

use measure::host::{Core, Feature, HostFact};

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
pub(super) fn features(cpuinfo: &str) -> Vec<Feature> {
    let x86 = value(cpuinfo, "flags").map(|flags| (flags, X86));
    let arm = || value(cpuinfo, "Features").map(|flags| (flags, ARM));
    let Some((flags, table)) = x86.or_else(arm) else {
        return Vec::new();
    };
    let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
    let feature = |row: &str| {
        let mut fields = row.splitn(3, " | ").map(str::to_owned);
        let mut next = || fields.next().unwrap_or_default();
        Feature { name: next(), is_there: next().split(' ').all(has), use_for: next() }
    };
    table.lines().map(feature).collect()
}

#[cfg(test)]
mod tests {
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
}
