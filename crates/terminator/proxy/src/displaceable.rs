//! Lists the connections that have relayed nothing yet, by stage, the oldest of each first.
//!
//! The order decides which connection gives its place to a newcomer where a limit is reached. Every
//! change takes constant time, because an attacker chooses the number of connections.

use slab::Slab;

use crate::driver::ConnectionId;

/// Stage of a connection that has relayed nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DisplaceableStage {
    /// The client's hello is not yet complete.
    Silent,
    /// The hello was answered, and the handshake is not yet over.
    Answered,
    /// The handshake is over, and no byte has come for the other side.
    Unused,
}

impl DisplaceableStage {
    pub(crate) const ALL: &'static [Self] = &[Self::Silent, Self::Answered, Self::Unused];
    pub(crate) const HANDSHAKING: &'static [Self] = &[Self::Silent, Self::Answered];
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DisplaceableKey(usize);

/// A doubly linked list for each stage, through one slab.
#[derive(Debug, Default)]
pub(crate) struct Displaceable {
    nodes: Slab<DisplaceableNode>,
    lists: [DisplaceableList; DisplaceableStage::ALL.len()],
}

#[derive(Debug)]
struct DisplaceableNode {
    id: ConnectionId,
    stage: DisplaceableStage,
    older: Option<DisplaceableKey>,
    younger: Option<DisplaceableKey>,
}

#[derive(Clone, Copy, Debug, Default)]
struct DisplaceableList {
    oldest: Option<DisplaceableKey>,
    youngest: Option<DisplaceableKey>,
    count: u32,
}

impl Displaceable {
    /// Adds a connection as the youngest of its stage.
    pub(crate) fn add(&mut self, id: ConnectionId, stage: DisplaceableStage) -> DisplaceableKey {
        let list = &mut self.lists[stage as usize];
        let key = DisplaceableKey(self.nodes.insert(DisplaceableNode {
            id,
            stage,
            older: list.youngest,
            younger: None,
        }));
        let before = list.youngest.replace(key);
        list.oldest.get_or_insert(key);
        list.count += 1;
        if let Some(older) = before {
            self.nodes[older.0].younger = Some(key);
        }
        key
    }

    pub(crate) fn remove(&mut self, key: DisplaceableKey) {
        let node = self.nodes.remove(key.0);
        let list = &mut self.lists[node.stage as usize];
        list.count -= 1;
        match node.older {
            Some(older) => self.nodes[older.0].younger = node.younger,
            None => list.oldest = node.younger,
        }
        match node.younger {
            Some(younger) => self.nodes[younger.0].older = node.older,
            None => list.youngest = node.older,
        }
    }

    /// Returns how many connections are in these stages.
    pub(crate) fn count(&self, stages: &[DisplaceableStage]) -> u32 {
        stages.iter().map(|stage| self.list(*stage).count).sum()
    }

    /// Returns the connections of the fullest of these stages, the oldest first. So a flood of one
    /// kind gives places of that kind, and never takes more than its share of the others'.
    pub(crate) fn oldest_of_most(
        &self,
        stages: &[DisplaceableStage],
    ) -> impl Iterator<Item = ConnectionId> {
        let most = stages.iter().rev().max_by_key(|stage| self.list(**stage).count);
        let first = most.and_then(|stage| self.list(*stage).oldest);
        let nodes = std::iter::successors(first, |key| self.nodes[key.0].younger);
        nodes.map(|key| self.nodes[key.0].id)
    }

    fn list(&self, stage: DisplaceableStage) -> &DisplaceableList {
        &self.lists[stage as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oldest(displaceable: &Displaceable, stages: &[DisplaceableStage]) -> Vec<u64> {
        displaceable.oldest_of_most(stages).map(ConnectionId::bits).collect()
    }

    #[test]
    fn the_order_is_kept_when_any_leaves() {
        let mut displaceable = Displaceable::default();
        let keys: Vec<DisplaceableKey> = (0..6)
            .map(|number| displaceable.add(ConnectionId::of(number), DisplaceableStage::Silent))
            .collect();
        for (leaves, left) in
            [(0, &[1, 2, 3, 4, 5][..]), (5, &[1, 2, 3, 4]), (3, &[1, 2, 4]), (2, &[1, 4])]
        {
            displaceable.remove(keys[leaves]);
            assert_eq!(oldest(&displaceable, DisplaceableStage::ALL), left);
            assert_eq!(displaceable.count(DisplaceableStage::ALL) as usize, left.len());
        }
        displaceable.add(ConnectionId::of(9), DisplaceableStage::Silent);
        assert_eq!(oldest(&displaceable, DisplaceableStage::ALL), [1, 4, 9]);
        displaceable.remove(keys[1]);
        displaceable.remove(keys[4]);
        assert_eq!(oldest(&displaceable, DisplaceableStage::ALL), [9]);
    }

    #[test]
    fn the_stage_with_the_most_gives_and_among_equals_the_earliest() {
        let mut displaceable = Displaceable::default();
        assert_eq!(oldest(&displaceable, DisplaceableStage::ALL), []);
        displaceable.add(ConnectionId::of(1), DisplaceableStage::Answered);
        displaceable.add(ConnectionId::of(2), DisplaceableStage::Silent);
        assert_eq!(oldest(&displaceable, DisplaceableStage::HANDSHAKING), [2]);
        displaceable.add(ConnectionId::of(3), DisplaceableStage::Answered);
        for number in 4..7 {
            displaceable.add(ConnectionId::of(number), DisplaceableStage::Unused);
        }
        assert_eq!(oldest(&displaceable, DisplaceableStage::HANDSHAKING), [1, 3]);
        assert_eq!(oldest(&displaceable, DisplaceableStage::ALL), [4, 5, 6]);
        assert_eq!(displaceable.count(DisplaceableStage::HANDSHAKING), 3);
    }
}
