//! Memory regions of a domain: the smallest one at an address decides.

use poorwill_memory::PhysRange;

use super::error::PermissionFault;

/// Permissions of a region, as OpenSBI's binding encodes them: bits 0 to 2 for machine mode, bits 3
/// to 5 for S and U mode; read, write, execute each.
///
/// Poorwill enforces those of S and U mode. Machine mode's have no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permissions(u8);

const MACHINE: u32 = 0b111;
const SUPERVISOR_SHIFT: u32 = 3;
const ENFORCED_ON_MACHINE: u32 = 1 << 6;

impl Permissions {
    /// No access in any mode.
    pub const NONE: Permissions = Permissions(0);

    /// The permissions with these bits.
    ///
    /// # Errors
    ///
    /// [`PermissionFault`].
    pub fn from_bits(bits: u32) -> Result<Self, PermissionFault> {
        if bits & ENFORCED_ON_MACHINE != 0 {
            return Err(PermissionFault::EnforcedOnMachine);
        }
        let known = u8::try_from(bits).map_err(|_| PermissionFault::UnknownBits)?;
        if bits >= ENFORCED_ON_MACHINE {
            return Err(PermissionFault::UnknownBits);
        }
        let permissions = Permissions(known);
        if bits & MACHINE != 0 && bits >> SUPERVISOR_SHIFT == 0 {
            return Err(PermissionFault::MachineOnly);
        }
        if permissions.writes() && !permissions.reads() {
            return Err(PermissionFault::WriteOnly);
        }
        Ok(permissions)
    }

    /// The bits of OpenSBI's binding.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0.into()
    }

    /// Returns whether S and U mode may read.
    #[must_use]
    pub fn reads(self) -> bool {
        self.has(3)
    }

    /// Returns whether S and U mode may write.
    #[must_use]
    pub fn writes(self) -> bool {
        self.has(4)
    }

    /// Returns whether S and U mode may execute.
    #[must_use]
    pub fn executes(self) -> bool {
        self.has(5)
    }

    /// Returns whether S and U mode have an access.
    #[must_use]
    pub fn opens(self) -> bool {
        self.0 >> SUPERVISOR_SHIFT != 0
    }

    /// Returns whether machine mode may read, according to the tree.
    #[must_use]
    pub fn machine_reads(self) -> bool {
        self.has(0)
    }

    /// Returns whether machine mode may write, according to the tree.
    #[must_use]
    pub fn machine_writes(self) -> bool {
        self.has(1)
    }

    /// Returns whether machine mode may execute, according to the tree.
    #[must_use]
    pub fn machine_executes(self) -> bool {
        self.has(2)
    }

    fn has(self, bit: u32) -> bool {
        self.0 >> bit & 1 != 0
    }
}

/// A naturally aligned power of two of addresses, with a domain's permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRegion {
    /// The first address.
    pub base: u64,
    /// log2 of its bytes, 3 to 64.
    pub order: u32,
    /// Whether it holds registers, and no memory.
    pub is_mmio: bool,
    /// The domain's permissions.
    pub permissions: Permissions,
}

impl MemoryRegion {
    /// Returns whether the region contains an address.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        // A shift by 64 leaves nothing to compare.
        let high = |address: u64| address.checked_shr(self.order).unwrap_or(0);
        high(address) == high(self.base)
    }

    /// Its addresses; without the last one if it ends at 2^64.
    #[must_use]
    pub fn range(&self) -> PhysRange {
        let length = 1_u64.checked_shl(self.order).unwrap_or(u64::MAX);
        PhysRange::new(self.base, length)
    }
}

/// Consecutive addresses that a domain may access in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The addresses.
    pub range: PhysRange,
    /// The domain's permissions; S and U mode have at least one.
    pub permissions: Permissions,
    /// Whether they are registers, and no memory.
    pub is_mmio: bool,
}

impl Span {
    pub(super) fn is_continued_by(&self, next: &Span) -> bool {
        self.range.end == next.range.start
            && (self.permissions, self.is_mmio) == (next.permissions, next.is_mmio)
    }
}
