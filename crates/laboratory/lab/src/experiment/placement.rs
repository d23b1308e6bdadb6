//! Who runs on which CPUs.
//!
//! Half of the physical cores for servers, the others for the load and the origin, unless the user
//! says otherwise. CPUs that share a core are never on different sides.

use measure::experiment::Placement;
use measure::host::Core;

/// What the user asked for; `None` = the rest, or half.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seating {
    pub(crate) server: Option<Vec<u16>>,
    pub(crate) client: Option<Vec<u16>>,
}

/// A CPU that we may not use.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("this process may not use CPU {0}")]
pub(crate) struct Denied(pub(crate) u16);

/// Places everybody. `cores` are the CPUs that we may use; where there is only one, all share it.
pub(crate) fn place(seating: &Seating, cores: &[Core]) -> Result<Placement, Denied> {
    let asked = [&seating.server, &seating.client];
    let mut asked = asked.into_iter().flatten().flatten();
    let is_ours = |cpu: &&u16| cores.iter().any(|core| core.cpu == **cpu);
    if let Some(denied) = asked.find(|cpu| !is_ours(cpu)) {
        return Err(Denied(*denied));
    }
    let (server, client) = halves(cores);
    let rest = |taken: &[u16]| -> Vec<u16> {
        let left = cores.iter().map(|core| core.cpu);
        let left: Vec<_> = left.filter(|cpu| !taken.contains(cpu)).collect();
        if left.is_empty() {
            taken.to_vec()
        } else {
            left
        }
    };
    let chosen = |own: &Option<Vec<u16>>, other: &Option<Vec<u16>>, half: Vec<u16>| {
        let rest = || other.as_ref().map_or(half, |taken| rest(taken));
        own.clone().unwrap_or_else(rest)
    };
    Ok(Placement {
        server: chosen(&seating.server, &seating.client, server),
        client: chosen(&seating.client, &seating.server, client),
    })
}

/// The first half of the physical cores and the second. Of each side, one CPU of every core comes
/// before the second one of any.
fn halves(cores: &[Core]) -> (Vec<u16>, Vec<u16>) {
    let mut physical: Vec<Vec<Core>> = Vec::new();
    for core in cores {
        let is_same = |other: &Core| (other.package, other.core) == (core.package, core.core);
        match physical.iter_mut().find(|cpus| is_same(&cpus[0])) {
            Some(cpus) => cpus.push(*core),
            None => physical.push(vec![*core]),
        }
    }
    if physical.len() < 2 {
        let all: Vec<_> = cores.iter().map(|core| core.cpu).collect();
        return (all.clone(), all);
    }
    let (first, second) = physical.split_at(physical.len() / 2);
    (in_turn(first), in_turn(second))
}

fn in_turn(physical: &[Vec<Core>]) -> Vec<u16> {
    let most = physical.iter().map(Vec::len).max().unwrap_or(0);
    let sibling = |nth: usize| physical.iter().filter_map(move |cpus| cpus.get(nth));
    (0..most).flat_map(sibling).map(|core| core.cpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many cores, each with two CPUs, numbered as Linux does on most machines.
    fn cores(count: u16, threads: u16) -> Vec<Core> {
        let all = (0..count * threads).map(|cpu| Core {
            cpu,
            core: (cpu % count).into(),
            package: 0,
            node: 0,
            cache: 0,
        });
        all.collect()
    }

    fn placed(server: &[u16], client: &[u16], cores: &[Core]) -> Result<[Vec<u16>; 2], Denied> {
        let some = |cpus: &[u16]| (!cpus.is_empty()).then(|| cpus.to_vec());
        let seating = Seating {
            server: some(server),
            client: some(client),
        };
        place(&seating, cores).map(|placement| [placement.server, placement.client])
    }

    #[test]
    fn cores_are_halved() {
        assert_eq!(placed(&[], &[], &cores(2, 1)).unwrap(), [[0], [1]]);
        assert_eq!(placed(&[], &[], &cores(1, 1)).unwrap(), [[0], [0]]);
        let [server, client] = placed(&[], &[], &cores(4, 2)).unwrap();
        assert_eq!(server, [0, 1, 4, 5], "one CPU of each core first");
        assert_eq!(client, [2, 3, 6, 7]);
    }

    #[test]
    fn what_is_asked_for_holds_and_the_rest_is_for_the_other() {
        let four = cores(4, 1);
        assert_eq!(placed(&[3], &[], &four).unwrap(), [vec![3], vec![0, 1, 2]]);
        assert_eq!(placed(&[], &[0], &four).unwrap(), [vec![1, 2, 3], vec![0]]);
        assert_eq!(placed(&[1], &[1], &four).unwrap(), [vec![1], vec![1]]);
        assert_eq!(placed(&[0], &[7], &four), Err(Denied(7)));
    }
}
