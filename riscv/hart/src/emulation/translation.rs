//! Address translation as the hart does it for the OS (privileged specification, 12.3;
//! H extension, 18.5), in one stage or two.

use poorwill_memory::PAGE_BYTES;

use super::{Fault, PhysicalMemory, status};
use crate::page_tables::{Found, PageTables};
use crate::{Csr, CsrAccess};

/// What an address is translated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Fetch,
    Load,
    Store,
}

/// Flags of an entry (12.4.1).
mod flag {
    pub(super) const READ: u64 = 1 << 1;
    pub(super) const WRITE: u64 = 1 << 2;
    pub(super) const EXECUTE: u64 = 1 << 3;
    pub(super) const USER: u64 = 1 << 4;
}

/// Page tables, and what the caller may do with the pages that they map.
#[derive(Clone, Copy, Debug)]
struct Stage {
    /// `None`: addresses are as they are.
    tables: Option<PageTables>,
    /// The caller is a user.
    user: bool,
    /// A supervisor may load and store where users may.
    sum: bool,
    /// What can be executed can be read.
    mxr: bool,
    /// The first table has four times as many entries, and addresses have no sign: a
    /// guest's physical ones.
    widened: bool,
}

/// How the caller's addresses become physical ones.
#[derive(Debug)]
pub(super) struct Translation<'m, M> {
    first: Stage,
    /// A guest's second stage.
    second: Option<Stage>,
    memory: &'m M,
}

impl<'m, M: PhysicalMemory> Translation<'m, M> {
    /// That of the caller that faulted; `None` when it is in a mode unknown here.
    pub(super) fn of(fault: &Fault, hart: &impl CsrAccess, memory: &'m M) -> Option<Self> {
        let user = !status::is_supervisor(fault.status);
        let mxr = fault.status & status::MXR != 0;
        if !status::is_guest(fault.status) {
            let first = Stage {
                tables: tables(fault.satp)?,
                user,
                sum: fault.status & status::SUM != 0,
                mxr,
                widened: false,
            };
            return Some(Translation {
                first,
                second: None,
                memory,
            });
        }
        let guest = hart.read_csr(Csr::Vsstatus)?;
        let first = Stage {
            tables: tables(hart.read_csr(Csr::Vsatp)?)?,
            user,
            sum: guest & status::SUM != 0,
            mxr: mxr || guest & status::MXR != 0,
            widened: false,
        };
        // All of a guest's accesses count as a user's there.
        let second = Stage {
            tables: tables(hart.read_csr(Csr::Hgatp)?)?,
            user: true,
            sum: false,
            mxr,
            widened: true,
        };
        Some(Translation {
            first,
            second: Some(second),
            memory,
        })
    }

    /// The physical address; `None` where the caller may not do that.
    pub(super) fn physical(&self, address: u64, intent: Intent) -> Option<u64> {
        let word = |at| self.memory.read(self.of_guest(at, Intent::Load)?, 8);
        self.of_guest(self.first.translate(address, intent, word)?, intent)
    }

    /// The same of a guest's physical address.
    fn of_guest(&self, address: u64, intent: Intent) -> Option<u64> {
        let Some(second) = &self.second else {
            return Some(address);
        };
        second.translate(address, intent, |at| self.memory.read(at, 8))
    }
}

/// The tables that `satp`, `vsatp` or `hgatp` name; the inner `None` where these are off.
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
        let Found {
            entry,
            start,
            bytes,
        } = if self.widened {
            tables.find_of_guest(address, word)?
        } else {
            tables.find(address, word)?
        };
        debug_assert!(bytes >= PAGE_BYTES);
        self.allows(entry, intent)
            .then_some(start | (address & (bytes - 1)))
    }

    fn allows(&self, entry: u64, intent: Intent) -> bool {
        let of_user = entry & flag::USER != 0;
        let in_reach = match intent {
            _ if self.user => of_user,
            Intent::Fetch => !of_user,
            Intent::Load | Intent::Store => !of_user || self.sum,
        };
        let needed = match intent {
            Intent::Fetch => flag::EXECUTE,
            Intent::Load if self.mxr => flag::READ | flag::EXECUTE,
            Intent::Load => flag::READ,
            Intent::Store => flag::WRITE,
        };
        in_reach && entry & needed != 0
    }
}
