//! The caches of all harts: which accesses reach memory.
//!
//! Each hart has a cache for data and one for code. Data caches are coherent: a line is dirty in one
//! of them at most, and then in no other. A cache's write-back goes to memory, and memory answers each
//! miss; caches do not pass lines to each other.

use poorwill_trace::Kind;

use super::tags::Tags;
use crate::cache::Geometry;

/// The caches, without contents.
#[derive(Clone, Debug)]
pub struct Caches {
    data: Vec<Tags>,
    code: Vec<Tags>,
}

impl Caches {
    /// Empty caches of this geometry for each hart.
    #[must_use]
    pub fn new(geometry: Geometry, harts: usize) -> Self {
        Caches {
            data: vec![Tags::new(geometry); harts],
            code: vec![Tags::new(geometry); harts],
        }
    }

    /// A hart loads from a line. `request` gets each request to memory, in order.
    pub fn load(&mut self, hart: usize, line: u32, mut request: impl FnMut(Kind, u32)) {
        if self.data[hart].touch(line).is_some() {
            return;
        }
        for other in self.others(hart) {
            if self.data[other].clean(line) {
                request(Kind::WriteBack, line);
            }
        }
        self.fill(hart, line, Kind::Load, request);
    }

    /// A hart stores to a line.
    pub fn store(&mut self, hart: usize, line: u32, mut request: impl FnMut(Kind, u32)) {
        let found = self.data[hart].touch(line);
        if found == Some(true) {
            return;
        }
        for other in self.others(hart) {
            if self.data[other].remove(line) {
                request(Kind::WriteBack, line);
            }
        }
        if found.is_none() {
            self.fill(hart, line, Kind::Store, request);
        }
        self.data[hart].dirty(line);
    }

    /// A hart fetches an instruction from a line that a data cache may hold dirty.
    pub fn fetch(&mut self, hart: usize, line: u32, mut request: impl FnMut(Kind, u32)) {
        if self.code[hart].touch(line).is_some() {
            return;
        }
        for data in &mut self.data {
            if data.clean(line) {
                request(Kind::WriteBack, line);
            }
        }
        request(Kind::Fetch, line);
        self.code[hart].add(line);
    }

    /// An instruction writes a line back from the cache that has it.
    pub fn flush(&mut self, line: u32, mut request: impl FnMut(Kind, u32)) {
        for data in &mut self.data {
            if data.clean(line) {
                request(Kind::Flush, line);
            }
        }
    }

    /// The line's read comes before the displaced line's write-back, as in BOOM's caches.
    fn fill(&mut self, hart: usize, line: u32, kind: Kind, mut request: impl FnMut(Kind, u32)) {
        request(kind, line);
        if let Some(displaced) = self.data[hart].add(line) {
            request(Kind::WriteBack, displaced);
        }
    }

    fn others(&self, hart: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.data.len()).filter(move |other| *other != hart)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use Kind::{Fetch, Flush, Load, Store, WriteBack};

    fn caches(harts: usize) -> Caches {
        Caches::new(Geometry::new(256, 2).expect("two sets of two ways"), harts)
    }

    /// The requests of some work.
    fn of(work: impl FnOnce(&mut dyn FnMut(Kind, u32))) -> Vec<(Kind, u32)> {
        let mut all = Vec::new();
        work(&mut |kind, line| all.push((kind, line)));
        all
    }

    #[test]
    fn only_misses_and_displaced_dirty_lines_reach_memory() {
        let mut caches = caches(1);
        assert_eq!(of(|to| caches.load(0, 0, to)), [(Load, 0)]);
        assert_eq!(of(|to| caches.load(0, 0, to)), []);
        assert_eq!(of(|to| caches.store(0, 0, to)), [], "it becomes dirty");
        assert_eq!(of(|to| caches.store(0, 2, to)), [(Store, 2)]);
        assert_eq!(of(|to| caches.load(0, 4, to)), [(Load, 4), (WriteBack, 0)]);
        assert_eq!(
            of(|to| caches.fetch(0, 4, to)),
            [(Fetch, 4)],
            "a cache of its own"
        );
        assert_eq!(of(|to| caches.flush(2, to)), [(Flush, 2)]);
        assert_eq!(of(|to| caches.flush(2, to)), [], "it is clean");
        assert_eq!(of(|to| caches.load(0, 6, to)), [(Load, 6)], "2 is clean");
    }

    #[test]
    fn another_harts_dirty_line_is_written_back_and_read() {
        let mut caches = caches(2);
        caches.store(0, 7, |_, _| {});
        assert_eq!(of(|to| caches.load(1, 7, to)), [(WriteBack, 7), (Load, 7)]);
        assert_eq!(of(|to| caches.load(0, 7, to)), [], "both have it, clean");
        // A store takes it away from the other hart, although that has it clean.
        assert_eq!(of(|to| caches.store(1, 7, to)), []);
        assert_eq!(
            of(|to| caches.store(0, 7, to)),
            [(WriteBack, 7), (Store, 7)]
        );
        assert_eq!(of(|to| caches.load(1, 7, to)), [(WriteBack, 7), (Load, 7)]);
        // Code that was just written.
        assert_eq!(of(|to| caches.store(0, 7, to)), []);
        assert_eq!(
            of(|to| caches.fetch(1, 7, to)),
            [(WriteBack, 7), (Fetch, 7)]
        );
    }

    proptest! {
        /// Memory has each line's last store before it answers a read, and at the end each dirty line
        /// is in exactly one cache.
        #[test]
        fn no_read_misses_a_store(accesses in proptest::collection::vec((0..3_usize, 0..12_u32, 0..4_u8), 0..400)) {
            let mut caches = caches(3);
            let (mut newest, mut memory, mut seen) = ([0; 12], [0; 12], [[0; 12]; 3]);
            for (number, (hart, line, kind)) in (1..).zip(accesses) {
                let at = line as usize;
                let mut reads = Vec::new();
                let mut request = |kind, line| match kind {
                    Load | Store | Fetch => reads.push((line, memory[line as usize])),
                    WriteBack | Flush => memory[line as usize] = newest[line as usize],
                    Kind::Fence => {}
                };
                match kind {
                    0 => caches.load(hart, line, &mut request),
                    1 => caches.store(hart, line, &mut request),
                    2 => caches.fetch(hart, line, &mut request),
                    _ => caches.flush(line, &mut request),
                }
                for (read, value) in reads {
                    prop_assert_eq!(value, newest[read as usize], "hart {} line {}", hart, read);
                    if kind < 2 {
                        seen[hart][read as usize] = value;
                    }
                }
                match kind {
                    0 => prop_assert_eq!(seen[hart][at], newest[at], "a hit of an old line"),
                    1 => {
                        newest[at] = number;
                        seen[hart][at] = number;
                    }
                    _ => {}
                }
            }
            for line in 0..12 {
                let at = line as usize;
                let owners = caches.data.iter_mut().map(|data| data.remove(line));
                let owners = owners.filter(|is_dirty| *is_dirty).count();
                prop_assert_eq!(owners, usize::from(newest[at] != memory[at]), "line {}", line);
            }
        }
    }
}
