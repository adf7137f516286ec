//! A buffer that keeps what was used last.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// What a use of the buffer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The buffer had it.
    pub(super) is_hit: bool,
    /// What it gave up, if that was written.
    pub(super) displaced_dirty: Option<u64>,
}

/// The entries that were used last. Each is clean, or dirty: written since it came.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    room: usize,
    uses: u64,
    /// The number of each entry's last use, and whether it is dirty.
    entries: BTreeMap<u64, (u64, bool)>,
    /// The same entries by their last use.
    by_use: BTreeMap<u64, u64>,
}

impl Recent {
    /// An empty buffer for `room` entries, at least one.
    pub(super) fn new(room: usize) -> Self {
        Recent {
            room: room.max(1),
            uses: 0,
            entries: BTreeMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    /// Whether the buffer has the entry.
    pub(super) fn has(&self, entry: u64) -> bool {
        self.entries.contains_key(&entry)
    }

    /// Uses an entry, which comes into the buffer. `dirty`: it is written.
    pub(super) fn touch(&mut self, entry: u64, dirty: bool) -> Found {
        self.uses += 1;
        let last = self.entries.get(&entry).copied();
        let was_dirty = last.is_some_and(|(last, was_dirty)| {
            self.by_use.remove(&last);
            was_dirty
        });
        let mut displaced_dirty = None;
        if last.is_none()
            && self.entries.len() >= self.room
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            let given_up = self.entries.remove(&oldest);
            displaced_dirty = given_up
                .is_some_and(|(_, is_dirty)| is_dirty)
                .then_some(oldest);
        }
        self.entries.insert(entry, (self.uses, dirty || was_dirty));
        self.by_use.insert(self.uses, entry);
        Found {
            is_hit: last.is_some(),
            displaced_dirty,
        }
    }

    /// The dirty entries, which are clean then.
    pub(super) fn take_dirty(&mut self) -> Vec<u64> {
        let dirty = self
            .entries
            .iter_mut()
            .filter(|(_, (_, is_dirty))| *is_dirty);
        dirty
            .map(|(entry, state)| {
                state.1 = false;
                *entry
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entry_is_given_up() {
        let mut recent = Recent::new(2);
        let found = |is_hit, displaced_dirty| Found {
            is_hit,
            displaced_dirty,
        };
        assert_eq!(recent.touch(7, true), found(false, None));
        assert_eq!(recent.touch(8, false), found(false, None));
        assert_eq!(recent.touch(7, false), found(true, None));
        assert_eq!(recent.touch(9, true), found(false, None), "8 was clean");
        assert!(recent.has(7) && !recent.has(8));
        assert_eq!(
            recent.touch(8, false),
            found(false, Some(7)),
            "it stays dirty"
        );
        assert_eq!(recent.take_dirty(), [9]);
        assert_eq!(recent.take_dirty(), []);
    }
}
