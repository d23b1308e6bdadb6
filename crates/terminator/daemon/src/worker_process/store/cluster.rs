//! The nodes of a Redis Cluster: which of them a name belongs to, as they say themselves.
//!
//! Owns the table of slots, which is learnt from nodes that send us to another one (MOVED), and how
//! often a node is tried that does not answer. How one is reached, `link` says.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wire::address::Endpoint;

use super::fault::Fault;
use super::node::Node;

/// Nodes that are known at a time: more than clusters have (Redis advises at most 1000, of which
/// replicas are half or more).
const NODES_MAX: usize = 512;

/// How long one that could not be reached is left alone.
const REST: Duration = Duration::from_secs(1);

pub(super) struct Cluster {
    start: Box<dyn Fn(&Endpoint) -> Node + Send + Sync>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    nodes: BTreeMap<Endpoint, Node>,
    owners: BTreeMap<u16, Endpoint>,
}

impl Cluster {
    /// With these nodes at first; `start` connects to one.
    pub(super) fn new(
        nodes: &[Endpoint],
        start: impl Fn(&Endpoint) -> Node + Send + Sync + 'static,
    ) -> Self {
        let known = Known {
            nodes: nodes.iter().map(|at| (at.clone(), start(at))).collect(),
            owners: BTreeMap::new(),
        };
        Self { start: Box::new(start), known: Mutex::new(known) }
    }

    /// The node to ask first about a slot: its owner, or if that does not answer another one, which
    /// may know of its successor.
    pub(super) fn first(&self, slot: u16) -> Result<(Endpoint, Node), Fault> {
        let owner = self.lock().owners.get(&slot).cloned();
        if let Some(owner) = owner
            && let Ok(node) = self.node(&owner)
        {
            return Ok((owner, node));
        }
        let known = self.lock();
        let up = known.nodes.iter().find(|(_, node)| node.is_up());
        if let Some((at, node)) = up {
            return Ok((at.clone(), node.clone()));
        }
        let nodes: Vec<_> = known.nodes.keys().cloned().collect();
        drop(known);
        let mut fault = Fault::connection("no node is known");
        for at in nodes {
            match self.node(&at) {
                Ok(node) => return Ok((at, node)),
                Err(why) => fault = why.at(at),
            }
        }
        Err(fault)
    }

    /// A node that is connected, in place of one that cannot answer for its cluster.
    pub(super) fn other(&self, slot: u16, not: &Endpoint) -> Option<(Endpoint, Node)> {
        let mut known = self.lock();
        known.owners.remove(&slot);
        let mut nodes = known.nodes.iter();
        let (at, node) = nodes.find(|(at, node)| *at != not && node.is_up())?;
        Some((at.clone(), node.clone()))
    }

    /// The node at a place, which is connected to if it is not.
    pub(super) fn node(&self, at: &Endpoint) -> Result<Node, Fault> {
        let mut known = self.lock();
        if let Some(node) = known.nodes.get(at) {
            match node.end() {
                None => return Ok(node.clone()),
                Some((fault, ended)) if ended.elapsed() < REST => return Err(fault.clone()),
                Some(_) => {}
            }
        }
        if known.nodes.len() >= NODES_MAX {
            known.nodes.retain(|_, node| node.end().is_none());
        }
        if known.nodes.len() >= NODES_MAX {
            let text = format!("the cluster names more than {NODES_MAX} nodes");
            return Err(Fault::connection(text));
        }
        let node = (self.start)(at);
        known.nodes.insert(at.clone(), node.clone());
        Ok(node)
    }

    /// That one has a slot.
    pub(super) fn learn(&self, slot: u16, owner: Endpoint) {
        self.lock().owners.insert(slot, owner);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
