//! Addresses of a virtual hart (privileged specification, 12.3 to 12.6).

use core::cell::Cell;

use poorwill_hart::PageTables;
use poorwill_hart::emulation::{cause, status};
use poorwill_hart::page_entry::{self, Intent, Rights};
use poorwill_memory::PAGE_BYTES;

use crate::hart::{Mode, VirtualHart};
use crate::host::Host;
use crate::tlb::Translation;
use crate::trap::Exception;

fn page_fault(intent: Intent, address: u64) -> Exception {
    let cause = match intent {
        Intent::Fetch => cause::FETCH_PAGE,
        Intent::Load => cause::LOAD_PAGE,
        Intent::Store => cause::STORE_PAGE,
    };
    Exception {
        cause,
        value: address,
    }
}

pub(crate) fn access_fault(intent: Intent, address: u64) -> Exception {
    let cause = match intent {
        Intent::Fetch => cause::FETCH_ACCESS,
        Intent::Load => cause::LOAD_ACCESS,
        Intent::Store => cause::STORE_ACCESS,
    };
    Exception {
        cause,
        value: address,
    }
}

/// A physical address, and whether the OS's memory is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) physical: u64,
    pub(crate) is_memory: bool,
}

/// Bits of a physical address.
const PHYSICAL_BITS: u32 = 56;

impl VirtualHart {
    /// Follows a change of the hart's mode, of `sstatus` or of `satp`.
    pub(crate) fn settle_shortcuts(&mut self) {
        let is_user = self.mode == Mode::User;
        let shortcuts = &mut self.shortcuts;
        shortcuts.settle(is_user, self.csrs.sstatus, self.csrs.satp);
    }

    /// Keeps the page of an access that was allowed, if it is memory.
    pub(crate) fn keep_shortcut(&mut self, intent: Intent, address: u64, place: Place) {
        if place.is_memory {
            self.settle_shortcuts();
            self.shortcuts.keep(intent, address, place.physical);
        }
    }

    /// Translates an address for an access that does not cross a page.
    pub(crate) fn translate(
        &mut self,
        address: u64,
        intent: Intent,
        host: &impl Host,
    ) -> Result<Place, Exception> {
        let offset = address % PAGE_BYTES;
        let page = address - offset;
        let Some(tables) = PageTables::of_satp(self.csrs.satp) else {
            if address >> PHYSICAL_BITS != 0 {
                return Err(access_fault(intent, address));
            }
            let place = Place {
                physical: address,
                is_memory: host.is_memory(page),
            };
            self.keep_shortcut(intent, address, place);
            return Ok(place);
        };
        let space = (self.csrs.satp >> 44) as u16;
        let found = match self.tlb.find(page, space) {
            Some(found) if self.has_flags(found.flags.into(), intent) => *found,
            _ => {
                let walked = self.walk(tables, address, intent, space, host)?;
                self.tlb.keep(walked);
                walked
            }
        };
        let place = Place {
            physical: found.physical + offset,
            is_memory: found.is_memory,
        };
        self.keep_shortcut(intent, address, place);
        Ok(place)
    }

    /// Returns whether a kept translation serves. A store to a clean page needs a walk. So does a
    /// refused access, as the OS may have opened the page without a fence.
    fn has_flags(&self, flags: u64, intent: Intent) -> bool {
        let is_clean = intent == Intent::Store && flags & page_entry::DIRTY == 0;
        !is_clean && self.allows(flags, intent)
    }

    fn allows(&self, flags: u64, intent: Intent) -> bool {
        let rights = Rights {
            user: self.mode == Mode::User,
            sum: self.csrs.sstatus & status::SUM != 0,
            mxr: self.csrs.sstatus & status::MXR != 0,
        };
        rights.allow(flags, intent)
    }

    /// Reads the tables, and sets A and D bits or raises a fault.
    fn walk(
        &self,
        tables: PageTables,
        address: u64,
        intent: Intent,
        space: u16,
        host: &impl Host,
    ) -> Result<Translation, Exception> {
        let is_outside = Cell::new(false);
        let page_of = |at: u64| at & !(PAGE_BYTES - 1);
        let word = |at: u64| {
            let is_memory = host.is_memory(page_of(at));
            is_outside.set(!is_memory);
            is_memory.then(|| host.load(at, 8))
        };
        let Some(found) = tables.mapping(address, word) else {
            return Err(match is_outside.get() {
                true => access_fault(intent, address),
                false => page_fault(intent, address),
            });
        };
        let mut entry = found.entry;
        let has_type = entry & page_entry::TYPE != 0 && !self.features.page_types;
        if has_type || !self.allows(entry, intent) {
            return Err(page_fault(intent, address));
        }
        let needed = match intent {
            Intent::Store => page_entry::ACCESSED | page_entry::DIRTY,
            Intent::Fetch | Intent::Load => page_entry::ACCESSED,
        };
        if entry & needed != needed {
            if !self.features.sets_accessed {
                return Err(page_fault(intent, address));
            }
            entry |= needed;
            host.store_entry(found.at, entry);
        }
        let page = page_of(address);
        let physical = found.start | page & (found.bytes - 1);
        Ok(Translation {
            page,
            physical,
            flags: entry as u8,
            shift: found.bytes.trailing_zeros() as u8,
            space,
            is_memory: host.is_memory(physical),
        })
    }
}
