use poorwill_memory::PhysRange;

/// The most entries that a hart may have.
pub const MAX_ENTRIES: usize = 64;

/// Bits of a physical address on a machine of 64 bits (privileged specification,
/// 3.7.1).
pub const PHYSICAL_ADDRESS_BITS: u32 = 56;

/// The address registers hold bits 55 to 2 of an address.
pub(super) const ADDRESS_SHIFT: u32 = 2;

/// All addresses that there can be.
pub(super) const ALL_ADDRESSES: PhysRange = PhysRange {
    start: 0,
    end: 1 << PHYSICAL_ADDRESS_BITS,
};

/// What the address register of an entry holds that covers everything, by a
/// naturally aligned power of two: all ones.
const EVERYTHING: u64 = (1 << (PHYSICAL_ADDRESS_BITS - ADDRESS_SHIFT)) - 1;

/// Fields of a `pmpcfg` byte (privileged specification, figure 37). Nothing is
/// locked (L), as entries are to bind S and U mode only.
mod config {
    /// R.
    pub(super) const READ: u8 = 1 << 0;
    /// W.
    pub(super) const WRITE: u8 = 1 << 1;
    /// X.
    pub(super) const EXECUTE: u8 = 1 << 2;
    /// A: the entry matches nothing.
    pub(super) const OFF: u8 = 0 << 3;
    /// A: from the address register before to this one.
    pub(super) const TOR: u8 = 1 << 3;
    /// A: a naturally aligned power of two, of 8 bytes or more.
    pub(super) const NAPOT: u8 = 3 << 3;
}

/// What S and U mode may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    None,
    /// Read.
    Read,
    /// Read, write and execute.
    All,
}

impl Access {
    fn bits(self) -> u8 {
        match self {
            Access::None => 0,
            Access::Read => config::READ,
            Access::All => config::READ | config::WRITE | config::EXECUTE,
        }
    }
}

/// One entry, as its registers hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The `pmpaddr` register.
    pub address: u64,
    /// The byte of it in a `pmpcfg` register.
    pub config: u8,
}

impl Entry {
    /// What covers all addresses.
    pub(super) fn everything(access: Access) -> Self {
        Entry {
            address: EVERYTHING,
            config: config::NAPOT | access.bits(),
        }
    }

    /// What covers a naturally aligned power of two, of 8 bytes or more.
    pub(super) fn napot(block: PhysRange, access: Access) -> Self {
        Entry {
            address: block.start >> ADDRESS_SHIFT | ((block.length() >> (ADDRESS_SHIFT + 1)) - 1),
            config: config::NAPOT | access.bits(),
        }
    }

    /// What matches nothing, and is where the entry behind it begins.
    pub(super) fn base(address: u64) -> Self {
        Entry {
            address: address >> ADDRESS_SHIFT,
            config: config::OFF,
        }
    }

    /// What covers the addresses from the register before to `end`.
    pub(super) fn top(end: u64, access: Access) -> Self {
        Entry {
            address: end >> ADDRESS_SHIFT,
            config: config::TOR | access.bits(),
        }
    }
}
