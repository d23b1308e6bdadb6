//! Which CPUs a configuration's server and its clients have.

use std::collections::BTreeSet;

use measure::experiment::Placement;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct CpuAssignment {
    /// One for each worker of the server.
    pub(crate) server: Vec<u16>,
    /// One for each thread of the load.
    pub(crate) client: Vec<u16>,
    pub(crate) is_shared: bool,
}

impl CpuAssignment {
    /// For `workers` workers. A server that needs more CPUs than were set aside takes some of the
    /// client's; where that leaves the client none, the load spreads over all of them, lest one
    /// worker have a neighbour and the others none.
    pub(crate) fn of(placement: &Placement, workers: u16) -> Self {
        let others = placement.client.iter();
        let others = others.filter(|cpu| !placement.server.contains(cpu));
        let in_order = placement.server.iter().chain(others).copied();
        let server: Vec<_> = in_order.take(workers.max(1).into()).collect();
        let left = placement.client.iter().copied();
        let mut client: BTreeSet<_> = left.filter(|cpu| !server.contains(cpu)).collect();
        let is_shared = client.is_empty();
        if is_shared {
            client.extend(server.iter().chain(&placement.client));
        }
        Self {
            server,
            client: client.into_iter().collect(),
            is_shared,
        }
    }

    pub(crate) fn all(&self) -> BTreeSet<u16> {
        self.server.iter().chain(&self.client).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(server: &[u16], client: &[u16], workers: u16) -> (Vec<u16>, Vec<u16>, bool) {
        let placement = Placement {
            server: server.to_vec(),
            client: client.to_vec(),
        };
        let cpus = CpuAssignment::of(&placement, workers);
        (cpus.server, cpus.client, cpus.is_shared)
    }

    #[test]
    fn servers_have_cpus_of_their_own_while_there_are_some() {
        assert_eq!(cpus(&[1, 3], &[0], 1), (vec![1], vec![0], false));
        assert_eq!(cpus(&[3, 1], &[0], 2), (vec![3, 1], vec![0], false));
        assert_eq!(cpus(&[2], &[0, 1], 2), (vec![2, 0], vec![1], false));
        assert_eq!(cpus(&[0, 1], &[0, 1], 1), (vec![0], vec![1], false));
    }

    #[test]
    fn where_there_are_too_few_they_share_evenly() {
        assert_eq!(cpus(&[1], &[0], 2), (vec![1, 0], vec![0, 1], true));
        assert_eq!(cpus(&[0], &[0], 1), (vec![0], vec![0], true));
        assert_eq!(cpus(&[1, 0], &[0], 2), (vec![1, 0], vec![0, 1], true));
    }
}
