//! What checkpoints of programs would have to save: the pages that programs access, and the lines that
//! they store between the ends of their functions.

use std::collections::BTreeSet;

use poorwill_trace::{CLASSES, Returns, class};

/// Lines of a page.
const LINES: u32 = 64;

/// The accesses of all programs. Code of the kernel and of the firmware is not among them.
#[derive(Clone, Debug)]
pub struct Programs {
    /// A bit for each page of RAM, by 64.
    pages: Vec<u64>,
    /// Lines that each hart's programs have stored since its last return.
    stored: Vec<BTreeSet<u32>>,
}

impl Programs {
    /// Programs of a machine with `memory` bytes of RAM that have done nothing yet.
    #[must_use]
    pub fn new(memory: u64, harts: usize) -> Self {
        let words = memory.div_ceil(u64::from(LINES) * 64 * u64::from(u64::BITS));
        Programs {
            pages: vec![0; usize::try_from(words).unwrap_or(usize::MAX)],
            stored: vec![BTreeSet::new(); harts],
        }
    }

    /// A program accesses a line, or has code there.
    pub fn access(&mut self, line: u32) {
        let page = line / LINES;
        if let Some(word) = self.pages.get_mut((page / u64::BITS) as usize) {
            *word |= 1 << (page % u64::BITS);
        }
    }

    /// A program stores to a line.
    pub fn store(&mut self, hart: usize, line: u32) {
        self.access(line);
        self.stored[hart].insert(line);
    }

    /// A program's function returns: adds its lines to those of the hart's window.
    pub fn returned(&mut self, hart: usize, returns: &mut [Returns; CLASSES]) {
        let lines = self.stored[hart].len() as u64;
        let returns = &mut returns[class(lines)];
        returns.count += 1;
        returns.lines += lines;
        self.stored[hart].clear();
    }

    /// Forgets the stored lines, at the window's start.
    pub fn open(&mut self) {
        self.stored.iter_mut().for_each(BTreeSet::clear);
    }

    /// Pages that were accessed.
    #[must_use]
    pub fn pages(&self) -> u64 {
        let ones = self.pages.iter().map(|word| u64::from(word.count_ones()));
        ones.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_once_until_the_harts_next_return() {
        let mut programs = Programs::new(1 << 20, 2);
        let mut returns = [Returns::default(); CLASSES];
        for line in [5, 6, 5, 70] {
            programs.store(0, line);
        }
        programs.store(1, 5);
        programs.returned(0, &mut returns);
        assert_eq!(returns[2], Returns { count: 1, lines: 3 });
        programs.returned(0, &mut returns);
        assert_eq!(returns[0], Returns { count: 1, lines: 0 });
        programs.returned(1, &mut returns);
        assert_eq!(returns[1], Returns { count: 1, lines: 1 });
        programs.store(0, 9);
        programs.open();
        programs.returned(0, &mut returns);
        assert_eq!(returns[0].count, 2, "a store before the window");
    }

    #[test]
    fn a_page_counts_once() {
        let mut programs = Programs::new(1 << 20, 1);
        for line in [0, 63, 64, 128, 130, 16_383, 16_384, u32::MAX] {
            programs.access(line);
        }
        assert_eq!(programs.pages(), 4, "two lines are beyond RAM");
    }
}
