//! Keeps objects made from files as long as a plan uses them: a file that many services name is
//! read once, and a reload rebuilds only what has changed.
//!
//! Owns no object in use, and stores neither a file's bytes nor a key: it recognises a file by its
//! SHA-256 alone, whatever its time and place.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use aws_lc_rs::digest::{Context, SHA256};

/// Number of entries at which the first sweep removes unused ones.
const ENTRIES_BEFORE_SWEEP: usize = 64;

/// SHA-256 of all inputs that decide the object.
pub(crate) type KeptName = [u8; 32];

/// Objects made from files, by name.
#[derive(Debug)]
pub(crate) struct FileCache<T>(Mutex<KeptEntries<T>>);

#[derive(Debug)]
struct KeptEntries<T> {
    known: BTreeMap<KeptName, Weak<T>>,
    /// Number of entries at which the next sweep runs: twice those in use after the last one.
    sweep_at: usize,
}

impl<T> FileCache<T> {
    pub(crate) const fn new() -> Self {
        let entries = KeptEntries { known: BTreeMap::new(), sweep_at: ENTRIES_BEFORE_SWEEP };
        Self(Mutex::new(entries))
    }

    /// Returns the object of that name that is in use, else makes a new one. Failures are not
    /// remembered.
    pub(crate) fn find_or_make<E>(
        &self,
        name: KeptName,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let known = self.entries().known.get(&name).and_then(Weak::upgrade);
        if let Some(known) = known {
            return Ok(known);
        }
        // No lock is held: two threads may make the same object, and the table keeps the last.
        let made = Arc::new(make()?);
        let mut entries = self.entries();
        if entries.known.len() >= entries.sweep_at {
            entries.known.retain(|_, one| one.strong_count() > 0);
            entries.sweep_at = ENTRIES_BEFORE_SWEEP.max(2 * entries.known.len());
        }
        entries.known.insert(name, Arc::downgrade(&made));
        Ok(made)
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, KeptEntries<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the name of an object made from these parts, in this order.
pub(crate) fn name_of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> KeptName {
    let mut context = Context::new(&SHA256);
    for part in parts {
        // The lengths distinguish `ab`, `c` from `a`, `bc`.
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    *context.finish().as_ref().first_chunk().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(kept: &FileCache<String>, name: &str) -> (Arc<String>, bool) {
        let mut is_new = false;
        let found = kept.find_or_make(name_of([name.as_bytes()]), || {
            is_new = true;
            Ok::<_, ()>(name.to_owned())
        });
        (found.expect("it can be made"), is_new)
    }

    #[test]
    fn it_is_made_once_while_somebody_has_it_and_then_anew() {
        let kept = FileCache::new();
        let (first, is_new) = find(&kept, "a");
        assert!(is_new);
        let (second, is_new) = find(&kept, "a");
        assert!(!is_new && Arc::ptr_eq(&first, &second));
        assert!(find(&kept, "b").1, "another");
        drop((first, second));
        assert!(find(&kept, "a").1, "nobody had it any more");
    }

    #[test]
    fn what_fails_is_tried_again() {
        let kept = FileCache::<u8>::new();
        let name = name_of([]);
        assert_eq!(kept.find_or_make(name, || Err("why")), Err("why"));
        assert_eq!(kept.find_or_make(name, || Ok::<_, ()>(1)).as_deref(), Ok(&1));
    }

    #[test]
    fn the_table_is_no_longer_than_what_is_in_use_twice() {
        let kept = FileCache::new();
        let held: Vec<_> = (0..100).map(|number| find(&kept, &number.to_string()).0).collect();
        for number in 100..10_000 {
            find(&kept, &number.to_string());
            assert!(kept.entries().known.len() <= 2 * (held.len() + 1));
        }
        assert!(!find(&kept, "99").1, "it is still held");
    }

    #[test]
    fn a_name_tells_where_one_part_ends() {
        let name = |parts: &[&[u8]]| name_of(parts.iter().copied());
        assert_ne!(name(&[b"ab", b"c"]), name(&[b"a", b"bc"]));
        assert_ne!(name(&[b"a", b""]), name(&[b"a"]));
        assert_eq!(name(&[b"a"]), name(&[b"a"]));
    }
}
