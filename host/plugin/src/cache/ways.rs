//! A hart's cache: sets of ways, with least-recently-used replacement.

use thiserror::Error;

use super::line::{LINE_BYTES, Line};

/// Size and associativity of a hart's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    sets: usize,
    ways: usize,
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a cache of {bytes} bytes is not a whole number of sets of {ways} ways of 64 bytes")]
pub struct GeometryError {
    bytes: usize,
    ways: usize,
}

impl Geometry {
    /// A cache of `bytes`, in sets of `ways`.
    ///
    /// # Errors
    ///
    /// [`GeometryError`] if `bytes` is 0 or not a whole number of sets.
    pub fn new(bytes: usize, ways: usize) -> Result<Self, GeometryError> {
        let set = ways.saturating_mul(LINE_BYTES);
        if bytes == 0 || set == 0 || !bytes.is_multiple_of(set) {
            return Err(GeometryError { bytes, ways });
        }
        Ok(Geometry {
            sets: bytes / set,
            ways,
        })
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.sets * self.ways * LINE_BYTES
    }

    #[must_use]
    pub fn sets(&self) -> usize {
        self.sets
    }

    #[must_use]
    pub fn ways(&self) -> usize {
        self.ways
    }
}

impl Default for Geometry {
    /// 16 KiB, 4 ways.
    fn default() -> Self {
        Geometry { sets: 64, ways: 4 }
    }
}

/// A place for a line.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// Number of the line; `None`: the way is empty.
    pub(super) line: Option<u32>,
    pub(super) is_dirty: bool,
    used: u64,
    /// The line's contents after the last store by a hart, if the line is dirty. All later
    /// differences in visible memory are by devices.
    pub(super) latest: Line,
}

/// One hart's cache.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    geometry: Geometry,
    ways: Vec<Way>,
    clock: u64,
}

impl Ways {
    pub(super) fn new(geometry: Geometry) -> Self {
        let empty = Way {
            line: None,
            is_dirty: false,
            used: 0,
            latest: [0; LINE_BYTES],
        };
        Ways {
            geometry,
            ways: vec![empty; geometry.sets * geometry.ways],
            clock: 0,
        }
    }

    fn set(&mut self, line: u32) -> &mut [Way] {
        let (line, sets) = (line as usize, self.geometry.sets);
        // This runs at each access. A division would double its time.
        let set = match sets.is_power_of_two() {
            true => line & (sets - 1),
            false => line % sets,
        };
        let start = set * self.geometry.ways;
        &mut self.ways[start..start + self.geometry.ways]
    }

    pub(super) fn find(&mut self, line: u32) -> Option<&mut Way> {
        (self.set(line).iter_mut()).find(|way| way.line == Some(line))
    }

    /// Marks `line` as the last one used. Returns whether the cache has it.
    pub(super) fn touch(&mut self, line: u32) -> bool {
        self.clock += 1;
        let clock = self.clock;
        let Some(way) = self.find(line) else {
            return false;
        };
        way.used = clock;
        true
    }

    /// Marks `line` as the last one used, and returns its contents, if the cache has it dirty.
    pub(super) fn touch_dirty(&mut self, line: u32) -> Option<&mut Line> {
        self.clock += 1;
        let clock = self.clock;
        let way = self.find(line).filter(|way| way.is_dirty)?;
        way.used = clock;
        Some(&mut way.latest)
    }

    /// Makes room for `line`. Returns the displaced line if it was dirty.
    pub(super) fn allocate(&mut self, line: u32) -> Option<u32> {
        self.clock += 1;
        let clock = self.clock;
        let set = self.set(line);
        // An empty way comes before any used one.
        let least = (set.iter_mut()).min_by_key(|way| (way.line.is_some(), way.used));
        let way = least.expect("a set has a way");
        let displaced = way.line.filter(|_| way.is_dirty);
        way.line = Some(line);
        way.is_dirty = false;
        way.used = clock;
        displaced
    }

    pub(super) fn dirty(&self) -> impl Iterator<Item = (u32, &Line)> {
        let dirty = self.ways.iter().filter(|way| way.is_dirty);
        dirty.filter_map(|way| way.line.map(|line| (line, &way.latest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes() {
        let mut ways = Ways::new(Geometry::new(256, 2).expect("two sets"));
        for line in [0, 2] {
            assert_eq!(ways.allocate(line), None);
            ways.find(line).expect("it is here").is_dirty = true;
        }
        assert!(ways.touch(0));
        assert_eq!(ways.allocate(1), None, "another set");
        assert_eq!(ways.allocate(4), Some(2));
        assert!(!ways.touch(2));
        assert_eq!(ways.allocate(6), Some(0));
        assert_eq!(ways.allocate(8), None, "a clean line goes without a word");
    }

    #[test]
    fn a_cache_is_whole_sets() {
        assert_eq!(Geometry::new(16384, 4), Ok(Geometry::default()));
        assert!(Geometry::new(16384, 3).is_err());
        assert!(Geometry::new(0, 4).is_err());
        assert!(Geometry::new(64, 0).is_err());
    }
}
