//! What an earlier process left in the blocks.
//!
//! Owns the judging: what has the form of an entry, once, and is young enough, survives. Whether
//! its value was changed is seen when it is opened.

use crate::blocks::{Blocks, Header, SEALED_BYTES_MAX, Slot, State, blocks_of};

/// Times of two processes are counted from the same moment, measured twice.
const CLOCK_DIFFERENCE_MS: u64 = 1000;

/// An entry that was found.
#[derive(Debug)]
pub(crate) struct Survivor {
    pub(crate) first: Slot,
    pub(crate) further: Vec<Slot>,
    pub(crate) header: Header,
    pub(crate) was_used: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) now_ms: u64,
    pub(crate) lifetime_ms: u64,
    pub(crate) entries_max: usize,
}

/// How many blocks were ever used, and the entries among them: the youngest, from old to new. No
/// block is in two of them.
pub(crate) fn survivors(
    blocks: &Blocks,
    wanted: Wanted,
    is_ours: impl Fn(u64) -> bool,
) -> (usize, Vec<Survivor>) {
    let slots = (0..blocks.len()).map_while(Slot::new);
    let states = slots.map(|slot| (slot, blocks.state(slot)));
    let mut used = 0;
    let mut found: Vec<_> = states
        .take_while(|(_, state)| *state != State::Never)
        .inspect(|_| used += 1)
        .filter_map(|(slot, state)| entry(blocks, slot, state))
        .filter(|one| is_young(one.header.put_at_ms, wanted) && is_ours(one.header.hash))
        .collect();
    found.sort_by_key(|one| one.header.put_at_ms);
    found.drain(..found.len().saturating_sub(wanted.entries_max));
    let mut is_claimed = vec![false; used];
    found.retain_mut(|one| claim(blocks, one, &mut is_claimed));
    (used, found)
}

fn entry(blocks: &Blocks, slot: Slot, state: State) -> Option<Survivor> {
    let State::First { length, next } = state else {
        return None;
    };
    (usize::from(length) <= SEALED_BYTES_MAX).then(|| Survivor {
        first: slot,
        further: next.into_iter().collect(),
        header: blocks.header(slot),
        was_used: blocks.was_used(slot),
    })
}

fn is_young(put_at_ms: u64, wanted: Wanted) -> bool {
    let is_past = put_at_ms <= wanted.now_ms.saturating_add(CLOCK_DIFFERENCE_MS);
    is_past && wanted.now_ms.saturating_sub(put_at_ms) < wanted.lifetime_ms
}

/// Follows an entry through its blocks; `false` if they are not as many as its length takes, or
/// another entry has one of them.
fn claim(blocks: &Blocks, one: &mut Survivor, is_claimed: &mut [bool]) -> bool {
    let wanted = blocks_of(usize::from(one.header.length)) - 1;
    let mut next = std::mem::take(&mut one.further).pop();
    while let Some(slot) = next {
        let is_free = is_claimed.get(slot.index()) == Some(&false);
        if one.further.len() == wanted || !is_free || one.further.contains(&slot) {
            return false;
        }
        let State::Further { next: after } = blocks.state(slot) else {
            return false;
        };
        one.further.push(slot);
        next = after;
    }
    let is_whole = one.further.len() == wanted;
    if is_whole {
        one.further
            .iter()
            .for_each(|slot| is_claimed[slot.index()] = true);
    }
    is_whole
}
