//! A hart's cache without contents: which lines it has, and which of them are dirty.

use crate::cache::Geometry;

/// A way without a line.
const EMPTY: u64 = 0;

/// The bit of a dirty line. The line's number plus one is above it.
const DIRTY: u64 = 1;

/// Sets of ways, with least-recently-used replacement. Each set is in the order of use, the latest
/// first, and empty ways are last.
#[derive(Clone, Debug)]
pub(super) struct Tags {
    ways: Vec<u64>,
    in_set: usize,
    sets: usize,
}

fn tag(line: u32) -> u64 {
    (u64::from(line) + 1) << 1
}

/// The line of a way that is not empty.
fn line(way: u64) -> u32 {
    u32::try_from((way >> 1) - 1).unwrap_or_default()
}

impl Tags {
    pub(super) fn new(geometry: Geometry) -> Self {
        Tags {
            ways: vec![EMPTY; geometry.sets() * geometry.ways()],
            in_set: geometry.ways(),
            sets: geometry.sets(),
        }
    }

    fn set(&mut self, line: u32) -> &mut [u64] {
        let line = line as usize;
        // This runs at each access. A division would double its time.
        let set = match self.sets.is_power_of_two() {
            true => line & (self.sets - 1),
            false => line % self.sets,
        };
        let start = set * self.in_set;
        &mut self.ways[start..start + self.in_set]
    }

    fn find(set: &[u64], line: u32) -> Option<usize> {
        let tag = tag(line);
        set.iter().position(|way| way & !DIRTY == tag)
    }

    /// Makes the line the last one used. Returns whether it is dirty; `None`: the cache does not
    /// have it.
    pub(super) fn touch(&mut self, line: u32) -> Option<bool> {
        let set = self.set(line);
        let at = Self::find(set, line)?;
        set[..=at].rotate_right(1);
        Some(set[0] & DIRTY != 0)
    }

    /// Makes the line dirty, which was just touched or added.
    pub(super) fn dirty(&mut self, line: u32) {
        self.set(line)[0] |= DIRTY;
    }

    /// Adds a line that the cache does not have. Returns the displaced line if it was dirty.
    pub(super) fn add(&mut self, new: u32) -> Option<u32> {
        let set = self.set(new);
        set.rotate_right(1);
        let displaced = std::mem::replace(&mut set[0], tag(new));
        (displaced & DIRTY != 0).then(|| line(displaced))
    }

    /// Removes a line, if the cache has it. Returns whether it was dirty.
    pub(super) fn remove(&mut self, line: u32) -> bool {
        let set = self.set(line);
        let Some(at) = Self::find(set, line) else {
            return false;
        };
        let removed = std::mem::replace(&mut set[at], EMPTY);
        set[at..].rotate_left(1);
        removed & DIRTY != 0
    }

    /// Makes a line clean, if the cache has it. Returns whether it was dirty.
    pub(super) fn clean(&mut self, line: u32) -> bool {
        let set = self.set(line);
        let Some(at) = Self::find(set, line) else {
            return false;
        };
        let was_dirty = set[at] & DIRTY != 0;
        set[at] &= !DIRTY;
        was_dirty
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn two_sets() -> Tags {
        Tags::new(Geometry::new(256, 2).expect("two sets of two ways"))
    }

    #[test]
    fn the_least_recently_used_line_leaves() {
        let mut tags = two_sets();
        for line in [0, 2] {
            assert_eq!(tags.touch(line), None);
            assert_eq!(tags.add(line), None);
            tags.dirty(line);
        }
        assert_eq!(tags.touch(0), Some(true));
        assert_eq!(tags.add(1), None, "another set");
        assert_eq!(tags.add(4), Some(2));
        assert_eq!(tags.touch(2), None);
        assert_eq!(tags.add(6), Some(0));
        assert_eq!(tags.add(8), None, "4 is clean");
    }

    #[test]
    fn a_removed_line_leaves_room() {
        let mut tags = two_sets();
        for line in [0, 2] {
            tags.add(line);
            tags.dirty(line);
        }
        assert!(!tags.remove(4));
        assert!(tags.remove(2) && !tags.remove(2));
        assert_eq!(tags.add(4), None, "the empty way comes first");
        assert!(tags.clean(0) && !tags.clean(0) && !tags.clean(2));
        assert_eq!(tags.add(6), None, "0 is clean");
    }

    proptest! {
        /// Lines of any number are found again, and only these.
        #[test]
        fn lines_are_distinct(one: u32, other: u32) {
            let mut tags = Tags::new(Geometry::new(192 * 64, 3).expect("64 sets of three ways"));
            tags.add(one);
            tags.dirty(one);
            prop_assert_eq!(tags.touch(other), (one == other).then_some(true));
            prop_assert_eq!(line(tag(one)), one);
        }
    }
}
