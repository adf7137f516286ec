//! Pages that a hart may access as it is now, found by one comparison.
//!
//! A tag has the page, and below it the state of the hart that decides about accesses. So a change of
//! that state needs no search for stale entries.

use poorwill_hart::emulation::status;
use poorwill_hart::page_entry::Intent;
use poorwill_memory::PAGE_BYTES;

/// Entries of a table, a power of two.
const ENTRIES: usize = 32;

/// An access of a tag's page has these bits clear: it is aligned.
const ALIGNMENT: u64 = 7;
const USER: u64 = 1 << 3;
const SUM: u64 = 1 << 4;
const MXR: u64 = 1 << 5;
/// Number of the tables' present contents. No tag has zero here.
const EPOCH: u64 = 1 << 6;
const _: () = assert!(EPOCH > ALIGNMENT && PAGE_BYTES > EPOCH);

/// A page of the OS's memory.
#[derive(Clone, Copy, Debug)]
struct Shortcut {
    tag: u64,
    /// `physical - page`
    distance: u64,
}

const EMPTY: Shortcut = Shortcut {
    tag: 0,
    distance: 0,
};

/// For fetches, loads and stores.
#[derive(Clone, Debug)]
pub(crate) struct Shortcuts {
    /// The hart's state, and the epoch.
    state: u64,
    satp: u64,
    tables: [[Shortcut; ENTRIES]; 3],
}

impl Shortcuts {
    pub(crate) const fn new() -> Self {
        Shortcuts {
            state: EPOCH,
            satp: 0,
            tables: [[EMPTY; ENTRIES]; 3],
        }
    }

    fn place(address: u64) -> usize {
        (address / PAGE_BYTES) as usize % ENTRIES
    }

    /// The physical address of an aligned access of `bytes` bytes to the OS's memory. `None`: the TLB or
    /// the tables may know it.
    #[inline(always)]
    pub(crate) fn find(&self, intent: Intent, address: u64, bytes: u64) -> Option<u64> {
        let found = &self.tables[intent as usize][Self::place(address)];
        let tag = address & !(PAGE_BYTES - 1) | address & (bytes - 1) | self.state;
        (found.tag == tag).then(|| address.wrapping_add(found.distance))
    }

    /// Follows a change of the hart's mode, of `sstatus` or of `satp`.
    pub(crate) fn settle(&mut self, is_user: bool, sstatus: u64, satp: u64) {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let state = bit(is_user, USER)
            | bit(sstatus & status::SUM != 0, SUM)
            | bit(sstatus & status::MXR != 0, MXR);
        self.state = self.state & !(EPOCH - 1) | state;
        if self.satp != satp {
            self.satp = satp;
            self.forget();
        }
    }

    /// Keeps the page of an access to the OS's memory that was allowed.
    pub(crate) fn keep(&mut self, intent: Intent, address: u64, physical: u64) {
        self.tables[intent as usize][Self::place(address)] = Shortcut {
            tag: address & !(PAGE_BYTES - 1) | self.state,
            distance: physical.wrapping_sub(address),
        };
    }

    /// Forgets all pages.
    pub(crate) fn forget(&mut self) {
        self.state += EPOCH;
        if self.state >= PAGE_BYTES {
            self.tables = [[EMPTY; ENTRIES]; 3];
            self.state = self.state % EPOCH + EPOCH;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hart::VirtualHart;
    use crate::translation::Place;

    const PAGE: u64 = 0xffff_ffc0_0000_5000;
    const PLACE: Place = Place {
        physical: 0x8000_1008,
        is_memory: true,
    };

    #[test]
    fn aligned_accesses_of_a_page_are_found_until_it_is_forgotten() {
        let mut hart = VirtualHart::new();
        // Each number of an epoch comes back.
        for _ in 0..3 * PAGE_BYTES / EPOCH {
            let find = |hart: &VirtualHart, address, bytes| {
                hart.shortcuts.find(Intent::Load, address, bytes)
            };
            assert_eq!(find(&hart, PAGE, 8), None);
            hart.keep_shortcut(Intent::Load, PAGE + 8, PLACE);
            assert_eq!(find(&hart, PAGE + 0xff8, 8), Some(0x8000_1ff8));
            assert_eq!(find(&hart, PAGE + 1, 1), Some(0x8000_1001));
            for bytes in [2, 4, 8] {
                assert_eq!(find(&hart, PAGE + 1, bytes), None);
            }
            assert_eq!(find(&hart, PAGE + PAGE_BYTES, 8), None);
            assert_eq!(hart.shortcuts.find(Intent::Store, PAGE, 8), None);
            hart.shortcuts.forget();
        }
    }

    #[test]
    fn a_page_of_an_old_epoch_is_not_found_in_a_later_one_of_its_number() {
        let mut hart = VirtualHart::new();
        hart.keep_shortcut(Intent::Fetch, PAGE + 8, PLACE);
        for _ in 0..2 * PAGE_BYTES / EPOCH {
            hart.shortcuts.forget();
            assert_eq!(hart.shortcuts.find(Intent::Fetch, PAGE, 1), None);
        }
    }

    #[test]
    fn a_page_of_a_device_is_not_kept() {
        let mut hart = VirtualHart::new();
        let place = Place {
            is_memory: false,
            ..PLACE
        };
        hart.keep_shortcut(Intent::Load, PAGE + 8, place);
        assert_eq!(hart.shortcuts.find(Intent::Load, PAGE, 8), None);
    }
}
