//! Harts and their caches.

use std::cell::RefCell;
use std::collections::BTreeSet;

use poorwill_memory::PhysRange;
use poorwill_sleep::cut::{CacheOperations, LineMeans};

pub(super) const LINE: u64 = 64;
const WAYS: usize = 4;
pub(super) const MEMORY: PhysRange = PhysRange {
    start: 0x8000_0000,
    end: 0x8010_0000,
};
/// A cache, by its sets, whose lines are dirty or not; the one used last comes last.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    sets: Vec<Vec<(u64, bool)>>,
    is_lru: bool,
    random: u64,
}

impl Cache {
    pub(super) fn new(bytes: u64, is_lru: bool, seed: u64) -> Self {
        let sets = bytes / LINE / WAYS as u64;
        Cache {
            sets: vec![Vec::new(); usize::try_from(sets).unwrap()],
            is_lru,
            random: seed | 1,
        }
    }

    /// Brings a line in; gives the dirty one that made room.
    fn bring(&mut self, line: u64, dirty: bool) -> Option<u64> {
        let place = usize::try_from(line).unwrap() % self.sets.len();
        let set = &mut self.sets[place];
        if let Some(at) = set.iter().position(|(own, _)| *own == line) {
            let (_, was_dirty) = set.remove(at);
            set.push((line, was_dirty || dirty));
            return None;
        }
        let full = set.len() == WAYS;
        let victim = full.then(|| {
            // xorshift64.
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let at = if self.is_lru {
                0
            } else {
                usize::try_from(self.random >> 33).unwrap() % WAYS
            };
            set.remove(at)
        });
        set.push((line, dirty));
        victim.filter(|(_, dirty)| *dirty).map(|(line, _)| line)
    }

    pub(super) fn dirty(&self) -> BTreeSet<u64> {
        let all = self.sets.iter().flatten().filter(|(_, dirty)| *dirty);
        all.map(|(line, _)| *line).collect()
    }

    fn clean(&mut self, line: u64) -> bool {
        let mut all = self.sets.iter_mut().flatten();
        let own = all.find(|(own, dirty)| *own == line && *dirty);
        own.map(|(_, dirty)| *dirty = false).is_some()
    }
}

/// The caches of all harts: each hart's own, one behind it or not, and one that all share.
#[derive(Clone, Debug)]
pub(super) struct Caches {
    pub(super) own: Vec<Vec<Cache>>,
    pub(super) shared: Option<Cache>,
    /// Lines that are to be clean at the next fence.
    pub(super) asked: Vec<(usize, u64, bool)>,
}

impl Caches {
    pub(super) fn bring(&mut self, hart: usize, line: u64, dirty: bool) {
        let (mut line, mut dirty) = (line, dirty);
        let Caches { own, shared, .. } = self;
        for cache in own[hart].iter_mut().chain(shared) {
            let victim = cache.bring(line, dirty);
            match victim {
                Some(victim) => (line, dirty) = (victim, true),
                // A clean line is looked for behind it, too.
                None if !dirty => {}
                None => return,
            }
        }
    }

    pub(super) fn dirty(&self) -> usize {
        let all = self.own.iter().flatten().chain(&self.shared);
        all.map(|cache| cache.dirty().len()).sum()
    }
}

/// A hart on its way, and what it leaves out.
pub(super) struct Hart<'a> {
    pub(super) caches: &'a RefCell<Caches>,
    pub(super) place: usize,
    pub(super) forgets: Option<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Whole,
    Lines,
    Read,
    Fence,
}

impl CacheOperations for Hart<'_> {
    fn write_back_whole(&self) {
        let mut caches = self.caches.borrow_mut();
        if self.forgets != Some(Step::Whole) {
            let lines = caches.own[self.place][0].dirty();
            let lines = lines.into_iter().map(|line| (self.place, line, true));
            caches.asked.extend(lines);
        }
    }

    fn write_back(&self, bytes: PhysRange, _means: LineMeans) {
        let mut caches = self.caches.borrow_mut();
        if self.forgets != Some(Step::Lines) {
            let lines = bytes.start / LINE..bytes.end.div_ceil(LINE);
            caches
                .asked
                .extend(lines.map(|line| (self.place, line, false)));
        }
    }

    fn read(&self, bytes: u64) {
        if self.forgets != Some(Step::Read) {
            let lines = MEMORY.start / LINE..(MEMORY.start + bytes) / LINE;
            let mut caches = self.caches.borrow_mut();
            lines.for_each(|line| caches.bring(self.place, line, false));
        }
    }

    fn fence(&self) {
        if self.forgets == Some(Step::Fence) {
            return;
        }
        let mut caches = self.caches.borrow_mut();
        for (hart, line, is_first) in std::mem::take(&mut caches.asked) {
            if !is_first {
                let Caches { own, shared, .. } = &mut *caches;
                for cache in own.iter_mut().flatten().chain(shared) {
                    cache.clean(line);
                }
            } else if caches.own[hart][0].clean(line) {
                // To what is behind it.
                let Caches { own, shared, .. } = &mut *caches;
                let behind = own[hart].iter_mut().skip(1).chain(shared).next();
                if let Some(victim) = behind.and_then(|cache| cache.bring(line, true)) {
                    let Caches { own, shared, .. } = &mut *caches;
                    if own[hart].len() > 1
                        && let Some(shared) = shared
                    {
                        shared.bring(victim, true);
                    }
                }
            }
        }
    }

    fn memory(&self) -> impl Iterator<Item = PhysRange> {
        [MEMORY].into_iter()
    }
}
