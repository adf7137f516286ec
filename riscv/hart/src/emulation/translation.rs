//! The hart's address translation for the OS, in one stage or two (privileged specification, 12.3;
//! H extension, 18.5).

use poorwill_memory::PAGE_BYTES;

use super::fault::{Fault, status};
use crate::page_entry::{Intent, Rights};
use crate::page_tables::{Mapping, PageTables};
use crate::{Csr, CsrAccess};

/// The OS's memory, which is read by physical address.
pub trait PhysicalMemory {
    /// Reads `bytes` bytes at `address`, a multiple of `bytes`: 8 of memory, or 2 of an
    /// instruction, possibly in flash. `None`: they are not in OS memory or flash.
    fn read(&self, address: u64, bytes: u64) -> Option<u64>;
}

/// Page tables, and the caller's rights to their pages.
#[derive(Clone, Copy, Debug)]
struct Stage {
    /// `None`: addresses are not translated.
    tables: Option<PageTables>,
    rights: Rights,
    /// For a guest's physical addresses: the root table has four times the entries, and addresses
    /// have no sign extension.
    widened: bool,
}

/// Translation of the caller's addresses to physical ones.
#[derive(Debug)]
pub(super) struct Translation<'m, M> {
    first: Stage,
    /// Second stage, for a guest.
    second: Option<Stage>,
    memory: &'m M,
}

impl<'m, M: PhysicalMemory> Translation<'m, M> {
    /// The faulting caller's translation; `None` if its mode is unknown, or has 32-bit registers or
    /// big-endian data.
    pub(super) fn of(fault: &Fault, hart: &impl CsrAccess, memory: &'m M) -> Option<Self> {
        let user = !status::is_supervisor(fault.status);
        let mxr = fault.status & status::MXR != 0;
        let is_ordinary = |own| !user || status::is_user_ordinary(own);
        if !status::is_supervisor_ordinary(fault.status) {
            return None;
        }
        if !status::is_guest(fault.status) {
            if !is_ordinary(fault.status) {
                return None;
            }
            let first = Stage {
                tables: tables(fault.satp)?,
                rights: Rights {
                    user,
                    sum: fault.status & status::SUM != 0,
                    mxr,
                },
                widened: false,
            };
            return Some(Translation {
                first,
                second: None,
                memory,
            });
        }
        let guest = hart.read_csr(Csr::Vsstatus)?;
        if !status::is_guest_ordinary(hart.read_csr(Csr::Hstatus)?) || !is_ordinary(guest) {
            return None;
        }
        let first = Stage {
            tables: tables(hart.read_csr(Csr::Vsatp)?)?,
            rights: Rights {
                user,
                sum: guest & status::SUM != 0,
                mxr: mxr || guest & status::MXR != 0,
            },
            widened: false,
        };
        // In the second stage all accesses of a guest count as a user's.
        let second = Stage {
            tables: tables(hart.read_csr(Csr::Hgatp)?)?,
            rights: Rights {
                user: true,
                sum: false,
                mxr,
            },
            widened: true,
        };
        Some(Translation {
            first,
            second: Some(second),
            memory,
        })
    }

    /// The physical address; `None` if the caller may not access it.
    pub(super) fn physical(&self, address: u64, intent: Intent) -> Option<u64> {
        let word = |at| self.memory.read(self.of_guest(at, Intent::Load)?, 8);
        self.of_guest(self.first.translate(address, intent, word)?, intent)
    }

    /// As [`physical`](Self::physical), for a guest's physical address.
    fn of_guest(&self, address: u64, intent: Intent) -> Option<u64> {
        let Some(second) = &self.second else {
            return Some(address);
        };
        second.translate(address, intent, |at| self.memory.read(at, 8))
    }
}

/// The tables in `satp`, `vsatp` or `hgatp`; the inner `None` if translation is off.
#[allow(clippy::option_option, reason = "off is not unknown")]
fn tables(atp: u64) -> Option<Option<PageTables>> {
    if atp >> 60 == 0 {
        return Some(None);
    }
    PageTables::of_satp(atp).map(Some)
}

impl Stage {
    fn translate(
        &self,
        address: u64,
        intent: Intent,
        word: impl Fn(u64) -> Option<u64>,
    ) -> Option<u64> {
        let Some(tables) = self.tables else {
            return Some(address);
        };
        let Mapping {
            entry,
            start,
            bytes,
            ..
        } = if self.widened {
            tables.find_of_guest(address, word)?
        } else {
            tables.mapping(address, word)?
        };
        debug_assert!(bytes >= PAGE_BYTES);
        self.rights
            .allow(entry, intent)
            .then_some(start | (address & (bytes - 1)))
    }
}
