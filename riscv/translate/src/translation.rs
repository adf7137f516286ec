//! Addresses of a virtual hart (privileged specification, 12.3 to 12.6).

use core::cell::Cell;

use poorwill_hart::PageTables;
use poorwill_memory::PAGE_BYTES;

use crate::hart::{Mode, VirtualHart};
use crate::host::Host;
use crate::state::status;
use crate::tlb::{Translation, flag};
use crate::trap::{Exception, cause};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    Fetch,
    Load,
    Store,
}

impl Intent {
    fn page_fault(self) -> u64 {
        match self {
            Intent::Fetch => cause::FETCH_PAGE,
            Intent::Load => cause::LOAD_PAGE,
            Intent::Store => cause::STORE_PAGE,
        }
    }

    pub(crate) fn access_fault(self, address: u64) -> Exception {
        let cause = match self {
            Intent::Fetch => cause::FETCH_ACCESS,
            Intent::Load => cause::LOAD_ACCESS,
            Intent::Store => cause::STORE_ACCESS,
        };
        Exception {
            cause,
            value: address,
        }
    }
}

/// A physical address, and whether the OS's memory is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) physical: u64,
    pub(crate) is_memory: bool,
}

/// Memory types of a page (Svpbmt).
const TYPE: u64 = 3 << 61;

/// Bits of a physical address.
const PHYSICAL_BITS: u32 = 56;

impl VirtualHart {
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
                return Err(intent.access_fault(address));
            }
            return Ok(Place {
                physical: address,
                is_memory: host.is_memory(page),
            });
        };
        let space = self.csrs.satp >> 44 & 0xffff;
        let found = match self.tlb.find(page, space) {
            Some(found) if self.has_flags(found.flags, intent) => *found,
            _ => {
                let walked = self.walk(tables, address, intent, space, host)?;
                self.tlb.keep(walked);
                walked
            }
        };
        if !self.allows(found.flags, intent) {
            return Err(Exception {
                cause: intent.page_fault(),
                value: address,
            });
        }
        Ok(Place {
            physical: found.physical + offset,
            is_memory: found.is_memory,
        })
    }

    /// Returns whether a kept translation serves. A store to a clean page needs a walk. So does a
    /// refused access, as the OS may have opened the page without a fence.
    fn has_flags(&self, flags: u64, intent: Intent) -> bool {
        let is_clean = intent == Intent::Store && flags & flag::DIRTY == 0;
        !is_clean && self.allows(flags, intent)
    }

    fn allows(&self, flags: u64, intent: Intent) -> bool {
        let of_user = flags & flag::USER != 0;
        let in_reach = match (self.mode, intent) {
            (Mode::User, _) => of_user,
            (Mode::Supervisor, Intent::Fetch) => !of_user,
            (Mode::Supervisor, _) => !of_user || self.csrs.sstatus & status::SUM != 0,
        };
        let needed = match intent {
            Intent::Fetch => flag::EXECUTE,
            Intent::Load if self.csrs.sstatus & status::MXR != 0 => flag::READ | flag::EXECUTE,
            Intent::Load => flag::READ,
            Intent::Store => flag::WRITE,
        };
        in_reach && flags & needed != 0
    }

    /// Reads the tables, and sets A and D bits or raises a fault.
    fn walk(
        &self,
        tables: PageTables,
        address: u64,
        intent: Intent,
        space: u64,
        host: &impl Host,
    ) -> Result<Translation, Exception> {
        let is_outside = Cell::new(false);
        let page_of = |at: u64| at & !(PAGE_BYTES - 1);
        let word = |at: u64| {
            let is_memory = host.is_memory(page_of(at));
            is_outside.set(!is_memory);
            is_memory.then(|| host.load(at, 8))
        };
        let page_fault = Exception {
            cause: intent.page_fault(),
            value: address,
        };
        let Some(found) = tables.mapping(address, word) else {
            return Err(match is_outside.get() {
                true => intent.access_fault(address),
                false => page_fault,
            });
        };
        let mut entry = found.entry;
        let has_type = entry & TYPE != 0 && !self.features.page_types;
        if has_type || !self.allows(entry, intent) {
            return Err(page_fault);
        }
        let needed = match intent {
            Intent::Store => flag::ACCESSED | flag::DIRTY,
            Intent::Fetch | Intent::Load => flag::ACCESSED,
        };
        if entry & needed != needed {
            if !self.features.sets_accessed {
                return Err(page_fault);
            }
            entry |= needed;
            host.store(found.at, 8, entry);
        }
        let page = page_of(address);
        let physical = found.start | page & (found.bytes - 1);
        Ok(Translation {
            page,
            physical,
            flags: entry & 0xff,
            space,
            bytes: found.bytes,
            is_memory: host.is_memory(physical),
        })
    }
}
