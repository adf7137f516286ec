use core::ops::Range;

use poorwill_memory::Page;

use super::line::LINE_BYTES;

/// The place of a line in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Begun: a cut has begun.
    Begun,
    /// Committed: the cut is complete.
    Committed,
    /// Consumed: the cut was resumed, or given up.
    Consumed,
    /// The entry of a part.
    Part(usize),
    /// Some of the [wear registers](super::WearWords), in their order.
    Wear(usize),
}

/// Lines before those of the parts. Each of the three is as far from the next as the widest line of
/// any cache. So a write of one does not tear another.
const HEAD_LINES: usize = 3 * SPREAD;

/// Lines of wear registers, after those of the parts.
pub(super) const WEAR_LINES: usize = 4;

/// Distance of these lines, in lines: 256 bytes.
const SPREAD: usize = 4;

/// Pages of a hart's part: its context with the longest vector registers takes two; 256 control
/// transfer records take 6 KiB, and 63 guest interrupt files of 255 identities 5 KiB. A hart with
/// more state is refused at the start.
const HART_PAGES: usize = 5;

/// Pages of the part of the state that all harts share.
const SHARED_PAGES: usize = 8;

/// Pages of the part of PCI devices.
const DEVICE_PAGES: usize = 16;

/// The layout of the record in its pages: lines, then parts. The first three parts are of the
/// state that all harts share, of PCI devices and of the device tree. Each hart has one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    harts: usize,
    tree_pages: usize,
}

impl Layout {
    /// The part of the state that all harts share.
    pub const SHARED: usize = 0;

    /// The part of PCI devices.
    pub const DEVICES: usize = 1;

    /// The part of the OS's device tree.
    pub const TREE: usize = 2;

    /// Pages of that part on a real machine, for the tree as a loader leaves it.
    pub const TREE_PAGES: usize = 16;

    /// Parts before those of the harts.
    const BEFORE_HARTS: usize = 3;

    /// The layout for a machine with `harts` harts, whose device tree takes `tree_pages` pages.
    #[must_use]
    pub const fn new(harts: usize, tree_pages: usize) -> Self {
        Layout { harts, tree_pages }
    }

    /// The part of the hart with this index in the list of harts.
    #[must_use]
    pub const fn hart(place: usize) -> usize {
        Self::BEFORE_HARTS + place
    }

    /// Number of parts.
    #[must_use]
    pub const fn parts(&self) -> usize {
        Self::BEFORE_HARTS + self.harts
    }

    /// Pages of the record.
    #[must_use]
    pub const fn pages(&self) -> usize {
        self.bytes().div_ceil(size_of::<Page>())
    }

    /// Bytes of the record, without those between the lines and the next page.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        let parts = SHARED_PAGES + DEVICE_PAGES + self.tree_pages + self.harts * HART_PAGES;
        self.line_bytes() + parts * size_of::<Page>()
    }

    const fn line_pages(&self) -> usize {
        self.line_bytes().div_ceil(size_of::<Page>())
    }

    const fn line_bytes(&self) -> usize {
        (HEAD_LINES + self.parts() + WEAR_LINES) * LINE_BYTES
    }

    /// The pages of a part within the record.
    ///
    /// # Panics
    ///
    /// There is no such part.
    #[must_use]
    pub fn part_pages(&self, part: usize) -> Range<usize> {
        assert!(part < self.parts(), "the record has no part {part}");
        let shared = self.line_pages();
        let devices = shared + SHARED_PAGES;
        let tree = devices + DEVICE_PAGES;
        let harts = tree + self.tree_pages;
        match part {
            Self::SHARED => shared..devices,
            Self::DEVICES => devices..tree,
            Self::TREE => tree..harts,
            hart => {
                let first = harts + (hart - Self::BEFORE_HARTS) * HART_PAGES;
                first..first + HART_PAGES
            }
        }
    }

    /// The offset of a line in the record.
    ///
    /// # Panics
    ///
    /// There is no such part, or no such line of registers.
    #[must_use]
    pub fn line_offset(&self, place: Place) -> usize {
        let line = match place {
            Place::Begun => 0,
            Place::Committed => SPREAD,
            Place::Consumed => 2 * SPREAD,
            Place::Part(part) => {
                assert!(part < self.parts(), "the record has no part {part}");
                HEAD_LINES + part
            }
            Place::Wear(number) => {
                assert!(
                    number < WEAR_LINES,
                    "the record has no line {number} of wear registers"
                );
                HEAD_LINES + self.parts() + number
            }
        };
        line * LINE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn nothing_of_a_record_overlaps() {
        for (harts, tree_pages) in [(1, 1), (8, 16), (512, 16)] {
            let layout = Layout::new(harts, tree_pages);
            let mut bytes = BTreeSet::new();
            let parts = (0..layout.parts()).map(Place::Part);
            let lines = [Place::Begun, Place::Committed, Place::Consumed];
            let wear = (0..WEAR_LINES).map(Place::Wear);
            for place in lines.into_iter().chain(parts).chain(wear) {
                let first = layout.line_offset(place);
                assert!((first..first + LINE_BYTES).all(|byte| bytes.insert(byte)));
            }
            let last = bytes.last().unwrap() / size_of::<Page>();
            let mut next = last + 1;
            for part in 0..layout.parts() {
                let pages = layout.part_pages(part);
                assert_eq!(pages.start, next);
                next = pages.end;
            }
            assert_eq!(next, layout.pages());
        }
    }
}
