//! By what a machine's caches are written back when its power fails.
//!
//! Which means there are is the device tree's to say; which of them is cheapest is decided
//! here, once, before a cut is armed. A machine whose caches nothing writes back for sure is
//! refused by name.

use poorwill_memory::PhysRange;
use thiserror::Error;

/// One or more caches behind each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSize {
    /// Bytes of all.
    pub bytes: u64,
    /// They replace the line that was used least recently. Else nobody knows which.
    pub is_lru: bool,
}

impl CacheSize {
    /// No cache.
    pub const NONE: CacheSize = CacheSize {
        bytes: 0,
        is_lru: true,
    };
}

/// What a machine has to write its caches back with. Where a size is `None`, it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheMeans {
    /// A hart's first data cache, the largest of all harts.
    pub first: Option<CacheSize>,
    /// What is behind it and not behind the coordinator's first one, the largest.
    pub further: Option<CacheSize>,
    /// What is behind the coordinator's first one.
    pub shared: Option<CacheSize>,
    /// All harts have an instruction that writes all of their first cache back.
    pub has_whole: bool,
    /// Bytes of the blocks, a power of two, that an instruction of all harts writes back,
    /// out of every cache.
    pub block: Option<u64>,
    /// A register of the cache controller behind which all memory is takes the address of
    /// a line to write back, out of every cache.
    pub has_register: bool,
}

/// By what a few bytes are written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineMeans {
    /// An instruction, block by block of so many bytes.
    Instruction(u64),
    /// The cache controller's register, line by line.
    Register,
}

/// Bytes of what the register writes back (SiFive's composable cache: its blocks have 64).
const REGISTER_LINE_BYTES: u64 = 64;

/// How a machine's caches are written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePlan {
    all: All,
    few: Option<LineMeans>,
}

/// How all of them are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum All {
    /// Each hart empties those that it has to itself, then the coordinator the others.
    Levels {
        /// By the instruction, as for the first; then by reading.
        whole: bool,
        /// Bytes that each hart reads.
        own: u64,
        /// Bytes that the coordinator reads then.
        shared: u64,
    },
    /// The coordinator names all memory.
    Walk(LineMeans),
}

/// Why a machine's caches cannot be written back for sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CacheError {
    /// Neither are the sizes known, nor is there an operation that does without.
    #[error("the device tree does not name the caches of all harts")]
    Unknown,
    /// They are larger than what can be read through them.
    #[error("no range of memory has the {0} bytes that displace the caches")]
    NoRoom(u64),
}

/// How much more than its bytes is read through a cache whose way to replace lines is not
/// known: with lines chosen at random, one is left in fewer than one of 10^8 tries for each
/// of a cache's lines.
const RANDOM: u64 = 20;

/// The same of one that replaces the line used least recently.
const LRU: u64 = 2;

/// Nanoseconds of one operation, by which ways are compared, and a walk is bounded: on the
/// slowest machines that this is for. What is dirty costs more, whichever way is taken.
mod cost {
    pub(super) const READ_LINE: u64 = 10;
    pub(super) const INSTRUCTION: u64 = 20;
    /// An access to a device.
    pub(super) const REGISTER: u64 = 500;
}

/// Bytes from one read to the next: no cache in use has narrower lines.
const READ_STEP: u64 = 32;

/// Most of the hold-up that a walk may take.
const WALK_SHARE: u64 = 4;

impl CacheMeans {
    /// The cheapest way, on a machine with these ranges of memory, whose power lasts so long.
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
        Ok(CachePlan { all, few })
    }

    /// The way level by level, and what it costs.
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
        // The coordinator's are read behind those of the others.
        let reads = own.saturating_mul(2).saturating_add(shared) / READ_STEP;
        Ok((levels, reads.saturating_mul(cost::READ_LINE)))
    }
}

impl CacheSize {
    /// Both, one behind the other.
    const fn and(self, other: CacheSize) -> CacheSize {
        CacheSize {
            bytes: self.bytes.saturating_add(other.bytes),
            is_lru: (self.is_lru || self.bytes == 0) && (other.is_lru || other.bytes == 0),
        }
    }

    /// Bytes to read for nothing else to be in it.
    const fn displacement(&self) -> u64 {
        self.bytes
            .saturating_mul(if self.is_lru { LRU } else { RANDOM })
    }
}

impl LineMeans {
    /// Nanoseconds for so many bytes.
    const fn cost(self, bytes: u64) -> u64 {
        let (block, each) = match self {
            LineMeans::Instruction(block) => (block, cost::INSTRUCTION),
            LineMeans::Register => (REGISTER_LINE_BYTES, cost::REGISTER),
        };
        (bytes / block).saturating_mul(each)
    }
}

/// What harts do to caches.
pub trait CacheOperations {
    /// Writes all of the calling hart's first data cache back.
    fn write_back_whole(&self);

    /// Writes these bytes back, out of every cache.
    fn write_back(&self, bytes: PhysRange, means: LineMeans);

    /// Reads so many bytes of memory, one after the other.
    fn read(&self, bytes: u64);

    /// Waits until what was asked of caches is done.
    fn fence(&self);

    /// The memory of which all is to be written back.
    fn memory(&self) -> impl Iterator<Item = PhysRange>;
}

impl CachePlan {
    /// Writes back what the calling hart has to itself, once it has stored all that it is to
    /// store. Of all others [`rest`](Self::rest) takes care.
    pub fn own(&self, machine: &impl CacheOperations) {
        machine.fence();
        if let All::Levels { whole, own, .. } = self.all {
            if whole {
                machine.write_back_whole();
                // What follows displaces what it has written there.
                machine.fence();
            }
            machine.read(own);
        }
        machine.fence();
    }

    /// Writes back all that is left once all harts have written back [their own](Self::own):
    /// the coordinator's own, too.
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

    /// Writes these few bytes back, which the calling hart has stored.
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
