//! Plans the write-back of a machine's caches at a power failure.
//!
//! The device tree describes the means. [`CachePlan`] chooses the cheapest plan, once, before the
//! line is armed. A machine whose caches cannot be written back with certainty is refused with the
//! reason.

use poorwill_memory::PhysRange;
use thiserror::Error;

/// One or more levels of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSize {
    /// Bytes of all levels.
    pub bytes: u64,
    /// Each level replaces its least recently used line. Otherwise the policy is unknown.
    pub is_lru: bool,
}

impl CacheSize {
    /// No cache.
    pub const NONE: CacheSize = CacheSize {
        bytes: 0,
        is_lru: true,
    };
}

/// A machine's means to write its caches back. A size of `None` is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheMeans {
    /// The largest first-level data cache of all harts.
    pub first: Option<CacheSize>,
    /// The largest caches after a hart's first-level one that the coordinator does not share.
    pub further: Option<CacheSize>,
    /// The caches after the coordinator's first-level one.
    pub shared: Option<CacheSize>,
    /// All harts have an instruction that writes their whole first-level cache back.
    pub has_whole: bool,
    /// Block size in bytes, a power of two, of the instruction that writes a block back from every
    /// cache; `None` unless all harts have it.
    pub block: Option<u64>,
    /// The cache controller, through which all memory is accessed, has a register for the address
    /// of a line. It writes that line back from every cache.
    pub has_register: bool,
}

/// The means to write a few bytes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineMeans {
    /// An instruction, for each block of this size in bytes.
    Instruction(u64),
    /// The cache controller's register, for each line.
    Register,
}

/// Bytes that the register writes back (SiFive's composable cache: its blocks have 64).
const REGISTER_LINE_BYTES: u64 = 64;

/// The plan to write a machine's caches back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePlan {
    all: All,
    few: Option<LineMeans>,
    /// Bytes of a hart's own caches, and of those after; `None`: unknown.
    bytes: Option<(u64, u64)>,
}

/// The way to write all caches back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum All {
    /// Each hart empties its own caches. Then the coordinator empties the others.
    Levels {
        /// The instruction empties the first level, and reads empty the others.
        whole: bool,
        /// Number of bytes that each hart reads.
        own: u64,
        /// Number of bytes that the coordinator reads after the other harts.
        shared: u64,
    },
    /// The coordinator writes back each line of all memory.
    Walk(LineMeans),
}

/// Why a machine's caches cannot be written back with certainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CacheError {
    /// The sizes are unknown, and no way works without them.
    #[error("the device tree does not name the caches of all harts")]
    Unknown,
    /// No range of memory is large enough for the reads that empty the caches.
    #[error("no range of memory has the {0} bytes that displace the caches")]
    NoRoom(u64),
}

/// Bytes of reads that empty a cache of unknown policy, as a multiple of its size. If the cache
/// replaces lines at random, each line stays with a probability below 10^-8.
const RANDOM: u64 = 20;

/// The same for a cache that replaces its least recently used line.
const LRU: u64 = 2;

/// Nanoseconds of one operation on the slowest supported machines, to compare the ways and to
/// bound a walk. Each way takes longer for dirty lines.
mod cost {
    pub(super) const READ_LINE: u64 = 10;
    pub(super) const INSTRUCTION: u64 = 20;
    /// An access to a device.
    pub(super) const REGISTER: u64 = 500;
}

/// Distance of the reads in bytes: no cache has narrower lines.
const READ_STEP: u64 = 32;

/// The divisor of the hold-up that gives the time for a walk.
const WALK_SHARE: u64 = 4;

impl CacheMeans {
    /// The cheapest plan for a machine with these ranges of memory and this hold-up.
    ///
    /// # Errors
    ///
    /// [`CacheError`].
    pub fn plan(&self, memory: &[PhysRange], hold_up_us: u32) -> Result<CachePlan, CacheError> {
        let few = (self.block.map(LineMeans::Instruction))
            .or_else(|| self.has_register.then_some(LineMeans::Register));
        let bytes = memory.iter().map(PhysRange::length).sum();
        let limit = u64::from(hold_up_us) * 1000 / WALK_SHARE;
        let walk = few.map(|means| (All::Walk(means), means.cost(bytes)));
        let walk = walk.filter(|(_, cost)| *cost <= limit);
        let largest = memory.iter().map(PhysRange::length).max().unwrap_or(0);
        let all = match (self.levels(largest), walk) {
            (Ok((levels, cost)), Some((_, walk_cost))) if cost <= walk_cost => levels,
            (_, Some((walk, _))) | (Ok((walk, _)), None) => walk,
            (Err(error), None) => return Err(error),
        };
        let own = self.first.zip(self.further);
        let own = own.map(|(first, further)| first.and(further).bytes);
        let bytes = own.zip(self.shared.map(|size| size.bytes));
        Ok(CachePlan { all, few, bytes })
    }

    /// The plan level by level, and its cost in nanoseconds.
    fn levels(&self, largest: u64) -> Result<(All, u64), CacheError> {
        let first = match self.has_whole {
            true => CacheSize::NONE,
            false => self.first.ok_or(CacheError::Unknown)?,
        };
        let further = self.further.ok_or(CacheError::Unknown)?;
        let shared = self.shared.ok_or(CacheError::Unknown)?.displacement();
        let own = first.and(further).displacement();
        let most = own.max(shared);
        if most > largest {
            return Err(CacheError::NoRoom(most));
        }
        let levels = All::Levels {
            whole: self.has_whole,
            own,
            shared,
        };
        // The coordinator's reads come after those of the other harts.
        let reads = own.saturating_mul(2).saturating_add(shared) / READ_STEP;
        Ok((levels, reads.saturating_mul(cost::READ_LINE)))
    }
}

impl CacheSize {
    /// Joins two levels that follow each other.
    const fn and(self, other: CacheSize) -> CacheSize {
        CacheSize {
            bytes: self.bytes.saturating_add(other.bytes),
            is_lru: (self.is_lru || self.bytes == 0) && (other.is_lru || other.bytes == 0),
        }
    }

    /// Number of bytes to read until the cache holds nothing else.
    const fn displacement(&self) -> u64 {
        self.bytes
            .saturating_mul(if self.is_lru { LRU } else { RANDOM })
    }
}

impl LineMeans {
    /// Nanoseconds to read `bytes` bytes.
    const fn cost(self, bytes: u64) -> u64 {
        let (block, each) = match self {
            LineMeans::Instruction(block) => (block, cost::INSTRUCTION),
            LineMeans::Register => (REGISTER_LINE_BYTES, cost::REGISTER),
        };
        (bytes / block).saturating_mul(each)
    }
}

/// The operations of harts on caches.
pub trait CacheOperations {
    /// Writes all of the calling hart's first data cache back.
    fn write_back_whole(&self);

    /// Writes these bytes back from every cache.
    fn write_back(&self, bytes: PhysRange, means: LineMeans);

    /// Reads `bytes` consecutive bytes of memory.
    fn read(&self, bytes: u64);

    /// Waits until all cache operations are complete.
    fn fence(&self);

    /// All memory that must be written back.
    fn memory(&self) -> impl Iterator<Item = PhysRange>;
}

impl CachePlan {
    /// Bytes of all caches of a machine with `harts` harts; `None`: their sizes are unknown.
    #[must_use]
    pub fn bytes(&self, harts: u64) -> Option<u64> {
        let (own, shared) = self.bytes?;
        Some(own.saturating_mul(harts).saturating_add(shared))
    }

    /// How many times all caches are written back for `lines` single lines, which have no means of
    /// their own on some machines.
    #[must_use]
    pub fn passes(&self, lines: u64) -> u64 {
        match self.few {
            Some(_) => 0,
            None => lines,
        }
    }

    /// Writes back the calling hart's own caches, after its last store. [`rest`](Self::rest)
    /// writes back all others.
    pub fn own(&self, machine: &impl CacheOperations) {
        machine.fence();
        if let All::Levels { whole, own, .. } = self.all {
            if whole {
                machine.write_back_whole();
                // The reads displace the lines that the instruction has written to the next level.
                machine.fence();
            }
            machine.read(own);
        }
        machine.fence();
    }

    /// Writes back the remaining caches, including the coordinator's own. All other harts must have
    /// written back [their own](Self::own).
    pub fn rest(&self, machine: &impl CacheOperations) {
        self.own(machine);
        match self.all {
            All::Levels { shared, .. } => machine.read(shared),
            All::Walk(means) => {
                (machine.memory()).for_each(|range| machine.write_back(range, means))
            }
        }
        machine.fence();
    }

    /// Writes back a few bytes that the calling hart has stored.
    pub fn few(&self, machine: &impl CacheOperations, bytes: PhysRange) {
        match self.few {
            Some(means) => {
                machine.fence();
                machine.write_back(bytes, means);
                machine.fence();
            }
            None => self.rest(machine),
        }
    }
}
