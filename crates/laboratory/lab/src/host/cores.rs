//! The CPUs that we may use: which share a core, a cache, a socket, a memory node.

use std::path::Path;

use measure::host::Core;

use super::text::{first_of, names, number, read};

const CPUS: &str = "/sys/devices/system/cpu";

/// A map of these CPUs, in their order.
pub(super) fn map(cpus: &[u16]) -> Vec<Core> {
    cpus.iter().map(|cpu| core(*cpu)).collect()
}

/// What is unknown is taken to be the CPU's own, or the first.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_has_its_place() {
        let cpus = sys::cpu::allowed_cpus();
        let map = map(&cpus);
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
}
