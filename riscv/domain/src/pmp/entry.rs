use poorwill_memory::PhysRange;

/// Maximum number of entries of a hart.
pub const MAX_ENTRIES: usize = 64;

/// Bits of a physical address on RV64 (privileged specification, 3.7.1).
pub const PHYSICAL_ADDRESS_BITS: u32 = 56;

/// The address registers hold bits 55 to 2 of an address.
pub(super) const ADDRESS_SHIFT: u32 = 2;

pub(super) const ALL_ADDRESSES: PhysRange = PhysRange {
    start: 0,
    end: 1 << PHYSICAL_ADDRESS_BITS,
};

/// Address register (NAPOT) of an entry that covers all addresses.
const EVERYTHING: u64 = (1 << (PHYSICAL_ADDRESS_BITS - ADDRESS_SHIFT)) - 1;

/// Fields of a `pmpcfg` byte (privileged specification, figure 37). No entry is locked (L), so
/// entries bind only S and U mode.
mod config {
    pub(super) const READ: u8 = 1 << 0;
    pub(super) const WRITE: u8 = 1 << 1;
    pub(super) const EXECUTE: u8 = 1 << 2;
    /// A: the entry matches nothing.
    pub(super) const OFF: u8 = 0 << 3;
    /// A: from the address register before to this one.
    pub(super) const TOR: u8 = 1 << 3;
    /// A: a naturally aligned power of two, of 8 bytes or more.
    pub(super) const NAPOT: u8 = 3 << 3;
}

/// Access of S and U mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    None,
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
    /// Read and execute.
    ReadExecute,
    /// Read, write and execute.
    All,
}

impl Access {
    fn bits(self) -> u8 {
        match self {
            Access::None => 0,
            Access::Read => config::READ,
            Access::ReadWrite => config::READ | config::WRITE,
            Access::ReadExecute => config::READ | config::EXECUTE,
            Access::All => config::READ | config::WRITE | config::EXECUTE,
        }
    }
}

/// One entry, as its registers hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The `pmpaddr` register.
    pub address: u64,
    /// This entry's byte in a `pmpcfg` register.
    pub config: u8,
}

impl Entry {
    /// Covers all addresses.
    pub(super) fn everything(access: Access) -> Self {
        Entry {
            address: EVERYTHING,
            config: config::NAPOT | access.bits(),
        }
    }

    pub(super) fn covers_everything(&self) -> bool {
        self.address == EVERYTHING
    }

    /// Covers a naturally aligned power of two, of 8 bytes or more.
    pub(super) fn napot(block: PhysRange, access: Access) -> Self {
        Entry {
            address: block.start >> ADDRESS_SHIFT | ((block.length() >> (ADDRESS_SHIFT + 1)) - 1),
            config: config::NAPOT | access.bits(),
        }
    }

    /// Matches nothing; its address is the start of the next entry (TOR).
    pub(super) fn base(address: u64) -> Self {
        Entry {
            address: address >> ADDRESS_SHIFT,
            config: config::OFF,
        }
    }

    /// The addresses that the entry matches; `None` if it is off. `before` is the previous entry's
    /// register.
    pub(super) fn range(&self, before: u64) -> Option<PhysRange> {
        let (start, end) = match self.config & config::NAPOT {
            config::OFF => return None,
            config::TOR => (before, self.address.max(before)),
            // The register's lowest zero, and the ones below it, tell the size (table 3.10).
            _ => {
                let size = self.address ^ (self.address + 1);
                (self.address & !size, (self.address | size) + 1)
            }
        };
        Some(PhysRange {
            start: start << ADDRESS_SHIFT,
            end: (end << ADDRESS_SHIFT).min(ALL_ADDRESSES.end),
        })
    }

    /// Returns whether a matching access with these rights is allowed.
    pub(super) fn permits(&self, access: Access) -> bool {
        let needed = access.bits();
        self.config & needed == needed
    }

    /// Covers the addresses from the previous register's to `end`.
    pub(super) fn top(end: u64, access: Access) -> Self {
        Entry {
            address: end >> ADDRESS_SHIFT,
            config: config::TOR | access.bits(),
        }
    }
}
