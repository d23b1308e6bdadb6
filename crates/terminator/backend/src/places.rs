//! Manages places at servers with a connection limit, and the queue for them.
//!
//! Handles the counts of all workers together and the order of turns; the caller locks it, wakes
//! the connections whose turn has come, and enforces timeouts.
//!
//! A place that is given back goes, in the same step, to the first in the queue for which the
//! server is suitable: it is never free in between. So no newcomer can overtake, and no wake-up can
//! be lost: a connection that looks late finds its place reserved.

use std::collections::BTreeMap;

/// A server with a connection limit, the same in all plans.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limit {
    pub(crate) server: u64,
    /// Most connections, including those being dialled; at least 1.
    pub(crate) most: u32,
}

/// Position of a connection in the queue: the lower, the earlier.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct QueuePosition(u64);

impl QueuePosition {
    /// Turn of a newcomer, after all others.
    pub const NEWCOMER: Self = Self(u64::MAX);
}

/// Places of one service's servers. `O` identifies the owner of a turn, to be woken.
#[derive(Debug)]
pub struct Places<O> {
    /// Places taken, by server; servers with none are left out.
    taken: BTreeMap<u64, u32>,
    /// Limits of servers by the plan that is served now. Connections of an earlier plan may still
    /// wait.
    most: BTreeMap<u64, u32>,
    queue: BTreeMap<QueuePosition, Waiter<O>>,
    next: u64,
}

#[derive(Debug)]
struct Waiter<O> {
    owner: O,
    /// Servers suitable for it.
    suits: Vec<Limit>,
    /// Server that has a place reserved for it.
    reserved: Option<Limit>,
}

impl<O> Default for Places<O> {
    fn default() -> Self {
        Self { taken: BTreeMap::new(), most: BTreeMap::new(), queue: BTreeMap::new(), next: 0 }
    }
}

impl<O: Clone> Places<O> {
    /// Sets the servers' connection limits, whichever plan a connection waits under. New places go
    /// to the first in the queue; their owners are returned, to be woken.
    #[must_use = "those that have got a place do not know it"]
    pub fn set_limits(&mut self, limits: impl IntoIterator<Item = Limit>) -> Vec<O> {
        let limits = limits.into_iter();
        self.most = limits.map(|limit| (limit.server, limit.most)).collect();
        let turns: Vec<QueuePosition> = self.queue.keys().copied().collect();
        let each = turns.into_iter();
        each.filter_map(|turn| {
            let waiter = self.queue.get(&turn)?;
            let mut suits = waiter.suits.iter().filter(|_| waiter.reserved.is_none());
            let limit = suits.find(|limit| self.is_below(**limit)).copied()?;
            self.take(limit);
            let waiter = self.queue.get_mut(&turn)?;
            waiter.reserved = Some(limit);
            Some(waiter.owner.clone())
        })
        .collect()
    }

    /// Reports whether the connection with this turn may take a place now: one is free, and no
    /// earlier connection waits for it.
    pub fn has_room(&self, limit: Limit, turn: QueuePosition) -> bool {
        let mut earlier = self.queue.range(..turn).map(|(_, waiter)| waiter);
        self.is_below(limit)
            && !earlier.any(|one| one.reserved.is_none() && one.is_suited_by(limit))
    }

    /// Takes a place; [`Self::give`] returns it.
    pub fn take(&mut self, limit: Limit) {
        *self.taken.entry(limit.server).or_default() += 1;
    }

    /// Gives a place back. It goes to the first in the queue for which the server is suitable; the
    /// owner is returned, to be woken.
    #[must_use = "the one that has got a place does not know it"]
    pub fn give(&mut self, limit: Limit) -> Option<O> {
        if let Some(taken) = self.taken.get_mut(&limit.server) {
            *taken -= 1;
            if *taken == 0 {
                self.taken.remove(&limit.server);
            }
        }
        let taken = self.taken.get(&limit.server).copied().unwrap_or(0);
        let most = self.most.get(&limit.server).copied();
        // Without a limit by the current plan, each connection's own limit holds.
        let suits = |one: &&Limit| one.server == limit.server && taken < most.unwrap_or(one.most);
        let mut waiting = self.queue.values_mut().filter(|one| one.reserved.is_none());
        let suited = |one: &Waiter<O>| one.suits.iter().find(suits).copied();
        let (limit, waiter) = waiting.find_map(|one| Some((suited(one)?, one)))?;
        waiter.reserved = Some(limit);
        let owner = waiter.owner.clone();
        self.take(limit);
        Some(owner)
    }

    /// Joins the end of the queue; `None` if it is full.
    pub fn join(
        &mut self,
        owner: O,
        suits: Vec<Limit>,
        length_max: usize,
    ) -> Option<QueuePosition> {
        if self.queue.len() >= length_max {
            return None;
        }
        let turn = QueuePosition(self.next);
        self.next += 1;
        let waiter = Waiter { owner, suits, reserved: None };
        self.queue.insert(turn, waiter);
        Some(turn)
    }

    /// Updates the suitable servers of a waiting connection that has looked and found no room.
    pub fn stay(&mut self, turn: QueuePosition, suits: Vec<Limit>) {
        if let Some(waiter) = self.queue.get_mut(&turn) {
            waiter.suits = suits;
        }
    }

    /// Takes the place that is reserved for this turn, which stays in the queue. A connection that
    /// gives the place back must [`Self::stay`] before, with the servers that are still suitable.
    pub fn claim(&mut self, turn: QueuePosition) -> Option<Limit> {
        self.queue.get_mut(&turn)?.reserved.take()
    }

    /// Leaves the queue. A reserved place goes to the next owner, who is returned, to be woken.
    #[must_use = "the one that has got a place does not know it"]
    pub fn leave(&mut self, turn: QueuePosition) -> Option<O> {
        let reserved = self.queue.remove(&turn)?.reserved?;
        self.give(reserved)
    }

    fn is_below(&self, limit: Limit) -> bool {
        let most = self.most.get(&limit.server).copied();
        self.taken.get(&limit.server).copied().unwrap_or(0) < most.unwrap_or(limit.most)
    }
}

impl<O> Waiter<O> {
    /// Ignores the limit that the connection's own plan sets.
    fn is_suited_by(&self, limit: Limit) -> bool {
        self.suits.iter().any(|one| one.server == limit.server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: [u32; 3] = [1, 2, 3];

    fn limit(server: usize) -> Limit {
        Limit { server: server as u64, most: MOST[server] }
    }

    fn limits(mask: u8) -> Vec<Limit> {
        let servers = (0..MOST.len()).filter(|server| mask & 1 << server != 0);
        servers.map(limit).collect()
    }

    #[test]
    fn a_place_goes_to_the_first_that_it_suits_and_no_newcomer_overtakes() {
        let mut places = Places::default();
        places.take(limit(0));
        let first = places.join("only the second", limits(0b010), 9).unwrap();
        let second = places.join("the first", limits(0b001), 9).unwrap();
        assert!(!places.has_room(limit(0), QueuePosition::NEWCOMER));
        assert!(
            !places.has_room(limit(1), QueuePosition::NEWCOMER),
            "the first in the queue waits for it"
        );
        assert!(places.has_room(limit(1), first));
        assert!(places.has_room(limit(2), QueuePosition::NEWCOMER), "nobody waits for it");
        assert_eq!(places.give(limit(0)), Some("the first"));
        assert!(!places.has_room(limit(0), QueuePosition::NEWCOMER), "it is reserved");
        assert_eq!(places.claim(second), Some(limit(0)));
        assert_eq!(places.leave(second), None);
        assert_eq!(places.give(limit(0)), None);
        assert!(places.has_room(limit(0), QueuePosition::NEWCOMER));
    }

    #[test]
    fn another_limit_holds_for_those_who_wait_too() {
        let more = |most| Limit { server: 0, most };
        let mut places = Places::default();
        places.take(limit(0));
        let turns = ["a", "b", "c"].map(|owner| places.join(owner, limits(0b001), 9).unwrap());
        assert!(!places.has_room(more(9), QueuePosition::NEWCOMER), "others wait for it");
        assert_eq!(places.set_limits([more(3)]), ["a", "b"]);
        assert_eq!(turns.map(|turn| places.claim(turn)), [Some(limit(0)), Some(limit(0)), None]);
        assert_eq!([0, 1].map(|served: usize| places.leave(turns[served])), [None; 2]);
        assert!(!places.has_room(limit(0), turns[2]));
        assert_eq!(places.set_limits([more(2)]), [""; 0]);
        assert_eq!(places.give(limit(0)), None, "three were two too many");
        assert_eq!(places.give(limit(0)), Some("c"));
        assert!(places.set_limits([more(u32::MAX)]).is_empty());
        assert!(places.has_room(limit(0), QueuePosition::NEWCOMER));
    }

    #[test]
    fn the_queue_is_no_longer_than_it_may_be() {
        let mut places = Places::default();
        assert_eq!(places.join(0, limits(0b001), 0), None);
        let first = places.join(0, limits(0b001), 1).unwrap();
        assert_eq!(places.join(1, limits(0b001), 1), None);
        assert_eq!(places.leave(first), None);
        assert!(places.join(1, limits(0b001), 1).is_some());
    }

    /// A step of a connection.
    #[derive(Clone, Debug)]
    enum Event {
        /// A connection arrives; these servers are suitable.
        Come(u8),
        /// A connection that has a place ends.
        End(usize),
        /// A waiting connection looks; these servers are suitable now.
        Look(usize, u8),
        /// A waiting connection gives up.
        GiveUp(usize),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            (1u8..8).prop_map(Event::Come),
            (0usize..8).prop_map(Event::End),
            (0usize..8, 1u8..8).prop_map(|(which, mask)| Event::Look(which, mask)),
            (0usize..8).prop_map(Event::GiveUp),
        ];
        prop::collection::vec(event, 0..300)
    }

    /// Connections of all workers, making the same calls as `proxy`, each with its turn's number.
    #[derive(Default)]
    struct Model {
        places: Places<u64>,
        served: Vec<Limit>,
        waiting: Vec<QueuePosition>,
        called: std::collections::BTreeSet<u64>,
    }

    impl Model {
        fn give(&mut self, limit: Limit) {
            let mut queue = self.places.queue.iter();
            let suits = |one: &Waiter<u64>| one.reserved.is_none() && one.suits.contains(&limit);
            let first = queue.find(|(_, one)| suits(one)).map(|(turn, _)| turn.0);
            let given = self.places.give(limit);
            assert_eq!(given, first, "first come, first served");
            self.called.extend(given);
        }

        fn come(&mut self, mask: u8) {
            let room = |one: &Limit| self.places.has_room(*one, QueuePosition::NEWCOMER);
            if let Some(limit) = limits(mask).into_iter().find(room) {
                self.places.take(limit);
                self.served.push(limit);
            } else {
                let owner = self.places.next;
                let turn = self.places.join(owner, limits(mask), 6);
                self.waiting.extend(turn);
            }
        }

        fn look(&mut self, which: usize, mask: u8) {
            let turn = self.waiting[which];
            let suits = limits(mask);
            if let Some(reserved) = self.places.claim(turn) {
                if suits.contains(&reserved) {
                    self.served.push(reserved);
                    return self.leave(which);
                }
                self.places.stay(turn, Vec::new());
                self.give(reserved);
            }
            match suits.iter().find(|one| self.places.has_room(**one, turn)) {
                Some(limit) => {
                    self.places.take(*limit);
                    self.served.push(*limit);
                    self.leave(which);
                }
                None => self.places.stay(turn, suits),
            }
        }

        fn leave(&mut self, which: usize) {
            let turn = self.waiting.remove(which);
            let called = self.places.leave(turn);
            self.called.extend(called);
        }

        fn check(&self) {
            for (server, most) in MOST.iter().enumerate() {
                let limit = limit(server);
                let reserved = self.places.queue.values().filter(|one| one.reserved == Some(limit));
                let served = self.served.iter().filter(|one| **one == limit);
                let taken = self.places.taken.get(&limit.server).copied().unwrap_or(0);
                assert_eq!(taken as usize, served.count() + reserved.count());
                assert!(taken <= *most);
                let mut queue = self.places.queue.values();
                let is_wanted =
                    queue.any(|one| one.reserved.is_none() && one.suits.contains(&limit));
                assert!(!is_wanted || taken == *most, "nobody waits beside a free place");
            }
            for (turn, waiter) in &self.places.queue {
                let is_called = self.called.contains(&turn.0);
                assert!(waiter.reserved.is_none() || is_called, "it was woken");
            }
        }
    }

    proptest! {
        /// Checks that, in any order of events, no server exceeds its limit, places go in turn,
        /// nobody waits beside a free place, owners of new places are woken, and no place is lost.
        #[test]
        fn places_are_neither_exceeded_nor_lost(events in events()) {
            let mut model = Model::default();
            for event in events {
                let waiting = model.waiting.len().max(1);
                match event {
                    Event::Come(mask) => model.come(mask),
                    Event::End(which) if !model.served.is_empty() => {
                        let which = which % model.served.len();
                        let limit = model.served.remove(which);
                        model.give(limit);
                    }
                    Event::Look(which, mask) if !model.waiting.is_empty() => {
                        model.look(which % waiting, mask);
                    }
                    Event::GiveUp(which) if !model.waiting.is_empty() => {
                        model.leave(which % waiting);
                    }
                    _ => {}
                }
                model.check();
            }
            while !model.waiting.is_empty() {
                model.leave(0);
            }
            while let Some(limit) = model.served.pop() {
                model.give(limit);
            }
            prop_assert!(model.places.taken.is_empty() && model.places.queue.is_empty());
        }
    }
}
